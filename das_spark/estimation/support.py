"""Restrict a family to the cells that can be occupied: tables in, small arrays out (E-2, E-3).

Every query becomes a *partition* of the support: the position, among the rows that the support touches, of the row
that counts each cell. Queries that cut the support alike become one partition.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import EstimationError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from das_spark.estimation.problem import (
        Booleans,
        FamilyBounds,
        FamilyMeasurement,
        FamilyPlan,
        FamilyProblem,
        Floats,
        Integers,
    )
    from das_spark.estimation.solvers import Status
    from das_spark.histogram import Query

_NO_BOUNDS: Final = np.zeros((0, 0))


@dataclass(frozen=True, slots=True, eq=False)
class Partition:
    """All that is asked of, or demanded from, one way to group the cells of the support."""

    index: Integers  # row of each cell, shape (n,); -1 where none counts it
    rows: int  # number of rows r
    weight: Floats  # inverse noise variance by child, 0 where nothing is measured, shape (K,)
    values: Floats | Integers  # noisy answers, shape (K, r)
    lower: Floats  # lower bounds, shape (K, r); empty where nothing is bounded
    upper: Floats  # upper bounds, likewise
    # which of the family's bounds are in it, each with its own column of every row, shape (r,)
    limits: tuple[tuple[int, Integers], ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Relaxation:
    """Consistency with the parent, given up by the failsafe as far as it must be (E-30 to E-32)."""

    group: Integers  # group of each cell: cells that differ only in the attributes summed out, shape (n,)
    totals: Integers  # the parent's people in each group, which the children must keep, shape (G,)
    allowance: float  # largest L1 distance between the children's sum and the parent, in people


@dataclass(frozen=True, slots=True, eq=False)
class Support:
    """A family on the cells that can be occupied."""

    problem: FamilyProblem  # the family itself
    cells: NDArray[np.int32]  # those cells, int32, sorted, shape (n,)
    parent: Integers | None  # the parent's people in each, shape (n,); None at the root
    most: Floats  # upper bound of each child in each cell, from every row that counts it, shape (K, n)
    partitions: tuple[Partition, ...]  # what is asked and demanded
    relaxation: Relaxation | None = None  # given by the failsafe only
    contradiction: str = ""  # what already cannot be; empty when nothing

    @property
    def children(self) -> int:
        """Number of children K."""
        return len(self.problem.children)

    def sizes(self) -> Floats:
        """People of each child by its coarsest noisy answers, at least one, shape ``(K,)``; ones where none are."""
        measured = [partition for partition in self.partitions if partition.weight.any()]
        if not measured:
            return np.ones(self.children)
        coarsest = min(measured, key=lambda each: each.rows)
        return np.asarray(np.maximum(coarsest.values.sum(axis=1), 0.0) + 1.0, dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A proposed real-valued estimate, with hints of multipliers that may help to prove it best."""

    x: Floats  # people, shape (K, n)
    flows: Floats | None  # flows, shape (D, C), or None
    parent_multipliers: Floats  # hint for the sums over children, shape (n,)
    bound_multipliers: tuple[Floats, ...]  # hints for each of the family's bounds, each of shape (K, rows)
    flow_multipliers: Floats | None  # hint for the class margins, shape (K, C), or None


@dataclass(frozen=True, slots=True, eq=False)
class Proposal:
    """What a solver proposes."""

    candidate: Candidate  # the estimate
    status: Status  # what the solver says of it
    iterations: int  # as the solver counts them


AT_ONCE: Final = 1_000_000
"""Children times cells that are worked on at once: a dozen copies of a large family's arrays would fill the memory."""


