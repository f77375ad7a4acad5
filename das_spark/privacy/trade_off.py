"""Trade-off functions (f-DP) from certified bounds on delta at some epsilons.

The least type II error of tests whose type I error is alpha is, over all epsilons of either sign (Dong, Roth, Su 2022),

    f(alpha) = sup of 1 - delta(epsilon) - exp(epsilon) alpha                                                  (P-15)

Where the two populations are symmetrical, exp(epsilon) (1 - delta(-epsilon)) = exp(epsilon) - 1 + delta(epsilon), so
that an epsilon >= 0 bounds twice: as it stands, and by exp(-epsilon) (1 - delta(epsilon) - alpha). Each epsilon gives a
lower bound. For upper ones, delta is bounded from below between the points: it is a convex, decreasing function of
x = exp(epsilon), and so lies above every chord that is prolonged beyond its ends. Of the chords on either side of an
interval that makes a polygon, on each edge of which both expressions are monotone: the greatest value at a corner
bounds both. The gap shrinks with the square of the distance of the points; noise on one lattice, of which delta is such
a polygon itself, leaves none.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: By how much a bound on delta is widened: more than the rounding of all that is computed of it here.
_ROUNDING: Final = 2.0**-48
_FARTHEST: Final = 1e290


class TradeOffCurve:
    """The trade-off function of which delta is known at some epsilons.

    Args:
        epsilons: At least three, >= 0, rising, none above 600.
        low: Certified lower bounds on delta there.
        high: Certified upper bounds on delta there.
    """

    def __init__(self, epsilons: Floats, low: Floats, high: Floats) -> None:
        """Lay the polygon."""
        x, below, above = np.exp(epsilons), low - _ROUNDING, high + _ROUNDING
        self._x, self._above = x, above
        self._corner_x, self._corner = _corners(x, below, above)

    def bounds(self, type_one: Floats) -> tuple[Floats, Floats]:
        """Lower and upper bounds on the least type II errors at type I errors, of the same shape."""
        alpha = np.asarray(type_one, dtype=np.float64)
        least = _greatest(alpha.ravel(), self._x, self._above)
        most = _greatest(alpha.ravel(), self._corner_x, self._corner)
        most = np.minimum(most * (1 + _ROUNDING), 1 - alpha.ravel())
        least = np.minimum(np.maximum(least * (1 - _ROUNDING), 0.0), most)
        return least.reshape(alpha.shape), most.reshape(alpha.shape)


def _greatest(alpha: Floats, x: Floats, delta: Floats) -> Floats:
    """The greatest of both expressions over points."""
    return np.array([max((1 - delta - x * each).max(), ((1 - delta - each) / x).max()) for each in alpha])


def _corners(x: Floats, below: Floats, above: Floats) -> tuple[Floats, Floats]:
    """A convex polygon that delta as a function of x >= 1 does not go below.

    A chord between two points, prolonged, is lowest with delta at its nearer end as small, at its farther as large, as
    may be.
    """
    # By symmetry, delta at 1/x follows from that at x: a chord from there leads to the first point, if that is at 1.
    beforehand = (1 - (1 - above[1]) / x[1], 1 / x[1]) if x[0] == 1 else (1.0, 0.0)
    farther, farther_x = np.append(beforehand[0], above[:-1]), np.append(beforehand[1], x[:-1])
    rightward = (below - farther) / (x - farther_x)  # slope beyond each point, by the chord that ends there
    leftward = np.minimum((above[1:] - below[:-1]) / (x[1:] - x[:-1]), 0.0)  # slope before each point but the last
    start, end = slice(0, -2), slice(1, -1)  # intervals that have a chord on either side
    gap = x[end] - x[start]
    above_chord = below[start] - (below[end] - leftward[1:] * gap)  # how far the left point lies above the right chord
    turn = leftward[1:] - rightward[:-2]
    at = np.clip(np.where(turn > 0, above_chord / np.where(turn > 0, turn, 1.0), 0.0), 0.0, gap)
    # Wherever the two are said to meet, the lower of them is a corner of a polygon below both.
    meet = np.minimum(below[start] + rightward[:-2] * at, below[end] + leftward[1:] * (at - gap))
    # In the last interval there is one chord, from the left; beyond it the last one, until it is zero.
    last = below[-2] + rightward[-2] * (x[-1] - x[-2])
    zero = min(x[-1] + max(below[-1], 0.0) / max(-rightward[-1], 1e-300) * (1 - _ROUNDING), _FARTHEST)
    # Before the first point, if that is not at 1, there is the first chord from the right.
    first = below[0] + leftward[0] * (1 - x[0])
    corner_x = np.concatenate([[1.0], x, x[start] + at, [x[-1], zero]])
    corner = np.concatenate([[first], below, meet, [last, 0.0]])
    return corner_x, corner - _ROUNDING * np.abs(corner)
