"""The multi-pass rounder against brute force over all roundings, and its laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.estimation import (
    FamilyBounds,
    FamilyFlows,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
)
from das_spark.estimation import rounding as rounding_module
from das_spark.estimation.check import broken_rules
from das_spark.estimation.presolve import presolve
from das_spark.estimation.rounding import Frame, Goal, round_family, round_in_passes, sums_of
from das_spark.estimation.support import restrict
from das_spark.estimation.ties import hash_geocodes, split, split_without_ties
from das_spark.histogram import Attribute, Histogram, Schema

BOTH = ["nearest", pytest.param("released", marks=pytest.mark.slow)]
TINY = Schema("tiny", (Attribute("kind", ("home", "prison")), Attribute("race", ("a", "b", "c"))))
PLAN = FamilyPlan("tiny")
NESTED = [["total"], ["kind", "detailed"]]
PASSES = [
    [["detailed"]],
    [["total", "kind", "detailed"]],
    NESTED,
    [["kind"], ["detailed"]],
    [["total"], ["kind"], ["detailed"]],
    [["kind", "detailed", "kind * race"]],
]
CROSSING = [[["kind", "race", "detailed"]], [["race"], ["kind", "detailed"]], [["total"], ["race", "kind", "detailed"]]]


def tiny(seed, *, flows=False, totals=False, root=False, bounded=True):
    """Two children, six cells in two classes; the truth keeps every constraint."""
    generator = np.random.default_rng(seed)
    here = np.column_stack([np.ones(2, dtype=bool), generator.random(2) < 0.7])
    truth = generator.integers(0, 4, (2, 6)) * here.repeat(3, axis=1)
    truth[:, 0] += 1
    margin = truth.reshape(2, 2, 3).sum(axis=2)
    lower = np.maximum(margin - generator.integers(0, 2, margin.shape), 0)
    upper = (margin + generator.integers(0, 2, margin.shape)) * here
    owner = np.zeros(2, dtype=int) if root else np.arange(2)
    own_flows = FamilyFlows(TINY.query("kind"), owner, lower, upper, truth.sum(axis=1)) if flows else None
    parent = None if root else Histogram.from_dense(truth.sum(axis=0))
    if root:
        truth, lower, upper = (part.sum(axis=0, keepdims=True) for part in (truth, lower, upper))
    bounds = [FamilyBounds("class", TINY.query("kind"), lower, upper)] if bounded else []
    if totals:
        total = truth.sum(axis=1, keepdims=True)
        bounds.append(FamilyBounds("total", TINY.query("total"), total, total))
    query = TINY.query("detailed")
    rows = query.restrict(np.arange(6) if root else parent.cells).rows
    values = truth[:, rows] + generator.integers(-6, 7, (len(truth), len(rows)))
    measured = FamilyMeasurement(query, rows, values, generator.uniform(1, 3, len(truth)))
    children = tuple(f"1{child}" for child in range(len(truth)))
    return FamilyProblem("" if root else "1", parent, children, 6, (measured,), tuple(bounds), own_flows)


def queries(passes, schema=TINY):
    return [[schema.query(name) for name in names] for names in passes]


def feasible_roundings(problem, cells, x, plan=PLAN):
    """All whole numbers floor(x) + {0, 1} that keep every constraint, shape (m, K, n)."""
    base, _ = split(x.ravel())
    steps = (np.arange(2**x.size)[:, None] >> np.arange(x.size)) & 1
    counts = (base + steps).reshape(-1, *x.shape)
    if problem.parent is not None:
        counts = counts[(counts.sum(axis=1) == problem.parent.dense()[cells]).all(axis=1)]
    for bound in problem.bounds:
        found = answers(bound.query, cells, counts)
        counts = counts[((found >= bound.lower) & (found <= bound.upper)).all(axis=(1, 2))]
    if problem.flows is not None:
        counts = counts[[not broken_rules(problem, plan, cells, count) for count in counts]]
    return counts


def answers(query, cells, x):
    rows = query.row_of(cells)
    return x @ (rows[:, None] == np.arange(query.rows)[None, :]).astype(x.dtype)


def distance(query, cells, counts, x, rounding):
    """What a pass minimises, for one query: to the real value, or to the nearest whole number, halves by their hash."""
    hashes = hash_geocodes([f"1{child}" for child in range(len(x))])[:, None]
    base, fraction = split_without_ties(x, hashes, cells)
    over = answers(query, cells, fraction)
    over = np.where(np.abs(over - np.rint(over)) < 1e-9, np.rint(over), over)
    over = np.rint(over) if rounding == "released" else over
    return np.abs(answers(query, cells, counts - base) - over).sum(axis=(-2, -1))


def check_against_brute_force(problem, passes, rounding, found, cells, x, schema=TINY):
    """Pass by pass: the best of all that keep what the passes before it settled."""
    left = feasible_roundings(problem, cells, x)
    assert len(left)
    assert any(np.array_equal(found.counts, each) for each in left)
    for names in passes:
        asked = [schema.query(name) for name in names]
        costs = sum(distance(query, cells, left, x, rounding) for query in asked)
        own = sum(distance(query, cells, found.counts, x, rounding) for query in asked)
        assert own >= costs.min() - 1e-6
        assert own - costs.min() <= found.gap * max(1.0, costs.min()) + 1e-6
        best = left[costs <= own + 1e-6]
        for query in asked:
            same = (answers(query, cells, left) == answers(query, cells, found.counts)).all(axis=(1, 2))
            left = left[same]
    return best


@pytest.mark.parametrize("rounding", ["nearest", "released"])
@pytest.mark.parametrize("passes", PASSES, ids=str)
@pytest.mark.parametrize(
    "options",
    [{}, {"bounded": False}, {"totals": True}, {"flows": True}, {"root": True}, {"root": True, "flows": True}],
    ids=str,
)
def test_each_pass_is_the_best_of_all_roundings(rounding, passes, options, estimated):
    for seed in range(6):
        problem = tiny(seed, **options)
        presolved, x = estimated(problem, PLAN)
        cells = presolved.support.cells
        found = round_in_passes(presolved, x, queries(passes), rounding)
        assert found is not None
        assert found.gap == 0
        assert "widened" not in found.method
        assert broken_rules(problem, PLAN, cells, found.counts) == ()
        best = check_against_brute_force(problem, passes, rounding, found, cells, x)
        if rounding == "released":  # a tie goes to the cells' own distances
            _, fraction = split(x.ravel())
            base, _ = split(x.ravel())
            steps = best.reshape(len(best), -1) - base
            least = (steps * (1 - 2 * fraction)).sum(axis=1).min()
            own = ((found.counts.ravel() - base) * (1 - 2 * fraction)).sum()
            assert own <= least + 1e-6


@pytest.mark.parametrize("rounding", ["nearest", "released"])
@pytest.mark.parametrize("passes", CROSSING, ids=str)
def test_crossing_margins_are_the_best_but_for_the_reported_gap(rounding, passes, estimated):
    for seed in range(15):
        problem = tiny(seed)
        presolved, x = estimated(problem, PLAN)
        found = round_in_passes(presolved, x, queries(passes), rounding)
        assert found is not None
        assert found.gap >= 0
        check_against_brute_force(problem, passes, rounding, found, presolved.support.cells, x)


@pytest.mark.parametrize("rounding", BOTH)
@pytest.mark.slow
def test_random_points_are_rounded_to_the_best(rounding, estimated):
    """Not only estimates: any division of the parent, with many halves and whole numbers in it."""
    for seed in range(60):
        generator = np.random.default_rng(seed)
        problem = tiny(seed, bounded=bool(seed % 2))
        presolved = presolve(restrict(problem, PLAN))
        cells = presolved.support.cells
        _, one = estimated(problem, PLAN)
        share = generator.choice([0.0, 0.25, 0.5, 0.75, 1.0], one.shape[1])
        x = one if problem.bounds else np.vstack([share, 1.0 - share]) * problem.parent.dense()[cells]
        for passes in (PASSES[1], NESTED, PASSES[4]):
            found = round_in_passes(presolved, x, queries(passes), rounding)
            if "widened" in found.method or not len(feasible_roundings(problem, cells, x)):
                continue
            check_against_brute_force(problem, passes, rounding, found, cells, x)


def test_the_brute_force_finds_a_planted_worse_rounding(estimated):
    found_out = 0
    for seed in range(12):
        problem = tiny(seed, bounded=False)
        presolved, x = estimated(problem, PLAN)
        cells = presolved.support.cells
        found = round_in_passes(presolved, x, queries(PASSES[1]), "nearest")
        others = [
            rounding for rounding in feasible_roundings(problem, cells, x) if not np.array_equal(rounding, found.counts)
        ]
        for worse in others[:: max(1, len(others) // 5)]:
            try:
                check_against_brute_force(problem, PASSES[1], "nearest", replace(found, counts=worse), cells, x)
            except AssertionError:
                found_out += 1
    assert found_out >= 20


# Worked numbers of the published toy: two children, two cells


TWO = Schema("two", (Attribute("cell", ("x", "y")),))
DIVISIONS = ([[3, 1], [2, 2]], [[2, 1], [3, 2]], [[3, 0], [2, 3]], [[2, 0], [3, 3]])


def toy():
    problem = FamilyProblem("1", Histogram.from_dense(np.array([5, 3])), ("1a", "1b"), 2, ())
    return problem, presolve(restrict(problem, FamilyPlan("two")))


def test_the_released_distances_of_the_worked_example():
    cells = np.arange(2)
    asked = [TWO.query("total"), TWO.query("detailed")]
    for real, expected in (
        ([[2.74, 0.74], [2.26, 2.26]], [2, 2, 2, 6]),
        ([[2.87, 0.87], [2.13, 2.13]], [0, 4, 4, 8]),
    ):
        x, whole = np.array(real), [np.array(division) for division in DIVISIONS]
        found = [sum(distance(query, cells, each, x, "released") for query in asked) for each in whole]
        np.testing.assert_allclose(found, expected)


@pytest.mark.parametrize("rounding", ["nearest", "released"])
def test_the_worked_example_is_rounded_to_its_best(rounding):
    _, presolved = toy()
    passes = queries([["total", "detailed"]], TWO)
    for x in ([[2.74, 0.74], [2.26, 2.26]], [[2.87, 0.87], [2.13, 2.13]]):
        found = round_in_passes(presolved, np.array(x), passes, rounding)
        np.testing.assert_array_equal(found.counts, [[3, 1], [2, 2]])


# Totals first


def without_closed_form(monkeypatch):
    monkeypatch.setattr(rounding_module, "_best_totals", lambda frame, passes: None)


@pytest.mark.parametrize("rounding", BOTH)
def test_totals_in_closed_form_are_as_good_as_those_of_a_program(small, toy_queries, rounding, monkeypatch, estimated):
    used = 0
    for seed in range(40):
        made = small(seed, 5, noise=4.0, bounded=bool(seed % 3))
        presolved, x = estimated(made.problem, made.plan)
        closed = round_in_passes(presolved, x, toy_queries, rounding)
        with monkeypatch.context() as patched:
            without_closed_form(patched)
            programmed = round_in_passes(presolved, x, toy_queries, rounding)
        used += rounding_module._best_totals(*closed_form_arguments(presolved, x, toy_queries, rounding)) is not None
        cells = presolved.support.cells
        ours, theirs = (distance(toy_queries[0][0], cells, each.counts, x, rounding) for each in (closed, programmed))
        assert ours == pytest.approx(theirs, abs=1e-6)
        assert broken_rules(made.problem, made.plan, cells, closed.counts) == ()
    assert used >= 20


def closed_form_arguments(presolved, x, passes, rounding):
    base, fraction = split(x[presolved.child, presolved.cell])
    frame = Frame.of(presolved, base, fraction, released=rounding == "released")
    return frame, [[sums_of(presolved, query) for query in names] for names in passes]


def test_totals_that_the_bounds_forbid_are_left_to_a_program():
    """The largest remainder is the second child's, and its bound allows none more."""
    measured = ()
    bounds = (FamilyBounds("total", TWO.query("total"), np.array([[0], [0]]), np.array([[9], [3]])),)
    problem = FamilyProblem("1", Histogram.from_dense(np.array([5, 3])), ("1a", "1b"), 2, measured, bounds)
    presolved = presolve(restrict(problem, FamilyPlan("two")))
    x = np.array([[2.7, 1.7], [2.3, 1.3]])  # totals 4.4 and 3.6
    found = round_in_passes(presolved, x, queries([["total"], ["detailed"]], TWO), "nearest")
    np.testing.assert_array_equal(found.counts.sum(axis=1), [5, 3])
    assert broken_rules(problem, FamilyPlan("two"), presolved.support.cells, found.counts) == ()


