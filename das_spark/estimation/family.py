"""Estimate one family: the interface through which executors use this package."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das_spark.estimation.chain import PosedFamily, Solved, solve_chain
from das_spark.estimation.check import broken_rules
from das_spark.estimation.failsafe import relaxed_family, round_relaxed
from das_spark.estimation.flat_estimate import estimate_flat
from das_spark.estimation.implied import without_implied
from das_spark.estimation.passes import estimate_in_passes
from das_spark.estimation.presolve import Presolved, presolve
from das_spark.estimation.problem import (
    FamilyBounds,
    FamilyDiagnostics,
    FamilyFlows,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    FamilyResult,
    FamilyStatus,
    Integers,
    SolverAttempt,
)
from das_spark.estimation.rounding import Rounded, round_family
from das_spark.estimation.support import Support, restrict
from das_spark.histogram import Histogram, Query

Group = tuple[str, Integers]
Part = tuple[Integers, NDArray[np.int32], Integers]  # positions of some children, cells, people by child and cell

TOTAL = "group_total"
"""Name of the bound that holds the totals of groups."""

UNPROVED = "no solver's solution was proved optimal"
"""Message of a family that has numbers and no certificate."""

_NO_BOUND = float(np.finfo(np.float64).max)
"""Gap of an estimate that nothing bounds: files hold no infinity."""

_BEST_FIRST = (
    FamilyStatus.EMPTY_PARENT,
    FamilyStatus.ONLY_CHILD,
    FamilyStatus.OPTIMAL,
    FamilyStatus.RELAXED,
    FamilyStatus.ACCEPTED,
    FamilyStatus.UNCERTIFIED,
    FamilyStatus.UNROUNDED,
    FamilyStatus.INFEASIBLE,
)
_WITHOUT_NUMBERS = (FamilyStatus.UNROUNDED, FamilyStatus.INFEASIBLE)


def _in_groups(problem: FamilyProblem, plan: FamilyPlan) -> FamilyResult:
    """Estimate the groups of a family, then divide each among its members.

    At the root, where nothing ties groups together, every group is a root of its own.
    """
    groups = () if problem.groups is None else problem.groups.members
    together = [groups] if problem.parent is not None else [(group,) for group in groups]
    stages, parts = [], []
    for several in together:
        whole = _without_groups(family_of_groups(problem, several), plan)
        stages.append(whole)
        for place, (label, members) in enumerate(several):
            own = members, whole.cells, whole.counts[place : place + 1]
            if len(members) > 1 and whole.diagnostics.status not in _WITHOUT_NUMBERS:
                estimate = Histogram.from_pairs(problem.size, whole.cells, whole.counts[place])
                divided = _without_groups(family_of_members(problem, label, members, estimate), plan)
                stages.append(divided)
                own = members, divided.cells, divided.counts
            parts.append(own)
    return _joined(problem, plan, stages, parts)


def family_of_groups(problem: FamilyProblem, groups: Sequence[Group]) -> FamilyProblem:
    """The first stage: the family whose children are groups.

    Noisy answers and their variances are summed over members, bounds too; a known total becomes a bound of its own.
    Where all that is known of members has a mean and a covariance, these are summed instead of the answers.
    """
    members = [positions for _, positions in groups]
    measurements = tuple(
        FamilyMeasurement(
            measurement.query,
            measurement.rows,
            _summed(measurement.values, members),
            _summed(measurement.variance, members),
        )
        for measurement in problem.measurements
    )
    return FamilyProblem(
        parent_geocode=problem.parent_geocode,
        parent=problem.parent,
        children=tuple(label for label, _ in groups),
        size=problem.size,
        measurements=measurements if problem.prior is None else (),
        bounds=(
            *(
                replace(bound, lower=_summed(bound.lower, members), upper=_summed(bound.upper, members))
                for bound in problem.bounds
            ),
            *_totals(problem, members),
        ),
        flows=_moved_flows(problem.flows, members),
        prior=None if problem.prior is None else problem.prior.of_groups(members),
    )


def family_of_members(problem: FamilyProblem, label: str, members: Integers, estimate: Histogram) -> FamilyProblem:
    """The second stage: the family whose parent is the estimate of a group and whose children are its members."""
    return FamilyProblem(
        parent_geocode=label,
        parent=estimate,
        children=tuple(problem.children[position] for position in members),
        size=problem.size,
        measurements=tuple(
            FamilyMeasurement(
                measurement.query, measurement.rows, measurement.values[members], measurement.variance[members]
            )
            for measurement in problem.measurements
        ),
        bounds=tuple(
            replace(bound, lower=bound.lower[members], upper=bound.upper[members]) for bound in problem.bounds
        ),
        flows=_moved_flows(problem.flows, [np.array([position]) for position in members]),
        prior=None if problem.prior is None else problem.prior.of_members(members),
    )


def _summed(values: NDArray[Any], members: Sequence[Integers]) -> NDArray[Any]:
    return np.stack([values[positions].sum(axis=0) for positions in members])


def _totals(problem: FamilyProblem, members: Sequence[Integers]) -> tuple[FamilyBounds, ...]:
    """The known totals as a bound; an unknown one is only known not to exceed the parent's."""
    totals = np.full(len(problem.children), -1) if problem.groups is None else problem.groups.totals
    known = np.array([totals[positions[0]] for positions in members], dtype=np.int64)[:, None]
    if (known < 0).all():
        return ()
    most = known.max() if problem.parent is None else problem.parent.total
    query = Query("total", (problem.size,), (np.zeros(problem.size, dtype=np.int64),))
    return (FamilyBounds(TOTAL, query, np.maximum(known, 0), np.where(known < 0, most, known)),)


