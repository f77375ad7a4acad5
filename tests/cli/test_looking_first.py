"""Commands on what is not there: refused at once, before a JVM is started for nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from das_spark.cli.main import main
from das_spark.store import RunLayout, open_run

GEOGRAPHY = ("--geography", "nowhere", "--reader", "tidy")


@pytest.fixture(autouse=True)
def without_spark(monkeypatch, tmp_path):
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: pytest.fail("Spark is asked for"))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "arguments",
    [
        ("verify", "nowhere"),
        ("tabulate", "nowhere"),
        ("measurements", "nowhere", "--out", "out"),
        ("estimate", "nowhere"),
        ("show", "nowhere"),
        ("evaluate", "nowhere"),
        ("evaluate", "--compare", "nowhere", "nowhere"),
        ("spine", "report", "nowhere", *GEOGRAPHY),
        ("spine", "build", *GEOGRAPHY, "--spine", "optimised", "--product", "pl94_2020_person", "--out", "spine"),
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_what_is_not_there_is_refused_before_spark_is_started(capsys, tmp_path, arguments):
    assert main(arguments) == 1
    said = capsys.readouterr().err
    assert "nowhere" in said
    assert len(said.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_is_not_finished_is_refused_before_spark_is_started(capsys, tmp_path):
    open_run(RunLayout.at(tmp_path, "begun"), "0" * 64)
    assert main(["verify", "begun"]) == 1
    assert "there is no manifest" in capsys.readouterr().err


def test_a_spine_is_not_begun_where_something_lies(capsys):
    Path("blocks.csv").write_text("block\n")
    Path("mine").mkdir()
    Path("mine/thesis.txt").write_text("years of work")
    options = ["--geography", "blocks.csv", "--reader", "tidy", "--spine", "optimised", "--product", "pl94_2020_person"]
    assert main(["spine", "build", *options, "--out", "mine"]) == 1
    assert "there is something already" in capsys.readouterr().err
