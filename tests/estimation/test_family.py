"""The estimator against independent computations: a general solver, closed forms, worked numbers."""

from __future__ import annotations

from dataclasses import replace

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.errors import ConfigurationError, EstimationError
from das_spark.estimation import (
    FamilyBounds,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    FamilyStatus,
    OuterPass,
    estimate_family,
)
from das_spark.estimation.chain import PosedFamily, solve_chain
from das_spark.estimation.check import broken_rules
from das_spark.estimation.presolve import presolve
from das_spark.estimation.support import restrict
from das_spark.histogram import Attribute, Histogram, Recode, Schema


def real_valued(problem, plan):
    """The certified real-valued estimate on all cells (K, size), and its certificate."""
    presolved = presolve(restrict(problem, plan))
    assert not presolved.contradiction
    solved = solve_chain(PosedFamily.of(presolved), plan)
    dense = np.zeros((len(problem.children), problem.size))
    dense[:, presolved.support.cells] = solved.candidate.x
    return dense, solved.certificate


def dense_matrix(query):
    rows = query.row_of(np.arange(query.size))
    matrix = np.zeros((query.rows, query.size))
    matrix[rows[rows >= 0], np.flatnonzero(rows >= 0)] = 1
    return matrix


def objective(problem, x):
    """Weighted squared distance over the rows that are present and that the support touches."""
    total = 0.0
    for measurement in problem.measurements:
        answers = x @ dense_matrix(measurement.query).T
        touched = np.isin(
            measurement.rows,
            measurement.query.row_of(np.arange(problem.size) if problem.parent is None else problem.parent.cells),
        )
        part = (answers[:, measurement.rows] - measurement.values)[:, touched]
        total += float((part**2 / measurement.variance[:, None]).sum())
    return total


def child_terms(problem, child, width):
    """Hessian, gradient at 0, equalities and inequalities of one child, in dense matrices over all unknowns."""
    own = slice(child * problem.size, (child + 1) * problem.size)
    hessian, linear = np.zeros((width, width)), np.zeros(width)
    for measurement in problem.measurements:
        matrix = dense_matrix(measurement.query)[measurement.rows]
        hessian[own, own] += 2 * matrix.T @ matrix / measurement.variance[child]
        linear[own] -= 2 * matrix.T @ measurement.values[child] / measurement.variance[child]
    equal, less = [], []
    for bound in problem.bounds:
        for row, low, high in zip(dense_matrix(bound.query), bound.lower[child], bound.upper[child], strict=True):
            full = np.zeros(width)
            full[own] = row
            if low == high:
                equal.append((full, low))
            else:
                less += [(full, high), (-full, -low)]
    return hessian, linear, equal, less


def flow_terms(problem, width):
    """Equalities and inequalities of the flows, which come after all cells."""
    flows, first = problem.flows, len(problem.children) * problem.size
    if flows is None:
        return [], []
    place = first + np.arange(flows.lower.size).reshape(flows.lower.shape)
    equal = []
    for member, total in enumerate(flows.total):
        equal.append((np.isin(np.arange(width), place[member]).astype(float), total))
    for child in range(len(problem.children)):
        for kind, row in enumerate(dense_matrix(flows.query)):
            full = np.zeros(width)
            full[child * problem.size : (child + 1) * problem.size] = row
            full[place[flows.child == child, kind]] = -1
            equal.append((full, 0))
    own = np.eye(width)[first:]
    less = [*zip(own, flows.upper.ravel(), strict=True), *zip(-own, -flows.lower.ravel(), strict=True)]
    return equal, less


