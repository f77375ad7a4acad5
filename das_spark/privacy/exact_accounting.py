"""What mechanisms cost together, exactly: certified bounds on delta at epsilon, on epsilon at delta, and on trade-offs.

One record is replaced. At a query of a geolevel its old row loses 1 and its new row gains 1, under independent noise: a
run is the composition of its mechanisms, each twice, shifted by 1 (lemma 13). With rho_i = 1/sigma_i^2 (discrete
Gaussian) and a_i = 1/b_i (discrete Laplace), and L the sum of the privacy losses under the first population,

    discrete Gaussian: loss rho_i/2 + rho_i x, x of the distribution (P-2)                                       (P-11)
    discrete Laplace:  loss a_i with probability 1/(1 + exp(-a_i)), else -a_i                                    (P-12)
    delta(epsilon) = E max(0, 1 - exp(epsilon - L))                                                              (P-13)

With M(s) = E exp(sL), the product of those of the mechanisms, and s = theta + iu, any theta > 0, (P-13) is the integral

    delta(epsilon) = exp(-theta epsilon) / (2 pi) Int M(s) / (s (s + 1)) exp(-i u epsilon) du                    (P-14)

It is summed at u = k D, |k| <= K. Nothing is put on a grid of losses, so no loss is rounded. The error budget:

- **Spacing.** By Poisson's summation formula the infinite sum is delta(epsilon) + sum over n <> 0 of exp(theta n W)
  delta(epsilon + n W), W = 2 pi / D. All terms are positive, so the sum itself is an upper bound. Those of n < 0 are
  at most exp(-theta |n| W); those of n > 0 are bounded by Chernoff's delta(y) <= c(t) M(t) exp(-t y) with
  c(t) = t^t / (1 + t)^(1 + t), at a t > theta.
- **Truncation.** |M(theta + iu)| <= M(theta), and so what is left out is at most 2 M(theta) / (D U), U = K D, before
  the factors that all terms share. Better: a mechanism that stands twice contributes f(u) = |M_i|^2 / M_i(theta)^2, of
  period P = 2 pi sigma_i^2, decreasing on its half period (as is every factor |1 + q exp(iu/sigma_i^2)| of Jacobi's
  triple product), and with the integral P sum_k p_k^2 over a period (Parseval; p the tilted probabilities). D times the
  sum of a unimodal function at distances D exceeds its integral by D max f at most.
- **Terms dropped** within |k| <= K because some factors are small already: by the product of these factors.
- **Floating point.** Every factor is at most 1 after division by its value at u = 0, so that errors of factors add up:
  to 8 ulps a factor, plus what the rounding of phases and of reductions modulo P does (growing with u). These are
  summed with the absolute values of the terms; a factor of four in the ulp covers the functions of the C library.

theta is the saddle point, where the integrand is positive and smooth: this is the exponential tilting without which no
digit of a delta of 1e-10 would be left.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from functools import cached_property, lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import BudgetError
from das_spark.privacy.accounting import Framework, odds_by_conversion
from das_spark.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, Mechanism
from das_spark.privacy.trade_off import TradeOffCurve

if TYPE_CHECKING:
    from das_spark.privacy.budget import Budget

Floats = NDArray[np.float64]
Complexes = NDArray[np.complex128]

#: Four units in the last place: what one elementary function of the C library may be wrong by, with a wide margin.
_ULP: Final = 2.0**-50
_FEWEST_POINTS: Final = 1 << 12
_MOST_POINTS: Final = 1 << 18
#: Relative width of the bounds on an epsilon at which the search for better ones ends.
_ACCURACY: Final = 1e-6
#: Below this rho_i only the nearest wrapped term counts (the others are below exp(-61)); above the other one, sums
#: over integers converge faster than those over periods.
_ONE_TERM: Final = 0.08
_DIRECT: Final = 4.0
_REACH: Final = 7  #: integers on either side of the tilted mean: what is left out is below exp(-4 * 6.5^2 / 2)

_MOST_PATHS: Final = 128  # of a spine, of which all 8,256 pairs are tried
_NEARLY: Final = 1 + Fraction(1, 10**7)  # how near to the largest factor the search ends
#: Of claims: in what part of the cases where they are true they are made.
POWERS: Final = (Fraction(1, 2), Fraction(1, 100), Fraction(1, 10000))


@dataclass(frozen=True, slots=True)
class Bounds:
    """Certified bounds: what is bounded lies between them. A claim quotes `high`."""

    low: float
    high: float


@dataclass(frozen=True)
class ExactComposition:
    """Mechanisms that are composed, each shifted by one between neighbours.

    Args:
        parts: Mechanisms, each once, and how many times it is composed.
    """

    parts: tuple[tuple[Mechanism, int], ...]

    def delta(self, epsilon: float) -> Bounds:
        """Bounds on delta at epsilon, any real number."""
        if epsilon < 0:  # by symmetry of the two populations
            other = self.delta(-epsilon)
            return Bounds(*(-math.expm1(epsilon) + math.exp(epsilon) * each for each in (other.low, other.high)))
        return _delta(self, epsilon, _FINE)

    def epsilon(self, delta: float | Fraction) -> Bounds:
        """Bounds on the smallest epsilon >= 0 at which delta is enough.

        Args:
            delta: In (0, 1).
        """
        if not 0 < delta < 1:
            raise BudgetError(f"delta must lie between 0 and 1, is {float(delta)}")
        return _epsilon(self, float(delta))

    def type_two_error(self, type_one: float) -> Bounds:
        """Bounds on the trade-off function (f-DP): the least type II error of tests whose type I error is this.

        Args:
            type_one: Probability of taking the first population for the second, in [0, 1].
        """
        low, high = self.trade_off(np.array(type_one))
        return Bounds(float(low), float(high))

    def trade_off(self, type_one: Floats) -> tuple[Floats, Floats]:
        """Bounds on the trade-off function of a whole grid, at the cost of one: some tenths of a second.

        Args:
            type_one: Type I errors, in [0, 1], of any shape.

        Returns:
            Lower and upper bounds on the least type II errors, of the same shape. Between them lies less than 1 % of
            the type II error and of the power, down to 1e-8 of each, for many answers; for a few coarse ones more.
        """
        if not self.parts:
            return 1 - type_one, 1 - type_one
        return _curve(self).bounds(type_one)

    def odds(self, power: float) -> float:
        """How many times more probable, at most, a claim is where it is true than where it is not.

        Whoever looks at the outputs and claims that a record is this one and not that one, and makes the claim with
        probability `power` where it is true, makes it with probability at least `power` / odds where it is not. So what
        he thought the odds to be, before he made the claim, goes up by this factor at most.

        Args:
            power: In (0, 1].
        """
        moments = self._moments
        best = math.exp(self.largest_loss) if self.largest_loss < _LARGEST_EXPONENT else math.inf
        # Every epsilon bounds it. Best is about the loss that is exceeded with this probability.
        middle = moments.mean + moments.deviation * NormalDist().inv_cdf(min(max(1 - power, 1e-300), 1 - 1e-15))
        for times in (-0.2, 0.0, 0.2):
            epsilon = max(middle + times * moments.deviation, 0.0)
            delta = _delta(self, epsilon, _COARSE).high
            if delta < power and epsilon < _LARGEST_EXPONENT:
                best = min(best, math.exp(epsilon) * power / (power - delta) * (1 + _ULP))
        return best

    @property
    def largest_loss(self) -> float:
        """The epsilon at which delta is 0, from above; infinite with Gaussian noise."""
        if self._largest is None:
            return math.inf
        nearest = float(self._largest)
        return nearest if nearest >= self._largest else math.nextafter(nearest, math.inf)

    @cached_property
    def _largest(self) -> Fraction | None:
        if any(isinstance(mechanism, DiscreteGaussian) for mechanism, _ in self.parts):
            return None
        return sum((count * _loss_unit(mechanism) for mechanism, count in self.parts), Fraction(0))

    @cached_property
    def _moments(self) -> _Moments:
        return _Moments(self.parts)

    def _inversion(self, theta: float, epsilon: float, points: int) -> _Inversion:
        return _Inversion(self, theta, epsilon, points)


@dataclass(frozen=True)
class PairsOfPaths(ExactComposition):
    """The worst pair of paths, where geounits have shares of their own: bounds hold for every pair (lemma 14).

    Args:
        parts: The mechanisms of one of the paths, twice.
        ways: Of every path its mechanisms, each once, and how many times it is composed.
    """

    ways: tuple[tuple[tuple[Mechanism, int], ...], ...] = ()

    @cached_property
    def _largest(self) -> Fraction | None:
        found = [_of_counts(way)._largest for way in self.ways]
        return None if None in found else 2 * max(each for each in found if each is not None)

    @cached_property
    def _moments(self) -> _Moments:
        return _PairMoments(self.ways)

    def _inversion(self, theta: float, epsilon: float, points: int) -> _Inversion:
        return _PairInversion(self, theta, epsilon, points)


_LARGEST_EXPONENT: Final = 700.0  # beyond, odds exceed a double
_LONGEST: Final = 4000.0  # of the period, in units of 1/theta
_END_OF_CURVE: Final = 1e-12
_END_OF_TRADE_OFFS: Final = 600.0
_START_OF_CURVE: Final = 8  #: standard deviations of the loss below its mean: delta is 1 there to 15 digits
_STEPS: Final = 24  #: to a standard deviation of the loss, or to its root where that is smaller
_MOST_STEPS: Final = 2000
_REACH_OF_THETA: Final = 0.5  #: standard deviations of the loss within which one theta serves
_FINE: Final = 1e-4  #: relative width of bounds on delta
_COARSE: Final = 1e-2
_CLOSE: Final = 1e-3  #: of those on delta and on 1 - delta, from which trade-offs are made
_MOST_OF_CURVE: Final = 1 << 14


def compose_exactly(
    budgets: Iterable[Budget], levels: Container[str] | None = None, queries: Container[str] | None = None
) -> ExactComposition | None:
    """The composition of all that runs measure, for neighbours that differ in one record of each.

    Args:
        budgets: Of the runs, whose geounits have the shares that stand there.
        levels: Geolevels at which neighbours differ at all; None for all.
        queries: Queries whose answers differ at all; None for all.

    Returns:
        The composition; None where a contributor has several records and noise is Gaussian: of that, lemma 12 knows
        divergences alone, and the conversions stand.
    """
    given = list(budgets)
    most = max((each.at_most for each in given), default=1)
    if most > 1 and any(each.framework is Framework.ZCDP for each in given):
        return None
    return _of_counts(
        (_shifted(budget.mechanism(level.geolevel, item.query), most), 2)
        for budget in given
        for level in budget.levels
        for item in level.queries
        if (levels is None or level.geolevel in levels) and (queries is None or item.query in queries)
    )


def compositions_of(
    budget: Budget,
    paths: Sequence[Sequence[Fraction]] = (),
    levels: Container[str] | None = None,
    queries: Container[str] | None = None,
) -> tuple[ExactComposition, ...]:
    """The compositions of which the worst is the cost of a run.

    Args:
        budget: Of the run.
        paths: All shares that occur on a path from the top to a lowest geounit, root first, where geounits have shares
            of their own: the old record may lie on any of them, and the new one too.
        levels: Geolevels at which neighbours differ at all; None for all.
        queries: Queries whose answers differ at all; None for all.

    Returns:
        One, with paths that of their worst pair; none where that is not known (see `compose_exactly`), or paths are of
        more than `_MOST_PATHS` kinds.
    """
    return compositions_together([(budget, paths)], levels, queries)


def compositions_together(
    given: Sequence[tuple[Budget, Sequence[Sequence[Fraction]]]],
    levels: Container[str] | None = None,
    queries: Container[str] | None = None,
) -> tuple[ExactComposition, ...]:
    """The same of several runs, each with its paths; a record may lie on any path of each.

    Args:
        given: Budgets of the runs, each with its paths as of `compositions_of`; empty where all geounits of a level
            have its share.
        levels: As of `compositions_of`.
        queries: As of `compositions_of`.
    """
    most = max((budget.at_most for budget, _ in given), default=1)
    if most > 1 and any(budget.framework is Framework.ZCDP for budget, _ in given):
        return ()
    ways: list[Counter[Mechanism]] = [Counter()]
    for budget, paths in given:
        own = _greatest(
            Counter(
                _shifted(budget.mechanism_at(level.geolevel, item.query, share), most)
                for share, level in zip(path, budget.levels, strict=True)
                for item in level.queries
                if share and (levels is None or level.geolevel in levels) and (queries is None or item.query in queries)
            )
            for path in paths or [[level.share for level in budget.levels]]
        )
        if len(ways) * len(own) > _MOST_PATHS:
            return ()
        ways = [before + more for before in ways for more in own]
    made = tuple(_of_counts(way.items()).parts for way in ways)
    twice = _of_counts((mechanism, 2 * count) for mechanism, count in made[0])
    return (twice if len(made) == 1 else PairsOfPaths(twice.parts, made),)


def _greatest(ways: Iterable[Counter[Mechanism]]) -> list[Counter[Mechanism]]:
    """Paths that do not have a part of the mechanisms of another one: that is post-processing of the other."""
    kept: list[Counter[Mechanism]] = []
    for way in sorted(ways, key=Counter.total, reverse=True):
        if not any(way <= other for other in kept):
            kept.append(way)
    return kept


def worst_epsilon(compositions: Sequence[ExactComposition], delta: float | Fraction) -> Bounds | None:
    """Bounds on the epsilon of the worst; None of none."""
    found = [composition.epsilon(delta) for composition in compositions]
    return Bounds(max(each.low for each in found), max(each.high for each in found)) if found else None


def worst_trade_off(compositions: Sequence[ExactComposition], type_one: Floats) -> tuple[Floats, Floats]:
    """Bounds on what the trade-off functions of at least one composition have in common: the least at each error."""
    found = [composition.trade_off(type_one) for composition in compositions]
    return np.min([low for low, _ in found], axis=0), np.min([high for _, high in found], axis=0)


def worst_odds(compositions: Sequence[ExactComposition], framework: Framework, total: Fraction) -> tuple[float, ...]:
    """By what factor the odds of a claim go up at most, for each of `POWERS`; of none, by the conversion (P-8)."""
    if compositions:
        return tuple(max(composition.odds(float(power)) for composition in compositions) for power in POWERS)
    return tuple(odds_by_conversion(framework, total, float(power)) for power in POWERS)


def totals_at(budgets: Sequence[Budget], epsilon: Fraction, delta: Fraction) -> tuple[Fraction, ...]:
    """The totals that budgets may have, all increased or decreased in the same proportion, at a claimed epsilon.

    Args:
        budgets: Of the runs.
        epsilon: That all may cost together at delta by their exact composition, > 0.
        delta: In (0, 1).

    Returns:
        Totals, rounded down to six digits, of which the certified upper end is at most epsilon.

    Raises:
        BudgetError: If epsilon is not positive, or no exact composition is known.
    """
    if epsilon <= 0:
        raise BudgetError(f"epsilon must be greater than 0, is {epsilon}")

    def totals(times: Fraction) -> list[Fraction]:
        return [_rounded_down(times * budget.total) for budget in budgets]

    def costs(asked: Sequence[Fraction]) -> float:
        made = [replace(budget, total=total) for budget, total in zip(budgets, asked, strict=True)]
        composed = compose_exactly(made)
        if composed is None:
            raise BudgetError(
                "no exact composition is known of Gaussian noise for several records of a contributor",
                hint="choose the total by a published conversion",
            )
        return composed.epsilon(delta).high

    low = high = Fraction(1)
    while costs(totals(high)) <= epsilon:
        low, high = high, 2 * high
    while costs(totals(low)) > epsilon:
        low, high = low / 2, low
    while high / low > _NEARLY:
        middle = (low + high) / 2
        low, high = (middle, high) if costs(totals(middle)) <= epsilon else (low, middle)
    return tuple(totals(low))


def _rounded_down(value: Fraction) -> Fraction:
    """To six digits."""
    exponent = 6 - len(str(int(value))) if value >= 1 else 5 - math.floor(math.log10(value))
    scale = Fraction(10) ** exponent
    return Fraction(math.floor(value * scale)) / scale


def rounded_up(value: float, digits: int | None = None) -> str:
    """A number rounded up, as an upper bound is said; by default to four digits after the point, or six below 1."""
    if digits is None:
        digits = 4 if value >= 1 else 6
    return str(Decimal(value).quantize(Decimal(1).scaleb(-digits), ROUND_CEILING))


def _of_counts(counts: Iterable[tuple[Mechanism, int]]) -> ExactComposition:
    """The composition of mechanisms; equal ones are counted together, and their order does not matter."""
    summed: Counter[Mechanism] = Counter()
    for mechanism, count in counts:
        summed[mechanism] += count
    ordered = sorted(summed.items(), key=lambda each: (type(each[0]).__name__, -_loss_unit(each[0])))
    return ExactComposition(tuple((mechanism, count) for mechanism, count in ordered if count))


def _shifted(mechanism: Mechanism, most: int) -> Mechanism:
    """What is shifted by one, and costs as much as this noise where answers change by so many together (lemma 13)."""
    return DiscreteLaplace(mechanism.scale / most) if isinstance(mechanism, DiscreteLaplace) else mechanism


def _loss_unit(mechanism: Mechanism) -> Fraction:
    return 1 / (mechanism.scale if isinstance(mechanism, DiscreteLaplace) else mechanism.sigma_squared)


class _Moments:
    """Logarithm of M at real arguments, and the numbers of the mechanisms as arrays."""

    def __init__(self, parts: Sequence[tuple[Mechanism, int]]) -> None:
        gaussian = [(each, count) for each, count in parts if isinstance(each, DiscreteGaussian)]
        laplace = [(each, count) for each, count in parts if isinstance(each, DiscreteLaplace)]
        self.rho = np.array([float(_loss_unit(each)) for each, _ in gaussian])
        self.rho_counts = np.array([count for _, count in gaussian], dtype=np.float64)
        self.half = np.array([float(_loss_unit(each)) for each, _ in laplace])
        self.half_counts = np.array([count for _, count in laplace], dtype=np.float64)
        self.factors = int(self.rho_counts.sum() + self.half_counts.sum())
        self.shifted = int(self.rho_counts[self.rho >= _ONE_TERM].sum())  # those of several terms, with phases of theta
        self.offset = float((self.rho_counts * self.rho).sum()) / 2  # rho in all
        self.reach = float((self.half_counts * self.half).sum())
        self.deviation = math.sqrt(2 * self.offset + float((self.half_counts * self.half**2).sum()))
        self.mean = self.offset + float((self.half_counts * self.half * np.tanh(self.half / 2)).sum())

    def log(self, theta: float) -> float:
        """Logarithm of M(theta)."""
        return float(_log_of_products(theta, self.rho, self.rho_counts, self.half, self.half_counts))

    def saddle(self, theta: float) -> tuple[float, float]:
        """The epsilon of which theta is the saddle point, and ln delta there to first order; neither is relied on."""
        step = 1e-3 * theta
        low, middle, high = (self.log(each) for each in (theta - step, theta, theta + step))
        slope = (high - low) / (2 * step) - 1 / theta - 1 / (1 + theta)
        curvature = max((high - 2 * middle + low) / step**2, 0.0) + theta**-2 + (1 + theta) ** -2
        level = middle - theta * slope - math.log(theta) - math.log1p(theta) - math.log(2 * math.pi * curvature) / 2
        return slope, level

    def theta_of(self, epsilon: float | None = None, log_delta: float | None = None) -> float:
        """The saddle point of an epsilon, or of a delta."""
        low, high = math.log(1e-4 / (self.deviation + 1)), math.log(1e5 / min(self.deviation, 1.0))
        for _ in range(18):
            middle = (low + high) / 2
            slope, level = self.saddle(math.exp(middle))
            more = slope < epsilon if epsilon is not None else level > (log_delta or 0.0)
            low, high = (middle, high) if more else (low, middle)
        return math.exp(high)


class _PairMoments(_Moments):
    """The largest of every pair of paths, each of which has its own."""

    def __init__(self, ways: Sequence[Sequence[tuple[Mechanism, int]]]) -> None:
        self.ways = [_Moments(way) for way in ways]
        self.factors = 2 * max(way.factors for way in self.ways)
        self.shifted = 2 * max(way.shifted for way in self.ways)
        self.offset = 2 * max(way.offset for way in self.ways)
        self.reach = 2 * max(way.reach for way in self.ways)
        self.deviation = math.sqrt(2) * max(way.deviation for way in self.ways)
        self.mean = 2 * max(way.mean for way in self.ways)
        self.rho, self._rho_of_ways = _table([(way.rho, way.rho_counts) for way in self.ways])
        self.half, self._half_of_ways = _table([(way.half, way.half_counts) for way in self.ways])

    def logs(self, theta: float) -> Floats:
        """Logarithm of M(theta) of each path."""
        return _log_of_products(theta, self.rho, self._rho_of_ways, self.half, self._half_of_ways)

    def log(self, theta: float) -> float:
        """Logarithm of the largest M(theta): that of two equal paths, as the product of two is at most a square."""
        return 2 * float(self.logs(theta).max())


def _table(given: Sequence[tuple[Floats, Floats]]) -> tuple[Floats, Floats]:
    """All values that occur, and how many of each every row has."""
    values = np.unique(np.concatenate([row for row, _ in given]))
    counts = np.zeros((len(given), len(values)))
    for at, (row, count) in enumerate(given):
        np.add.at(counts[at], np.searchsorted(values, row), count)
    return values, counts


def _log_of_products(theta: float, rho: Floats, rho_counts: Floats, half: Floats, half_counts: Floats) -> Floats:
    """Logarithm of M(theta) of mechanisms, or of several products of them: counts have a row for each."""
    found = half_counts @ (theta * half + _log_ratio(half, theta)) + (rho_counts @ rho) / 2 * theta * (theta + 1)
    wrapped = rho < _DIRECT
    found = found + rho_counts[..., wrapped] @ _log_wrapped(rho[wrapped], theta)
    result: Floats = found + rho_counts[..., ~wrapped] @ _log_direct(rho[~wrapped], theta)
    return result


def _log_ratio(half: Floats, theta: float) -> Floats:
    found: Floats = np.log1p(np.exp(-(1 + 2 * theta) * half)) - np.log1p(np.exp(-half))
    return found


def _log_wrapped(rho: Floats, theta: float) -> Floats:
    """Logarithm of the theta function at theta over that at 0, by Poisson summation."""
    at, zero = np.ones_like(rho), np.ones_like(rho)
    for n in (1, 2, 3):
        term = 2 * np.exp(-2 * math.pi**2 * n * n / rho)
        at, zero = at + term * math.cos(2 * math.pi * n * (theta % 1)), zero + term
    found: Floats = np.log(at) - np.log(zero)
    return found


def _log_direct(rho: Floats, theta: float) -> Floats:
    """The same, by the sums over the integers near the mean."""
    if not len(rho):
        return rho
    near = np.arange(-_REACH, _REACH + 1.0) + round(theta)
    column = rho[:, None]
    gap = column * ((near - theta) ** 2 / 2)
    least = gap.min(axis=1, keepdims=True)
    at = np.log(np.exp(least - gap).sum(axis=1)) - least[:, 0]
    zero = np.log(np.exp(-column * np.arange(-_REACH, _REACH + 1.0) ** 2 / 2).sum(axis=1))
    found: Floats = at - zero
    return found


class _Inversion:
    """The sum at one theta, spacing and number of points, for epsilons near the one that it was made for."""

    def __init__(self, composition: ExactComposition, theta: float, epsilon: float, points: int) -> None:
        self._moments = moments = composition._moments
        self._theta, self._points = theta, points
        self._log_at_theta = moments.log(theta)
        _, level = moments.saddle(theta)
        self._period = (max(-level, 0.0) + 22) / theta
        while self._right(epsilon) > math.exp(min(level, 0.0) - 22) and self._period * theta < _LONGEST:
            self._period *= 1.2
        self._spacing = 2 * math.pi / self._period
        self._fill()

    def _fill(self) -> None:
        """The terms that are not negligible, and bounds on what is wrong with the sum."""
        theta, moments = self._theta, self._moments
        u = self._spacing * np.arange(1.0, self._points + 1)
        value: NDArray[Any] = theta * (theta + 1) / ((theta + 1j * u) * (theta + 1 + 1j * u))
        size: Floats = np.abs(value)
        self._left_out = 0.0
        floor = 1e-19 * max(1.0, min(theta, 1 / moments.deviation) / self._spacing) / self._points
        for rho, count in _in_order(moments, float(u[-1])):
            factor, most = _gaussian(rho, count, theta, u)
            value, size = np.multiply(value, factor), np.multiply(size, most)
            u, value, size = self._pruned(u, value, size, floor)
        for half, count in zip(moments.half, moments.half_counts, strict=True):
            odds = math.tanh((1 + 2 * theta) * half / 2)  # p - (1 - p) of the tilted probability p
            value *= (np.cos(half * u) + 1j * odds * np.sin(half * u)) ** int(count)
        self._u, self._value = u, value
        self._wrong, self._wrong_turning = self._errors(u, size, moments.rho, moments.rho_counts)

    def _errors(self, u: Floats, size: Floats, rhos: Floats, counts: Floats, part: float = 1.0) -> tuple[float, float]:
        """What is wrong with the sum, and with it for each unit by which its phases are turned.

        Mechanisms are those of which truncation is bounded; the sum begins with this part of M(theta).
        """
        theta, moments = self._theta, self._moments
        total, rho, factors = float(size.sum()), moments.offset, moments.factors
        reduced = np.minimum(2 * rho * u, math.pi * factors) * (2 * u + theta)
        turned = 8 * factors + theta * moments.shifted + reduced + 2 * (rho * theta + moments.reach) * u
        wrong = 2 * float((size * turned).sum()) * _ULP + self._points * _ULP * (1 + 2 * total)
        tail = self._tail(self._points * self._spacing, rhos, counts)
        wrong += part * 2 * theta * (theta + 1) / self._spacing * tail
        return wrong + 2 * self._left_out, 2 * float((size * u).sum()) * _ULP

    def _pruned(self, u: Floats, value: Complexes, size: Floats, floor: float) -> tuple[Floats, Complexes, Floats]:
        kept = size > floor
        if kept.sum() > 0.9 * len(u):
            return u, value, size
        self._left_out += float(size[~kept].sum())
        return u[kept], value[kept], size[kept]

    def _tail(self, end: float, rhos: Floats, counts: Floats) -> float:
        """Bound on D sum over k > K of |M(theta + i k D)| / M(theta) / (k D)^2."""
        best = 1 / end
        for rho, count in zip(rhos.tolist(), counts.tolist(), strict=True):
            if count > 1:
                best = min(best, self._tail_by(rho, end))
        return best

    def _tail_by(self, rho: float, end: float) -> float:
        """The same by one mechanism that stands twice: over the periods that follow."""
        period = 2 * math.pi / rho
        collision = 1.0
        if rho < _DIRECT:  # Parseval: the sum of squared tilted probabilities
            above, below = (2.3 * math.exp(-each * math.pi**2 / rho) for each in (1, 2))
            collision = min(1.0, math.sqrt(rho / (4 * math.pi)) * (1 + above) / (1 - below) ** 2)
        cell = self._spacing + period * collision
        number = round(end / period)
        begun = 0.0
        if number == 0:  # the rest of the first half period, where f decreases
            begun = (1.01 * math.exp(-rho * end * end) + 1e-25 if rho < _ONE_TERM else 1.0) / end
            number = 1
        first = max(end, (number - 0.5) * period)
        return begun + cell * (1 / first**2 + 1 / (period**2 * (number - 0.5)))

    def delta(self, epsilon: float) -> Bounds:
        """Bounds on delta."""
        theta, moments = self._theta, self._moments
        exponents = (self._log_at_theta, -theta * epsilon, -math.log(theta), -math.log1p(theta))
        if sum(exponents) > _LARGEST_EXPONENT:  # far from the epsilon that theta is for
            return Bounds(0.0, 1.0)
        scale = math.exp(sum(exponents)) / self._period
        total = self._total(self._u * (moments.offset - epsilon))
        wrong = self._wrong + self._wrong_turning * (moments.offset + abs(epsilon))
        magnitude = sum(map(abs, exponents)) + moments.offset * theta * (theta + 1) + moments.reach * theta
        relative = _ULP * (8 * moments.factors + 2 * magnitude + 10)
        high = scale * (1 + relative) * (total + wrong)
        low = scale * (1 - relative) * (total - wrong) - self._left() - self._right(epsilon)
        return Bounds(min(max(low, 0.0), 1.0), min(max(high, 0.0), 1.0))

    def _total(self, phase: Floats) -> float:
        """The sum over all k."""
        return 1 + 2 * float((self._value.real * np.cos(phase) - self._value.imag * np.sin(phase)).sum())

    def _left(self) -> float:
        return math.exp(-self._theta * self._period) / -math.expm1(-self._theta * self._period) * (1 + 1e-9)

    def _right(self, epsilon: float) -> float:
        """Chernoff's bound on the terms of n > 0, at the best of some orders."""
        best = math.inf
        for times in (1.25, 1.5, 2.0, 3.0, 5.0, 9.0):
            order = self._theta * times
            gap = (order - self._theta) * self._period
            constant = order * math.log(order) - (1 + order) * math.log1p(order)
            exponent = constant + self._moments.log(order) - order * epsilon - gap
            best = min(best, math.exp(min(exponent, 700.0)) / -math.expm1(-gap))
        return best * (1 + 1e-9)


