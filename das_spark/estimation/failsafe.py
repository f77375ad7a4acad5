"""The failsafe: keep every bound and give up, as little as can be, that children sum to their parent (E-30 to E-34)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from das_spark.estimation.flows import flow_variables
from das_spark.estimation.linear import constraint_rows
from das_spark.estimation.presolve import Presolved, presolve
from das_spark.estimation.problem import FamilyPlan, FamilyProblem
from das_spark.estimation.rounding import NODES, WHOLE, Rounded, split
from das_spark.estimation.solvers import SOLVERS, Program, SolverOptions, Status
from das_spark.estimation.support import Floats, Integers, Relaxation, on_cells
from das_spark.histogram import Query

SLACK = 1.0
"""People of L1 distance allowed above the least possible one, as in the released system (E-32)."""


@dataclass(frozen=True, slots=True, eq=False)
class Failsafe:
    """A family whose consistency with the parent is relaxed.

    Attributes:
        presolved: The relaxed family.
        distance: Least possible L1 distance between the children's sum and the parent, in people (E-31).
    """

    presolved: Presolved
    distance: float


def relaxed_family(problem: FamilyProblem, plan: FamilyPlan) -> Failsafe | str:
    """Relax a family.

    Args:
        problem: The family; it has a parent.
        plan: `class_query` names the query whose attributes are summed out of the margin that is kept.

    Returns:
        The relaxed family, or a sentence that says why there is none.
    """
    query = _class_query(problem, plan)
    if query is None or problem.parent is None:
        return f"no bound or measurement asks {plan.class_query!r}"
    partial = [each.query.name for each in problem.measurements if len(each.rows) != each.query.rows]
    if partial:
        return f"it needs all rows measured, and {', '.join(partial)} has only those of the parent's support"
    group = _groups(query, np.arange(problem.size))
    parent = problem.parent.dense()
    totals = np.bincount(group, parent.astype(np.float64)).astype(np.int64)
    kept = totals[group] > 0
    kept[plan.zero_cells] = False
    cells = np.flatnonzero(kept).astype(np.int32)
    if parent[plan.zero_cells].any():
        return "the parent has people in a structural zero"
    used, of_cell = np.unique(group[cells], return_inverse=True)
    relaxation = Relaxation(of_cell, totals[used], np.inf)
    support = replace(on_cells(problem, cells, parent[cells]), relaxation=relaxation)
    presolved = presolve(support)
    if presolved.contradiction:
        return presolved.contradiction
    program = _distance_program(presolved, None, np.inf, whole=False)
    solution = SOLVERS["highs"].solve(program, SolverOptions())
    if solution.status is not Status.OPTIMAL or solution.x is None:
        return "the bounds contradict each other even without the parent"
    distance = float(solution.x[-2 * len(cells) :].sum())
    relaxation = replace(relaxation, allowance=distance + SLACK)
    return Failsafe(replace(presolved, support=replace(support, relaxation=relaxation)), distance)


def round_relaxed(failsafe: Failsafe, x: Floats) -> Rounded | None:
    """Round the estimate of a relaxed family: the least distance in whole numbers first, then the closest (E-34).

    Args:
        failsafe: The relaxed family.
        x: Its real-valued estimate, shape ``(K, n)``.

    Returns:
        Whole numbers, or None when none were found.
    """
    presolved = failsafe.presolved
    base, fraction = split(x[presolved.child, presolved.cell])
    options = SolverOptions(iterations=NODES)
    slacks = 2 * len(presolved.support.cells)
    for widened in (False, True):
        box = None if widened else base
        solution = SOLVERS["highs"].solve(_distance_program(presolved, box, np.inf, whole=True), options)
        if solution.status is not Status.OPTIMAL or solution.x is None:
            continue
        allowed = float(np.rint(solution.x[-slacks:].sum())) + SLACK
        program = _distance_program(presolved, box, allowed, whole=True, base=base, fraction=fraction)
        solution = SOLVERS["highs"].solve(program, options)
        if solution.status is Status.OPTIMAL and solution.x is not None:
            values = np.rint(solution.x[: len(base)])
            if np.abs(values - solution.x[: len(base)]).max(initial=0.0) <= WHOLE:
                counts = presolved.fixed.copy()
                counts[presolved.child, presolved.cell] = values.astype(np.int64)
                cost = np.abs(values - base - fraction) - np.minimum(fraction, 1.0 - fraction)
                method = "mixed-integer program" + (", widened" if widened else "")
                return Rounded(counts, method, float(cost.sum()))
    return None


def _class_query(problem: FamilyProblem, plan: FamilyPlan) -> Query | None:
    named = {each.query.name: each.query for each in problem.measurements}
    named |= {each.query.name: each.query for each in problem.bounds}
    named |= {each.name: each.query for each in problem.bounds}
    return named.get(plan.class_query)


def _groups(query: Query, cells: NDArray[np.int64]) -> Integers:
    """Number of each cell's group: cells that differ only in attributes that the query involves (E-30)."""
    codes = np.unravel_index(cells, query.shape)
    kept = [axis for axis in range(len(query.shape)) if not query.involves(axis)]
    if not kept:
        return np.zeros(len(cells), dtype=np.int64)
    shape = tuple(query.shape[axis] for axis in kept)
    return np.ravel_multi_index([codes[axis] for axis in kept], shape).astype(np.int64)