def dense_oracle(problem):
    """Solve the family with dense matrices and no presolve, by a general conic solver: optimum (K, size)."""
    children, size = len(problem.children), problem.size
    cells = children * size
    width = cells + (0 if problem.flows is None else problem.flows.lower.size)
    equal, less = flow_terms(problem, width)
    hessian, linear = np.zeros((width, width)), np.zeros(width)
    for child in range(children):
        terms = child_terms(problem, child, width)
        hessian, linear, equal, less = hessian + terms[0], linear + terms[1], equal + terms[2], less + terms[3]
    if problem.parent is not None:
        for cell, count in enumerate(problem.parent.dense()):
            full = np.zeros(width)
            full[cell:cells:size] = 1
            equal.append((full, count))
    less += [(row, 0.0) for row in -np.eye(width)[:cells]]
    options = clarabel.DefaultSettings()
    options.verbose = False
    cones = [clarabel.ZeroConeT(len(equal)), clarabel.NonnegativeConeT(len(less))]
    matrix = sp.csc_matrix(np.array([row for row, _ in equal + less]))
    right = np.array([side for _, side in equal + less], dtype=float)
    found = clarabel.DefaultSolver(sp.csc_matrix(np.triu(hessian)), linear, matrix, right, cones, options).solve()
    assert "Solved" in str(found.status)
    return np.array(found.x)[:cells].reshape(children, size)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"totals": True},
        {"bounded": False},
        {"root": True},
        {"root": True, "flows": True, "totals": True, "children": 4},
        {"flows": True},
        {"queries": ("kind", "age * race")},
        {"queries": ("detailed",)},
        {"queries": ("detailed", "total", "kind", "kind * age", "race")},
    ],
    ids=str,
)
def test_real_valued_estimate_has_the_objective_of_a_dense_general_solver(small, seed, options):
    made = small(seed, **options)
    estimate, certificate = real_valued(made.problem, made.plan)
    expected = dense_oracle(made.problem)
    assert certificate.certified, certificate
    best = objective(made.problem, np.maximum(expected, 0))
    assert objective(made.problem, estimate) == pytest.approx(best, rel=1e-5, abs=1e-5)
    if "detailed" in options.get("queries", ("detailed",)):  # strictly convex: one optimum
        np.testing.assert_allclose(estimate, expected, atol=2e-3)


@pytest.mark.parametrize("seed", range(5))
def test_interior_estimate_is_generalised_least_squares(toy, seed):
    generator = np.random.default_rng(seed)
    truth = generator.integers(10_000, 20_000, (3, toy.size))
    parent = Histogram.from_dense(truth.sum(axis=0))
    measured = []
    for text in ("detailed", "kind", "age * race"):
        query = toy.query(text)
        variance = generator.uniform(1.0, 9.0, 3)
        values = query.answer_dense(truth) + generator.integers(-3, 4, (3, query.rows))
        measured.append(FamilyMeasurement(query, np.arange(query.rows), values, variance))
    problem = FamilyProblem("1", parent, ("1a", "1b", "1c"), toy.size, tuple(measured))
    estimate, certificate = real_valued(problem, FamilyPlan("toy"))
    gram = np.zeros((3 * toy.size, 3 * toy.size))
    right = np.zeros(3 * toy.size)
    for each in measured:
        matrix = dense_matrix(each.query)
        for child in range(3):
            own = slice(child * toy.size, (child + 1) * toy.size)
            gram[own, own] += matrix.T @ matrix / each.variance[child]
            right[own] += matrix.T @ each.values[child] / each.variance[child]
    sums = np.tile(np.eye(toy.size), 3)
    system = np.block([[gram, sums.T], [sums, np.zeros((toy.size, toy.size))]])
    expected = np.linalg.solve(system, np.concatenate([right, parent.dense()]))[: 3 * toy.size].reshape(3, -1)
    assert certificate.certified
    np.testing.assert_allclose(estimate, expected, atol=1e-6)


def worked_example():
    """Two children, two cells; noisy totals in fifths so that they are whole numbers (the estimate scales)."""
    schema = Schema("two", (Attribute("cell", ("x", "y")),))
    detailed = FamilyMeasurement(
        schema.query("detailed"), np.arange(2), np.array([[24, -6], [30, 20]]), np.array([100.0, 100.0])
    )
    total = FamilyMeasurement(schema.query("total"), np.arange(1), np.array([[35], [40]]), np.array([50.0, 50.0]))
    parent = Histogram.from_dense(np.array([50, 30]))
    return FamilyProblem("1", parent, ("1a", "1b"), 2, (detailed, total))


def test_worked_example_of_two_children_and_two_cells():
    estimate, certificate = real_valued(worked_example(), FamilyPlan("toy"))
    np.testing.assert_allclose(estimate / 10, [[2.74, 0.74], [2.26, 2.26]], atol=1e-7)
    assert certificate.objective == pytest.approx(3.068)
    assert certificate.certified


