"""`budget suggest`: what it prints, and that what it writes is a run file."""

from __future__ import annotations

import json
import tomllib
from fractions import Fraction
from pathlib import Path

import pytest

from das_spark.cli.main import main
from das_spark.config import load_plan

CONF = Path(__file__).parents[2] / "conf"
OURS = str(CONF / "england_and_wales_like.toml")
COUNTS = {"Local_Authority": 4, "MSOA": 12, "LSOA": 48, "Output_Area": 240}
GEOUNITS = [word for level, number in COUNTS.items() for word in ("--geounits", f"{level}={number}")]
TARGETS = ["--target", "total@output_area:sd<=5", "--target", "ethnic_group@local_authority:sd<=20"]


def test_what_is_written_is_laid_over_the_run_file(capsys, tmp_path):
    out = tmp_path / "suggested.toml"
    assert main(["budget", "suggest", OURS, *TARGETS, *GEOUNITS, "--meet", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "total@Output_Area:sd<=5" in said
    assert "strategy main" in said
    plan = load_plan(OURS, overlays=[out], files=False)
    written = tomllib.loads(out.read_text())["budget"]
    assert plan.budget.total == Fraction(written["rho"]) < 2
    assert [str(level.share) for level in plan.budget.levels] == list(written["geolevels"].values())
    assert main(["plan", OURS, "--overlay", str(out), "--set", "input.dataset=people", *GEOUNITS]) == 0
    capsys.readouterr()
    assert main(["budget", "suggest", OURS, *TARGETS, *GEOUNITS, "--out", str(out)]) == 1
    assert "is there already" in capsys.readouterr().err


def test_json_says_the_same(capsys):
    assert main(["budget", "suggest", OURS, *TARGETS, *GEOUNITS, "--keep", "1/2", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert [target["target"] for target in record["targets"]] == [
        "total@Output_Area:sd<=5",
        "ethnic_group@Local_Authority:sd<=20",
    ]
    assert sum(Fraction(share) for share in record["budget"]["geolevels"].values()) == 1
    assert record["budget"]["rho"] == "2"
    needed = record["needed"]
    assert needed["at_least"] <= float(Fraction(needed["suggested"])) < needed["own"] == needed["strategies"]["main"]
    assert {"table", "geolevel", "total", "mean_of_columns"} == set(record["tables"][0])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (TARGETS, "it is not known how many geounits there are in Local_Authority"),
        ([*TARGETS, *GEOUNITS, "--keep", "0.1x"], "--keep"),
        (GEOUNITS, "name one target or more"),
    ],
)
def test_what_is_missing_is_said(capsys, words, said):
    assert main(["budget", "suggest", OURS, *words, "--set", "input.path=nowhere"]) == 2
    assert said in capsys.readouterr().err
