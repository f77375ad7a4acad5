"""The equality of a family: every answer that was published, and no other."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.audit import SmallPopulation
from das_spark.audit.inputs import neighbouring_inputs
from das_spark.audit.system import LocalSystem
from das_spark.config import level_plan, plan_of
from das_spark.core import (
    ESTIMATORS,
    DeclaredBounds,
    DividedCounts,
    HeldCounts,
    LevelPlan,
    PublishedFamily,
    read_family,
    saved_family,
)
from das_spark.core.family import MeasuredFamily
from das_spark.core.published import divided, held_bounds, held_on
from das_spark.errors import EstimationError
from das_spark.estimation import FamilyPlan
from das_spark.histogram import Attribute, Histogram, Schema
from das_spark.privacy import RunKey

sys.path.insert(0, str(Path(__file__).parents[1] / "pipeline"))
import held_runs

MINE = Schema("mine", (Attribute("a", ("0", "1")), Attribute("b", ("0", "1", "2")), Attribute("c", ("0", "1"))))
THEIRS = Schema("theirs", (Attribute("b", ("0", "1", "2")), Attribute("d", ("0", "1"))))
HELD = HeldCounts("published:b", MINE.query("b"), THEIRS.query("b"))


def published(**dense):
    return PublishedFamily.of({code: Histogram.from_dense(np.array(counts)) for code, counts in dense.items()})


def test_answers_of_a_family_are_those_of_its_children():
    bound = held_bounds(HELD, ("x", "y", "z"), published(x=[1, 2, 0, 0, 0, 0], y=[0, 0, 0, 0, 4, 1], z=[0] * 6))
    assert bound.rows.tolist() == [0, 2]
    assert bound.lower.tolist() == bound.upper.tolist() == [[3, 0], [0, 5], [0, 0]]


def test_nobody_is_published_nowhere():
    bound = held_bounds(HELD, ("x",), published(x=[0] * 6))
    assert bound.rows.tolist() == []
    assert held_on(bound, None).upper.tolist() == [[0, 0, 0]]


@pytest.mark.parametrize("given", [None, published(x=[1] * 6), published(x=[1] * 6, z=[1] * 6)])
def test_a_child_of_which_nothing_was_published_is_refused(given):
    with pytest.raises(EstimationError, match=r"no published counts, or several, of [xyz]$"):
        held_bounds(HELD, ("x", "y"), given)


def test_what_occurs_in_no_child_is_zero_wherever_the_parent_may_be():
    bound = held_bounds(HELD, ("x", "y"), published(x=[0, 0, 1, 0, 0, 0], y=[0, 0, 2, 0, 0, 0]))
    parent = Histogram.from_dense(np.array([0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0]))  # b = 1 twice
    assert held_on(bound, parent) is bound
    elsewhere = Histogram.from_dense(np.array([1, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]))  # b = 0 and b = 1
    assert held_on(bound, elsewhere).rows.tolist() == [0, 1]
    assert held_on(bound, elsewhere).upper.tolist() == [[0, 1], [0, 2]]
    for every in (held_on(bound, None), held_on(bound, parent, everywhere=True)):
        assert every.rows.tolist() == [0, 1, 2]
        assert every.lower.tolist() == every.upper.tolist() == [[0, 1, 0], [0, 2, 0]]


@pytest.mark.parametrize(("held", "classes", "kept"), [(HELD, "b", False), (HELD, "a", True), (None, "b", True)])
def test_class_margins_are_divided_among_descendants_unless_they_are_published(held, classes, kept):
    query = MINE.query(classes)
    plan = LevelPlan(MINE.size, {"class": query}, FamilyPlan("level"), ESTIMATORS["top_down"], held)
    sides = (np.array([[*(side,) * query.rows, 6]]) for side in (0, 6))  # of a descendant of six people
    bounds = {"flow": DeclaredBounds(("x",), ("xa",), *sides)}
    problem = plan.declared("", ("x",), bounds, published(x=[1] * 6))
    assert (problem.flows is not None) == kept


def fine_plan(estimator="top_down", rows="support", **more):
    tables = {
        "config_version": 1,
        "run": {"product": held_runs.FINE},
        "input": {"reader": "tidy_counts", "path": "population", "published": "elsewhere"},
        "budget": {"strategy": "usual"},
        "estimation": {"estimator": estimator, **more},
        "measurement": {"rows": rows},
    }
    return plan_of(tables, "test", files=False)


@pytest.mark.parametrize(
    "settings",
    [*({"estimator": name} for name in ESTIMATORS), {"rows": "all", "failsafe": True}],
    ids=[*ESTIMATORS, "failsafe"],
)
@pytest.mark.parametrize("own", [True, False])
def test_every_estimate_of_a_run_in_memory_has_the_published_answers(settings, own, monkeypatch):
    held_runs.registered(monkeypatch)
    plan = fine_plan(**settings)
    query = plan.product.schema.query("home * age * sex")
    first = neighbouring_inputs(plan)[1].first
    told = first.counts
    if not own:  # other people of the same class, sex and place, all of the least age
        told = np.zeros_like(first.counts)
        for place, counts in enumerate(first.counts):
            for cell in np.flatnonzero(counts):
                levels = list(np.unravel_index(cell, plan.product.schema.shape))
                levels[plan.product.schema.axis("age")] = 0
                told[place, np.ravel_multi_index(levels, plan.product.schema.shape)] += counts[cell]
    system = LocalSystem(plan)
    population = SmallPopulation(first.geocodes, first.counts, first.units)
    ran = system.run(system.ingest(population, told), RunKey.insecure("held"))
    assert ran.failed == ()
    for depth, level in enumerate(plan.spine.names):
        answers = query.answer_dense(first.summed(told, plan.spine, depth))
        wanted = dict(zip(first.codes(plan.spine, depth), answers, strict=True))
        found = {code: query.answer(each.cells, each.counts).tolist() for code, each in ran.estimates[level].items()}
        assert found == {code: each.tolist() for code, each in wanted.items()}


def test_a_family_that_is_saved_keeps_which_answers_are_held(monkeypatch):
    held_runs.registered(monkeypatch)
    plan = fine_plan()
    first, system = neighbouring_inputs(plan)[1].first, LocalSystem(plan)
    declared = next(iter(system.ingest(first)["Block"].declared.values()))
    again = read_family(saved_family(MeasuredFamily(declared)), level_plan(plan, "Block")).problem
    for mine, read in zip(declared.bounds, again.bounds, strict=True):
        assert (mine.rows is None) == (read.rows is None)
        assert mine.rows is None or mine.rows.tolist() == read.rows.tolist()
        assert mine.lower.tolist() == read.lower.tolist()


#: Published answers: 2 classes by 3 ages. Parts: by 1 and 3 classes of units, by the same ages.
COARSE = Schema("coarse", (Attribute("class", ("0", "1")), Attribute("age", ("0", "1", "2"))))
PARTS = DividedCounts(
    COARSE.query("detailed"), np.repeat([0, 3], [3, 9]) + np.tile([0, 1, 2], 4), np.repeat(range(4), 3)
)
LEAVES = st.lists(
    st.tuples(
        st.lists(st.integers(0, 40), min_size=6, max_size=6), st.lists(st.integers(0, 3), min_size=4, max_size=4)
    ),
    min_size=1,
    max_size=4,
)


@given(LEAVES)
def test_people_of_a_class_are_divided_among_the_types_that_have_units(leaves):
    counts, units = (np.array(each) for each in zip(*leaves, strict=True))
    leaf, cells = np.nonzero(counts)
    rows, part, records = PARTS.divide(leaf, cells, counts[leaf, cells], units)
    assert (np.diff(rows * 12 + part) > 0).all()
    assert (records > 0).all()
    found = np.zeros((len(leaves), 4, 3), dtype=np.int64)
    found[rows, part // 3, part % 3] = records
    assert np.array_equal(found[:, 0], counts[:, :3])
    assert np.array_equal(found[:, 1:].sum(axis=1), counts[:, 3:])
    for own, facilities in zip(found[:, 1:], units[:, 1:], strict=True):
        people, everybody = own.sum(axis=1), own.sum()
        if not facilities.any():
            assert people.tolist() == [everybody, 0, 0]  # which the bounds of the first type forbid
            continue
        wanted = everybody * facilities / facilities.sum()
        assert (np.abs(people - wanted) < 1).all()
        assert not people[facilities == 0].any()
        assert everybody < facilities.sum() or (people >= facilities).all()
        # No type has people of some ages alone: each has its share of every age, to a person for each type.
        assert (np.abs(own - own.sum(axis=0) * people[:, None] / max(everybody, 1)) <= len(people)).all()


def test_shares_that_are_alike_differ_by_one():
    assert divided(np.array([2, 3]), np.array([5, 5])).sum(axis=0).tolist() == [3, 2]
    assert divided(np.array([40, 20]), np.array([2, 1])).tolist() == [[27, 13], [13, 7]]
