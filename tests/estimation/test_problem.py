"""Families refuse arrays that do not fit, and travel between processes."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pytest

from das_spark.errors import EstimationError
from das_spark.estimation import FamilyPlan, FamilyStatus, OuterPass, estimate_family


def test_children_must_be_sorted_and_unique(small):
    problem = small(1).problem
    for children in (("92", "91", "90"), ("90", "90", "91"), ()):
        with pytest.raises(EstimationError, match="sorted"):
            replace(problem, children=children)


def test_measurements_must_have_a_row_for_each_child(small):
    problem = small(1).problem
    first = problem.measurements[0]
    with pytest.raises(EstimationError, match="one row"):
        replace(problem, measurements=(replace(first, values=first.values[:1]),))
    with pytest.raises(EstimationError, match="variance"):
        replace(problem, measurements=(replace(first, variance=np.zeros(3)),))
    with pytest.raises(EstimationError, match="sorted"):
        replace(problem, measurements=(replace(first, rows=first.rows[::-1]),))
    with pytest.raises(EstimationError, match="cells"):
        replace(problem, size=problem.size + 1)


def test_bounds_and_flows_must_fit(small):
    made = small(1, flows=True)
    bound, flows = made.problem.bounds[0], made.problem.flows
    with pytest.raises(EstimationError, match="'class'"):
        replace(made.problem, bounds=(replace(bound, lower=bound.lower[:, :1]),))
    with pytest.raises(EstimationError, match="flows"):
        replace(made.problem, flows=replace(flows, child=flows.child + 9))
    with pytest.raises(EstimationError, match="flows"):
        replace(made.problem, flows=replace(flows, total=flows.total[:1]))


def test_measurements_and_bounds_are_kept_in_one_order(small):
    problem = small(1, totals=True).problem
    turned = replace(problem, measurements=problem.measurements[::-1], bounds=problem.bounds[::-1])
    assert [measurement.query.name for measurement in turned.measurements] == sorted(
        measurement.query.name for measurement in problem.measurements
    )
    assert [bound.name for bound in turned.bounds] == ["class", "total"]


def test_problems_plans_and_results_can_be_pickled(small):
    made = small(2)
    problem, plan = pickle.loads(pickle.dumps((made.problem, made.plan)))
    one, other = estimate_family(made.problem, made.plan), estimate_family(problem, plan)
    np.testing.assert_array_equal(one.counts, other.counts)
    assert pickle.loads(pickle.dumps(one)).diagnostics == one.diagnostics


def test_only_estimates_that_are_complete_and_proved_or_accepted_are_usable():
    unusable = {status for status in FamilyStatus if not status.is_usable}
    assert unusable == {FamilyStatus.UNCERTIFIED, FamilyStatus.UNROUNDED, FamilyStatus.INFEASIBLE}


def test_a_plan_names_its_defaults():
    plan = FamilyPlan("County")
    assert plan.solvers == ("projected", "nested", "batched", "piqp", "clarabel", "osqp")
    assert len(plan.zero_cells) == 0
    assert (plan.gap_tolerance, plan.feasibility_tolerance) == (1e-6, 1e-6)
    assert plan.passes == ()
    assert plan.queries == {}


def test_a_pass_knows_its_queries_once_each_in_order_and_travels():
    outer = OuterPass((("total",), ("b", "a")), (("total", "c"), ("a", "detailed")))
    assert outer.names == ("total", "b", "a", "c", "detailed")
    plan = FamilyPlan("County", passes=(outer,))
    assert pickle.loads(pickle.dumps(plan)).passes == (outer,)
