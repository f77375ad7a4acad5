"""The two distributions of integer noise, as values: what is drawn, never how.

    discrete Laplace, scale b:            P(X = k) = (1 - q)/(1 + q) q^|k|,  q = exp(-1/b)                        (P-1)
    discrete Gaussian, parameter sigma^2: P(X = k) = exp(-k^2/(2 sigma^2)) / sum over z of exp(-z^2/(2 sigma^2))   (P-2)

Sources: Ghosh, Roughgarden, Sundararajan (2009) for (P-1); Canonne, Kamath, Steinke (2020), definition 1, for (P-2).
Neighbours replace one record, so a query that partitions the cells has L1 sensitivity 2 and squared L2 sensitivity 2:

    pure differential privacy, epsilon spent: b = 2 / epsilon                                                     (P-3)
    zero-concentrated,         rho spent:     sigma^2 = 2 / (2 rho) = 1 / rho                                     (P-4)

Where neighbours replace all records of a contributor who has at most k, these are 2 k and 2 k^2 (lemma 12): b is k
times that of (P-3), and sigma^2 k^2 times that of (P-4).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from das_spark.errors import BudgetError
from das_spark.privacy._fixed_point import Enclosure, enclose, exp_minus
from das_spark.privacy.accounting import Framework

_START_PRECISION: Final = 160
#: Widest parameter of noise: far beyond all counts, and `_START_PRECISION` still holds first bits of its variance.
WIDEST: Final = Fraction(2**128)
_POISSON_FROM: Final = (
    100  # From here on, the variance of (P-2) is sigma^2 to a relative 10^-800; see DiscreteGaussian.variance.
)


@dataclass(frozen=True, slots=True)
class DiscreteLaplace:
    """The two-sided geometric distribution (P-1).

    Args:
        scale: b > 0, exact, in people.

    Raises:
        BudgetError: If the scale is not an exact positive fraction, or beyond `WIDEST`.
    """

    scale: Fraction

    def __post_init__(self) -> None:
        """Refuse anything that is not an exact positive number of usable size."""
        _check_noise(self.scale, "scale of the discrete Laplace distribution")

    @property
    def ratio_exponent(self) -> Fraction:
        """X with q = exp(-x)."""
        return 1 / self.scale

    def variance(self) -> float:
        """2 q / (1 - q)^2 in people^2, correctly rounded."""
        return _correctly_rounded(self._variance_at)

    def _variance_at(self, precision: int) -> Enclosure:
        ratio = exp_minus(self.ratio_exponent, precision)
        complement = ratio.complement()
        return ratio.scaled(2) / complement / complement

    def describe(self) -> str:
        """One line for plans and statements."""
        return f"discrete Laplace, scale {self.scale}, standard deviation {math.sqrt(self.variance()):.6g}"


@dataclass(frozen=True, slots=True)
class DiscreteGaussian:
    """The discrete Gaussian distribution (P-2).

    Args:
        sigma_squared: The parameter, exact, in people^2; not the variance, which is smaller below about 1.

    Raises:
        BudgetError: If the parameter is not an exact positive fraction, or beyond `WIDEST`.
    """

    sigma_squared: Fraction

    def __post_init__(self) -> None:
        """Refuse anything that is not an exact positive number of usable size."""
        _check_noise(self.sigma_squared, "sigma^2 of the discrete Gaussian distribution")

    def variance(self) -> float:
        """The variance in people^2, correctly rounded.

        By Poisson summation it is sigma^2 (1 - d) with 0 < d < 80 sigma^2 exp(-2 pi^2 sigma^2): for a sigma^2 of 100
        or more that is indistinguishable from the number just below sigma^2; below, the two series are summed
        rigorously.
        """
        if self.sigma_squared >= _POISSON_FROM:
            return float(self.sigma_squared * (1 - Fraction(1, 1 << 400)))
        return _correctly_rounded(self._variance_at)

    def _variance_at(self, precision: int) -> Enclosure:
        """Both series of the variance, with a bound on what is left out.

        The sum stops at the first index i with g_i <= 2^-precision. As precision >= 160, i >= 14.8 sigma; then, for
        every sigma < 10, each (i + 1)^2 g_(i+1) is less than half of i^2 g_i, so all that is left out is at most
        twice its first term on either side.
        """
        second = total = enclose(Fraction(0), precision)
        term = exp_minus(Fraction(0), precision)
        ratio = exp_minus(1 / (2 * self.sigma_squared), precision)
        step = exp_minus(1 / self.sigma_squared, precision)
        index = 0
        while term.upper > 1:
            weight = term.scaled(1 if index == 0 else 2)
            second, total = second + weight.scaled(index * index), total + weight
            term, ratio, index = term * ratio, ratio * step, index + 1
        rest = 4 * index * index * term.upper
        return Enclosure(second.lower, second.upper + rest, precision) / Enclosure(
            total.lower, total.upper + rest, precision
        )

    def describe(self) -> str:
        """One line for plans and statements."""
        return f"discrete Gaussian, sigma^2 {self.sigma_squared}, standard deviation {math.sqrt(self.variance()):.6g}"


Mechanism = DiscreteLaplace | DiscreteGaussian


def l1_sensitivity(at_most: int) -> int:
    """By how much all answers of a query at a geolevel change together, where so many records are replaced."""
    return 2 * at_most


def squared_l2_sensitivity(at_most: int) -> int:
    """The sum of the squares of these changes: all records left one answer for another one."""
    return 2 * at_most * at_most


def mechanism_for(framework: Framework, spent: Fraction, at_most: int = 1) -> Mechanism:
    """The distribution that spends exactly this much on one query, by (P-3) and (P-4), without rounding.

    Args:
        framework: What is spent.
        spent: Epsilon or rho, exact, > 0.
        at_most: Most records of one contributor, all of which neighbours replace.
    """
    _check_parameter(spent, "budget spent on a query")
    if framework is Framework.PURE_DP:
        return DiscreteLaplace(l1_sensitivity(at_most) / spent)
    return DiscreteGaussian(squared_l2_sensitivity(at_most) / (2 * spent))


def _check_parameter(value: Fraction, name: str) -> None:
    if not isinstance(value, Fraction):
        raise BudgetError(f"{name}: expected an exact fraction, found {type(value).__name__}")
    if value <= 0:
        raise BudgetError(f"{name}: must be greater than 0, is {value}")


def _check_noise(value: Fraction, name: str) -> None:
    _check_parameter(value, name)
    if value > WIDEST:
        power = value.numerator.bit_length() - value.denominator.bit_length()
        raise BudgetError(
            f"{name}: about 2^{power} is too wide, 2^{WIDEST.numerator.bit_length() - 1} the widest",
            hint="give this query a larger share, or leave it out: such noise tells nothing",
        )


def _correctly_rounded(evaluate: Callable[[int], Enclosure]) -> float:
    """Evaluate with more and more bits until the nearest double is certain."""
    precision = _START_PRECISION
    while True:
        value = evaluate(precision).nearest_float()
        if value is not None:
            return value
        precision *= 2
