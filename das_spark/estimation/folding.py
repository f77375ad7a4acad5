"""Fold the rows that count one variable of a child into that variable; keep the others (README, section 3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das_spark.estimation.support import Floats, Integers, Partition, Support

_ROUNDING_ERROR = 1e-9  # bounds and people are whole numbers held in floats


@dataclass(frozen=True, slots=True, eq=False)
class SharedRows:
    """Rows of one partition that count two or more variables of a child.

    The flat number of a row is child * (r + 1) + row, where column r stands for cells that no row counts.

    Attributes:
        number: The partition's number.
        key: Flat row of each variable, shape ``(N,)``.
        flat: Flat rows kept, shape ``(m,)``.
        target: Their noisy answers less what is fixed, shape ``(m,)``.
        lower: Their lower bounds less what is fixed, ``-inf`` where none can bind.
        upper: Their upper bounds less what is fixed, ``inf`` where none can bind.
    """

    number: int
    key: Integers
    flat: Integers
    target: Floats
    lower: Floats
    upper: Floats


@dataclass(slots=True, eq=False)
class Folding:
    """Collects what each variable is told by the rows that count it alone.

    Attributes:
        support: The family.
        child: Child of each variable, shape ``(N,)``.
        cell: Cell of each variable, shape ``(N,)``.
        fixed_child: Child of each fixed cell with people.
        fixed_cell: Cell of each.
        fixed_people: People of each.
        supply: People there are to put in each variable, shape ``(N,)``.
        room: Most people each variable can hold, shape ``(N,)``.
        weight: Inverse variances so far.
        weighted: Noisy answers so far, times their weights.
        lower: Lower bounds so far.
        upper: Upper bounds so far.
        lower_from: Partition that each lower bound comes from, -1 where it is just zero.
        upper_from: Partition that each upper bound comes from, -1 where there is none.
        trouble: A row that no division can satisfy; empty when there is none.
        done: Number of partitions folded.
    """

    support: Support
    child: Integers
    cell: Integers
    fixed_child: Integers
    fixed_cell: Integers
    fixed_people: Floats
    supply: Floats
    room: Floats
    weight: Floats
    weighted: Floats
    lower: Floats
    upper: Floats
    lower_from: Integers
    upper_from: Integers
    trouble: str = ""
    done: int = 0

    @classmethod
    def start(
        cls, support: Support, child: Integers, cell: Integers, fixed: Integers, needed: Integers | None
    ) -> Folding:
        """Begin with nothing folded.

        Args:
            support: The family.
            child: Child of each variable, shape ``(N,)``.
            cell: Cell of each variable, shape ``(N,)``.
            fixed: People known beforehand, shape ``(K, n)``.
            needed: People still to divide in each cell, shape ``(n,)``; None at the root.

        Returns:
            The empty collection.
        """
        supply = np.full(len(child), np.inf)
        if needed is not None:
            relaxation = support.relaxation
            limit = needed if relaxation is None else relaxation.totals[relaxation.group]
            supply = limit[cell].astype(np.float64)
        fixed_child, fixed_cell = np.nonzero(fixed)
        count = len(child)
        return cls(
            support=support,
            child=child,
            cell=cell,
            fixed_child=fixed_child,
            fixed_cell=fixed_cell,
            fixed_people=fixed[fixed_child, fixed_cell].astype(np.float64),
            supply=supply,
            room=np.minimum(support.most[child, cell], supply),
            weight=np.zeros(count),
            weighted=np.zeros(count),
            lower=np.zeros(count),
            upper=np.full(count, np.inf),
            lower_from=np.full(count, -1, dtype=np.int64),
            upper_from=np.full(count, -1, dtype=np.int64),
        )

    def fold(self, partition: Partition) -> SharedRows:
        """Fold the rows that count one variable into it.

        Args:
            partition: The next partition of the support.

        Returns:
            The rows that count more than one.
        """
        number, self.done = self.done, self.done + 1
        width = partition.rows + 1  # the last column takes the cells that no row counts
        index = np.where(partition.index < 0, partition.rows, partition.index)
        key = self.child * width + index[self.cell]
        size = self.support.children * width
        count = np.bincount(key, minlength=size)
        count[partition.rows :: width] = 0
        taken = np.bincount(
            self.fixed_child * width + index[self.fixed_cell], weights=self.fixed_people, minlength=size
        )
        target = _padded(partition.values, 0.0) - taken
        lower, upper = _padded(partition.lower, -np.inf) - taken, _padded(partition.upper, np.inf) - taken
        if partition.limits:
            self._check(partition, count, key, lower, upper)
        (alone,) = np.nonzero(count[key] == 1)
        if len(alone):
            self._take(alone, key[alone], partition, number, target, lower, upper)
        return self._shared(partition, number, key, np.flatnonzero(count > 1), target, lower, upper)

    def _take(
        self,
        alone: Integers,
        row: Integers,
        partition: Partition,
        number: int,
        target: Floats,
        lower: Floats,
        upper: Floats,
    ) -> None:
        weight = partition.weight[self.child[alone]]
        self.weight[alone] += weight
        self.weighted[alone] += weight * target[row]
        if partition.limits:
            higher = lower[row] > self.lower[alone]
            self.lower[alone[higher]] = lower[row[higher]]
            self.lower_from[alone[higher]] = number
            smaller = (upper[row] < self.upper[alone]) & (upper[row] < self.supply[alone])
            self.upper[alone[smaller]] = upper[row[smaller]]
            self.upper_from[alone[smaller]] = number

    def _shared(
        self,
        partition: Partition,
        number: int,
        key: Integers,
        flat: Integers,
        target: Floats,
        lower: Floats,
        upper: Floats,
    ) -> SharedRows:
        low, high = lower[flat], upper[flat]
        if partition.limits and len(flat):
            room = np.bincount(key, weights=self.room, minlength=len(lower))[flat]
            low = np.where(low <= 0, -np.inf, low)
            high = np.where(high >= room, np.inf, high)
        return SharedRows(number, key, flat, target[flat], low, high)

    def _check(self, partition: Partition, count: Integers, key: Integers, lower: Floats, upper: Floats) -> None:
        """Note a row that no division can satisfy."""
        room = np.bincount(key, weights=self.room, minlength=len(count))
        wrong = (lower > upper) | (upper < -_ROUNDING_ERROR) | (lower > room + _ROUNDING_ERROR)
        wrong[partition.rows :: partition.rows + 1] = False
        if wrong.any() and not self.trouble:
            child, row = divmod(int(np.argmax(wrong)), partition.rows + 1)
            number, rows = partition.limits[0]
            name = self.support.problem.bounds[number].name
            self.trouble = f"{self.support.problem.children[child]}: row {int(rows[row])} of {name!r} cannot be met"


def _padded(values: Floats, edge: float) -> Floats:
    padded = np.full((values.shape[0], values.shape[1] + 1), edge)
    padded[:, :-1] = values
    return padded.ravel()
