"""Families that no solver is proved to solve: the run stops, keeps its measurements, and publishes when told to."""

from __future__ import annotations

import json

import pytest
from pyarrow import parquet
from run_files import census_files, run_file
from small_census import made_of

from das_spark.cli.main import main
from das_spark.pipeline import rehearsal
from das_spark.store import Journal, RunLayout

pytestmark = [pytest.mark.whole_run, pytest.mark.slow, pytest.mark.spark, pytest.mark.verified]

#: No solver reaches this gap.
UNPROVABLE = "estimation.gap_tolerance=1e-300"
ACCEPTED = "estimation.accept_uncertified=true"
LEVELS = """
[geography]
levels = ["State", "Enumdist"]
[budget.geolevels]
State = "1/2"
Enumdist = "1/2"
"""


def test_a_stopped_run_goes_on_with_the_setting_and_without_a_new_draw(spark, monkeypatch, tmp_path, capsys):
    # What is tried before anything is drawn finds this out, too.
    monkeypatch.setattr(rehearsal, "_require_estimated", lambda *_: None)
    census = made_of({"010001": [{0: (60, 200)}, {0: (40, 90)}]}, {"State": 2, "County": 6, "Enumdist": 10})
    path = run_file(tmp_path, census_files(tmp_path, census), epsilon=9, more=LEVELS)
    command = ["run", str(path), "--run-id", "hard", "--test-key", "k", "--set", UNPROVABLE]
    assert main(command) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "uncertified: no solver's solution was proved optimal" in said
    assert "estimation.accept_uncertified = true" in said
    layout = RunLayout.at(tmp_path / "runs", "hard")
    measured = {path.name: path.read_bytes() for path in layout.public.level("measurements", "State").iterdir()}
    assert measured

    assert main([*command, "--set", ACCEPTED]) == 0
    assert measured == {path.name: path.read_bytes() for path in layout.public.level("measurements", "State").iterdir()}
    assert {level: len(Journal.of(layout).attempts(level)) for level in ("State", "Enumdist")} == {
        "State": 1,
        "Enumdist": 1,
    }
    manifest = json.loads(layout.public.manifest.read_text())
    assert manifest["uncertified"]
    assert manifest["config"]["estimation"]["accept_uncertified"] is True
    assert any("proved to be the best" in notice for notice in manifest["notices"])
    report = json.loads(layout.public.verification.read_text())
    assert report["passed"]
    assert report["uncertified"] == manifest["uncertified"]
    rows = [
        row | {"level": level}
        for level in ("State", "Enumdist")
        for part in layout.public.level("diagnostics", level).glob("*.parquet")
        for row in parquet.ParquetFile(part).read().to_pylist()
    ]
    accepted = [row for row in rows if row["status"] == "accepted"]
    assert sorted(f"{row['level']}/{row['family']}" for row in accepted) == manifest["uncertified"]
    assert all(abs(row["gap"]) > 0 for row in accepted)