def _moved_flows(flows: FamilyFlows | None, members: Sequence[Integers]) -> FamilyFlows | None:
    """The flows of some children, moved to the child that each is a member of; None where they have none."""
    if flows is None:
        return None
    child = np.full(len(flows.child), -1, dtype=np.int64)
    for place, positions in enumerate(members):
        child[np.isin(flows.child, positions)] = place
    kept = child >= 0
    if not kept.any():
        return None
    return FamilyFlows(flows.query, child[kept], flows.lower[kept], flows.upper[kept], flows.total[kept])


def _joined(
    problem: FamilyProblem, plan: FamilyPlan, stages: Sequence[FamilyResult], parts: Sequence[Part]
) -> FamilyResult:
    """All children's estimates in the order of the family, checked as a whole."""
    cells = np.unique(np.concatenate([own for _, own, _ in parts])).astype(np.int32)
    counts = np.zeros((len(problem.children), len(cells)), dtype=np.int64)
    for children, own, people in parts:
        # Where no numbers were found the members of a group share the group's row of zeros.
        counts[np.ix_(children, np.searchsorted(cells, own))] = people
    diagnostics = _joined_diagnostics(problem, stages)
    relaxed = any(stage.relaxed for stage in stages)
    if diagnostics.status not in _WITHOUT_NUMBERS:
        # A relaxed stage has been checked against its parent as far as that is kept.
        whole = replace(problem, parent=None) if relaxed else problem
        broken = broken_rules(whole, plan, cells, counts)
        if broken:
            message = "; ".join(broken)
            diagnostics = replace(diagnostics, status=FamilyStatus.UNROUNDED, message=message)
    return FamilyResult(cells, counts, relaxed, diagnostics)


def _joined_diagnostics(problem: FamilyProblem, stages: Sequence[FamilyResult]) -> FamilyDiagnostics:
    """The worst status and proof, what was done in all stages, and the solvers and roundings by name."""
    found = [stage.diagnostics for stage in stages]
    named = [each for each in found if each.variables] or found
    return FamilyDiagnostics(
        parent=problem.parent_geocode,
        children=len(problem.children),
        variables=sum(each.variables for each in found),
        status=max((each.status for each in found), key=_BEST_FIRST.index),
        solver=_listed(each.solver for each in named),
        passes=max(each.passes for each in found),
        primal_residual=max(each.primal_residual for each in found),
        gap=max(each.gap for each in found),
        iterations=sum(each.iterations for each in found),
        attempts=sum(each.attempts for each in found),
        rounding=_listed(each.rounding for each in found),
        rounding_gap=max(each.rounding_gap for each in found),
        message=_listed((each.message for each in found), "; "),
        tried=tuple(attempt for each in found for attempt in each.tried),
    )


def _listed(names: Iterable[str], separator: str = ", ") -> str:
    return separator.join(dict.fromkeys(filter(None, names)))


def estimate_families(problems: Sequence[FamilyProblem], plan: FamilyPlan) -> list[FamilyResult]:
    """Estimate the children of several parents from their noisy answers (README), small families many at once.

    The same problem and plan give the same result, bit for bit, on one kind of processor and one set of library
    versions, whatever families are beside it.

    Returns:
        For each family whole numbers for every child, with a status; none raises because it is infeasible or unsolved.

    Raises:
        EstimationError: When a measurement lacks rows that the parent's occupied cells touch.
        ConfigurationError: When the plan names a solver that does not exist, or its passes do not fit the problem.
    """
    together = estimate_flat(problems, plan)
    return [
        _by_itself(problem, plan) if found is None else found for problem, found in zip(problems, together, strict=True)
    ]


