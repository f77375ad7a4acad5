"""Children of whom only the sum has a known total: first the groups are estimated, then each is divided (E-56 to E-58).

Both stages are families like any other: the children of the first are the groups, those of the second the members of
one group, whose parent is the estimate of the first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das_spark.estimation.check import broken_rules
from das_spark.estimation.problem import (
    FamilyBounds,
    FamilyDiagnostics,
    FamilyFlows,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    FamilyResult,
    FamilyStatus,
)
from das_spark.estimation.support import Integers
from das_spark.histogram import Histogram, Query

Estimator = Callable[[FamilyProblem, FamilyPlan], FamilyResult]
Group = tuple[str, Integers]

TOTAL = "group_total"
"""Name of the bound that holds the totals of groups."""

_BEST_FIRST = (
    FamilyStatus.EMPTY_PARENT,
    FamilyStatus.ONLY_CHILD,
    FamilyStatus.OPTIMAL,
    FamilyStatus.RELAXED,
    FamilyStatus.UNCERTIFIED,
    FamilyStatus.UNROUNDED,
    FamilyStatus.INFEASIBLE,
)
_WITHOUT_NUMBERS = (FamilyStatus.UNROUNDED, FamilyStatus.INFEASIBLE)


def estimate_in_groups(problem: FamilyProblem, plan: FamilyPlan, estimator: Estimator) -> FamilyResult:
    """Estimate the groups of a family, then divide each among its members.

    At the root, where nothing ties groups together, every group is a root of its own.

    Args:
        problem: A family with groups.
        plan: How to estimate it; the same in both stages.
        estimator: What estimates a family without groups.

    Returns:
        Whole numbers of all children in their order, with the diagnostics of all stages in one.

    Raises:
        EstimationError: As the estimator does.
        ConfigurationError: As the estimator does.
    """
    groups = () if problem.groups is None else problem.groups.members
    together = [groups] if problem.parent is not None else [(group,) for group in groups]
    stages, parts = [], []
    for several in together:
        whole = estimator(family_of_groups(problem, several), plan)
        stages.append(whole)
        for place, (label, members) in enumerate(several):
            own = _Part(members, whole.cells, whole.counts[place : place + 1])
            if len(members) > 1 and whole.diagnostics.status not in _WITHOUT_NUMBERS:
                estimate = Histogram.from_pairs(problem.size, own.cells, own.counts[0])
                divided = estimator(family_of_members(problem, label, members, estimate), plan)
                stages.append(divided)
                own = _Part(members, divided.cells, divided.counts)
            parts.append(own)
    return _joined(problem, plan, stages, parts)


def family_of_groups(problem: FamilyProblem, groups: Sequence[Group]) -> FamilyProblem:
    """The first stage: the family whose children are groups.

    Noisy answers and their variances are summed over members, bounds too; a known total becomes a bound of its own.

    Args:
        problem: A family with groups.
        groups: Label and positions of the members of those that take part, sorted by label.

    Returns:
        A family without groups.
    """
    members = [positions for _, positions in groups]
    return FamilyProblem(
        parent_geocode=problem.parent_geocode,
        parent=problem.parent,
        children=tuple(label for label, _ in groups),
        size=problem.size,
        measurements=tuple(
            FamilyMeasurement(each.query, each.rows, _summed(each.values, members), _summed(each.variance, members))
            for each in problem.measurements
        ),
        bounds=(
            *(
                replace(each, lower=_summed(each.lower, members), upper=_summed(each.upper, members))
                for each in problem.bounds
            ),
            *_totals(problem, members),
        ),
        flows=_moved_flows(problem.flows, members),
    )


def family_of_members(problem: FamilyProblem, label: str, members: Integers, estimate: Histogram) -> FamilyProblem:
    """The second stage: the family whose parent is the estimate of a group and whose children are its members.

    Args:
        problem: A family with groups.
        label: Of the group.
        members: Positions of its members.
        estimate: People of the group.

    Returns:
        A family without groups.
    """
    flows = problem.flows
    return FamilyProblem(
        parent_geocode=label,
        parent=estimate,
        children=tuple(problem.children[position] for position in members),
        size=problem.size,
        measurements=tuple(
            FamilyMeasurement(each.query, each.rows, each.values[members], each.variance[members])
            for each in problem.measurements
        ),
        bounds=tuple(
            FamilyBounds(each.name, each.query, each.lower[members], each.upper[members]) for each in problem.bounds
        ),
        flows=_moved_flows(flows, [np.array([position]) for position in members]),
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Estimates of some children: their positions in the family, and people by child and cell."""

    children: Integers
    cells: NDArray[np.int32]
    counts: Integers


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
    problem: FamilyProblem, plan: FamilyPlan, stages: Sequence[FamilyResult], parts: Sequence[_Part]
) -> FamilyResult:
    """All children's estimates in the order of the family, checked as a whole."""
    cells = np.unique(np.concatenate([part.cells for part in parts])).astype(np.int32)
    counts = np.zeros((len(problem.children), len(cells)), dtype=np.int64)
    for part in parts:
        # Where no numbers were found the members of a group share the group's row of zeros.
        counts[np.ix_(part.children, np.searchsorted(cells, part.cells))] = part.counts
    diagnostics = _joined_diagnostics(problem, stages)
    relaxed = any(each.relaxed for each in stages)
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
    found = [each.diagnostics for each in stages]
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
