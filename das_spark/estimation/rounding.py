"""Whole numbers that keep every constraint, from a certified real-valued estimate: cell by cell, or in several passes.

Cell by cell (E-21 to E-27), the largest remainders of each cell are the best rounding while no bound objects. Where one
does, the cells that are tied together by violated bounds go to a linear program, whose vertices are whole numbers when
the bounds are nested (README, section 6), and to a mixed-integer one when that comes out broken.

In several passes (E-51 to E-55), each pass is one program over the steps up from the floor, which brings the sums of
some queries nearest to the real ones. The distance of a sum from its real value has corners only at whole numbers, so
that where the sums of a pass are nested the vertices of the linear program are whole, and its optimum is proved. Where
they are not, the cells that came out whole are kept and the others go to a mixed-integer program: its distance from the
linear bound is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from das_spark.estimation.check import MOST_CLASSES, divisible_margins
from das_spark.estimation.nested_rounding import (
    EXACT,
    UNBOUNDED,
    Level,
    Steps,
    best_steps,
    forest,
    slope,
    snapped,
)
from das_spark.estimation.problem import Booleans, Floats, Integers, Rounding
from das_spark.estimation.program import constraints
from das_spark.estimation.solvers import (
    SOLVERS,
    Inequalities,
    Program,
    Solution,
    SolverOptions,
    Status,
    linear_program,
)
from das_spark.estimation.ties import hash_geocodes, split_without_ties

if TYPE_CHECKING:
    from das_spark.estimation.presolve import Presolved
    from das_spark.histogram import Query

WHOLE = 1e-6
"""Largest distance from a whole number that is taken for an exact one in a solver's vertex."""

MANY = 500_000
"""Variables of a root from which few of them are looked at: nearly all are zero, and no bound asks for them."""

LARGE = 100_000
"""Cells of a schema from which passes with nested sums are minimum-cost flows: below, ties stay as they have been."""

NODES = 100_000
"""Branch-and-bound nodes of the mixed-integer program."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """Whole numbers."""

    counts: Integers  # people, int64, shape (K, n)
    method: str  # how they were found; empty when there was nothing to round
    cost: float  # distance to the real-valued estimate less its least possible value (E-23)
    # how far the objective may be from the best possible, relative to it; 0 where it is proved to be the best
    gap: float = 0.0


def round_family(presolved: Presolved, x: Floats) -> Rounded | None:
    """The closest whole numbers to an estimate (K, n) that keep the constraints, or None when none were found."""
    base, fraction = floors(presolved, x)
    up, exact = largest_remainders(presolved, base, fraction)
    violated = violations(presolved, base + up) if exact else None
    if violated is not None and not violated.any() and _divisible(presolved, base + up):
        return rounded(presolved, base, fraction, up, "largest remainder" if presolved.variables else "")
    if _has_networks(presolved):
        cells = np.arange(len(presolved.support.cells))
        found = _by_flows(presolved, base, fraction, [[Level(cells, len(cells), 1)]], released=False)
        if found is not None:
            return rounded(presolved, base, fraction, *found)
    if presolved.needed is None and presolved.variables >= MANY:
        # Every cell by itself as a single pass, which looks at few of the variables of a large root (E-55).
        frame = Frame.of(presolved, base, fraction)
        alone = Sums(sp.csr_matrix((0, presolved.variables)), np.arange(presolved.variables))
        few = _in_turn(frame, [[alone]])
        if few is not None:
            return rounded(presolved, base, fraction, *few)
    chosen = np.ones(presolved.variables, dtype=np.bool_)
    if violated is not None and presolved.support.problem.flows is None:
        chosen = tied_together(presolved, violated)
    programmed = _programmed(presolved, base, fraction, chosen)
    if programmed is None:
        return None
    steps, method = programmed
    return rounded(presolved, base, fraction, np.where(chosen, steps, up), method)


def floors(presolved: Presolved, x: Floats) -> tuple[Integers, Floats]:
    """Floor and fraction of each variable of an estimate (K, n), shapes ``(N,)`` (E-21)."""
    support = presolved.support
    hashes = hash_geocodes(support.problem.children)[presolved.child]
    return split_without_ties(x[presolved.child, presolved.cell], hashes, support.cells[presolved.cell])


def largest_remainders(presolved: Presolved, base: Integers, fraction: Floats) -> tuple[Integers, bool]:
    """Give each cell's missing people to its largest fractions (E-24)."""
    up = np.zeros(len(base), dtype=np.int64)
    if presolved.needed is None:
        up[fraction > 0.5] = 1  # noqa: PLR2004 - nearer to the upper whole number
        return up, True
    cells = len(presolved.needed)
    missing = presolved.needed.copy()
    np.subtract.at(missing, presolved.cell, base)
    (partial,) = np.nonzero(fraction > 0)
    order = partial[np.lexsort((-fraction[partial], presolved.cell[partial]))]
    cell = presolved.cell[order]
    start = np.searchsorted(cell, np.arange(cells))
    up[order] = np.arange(len(order)) - start[cell] < missing[cell]
    available = np.bincount(cell, minlength=cells)
    return up, bool(((missing >= 0) & (missing <= available)).all())


