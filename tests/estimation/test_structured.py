"""The structured solver against interior points and against a dense program, on families that are known from below."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from measured_trees import ALGEBRA, SCHEMA, TOTAL, WORKLOAD, ZEROS, grown, prior_of

from das_spark.estimation import FamilyBounds, FamilyPlan, FamilyPrior, FamilyStatus, OuterPass, estimate_family
from das_spark.estimation.certify import certify
from das_spark.estimation.chain import PosedFamily, solve_chain
from das_spark.estimation.interior import solve_interior
from das_spark.estimation.structured import solve_structured, structured_family
from das_spark.estimation.support import restrict
from das_spark.histogram import Histogram

PLAN = FamilyPlan("Level", zero_cells=ZEROS, solvers=("structured",), workload=tuple(WORKLOAD))
CLASSES = SCHEMA.query("kind")


def family(seed, *, total=False, tight=False, parent=True, exact=""):
    """A family of two children and more, with its truth."""
    for number in range(seed * 100, seed * 100 + 100):
        tree = grown(number, exact=exact)
        if len(tree.children["0"]) > 1 and (exact != "parts" or tree.groups):
            break
    problem, _, prior = prior_of(tree)
    truth = np.array([tree.truth[code] for code in problem.children])
    margins = np.array([CLASSES.answer_dense(row) for row in truth])
    live = np.array([tree.kinds[code] for code in problem.children])
    lower, upper = (np.maximum(margins - 1, 0), margins + 1) if tight else (np.zeros_like(margins), margins + 999)
    bounds = [FamilyBounds("class", CLASSES, lower, upper * live)]
    if total:
        people = truth.sum(axis=1, keepdims=True)
        bounds.append(FamilyBounds("total", TOTAL, people, people))
    whole = Histogram.from_dense(truth.sum(axis=0)) if parent else None
    return replace(problem, parent=whole, bounds=tuple(bounds), prior=prior), truth


def solved(problem, *solvers):
    return solve_chain(PosedFamily(restrict(problem, PLAN)), replace(PLAN, solvers=solvers))


@pytest.mark.parametrize("options", [{}, {"total": True}, {"tight": True}, {"total": True, "tight": True}], ids=str)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", ["structured", "interior"])
def test_it_finds_the_optimum_of_a_librarys_interior_point(name, seed, options):
    problem, _ = family(seed, **options)
    found, other = (solved(problem, each) for each in (name, "clarabel"))
    assert found.name == name
    assert found.certificate.certified
    assert other.certificate.certified
    np.testing.assert_allclose(found.certificate.objective, other.certificate.objective, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(found.candidate.x, other.candidate.x, atol=0.02)


@pytest.mark.parametrize("seed", range(4))
def test_the_objective_is_the_distance_to_answers_and_to_what_lies_below(seed):
    problem, truth = family(seed)
    support = restrict(problem, PLAN)
    x = truth[:, support.cells].astype(float)
    found = certify(problem, PLAN, support.cells, replace(solved(problem, "clarabel").candidate, x=x))
    expected = problem.prior.value_and_gradient(support.cells, x)[0]
    for measurement in problem.measurements:
        rows = np.unique(measurement.query.row_of(support.cells))
        away = np.array([measurement.query.answer_dense(row) for row in truth]) - measurement.values
        expected += ((away**2)[:, rows[rows >= 0]] / measurement.variance[:, None]).sum()
    np.testing.assert_allclose(found.objective, expected, rtol=1e-9)


def test_a_family_of_the_top_is_solved_without_a_parent():
    problem, _ = family(2, parent=False)
    child = problem.children[0]
    alone = replace(
        problem,
        children=(child,),
        measurements=tuple(
            replace(measurement, values=measurement.values[:1], variance=measurement.variance[:1])
            for measurement in problem.measurements
        ),
        bounds=tuple(replace(bound, lower=bound.lower[:1], upper=bound.upper[:1]) for bound in problem.bounds),
        prior=problem.prior.of_members(np.array([0])),
    )
    found, other = (solved(alone, name) for name in ("structured", "clarabel"))
    assert found.certificate.certified
    np.testing.assert_allclose(found.candidate.x, other.candidate.x, atol=0.02)


def test_what_the_solver_is_told_wrongly_is_never_certified():
    """Its arrays say that children are known twice as well from below; the certificate knows the tables."""
    for seed in range(4):
        problem, _ = family(seed)
        prior = problem.prior
        told = [replace(each, blocks=tuple(2 * block for block in each.blocks)) for each in prior.information]
        wrong = FamilyPrior(prior.algebra, prior.below, told, prior.means)
        for name in ("structured", "interior"):
            found = solved(replace(problem, prior=wrong), name)
            assert not found.certificate.certified
            assert found.certificate.gap > 1e-4


def test_a_child_with_hardly_anybody_is_no_obstacle():
    """A bounded sum near zero, where all cells of the child are zero at first: prices of cells are far above it."""
    for seed in range(4):
        problem, truth = family(seed)
        people = truth.sum(axis=1, keepdims=True).astype(float)
        people[0], people[1] = 1.89, people[1] + people[0] - 1.89
        bound = FamilyBounds("held total", TOTAL, people - 0.01, people + 0.01)
        found, other = (
            solved(replace(problem, bounds=(*problem.bounds, bound)), each) for each in ("structured", "clarabel")
        )
        assert found.certificate.certified
        np.testing.assert_allclose(found.certificate.objective, other.certificate.objective, rtol=1e-5, atol=1e-5)


def test_other_constraints_are_left_to_other_solvers():
    problem, truth = family(1)
    query = SCHEMA.query("race")
    margins = np.array([query.answer_dense(row) for row in truth])
    crossing = replace(problem, bounds=(*problem.bounds, FamilyBounds("added:race", query, margins - 1, margins + 1)))
    assert structured_family(restrict(crossing, PLAN)) is None
    for solve in (solve_structured, solve_interior):
        assert solve(restrict(replace(problem, prior=None), PLAN), lambda _: None) is None
    assert structured_family(restrict(replace(problem, bounds=()), PLAN)) is None, "people where nothing is known"
    result = estimate_family(crossing, replace(PLAN, solvers=("structured", "piqp")))
    assert result.diagnostics.status is FamilyStatus.OPTIMAL
    assert result.diagnostics.solver == "piqp"


PASSES = (OuterPass((("total",), ("total", "kind", "detailed")), (("total",), ("kind", "detailed"))),)


@pytest.mark.parametrize("exact", ["", "states", "parts"])
@pytest.mark.parametrize("seed", range(3))
def test_families_are_rounded_and_keep_their_groups_and_totals(seed, exact):
    problem, truth = family(seed, exact=exact, total=exact == "states")
    queries = {name: SCHEMA.query(name) for name in ("total", "kind", "detailed")}
    plan = replace(PLAN, passes=PASSES, queries=queries, solvers=("structured", "piqp", "clarabel"))
    result = estimate_family(problem, plan)
    assert result.diagnostics.status is FamilyStatus.OPTIMAL, result.diagnostics
    counts = np.zeros(truth.shape, dtype=np.int64)
    counts[:, result.cells] = result.counts
    np.testing.assert_array_equal(counts.sum(axis=0), truth.sum(axis=0))
    if exact == "states":
        np.testing.assert_array_equal(counts.sum(axis=1), truth.sum(axis=1))
    if exact == "parts":
        assert counts[:2].sum() == truth[:2].sum()
        assert result.diagnostics.solver


def test_with_nothing_below_a_family_is_estimated_from_its_own_answers():
    problem, _ = family(0)
    own = FamilyPrior.of(problem, [None] * len(problem.children), ALGEBRA)
    found = solved(replace(problem, prior=own), "structured")
    plain = solved(replace(problem, prior=None), "clarabel")
    assert found.certificate.certified
    np.testing.assert_allclose(found.candidate.x, plain.candidate.x, atol=0.02)
