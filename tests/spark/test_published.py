"""What another product has published: leaves by the census geocode, sums along the spine, and contradictions."""

import numpy as np
import pytest

from das_spark.core import GROUP_TOTAL, DividedCounts, HeldCounts
from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Attribute, Schema
from das_spark.spark.published import (
    ZEROS,
    contradictions,
    in_parts,
    published_histograms,
    same_leaves,
    unknown_leaves,
    unpublished,
)

pytestmark = pytest.mark.spark

MINE = Schema("mine", (Attribute("a", ("0", "1", "2")), Attribute("b", ("0", "1"))))
THEIRS = Schema("theirs", (Attribute("a", ("0", "1", "2")),))
HELD = HeldCounts("published:a", MINE.query("a"), THEIRS.query("a"))
GEOUNITS = "geocode string, parent string, children bigint"
HISTOGRAMS = "geocode string, parent string, cells array<int>, counts array<bigint>"
KEYS = "level string, geocode string, parent string"
BOUNDS = f"{KEYS}, name string, member string, lower array<bigint>, upper array<bigint>"
BLOCKS = ["1440070001001000", "1440070001001001", "1440070002001000"]


def codes(frame):
    return sorted(row["geocode"] for row in frame.collect())


@pytest.mark.parametrize("path", ["", "7"])
def test_leaves_are_brought_together_by_the_census_and_summed_along_the_spine(spark, path):
    length = 16 + len(path)
    levels = (Geolevel("County", len(path) + 6), Geolevel("Block", length))
    spine = Spine(levels) if not path else Spine(levels, kind="aian")
    mine = spark.createDataFrame([(path + code, (path + code)[:-10], 0) for code in BLOCKS], GEOUNITS)
    theirs = [(BLOCKS[0], "x", [0, 2], [1, 5]), (BLOCKS[1], "x", [2], [4]), (BLOCKS[2], "x", [], [])]
    leaves = same_leaves(mine, spark.createDataFrame(theirs, HISTOGRAMS), spine)
    assert codes(unpublished(leaves)) == codes(unknown_leaves(leaves)) == []
    found = {(row["level"], row["geocode"]): row for row in published_histograms(leaves, spine).collect()}
    county = path + BLOCKS[0][:6]
    assert {key: (row["cells"], row["counts"]) for key, row in found.items()} == {
        ("County", county): ([0, 2], [1, 9]),
        **{("Block", path + code): (cells, counts) for code, _, cells, counts in theirs},
    }


def test_people_of_each_leaf_are_divided_by_its_units_and_summed_along_the_spine(spark):
    spine = Spine((Geolevel("County", 6), Geolevel("Block", 16)))
    # Answers of the other product: a household and a class of two types; of this one: a household and two types.
    parts = DividedCounts(Schema("two", (Attribute("a", ("0", "1")),)).query("a"), np.array([0, 1, 1]), np.arange(3))
    theirs = [(BLOCKS[0], "x", [0, 1], [3, 5]), (BLOCKS[1], "x", [1], [4]), (BLOCKS[2], "x", [], [])]
    units = [(BLOCKS[0], [1, 2, 2]), (BLOCKS[1], [0, 0, 1]), (BLOCKS[2], [4, 0, 0])]
    mine = spark.createDataFrame([(code, code[:6], 0) for code in BLOCKS], GEOUNITS)
    leaves = same_leaves(mine, spark.createDataFrame([*theirs, ("9" * 16, "x", [], [])], HISTOGRAMS), spine)
    invariants = [(*row, name) for row, name in zip([*units, (BLOCKS[0], [7])], [*["units"] * 3, "total"], strict=True)]
    declared = spark.createDataFrame(invariants, "geocode string, values array<bigint>, name string")
    found = published_histograms(in_parts(leaves, declared, parts), spine)
    assert {(row["geocode"], tuple(row["cells"]), tuple(row["counts"])) for row in found.collect()} == {
        (BLOCKS[0][:6], (0, 1, 2), (3, 3, 6)),
        (BLOCKS[0], (0, 1, 2), (3, 3, 2)),
        (BLOCKS[1], (2,), (4,)),
        (BLOCKS[2], (), ()),
    }


def test_leaves_of_one_run_alone_are_named(spark):
    spine = Spine((Geolevel("County", 6), Geolevel("Block", 16)))
    mine = spark.createDataFrame([(code, "", 0) for code in BLOCKS[:2]], GEOUNITS)
    theirs = [(BLOCKS[0], "x", [0], [1]), (BLOCKS[2], "x", [1], [4]), ("1440070003001000", "x", [], [])]
    leaves = same_leaves(mine, spark.createDataFrame(theirs, HISTOGRAMS), spine)
    assert codes(unpublished(leaves)) == [BLOCKS[1]]
    assert codes(unknown_leaves(leaves)) == [BLOCKS[2]]


def test_contradictions_are_those_of_every_geounit_by_itself(spark):
    random = np.random.default_rng(3)
    answers = {"total": HELD.query.answers_in(MINE.query("total")), "class": np.array([0, 0, 1])}
    possible = np.array([True, True, False])
    rows, limits, expected = [], [], set()
    for number in range(60):
        code, counts = f"{number:03d}", random.integers(0, 3, 3) * random.integers(0, 2, 3)
        cells = np.flatnonzero(counts)
        rows.append(("Block", code, "", cells.tolist(), counts[cells].tolist()))
        exact = int(counts.sum() + random.integers(0, 2))
        limits.append(("Block", code, "", "total", code, [exact], [exact]))
        low, high = random.integers(0, 2, 2), random.integers(1, 4, 2)
        limits.append(("Block", code, "", "class", code, low.tolist(), high.tolist()))
        classes = np.array([counts[:2].sum(), counts[2]])
        expected |= {("Block", code, "total")} if counts.sum() != exact else set()
        expected |= {("Block", code, "class")} if ((classes < low) | (classes > high)).any() else set()
        expected |= {("Block", code, ZEROS)} if counts[2] else set()
    published = spark.createDataFrame(rows, f"level string, {HISTOGRAMS}")
    found = contradictions(published, spark.createDataFrame(limits, BOUNDS), HELD, answers, possible)
    assert {tuple(row) for row in found.collect()} == expected
    assert 40 < len(expected) < 150


def test_the_members_of_a_group_have_its_total_together(spark):
    published = [("State", "01", "", [0], [3]), ("State", "11", "", [1], [2]), ("State", "02", "", [], [])]
    bounds = [
        ("State", "01", "", GROUP_TOTAL, "1", [5], [5]),
        ("State", "11", "", GROUP_TOTAL, "1", [5], [5]),
        ("State", "02", "", GROUP_TOTAL, "2", [1], [1]),
    ]
    answers = {"total": HELD.query.answers_in(MINE.query("total"))}
    found = contradictions(
        spark.createDataFrame(published, f"level string, {HISTOGRAMS}"),
        spark.createDataFrame(bounds, BOUNDS),
        HELD,
        answers,
        np.ones(3, dtype=bool),
    )
    assert [tuple(row) for row in found.collect()] == [("State", "02", GROUP_TOTAL)]
