"""How sure a figure is: over independent runs by Student's t, within one run by resampling its residuals.

Is one configuration better than another? Differences over runs, paired or not, by Student's t.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from statistics import fmean
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypeVar
from warnings import catch_warnings, filterwarnings

import numpy as np

from das_spark.errors import ConfigurationError, InputError
from das_spark.evaluation.metrics import Frequencies
from das_spark.limits import require_level

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.stats._stats_py import TtestResult

#: Probability with which the intervals of reports cover.
LEVEL: Final = 0.95

#: Names of figures.
Name = TypeVar("Name", bound=Hashable)
#: Figures of residuals by name, always the same names; None where a figure is undefined.
Figures: TypeAlias = Callable[[Frequencies], Mapping[Name, float | None]]
#: What varies behind an interval: the residuals of a run, runs under fresh noise, or geounits.
Varying: TypeAlias = Literal["residuals", "runs", "geounits"]

_FEWEST_RUNS: Final = 2
_FEWEST_RESIDUALS: Final = 2


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval."""

    low: float  #: lower end
    high: float  #: upper end
    level: float  #: probability with which such intervals cover, such as 0.95
    over: Varying  #: what varies


def bootstrap(
    residuals: Frequencies, figures: Figures[Name], replicates: int, level: float, seed: int
) -> dict[Name, Interval | None]:
    """Percentile intervals of figures, by drawing as many residuals again with replacement.

    The table of frequencies is drawn at once (multinomial), which is the same; every figure sees the same tables.
    (`scipy.stats.bootstrap` takes residuals one by one, of which a nation of blocks has tens of millions, one figure at
    a time, and has no answer where a figure is undefined in a resample.)
    Residuals count as independent; those of one geounit are not quite. A maximum over a noisy curve, such as the
    empirical privacy loss, is biased upward by an amount that depends on n; its interval is about samples of this size,
    bias included. (Measured with geometric noise, n = 2,663: 94 % of the intervals hold the mean over such samples,
    none holds the loss without sampling noise; those of the plateau hold both.)
    """
    require_level(level, "confidence level")
    if not residuals.total:
        raise InputError("bootstrap: there are no residuals; expected one or more")
    fewest = int(np.ceil(2 / (1 - level) - 1e-9))
    if replicates < fewest:
        raise ConfigurationError(f"bootstrap: {replicates} replicates", hint=f"use {fewest} or more at level {level}")
    if residuals.total < _FEWEST_RESIDUALS:
        return dict.fromkeys(figures(residuals))
    found = [figures(table) for table in _resamples(residuals, replicates, seed)]
    return {name: _percentiles([each[name] for each in found], level) for name in found[0]}


def interval_of_mean(residuals: Frequencies, level: float) -> Interval | None:
    """Interval of the mean of residuals (Student's t), as if they were independent.

    Unlike resampling it is wide enough for few residuals too: the variance has the divisor n - 1, and the distribution
    n - 1 degrees of freedom.
    """
    require_level(level, "confidence level")
    n = residuals.total
    if n < _FEWEST_RESIDUALS:
        return None
    mean = residuals.mean
    error = sqrt(float(np.square(residuals.values - mean) @ residuals.counts) / (n - 1) / n)
    return student_interval(mean, error, n - 1, level, "residuals")


def over_runs(values_of_runs: Sequence[float], level: float) -> Interval:
    """Interval of the mean over independent runs (Student's t).

    Args:
        values_of_runs: The figure in each run.
        level: Between 0 and 1.

    Raises:
        InputError: Fewer than two runs, or a run has no finite value.
        ConfigurationError: The level is not between 0 and 1.
    """
    _check_runs(values_of_runs)
    return _against_zero(values_of_runs, level)[0]


def interval_over_runs(values_of_runs: Sequence[float], level: float) -> Interval | None:
    """The same where the runs can tell of one; None for one run, an undefined figure, or runs without any spread.

    Two runs that agree, such as in a median of whole numbers, say nothing of how far a third one would be.
    """
    if len(values_of_runs) < _FEWEST_RUNS or not all(map(isfinite, values_of_runs)):
        return None
    return with_spread(over_runs(values_of_runs, level))


def with_spread(interval: Interval) -> Interval | None:
    """The interval, or None where it is a point, for no spread was seen that it could be computed from."""
    return interval if interval.low < interval.high else None


