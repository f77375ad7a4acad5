"""The examples of products in files: synthetic people, a run, and tables that say what the microdata say."""

from __future__ import annotations

import json
import re
from fractions import Fraction

import pyarrow.parquet as pq
import pytest

from das_spark.config import load_plan
from das_spark.config.load import FOLDER
from das_spark.io.population_files import simulate
from das_spark.pipeline import run_stages

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow, pytest.mark.verified]

#: Run file -> a column of a table, and which lines of the text file it counts.
EXAMPLES = {
    "england_and_wales_like": ("TS007", "Local_Authority", "TS0070003", lambda fields: fields[2] == "00"),
    "own_codes_like": ("T1", "Department", "T0010003", lambda fields: fields[2] == "2"),
    "hospital_stays_like": ("S1", "Region", "S0010003", lambda fields: fields[3] in "34"),
    "establishments_like": ("E1", "NUTS1", "E0010002", lambda fields: fields[2] in "01"),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_simulated_protected_and_published(name, tmp_path, spark, tools):
    table, level, column, counts = EXAMPLES[name]
    summary = simulate(tmp_path / "input", str(FOLDER / "products" / f"{name}.toml"), Fraction(1, 10))
    settings = [f"input.path={tmp_path / 'input'}", f"output.root={tmp_path / 'runs'}", 'output.microdata=["text"]']
    if name == "own_codes_like":
        settings.append(f"geography.parents={tmp_path / 'input' / 'parents.parquet'}")
    plan = load_plan(FOLDER / f"{name}.toml", settings=settings)
    public = run_stages(plan, run_id="example", test_key=tools.TEST_KEY, spark=spark).layout.public
    assert json.loads(public.verification.read_text())["passed"]
    lines = [
        line for file in public.microdata(plan.product.kind, "text").glob("part-*") for line in file.read_text().split()
    ]
    rows = tools.rows_of(public.tables.level(table, "parquet", level))
    assert sum(row[column] for row in rows) == sum(counts(line.split("|")) for line in lines)
    if plan.invariants.total_at is None:
        assert len(lines) == pytest.approx(summary.persons, rel=0.1)
        assert len(lines) != summary.persons
    else:
        assert len(lines) == summary.persons
    if plan.product.noun != "person":
        said = public.privacy_statement.read_text() + json.dumps(json.loads(public.manifest.read_text())["ledger"])
        dictionary = json.dumps(json.loads(public.manifest.read_text())["data_dictionary"])
        several = plan.product.records.at_most > 1
        assert (
            "All records of one patient, of which" if several else f"One record of one {plan.product.noun}."
        ) in said
        assert f"a protected {plan.product.kind} record" in dictionary
        assert not re.findall(r"(?i)\b(?:person|people)\b", said + dictionary)
        assert (public.microdata_files / f"{plan.product.kind}.text").is_dir()
    if plan.product.records.contributor:
        assert plan.product.records.contributor in pq.read_schema(tmp_path / "input" / "persons.parquet").names
        files = [file for file in (tmp_path / "runs").rglob("*") if file.is_file()]
        assert any(file.suffix == ".parquet" for file in files)
        for file in files:
            told = str(pq.read_table(file).to_pydict()) if file.suffix == ".parquet" else file.read_bytes().decode()
            assert not re.search(r"C[0-9]{8}", told), file
