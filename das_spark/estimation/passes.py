"""Estimation in several passes: sizes first, details after, each held while the next is sought (E-48 to E-50).

An inner pass of least squares sees only its own queries, so it is posed on the coarsest cells that tell their answers,
and the bounds, apart; one cell stands for all that none of them distinguishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.estimation.chain import Solved, solve_chain
from das_spark.estimation.presolve import Presolved, presolve
from das_spark.estimation.problem import (
    FamilyBounds,
    FamilyPlan,
    FamilyProblem,
    Floats,
    Integers,
    OuterPass,
)
from das_spark.estimation.rounding import Rounded, round_in_passes
from das_spark.estimation.support import Support, on_cells, restrict, sums
from das_spark.histogram import Histogram, Query

SLACK = 0.01
"""People by which the answers of an inner pass may move in later ones: what was in effect in 2020 (E-49)."""


COARSE_ROOT = 100_000
"""Cells of a schema from which a root, too, is posed on coarse cells; the last digits of smaller ones would change."""


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """How the passes of a family ended."""

    presolved: Presolved  # the family of the last pass
    solved: Solved | None  # its real-valued estimate: the worst certificate of all passes, all attempts
    rounded: Rounded | None  # its whole numbers, or None where a rounding found none
    count: int  # least-squares passes made
    contradiction: str = ""  # why the family is infeasible, where it is


def estimate_in_passes(support: Support, plan: FamilyPlan) -> Passed:
    """Carry out the plan's outer passes."""
    parts = [part for each in plan.passes for part in (each.least_squares, each.rounding)]
    if not parts or not all(part and all(part) for part in parts):
        raise ConfigurationError("every pass needs a fit by least squares and a rounding, both of some query")
    fixed: tuple[FamilyBounds, ...] = ()
    passed: Passed | None = None
    for number, outer in enumerate(plan.passes):
        fitted = _fitted(support, plan, outer, fixed, passed)
        if fitted.contradiction or fitted.solved is None:
            return fitted
        exact, last = fitted.presolved, number == len(plan.passes) - 1
        if last and len(exact.support.cells) != len(support.cells):
            raise ConfigurationError("the last rounding leaves cells open: it must end with the query of every cell")
        if len(outer.least_squares) > 1:  # the bands of the inner passes are not for the rounding
            bounds = (*support.problem.bounds, *fixed)
            unmeasured = replace(exact.support.problem, measurements=(), bounds=bounds)
            exact = presolve(on_cells(unmeasured, exact.support.cells, exact.support.parent))
        queries = [[_query(plan, name) for name in names] for names in outer.rounding]
        rounded = round_in_passes(exact, fitted.solved.candidate.x, queries, plan.rounding)
        if rounded is not None and passed is not None and passed.rounded is not None:
            rounded = replace(rounded, gap=max(rounded.gap, passed.rounded.gap))
        passed = replace(fitted, presolved=exact, rounded=rounded)
        if rounded is None or last:
            return passed
        fixed += _bounds(exact, plan, outer.rounding[-1], rounded.counts, f"pass {number}", 0.0)
    raise ConfigurationError("unreachable")


def _fitted(
    support: Support, plan: FamilyPlan, outer: OuterPass, fixed: Sequence[FamilyBounds], before: Passed | None
) -> Passed:
    """The inner passes of least squares of one outer pass; not rounded yet."""
    bands: tuple[FamilyBounds, ...] = ()
    solved, count = (None, 0) if before is None else (before.solved, before.count)
    fitted: Passed | None = None
    for inner, names in enumerate(outer.least_squares):
        posed = _posed(support.problem, plan, outer, inner, (*fixed, *bands))
        presolved = presolve(_supported(support, posed, plan, outer, inner))
        if presolved.contradiction:
            return Passed(presolved, solved, None, count, presolved.contradiction)
        found = solve_chain(presolved, plan)
        solved, count = _worst(solved, found), count + 1
        fitted = Passed(presolved, solved, None, count, found.contradiction)
        if found.contradiction:
            return fitted
        tolerance = SLACK + found.certificate.primal_residual
        bands += _bounds(presolved, plan, names, found.candidate.x, "held", tolerance)
    if fitted is None:
        raise ConfigurationError("a pass fits nothing")
    return fitted


def _query(plan: FamilyPlan, name: str) -> Query:
    found = plan.queries.get(name)
    if found is None:
        raise ConfigurationError(f"a pass names the query {name!r}, which the plan does not hold")
    return found


