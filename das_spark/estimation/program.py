"""A presolved family as a program: flows, constraint rows, the quadratic program, its solution read back (E-5 to E-12).

The quadratic program's unknowns are deviations from a guess in units of a typical noise deviation, so that populations
of millions and noise of a few people meet a solver as numbers of order one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from das_spark.estimation.solvers import Inequalities, Program, Solution
from das_spark.estimation.support import Candidate, hand_out

if TYPE_CHECKING:
    from das_spark.estimation.presolve import Presolved
    from das_spark.estimation.problem import Booleans, FamilyFlows, Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class FlowVariables:
    """Flows that are not fixed, and the rows that tie them to cells; W flows, L rows.

    Rows come first for descendants (flows sum to the total), then for child and class (cells less flows are zero).
    """

    flows: FamilyFlows  # the family's flows
    descendant: Integers  # descendant of each flow, shape (W,)
    kind: Integers  # class of each flow, shape (W,)
    lower: Floats  # least people, shape (W,)
    upper: Floats  # most people, shape (W,)
    fixed: Integers  # flows known beforehand, shape (D, C); 0 where free
    cells: sp.csc_matrix  # incidence of rows with the variables of the family, shape (L, N)
    matrix: sp.csc_matrix  # incidence of rows with flows, shape (L, W)
    right: Floats  # right-hand sides, shape (L,)
    link: Integers  # row of each child and class, shape (K, C)


def flow_variables(presolved: Presolved) -> FlowVariables | None:
    """Make the flow variables and rows of a family, or None when it has no flows."""
    flows = presolved.support.problem.flows
    if flows is None:
        return None
    class_of_cell = flows.query.row_of(presolved.support.cells)
    lower, upper = tightened(flows)
    absent = np.setdiff1d(np.arange(flows.query.rows), class_of_cell)
    upper[:, absent] = np.minimum(upper[:, absent], np.maximum(lower[:, absent], 0))
    free = upper > lower
    descendant, kind = np.nonzero(free)
    fixed = np.where(free, 0, lower)
    members, classes = lower.shape
    link = members + np.arange(presolved.support.children * classes).reshape(-1, classes)
    shape = (members + link.size, len(descendant))
    number = np.arange(len(descendant))
    rows = np.concatenate([descendant, link[flows.child[descendant], kind]])
    signs = np.concatenate([np.ones(len(number)), -np.ones(len(number))])
    variable, variable_class = _counted(class_of_cell, presolved.cell)
    cell_rows = link[presolved.child[variable], variable_class]
    cells = sp.csc_matrix((np.ones(len(variable)), (cell_rows, variable)), shape=(shape[0], presolved.variables))
    return FlowVariables(
        flows=flows,
        descendant=descendant,
        kind=kind,
        lower=lower[free].astype(np.float64),
        upper=upper[free].astype(np.float64),
        fixed=fixed,
        cells=cells,
        matrix=sp.csc_matrix((signs, (rows, np.concatenate([number, number]))), shape=shape),
        right=_right_sides(presolved, flows, fixed, link, class_of_cell),
        link=link,
    )


def _counted(class_of_cell: Integers, cell: Integers) -> tuple[Integers, Integers]:
    """Positions whose cell has a class, and that class."""
    (position,) = np.nonzero(class_of_cell[cell] >= 0)
    return position, class_of_cell[cell[position]]


def _right_sides(
    presolved: Presolved, flows: FamilyFlows, fixed: Integers, link: Integers, class_of_cell: Integers
) -> Floats:
    """Totals less fixed flows; then fixed flows less fixed cells."""
    right = np.zeros(len(flows.total) + link.size)
    right[: len(flows.total)] = flows.total - fixed.sum(axis=1)
    np.add.at(right, link[flows.child], fixed)
    known, known_class = _counted(class_of_cell, presolved.fixed.cell)
    np.add.at(right, link[presolved.fixed.child[known], known_class], -presolved.fixed.people[known])
    return right


def tightened(flows: FamilyFlows) -> tuple[Integers, Integers]:
    """Bounds of the flows that the totals imply: (lower, upper), each of shape ``(D, C)`` (E-6)."""
    rest_lower = flows.lower.sum(axis=1, keepdims=True) - flows.lower
    upper = np.minimum(flows.upper, flows.total[:, None] - rest_lower)
    rest_upper = upper.sum(axis=1, keepdims=True) - upper
    lower = np.maximum(flows.lower, flows.total[:, None] - rest_upper)
    return lower, upper


def guessed_flows(variables: FlowVariables, guess: Floats) -> Floats:
    """Guess flows: what is left above the lower bounds, shared in proportion to room and class margin."""
    flows = variables.flows
    margins = (variables.cells @ guess - variables.right)[variables.link]
    np.add.at(margins, flows.child, variables.fixed)
    members = len(flows.total)
    taken = variables.fixed.sum(axis=1) + np.bincount(variables.descendant, variables.lower, minlength=members)
    left = np.maximum(flows.total - taken, 0.0)[variables.descendant]
    room = variables.upper - variables.lower
    of_child = margins[flows.child[variables.descendant], variables.kind]
    appeal = np.minimum(room, left) * (np.maximum(of_child, 0.0) + 1.0)
    whole = np.bincount(variables.descendant, appeal, minlength=members)[variables.descendant]
    share = np.divide(appeal, whole, out=np.zeros(len(appeal)), where=whole > 0)
    return np.asarray(variables.lower + np.minimum(room, left * share), dtype=np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """Rows over some variables and then all flows."""

    rows: Inequalities  # the rows
    aggregate: Integers  # margin of each row, -1 for the others, shape (rows,)
    variables: int  # number of variables before the flows
    lower: Floats  # least people of each flow, shape (W,)
    upper: Floats  # most people of each flow

    @property
    def flows(self) -> int:
        """Number of flows W."""
        return len(self.lower)


def constraints(presolved: Presolved, chosen: Booleans | None = None) -> Constraints:
    """Write the constraints over chosen variables, and all flows."""
    flows = flow_variables(presolved)
    chosen = np.ones(presolved.variables, dtype=np.bool_) if chosen is None else chosen
    count = int(chosen.sum())
    parts = [_sums(presolved, chosen), _aggregates(presolved, chosen)]
    aggregate = np.concatenate([np.full(parts[0].matrix.shape[0], -1), np.flatnonzero(_touched(presolved, chosen))])
    least = most = np.zeros(0)
    if flows is not None:
        spare, least, most = len(flows.descendant), flows.lower, flows.upper
        wide = [sp.hstack([part.matrix, sp.csc_matrix((part.matrix.shape[0], spare))]) for part in parts]
        matrix = sp.vstack([*wide, sp.hstack([flows.cells, flows.matrix])], format="csc")
        parts.append(Inequalities(flows.cells, flows.right, flows.right))
        aggregate = np.concatenate([aggregate, np.full(len(flows.right), -1)])
    else:
        matrix = sp.vstack([part.matrix for part in parts], format="csc")
    lower, upper = np.concatenate([part.lower for part in parts]), np.concatenate([part.upper for part in parts])
    return Constraints(Inequalities(sp.csc_matrix(matrix), lower, upper), aggregate, count, least, most)


def _sums(presolved: Presolved, chosen: Booleans) -> Inequalities:
    count = int(chosen.sum())
    if presolved.needed is None or presolved.support.relaxation is not None:
        return Inequalities(sp.csc_matrix((0, count)), np.zeros(0), np.zeros(0))
    cell = presolved.cell[chosen]
    live = np.bincount(cell, minlength=len(presolved.needed)) > 0
    row = (np.cumsum(live) - 1)[cell]
    right = presolved.needed[live].astype(np.float64)
    return Inequalities(
        sp.csc_matrix((np.ones(count), (row, np.arange(count))), shape=(len(right), count)), right, right
    )


def _touched(presolved: Presolved, chosen: Booleans) -> Booleans:
    """Bounded aggregates of chosen variables, shape ``(M,)``."""
    aggregates = presolved.aggregates
    touched = np.zeros(len(aggregates.child), dtype=np.bool_)
    touched[aggregates.entry_aggregate[chosen[aggregates.entry_variable]]] = True
    return touched & aggregates.bounded


def _aggregates(presolved: Presolved, chosen: Booleans) -> Inequalities:
    aggregates, touched = presolved.aggregates, _touched(presolved, chosen)
    entry = touched[aggregates.entry_aggregate] & chosen[aggregates.entry_variable]
    row = (np.cumsum(touched) - 1)[aggregates.entry_aggregate[entry]]
    column = (np.cumsum(chosen) - 1)[aggregates.entry_variable[entry]]
    shape = (int(touched.sum()), int(chosen.sum()))
    matrix = sp.csc_matrix((np.ones(len(row)), (row, column)), shape=shape)
    return Inequalities(matrix, aggregates.lower[touched], aggregates.upper[touched])


FAINT = 1e-3
"""Weight, beside the largest, of the guess for a variable that nothing measures alone; it is in the guess only."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where things stand in a program.

    Columns are variables, auxiliary aggregates, flows, slacks of the failsafe (above the parent, then below); rows are
    sums over children, aggregates, flows, groups of the failsafe.
    """

    row_of_cell: Integers  # row of each cell's sum over children, -1 where there is none, shape (n,)
    auxiliary: Integers  # position among auxiliary variables of each aggregate, -1 where it is an equality, shape (M,)
    variables: int  # number of variables N
    shown: int  # number of auxiliary variables
    flows: int  # number of flows
    slacks: int  # number of slacks
    sums: int  # number of sums over children
    aggregates: int  # number of aggregates M

    @property
    def width(self) -> int:
        """Number of columns."""
        return self.variables + self.shown + self.flows + self.slacks

    @property
    def first_flow(self) -> int:
        """Column of the first flow."""
        return self.variables + self.shown

    @classmethod
    def of(cls, presolved: Presolved, flows: FlowVariables | None) -> Layout:
        """Lay a family out."""
        row_of_cell = _sum_rows(presolved)
        free = ~presolved.aggregates.equal
        cells = len(presolved.support.cells)
        return cls(
            row_of_cell=row_of_cell,
            auxiliary=np.where(free, np.cumsum(free) - 1, -1),
            variables=presolved.variables,
            shown=int(free.sum()),
            flows=0 if flows is None else len(flows.descendant),
            slacks=0 if presolved.support.relaxation is None else 2 * cells,
            sums=int(row_of_cell.max(initial=-1)) + 1,
            aggregates=len(free),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """A quadratic program and what is needed to read its solution."""

    presolved: Presolved  # the family
    program: Program  # the program in scaled deviations
    layout: Layout  # where things stand in it
    scale: float  # people to a unit of the program
    centre: Floats  # the guess in people, one for each column
    flows: FlowVariables | None  # flow variables, or None


def assemble(presolved: Presolved) -> Assembly:
    """Write the quadratic program of a presolved family."""
    aggregates = presolved.aggregates
    flows = flow_variables(presolved)
    layout = Layout.of(presolved, flows)
    free = layout.auxiliary >= 0
    measured = layout.variables + layout.shown
    weight, target = np.zeros(layout.width), np.zeros(layout.width)
    weight[:measured] = np.concatenate([presolved.weight, aggregates.weight[free]])
    target[:measured] = np.concatenate([presolved.target, aggregates.target[free]])
    scale = 1.0 / float(np.sqrt(np.median(weight[weight > 0]))) if weight.any() else 1.0
    guess = initial_guess(presolved)
    of_flows = np.zeros(0) if flows is None else guessed_flows(flows, guess)
    centre = np.concatenate([guess, aggregates.sums(guess)[free], of_flows, np.zeros(layout.slacks)])
    matrix, right = _equalities(presolved, flows, layout)
    lower, upper = _bounds(presolved, flows, layout)
    diagonal = 2.0 * scale**2 * weight
    linear = diagonal * (centre - target) / scale
    coupling, slope = _coupled(presolved, guess, layout)
    program = Program(
        diagonal=diagonal,
        linear=linear if slope is None else linear + scale * slope,
        equality=matrix,
        right=(right - matrix @ centre) / scale,
        lower=(lower - centre) / scale,
        upper=(upper - centre) / scale,
        inequalities=_allowance(presolved, layout, scale),
        coupling=None if coupling is None else sp.csc_matrix(scale**2 * coupling),
    )
    return Assembly(presolved, program, layout, scale, centre, flows)


def _coupled(presolved: Presolved, guess: Floats, layout: Layout) -> tuple[sp.csc_matrix | None, Floats | None]:
    """Hessian and gradient, at the guess, of what is known of children besides their answers (E-67)."""
    prior = presolved.support.problem.prior
    if prior is None:
        return None, None
    x = presolved.fixed.dense(presolved.support).astype(np.float64)
    x[presolved.child, presolved.cell] = guess
    _, gradient = prior.value_and_gradient(presolved.support.cells, x)
    slope = np.zeros(layout.width)
    slope[: layout.variables] = gradient[presolved.child, presolved.cell]
    blocks = []
    for child in range(presolved.support.children):
        cells = presolved.support.cells[presolved.cell[presolved.child == child]]
        blocks.append(2.0 * prior.dense(child, cells))  # variables are sorted by child
    rest = sp.csc_matrix((layout.width - layout.variables,) * 2)
    return sp.csc_matrix(sp.block_diag([*blocks, rest], format="csc")), slope


def recentred(assembly: Assembly, x: Floats) -> Assembly:
    """The same program around a better guess: what an interior-point method lost in digits it finds on a second try."""
    program = assembly.program
    x = np.clip(x, program.lower, program.upper)
    limits = program.inequalities
    if limits is not None:
        reached = limits.matrix @ x
        limits = Inequalities(limits.matrix, limits.lower - reached, limits.upper - reached)
    moved = replace(
        program,
        linear=program.gradient(x),
        right=program.right - program.equality @ x,
        lower=program.lower - x,
        upper=program.upper - x,
        inequalities=limits,
    )
    return replace(assembly, program=moved, centre=assembly.centre + assembly.scale * x)


def initial_guess(presolved: Presolved) -> Floats:
    """Guess the variables: noisy answers of single cells, corrected to the parent's sums, not negative (E-9)."""
    weight, target = _with_prior(presolved)
    if presolved.needed is None:
        most = np.minimum(presolved.upper, presolved.support.most.max(initial=0.0))
        return np.clip(target, presolved.lower, most)
    cells = len(presolved.needed)
    ease = 1.0 / weight
    missing = presolved.needed - np.bincount(presolved.cell, target, minlength=cells)
    spread = np.bincount(presolved.cell, ease, minlength=cells)
    guess = np.maximum(target + missing[presolved.cell] * ease / spread[presolved.cell], 0.0)
    guess = np.minimum(guess, presolved.needed[presolved.cell])
    total = np.bincount(presolved.cell, guess, minlength=cells)
    factor = np.divide(presolved.needed, total, out=np.zeros(cells), where=total > 0)
    return np.asarray(guess * factor[presolved.cell], dtype=np.float64)


