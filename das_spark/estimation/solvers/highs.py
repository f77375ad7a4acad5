"""HiGHS, through scipy: linear and mixed-integer programs of the rounder, the feasibility check and the failsafe."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, OptimizeResult, linprog, milp

from das_spark.estimation.solvers.base import (
    Capability,
    Program,
    Solution,
    SolverOptions,
    Status,
    audited,
)

_STATUS = {0: Status.OPTIMAL, 1: Status.LIMIT, 2: Status.INFEASIBLE, 3: Status.UNBOUNDED}


class HighsSolver:
    """Huangfu, Hall (2018), "Parallelizing the dual revised simplex method"; a linear program ends in a vertex."""

    name: ClassVar[str] = "highs"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.LINEAR, Capability.MIXED_INTEGER})

    def solve(self, program: Program, options: SolverOptions) -> Solution:
        """Solve; see :class:`das_spark.estimation.solvers.base.Solver`. `iterations` limits branch-and-bound nodes.

        A mixed-integer program that meets the limit has the status LIMIT, and the best point found, if there is one.
        """
        mixed = program.integral is not None and bool(program.integral.any())
        found = _mixed(program, options) if mixed else _linear(program, options)
        status = _STATUS.get(found.status, Status.FAILED)
        x = None if found.x is None else np.asarray(found.x, dtype=np.float64)
        return audited(program, Solution(status=status, x=x, iterations=found.get("mip_node_count") or 0), options)


def _linear(program: Program, options: SolverOptions) -> OptimizeResult:
    """By the dual simplex method; scipy's other door to it would translate the kind of every variable first."""
    equal, right = [program.equality], [program.right]
    less, most = [], []
    if program.inequalities is not None:
        limits = program.inequalities
        rows = sp.csr_matrix(limits.matrix)
        known = limits.lower == limits.upper
        equal.append(rows[known])
        right.append(limits.upper[known])
        for sign, side in ((1.0, limits.upper), (-1.0, limits.lower)):
            (bounded,) = np.nonzero(np.isfinite(side) & ~known)
            less.append(sign * rows[bounded])
            most.append(sign * side[bounded])
    matrix = sp.vstack(less, format="csc") if less else None
    return linprog(
        program.linear,
        A_ub=matrix,
        b_ub=np.concatenate(most) if most else None,
        A_eq=sp.vstack(equal, format="csc"),
        b_eq=np.concatenate(right),
        bounds=np.column_stack([program.lower, program.upper]),
        method="highs-ds",
        options={"presolve": options.presolve},
    )


def _mixed(program: Program, options: SolverOptions) -> OptimizeResult:
    constraints = []
    if program.equality.shape[0]:
        constraints.append(LinearConstraint(program.equality, program.right, program.right))
    if program.inequalities is not None:
        rows = program.inequalities
        constraints.append(LinearConstraint(rows.matrix, rows.lower, rows.upper))
    limits: dict[str, Any] = {"mip_rel_gap": 0.0}
    if options.iterations:
        limits["node_limit"] = options.iterations
    return milp(
        program.linear,
        integrality=None if program.integral is None else program.integral.astype(np.int64),
        bounds=Bounds(program.lower, program.upper),
        constraints=constraints,
        options=limits,  # type: ignore[arg-type]  # a typed dictionary, of which one key is set only sometimes
    )