def violations(presolved: Presolved, values: Integers) -> Booleans:
    """Variables in an aggregate, or with a bound of their own, that these whole numbers violate, shape ``(N,)``."""
    wrong = (values < presolved.lower) | (values > presolved.upper)
    aggregates = presolved.aggregates
    bounded = aggregates.bounded
    if bounded.any():
        sums = aggregates.sums(values.astype(np.float64))
        broken = bounded & ((sums < aggregates.lower) | (sums > aggregates.upper))
        wrong[aggregates.entry_variable[broken[aggregates.entry_aggregate]]] = True
    return wrong


def tied_together(presolved: Presolved, violated: Booleans) -> Booleans:
    """Variables that share cells or bounded aggregates, through any chain, with a violated one, shape ``(N,)``."""
    aggregates = presolved.aggregates
    entry = aggregates.bounded[aggregates.entry_aggregate]
    cells = len(presolved.support.cells)
    cell = presolved.cell if presolved.needed is not None else cells + np.arange(presolved.variables)
    nodes = int(cell.max()) + 1
    aggregate = nodes + aggregates.entry_aggregate[entry]
    size = nodes + len(aggregates.child)
    graph = sp.csr_matrix(
        (np.ones(len(aggregate)), (cell[aggregates.entry_variable[entry]], aggregate)), shape=(size, size)
    )
    _, label = connected_components(graph, directed=False)
    return np.isin(label[cell], label[cell[violated]])


def _divisible(presolved: Presolved, values: Integers) -> bool:
    """Whether class margins can be divided among the descendants; False too when that is not cheap to say."""
    flows = presolved.support.problem.flows
    if flows is None:
        return True
    if flows.query.rows > MOST_CLASSES:
        return False
    counts = _counts(presolved, values)
    rows = flows.query.row_of(presolved.support.cells)
    margins = np.zeros((len(counts), flows.query.rows), dtype=np.int64)
    counted = rows >= 0
    np.add.at(margins.T, rows[counted], counts.T[counted])
    return bool(divisible_margins(margins, flows).all())


def _counts(presolved: Presolved, values: Integers) -> Integers:
    counts = presolved.fixed.dense(presolved.support)
    counts[presolved.child, presolved.cell] = values
    return counts


def rounded(
    presolved: Presolved, base: Integers, fraction: Floats, steps: Integers, method: str, gap: float = 0.0
) -> Rounded:
    """What steps up or down from the floor make of a family."""
    cost = float((np.abs(steps - fraction) - np.minimum(fraction, 1.0 - fraction)).sum())
    return Rounded(_counts(presolved, base + steps), method, cost, gap)


