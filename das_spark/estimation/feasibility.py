"""Decide whether a family's constraints can be met at all, and which bounds stand in the way (E-29)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from das_spark.estimation.flows import flow_variables
from das_spark.estimation.linear import constraints
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.solvers import SOLVERS, Inequalities, Program, SolverOptions, Status
from das_spark.estimation.support import Integers

_SHORT = 0.5
"""Bounds are whole numbers: the least total violation of nested bounds is 0 or at least 1."""

_NAMED = 5
"""So many conflicting rows are named."""


@dataclass(frozen=True, slots=True)
class Feasibility:
    """Whether constraints can be met.

    Attributes:
        feasible: Whether they can.
        message: Bounds that conflict; empty when feasible.
    """

    feasible: bool
    message: str = ""


def feasibility(presolved: Presolved) -> Feasibility:
    """Find the least total violation of bounds, with the parent's sums and the flows kept.

    Args:
        presolved: The family.

    Returns:
        The finding.
    """
    if presolved.contradiction:
        return Feasibility(feasible=False, message=presolved.contradiction)
    flows = flow_variables(presolved)
    parts = constraints(presolved, flows)
    (elastic,) = np.nonzero(parts.margin >= 0)
    count = len(elastic)
    slack = sp.csc_matrix((np.ones(count), (elastic, np.arange(count))), shape=(len(parts.margin), count))
    spare = parts.variables + parts.flows
    nothing = np.zeros(0)
    program = Program(
        diagonal=np.zeros(spare + 2 * count),
        linear=np.concatenate([np.zeros(spare), np.ones(2 * count)]),
        equality=sp.csc_matrix((0, spare + 2 * count)),
        right=nothing,
        lower=np.concatenate([presolved.lower, nothing if flows is None else flows.lower, np.zeros(2 * count)]),
        upper=np.concatenate([presolved.upper, nothing if flows is None else flows.upper, np.full(2 * count, np.inf)]),
        inequalities=Inequalities(
            sp.csc_matrix(sp.hstack([parts.rows.matrix, slack, -slack])), parts.rows.lower, parts.rows.upper
        ),
    )
    solution = SOLVERS["highs"].solve(program, SolverOptions())
    if solution.status is Status.INFEASIBLE:
        return Feasibility(feasible=False, message="bounds of single cells or flows contradict the sums over children")
    if solution.x is None:
        return Feasibility(feasible=True)
    short = solution.x[spare:].reshape(2, -1).sum(axis=0)
    if short.sum() < _SHORT:
        return Feasibility(feasible=True)
    return Feasibility(feasible=False, message=_named(presolved, parts.margin[elastic[short > _SHORT / 2]]))


def _named(presolved: Presolved, margins: Integers) -> str:
    """Say which bounds a margin comes from."""
    problem = presolved.support.problem
    names = []
    for margin in margins[:_NAMED]:
        child = problem.children[int(presolved.margins.child[margin])]
        for partition, of_row in zip(presolved.support.partitions, presolved.margins.of_row, strict=True):
            found = np.argwhere(of_row == margin)
            if partition.limits and len(found):
                number, rows = partition.limits[0]
                names.append(f"{child}: row {int(rows[found[0, 1]])} of {problem.bounds[number].name!r}")
                break
    return "bounds cannot all be met; the least violation is at " + "; ".join(names)
