"""Children whose total is known together only: two stages against the joint problem, and every kind of family."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.errors import EstimationError
from das_spark.estimation import (
    FamilyBounds,
    FamilyGroups,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    FamilyStatus,
    OuterPass,
    estimate_family,
)
from das_spark.estimation.chain import PosedFamily, solve_chain
from das_spark.estimation.check import broken_rules
from das_spark.estimation.family import family_of_groups, family_of_members
from das_spark.estimation.presolve import presolve
from das_spark.estimation.support import restrict
from das_spark.histogram import Histogram

LABELS = ("a", "b", "a", "c", "b")
PASSES = (
    OuterPass((("total",), ("kind",)), (("total",), ("kind",))),
    OuterPass((("kind", "detailed"),), (("kind", "detailed"),)),
)


def in_groups(made, labels=LABELS, known=None):
    """The family with groups whose totals are the truth's; those of labels that are not known are left out."""
    label = np.array(list(labels))
    people = made.truth.sum(axis=1)
    totals = [people[label == name].sum() if known is None or name in known else -1 for name in labels]
    return replace(made.problem, groups=FamilyGroups(tuple(labels), np.array(totals, dtype=np.int64)))


def group_totals(problem, result):
    label = np.array(problem.groups.labels)
    return {str(name): int(result.counts[label == name].sum()) for name in problem.groups.labels}


def real_valued(problem):
    presolved = presolve(restrict(problem, FamilyPlan("toy")))
    dense = np.zeros((len(problem.children), problem.size))
    solved = solve_chain(PosedFamily.of(presolved), FamilyPlan("toy"))
    assert solved.certificate.certified
    dense[:, presolved.support.cells] = solved.candidate.x
    return dense


def dense_matrix(query):
    rows = query.row_of(np.arange(query.size))
    matrix = np.zeros((query.rows, query.size))
    matrix[rows[rows >= 0], np.flatnonzero(rows >= 0)] = 1
    return matrix


def interior_family(toy, seed, *, proportional=True, queries=("detailed", "kind", "age * race")):
    """Many people in every cell, so that neither zero nor a bound is near; groups of two, one and two children."""
    generator = np.random.default_rng(seed)
    truth = generator.integers(10_000, 20_000, (5, toy.size))
    scale = generator.uniform(0.3, 4.0, 5)
    measured = []
    for text in queries:
        query = toy.query(text)
        variance = scale * generator.uniform(1.0, 9.0) if proportional else generator.uniform(1.0, 9.0, 5)
        values = query.answer_dense(truth) + generator.integers(-9, 10, (5, query.rows))
        measured.append(FamilyMeasurement(query, np.arange(query.rows), values, variance))
    totals = np.array([truth[np.array(LABELS) == name].sum() for name in LABELS])
    return FamilyProblem(
        "1",
        Histogram.from_dense(truth.sum(axis=0)),
        tuple(f"1{name}" for name in "abcde"),
        toy.size,
        tuple(measured),
        groups=FamilyGroups(LABELS, totals),
    )


def joint_least_squares(problem):
    """All children at once, with the sums over the children and the totals of groups as equations; dense matrices."""
    children, size = len(problem.children), problem.size
    width = children * size
    gram, right = np.zeros((width, width)), np.zeros(width)
    for measurement in problem.measurements:
        matrix = dense_matrix(measurement.query)
        for child in range(children):
            own = slice(child * size, (child + 1) * size)
            gram[own, own] += matrix.T @ matrix / measurement.variance[child]
            right[own] += matrix.T @ measurement.values[child] / measurement.variance[child]
    label = np.array(problem.groups.labels)
    # One total fewer than there are groups: the last follows from the parent.
    of_groups = [np.repeat(label == name, size) for name in sorted(set(problem.groups.labels))[:-1]]
    known = [problem.groups.totals[np.argmax(label == name)] for name in sorted(set(problem.groups.labels))[:-1]]
    rows = np.vstack([np.tile(np.eye(size), children), *(np.asarray(each, dtype=float)[None] for each in of_groups)])
    system = np.block([[gram, rows.T], [rows, np.zeros((len(rows), len(rows)))]])
    sides = np.concatenate([right, problem.parent.dense(), known])
    return np.linalg.solve(system, sides)[:width].reshape(children, size)


def two_stages(problem):
    """The real-valued estimates of both stages, the second under the unrounded first."""
    members = problem.groups.members
    whole = real_valued(family_of_groups(problem, members))
    found = np.zeros((len(problem.children), problem.size))
    for row, (label, positions) in enumerate(members):
        # A family divides whole people: the fractions of the first stage are put back by the law of E-57, in which the
        # members' shares of what the group has are those of the variances.
        base = Histogram.from_dense(np.floor(whole[row]).astype(np.int64))
        share = problem.measurements[0].variance[positions]
        rest = np.outer(share / share.sum(), whole[row] - base.dense())
        if len(positions) == 1:
            found[positions] = whole[row]
        else:
            found[positions] = real_valued(family_of_members(problem, label, positions, base)) + rest
    return found


