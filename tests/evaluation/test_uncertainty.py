"""Intervals: against brute force, and by how often they cover.

- Differences between configurations, against the textbook's formulas, and by how often they raise an alarm.
"""

from __future__ import annotations

from math import sqrt
from statistics import fmean, stdev, variance

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy import stats

from das_spark.errors import ConfigurationError, InputError
from das_spark.evaluation.metrics import Frequencies, frequencies_of
from das_spark.evaluation.privacy_loss import empirical_privacy_loss
from das_spark.evaluation.uncertainty import (
    Interval,
    bootstrap,
    interval_of_mean,
    over_runs,
    paired_difference,
    student_interval,
    unpaired_difference,
)


def mean(found):
    return float(found.values @ found.counts / found.counts.sum())


def median_absolute(found):
    return float(np.median(np.abs(np.repeat(found.values, found.counts))))


def named(statistic):
    """A figure as what `bootstrap` wants: figures by name."""
    return lambda found: {"figure": statistic(found)}


def table(values, counts):
    return Frequencies(np.array(values), np.array(counts))


def resampled(found, statistic, *settings) -> Interval | None:
    return bootstrap(found, named(statistic), *settings)["figure"]


def laplace(generator: np.random.Generator, size: int) -> np.ndarray:
    return np.rint(generator.laplace(0, 20, size)).astype(np.int64)


def covers(interval: Interval, truth: float) -> bool:
    return interval.low <= truth <= interval.high


@pytest.mark.parametrize("statistic", [mean, median_absolute])
def test_resampling_frequencies_is_resampling_residuals(statistic):
    # With 2,000 replicates the ends of both have standard errors of about a twentieth of a standard deviation.
    generator = np.random.default_rng(1)
    residuals = laplace(generator, 150)
    found = frequencies_of(residuals)
    brute = [statistic(frequencies_of(generator.choice(residuals, 150))) for _ in range(2000)]
    expected = np.quantile(brute, [0.05, 0.95])
    interval = resampled(found, statistic, 2000, 0.9, 2)
    assert (interval.low, interval.high) == pytest.approx(expected, abs=0.3 * np.std(brute))
    assert (interval.level, interval.over) == (0.9, "residuals")


@pytest.mark.statistical
@pytest.mark.slow
def test_resampled_intervals_cover_as_often_as_they_say():
    # 250 samples from a fixed seed; the true rate of a percentile interval of a mean is close to 0.9 at n = 100. The
    # bounds lie five standard errors away: a false alarm in a million under another seed.
    generator = np.random.default_rng(4)
    tables = [frequencies_of(laplace(generator, 100)) for _ in range(250)]
    rates = {}
    for level, replicates in ((0.5, 40), (0.9, 100)):
        intervals = [resampled(one, mean, replicates, level, seed) for seed, one in enumerate(tables)]
        rates[level] = np.mean([covers(one, 0.0) for one in intervals])
    assert rates[0.9] == pytest.approx(0.88, abs=0.1)
    assert rates[0.5] == pytest.approx(0.49, abs=0.16)  # The control: what covers half of the time is told apart.


@pytest.mark.statistical
def test_the_interval_of_a_maximum_is_about_samples_of_its_size():
    # What the documentation says: 2,663 residuals of slope 0.1335; the mean of the maximum at this size is 0.24.
    generator = np.random.default_rng(6)
    p = 1 - np.exp(-0.1335)
    tables = [frequencies_of(generator.geometric(p, 2663) - generator.geometric(p, 2663)) for _ in range(20)]

    def figures(found):
        loss = empirical_privacy_loss(found)
        return {"value": loss.value, "plateau": loss.plateau}

    both = [bootstrap(one, figures, 40, 0.95, 1) for one in tables]
    intervals = {part: [each[part] for each in both] for part in ("value", "plateau")}
    assert sum(covers(one, 0.24) for one in intervals["value"]) >= 14  # 20 x 0.94 less 4.6 standard errors
    assert not any(covers(one, 0.1335) for one in intervals["value"])
    assert sum(covers(one, 0.1335) for one in intervals["plateau"]) >= 14


