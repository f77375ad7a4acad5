"""Tables of blocks: what they say, and what is refused."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest

from das_spark.errors import GeographyError
from das_spark.geography import ENTITY_COLUMNS, BlockTable


def test_the_table_knows_its_county(worked_example) -> None:
    assert (worked_example.state, worked_example.county, len(worked_example)) == ("04", "001", 9)
    assert worked_example.tract[0] == "04001000100"
    assert worked_example.block_group[4] == "040010001002"
    assert worked_example.rows(np.array([4, 0])).geocode16.tolist() == ["0400100010022000", "0400100010011000"]


def test_every_column_but_the_geocode_and_group_quarters_is_of_an_entity() -> None:
    assert [field.name for field in fields(BlockTable)] == ["geocode16", *ENTITY_COLUMNS, "gq"]


def change(table: BlockTable, column: str, row: int, value: str) -> BlockTable:
    values = getattr(table, column).astype(object)
    values[row] = value
    return replace(table, **{column: values})


@pytest.mark.parametrize(
    ("column", "row", "value", "message"),
    [
        ("geocode16", 1, "0400100010011000", "occurs twice"),
        ("geocode16", 1, "0400100010021001", "block group 2"),
        ("geocode16", 1, "0400300010011001", "two counties"),
        ("geocode16", 1, "040010001001100", "geocode16"),
        ("aiannhce", 0, "999", "aiannhce"),
        ("placefp", 0, "1111x", "placefp"),
        ("cousubfp", 0, "", "cousubfp"),
        ("cousubfs", 0, "AB", "cousubfs"),
        ("sdunilea", 0, "123456", "sdunilea"),
    ],
)
def test_a_wrong_value_is_refused(worked_example, column: str, row: int, value: str, message: str) -> None:
    with pytest.raises(GeographyError, match=message):
        change(worked_example, column, row, value)


@pytest.mark.parametrize("column", [field.name for field in fields(BlockTable)])
def test_a_missing_or_short_column_is_named(worked_example, column: str) -> None:
    with pytest.raises(GeographyError, match=column):
        replace(worked_example, **{column: None})
    with pytest.raises(GeographyError, match="rows"):
        replace(worked_example, **{column: getattr(worked_example, column)[:-1]})


def test_a_county_without_blocks_is_refused(worked_example) -> None:
    with pytest.raises(GeographyError, match="without blocks"):
        worked_example.rows(np.empty(0, dtype=np.int64))


def test_group_quarters_have_seven_types(worked_example) -> None:
    with pytest.raises(GeographyError, match="gq"):
        replace(worked_example, gq=np.zeros((9, 6), dtype=bool))