def _with_prior(presolved: Presolved) -> tuple[Floats, Floats]:
    """Weights and targets, where a variable that nothing measures alone gets a faint share of its cell or aggregate."""
    weight, target = presolved.weight.copy(), presolved.target.copy()
    (bare,) = np.nonzero(weight == 0)
    if not len(bare):
        return weight, target
    weight[bare] = FAINT * weight.max() if len(bare) < len(weight) else 1.0
    measured = [partition for partition in presolved.support.partitions if partition.weight.any()]
    if presolved.needed is not None:
        people = presolved.support.sizes()
        target[bare] = presolved.needed[presolved.cell[bare]] * (people / people.sum())[presolved.child[bare]]
    elif measured:
        finest = max(measured, key=lambda each: each.rows)
        index = finest.index[presolved.cell[bare]]
        sharing = np.bincount(finest.index[finest.index >= 0], minlength=finest.rows)
        value = finest.values[presolved.child[bare], index] / np.maximum(sharing[index], 1)
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


def _bounds(presolved: Presolved, flows: FlowVariables | None, layout: Layout) -> tuple[Floats, Floats]:
    aggregates, free = presolved.aggregates, layout.auxiliary >= 0
    lower = [presolved.lower, aggregates.lower[free]]
    upper = [presolved.upper, aggregates.upper[free]]
    if flows is not None:
        lower.append(flows.lower)
        upper.append(flows.upper)
    lower.append(np.zeros(layout.slacks))
    upper.append(np.full(layout.slacks, np.inf))
    return np.concatenate(lower), np.concatenate(upper)


