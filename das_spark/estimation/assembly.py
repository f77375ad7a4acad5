"""Write a presolved family as a quadratic program around a guess, and around a better one (E-8, E-9).

The program's unknowns are deviations from the guess in units of a typical noise deviation, so that populations of
millions and noise of a few people meet a solver as numbers of order one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from das_spark.estimation import flows as flow_part
from das_spark.estimation.flows import FlowVariables
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.solvers.base import Inequalities, QuadraticProgram
from das_spark.estimation.support import Floats, Integers

FAINT = 1e-3
"""Weight, beside the largest, of the guess for a variable that nothing measures alone; it is in the guess only."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Where things stand in a program.

    Columns are variables, auxiliary margins, flows, slacks of the failsafe (above the parent, then below); rows are
    sums over children, margins, flows, groups of the failsafe.

    Attributes:
        row_of_cell: Row of each cell's sum over children, -1 where there is none, shape ``(n,)``.
        auxiliary: Position among auxiliary variables of each margin, -1 where it is an equality, shape ``(M,)``.
        variables: Number of variables N.
        shown: Number of auxiliary variables.
        flows: Number of flows.
        slacks: Number of slacks.
        sums: Number of sums over children.
        margins: Number of margins M.
    """

    row_of_cell: Integers
    auxiliary: Integers
    variables: int
    shown: int
    flows: int
    slacks: int
    sums: int
    margins: int

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
        """Lay a family out.

        Args:
            presolved: The family.
            flows: Its flow variables, or None.

        Returns:
            Where its columns and rows stand.
        """
        row_of_cell = _sum_rows(presolved)
        free = ~presolved.margins.equal
        cells = len(presolved.support.cells)
        return cls(
            row_of_cell=row_of_cell,
            auxiliary=np.where(free, np.cumsum(free) - 1, -1),
            variables=presolved.variables,
            shown=int(free.sum()),
            flows=0 if flows is None else len(flows.descendant),
            slacks=0 if presolved.support.relaxation is None else 2 * cells,
            sums=int(row_of_cell.max(initial=-1)) + 1,
            margins=len(free),
        )


@dataclass(frozen=True, slots=True, eq=False)
class Assembly:
    """A quadratic program and what is needed to read its solution.

    Attributes:
        presolved: The family.
        program: The program in scaled deviations.
        layout: Where things stand in it.
        scale: People to a unit of the program.
        centre: The guess in people, one for each column.
        flows: Flow variables, or None.
    """

    presolved: Presolved
    program: QuadraticProgram
    layout: Layout
    scale: float
    centre: Floats
    flows: FlowVariables | None


def assemble(presolved: Presolved) -> Assembly:
    """Write the quadratic program of a presolved family.

    Args:
        presolved: The family.

    Returns:
        The program with its guess.
    """
    margins = presolved.margins
    flows = flow_part.flow_variables(presolved)
    layout = Layout.of(presolved, flows)
    free = layout.auxiliary >= 0
    measured = layout.variables + layout.shown
    weight, target = np.zeros(layout.width), np.zeros(layout.width)
    weight[:measured] = np.concatenate([presolved.weight, margins.weight[free]])
    target[:measured] = np.concatenate([presolved.target, margins.target[free]])
    scale = 1.0 / float(np.sqrt(np.median(weight[weight > 0]))) if weight.any() else 1.0
    guess = initial_guess(presolved)
    of_flows = np.zeros(0) if flows is None else flow_part.centre(flows, guess)
    centre = np.concatenate([guess, margins.sums(guess)[free], of_flows, np.zeros(layout.slacks)])
    matrix, right = _equalities(presolved, flows, layout)
    lower, upper = _bounds(presolved, flows, layout)
    diagonal = 2.0 * scale**2 * weight
    program = QuadraticProgram(
        diagonal=diagonal,
        linear=diagonal * (centre - target) / scale,
        equality=matrix,
        right=(right - matrix @ centre) / scale,
        lower=(lower - centre) / scale,
        upper=(upper - centre) / scale,
        inequalities=_allowance(presolved, layout, scale),
    )
    return Assembly(presolved, program, layout, scale, centre, flows)


def recentred(assembly: Assembly, x: Floats) -> Assembly:
    """The same program around a better guess: what an interior-point method lost in digits it finds on a second try.

    Args:
        assembly: The program.
        x: A solution of it, in its units.

    Returns:
        The program in deviations from that solution.
    """
    program = assembly.program
    x = np.clip(x, program.lower, program.upper)
    limits = program.inequalities
    if limits is not None:
        reached = limits.matrix @ x
        limits = Inequalities(limits.matrix, limits.lower - reached, limits.upper - reached)
    moved = replace(
        program,
        linear=program.linear + program.diagonal * x,
        right=program.right - program.equality @ x,
        lower=program.lower - x,
        upper=program.upper - x,
        inequalities=limits,
    )
    return replace(assembly, program=moved, centre=assembly.centre + assembly.scale * x)


def initial_guess(presolved: Presolved) -> Floats:
    """Guess the variables: folded noisy answers, corrected to the parent's sums, not negative (E-9).

    Args:
        presolved: The family.

    Returns:
        People, shape ``(N,)``.
    """
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
    """Weights and targets, where a variable that nothing measures alone gets a faint share of its cell or margin."""
    weight, target = presolved.weight.copy(), presolved.target.copy()
    (bare,) = np.nonzero(weight == 0)
    if not len(bare):
        return weight, target
    weight[bare] = FAINT * weight.max() if len(bare) < len(weight) else 1.0
    measured = [each for each in presolved.support.partitions if each.weight.any()]
    if presolved.needed is not None:
        people = np.ones(presolved.support.children)
        if measured:
            people = np.maximum(min(measured, key=lambda each: each.rows).values.sum(axis=1), 0.0) + 1.0
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
    margins, free = presolved.margins, layout.auxiliary >= 0
    lower = [presolved.lower, margins.lower[free]]
    upper = [presolved.upper, margins.upper[free]]
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
    for block, side in (_sums_and_margins(presolved, layout), *_further(presolved, flows, layout)):
        blocks.append(block)
        sides.append(side)
    if len(blocks) == 1:
        return blocks[0], sides[0]
    return sp.csc_matrix(sp.vstack(blocks, format="csc")), np.concatenate(sides)


def _sums_and_margins(presolved: Presolved, layout: Layout) -> tuple[sp.csc_matrix, Floats]:
    margins, count = presolved.margins, layout.variables
    (shown,) = np.nonzero(layout.auxiliary >= 0)
    rows = [layout.sums + margins.entry_margin, layout.sums + shown]
    columns = [margins.entry_variable, count + layout.auxiliary[shown]]
    values = [np.ones(len(margins.entry_margin)), -np.ones(len(shown))]
    right = np.zeros(layout.sums + layout.margins)
    right[layout.sums :] = np.where(layout.auxiliary < 0, margins.lower, 0.0)
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
