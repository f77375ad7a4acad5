"""Rules on a spine that is made of areas: another value in any column fails the rule of its table, and is named."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pyarrow as pa
import pytest
from family_streams import failing, judged

from das_spark.geography import Geolevel, Spine
from das_spark.verification import RULES, CensusSums, MeasuredHaveShare, SpinePaths, share_of
from das_spark.verification.spine import paths_of

Row = dict[str, Any]
Rows = list[Row]

#: Two groups of one state; the second one stands alone, and its only block is not measured.
SPINE = Spine(
    (Geolevel("US", 0), Geolevel("State", 3), Geolevel("Block_Group", 5), Geolevel("Block", 21)), kind="optimised"
)
BLOCKS = {"4400700010011000": "04421", "4400700010011001": "04421", "4400700020011000": "04411"}
LEAVES = {block: f"{group}{block}" for block, group in BLOCKS.items()}
ALONE = LEAVES["4400700020011000"]
QUARTERS, HALF = ["1/4"] * 4, ["1/4", "1/4", "1/2", "0/1"]
PATHS, COLUMNS = "shares sum to 1 on every path", "columns of spine"


def blocks() -> Rows:
    return [
        {"block": block, "path": ["0", "044", group, LEAVES[block]], "shares": HALF if group == "04411" else QUARTERS}
        for block, group in BLOCKS.items()
    ]


def shares() -> Rows:
    rows = [("US", "0", "", "1/4"), ("State", "044", "0", "1/4")]
    rows += [("Block_Group", "04421", "044", "1/4"), ("Block_Group", "04411", "044", "1/2")]
    rows += [("Block", leaf, leaf[:5], "0/1" if leaf == ALONE else "1/4") for leaf in LEAVES.values()]
    return [dict(zip(("level", "geocode", "parent", "share"), row, strict=True)) for row in rows]


def geounits() -> Rows:
    return [{**row, "children": 0} for row in shares()]


def told(rows: Rows) -> Rows:
    kinds = {"block": pa.string(), "path": pa.list_(pa.string()), "shares": pa.list_(pa.string())}
    batch = pa.RecordBatch.from_pylist(rows, pa.schema(kinds.items()))
    return [{"level": level, **row} for level, each in paths_of(batch, SPINE) for row in each.to_pylist()]


def found(*, of: Rows | None = None, on: Rows | None = None, there: Rows | None = None) -> dict[tuple[str, str], Any]:
    """What fails of shares, blocks and geounits: rule and level -> names."""
    tables = {"shares": of or shares(), "paths": told(on or blocks()), "geounits": there or geounits()}
    tallies = judged(SpinePaths(SPINE.names), tables, SPINE)
    return {key: sorted(tally.failing) for key, tally in tallies.items() if tally.failing}


def other(value: Any) -> Any:
    if isinstance(value, list):
        return [*value[:-1], other(value[-1])]
    return value[:-1] + ("7" if value[-1] != "7" else "8")


def changed(rows: Rows, column: str, value: Any = None) -> Rows:
    return [*rows[:-1], {**rows[-1], column: other(rows[-1][column]) if value is None else value}]


def test_a_spine_as_it_was_built_passes():
    assert found() == {}
    tables = {"shares": shares(), "paths": told(blocks()), "geounits": geounits()}
    tallies = judged(SpinePaths(SPINE.names), tables, SPINE)
    assert {key: tally.checked for key, tally in tallies.items()} == {
        ("columns of shares", "US"): 1,
        ("columns of shares", "State"): 1,
        ("columns of shares", "Block_Group"): 2,
        ("columns of shares", "Block"): 3,
        (COLUMNS, "Block"): 3,
        (PATHS, "Block"): 3,
    }


def test_neighbours_say_of_geounits_above_them_once():
    rows = told(blocks())
    assert [row["geocode"] for row in rows] == ["0", "044", "04421", "04411", *LEAVES.values()]
    assert list(rows[0]) == ["level", "geocode", "parent", "share", "wrong", "whole"]


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("block", None),
        ("path", None),
        ("path", ["0", "045", "04411", ALONE]),
        ("path", ["1", "044", "04411", ALONE]),
        ("path", ["0", "044", "04411", f"{ALONE}0"]),
        ("path", ["0", "044", ALONE]),
        ("shares", [*HALF, "0/1"]),
        ("shares", HALF[:3]),
    ],
)
def test_another_value_in_a_column_of_a_block_is_named(column, value):
    names = found(on=changed(blocks(), column, value))
    endings = (" shares",) if column == "shares" else (" block", " path")
    assert any(name.endswith(endings) for name in names[COLUMNS, "Block"])


@pytest.mark.parametrize(
    ("column", "named"), [("block", f"{ALONE} block"), ("path", "? block"), ("shares", f"{ALONE} shares")]
)
def test_a_block_without_a_value_is_named(column, named):
    rows = [*blocks()[:-1], {**blocks()[-1], column: None}]
    assert found(on=rows)[COLUMNS, "Block"] == [named]


def test_every_column_of_blocks_has_a_rule():
    assert set(RULES["spine/blocks"]) == {"block", "path", "shares"}


@pytest.mark.parametrize(
    "wrong",
    [
        ["1/4", "1/4", "1/3", "0/1"],
        ["1/4", "1/4", "1/2", "1/8"],
        ["1/4", "1/4", "x", "1/2"],
        ["1/4", "1/4", "-1/2", "1"],
        ["1/4", "1/4", "0.5", "0/1"],
        [None, *HALF[1:]],
    ],
)
def test_a_path_that_spends_more_or_less_is_named(wrong):
    assert found(on=changed(blocks(), "shares", wrong))[PATHS, "Block"] == [ALONE]


def test_neither_shares_nor_blocks_can_be_changed_alone():
    rows = [{**row, "share": "1/3"} if row["geocode"] == "04411" else row for row in shares()]
    assert found(of=rows) == {("columns of shares", "Block_Group"): ["04411 share"]}
    first, second, third = blocks()
    moved = {**second, "shares": ["1/4", "1/4", "1/3", "1/6"]}  # the geounit of both blocks has two shares
    assert found(on=[first, moved, third])["columns of shares", "Block_Group"] == ["04421 share"]


@pytest.mark.parametrize("column", RULES["shares"])
def test_another_value_in_a_column_of_the_shares_is_named(column):
    names = found(of=changed(shares(), column))["columns of shares", "Block"]
    assert any(name.endswith(f" {column}") for name in names)


@pytest.mark.parametrize("column", ["parent", "share"])
def test_a_share_without_a_value_is_named(column):
    names = found(of=[*shares()[:-1], {**shares()[-1], column: None}])
    assert names["columns of shares", "Block"] == [f"{ALONE} {column}"]


def test_a_geounit_without_a_share_or_with_two_is_named():
    expected = {("columns of shares", "Block"): [f"{ALONE} geocode"]}
    assert found(of=shares()[:-1]) == expected
    assert found(of=[*shares(), shares()[-1]]) == expected
    assert found(on=blocks()[:-1])["columns of shares", "Block"] == [f"{ALONE} geocode"]
    assert found(there=geounits()[:-1])["columns of shares", "Block"] == [f"{ALONE} geocode"]


def answers(level: str, geocode: str, parent: str) -> Row:
    row = {"level": level, "geocode": geocode, "parent": parent, "query": "total", "rows": None}
    return {**row, "values": [1], "variance": 1.0}


def test_answers_of_geounits_without_a_share_are_named():
    rule = MeasuredHaveShare(SPINE.names)
    measured = [answers("Block_Group", "04411", "044"), answers("US", "0", "")]
    assert failing(rule, {"shares": shares(), "measurements": measured}, SPINE) == {}
    for row in (answers("Block", ALONE, "04411"), answers("State", "099", "0")):
        tables = {"shares": shares(), "measurements": [*measured, row]}
        assert failing(rule, tables, SPINE) == {row["level"]: [row["geocode"]]}


CENSUS = Spine((Geolevel("US", 0), Geolevel("State", 2), Geolevel("Tract", 11), Geolevel("Block", 16)))
PEOPLE = {"4400700010011000": {0: 3, 2: 1}, "4400700010011001": {}, "4400700020011000": {2: 5}}


def histogram(level: str, geocode: str, parent: str, counts: dict[int, int]) -> Row:
    row = {"level": level, "geocode": geocode, "parent": parent}
    return {**row, "cells": list(counts), "counts": list(counts.values())}


def census() -> Rows:
    """The people of the blocks, summed up by hand."""
    rows = [histogram("US", "0", "", {0: 3, 2: 6}), histogram("State", "44", "0", {0: 3, 2: 6})]
    rows += [histogram("Tract", "44007000100", "44", {0: 3, 2: 1}), histogram("Tract", "44007000200", "44", {2: 5})]
    return [*rows, *(histogram("Block", block, block[:11], counts) for block, counts in PEOPLE.items())]


def failing_sums(rows: Rows, leaves: Rows | None = None) -> dict[str, list[str]]:
    below = [row for row in census() if row["level"] == "Block"] if leaves is None else leaves
    return failing(CensusSums(CENSUS.names), {"estimates": rows, "leaves": below}, CENSUS)


def test_sums_of_blocks_pass():
    assert failing_sums(census()) == {}


@pytest.mark.parametrize(("missing", "levels"), [("44007000100", {"Tract", "State"}), ("0", {"US"})])
def test_a_census_geounit_that_is_not_told_of_is_named(missing, levels):
    """Its people are missing in the geounit above, too, which has more than the sum of the others."""
    assert set(failing_sums([row for row in census() if row["geocode"] != missing])) == levels


def test_a_block_that_is_not_told_of_or_is_unknown_is_named():
    empty = "4400700010011001"
    assert failing_sums([row for row in census() if row["geocode"] != empty]) == {"Block": [empty]}
    stranger = histogram("Block", "4400700010019999", "44007000100", {})
    assert failing_sums([*census(), stranger]) == {"Block": ["4400700010019999"]}


def test_a_geounit_of_which_nothing_is_below_or_that_is_there_twice_is_named():
    childless = histogram("Tract", "44007000300", "44", {})
    assert failing_sums([*census(), childless]) == {"Tract": ["44007000300"]}
    assert failing_sums([*census(), census()[2]])["Tract"] == ["44007000100"]


@pytest.mark.parametrize("at", ["4400700010011000", "44007000100", "44"])
@pytest.mark.parametrize("fault", ["count", "cell", "more", "crooked"])
def test_a_census_geounit_with_other_counts_is_named(at, fault):
    (row,) = [row for row in census() if row["geocode"] == at]
    cells, counts = row["cells"], row["counts"]
    wrong = {
        "count": (cells, [counts[0] + 1, *counts[1:]]),
        "cell": ([cell + 1 for cell in cells], counts),
        "more": ([*cells, 9], [*counts, 1]),
        "crooked": (cells, counts[:1]),
    }[fault]
    other = {**row, "cells": wrong[0], "counts": wrong[1]}
    names = failing_sums([other if each is row or each == row else each for each in census()])
    assert names[row["level"]] == [at]


def test_a_census_geounit_under_another_parent_is_named():
    rows = [{**row, "parent": "45"} if row["geocode"] == "44007000200" else row for row in census()]
    assert failing_sums(rows) == {"Tract": ["44007000200 parent"]}


@pytest.mark.parametrize(("text", "share"), [("1/3", Fraction(1, 3)), ("0/1", 0), ("-1/2", 0), ("abc", 0), ("1/0", 0)])
def test_what_is_no_share_is_none(text, share):
    assert share_of(text) == share