def student_interval(
    mean: float, standard_error: float, freedom: float, level: float, over: Varying = "runs"
) -> Interval:
    """Estimate +- t x standard error, of residuals that are known by their frequencies: scipy's tests take samples."""
    require_level(level, "confidence level")
    from scipy.special import stdtrit  # noqa: PLC0415 - commands that need none start sooner

    reach = float(stdtrit(freedom, (1 + level) / 2)) * standard_error
    return Interval(mean - reach, mean + reach, level, over)


def _check_runs(values_of_runs: Sequence[float]) -> None:
    """Refuse figures of runs that say nothing of a spread."""
    if len(values_of_runs) < _FEWEST_RUNS:
        raise InputError(
            f"{len(values_of_runs)} runs: expected 2 or more",
            hint="run the same configuration again under another key: one run shows no spread over runs",
        )
    missing = [place for place, value in enumerate(values_of_runs, start=1) if not isfinite(value)]
    if missing:
        raise InputError(f"the figure is not finite in runs {missing}", hint="leave such runs out, and say so")


def _resamples(residuals: Frequencies, replicates: int, seed: int) -> Iterator[Frequencies]:
    """Tables of frequencies of as many residuals, drawn with replacement."""
    generator = np.random.default_rng(seed)  # noqa: TID251 - resampling of an evaluation: nothing is protected by it
    for _ in range(replicates):
        drawn = generator.multinomial(residuals.total, residuals.counts / residuals.total)
        yield Frequencies(residuals.values[drawn > 0], drawn[drawn > 0])


def _percentiles(found: Sequence[float | None], level: float) -> Interval | None:
    """None where a value is none, or not finite."""
    defined = [value for value in found if value is not None and isfinite(value)]
    if len(defined) < len(found):
        return None
    tail = (1 - level) / 2
    low, high = np.quantile(defined, (tail, 1 - tail)).tolist()
    return Interval(low, high, level, "residuals")


@dataclass(frozen=True, slots=True)
class MeanDifference:
    """First minus second."""

    mean: float  # mean of the first minus mean of the second
    interval: Interval  # of this difference
    runs: tuple[int, int]  # runs of the first, and of the second
    p: float | None  # two-sided p-value of "no difference"; None where the runs show no spread to compare with


def paired_difference(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> MeanDifference:
    """Difference of runs that belong together, such as two settings on the same measurements (paired t test)."""
    if len(first) != len(second):
        raise InputError(
            f"{len(first)} runs beside {len(second)}: pairs need as many",
            hint="compare runs that do not belong together with unpaired_difference",
        )
    differences = [one - other for one, other in zip(first, second, strict=True)]
    _check_runs(differences)
    interval, p = _against_zero(differences, level)
    return MeanDifference(fmean(differences), interval, (len(differences), len(differences)), p)


def unpaired_difference(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> MeanDifference:
    """Difference of independent runs whose spreads may differ (Welch's t test)."""
    _check_runs(first)
    _check_runs(second)
    require_level(level, "confidence level")
    mean = fmean(first) - fmean(second)
    interval, p = Interval(mean, mean, level, "runs"), None
    if _spreads(first) or _spreads(second):
        from scipy import stats  # noqa: PLC0415 - half a second that only comparisons should cost

        with catch_warnings():
            # That the runs of one side are all equal is no flaw where those of the other are not.
            filterwarnings("ignore", "Precision loss", RuntimeWarning)
            found = stats.ttest_ind(_in_order(first), _in_order(second), equal_var=False)
        interval, p = _of_test(found, level)
    return MeanDifference(mean, interval, (len(first), len(second)), p)


def _against_zero(values_of_runs: Sequence[float], level: float) -> tuple[Interval, float | None]:
    """Interval of a mean and p-value of "it is zero"; a point and None where the values show no spread."""
    require_level(level, "confidence level")
    if not _spreads(values_of_runs):
        mean = fmean(values_of_runs)
        return Interval(mean, mean, level, "runs"), None
    from scipy import stats  # noqa: PLC0415 - half a second that only comparisons should cost

    return _of_test(stats.ttest_1samp(_in_order(values_of_runs), 0.0), level)


def _of_test(found: TtestResult, level: float) -> tuple[Interval, float]:
    low, high = map(float, found.confidence_interval(level))
    return Interval(low, high, level, "runs"), float(found.pvalue)


def _spreads(values_of_runs: Sequence[float]) -> bool:
    """Whether runs differ at all: scipy's variance of equal values need not be zero, since it sums rounded ones."""
    return len(set(values_of_runs)) > 1


def _in_order(values_of_runs: Sequence[float]) -> NDArray[np.float64]:
    """The same whatever the order of runs, which sums of rounded numbers are not."""
    return np.sort(np.asarray(values_of_runs, dtype=np.float64))
