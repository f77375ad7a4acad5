"""No stage goes on from a table that was changed, and none publishes a table that the ledger does not cover."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import held_runs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from das_spark.cli.main import main
from das_spark.config import load_plan, stage_names
from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.pipeline import ingest, run_stages
from das_spark.store import find_run, part_files

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.slow]

CONF = Path(__file__).parents[2] / "conf"
LEVELS = ("County", "Tract", "Block")
#: Stage -> tables that it reads, by side, table and geolevel: written down here, and not asked of the program.
MADE = [f"public/{table}/level={level}" for table in ("geounits", "bounds") for level in LEVELS]
READ = {
    "measure County": ["restricted/histograms/level=County"],
    "estimate County": [
        "public/measurements/level=County",
        "public/bounds/level=County",
        "public/geounits/level=County",
    ],
    "measure Tract": ["restricted/histograms/level=Tract", "public/estimates/level=County"],
    "estimate Tract": [
        "public/measurements/level=Tract",
        "public/bounds/level=Tract",
        "public/geounits/level=Tract",
        "public/estimates/level=County",
    ],
    "measure Block": ["restricted/histograms/level=Block", "public/estimates/level=Tract"],
    "estimate Block": ["public/measurements/level=Block", "public/bounds/level=Block", "public/estimates/level=Tract"],
    "microdata": ["public/estimates/level=Block", "public/invariants/level=Block"],
    "verify": [
        *MADE,
        *(
            f"public/{table}/level={level}"
            for table in ("measurements", "estimates", "diagnostics")
            for level in LEVELS
        ),
        "public/microdata/person.parquet",
    ],
}


@pytest.fixture
def plan(monkeypatch, tmp_path):
    held_runs.registered(monkeypatch)
    held_runs.write_census(tmp_path / "census")
    text = held_runs.RUN_FILE.format(
        product=held_runs.COARSE, census=tmp_path / "census", root=tmp_path / "runs", published=""
    )
    run_file = tmp_path / "run.toml"
    run_file.write_text(text.replace("[budget]", 'microdata = ["parquet"]\n[budget]').replace("[]\n", "\n"))
    return load_plan(run_file)


def flipped(file: Path) -> bytes:
    """Flip one bit of a file in place, and return its content before."""
    before = file.read_bytes()
    middle = len(before) // 2
    file.write_bytes(before[:middle] + bytes([before[middle] ^ 1]) + before[middle + 1 :])
    return before


def test_one_bit_of_any_table_that_a_stage_reads_is_noticed_before_it_is_read(plan, tmp_path, spark, tools):
    folder = tmp_path / "runs" / "r"

    def go(until):
        return run_stages(plan, run_id="r", test_key=tools.TEST_KEY, spark=spark, until=until)

    names = [name for name in stage_names(plan) if name != "evaluate"]
    assert set(READ) <= set(names)
    tried = 0
    for name in names:
        for table in READ.get(name, ()):
            (file, *_) = part_files(folder / table)
            before = flipped(file)
            with pytest.raises(
                (PrivacyGuardError, OutputError), match=rf"{table}: .*since the run committed it"
            ) as caught:
                go(name)
            assert caught.value.hint.startswith("restore the folder from a copy")
            file.write_bytes(before)
            tried += 1
        go(name)
    assert tried == sum(map(len, READ.values()))
    # A finished run is not finished any more.
    (file, *_) = part_files(folder / "public/measurements/level=Tract")
    before = flipped(file)
    with pytest.raises(PrivacyGuardError, match="measurements"):
        go(None)
    file.write_bytes(before)
    assert go(None).layout.public.verification.is_file()


def test_measurements_that_were_added_to_are_refused(plan, tmp_path, spark, tools):
    """As found: 5,000 added to the values of a level, and the run went on to 62 passed checks."""

    def go(until=None):
        return run_stages(plan, run_id="r", test_key=tools.TEST_KEY, spark=spark, until=until)

    go("measure Tract")
    for file in part_files(tmp_path / "runs" / "r" / "public" / "measurements" / "level=Tract"):
        rows = pq.ParquetFile(file).read()
        values = pa.array([[value + 5000 for value in row] for row in rows["values"].to_pylist()], rows["values"].type)
        pq.write_table(
            rows.set_column(rows.schema.get_field_index("values"), rows.schema.field("values"), values), file
        )
    with pytest.raises(PrivacyGuardError, match="measurements"):
        go()


def ledger_lines(root):
    files = list((root / "ledgers").glob("*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


#: Tables that are public before anything is measured.
EARLY = {"spine", "shares", "geounits", "invariants", "bounds"}


def judged(root: Path, run: str) -> set[str]:
    """Tables of a run that are public, each of which an entry of the ledger covers; nothing is left half made."""
    public = root / run / "public"
    assert not list(public.glob(".staging*"))
    tables = {file.relative_to(public).parts[0] for file in public.rglob("part-*")}
    states = [line["state"] for line in ledger_lines(root) if line.get("run_id", "").startswith(f"{run}#")]
    assert not tables or states, f"{tables} without an entry"
    assert tables <= EARLY or "charged" in states
    return tables


def test_after_every_stage_what_is_public_is_covered_by_the_ledger(plan, tmp_path, spark, tools):
    for name in stage_names(plan):
        run_stages(plan, run_id="r", test_key=tools.TEST_KEY, spark=spark, until=name)
        tables = judged(tmp_path / "runs", "r")
    assert tables >= {"geounits", "measurements", "estimates", "microdata"}


def test_a_spine_is_entered_before_it_is_public_under_a_real_key(tmp_path, spark):
    made = ["simulate", "--like", "2020-state", "--share", "1/20000", "--layout", "cef"]
    assert main([*made, "--out", str(tmp_path / "population")]) == 0
    settings = [
        f"input.path={tmp_path / 'population'}",
        f"output.root={tmp_path / 'runs'}",
        "budget.strategy=state",
        "geography.spine=optimised",
        "evaluation.enabled=false",
    ]
    plan = load_plan(CONF / "pl94_2020_simulated.toml", settings=settings)
    for until in ("spine", "ingest"):
        run_stages(plan, run_id="r", spark=spark, until=until)
        assert judged(tmp_path / "runs", "r") >= {"spine", "shares"}


def test_the_gate_refuses_a_public_table_of_a_run_that_is_not_entered(plan, tmp_path, spark, tools, monkeypatch):
    monkeypatch.setattr(ingest, "enter_invariants", lambda ledger: None)
    with pytest.raises(PrivacyGuardError, match="table geounits would be public, and run r is not in the ledger"):
        run_stages(plan, run_id="r", test_key=tools.TEST_KEY, spark=spark, until="ingest")
    assert not list(find_run(tmp_path / "runs" / "r").public.path.rglob("part-*"))
    shutil.rmtree(tmp_path / "runs")