def at_once(count: int, size: int) -> list[slice]:
    """Slices of so many things of that size each as are worked on at once."""
    step = max(1, AT_ONCE // max(1, size))
    return [slice(first, min(count, first + step)) for first in range(0, count, step)]


def sums(x: NDArray[Any], rows: Integers, count: int) -> Floats:
    """Sum cells by row, some children at a time."""
    children, row = len(x), np.where(rows < 0, count, rows)
    total = np.empty((children, count))
    for part in at_once(children, len(rows)):
        some = x[part]
        flat = np.arange(len(some))[:, None] * (count + 1) + row
        found = np.bincount(flat.ravel(), some.ravel(), minlength=len(some) * (count + 1))
        total[part] = found.reshape(len(some), count + 1)[:, :count]
    return total


def picked(values: NDArray[Any], rows: Integers, otherwise: float) -> NDArray[Any]:
    """Give each cell the value of its row, and another one where none counts it; there may be no rows at all."""
    if not values.shape[1]:
        return np.full((len(values), len(rows)), otherwise, dtype=values.dtype)
    return np.where(rows >= 0, values[:, rows], np.asarray(otherwise, dtype=values.dtype))


def spread(values: Floats, rows: Integers) -> Floats:
    """Give each cell the value of its row, and zero where none counts it: the transpose of `sums`."""
    return picked(values, rows, 0.0)


def coarser(fine: Integers, index: Integers) -> Integers | None:
    """Row of `index` that holds each row of `fine`, -1 for rows without cells; None where rows are cut."""
    found = np.full(int(fine.max(initial=-1)) + 1, -1, dtype=np.int64)
    found[fine] = index
    return found if np.array_equal(found[fine], index) else None


def cells_alike(cells: NDArray[np.int32], queries: Sequence[Query], place: Integers | None = None) -> Integers:
    """One number for all cells that no query tells apart (E-48), and `place` does not, if it is given."""
    found = np.zeros(len(cells), dtype=np.int64) if place is None else place
    for query in dict.fromkeys(queries):
        _, found = np.unique(found * (query.rows + 1) + query.row_of(cells) + 1, return_inverse=True)
        if int(found.max(initial=-1)) + 1 == len(cells):
            break
    return found


def open_cells(problem: FamilyProblem, plan: FamilyPlan) -> NDArray[np.int32]:
    """Cells that children can occupy: the parent's, or at the root all, but for structural zeros; sorted."""
    if problem.parent is None:
        return np.setdiff1d(np.arange(problem.size, dtype=np.int32), plan.zero_cells, assume_unique=True)
    return problem.parent.cells[np.isin(problem.parent.cells, plan.zero_cells, invert=True)]


def restrict(problem: FamilyProblem, plan: FamilyPlan) -> Support:
    """Restrict a family to its support: parent's occupied cells, or at the root all that are no structural zeros."""
    cells = open_cells(problem, plan)
    if problem.parent is None:
        return on_cells(problem, cells, None)
    support = on_cells(problem, cells, problem.parent.counts[np.searchsorted(problem.parent.cells, cells)])
    if len(cells) == len(problem.parent.cells):
        return support
    return replace(support, contradiction="the parent has people in a structural zero")


def on_cells(problem: FamilyProblem, cells: NDArray[np.int32], parent: Integers | None) -> Support:
    """Restrict a family to given cells."""
    merged: dict[bytes, Partition] = {}
    contradiction = ""
    for measurement in problem.measurements:
        _merge(merged, _measured(measurement, cells))
    most = np.full((len(problem.children), len(cells)), np.inf)
    for number in range(len(problem.bounds)):
        partition, trouble = _bounded(problem, number, cells)
        contradiction = contradiction or trouble
        _merge(merged, partition)
        (counted,) = np.nonzero(partition.index >= 0)
        for part in at_once(len(most), len(cells)):
            upper = partition.upper[part][:, partition.index[counted]]
            most[part, counted] = np.minimum(most[part, counted], upper)
    return Support(
        problem=problem,
        cells=cells,
        parent=parent,
        most=most,
        partitions=tuple(merged.values()),
        contradiction=contradiction,
    )


def _canonical(query: Query, cells: NDArray[np.int32]) -> tuple[Integers, Integers]:
    """Rows of a query that cells touch, in order of first appearance, and the position of each cell's row."""
    rows = query.row_of(cells)
    counted = rows >= 0
    unique, first, inverse = np.unique(rows[counted], return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    index = np.full(len(cells), -1, dtype=np.int64)
    index[counted] = rank[inverse]
    return unique[order], index


def _measured(measurement: FamilyMeasurement, cells: NDArray[np.int32]) -> Partition:
    rows, index = _canonical(measurement.query, cells)
    place = np.searchsorted(measurement.rows, rows)
    inside = place < len(measurement.rows)
    if not inside.all() or not np.array_equal(measurement.rows[place], rows):
        raise EstimationError(f"measurement {measurement.query.name!r} lacks answers that the parent's cells touch")
    as_they_are = len(place) == len(measurement.rows) and bool((place[1:] > place[:-1]).all())
    return Partition(
        index=index,
        rows=len(rows),
        weight=1.0 / measurement.variance,
        values=measurement.values if as_they_are else measurement.values[:, place].astype(np.float64),
        lower=_NO_BOUNDS,
        upper=_NO_BOUNDS,
    )


def _bounded(problem: FamilyProblem, number: int, cells: NDArray[np.int32]) -> tuple[Partition, str]:
    bound = problem.bounds[number]
    rows, index = _canonical(bound.query, cells)
    columns = bound.columns(rows)
    if (columns < 0).any():
        raise EstimationError(f"bounds {bound.name!r} lack answers that the parent's cells touch")
    lower = bound.lower[:, columns].astype(np.float64)
    partition = Partition(
        index=index,
        rows=len(rows),
        weight=np.zeros(len(problem.children)),
        values=np.zeros((len(problem.children), len(rows))),
        lower=lower,
        upper=lower if bound.upper is bound.lower else bound.upper[:, columns].astype(np.float64),
        limits=((number, columns),),
    )
    untouched = np.ones(bound.lower.shape[1], dtype=np.bool_)
    untouched[columns] = False
    return partition, _trouble(problem, bound, untouched)


def _trouble(problem: FamilyProblem, bound: FamilyBounds, untouched: Booleans) -> str:
    wrong = (bound.lower > bound.upper) | (untouched & ((bound.lower > 0) | (bound.upper < 0)))
    if not wrong.any():
        return ""
    child, column = (int(place) for place in np.argwhere(wrong)[0])
    where = f"{problem.children[child]}: row {bound.row(column)} of {bound.name!r}"
    return f"{where} cannot be met by any cell the parent occupies"


def _merge(merged: dict[bytes, Partition], new: Partition) -> None:
    """Join a partition with the one that cuts the support alike, if there is one; without rows it is a constant."""
    if not new.rows:
        return
    key = blake2b(new.index.tobytes()).digest()
    old = merged.get(key)
    merged[key] = new if old is None else _joined(old, new)


def _joined(old: Partition, new: Partition) -> Partition:
    weight = old.weight + new.weight
    values = old.values if not new.weight.any() else new.values
    if old.weight.any() and new.weight.any():
        share = (new.weight / weight)[:, None]
        values = old.values + share * (new.values - old.values)
    lower, upper = (old.lower, old.upper) if old.limits else (new.lower, new.upper)
    if old.limits and new.limits:
        lower, upper = np.maximum(old.lower, new.lower), np.minimum(old.upper, new.upper)
    return Partition(old.index, old.rows, weight, values, lower, upper, old.limits + new.limits)


def hand_out(problem: FamilyProblem, partition: Partition, value: Floats, hints: list[Floats]) -> None:
    """Give the multipliers of a partition's rows to those of the family's bounds that bind there."""
    for limit, columns in partition.limits:
        bound = problem.bounds[limit]
        binds = (value > 0) & (bound.lower[:, columns] >= partition.lower)
        binds |= (value < 0) & (bound.upper[:, columns] <= partition.upper)
        hints[limit][:, columns] = np.where(binds, value, 0.0)
        value = np.where(binds, 0.0, value)