def test_the_same_seed_gives_the_same_interval():
    found = frequencies_of(laplace(np.random.default_rng(1), 500))
    first, again, other = (resampled(found, mean, 50, 0.9, seed) for seed in (7, 7, 8))
    assert first == again
    assert first != other


def test_a_statistic_sees_ascending_residuals_that_were_drawn():
    found = frequencies_of(np.arange(30))

    def largest(drawn):
        assert (np.diff(drawn.values) > 0).all()
        assert (drawn.counts > 0).all()
        assert drawn.total == 30
        return drawn.quantiles((1.0,))[0]

    assert resampled(found, largest, 100, 0.9, 1).high == 29


def test_a_single_value_has_no_spread():
    interval = resampled(table([5], [9]), mean, 40, 0.95, 1)
    assert (interval.low, interval.high) == (5, 5)


def test_a_single_residual_has_no_interval():
    assert bootstrap(table([7], [1]), named(mean), 40, 0.95, 1) == {"figure": None}
    assert interval_of_mean(table([7], [1]), 0.95) is None
    assert interval_of_mean(table([7, 8], [1, 1]), 0.95) is not None


@pytest.mark.parametrize("statistic", [lambda found: None, lambda found: float("inf")])
def test_undefined_resamples_are_not_passed_over(statistic):
    assert resampled(table([1, 2], [3, 4]), statistic, 40, 0.95, 1) is None

    def now_and_then(found):
        return {"rare": None if found.values.size == 1 else 1.0, "always": 1.0}

    found = bootstrap(table([1, 2], [1, 1]), now_and_then, 40, 0.95, 1)
    assert found == {"rare": None, "always": Interval(1.0, 1.0, 0.95, "residuals")}


def test_every_figure_sees_the_same_resamples_and_each_is_drawn_once():
    tables = []

    def figures(drawn):
        tables.append(drawn)
        return {"mean": mean(drawn), "median": median_absolute(drawn)}

    found = frequencies_of(laplace(np.random.default_rng(1), 60))
    both = bootstrap(found, figures, 50, 0.9, 3)
    assert len(tables) == 50
    for name, statistic in (("mean", mean), ("median", median_absolute)):
        assert both[name] == resampled(found, statistic, 50, 0.9, 3)


