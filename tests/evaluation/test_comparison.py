"""Two configurations side by side, against scipy and dense arrays."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from das_spark.errors import InputError
from das_spark.evaluation import AccuracyReport, Entry, compare_reports, frequencies_of, present_comparison
from das_spark.evaluation.comparison import PAIRED, method_of
from das_spark.evaluation.tallies import ComparedSide, absolute_differences
from das_spark.histogram import Attribute, Schema
from das_spark.report import csv_files, page

SCHEMA = Schema("small", (Attribute("hhgq", ("a", "b")), Attribute("race", ("x", "y", "z"))))
OF = ("County", "total")


def side(dense):
    owner, cell = np.nonzero(dense)
    return ComparedSide(owner.astype(np.int64), cell.astype(np.int64), dense[owner, cell].astype(np.int64))


@given(st.integers(0, 2**32), st.integers(1, 12))
def test_differences_of_absolute_residuals_are_those_of_dense_arrays(seed, number):
    rng = np.random.default_rng(seed)
    three = [rng.poisson(0.7, (number, SCHEMA.size)) for _ in range(3)]
    strata = SCHEMA.query("race")
    found = absolute_differences(strata, number, *map(side, three))
    truth, first, second = (each.sum(axis=1) for each in three)
    assert found.totals.tolist() == (np.abs(first - truth) - np.abs(second - truth)).tolist()
    truth, first, second = (strata.answer_dense(each) for each in three)
    wanted = (np.abs(first - truth) - np.abs(second - truth))[(truth > 0) | (first > 0) | (second > 0)]
    assert sorted(found.strata.tolist()) == sorted(wanted.ravel().tolist())


def sides(runs, wide=3.0):
    """Residuals of the same geounits under two noises, the second one wider."""
    rng = np.random.default_rng(0)
    first = [np.round(rng.laplace(0, 2, 500)).astype(np.int64) for _ in range(runs)]
    second = [np.round(rng.laplace(0, wide, 500)).astype(np.int64) for _ in range(runs)]
    reports = [
        [
            AccuracyReport("e2e_1940", (f"{name}{at}",), (Entry(*OF, frequencies_of(run)),))
            for at, run in enumerate(runs)
        ]
        for name, runs in (("a", first), ("b", second))
    ]
    paired = [{OF: frequencies_of(np.abs(one) - np.abs(other))} for one, other in zip(first, second, strict=True)]
    return first, second, reports, paired


def test_intervals_over_runs_are_those_of_the_paired_t_test():
    first, second, (one, other), paired = sides(4)
    found = compare_reports(one, other, paired, {"budget.total": ("2", "1")}, paired=True)
    by_name = {line.statistic: line for line in found.lines if not line.settings}
    means = [[np.abs(run).mean() for run in runs] for runs in (first, second)]
    rmse = [[np.sqrt((run**2).mean()) for run in runs] for runs in (first, second)]
    for name, (mine, theirs) in ((PAIRED, means), ("mean_absolute", means), ("rmse", rmse)):
        line, test = by_name[name], stats.ttest_rel(mine, theirs)
        interval = test.confidence_interval(0.95)
        assert line.difference == pytest.approx(np.mean(mine) - np.mean(theirs))
        assert (line.interval.low, line.interval.high) == pytest.approx((interval.low, interval.high))
        assert line.p == pytest.approx(test.pvalue)
        if name != PAIRED:
            assert (line.first, line.second) == pytest.approx((np.mean(mine), np.mean(theirs)))
        assert (line.pairs, line.interval.over) == (4, "runs")
    assert by_name[PAIRED].interval.high < 0
    assert found.first == ("a0", "a1", "a2", "a3")
    assert found.method == "paired_runs"
    assert "paired t test" in found.notes[0]


@pytest.mark.parametrize(("runs", "fewer"), [(2, 2), (4, 4), (4, 3)])
def test_intervals_over_runs_without_a_partner_are_those_of_welch_in_any_order(runs, fewer):
    first, second, (one, other), _ = sides(runs)
    found = compare_reports(one, other[:fewer], (), {})
    by_name = {line.statistic: line for line in found.lines if not line.settings}
    means = [[np.abs(each).mean() for each in those] for those in (first, second[:fewer])]
    rmse = [[np.sqrt((each**2).mean()) for each in those] for those in (first, second[:fewer])]
    for name, (mine, theirs) in ((PAIRED, means), ("mean_absolute", means), ("rmse", rmse)):
        line, test = by_name[name], stats.ttest_ind(mine, theirs, equal_var=False)
        interval = test.confidence_interval(0.95)
        assert line.difference == pytest.approx(np.mean(mine) - np.mean(theirs))
        assert (line.interval.low, line.interval.high) == pytest.approx((interval.low, interval.high))
        assert line.p == pytest.approx(test.pvalue)
        assert (line.pairs, line.interval.over) == (0, "runs")
    assert found.method == "welch"
    assert "Welch" in found.notes[0]
    turned = compare_reports(one[::-1], other[:fewer], (), {})
    for line, again in zip(found.lines, turned.lines, strict=True):
        if line.interval is not None:
            assert (again.interval.low, again.interval.high) == pytest.approx((line.interval.low, line.interval.high))


def test_strata_that_a_run_leaves_out_count_as_exact_where_runs_have_no_partner():
    reports = [
        [
            AccuracyReport("p", (f"{name}{at}",), (Entry(*OF, frequencies_of(np.array(each))),))
            for at, each in enumerate(of)
        ]
        for name, of in (("a", ([3, -3], [4, 2])), ("b", ([1, 1, 1, 1], [2, 0, 0, 0])))
    ]
    line = next(
        line for line in compare_reports(*reports, differences=(), differing={}).lines if line.statistic == PAIRED
    )
    assert line.difference == pytest.approx((6 - 3) / 3)
    assert line.n == 12


@pytest.mark.parametrize(("of", "wanted"), [([4], None), ([], None), ([4, -1, 4], stats.t(2).ppf(0.975) * 5 / 3)])
def test_geounits_too_few_to_show_a_spread_have_no_interval(of, wanted):
    _, _, (one, other), _ = sides(1)
    found = compare_reports(one, other, [{OF: frequencies_of(np.array(of, dtype=np.int64))}], {})
    line = next(line for line in found.lines if line.statistic == PAIRED)
    assert line.difference == (pytest.approx(np.mean(of)) if of else None)
    if wanted is None:
        assert line.interval is None
        assert "<svg" not in page(present_comparison(found))
    else:
        assert line.interval.high - line.difference == pytest.approx(wanted)
        assert line.difference - line.interval.low == pytest.approx(wanted)


def test_one_run_a_side_has_an_interval_over_geounits_and_says_so():
    first, second, (one, other), paired = sides(1)
    found = compare_reports(one, other, paired, {})
    line = next(line for line in found.lines if line.statistic == PAIRED)
    differences = np.abs(first[0]) - np.abs(second[0])
    half = stats.t(499).ppf(0.975) * differences.std(ddof=1) / np.sqrt(500)
    assert (line.interval.low, line.interval.high) == pytest.approx(
        (differences.mean() - half, differences.mean() + half)
    )
    assert line.interval.over == "geounits"
    assert "geounits only" in found.notes[0]
    assert found.method == "paired_geounits"
    assert {line.interval for line in found.lines if line.statistic != PAIRED} == {None}


@pytest.mark.statistical
def test_equal_configurations_are_told_apart_as_seldom_as_intervals_promise():
    """100 comparisons of 3 runs of one law: a 95 % interval misses zero in 5 on average, in more than 14 in 2e-4."""
    rng = np.random.default_rng(3)
    missed = {True: 0, False: 0}
    for _ in range(100):
        draws = rng.laplace(0, 2, (2, 3, 60)).round().astype(np.int64)
        reports = [
            [AccuracyReport("p", (str(at),), (Entry(*OF, frequencies_of(each)),)) for at, each in enumerate(side)]
            for side in draws
        ]
        paired = [{OF: frequencies_of(np.abs(a) - np.abs(b))} for a, b in zip(*draws, strict=True)]
        for way in missed:
            found = compare_reports(*reports, differences=paired, differing={}, paired=way)
            line = next(line for line in found.lines if line.statistic == PAIRED)
            missed[way] += not line.interval.low <= 0 <= line.interval.high
    assert max(missed.values()) <= 14


def test_a_comparison_that_cannot_be_made_is_refused():
    _, _, (one, other), paired = sides(2)
    with pytest.raises(InputError, match="2 runs beside 1"):
        compare_reports(one, other[:1], paired, {})
    with pytest.raises(InputError, match=r"2 runs beside 1: --paired takes them in pairs"):
        compare_reports(one, other[:1], paired, {}, paired=True)
    with pytest.raises(InputError, match="3 runs beside 2: geounits are compared in pairs of runs") as refused:
        method_of(3, 2, "geounits")
    assert "leave --paired and --over geounits out" in refused.value.hint
    with pytest.raises(InputError, match="needs two or more"):
        compare_reports(one[:1], other[:1], paired[:1], {}, over="runs")
    over = compare_reports(one, other, paired, {}, over="geounits")
    assert {line.interval.over for line in over.lines if line.interval} == {"geounits"}


def test_files_and_page_hold_every_line():
    _, _, (one, other), paired = sides(3)
    found = compare_reports(one, other, paired, {"budget.total": ("2", "<1>")})
    content = json.loads(found.to_json())
    rows = list(csv.DictReader(io.StringIO(csv_files(present_comparison(found))["comparison.restricted.csv"])))
    assert {row["classification"] for row in rows} == {"RESTRICTED"}
    assert len(content["lines"]) == len(found.lines) == len(rows)
    assert {row["method"] for row in rows if row["over"]} == {content["method"]} == {"welch"}
    assert content["notes"] == list(found.notes)
    assert content["differing"] == {"budget.total": ["2", "<1>"]}
    text = page(present_comparison(found))
    assert "RESTRICTED" in text
    assert "&lt;1&gt;" in text
    assert "<svg" in text
    assert "over runs, not paired (Welch); 3 and 3 runs" in text
    assert text.count('class="text">County</th>') == len(found.lines)
