"""`sweep` as far as it goes without Spark: what is asked for, what is refused, what is printed."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import das_spark.pipeline
from das_spark.cli.main import main
from das_spark.config import SweepPlan
from das_spark.evaluation import AccuracyReport, Entry, SampleReport, SweepReport, frequencies_of, sweep_report
from das_spark.evaluation.samples import SampleEntry
from das_spark.pipeline import SweepSummary

QUICKSTART = str(Path(__file__).parents[2] / "conf" / "quickstart.toml")


@pytest.fixture
def asked(monkeypatch) -> list[tuple[SweepPlan, Path, dict[str, Any]]]:
    """What the command asks of the pipeline, which answers with a report made up."""
    calls = []

    def run_sweep(plan: SweepPlan, folder: Path, **more: Any) -> SweepSummary:
        calls.append((plan, folder, more))
        return SweepSummary((), made_report(), {"page (restricted)": folder / "sweep.html"}, insecure=False)

    monkeypatch.setattr(das_spark.pipeline, "run_sweep", run_sweep)
    return calls


def made_report() -> SweepReport:
    wide = frequencies_of(np.random.default_rng(1).normal(0, 20, 400).round().astype(np.int64))
    exact = frequencies_of(np.zeros(3, dtype=np.int64))
    entries = (Entry("State", "total", exact), Entry("County", "total", wide))
    sample = SampleEntry(Fraction(1, 20), 0, "County", "total", wide)
    runs = {Fraction(1, 4): [AccuracyReport("e2e_2018", ("a",), entries)]}
    return sweep_report(runs, SampleReport((Fraction(1, 20),), (0,), (sample,)), "epsilon")


def test_the_command_asks_for_the_grid(asked, tmp_path):
    options = ["--epsilon", "0.25, 1/3", "--runs", "3", "--samples", "0.1,1/2", "--test-key", "k"]
    assert main(["sweep", QUICKSTART, *options, "--set", "run.name=other", "--out", str(tmp_path)]) == 0
    ((plan, folder, more),) = asked
    assert (plan.totals, plan.runs) == ((Fraction(1, 4), Fraction(1, 3)), 3)
    assert plan.shares == (Fraction(1, 10), Fraction(1, 2))
    assert plan.base.name == "other"
    assert (folder, more["test_key"]) == (tmp_path, "k")


def test_the_command_asks_for_settings_that_vary(asked, tmp_path):
    vary = ["--vary", "estimation.rounding=nearest,released", "--vary", "measurement.rows=all,support"]
    assert main(["sweep", QUICKSTART, *vary, "--runs", "1", "--out", str(tmp_path)]) == 0
    ((plan, _, _),) = asked
    assert (plan.totals, len(plan.plans)) == ((Fraction(2),), 4), "the total of the run file"
    assert list(plan.varied)[1] == "rounding nearest, rows support"


@pytest.mark.parametrize(("option", "number"), [([], 19), (["--samples", "none"], 0)])
def test_samples_are_those_of_the_study_or_none(asked, tmp_path, option, number):
    assert main(["sweep", QUICKSTART, "--epsilon", "1", "--out", str(tmp_path), *option]) == 0
    ((plan, _, _),) = asked
    assert len(plan.shares) == number
    assert plan.runs == 4


@pytest.mark.usefixtures("asked")
def test_every_budget_and_its_closest_sample_are_printed_as_restricted(capsys, tmp_path):
    assert main(["sweep", QUICKSTART, "--epsilon", "1/4", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "restricted" in printed
    (exact,) = [line.split() for line in printed.splitlines() if line.startswith("State")]
    assert exact == ["State", "total", "1/4", "3", "0", "0", "0", "-", "-", "-", "-"]
    (line,) = [line for line in printed.splitlines() if line.startswith("County")]
    assert line.split()[-6:] == ["5", "%"] * 3
    assert "privacy loss -: all residuals are equal" in printed
    assert str(tmp_path / "sweep.html") in "".join(printed.split("\n"))


def test_a_wrong_grid_is_refused_with_all_that_is_wrong(asked, capsys, tmp_path):
    wrong = ["--epsilon", "0.25,x,", "--samples", "1.5", "--set", "budget.epsilon=1"]
    assert main(["sweep", QUICKSTART, *wrong, "--out", str(tmp_path / "sweep")]) == 2
    said = capsys.readouterr().err
    assert "4 problems" in said
    assert all(part in said for part in ("'x' is not a number", "'' is not a number", "1.5 is not", "budget.epsilon"))
    assert asked == []
    assert not (tmp_path / "sweep").exists()


def test_a_sweep_needs_a_folder_and_budgets(asked, capsys, tmp_path):
    assert main(["sweep", QUICKSTART, "--epsilon", "1"]) == 2
    assert "--out" in capsys.readouterr().err
    assert main(["sweep", QUICKSTART, "--out", str(tmp_path)]) == 2
    assert "one of --epsilon and --rho" in capsys.readouterr().err
    assert asked == []
