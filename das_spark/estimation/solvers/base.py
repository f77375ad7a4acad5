"""What a solver is here: a convex program in, a solution out; and one vocabulary of statuses.

A solver's own "solved" is believed only after :func:`audited` has recomputed its residuals, and an estimate only after
:mod:`das_spark.estimation.certify` has rebuilt the problem from the tables.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar, Protocol

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

Floats = NDArray[np.float64]

_NOTHING = 1e-9  # entries of a direction that count as zero, relative to its largest
_CLEARLY = 1e-6  # by how much a proof of infeasibility must hold, relative to its right side


class Capability(StrEnum):
    """What kinds of program a solver can take."""

    QUADRATIC = "quadratic"
    LINEAR = "linear"
    MIXED_INTEGER = "mixed_integer"


class Status(StrEnum):
    """How a solve ended."""

    OPTIMAL = "optimal"  # within the requested tolerances, by our own residuals
    INACCURATE = "inaccurate"  # a point, but not within the tolerances
    INFEASIBLE = "infeasible"
    UNBOUNDED = "unbounded"
    LIMIT = "limit"  # iterations ran out
    FAILED = "failed"


@dataclass(frozen=True, slots=True, eq=False)
class Inequalities:
    """Two-sided rows: lower <= matrix x <= upper.

    Attributes:
        matrix: G in CSC form, shape ``(L, N)``.
        lower: g, shape ``(L,)``, ``-inf`` where there is none.
        upper: h, shape ``(L,)``, ``inf`` where there is none.
    """

    matrix: sp.csc_matrix
    lower: Floats
    upper: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Program:
    r"""A convex program with a diagonal quadratic term.

    .. math:: \min \tfrac12 x^T P x + c^T x \;:\; A x = b,\; \ell \le x \le u,\; g \le G x \le h,\; x_I \in Z

    Attributes:
        diagonal: Of P, not negative, shape ``(N,)``.
        linear: c, shape ``(N,)``.
        equality: A in CSC form, shape ``(M, N)``.
        right: b, shape ``(M,)``.
        lower: Lower bounds of variables, ``-inf`` where there is none, shape ``(N,)``.
        upper: Upper bounds, ``inf`` where there is none, shape ``(N,)``.
        inequalities: G, g and h, or None.
        integral: Whether each variable must be whole, shape ``(N,)``, or None when none must.
        coupling: What P has beside its diagonal, symmetric, in CSC form; None where P is diagonal.
    """

    diagonal: Floats
    linear: Floats
    equality: sp.csc_matrix
    right: Floats
    lower: Floats
    upper: Floats
    inequalities: Inequalities | None = None
    integral: NDArray[np.bool_] | None = None
    coupling: sp.csc_matrix | None = None

    @property
    def hessian(self) -> sp.csc_matrix:
        """P in CSC form."""
        diagonal = sp.csc_matrix(sp.diags_array(self.diagonal))
        return diagonal if self.coupling is None else sp.csc_matrix(diagonal + self.coupling)

    def gradient(self, x: Floats) -> Floats:
        """P x + c."""
        coupled = 0.0 if self.coupling is None else self.coupling @ x
        return np.asarray(self.diagonal * x + coupled + self.linear, dtype=np.float64)

    @property
    def size(self) -> int:
        """Number of variables."""
        return len(self.linear)

    @property
    def needs(self) -> frozenset[Capability]:
        """What a solver must be able to do."""
        quadratic = self.diagonal.any() or self.coupling is not None
        kinds = {Capability.QUADRATIC if quadratic else Capability.LINEAR}
        if self.integral is not None and self.integral.any():
            kinds.add(Capability.MIXED_INTEGER)
        return frozenset(kinds)


def linear_program(
    cost: Floats, lower: Floats, upper: Floats, rows: Inequalities | None, integral: NDArray[np.bool_] | None = None
) -> Program:
    """A program with a linear objective, whose constraints are bounds and two-sided rows."""
    size = len(cost)
    return Program(np.zeros(size), cost, sp.csc_matrix((0, size)), np.zeros(0), lower, upper, rows, integral)


@dataclass(frozen=True, slots=True)
class SolverOptions:
    """Limits and tolerances; iterations instead of time, so that a solve can be repeated.

    Attributes:
        tolerance: Residuals asked for, absolute, in the program's units.
        iterations: Largest number of iterations; 0: the solver's own.
        accepted: Residuals up to which :func:`audited` lets a solver's "solved" stand, relative to the data.
        presolve: Whether a solver of linear programs may simplify before it starts: costs more than it saves where
            the simplex method needs few steps.
        gap: Relative distance from the bound at which a mixed-integer program may stop.
    """

    tolerance: float = 1e-8
    iterations: int = 0
    accepted: float = 1e-5
    presolve: bool = True
    gap: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    r"""What a solver returns.

    Multipliers obey :math:`P x + c = A^T y + z + G^T s`, where z is positive at a lower and negative at an upper bound,
    and s likewise for rows.

    Attributes:
        status: How it ended.
        x: The point, shape ``(N,)``, or None.
        multipliers: y, shape ``(M,)``, or None where the solver gives none.
        bounds: z, shape ``(N,)``, or None.
        rows: s, shape ``(L,)``, or None.
        iterations: As the solver counts them.
    """

    status: Status
    x: Floats | None = None
    multipliers: Floats | None = None
    bounds: Floats | None = None
    rows: Floats | None = None
    iterations: int = 0


class Solver(Protocol):
    """A solver of convex programs; deterministic, one thread, no state between calls."""

    name: ClassVar[str]
    capabilities: ClassVar[frozenset[Capability]]

    def solve(self, program: Program, options: SolverOptions) -> Solution:
        """Solve a program whose needs are among the capabilities.

        Returns:
            The solution; never raises for a program that cannot be solved.
        """
        ...


def decided(program: Program) -> Solution | None:
    """Decide what needs no solver: a program without variables, or with bounds that contradict each other."""
    rows = program.inequalities
    low, high = (
        (program.lower, program.upper)
        if rows is None
        else (
            np.concatenate([program.lower, rows.lower]),
            np.concatenate([program.upper, rows.upper]),
        )
    )
    if (low > high).any():
        return Solution(Status.INFEASIBLE)
    if program.size:
        return None
    none, count = np.zeros(0), 0 if rows is None else len(rows.lower)
    if program.right.any() or (rows is not None and ((rows.lower > 0) | (rows.upper < 0)).any()):
        return Solution(Status.INFEASIBLE)
    return Solution(Status.OPTIMAL, none, np.zeros(len(program.right)), none, np.zeros(count))


def primal_residual(program: Program, x: Floats) -> float:
    """Worst violation of a program's constraints, relative to max(1, |b|) for equality rows and absolute otherwise."""
    worst = [0.0]
    if len(program.right):
        difference = np.abs(program.equality @ x - program.right)
        worst.append(float(difference.max()) / max(1.0, float(np.abs(program.right).max())))
    if program.inequalities is not None:
        answer, limits = program.inequalities.matrix @ x, program.inequalities
        worst.append(float(np.maximum(limits.lower - answer, answer - limits.upper).max(initial=0.0)))
    worst.append(float(np.maximum(program.lower - x, x - program.upper).max(initial=0.0)))
    return max(worst)


