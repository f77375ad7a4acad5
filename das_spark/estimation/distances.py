"""The program of one pass of the multi-pass rounder: constraints, sums to bring near their targets, sums that are held.

Few variables of a family have a fraction, and those alone can nearly always be rounded; so a program is written for
some of the columns, and the multipliers of its solution tell what the others could gain (E-55).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from das_spark.estimation.flows import FlowVariables
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.rounding import WHOLE, rounding_program
from das_spark.estimation.solvers import Inequalities, Program, Solution
from das_spark.estimation.support import Floats, Integers
from das_spark.histogram import Query

Booleans = NDArray[np.bool_]

_EXACT = 1e-9
"""Sums of fractions this close to a whole number are taken for it."""


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The sums of one query that count two or more variables of a child, and the variables that stand alone.

    Attributes:
        matrix: Incidence, shape ``(sums, N)``.
        alone: Variables that are the only ones of their row, as positions, sorted.
    """

    matrix: sp.csr_matrix
    alone: Integers

    @property
    def all(self) -> sp.csr_matrix:
        """Incidence of all sums, those of one variable too."""
        count = len(self.alone)
        shape = (count, self.matrix.shape[1])
        single = sp.csr_matrix((np.ones(count), (np.arange(count), self.alone)), shape=shape)
        return sp.csr_matrix(sp.vstack([self.matrix, single], format="csr"))


def sums_of(presolved: Presolved, query: Query) -> Sums:
    """The sums of a query over the variables of each child.

    Args:
        presolved: The family.
        query: Whose answers are the sums.

    Returns:
        The sums, by child and answer; variables that the query does not count are in none.
    """
    counted_rows, index = np.unique(query.row_of(presolved.support.cells), return_inverse=True)
    rows = index[presolved.cell]
    key = presolved.child * len(counted_rows) + rows
    counted = counted_rows[rows] >= 0
    size = np.bincount(key[counted], minlength=presolved.support.children * len(counted_rows))
    shared = size > 1
    (entry,) = np.nonzero(counted & shared[key])
    row = (np.cumsum(shared) - 1)[key[entry]]
    matrix = sp.csr_matrix(
        (np.ones(len(row)), (row, entry)), shape=(int(shared.sum()), presolved.variables), dtype=np.float64
    )
    return Sums(matrix, np.flatnonzero(counted & ~shared[key]))


def snapped(target: Floats) -> Floats:
    """Sums of fractions, those near a whole number taken for it.

    Args:
        target: The sums, in people, shape ``(S,)``.

    Returns:
        Shape ``(S,)``.
    """
    nearest = np.rint(target)
    return np.asarray(np.where(np.abs(target - nearest) <= _EXACT, nearest, target), dtype=np.float64)


def slope(target: Floats, *, released: bool) -> Floats:
    """Cost of the step from the floor of each target to the next whole number (E-51, E-52).

    Args:
        target: Real values.
        released: Whether distances are from the nearest whole numbers, halves to even, not from the values themselves.
    """
    return 1.0 - 2.0 * ((np.rint(target) if released else target) - np.floor(target))


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """The constraints of a family over steps up from the floor; W columns.

    Attributes:
        program: Steps up, flows, and if widened further steps up and steps down (E-26).
        moves: How far each column moves each variable, shape ``(N, W)``.
        further: Columns of further steps up and steps down, shape ``(W,)``.
        moving: Columns that move a variable: all but the flows, shape ``(W,)``.
        rows: The program's rows.
        sums: How many of them are sums of cells over children; they come first.
        cell: Cell of each variable, shape ``(N,)``.
    """

    program: Program
    moves: sp.csr_matrix
    further: Booleans
    moving: Booleans
    rows: Inequalities
    sums: int
    cell: Integers