def _programmed(
    presolved: Presolved, base: Integers, fraction: Floats, chosen: Booleans
) -> tuple[Integers, str] | None:
    """Steps of chosen variables by a program, and how: in the unit box first, then in a wider one (E-25, E-26)."""
    for widened in (False, True):
        program = rounding_program(presolved, base, fraction, chosen, widened=widened)
        for whole, method in ((False, "linear program"), (True, "mixed-integer program")):
            steps = _steps(program, int(chosen.sum()), whole=whole, widened=widened)
            if steps is not None:
                all_steps = np.zeros(len(base), dtype=np.int64)
                all_steps[chosen] = steps
                return all_steps, method + (", widened" if widened else "")
    return None


def rounding_program(
    presolved: Presolved, base: Integers, fraction: Floats, chosen: Booleans, *, widened: bool
) -> Program:
    """Write the rounding of chosen variables as a linear program (E-25)."""
    parts = constraints(presolved, chosen)
    count, spare = parts.variables, parts.flows
    floor = base[chosen].astype(np.float64)
    low, high = presolved.lower[chosen] - floor, presolved.upper[chosen] - floor
    lower = np.concatenate([np.maximum(low, 0.0), parts.lower])
    upper = np.concatenate([np.minimum(high, 1.0), parts.upper])
    fixed = parts.rows.matrix[:, :count] @ floor
    rows = Inequalities(parts.rows.matrix, parts.rows.lower - fixed, parts.rows.upper - fixed)
    cost = np.concatenate([1.0 - 2.0 * fraction[chosen], np.zeros(spare)])
    if widened:
        # More columns: further steps up and steps down, each at the price of one person.
        lower[:count], upper[:count] = 0.0, 1.0
        cells, own = rows.matrix[:, :count], sp.eye_array(count, format="csc")
        own_rows = sp.hstack([own, sp.csc_matrix((count, spare)), own, -own], format="csc")
        matrix = sp.vstack([sp.hstack([rows.matrix, cells, -cells]), own_rows], format="csc")
        rows = Inequalities(
            sp.csc_matrix(matrix), np.concatenate([rows.lower, low]), np.concatenate([rows.upper, high])
        )
        lower = np.concatenate([lower, np.zeros(2 * count)])
        upper = np.concatenate([upper, np.full(count, np.inf), floor])
        cost = np.concatenate([cost, np.ones(2 * count)])
    return linear_program(cost, lower, upper, rows)


