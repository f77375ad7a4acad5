"""The small census is what it says: it reaches every end of a family, every way to round, and every kind of bound."""

from __future__ import annotations

import numpy as np
import pytest
from dense_reference import class_bounds_of
from local_system import run_system
from small_census import CLASSES, LEVELS

from das_spark.estimation.check import broken_rules
from das_spark.estimation.problem import FamilyStatus

pytestmark = [pytest.mark.whole_run, pytest.mark.slow]


def test_the_census_has_empty_blocks_all_classes_and_tight_bounds(census):
    assert (census.units.sum(axis=0) > 0).all(), "every class has units"
    assert (census.counts.reshape(-1, CLASSES, 24).sum(axis=(0, 2)) > 0).all(), "and people"
    assert (census.counts.sum(axis=1) == 0).sum() >= 3, "blocks where nobody lives"
    assert (census.summed(census.counts, "County").sum(axis=1) == 0).any(), "a parent of nobody"
    assert 1 in np.bincount(census.parents("Enumdist")), "a single child"
    people = census.counts.reshape(-1, CLASSES, 24).sum(axis=2)
    lower, upper = class_bounds_of(census, "State")[0]["Enumdist"]
    assert ((people == lower) & (lower < upper)).any(), "a margin at its least"
    assert ((people == upper) & (lower < upper)).any(), "a margin at its most"
    assert (people >= lower).all()
    assert (people <= upper).all()
    assert list(LEVELS) == ["National", "State", "County", "Enumdist"]


def test_families_end_in_every_way_that_is_no_failure(system_runs):
    ends = {status for run in system_runs for status in run.ends.values()}
    assert ends == {"optimal", "only_child", "empty_parent"}


def test_families_are_rounded_in_both_ways(system_runs):
    every = [found for run in system_runs for found in run.executor.diagnostics.values()]
    ways = {each.rounding for found in every for each in found.values()}
    assert ways >= {"", "largest remainder", "linear program"}


def test_there_are_families_with_flows_totals_and_folded_bounds(system_runs):
    problems = [problem for problem, _ in system_runs[0].families]
    assert [problem.flows is not None for problem in problems] == [True] + [False] * (len(problems) - 1)
    assert {bound.name for problem in problems for bound in problem.bounds} == {"class", "total"}
    assert any((bound.lower == bound.upper).any() for problem in problems for bound in problem.bounds)


def test_every_family_keeps_every_rule_at_every_key(system_runs, census):
    for run in system_runs:
        for depth, level in enumerate(census.levels):
            found = run.estimates[level]
            if depth:
                above = run.estimates[list(census.levels)[depth - 1]]
                sums = np.zeros_like(above)
                np.add.at(sums, census.parents(level), found)
                np.testing.assert_array_equal(sums, above)
            if level in ("National", "State"):
                exact = census.summed(census.counts, level).sum(axis=1)
                np.testing.assert_array_equal(found.sum(axis=1), exact)
        for (problem, plan), status in zip(run.families, run.ends.values(), strict=True):
            assert FamilyStatus(status).is_usable
            place = {code: number for number, code in enumerate(census.codes(plan.geolevel))}
            counts = run.estimates[plan.geolevel][[place[code] for code in problem.children]]
            assert broken_rules(problem, plan, np.arange(problem.size, dtype=np.int32), counts) == ()


def test_bounds_of_the_system_are_those_of_the_reference(system_runs, census):
    classes, totals = class_bounds_of(census, "State")
    for problem, plan in system_runs[0].families:
        place = {code: number for number, code in enumerate(census.codes(plan.geolevel))}
        own = [place[code] for code in problem.children]
        limits = {bound.name: bound for bound in problem.bounds}
        np.testing.assert_array_equal(limits["class"].lower, classes[plan.geolevel][0][own])
        np.testing.assert_array_equal(limits["class"].upper, classes[plan.geolevel][1][own])
        if totals[plan.geolevel] is not None:
            np.testing.assert_array_equal(limits["total"].lower[:, 0], totals[plan.geolevel][own])


@pytest.mark.parametrize("rows", ["support", "all"])
def test_all_levels_together_take_exact_totals_of_counties_in_one_of_which_nobody_can_live(census, rows):
    settings = ("estimation.estimator=blue_down", "invariants.total_at=County", f"measurement.rows={rows}")
    run = run_system(census, 8, "exact", *settings)
    assert not run.executor.failed
    exact = census.summed(census.counts, "County").sum(axis=1)
    assert (exact == 0).any()
    np.testing.assert_array_equal(run.estimates["County"].sum(axis=1), exact)
