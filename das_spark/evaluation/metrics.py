"""Error figures of protected counts, exact from how often each residual occurs.

A residual is protected minus confidential count, in people. All figures are functions of the *frequencies* of
residuals, so that a table of any size is first reduced to (residual, how often) pairs and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import InputError

#: Distinct residuals: whole people, or parts of people where a count was scaled up from a sample.
Residuals: TypeAlias = NDArray[np.int64] | NDArray[np.float64]

#: Probabilities of the quantiles of signed residuals that a report keeps.
PROBABILITIES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
#: Probabilities of the quantiles of absolute residuals by query.
ABSOLUTE_PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.999, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class Frequencies:
    """How often each residual occurs.

    Attributes:
        values: Shape (n,), int64, ascending, unique: residuals, people.
        counts: Shape (n,), int64, positive: how often.
        double_zero: How many further counts are zero in both histograms and were left out.

    Raises:
        InputError: Shapes differ, values are not ascending, or a count is not positive.
    """

    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    double_zero: int = 0

    def __post_init__(self) -> None:
        """Check order and signs."""
        if self.values.shape != self.counts.shape or (np.diff(self.values) <= 0).any() or (self.counts <= 0).any():
            raise InputError("frequencies of residuals: expected ascending values with positive counts")

    @property
    def total(self) -> int:
        """Number of residuals."""
        return int(self.counts.sum())

    @property
    def exact(self) -> int:
        """How many residuals are zero."""
        return int(self.counts[self.values == 0].sum())

    @property
    def absolute_sum(self) -> int:
        """Sum of the absolute residuals: the L1 error."""
        return sum(abs(value) * count for value, count in zip(self.values.tolist(), self.counts.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class ErrorFigures:
    """What is said of a set of residuals; all in people but the two numbers of counts.

    Attributes:
        n: Residuals.
        double_zero: Counts that are zero in both histograms and were left out of the figures.
        median_absolute: Median of the absolute residuals (the "MAE" of the studies of the 1940 runs).
        mean_absolute: Their mean.
        p95_absolute: Their 95th percentile.
        bias: Mean of the signed residuals.
        rmse: Root of the mean square.
        largest: Largest absolute residual.
        quantiles: Quantiles of the signed residuals at `PROBABILITIES`.
    """

    n: int
    double_zero: int
    median_absolute: float
    mean_absolute: float
    p95_absolute: float
    bias: float
    rmse: float
    largest: float
    quantiles: tuple[float, ...]


#: The figures that have a spread over several runs.
FIGURES = ("median_absolute", "mean_absolute", "p95_absolute", "bias", "rmse", "largest")


def frequencies_of(residuals: NDArray[np.int64], double_zero: int = 0) -> Frequencies:
    """Count residuals.

    Args:
        residuals: Shape (n,), people.
        double_zero: Counts that were left out before.
    """
    values, counts = np.unique(np.asarray(residuals, dtype=np.int64), return_counts=True)
    return Frequencies(values, counts.astype(np.int64), double_zero)


def pooled(parts: Sequence[Frequencies]) -> Frequencies:
    """The frequencies of several sets of residuals together, such as those of several runs.

    Args:
        parts: The sets; may be none.

    Returns:
        Values ascending, each once; counts that are zero in both histograms are summed.
    """
    if not parts:
        return Frequencies(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))
    values, inverse = np.unique(np.concatenate([part.values for part in parts]), return_inverse=True)
    counts = np.zeros(len(values), dtype=np.int64)
    np.add.at(counts, inverse, np.concatenate([part.counts for part in parts]))
    return Frequencies(values, counts, sum(part.double_zero for part in parts))


def figures(frequencies: Frequencies) -> ErrorFigures:
    """All figures of a set of residuals; NaN where there is none."""
    values, counts, n = frequencies.values, frequencies.counts, frequencies.total
    if n == 0:
        nan = float("nan")
        return ErrorFigures(0, frequencies.double_zero, nan, nan, nan, nan, nan, nan, (nan,) * len(PROBABILITIES))
    absolute = _absolute(frequencies)
    median, p95 = quantiles(absolute, (0.5, 0.95))
    # Exact integer sums: squares of large residuals would lose digits in floating point.
    pairs = list(zip(values.tolist(), counts.tolist(), strict=True))
    return ErrorFigures(
        n=n,
        double_zero=frequencies.double_zero,
        median_absolute=median,
        mean_absolute=frequencies.absolute_sum / n,
        p95_absolute=p95,
        bias=sum(value * count for value, count in pairs) / n,
        rmse=(sum(value * value * count for value, count in pairs) / n) ** 0.5,
        largest=float(absolute.values[-1]),
        quantiles=quantiles(frequencies, PROBABILITIES),
    )


def quantiles(frequencies: Frequencies, probabilities: Sequence[float]) -> tuple[float, ...]:
    """Quantiles with linear interpolation between order statistics (numpy's default definition).

    Args:
        frequencies: At least one residual.
        probabilities: Each from 0 to 1.
    """
    return quantiles_of(frequencies.values, frequencies.counts, probabilities)


def quantiles_of(values: Residuals, counts: NDArray[np.int64], probabilities: Sequence[float]) -> tuple[float, ...]:
    """The same of residuals that need not be whole people, such as those of a sample that was scaled up."""
    ends = np.cumsum(counts)
    positions = np.asarray(probabilities) * (ends[-1] - 1)
    below = np.floor(positions).astype(np.int64)
    above = np.minimum(below + 1, ends[-1] - 1)
    low = values[np.searchsorted(ends, below, "right")].astype(np.float64)
    high = values[np.searchsorted(ends, above, "right")].astype(np.float64)
    return tuple((low + (high - low) * (positions - below)).tolist())


def absolute_quantiles(frequencies: Frequencies, *, wrong_only: bool = False) -> tuple[float, ...]:
    """Quantiles of absolute residuals at `ABSOLUTE_PROBABILITIES`.

    Returns:
        The quantiles; none where no residual is left.
    """
    absolute = _absolute(frequencies)
    if wrong_only:
        wrong = absolute.values > 0
        absolute = Frequencies(absolute.values[wrong], absolute.counts[wrong])
    return quantiles(absolute, ABSOLUTE_PROBABILITIES) if absolute.total else ()


def _absolute(frequencies: Frequencies) -> Frequencies:
    absolute, inverse = np.unique(np.abs(frequencies.values), return_inverse=True)
    sums = np.zeros(len(absolute), dtype=np.int64)
    np.add.at(sums, inverse, frequencies.counts)
    return Frequencies(absolute, sums)
