"""Estimation in passes against the worked example, single fits, and the laws of what is held."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.estimation import (
    FamilyBounds,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    FamilyStatus,
    OuterPass,
    estimate_family,
    passes,
)
from das_spark.estimation.chain import PosedFamily, solve_chain
from das_spark.estimation.check import broken_rules
from das_spark.estimation.passes import estimate_in_passes
from das_spark.estimation.problem import SLACK
from das_spark.estimation.support import restrict
from das_spark.histogram import Attribute, Histogram, Schema

TWO = Schema("two", (Attribute("cell", ("x", "y")),))


def worked_example():
    """Section 10 of the published facts: two children, two cells, precise totals, one negative answer."""
    detailed, total = TWO.query("detailed"), TWO.query("total")
    measured = (
        FamilyMeasurement(detailed, np.arange(2), np.array([[2.4, -0.6], [3.0, 2.0]]), np.ones(2)),
        FamilyMeasurement(total, np.arange(1), np.array([[3.5], [4.0]]), np.full(2, 0.5)),
    )
    return FamilyProblem("1", Histogram.from_dense(np.array([5, 3])), ("1a", "1b"), 2, measured)


def planned(schema, *outer, **further):
    """A plan whose outer passes are pairs: inner passes of least squares, inner passes of rounding."""
    made = tuple(OuterPass(*(tuple(tuple(inner) for inner in part) for part in each)) for each in outer)
    names = {name for each in made for name in each.names}
    return FamilyPlan("any", passes=made, queries={name: schema.query(name) for name in names}, **further)


def fitted(problem, plan):
    return estimate_in_passes(problem, plan)


def single_fit(problem, plan=None):
    """The certified estimate of one fit of everything measured."""
    solved = solve_chain(PosedFamily(restrict(problem, plan or FamilyPlan("any"))), plan or FamilyPlan("any"))
    assert solved.certificate.certified
    return solved.candidate.x


def only(problem, *names):
    return replace(
        problem,
        measurements=tuple(measurement for measurement in problem.measurements if measurement.query.name in names),
    )


def answers(query, cells, x):
    rows = query.row_of(cells)
    return x @ (rows[:, None] == np.arange(query.rows)[None, :]).astype(float)


# The worked example


def test_the_single_fit_of_the_worked_example():
    problem = worked_example()
    passed = fitted(problem, planned(TWO, ((("total", "detailed"),), (("total", "detailed"),))))
    np.testing.assert_allclose(passed.solved.candidate.x, [[2.74, 0.74], [2.26, 2.26]], atol=1e-6)
    assert passed.solved.certificate.objective == pytest.approx(3.068, abs=1e-6)
    assert passed.count == 1


def test_the_two_fits_of_the_worked_example():
    problem = worked_example()
    passed = fitted(problem, planned(TWO, ((("total",), ("detailed",)), (("detailed",),))))
    np.testing.assert_allclose(passed.solved.candidate.x, [[2.87, 0.87], [2.13, 2.13]], atol=1e-5)
    assert passed.solved.certificate.objective == pytest.approx(3.1556, abs=1e-4)
    first = single_fit(only(problem, "total"))
    np.testing.assert_allclose(first.sum(axis=1), [3.75, 4.25], atol=1e-6)
    assert passed.count == 2


@pytest.mark.parametrize("rounding", ["nearest", "released"])
def test_the_roundings_of_the_worked_example(rounding):
    problem = worked_example()
    once = planned(TWO, ((("total", "detailed"),), (("total", "detailed"),)), rounding=rounding)
    twice = planned(TWO, ((("total",), ("detailed",)), (("total", "detailed"),)), rounding=rounding)
    for plan in (once, twice):
        result = estimate_family(problem, plan)
        np.testing.assert_array_equal(result.counts, [[3, 1], [2, 2]])
        assert result.diagnostics.status is FamilyStatus.OPTIMAL


def test_totals_first_round_the_worked_example_otherwise():
    """Totals 3.48 and 4.52 are nearest to 3 and 5, whatever the cells would like."""
    plan = planned(TWO, ((("total", "detailed"),), (("total",), ("detailed",))))
    result = estimate_family(worked_example(), plan)
    np.testing.assert_array_equal(result.counts.sum(axis=1), [3, 5])


# What is held


def two_fits(schema, *, first="kind", rounding=(("kind",), ("detailed",))):
    return planned(schema, (((first,), ("age * race", "detailed")), rounding))


@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize("options", [{}, {"totals": True}, {"root": True}, {"flows": True}], ids=str)
def test_what_an_inner_pass_reached_moves_no_further_than_the_slack(small, toy, seed, options):
    made = small(seed, **options)
    passed = fitted(made.problem, two_fits(toy))
    assert passed.solved.certificate.certified
    query, cells = toy.query("kind"), passed.exact.support.cells
    first = single_fit(only(made.problem, "kind"))
    moved = answers(query, cells, passed.solved.candidate.x) - answers(query, cells, first)
    assert np.abs(moved).max() <= SLACK + 1e-4


def test_the_bands_do_bind(small, toy):
    binding = 0
    for seed in range(20):
        made = small(seed)
        free, cells = single_fit(only(made.problem, "age * race", "detailed")), restrict(made.problem, made.plan).cells
        first = answers(toy.query("kind"), cells, single_fit(only(made.problem, "kind")))
        binding += np.abs(answers(toy.query("kind"), cells, free) - first).max() > 0.5
    assert binding > 10


@pytest.mark.parametrize("seed", range(20))
def test_the_second_fit_is_the_best_within_the_bands(small, toy, seed):
    """Against one fit of the same queries under bounds written out by hand."""
    made = small(seed)
    passed = fitted(made.problem, two_fits(toy))
    query, cells = toy.query("kind"), passed.exact.support.cells
    first = np.zeros((len(made.truth), toy.size))
    first[:, cells] = single_fit(only(made.problem, "kind"))
    middle = query.answer_dense(first)
    band = FamilyBounds("band", query, middle - SLACK, middle + SLACK)
    best = single_fit(replace(only(made.problem, "age * race", "detailed"), bounds=(*made.problem.bounds, band)))
    np.testing.assert_allclose(passed.solved.candidate.x, best, atol=5e-3)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("rounding", ["nearest", "released"])
def test_whole_answers_of_an_outer_pass_hold_in_the_next(small, toy, seed, rounding, monkeypatch):
    made = small(seed, queries=("detailed", "kind * age", "kind", "age * race"))
    plan = planned(
        toy,
        ((("kind", "kind * age"),), (("kind",), ("kind * age",))),
        ((("age * race",), ("detailed",)), (("kind * race",), ("detailed",))),
        rounding=rounding,
    )
    reached = []
    original = passes.round_in_passes

    def recorded(presolved, *rest):
        rounded = original(presolved, *rest)
        reached.append((presolved.support.cells, rounded.counts))
        return rounded

    monkeypatch.setattr(passes, "round_in_passes", recorded)
    result = estimate_family(made.problem, plan)
    assert result.diagnostics.status is FamilyStatus.OPTIMAL, result.diagnostics
    assert (len(reached), result.diagnostics.passes) == (2, 3)
    query = toy.query("kind * age")
    first = answers(query, *reached[0])
    np.testing.assert_array_equal(answers(query, result.cells, result.counts), first)
    assert broken_rules(made.problem, plan, result.cells, result.counts) == ()


# Coarse cells


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("options", [{}, {"totals": True}, {"flows": True}], ids=str)
def test_a_pass_on_coarse_cells_reaches_the_same_answers(small, toy, seed, options, monkeypatch):
    made = small(seed, queries=("detailed", "kind", "age * race", "race"), **options)
    plan = planned(toy, ((("kind",), ("race",), ("detailed", "age * race")), (("total", "detailed"),)))
    widths = []
    original = passes.solve_chain
    monkeypatch.setattr(
        passes, "solve_chain", lambda posed, plan: widths.append(posed.presolved.variables) or original(posed, plan)
    )
    coarse = fitted(made.problem, plan)
    monkeypatch.setattr(passes, "_coarsened", lambda problem, queries: problem.parent)
    fine = fitted(made.problem, plan)
    assert widths[0] <= widths[3] == widths[5] == widths[2]
    np.testing.assert_allclose(coarse.solved.candidate.x, fine.solved.candidate.x, atol=2e-2)
    assert coarse.solved.certificate.objective == pytest.approx(fine.solved.certificate.objective, rel=2e-2, abs=2e-2)
    assert coarse.rounded is not None


def test_a_coarse_pass_is_smaller(small, toy, monkeypatch):
    made = small(3, children=5)
    seen = []
    monkeypatch.setattr(passes, "solve_chain", lambda *each: seen.append(each[0]) or solve_chain(*each))
    fitted(made.problem, two_fits(toy))
    coarse, fine = (len(each.support.cells) for each in seen)
    assert coarse == 3 < fine
    assert seen[0].support.parent.sum() == made.problem.parent.total


@pytest.mark.parametrize("seed", range(10))
def test_one_pass_with_everything_fits_like_no_passes(small, toy, seed):
    made = small(seed)
    names = tuple(measurement.query.name for measurement in made.problem.measurements)
    passed = fitted(made.problem, planned(toy, ((names,), (("detailed",),))))
    np.testing.assert_array_equal(passed.solved.candidate.x, single_fit(made.problem))


@pytest.mark.parametrize("seed", range(10))
def test_rounding_of_cells_alone_is_the_cell_wise_rounding(small, toy, seed):
    made = small(seed)
    names = tuple(measurement.query.name for measurement in made.problem.measurements)
    other = estimate_family(made.problem, made.plan)
    result = estimate_family(made.problem, planned(toy, ((names,), (("detailed",),))))
    x = single_fit(made.problem)
    assert np.abs(result.counts - x).sum() == pytest.approx(np.abs(other.counts - x).sum(), abs=1e-6)


def test_a_measured_query_that_no_pass_names_is_not_read(small, toy):
    made = small(5)
    plan = planned(toy, ((("detailed",),), (("detailed",),)))
    wrong = replace(
        made.problem,
        measurements=tuple(
            replace(measurement, values=measurement.values + (0 if measurement.query.name == "detailed" else 1000))
            for measurement in made.problem.measurements
        ),
    )
    np.testing.assert_array_equal(estimate_family(wrong, plan).counts, estimate_family(made.problem, plan).counts)


# What cannot be


def test_families_that_presolve_finds_infeasible_are_reported(small, toy):
    made = small(6)
    bound = made.problem.bounds[0]
    problem = replace(made.problem, bounds=(replace(bound, lower=bound.upper + 1),))
    result = estimate_family(problem, two_fits(toy))
    assert result.diagnostics.status is FamilyStatus.INFEASIBLE
    assert "row" in result.diagnostics.message


def crossing_bounds(toy, made):
    """Known totals and kinds, of which one child has one too many and another one too few."""
    kinds = toy.query("kind").answer_dense(made.truth)
    lower = kinds.copy()
    (mover,) = np.nonzero(kinds[:, 0] > 0)
    lower[mover[0], 0] += 1
    bounds = (
        FamilyBounds("class", toy.query("kind"), lower, np.maximum(lower, kinds)),
        FamilyBounds("total", toy.query("total"), *(2 * [made.truth.sum(axis=1, keepdims=True)])),
    )
    return replace(made.problem, bounds=bounds)


@pytest.mark.parametrize("seed", range(6))
def test_families_that_only_a_program_finds_infeasible_are_reported(small, toy, seed):
    problem = crossing_bounds(toy, small(seed, children=4))
    result = estimate_family(problem, two_fits(toy))
    assert result.diagnostics.status is FamilyStatus.INFEASIBLE
    assert result.diagnostics.message


@pytest.mark.parametrize("seed", range(6))
def test_the_failsafe_relaxes_the_family_itself_and_not_a_coarse_pass_of_it(small, all_rows, toy, seed):
    made = all_rows(small(seed, children=4))
    bound = made.problem.bounds[0]
    parent = Histogram.from_dense(made.problem.parent.dense() + np.eye(toy.size, dtype=int)[0] * 1000)
    problem = replace(made.problem, parent=parent, bounds=(replace(bound, upper=bound.lower + 3),))
    plan = replace(two_fits(toy), failsafe=True, classes=toy.query("kind"))
    result = estimate_family(problem, plan)
    alone = estimate_family(problem, replace(plan, passes=()))
    assert result.diagnostics.status == alone.diagnostics.status
    np.testing.assert_array_equal(result.counts, alone.counts)
    np.testing.assert_array_equal(result.cells, alone.cells)


def test_shortcuts_need_no_pass(small, toy):
    made = small(4, children=1)
    only_child = estimate_family(made.problem, two_fits(toy))
    assert only_child.diagnostics.status is FamilyStatus.ONLY_CHILD
    np.testing.assert_array_equal(only_child.counts[0], made.problem.parent.counts)
    empty = replace(small(4).problem, parent=Histogram.from_dense(np.zeros(toy.size, dtype=int)), bounds=())
    assert estimate_family(empty, two_fits(toy)).diagnostics.status is FamilyStatus.EMPTY_PARENT


def test_plans_that_do_not_fit_are_refused(small, toy):
    problem = small(2).problem
    good = two_fits(toy)
    with pytest.raises(ConfigurationError, match="'kind', which the plan does not hold"):
        estimate_family(problem, replace(good, queries={}))
    with pytest.raises(ConfigurationError, match="'race', which is not measured"):
        estimate_family(problem, two_fits(toy, first="race"))
    with pytest.raises(ConfigurationError, match="leaves cells open"):
        estimate_family(problem, planned(toy, ((("kind",),), (("kind",),))))
    for nothing in (((("kind",),), ()), ((("kind",),), ((),)), ((), (("detailed",),)), (((),), (("detailed",),))):
        with pytest.raises(ConfigurationError, match="both of some query"):
            estimate_family(problem, planned(toy, nothing))


def test_attempts_and_gaps_of_all_passes_are_reported(small, toy):
    made = small(7, children=4)
    found = estimate_family(made.problem, two_fits(toy)).diagnostics
    assert found.status is FamilyStatus.OPTIMAL
    assert found.passes == 2
    assert found.attempts == len(found.tried) >= 2
    assert found.gap == max(each.gap for each in found.tried if each.certified)


def test_a_pass_without_proof_makes_the_family_uncertified(small, toy):
    made = small(7, children=4)
    found = estimate_family(made.problem, replace(two_fits(toy), gap_tolerance=0.0, solvers=("piqp",))).diagnostics
    assert found.status is FamilyStatus.UNCERTIFIED


@pytest.mark.parametrize("seed", range(60))
def test_wild_families_are_estimated_in_passes(wild, seed):
    made = wild(seed)
    names = [measurement.query.name for measurement in made.problem.measurements]
    queries = {measurement.query.name: measurement.query for measurement in made.problem.measurements}
    detailed = next(
        (measurement.query for measurement in made.problem.measurements if measurement.query.name == "detailed"), None
    )
    if detailed is None or len(names) < 2:
        return
    others = [name for name in names if name != "detailed"]
    outer = OuterPass((tuple(others[:1]), (*others[1:], "detailed")), (tuple(others[:1]), ("detailed",)))
    plan = FamilyPlan("wild", passes=(outer,), queries=queries)
    result = estimate_family(made.problem, plan)
    bands = [bound for bound in made.problem.bounds if bound.lower.dtype != np.int64]
    if bands:  # whole numbers need not be within a narrow band
        assert result.diagnostics.status in {FamilyStatus.OPTIMAL, FamilyStatus.UNROUNDED}, result.diagnostics
    else:
        assert result.diagnostics.status is FamilyStatus.OPTIMAL, result.diagnostics


@pytest.mark.parametrize("bounded", [False, True])
def test_a_root_of_very_many_cells_is_posed_on_coarse_ones_with_the_same_result(small, toy, monkeypatch, bounded):
    plan = planned(
        toy,
        ((("kind",), ("kind", "kind * age")), (("kind * age",),)),
        ((("detailed",),), (("detailed",),)),
        zero_cells=np.array([1], dtype=np.int32),
    )
    sizes, posed = [], passes.on_cells
    monkeypatch.setattr(passes, "on_cells", lambda *given: sizes.append(len(given[1])) or posed(*given))
    for seed in range(8):
        made = small(seed, root=True, bounded=bounded, queries=("detailed", "kind * age", "kind"))
        expected = estimate_family(made.problem, plan)
        sizes.clear()
        monkeypatch.setattr(passes, "COARSE_ROOT", toy.size)
        found = estimate_family(made.problem, plan)
        monkeypatch.undo()
        monkeypatch.setattr(passes, "on_cells", lambda *given: sizes.append(len(given[1])) or posed(*given))
        if expected.diagnostics.status is not FamilyStatus.INFEASIBLE:
            assert sizes == [3, 6, 6]  # what the first fit tells apart, the second, and the rounding of the latter
            assert found.diagnostics.status is expected.diagnostics.status is FamilyStatus.OPTIMAL
            np.testing.assert_array_equal(found.counts, expected.counts)
