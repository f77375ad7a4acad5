"""From spines of areas back to the census: geocodes, shares, and the rules that verify them."""

from __future__ import annotations

import pytest
from dataframes import assert_frames, assert_rows

from das_spark.geography import Geolevel, Spine
from das_spark.spark import tables
from das_spark.spark.census import census_histograms, geounit_shares, on_census, on_spine, unknown_blocks
from das_spark.spark.checks import judge
from das_spark.spark.verify import RunTables
from das_spark.spark.verify_spine import CENSUS, MEASURED, PATHS, spine_rules

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


def judged(spark, paths, *, shares=None, measured=(), change=(), other=None):
    """Checks of a run whose estimates are the truth, with something changed."""
    of_spine = leaves(spark, {block: PATH[block][-1] for block in BLOCKS}).selectExpr("'Block' as level", "*")
    estimates = of_spine.selectExpr("level", "geocode", "'' as parent", "cells", "counts")
    census = census_histograms(of_spine.drop("level"), SPINE)
    told = census.where(" and ".join(["true", *change]))
    for geocode, (cells, counts) in (other or {}).items():
        here = f"geocode = '{geocode}'"
        arrays = [f"if({here}, {cells}, cells) as cells", f"if({here}, {counts}, counts) as counts"]
        told = told.selectExpr("level", "geocode", "parent", *arrays)
    read = RunTables(LEVELS, estimates, estimates)
    rows = spark.createDataFrame(list(measured), "level string, geocode string")
    every = geounit_shares(paths, LEVELS) if shares is None else shares
    rules = spine_rules(every, rows, read, RunTables(SPINE.names, told, told), SPINE)
    return {(check.name, check.geolevel): check for check in judge(rules)}


def test_a_run_that_keeps_its_budget_passes(spark, paths):
    assert tables.SHARES.fieldNames() == ["geocode", "parent", "share"]
    checks = judged(spark, paths, measured=[("Block_Group", "04411"), ("US", "0")])
    assert all(check.passed for check in checks.values()), checks
    assert checks[PATHS, "Block"].checked == 3


def test_a_path_that_spends_more_or_less_is_named(spark, paths):
    more = geounit_shares(paths, LEVELS).selectExpr(
        "level", "geocode", "parent", "if(geocode = '04411', '1/3', share) as share"
    )
    check = judged(spark, paths, shares=more)[PATHS, "Block"]
    assert not check.passed
    assert check.failing == ("044114400700020011000",)


def test_answers_of_geounits_without_a_share_are_named(spark, paths):
    check = judged(spark, paths, measured=[("Block", "044114400700020011000")])[MEASURED, "Block"]
    assert not check.passed
    assert check.failing == ("044114400700020011000",)
    stranger = judged(spark, paths, measured=[("State", "099")])[MEASURED, "State"]
    assert stranger.failing == ("099",)


@pytest.mark.parametrize(
    ("change", "levels"), [("geocode != '44007000100'", {"Tract", "State"}), ("level != 'US'", {"US"})]
)
def test_a_census_geounit_that_is_not_told_of_is_named(spark, paths, change, levels):
    """Its people are missing in the geounit above, too, which has more than the sum of the others."""
    checks = judged(spark, paths, change=[change])
    assert {key for key, check in checks.items() if not check.passed} == {(CENSUS, level) for level in levels}


@pytest.mark.parametrize("at", ["4400700010011000", "44007000100", "44"])
@pytest.mark.parametrize("fault", ["count", "cell", "more"])
def test_a_census_geounit_with_other_counts_is_named(spark, paths, at, fault):
    changed = {
        "count": ("cells", "transform(counts, (each, place) -> if(place = 0, each + 1, each))"),
        "cell": ("transform(cells, each -> each + 1)", "counts"),
        "more": ("array_append(cells, 9)", "array_append(counts, 1L)"),
    }[fault]
    checks = judged(spark, paths, other={at: changed})
    level = {16: "Block", 11: "Tract", 2: "State"}[len(at)]
    assert not checks[CENSUS, level].passed
    assert checks[CENSUS, level].failing == (at,)
