"""The failsafe: keep every bound and give up, as little as can be, that children sum to their parent (E-30 to E-34)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import scipy.sparse as sp

from das_spark.estimation.presolve import Presolved, presolve
from das_spark.estimation.program import constraints
from das_spark.estimation.rounding import NODES, WHOLE, Rounded, floors, rounded
from das_spark.estimation.solvers import SOLVERS, Inequalities, Program, SolverOptions, Status, linear_program
from das_spark.estimation.support import Relaxation, Support, on_cells

if TYPE_CHECKING:
    from das_spark.estimation.problem import FamilyPlan, FamilyProblem, Floats, Integers
    from das_spark.histogram import Histogram, Query

SLACK = 1.0
"""People of L1 distance allowed above the least possible one, as in the released system (E-32)."""


def relaxed_family(problem: FamilyProblem, plan: FamilyPlan) -> Presolved | str:
    """The family without consistency with its parent but for the least distance (E-31); or why that cannot help."""
    query = plan.classes
    if query is None or problem.parent is None:
        return "the plan has no class query"
    partial = [
        measurement.query.name
        for measurement in problem.measurements
        if len(measurement.rows) != measurement.query.rows
    ]
    if partial:
        return f"it needs all rows measured, and {', '.join(partial)} has only those of the parent's support"
    if np.isin(problem.parent.cells, plan.zero_cells).any():
        return "the parent has people in a structural zero"
    relaxation, support = _relaxed_support(problem, problem.parent, plan, query)
    presolved = presolve(support)
    if presolved.contradiction:
        return presolved.contradiction
    solution = SOLVERS["highs"].solve(_Distance.of(presolved, relaxation).least(None), SolverOptions())
    if solution.status is not Status.OPTIMAL or solution.x is None:
        return "the bounds contradict each other even without the parent"
    distance = float(solution.x[-2 * len(support.cells) :].sum())
    allowed = replace(relaxation, allowance=distance + SLACK)
    return replace(presolved, support=replace(support, relaxation=allowed))


def round_relaxed(presolved: Presolved, x: Floats) -> Rounded | None:
    """Round the estimate of a relaxed family: the least distance in whole numbers first, then the closest (E-34)."""
    if presolved.support.relaxation is None:
        return None
    base, fraction = floors(presolved, x)
    parts = _Distance.of(presolved, presolved.support.relaxation)
    options = SolverOptions(iterations=NODES)
    for widened in (False, True):
        box = None if widened else base
        nearest = SOLVERS["highs"].solve(_whole(parts.least(box)), options)
        if nearest.status is not Status.OPTIMAL or nearest.x is None:
            continue
        allowed = float(np.rint(nearest.x[-2 * parts.cells :].sum())) + SLACK
        closest = SOLVERS["highs"].solve(_whole(parts.closest(box, base, fraction, allowed)), options)
        if closest.status is not Status.OPTIMAL or closest.x is None:
            continue
        values = np.rint(closest.x[: len(base)])
        if np.abs(values - closest.x[: len(base)]).max(initial=0.0) <= WHOLE:
            method = "mixed-integer program" + (", widened" if widened else "")
            return rounded(presolved, base, fraction, values.astype(np.int64) - base, method)
    return None


def _relaxed_support(
    problem: FamilyProblem, estimate: Histogram, plan: FamilyPlan, query: Query
) -> tuple[Relaxation, Support]:
    """All cells of groups in which the parent has people, structural zeros excepted (E-30)."""
    group = _groups(query, np.arange(problem.size))
    parent = estimate.dense()
    totals = np.zeros(int(group.max()) + 1, dtype=np.int64)
    np.add.at(totals, group, parent)
    kept = totals[group] > 0
    kept[plan.zero_cells] = False
    cells = np.flatnonzero(kept).astype(np.int32)
    used, of_cell = np.unique(group[cells], return_inverse=True)
    relaxation = Relaxation(of_cell.astype(np.int64), totals[used], np.inf)
    return relaxation, replace(on_cells(problem, cells, parent[cells]), relaxation=relaxation)


def _groups(query: Query, cells: Integers) -> Integers:
    """Number of each cell's group: cells that differ only in attributes that the query involves (E-30)."""
    codes = np.unravel_index(cells, query.shape)
    kept = [axis for axis in range(len(query.shape)) if not query.involves(axis)]
    if not kept:
        return np.zeros(len(cells), dtype=np.int64)
    shape = tuple(query.shape[axis] for axis in kept)
    return np.asarray(np.ravel_multi_index([codes[axis] for axis in kept], shape), dtype=np.int64)


def _whole(program: Program) -> Program:
    return replace(program, integral=np.ones(program.size, dtype=np.bool_))


