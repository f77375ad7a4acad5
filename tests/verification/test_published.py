"""Estimates that are held to published counts: what agrees passes, and every change is told of where it is."""

from __future__ import annotations

from typing import Any

import pytest
from family_streams import judged

from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Attribute, Schema
from das_spark.verification import PublishedKept, PublishedSums, PublishedWhole

MINE = Schema("mine", (Attribute("a", ("0", "1")), Attribute("b", ("0", "1", "2"))))
THEIRS = Schema("theirs", (Attribute("b", ("0", "1", "vacant")), Attribute("d", ("0", "1"))))
#: The first two levels of b, and its third, which has no cell of the other product but one that is "vacant" there.
QUERY, OF = MINE.query("b"), THEIRS.query("b")
SPINE = Spine((Geolevel("Root", 0), Geolevel("Leaf", 1)))
KEPT, WHOLE, SUMS = "published counts kept", "published counts whole", "published counts sum up"
RULES = (PublishedWhole(SPINE.names, OF.size), PublishedKept(SPINE.names, QUERY, OF), PublishedSums(("Leaf",), OF.size))
Cells = dict[int, Any]
#: geocode -> level, parent, estimate by cell, published by cell.
RIGHT: dict[str, tuple[str, str, Cells, Cells]] = {
    "0": ("Root", "", {0: 1, 3: 1, 4: 2}, {0: 1, 1: 1, 2: 2}),
    "1": ("Leaf", "0", {0: 1, 3: 1}, {0: 1, 1: 1}),
    "2": ("Leaf", "0", {4: 2}, {2: 2}),
    "3": ("Leaf", "0", {}, {}),
}


def rows(place: int, changed: dict[str, tuple[str, str, Cells, Cells]]) -> list[dict[str, Any]]:
    return [
        {
            **{"level": level, "geocode": code.rstrip("'"), "parent": parent, "children": 3 * (level == "Root")},
            **{"cells": list(cells), "counts": list(cells.values())},
        }
        for code, (level, parent, *both) in changed.items()
        for cells in [both[place]]
    ]


def checks(estimates=RIGHT, published=RIGHT) -> dict[tuple[str, str], Any]:
    tables = {"geounits": rows(0, RIGHT), "estimates": rows(0, estimates), "published": rows(1, published)}
    return {key: tally for rule in RULES for key, tally in judged(rule, tables, SPINE).items()}


def failing(**changed) -> dict[tuple[str, str], list[str]]:
    return {key: sorted(tally.failing) for key, tally in checks(**changed).items() if tally.failing}


def with_published(code: str, published: Cells, parent: str | None = None):
    level, own, estimate, _ = RIGHT[code]
    return {**RIGHT, code: (level, own if parent is None else parent, estimate, published)}


def test_what_agrees_passes_and_is_all_looked_at():
    found = checks()
    assert {key: tally.checked for key, tally in found.items()} == {
        (WHOLE, "Root"): 1,
        (WHOLE, "Leaf"): 3,
        (KEPT, "Root"): 1 + 2,  # a geounit, and two answers
        (KEPT, "Leaf"): 3 + 2,
        (SUMS, "Leaf"): 1 + 3,  # a parent, and three cells
    }
    assert not any(tally.failing for tally in found.values())
    assert {key for rule in RULES for key in rule.expected} == {(*key, "") for key in found}


@pytest.mark.parametrize(
    ("code", "estimate"),
    [
        ("1", {0: 2}),  # one more of another cell with the same answer: nothing changes
        ("1", {0: 1, 4: 1}),
        ("2", {1: 2, 2: 1}),
        ("3", {2: 1}),
        ("0", {0: 1, 3: 1, 4: 1}),
        ("0", {}),
    ],
)
def test_an_estimate_with_other_answers_fails_where_it_is(code, estimate):
    level, parent, before, published = RIGHT[code]

    def margin(cells):
        return [sum(n for cell, n in cells.items() if cell % 3 == b) for b in range(3)]

    expected = {} if margin(estimate) == margin(before) else {(KEPT, level): [code]}
    assert failing(estimates={**RIGHT, code: (level, parent, estimate, published)}) == expected


@pytest.mark.parametrize(
    ("code", "published", "names"),
    [
        ("1", {0: 2, 1: 1}, {KEPT, SUMS}),
        ("1", {0: 2}, {SUMS}),  # the same answers by other cells: the parent has them elsewhere
        ("2", {2: 0}, {WHOLE, KEPT, SUMS}),
        ("3", {7: 1}, {WHOLE}),  # a cell that there is not
        ("3", {-1: 1}, {WHOLE}),
        ("1", {1: 1, 0: 1}, {WHOLE}),  # not ascending
        ("1", {0: 1, 1: None}, {WHOLE, KEPT, SUMS}),
        ("0", {0: 1, 1: 1, 2: 3}, {KEPT, SUMS}),
    ],
)
def test_a_table_of_published_counts_that_is_not_right_fails(code, published, names):
    level = RIGHT[code][0]
    found = failing(published=with_published(code, published))
    assert {name for name, _ in found} == names
    assert all(codes == [code if (name, at) != (SUMS, "Leaf") else "0"] for (name, at), codes in found.items())
    assert {at for name, at in found if name != SUMS} <= {level}


@pytest.mark.parametrize("parent", ["9", None])
def test_a_geounit_under_another_parent_fails(parent):
    level, _, estimate, published = RIGHT["1"]
    changed: Any = {**RIGHT, "1": (level, parent, estimate, published)}
    assert failing(published=changed) == {(WHOLE, "Leaf"): ["1"]}


def test_a_geounit_that_is_missing_there_or_twice_or_unknown_fails():
    without = {code: row for code, row in RIGHT.items() if code != "3"}
    assert failing(published=without) == {(WHOLE, "Leaf"): ["3"]}
    assert failing(published={**RIGHT, "3'": RIGHT["3"]}) == {(WHOLE, "Leaf"): ["3"]}
    assert failing(published={**RIGHT, "4": RIGHT["3"]}) == {(WHOLE, "Leaf"): ["4"]}