def _steps(program: Program, count: int, *, whole: bool, widened: bool) -> Integers | None:
    """Solve for the steps of each variable; None when there is no solution in whole numbers."""
    if (program.lower > program.upper).any():
        return None
    if whole:
        program = replace(program, integral=np.ones(program.size, dtype=np.bool_))
    solution = SOLVERS["highs"].solve(program, SolverOptions(iterations=NODES if whole else 0))
    if solution.status is not Status.OPTIMAL or solution.x is None:
        return None
    steps = solution.x[:count]
    if widened:
        steps = steps + solution.x[-2 * count : -count] - solution.x[-count:]
    nearest = np.rint(steps)
    return nearest.astype(np.int64) if np.abs(steps - nearest).max(initial=0.0) <= WHOLE else None


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The sums of one query that count two or more variables of a child, and the variables that stand alone."""

    matrix: sp.csr_matrix  # incidence, shape (sums, N)
    alone: Integers  # variables that are the only ones of their row, as positions, sorted

    @property
    def all(self) -> sp.csr_matrix:
        """Incidence of all sums, those of one variable too."""
        count = len(self.alone)
        shape = (count, self.matrix.shape[1])
        single = sp.csr_matrix((np.ones(count), (np.arange(count), self.alone)), shape=shape)
        return sp.csr_matrix(sp.vstack([self.matrix, single], format="csr"))


def sums_of(presolved: Presolved, query: Query) -> Sums:
    """The sums of a query over the variables of each child."""
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


@dataclass(frozen=True, slots=True, eq=False)
class Frame:
    """What all passes over a family share: its constraints over steps up from the floor; W columns."""

    presolved: Presolved
    base: Integers  # floor of each variable, shape (N,)
    fraction: Floats  # fraction of each, shape (N,)
    released: bool  # whether distances are from the nearest whole number, as in the public release (E-52)
    program: Program  # steps up, flows, and if widened further steps up and steps down (E-26)
    moves: sp.csr_matrix  # how far each column moves each variable, shape (N, W)
    further: Booleans  # columns of further steps up and steps down, shape (W,)
    moving: Booleans  # columns that move a variable: all but the flows, shape (W,)
    rows: Inequalities  # the program's rows
    sums: int  # how many of them are sums of cells over children; they come first

    @classmethod
    def of(
        cls, presolved: Presolved, base: Integers, fraction: Floats, *, released: bool = False, widened: bool = False
    ) -> Frame:
        """Write the constraints of a family."""
        count = len(base)
        chosen = np.ones(count, dtype=np.bool_)
        program = rounding_program(presolved, base, np.zeros(count), chosen, widened=widened)
        flows = program.size - count * (3 if widened else 1)
        own = sp.eye_array(count, format="csr")
        moves = sp.hstack([own, sp.csr_matrix((count, flows)), *((own, -own) if widened else ())], format="csr")
        column = np.arange(program.size)
        return cls(
            presolved=presolved,
            base=base,
            fraction=fraction,
            released=released,
            program=program,
            moves=sp.csr_matrix(moves),
            further=column >= count + flows,
            moving=(column < count) | (column >= count + flows),
            rows=program.inequalities or Inequalities(sp.csc_matrix((0, program.size)), np.zeros(0), np.zeros(0)),
            sums=0 if presolved.needed is None else len(np.unique(presolved.cell)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """One pass: S sums whose distances from their targets are minimised.

    Its rows are those of the frame, then the sums of the pass, then the sums that earlier passes settled.
    """

    frame: Frame  # the constraints
    cost: Floats  # cost of each column of the frame, shape (W,)
    matrix: sp.csc_matrix  # all rows over the frame's columns, shape (R, W)
    lower: Floats  # least value of each row, shape (R,); of the sums of the pass the floors of their targets
    upper: Floats  # largest value of each row, likewise
    slope: Floats  # cost of the step from the floor of each sum's target to the next whole number, shape (S,)
    price: float  # cost of a person beyond these two numbers
    above: Booleans  # whether a sum can exceed them, shape (S,)
    below: Booleans  # whether it can stay below the floor, shape (S,)
    constant: float  # what is missing for the objective to be a distance
    likely: Booleans  # columns to begin with, shape (W,)

    @classmethod
    def of(cls, frame: Frame, sums: Sequence[Sums], earlier: Sequence[tuple[sp.csr_matrix, Floats]]) -> Goal:
        """Put a pass together (E-51, E-52)."""
        fraction, released = frame.fraction, frame.released
        count, widened = len(fraction), bool(frame.further.any())
        times = np.bincount(np.concatenate([each.alone for each in sums]), minlength=count).astype(np.float64)
        matrix = sp.csr_matrix(sp.vstack([each.matrix for each in sums], format="csr"))
        target = snapped(matrix @ fraction)
        floors, size = np.floor(target), np.diff(matrix.indptr)
        price = 2.0 * count + 2.0 if released else 1.0
        rows = sp.vstack([matrix, *(each for each, _ in earlier)], format="csr") @ frame.moves
        values = [floors, *(value for _, value in earlier)]
        return cls(
            frame=frame,
            cost=_costs(frame, times, price),
            matrix=sp.csc_matrix(sp.vstack([frame.rows.matrix, rows], format="csc")),
            lower=np.concatenate([frame.rows.lower, *values]),
            upper=np.concatenate([frame.rows.upper, *values]),
            slope=price * slope(target, released=released),
            price=price,
            above=(size > floors + 1.0) | widened,
            below=(floors > 0) | widened,
            constant=price * _at_floor(fraction, times, target, released=released),
            likely=_likely(frame),
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
        """Write the program (E-51): of a sum, columns up to the next whole number, above it, and below the floor."""
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
            place = (np.cumsum(columns) - 1)[: len(frame.fraction)]
            fixed = kept[0] & columns[: len(frame.fraction)]
            lower[place[fixed]] = upper[place[fixed]] = kept[1][fixed]
        spare = np.full(len(above) + len(below), self.price)
        whole = np.concatenate([frame.moving[columns], np.zeros(len(ends), dtype=np.bool_)])
        return linear_program(
            cost=np.concatenate([self.cost[columns], self.slope[own], spare]),
            lower=np.concatenate([lower, np.zeros(len(ends))]),
            upper=np.concatenate([upper, np.ones(len(number)), np.full(len(spare), np.inf)]),
            rows=Inequalities(wide, self.lower[used], self.upper[used]),
            integral=whole if integral else None,
        )

    def prices(self, columns: Booleans, solution: Solution) -> Floats:
        """What a step up of each variable would cost, all told, by the best multipliers that fit a solution (E-55).

        Those of the cells' sums are chosen anew, as low as the steps that were made allow: a cell may have none.
        """
        frame, count = self.frame, len(self.frame.fraction)
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
            cell = frame.presolved.cell
            lowest = np.full(int(cell.max()) + 1, -np.inf)
            np.maximum.at(lowest, cell[made], prices[made])
            prices = prices - lowest[cell]
        return np.asarray(prices, dtype=np.float64)

    def steps(self, solution: Solution, columns: Booleans) -> tuple[Integers, Booleans]:
        """Steps of each variable, and which of them came out whole."""
        values = np.zeros(len(columns))
        if solution.x is not None:
            values[columns] = solution.x[: int(columns.sum())]
        found = self.frame.moves @ values
        nearest = np.rint(found)
        return nearest.astype(np.int64), np.asarray(np.abs(found - nearest) <= WHOLE, dtype=np.bool_)

    def value(self, solution: Solution, columns: Booleans) -> float:
        """The objective of a solution, as a distance."""
        if solution.x is None:
            return np.inf
        return float(self.program(columns).linear @ solution.x) + self.constant


def _costs(frame: Frame, times: Floats, price: float) -> Floats:
    """Cost of each column of the frame: the variables that sums of the pass count alone (E-51), and ties (E-54)."""
    fraction, released = frame.fraction, frame.released
    cost = np.zeros(frame.program.size)
    cost[: len(fraction)] = price * times * slope(fraction, released=released)
    if released:
        cost[: len(fraction)] += 1.0 - 2.0 * fraction
    if frame.further.any():
        cost[frame.further] = np.tile(price * times + (1.0 if released else EXACT), 2)
    return cost


def _likely(frame: Frame) -> Booleans:
    """All columns but the steps up of variables that are whole, if they need none."""
    fraction = frame.fraction
    likely = np.ones(frame.program.size, dtype=np.bool_)
    if not frame.further.any():
        likely[: len(fraction)] = (fraction > 0) | (frame.program.lower[: len(fraction)] > 0)
    return likely


def _at_floor(fraction: Floats, times: Floats, target: Floats, *, released: bool) -> float:
    """Distance of the floors from the targets."""
    if released:
        return float((times * np.rint(fraction)).sum() + (np.rint(target) - np.floor(target)).sum())
    return float((times * fraction).sum() + (target - np.floor(target)).sum())


PASS_NODES = 50
"""Branch-and-bound nodes of a pass that is not whole."""

GAP = 1e-3
"""Distance from the linear bound, relative to the objective, at which they are not needed."""

_PRICE = 1e-6
"""A step whose price is above minus this cannot help, but for a solver's rounding errors."""

