"""Turn a certified real-valued estimate into whole numbers that keep every constraint (E-21 to E-27).

The largest remainders of each cell are the best rounding while no bound objects. Where one does, the cells that are
tied together by violated bounds go to a linear program, whose vertices are whole numbers when the bounds are nested
(README, section 6), and to a mixed-integer one when that comes out broken.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.csgraph import connected_components

from das_spark.estimation.flows import MOST_CLASSES, FlowVariables, divisible_margins, flow_variables
from das_spark.estimation.linear import constraints
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.solvers import SOLVERS, Inequalities, Program, SolverOptions, Status
from das_spark.estimation.support import Floats, Integers

SNAP = 1e-5
"""Values this close to a whole number are taken for it before the floor."""

WHOLE = 1e-6
"""Largest distance from a whole number that is taken for an exact one in a solver's vertex."""

NODES = 100_000
"""Branch-and-bound nodes of the mixed-integer program."""


@dataclass(frozen=True, slots=True, eq=False)
class Rounded:
    """Whole numbers.

    Attributes:
        counts: People, int64, shape ``(K, n)``.
        method: How they were found; empty when there was nothing to round.
        cost: Distance to the real-valued estimate less its least possible value (E-23).
        gap: How far the objective may be from the best possible, relative to it; 0 where it is proved to be the best.
    """

    counts: Integers
    method: str
    cost: float
    gap: float = 0.0


def round_family(presolved: Presolved, x: Floats) -> Rounded | None:
    """Round an estimate.

    Args:
        presolved: The family.
        x: Real-valued estimate, people, shape ``(K, n)``.

    Returns:
        The closest whole numbers that keep the constraints, or None when none were found.
    """
    base, fraction = split(x[presolved.child, presolved.cell])
    up, exact = largest_remainders(presolved, base, fraction)
    violated = violations(presolved, base + up) if exact else None
    if violated is not None and not violated.any() and _divisible(presolved, base + up):
        return _rounded(presolved, base + up, fraction, base, "largest remainder" if presolved.variables else "")
    chosen = np.ones(presolved.variables, dtype=np.bool_)
    if violated is not None and presolved.support.problem.flows is None:
        chosen = tied_together(presolved, violated)
    found = _programmed(presolved, base, fraction, chosen)
    if found is None:
        return None
    values, method = found
    return _rounded(presolved, np.where(chosen, values, base + up), fraction, base, method)


def split(values: Floats) -> tuple[Integers, Floats]:
    """Floor and fraction of each value, after snapping to whole numbers (E-21).

    Args:
        values: People, shape ``(N,)``.

    Returns:
        The floors, int64, and the fractions, from 0 to below 1, both of shape ``(N,)``.
    """
    nearest = np.rint(values)
    snapped = np.where(np.abs(values - nearest) <= SNAP, nearest, values)
    base = np.floor(snapped)
    return base.astype(np.int64), snapped - base


def largest_remainders(presolved: Presolved, base: Integers, fraction: Floats) -> tuple[Integers, bool]:
    """Give each cell's missing people to its largest fractions, the first child winning a tie (E-24).

    Args:
        presolved: The family; at the root, where cells need no sum, what is over a half goes up.
        base: Floor of each variable, shape ``(N,)``.
        fraction: Fraction of each, shape ``(N,)``.

    Returns:
        0 or 1 for each variable, and whether every cell's sum was reached so.
    """
    up = np.zeros(len(base), dtype=np.int64)
    if presolved.needed is None:
        up[fraction > 0.5] = 1  # noqa: PLR2004 - nearer to the upper whole number
        return up, True
    cells = len(presolved.needed)
    missing = presolved.needed.copy()
    np.subtract.at(missing, presolved.cell, base)
    (partial,) = np.nonzero(fraction > 0)
    order = partial[np.lexsort((presolved.child[partial], -fraction[partial], presolved.cell[partial]))]
    cell = presolved.cell[order]
    start = np.searchsorted(cell, np.arange(cells))
    up[order] = np.arange(len(order)) - start[cell] < missing[cell]
    available = np.bincount(cell, minlength=cells)
    return up, bool(((missing >= 0) & (missing <= available)).all())


def violations(presolved: Presolved, values: Integers) -> NDArray[np.bool_]:
    """Variables in a margin, or with a bound of their own, that these whole numbers violate, shape ``(N,)``.

    Args:
        presolved: The family.
        values: People in each variable, shape ``(N,)``.
    """
    wrong = (values < presolved.lower) | (values > presolved.upper)
    margins = presolved.margins
    bounded = margins.bounded
    if bounded.any():
        sums = margins.sums(values.astype(np.float64))
        broken = bounded & ((sums < margins.lower) | (sums > margins.upper))
        wrong[margins.entry_variable[broken[margins.entry_margin]]] = True
    return wrong


