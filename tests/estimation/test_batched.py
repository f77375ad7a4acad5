"""The batched solver piece by piece against dense algebra, and where it does not serve."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from das_spark.estimation import (
    FamilyBounds,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    batched,
    chain,
    estimate_family,
)
from das_spark.estimation.batched import (
    TIGHTNESS,
    Grouping,
    batched_family,
    begin,
    inverse,
    iterate,
    set_penalty,
    stack,
)
from das_spark.estimation.certify import certify
from das_spark.estimation.chain import PosedFamily
from das_spark.estimation.failsafe import relaxed_family
from das_spark.estimation.presolve import presolve
from das_spark.estimation.solvers import Status
from das_spark.estimation.support import restrict
from das_spark.histogram import Attribute, Histogram, Schema


def laid_out(problem, plan=None):
    return batched_family(restrict(problem, plan or FamilyPlan("any")))


def dense_hessian(family, child):
    """Half the Hessian of a child, over the unit that weights are divided by."""
    cells = family.support.cells
    total = np.zeros((len(cells), len(cells)))
    for measurement in family.support.problem.measurements:
        rows = measurement.query.row_of(cells)
        total += (rows[:, None] == rows[None, :]) * (rows >= 0) / measurement.variance[child] / family.unit
    return total


def limited_rows(family):
    """Rows of the limited answers over cells."""
    return np.concatenate(
        [np.zeros((0, len(family.support.cells)))]
        + [
            (partition.index[None, :] == np.arange(partition.rows)[:, None]).astype(float)
            for partition in family.limits.partitions
        ]
    )


def served(wild, count, **wanted):
    """Families that the solver serves, with bounds that can bind if so wanted."""
    found = []
    for seed in range(1000):
        family = laid_out(wild(seed).problem)
        if family is not None and (not wanted.get("limited") or len(family.limits.answer)):
            found.append((seed, family))
        if len(found) == count:
            return found
    raise AssertionError


def test_the_hessian_and_the_linear_term_are_those_of_the_tables(wild):
    for seed, family in served(wild, 40):
        generator = np.random.default_rng(seed)
        x = generator.normal(size=family.live.shape)
        found = family.hessian(x)
        for child in range(x.shape[1]):
            np.testing.assert_allclose(found[:, child], dense_hessian(family, child) @ x[:, child], rtol=1e-9)
        zero = np.zeros(family.live.shape)
        expected = np.zeros(family.live.shape)
        for measurement in family.support.problem.measurements:
            rows = measurement.query.row_of(family.support.cells)
            place = np.searchsorted(measurement.rows, rows)
            for cell in np.flatnonzero(rows >= 0):
                expected[cell] += measurement.values[:, place[cell]] / measurement.variance / family.unit
        np.testing.assert_allclose(family.linear, expected, rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(family.hessian(zero), zero)


def test_bounded_answers_are_penalised_by_the_curvature_of_the_objective_along_them(wild):
    for seed, family in served(wild, 30, limited=True):
        state = begin(family, 4.0)
        kinds = np.bincount(family.kind)
        child = int(np.argmax(family.kind == np.argmax(kinds)))
        inverse = np.linalg.inv(dense_hessian(family, child) + 4.0 * np.eye(len(family.support.cells)))
        spread = np.einsum("ij,jk,ik->i", limited_rows(family), inverse, limited_rows(family))
        np.testing.assert_allclose(state.penalty, TIGHTNESS / spread, rtol=1e-6, err_msg=str(seed))


@pytest.mark.slow
def test_an_iteration_solves_the_penalised_problem_of_every_child(wild):
    """The point before its division minimises objective + penalties: against a dense solve, for every kind of child."""
    for seed, family in served(wild, 30, limited=True):
        state = begin(family, 2.0)
        for _ in range(3):
            iterate(state)
        set_penalty(state, 5.0)
        rows, split, dual = limited_rows(family), state.split.copy(), state.dual.copy()
        pulls = state.penalty[:, None] * (state.point - state.point_dual)
        point, point_dual = state.point.copy(), state.point_dual.copy()
        primal, _ = iterate(state)
        worst = 0.0
        for child in range(split.shape[1]):
            operator = dense_hessian(family, child) + 5.0 * np.eye(len(split))
            operator += rows.T @ (state.penalty[:, None] * rows)
            right = family.linear[:, child] + 5.0 * (split - dual)[:, child] + rows.T @ pulls[:, child]
            x = np.linalg.solve(operator, right)
            worst = max(worst, np.abs(x - state.split[:, child]).max())
            free = 1.6 * rows @ x - 0.6 * point[:, child] + point_dual[:, child]
            within = np.clip(free, family.limits.lower[:, child], family.limits.upper[:, child])
            np.testing.assert_allclose(state.point[:, child], within, rtol=1e-6, atol=1e-6, err_msg=str(seed))
        assert primal == pytest.approx(worst, rel=1e-5, abs=1e-6)


def test_changing_the_penalty_keeps_the_multipliers(wild):
    _, family = served(wild, 5, limited=True)[-1]
    state = begin(family, 2.0)
    for _ in range(5):
        iterate(state)
    before = state.rho * state.dual, state.penalty[:, None] * state.point_dual
    set_penalty(state, 50.0)
    np.testing.assert_allclose(state.rho * state.dual, before[0], rtol=1e-12)
    np.testing.assert_allclose(state.penalty[:, None] * state.point_dual, before[1], rtol=1e-12)


@pytest.mark.slow
def test_what_is_certified_keeps_cells_and_bounded_sums(wild, monkeypatch):
    monkeypatch.setattr(batched, "MOST_ITERATIONS", 200)
    seen = 0
    for seed, family in served(wild, 60, limited=True):
        proposal, proof = proposed(wild(seed).problem)
        if proof(proposal.candidate).certified:
            x = proposal.candidate.x.T
            sums = limited_rows(family) @ x
            over = np.maximum(family.limits.lower - sums, sums - family.limits.upper) / np.maximum(1.0, np.abs(sums))
            assert (x >= 0).all()
            assert over.max() < 1e-6
            np.testing.assert_allclose(x.sum(axis=1), family.needed, rtol=1e-6)
            seen += 1
    assert seen > 25


def test_raking_makes_cells_and_bounded_sums_exact(small):
    for seed in range(20):
        family = laid_out(small(seed, children=5).problem)
        state = begin(family, 2.0)
        for _ in range(60):
            iterate(state)
        x = batched.raked(family.support, family.limits, state.split.copy(), state.point, state.point_dual != 0)
        sums = limited_rows(family) @ x
        assert (x >= 0).all()
        np.testing.assert_allclose(x.sum(axis=1), family.needed, rtol=1e-9)
        assert (sums >= family.limits.lower - 1e-3).all()
        assert (sums <= family.limits.upper + 1e-3).all()
        pinned = (state.point_dual != 0) & (state.point > 0)
        np.testing.assert_allclose(sums[pinned], state.point[pinned], rtol=1e-3)


def test_sums_that_cannot_all_be_on_their_bounds_are_within_them():
    """Two children with multipliers on totals 3 and 3 of a parent of 8, where 3 to 9 is allowed."""
    schema = Schema("two", (Attribute("cell", ("x", "y")),))
    measured = FamilyMeasurement(schema.query("detailed"), np.arange(2), np.array([[4, 1], [1, 2]]), np.ones(2))
    bounds = (FamilyBounds("total", schema.query("total"), np.full((2, 1), 3), np.full((2, 1), 6)),)
    problem = FamilyProblem("1", Histogram.from_dense(np.array([5, 3])), ("1a", "1b"), 2, (measured,), bounds)
    state = begin(laid_out(problem), 2.0)
    state.point[:], state.point_dual[:] = 3.0, -1.0
    state.split[:] = [[1.0, 4.0], [1.0, 2.0]]
    x = batched.raked(state.family.support, state.family.limits, state.split.copy(), state.point, state.point_dual != 0)
    np.testing.assert_allclose(x.sum(axis=1), [5, 3], rtol=1e-9)
    assert (x.sum(axis=0) >= 3 - 1e-9).all()
    assert (x.sum(axis=0) <= 6 + 1e-9).all()


def proposed(problem, plan=None):
    plan = plan or FamilyPlan("any")
    presolved = presolve(restrict(problem, plan))
    proof = partial(certify, problem, plan, presolved.support.cells)
    return batched.solve_batched(presolved.support, proof), proof


def test_it_stops_when_the_proof_holds_and_no_sooner(small):
    made = small(3)
    asked = []

    def proof(candidate):
        asked.append(certify(made.problem, made.plan, cells, candidate))
        return asked[-1]

    presolved = presolve(restrict(made.problem, made.plan))
    cells = presolved.support.cells
    proposal = batched.solve_batched(presolved.support, proof)
    assert proposal.status is Status.OPTIMAL
    assert [each.certified for each in asked] == [False] * (len(asked) - 1) + [True]
    again, _ = proposed(made.problem)
    np.testing.assert_array_equal(again.candidate.x, proposal.candidate.x)


def test_it_gives_up_after_a_number_of_iterations(small, monkeypatch):
    monkeypatch.setattr(batched, "MOST_ITERATIONS", 21)
    proposal, proof = proposed(small(3, children=6, noise=20.0).problem)
    assert proposal.iterations <= 21
    assert proposal.status is (Status.OPTIMAL if proof(proposal.candidate).certified else Status.LIMIT)
    never, _ = proposed(small(3).problem, FamilyPlan("any", gap_tolerance=0.0))
    assert (never.status, never.iterations) == (Status.LIMIT, 21)


def test_it_does_not_serve_roots_flows_relaxed_families_and_bounds_on_single_cells(small, all_rows, toy, monkeypatch):
    assert proposed(small(1, root=True).problem)[0] is None
    assert proposed(small(1, flows=True).problem)[0] is None
    made = all_rows(small(2))
    relaxed = relaxed_family(made.problem, made.plan)
    assert batched_family(relaxed.support) is None
    single = FamilyBounds("one", toy.query("detailed"), np.zeros(made.truth.shape, dtype=int), made.truth + 1)
    assert laid_out(replace(made.problem, bounds=(*made.problem.bounds, single))) is None
    nobody = replace(single, upper=np.where(made.truth > 0, 10**6, 0))
    assert laid_out(replace(made.problem, bounds=(*made.problem.bounds, nobody))) is not None
    monkeypatch.setattr(batched, "MOST_ROWS", 3)
    assert laid_out(made.problem) is None


def test_a_noisy_family_is_asked_of_it_first_only_where_a_program_would_couple_very_much(small, monkeypatch):
    made = small(3, children=6, noise=100.0)
    presolved = presolve(restrict(made.problem, made.plan))

    def asked() -> list[str]:
        return [each.name for each in chain._ordered(("batched", "piqp"), PosedFamily.of(presolved))]

    monkeypatch.setattr(chain, "LARGE", presolved.variables)
    assert asked() == ["piqp", "batched"]
    pairs = int((np.bincount(presolved.child) ** 2).sum())
    monkeypatch.setattr(chain, "MOST_COUPLED", pairs - 1)
    assert asked() == ["batched", "piqp"]
    monkeypatch.setattr(chain, "LARGE", presolved.variables + 1)
    assert asked() == ["piqp", "batched"]


def test_more_kinds_of_children_than_it_keeps_operators_for_are_left_to_others(small):
    many = small(5, children=batched.MOST_KINDS + 1)
    assert laid_out(many.problem) is None
    alike = small(5, children=batched.MOST_KINDS + 1, equal_variance=True)
    assert laid_out(alike.problem) is not None
    result = estimate_family(many.problem, replace(many.plan, solvers=("batched", "piqp")))
    assert (result.diagnostics.solver, result.diagnostics.attempts) == ("piqp", 1)


def test_children_of_a_kind_share_an_operator(small):
    made = small(4, children=6, equal_variance=True)
    measured = tuple(
        replace(measurement, variance=np.where(np.arange(6) % 3 == 0, 1.0, 7.0) * measurement.variance)
        for measurement in made.problem.measurements
    )
    problem = replace(made.problem, measurements=measured)
    family = laid_out(problem)
    state = begin(family, 1.0)
    assert len(state.operators) == 2
    assert len(set(family.kind[[0, 3]])) == len(set(family.kind[[1, 2, 4, 5]])) == 1
    found, proof = proposed(problem)
    assert proof(found.candidate).certified
    other = estimate_family(problem, replace(made.plan, solvers=("clarabel",)))
    ours = estimate_family(problem, replace(made.plan, solvers=("batched",)))
    np.testing.assert_array_equal(ours.counts, other.counts)


def test_an_infeasible_family_is_found_to_be_so_after_one_solver(toy):
    counts = np.array([[3] + [0] * 11, [2] + [0] * 11])
    lower = np.array([[4, 0, 0], [3, 0, 0]])
    bounds = (FamilyBounds("class", toy.query("kind"), lower, np.full((2, 3), 9)),)
    rows = toy.query("detailed").restrict(np.array([0, 4])).rows
    measured = (FamilyMeasurement(toy.query("detailed"), rows, counts[:, rows], np.ones(2)),)
    parent = Histogram.from_dense(counts.sum(axis=0) + np.eye(12, dtype=int)[4])
    problem = FamilyProblem("1", parent, ("1a", "1b"), 12, measured, bounds)
    result = estimate_family(problem, FamilyPlan("any", solvers=("batched", "piqp", "clarabel", "osqp")))
    assert result.diagnostics.status == "infeasible"
    assert result.diagnostics.attempts <= 1


# The operator that kinds of children share, against dense matrices.


def grouping(generator, cells, rows, uncounted):
    """Every row has a cell; some cells may be in none."""
    index = np.concatenate([np.arange(rows), generator.integers(0, rows, cells - rows)])
    generator.shuffle(index)
    if uncounted:
        many = np.bincount(index)[index] > 1
        index[many & (generator.random(cells) < 0.4)] = -1
        _, index[index >= 0] = np.unique(index[index >= 0], return_inverse=True)
    return Grouping(index, int(index.max()) + 1)


def coarser(generator, fine):
    """Joins rows of another grouping, and leaves some out."""
    join = generator.integers(0, max(2, fine.rows // 2), fine.rows)
    _, join = np.unique(join, return_inverse=True)
    return Grouping(np.where(fine.index < 0, -1, join[fine.index]), int(join.max()) + 1)


def groupings(seed):
    generator = np.random.default_rng(seed)
    cells = int(generator.integers(4, 30))
    found = [
        grouping(generator, cells, int(generator.integers(1, cells)), generator.random() < 0.5)
        for _ in range(generator.integers(0, 4))
    ]
    found += [coarser(generator, each) for each in found if generator.random() < 0.7]
    order = generator.permutation(len(found))
    return generator, cells, tuple(found[number] for number in order)


def incidence(each, cells):
    matrix = np.zeros((each.rows, cells))
    matrix[each.index[each.index >= 0], np.flatnonzero(each.index >= 0)] = 1.0
    return matrix


@pytest.mark.parametrize("seed", range(60))
def test_the_inverse_is_that_of_the_dense_operator(seed):
    generator, cells, every = groupings(seed)
    stacked = stack(every, cells)
    matrix = np.concatenate([np.zeros((0, cells)), *(incidence(each, cells) for each in every)])
    weight = generator.uniform(0.0, 5.0, len(matrix)) * (generator.random(len(matrix)) < 0.8)
    diagonal = generator.uniform(0.1, 3.0)
    found = inverse(stacked, weight, diagonal)
    bulk = stacked.matrix.toarray()
    dense = found.scale * (np.eye(cells) - found.scale * bulk.T @ found.core @ bulk)
    operator = diagonal * np.eye(cells) + matrix.T @ (weight[:, None] * matrix)
    np.testing.assert_allclose(dense, np.linalg.inv(operator), atol=1e-9)
    np.testing.assert_array_equal(found.core, found.core.T)
    if weight.any():
        weight[np.argmax(weight)] += 1.0
        changed = inverse(stacked, weight, diagonal)
        wrong = changed.scale * (np.eye(cells) - changed.scale * bulk.T @ changed.core @ bulk)
        assert np.abs(wrong @ operator - np.eye(cells)).max() > 1e-4


@pytest.mark.parametrize("seed", range(60))
def test_every_answer_follows_from_the_stacked_sums(seed):
    generator, cells, every = groupings(seed)
    stacked = stack(every, cells)
    x = generator.normal(size=(cells, 3))
    answers = stacked.sums @ (stacked.matrix @ x)
    expected = [incidence(each, cells) @ x for each in every]
    np.testing.assert_allclose(answers, np.concatenate([np.zeros((0, 3)), *expected]), atol=1e-12)
    np.testing.assert_array_equal(stacked.owner, np.repeat(np.arange(len(every)), [each.rows for each in every]))
    np.testing.assert_allclose(stacked.overlap, (stacked.matrix @ stacked.matrix.T).toarray())
    assert (np.bincount(stacked.index.ravel(), minlength=stacked.rows) <= cells).all()


def test_only_the_finest_groupings_are_stacked():
    fine = Grouping(np.array([0, 1, 2, 3, 4, 4]), 5)
    nested = Grouping(np.array([0, 0, 1, 1, 2, 2]), 3)
    crossing = Grouping(np.array([0, 1, 0, 1, 0, 1]), 2)
    assert stack((nested, fine), 6).rows == 6  # a row for cells that none counts comes with each
    assert stack((nested, fine, nested), 6).rows == 6
    assert stack((nested, fine, crossing), 6).rows == 6 + 3
    assert stack((), 6).rows == 1


def test_a_weight_an_answer_makes_the_middle_of_the_operator():
    every = (Grouping(np.array([0, 0, 1]), 2), Grouping(np.array([0, 1, 2]), 3))
    stacked = stack(every, 3)
    bulk = stacked.matrix.toarray()
    found = bulk.T @ stacked.weighted(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) @ bulk
    np.testing.assert_allclose(found, [[4, 1, 0], [1, 5, 0], [0, 0, 7]])