def _posed(
    problem: FamilyProblem, plan: FamilyPlan, outer: OuterPass, inner: int, further: Sequence[FamilyBounds]
) -> FamilyProblem:
    """The problem of one inner pass, on the coarsest cells that serve it (E-48); the problem itself if it is that."""
    names = {_query(plan, name).name for name in outer.least_squares[inner]}
    if problem.prior is not None:
        return _posed_with_prior(problem, plan, outer, inner, further)
    measured = tuple(each for each in problem.measurements if each.query.name in names)
    missing = names - {each.query.name for each in measured}
    if missing and problem.measurements:
        raise ConfigurationError(f"a pass asks for {sorted(missing)[0]!r}, which is not measured")
    posed = replace(problem, measurements=measured, bounds=(*problem.bounds, *further))
    parent = _coarsened(problem, _told_apart(posed, plan, outer, inner))
    if parent is problem.parent and not further and len(measured) == len(problem.measurements):
        return problem
    return replace(posed, parent=parent)


def _told_apart(posed: FamilyProblem, plan: FamilyPlan, outer: OuterPass, inner: int) -> list[Query]:
    """All queries that an inner pass asks, demands or rounds."""
    needed = [*(each.query for each in posed.measurements), *(each.query for each in posed.bounds)]
    if posed.flows is not None:
        needed.append(posed.flows.query)
    if inner == len(outer.least_squares) - 1:
        needed += [_query(plan, name) for names in outer.rounding for name in names]
    return needed


def _supported(support: Support, posed: FamilyProblem, plan: FamilyPlan, outer: OuterPass, inner: int) -> Support:
    """The support of one inner pass: of a root with very many cells, the first of those that it does not tell apart."""
    if posed.parent is None and posed.prior is None and posed.size >= COARSE_ROOT:
        place = _places(support.cells, _told_apart(posed, plan, outer, inner))
        if place is not None:
            _, first = np.unique(place, return_index=True)
            return on_cells(posed, support.cells[np.sort(first)], None)
    return support if posed is support.problem else restrict(posed, plan)


def _posed_with_prior(
    problem: FamilyProblem, plan: FamilyPlan, outer: OuterPass, inner: int, further: Sequence[FamilyBounds]
) -> FamilyProblem:
    """The problem of one inner pass where more is known of the children than their own answers (E-68).

    The last inner pass sees everything that is known. An earlier one sees what all that says of its own queries, as
    if these had been measured with its mean and variance.
    """
    assert problem.prior is not None  # noqa: S101
    bounds = (*problem.bounds, *further)
    if inner == len(outer.least_squares) - 1:
        return replace(problem, bounds=bounds)
    measured = tuple(problem.prior.measurement(_query(plan, name)) for name in outer.least_squares[inner])
    needed = [*(each.query for each in measured), *(each.query for each in bounds)]
    parent = _coarsened(problem, needed)
    return replace(problem, parent=parent, measurements=measured, bounds=bounds, prior=None)


def _coarsened(problem: FamilyProblem, queries: Sequence[Query]) -> Histogram | None:
    """The parent with all people of indistinguishable cells in the first of them; a root has none."""
    parent = problem.parent
    if parent is None or not len(parent.cells):
        return parent
    place = _places(parent.cells, queries)
    if place is None:
        return parent
    _, first = np.unique(place, return_index=True)
    order = np.argsort(first)
    counts = np.bincount(place, parent.counts, minlength=len(first)).astype(np.int64)
    return Histogram(problem.size, parent.cells[first[order]], counts[order])


def _places(cells: NDArray[np.int32], queries: Sequence[Query]) -> Integers | None:
    """One number for all cells that no query tells apart; None where every cell is told apart from all others."""
    place = np.zeros(len(cells), dtype=np.int64)
    for query in dict.fromkeys(queries):
        _, place = np.unique(place * (query.rows + 1) + query.row_of(cells) + 1, return_inverse=True)
        if int(place.max(initial=-1)) + 1 == len(cells):
            return None
    return place


def _bounds(
    presolved: Presolved, plan: FamilyPlan, names: Sequence[str], x: Floats | Integers, label: str, tolerance: float
) -> tuple[FamilyBounds, ...]:
    """Bounds around what a pass reached: bands after a fit (E-49), equalities after rounding (E-50)."""
    found = []
    for name in names:
        query = _query(plan, name)
        touched = query.restrict(presolved.support.cells)
        answers = sums(x, touched.index, len(touched.rows))
        if tolerance:
            lower, upper = answers - tolerance, answers + tolerance
            found.append(FamilyBounds(f"{label} {name}", query, lower, upper, touched.rows))
        else:
            whole = np.rint(answers).astype(np.int64)
            found.append(FamilyBounds(f"{label} {name}", query, whole, whole, touched.rows))
    return tuple(found)


def _worst(before: Solved | None, now: Solved) -> Solved:
    """The latest estimate with the worst proof so far, and every attempt."""
    if before is None:
        return now
    proofs = (before.certificate, now.certificate)
    certificate = replace(
        now.certificate,
        certified=all(each.certified for each in proofs),
        primal_residual=max(each.primal_residual for each in proofs),
        violation=max(each.violation for each in proofs),
        gap=max(each.gap for each in proofs),
    )
    return replace(
        now, certificate=certificate, iterations=before.iterations + now.iterations, tried=(*before.tried, *now.tried)
    )
