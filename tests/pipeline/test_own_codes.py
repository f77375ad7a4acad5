"""A run on geounits whose codes do not nest: what it publishes is by the codes of the office, uneven ones too."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark import open_run
from das_spark.config import load_plan
from das_spark.config.load import FOLDER
from das_spark.errors import InputError
from das_spark.pipeline import run_stages

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]

PARENTS = [
    ("R1", "D-1"),
    ("R1", "D2"),
    ("R22", "D-30"),
    ("D-1", "C1"),
    ("D-1", "C22"),
    ("D2", "x.3"),
    ("D-30", "C4"),
    ("D-30", "C5"),
]
COMMUNES = ("C1", "C22", "x.3", "C4", "C5")


@pytest.fixture
def plan(tmp_path):
    """A run on a few people; `communes` are those that the input names."""

    def make(communes=COMMUNES, *settings):
        folder = tmp_path / "input"
        folder.mkdir(exist_ok=True)
        lines = [f"{parent},{child}" for parent, child in PARENTS]
        (folder / "parents.csv").write_text("\n".join(["parent,child", *lines]) + "\n")
        rows = [
            (code, age, sex, 20 + 3 * at + age)
            for at, code in enumerate(communes)
            for age in range(3)
            for sex in (0, 1)
        ]
        columns = zip(("geocode", "age", "sex", "count"), zip(*rows, strict=True), strict=True)
        pq.write_table(pa.table({name: list(values) for name, values in columns}), folder / "persons.parquet")
        pq.write_table(pa.table({"geocode": list(communes), "units_0": [0] * len(communes)}), folder / "units.parquet")
        named = [
            f"input.path={folder}",
            f"geography.parents={folder / 'parents.csv'}",
            f"output.root={tmp_path / 'runs'}",
        ]
        return load_plan(
            FOLDER / "own_codes_like.toml", settings=[*named, 'output.microdata=["text","parquet"]', *settings]
        )

    return make


def test_tables_microdata_and_rows_of_a_run_are_by_the_codes_of_the_office(plan, spark, tools, tmp_path):
    run_stages(plan(), run_id="own", test_key=tools.TEST_KEY, spark=spark)
    run = open_run(tmp_path / "runs" / "own")
    assert run.manifest.config["geography"]["parents"] == "parents.csv"
    by_level = {"Region": {"R1", "R22"}, "Department": {"D-1", "D2", "D-30"}, "Commune": set(COMMUNES)}
    of_commune = {child: parent for parent, child in PARENTS}
    for level, codes in by_level.items():
        assert set(run.table("T1", level).pandas()["geocode"]) == codes
        assert set(run.beside("intervals", "T1", level).pandas()["geocode"]) == codes
        assert set(run.estimates(level).pandas()["geocode"]) == codes
        assert set(run.measurements(level, "total").pandas()["geocode"]) == codes
        assert {row["geocode"] for row in run.estimates(level).spark(spark).collect()} == codes
    people = run.microdata().pandas()
    assert set(zip(people["COM"], people["DEP"], strict=True)) == {(code, of_commune[code]) for code in COMMUNES}
    lines = [
        line
        for file in (run.folder / "public/microdata/person.text").glob("part-*")
        for line in file.read_text().split()
    ]
    assert Counter(tuple(line.split("|")[:2]) for line in lines) == Counter(
        zip(people["DEP"], people["COM"], strict=True)
    )
    totals = run.table("T1", "Commune").pandas().set_index("geocode")["T0010001"].to_dict()
    assert totals == dict(Counter(people["COM"]))
    regions = run.table("T1", "Region").pandas().set_index("geocode")["T0010001"].to_dict()
    exact = {code: sum(2 * (20 + 3 * at + age) for age in range(3)) for at, code in enumerate(COMMUNES)}
    assert regions == {"R1": exact["C1"] + exact["C22"] + exact["x.3"], "R22": exact["C4"] + exact["C5"]}
    text = (run.folder / "public/privacy_statement.md").read_text()
    assert "Which geounit lies in which: table parents.csv." in text


def test_a_code_that_the_table_does_not_know_is_refused_by_name(plan, spark, tools):
    with pytest.raises(InputError, match=r"expected codes that are in .*parents.csv; not so in some rows"):
        run_stages(plan((*COMMUNES, "C9")), run_id="own", test_key=tools.TEST_KEY, spark=spark)