# Bounds, gaps, rules


def test_a_bound_that_the_unit_box_cannot_meet_widens_it():
    exact = np.array([[4], [4]])
    bounds = (FamilyBounds("total", TWO.query("total"), exact, exact),)
    problem = FamilyProblem("1", Histogram.from_dense(np.array([5, 3])), ("1a", "1b"), 2, (), bounds)
    presolved = presolve(restrict(problem, FamilyPlan("two")))
    for rounding in ("nearest", "released"):
        for passes in ([["detailed"]], [["total"], ["detailed"]], [["total", "detailed"]]):
            x = np.array([[1.0, 1.0], [4.0, 2.0]])  # as if a solver had gone astray
            found = round_in_passes(presolved, x, queries(passes, TWO), rounding)
            assert found.method == "linear program, widened"
            assert broken_rules(problem, FamilyPlan("two"), presolved.support.cells, found.counts) == ()
            assert np.abs(found.counts - x).sum() == 4


def test_bounds_that_nothing_meets_have_no_rounding(small, toy_queries, estimated):
    made = small(4, 3)
    presolved, x = estimated(made.problem, made.plan)
    broken = replace(presolved, rows=tuple(replace(row, lower=np.full(len(row.flat), 1e6)) for row in presolved.rows))
    assert round_in_passes(broken, x, toy_queries, "nearest") is None


