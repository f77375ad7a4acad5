"""Standard errors of named statistics: dense least squares on whole trees, and sums of answers counted by hand."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from das_spark.config import (
    Method,
    NamedStatistic,
    expected_errors,
    load_plan,
    method_of,
    read_statistic,
    statistic_errors,
)
from das_spark.errors import Problems

CONF = Path(__file__).parents[2] / "conf"
LEVELS = ("National", "State", "County", "Enumdist")
COUNTS = {"National": 1, "State": 2, "County": 4, "Enumdist": 8}
QUERIES = ("total", "hhgq", "race", "age18plus * hispanic", "detailed")


def plan_1940(*settings):
    return load_plan(CONF / "e2e_1940.toml", settings=settings, files=False)


def rows_of(plan, query, cells):
    rows = plan.product.schema.query(query).row_of(cells)
    return (rows[None, :] == np.arange(plan.product.schema.query(query).rows)[:, None]).astype(float)


def dense_error(plan, sums, measured, statistic):
    """The largest standard error by all of some measurements: information of the cells of all leaves, inverted.

    Args:
        plan: The run.
        sums: By geolevel, which leaves lie in which geounits.
        measured: Geolevels whose measurements are taken.
        statistic: Query and geolevel.
    """
    cells = np.flatnonzero(~plan.product.zero_cells())
    leaves = next(iter(sums.values())).shape[1]
    information = np.zeros((leaves * len(cells),) * 2)
    for level in measured:
        for item in plan.budget.level(level).queries:
            rows = np.kron(sums[level], rows_of(plan, item.query, cells))
            information += rows.T @ rows / float(plan.budget.mechanism(level, item.query).variance())
    for level in plan.invariants.total_levels(plan.spine.names):
        if level in measured:
            rows = np.kron(sums[level], np.ones((1, len(cells))))
            information += 1e2 * rows.T @ rows
    covariance = np.linalg.pinv(information, rcond=1e-15, hermitian=True)
    wanted = np.kron(sums[statistic[1]][:1], rows_of(plan, statistic[0], cells))
    return float(np.sqrt(np.diagonal(wanted @ covariance @ wanted.T).max()))


def test_errors_by_all_measurements_are_those_of_the_whole_tree():
    """Of discrete Laplace noise, on a tree whose counties are single children, and so not measured."""
    plan = plan_1940()
    counts = {"National": 1, "State": 2, "County": 2, "Enumdist": 4}
    sums = {"National": np.ones((1, 4)), "State": np.kron(np.eye(2), np.ones((1, 2))), "Enumdist": np.eye(4)}
    asked = [NamedStatistic(query, level) for query in QUERIES for level in sums]
    found = statistic_errors(plan, asked, counts, Method.ALL)
    for each, error in zip(asked, found, strict=True):
        expected = dense_error(plan, sums, tuple(sums), (each.query, each.geolevel))
        assert error == pytest.approx(expected, rel=2e-3, abs=0.2 if each.query == "total" else 0)
    totals = [NamedStatistic("total", level) for level in LEVELS]
    assert [error > 0 for error in statistic_errors(plan, totals, counts, Method.ALL)] == [False, False, False, True]


def test_errors_under_gaussian_noise_are_those_of_the_whole_tree():
    plan = load_plan(CONF / "pl94_2020_unit.toml", files=False)
    names = plan.spine.names
    counts = {name: 2**depth for depth, name in enumerate(names)}
    leaves = 2 ** (len(names) - 1)
    sums = {name: np.kron(np.eye(count), np.ones((1, leaves // count))) for name, count in counts.items()}
    queries = dict.fromkeys(item.query for level in plan.budget.levels for item in level.queries)
    asked = [NamedStatistic(plan.queries[query].name, name) for query in queries for name in names]
    for each, error in zip(asked, statistic_errors(plan, asked, counts, Method.ALL), strict=True):
        expected = dense_error(plan, sums, names, (each.query, each.geolevel))
        assert error == pytest.approx(expected, rel=2e-3, abs=0.2 if each.query == "total" else 0)


def test_errors_of_a_geolevel_alone_are_those_of_one_geounit():
    plan = plan_1940()
    asked = [NamedStatistic(query, level) for query in QUERIES for level in LEVELS]
    for each, error in zip(asked, statistic_errors(plan, asked, {}, Method.GEOLEVEL), strict=True):
        expected = dense_error(plan, {each.geolevel: np.eye(1)}, (each.geolevel,), (each.query, each.geolevel))
        assert error == pytest.approx(expected, rel=2e-3, abs=0.2 if each.query == "total" else 0)


def test_more_measurements_are_never_worse():
    plan = plan_1940()
    asked = [NamedStatistic(query, level) for query in QUERIES for level in LEVELS]
    by = [np.array(statistic_errors(plan, asked, COUNTS, method)) for method in Method]
    assert [method.name for method in Method] == ["ALL", "GEOLEVEL", "QUERY"]
    assert all((better <= worse * (1 + 1e-9)).all() for better, worse in pairwise(by))
    assert (by[0] < by[1] * 0.99).any()


def test_of_one_query_the_noise_of_its_answers_is_summed():
    plan = plan_1940()
    level = "County"
    variances = {
        item.query: float(plan.budget.mechanism(level, item.query).variance())
        for item in plan.budget.level(level).queries
    }
    hhgq, middle, detailed = (variances[name] for name in ("hhgq", "age18plus * hispanic * race", "detailed"))
    schema = plan.product.schema
    races, alive = schema.query("race"), np.flatnonzero(~plan.product.zero_cells())
    asked = [NamedStatistic(name, level) for name in ("hhgq", "race", "hhgq * race", "detailed")]
    found = statistic_errors(plan, asked, {}, Method.QUERY)
    # four answers of the middle query have one race; cells that nobody can be in are counted in no sum
    of_detailed = max(np.bincount(schema.query("hhgq * race").row_of(alive)))
    assert races.rows * 4 == schema.query("age18plus * hispanic * race").rows
    assert found == pytest.approx(
        [math.sqrt(each) for each in (hhgq, 4 * middle, of_detailed * detailed, detailed)], rel=1e-12
    )


def test_what_nothing_determines_has_no_error():
    settings = ('budget.queries={"hhgq"="1/2", "race"="1/2"}',)
    plan = plan_1940(*settings)
    asked = [NamedStatistic(query, "County") for query in ("hhgq", "total", "hhgq * race", "age18plus")]
    for method in Method:
        found = statistic_errors(plan, asked, COUNTS, method)
        assert [math.isinf(error) for error in found] == [False, False, True, True], method


def test_errors_are_those_that_plans_expect_of_a_table():
    """The total and the ethnic groups, by the computation that goes up and down the tree family by family."""
    counts = {"Nation": 1, "Local_Authority": 4, "MSOA": 12, "LSOA": 48, "Output_Area": 240}
    plan = load_plan(CONF / "england_and_wales_like.toml", settings=["invariants.units=false"], files=False)
    (table,) = (table for table in plan.product.tables if table.name == "TS021")
    asked = [NamedStatistic(query, name) for name in counts for query in ("total", "ethnic_high")]
    found = iter(statistic_errors(plan, asked, counts, method_of(plan, counts)))
    for errors in expected_errors(plan, counts, [table]):
        assert next(found) == pytest.approx(errors.everywhere[0], rel=1e-3, abs=1e-4)
        assert next(found) == pytest.approx(errors.everywhere[1:].max(), rel=1e-3)


def test_the_method_is_the_best_that_is_known_enough_for():
    plan = plan_1940()
    assert method_of(plan, COUNTS) is Method.ALL
    assert method_of(plan, {"National": 1}) is Method.GEOLEVEL
    many = load_plan(CONF / "dhc_2020_person.toml", settings=["input.dataset=people"], files=False)
    assert method_of(many, dict.fromkeys(many.spine.names, 1)) is Method.QUERY


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("race", "write QUERY@GEOLEVEL"),
        ("race@Ward", "the run has the geolevels National, State, County, Enumdist"),
        ("rase@County", "race"),
    ],
)
def test_what_is_wrong_with_a_statistic_is_said(text, said):
    problems = Problems("")
    assert read_statistic(text, plan_1940(), problems) is None
    ((key, sentence),) = problems.found
    assert key == text
    assert said in sentence


def test_names_are_read_as_people_write_them():
    problems = Problems("")
    assert read_statistic(" race * hhgq@county", plan_1940(), problems) == NamedStatistic("hhgq * race", "County")
    assert not problems.found