def tied_together(presolved: Presolved, violated: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Variables that share cells or bounded margins, through any chain, with a violated one, shape ``(N,)``.

    Args:
        presolved: The family; at the root no cell ties variables together.
        violated: Variables that a bound objects to, as `violations` gives them, shape ``(N,)``.
    """
    margins = presolved.margins
    entry = margins.bounded[margins.entry_margin]
    cells = len(presolved.support.cells)
    cell = presolved.cell if presolved.needed is not None else cells + np.arange(presolved.variables)
    nodes = int(cell.max()) + 1
    margin = nodes + margins.entry_margin[entry]
    size = nodes + len(margins.child)
    graph = sp.csr_matrix((np.ones(len(margin)), (cell[margins.entry_variable[entry]], margin)), shape=(size, size))
    _, label = connected_components(graph, directed=False)
    return np.isin(label[cell], label[cell[violated]])


def _divisible(presolved: Presolved, values: Integers) -> bool:
    """Whether class margins can be divided among the descendants; False too when that is not cheap to say."""
    flows = presolved.support.problem.flows
    if flows is None:
        return True
    if flows.query.rows > MOST_CLASSES:
        return False
    counts = _placed(presolved, values)
    rows = flows.query.row_of(presolved.support.cells)
    margins = np.zeros((len(counts), flows.query.rows), dtype=np.int64)
    counted = rows >= 0
    np.add.at(margins.T, rows[counted], counts.T[counted])
    return bool(divisible_margins(margins, flows).all())


def _placed(presolved: Presolved, values: Integers) -> Integers:
    counts = presolved.fixed.copy()
    counts[presolved.child, presolved.cell] = values
    return counts


def _rounded(presolved: Presolved, values: Integers, fraction: Floats, base: Integers, method: str) -> Rounded:
    cost = float((np.abs(values - base - fraction) - np.minimum(fraction, 1.0 - fraction)).sum())
    return Rounded(_placed(presolved, values), method, cost)


def _programmed(
    presolved: Presolved, base: Integers, fraction: Floats, chosen: NDArray[np.bool_]
) -> tuple[Integers, str] | None:
    """Round chosen variables by a program: in the unit box first, then with the box widened (E-25, E-26)."""
    flows = flow_variables(presolved)
    for widened in (False, True):
        program = rounding_program(presolved, flows, base, fraction, chosen, widened=widened)
        for whole, method in ((False, "linear program"), (True, "mixed-integer program")):
            steps = _steps(program, int(chosen.sum()), whole=whole, widened=widened)
            if steps is not None:
                values = base.copy()
                values[chosen] += steps
                return values, method + (", widened" if widened else "")
    return None


def rounding_program(
    presolved: Presolved,
    flows: FlowVariables | None,
    base: Integers,
    fraction: Floats,
    chosen: NDArray[np.bool_],
    *,
    widened: bool,
) -> Program:
    """Write the rounding of chosen variables as a linear program (E-25).

    Args:
        presolved: The family.
        flows: Its flows.
        base: Floor of each variable.
        fraction: Fraction of each.
        chosen: Variables to round; those that share a cell or bounded margin with one are all chosen.
        widened: Whether to allow more than one step up and steps down, at one person's distance a step (E-26).

    Returns:
        Unknowns: steps up, flows, and if widened further steps up and steps down.
    """
    parts = constraints(presolved, flows, chosen)
    count, spare = parts.variables, parts.flows
    floor = base[chosen].astype(np.float64)
    low, high = presolved.lower[chosen] - floor, presolved.upper[chosen] - floor
    nothing = np.zeros(0)
    lower = np.concatenate([np.maximum(low, 0.0), nothing if flows is None else flows.lower])
    upper = np.concatenate([np.minimum(high, 1.0), nothing if flows is None else flows.upper])
    held = parts.rows.matrix[:, :count] @ floor
    rows = Inequalities(parts.rows.matrix, parts.rows.lower - held, parts.rows.upper - held)
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
    return Program(
        diagonal=np.zeros(len(cost)),
        linear=cost,
        equality=sp.csc_matrix((0, len(cost))),
        right=nothing,
        lower=lower,
        upper=upper,
        inequalities=rows,
    )


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
