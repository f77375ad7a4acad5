"""PIQP, a proximal interior-point solver: the fastest measured on families."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import piqp

from das_spark.estimation.solvers.base import (
    Capability,
    Program,
    Solution,
    SolverOptions,
    Status,
    audited,
    decided,
)

_STATUS = {
    piqp.PIQP_SOLVED: Status.OPTIMAL,
    piqp.PIQP_MAX_ITER_REACHED: Status.LIMIT,
    piqp.PIQP_PRIMAL_INFEASIBLE: Status.INFEASIBLE,
    piqp.PIQP_DUAL_INFEASIBLE: Status.UNBOUNDED,
}


class PiqpSolver:
    """Schwan, Jiang, Kuhn, Jones (2023), "PIQP: a proximal interior-point quadratic programming solver"."""

    name: ClassVar[str] = "piqp"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.QUADRATIC, Capability.LINEAR})

    def solve(self, program: Program, options: SolverOptions) -> Solution:
        """Solve; see :class:`das_spark.estimation.solvers.base.Solver`."""
        known = decided(program)
        if known is not None:
            return known
        solver = piqp.SparseSolver()
        settings = solver.settings
        settings.eps_abs = settings.eps_duality_gap_abs = options.tolerance
        settings.eps_rel = settings.eps_duality_gap_rel = options.tolerance / 10.0
        settings.max_iter = options.iterations or 250
        settings.verbose = False
        rows = program.inequalities
        solver.setup(
            program.hessian,
            program.linear,
            program.equality if len(program.right) else None,
            program.right if len(program.right) else None,
            None if rows is None else rows.matrix,
            None if rows is None else rows.lower,
            None if rows is None else rows.upper,
            program.lower,
            program.upper,
        )
        status = _STATUS.get(solver.solve(), Status.FAILED)
        found = solver.result
        solution = Solution(
            status=status,
            x=np.array(found.x) if status in {Status.OPTIMAL, Status.LIMIT, Status.FAILED} else None,
            multipliers=-np.array(found.y),
            bounds=np.array(found.z_bl) - np.array(found.z_bu),
            rows=None if rows is None else np.array(found.z_l) - np.array(found.z_u),
            iterations=int(found.info.iter),
        )
        return audited(program, solution, options)
