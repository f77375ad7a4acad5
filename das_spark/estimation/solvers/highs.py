"""HiGHS, through scipy: linear and mixed-integer programs of the rounder, the feasibility check and the failsafe."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from scipy.optimize import Bounds, LinearConstraint, linprog, milp

from das_spark.estimation.solvers.base import (
    Capability,
    Inequalities,
    Program,
    Solution,
    SolverOptions,
    Status,
    audited,
    decided,
)

_STATUS = {0: Status.OPTIMAL, 1: Status.LIMIT, 2: Status.INFEASIBLE, 3: Status.UNBOUNDED}


class HighsSolver:
    """Huangfu, Hall (2018), "Parallelizing the dual revised simplex method"; a linear program ends in a vertex."""

    name: ClassVar[str] = "highs"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.LINEAR, Capability.MIXED_INTEGER})

    def solve(self, program: Program, options: SolverOptions) -> Solution:
        """Solve; see :class:`das_spark.estimation.solvers.base.Solver`. `iterations` limits branch-and-bound nodes.

        Where a mixed-integer program meets the limit, its status is LIMIT and its point, if any, the best one found.
        """
        known = decided(program)
        if known is not None:
            return known
        mixed = program.integral is not None and bool(program.integral.any())
        return audited(program, _mixed(program, options) if mixed else _linear(program, options), options)


def _linear(program: Program, options: SolverOptions) -> Solution:
    """By the dual simplex method; scipy's other door to it gives no multipliers."""
    limits = program.inequalities or Inequalities(sp.csc_matrix((0, program.size)), np.zeros(0), np.zeros(0))
    rows, known = sp.csr_matrix(limits.matrix), limits.lower == limits.upper
    above, below = np.isfinite(limits.upper) & ~known, np.isfinite(limits.lower) & ~known
    found: Any = linprog(  # type: ignore[call-overload]  # its stubs know dense matrices only
        program.linear,
        A_ub=sp.vstack([rows[above], -rows[below]], format="csc"),
        b_ub=np.concatenate([limits.upper[above], -limits.lower[below]]),
        A_eq=sp.vstack([program.equality, rows[known]], format="csc"),
        b_eq=np.concatenate([program.right, limits.upper[known]]),
        bounds=np.column_stack([program.lower, program.upper]),
        method="highs-ds",
        options={"presolve": options.presolve},
    )
    status = _STATUS.get(found.status, Status.FAILED)
    if status is not Status.OPTIMAL:
        return Solution(status=status)
    count = len(program.right)
    multipliers = np.zeros(len(known))
    multipliers[known] = found.eqlin.marginals[count:]
    multipliers[above] = found.ineqlin.marginals[: above.sum()]
    multipliers[below] -= found.ineqlin.marginals[above.sum() :]
    return Solution(
        status=status,
        x=np.asarray(found.x, dtype=np.float64),
        multipliers=np.asarray(found.eqlin.marginals[:count], dtype=np.float64),
        bounds=np.asarray(found.lower.marginals + found.upper.marginals, dtype=np.float64),
        rows=None if program.inequalities is None else multipliers,
        iterations=int(found.nit),
    )


def _mixed(program: Program, options: SolverOptions) -> Solution:
    constraints = []
    if program.equality.shape[0]:
        constraints.append(LinearConstraint(program.equality, program.right, program.right))
    if program.inequalities is not None:
        rows = program.inequalities
        constraints.append(LinearConstraint(rows.matrix, rows.lower, rows.upper))
    limits: dict[str, Any] = {"mip_rel_gap": options.gap}
    if options.iterations:
        limits["node_limit"] = options.iterations
    found = milp(
        program.linear,
        integrality=None if program.integral is None else program.integral.astype(np.int64),
        bounds=Bounds(program.lower, program.upper),
        constraints=constraints,
        options=limits,  # type: ignore[arg-type]  # a typed dictionary, of which one key is set only sometimes
    )
    status = _STATUS.get(found.status, Status.FAILED if found.x is None else Status.LIMIT)
    x = None if found.x is None else np.asarray(found.x, dtype=np.float64)
    return Solution(status=status, x=x, iterations=found.mip_node_count or 0)