@given(seed=st.integers(0, 10**6), children=st.integers(1, 5), totals=st.booleans())
@settings(max_examples=60, deadline=None)
def test_estimates_are_whole_consistent_and_within_bounds(small, seed, children, totals):
    made = small(seed, children, totals=totals)
    result = estimate_family(made.problem, made.plan)
    assert result.diagnostics.status.is_usable, result.diagnostics
    dense = np.zeros((children, made.problem.size), dtype=np.int64)
    dense[:, result.cells] = result.counts
    assert (dense >= 0).all()
    np.testing.assert_array_equal(dense.sum(axis=0), made.problem.parent.dense())
    for bound in made.problem.bounds:
        answers = bound.query.answer_dense(dense)
        assert (answers >= bound.lower).all()
        assert (answers <= bound.upper).all()


@pytest.mark.parametrize("seed", range(8))
def test_order_of_measurements_and_bounds_does_not_matter(small, seed):
    made = small(seed, totals=True)
    shuffled = replace(made.problem, measurements=made.problem.measurements[::-1], bounds=made.problem.bounds[::-1])
    one, other = estimate_family(made.problem, made.plan), estimate_family(shuffled, made.plan)
    np.testing.assert_array_equal(one.counts, other.counts)
    assert one.diagnostics.gap == other.diagnostics.gap


@pytest.mark.parametrize("seed", range(6))
def test_names_of_children_do_not_matter_but_for_ties(small, seed):
    made = small(seed)
    estimate, _ = real_valued(made.problem, made.plan)
    order = [2, 0, 1]
    moved = replace(
        made.problem,
        measurements=tuple(
            replace(measurement, values=measurement.values[order], variance=measurement.variance[order])
            for measurement in made.problem.measurements
        ),
        bounds=tuple(
            replace(bound, lower=bound.lower[order], upper=bound.upper[order]) for bound in made.problem.bounds
        ),
    )
    permuted, _ = real_valued(moved, made.plan)
    np.testing.assert_allclose(permuted, estimate[order], atol=1e-5)


@pytest.mark.parametrize("seed", range(8))
def test_rows_beyond_the_support_change_nothing(small, all_rows, seed):
    made = small(seed)
    full = all_rows(made)
    one, other = estimate_family(made.problem, made.plan), estimate_family(full.problem, full.plan)
    np.testing.assert_array_equal(one.counts, other.counts)
    assert one.diagnostics == other.diagnostics


SOME = Schema("some", (Attribute("k", ("a", "b", "c"), (Recode("some", (("first", (0,)),)),)),))
PASSES = {
    "no passes": (),
    "flat": (OuterPass((("some", "detailed"),), (("detailed",),)),),
    "totals first": (OuterPass((("total", "some"), ("detailed",)), (("total",), ("some", "detailed"))),),
    "twice": (OuterPass((("some",),), (("some",),)), OuterPass((("total", "detailed"),), (("detailed",),))),
}


@pytest.mark.parametrize("passes", list(PASSES))
@pytest.mark.parametrize("bounded", ["", "some rows", "no rows"])
@pytest.mark.parametrize("solver", ["all", "batched", "nested", "piqp", "structured"])
def test_a_query_that_no_cell_of_the_parent_touches_is_a_constant(passes, bounded, solver):
    """Its answers may be there or not; so may bounds on them."""
    some, detailed, total = (SOME.query(name) for name in ("some", "detailed", "total"))
    none, nothing = np.zeros(0, dtype=np.int64), np.zeros((2, 0), dtype=np.int64)
    known = (
        FamilyMeasurement(detailed, np.array([1, 2]), np.array([[1, 2], [2, 2]]), np.ones(2)),
        FamilyMeasurement(total, np.array([0]), np.array([[4], [3]]), np.ones(2)),
    )
    bounds = {
        "": (),
        "some rows": (FamilyBounds("b", some, np.zeros((2, 1), dtype=np.int64), np.full((2, 1), 9)),),
        "no rows": (FamilyBounds("b", some, nothing, nothing, none),),
    }[bounded]
    plan = FamilyPlan("x", passes=PASSES[passes], queries={each.name: each for each in (some, detailed, total)})
    plan = plan if solver == "all" else replace(plan, solvers=(solver,))
    parent, ends = Histogram.from_dense(np.array([0, 3, 4])), []
    for rows, values in ((none, nothing), (np.array([0]), np.array([[5], [-7]]))):
        measurements = (*known, FamilyMeasurement(some, rows, values, np.ones(2)))
        ends.append(estimate_family(FamilyProblem("9", parent, ("90", "91"), 3, measurements, bounds), plan))
    assert ends[0].diagnostics == ends[1].diagnostics
    np.testing.assert_array_equal(ends[0].counts, ends[1].counts)
    if solver in {"all", "piqp"}:
        assert ends[0].diagnostics.status is FamilyStatus.OPTIMAL


