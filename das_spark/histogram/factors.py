"""The factors of a query: for one attribute, the group of each level.

Neighbouring axes that are all kept, or all summed, behave like one long axis. A query merges them once, into runs, so
that "votingage * hispanic * cenrace" on 8 x 2 x 2 x 63 cells costs one sum over 8 x 252.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import QueryError
from das_spark.histogram.attribute import NO_GROUP


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """Neighbouring axes that act as one: kept whole, summed whole, or one axis with groups.

    Args:
        size: Number of combinations of their levels.
        rows: Number of combinations of their groups.
        kind: How they act.
        group: Group of each level, shape ``(size,)``, for a grouped axis; empty otherwise.
    """

    size: int
    rows: int
    kind: Literal["kept", "summed", "grouped"]
    group: NDArray[np.int64]

    def sorted_groups(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Order a grouped axis for ``np.add.reduceat``.

        Returns:
            The levels ordered by group, without those in none, and where each group begins among them.
        """
        order = np.argsort(self.group, kind="stable")
        order = order[np.count_nonzero(self.group == NO_GROUP) :]
        return order, np.searchsorted(self.group[order], np.arange(self.rows))


def checked_factor(factor: NDArray[Any], size: int, query: str) -> NDArray[np.int64]:
    """Check a factor and take a copy that cannot be changed.

    Args:
        factor: Group of each level.
        size: Number of levels of the attribute.
        query: Name of the query, for the message.

    Returns:
        The groups, read-only, shape ``(size,)``.

    Raises:
        QueryError: When there is not one group a level, or the groups are not 0, 1, ... without a gap.
    """
    group = np.array(factor, dtype=np.int64)
    if group.shape != (size,):
        raise QueryError(f"query {query!r}: a factor of shape {group.shape} for an attribute of {size} levels")
    present = np.unique(group[group != NO_GROUP])
    if not len(present) or not np.array_equal(present, np.arange(len(present))):
        raise QueryError(f"query {query!r}: the groups of a factor are not 0, 1, ... without a gap")
    group.flags.writeable = False
    return group


def merged_runs(factors: Sequence[NDArray[np.int64]]) -> Iterator[Run]:
    """Merge neighbouring axes that are kept, or summed, as a whole; an axis of one level changes nothing.

    Args:
        factors: Checked factors in the order of the axes.

    Yields:
        The runs in the order of the axes.
    """
    waiting: Run | None = None
    for axis in (_single(factor) for factor in factors if len(factor) > 1):
        if waiting is None:
            waiting = axis
        elif waiting.kind == axis.kind != "grouped":
            waiting = Run(waiting.size * axis.size, waiting.rows * axis.rows, axis.kind, axis.group)
        else:
            yield waiting
            waiting = axis
    if waiting is not None:
        yield waiting


def leaves_out(factor: NDArray[np.int64]) -> bool:
    """Whether a level is in no group.

    Args:
        factor: A checked factor.

    Returns:
        Whether there is one.
    """
    return bool((factor == NO_GROUP).any())


def _single(group: NDArray[np.int64]) -> Run:
    size, rows = len(group), int(group.max()) + 1
    nothing = group[:0]
    if rows == size and np.array_equal(group, np.arange(size)):
        return Run(size, rows, "kept", nothing)
    if rows == 1 and not leaves_out(group):
        return Run(size, 1, "summed", nothing)
    return Run(size, rows, "grouped", group)