def _allowance(presolved: Presolved, layout: Layout, scale: float) -> Inequalities | None:
    """The row that limits the L1 distance from the parent (E-32)."""
    if presolved.support.relaxation is None:
        return None
    row = np.zeros(layout.width)
    row[layout.width - layout.slacks :] = 1.0
    limit = np.array([presolved.support.relaxation.allowance / scale])
    return Inequalities(sp.csc_matrix(row[None, :]), np.full(1, -np.inf), limit)


def _equalities(presolved: Presolved, flows: FlowVariables | None, layout: Layout) -> tuple[sp.csc_matrix, Floats]:
    """All equality rows (E-8)."""
    blocks, sides = [], []
    for block, side in (_sums_and_aggregates(presolved, layout), *_further(presolved, flows, layout)):
        blocks.append(block)
        sides.append(side)
    if len(blocks) == 1:
        return blocks[0], sides[0]
    return sp.csc_matrix(sp.vstack(blocks, format="csc")), np.concatenate(sides)


def _sums_and_aggregates(presolved: Presolved, layout: Layout) -> tuple[sp.csc_matrix, Floats]:
    aggregates, count = presolved.aggregates, layout.variables
    (shown,) = np.nonzero(layout.auxiliary >= 0)
    rows = [layout.sums + aggregates.entry_aggregate, layout.sums + shown]
    columns = [aggregates.entry_variable, count + layout.auxiliary[shown]]
    values = [np.ones(len(aggregates.entry_aggregate)), -np.ones(len(shown))]
    right = np.zeros(layout.sums + layout.aggregates)
    right[layout.sums :] = np.where(layout.auxiliary < 0, aggregates.lower, 0.0)
    if presolved.needed is not None:
        rows.append(layout.row_of_cell[presolved.cell])
        columns.append(np.arange(count))
        values.append(np.ones(count))
        summed = layout.row_of_cell >= 0
        right[layout.row_of_cell[summed]] = presolved.needed[summed]
    if layout.slacks:
        cells = np.arange(layout.sums)
        first = layout.width - layout.slacks
        rows += [cells, cells]
        columns += [first + cells, first + layout.sums + cells]
        values += [np.ones(layout.sums), -np.ones(layout.sums)]
    places = (np.concatenate(rows), np.concatenate(columns))
    return sp.csc_matrix((np.concatenate(values), places), shape=(len(right), layout.width)), right