def test_same_family_gives_same_bits(small):
    made = small(3, totals=True)
    first, _ = real_valued(made.problem, made.plan)
    second, _ = real_valued(made.problem, made.plan)
    assert first.tobytes() == second.tobytes()


def test_only_child_is_its_parent(small):
    made = small(5, 1)
    result = estimate_family(made.problem, made.plan)
    assert result.diagnostics.status is FamilyStatus.ONLY_CHILD
    np.testing.assert_array_equal(result.counts[0], made.problem.parent.counts)


def test_only_child_whose_bounds_refuse_its_parent_is_infeasible(small):
    made = small(5, 1)
    low = made.problem.bounds[0].lower + 1000
    bounds = (replace(made.problem.bounds[0], lower=low, upper=low + 1),)
    result = estimate_family(replace(made.problem, bounds=bounds), made.plan)
    assert result.diagnostics.status is FamilyStatus.INFEASIBLE
    assert "class" in result.diagnostics.message


def test_empty_parent_has_empty_children(toy):
    problem = FamilyProblem("1", Histogram.from_dense(np.zeros(toy.size, dtype=int)), ("1a", "1b"), toy.size, ())
    result = estimate_family(problem, FamilyPlan("toy"))
    assert result.diagnostics.status is FamilyStatus.EMPTY_PARENT
    assert result.counts.shape == (2, 0)


def test_empty_parent_with_a_demand_is_infeasible(toy):
    least = np.array([[1, 0, 0], [0, 0, 0]])
    bounds = (FamilyBounds("class", toy.query("kind"), least, least + 5),)
    parent = Histogram.from_dense(np.zeros(toy.size, dtype=int))
    result = estimate_family(FamilyProblem("1", parent, ("1a", "1b"), toy.size, (), bounds), FamilyPlan("toy"))
    assert result.diagnostics.status is FamilyStatus.INFEASIBLE


def test_children_without_a_facility_have_nobody_in_it(small):
    for seed in range(20):
        made = small(seed, 4)
        result = estimate_family(made.problem, made.plan)
        dense = np.zeros((4, made.problem.size), dtype=np.int64)
        dense[:, result.cells] = result.counts
        assert not dense.reshape(4, 3, 4).sum(axis=2)[made.problem.bounds[0].upper == 0].any()


def test_bounds_that_leave_one_choice_are_met(small):
    made = small(11)
    margin = made.problem.bounds[0].query.answer_dense(made.truth)
    bounds = (replace(made.problem.bounds[0], lower=margin, upper=margin),)
    result = estimate_family(replace(made.problem, bounds=bounds), made.plan)
    assert result.diagnostics.status is FamilyStatus.OPTIMAL
    assert broken_rules(replace(made.problem, bounds=bounds), made.plan, result.cells, result.counts) == ()


def test_more_precise_child_keeps_closer_to_its_answer(toy):
    parent = Histogram.from_pairs(toy.size, [0], [100])
    query = toy.query("detailed")
    values = np.full((2, 1), 80)
    measured = FamilyMeasurement(query, np.array([0]), values, np.array([1.0, 9.0]))
    problem = FamilyProblem("1", parent, ("1a", "1b"), toy.size, (measured,))
    estimate, _ = real_valued(problem, FamilyPlan("toy"))
    np.testing.assert_allclose(estimate[:, 0], [80 - 60 * 0.1, 80 - 60 * 0.9], atol=1e-6)


