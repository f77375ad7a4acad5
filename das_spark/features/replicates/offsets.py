"""Intervals of published counts from replicates: the run done again on its own output, whose errors are known.

A replicate takes the published estimates for the truth, measures them with other noise and estimates again: its error
in a count has nearly the distribution of the unknown error of the published count, whatever estimator, nonnegativity
and rounding did (approximate Monte Carlo, Census Bureau 2025). Nothing but public numbers is used.

Errors are collected by column of a table and by class: of the count itself and of the total of its geounit, as the
*replicate* has them, since that is what a reader of the published count knows. Classes are joined, from the greatest
counts downwards, until they hold enough cases, and the quantiles of `truth - count` in them say how far the truth may
be from a count of the class. Where a level has too few geounits for that, an interval is Student's t times the root
mean square error of the replicates.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.evaluation import error_classes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

#: Least cases of joined classes, and how many of them must lie outside of an interval.
_CASES: Final = 100
_OUTSIDE: Final = 10


@dataclass(frozen=True, slots=True, eq=False)
class ErrorOffsets:
    """How far the truth may be from the counts of one column at one geolevel, by joined classes, ascending.

    Attributes:
        first: First class of each of the n joined classes; shape ``(n,)``, as all others.
        cases: Counts of replicates in it.
        rmse: Root mean square of their errors, people.
        low: The least that the truth is above the count (0 or negative), people.
        high: The most (0 or positive).
    """

    first: Integers
    cases: Integers
    rmse: NDArray[np.float64]
    low: Integers
    high: Integers

    def of(self, classes: Integers) -> Integers:
        """The joined class of each class, as its place; below the first it is the first."""
        found: Integers = np.maximum(np.searchsorted(self.first, classes, side="right") - 1, 0)
        return found


def error_offsets(classes: Integers, differences: Integers, cases: Integers, level: float) -> ErrorOffsets:
    """Offsets of one column at one geolevel.

    Args:
        classes: Of the counts of replicates, shape ``(m,)``.
        differences: What was taken for the truth less the count, people, shape ``(m,)``.
        cases: How many counts have that class and that difference, shape ``(m,)``; at least one in all.
        level: Probability that an interval shall cover the truth, between 0 and 1.
    """
    outside = 1.0 - level
    enough = max(_CASES, ceil(_OUTSIDE / outside))
    order = np.lexsort((differences, classes))
    classes, differences, cases = classes[order], differences[order], cases[order]
    each, start = np.unique(classes, return_index=True)
    people = np.add.reduceat(cases, start)
    joined, waiting = [], 0
    for place in range(len(each) - 1, -1, -1):
        waiting += int(people[place])
        if waiting >= enough:
            joined.append(place)
            waiting = 0
    if waiting and joined:
        joined.pop()
    firsts = [0, *sorted(set(joined) - {0})] if len(each) else []
    ends = [*(int(start[place]) for place in firsts[1:]), len(classes)]
    rows = [
        _offsets(differences[begin:end], cases[begin:end], level, enough)
        for begin, end in zip((int(start[place]) for place in firsts), ends, strict=True)
    ]
    number, rmse, low, high = zip(*rows, strict=True)
    return ErrorOffsets(each[firsts].astype(np.int64), *(np.array(each) for each in (number, rmse, low, high)))


def _offsets(differences: Integers, cases: Integers, level: float, enough: int) -> tuple[int, float, int, int]:
    """Cases, root mean square and both offsets of one joined class."""
    order = np.argsort(differences)
    differences, until = differences[order], np.cumsum(cases[order])
    number = int(until[-1])
    rmse = float(np.sqrt((differences.astype(np.float64) ** 2 @ cases[order]) / number))
    if number < enough:
        from scipy.special import stdtrit  # noqa: PLC0415 - commands that need none start sooner

        reach = ceil(float(stdtrit(number, 0.5 + level / 2)) * rmse)
        return number, rmse, -reach, reach
    # The rank for which a further case lies below with probability (1 - level) / 2 at most, and likewise above.
    rank = floor((number + 1) * (1.0 - level) / 2)
    low = int(differences[np.searchsorted(until, rank)])
    high = int(differences[np.searchsorted(until, number + 1 - rank)])
    return number, rmse, min(low, 0), max(high, 0)


def count_intervals(
    counts: Integers, offsets: Sequence[ErrorOffsets | None]
) -> tuple[NDArray[np.float64], Integers, Integers]:
    """Root mean square errors and intervals of published counts.

    Args:
        counts: Of the c columns of a table, the total first, shape ``(K, c)``.
        offsets: Of each column; None where no replicate has any count of it.

    Returns:
        Root mean square errors, least and greatest counts, each of shape ``(K, c)``; an interval holds its count, and
        negative ends are 0.
    """
    classes = error_classes(counts, counts[:, 0])
    rmse, low, high = np.zeros(counts.shape), counts.copy(), counts.copy()
    for column, offset in enumerate(offsets):
        if offset is None:
            continue
        place = offset.of(classes[:, column])
        rmse[:, column] = offset.rmse[place]
        low[:, column] += offset.low[place]
        high[:, column] += offset.high[place]
    return rmse, np.maximum(low, 0), high
