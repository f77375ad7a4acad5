"""The report as data: it survives the file, pools exactly and tells the spread over runs.

- The spread of figures over runs.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from made_study import made_run

from das_spark.errors import InputError
from das_spark.evaluation import AccuracyReport, Entry, frequencies_of, pool, report_from_json, spread


def report(run: str, shift: int = 0) -> AccuracyReport:
    total = Entry("County", "total", frequencies_of(np.array([-2, 0, 3]) + shift, 1))
    strata = Entry("County", "race", frequencies_of(np.array([1, 1, -4]) + shift, 7))
    return AccuracyReport("e2e_1940", (run,), (total, strata), ("a note",))


def test_a_report_survives_the_file():
    text = report("a").to_json()
    assert report_from_json(text).to_json() == text
    content = json.loads(text)
    assert content["classification"].startswith("RESTRICTED")
    assert content["entries"][1]["figures"]["double_zero"] == 7
    assert {"residual", "total", "median_absolute", "p95_absolute"} <= set(content["definitions"])


def test_a_line_without_residuals_survives_the_file():
    empty = AccuracyReport("x", ("a",), (Entry("County", "race", frequencies_of(np.zeros(0), 5)),))
    again = report_from_json(empty.to_json())
    assert again.entries[0].figures.n == 0
    assert again.entries[0].frequencies.double_zero == 5


@pytest.mark.parametrize("text", ["{", "[]", "{}", '{"schema_version": 9}'])
def test_what_is_no_report_is_refused(text):
    with pytest.raises(InputError):
        report_from_json(text)


def test_pooled_runs_have_all_residuals():
    both = pool([report("a"), report("b", 1)])
    assert both.runs == ("a", "b")
    assert both.entry("County", "total").figures.n == 6
    assert both.entry("County", "total").figures.bias == pytest.approx(np.mean([-2, 0, 3, -1, 1, 4]))
    assert both.notes == ("a note",)


def test_the_spread_is_over_runs():
    rows = {(one.measure, one.figure): one for one in spread([report("a"), report("b", 1), report("c", 2)])}
    bias = rows["total", "bias"]
    assert bias.values == pytest.approx([1 / 3, 4 / 3, 7 / 3])
    assert (bias.mean, bias.standard_deviation) == pytest.approx((4 / 3, 1.0))
    assert {one.standard_deviation for one in spread([report("a")])} == {0.0}


def test_reports_of_different_things_are_not_pooled():
    other = AccuracyReport("dallas_2010", ("b",), report("b").entries)
    for reports in ([], [report("a"), other], [report("a"), AccuracyReport("e2e_1940", ("b",), ())]):
        with pytest.raises(InputError):
            pool(reports)


def test_a_line_that_is_not_there_is_named():
    with pytest.raises(InputError, match="no line State, total"):
        report("a").entry("State", "total")


def test_figures_that_no_run_has_a_number_of_have_no_spread():
    found = spread([made_run(1), made_run(2)])
    assert {one.place for one in found} == {"County"}  # in districts nothing is compared
    assert all(value == value for one in found for value in (one.mean, one.standard_deviation, *one.values))  # noqa: PLR0124 - NaN