@dataclass(frozen=True, slots=True, eq=False)
class _Distance:
    """Linear programs over variables, flows, steps (none or three a variable), and distances up and down."""

    own: sp.csc_matrix  # which cell each variable is in, shape (n, N)
    limits: Inequalities  # rows over variables and flows: the groups that are kept, bounded aggregates, flows
    parent: Floats  # the parent's people, shape (n,)
    lower: Floats  # lower bounds of variables and flows
    upper: Floats  # upper bounds of variables and flows

    @property
    def cells(self) -> int:
        """Number of cells n."""
        return len(self.parent)

    @classmethod
    def of(cls, presolved: Presolved, relaxation: Relaxation) -> _Distance:
        parts = constraints(presolved)
        number, ones = np.arange(parts.variables), np.ones(parts.variables)
        parent = np.zeros(0) if presolved.needed is None else presolved.needed.astype(np.float64)
        totals = relaxation.totals.astype(np.float64)
        shape = (len(totals), parts.variables + parts.flows)
        group = sp.csc_matrix((ones, (relaxation.group[presolved.cell], number)), shape=shape)
        return cls(
            own=sp.csc_matrix((ones, (presolved.cell, number)), shape=(len(parent), parts.variables)),
            limits=Inequalities(
                sp.csc_matrix(sp.vstack([group, parts.rows.matrix])),
                np.concatenate([totals, parts.rows.lower]),
                np.concatenate([totals, parts.rows.upper]),
            ),
            parent=parent,
            lower=np.concatenate([presolved.lower, parts.lower]),
            upper=np.concatenate([presolved.upper, parts.upper]),
        )

    def least(self, box: Integers | None) -> Program:
        """Least distance to the parent (E-31); with a box, for values at most one above it."""
        lower, upper = self._boxed(box)
        return linear_program(
            cost=np.concatenate([np.zeros(len(lower)), np.ones(2 * self.cells)]),
            rows=self._rows(0, []),
            lower=np.concatenate([lower, np.zeros(2 * self.cells)]),
            upper=np.concatenate([upper, np.full(2 * self.cells, np.inf)]),
        )

    def closest(self, box: Integers | None, base: Integers, fraction: Floats, allowed: float) -> Program:
        """Least distance to the real-valued estimate, by steps at whole numbers, at an allowed one to the parent."""
        count = len(base)
        lower, upper = self._boxed(box)
        eye = sp.eye_array(count)
        spare = sp.csc_matrix((count, len(lower) - count))
        steps = sp.hstack([-eye, spare, eye, eye, -eye, sp.csc_matrix((count, 2 * self.cells))])
        total = np.zeros((1, len(lower) + 3 * count + 2 * self.cells))
        total[0, -2 * self.cells :] = 1.0
        floor = -base.astype(np.float64)
        further = [
            Inequalities(sp.csc_matrix(steps), floor, floor),
            Inequalities(sp.csc_matrix(total), np.full(1, -np.inf), np.full(1, allowed)),
        ]
        return linear_program(
            cost=np.concatenate(
                [np.zeros(len(lower)), 1.0 - 2.0 * fraction, np.ones(2 * count), np.zeros(2 * self.cells)]
            ),
            rows=self._rows(3 * count, further),
            lower=np.concatenate([lower, np.zeros(3 * count + 2 * self.cells)]),
            upper=np.concatenate([upper, np.ones(count), np.full(2 * count + 2 * self.cells, np.inf)]),
        )

    def _boxed(self, box: Integers | None) -> tuple[Floats, Floats]:
        if box is None:
            return self.lower, self.upper
        lower, upper = self.lower.copy(), self.upper.copy()
        lower[: len(box)] = np.maximum(lower[: len(box)], box)
        upper[: len(box)] = np.minimum(upper[: len(box)], box + 1.0)
        return lower, upper

    def _rows(self, steps: int, further: list[Inequalities]) -> Inequalities:
        """Sums over children with their distances, limits, and what else there is."""
        width, eye = len(self.lower), sp.eye_array(self.cells)
        beside = sp.csc_matrix((self.cells, width - self.own.shape[1] + steps))
        to_parent = sp.hstack([self.own, beside, eye, -eye])
        behind = sp.csc_matrix((len(self.limits.lower), steps + 2 * self.cells))
        blocks = [to_parent, sp.hstack([self.limits.matrix, behind]), *(each.matrix for each in further)]
        return Inequalities(
            sp.csc_matrix(sp.vstack(blocks)),
            np.concatenate([self.parent, self.limits.lower, *(each.lower for each in further)]),
            np.concatenate([self.parent, self.limits.upper, *(each.upper for each in further)]),
        )
