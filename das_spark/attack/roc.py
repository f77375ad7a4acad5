"""Empirical ROC curves, and the trade-off curves that the accountant claims: which of the two lies above, and surely.

A test tells one population from another; its type I error is how often it takes the first for the second, its type II
error how often it takes the second for the first. A claim is a trade-off function f: no test of type I error a has a
type II error below f(a), and f decreases. Errors are counted at thresholds that are fixed before anything is drawn.
With exact limits (V-1), (V-2) of Clopper and Pearson on each,

    f(high_I) > high_II                                                                                          (T-2)

contradicts the claim: since a <= high_I and b <= high_II, f(a) >= f(high_I) > b. And low_II > f(low_I) shows that the
test is worse than the best one that the claim allows. With C curves of m thresholds there are 4 C m limits, of which
each is wrong with probability alpha / (4 C m), so that all of them hold with probability 1 - alpha, whatever depends on
whatever (Bonferroni).

Why not the band of Dvoretzky, Kiefer, Wolfowitz and Massart: it holds at all thresholds, but is as wide everywhere, and
so says nothing of probabilities below sqrt(ln(2 C / alpha) / 2 n), 0.6 % at 100,000 draws. What is published of a
person leaks in the tails first: the limits here are narrow there, to about 15 / n.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.audit.claim import lower_limit, upper_limit
from das_spark.report import Axis, Curve, Figure, Panel

if TYPE_CHECKING:
    from das_spark.privacy import ExactComposition

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Type I errors at which the claimed curve is drawn and summed: as many from either end, by decades.
_DRAWN: Final = 160
_SMALLEST: Final = -7.0  # of their decimal logarithms


@dataclass(frozen=True, slots=True)
class JudgedCurve:
    """An empirical ROC curve over the curve that is claimed for it. Entries go by threshold, from type I errors of 0.

    Args:
        name: What is told apart.
        draws: Independent draws under either population.
        type_one: Shares of the draws of the first population that are taken for the second.
        type_two: Shares of the draws of the second that are taken for the first.
        type_one_limits: Simultaneous limits, lower and upper, of the probability.
        type_two_limits: The same of the other.
        claimed: The least type II errors that the claim allows beside `type_one`, lower and upper bounds.
        excess: Largest f(high_I) - high_II by (T-2); above 0 the claim is refuted.
        slack: Largest low_II - f(low_I); above 0 the best test that the claim allows is better than this one.
        auc: Area under the curve (power against type I error).
        claimed_auc: The largest that the claim allows.
        advantage: Largest power minus type I error.
        claimed_advantage: The largest that the claim allows.
        claimed_curve: Points of the claimed curve, type I and type II errors, to be drawn.
    """

    name: str
    draws: int
    type_one: tuple[float, ...]
    type_two: tuple[float, ...]
    type_one_limits: tuple[tuple[float, float], ...]
    type_two_limits: tuple[tuple[float, float], ...]
    claimed: tuple[tuple[float, float], ...]
    excess: float
    slack: float
    auc: float
    claimed_auc: float
    advantage: float
    claimed_advantage: float
    claimed_curve: tuple[tuple[float, float], ...]

    @property
    def convicts(self) -> bool:
        """Whether the curve contradicts the claim."""
        return self.excess > 0

    @property
    def touches(self) -> bool:
        """Whether the curve may be the claimed one itself: nowhere is it surely above."""
        return self.slack <= 0

    @property
    def finding(self) -> str:
        """In a few words."""
        if self.convicts:
            return "below the claim: REFUTED"
        return "on the claimed curve" if self.touches else "above the claimed curve"


@dataclass(frozen=True, slots=True)
class Counted:
    """How often a test went wrong, threshold by threshold, in so many draws under either population.

    Args:
        name: What is told apart.
        draws: Of each population.
        taken: (m,) draws of the first population that are taken for the second, ascending.
        missed: (m,) draws of the second that are taken for the first, descending.
        claim: The composition that bounds what can be told apart.
    """

    name: str
    draws: int
    taken: Integers
    missed: Integers
    claim: ExactComposition


def judge_curves(counted: Sequence[Counted], alpha: float) -> tuple[JudgedCurve, ...]:
    """Lay empirical curves over what is claimed.

    Args:
        counted: Curves, of any numbers of thresholds.
        alpha: With what probability any of all limits may be wrong.
    """
    own = alpha / max(1, 4 * sum(len(each.taken) for each in counted))
    return tuple(_judged(each, own) for each in counted)


def _judged(counted: Counted, alpha: float) -> JudgedCurve:
    draws = counted.draws
    one, two = counted.taken / draws, counted.missed / draws
    limits = [
        (lower_limit(seen, draws, alpha), upper_limit(seen, draws, alpha)) for seen in (counted.taken, counted.missed)
    ]
    (least_one, most_one), (least_two, most_two) = limits
    low, high = counted.claim.trade_off(one)
    at_most, _ = counted.claim.trade_off(most_one)
    _, at_least = counted.claim.trade_off(least_one)
    grid = _grid()
    claimed, _ = counted.claim.trade_off(grid)
    return JudgedCurve(
        name=counted.name,
        draws=draws,
        type_one=_plain(one),
        type_two=_plain(two),
        type_one_limits=tuple(zip(_plain(least_one), _plain(most_one), strict=True)),
        type_two_limits=tuple(zip(_plain(least_two), _plain(most_two), strict=True)),
        claimed=tuple(zip(_plain(low), _plain(high), strict=True)),
        excess=float((at_most - most_two).max()),
        slack=float((least_two - at_least).max()),
        auc=_area(one, two),
        claimed_auc=_area(grid, claimed),
        advantage=float(np.max(1 - one - two, initial=0.0)),
        claimed_advantage=counted.claim.delta(0.0).high,
        claimed_curve=tuple(zip(_plain(grid), _plain(claimed), strict=True)),
    )


def _grid() -> Floats:
    """Type I errors from 0 to 1, close together at both ends."""
    ends = np.logspace(_SMALLEST, np.log10(0.5), _DRAWN)
    return np.concatenate([[0.0], ends, 1 - ends[-2::-1], [1.0]])


def _area(one: Floats, two: Floats) -> float:
    """Area under the line through points of an ROC curve and its two ends."""
    across = np.concatenate([[0.0], one, [1.0]])
    up = 1 - np.concatenate([[1.0], two, [0.0]])
    return float((np.diff(across) * (up[1:] + up[:-1])).sum() / 2)


def _plain(values: Floats) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=np.float64).tolist())


def roc_figure(curves: Sequence[JudgedCurve], title: str, caption: str) -> Figure:
    """Empirical curves below the claimed ones, a panel each, on axes on which the tail reads.

    Args:
        curves: Which.
        title: Of the figure.
        caption: What they are; how they are drawn is added.
    """
    return Figure(f"{caption} {_DRAWING}", tuple(map(_panel, curves)), columns=2, legend="above", title=title)


_DRAWING: Final = (
    "Power (1 less the type II error) against type I error, both on logarithmic axes, since leaks show first where type"
    " I errors are rare; the other tail mirrors this one. The grey curve is the largest power that the exact accountant"
    " allows. Dots are shares of the draws at thresholds that were fixed before. The dashed line joins lower limits of"
    " the power over upper limits of the type I error: where it rises above the grey curve, the claim is refuted."
)


def _panel(curve: JudgedCurve) -> Panel:
    low = 10.0 ** np.floor(np.log10(1 / curve.draws))
    # What was never seen has no place on a logarithmic axis.
    seen = _points(zip(curve.type_one, curve.type_two, strict=True), low)
    limits = _points(
        ((one, two) for (_, one), (_, two) in zip(curve.type_one_limits, curve.type_two_limits, strict=True)), low
    )
    claimed = _points(curve.claimed_curve, low)
    return Panel(
        (
            Curve(*claimed, "claimed: no test lies above", color=None),
            Curve(*limits, "limits", color=1, stroke="dashed"),
            Curve(*seen, "likelihood ratio", color=0, stroke="none", marker=0, size=3),
        ),
        x=Axis("type I error", "decades", low, 1.0),
        y=Axis("power", "decades", low, 1.0),
        title=curve.name,
    )


def _points(errors: Iterable[tuple[float, float]], low: float) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Type I errors and powers that an axis shows."""
    shown = [(one, 1 - two) for one, two in errors if one >= low and 1 - two >= low]
    return tuple(one for one, _ in shown), tuple(power for _, power in shown)
