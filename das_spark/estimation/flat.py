"""Families laid out flat: the tables of very many small families, one family after the other, in a few arrays.

Everything that is of a cell, a child, or a child's cell ("entry") stands in one array for all families, so that numpy
and compiled loops go through thousands of families in one call. The order of entries is: family, child, cell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from das_spark.estimation.support import cells_alike

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.estimation.problem import FamilyBounds, FamilyMeasurement, FamilyProblem, Floats, Integers
    from das_spark.histogram import Query


@dataclass(frozen=True, eq=False)
class FlatFamilies:
    """The children and the open cells of F families; C children, N cells and E entries in all."""

    children: Integers  # number of children of each family, shape (F,)
    cells: NDArray[np.int32]  # open cells of all families, shape (N,)
    first: Integers  # first cell of each family, and one past the last, shape (F + 1,)
    parent: Integers  # people of the parent in each cell, shape (N,)
    # what `FlatRows.index` and `FlatRows.of_entries` have found: fits, proofs and checks ask for the same
    indices: dict[FlatRows, Integers] = field(default_factory=dict)
    entries: dict[FlatRows, Integers] = field(default_factory=dict)

    @classmethod
    def of(cls, problems: Sequence[FamilyProblem]) -> FlatFamilies:
        """Those of problems that have a parent's estimate."""
        parents = [problem.parent for problem in problems if problem.parent is not None]
        return cls(
            children=np.array([len(problem.children) for problem in problems], dtype=np.int64),
            cells=np.concatenate([parent.cells for parent in parents]),
            first=_starts([len(parent.cells) for parent in parents]),
            parent=np.concatenate([parent.counts for parent in parents]),
        )

    @cached_property
    def family(self) -> Integers:
        """Family of each cell, shape ``(N,)``."""
        return np.repeat(np.arange(len(self.children)), np.diff(self.first))

    @cached_property
    def family_of_child(self) -> Integers:
        """Family of each child, shape ``(C,)``."""
        return np.repeat(np.arange(len(self.children)), self.children)

    @cached_property
    def first_child(self) -> Integers:
        """First child of each family, and one past the last, shape ``(F + 1,)``."""
        return _starts(self.children)

    @cached_property
    def first_entry(self) -> Integers:
        """First entry of each family, and one past the last, shape ``(F + 1,)``."""
        return _starts(self.children * np.diff(self.first))

    @cached_property
    def child(self) -> Integers:
        """Child of each entry among all children, shape ``(E,)``."""
        return np.repeat(np.arange(len(self.family_of_child)), np.diff(self.first)[self.family_of_child])

    @cached_property
    def cell(self) -> Integers:
        """Cell of each entry among all cells, shape ``(E,)``."""
        width = np.diff(self.first)[self.family_of_child]
        before = np.cumsum(width) - width
        return np.arange(len(self.child)) - (before - self.first[self.family_of_child])[self.child]

    @cached_property
    def family_of_entry(self) -> Integers:
        """Family of each entry, shape ``(E,)``."""
        return self.family_of_child[self.child]

    def coarsened(self, queries: Sequence[Query]) -> FlatFamilies:
        """The first of the cells that no query tells apart stands for all of them (E-48)."""
        place = cells_alike(self.cells, queries, self.family)
        _, earliest, place = np.unique(place, return_index=True, return_inverse=True)
        if len(earliest) == len(self.cells):
            return self
        order = np.argsort(earliest)
        people = np.bincount(place, self.parent, minlength=len(order)).astype(np.int64)[order]
        kept = earliest[order]
        return FlatFamilies(
            children=self.children,
            cells=self.cells[kept],
            first=np.searchsorted(kept, self.first),
            parent=people,
        )


def _starts(sizes: Sequence[int] | Integers) -> Integers:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


@dataclass(frozen=True, eq=False)
class FlatRows:
    """The rows of one query that there are of each family."""

    query: Query
    keys: Integers | None  # family * query.rows + row of each, sorted; None where there are all
    width: Integers  # rows of each family, shape (F,)
    start: Integers  # first value of each family: child by child, row by row, shape (F + 1,)

    @classmethod
    def of(cls, query: Query, rows: Sequence[Integers | None], children: Integers) -> FlatRows:
        """The rows of each family; None for all."""
        width = np.array([query.rows if row is None else len(row) for row in rows], dtype=np.int64)
        keys = None
        if (width < query.rows).any():
            every = [np.arange(query.rows) if row is None else row for row in rows]
            keys = np.concatenate(every) + np.repeat(np.arange(len(rows)) * query.rows, width)
        return cls(query, keys, width, _starts(width * children))

    def index(self, families: FlatFamilies) -> Integers:
        """Row of each cell among those of its family, shape ``(N,)``; -1: none counts it; -2: it is not there."""
        if self not in families.indices:
            families.indices[self] = self._index(families)
        return families.indices[self]

    def _index(self, families: FlatFamilies) -> Integers:
        row = self.query.row_of(families.cells)
        if self.keys is None:
            return row
        if not len(self.keys):
            return np.where(row < 0, -1, -2)
        wanted = row + families.family * self.query.rows
        place = np.minimum(np.searchsorted(self.keys, wanted), len(self.keys) - 1)
        before = (np.cumsum(self.width) - self.width)[families.family]
        return np.where(row < 0, -1, np.where(self.keys[place] == wanted, place - before, -2))

    def of_entries(self, families: FlatFamilies) -> Integers:
        """Value that each entry counts in, shape ``(E,)``, -1 where in none."""
        if self not in families.entries:
            families.entries[self] = self._of_entries(families)
        return families.entries[self]

    def _of_entries(self, families: FlatFamilies) -> Integers:
        row = self.index(families)[families.cell]
        own = families.child - families.first_child[families.family_of_entry]
        at = self.start[families.family_of_entry] + own * self.width[families.family_of_entry] + row
        return np.where(row < 0, -1, at)

    @cached_property
    def of_values(self) -> Integers:
        """Family of each value."""
        return np.repeat(np.arange(len(self.width)), np.diff(self.start))


@dataclass(frozen=True, eq=False)
class FlatAnswers:
    """Noisy answers to one query."""

    rows: FlatRows
    values: Floats  # child by child, row by row
    weight: Floats  # inverse variance by child, shape (C,)

    @classmethod
    def of(cls, measured: Sequence[FamilyMeasurement], children: Integers) -> FlatAnswers:
        """The answers of each family to the same query."""
        return cls(
            FlatRows.of(measured[0].query, [each.rows for each in measured], children),
            np.concatenate([each.values.ravel() for each in measured]).astype(np.float64),
            1.0 / np.concatenate([each.variance for each in measured]),
        )


@dataclass(frozen=True, eq=False)
class FlatBounds:
    """Bounds on the answers to one query."""

    rows: FlatRows
    lower: Floats  # child by child, row by row
    upper: Floats

    @classmethod
    def of(cls, bounds: Sequence[FamilyBounds], children: Integers) -> FlatBounds:
        """The bounds of each family on the same query."""
        return cls(
            FlatRows.of(bounds[0].query, [bound.rows for bound in bounds], children),
            np.concatenate([bound.lower.ravel() for bound in bounds]).astype(np.float64),
            np.concatenate([bound.upper.ravel() for bound in bounds]).astype(np.float64),
        )
