"""Write a presolved family as a quadratic program around a guess, and read its solution back (E-8 to E-12).

The program's unknowns are deviations from the guess in units of a typical noise deviation, so that populations of
millions and noise of a few people meet a solver as numbers of order one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from das_spark.estimation import flows as flow_part
from das_spark.estimation.flows import FlowVariables
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.solvers.base import QuadraticProgram, Solution
from das_spark.estimation.support import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A proposed real-valued estimate, with hints of multipliers that may help to prove it best.

    Attributes:
        x: People, shape ``(K, n)``.
        flows: Flows, shape ``(D, C)``, or None.
        parent_multipliers: Hint for the sums over children, shape ``(n,)``.
        bound_multipliers: Hints for each of the family's bounds, each of shape ``(K, rows)``.
        flow_multipliers: Hint for the class margins, shape ``(K, C)``, or None.
    """

    x: Floats
    flows: Floats | None
    parent_multipliers: Floats
    bound_multipliers: tuple[Floats, ...]
    flow_multipliers: Floats | None


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """A quadratic program and what is needed to read its solution.

    Attributes:
        presolved: The family.
        program: The program in scaled deviations; cells, then auxiliary margins, flows, and slacks of the failsafe.
        scale: People to a unit of the program.
        centre: The guess, people, one for each variable of the program.
        row_of_cell: Program row of each cell's sum over children, -1 where there is none, shape ``(n,)``.
        auxiliary: Position among auxiliary variables of each margin, -1 where it is an equality, shape ``(M,)``.
        flows: Flow variables, or None.
    """

    presolved: Presolved
    program: QuadraticProgram
    scale: float
    centre: Floats
    row_of_cell: Integers
    auxiliary: Integers
    flows: FlowVariables | None


def assemble(presolved: Presolved) -> Assembly:
    """Write the quadratic program of a presolved family.

    Args:
        presolved: The family; at least one variable.

    Returns:
        The program with its guess.
    """
    margins = presolved.margins
    flows = flow_part.flow_variables(presolved)
    free = ~margins.equal
    auxiliary = np.where(free, np.cumsum(free) - 1, -1)
    weights = np.concatenate([presolved.weight, margins.weight[free]])
    scale = 1.0 / float(np.sqrt(np.median(weights[weights > 0]))) if (weights > 0).any() else 1.0
    guess = initial_guess(presolved)
    row_of_cell = _sum_rows(presolved)
    parts = _Parts.of(presolved, flows, guess)
    centre = np.concatenate([guess, margins.sums(guess)[free], parts.flow_centre, np.zeros(parts.slacks)])
    matrix, right = _equalities(presolved, flows, row_of_cell, auxiliary, parts)
    lower, upper = parts.bounds(presolved, flows, free)
    diagonal = np.zeros(len(centre))
    diagonal[: len(weights)] = 2.0 * scale**2 * weights
    target = np.zeros(len(centre))
    target[: len(weights)] = np.concatenate([presolved.target, margins.target[free]])
    rows, rows_upper = parts.allowance(presolved, len(centre), scale)
    program = QuadraticProgram(
        diagonal=diagonal,
        linear=diagonal * (centre - target) / scale,
        equality=matrix,
        right=(right - matrix @ centre) / scale,
        lower=(lower - centre) / scale,
        upper=(upper - centre) / scale,
        rows=rows,
        rows_lower=None if rows is None else np.full(1, -np.inf),
        rows_upper=rows_upper,
    )
    return Assembly(presolved, program, scale, centre, row_of_cell, auxiliary, flows)


def initial_guess(presolved: Presolved) -> Floats:
    """Guess the variables: folded noisy answers, corrected to the parent's sums, not negative (E-9).

    Args:
        presolved: The family.

    Returns:
        People, shape ``(N,)``.
    """
    weight, target = _with_prior(presolved)
    if presolved.needed is None:
        return np.clip(target, presolved.lower, np.minimum(presolved.upper, presolved.support.most.max(initial=0.0)))
    cells = len(presolved.needed)
    ease = 1.0 / weight
    missing = presolved.needed - np.bincount(presolved.cell, target, minlength=cells)
    spread = np.bincount(presolved.cell, ease, minlength=cells)
    guess = np.maximum(target + missing[presolved.cell] * ease / spread[presolved.cell], 0.0)
    guess = np.minimum(guess, presolved.needed[presolved.cell])
    total = np.bincount(presolved.cell, guess, minlength=cells)
    factor = np.divide(presolved.needed, total, out=np.zeros(cells), where=total > 0)
    return guess * factor[presolved.cell]


