"""Figures of pooled runs with their uncertainty, against numpy on the residuals themselves."""

import numpy as np
import pytest
from scipy import stats

from das_spark.errors import InputError
from das_spark.evaluation import LOSS, AccuracyReport, Entry, frequencies_of, statistics_of
from das_spark.evaluation.metrics import Frequencies
from das_spark.evaluation.privacy_loss import empirical_privacy_loss
from das_spark.evaluation.statistics import PLATEAU

PLAIN = {
    "median_absolute": lambda r: np.median(np.abs(r)),
    "mean_absolute": lambda r: np.abs(r).mean(),
    "p95_absolute": lambda r: np.quantile(np.abs(r), 0.95),
    "rmse": lambda r: np.sqrt((r**2).mean()),
    "bias": lambda r: r.mean(),
    "largest": lambda r: np.abs(r).max(),
}


def residuals(seed, number=800):
    rng = np.random.default_rng(seed)
    return rng.geometric(0.2, number) - rng.geometric(0.2, number)


def report(name, values):
    return AccuracyReport("e2e_1940", (name,), (Entry("County", "total", frequencies_of(values)),))


def test_every_figure_is_that_of_the_pooled_residuals_and_lies_in_its_interval():
    runs = [residuals(seed) for seed in (1, 2, 3)]
    found = {
        (one.name, one.settings): one for one in statistics_of([report(str(at), run) for at, run in enumerate(runs)])
    }
    together = np.concatenate(runs)
    for name, of in PLAIN.items():
        one = found[name, ""]
        assert one.value == pytest.approx(of(together))
        assert one.of_runs == pytest.approx([of(run) for run in runs])
        reach = stats.t.ppf(0.975, 2) * stats.sem(one.of_runs)
        if reach:
            assert (one.over_runs.low, one.over_runs.high) == pytest.approx(
                (np.mean(one.of_runs) - reach, np.mean(one.of_runs) + reach)
            )
        else:
            assert one.over_runs is None, "runs that agree tell of no spread"
        assert one.mean_of_runs == pytest.approx(np.mean(one.of_runs))
        assert (one.n, one.unit) == (2400, "people")
        if name == "largest":
            assert one.interval is None
        else:
            assert one.interval.low <= one.value <= one.interval.high
            assert one.interval.over == "residuals"
    assert found[PLATEAU, "as coded"].value < found[LOSS, "as coded"].value
    assert found[LOSS, "as coded"].value != found[LOSS, "as written"].value


def test_intervals_over_residuals_are_those_of_resampled_residuals():
    values = residuals(5)
    rng = np.random.default_rng(11)
    found = {one.name: one for one in statistics_of([report("a", values)]) if not one.settings}
    for name in ("median_absolute", "p95_absolute", "rmse", "bias", "mean_absolute"):
        again = [PLAIN[name](rng.choice(values, len(values))) for _ in range(2000)]
        ends = np.quantile(again, (0.025, 0.975))
        spread = np.std(again)
        # Two bootstraps of 200 and 2,000: an end has a standard error of about 0.2 standard deviations.
        assert abs(found[name].interval.low - ends[0]) < max(0.8 * spread, 1)
        assert abs(found[name].interval.high - ends[1]) < max(0.8 * spread, 1)


def test_what_has_no_value_says_why_and_has_no_interval():
    same, empty = report("a", np.zeros(51, dtype=np.int64)), report("a", np.zeros(0, dtype=np.int64))
    of_same = {(one.name, one.settings): one for one in statistics_of([same])}
    assert of_same["rmse", ""].value == 0
    loss = of_same[LOSS, "as coded"]
    assert (loss.value, loss.interval, loss.why_undefined) == (None, None, "all residuals are equal")
    assert {one.value for one in statistics_of([empty])} == {None}
    assert {one.why_undefined for one in statistics_of([empty])} == {"there are no residuals"}
    two = statistics_of([same, report("b", residuals(1, 51))])
    loss = next(one for one in two if (one.name, one.settings) == (LOSS, "as coded"))
    assert loss.of_runs[0] is None
    assert loss.over_runs is None


def test_a_single_residual_has_a_value_and_no_interval():
    found = {one.name: one for one in statistics_of([report("a", np.array([7]))]) if not one.settings}
    assert (found["bias"].value, found["rmse"].value) == (7, 7)
    assert {one.interval for one in found.values()} == {None}


def test_the_bias_of_few_residuals_has_the_interval_of_student():
    values = np.array([1, 2, 6])
    (bias,) = [one for one in statistics_of([report("a", values)]) if one.name == "bias"]
    assert (bias.interval.low, bias.interval.high) == pytest.approx(stats.t.interval(0.95, 2, 3, stats.sem(values)))


def test_the_interval_over_runs_is_of_the_mean_of_the_runs_and_not_of_the_value():
    # The largest of a curve grows as residuals get fewer: the runs by themselves lie above all of them together.
    found = statistics_of([report(str(seed), residuals(seed, 200)) for seed in range(6)], replicates=0)
    (loss,) = [one for one in found if (one.name, one.settings) == (LOSS, "as coded")]
    assert loss.over_runs.low < loss.mean_of_runs < loss.over_runs.high
    assert loss.value < loss.over_runs.low


def test_resamples_are_drawn_once_for_all_figures(monkeypatch):
    calls = []

    def counting(residuals, settings):
        calls.append(settings)
        return empirical_privacy_loss(residuals, settings)

    monkeypatch.setattr("das_spark.evaluation.statistics.empirical_privacy_loss", counting)
    statistics_of([report("a", residuals(1))], replicates=40)
    # Two settings: of the pooled residuals, of the one run, and of every resample.
    assert len(calls) == 2 * (1 + 1 + 40)


def test_one_run_has_no_interval_over_runs_and_intervals_can_be_left_out():
    (one,) = {statistic.over_runs for statistic in statistics_of([report("a", residuals(1))])}
    assert one is None
    assert {statistic.mean_of_runs for statistic in statistics_of([report("a", residuals(1))])} == {None}
    assert {statistic.interval for statistic in statistics_of([report("a", residuals(1))], replicates=0)} == {None}
    with pytest.raises(InputError, match="no accuracy report"):
        statistics_of([])


@pytest.mark.parametrize("largest", [3, 2**40])
def test_means_are_exact_however_large_residuals_are(largest):
    values, counts = np.array([-largest, 0, largest - 1]), np.array([7, 3, 2**20])
    table = Frequencies(values, counts)
    pairs = [(int(value), int(count)) for value, count in zip(values, counts, strict=True)]
    n = sum(count for _, count in pairs)
    assert table.mean == sum(value * count for value, count in pairs) / n
    assert table.absolute.mean == sum(abs(value) * count for value, count in pairs) / n
    assert table.sum_of(2) / n == sum(value**2 * count for value, count in pairs) / n
