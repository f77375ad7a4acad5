"""Presolve changes the size of a family, never its answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from das_spark.estimation import (
    FamilyBounds,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    FamilyStatus,
    estimate_family,
)
from das_spark.estimation import presolve as presolve_module
from das_spark.estimation.presolve import presolve
from das_spark.estimation.support import restrict
from das_spark.histogram import Attribute, Histogram, Schema

SCHEMA = Schema("toy", (Attribute("kind", ("home", "barracks")), Attribute("race", ("a", "b"))))


def family(parent, lower, upper, texts=("detailed", "kind"), children=2, values=3):
    measured = tuple(
        FamilyMeasurement(
            SCHEMA.query(text),
            np.arange(SCHEMA.query(text).rows),
            np.full((children, SCHEMA.query(text).rows), values),
            np.ones(children),
        )
        for text in texts
    )
    bounds = (FamilyBounds("class", SCHEMA.query("kind"), np.array(lower), np.array(upper)),)
    histogram = None if parent is None else Histogram.from_dense(np.array(parent))
    return FamilyProblem("1", histogram, tuple(f"1{k}" for k in range(children)), 4, measured, bounds)


def presolved(problem):
    return presolve(restrict(problem, FamilyPlan("toy")))


def test_cells_of_a_class_that_a_child_lacks_are_fixed():
    found = presolved(family([4, 4, 3, 2], [[0, 0], [0, 0]], [[9, 9], [9, 0]]))
    np.testing.assert_array_equal(found.fixed.dense(found.support), [[0, 0, 3, 2], [0, 0, 0, 0]])
    assert found.variables == 4
    assert found.contradiction == ""


def test_cells_outside_the_parents_support_are_no_variables():
    found = presolved(family([4, 0, 3, 0], [[0, 0], [0, 0]], [[9, 9], [9, 9]]))
    np.testing.assert_array_equal(found.support.cells, [0, 2])
    assert found.variables == 4


def test_answers_that_one_variable_touches_are_folded():
    found = presolved(family([4, 0, 3, 0], [[0, 0], [0, 0]], [[9, 9], [9, 9]]))
    assert len(found.aggregates.child) == 0
    np.testing.assert_allclose(found.weight, 2.0)  # detailed and class both count each variable alone
    np.testing.assert_allclose(found.target, 3.0)


def test_queries_that_cut_the_support_alike_become_one_margin():
    problem = family([4, 5, 0, 0], [[1, 0], [1, 0]], [[7, 0], [9, 0]], texts=("detailed", "kind", "total"))
    found = presolved(problem)
    assert len(found.support.partitions) == 2
    np.testing.assert_allclose(found.aggregates.weight, [2.0, 2.0])


def test_rows_of_different_queries_that_count_the_same_variables_of_a_child_become_one_margin():
    problem = family([4, 5, 2, 2], [[0, 0], [0, 0]], [[8, 3], [9, 0]], texts=("detailed", "kind", "total"))
    found = presolved(problem)
    # Child 0 alone may hold barracks, so those are fixed, and its total and its homes are the same two variables.
    assert sorted(found.aggregates.weight.tolist()) == [2.0, 2.0]
    np.testing.assert_allclose(found.aggregates.target[found.aggregates.child == 0], [(3 + 3 - 4) / 2])


def test_sets_of_variables_with_one_sum_of_codes_are_told_apart(monkeypatch):
    """Among a million rows of a nation two sets had one sum, and their bounds contradicted each other."""
    problem = family([4, 5, 2, 2], [[0, 0], [0, 0]], [[8, 3], [8, 4]], texts=("detailed", "kind", "total"))
    wanted, codes = presolved(problem).aggregates, presolve_module._codes
    assert len(wanted.child) > 2
    monkeypatch.setattr(
        presolve_module, "_codes", lambda count, series: codes(count, series) if series else np.ones(count)
    )
    found = presolved(problem).aggregates

    def rows(aggregates):
        cells = [
            sorted(aggregates.entry_variable[aggregates.entry_aggregate == each])
            for each in range(len(aggregates.child))
        ]
        return sorted(
            zip(aggregates.child, cells, aggregates.weight, aggregates.target, aggregates.upper, strict=True), key=str
        )

    assert rows(found) == rows(wanted)


def test_bounds_that_cannot_bind_are_dropped():
    found = presolved(family([4, 5, 2, 2], [[0, 0], [0, 0]], [[9, 4], [8, 4]]))
    margins = found.aggregates
    assert np.isinf(margins.lower).all()
    np.testing.assert_array_equal(np.isfinite(margins.upper[margins.child == 0]), [False, False])
    np.testing.assert_array_equal(np.isfinite(margins.upper[margins.child == 1]), [True, False])


@pytest.mark.parametrize(
    ("parent", "lower", "upper", "words"),
    [
        ([4, 4, 3, 2], [[0, 0], [0, 0]], [[9, 0], [9, 0]], "no child can hold cell 2"),
        ([4, 4, 3, 2], [[0, 0], [0, 0]], [[9, 1], [9, 0]], "bounds are too small"),
        ([4, 4, 0, 0], [[9, 0], [0, 0]], [[9, 0], [9, 0]], "row 0 of 'class'"),
        ([4, 4, 0, 0], [[0, 1], [0, 0]], [[9, 9], [9, 0]], "row 1 of 'class'"),
        ([4, 4, 0, 0], [[5, 0], [0, 0]], [[3, 0], [9, 0]], "row 0 of 'class'"),
        ([4, 0, 0, 0], [[3, 0], [3, 0]], [[9, 0], [9, 0]], "cell 0"),
        ([4, 0, 0, 0], [[0, 0], [0, 0]], [[1, 0], [1, 0]], "cell 0"),
    ],
)
def test_contradictions_are_seen_and_named(parent, lower, upper, words):
    problem = family(parent, lower, upper)
    result = estimate_family(problem, FamilyPlan("toy"))
    assert result.diagnostics.status is FamilyStatus.INFEASIBLE
    assert words in result.diagnostics.message
    assert presolved(problem).contradiction == result.diagnostics.message


def test_two_bounds_on_the_same_variables_that_exclude_each_other_are_seen():
    problem = family([4, 4, 0, 0], [[5, 0], [0, 0]], [[8, 0], [8, 0]])
    total = np.array([[3], [5]])
    problem = replace(problem, bounds=(*problem.bounds, FamilyBounds("total", SCHEMA.query("total"), total, total)))
    result = estimate_family(problem, FamilyPlan("toy"))
    assert result.diagnostics.status is FamilyStatus.INFEASIBLE


def test_everything_fixed_needs_no_solver():
    result = estimate_family(family([4, 4, 3, 2], [[0, 0], [0, 0]], [[9, 0], [0, 9]]), FamilyPlan("toy"))
    assert result.diagnostics.status is FamilyStatus.OPTIMAL
    assert result.diagnostics.solver == "presolve"
    assert result.diagnostics.variables == 0
    np.testing.assert_array_equal(result.counts, [[4, 4, 0, 0], [0, 0, 3, 2]])


def test_two_measurements_of_one_query_are_averaged_by_precision():
    query = SCHEMA.query("detailed")
    cells = np.arange(4)
    one = FamilyMeasurement(query, cells, np.full((1, 4), 10), np.ones(1))
    other = FamilyMeasurement(query, cells, np.full((1, 4), 20), np.full(1, 4.0))
    support = restrict(FamilyProblem("", None, ("1",), 4, (one, other)), FamilyPlan("toy"))
    assert len(support.partitions) == 1
    np.testing.assert_allclose(support.partitions[0].weight, [1.25])
    np.testing.assert_allclose(support.partitions[0].values, 12.0)


def test_a_query_that_leaves_cells_out_counts_only_the_others():
    schema = Schema("part", (Attribute("kind", ("home", "barracks")),))
    query = replace(schema.query("detailed"), factors=(np.array([-1, 0]),))
    measured = FamilyMeasurement(query, np.arange(1), np.array([[7]]), np.ones(1))
    result = estimate_family(FamilyProblem("", None, ("1",), 2, (measured,)), FamilyPlan("part"))
    assert result.diagnostics.status is FamilyStatus.OPTIMAL, result.diagnostics
    assert result.counts[0, 1] == 7