class _PairInversion(_Inversion):
    """The same sum of every pair of paths, at the same points: as a product of matrices (lemma 14)."""

    _moments: _PairMoments

    def _fill(self) -> None:
        theta, ways = self._theta, self._moments.ways
        u = self._spacing * np.arange(1.0, self._points + 1)
        weight: NDArray[Any] = theta * (theta + 1) / ((theta + 1j * u) * (theta + 1 + 1j * u))
        # Each path in parts of the largest M(theta); and the phase of its mean loss, where it is not the largest.
        parts = np.exp(self._moments.logs(theta) - self._log_at_theta / 2).tolist()
        values = [
            part * np.exp(1j * (way.offset - self._moments.offset / 2) * u)
            for part, way in zip(parts, ways, strict=True)
        ]
        sizes: list[Floats] = [np.full(len(u), part) for part in parts]
        self._left_out = 0.0
        floor = 1e-19 * max(1.0, min(theta, 1 / self._moments.deviation) / self._spacing) / self._points
        factors = [_in_order(way, float(u[-1])) for way in ways]
        for turn in range(max(map(len, factors))):
            for at, listed in enumerate(factors):
                if turn < len(listed):
                    factor, most = _gaussian(*listed[turn], theta, u)
                    values[at], sizes[at] = values[at] * factor, sizes[at] * most
            largest = np.abs(weight) * np.max(sizes, axis=0) ** 2
            kept = largest > floor
            if kept.sum() <= 0.9 * len(u):  # what two paths leave out, their larger square does
                self._left_out += float(largest[~kept].sum())
                u, weight = u[kept], weight[kept]
                values, sizes = [value[kept] for value in values], [size[kept] for size in sizes]
        for at, way in enumerate(ways):
            for half, count in zip(way.half, way.half_counts, strict=True):
                odds = math.tanh((1 + 2 * theta) * half / 2)
                values[at] = values[at] * (np.cos(half * u) + 1j * odds * np.sin(half * u)) ** int(count)
        self._u, self._weight, self._values, self._parts = u, weight, np.array(values), np.array(parts)
        # By Cauchy and Schwarz, what is wrong with a pair is at most what is wrong with one of its paths twice.
        found = [
            self._errors(u, np.abs(weight) * size**2, way.rho, 2 * way.rho_counts, part**2)
            for part, size, way in zip(parts, sizes, ways, strict=True)
        ]
        self._wrong, self._wrong_turning = max(wrong for wrong, _ in found), max(turning for _, turning in found)

    def _total(self, phase: Floats) -> float:
        """The sum over all k, of the pair where it is greatest."""
        turned = self._values * (self._weight * np.exp(1j * phase))
        return float((np.outer(self._parts, self._parts) + 2 * (turned @ self._values.T).real).max())


