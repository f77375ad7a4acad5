"""Estimate one family: the only door through which Spark enters this room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from das_spark.estimation.chain import Solved, solve_chain
from das_spark.estimation.check import broken_rules
from das_spark.estimation.failsafe import Failsafe, relaxed_family, round_relaxed
from das_spark.estimation.groups import estimate_in_groups
from das_spark.estimation.passes import estimate_in_passes
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
from das_spark.estimation.support import Integers, Support, restrict


def estimate_family(problem: FamilyProblem, plan: FamilyPlan) -> FamilyResult:
    """Estimate the children of one parent from their noisy answers (README).

    The same arguments give the same result, bit for bit, on one kind of processor and one set of library versions.

    Args:
        problem: The family.
        plan: How to estimate it.

    Returns:
        Whole numbers for every child, with a status; never raises because a family is infeasible or unsolved.

    Raises:
        EstimationError: When a measurement lacks rows that the parent's occupied cells touch.
        ConfigurationError: When the plan names a solver that does not exist, or its passes do not fit the problem.
    """
    if problem.groups is not None:
        return estimate_in_groups(problem, plan, _without_groups)
    return _without_groups(problem, plan)


def _without_groups(problem: FamilyProblem, plan: FamilyPlan) -> FamilyResult:
    support = restrict(problem, plan)
    if support.parent is not None and not len(support.cells) and not support.contradiction:
        return _shortcut(support, plan, FamilyStatus.EMPTY_PARENT)
    if support.parent is not None and support.children == 1 and not support.contradiction:
        return _shortcut(support, plan, FamilyStatus.ONLY_CHILD)
    if plan.passes:
        return _in_passes(support, plan)
    presolved = presolve(support)
    if presolved.contradiction:
        return _infeasible(support, plan, presolved.contradiction)
    solved = solve_chain(presolved, plan)
    if solved.contradiction:
        return _infeasible(support, plan, solved.contradiction, solved.tried)
    return _finish(presolved, plan, solved, round_family(presolved, solved.candidate.x))


def _in_passes(support: Support, plan: FamilyPlan) -> FamilyResult:
    """Estimate by the passes of the plan (E-48 to E-55)."""
    passed = estimate_in_passes(support, plan)
    if passed.contradiction or passed.solved is None:
        tried = () if passed.solved is None else passed.solved.tried
        return _infeasible(support, plan, passed.contradiction, tried)
    whole = replace(passed.presolved, support=replace(passed.presolved.support, problem=support.problem))
    result = _finish(whole, plan, passed.solved, passed.rounded)
    return replace(result, diagnostics=replace(result.diagnostics, passes=passed.count))


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
        rounding_gap=0.0 if rounded is None else rounded.gap,
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
        return _infeasible(support, plan, "; ".join(broken))
    diagnostics = FamilyDiagnostics(support.problem.parent_geocode, support.children, 0, status)
    return FamilyResult(support.cells, counts, relaxed=False, diagnostics=diagnostics)


def _infeasible(support: Support, plan: FamilyPlan, message: str, tried: tuple[Attempt, ...] = ()) -> FamilyResult:
    """Report an infeasible family, or relax it where the plan says so; a relaxed family is estimated in one pass."""
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
        variables=presolve(support).variables,
        status=FamilyStatus.INFEASIBLE,
        attempts=len(tried),
        message=message,
        tried=tried,
    )
    return FamilyResult(support.cells, counts, relaxed=False, diagnostics=diagnostics)
