"""What a budget means: composition, and conversion of rho into (epsilon, delta).

    rho-zCDP implies (epsilon, delta)-differential privacy for
        delta(epsilon) = inf over a > 1 of exp((a - 1)(a rho - epsilon)) / (a - 1) (1 - 1/a)^a      (P-8)
        epsilon(delta) = rho + 2 sqrt(rho ln(1/delta))                                              (P-9)
    epsilon-differential privacy implies (epsilon^2 / 2)-zCDP                                       (P-10)

Sources: (P-8) Canonne, Kamath, Steinke (2020), corollary 13; (P-9) and (P-10) Bun, Steinke (2016), propositions 1.3
and 1.4. (P-8) is the tighter one. The two are not comparable with each other: say which one a figure follows.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from typing import Final, Protocol

from das_spark.errors import BudgetError

PUBLISHED_DELTA: Final = Fraction(1, 10**10)  # Of every product of the 2020 census.
_BISECTIONS: Final = 200  # More than the bits of a double: every search ends at neighbouring numbers.

_LARGEST_EXPONENT: Final = 700  # beyond, odds exceed a double
_ODDS_STEPS: Final = 40  # epsilons that are tried, four to a standard deviation


class Framework(StrEnum):
    """The two privacy definitions of a budget."""

    PURE_DP = "pure_dp"
    ZCDP = "zcdp"

    @property
    def symbol(self) -> str:
        """What budgets are numbers of: `epsilon` or `rho`."""
        return "epsilon" if self is Framework.PURE_DP else "rho"


class Release(Protocol):
    """Anything that has spent a total within a framework: a budget, an entry of the ledger."""

    @property
    def framework(self) -> Framework:
        """What the total is measured in."""

    @property
    def total(self) -> Fraction:
        """Epsilon or rho, exact."""

    @property
    def at_most(self) -> int:
        """Most records of one contributor, whom the total protects with all of them."""


@dataclass(frozen=True, slots=True)
class Composition:
    """What several releases from one input cost together, under the same neighbours.

    Args:
        epsilon: Exact sum of the epsilons of the releases in pure differential privacy.
        rho: Exact sum of the rhos of the releases in zero-concentrated differential privacy.
        at_most: Records that neighbours replace: the most that any of the releases is made for.
    """

    epsilon: Fraction
    rho: Fraction
    at_most: int = 1

    @property
    def joint_rho(self) -> Fraction | None:
        """The rho that holds for all releases together, by (P-10); None where no release is measured in rho."""
        return None if self.rho == 0 else self.rho + self._epsilon_as_rho

    @property
    def _epsilon_as_rho(self) -> Fraction:
        """The pure releases as rho, composed as one release of their sum."""
        return self.epsilon * self.epsilon / 2

    def joint_epsilon(self, delta: float | Fraction) -> float:
        """An epsilon that holds for all releases together at this delta: the smaller of the two ways to compose.

        Either the pure epsilon is added to the conversion (P-8) of rho, or it is turned into rho first, by (P-10).
        """
        if self.rho == 0:
            return float(self.epsilon)
        separate = float(self.epsilon) + epsilon_cks(self.rho, delta)
        return min(separate, epsilon_cks(self.rho + self._epsilon_as_rho, delta))


def compose(spendings: Iterable[Release]) -> Composition:
    """Add up releases from one input, exactly.

    A release that is made for fewer records of a contributor than another one costs so many times its epsilon, or the
    square of that times its rho, as these go into those (lemma 12): all are summed for the same neighbours.

    Args:
        spendings: The releases, each with its framework, its exact total and the records that it is made for.

    Returns:
        The sum of the epsilons and that of the rhos, apart.
    """
    releases = list(spendings)
    most = max((release.at_most for release in releases), default=1)
    epsilon = rho = Fraction(0)
    for spending in releases:
        times = Fraction(most, spending.at_most)
        if spending.framework is Framework.PURE_DP:
            epsilon += times * spending.total
        else:
            rho += times * times * spending.total
    return Composition(epsilon, rho, most)


def epsilon_cks(rho: Fraction, delta: float | Fraction) -> float:
    """The smallest epsilon of (P-8) at a delta, from above to within double precision.

    Args:
        rho: Exact, > 0. Convert the exact rho, never a rounded one.
        delta: In (0, 1).
    """
    _check_rho(rho)
    target = _log(delta)
    low, high = 0.0, 1.0
    while _log_delta(float(rho), high) > target:
        low, high = high, 2 * high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if _log_delta(float(rho), middle) > target else (low, middle)
    return high


def epsilon_bun_steinke(rho: Fraction, delta: float | Fraction) -> float:
    """The epsilon of (P-9).

    Args:
        rho: Exact, > 0.
        delta: In (0, 1).
    """
    _check_rho(rho)
    return float(rho) + 2 * math.sqrt(-float(rho) * _log(delta))


def odds_by_conversion(framework: Framework, total: Fraction, power: float) -> float:
    """By what factor the odds of a claim go up at most, from the total alone (lemma 13).

    Args:
        framework: What the total is measured in.
        total: Epsilon or rho, exact.
        power: In what part of the cases where it is true the claim is made, in (0, 1].
    """
    if total == 0:
        return 1.0
    if framework is Framework.PURE_DP:
        return math.exp(total) if total < _LARGEST_EXPONENT else math.inf
    rho, best = float(total), math.inf
    for step in range(1, _ODDS_STEPS):
        epsilon = rho + step / 4 * math.sqrt(2 * rho)
        delta = math.exp(min(_log_delta(rho, epsilon), 0.0))
        if delta < power and epsilon < _LARGEST_EXPONENT:
            best = min(best, math.exp(epsilon) * power / (power - delta))
    return best


def _log_delta(rho: float, epsilon: float) -> float:
    """Logarithm of (P-8). Its objective is convex in a: the root of the rising derivative is found by bisection."""
    low, high = 1.0, 2.0
    while _slope(high, rho, epsilon) < 0:
        low, high = high, 2 * high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if not low < middle < high:
            break
        low, high = (middle, high) if _slope(middle, rho, epsilon) < 0 else (low, middle)
    order = high
    return (order - 1) * (order * rho - epsilon) + order * math.log1p(-1 / order) - math.log(order - 1)


def _slope(order: float, rho: float, epsilon: float) -> float:
    return (2 * order - 1) * rho - epsilon + math.log1p(-1 / order)


def _log(delta: float | Fraction) -> float:
    if not 0 < delta < 1:
        raise BudgetError(f"delta must lie between 0 and 1, is {float(delta)}")
    return math.log(delta)


def _check_rho(rho: Fraction) -> None:
    if rho <= 0:
        raise BudgetError(f"rho must be greater than 0, is {rho}")
