"""Estimate one family: the only door through which Spark enters this room."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from das_spark.estimation.assembly import Assembly, assemble
from das_spark.estimation.candidate import Candidate, read_back
from das_spark.estimation.certify import Certificate, certify
from das_spark.estimation.check import broken_rules
from das_spark.estimation.failsafe import Failsafe, relaxed_family, round_relaxed
from das_spark.estimation.feasibility import feasibility
from das_spark.estimation.presolve import Presolved, presolve
from das_spark.estimation.problem import (
    Attempt,
    FamilyDiagnostics,
    FamilyPlan,
    FamilyProblem,
    FamilyResult,
    FamilyStatus,
)
from das_spark.estimation.rounding import Rounded, round_family
from das_spark.estimation.solvers import Solution, SolverOptions, Status, solver
from das_spark.estimation.support import Integers, Support, restrict

TOLERANCE = 1e-8
"""Residuals asked of solvers, in units of a typical noise deviation."""


def estimate_family(problem: FamilyProblem, plan: FamilyPlan) -> FamilyResult:
    """Estimate the children of one parent from their noisy answers (README, sections 1 to 7).

    The same arguments give the same result, bit for bit, on one kind of processor and one set of library versions.

    Args:
        problem: The family.
        plan: How to estimate it.

    Returns:
        Whole numbers for every child, with a status; never raises because a family is infeasible or unsolved.

    Raises:
        EstimationError: When a measurement lacks rows that the parent's occupied cells touch.
        ConfigurationError: When the plan names a solver that does not exist.
    """
    support = restrict(problem, plan)
    if support.parent is not None and not len(support.cells) and not support.contradiction:
        return _shortcut(support, plan, FamilyStatus.EMPTY_PARENT)
    if support.parent is not None and support.children == 1 and not support.contradiction:
        return _shortcut(support, plan, FamilyStatus.ONLY_CHILD)
    presolved = presolve(support)
    if presolved.contradiction:
        return _infeasible(presolved, plan, presolved.contradiction, ())
    solved = solve_chain(presolved, plan)
    if not solved.certificate.certified:
        found = feasibility(presolved)
        if not found.feasible:
            return _infeasible(presolved, plan, found.message, solved.tried)
    return _finish(presolved, plan, solved, round_family(presolved, solved.candidate.x))


@dataclass(frozen=True, slots=True, eq=False)
class Solved:
    """The best candidate of the chain of solvers.

    Attributes:
        candidate: The candidate.
        certificate: What was proved of it.
        name: Its solver.
        iterations: Its solver's iterations.
        tried: All attempts, in order.
    """

    candidate: Candidate
    certificate: Certificate
    name: str
    iterations: int
    tried: tuple[Attempt, ...]


def solve_chain(presolved: Presolved, plan: FamilyPlan) -> Solved:
    """Try the plan's solvers in order until a solution is certified.

    Args:
        presolved: The family.
        plan: Solvers and tolerances.

    Returns:
        The certified candidate, or else the one with the smallest violation, then gap.
    """
    assembly = assemble(presolved)
    if not assembly.program.size:
        candidate = read_back(assembly, Solution(Status.OPTIMAL, x=assembly.centre))
        return Solved(candidate, _certified(assembly, plan, candidate), "presolve", 0, ())
    best: Solved | None = None
    tried: tuple[Attempt, ...] = ()
    for name in plan.solvers:
        solution = solver(name, assembly.program.needs).solve(assembly.program, SolverOptions(tolerance=TOLERANCE))
        candidate = read_back(assembly, solution)
        proof = _certified(assembly, plan, candidate)
        attempt = Attempt(
            name, str(solution.status), proof.certified, proof.primal_residual, proof.gap, solution.iterations
        )
        tried = (*tried, attempt)
        if best is None or _rank(proof, plan) < _rank(best.certificate, plan):
            best = Solved(candidate, proof, name, solution.iterations, tried)
        if proof.certified or (solution.status is Status.INFEASIBLE and not feasibility(presolved).feasible):
            break
    if best is None:
        candidate = read_back(assembly, Solution(Status.FAILED))
        return Solved(candidate, _certified(assembly, plan, candidate), "presolve", 0, ())
    return replace(best, tried=tried)


def _certified(assembly: Assembly, plan: FamilyPlan, candidate: Candidate) -> Certificate:
    support = assembly.presolved.support
    return certify(support.problem, plan, support.cells, candidate, support.relaxation)


def _rank(proof: Certificate, plan: FamilyPlan) -> tuple[float, float]:
    """Order of candidates: certified ones first, then by violation above the tolerance, then by gap."""
    gap = abs(proof.gap) if np.isfinite(proof.gap) else np.inf
    return (max(proof.violation, plan.feasibility_tolerance) if np.isfinite(proof.violation) else np.inf, gap)


def _finish(presolved: Presolved, plan: FamilyPlan, solved: Solved, rounded: Rounded | None) -> FamilyResult:
    """Check the whole numbers and write the diagnostics."""
    support = presolved.support
    counts = np.zeros((support.children, len(support.cells)), dtype=np.int64)
    message, status = "no rounding keeps all constraints", FamilyStatus.UNROUNDED
    if rounded is not None:
        counts = rounded.counts
        broken = broken_rules(support.problem, plan, support.cells, counts, support.relaxation)
        message = "; ".join(broken)
        if not broken:
            status = FamilyStatus.OPTIMAL if support.relaxation is None else FamilyStatus.RELAXED
    if status.is_usable and not solved.certificate.certified:
        status, message = FamilyStatus.UNCERTIFIED, "no solver's solution was proved optimal"
    diagnostics = FamilyDiagnostics(
        parent=support.problem.parent_geocode,
        children=support.children,
        variables=presolved.variables,
        status=status,
        solver=solved.name,
        primal_residual=solved.certificate.primal_residual,
        gap=solved.certificate.gap,
        iterations=solved.iterations,
        attempts=len(solved.tried),
        rounding="" if rounded is None else rounded.method,
        message=message,
        tried=solved.tried,
    )
    return FamilyResult(support.cells, counts, support.relaxation is not None, diagnostics)


def _shortcut(support: Support, plan: FamilyPlan, status: FamilyStatus) -> FamilyResult:
    """Hand the parent down unchanged, if its child's bounds allow that (E-10, E-11)."""
    counts = np.zeros((support.children, len(support.cells)), dtype=np.int64)
    if support.parent is not None:
        counts[0] = support.parent
    broken = broken_rules(support.problem, plan, support.cells, counts)
    if broken:
        return _infeasible(presolve(support), plan, "; ".join(broken), ())
    diagnostics = FamilyDiagnostics(support.problem.parent_geocode, support.children, 0, status)
    return FamilyResult(support.cells, counts, relaxed=False, diagnostics=diagnostics)