def test_fractional_vertices_fall_to_a_mixed_integer_program(small, toy, estimated):
    """Crossing margins in one pass: of many families some have no whole vertex; the gap to the linear bound is told."""
    methods = []
    crossing = [[toy.query("kind * age"), toy.query("age * race"), toy.query("kind * race"), toy.query("detailed")]]
    for seed in range(60):
        made = small(seed, 6, noise=5.0, totals=True)
        presolved, x = estimated(made.problem, made.plan)
        found = round_in_passes(presolved, x, crossing, "nearest")
        methods.append(found.method)
        assert 0 <= found.gap < 0.1
        assert (found.gap == 0) or found.method == "mixed-integer program"
        assert broken_rules(made.problem, made.plan, presolved.support.cells, found.counts) == ()
    assert "mixed-integer program" in methods
    assert "linear program" in methods


@given(seed=st.integers(0, 10**6), rounding=st.sampled_from(["nearest", "released"]))
@settings(max_examples=60, deadline=None)
def test_roundings_keep_bounds_and_stay_within_one(small, toy, seed, rounding, estimated):
    made = small(seed, 4, totals=bool(seed % 2), flows=bool(seed % 3 == 0))
    presolved, x = estimated(made.problem, made.plan)
    asked = queries([["total"], ["kind", "kind * race", "detailed"]], toy)
    found = round_in_passes(presolved, x, asked, rounding)
    assert found is not None
    assert broken_rules(made.problem, made.plan, presolved.support.cells, found.counts) == ()
    assert "widened" not in found.method
    assert np.abs(found.counts - x).max() < 1 + 1e-4


