"""Is one configuration better than another? Differences of a figure over independent runs, by Student's t."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, stdev, variance

from scipy.special import stdtr

from das_spark.errors import InputError
from das_spark.evaluation.uncertainty import Interval, check_runs, student_interval


@dataclass(frozen=True, slots=True)
class Difference:
    """First minus second.

    Attributes:
        mean: Mean of the first minus mean of the second.
        interval: Of this difference.
        runs: Runs of the first, and of the second.
        p: Two-sided p-value of "no difference"; None where the runs show no spread to compare with.
    """

    mean: float
    interval: Interval
    runs: tuple[int, int]
    p: float | None


def paired_difference(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> Difference:
    """Difference of runs that belong together, such as two settings on the same measurements (paired t test).

    Args:
        first: The figure in each run.
        second: The same in the runs that belong to them, in the same order.
        level: Of the interval.

    Raises:
        InputError: The numbers of runs differ, there are fewer than two, or a figure is not finite.
        ConfigurationError: The level is not between 0 and 1.
    """
    if len(first) != len(second):
        raise InputError(
            f"{len(first)} runs beside {len(second)}: pairs need as many",
            hint="compare runs that do not belong together with unpaired_difference",
        )
    differences = [one - other for one, other in zip(first, second, strict=True)]
    check_runs(differences)
    pairs = len(differences)
    error = stdev(differences) / sqrt(pairs)
    return _difference(fmean(differences), error, pairs - 1, level, (pairs, pairs))


def unpaired_difference(first: Sequence[float], second: Sequence[float], level: float = 0.95) -> Difference:
    """Difference of independent runs whose spreads may differ (Welch's t test).

    Args:
        first: The figure in each run.
        second: The same in the other runs; there may be more or fewer.
        level: Of the interval.

    Raises:
        InputError: Fewer than two runs on a side, or a figure is not finite.
        ConfigurationError: The level is not between 0 and 1.
    """
    check_runs(first)
    check_runs(second)
    parts = [(variance(runs) / len(runs), len(runs) - 1) for runs in (first, second)]
    squared = sum(part for part, _ in parts)
    # Welch and Satterthwaite. Without any spread the degrees of freedom do not matter: the interval is a point.
    freedom = 1 / sum((part / squared) ** 2 / free for part, free in parts) if squared else 1.0
    return _difference(fmean(first) - fmean(second), sqrt(squared), freedom, level, (len(first), len(second)))


def _difference(mean: float, error: float, freedom: float, level: float, runs: tuple[int, int]) -> Difference:
    p = 2 * float(stdtr(freedom, -abs(mean) / error)) if error else None
    return Difference(mean, student_interval(mean, error, freedom, level), runs, p)
