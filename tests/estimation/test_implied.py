"""Bounds that known sums imply are left out, and no others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.estimation import FamilyBounds, FamilyMeasurement, FamilyPlan, FamilyProblem, estimate_family
from das_spark.estimation.implied import without_cut, without_implied
from das_spark.histogram import Attribute, Histogram, Recode, Schema

SCHEMA = Schema(
    "small",
    (
        Attribute("kind", ("a", "b", "c", "d"), (Recode("pairs", (("ab", (0, 1)), ("cd", (2, 3)))),)),
        Attribute("age", ("young", "old")),
    ),
)
KINDS, PAIRS, AGES = (SCHEMA.query(name) for name in ("kind", "pairs", "age"))


def problem(*bounds, parent=(2, 1, 0, 3, 4, 0, 5, 5)):
    counts = np.array(parent)
    cells = np.flatnonzero(counts).astype(np.int32)
    return FamilyProblem("0", Histogram(8, cells, counts[cells]), ("1", "2"), 8, (), bounds)


def equal(values, rows=None):
    values = np.array(values)
    return FamilyBounds("kinds", KINDS, values, values, None if rows is None else np.array(rows))


def within(lower, upper, query=PAIRS):
    return FamilyBounds("pairs", query, np.array(lower), np.array(upper))


PLAN = FamilyPlan("County")
KNOWN = equal([[1, 2, 3, 4], [2, 1, 1, 6]])


def kept(*bounds, plan=PLAN, **more):
    return [bound.name for bound in without_implied(problem(*bounds, **more), plan).bounds]


def test_a_bound_on_sums_of_known_rows_that_they_keep_is_left_out():
    assert kept(KNOWN, within([[3, 0], [0, 7]], [[3, 9], [3, 7]])) == ["kinds"]


@pytest.mark.parametrize(
    ("lower", "upper"), [([[4, 0], [0, 0]], [[9, 9], [9, 9]]), ([[0, 0], [0, 0]], [[9, 9], [9, 6]])]
)
def test_one_that_they_break_stays_and_is_found_to_be_contradictory(lower, upper):
    assert kept(KNOWN, within(lower, upper)) == ["kinds", "pairs"]
    whole = replace(
        problem(KNOWN, within(lower, upper)),
        measurements=(FamilyMeasurement(KINDS, np.arange(4), np.ones((2, 4), dtype=np.int64), np.ones(2)),),
    )
    assert not estimate_family(whole, PLAN).diagnostics.status.is_usable


def test_sums_that_cut_known_rows_or_are_not_known_stay():
    free = [[0, 0], [0, 0]], [[9, 9], [9, 9]]
    assert kept(KNOWN, within(*free, query=AGES)) == ["kinds", "pairs"]
    loose = FamilyBounds("kinds", KINDS, KNOWN.lower, KNOWN.upper + 1)
    assert kept(loose, within(*free)) == ["kinds", "pairs"]
    assert kept(KNOWN) == ["kinds"]


def test_rows_that_no_cell_of_the_parent_touches_count_as_empty():
    parent = (2, 1, 0, 3, 0, 0, 0, 0)
    known = equal([[1, 2], [2, 1]], rows=[0, 1])
    assert kept(known, within([[0, 0], [0, 0]], [[3, 9], [3, 9]]), parent=parent) == ["kinds"]
    assert kept(known, within([[0, 1], [0, 0]], [[3, 9], [3, 9]]), parent=parent) == ["kinds", "pairs"]


@given(st.lists(st.integers(0, 6), min_size=8, max_size=8), st.integers(0, 2**31))
def test_what_is_left_out_changes_no_estimate(first, seed):
    """With one child's kinds known, and so the other's, bounds by pairs of kinds say nothing."""
    random = np.random.default_rng(seed)
    first = np.array(first)
    second = random.integers(0, 6, 8)
    if not (first + second).any():
        return
    kinds = np.stack([first, second]).reshape(2, 4, 2).sum(axis=2)
    pairs = kinds.reshape(2, 2, 2).sum(axis=2)
    measured = FamilyMeasurement(
        SCHEMA.query("detailed"), np.arange(8), random.integers(-3, 9, (2, 8)), np.full(2, 4.0)
    )
    bounds = (equal(kinds), within(pairs - 1, pairs + 1))
    whole = replace(problem(*bounds, parent=first + second), measurements=())
    cells = whole.parent.cells
    part = replace(measured, rows=cells.astype(np.int64), values=measured.values[:, cells])
    with_both, with_one = (
        estimate_family(replace(whole, measurements=(part,), bounds=some), PLAN) for some in (bounds, bounds[:1])
    )
    assert with_both.diagnostics.status == with_one.diagnostics.status
    assert np.array_equal(with_both.counts, with_one.counts)


#: 7 kinds, the last two of which are asked together, by 500 ages: 3,000 answers, of which known kinds cut 500.
WIDE = Schema(
    "wide",
    (
        Attribute(
            "kind",
            tuple("abcdefg"),
            (Recode("alike", (*((each, (place,)) for place, each in enumerate("abcde")), ("fg", (5, 6)))),),
        ),
        Attribute("age", tuple(map(str, range(500)))),
    ),
)


def measured(query, rows=None):
    rows = np.arange(query.rows) if rows is None else rows
    return FamilyMeasurement(query, rows, np.arange(2)[:, None] * 10_000 + rows, np.array([2.0, 3.0]))


def test_answers_that_known_sums_cut_are_left_out_where_they_are_very_many():
    query, kinds = WIDE.query("alike * age"), WIDE.query("kind")
    known = FamilyBounds("kinds", kinds, *(np.ones((2, 7), dtype=np.int64),) * 2)
    touched = np.array([3, 600, 2400, 2500, 2999])
    found = without_cut(measured(query, touched), (known,))
    assert found.rows.tolist() == [3, 600, 2400]
    assert found.values.tolist() == [[3, 600, 2400], [10_003, 10_600, 12_400]]
    cells = np.arange(WIDE.size)
    assert np.array_equal(found.query.row_of(cells), np.where(cells < 2500, query.row_of(cells), -1))
    # Nothing is known, or not exactly; few answers; answers of which known sums cut none, or most.
    loose = replace(known, upper=known.upper + 1)
    coarse = FamilyBounds("alike", WIDE.query("alike"), *(np.ones((2, 6), dtype=np.int64),) * 2)
    ages = FamilyBounds("ages", WIDE.query("age"), *(np.ones((2, 500), dtype=np.int64),) * 2)
    for query, bounds in (
        ("alike * age", ()),
        ("alike * age", (loose,)),
        ("alike * age", (coarse,)),
        ("alike", (known,)),
        ("alike", (ages,)),
        ("kind * age", (known,)),
    ):
        asked = measured(WIDE.query(query))
        assert without_cut(asked, bounds) is asked
