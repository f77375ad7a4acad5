"""Estimates that are held to published counts: what agrees passes, and every change is told of where it is."""

import pytest

from das_spark.histogram import Attribute, Schema
from das_spark.spark.checks import judge
from das_spark.spark.verify import RunTables
from das_spark.spark.verify_published import KEPT, SUMS, TABLE, published_rules

pytestmark = pytest.mark.spark

MINE = Schema("mine", (Attribute("a", ("0", "1")), Attribute("b", ("0", "1", "2"))))
THEIRS = Schema("theirs", (Attribute("b", ("0", "1", "vacant")), Attribute("d", ("0", "1"))))
QUERY = MINE.query("b")
#: The first two levels of b, and its third, which has no cell of the other product but one that is "vacant" there.
OF = THEIRS.query("b")
LEVELS = ("Root", "Leaf")
#: geocode -> level, parent, estimate by cell, published by cell.
RIGHT = {
    "0": ("Root", "", {0: 1, 3: 1, 4: 2}, {0: 1, 1: 1, 2: 2}),
    "1": ("Leaf", "0", {0: 1, 3: 1}, {0: 1, 1: 1}),
    "2": ("Leaf", "0", {4: 2}, {2: 2}),
    "3": ("Leaf", "0", {}, {}),
}
KEYS = "level string, geocode string, parent string"
COLUMNS = f"{KEYS}, cells array<int>, counts array<bigint>"


def judged(spark, rows, published=None):
    def frame(place):
        chosen = rows if place == 2 or published is None else published
        return spark.createDataFrame(
            [
                (row[0], code.rstrip("'"), row[1], [cell for cell, _ in pairs], [count for _, count in pairs])
                for code, row in chosen.items()
                for pairs in [sorted(row[place].items())]
            ],
            COLUMNS,
        )

    geounits = spark.createDataFrame([(row[0], code, row[1]) for code, row in RIGHT.items()], KEYS)
    checks = judge(published_rules(RunTables(LEVELS, geounits, frame(2)), frame(3), QUERY, OF))
    return {(check.name, check.geolevel): check.failing for check in checks if not check.passed}, checks


def test_what_agrees_passes_and_is_all_looked_at(spark):
    failing, checks = judged(spark, RIGHT)
    assert failing == {}
    assert {(check.name, check.geolevel) for check in checks} == {
        *((name, level) for name in (TABLE, KEPT) for level in LEVELS),
        (SUMS, "Leaf"),
    }
    assert all(check.checked for check in checks)


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
def test_an_estimate_with_other_answers_fails_where_it_is(spark, code, estimate):
    level, parent, before, published = RIGHT[code]
    failing, _ = judged(spark, {**RIGHT, code: (level, parent, estimate, published)})

    def margin(cells):
        return [sum(n for cell, n in cells.items() if cell % 3 == b) for b in range(3)]

    expected = {} if margin(estimate) == margin(before) else {(KEPT, level): (code,)}
    assert failing == expected


@pytest.mark.parametrize(
    ("code", "published", "names"),
    [
        ("1", {0: 2, 1: 1}, {KEPT, SUMS}),
        ("1", {0: 2}, {SUMS}),  # the same answers by other cells: the parent has them elsewhere
        ("2", {2: 0}, {TABLE, KEPT, SUMS}),
        ("3", {7: 1}, {TABLE, SUMS}),
    ],
)
def test_a_table_of_published_counts_that_is_not_whole_fails(spark, code, published, names):
    level, parent, estimate, _ = RIGHT[code]
    failing, _ = judged(spark, RIGHT, {**RIGHT, code: (level, parent, estimate, published)})
    assert {name for name, _ in failing} == names


def test_a_geounit_that_is_missing_there_or_twice_fails(spark):
    without = {code: row for code, row in RIGHT.items() if code != "3"}
    assert judged(spark, RIGHT, without)[0] == {(TABLE, "Leaf"): ("3",)}
    assert judged(spark, RIGHT, {**RIGHT, "3'": RIGHT["3"]})[0] == {(TABLE, "Leaf"): ("3",)}