def _further(presolved: Presolved, flows: FlowVariables | None, layout: Layout) -> list[tuple[sp.csc_matrix, Floats]]:
    """Rows of flows, and of the groups that the failsafe keeps."""
    found = []
    if flows is not None:
        height = flows.cells.shape[0]
        gap, rest = sp.csc_matrix((height, layout.shown)), sp.csc_matrix((height, layout.slacks))
        found.append((sp.csc_matrix(sp.hstack([flows.cells, gap, flows.matrix, rest])), flows.right))
    if presolved.support.relaxation is not None:
        relaxation, count = presolved.support.relaxation, layout.variables
        totals = relaxation.totals.astype(np.float64)
        places = (relaxation.group[presolved.cell], np.arange(count))
        found.append((sp.csc_matrix((np.ones(count), places), shape=(len(totals), layout.width)), totals))
    return found


def read_back(assembly: Assembly, solution: Solution) -> Candidate:
    """Turn a program's solution into a candidate."""
    presolved, layout = assembly.presolved, assembly.layout
    point = assembly.centre if solution.x is None else assembly.centre + assembly.scale * solution.x
    duals = np.zeros(len(assembly.program.right))
    reduced = np.zeros(layout.width)
    if solution.multipliers is not None and solution.bounds is not None:
        duals = solution.multipliers / assembly.scale
        reduced = solution.bounds / assembly.scale
    x = presolved.fixed.dense(presolved.support).astype(np.float64)
    x[presolved.child, presolved.cell] = _repaired(presolved, point[: layout.variables])
    flows, prices = _flows(assembly, point, duals)
    return Candidate(
        x=x,
        flows=flows,
        parent_multipliers=_parent_multipliers(assembly, duals),
        bound_multipliers=_bound_multipliers(
            presolved, _aggregate_multipliers(assembly, duals, reduced), reduced[: layout.variables]
        ),
        flow_multipliers=prices,
    )


