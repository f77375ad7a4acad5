r"""What a run claims about privacy, and how far two frequencies of one event contradict it.

Exact confidence limits on the probability of an event that was seen s times in n independent runs are

    low(s, n, a)  = the p at which s or more are seen with probability a; 0 where s = 0                    (V-1)
    high(s, n, a) = the p at which s or fewer are seen with probability a; 1 where s = n                   (V-2)

Each is wrong with probability a at most, whatever the true p. Source: Clopper and Pearson (1934); both are quantiles of
beta distributions, Beta(s, n - s + 1) and Beta(s + 1, n - s), which scipy.special has as functions of arrays, where
scipy.stats.binomtest takes one count at a time.

Let an event have probability at least p under one input and at most q under its neighbour, p > q. Then

    epsilon >= ln((p - delta) / q)                                    under (epsilon, delta)                 (V-3)
    rho     >= sup over a > 1 of D_a(p, q) / a                        under rho-zCDP                         (V-4)

with D_a the Renyi divergence of order a between the two distributions of seeing the event or not (KL for a -> 1).
(V-3) is the definition of differential privacy; (V-4) is that of Bun and Steinke (2016), definition 1.1, after
post-processing to one bit. (V-4) loses nothing: whatever (epsilon, delta) the conversion of rho promises holds for two
such distributions as well, so what contradicts it by (V-3) contradicts rho by (V-4).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betainccinv, betaincinv

from das_spark.errors import InputError
from das_spark.privacy import PUBLISHED_DELTA, Budget, Framework, epsilon_cks

Floats = NDArray[np.float64]

#: Orders a of (V-4): each of them alone gives a valid bound, and so does the largest.
_ORDERS: Final = 1.0 + np.logspace(-4, 4, 257)


def lower_limit(seen: ArrayLike, runs: int, alpha: float) -> NDArray[np.float64]:
    """The probability that is exceeded with confidence 1 - alpha (V-1)."""
    counts = _checked(seen, runs, alpha)
    found = betaincinv(np.maximum(counts, 1.0), runs - counts + 1.0, alpha)
    return np.where(counts == 0, 0.0, found)


def upper_limit(seen: ArrayLike, runs: int, alpha: float) -> NDArray[np.float64]:
    """The probability that is not exceeded with confidence 1 - alpha (V-2)."""
    counts = _checked(seen, runs, alpha)
    found = betainccinv(counts + 1.0, np.maximum(runs - counts, 1.0), alpha)
    return np.where(counts == runs, 1.0, found)


def _checked(seen: ArrayLike, runs: int, alpha: float) -> NDArray[np.float64]:
    counts = np.asarray(seen, dtype=np.float64)
    if runs < 1 or (counts.size and (counts.min() < 0 or counts.max() > runs)):
        raise InputError(f"an event is seen between 0 and {runs} times in {runs} runs, of which there is one at least")
    if not 0 < alpha < 1:
        raise InputError(f"a probability of being wrong lies between 0 and 1, is {alpha}")
    return counts


@dataclass(frozen=True, slots=True)
class Claim:
    """The privacy loss that a run claims."""

    framework: Framework  # what the total is measured in
    total: Fraction  # epsilon or rho, exact
    delta: Fraction  # the delta at which rho is also told as an epsilon; 0 in pure differential privacy

    @classmethod
    def of(cls, budget: Budget, delta: Fraction = PUBLISHED_DELTA) -> Claim:
        """The claim of a budget."""
        return cls(budget.framework, budget.total, Fraction(0) if budget.framework is Framework.PURE_DP else delta)

    @property
    def currency(self) -> str:
        """What the total and its bounds are numbers of."""
        return self.framework.symbol

    @property
    def epsilon(self) -> float:
        """The claimed epsilon at delta: the total itself, or the conversion (P-8) of rho."""
        if self.framework is Framework.PURE_DP:
            return float(self.total)
        return epsilon_cks(self.total, self.delta)

    def bound(self, low: Floats, high: Floats) -> Floats:
        """Lower bound on the total: by (V-3) with delta 0, or by (V-4)."""
        if self.framework is Framework.PURE_DP:
            return epsilon_bound(low, high, 0.0)
        return rho_bound(low, high)

    def epsilon_bound(self, low: Floats, high: Floats) -> Floats:
        """Lower bound on epsilon at the delta of the claim (V-3); arguments as for `bound`."""
        return epsilon_bound(low, high, float(self.delta))


def epsilon_bound(low: Floats, high: Floats, delta: float) -> Floats:
    """Lower bound on epsilon (V-3), 0 where nothing is shown."""
    excess = np.asarray(low, dtype=np.float64) - delta
    shown = (excess > 0) & (excess > high)
    ratio = np.divide(excess, high, out=np.ones_like(excess), where=shown)
    return np.log(ratio)


def rho_bound(low: Floats, high: Floats) -> Floats:
    """Lower bound on rho (V-4), 0 where nothing is shown."""
    p, q = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    shown = p > q
    # The divergence grows with p and shrinks with q while p > q, so the corner of the two limits is the least.
    p, q = np.where(shown, p, 0.5)[..., None], np.where(shown, q, 0.5)[..., None]
    seen = _ORDERS * np.log(p) + (1 - _ORDERS) * np.log(q)
    unseen = _ORDERS * np.log1p(-p) + (1 - _ORDERS) * np.log1p(-q)
    divergence = np.logaddexp(seen, unseen) / (_ORDERS - 1)
    bound: Floats = np.maximum(divergence / _ORDERS, 0.0).max(axis=-1)
    return np.where(shown, bound, 0.0)
