"""HiGHS, through scipy: linear and mixed-integer programs of the rounder, the feasibility check and the failsafe."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

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
        """Solve; see :class:`das_spark.estimation.solvers.base.Solver`. `iterations` limits branch-and-bound nodes."""
        constraints = []
        if program.equality.shape[0]:
            constraints.append(LinearConstraint(program.equality, program.right, program.right))
        if program.inequalities is not None:
            rows = program.inequalities
            constraints.append(LinearConstraint(rows.matrix, rows.lower, rows.upper))
        limits: dict[str, Any] = {"mip_rel_gap": 0.0}
        if options.iterations:
            limits["node_limit"] = options.iterations
        found = milp(
            program.linear,
            integrality=None if program.integral is None else program.integral.astype(np.int64),
            bounds=Bounds(program.lower, program.upper),
            constraints=constraints,
            options=limits,  # type: ignore[arg-type]  # a typed dictionary, of which one key is set only sometimes
        )
        status = _STATUS.get(found.status, Status.FAILED)
        x = None if found.x is None else np.asarray(found.x, dtype=np.float64)
        return audited(program, Solution(status=status, x=x, iterations=found.mip_node_count or 0), options)