_NEAR = 0.5
"""Where a step would help, those that nearly would come with it."""

_Steps = tuple[Integers, str, float]  # steps of each variable, how they were found, distance from the bound


def round_in_passes(
    presolved: Presolved, x: Floats, passes: Sequence[Sequence[Query]], rounding: Rounding
) -> Rounded | None:
    """Round an estimate (K, n) pass by pass, the last one ending with every cell; None where none are found."""
    base, fraction = floors(presolved, x)
    if not presolved.variables:
        return rounded(presolved, base, fraction, np.zeros(0, dtype=np.int64), "")
    if _has_networks(presolved):
        levels = [[_level(presolved, query) for query in queries] for queries in passes]
        flows = _by_flows(presolved, base, fraction, levels, released=rounding == "released")
        if flows is not None:
            return rounded(presolved, base, fraction, *flows)
    frame = Frame.of(presolved, base, fraction, released=rounding == "released")
    sums = [[sums_of(presolved, query) for query in queries] for queries in passes]
    totals = _best_totals(frame, sums)
    found = None if totals is None else _in_turn(frame, sums, totals)
    found = found or _in_turn(frame, sums)
    return None if found is None else rounded(presolved, base, fraction, *found)


def _has_networks(presolved: Presolved) -> bool:
    """Whether passes over a family are tried as minimum-cost flows."""
    problem = presolved.support.problem
    return problem.size >= LARGE and problem.flows is None and presolved.support.relaxation is None


