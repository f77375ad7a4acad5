r"""Linear counting queries, held as one small factor an attribute.

A query asks for the sums of a histogram over groups of cells. Its matrix is a Kronecker product

.. math:: Q = F_0 \otimes F_1 \otimes \dots \otimes F_{k-1}, \qquad F_i \in \{0, 1\}^{m_i \times n_i},

where :math:`n_i` is the number of levels of attribute *i*, :math:`m_i` its number of groups, and each level is in at
most one group, so every column of :math:`F_i` holds at most one 1 (Abowd et al. 2022, "The 2020 Census Disclosure
Avoidance System TopDown Algorithm", query groups). Hence every *cell* counts in at most one answer, and the whole
query is a function from cells to answers: :meth:`Query.row_of`. The matrix itself is never made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import InputError, QueryError

NO_GROUP = -1
"""The group of a level that belongs to no group: what is counted nowhere in a query."""


@dataclass(frozen=True, slots=True, eq=False)
class Restriction:
    """What is left of a query on a set of cells.

    Args:
        rows: Answers that the cells touch, sorted and unique, shape ``(r,)``.
        index: Position in ``rows`` of the answer of each cell, shape ``(n,)``; -1 for a cell that no answer counts.
    """

    rows: NDArray[np.int64]
    index: NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """A counting query on the cells of a schema; two queries are equal when shape and factors are.

    Args:
        name: Canonical spelling, in the order of the axes.
        shape: Number of levels of each attribute.
        factors: For each attribute the group of each level, shape ``(shape[i],)``; groups are 0, 1, ... without a
            gap, and -1 marks a level that is not counted. All zeros sums over the attribute, ``arange`` keeps it.

    Raises:
        QueryError: When factors and shape do not fit, or a factor has a gap or no group at all.
    """

    name: str
    shape: tuple[int, ...]
    factors: tuple[NDArray[np.int64], ...]
    _runs: tuple[_Run, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the factors, make them read-only and merge axes."""
        if len(self.factors) != len(self.shape):
            raise QueryError(f"query {self.name!r} has {len(self.factors)} factors for {len(self.shape)} attributes")
        pairs = zip(self.factors, self.shape, strict=True)
        factors = tuple(_checked_factor(factor, size, self.name) for factor, size in pairs)
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "_runs", tuple(_merged_runs(factors)))

    @property
    def size(self) -> int:
        """Number of cells."""
        return prod(self.shape)

    @property
    def rows(self) -> int:
        """Number of answers."""
        return prod(run.rows for run in self._runs)

    def row_of(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Say for each cell in which answer it counts.

        Args:
            cells: Flat cell indices in ``[0, size)``, shape ``(n,)``, in any order.

        Returns:
            Answer index of each cell, shape ``(n,)``; -1 for a cell that counts nowhere.
        """
        rest = np.asarray(cells).astype(np.int64)
        rows = np.zeros(rest.shape, dtype=np.int64)
        outside = np.zeros(rest.shape, dtype=np.bool_)
        stride, row_stride = self.size, self.rows
        for run in self._runs:
            stride //= run.size
            row_stride //= run.rows
            code, rest = np.divmod(rest, stride) if stride > 1 else (rest, rest)
            if run.kind == "summed":
                continue
            group = code if run.kind == "kept" else run.group[code]
            rows += group * row_stride
            if run.kind == "grouped":
                outside |= group == NO_GROUP
        rows[outside] = NO_GROUP
        return rows

    def answer(self, cells: NDArray[np.integer[Any]], counts: NDArray[np.integer[Any]]) -> NDArray[np.int64]:
        """Answer on a sparse histogram, exactly, in integers.

        Args:
            cells: Flat cell indices, shape ``(n,)``; a repeated cell counts with all its counts.
            counts: People or units of each cell, shape ``(n,)``.

        Returns:
            The answers, shape ``(rows,)``. Exact while the sum of all counts fits int64, as `Histogram` ensures.
        """
        answers = np.zeros(self.rows, dtype=np.int64)
        _add_at(answers, self.row_of(cells), counts)
        return answers

    def answer_dense(self, array: NDArray[Any]) -> NDArray[Any]:
        """Answer on dense histograms.

        Args:
            array: Values of all cells, shape ``(..., size)``. Integers are summed as int64; floats keep their type.

        Returns:
            The answers, shape ``(..., rows)``, in an array of their own.

        Raises:
            InputError: When the last axis is not the number of cells.
        """
        values = np.asarray(array)
        self._check_last_axis(values, self.size, "cells")
        if values.dtype.kind in "biu":
            values = values.astype(np.int64, copy=False)
        front = values.shape[:-1]
        values = values.reshape((*front, *(run.size for run in self._runs)))
        for axis, run in enumerate(self._runs, start=len(front)):
            if run.kind == "summed":
                values = values.sum(axis=axis, keepdims=True)
            elif run.kind == "grouped":
                order, starts = run.sorted_groups()
                values = np.add.reduceat(np.take(values, order, axis=axis), starts, axis=axis)
        return _apart(values.reshape((*front, self.rows)), array)

    def restrict(self, cells: NDArray[np.integer[Any]]) -> Restriction:
        """Restrict the query to a support.

        Args:
            cells: Flat cell indices, shape ``(n,)``.

        Returns:
            The answers that the cells touch, and the position of each cell's answer among them.
        """
        touched = self.row_of(cells)
        counted = touched != NO_GROUP
        rows, position = np.unique(touched[counted], return_inverse=True)
        index = np.full(touched.shape, NO_GROUP, dtype=np.int64)
        index[counted] = position
        return Restriction(rows=rows, index=index)

    def answers_in(self, coarser: Query) -> NDArray[np.int64] | None:
        """In which answer of a coarser query each answer counts.

        Args:
            coarser: A query on the same cells.

        Returns:
            Answer of the coarser query, shape ``(rows,)``, -1 where it counts nowhere; None where the answers of that
            query are no sums of answers of this one.
        """
        if coarser.shape != self.shape:
            return None
        found = np.zeros((), dtype=np.int64)
        outside = np.zeros((), dtype=np.bool_)
        for mine, theirs in zip(self.factors, coarser.factors, strict=True):
            group = np.full(int(mine.max()) + 1, NO_GROUP, dtype=np.int64)
            counted = mine != NO_GROUP
            group[mine[counted]] = theirs[counted]
            if (group[mine[counted]] != theirs[counted]).any() or (theirs[~counted] != NO_GROUP).any():
                return None
            found = found[..., None] * (int(theirs.max()) + 1) + group
            outside = outside[..., None] | (group == NO_GROUP)
        return np.where(outside, NO_GROUP, found).ravel()

    def uncut_by(self, other: Query) -> tuple[Query, NDArray[np.int64]] | None:
        """Return the query of those answers whose cells all count in one answer of another query, or all in none.

        An answer is told by its groups of levels: it is uncut where each of its groups lies in one group of the other.

        Args:
            other: A query on the same cells.

        Returns:
            The query, of the same name, and which answers of this one its answers are, in order; None without any.
        """
        factors, whole = [], np.ones((), dtype=np.bool_)
        for mine, theirs in zip(self.factors, other.factors, strict=True):
            groups = int(mine.max()) + 1
            first = np.full(groups, NO_GROUP, dtype=np.int64)
            counted = mine != NO_GROUP
            first[mine[counted]] = theirs[counted]
            kept = np.bincount(mine[counted], theirs[counted] != first[mine[counted]], groups) == 0
            factors.append(np.where(counted & kept[mine], (np.cumsum(kept) - 1)[mine], NO_GROUP))
            whole = whole[..., None] & kept
        if not whole.any():
            return None
        return Query(self.name, self.shape, tuple(factors)), np.flatnonzero(whole.ravel())

    @property
    def is_partition(self) -> bool:
        """Whether every cell counts in exactly one answer."""
        return not any(_leaves_out(factor) for factor in self.factors)

    def involves(self, axis: int) -> bool:
        """Whether a change of this attribute alone can change the answers: its factor has at least two groups.

        Levels that count nowhere are a group of their own here: who moves out of a selection changes its count.

        Returns:
            Whether the query tells anything of the attribute.
        """
        return bool((self.factors[axis] != self.factors[axis][0]).any())

    def __eq__(self, other: object) -> bool:
        """Equal shapes and factors, whatever the names."""
        if not isinstance(other, Query):
            return NotImplemented
        return self.shape == other.shape and all(map(np.array_equal, self.factors, other.factors))

    def __hash__(self) -> int:
        """Agree with equality."""
        return hash((self.shape, *(factor.tobytes() for factor in self.factors)))

    def _check_last_axis(self, array: NDArray[Any], expected: int, what: str) -> None:
        if array.ndim == 0 or array.shape[-1] != expected:
            raise InputError(
                f"query {self.name!r} needs {expected} {what} in the last axis, not an array of shape {array.shape}"
            )


def _apart(result: NDArray[Any], given: NDArray[Any]) -> NDArray[Any]:
    """Copy a result that is only a view of what was given, so that writing to one never changes the other."""
    return result.copy() if np.may_share_memory(result, given) else result


def _add_at(answers: NDArray[np.int64], rows: NDArray[np.int64], counts: NDArray[np.integer[Any]]) -> None:
    """Add each count to its answer; unlike ``bincount`` with weights this never goes through floats."""
    counted = rows != NO_GROUP
    np.add.at(answers, rows[counted], np.asarray(counts).astype(np.int64, copy=False)[counted])


@dataclass(frozen=True, slots=True, eq=False)
class _Run:
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
        """Order a grouped axis for ``np.add.reduceat``."""
        order = np.argsort(self.group, kind="stable")
        order = order[np.count_nonzero(self.group == NO_GROUP) :]
        return order, np.searchsorted(self.group[order], np.arange(self.rows))


def _checked_factor(factor: NDArray[Any], size: int, query: str) -> NDArray[np.int64]:
    """A factor as a read-only copy, checked: one group a level, 0, 1, ... without a gap."""
    group = np.array(factor, dtype=np.int64)
    if group.shape != (size,):
        raise QueryError(f"query {query!r}: a factor of shape {group.shape} for an attribute of {size} levels")
    present = np.unique(group[group != NO_GROUP])
    if not len(present) or not np.array_equal(present, np.arange(len(present))):
        raise QueryError(f"query {query!r}: the groups of a factor are not 0, 1, ... without a gap")
    group.flags.writeable = False
    return group


def _merged_runs(factors: Sequence[NDArray[np.int64]]) -> Iterator[_Run]:
    """Merge neighbouring axes that are kept, or summed, as a whole; an axis of one level changes nothing."""
    waiting: _Run | None = None
    for axis in (_single(factor) for factor in factors if len(factor) > 1):
        if waiting is None:
            waiting = axis
        elif waiting.kind == axis.kind != "grouped":
            waiting = _Run(waiting.size * axis.size, waiting.rows * axis.rows, axis.kind, axis.group)
        else:
            yield waiting
            waiting = axis
    if waiting is not None:
        yield waiting


def _leaves_out(factor: NDArray[np.int64]) -> bool:
    """Whether a level is in no group."""
    return bool((factor == NO_GROUP).any())


def _single(group: NDArray[np.int64]) -> _Run:
    size, rows = len(group), int(group.max()) + 1
    nothing = group[:0]
    if rows == size and np.array_equal(group, np.arange(size)):
        return _Run(size, rows, "kept", nothing)
    if rows == 1 and not _leaves_out(group):
        return _Run(size, 1, "summed", nothing)
    return _Run(size, rows, "grouped", group)
