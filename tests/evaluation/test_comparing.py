"""Differences between configurations, against scipy's tests, and by how often they raise an alarm."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from das_spark.errors import ConfigurationError, InputError
from das_spark.evaluation.comparing import paired_difference, unpaired_difference

figures = st.integers(-1000, 1000).map(lambda number: number / 8)
runs = st.lists(figures, min_size=2, max_size=8)
pairs = st.lists(st.tuples(figures, figures), min_size=2, max_size=8)


def matches(found, expected, level):
    interval = expected.confidence_interval(level)
    assert found.p == pytest.approx(expected.pvalue)
    assert (found.interval.low, found.interval.high) == pytest.approx((interval.low, interval.high))
    assert (found.interval.level, found.interval.over) == (level, "runs")


@given(pairs, st.sampled_from([0.8, 0.95, 0.99]))
def test_paired_differences_are_those_of_the_paired_t_test(both, level):
    first, second = map(list, zip(*both, strict=True))
    assume(np.ptp(np.subtract(first, second)) > 0)
    found = paired_difference(first, second, level)
    assert found.mean == pytest.approx(np.mean(first) - np.mean(second))
    assert found.runs == (len(first), len(first))
    matches(found, stats.ttest_rel(first, second), level)


# scipy warns where the runs of one side are all equal.
@pytest.mark.filterwarnings("ignore:Precision loss:RuntimeWarning")
@given(runs, runs, st.sampled_from([0.8, 0.95, 0.99]))
def test_unpaired_differences_are_those_of_welch(first, second, level):
    assume(np.ptp(first) > 0 or np.ptp(second) > 0)
    found = unpaired_difference(first, second, level)
    assert found.mean == pytest.approx(np.mean(first) - np.mean(second))
    assert found.runs == (len(first), len(second))
    matches(found, stats.ttest_ind(first, second, equal_var=False), level)


@pytest.mark.parametrize("compare", [paired_difference, unpaired_difference])
@given(both=pairs)
def test_exchanging_the_sides_changes_signs(compare, both):
    first, second = map(list, zip(*both, strict=True))
    there, back = compare(first, second), compare(second, first)
    assert back.mean == pytest.approx(-there.mean)
    assert (back.interval.low, back.interval.high) == pytest.approx((-there.interval.high, -there.interval.low))
    assert back.p == pytest.approx(there.p) if there.p is not None else back.p is None


@pytest.mark.parametrize("compare", [paired_difference, unpaired_difference])
def test_runs_without_any_spread_have_no_p_value(compare):
    found = compare([4, 4, 4, 4], [3, 3, 3, 3])
    assert (found.mean, found.interval.low, found.interval.high, found.p) == (1, 1, 1, None)


@pytest.mark.statistical
@pytest.mark.parametrize("compare", [paired_difference, unpaired_difference])
def test_alarms_are_as_rare_as_the_level_says_and_differences_are_found(compare):
    # 1,000 comparisons of 5 runs each, fixed seed. Five standard errors are 0.034; Welch's test is a little cautious.
    generator = np.random.default_rng(2)
    first, second = generator.normal(0, 1, (2, 1000, 5)).tolist()
    alarms = np.mean([compare(*both).p < 0.05 for both in zip(first, second, strict=True)])
    assert 0.05 - 0.044 < alarms < 0.05 + 0.034
    found = np.mean(
        [compare([run + 5 for run in one], other).p < 0.05 for one, other in zip(first, second, strict=True)]
    )
    assert found > 0.9


def test_pairing_finds_what_the_spread_between_runs_hides():
    first = [10.0, 20.0, 30.0, 40.0]
    second = [9.0, 18.9, 29.1, 39.0]
    assert paired_difference(first, second).p < 0.001
    assert unpaired_difference(first, second).p > 0.5


def test_what_cannot_be_compared_is_refused():
    for compare in (paired_difference, unpaired_difference):
        with pytest.raises(InputError, match="1 runs: expected 2 or more"):
            compare([1.0], [2.0])
        with pytest.raises(InputError, match=r"not finite in runs \[2\]"):
            compare([1.0, float("nan")], [2.0, 3.0])
        with pytest.raises(ConfigurationError, match="confidence level"):
            compare([1.0, 2.0], [2.0, 5.0], level=0)
    with pytest.raises(InputError, match=r"3 runs beside 2.*unpaired_difference"):
        paired_difference([1.0, 2.0, 3.0], [1.0, 2.0])
    with pytest.raises(InputError, match="1 runs"):
        unpaired_difference([1.0, 2.0, 3.0], [1.0])