def _level(presolved: Presolved, query: Query) -> Level:
    """The sums of a query that a pass asks for."""
    found = query.restrict(presolved.support.cells)
    return Level(found.index, len(found.rows), 1)


def _by_flows(
    presolved: Presolved, base: Integers, fraction: Floats, passes: Sequence[Sequence[Level]], *, released: bool
) -> _Steps | None:
    """Pass by pass as minimum-cost flows, each keeping the sums of those before it; None if not nested, or no flow."""
    cells = len(presolved.support.cells)
    missing = None
    if presolved.needed is not None:
        missing = presolved.needed - np.bincount(presolved.cell, base, minlength=cells).astype(np.int64)
    given = Steps(
        child=presolved.child,
        cell=presolved.cell,
        children=presolved.support.children,
        fraction=fraction,
        lower=np.maximum(np.ceil(presolved.lower - EXACT) - base, 0).astype(np.int64),
        upper=np.minimum(np.floor(presolved.upper + EXACT) - base, 1).astype(np.int64),
        missing=missing,
        released=released,
    )
    held, gap, steps = _bounded_levels(presolved, base), 0.0, given.lower
    for number, levels in enumerate(passes):
        groups = forest([*held, *levels], given.children)
        found = None if groups is None else best_steps(given, groups)
        if found is None:
            return None
        steps, gap = found[0], max(gap, found[1])
        if number < len(passes) - 1:
            for level in levels:
                reached = _sums_by_level(level, given.child, given.cell, steps, given.children)
                held.append(replace(level, times=0, lower=reached, upper=reached))
                single = np.bincount(level.index[level.index >= 0], minlength=level.groups + 1) == 1
                known = single[level.index[given.cell]]
                given = replace(
                    given,
                    lower=np.where(known, steps, given.lower),
                    upper=np.where(known, steps, given.upper),
                )
    return steps, "minimum-cost flow" if fraction.any() else "largest remainder", gap


def _bounded_levels(presolved: Presolved, base: Integers) -> list[Level]:
    """The family's bounds as bounds on steps up from the floor."""
    found = []
    fixed = presolved.fixed
    child, cell = np.concatenate([presolved.child, fixed.child]), np.concatenate([presolved.cell, fixed.cell])
    people = np.concatenate([base, fixed.people])
    for partition in presolved.support.partitions:
        if not partition.limits:
            continue
        level = Level(partition.index, partition.rows, 0)
        reached = _sums_by_level(level, child, cell, people, presolved.support.children)
        lower = upper = np.maximum(np.ceil(partition.lower - EXACT), -UNBOUNDED).astype(np.int64)
        if partition.upper is not partition.lower:
            upper = np.minimum(np.floor(partition.upper + EXACT), UNBOUNDED).astype(np.int64)
            upper -= reached
        lower -= reached
        found.append(replace(level, lower=lower, upper=upper))
    return found


def _sums_by_level(level: Level, child: Integers, cell: Integers, values: Integers, children: int) -> Integers:
    """Sum whole numbers by child and group, shape ``(K, r)``."""
    group = level.index[cell]
    (entry,) = np.nonzero((group >= 0) & (values != 0))
    key = child[entry] * level.groups + group[entry]
    total = np.bincount(key, values[entry], minlength=children * level.groups)
    return total.reshape(children, level.groups).astype(np.int64)


