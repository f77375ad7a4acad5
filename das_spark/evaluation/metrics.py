"""Error figures of protected counts, exact from how often each residual occurs.

A residual is protected minus confidential count, in people. All figures are functions of the *frequencies* of
residuals, so that a table of any size is first reduced to (residual, how often) pairs and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan, sqrt
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import InputError

#: Distinct residuals: whole people, or parts of people where a count was scaled up from a sample.
Residuals: TypeAlias = NDArray[np.int64] | NDArray[np.float64]

_Key = TypeVar("_Key", np.int64, np.float64)

#: Probabilities of the quantiles of signed residuals that a report keeps.
PROBABILITIES = (0.0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1.0)
#: Probabilities of the quantiles of absolute residuals by query.
ABSOLUTE_PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.99, 0.999, 1.0)
#: Whole numbers below it add up exactly in 64 bits.
_EXACT = 2**63


@dataclass(frozen=True, slots=True)
class ErrorFigures:
    """What is said of a set of residuals; all in people but the two numbers of counts."""

    n: int  # residuals
    double_zero: int  # counts that are zero in both histograms and were left out of the figures
    median_absolute: float  # median of the absolute residuals (the "MAE" of the studies of the 1940 runs)
    mean_absolute: float
    p95_absolute: float  # 95th percentile of the absolute residuals
    bias: float  # mean of the signed residuals
    rmse: float  # root of the mean square
    largest: float  # largest absolute residual
    quantiles: tuple[float, ...]  # quantiles of the signed residuals at `PROBABILITIES`


#: The figures that have a spread over several runs.
FIGURES = ("median_absolute", "mean_absolute", "p95_absolute", "bias", "rmse", "largest")


@dataclass(frozen=True, eq=False)
class Frequencies:
    """How often each residual occurs.

    Raises:
        InputError: Shapes differ, values are not ascending or not finite, or a count is not positive.
    """

    values: Residuals  #: shape (n,), ascending, unique, finite: residuals, people
    counts: NDArray[np.int64]  #: shape (n,), int64, positive: how often
    double_zero: int = 0  #: how many further counts are zero in both histograms and were left out

    def __post_init__(self) -> None:
        """Check order and signs."""
        table = self.values.ndim == 1 and self.values.shape == self.counts.shape and np.isfinite(self.values).all()
        if not table or (np.diff(self.values) <= 0).any() or (self.counts <= 0).any():
            raise InputError(
                "frequencies of residuals: expected finite ascending values with positive counts",
                hint="reduce residuals with frequencies_of",
            )

    @cached_property
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
        return int(self.absolute.sum_of())

    @property
    def mean(self) -> float:
        """Mean of the signed residuals; NaN where there is none."""
        return self.sum_of() / self.total if self.total else nan

    @property
    def standard_deviation(self) -> float:
        """Sample standard deviation, divisor n - 1."""
        centred = self.values - (self.values @ self.counts) / self.total
        return sqrt(float(centred**2 @ self.counts / (self.total - 1)))

    @cached_property
    def absolute(self) -> Frequencies:
        """The same of absolute residuals."""
        return Frequencies(*summed(np.abs(self.values), self.counts))

    def sum_of(self, power: int = 1) -> float:
        """Sum of the residuals, or of their squares; of whole residuals exact, and a whole number."""
        if self.values.dtype.kind != "i":
            return float(self.values**power @ self.counts)
        if self.total and int(np.abs(self.values).max()) ** power * self.total < _EXACT:
            return int(self.values**power @ self.counts)
        # Squares of large residuals would lose digits in floating point.
        pairs = zip(self.values.tolist(), self.counts.tolist(), strict=True)
        return int(sum(value**power * count for value, count in pairs))

    def quantiles(self, probabilities: Sequence[float]) -> tuple[float, ...]:
        """Quantiles with linear interpolation between order statistics (numpy's default) of one residual at least."""
        ends = np.cumsum(self.counts)
        positions = np.asarray(probabilities) * (ends[-1] - 1)
        below = np.floor(positions).astype(np.int64)
        above = np.minimum(below + 1, ends[-1] - 1)
        low = self.values[np.searchsorted(ends, below, "right")].astype(np.float64)
        high = self.values[np.searchsorted(ends, above, "right")].astype(np.float64)
        return tuple((low + (high - low) * (positions - below)).tolist())

    def absolute_quantiles(self, *, wrong_only: bool = False) -> tuple[float, ...]:
        """Quantiles of absolute residuals at `ABSOLUTE_PROBABILITIES`; none where no residual is left."""
        absolute = self.absolute
        if wrong_only:
            wrong = absolute.values > 0
            absolute = Frequencies(absolute.values[wrong], absolute.counts[wrong])
        return absolute.quantiles(ABSOLUTE_PROBABILITIES) if absolute.total else ()

    @cached_property
    def figures(self) -> ErrorFigures:
        """All figures; NaN where there is no residual."""
        n = self.total
        if n == 0:
            return ErrorFigures(0, self.double_zero, nan, nan, nan, nan, nan, nan, (nan,) * len(PROBABILITIES))
        median, p95 = self.absolute.quantiles((0.5, 0.95))
        return ErrorFigures(
            n=n,
            double_zero=self.double_zero,
            median_absolute=median,
            mean_absolute=self.absolute.mean,
            p95_absolute=p95,
            bias=self.mean,
            rmse=(self.sum_of(2) / n) ** 0.5,
            largest=float(self.absolute.values[-1]),
            quantiles=self.quantiles(PROBABILITIES),
        )


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
    values, counts = (np.concatenate([getattr(part, name) for part in parts]) for name in ("values", "counts"))
    return Frequencies(*summed(values, counts), sum(part.double_zero for part in parts))


def summed(keys: NDArray[_Key], amounts: NDArray[np.int64]) -> tuple[NDArray[_Key], NDArray[np.int64]]:
    """Every key once, ascending, and the sum of its amounts."""
    distinct, inverse = np.unique(keys, return_inverse=True)
    sums = np.zeros(len(distinct), dtype=np.int64)
    np.add.at(sums, inverse, amounts)
    return distinct, sums