def unsolved(presolved: Presolved) -> Candidate:
    """What is known without a solver: fixed cells, and guesses of the others, with no multipliers.

    No program is written, so that a family that no solver takes costs nothing more.
    """
    guess = initial_guess(presolved)
    x = presolved.fixed.dense(presolved.support).astype(np.float64)
    x[presolved.child, presolved.cell] = _repaired(presolved, guess)
    flows = flow_variables(presolved)
    found, prices = None, None
    if flows is not None:
        found = flows.fixed.astype(np.float64)
        values = guessed_flows(flows, guess)
        found[flows.descendant, flows.kind] = np.clip(values, flows.lower, flows.upper)
        prices = np.zeros(flows.link.shape)
    return Candidate(
        x=x,
        flows=found,
        parent_multipliers=np.zeros(len(presolved.support.cells)),
        bound_multipliers=tuple(np.zeros(bound.lower.shape) for bound in presolved.support.problem.bounds),
        flow_multipliers=prices,
    )


def _repaired(presolved: Presolved, point: Floats) -> Floats:
    """Remove a solver's rounding errors: nothing out of its own bounds, and each cell scaled to its sum (E-12)."""
    point = np.clip(point, presolved.lower, presolved.upper)
    if presolved.needed is None or presolved.support.relaxation is not None:
        return point
    cells = len(presolved.needed)
    total = np.bincount(presolved.cell, point, minlength=cells)
    factor = np.divide(presolved.needed, total, out=np.ones(cells), where=total > 0)
    return np.asarray(point * factor[presolved.cell], dtype=np.float64)


