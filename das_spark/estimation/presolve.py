"""Shrink a family before a solver sees it: eliminate what is forced, absorb rows of one variable, merge equal rows.

Everything is vectorised over children and cells; a free cell of a child is one *variable*, a row of a partition that
counts two or more variables of a child is one *aggregate* (README, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from das_spark.estimation.problem import Booleans, Floats, Integers
    from das_spark.estimation.support import Partition, Support

_ROUNDING_ERROR = 1e-9  # bounds and people are whole numbers held in floats


@dataclass(frozen=True, slots=True, eq=False)
class _SharedRows:
    """Rows of one partition that count two or more variables of a child.

    The flat number of a row is child * (r + 1) + row, where column r stands for cells that no row counts.
    """

    number: int  # the partition's number
    flat: Integers  # flat rows kept, shape (m,)
    target: Floats  # their noisy answers less what is fixed, shape (m,)
    lower: Floats  # their lower bounds less what is fixed, -inf where none can bind
    upper: Floats  # their upper bounds less what is fixed, inf where none can bind


@dataclass(frozen=True, slots=True, eq=False)
class Fixed:
    """Cells whose people are known beforehand, by child and cell; all others of theirs are free or empty."""

    child: Integers
    cell: Integers
    people: Integers  # at least one in each

    def dense(self, support: Support) -> Integers:
        """As an array, shape ``(K, n)``."""
        found = np.zeros((support.children, len(support.cells)), dtype=np.int64)
        found[self.child, self.cell] = self.people
        return found


@dataclass(slots=True, eq=False)
class _Elimination:
    """Collects what the rows that count one variable alone say of it."""

    support: Support  # the family
    child: Integers  # child of each variable, shape (N,)
    cell: Integers  # cell of each variable, shape (N,)
    fixed: Fixed  # cells whose people are known
    supply: Floats  # people there are to put in each variable, shape (N,)
    room: Floats  # most people each variable can hold, shape (N,)
    weight: Floats  # inverse variances so far
    weighted: Floats  # noisy answers so far, times their weights
    lower: Floats  # lower bounds so far
    upper: Floats  # upper bounds so far
    lower_from: Integers  # partition that each lower bound comes from, -1 where it is just zero
    upper_from: Integers  # partition that each upper bound comes from, -1 where there is none
    trouble: str = ""  # a row that no division can satisfy; empty when there is none
    done: int = 0  # number of partitions absorbed

    @classmethod
    def start(
        cls, support: Support, child: Integers, cell: Integers, fixed: Fixed, needed: Integers | None
    ) -> _Elimination:
        """Begin with nothing absorbed."""
        supply = np.full(len(child), np.inf)
        if needed is not None:
            relaxation = support.relaxation
            limit = needed if relaxation is None else relaxation.totals[relaxation.group]
            supply = limit[cell].astype(np.float64)
        count = len(child)
        return cls(
            support=support,
            child=child,
            cell=cell,
            fixed=fixed,
            supply=supply,
            room=np.minimum(support.most[child, cell], supply),
            weight=np.zeros(count),
            weighted=np.zeros(count),
            lower=np.zeros(count),
            upper=np.full(count, np.inf),
            lower_from=np.full(count, -1, dtype=np.int64),
            upper_from=np.full(count, -1, dtype=np.int64),
        )

    def absorb(self, partition: Partition) -> _SharedRows:
        """Give the rows that count one variable to it, and return the others."""
        number, self.done = self.done, self.done + 1
        width = partition.rows + 1  # the last column takes the cells that no row counts
        key = _flat_rows(partition, self.child, self.cell)
        size = self.support.children * width
        count = np.bincount(key, minlength=size)
        count[partition.rows :: width] = 0
        taken = np.bincount(
            _flat_rows(partition, self.fixed.child, self.fixed.cell), weights=self.fixed.people, minlength=size
        )
        target = _padded(partition.values, 0.0) - taken if partition.weight.any() else np.zeros(size)
        limits: tuple[Floats, Floats] | None = None
        room: Floats = np.zeros(0)
        if partition.limits:
            lower = upper = _padded(partition.lower, -np.inf)
            lower -= taken
            if partition.upper is not partition.lower:
                upper = _padded(partition.upper, np.inf)
                upper -= taken
            limits = lower, upper
            room = np.bincount(key, weights=self.room, minlength=size).astype(np.float64, copy=False)
            self._check(partition, room, lower, upper)
        (alone,) = np.nonzero(count[key] == 1)
        if len(alone):
            self._take(alone, key[alone], partition, number, target, limits)
        flat = np.flatnonzero(count > 1)
        low, high = np.full(len(flat), -np.inf), np.full(len(flat), np.inf)
        if limits is not None and len(flat):
            low, high = limits[0][flat], limits[1][flat]
            low = np.where(low <= 0, -np.inf, low)
            high = np.where(high >= room[flat], np.inf, high)
        return _SharedRows(number, flat, target[flat], low, high)

    def _take(
        self,
        alone: Integers,
        row: Integers,
        partition: Partition,
        number: int,
        target: Floats,
        limits: tuple[Floats, Floats] | None,
    ) -> None:
        weight = partition.weight[self.child[alone]]
        self.weight[alone] += weight
        self.weighted[alone] += weight * target[row]
        if limits is not None:
            lower, upper = limits
            higher = lower[row] > self.lower[alone]
            self.lower[alone[higher]] = lower[row[higher]]
            self.lower_from[alone[higher]] = number
            smaller = (upper[row] < self.upper[alone]) & (upper[row] < self.supply[alone])
            self.upper[alone[smaller]] = upper[row[smaller]]
            self.upper_from[alone[smaller]] = number

    def _check(self, partition: Partition, room: Floats, lower: Floats, upper: Floats) -> None:
        """Note a row that no division can satisfy."""
        wrong = (lower > upper) | (upper < -_ROUNDING_ERROR) | (lower > room + _ROUNDING_ERROR)
        wrong[partition.rows :: partition.rows + 1] = False
        if wrong.any() and not self.trouble:
            child, row = divmod(int(np.argmax(wrong)), partition.rows + 1)
            number, columns = partition.limits[0]
            bound = self.support.problem.bounds[number]
            name = self.support.problem.children[child]
            self.trouble = f"{name}: row {bound.row(int(columns[row]))} of {bound.name!r} cannot be met"


def _flat_rows(partition: Partition, child: Integers, cell: Integers) -> Integers:
    """Flat row of some cells of some children; the last column takes those that no row counts."""
    column = np.where(partition.index < 0, partition.rows, partition.index)
    return np.asarray(child * (partition.rows + 1) + column[cell], dtype=np.int64)


def _padded(values: Floats | Integers, edge: float) -> Floats:
    padded = np.full((values.shape[0], values.shape[1] + 1), edge)
    padded[:, :-1] = values
    return padded.ravel()


@dataclass(frozen=True, slots=True, eq=False)
class Aggregates:
    """Sums of two or more variables of one child that are measured or bounded; M of them."""

    child: Integers  # child of each, shape (M,)
    weight: Floats  # inverse variance, 0 where not measured
    target: Floats  # noisy answer less what is fixed
    lower: Floats  # lower bound less what is fixed, -inf where none can bind
    upper: Floats  # upper bound less what is fixed, inf where none can bind
    entry_aggregate: Integers  # aggregate of each incidence, shape (E,)
    entry_variable: Integers  # variable of each incidence, shape (E,)
    # for each partition the aggregate of each row of each child, -1 where there is none, shape (K, r); empty where the
    # partition has no bounds
    of_row: tuple[Integers, ...]
    lower_from: Integers  # partition that each lower bound comes from, shape (M,)
    upper_from: Integers  # partition that each upper bound comes from, shape (M,)

    def sums(self, values: Floats) -> Floats:
        """Sum up each aggregate."""
        sums = np.bincount(self.entry_aggregate, weights=values[self.entry_variable], minlength=len(self.child))
        return sums.astype(np.float64)  # of no entries at all, numpy makes integers

    @property
    def bounded(self) -> Booleans:
        """Whether either bound can bind."""
        return np.isfinite(self.lower) | np.isfinite(self.upper)

    @property
    def equal(self) -> Booleans:
        """Whether the aggregate is known."""
        return np.asarray(self.lower == self.upper, dtype=np.bool_)


def _merged_aggregates(
    support: Support, variables: tuple[Integers, Integers], rows: tuple[_SharedRows, ...]
) -> Aggregates:
    """Join rows that count the same variables of a child; `variables` are the child and the cell of each."""
    partitions = support.partitions
    keys = [_flat_rows(partitions[row.number], *variables) if len(row.flat) else _none() for row in rows]
    owner = _joined([np.full(len(row.flat), row.number) for row in rows], np.int64)
    child = _joined([row.flat // (partitions[row.number].rows + 1) for row in rows], np.int64)
    place, first = _same_variables(support, variables[1], rows, keys, child)
    count = len(first)
    weights = [partitions[row.number].weight[row.flat // (partitions[row.number].rows + 1)] for row in rows]
    raw, target = _joined(weights), _joined([row.target for row in rows])
    weight = np.bincount(place, weights=raw, minlength=count).astype(np.float64)
    summed = np.bincount(place, weights=raw * target, minlength=count)
    low, high = _joined([row.lower for row in rows]), _joined([row.upper for row in rows])
    lower, lower_from = _tightest(low, place, owner, count)
    negative, upper_from = _tightest(-high, place, owner, count)
    upper = -negative
    kept = (weight > 0) | np.isfinite(lower) | np.isfinite(upper)
    number = np.where(kept, np.cumsum(kept) - 1, -1)[place]
    of_row, entry_aggregate, entry_variable = _incidence(support, rows, keys, number, first)
    return Aggregates(
        child=child[first][kept],
        weight=weight[kept],
        target=np.divide(summed, weight, out=np.zeros(count), where=weight > 0)[kept],
        lower=lower[kept],
        upper=upper[kept],
        entry_aggregate=entry_aggregate,
        entry_variable=entry_variable,
        of_row=of_row,
        lower_from=lower_from[kept],
        upper_from=upper_from[kept],
    )


def _joined(parts: list[NDArray[Any]], kind: type[np.generic] = np.float64) -> NDArray[Any]:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=kind)


def _tightest(bound: Floats, place: Integers, owner: Integers, count: int) -> tuple[Floats, Integers]:
    """Largest bound of each set of equal rows, and the partition that it comes from."""
    best = np.full(count, -np.inf)
    np.maximum.at(best, place, bound)
    source = np.full(count, -1, dtype=np.int64)
    attained = bound >= best[place]
    source[place[attained]] = owner[attained]
    return best, source


def _incidence(
    support: Support, rows: tuple[_SharedRows, ...], keys: list[Integers], number: Integers, first: Integers
) -> tuple[tuple[Integers, ...], Integers, Integers]:
    """Which variables each aggregate sums: read off one of the rows that make it."""
    chosen = np.zeros(len(number), dtype=np.bool_)
    chosen[first] = True
    of_row, aggregates, variables, start = [], [_none()], [_none()], 0
    for row, key in zip(rows, keys, strict=True):
        partition = support.partitions[row.number]
        width = partition.rows + 1
        part = slice(start, start + len(row.flat))
        start = part.stop
        table = np.full(support.children * width if partition.limits else 0, -1, dtype=np.int64)
        if partition.limits:
            table[row.flat] = number[part]
        of_row.append(table.reshape(-1, width)[:, :-1])
        if chosen[part].any():
            source = np.full(support.children * width, -1, dtype=np.int64)
            source[row.flat] = np.where(chosen[part], number[part], -1)
            found = source[key]
            (variable,) = np.nonzero(found >= 0)
            aggregates.append(found[variable])
            variables.append(variable)
    return tuple(of_row), np.concatenate(aggregates), np.concatenate(variables)


def _none() -> Integers:
    return np.zeros(0, dtype=np.int64)


def _same_variables(
    support: Support, cell: Integers, rows: tuple[_SharedRows, ...], keys: list[Integers], child: Integers
) -> tuple[Integers, Integers]:
    """Number rows so that equal sets of variables get one number: (number of each row, a first row of each number).

    Sets are told apart by sums of pseudo-random codes of cells. Among a million rows two sums of one series are now and
    then the same; those of another series then tell the sets apart.
    """
    some = [(row.flat, key) for row, key in zip(rows, keys, strict=True) if len(row.flat)]
    if len(some) < 2:  # noqa: PLR2004 - two partitions
        return np.arange(len(child)), np.arange(len(child))
    digest, other = (_digest(support, cell, some, child, series) for series in range(2))
    _, first, place = np.unique(digest, return_index=True, return_inverse=True)
    if (other != other[first][place]).any():
        _, first, place = np.unique(np.stack([digest, other]), axis=1, return_index=True, return_inverse=True)
    return place.ravel(), first


def _digest(
    support: Support, cell: Integers, rows: list[tuple[Integers, Integers]], child: Integers, series: int
) -> NDArray[np.uint64]:
    """A number for the variables that each row counts; `rows` has the flat rows kept, and that of each variable."""
    code = _codes(len(support.cells), series)[cell]
    sums = [np.bincount(key, weights=code, minlength=1 + int(flat.max(initial=0)))[flat] for flat, key in rows]
    children = np.uint64(support.children)
    return np.asarray(np.concatenate(sums).astype(np.uint64) * children + child.astype(np.uint64), dtype=np.uint64)


def _codes(count: int, series: int) -> Floats:
    """Pseudo-random whole numbers, small enough for the sum of all to be exact in a float."""
    with np.errstate(over="ignore"):
        mixed = (np.arange(count, dtype=np.uint64) + np.uint64(1 + (series << 40))) * np.uint64(0x9E3779B97F4A7C15)
        mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        mixed ^= mixed >> np.uint64(31)
    return (mixed >> np.uint64(12 + max(1, count).bit_length())).astype(np.float64)


@dataclass(frozen=True, eq=False)
class Presolved:
    """A family with N variables."""

    support: Support  # where it comes from
    child: Integers  # child of each variable, sorted, shape (N,)
    cell: Integers  # cell of each, as position in the support, shape (N,)
    fixed: Fixed  # cells whose people are known
    weight: Floats  # folded inverse variances of each variable, shape (N,)
    target: Floats  # folded noisy answers, shape (N,); 0 where the weight is 0
    lower: Floats  # lower bound of each variable, not negative
    upper: Floats  # upper bound of each, inf where there is none
    lower_from: Integers  # partition that each lower bound comes from, -1 where it is just zero
    upper_from: Integers  # partition that each upper bound comes from, -1 where there is none
    needed: Integers | None  # people still to divide in each cell, shape (n,); None at the root
    rows: tuple[_SharedRows, ...]  # rows of two or more variables, by partition
    trouble: str = ""  # why the family is infeasible, where that was seen on the way

    @property
    def variables(self) -> int:
        """Number of free cells."""
        return len(self.child)

    @cached_property
    def aggregates(self) -> Aggregates:
        """What is asked or demanded of sums; made where it is asked for, since it takes most memory."""
        return _merged_aggregates(self.support, (self.child, self.cell), self.rows)

    @cached_property
    def contradiction(self) -> str:
        """Why the family is infeasible, where presolve sees it."""
        bounded = [row for row in self.rows if np.isfinite(row.lower).any() or np.isfinite(row.upper).any()]
        if not self.trouble and len(bounded) > 1 and (self.aggregates.lower > self.aggregates.upper).any():
            return "two bounds on the same cells of a child contradict each other"
        return self.trouble


def presolve(support: Support) -> Presolved:
    """Shrink a family."""
    live = support.most > 0
    fixed, trouble = Fixed(_none(), _none(), _none()), support.contradiction
    needed = None
    if support.parent is not None:
        needed = support.parent.copy()
        if support.relaxation is None:
            if not trouble:
                fixed, trouble = _fix_single(support, support.parent, live)
            needed[fixed.cell] -= fixed.people
    child, cell = np.nonzero(live)
    elimination = _Elimination.start(support, child, cell, fixed, needed)
    rows = tuple(elimination.absorb(partition) for partition in support.partitions)
    measured = elimination.weight > 0
    return Presolved(
        support=support,
        child=child,
        cell=cell,
        fixed=fixed,
        weight=elimination.weight,
        target=np.divide(elimination.weighted, elimination.weight, out=np.zeros(len(child)), where=measured),
        lower=elimination.lower,
        upper=elimination.upper,
        lower_from=elimination.lower_from,
        upper_from=elimination.upper_from,
        needed=needed,
        rows=rows,
        trouble=trouble or elimination.trouble or _crowded_cell(support, elimination, needed),
    )


def _fix_single(support: Support, parent: Integers, live: Booleans) -> tuple[Fixed, str]:
    """Give each cell to the only child that can hold it, which changes `live`; or say what is in the way."""
    holders = live.sum(axis=0)
    (alone,) = np.nonzero(holders == 1)
    child = live[:, alone].argmax(axis=0)
    live[child, alone] = False
    people = parent[alone]
    order = np.lexsort((alone, child))
    order = order[people[order] > 0]
    fixed = Fixed(child[order], alone[order], people[order])
    if (holders == 0).any():
        return fixed, f"no child can hold cell {int(support.cells[np.argmin(holders)])} of the parent"
    over = people > support.most[child, alone]
    if over.any():
        place = int(np.argmax(over))
        name = support.problem.children[child[place]]
        return fixed, f"{name}: only it can hold cell {int(support.cells[alone[place]])}, and its bounds are too small"
    return fixed, ""


def _crowded_cell(support: Support, elimination: _Elimination, needed: Integers | None) -> str:
    """Say which cell cannot be divided because of bounds on it alone, if there is one."""
    if needed is None or support.relaxation is not None:
        return ""
    least = np.bincount(elimination.cell, weights=elimination.lower, minlength=len(needed))
    most = np.bincount(elimination.cell, weights=np.minimum(elimination.upper, elimination.room), minlength=len(needed))
    wrong = (least > needed) | (most < needed)
    if not wrong.any():
        return ""
    return f"the children's bounds do not fit the parent's people in cell {int(support.cells[np.argmax(wrong)])}"