def estimate_family(problem: FamilyProblem, plan: FamilyPlan) -> FamilyResult:
    """Estimate one family, as `estimate_families` does."""
    return estimate_families((problem,), plan)[0]


def _by_itself(problem: FamilyProblem, plan: FamilyPlan) -> FamilyResult:
    return _without_groups(problem, plan) if problem.groups is None else _in_groups(problem, plan)


def _without_groups(problem: FamilyProblem, plan: FamilyPlan) -> FamilyResult:
    problem = without_implied(problem, plan)
    if problem.parent is not None and (not problem.parent.total or len(problem.children) == 1):
        support = restrict(problem, plan)
        if not support.contradiction:
            return _shortcut(support, plan)
    if plan.passes:
        return _in_passes(problem, plan)
    posed = PosedFamily(restrict(problem, plan), plan.gap_tolerance)
    solved = solve_chain(posed, plan)
    if solved.contradiction:
        return _infeasible(problem, plan, solved.contradiction, solved.tried)
    return _finish(posed.presolved, plan, solved, round_family(posed.presolved, solved.candidate.x))


def _in_passes(problem: FamilyProblem, plan: FamilyPlan) -> FamilyResult:
    """Estimate by the passes of the plan (E-48 to E-55)."""
    passed = estimate_in_passes(problem, plan)
    if passed.contradiction or passed.exact is None:
        return _infeasible(problem, plan, passed.contradiction, passed.solved.tried)
    whole = replace(passed.exact, support=replace(passed.exact.support, problem=problem))
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
    gap = solved.certificate.gap
    if status.is_usable and not solved.certificate.certified:
        accepted = plan.accept_uncertified and not np.isnan(gap)
        status, message = FamilyStatus.ACCEPTED if accepted else FamilyStatus.UNCERTIFIED, UNPROVED
        gap = min(gap, _NO_BOUND)
    diagnostics = FamilyDiagnostics(
        parent=support.problem.parent_geocode,
        children=support.children,
        variables=presolved.variables,
        status=status,
        solver=solved.name,
        primal_residual=solved.certificate.primal_residual,
        gap=gap,
        iterations=solved.iterations,
        attempts=len(solved.tried),
        rounding="" if rounded is None else rounded.method,
        rounding_gap=0.0 if rounded is None else rounded.gap,
        message=message,
        tried=solved.tried,
    )
    return FamilyResult(support.cells, counts, support.relaxation is not None, diagnostics)


def _shortcut(support: Support, plan: FamilyPlan) -> FamilyResult:
    """Hand the parent down to an only child, or nobody to all, if their bounds allow that (E-10, E-11)."""
    counts = np.zeros((support.children, len(support.cells)), dtype=np.int64)
    status = FamilyStatus.EMPTY_PARENT
    if support.parent is not None and len(support.cells):
        counts[0], status = support.parent, FamilyStatus.ONLY_CHILD
    broken = broken_rules(support.problem, plan, support.cells, counts)
    if broken:
        return _infeasible(support.problem, plan, "; ".join(broken))
    diagnostics = FamilyDiagnostics(support.problem.parent_geocode, support.children, 0, status)
    return FamilyResult(support.cells, counts, relaxed=False, diagnostics=diagnostics)


def _infeasible(
    problem: FamilyProblem, plan: FamilyPlan, message: str, tried: tuple[SolverAttempt, ...] = ()
) -> FamilyResult:
    """Report an infeasible family, or relax it where the plan says so; a relaxed family is estimated in one pass."""
    if plan.failsafe and problem.parent is not None:
        relaxed = relaxed_family(problem, plan)
        if isinstance(relaxed, Presolved):
            solved = solve_chain(PosedFamily.of(relaxed, plan.gap_tolerance), plan)
            solved = replace(solved, tried=(*tried, *solved.tried))
            result = _finish(relaxed, plan, solved, round_relaxed(relaxed, solved.candidate.x))
            diagnostics = result.diagnostics
            text = "; ".join(filter(None, (f"relaxed because: {message}", diagnostics.message)))
            return replace(result, diagnostics=replace(diagnostics, message=text))
        message = f"{message}; the failsafe cannot help: {relaxed}"
    support = restrict(problem, plan)
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