@pytest.mark.parametrize("seed", range(5))
def test_two_stages_are_the_joint_optimum_where_variances_are_proportional_and_nothing_binds(toy, seed):
    problem = interior_family(toy, seed)
    np.testing.assert_allclose(two_stages(problem), joint_least_squares(problem), atol=1e-5)


@pytest.mark.parametrize("seed", range(3))
def test_two_stages_are_the_joint_optimum_of_one_query_with_any_variances(toy, seed):
    problem = interior_family(toy, seed, proportional=False, queries=("detailed",))
    np.testing.assert_allclose(two_stages(problem), joint_least_squares(problem), atol=1e-5)


def test_two_stages_differ_from_the_joint_optimum_where_variances_are_not_proportional(toy):
    problem = interior_family(toy, 1, proportional=False)
    difference = np.abs(two_stages(problem) - joint_least_squares(problem)).max()
    assert 1e-3 < difference < 10


@given(seed=st.integers(0, 10**6), share=st.floats(0.1, 0.9))
@settings(max_examples=50, deadline=None)
def test_the_objective_falls_apart_into_the_group_s_and_the_division_s(seed, share):
    generator = np.random.default_rng(seed)
    matrices = [generator.integers(0, 2, (rows, 4)).astype(float) for rows in (1, 2, 4)]
    scale = np.array([share, 1 - share]) * 7
    variance = generator.uniform(0.5, 4.0, 3)
    answers = [generator.normal(0, 30, (2, len(matrix))) for matrix in matrices]

    def joint(x):
        return sum(
            ((matrix @ x[p] - answer[p]) ** 2).sum() / (scale[p] * v)
            for matrix, answer, v in zip(matrices, answers, variance, strict=True)
            for p in range(2)
        )

    def of_group(s):
        return sum(
            ((matrix @ s - answer.sum(axis=0)) ** 2).sum() / (scale.sum() * v)
            for matrix, answer, v in zip(matrices, answers, variance, strict=True)
        )

    one, other, aside = generator.normal(0, 20, (3, 4))
    rest = [
        joint(np.outer(scale / scale.sum(), whole) + np.array([aside, -aside])) - of_group(whole)
        for whole in (one, other)
    ]
    assert rest[0] == pytest.approx(rest[1], rel=1e-8, abs=1e-6)


@given(seed=st.integers(0, 10**6), labels=st.lists(st.sampled_from("abc"), min_size=1, max_size=5))
@settings(max_examples=40, deadline=None)
def test_every_known_total_holds_and_children_keep_their_places(small, seed, labels):
    made = small(seed, children=len(labels))
    problem = in_groups(made, labels, known=("a", "b"))
    result = estimate_family(problem, made.plan)
    assert result.diagnostics.status.is_usable, result.diagnostics.message
    assert result.diagnostics.children == len(labels) == len(result.counts)
    assert broken_rules(problem, made.plan, result.cells, result.counts) == ()
    people = made.truth.sum(axis=1)
    for name in {"a", "b"} & set(labels):
        assert group_totals(problem, result)[name] == people[np.array(labels) == name].sum()


def test_the_estimate_of_a_part_is_near_its_truth_and_not_its_sibling_s(small):
    made = small(5, children=5, noise=0.05, equal_variance=True)
    result = estimate_family(in_groups(made), made.plan)
    dense = np.zeros_like(made.truth)
    dense[:, result.cells] = result.counts
    np.testing.assert_array_equal(dense, made.truth)


@pytest.mark.parametrize("seed", range(4))
def test_groups_of_one_child_each_are_a_family_with_totals(small, seed):
    made = small(seed, children=4, totals=True)
    alone = replace(made.problem, bounds=made.problem.bounds[:1])
    problem = in_groups(replace(made, problem=alone), made.problem.children)
    result, expected = estimate_family(problem, made.plan), estimate_family(made.problem, made.plan)
    np.testing.assert_array_equal(result.counts, expected.counts)
    assert result.diagnostics.status == expected.diagnostics.status


def test_an_only_group_divides_its_parent(small):
    made = small(2, children=3)
    problem = in_groups(made, "aaa")
    result, expected = estimate_family(problem, made.plan), estimate_family(made.problem, made.plan)
    np.testing.assert_array_equal(result.counts, expected.counts)
    assert result.diagnostics.status is FamilyStatus.OPTIMAL


def root_of_parts(made):
    """The children of a family without their parent: parts of roots."""
    measured = tuple(measurement for measurement in made.problem.measurements)
    return replace(made.problem, parent=None, parent_geocode="", measurements=measured)


@pytest.mark.parametrize("passes", [(), PASSES], ids=["one pass", "passes"])
def test_parts_of_a_root_meet_in_its_total(small, all_rows, toy, passes):
    made = all_rows(small(7, children=3, queries=("total", "kind", "detailed")))
    queries = {name: toy.query(name) for name in ("total", "kind", "detailed")}
    plan = replace(made.plan, passes=passes, queries=queries)
    problem = in_groups(replace(made, problem=root_of_parts(made)), "aba")
    result = estimate_family(problem, plan)
    assert result.diagnostics.status is FamilyStatus.OPTIMAL, result.diagnostics.message
    assert group_totals(problem, result) == {"a": made.truth[[0, 2]].sum(), "b": made.truth[1].sum()}
    assert broken_rules(problem, plan, result.cells, result.counts) == ()
    assert (result.diagnostics.passes > 1) == bool(passes)


