"""OSQP, an operator-splitting solver: the reference, slow to high accuracy; polishing makes its last digits."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import osqp
import scipy.sparse as sp

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
    osqp.SolverStatus.OSQP_SOLVED: Status.OPTIMAL,
    osqp.SolverStatus.OSQP_SOLVED_INACCURATE: Status.INACCURATE,
    osqp.SolverStatus.OSQP_PRIMAL_INFEASIBLE: Status.INFEASIBLE,
    osqp.SolverStatus.OSQP_PRIMAL_INFEASIBLE_INACCURATE: Status.INFEASIBLE,
    osqp.SolverStatus.OSQP_DUAL_INFEASIBLE: Status.UNBOUNDED,
    osqp.SolverStatus.OSQP_DUAL_INFEASIBLE_INACCURATE: Status.UNBOUNDED,
    osqp.SolverStatus.OSQP_MAX_ITER_REACHED: Status.LIMIT,
}

CLOSER = 1e-3
"""Residuals asked of OSQP beside those of an interior-point method, whose last step overshoots its own: measured on
families, a thousandth costs half as many iterations again, and without it bounds are missed by 1e-4 people. Linear
programs converge too slowly for that."""


class OsqpSolver:
    """Stellato, Banjac, Goulart, Bemporad, Boyd (2020), "OSQP: an operator splitting solver for quadratic programs"."""

    name: ClassVar[str] = "osqp"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.QUADRATIC, Capability.LINEAR})

    def solve(self, program: Program, options: SolverOptions) -> Solution:
        """Solve; see :class:`das_spark.estimation.solvers.base.Solver`."""
        known = decided(program)
        if known is not None:
            return known
        matrices: list[Any] = [program.equality]
        lows, highs = [program.right], [program.right]
        if program.inequalities is not None:
            matrices.append(program.inequalities.matrix)
            lows.append(program.inequalities.lower)
            highs.append(program.inequalities.upper)
        bounded = np.flatnonzero(np.isfinite(program.lower) | np.isfinite(program.upper))
        matrices.append(sp.csc_matrix(sp.eye_array(program.size))[:, bounded].T)
        tolerance = options.tolerance * (CLOSER if Capability.QUADRATIC in program.needs else 1.0)
        solver = osqp.OSQP()
        try:
            solver.setup(
                sp.csc_matrix(sp.triu(program.hessian, format="csc")),
                program.linear,
                sp.csc_matrix(sp.vstack(matrices, format="csc")),
                np.concatenate([*lows, program.lower[bounded]]),
                np.concatenate([*highs, program.upper[bounded]]),
                eps_abs=tolerance,
                eps_rel=tolerance,
                eps_prim_inf=1e-7,
                eps_dual_inf=1e-7,
                max_iter=options.iterations or 20_000,
                adaptive_rho_interval=50,  # a fixed number of iterations: the default may follow the clock
                polishing=True,
                verbose=False,
            )
        except osqp.OSQPException:  # it factorises here, and finds out that the objective is not convex
            return Solution(Status.FAILED)
        found = solver.solve(raise_error=False)
        status = _STATUS.get(osqp.SolverStatus(found.info.status_val), Status.FAILED)
        dual = -np.array(found.y)
        equalities, rows = len(program.right), sum(len(low) for low in lows)
        reduced = np.zeros(program.size)
        reduced[bounded] = dual[rows:]
        solution = Solution(
            status=status,
            x=None if status in {Status.INFEASIBLE, Status.UNBOUNDED} else np.array(found.x),
            multipliers=dual[:equalities],
            bounds=reduced,
            rows=None if program.inequalities is None else dual[equalities:rows],
            iterations=int(found.info.iter),
        )
        return audited(program, solution, options)