def _in_order(moments: _Moments, farthest: float) -> list[tuple[float, float]]:
    """Parameter and count of each discrete Gaussian, the smallest first; those are one whose period is not left."""
    rho, counts = moments.rho, moments.rho_counts
    together = (rho < _ONE_TERM) & (rho * farthest < math.pi)
    found = sorted(zip(rho[~together].tolist(), counts[~together].tolist(), strict=True))
    joint = float((rho * counts)[together].sum())
    return [(joint, 0.0), *found] if joint else found


def _gaussian(rho: float, count: float, theta: float, u: Floats) -> tuple[Complexes, Floats]:
    """The factor of a discrete Gaussian over that at u = 0, without the phase of its mean loss; and a bound on it.

    By Poisson summation it is a wrapped Gaussian: a sum over n of exp(-rho v^2/2 + i theta rho v), v = u - n P.
    """
    if count == 0:  # several, within their first half period
        exponent = -rho * u * u / 2
        return np.exp(exponent + 1j * theta * rho * u), np.exp(exponent)
    period = 2 * math.pi / rho
    v = u - period * np.rint(u / period)
    if rho < _ONE_TERM:
        exponent = -count * rho * v * v / 2
        return np.exp(exponent + 1j * (count * theta * rho) * v), np.exp(exponent)
    if rho < _DIRECT:
        shifts = period * np.arange(-3.0, 4.0)[:, None]
        terms = np.exp(-rho * (v - shifts) ** 2 / 2 + 1j * theta * rho * (v - shifts))
        norm = float(np.exp(-rho * shifts**2 / 2 - 1j * theta * rho * shifts).sum().real)
        return (terms.sum(axis=0) / norm) ** int(count), np.minimum(1.0, np.abs(terms).sum(axis=0) / norm) ** count
    near = np.arange(-_REACH, _REACH + 1.0) + round(theta)
    gap = rho * (near - theta) ** 2 / 2
    weights = np.exp(gap.min() - gap)
    turned = np.exp(1j * rho * near[:, None] * v)  # rho v n is rho u n up to whole turns
    return (weights @ turned / weights.sum()) ** int(count), np.ones_like(v)