def dual_residual(program: Program, solution: Solution) -> float:
    """Worst entry of P x + c - A'y - z - G's, relative to max(1, |c|); 0 where multipliers are missing."""
    if solution.x is None or solution.multipliers is None or solution.bounds is None:
        return 0.0
    gradient = program.gradient(solution.x)
    gradient = gradient - program.equality.T @ solution.multipliers - solution.bounds
    if program.inequalities is not None and solution.rows is not None:
        gradient = gradient - program.inequalities.matrix.T @ solution.rows
    return float(np.abs(gradient).max(initial=0.0)) / max(1.0, float(np.abs(program.linear).max(initial=0.0)))


def proves_infeasible(program: Program, multipliers: Floats | None, rows: Floats | None = None) -> bool:
    r"""Whether multipliers prove that a program has no feasible point (Farkas).

    For every feasible x, y'A x + s'G x equals y'b plus s'(G x), with G x between g and h; so if the least value of the
    left side over the variables' box exceeds the most that the right side can be, there is none.
    """
    parts = [part for part in (multipliers, rows) if part is not None and len(part)]
    size = max((float(np.abs(part).max()) for part in parts), default=0.0)
    if not np.isfinite(size) or size == 0.0:
        return False
    reach, slope = 0.0, np.zeros(program.size)
    if multipliers is not None:
        direction = multipliers / size
        slope += program.equality.T @ direction
        reach += float(direction @ program.right)
    if rows is not None and program.inequalities is not None:
        limits = program.inequalities
        direction = np.where(np.abs(rows) > _NOTHING * size, rows / size, 0.0)
        slope += limits.matrix.T @ direction
        (used,) = np.nonzero(direction)
        limit = np.where(direction > 0, limits.upper, limits.lower)
        reach += float(direction[used] @ limit[used])
    (used,) = np.nonzero(np.abs(slope) > _NOTHING)
    bound = np.where(slope > 0, program.lower, program.upper)
    least = float(slope[used] @ bound[used])
    return least - reach > _CLEARLY * max(1.0, abs(reach))


def audited(program: Program, solution: Solution, options: SolverOptions) -> Solution:
    """Take back an "optimal" that its own residuals do not bear out; find the infeasible among the unfinished."""
    if solution.status in {Status.LIMIT, Status.FAILED, Status.INACCURATE}:
        for sign in (1.0, -1.0):
            multipliers = None if solution.multipliers is None else sign * solution.multipliers
            rows = None if solution.rows is None else sign * solution.rows
            if proves_infeasible(program, multipliers, rows):
                return replace(solution, status=Status.INFEASIBLE, x=None)
        return solution
    if solution.status is not Status.OPTIMAL:
        return solution
    if solution.x is None or not np.isfinite(solution.x).all():
        return replace(solution, status=Status.FAILED, x=None)
    worst = max(primal_residual(program, solution.x), dual_residual(program, solution))
    return solution if worst <= options.accepted else replace(solution, status=Status.INACCURATE)
