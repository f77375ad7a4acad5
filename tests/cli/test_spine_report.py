"""`spine report`: what is printed, and what is refused before a spine is read."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest

from das_spark.cli.main import main
from das_spark.evaluation import SpineLevelRow, SpineReport, share_path
from das_spark.geography import EntityComparison

pytestmark = pytest.mark.slow


def made_report() -> SpineReport:
    half = Fraction(1, 2)
    before = (SpineLevelRow("County", half, 1, 4, 4), SpineLevelRow("Block", half, 4, 0, 0))
    after = (SpineLevelRow("County", half, 2, 4, 3, 1, 0), SpineLevelRow("Block", half, 4, 0, 0, 0, 1))
    paths = (share_path(["1/2", "1/2"], 3), share_path(["1", "0"], 1))
    near, known = np.array([5, 3]), np.array([4.0, 16.0])
    places = EntityComparison("place", np.array(["a", "b"]), near, near, near - 1, known, known / 4)
    return SpineReport("optimised", "zcdp", Fraction(1, 3), before, after, paths, (places,), ("a note",))


@pytest.fixture
def requests(monkeypatch):
    """The commands' requests; the report is made up, and no JVM starts."""
    found = []
    monkeypatch.setattr("das_spark.spark.session.session", lambda name: name)
    monkeypatch.setattr("das_spark.pipeline.spine_report.ReportRequest.look", lambda _: None)
    monkeypatch.setattr(
        "das_spark.pipeline.spine_report.report_spine", lambda _, request: found.append(request) or made_report()
    )
    return found


def command(*more):
    return ["spine", "report", "folder", "--geography", "files", "--reader", "tidy", *more]


def test_the_tables_are_printed(requests, capsys):
    assert main(command("--budget", "1/3", "--category", "place", "--category", "place")) == 0
    shown = capsys.readouterr().out
    for words in ("Where the budget went", "0.6250", "rho = 1/3", "100.0%", "note: a note", "mean fan-out"):
        assert words in shown
    assert (requests[0].budget, requests[0].categories) == (Fraction(1, 3), ("place",))


def test_json_is_the_report_and_nothing_else(requests, capsys, tmp_path):
    assert main(command("--json", "--out", str(tmp_path / "out"))) == 0
    text = capsys.readouterr().out
    assert json.loads(text)["kind"] == "optimised"
    assert (tmp_path / "out" / "spine_report.json").read_text(encoding="utf-8") == text
    assert (tmp_path / "out" / "spine_report.html").is_file()
    assert "place" in requests[0].categories


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budget", "much"], "--budget: 'much' is not a number"),
        (["--budget", "-1"], "must be above 0"),
        (["--category", "parish"], "no category of entities is called 'parish'"),
    ],
)
def test_wrong_options_are_refused(requests, capsys, options, message):
    assert main(command(*options)) != 0
    assert message in capsys.readouterr().err
    assert not requests
