r"""The records of a geounit from what is published of it, by mixed-integer programs.

Of a geounit the columns :math:`b_j` of its tables are known, and :math:`M_{ij}`, how many times column *j* counts cell
*i*. Its records are nonnegative whole counts of cells with

.. math:: \sum_i M_{ij} x_i = b_j \quad \text{for every column } j.

The program is made small before it is solved, without losing a solution. A cell that a column with value 0 counts, or
in which nobody can be, is left out. Cells that every other column counts alike are one variable, a *class*; those that
no column counts are not reconstructed. Then lower and upper bounds of variables follow from each other, column by
column, until nothing moves; what is fixed is taken out. Where something is left, HiGHS chooses among the solutions the
one whose records are most likely in the protected estimate of the area near by:

.. math:: \min \sum_k c_k x_k, \qquad c_k = \lfloor -16 \log_2 p_k \rceil.

Records of a class are spread over its cells in proportion to that estimate by largest remainders; where it has none of
them, to that of the whole run; evenly where that has none either.

How much solutions differ is the largest distance :math:`\|y - x\|_1` of any solution *y* from the one found (a record
that is another one counts twice). As :math:`|y_i - x_i| = y_i + x_i - 2 \min(y_i, x_i)`, and as of a class with several
cells all records can be in the cell that x has fewest of, :math:`m_k` of them, it is

.. math:: \max \sum_i x_i + \sum_k y_k - 2 \sum_k z_k, \quad z_k \ge \min(y_k, m_k),

where :math:`\min` takes a whole variable of 0 or 1 for each class with :math:`m_k > 0`. Distance 0: it is the only
solution.

The published reconstruction of 2010 made the same equalities for the cells of each block and tract, and the same second
program ("solvar"); it took any solution that the solver came upon.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from das_spark.attack.guess import shared
from das_spark.estimation.solvers import Capability, Inequalities, Program, SolverOptions, Status, solver
from das_spark.histogram import Histogram
from das_spark.tabulation import Incidence, incidence

if TYPE_CHECKING:
    from das_spark.tabulation import Table

Counts = NDArray[np.int64]

#: Nodes of branch and bound of each of the two programs.
NODES: Final = 1_000
#: Cells that no zero column excludes, at most: more are given up, as with too many nodes.
_MOST_CELLS: Final = 50_000
#: Rounds in which bounds of variables follow from each other, at most.
_ROUNDS: Final = 100
_LIKELIHOOD_STEPS: Final = 16  # of a factor of two in likelihood
_NO_MORE: Final = np.zeros(0)  # variables
_HIGHS: Final = solver("highs", frozenset({Capability.LINEAR, Capability.MIXED_INTEGER}))


class Outcome(StrEnum):
    """How the reconstruction of a geounit ended."""

    ONE = "one solution"
    SEVERAL = "several solutions"
    OPEN = "a solution, and the nodes ran out before others were found or ruled out"
    LIMIT = "no solution within the limits"
    INFEASIBLE = "no solution exists"


@dataclass(frozen=True, slots=True)
class Reconstruction:
    """What was reconstructed of a geounit.

    Attributes:
        records: The records; none where there is no solution.
        outcome: How it ended.
        distance: Largest L1 distance of another solution; where the nodes ran out, a distance that is reached.
        exact: Whether that distance is known to be the largest.
        variables: How many classes the cells are that the columns leave.
        free: How many of these the bounds do not fix.
    """

    records: Histogram
    outcome: Outcome
    distance: int = 0
    exact: bool = True
    variables: int = 0
    free: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class PublishedColumns:
    """The columns of all tables of a geolevel, and what is known of cells without them. Small: it travels to tasks."""

    matrix: Incidence  #: which columns count which cells
    impossible: NDArray[np.bool_]  #: structural zeros, (cells,)

    @classmethod
    def of(cls, tables: Sequence[Table], impossible: NDArray[np.bool_]) -> PublishedColumns:
        """The columns of tables of one schema, in order.

        Args:
            tables: At least one.
            impossible: Cells in which nobody can be, (cells,).

        Raises:
            QueryError: As for `incidence`.
        """
        return cls(incidence(tables), impossible)

    def candidates(self, values: Counts) -> NDArray[np.int64] | None:
        """The cells in which somebody can be: no structural zeros, and counted by no column that is 0.

        Args:
            values: Of the columns, (columns,).

        Returns:
            Cells, ascending; None where they are too many.
        """
        matrix = self.matrix
        column = np.concatenate([np.arange(len(matrix.names)), matrix.further])
        zero = values[column] == 0
        levels = [np.unpackbits(bits, axis=1, count=matrix.selections).astype(np.bool_) for bits in matrix.left]
        restricts = np.array([~of_axis.all(axis=0) for of_axis in levels])  # (axes, selections)
        alone = restricts.sum(axis=0) <= 1
        last = np.where(restricts.any(axis=0), len(levels) - 1 - np.argmax(restricts[::-1], axis=0), 0)
        cells, bits = np.zeros(1, dtype=np.int64), np.full((1, matrix.left[0].shape[1]), 255, dtype=np.uint8)
        for axis, size in enumerate(matrix.shape):
            # Levels that a zero column excludes whatever the others are, then cells that are excluded by now.
            dead = np.packbits(zero & alone & restricts[axis])
            kept = np.flatnonzero(~(matrix.left[axis] & dead).any(axis=1))
            if len(cells) * len(kept) > _MOST_CELLS * 10:
                return None
            cells = (cells[:, None] * size + kept).reshape(-1)
            bits = (bits[:, None] & matrix.left[axis][kept]).reshape(-1, bits.shape[1])
            decided = np.packbits(zero & (last <= axis))
            left = ~(bits & decided).any(axis=1)
            cells, bits = cells[left], bits[left]
        cells = cells[~self.impossible[cells]]
        return cells if len(cells) <= _MOST_CELLS else None


@dataclass(frozen=True, slots=True, eq=False)
class Likely:
    """What an attacker takes for likely: protected records of the area near by, and of the whole run."""

    near: Histogram
    whole: Histogram


def _at(of: Histogram, cells: NDArray[np.int64]) -> Counts:
    if not len(of.cells):
        return np.zeros(len(cells), dtype=np.int64)
    place = np.minimum(np.searchsorted(of.cells, cells), len(of.cells) - 1)
    return np.where(of.cells[place] == cells, of.counts[place], 0)


def reconstruct(columns: PublishedColumns, values: Counts, likely: Likely, nodes: int = NODES) -> Reconstruction:
    """Reconstruct the records of a geounit.

    Args:
        columns: What is published.
        values: The values of the columns, in order, (columns,).
        likely: By which of several solutions one is chosen.
        nodes: Of branch and bound of each program, at most.

    Returns:
        Records that meet every column, and how many solutions there are; the outcome says where there are none.
    """
    size = columns.matrix.size
    nothing = Histogram.from_pairs(size, [], [])
    if (values < 0).any():
        return Reconstruction(nothing, Outcome.INFEASIBLE)
    if not values.any():
        return Reconstruction(nothing, Outcome.ONE)
    cells = columns.candidates(values)
    if cells is None:
        return Reconstruction(nothing, Outcome.LIMIT)
    problem = _Problem.of(columns.matrix, cells, values, likely)
    variables, free = len(problem.costs), int(problem.free.sum())
    if problem.is_contradicted:
        return Reconstruction(nothing, Outcome.INFEASIBLE, variables=variables)
    status, found = problem.first(nodes)
    if found is None:
        outcome = Outcome.INFEASIBLE if status is Status.INFEASIBLE else Outcome.LIMIT
        return Reconstruction(nothing, outcome, variables=variables, free=free)
    counts = problem.spread(found)
    distance, exact = problem.farthest(counts, nodes)
    outcome = Outcome.SEVERAL if distance else Outcome.ONE if exact else Outcome.OPEN
    records = Histogram.from_pairs(size, problem.cells, counts)
    return Reconstruction(records, outcome, distance, exact, variables, free)


@dataclass(frozen=True, slots=True, eq=False)
class _Problem:
    """The program of a geounit after all that needs no solver."""

    cells: NDArray[np.int64]  # those that some column counts, class by class, (n,)
    starts: NDArray[np.int64]  # where the cells of each class begin, (classes,)
    matrix: sp.csr_array  # columns x classes, without columns that are 0 or stand twice
    values: Counts  # of these columns
    lower: Counts  # least and most records of each class that bounds leave, (classes,)
    upper: Counts
    near: Counts  # records near by, and in the whole run, of each cell, (n,)
    whole: Counts
    costs: NDArray[np.float64]  # of each class: the more, the less likely it is

    @classmethod
    def of(cls, matrix: Incidence, cells: NDArray[np.int64], values: Counts, likely: Likely) -> _Problem:
        """Cells that columns do not tell apart become one variable, and bounds follow from each other."""
        (positive,) = np.nonzero(values)
        counted = matrix.counted(cells)[:, positive]
        somewhere = counted.any(axis=1)
        cells, counted = cells[somewhere], counted[somewhere]
        classes, member = _unique_rows(counted)
        order = np.argsort(member, kind="stable")
        starts = np.searchsorted(member[order], np.arange(len(classes)))
        cells = cells[order]
        near, whole = _at(likely.near, cells), _at(likely.whole, cells)
        # Every cell has a little of a record, so that no class is impossible.
        share = (whole + 1 / matrix.size) / (likely.whole.total + 1)
        chance = _sums((near + share) / (likely.near.total + 1), starts)
        rows, _ = _unique_rows(np.column_stack([classes.T.astype(np.int64), values[positive]]))
        sparse, right = sp.csr_array(rows[:, :-1]), rows[:, -1]
        lower, upper = _bounds(sparse, right)
        costs = np.rint(-_LIKELIHOOD_STEPS * np.log2(chance))
        return cls(cells, starts, sparse, right, lower, upper, near, whole, costs)

    @property
    def free(self) -> NDArray[np.bool_]:
        """Classes that bounds do not fix."""
        return self.upper > self.lower

    @property
    def is_contradicted(self) -> bool:
        """Whether bounds alone show that there is no solution."""
        least, most = self.matrix @ self.lower, self.matrix @ self.upper
        return bool((self.lower > self.upper).any() or (least > self.values).any() or (most < self.values).any())

    def first(self, nodes: int) -> tuple[Status, Counts | None]:
        """The likeliest records of the classes, and how the solver ended."""
        free, found = self.free, self.lower.copy()
        if not free.any():
            return Status.OPTIMAL, found
        program = self._program(self.costs[free], np.ones(np.count_nonzero(free), dtype=np.bool_))
        solution = _HIGHS.solve(program, SolverOptions(iterations=nodes))
        if solution.x is None:
            return solution.status, None
        found[free] = np.rint(solution.x).astype(np.int64)
        met = bool((self.matrix @ found == self.values).all() and (found >= 0).all())
        return solution.status, found if met else None

    def _program(
        self,
        costs: NDArray[np.float64],
        integral: NDArray[np.bool_],
        added: NDArray[np.float64] = _NO_MORE,
        more: Inequalities | None = None,
    ) -> Program:
        """Every column as an equality on the free classes; behind them variables from 0 to `added`, in no column."""
        free = self.free
        rest = self.values - self.matrix @ np.where(free, 0, self.lower)
        columns = sp.csr_array(self.matrix[:, free])
        kept = np.diff(columns.indptr) > 0
        equality = sp.hstack([columns[kept], sp.csr_array((int(kept.sum()), len(added)))], format="csc")
        lower = np.concatenate([self.lower[free], np.zeros(len(added))])
        upper = np.concatenate([self.upper[free], added])
        matrix, right = sp.csc_matrix(equality.astype(np.float64)), rest[kept].astype(np.float64)
        return Program(np.zeros(len(costs)), costs, matrix, right, lower, upper, more, integral)

    def spread(self, found: Counts) -> Counts:
        """Records of the cells of each class, (n,)."""
        counts = np.zeros(len(self.cells), dtype=np.int64)
        ends = np.append(self.starts[1:], len(self.cells))
        for start, end, records in zip(self.starts.tolist(), ends.tolist(), found.tolist(), strict=True):
            if records:
                weights = next(
                    (part for part in (self.near[start:end], self.whole[start:end]) if part.any()),
                    np.ones(end - start, dtype=np.int64),
                )
                counts[start:end] = shared(weights, records)
        return counts

    def farthest(self, counts: Counts, nodes: int) -> tuple[int, bool]:
        """The largest distance of another solution from some records of the cells, and whether that is certain."""
        least = np.minimum.reduceat(counts, self.starts) if len(counts) else counts
        free, found = self.free, self.lower.copy()
        exact = True
        if free.any():
            solution = _HIGHS.solve(self._differing(least[free]), SolverOptions(iterations=nodes))
            exact = solution.status is Status.OPTIMAL
            if solution.x is None:
                return 0, False
            found[free] = np.rint(solution.x[: np.count_nonzero(free)]).astype(np.int64)
            if (self.matrix @ found != self.values).any():
                return 0, False
        return int(counts.sum() + found.sum() - 2 * np.minimum(found, least).sum()), exact

    def _differing(self, least: Counts) -> Program:
        """Maximise the sum of y less twice what it has in common with `least`, over the free classes."""
        lower, upper, size = self.lower[self.free], self.upper[self.free], len(least)
        # In common is y itself where it is never more than `least`, and `least` where it is never less.
        costs = np.where(upper <= least, 1.0, -1.0)
        (both,) = np.nonzero((lower < least) & (least < upper))
        number = len(both)
        z, chosen = size + np.arange(number), size + number + np.arange(number)
        row, one = np.arange(number), np.ones(number)
        # z >= y - (upper - least)(1 - chosen), and z >= least - (least - lower) chosen.
        above, below = (upper - least)[both].astype(np.float64), (least - lower)[both].astype(np.float64)
        matrix = sp.csc_matrix(
            (
                np.concatenate([one, -one, -above, one, below]),
                (
                    np.concatenate([row, row, row, number + row, number + row]),
                    np.concatenate([z, both, chosen, z, chosen]),
                ),
            ),
            shape=(2 * number, size + 2 * number),
        )
        limits = Inequalities(matrix, np.concatenate([-above, least[both]]), np.full(2 * number, np.inf))
        integral = np.concatenate([np.ones(size), np.zeros(number), np.ones(number)]).astype(np.bool_)
        added = np.concatenate([np.full(number, np.inf), np.ones(number)])
        return self._program(np.concatenate([costs, np.full(number, 2.0), np.zeros(number)]), integral, added, limits)


def _sums(values: NDArray[Any], starts: NDArray[np.int64]) -> NDArray[Any]:
    """Sums of runs that begin at some places, none of them empty."""
    sums: NDArray[Any] = np.add.reduceat(values, starts) if len(values) else values
    return sums


def _unique_rows(rows: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The different rows of a table, in the order of their first places, and which of them each row is."""
    if not rows.size:
        return rows[: min(1, len(rows))], np.zeros(len(rows), dtype=np.int64)
    content = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))).reshape(-1)
    _, first, inverse = np.unique(content, return_index=True, return_inverse=True)
    place = np.argsort(np.argsort(first))
    return rows[np.sort(first)], place[inverse.reshape(-1)]


def _bounds(matrix: sp.csr_array, values: Counts) -> tuple[Counts, Counts]:
    """Least and most of each variable that follow from the others', column by column, until nothing moves."""
    entries = matrix.tocoo()
    row, variable, times = entries.row, entries.col, entries.data
    lower = np.zeros(matrix.shape[1], dtype=np.int64)
    upper = np.full(matrix.shape[1], values.max(initial=0), dtype=np.int64)
    for _ in range(_ROUNDS):
        before = lower.copy(), upper.copy()
        left = (values - matrix @ lower)[row] + times * lower[variable]
        np.minimum.at(upper, variable, left // times)
        needed = (values - matrix @ upper)[row] + times * upper[variable]
        np.maximum.at(lower, variable, -(-needed // times))
        if (lower > upper).any() or (np.array_equal(before[0], lower) and np.array_equal(before[1], upper)):
            break
    return lower, upper
