"""Clarabel, an interior-point solver with a homogeneous embedding: steadier than PIQP, and slower."""

from __future__ import annotations

from typing import ClassVar

import clarabel
import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from das_spark.estimation.solvers.base import (
    Capability,
    Floats,
    Program,
    Solution,
    SolverOptions,
    Status,
    audited,
    decided,
)

Integers = NDArray[np.int64]

_STATUS = {
    clarabel.SolverStatus.Solved: Status.OPTIMAL,
    clarabel.SolverStatus.AlmostSolved: Status.INACCURATE,
    clarabel.SolverStatus.InsufficientProgress: Status.INACCURATE,
    clarabel.SolverStatus.PrimalInfeasible: Status.INFEASIBLE,
    clarabel.SolverStatus.DualInfeasible: Status.UNBOUNDED,
    clarabel.SolverStatus.MaxIterations: Status.LIMIT,
}


class ClarabelSolver:
    """Goulart, Chen (2024), "Clarabel: an interior-point solver for conic programs with quadratic objectives"."""

    name: ClassVar[str] = "clarabel"
    capabilities: ClassVar[frozenset[Capability]] = frozenset({Capability.QUADRATIC, Capability.LINEAR})

    def solve(self, program: Program, options: SolverOptions) -> Solution:
        """Solve; see :class:`das_spark.estimation.solvers.base.Solver`."""
        known = decided(program)
        if known is not None:
            return known
        settings = clarabel.DefaultSettings()
        settings.verbose = False
        settings.max_threads = 1
        settings.direct_solve_method = "qdldl"
        settings.max_iter = options.iterations or 200
        settings.tol_feas = settings.tol_gap_abs = settings.tol_gap_rel = options.tolerance
        matrix, right, above, below = _stacked(program)
        cones = [clarabel.ZeroConeT(len(program.right)), clarabel.NonnegativeConeT(len(right) - len(program.right))]
        hessian = sp.csc_matrix(sp.triu(program.hessian, format="csc"))
        found = clarabel.DefaultSolver(hessian, program.linear, matrix, right, cones, settings).solve()
        status = _STATUS.get(found.status, Status.FAILED)
        dual = np.array(found.z)
        equalities, bounds = len(program.right), len(below) + len(above)
        reduced = np.zeros(program.size)
        reduced[below] += dual[equalities : equalities + len(below)]
        reduced[above] -= dual[equalities + len(below) : equalities + bounds]
        solution = Solution(
            status=status,
            x=None if status in {Status.INFEASIBLE, Status.UNBOUNDED} else np.array(found.x),
            multipliers=-dual[:equalities],
            bounds=reduced,
            rows=_row_multipliers(program, dual[equalities + bounds :]),
            iterations=int(found.iterations),
        )
        return audited(program, solution, options)


def _stacked(program: Program) -> tuple[sp.csc_matrix, Floats, Integers, Integers]:
    """Equalities, lower bounds, upper bounds and two-sided rows as one matrix with slack s = right - matrix x."""
    identity = sp.csr_matrix(sp.eye_array(program.size))
    below = np.flatnonzero(np.isfinite(program.lower))
    above = np.flatnonzero(np.isfinite(program.upper))
    blocks = [program.equality, -identity[below], identity[above]]
    sides = [program.right, -program.lower[below], program.upper[above]]
    if program.inequalities is not None:
        limits = program.inequalities
        compressed = sp.csr_matrix(limits.matrix)
        low, high = np.isfinite(limits.lower), np.isfinite(limits.upper)
        blocks += [-compressed[low], compressed[high]]
        sides += [-limits.lower[low], limits.upper[high]]
    return sp.csc_matrix(sp.vstack(blocks, format="csc")), np.concatenate(sides), above, below


def _row_multipliers(program: Program, dual: Floats) -> Floats | None:
    if program.inequalities is None:
        return None
    low, high = np.isfinite(program.inequalities.lower), np.isfinite(program.inequalities.upper)
    multipliers = np.zeros(len(low))
    multipliers[low] += dual[: low.sum()]
    multipliers[high] -= dual[low.sum() :]
    return multipliers
