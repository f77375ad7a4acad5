r"""Linear counting queries, held as one small factor an attribute.

A query asks for the sums of a histogram over groups of cells. Its matrix is a Kronecker product

.. math:: Q = F_0 \otimes F_1 \otimes \dots \otimes F_{k-1}, \qquad F_i \in \{0, 1\}^{m_i \times n_i},

where :math:`n_i` is the number of levels of attribute *i*, :math:`m_i` its number of groups, and each level is in at
most one group, so every column of :math:`F_i` holds at most one 1 (Abowd et al. 2022, "The 2020 Census Disclosure
Avoidance System TopDown Algorithm", query groups). Hence every *cell* counts in at most one answer, and the whole
query is a function from cells to answers: :meth:`Query.row_of`. The matrix itself is never made.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import InputError, QueryError
from das_spark.histogram.attribute import NO_GROUP
from das_spark.histogram.factors import Run, checked_factor, leaves_out, merged_runs

Neighbours = Literal["bounded", "unbounded"]
"""Bounded: one record changes its cell. Unbounded: one record comes or goes."""


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
    _runs: tuple[Run, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        """Check the factors, make them read-only and merge axes."""
        if len(self.factors) != len(self.shape):
            raise QueryError(f"query {self.name!r} has {len(self.factors)} factors for {len(self.shape)} attributes")
        pairs = zip(self.factors, self.shape, strict=True)
        factors = tuple(checked_factor(factor, size, self.name) for factor, size in pairs)
        object.__setattr__(self, "factors", factors)
        object.__setattr__(self, "_runs", tuple(merged_runs(factors)))

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

    @property
    def is_partition(self) -> bool:
        """Whether every cell counts in exactly one answer."""
        return not any(leaves_out(factor) for factor in self.factors)

    def l1_sensitivity(self, neighbours: Neighbours = "bounded") -> int:
        r"""Largest change of the answers, in :math:`\ell_1`, between neighbouring histograms.

        A record counts in at most one answer, so one that comes or goes changes the answers by at most 1, and one
        that changes its cell by at most 2; squared :math:`\ell_2` is the same, because every answer that changes,
        changes by exactly 1. This is the exact value: it is 0 for ``total`` between bounded neighbours, which have the
        same number of records. Mechanisms do not read it: they always provide for 2.

        Args:
            neighbours: Which histograms are neighbours.

        Returns:
            The sensitivity in people or units.
        """
        if neighbours == "unbounded":
            return 1
        # Cells that differ can lie in two answers; with one answer, one inside and one outside of it, if there is one.
        return 2 if self.rows > 1 else int(not self.is_partition)

    def involves(self, axis: int) -> bool:
        """Whether a change of this attribute alone can change the answers: its factor has at least two groups.

        Levels that count nowhere are a group of their own here: who moves out of a selection changes its count.

        Args:
            axis: Index of the attribute.

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
