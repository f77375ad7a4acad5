"""`experiment occupancy`: what is printed and written, and what is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from das_spark.cli.main import main
from das_spark.studies.occupancy import OccupancyReport, level_occupancy
from das_spark.studies.occupancy_report import RunOccupancy

SMALL = ["experiment", "occupancy", "--states", "1", "--counties", "8", "--follow-up-to", "700", "--seed", "3"]


@pytest.fixture
def of_run(monkeypatch):
    """The runs that were asked for; what is said of them is made up, and no JVM starts."""
    found = []
    counts = np.arange(1, 11)
    report = OccupancyReport("made up", "a run", (level_occupancy("Block", counts, counts - 1, counts),))
    monkeypatch.setattr(
        "das_spark.studies.run_occupancy.occupancy_of_run",
        lambda *asked: found.append(asked) or RunOccupancy("pl94_2020_unit", "made up", report),
    )
    return found


def test_the_study_is_printed_and_written(capsys, tmp_path):
    assert main([*SMALL, "--out", str(tmp_path / "out")]) == 0
    shown = capsys.readouterr()
    for words in ("Published phenomena", "VR8", "26 of 26 agree", "share filled", "41.67", "occupancy.html"):
        assert words in shown.out
    assert "releasing: as published" in shown.err
    files = {path.name for path in (tmp_path / "out").iterdir()}
    tables = ("findings", "occupancy", "differences", "people", "allocation", "counties")
    assert files == {"occupancy.json", "occupancy.html", *(f"occupancy_{name}.csv" for name in tables)}


def test_json_goes_to_standard_output_alone(capsys):
    assert main([*SMALL, "--json"]) == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["settings"]["counties"] == 8


def test_a_run_is_looked_at_instead_and_its_files_are_for_their_owner(of_run, capsys, tmp_path):
    out = tmp_path / "out"
    assert main(["experiment", "occupancy", "--run", "runs/a", "--truth", "runs/b", "--out", str(out)]) == 0
    assert [tuple(map(str, asked)) for asked in of_run] == [("runs/a", "runs/b", "None")]
    assert "restricted: not protected by noise" in capsys.readouterr().out
    assert out.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}


@pytest.mark.parametrize(
    ("options", "code", "message"),
    [
        (["--truth", "runs/b"], 2, "--truth goes with --run"),
        (["--persons", "runs/c"], 2, "--persons goes with --run"),
        (["--states", "0"], 2, "at least one of states"),
        (["--run", "nowhere"], 1, "nowhere"),
    ],
)
def test_what_makes_no_sense_is_refused(options, code, message, capsys):
    assert main(["experiment", "occupancy", *options]) == code
    assert message in capsys.readouterr().err