def test_structural_zeros_stay_empty_at_the_root(small):
    made = small(2, root=True)
    plan = replace(made.plan, zero_cells=np.array([1, 6], dtype=np.int32))
    measured = tuple(replace(measurement) for measurement in made.problem.measurements)
    result = estimate_family(replace(made.problem, measurements=measured, bounds=()), plan)
    assert result.diagnostics.status is FamilyStatus.OPTIMAL
    assert not np.isin([1, 6], result.cells).any()


def test_parent_with_people_in_a_structural_zero_is_infeasible(small):
    made = small(2)
    plan = replace(made.plan, zero_cells=made.problem.parent.cells[:1])
    result = estimate_family(made.problem, plan)
    assert result.diagnostics.status is FamilyStatus.INFEASIBLE
    assert "structural zero" in result.diagnostics.message


def test_an_unmeasured_family_is_divided_within_its_bounds(small):
    made = small(4, queries=())
    result = estimate_family(made.problem, made.plan)
    assert result.diagnostics.status is FamilyStatus.OPTIMAL
    assert broken_rules(made.problem, made.plan, result.cells, result.counts) == ()


def test_missing_answers_are_refused(small):
    made = small(1)
    first = made.problem.measurements[0]
    short = replace(first, rows=first.rows[:-1], values=first.values[:, :-1])
    with pytest.raises(EstimationError, match="lacks answers"):
        estimate_family(replace(made.problem, measurements=(short,)), made.plan)


def test_unknown_solver_is_refused(small):
    made = small(1)
    with pytest.raises(ConfigurationError, match="piqp"):
        estimate_family(made.problem, replace(made.plan, solvers=("gurobi",)))


def test_a_solver_that_cannot_take_quadratic_programs_is_refused(small):
    made = small(1)
    with pytest.raises(ConfigurationError, match="quadratic"):
        estimate_family(made.problem, replace(made.plan, solvers=("highs",)))


def test_the_next_solver_is_tried_when_a_solution_is_not_certified(small):
    made = small(1)
    plan = replace(made.plan, solvers=("osqp", "piqp", "clarabel"), gap_tolerance=1e-30)
    result = estimate_family(made.problem, plan)
    assert result.diagnostics.status is FamilyStatus.UNCERTIFIED
    assert [attempt.solver for attempt in result.diagnostics.tried] == ["osqp", "piqp", "clarabel"]
    assert result.diagnostics.attempts == 3
    assert broken_rules(made.problem, plan, result.cells, result.counts) == ()


def test_what_no_solver_proves_is_taken_with_its_gap_only_where_the_plan_says_so(small):
    made = small(2)
    hard = replace(made.plan, gap_tolerance=1e-300)
    refused = estimate_family(made.problem, hard)
    accepted = estimate_family(made.problem, replace(hard, accept_uncertified=True))
    assert refused.diagnostics.status is FamilyStatus.UNCERTIFIED
    assert not refused.diagnostics.status.is_usable
    assert accepted.diagnostics.status is FamilyStatus.ACCEPTED
    assert accepted.diagnostics.status.is_usable
    assert accepted.diagnostics.gap == refused.diagnostics.gap != 0
    assert [each.solver for each in accepted.diagnostics.tried] == ["piqp", "clarabel", "osqp", "batched"]
    np.testing.assert_array_equal(accepted.counts, refused.counts)
    assert broken_rules(made.problem, made.plan, accepted.cells, accepted.counts) == ()
    proved = estimate_family(made.problem, replace(made.plan, accept_uncertified=True))
    assert proved.diagnostics == estimate_family(made.problem, made.plan).diagnostics


@pytest.mark.parametrize("solver", ["piqp", "clarabel", "osqp"])
def test_every_quadratic_solver_is_certified_on_small_families(small, solver):
    for seed in range(10):
        made = small(seed, totals=seed % 2 == 0)
        result = estimate_family(made.problem, replace(made.plan, solvers=(solver,)))
        assert result.diagnostics.status in {FamilyStatus.OPTIMAL, FamilyStatus.ONLY_CHILD}, result.diagnostics
