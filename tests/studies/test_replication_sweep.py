"""What a sweep has found, read from its folder and set beside the published study; no run is needed for that."""

import json
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from das_spark.cli.main import main
from das_spark.errors import InputError, OutputError
from das_spark.evaluation import AccuracyReport, Entry, frequencies_of
from das_spark.store import RunLayout, RunState, SweepLayout, SweepRecord
from das_spark.studies.published_1940 import protected
from das_spark.studies.replication import Verdict, replicate


def made_sweep(folder, states=("finished",) * 4, product="e2e_1940"):
    """Two budgets, two runs each, whose residuals are their own number."""
    names = [f"run-{at}" for at in range(4)]
    config = {"output": {"root": str(folder / "runs")}}
    record = SweepRecord(
        product,
        "epsilon",
        ("1", "2"),
        2,
        "6",
        "system",
        "2026-05-01T12:00:00+00:00",
        "input",
        config,
        dict(zip(names, map(RunState, states), strict=True)),
    )
    layout = SweepLayout(folder / "sweep")
    layout.open()
    layout.write(layout.record, record.to_json())
    for at, name in enumerate(names):
        restricted = RunLayout.at(folder / "runs", name).restricted
        restricted.path.mkdir(parents=True)
        entries = (Entry("County", "total", frequencies_of(np.array([0, at, 10 * at]))),)
        restricted.accuracy_json.write_text(AccuracyReport("e2e_1940", (name,), entries).to_json())
    return layout.path


def medians(found):
    return {
        comparison.key.setting: comparison.ours.value
        for comparison in found.comparisons
        if comparison.ours and comparison.key == protected(comparison.key.setting, "County", "total", "median_absolute")
    }


def test_runs_of_a_budget_are_pooled_and_set_beside_the_published_figures(tmp_path):
    found = replicate(made_sweep(tmp_path))
    assert medians(found) == {1: 0, 2: 2.5}  # of 0, 0, 0, 0, 1, 10, and of 0, 0, 2, 3, 20, 30
    assert {len(reports) for reports in found.runs.values()} == {2}


def test_a_budget_with_a_run_that_is_not_finished_is_left_out(tmp_path):
    found = replicate(made_sweep(tmp_path, ("finished", "finished", "finished", "begun")))
    assert set(found.runs) == {Fraction(1)}
    assert {comparison.verdict for comparison in found.comparisons if comparison.key.setting == 2} == {Verdict.MISSING}


def test_what_is_no_sweep_of_1940_or_not_far_enough_is_refused(tmp_path):
    with pytest.raises(InputError, match="no budget of it is finished"):
        replicate(made_sweep(tmp_path / "a", ("finished", "begun", "waiting", "waiting")))
    with pytest.raises(InputError, match="a sweep of pl94_2020_person"):
        replicate(made_sweep(tmp_path / "b", product="pl94_2020_person"))
    varied = SweepLayout(made_sweep(tmp_path / "c"))
    record = replace(SweepRecord.load(varied.record), variants={"rounding nearest": ["estimation.rounding=nearest"]})
    varied.write(varied.record, record.to_json())
    with pytest.raises(InputError, match="several settings, rounding nearest"):
        replicate(varied.path)
    with pytest.raises(OutputError, match="not readable as the record of a sweep"):
        replicate(tmp_path)


def test_the_command_prints_what_came_of_each_class_and_writes_every_row(tmp_path, capsys):
    sweep, out = made_sweep(tmp_path), tmp_path / "out"
    assert main(["experiment", "replication", str(sweep), "--out", str(out)]) == 0
    assert "within tolerance" in capsys.readouterr().out
    assert {path.name for path in out.iterdir()} == {
        "replication.json", "replication.html", "replication_verdicts.csv", "replication_figures.csv"
    }  # fmt: skip
    assert {path.stat().st_mode & 0o777 for path in out.iterdir()} == {0o600}
    rows = json.loads((out / "replication.json").read_text())["figures"]
    assert sum(row["verdict"] != "not measured" for row in rows) > 0