def frame_of(presolved: Presolved, flows: FlowVariables | None, base: Integers, *, widened: bool) -> Frame:
    """Write the constraints of a family.

    Args:
        presolved: The family.
        flows: Its flows.
        base: Floor of each variable, shape ``(N,)``.
        widened: Whether to allow more than one step up, and steps down.

    Returns:
        The constraints.
    """
    count = len(base)
    chosen = np.ones(count, dtype=np.bool_)
    program = rounding_program(presolved, flows, base, np.zeros(count), chosen, widened=widened)
    spare = sp.csr_matrix((count, 0 if flows is None else len(flows.descendant)))
    own = sp.eye_array(count, format="csr")
    moves = sp.hstack([own, spare, *((own, -own) if widened else ())], format="csr")
    further = np.arange(program.size) >= count + spare.shape[1]
    rows = program.inequalities or Inequalities(sp.csc_matrix((0, program.size)), np.zeros(0), np.zeros(0))
    sums = 0 if presolved.needed is None else len(np.unique(presolved.cell))
    moving = (np.arange(program.size) < count) | further
    return Frame(program, sp.csr_matrix(moves), further, moving, rows, sums, presolved.cell)


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """One pass: S sums whose distances from their targets are minimised.

    Its rows are those of the frame, then the sums of the pass, then the sums that earlier passes settled.

    Attributes:
        frame: The constraints.
        fraction: Fraction of each variable, shape ``(N,)``.
        cost: Cost of each column of the frame, shape ``(W,)``.
        matrix: All rows over the frame's columns, shape ``(R, W)``.
        lower: Least value of each row, shape ``(R,)``; of the sums of the pass the floors of their targets.
        upper: Largest value of each row, likewise.
        slope: Cost of the step from the floor of each sum's target to the next whole number, shape ``(S,)``.
        price: Cost of a person beyond these two numbers.
        above: Whether a sum can exceed them, shape ``(S,)``.
        below: Whether it can stay below the floor, shape ``(S,)``.
        constant: What is missing for the objective to be a distance.
        likely: Columns to begin with, shape ``(W,)``.
    """

    frame: Frame
    fraction: Floats
    cost: Floats
    matrix: sp.csc_matrix
    lower: Floats
    upper: Floats
    slope: Floats
    price: float
    above: Booleans
    below: Booleans
    constant: float
    likely: Booleans

    @classmethod
    def of(
        cls,
        frame: Frame,
        fraction: Floats,
        sums: Sequence[Sums],
        held: Sequence[tuple[sp.csr_matrix, Floats]],
        *,
        released: bool,
    ) -> Goal:
        """Put a pass together (E-51, E-52).

        Args:
            frame: The constraints.
            fraction: Fraction of each variable.
            sums: Sums to bring near their targets.
            held: Sums that are settled, with their values.
            released: Whether distances are from the nearest whole number.
        """
        count, widened = len(fraction), bool(frame.further.any())
        times = np.bincount(np.concatenate([each.alone for each in sums]), minlength=count).astype(np.float64)
        matrix = sp.csr_matrix(sp.vstack([each.matrix for each in sums], format="csr"))
        target = snapped(matrix @ fraction)
        floors, size = np.floor(target), np.diff(matrix.indptr)
        price = 2.0 * count + 2.0 if released else 1.0
        rows = sp.vstack([matrix, *(each for each, _ in held)], format="csr") @ frame.moves
        values = [floors, *(value for _, value in held)]
        return cls(
            frame=frame,
            fraction=fraction,
            cost=_costs(frame, fraction, times, price, released=released),
            matrix=sp.csc_matrix(sp.vstack([frame.rows.matrix, rows], format="csc")),
            lower=np.concatenate([frame.rows.lower, *values]),
            upper=np.concatenate([frame.rows.upper, *values]),
            slope=price * slope(target, released=released),
            price=price,
            above=(size > floors + 1.0) | widened,
            below=(floors > 0) | widened,
            constant=price * _at_floor(fraction, times, target, released=released),
            likely=_likely(frame, fraction),
        )

    def _used(self, columns: Booleans) -> tuple[sp.csc_matrix, Booleans]:
        """The columns, and which rows there must be: all but the sums that no column counts, shape ``(R,)``."""
        matrix = self.matrix[:, columns]
        used = np.ones(len(self.lower), dtype=np.bool_)
        first = len(self.frame.rows.lower)
        used[first : first + len(self.slope)] = False
        used[matrix.indices] = True
        return matrix, used

    def program(
        self, columns: Booleans, *, integral: bool = False, kept: tuple[Booleans, Integers] | None = None
    ) -> Program:
        """Write the program (E-51): a sum has a column up to the next whole number, one above it, one below the floor.

        Args:
            columns: Columns of the frame to use, shape ``(W,)``; the others are zero.
            integral: Whether steps must be whole.
            kept: Variables whose steps are settled, shape ``(N,)``, and the steps.

        Returns:
            The program.
        """
        matrix, used = self._used(columns)
        frame, first = self.frame, len(self.frame.rows.lower)
        own = used[first : first + len(self.slope)]
        (number,) = np.nonzero(own)
        above, below = number[self.above[own]], number[self.below[own]]
        row = (np.cumsum(used) - 1).astype(matrix.indices.dtype)
        ends = matrix.indptr[-1] + np.arange(1, len(number) + len(above) + len(below) + 1, dtype=matrix.indptr.dtype)
        signs = np.concatenate([np.full(len(number) + len(above), -1.0), np.ones(len(below))])
        indices = np.concatenate([row[matrix.indices], row[first + np.concatenate([number, above, below])]])
        wide = sp.csc_matrix(
            (np.concatenate([matrix.data, signs]), indices, np.concatenate([matrix.indptr, ends])),
            shape=(int(used.sum()), int(columns.sum()) + len(ends)),
        )
        lower, upper = frame.program.lower[columns].copy(), frame.program.upper[columns].copy()
        if kept is not None and not frame.further.any():
            place = (np.cumsum(columns) - 1)[: len(self.fraction)]
            fixed = kept[0] & columns[: len(self.fraction)]
            lower[place[fixed]] = upper[place[fixed]] = kept[1][fixed]
        spare = np.full(len(above) + len(below), self.price)
        whole = np.concatenate([frame.moving[columns], np.zeros(len(ends), dtype=np.bool_)])
        return Program(
            diagonal=np.zeros(wide.shape[1]),
            linear=np.concatenate([self.cost[columns], self.slope[own], spare]),
            equality=sp.csc_matrix((0, wide.shape[1])),
            right=np.zeros(0),
            lower=np.concatenate([lower, np.zeros(len(ends))]),
            upper=np.concatenate([upper, np.ones(len(number)), np.full(len(spare), np.inf)]),
            inequalities=Inequalities(wide, self.lower[used], self.upper[used]),
            integral=whole if integral else None,
        )

    def prices(self, columns: Booleans, solution: Solution) -> Floats:
        """What a step up of each variable would cost, all told, by the best multipliers that fit a solution (E-55).

        Those of the cells' sums are chosen anew, as low as the steps that were made allow: a cell may have none.

        Args:
            columns: The columns of the program.
            solution: Its solution, with multipliers.

        Returns:
            Shape ``(N,)``.
        """
        frame, count = self.frame, len(self.fraction)
        if solution.rows is None or solution.x is None:
            return np.full(count, -np.inf)
        _, used = self._used(columns)
        multipliers = np.full(len(used), -self.price)  # a sum without a column is at its target, and can only go up
        multipliers[used] = solution.rows
        multipliers[: frame.sums] = 0.0
        prices = self.cost[:count] - (self.matrix.T @ multipliers)[:count]
        if frame.sums:
            values = np.zeros(len(columns))
            values[columns] = solution.x[: int(columns.sum())]
            (made,) = np.nonzero(values[:count] > WHOLE)
            lowest = np.full(int(frame.cell.max()) + 1, -np.inf)
            np.maximum.at(lowest, frame.cell[made], prices[made])
            prices = prices - lowest[frame.cell]
        return np.asarray(prices, dtype=np.float64)

    def steps(self, solution: Solution, columns: Booleans) -> tuple[Integers, Booleans]:
        """Steps of each variable, and which of them came out whole.

        Args:
            solution: Of the program of these columns.
            columns: Columns of the frame that the program has, shape ``(W,)``.

        Returns:
            The nearest whole steps, in people, and whether each came out whole, both of shape ``(N,)``; without a
            point, no step is made.
        """
        values = np.zeros(len(columns))
        if solution.x is not None:
            values[columns] = solution.x[: int(columns.sum())]
        found = self.frame.moves @ values
        nearest = np.rint(found)
        return nearest.astype(np.int64), np.asarray(np.abs(found - nearest) <= WHOLE, dtype=np.bool_)

    def value(self, solution: Solution, columns: Booleans) -> float:
        """The objective of a solution, as a distance.

        Args:
            solution: Of the program of these columns, whole or not.
            columns: Columns of the frame that the program has, shape ``(W,)``.

        Returns:
            What its point costs, with `constant`; ``inf`` where it has no point.
        """
        if solution.x is None:
            return np.inf
        return float(self.program(columns).linear @ solution.x) + self.constant


def _costs(frame: Frame, fraction: Floats, times: Floats, price: float, *, released: bool) -> Floats:
    """Cost of each column of the frame: the variables that sums of the pass count alone (E-51), and ties (E-54)."""
    cost = np.zeros(frame.program.size)
    cost[: len(fraction)] = price * times * slope(fraction, released=released)
    if released:
        cost[: len(fraction)] += 1.0 - 2.0 * fraction
    if frame.further.any():
        cost[frame.further] = np.tile(price * times + (1.0 if released else _EXACT), 2)
    return cost


def _likely(frame: Frame, fraction: Floats) -> Booleans:
    """All columns but the steps up of variables that are whole, if they need none."""
    likely = np.ones(frame.program.size, dtype=np.bool_)
    if not frame.further.any():
        likely[: len(fraction)] = (fraction > 0) | (frame.program.lower[: len(fraction)] > 0)
    return likely


def _at_floor(fraction: Floats, times: Floats, target: Floats, *, released: bool) -> float:
    """Distance of the floors from the targets."""
    if released:
        return float((times * np.rint(fraction)).sum() + (np.rint(target) - np.floor(target)).sum())
    return float((times * fraction).sum() + (target - np.floor(target)).sum())
