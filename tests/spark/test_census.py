"""From spines of areas back to the census: geocodes, shares, and the rules that verify them."""

from __future__ import annotations

import pytest
from dataframes import assert_frames, assert_rows

from das_spark.geography import Geolevel, Spine
from das_spark.spark.census import census_histograms, geounit_shares, on_census, on_spine, unknown_blocks

pytestmark = [pytest.mark.spark, pytest.mark.slow]

#: Two tracts of one county; on the spine the second is first, and its block stands alone.
BLOCKS = {"4400700010011000": "04421", "4400700010011001": "04421", "4400700020011000": "04411"}
PATH = {block: ["0", "044", group, f"{group}{block}"] for block, group in BLOCKS.items()}
LEVELS = ("US", "State", "Block_Group", "Block")
SHARES = {
    "4400700010011000": ["1/4", "1/4", "1/4", "1/4"],
    "4400700010011001": ["1/4", "1/4", "1/4", "1/4"],
    "4400700020011000": ["1/4", "1/4", "1/2", "0/1"],
}
SPINE = Spine((Geolevel("US", 0), Geolevel("State", 2), Geolevel("Tract", 11), Geolevel("Block", 16)))
PEOPLE = {"4400700010011000": {0: 3, 2: 1}, "4400700010011001": {}, "4400700020011000": {2: 5}}
ANY_ORDER = {"ignore_row_order": True, "ignore_nullable": True}


@pytest.fixture(scope="module")
def paths(spark):
    rows = [(block, PATH[block], SHARES[block]) for block in BLOCKS]
    return spark.createDataFrame(rows, "block string, path array<string>, shares array<string>")


def leaves(spark, codes):
    rows = [(codes[block], list(cells), list(cells.values())) for block, cells in PEOPLE.items()]
    return spark.createDataFrame(rows, "geocode string, cells array<int>, counts array<bigint>")


def test_leaves_go_to_the_spine_and_come_back(spark, paths):
    own = leaves(spark, {block: block for block in BLOCKS})
    assert_frames(on_spine(own, paths), leaves(spark, {block: PATH[block][-1] for block in BLOCKS}), **ANY_ORDER)
    assert_frames(on_census(on_spine(own, paths)), own, **ANY_ORDER)


def test_blocks_that_the_spine_does_not_know_are_found(spark, paths):
    other = spark.createDataFrame([("4400700010011000",), ("4400700099991000",)], "geocode string")
    assert_rows(unknown_blocks(other, paths.withColumnRenamed("block", "geocode")), [("4400700099991000",)])


def test_every_geounit_has_its_share_once(paths):
    expected = [
        ("US", "0", "", "1/4"),
        ("State", "044", "0", "1/4"),
        ("Block_Group", "04421", "044", "1/4"),
        ("Block_Group", "04411", "044", "1/2"),
        ("Block", "044214400700010011000", "04421", "1/4"),
        ("Block", "044214400700010011001", "04421", "1/4"),
        ("Block", "044114400700020011000", "04411", "0/1"),
    ]
    assert_rows(geounit_shares(paths, LEVELS).select("level", "geocode", "parent", "share"), expected)


def test_histograms_of_the_census_are_sums_of_blocks(spark):
    found = census_histograms(leaves(spark, {block: PATH[block][-1] for block in BLOCKS}), SPINE)
    expected = [
        ("US", "0", [0, 2], [3, 6]),
        ("State", "44", [0, 2], [3, 6]),
        ("Tract", "44007000100", [0, 2], [3, 1]),
        ("Tract", "44007000200", [2], [5]),
        ("Block", "4400700010011000", [0, 2], [3, 1]),
        ("Block", "4400700010011001", [], []),
        ("Block", "4400700020011000", [2], [5]),
    ]
    assert_rows(found.select("level", "geocode", "cells", "counts"), expected)