@pytest.mark.parametrize("seed", range(10))
def test_cells_alone_are_rounded_as_well_as_by_the_cell_wise_rounder(small, toy, seed, estimated):
    made = small(seed, 5)
    presolved, x = estimated(made.problem, made.plan)
    ours = round_in_passes(presolved, x, queries([["detailed"]], toy), "nearest")
    theirs = round_family(presolved, x)
    assert ours.cost == pytest.approx(theirs.cost, abs=1e-6)


def test_whole_estimates_stay_as_they_are(small, toy):
    for seed in range(10):
        made = small(seed, 4)
        presolved = presolve(restrict(made.problem, made.plan))
        truth = made.truth[:, presolved.support.cells]
        for rounding in ("nearest", "released"):
            found = round_in_passes(presolved, truth.astype(float), queries(NESTED, toy), rounding)
            np.testing.assert_array_equal(found.counts, truth)


def test_a_family_without_variables_is_rounded_by_presolve():
    bounds = (FamilyBounds("cell", TWO.query("detailed"), np.zeros((2, 2), dtype=int), np.array([[9, 0], [0, 9]])),)
    problem = FamilyProblem("1", Histogram.from_dense(np.array([5, 3])), ("1a", "1b"), 2, (), bounds)
    presolved = presolve(restrict(problem, FamilyPlan("two")))
    found = round_in_passes(presolved, np.array([[5.0, 0.0], [0.0, 3.0]]), queries([["detailed"]], TWO), "nearest")
    np.testing.assert_array_equal(found.counts, [[5, 0], [0, 3]])


