"""Decide whether a family's constraints can be met at all, and which bounds stand in the way (E-29)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from das_spark.estimation.flows import flow_variables
from das_spark.estimation.linear import constraint_rows
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.solvers import SOLVERS, Program, SolverOptions, Status

_SHORT = 0.5
"""Bounds are whole numbers: the least total violation of nested bounds is 0 or at least 1."""


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
    rows = constraint_rows(presolved, flows)
    elastic = np.flatnonzero(rows.margin >= 0)
    count, spare = presolved.variables, 0 if flows is None else len(flows.descendant)
    slack = sp.csc_matrix(
        (np.ones(len(elastic)), (elastic, np.arange(len(elastic)))), shape=(rows.matrix.shape[0], len(elastic))
    )
    size = count + spare + 2 * len(elastic)
    program = Program(
        diagonal=np.zeros(size),
        linear=np.concatenate([np.zeros(count + spare), np.ones(2 * len(elastic))]),
        equality=sp.csc_matrix((0, size)),
        right=np.zeros(0),
        lower=np.concatenate([presolved.lower, np.zeros(0) if flows is None else flows.lower, np.zeros(2 * len(elastic))]),
        upper=np.concatenate(
            [presolved.upper, np.zeros(0) if flows is None else flows.upper, np.full(2 * len(elastic), np.inf)]
        ),
        rows=rows.with_columns(sp.hstack([slack, -slack], format="csc")),
        rows_lower=rows.lower,
        rows_upper=rows.upper,
    )
    solution = SOLVERS["highs"].solve(program, SolverOptions())
    if solution.status is Status.INFEASIBLE:
        return Feasibility(feasible=False, message="bounds of single cells or flows contradict the sums over children")
    if solution.x is None:
        return Feasibility(feasible=True)
    short = solution.x[count + spare :].reshape(2, -1).sum(axis=0)
    if short.sum() < _SHORT:
        return Feasibility(feasible=True)
    return Feasibility(feasible=False, message=_named(presolved, rows.margin[elastic[short > _SHORT / 2]]))


def _named(presolved: Presolved, margins: np.ndarray[tuple[int], np.dtype[np.int64]]) -> str:
    problem = presolved.support.problem
    names = []
    for margin in margins[:5]:
        child = problem.children[int(presolved.margins.child[margin])]
        for partition, of_row in zip(presolved.support.partitions, presolved.margins.of_row, strict=True):
            found = np.argwhere(of_row == margin)
            if partition.limits and len(found):
                number, rows = partition.limits[0]
                names.append(f"{child}: row {int(rows[found[0, 1]])} of {problem.bounds[number].name!r}")
                break
    return "bounds cannot all be met; the least violation is at " + "; ".join(names)