@pytest.mark.parametrize("size", [2, 3, 30])
def test_the_interval_of_a_mean_of_residuals_is_that_of_student(size):
    values = laplace(np.random.default_rng(size), size)
    found = frequencies_of(values)
    interval = interval_of_mean(found, 0.9)
    expected = stats.t.interval(0.9, size - 1, values.mean(), stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx(expected)
    assert (interval.level, interval.over) == (0.9, "residuals")


def test_impossible_resampling_is_refused():
    found = table([1, 2], [3, 4])
    with pytest.raises(ConfigurationError, match=r"39 replicates.*use 40"):
        resampled(found, mean, 39, 0.95, 1)
    assert resampled(found, mean, 40, 0.95, 1).level == 0.95
    with pytest.raises(ConfigurationError, match=r"confidence level: .* is 95"):
        resampled(found, mean, 100, 95, 1)
    with pytest.raises(InputError, match="no residuals"):
        resampled(table([], []), mean, 100, 0.9, 1)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_intervals_over_runs_are_those_of_student(level):
    runs = [3.0, 4.5, 2.0, 7.0]
    interval = over_runs(runs, level)
    reach = stats.t.ppf((1 + level) / 2, 3) * stdev(runs) / sqrt(4)
    assert (interval.low, interval.high) == pytest.approx((fmean(runs) - reach, fmean(runs) + reach))
    assert (interval.level, interval.over) == (level, "runs")
    assert over_runs(runs[::-1], level) == interval, "whatever the order of runs"
    equal = fmean([0.1] * 3)
    assert over_runs([0.1] * 3, level) == Interval(equal, equal, level, "runs")


@pytest.mark.parametrize("over", ["residuals", "geounits"])
def test_an_interval_of_student_tells_over_what_it_is(over):
    interval = student_interval(2.0, 0.5, 3, 0.95, over)
    assert (interval.low, interval.high) == pytest.approx(stats.t.interval(0.95, 3, 2.0, 0.5))
    assert interval.over == over


@pytest.mark.statistical
def test_intervals_over_four_runs_cover_as_often_as_they_say():
    # 4,000 samples from a fixed seed, five standard errors: 0.017. The control: with the normal law in place of
    # Student's, as is often done, four runs cover only 85 % of the time.
    runs = np.random.default_rng(3).normal(1.0, 2.0, (4000, 4))
    assert np.mean([covers(over_runs(four, 0.95), 1.0) for four in runs.tolist()]) == pytest.approx(0.95, abs=0.017)
    reach = 1.96 * runs.std(axis=1, ddof=1) / 2
    assert np.mean(np.abs(runs.mean(axis=1) - 1.0) <= reach) < 0.95 - 0.017


@pytest.mark.parametrize("runs", [[], [1.0], [1.0, float("nan")], [float("inf"), 1.0]])
def test_too_few_runs_are_refused(runs):
    with pytest.raises(InputError, match="runs"):
        over_runs(runs, 0.95)


def test_levels_are_probabilities():
    for level in (0, 1, 95):
        with pytest.raises(ConfigurationError, match=r"0\.95"):
            over_runs([1.0, 2.0], level)


figures = st.integers(-1000, 1000).map(lambda number: number / 8)
runs = st.lists(figures, min_size=2, max_size=8)
pairs = st.lists(st.tuples(figures, figures), min_size=2, max_size=8)


def matches(found, mean, error, freedom, level):
    """Student's t written out: mean +- t x standard error, and the probability of both tails beyond mean / error."""
    reach = stats.t.ppf((1 + level) / 2, freedom) * error
    assert found.p == pytest.approx(2 * stats.t.sf(abs(mean) / error, freedom), abs=1e-12)
    assert (found.interval.low, found.interval.high) == pytest.approx((mean - reach, mean + reach), abs=1e-9)
    assert (found.interval.level, found.interval.over) == (level, "runs")


@given(pairs, st.sampled_from([0.8, 0.95, 0.99]))
def test_paired_differences_are_those_of_the_paired_t_test(both, level):
    first, second = map(list, zip(*both, strict=True))
    assume(np.ptp(np.subtract(first, second)) > 0)
    found = paired_difference(first, second, level)
    assert found.mean == pytest.approx(np.mean(first) - np.mean(second))
    assert found.runs == (len(first), len(first))
    differences = [one - other for one, other in both]
    pairs_of = len(both)
    matches(found, fmean(differences), stdev(differences) / sqrt(pairs_of), pairs_of - 1, level)


@pytest.mark.filterwarnings("error")
@given(runs, runs, st.sampled_from([0.8, 0.95, 0.99]))
def test_unpaired_differences_are_those_of_welch(first, second, level):
    assume(np.ptp(first) > 0 or np.ptp(second) > 0)
    found = unpaired_difference(first, second, level)
    assert found.mean == pytest.approx(np.mean(first) - np.mean(second))
    assert found.runs == (len(first), len(second))
    # Welch and Satterthwaite.
    parts = [(variance(side) / len(side), len(side) - 1) for side in (first, second)]
    squared = sum(part for part, _ in parts)
    freedom = 1 / sum((part / squared) ** 2 / free for part, free in parts)
    matches(found, fmean(first) - fmean(second), sqrt(squared), freedom, level)
    assert unpaired_difference(first[::-1], second[::-1], level) == found, "whatever the order of runs"


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