def test_the_same_estimate_is_rounded_the_same_way(small, toy_queries, estimated):
    made = small(11, 6)
    presolved, x = estimated(made.problem, made.plan)
    one, other = (round_in_passes(presolved, x, toy_queries, "nearest") for _ in range(2))
    np.testing.assert_array_equal(one.counts, other.counts)


@pytest.mark.parametrize("rounding", BOTH)
@pytest.mark.slow
def test_few_columns_reach_the_optimum_of_all_columns(small, toy_queries, rounding, estimated):
    fewer = asked = 0
    for seed in range(150):
        made = small(seed, 8, noise=6.0, totals=bool(seed % 2))
        presolved, x = estimated(made.problem, made.plan)
        base, fraction = split(x[presolved.child, presolved.cell])
        frame = Frame.of(presolved, base, fraction, released=rounding == "released")
        sums = [sums_of(presolved, query) for names in toy_queries for query in names]
        goal = Goal.of(frame, sums, [])
        found = rounding_module._relaxed(goal)
        everything = rounding_module._relaxed(replace(goal, likely=np.ones_like(goal.likely)))
        assert goal.value(*found) == pytest.approx(goal.value(*everything), abs=1e-6)
        fewer += found[1].sum() < everything[1].sum()
        asked += (found[1] & ~goal.likely).any()
    assert fewer >= 100
    assert asked >= 3  # whole numbers that had to move


@pytest.mark.slow
def test_without_prices_some_families_would_be_rounded_worse(small, toy_queries, monkeypatch, estimated):
    worse = 0
    for seed in range(150):
        made = small(seed, 8, noise=6.0, totals=bool(seed % 2))
        presolved, x = estimated(made.problem, made.plan)
        base, fraction = split(x[presolved.child, presolved.cell])
        frame = Frame.of(presolved, base, fraction)
        sums = [sums_of(presolved, query) for names in toy_queries for query in names]
        goal = Goal.of(frame, sums, [])
        best = goal.value(*rounding_module._relaxed(goal))
        with monkeypatch.context() as patched:
            patched.setattr(Goal, "prices", lambda self, columns, solution: np.full(len(self.frame.fraction), np.inf))
            found = rounding_module._relaxed(goal)
        worse += found is None or goal.value(*found) > best + 1e-6
    assert worse >= 1