def _with_prior(presolved: Presolved) -> tuple[Floats, Floats]:
    """Weights and targets of variables, where a variable that nothing measures alone gets a faint share of a margin."""
    weight, target = presolved.weight.copy(), presolved.target.copy()
    (bare,) = np.nonzero(weight == 0)
    if not len(bare):
        return weight, target
    weight[bare] = 1e-3 * weight.max() if len(bare) < len(weight) else 1.0
    measured = [each for each in presolved.support.partitions if each.weight.any()]
    children = presolved.support.children
    if presolved.needed is not None:
        people = np.ones(children)
        if measured:
            people = np.maximum(min(measured, key=lambda each: each.rows).values.sum(axis=1), 0.0) + 1.0
        target[bare] = presolved.needed[presolved.cell[bare]] * (people / people.sum())[presolved.child[bare]]
    elif measured:
        finest = max(measured, key=lambda each: each.rows)
        index = finest.index[presolved.cell[bare]]
        shared = np.bincount(finest.index[finest.index >= 0], minlength=finest.rows)
        value = finest.values[presolved.child[bare], index] / np.maximum(shared[index], 1)
        target[bare] = np.where(index >= 0, value, 0.0)
    return weight, target


def _sum_rows(presolved: Presolved) -> Integers:
    """Number the rows that sum a cell over children."""
    cells = len(presolved.support.cells)
    if presolved.needed is None:
        return np.full(cells, -1, dtype=np.int64)
    if presolved.support.relaxation is not None:
        return np.arange(cells, dtype=np.int64)
    live = np.bincount(presolved.cell, minlength=cells) > 0
    return np.where(live, np.cumsum(live) - 1, -1)


@dataclass(frozen=True, slots=True, eq=False)
class _Parts:
    """The optional parts of a program: flows, and slacks of the failsafe (two for each cell)."""

    flow_centre: Floats
    slacks: int

    @classmethod
    def of(cls, presolved: Presolved, flows: FlowVariables | None, guess: Floats) -> _Parts:
        slacks = 0 if presolved.support.relaxation is None else 2 * len(presolved.support.cells)
        if flows is None:
            return cls(np.zeros(0), slacks)
        base = flows.cells @ guess
        base[: len(flows.flows.total)] = 0.0
        fixed = np.zeros(flows.link.shape)
        np.add.at(fixed, flows.flows.child, flows.fixed)
        return cls(flow_part.centre(flows, base[flows.link] + fixed - flows.right[flows.link]), slacks)

    def bounds(self, presolved: Presolved, flows: FlowVariables | None, free: Floats) -> tuple[Floats, Floats]:
        margins = presolved.margins
        lower = [presolved.lower, margins.lower[free]]
        upper = [presolved.upper, margins.upper[free]]
        if flows is not None:
            lower.append(flows.lower)
            upper.append(flows.upper)
        lower.append(np.zeros(self.slacks))
        upper.append(np.full(self.slacks, np.inf))
        return np.concatenate(lower), np.concatenate(upper)

    def allowance(self, presolved: Presolved, size: int, scale: float) -> tuple[sp.csc_matrix | None, Floats | None]:
        """The row that limits the L1 distance from the parent (E-32)."""
        relaxation = presolved.support.relaxation
        if relaxation is None:
            return None, None
        row = np.zeros(size)
        row[size - self.slacks :] = 1.0
        return sp.csc_matrix(row[None, :]), np.array([relaxation.allowance / scale])


def _equalities(
    presolved: Presolved, flows: FlowVariables | None, row_of_cell: Integers, auxiliary: Integers, parts: _Parts
) -> tuple[sp.csc_matrix, Floats]:
    """All equality rows: sums over children, margins, flows, groups of the failsafe."""
    margins, count = presolved.margins, presolved.variables
    sums = int(row_of_cell.max(initial=-1)) + 1
    (shown,) = np.nonzero(auxiliary >= 0)
    rows = [sums + margins.entry_margin, sums + shown]
    columns = [margins.entry_variable, count + auxiliary[shown]]
    values = [np.ones(len(margins.entry_margin)), -np.ones(len(shown))]
    if sums:
        rows.insert(0, row_of_cell[presolved.cell])
        columns.insert(0, np.arange(count))
        values.insert(0, np.ones(count))
    right = np.zeros(sums + len(margins.child))
    if presolved.needed is not None:
        right[row_of_cell[row_of_cell >= 0]] = presolved.needed[row_of_cell >= 0]
    equal = auxiliary < 0
    right[sums:][equal] = margins.lower[equal]
    width = count + len(shown)
    shape = (len(right), width + len(parts.flow_centre) + parts.slacks)
    if presolved.support.relaxation is not None:
        cells = np.arange(sums)
        rows += [cells, cells]
        columns += [shape[1] - parts.slacks + cells, shape[1] - sums + cells]
        values += [np.ones(sums), -np.ones(sums)]
    matrix = sp.csc_matrix((np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))), shape=shape)
    blocks, sides = [matrix], [right]
    if flows is not None:
        blocks.append(_beside(flows.cells, len(shown), flows.matrix, shape[1]))
        sides.append(flows.right)
    if presolved.support.relaxation is not None:
        group = presolved.support.relaxation.group[presolved.cell]
        totals = presolved.support.relaxation.totals.astype(np.float64)
        blocks.append(sp.csc_matrix((np.ones(count), (group, np.arange(count))), shape=(len(totals), shape[1])))
        sides.append(totals)
    if len(blocks) == 1:
        return matrix, right
    return sp.vstack(blocks, format="csc"), np.concatenate(sides)