def _infeasible(presolved: Presolved, plan: FamilyPlan, message: str, tried: tuple[Attempt, ...]) -> FamilyResult:
    """Report an infeasible family, or relax it where the plan says so."""
    support = presolved.support
    if plan.failsafe and support.parent is not None:
        relaxed = relaxed_family(support.problem, plan)
        if isinstance(relaxed, Failsafe):
            solved = solve_chain(relaxed.presolved, plan)
            solved = replace(solved, tried=(*tried, *solved.tried))
            result = _finish(relaxed.presolved, plan, solved, round_relaxed(relaxed, solved.candidate.x))
            diagnostics = result.diagnostics
            text = "; ".join(filter(None, (f"relaxed because: {message}", diagnostics.message)))
            return replace(result, diagnostics=replace(diagnostics, message=text))
        message = f"{message}; the failsafe cannot help: {relaxed}"
    counts: Integers = np.zeros((support.children, len(support.cells)), dtype=np.int64)
    diagnostics = FamilyDiagnostics(
        parent=support.problem.parent_geocode,
        children=support.children,
        variables=presolved.variables,
        status=FamilyStatus.INFEASIBLE,
        attempts=len(tried),
        message=message,
        tried=tried,
    )
    return FamilyResult(support.cells, counts, relaxed=False, diagnostics=diagnostics)
