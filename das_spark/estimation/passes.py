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
from das_spark.estimation.certify import Certificate
from das_spark.estimation.chain import PosedFamily, Solved, solve_chain
from das_spark.estimation.implied import without_cut
from das_spark.estimation.presolve import Presolved, presolve
from das_spark.estimation.problem import (
    SLACK,
    FamilyBounds,
    FamilyPlan,
    FamilyProblem,
    Floats,
    Integers,
    OuterPass,
    SolverAttempt,
)
from das_spark.estimation.rounding import Rounded, round_in_passes
from das_spark.estimation.support import Support, cells_alike, on_cells, open_cells, restrict, sums
from das_spark.histogram import Histogram, Query

COARSE_ROOT = 100_000
"""Cells of a schema from which a root, too, is posed on coarse cells; the last digits of smaller ones would change."""


@dataclass(frozen=True, slots=True, eq=False)
class Passed:
    """How the passes of a family ended."""

    exact: Presolved | None  # the family of the last pass with the bounds of its rounding; None where it is infeasible
    solved: Solved  # its real-valued estimate: the worst certificate of all passes, all attempts
    rounded: Rounded | None  # its whole numbers, or None where a rounding found none
    count: int  # least-squares passes made
    contradiction: str = ""  # why the family is infeasible, where it is


def estimate_in_passes(problem: FamilyProblem, plan: FamilyPlan) -> Passed:
    """Carry out the plan's outer passes."""
    parts = [part for each in plan.passes for part in (each.least_squares, each.rounding)]
    if not parts or not all(part and all(part) for part in parts):
        raise ConfigurationError("every pass needs a fit by least squares and a rounding, both of some query")
    fixed: tuple[FamilyBounds, ...] = ()
    before = _Before()
    *earlier, last = plan.passes
    for number, outer in enumerate(earlier):
        passed = _passed(problem, plan, outer, fixed, before)
        if passed.exact is None or passed.rounded is None:
            return passed
        cells, counts = passed.exact.support.cells, passed.rounded.counts
        fixed += _bounds(cells, plan, outer.rounding[-1], counts, f"pass {number}", 0.0)
        before = _Before.of(passed.solved, passed.count, passed.rounded.gap)
        del passed, counts  # arrays of a large family are not kept for two passes
    passed = _passed(problem, plan, last, fixed, before)
    if passed.exact is not None and len(passed.exact.support.cells) != len(open_cells(problem, plan)):
        raise ConfigurationError("the last rounding leaves cells open: it must end with the query of every cell")
    return passed


@dataclass(frozen=True, slots=True)
class _Before:
    """What is said of all passes so far."""

    certificate: Certificate | None = None  # the worst; None where none has been made
    iterations: int = 0
    tried: tuple[SolverAttempt, ...] = ()
    count: int = 0  # least-squares passes
    gap: float = 0.0  # of the worst rounding

    @classmethod
    def of(cls, solved: Solved, count: int, gap: float) -> _Before:
        """Nothing else of an estimate is kept."""
        return cls(solved.certificate, solved.iterations, solved.tried, count, gap)

    def and_now(self, now: Solved) -> Solved:
        """The latest estimate with the worst proof so far, and every attempt."""
        if self.certificate is None:
            return now
        proofs = (self.certificate, now.certificate)
        certificate = replace(
            now.certificate,
            certified=all(proof.certified for proof in proofs),
            primal_residual=max(proof.primal_residual for proof in proofs),
            violation=max(proof.violation for proof in proofs),
            gap=max(proof.gap for proof in proofs),
        )
        tried, iterations = (*self.tried, *now.tried), self.iterations + now.iterations
        return replace(now, certificate=certificate, iterations=iterations, tried=tried)