def _distance_program(
    presolved: Presolved,
    box: Integers | None,
    allowed: float,
    *,
    whole: bool,
    base: Integers | None = None,
    fraction: Floats | None = None,
) -> Program:
    """Write the relaxed family as a linear program: people, flows, distance up and down, and costs around a floor.

    With `allowed` infinite the distance to the parent is least; otherwise it is bounded, and the distance to
    `base + fraction` is least, with breakpoints at whole numbers (steps above and below are further unknowns).
    """
    support = presolved.support
    relaxation = support.relaxation
    if relaxation is None or presolved.needed is None:
        raise AssertionError("only relaxed families have a distance program")
    flows = flow_variables(presolved)
    count, cells = presolved.variables, len(support.cells)
    rows = constraint_rows(presolved, flows)
    spare = rows.matrix.shape[1] - count
    steps = 0 if base is None else 3 * count
    width = count + spare + steps + 2 * cells
    number = np.arange(count)
    own = sp.csc_matrix((np.ones(count), (presolved.cell, number)), shape=(cells, count))
    slack = sp.hstack([sp.eye_array(cells), -sp.eye_array(cells)])
    to_parent = sp.hstack([own, sp.csc_matrix((cells, spare + steps)), slack])
    group = relaxation.group[presolved.cell]
    groups = len(relaxation.totals)
    to_group = sp.csc_matrix((np.ones(count), (group, number)), shape=(groups, width))
    limits = sp.hstack([rows.matrix, sp.csc_matrix((rows.matrix.shape[0], width - count - spare))])
    blocks = [to_parent, to_group, limits]
    totals = relaxation.totals.astype(np.float64)
    sides_lower = [presolved.needed.astype(np.float64), totals, rows.lower]
    sides_upper = [presolved.needed.astype(np.float64), totals, rows.upper]
    lower = [presolved.lower if box is None else np.maximum(presolved.lower, box)]
    upper = [presolved.upper if box is None else np.minimum(presolved.upper, box + 1.0)]
    lower.append(np.zeros(spare) if flows is None else flows.lower)
    upper.append(np.zeros(spare) if flows is None else flows.upper)
    cost = np.zeros(width)
    if base is None or fraction is None:
        cost[width - 2 * cells :] = 1.0
    else:
        eye = sp.eye_array(count)
        blocks.append(sp.hstack([-eye, sp.csc_matrix((count, spare)), eye, eye, -eye, sp.csc_matrix((count, 2 * cells))]))
        sides_lower.append(-base.astype(np.float64))
        sides_upper.append(-base.astype(np.float64))
        lower.append(np.zeros(3 * count))
        upper += [np.ones(count), np.full(2 * count, np.inf)]
        cost[count + spare : width - 2 * cells] = np.concatenate([1.0 - 2.0 * fraction, np.ones(2 * count)])
        distance = np.zeros(width)
        distance[width - 2 * cells :] = 1.0
        blocks.append(sp.csc_matrix(distance[None, :]))
        sides_lower.append(np.full(1, -np.inf))
        sides_upper.append(np.full(1, allowed))
    lower.append(np.zeros(2 * cells))
    upper.append(np.full(2 * cells, np.inf))
    return Program(
        diagonal=np.zeros(width),
        linear=cost,
        equality=sp.csc_matrix((0, width)),
        right=np.zeros(0),
        lower=np.concatenate(lower),
        upper=np.concatenate(upper),
        rows=sp.vstack(blocks, format="csc"),
        rows_lower=np.concatenate(sides_lower),
        rows_upper=np.concatenate(sides_upper),
        integral=np.ones(width, dtype=np.bool_) if whole else None,
    )
