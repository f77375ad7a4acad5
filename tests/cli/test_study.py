"""The tables of a study: every figure with its interval and its unit, and no NaN."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from das_spark.cli.accuracy import print_accuracy, print_spread
from das_spark.cli.render import console, number
from das_spark.cli.study import print_study
from das_spark.evaluation import spread

sys.path.insert(0, str(Path(__file__).parents[1] / "evaluation"))

from made_study import made_run, made_study


def rows(printed: str, *beginning: str) -> list[list[str]]:
    lines = [line.split() for line in printed.splitlines()]
    return [line for line in lines if line[: len(beginning)] == list(beginning)]


def test_errors_are_printed_with_their_intervals(capsys):
    study = made_study()
    print_study(study, console())
    printed = capsys.readouterr().out
    assert "Errors with their uncertainty, in people" in printed
    for name in ("median_absolute", "p95_absolute", "rmse", "bias"):
        (one,) = [each for each in study.statistics if (each.measure, each.name) == ("total", name)]
        ((*_, n, value, low, _, high, mean, runs_low, _, runs_high),) = rows(printed, "County", "total", name)
        assert (n, value, low, high) == ("100", *map(number, (one.value, one.interval.low, one.interval.high)))
        assert mean == number(one.mean_of_runs)
        assert (runs_low, runs_high) == (f"({number(one.over_runs.low)}", f"{number(one.over_runs.high)})")


def test_biases_by_index_are_printed_with_intervals_and_their_unit(capsys):
    print_study(made_study(1), console())
    printed = capsys.readouterr().out
    assert "Bias of totals by homogeneity index, in people" in printed
    one, many = rows(printed, "County", "empty", "strata")
    assert one[-2:] == ["-", "-"]  # one geounit in one run
    assert many[-3] == "to" or many[-4] == "to"


def test_nothing_is_printed_as_nan(capsys):
    runs = [made_run(1), made_run(2)]
    print_accuracy(made_study().report, console())
    print_spread(runs[0], spread(runs), 2, console())
    printed = capsys.readouterr().out
    assert "District" in printed
    assert "nan" not in printed


@pytest.mark.parametrize(("value", "shown"), [(None, "-"), (float("nan"), "-"), (0.0, "0"), (12345.6, "12,346")])
def test_a_number_that_is_none_is_a_dash(value, shown):
    assert number(value) == shown
