"""`experiment`: tables, files, JSON, and options that are refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from das_spark.cli.main import main

FLAXMAN = ["experiment", "flaxman", "--persons", "20000", "--levels", "2", "--epsilon", "1/40", "--epsilon", "0.1"]
APPENDIX = ["experiment", "epl-appendix", "--epsilon", "0.25", "--replicates", "2"]


def test_flaxman_prints_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FLAXMAN, "--replicates", "50", "--law", "exact"]) == 0
    shown = capsys.readouterr().out
    for words in ("Empirical privacy loss of 196 areas", "RDPC", "0.025", "50 releases each of D and D'", "at least"):
        assert words in shown
    assert "Log ratios of the direct estimate" not in shown
    assert "written" not in shown


def test_flaxman_writes_json_tables_and_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "new" / "folder"
    assert main([*FLAXMAN, "--replicates", "5", "--json", "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert (out / "flaxman.json").read_text(encoding="utf-8") == text
    content = json.loads(text)
    assert content["settings"]["epsilons"] == [0.025, 0.1]
    lines = (out / "flaxman_direct_points.csv").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + 3 * 88
    assert {path.name for path in out.iterdir()} == {
        "flaxman.json",
        "flaxman.html",
        "flaxman_losses.csv",
        "flaxman_direct.csv",
        "flaxman_direct_points.csv",
    }


def test_without_replicates_there_is_no_direct_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*FLAXMAN, "--replicates", "0"]) == 0
    assert "Direct estimate" not in capsys.readouterr().out


def test_the_appendix_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*APPENDIX, "--out", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    for words in ("Three examples", "Table SA1", "63,912 strata", "Sensitivity", "written to"):
        assert words in shown
    assert len(list(tmp_path.glob("epl_appendix*"))) == 5
    rows = (tmp_path / "epl_appendix_examples.csv").read_text(encoding="utf-8").splitlines()
    assert len(rows) == 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["flaxman", "--epsilon", "much"], "--epsilon: 'much' is not a number"),
        (["flaxman", "--epsilon", "-1"], "epsilon: expected numbers above 0"),
        (["flaxman", "--law", "laplace"], "there is none called 'laplace'"),
        (["flaxman", "--persons", "100"], "take 800 people or more"),
        (["flaxman", "--levels", "0"], "levels: expected 1 or more"),
        (["flaxman", "--replicates", "-1"], "replicates: expected 0 or more"),
        (["epl-appendix", "--replicates", "0"], "replicates: expected 1 or more"),
        (["epl-appendix", "--epsilon", "2"], "success probability below 1"),
    ],
)
def test_wrong_options_are_refused(options: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["experiment", *options]) == 2
    assert message in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("taken", encoding="utf-8")
    assert main([*FLAXMAN, "--replicates", "0", "--out", str(tmp_path / "file")]) == 1
    assert "cannot be written" in capsys.readouterr().err