def _passed(
    problem: FamilyProblem, plan: FamilyPlan, outer: OuterPass, fixed: tuple[FamilyBounds, ...], before: _Before
) -> Passed:
    """One outer pass: the inner passes of least squares, and the rounding."""
    bands: tuple[FamilyBounds, ...] = ()
    solved, posed = None, None
    for inner, names in enumerate(outer.least_squares):
        support = _supported(problem, plan, outer, inner, (*fixed, *bands))
        posed = PosedFamily(support, plan.gap_tolerance)
        found = solve_chain(posed, plan)
        solved = before.and_now(found)
        before = _Before.of(solved, before.count + 1, before.gap)
        if found.contradiction:
            return Passed(None, solved, None, before.count, found.contradiction)
        tolerance = SLACK + found.certificate.primal_residual
        if inner < len(outer.least_squares) - 1:
            bands += _bounds(support.cells, plan, names, found.candidate.x, "held", tolerance)
    if solved is None or posed is None:
        raise ConfigurationError("a pass fits nothing")
    solved = replace(solved, candidate=replace(solved.candidate, bound_multipliers=()))  # they have proved it
    light = _for_rounding(posed, (*problem.bounds, *fixed), bands)
    del posed, support, found  # answers of a large family are not kept beside the arrays of its rounding
    exact = presolve(light) if isinstance(light, Support) else light
    queries = [[_query(plan, name) for name in names] for names in outer.rounding]
    rounded = round_in_passes(exact, solved.candidate.x, queries, plan.rounding)
    if rounded is not None:
        rounded = replace(rounded, gap=max(rounded.gap, before.gap))
    return Passed(exact, solved, rounded, before.count)


def _for_rounding(
    posed: PosedFamily, bounds: tuple[FamilyBounds, ...], bands: tuple[FamilyBounds, ...]
) -> Support | Presolved:
    """The family without what only fits need: the bands of the inner passes, and answers, if no solver folded them."""
    support = posed.support
    if bands:
        unmeasured = replace(support.problem, measurements=(), bounds=bounds)
        return on_cells(unmeasured, support.cells, support.parent)
    if posed.is_presolved:
        return posed.presolved
    return replace(support, partitions=tuple(partition for partition in support.partitions if partition.limits))


def _query(plan: FamilyPlan, name: str) -> Query:
    found = plan.queries.get(name)
    if found is None:
        raise ConfigurationError(f"a pass names the query {name!r}, which the plan does not hold")
    return found


def _supported(
    problem: FamilyProblem, plan: FamilyPlan, outer: OuterPass, inner: int, further: Sequence[FamilyBounds]
) -> Support:
    """The problem of one inner pass, on the coarsest cells that serve it (E-48); the whole problem if it is that."""
    names = {_query(plan, name).name for name in outer.least_squares[inner]}
    if problem.prior is not None:
        return restrict(_posed_with_prior(problem, plan, outer, inner, further), plan)
    measured = tuple(
        without_cut(measurement, problem.bounds)
        for measurement in problem.measurements
        if measurement.query.name in names
    )
    missing = names - {each.query.name for each in measured}
    if missing and problem.measurements:
        raise ConfigurationError(f"a pass asks for {sorted(missing)[0]!r}, which is not measured")
    posed = replace(problem, measurements=measured, bounds=(*problem.bounds, *further))
    apart = _told_apart(posed, plan, outer, inner)
    if problem.parent is None and posed.size >= COARSE_ROOT:
        cells = open_cells(problem, plan)
        place = _places(cells, apart)
        if place is not None:  # a root with very many cells: the first of those that nothing tells apart
            _, first = np.unique(place, return_index=True)
            return on_cells(posed, cells[np.sort(first)], None)
    return restrict(replace(posed, parent=_coarsened(problem, apart)), plan)


def _told_apart(posed: FamilyProblem, plan: FamilyPlan, outer: OuterPass, inner: int) -> list[Query]:
    """All queries that an inner pass asks, demands or rounds."""
    needed = [*(measurement.query for measurement in posed.measurements), *(bound.query for bound in posed.bounds)]
    if posed.flows is not None:
        needed.append(posed.flows.query)
    if inner == len(outer.least_squares) - 1:
        needed += [_query(plan, name) for names in outer.rounding for name in names]
    return needed


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
    needed = [*(each.query for each in measured), *(bound.query for bound in bounds)]
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
    place = cells_alike(cells, queries)
    return None if int(place.max(initial=-1)) + 1 == len(cells) else place


def _bounds(
    cells: NDArray[np.int32], plan: FamilyPlan, names: Sequence[str], x: Floats | Integers, label: str, tolerance: float
) -> tuple[FamilyBounds, ...]:
    """Bounds around what a pass reached: bands after a fit (E-49), equalities after rounding (E-50)."""
    found = []
    for name in names:
        query = _query(plan, name)
        touched = query.restrict(cells)
        answers = sums(x, touched.index, len(touched.rows))
        if tolerance:
            lower, upper = answers - tolerance, answers + tolerance
            found.append(FamilyBounds(f"{label} {name}", query, lower, upper, touched.rows))
        else:
            whole = np.rint(answers).astype(np.int64)
            found.append(FamilyBounds(f"{label} {name}", query, whole, whole, touched.rows))
    return tuple(found)