def _flows(assembly: Assembly, point: Floats, duals: Floats) -> tuple[Floats | None, Floats | None]:
    flows, layout = assembly.flows, assembly.layout
    if flows is None:
        return None, None
    found = flows.fixed.astype(np.float64)
    values = point[layout.first_flow : layout.first_flow + layout.flows]
    found[flows.descendant, flows.kind] = np.clip(values, flows.lower, flows.upper)
    return found, duals[layout.sums + layout.aggregates + flows.link]


def _parent_multipliers(assembly: Assembly, duals: Floats) -> Floats:
    rows = assembly.layout.row_of_cell
    multipliers = np.zeros(len(rows))
    multipliers[rows >= 0] = duals[rows[rows >= 0]]
    relaxation = assembly.presolved.support.relaxation
    if relaxation is not None:
        multipliers += duals[len(duals) - len(relaxation.totals) :][relaxation.group]
    return multipliers


def _aggregate_multipliers(assembly: Assembly, duals: Floats, reduced: Floats) -> Floats:
    """Multiplier of each aggregate's bounds: of its auxiliary variable's, or of its row where it is an equality.

    The program leaves the objective of a known aggregate out, as a constant; its derivative belongs to the multiplier.
    """
    layout, aggregates = assembly.layout, assembly.presolved.aggregates
    multipliers = duals[layout.sums : layout.sums + layout.aggregates].copy()
    shown, equal = layout.auxiliary >= 0, layout.auxiliary < 0
    multipliers[shown] = reduced[layout.variables + layout.auxiliary[shown]]
    multipliers[equal] += 2.0 * aggregates.weight[equal] * (aggregates.lower[equal] - aggregates.target[equal])
    return multipliers


def _bound_multipliers(presolved: Presolved, of_aggregate: Floats, reduced: Floats) -> tuple[Floats, ...]:
    """Hand each multiplier of an aggregate, or of a variable with a bound of its own, to the bound that binds there."""
    problem, aggregates = presolved.support.problem, presolved.aggregates
    hints = [np.zeros(bound.lower.shape) for bound in problem.bounds]
    aggregate_from = np.where(of_aggregate > 0, aggregates.lower_from, aggregates.upper_from)
    variable_from = np.where(reduced > 0, presolved.lower_from, presolved.upper_from)
    for number, (partition, of_row) in enumerate(zip(presolved.support.partitions, aggregates.of_row, strict=True)):
        if not partition.limits:
            continue
        value = np.zeros(of_row.shape)
        if len(of_aggregate):
            value = np.where((of_row >= 0) & (aggregate_from[of_row] == number), of_aggregate[of_row], 0.0)
        (own,) = np.nonzero(variable_from == number)
        value[presolved.child[own], partition.index[presolved.cell[own]]] = reduced[own]
        hand_out(problem, partition, value, hints)
    return tuple(hints)