@pytest.mark.parametrize("seed", range(3))
def test_groups_are_estimated_in_passes(small, toy, seed):
    made = small(seed, children=5, queries=("total", "kind", "detailed"))
    queries = {name: toy.query(name) for name in ("total", "kind", "detailed")}
    plan = replace(made.plan, passes=PASSES, queries=queries)
    problem = in_groups(made)
    result = estimate_family(problem, plan)
    assert result.diagnostics.status is FamilyStatus.OPTIMAL, result.diagnostics.message
    assert result.diagnostics.passes == 3
    assert group_totals(problem, result) == group_totals(problem, replace(result, counts=made.truth))


def test_flows_stay_divisible_in_groups(small):
    made = small(4, children=5, flows=True)
    problem = in_groups(made, known=())
    result = estimate_family(problem, made.plan)
    assert result.diagnostics.status is FamilyStatus.OPTIMAL, result.diagnostics.message
    assert broken_rules(problem, made.plan, result.cells, result.counts) == ()


def test_an_empty_parent_has_empty_groups(small):
    made = small(1, children=3)
    nobody = np.zeros((3, 3), dtype=np.int64)
    bounds = (FamilyBounds("class", made.problem.bounds[0].query, nobody, nobody + 9),)
    parent = Histogram.from_dense(np.zeros(made.problem.size, dtype=np.int64))
    groups = FamilyGroups(("a", "a", "b"), np.zeros(3, dtype=np.int64))
    problem = replace(made.problem, parent=parent, bounds=bounds, groups=groups)
    result = estimate_family(problem, made.plan)
    assert result.diagnostics.status is FamilyStatus.EMPTY_PARENT
    assert result.counts.shape == (3, 0)


def test_totals_that_the_parent_does_not_have_make_the_family_infeasible(small):
    made = small(3, children=5)
    problem = in_groups(made)
    wrong = replace(problem, groups=replace(problem.groups, totals=problem.groups.totals + 1))
    result = estimate_family(wrong, made.plan)
    assert result.diagnostics.status is FamilyStatus.INFEASIBLE
    assert result.diagnostics.message
    assert len(result.counts) == 5
    assert not result.counts.any()


def test_under_the_failsafe_a_group_keeps_its_total(small, all_rows, toy):
    made = all_rows(small(6, children=4, noise=1.0))
    # One person more at home than the parent has there, who must come from another kind.
    least = toy.query("kind").answer_dense(made.truth) * np.array([1, 0, 0])
    least[np.argmax(made.truth[:, 4:].sum(axis=1)), 0] += 1
    demanded = FamilyBounds("class", toy.query("kind"), least, np.full_like(least, 99))
    problem = in_groups(replace(made, problem=replace(made.problem, bounds=(demanded,))), "aabb")
    assert estimate_family(problem, made.plan).diagnostics.status is FamilyStatus.INFEASIBLE
    result = estimate_family(problem, replace(made.plan, failsafe=True))
    assert result.relaxed
    assert result.diagnostics.status is FamilyStatus.RELAXED
    assert "relaxed because" in result.diagnostics.message
    assert group_totals(problem, result) == {"a": made.truth[:2].sum(), "b": made.truth[2:].sum()}


def test_diagnostics_count_the_work_of_all_stages(small):
    made = small(3, children=5)
    problem = in_groups(made)
    found = estimate_family(problem, made.plan).diagnostics
    assert found.attempts == len(found.tried) >= 2
    assert found.parent == problem.parent_geocode
    assert found.iterations >= max(each.iterations for each in found.tried if each.certified)
    assert 0 <= found.gap <= made.plan.gap_tolerance


def test_a_broken_total_is_named(small):
    made = small(3, children=5)
    problem = in_groups(made)
    cells = np.arange(made.problem.size, dtype=np.int32)
    assert broken_rules(problem, made.plan, cells, made.truth) == ()
    moved = replace(problem, groups=replace(problem.groups, totals=problem.groups.totals + np.array([1, 0, 1, 0, 0])))
    assert broken_rules(moved, made.plan, cells, made.truth) == ("the members of a do not sum to its total",)


def test_groups_that_do_not_fit_are_refused(small):
    problem = in_groups(small(1, children=5))
    groups = problem.groups
    for wrong in (
        replace(groups, labels=groups.labels[:4]),
        replace(groups, totals=groups.totals[:4]),
        replace(groups, totals=groups.totals.astype(float)),
    ):
        with pytest.raises(EstimationError, match="label"):
            replace(problem, groups=wrong)
    with pytest.raises(EstimationError, match="negative"):
        replace(problem, groups=replace(groups, totals=np.full(5, -2)))
    with pytest.raises(EstimationError, match="'a' disagree"):
        replace(problem, groups=replace(groups, totals=np.arange(5)))
