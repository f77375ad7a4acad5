"""The rounder against brute force over all roundings, and its laws."""

from __future__ import annotations

import itertools
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
    FamilyStatus,
    estimate_family,
)
from das_spark.estimation.chain import PosedFamily, solve_chain
from das_spark.estimation.check import broken_rules
from das_spark.estimation.presolve import presolve
from das_spark.estimation.rounding import round_family
from das_spark.estimation.support import restrict
from das_spark.estimation.ties import split
from das_spark.histogram import Attribute, Histogram, Schema


def rounded_by_hand(problem, plan, cells, x):
    """Least sum of |h - x| over all h = floor(x) + {0, 1} that keep every constraint; None when there is none."""
    base, fraction = split(x.ravel())
    best = None
    for steps in itertools.product((0, 1), repeat=x.size):
        counts = (base + np.array(steps)).reshape(x.shape)
        if broken_rules(problem, plan, cells, counts):
            continue
        cost = np.abs(np.array(steps) - fraction).sum()
        best = cost if best is None else min(best, cost)
    return best


def distance(counts, x):
    base, fraction = split(x.ravel())
    return np.abs(counts.ravel() - base - fraction).sum()


def tiny(seed, *, flows=False, totals=False, root=False):
    """Two or three children, five cells in two classes: at most 15 variables."""
    generator = np.random.default_rng(seed)
    schema = Schema("tiny", (Attribute("kind", ("home", "prison")), Attribute("race", ("a", "b", "c"))))
    members = 2
    units = np.column_stack([np.ones(members, dtype=int), generator.integers(0, 2, members)])
    truth = generator.integers(0, 4, (members, 6))
    truth[:, 0] += 1
    truth[:, 3:][units[:, 1] == 0] = 0
    truth[:, 3] += units[:, 1]
    margin = truth.reshape(members, 2, 3).sum(axis=2)
    slack = generator.integers(0, 2, margin.shape)
    lower, upper = np.maximum(margin - slack, units), margin + slack[::-1] * units
    own_flows = None
    totals_now = truth.sum(axis=1)
    if flows:
        owner = np.zeros(members, dtype=int) if root else np.arange(members)
        own_flows = FamilyFlows(schema.query("kind"), owner, lower, upper, totals_now)
    parent = None if root else Histogram.from_dense(truth.sum(axis=0))
    if root:
        truth, lower, upper = (part.sum(axis=0, keepdims=True) for part in (truth, lower, upper))
    bounds = [FamilyBounds("class", schema.query("kind"), lower, upper)]
    if totals:
        total = truth.sum(axis=1, keepdims=True)
        bounds.append(FamilyBounds("total", schema.query("total"), total, total))
    cells = np.arange(6) if root else parent.cells
    query = schema.query("detailed")
    rows = query.restrict(cells).rows
    values = truth[:, rows] + generator.integers(-6, 7, (len(truth), len(rows)))
    measured = FamilyMeasurement(query, rows, values, generator.uniform(1, 3, len(truth)))
    children = tuple(f"1{child}" for child in range(len(truth)))
    return FamilyProblem("" if root else "1", parent, children, 6, (measured,), tuple(bounds), own_flows)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    "options",
    [{}, {"totals": True}, {"flows": True}, {"root": True, "flows": True}, {"root": True, "totals": True}],
    ids=str,
)
def test_rounding_is_the_best_of_all_roundings(seed, options):
    problem, plan = tiny(seed, **options), FamilyPlan("tiny")
    presolved = presolve(restrict(problem, plan))
    if presolved.contradiction:
        pytest.fail(presolved.contradiction)
    x = solve_chain(PosedFamily.of(presolved), plan).candidate.x
    rounded = round_family(presolved, x)
    cells = presolved.support.cells
    assert rounded is not None
    assert broken_rules(problem, plan, cells, rounded.counts) == ()
    assert distance(rounded.counts, x) == pytest.approx(rounded_by_hand(problem, plan, cells, x), abs=1e-6)


