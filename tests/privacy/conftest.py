"""Settings, oracles and statistics of this room's tests.

A statistical test draws with a fresh key of the operating system. The whole suite may raise a false alarm in one run
of a million: FALSE_ALARM is divided by the number of statistical tests of the session, and each test divides its part
again by the number of p-values it looks at. A failure is therefore never a reason to run again: it is a reason to look.

Power: with DRAWS draws every negative control (scale off by a tenth, everything shifted by one, one value with its sign
flipped, a rounded continuous one where that differs) lies more than seven standard deviations beyond the level.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from das_spark.privacy import DiscreteLaplace, KeyedStream, Mechanism, RunKey, StreamDomain

sys.path.insert(0, str(Path(__file__).parent))

FALSE_ALARM: Final = 1e-6
DRAWS: Final = 4_000_000
DRAWS_OF_WIDE_DISTRIBUTIONS: Final = 24_000_000
WIDE_FROM: Final = 100.0  # Standard deviation from which a shift by one needs the larger number of draws.
LEAST_EXPECTED: Final = (
    50.0  # In every bin: the chi-square distribution must hold far out in its tail, not only at 5 %.
)
COARSE_BINS: Final = 40
ORACLE_DIGITS: Final = 60


@pytest.fixture
def level(request: pytest.FixtureRequest) -> float:
    """The part of the suite's false-alarm rate that this test may use."""
    count = sum(item.get_closest_marker("statistical") is not None for item in request.session.items)
    return FALSE_ALARM / max(1, count)


@pytest.fixture
def new_stream() -> Callable[..., KeyedStream]:
    """Streams of any domain under one fresh key of the operating system."""
    key = RunKey.from_system()

    def derive(
        query: str = "query", product: str = "product", geolevel: str = "level", attempt: int = 0
    ) -> KeyedStream:
        return key.derive(StreamDomain(product, "person", geolevel, attempt, query))

    return derive


class Distribution:
    """A distribution computed by mpmath, independently of the package: no table, no recursion, no interval."""

    def __init__(self, mechanism: Mechanism) -> None:
        self.mechanism = mechanism
        with mpmath.workdps(ORACLE_DIGITS):
            self._q = None
            if isinstance(mechanism, DiscreteLaplace):
                self._q = mpmath.exp(-mpmath.mpf(mechanism.scale.denominator) / mechanism.scale.numerator)
                self._total = (1 + self._q) / (1 - self._q)
            else:
                sigma = mechanism.sigma_squared
                self._rate = mpmath.mpf(sigma.denominator) / (2 * sigma.numerator)
                self._total = mpmath.jtheta(3, 0, mpmath.exp(-self._rate))

    def weight(self, value: int) -> mpmath.mpf:
        """The distribution's weight before normalisation."""
        return self._q ** abs(value) if self._q is not None else mpmath.exp(-self._rate * value * value)

    def probability(self, value: int) -> mpmath.mpf:
        """P(X = value)."""
        with mpmath.workdps(ORACLE_DIGITS):
            return self.weight(value) / self._total

    def upper_tail(self, first: int, digits: int = ORACLE_DIGITS) -> mpmath.mpf:
        """P(X >= first) for first >= 1, by summing up to terms that vanish at this many digits."""
        with mpmath.workdps(digits):
            if isinstance(self.mechanism, DiscreteLaplace):
                q = mpmath.exp(-mpmath.mpf(self.mechanism.scale.denominator) / self.mechanism.scale.numerator)
                return q**first / (1 + q)
            sigma = self.mechanism.sigma_squared
            rate = mpmath.mpf(sigma.denominator) / (2 * sigma.numerator)
            last = first + int(mpmath.sqrt(digits * mpmath.log(10) / rate)) + 2
            return mpmath.fsum(mpmath.exp(-rate * k * k) for k in range(first, last)) / mpmath.jtheta(
                3, 0, mpmath.exp(-rate)
            )

    def probabilities(self, reach: int) -> NDArray[np.float64]:
        """P(X = k) for k = -reach, ..., reach."""
        half = [float(self.probability(value)) for value in range(reach + 1)]
        return np.array([*reversed(half[1:]), *half])


@pytest.fixture(scope="session")
def distribution() -> Callable[[Mechanism], Distribution]:
    """The independent distribution of a mechanism."""
    return Distribution


@dataclass(frozen=True)
class Counts:
    """How often each value was drawn: k = -reach, ..., reach; everything beyond counts at the ends."""

    reach: int
    times: NDArray[np.int64]

    @property
    def total(self) -> int:
        return int(self.times.sum())

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.reach, self.times + other.times)


def count_values(values: NDArray[np.int64], reach: int) -> Counts:
    """Count draws by value."""
    clipped = np.clip(values, -reach, reach) + reach
    return Counts(reach, np.bincount(clipped, minlength=2 * reach + 1))


@pytest.fixture(scope="session")
def counted() -> Callable[[NDArray[np.int64], int], Counts]:
    """Counting, for tests."""
    return count_values


def _pooled(expected: NDArray[np.float64], least: float) -> NDArray[np.int64]:
    """Neighbouring values joined into bins that each expect at least `least`; the bin of every value."""
    bins = np.empty(len(expected), dtype=np.int64)
    current, filled = 0, 0.0
    for place, amount in enumerate(expected):
        bins[place] = current
        filled += amount
        if filled >= least:
            current, filled = current + 1, 0.0
    if filled < least and current > 0:
        bins[bins == current] = current - 1
    return bins


def chi_square(counts: Counts, probabilities: NDArray[np.float64], least: float) -> float:
    """The p-value of Pearson's test with pooled bins."""
    expected = probabilities * counts.total
    expected[[0, -1]] += max(0.0, counts.total - expected.sum()) / 2
    bins = _pooled(expected, least)
    observed = np.bincount(bins, weights=counts.times)
    pooled = np.bincount(bins, weights=expected)
    if len(pooled) == 1:
        return 1.0
    statistic = float(((observed - pooled) ** 2 / pooled).sum())
    return float(stats.chi2.sf(statistic, len(pooled) - 1))


def sign_test(counts: Counts) -> float:
    """The p-value of symmetry: as many positive as negative values."""
    positive = int(counts.times[counts.reach + 1 :].sum())
    negative = int(counts.times[: counts.reach].sum())
    return float(stats.binomtest(positive, positive + negative).pvalue) if positive + negative else 1.0


def goodness_of_fit(counts: Counts, probabilities: NDArray[np.float64]) -> float:
    """One p-value of three: every value, a few broad bins, and the signs; multiplied by three."""
    fine = chi_square(counts, probabilities.copy(), LEAST_EXPECTED)
    coarse = chi_square(counts, probabilities.copy(), max(LEAST_EXPECTED, counts.total / COARSE_BINS))
    return min(1.0, 3 * min(fine, coarse, sign_test(counts)))


@pytest.fixture(scope="session")
def fit() -> Callable[[Counts, NDArray[np.float64]], float]:
    """The p-value of the goodness of fit."""
    return goodness_of_fit


@pytest.fixture(scope="session")
def draws_for() -> Callable[[float], int]:
    """How many draws a distribution of this standard deviation needs."""
    return lambda deviation: DRAWS_OF_WIDE_DISTRIBUTIONS if deviation >= WIDE_FROM else DRAWS
