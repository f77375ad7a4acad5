"""Another value in any column of a spine that is made of areas, or of its shares, fails the rule of that table."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import functions as F

from das_spark.geography import Geolevel, Spine
from das_spark.spark.checks import Rule, judge
from das_spark.spark.verify import RunTables
from das_spark.spark.verify_columns import parent_columns
from das_spark.spark.verify_spine import block_columns, share_columns, share_of
from das_spark.verification import RULES

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SPINE = Spine((Geolevel("State", 3), Geolevel("County", 6), Geolevel("Block", 26)), kind="optimised")
COUNTY = "144007"
BLOCKS = ("4400700010011001", "4400700010011002", "4400700020022001")
PATHS = {block: ["144", COUNTY, f"{COUNTY}000{number}{block}"] for number, block in enumerate(BLOCKS)}
SHARES = {block: ["1/2", "1/4", "1/4"] for block in BLOCKS}
TEXTS = pa.list_(pa.string())

Rows = list[dict[str, Any]]


def blocks() -> Rows:
    return [{"block": block, "path": PATHS[block], "shares": SHARES[block]} for block in BLOCKS]


def shares() -> Rows:
    upper = [("State", "144", "", "1/2"), ("County", COUNTY, "144", "1/4")]
    rows = [*upper, *[("Block", path[-1], COUNTY, "1/4") for path in PATHS.values()]]
    return [dict(zip(("level", "geocode", "parent", "share"), row, strict=True)) for row in rows]


def other(value: Any) -> Any:
    return (
        [*value[:-1], other(value[-1])] if isinstance(value, list) else value[:-1] + ("7" if value[-1] != "7" else "8")
    )


def frame(spark, rows: Rows):
    kinds = {name: TEXTS if isinstance(value, list) else pa.string() for name, value in rows[0].items()}
    return spark.createDataFrame(pa.Table.from_pylist(rows, pa.schema(kinds.items())))


def failing(rule: Rule) -> tuple[str, ...]:
    return tuple(name for check in judge([rule]) if not check.passed for name in check.failing)


def geounits(spark) -> RunTables:
    rows = frame(spark, shares()).drop("share").withColumn("children", F.lit(0))
    return RunTables(SPINE.names, rows, rows)


def changed(rows: Rows, column: str) -> Rows:
    return [*rows[:-1], {**rows[-1], column: other(rows[-1][column])}]


def test_a_spine_as_it_was_built_passes(spark):
    assert failing(block_columns(frame(spark, blocks()), SPINE)) == ()
    assert failing(share_columns(frame(spark, shares()), frame(spark, blocks()), geounits(spark), SPINE)) == ()


@pytest.mark.parametrize("column", RULES["spine/blocks"])
def test_another_value_in_a_column_of_the_blocks_fails(spark, column):
    rows = frame(spark, changed(blocks(), column))
    found = (
        *failing(block_columns(rows, SPINE)),
        *failing(share_columns(frame(spark, shares()), rows, geounits(spark), SPINE)),
    )
    assert found


@pytest.mark.parametrize("column", RULES["shares"])
def test_another_value_in_a_column_of_the_shares_fails_and_is_named(spark, column):
    rows = frame(spark, changed(shares(), column))
    found = failing(share_columns(rows, frame(spark, blocks()), geounits(spark), SPINE))
    assert any(name.endswith(f" {column}") for name in found)


def test_a_geounit_without_a_share_fails(spark):
    rows = frame(spark, shares()[:-1])
    found = failing(share_columns(rows, frame(spark, blocks()), geounits(spark), SPINE))
    assert found == (f"{PATHS[BLOCKS[-1]][-1]} geocode",)


def test_a_census_geounit_under_another_parent_fails(spark):
    census = Spine((Geolevel("State", 2), Geolevel("County", 5)))
    rows = [
        {"level": "State", "geocode": "44", "parent": ""},
        {"level": "County", "geocode": "44007", "parent": "44"},
    ]
    assert failing(parent_columns(frame(spark, rows), "census_estimates", census)) == ()
    rows[1]["parent"] = "45"
    assert failing(parent_columns(frame(spark, rows), "census_estimates", census)) == ("44007 parent",)


@pytest.mark.parametrize(("text", "share"), [("1/3", Fraction(1, 3)), ("0/1", 0), ("-1/2", 0), ("abc", 0), ("1/0", 0)])
def test_what_is_no_share_is_none(text, share):
    assert share_of(text) == share