def _beside(cells: sp.csc_matrix, gap: int, flows: sp.csc_matrix, width: int) -> sp.csc_matrix:
    """Rows over cells and flows, with nothing under the auxiliary variables between them and the slacks behind."""
    rest = width - cells.shape[1] - gap - flows.shape[1]
    height = cells.shape[0]
    blocks = [cells, sp.csc_matrix((height, gap)), flows, sp.csc_matrix((height, rest))]
    return sp.hstack(blocks, format="csc")


def read_back(assembly: Assembly, solution: Solution) -> Candidate:
    """Turn a program's solution into people and multipliers in people's units.

    Args:
        assembly: The program.
        solution: A solution with a point.

    Returns:
        The candidate: not negative, and with the parent's sums but for rounding errors.
    """
    presolved = assembly.presolved
    point = assembly.centre if solution.x is None else assembly.centre + assembly.scale * solution.x
    count, margins = presolved.variables, presolved.margins
    x = presolved.fixed.astype(np.float64)
    x[presolved.child, presolved.cell] = _repaired(presolved, point[:count])
    duals = np.zeros(assembly.program.equality.shape[0])
    reduced = np.zeros(len(point))
    if solution.multipliers is not None and solution.bounds is not None:
        duals = solution.multipliers / assembly.scale
        reduced = solution.bounds / assembly.scale
    parent = np.where(assembly.row_of_cell >= 0, duals[assembly.row_of_cell] if len(duals) else 0.0, 0.0)
    if presolved.support.relaxation is not None:
        parent = parent + duals[len(duals) - len(presolved.support.relaxation.totals) :][presolved.support.relaxation.group]
    sums = int(assembly.row_of_cell.max(initial=-1)) + 1
    shown = int((assembly.auxiliary >= 0).sum())
    of_margin = np.where(
        assembly.auxiliary >= 0,
        reduced[count + assembly.auxiliary] if shown else 0.0,
        duals[sums : sums + len(margins.child)] + _slope_where_equal(presolved),
    )
    flows, prices = _flows_back(assembly, point, duals, sums + len(margins.child), count + shown)
    return Candidate(
        x=x,
        flows=flows,
        parent_multipliers=parent,
        bound_multipliers=_bound_multipliers(presolved, of_margin, reduced[:count]),
        flow_multipliers=prices,
    )


def _slope_where_equal(presolved: Presolved) -> Floats:
    """Derivative of the objective in margins that are known; the program leaves these constants out."""
    margins = presolved.margins
    known = np.where(margins.equal, margins.lower, margins.target)
    return np.asarray(2.0 * margins.weight * (known - margins.target))


def _repaired(presolved: Presolved, point: Floats) -> Floats:
    """Remove a solver's rounding errors: nothing negative, and each cell scaled to its sum (E-12)."""
    point = np.clip(point, presolved.lower, presolved.upper)
    if presolved.needed is None or presolved.support.relaxation is not None:
        return point
    cells = len(presolved.needed)
    total = np.bincount(presolved.cell, point, minlength=cells)
    factor = np.divide(presolved.needed, total, out=np.ones(cells), where=total > 0)
    return np.asarray(point * factor[presolved.cell])


def _flows_back(
    assembly: Assembly, point: Floats, duals: Floats, row: int, column: int
) -> tuple[Floats | None, Floats | None]:
    flows = assembly.flows
    if flows is None:
        return None, None
    found = flows.fixed.astype(np.float64)
    values = point[column : column + len(flows.descendant)]
    found[flows.descendant, flows.klass] = np.clip(values, flows.lower, flows.upper)
    return found, duals[row + flows.link]


def _bound_multipliers(presolved: Presolved, of_margin: Floats, reduced: Floats) -> tuple[Floats, ...]:
    """Hand each multiplier of a margin, or of a variable with a bound of its own, to the bound that binds there."""
    problem, margins = presolved.support.problem, presolved.margins
    hints = tuple(np.zeros(bound.lower.shape) for bound in problem.bounds)
    margin_from = np.where(of_margin > 0, margins.lower_from, margins.upper_from)
    variable_from = np.where(reduced > 0, presolved.lower_from, presolved.upper_from)
    for number, (partition, of_row) in enumerate(zip(presolved.support.partitions, margins.of_row, strict=True)):
        if not partition.limits:
            continue
        value = np.zeros(of_row.shape)
        if len(of_margin):
            value = np.where((of_row >= 0) & (margin_from[of_row] == number), of_margin[of_row], 0.0)
        (own,) = np.nonzero(variable_from == number)
        value[presolved.child[own], partition.index[presolved.cell[own]]] = reduced[own]
        for limit, rows in partition.limits:
            bound = problem.bounds[limit]
            binds_low = (value > 0) & (bound.lower[:, rows] >= partition.lower)
            binds_high = (value < 0) & (bound.upper[:, rows] <= partition.upper)
            hints[limit][:, rows] = np.where(binds_low | binds_high, value, 0.0)
            value = np.where(binds_low | binds_high, 0.0, value)
    return hints