@lru_cache(maxsize=1 << 12)
def _delta(composition: ExactComposition, epsilon: float, accuracy: float) -> Bounds:
    if composition._largest is not None and epsilon >= composition._largest:
        return Bounds(0.0, 0.0)
    moments = composition._moments
    theta = moments.theta_of(epsilon=epsilon)
    points = _FEWEST_POINTS
    while True:
        found = composition._inversion(theta, epsilon, points).delta(epsilon)
        if found.high - found.low <= accuracy * found.high or points >= _MOST_POINTS:
            return found
        points *= 4


def _deltas(composition: ExactComposition, epsilons: Floats) -> list[Bounds]:
    """Bounds on delta at rising epsilons, close beside delta and 1 - delta both; neighbours share a theta."""
    moments, found = composition._moments, list[Bounds]()
    while len(found) < len(epsilons):
        start = epsilons[len(found)]
        near = [
            float(epsilon)
            for epsilon in epsilons[len(found) :]
            if epsilon <= start + _REACH_OF_THETA * moments.deviation
        ]
        middle = near[len(near) // 2]
        theta, points = moments.theta_of(epsilon=middle), _FEWEST_POINTS
        while True:
            inversion = composition._inversion(theta, middle, points)
            bounds = [inversion.delta(each) for each in near]
            wide = any(bound.high - bound.low > _CLOSE * min(bound.high, 1 - bound.low) for bound in bounds)
            if not wide or points >= _MOST_OF_CURVE:
                break
            points *= 4
        found += bounds
    return found


@lru_cache(maxsize=1 << 8)  # statement, ledger, rehearsal and verification of one run ask for the same ones
def _curve(composition: ExactComposition) -> TradeOffCurve:
    """Bounds on the trade-off function, at the epsilons where it bends."""
    moments = composition._moments
    last = min(composition.epsilon(_END_OF_CURVE).high, _END_OF_TRADE_OFFS)
    first = min(max(moments.mean - _START_OF_CURVE * moments.deviation, 0.0), last / 2)
    step = min(moments.deviation, math.sqrt(moments.deviation)) / _STEPS
    epsilons = np.linspace(first, last, max(4, min(math.ceil((last - first) / step), _MOST_STEPS)))
    deltas = _deltas(composition, epsilons)
    if composition.largest_loss <= _END_OF_TRADE_OFFS:  # where delta is 0
        kept = epsilons < composition.largest_loss
        epsilons = np.append(epsilons[kept], composition.largest_loss)
        deltas = [*deltas[: kept.sum()], Bounds(0.0, 0.0)]
    return TradeOffCurve(
        epsilons, np.array([delta.low for delta in deltas]), np.array([delta.high for delta in deltas])
    )


@lru_cache(maxsize=1 << 10)
def _epsilon(composition: ExactComposition, delta: float) -> Bounds:
    if not composition.parts or _delta(composition, 0.0, _COARSE).high <= delta:
        return Bounds(0.0, 0.0)
    moments, largest = composition._moments, composition.largest_loss
    theta = moments.theta_of(log_delta=math.log(delta))
    about = max(moments.saddle(theta)[0], 0.0)
    points = _FEWEST_POINTS
    while True:
        inversion = composition._inversion(theta, about, points)
        at = inversion.delta(about)
        enough = (at.high - at.low) / max(at.high, 1e-300) <= _ACCURACY * theta * about
        if enough or points >= _MOST_POINTS:
            break
        points *= 4
    # The given delta is rounded to a double: allow for that on either side.
    high = _crossing(lambda each: inversion.delta(each).high <= delta * (1 - _ULP), about, 1 / theta, largest)
    low = _crossing(lambda each: inversion.delta(each).low < delta * (1 + _ULP), about, 1 / theta, largest)
    return Bounds(low[0], min(high[1], largest))


def _crossing(holds: Callable[[float], bool], about: float, step: float, largest: float) -> tuple[float, float]:
    """Two neighbouring numbers, nearly: where a condition that holds from somewhere on does not hold, and does."""
    low = high = about
    while not holds(high):
        if high >= largest:
            return low, largest
        low, high = high, high + step
        step *= 2
    while low > 0 and holds(low):
        high, low = low, max(low - step, 0.0)
        step *= 2
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return low, high
