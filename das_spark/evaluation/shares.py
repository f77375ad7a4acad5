r"""Two criteria of redistricting, decided exactly, geounit by geounit.

**The largest group.** With :math:`S` and :math:`R` the protected and confidential answers to a query, and *k* the
first place where :math:`S` is largest,

.. math:: d = \left| \frac{S_k}{\sum S} - \frac{R_k}{\sum R} \right|.

It is 0 where both sums are zero. Where exactly one is, it is not defined: such a geounit does not meet the criterion
and enters no mean. This is the relative L1 error of the metrics released with the redistricting data of 2020, which
also takes the group from the *protected* counts: it is the group that a reader of the release would name.

**The total.** :math:`d = |S - R| / \max(1, R)`, of the same metrics; always defined.

The criterion is met where :math:`d \le 5/100`. That is an inequality between integers here: in floating point,
11/20 - 1/2 is more than 5/100.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

#: Largest difference that meets a criterion.
TOLERANCE: Final = Fraction(1, 20)
#: Differences are summed as integers, in this many parts of 1.
PARTS: Final = 10**9


class Differences(NamedTuple):
    """One criterion in every geounit.

    Attributes:
        within: Whether the difference is defined and at most `TOLERANCE`, (K,).
        undefined: Whether there is no difference, (K,).
        parts: The difference in `PARTS`, rounded, (K,); 0 where it is not defined.
    """

    within: NDArray[np.bool_]
    undefined: NDArray[np.bool_]
    parts: NDArray[np.int64]

    def sums(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
        """The three as numbers that add up."""
        return self.within.astype(np.int64), self.undefined.astype(np.int64), self.parts


def largest_share(
    geounits: int, owner: NDArray[np.int64], truth: NDArray[np.int64], estimate: NDArray[np.int64]
) -> Differences:
    """Compare the share of the largest group.

    Args:
        geounits: How many geounits there are, K.
        owner: Geounit of each answer, (n,), ascending; in a geounit, answers ascend by their place in the query.
        truth: Confidential answers, (n,), nonnegative; answers that are zero in both may be missing.
        estimate: Protected answers, (n,), nonnegative.
    """
    sums = np.zeros((2, geounits), dtype=np.int64)
    np.add.at(sums[0], owner, truth)
    np.add.at(sums[1], owner, estimate)
    largest = np.zeros((2, geounits), dtype=np.int64)
    if len(owner):
        chosen = _first_largest(owner, estimate)
        largest[0, owner[chosen]], largest[1, owner[chosen]] = truth[chosen], estimate[chosen]
    undefined = (sums[0] == 0) != (sums[1] == 0)
    wide = _products_fit(sums)
    (true_sum, sum_), (true, protected) = (sums, largest) if wide else (sums.astype(object), largest.astype(object))
    return _compared(np.abs(protected * true_sum - true * sum_), sum_ * true_sum, undefined)


def relative_error(truth: NDArray[np.int64], estimate: NDArray[np.int64]) -> Differences:
    """Compare totals.

    Args:
        truth: Confidential totals, (K,), nonnegative.
        estimate: Protected totals, (K,), nonnegative.
    """
    return _compared(np.abs(estimate - truth), np.maximum(truth, 1), np.zeros(len(truth), dtype=np.bool_))


def _first_largest(owner: NDArray[np.int64], estimate: NDArray[np.int64]) -> NDArray[np.intp]:
    """Of each geounit that has answers, where its first largest one is."""
    starts = np.flatnonzero(np.diff(owner, prepend=-1))
    lengths = np.diff(starts, append=len(owner))
    tops = np.flatnonzero(estimate == np.repeat(np.maximum.reduceat(estimate, starts), lengths))
    return tops[np.unique(owner[tops], return_index=True)[1]]


def _products_fit(sums: NDArray[np.int64]) -> bool:
    """Whether what is multiplied and compared below fits 64 bits; only a level of few geounits can be larger."""
    return TOLERANCE.denominator * int(sums[0].max(initial=0)) * int(sums[1].max(initial=0)) < 2**63


def _compared(numerator: NDArray[Any], denominator: NDArray[Any], undefined: NDArray[np.bool_]) -> Differences:
    """From integer fractions; those with denominator 0 are 0 unless they are undefined."""
    within = (numerator * TOLERANCE.denominator <= denominator * TOLERANCE.numerator).astype(np.bool_) & ~undefined
    difference = (numerator / np.maximum(denominator, 1)).astype(np.float64)
    parts = np.rint(np.where(undefined, 0.0, difference) * PARTS).astype(np.int64)
    return Differences(within, undefined, parts)