def _in_turn(frame: Frame, passes: Sequence[Sequence[Sums]], totals: Floats | None = None) -> _Steps | None:
    """Pass by pass, each keeping the sums of those before it; with the first pass's totals, if they are known.

    Each is solved in the unit box above the floor first; where the totals were given, in no other.
    """
    steps, methods, gap = np.zeros(0, dtype=np.int64), [""], 0.0
    earlier: list[tuple[sp.csr_matrix, Floats]] = []
    if totals is not None:
        earlier, passes = [(passes[0][0].matrix, totals)], passes[1:]
    for number, sums in enumerate(passes):
        if number:
            earlier += [(each.all, np.asarray(each.all @ steps, dtype=np.float64)) for each in passes[number - 1]]
        found = _solved(Goal.of(frame, sums, earlier))
        if found is None and totals is None:
            wide = Frame.of(frame.presolved, frame.base, frame.fraction, released=frame.released, widened=True)
            found = _solved(Goal.of(wide, sums, earlier))
            found = None if found is None else (found[0], found[1] + ", widened", found[2])
        if found is None:
            return None
        steps, method, short = found
        methods.append(method)
        gap = max(gap, short)
    return steps, max(methods, key=len), gap


def _best_totals(frame: Frame, passes: Sequence[Sequence[Sums]]) -> Floats | None:
    """Steps of each child, where the first pass rounds nothing but totals: the largest remainders go up (E-53).

    No division of the parent's people does better in that pass; whether one with these totals exists, the next tells.
    """
    family = frame.presolved
    if len(passes) < 2 or len(passes[0]) != 1 or family.needed is None:  # noqa: PLR2004
        return None
    first, children = passes[0][0], len(np.unique(family.child))
    if len(first.alone) or first.matrix.shape[0] != children or first.matrix.nnz != family.variables:
        return None
    target = snapped(np.asarray(first.matrix @ frame.fraction, dtype=np.float64))
    totals = np.floor(target)
    up = int(family.needed.sum() - frame.base.sum() - totals.sum())
    if not 0 <= up <= children:
        return None
    totals[np.lexsort((totals - target, slope(target, released=frame.released)))[:up]] += 1.0
    return totals


def _solved(goal: Goal) -> _Steps | None:
    """Solve a pass: steps, how they were found, distance from the bound relative to the objective."""
    found = _relaxed(goal)
    if found is None:
        return None
    solution, columns = found
    steps, whole = goal.steps(solution, columns)
    if whole.all():
        return steps, "linear program", 0.0
    bound = goal.value(solution, columns)
    for kept, chosen in ((whole, columns), (None, np.ones_like(columns))):
        program = goal.program(chosen, integral=True, kept=None if kept is None else (kept, steps))
        best = SOLVERS["highs"].solve(program, SolverOptions(iterations=PASS_NODES, gap=GAP))
        if best.x is None:
            continue
        steps, whole = goal.steps(best, chosen)
        if whole.all():
            gap = max(0.0, goal.value(best, chosen) - bound) / max(1.0, abs(bound))
            return steps, "mixed-integer program", gap
    return None


def _relaxed(goal: Goal) -> tuple[Solution, Booleans] | None:
    """Solve the linear program of a pass: on few columns, then with others until no price is left that would help."""
    if (goal.frame.program.lower > goal.frame.program.upper).any():
        return None
    columns = goal.likely
    while True:
        solution = SOLVERS["highs"].solve(goal.program(columns), SolverOptions(presolve=False))
        if solution.status is Status.OPTIMAL and solution.rows is not None:
            prices = np.where(columns[: len(goal.frame.fraction)], np.inf, goal.prices(columns, solution))
            if prices.min(initial=np.inf) >= -_PRICE:
                return solution, columns
            columns = columns.copy()
            columns[: len(prices)] |= prices < _NEAR
        elif columns.all():
            return None
        else:
            columns = np.ones_like(columns)