def test_worked_example_is_rounded_to_its_unique_optimum():
    schema = Schema("two", (Attribute("cell", ("x", "y")),))
    problem = FamilyProblem("1", Histogram.from_dense(np.array([5, 3])), ("1a", "1b"), 2, ())
    presolved = presolve(restrict(problem, FamilyPlan("two")))
    first = round_family(presolved, np.array([[2.74, 0.74], [2.26, 2.26]]))
    second = round_family(presolved, np.array([[2.87, 0.87], [2.13, 2.13]]))
    assert schema.size == 2
    for found, costs in ((first, -0.96), (second, -1.48)):
        np.testing.assert_array_equal(found.counts, [[3, 1], [2, 2]])
        assert found.method == "largest remainder"
        assert found.cost == pytest.approx(0.0)
        assert costs < 0


def test_values_near_a_whole_number_are_taken_for_it():
    base, fraction = split(np.array([2.999995, 3.000005, 2.9, 0.0]))
    np.testing.assert_array_equal(base, [3, 3, 2, 0])
    np.testing.assert_allclose(fraction, [0, 0, 0.9, 0], atol=1e-5)


def test_a_bound_that_the_unit_box_cannot_meet_widens_it():
    schema = Schema("two", (Attribute("cell", ("x", "y")),))
    exact = np.array([[4], [4]])
    bounds = (FamilyBounds("total", schema.query("total"), exact, exact),)
    problem = FamilyProblem("1", Histogram.from_dense(np.array([5, 3])), ("1a", "1b"), 2, (), bounds)
    presolved = presolve(restrict(problem, FamilyPlan("two")))
    found = round_family(presolved, np.array([[1.0, 1.0], [4.0, 2.0]]))  # as if a solver had gone astray
    assert found.method == "linear program, widened"
    assert broken_rules(problem, FamilyPlan("two"), presolved.support.cells, found.counts) == ()
    assert np.abs(found.counts - [[1, 1], [4, 2]]).sum() == 4


def test_crossing_margins_are_still_rounded():
    """Two crossing margins inside children are not totally unimodular; the mixed-integer program is there for them."""
    schema = Schema("cross", (Attribute("a", ("0", "1")), Attribute("b", ("0", "1"))))
    for seed in range(40):
        generator = np.random.default_rng(seed)
        truth = generator.integers(0, 3, (3, 4))
        problem = FamilyProblem(
            "1",
            Histogram.from_dense(truth.sum(axis=0)),
            ("1a", "1b", "1c"),
            4,
            (),
            tuple(
                FamilyBounds(name, schema.query(name), *(2 * [schema.query(name).answer_dense(truth)]))
                for name in ("a", "b")
            ),
        )
        result = estimate_family(problem, FamilyPlan("cross"))
        assert result.diagnostics.status.is_usable, result.diagnostics


@given(seed=st.integers(0, 10**6))
@settings(max_examples=50, deadline=None)
def test_roundings_stay_within_one_of_the_real_valued_estimate(small, seed):
    made = small(seed, 4, totals=True)
    presolved = presolve(restrict(made.problem, made.plan))
    x = solve_chain(PosedFamily.of(presolved), made.plan).candidate.x
    rounded = round_family(presolved, x)
    assert rounded is not None
    assert "widened" not in rounded.method
    assert np.abs(rounded.counts - x).max() < 1 + 1e-4


def test_infeasible_bounds_have_no_rounding(small):
    made = small(4, 3)
    presolved = presolve(restrict(made.problem, made.plan))
    x = solve_chain(PosedFamily.of(presolved), made.plan).candidate.x
    broken = replace(presolved, rows=tuple(replace(row, lower=np.full(len(row.flat), 1e6)) for row in presolved.rows))
    assert round_family(broken, x) is None


def test_whole_estimates_need_no_program(small):
    made = small(8)
    presolved = presolve(restrict(made.problem, made.plan))
    found = round_family(presolved, made.truth[:, presolved.support.cells].astype(float))
    np.testing.assert_array_equal(found.counts, made.truth[:, presolved.support.cells])
    assert found.method == "largest remainder"


def test_released_rounding_is_the_cell_wise_one(small):
    for seed in range(5):
        made = small(seed)
        one = estimate_family(made.problem, made.plan)
        other = estimate_family(made.problem, replace(made.plan, rounding="released"))
        np.testing.assert_array_equal(one.counts, other.counts)
        assert one.diagnostics.status is FamilyStatus.OPTIMAL
