"""Tidy geography: by name, from CSV or Parquet, with blocks of 15 or 16 digits."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyarrow import parquet

from das_spark.errors import InputError
from das_spark.spark.problems import BadInputError
from das_spark.spark.readers import GEOGRAPHY_READERS

pytestmark = [pytest.mark.spark, pytest.mark.slow]


@pytest.fixture
def read(spark):
    return lambda path: GEOGRAPHY_READERS["tidy"].read(spark, str(path))


def test_blocks_of_fifteen_digits_are_read_as_well(read, tmp_path, tidy, contents, expected):
    rows = [{**row, "block": row["geocode"][:11] + row["geocode"][12:]} for row in tidy.rows()]
    for row in rows:
        del row["geocode"]
    assert contents(read(tidy.write(tmp_path / "blocks.csv", rows))) == expected


def test_nulls_say_that_a_block_lies_nowhere(read, tmp_path, tidy, contents):
    rows = [{**row, "aiannhce": None} for row in tidy.rows()]
    parquet.write_table(pa.Table.from_pylist(rows), tmp_path / "blocks.parquet")
    assert {row["aiannhce"] for row in contents(read(tmp_path / "blocks.parquet")).values()} == {"9999"}


@pytest.mark.parametrize("column", ["aiannhce", "sdelmlea"])
def test_a_missing_entity_column_is_named(read, tmp_path, tidy, column):
    rows = [{name: value for name, value in row.items() if name != column} for row in tidy.rows()]
    with pytest.raises(InputError, match=f"no column '{column}'.*a column of nulls"):
        read(tidy.write(tmp_path / "blocks.csv", rows))


def test_a_missing_geocode_column_is_named(read, tmp_path, tidy):
    rows = [{name: value for name, value in row.items() if name != "geocode"} for row in tidy.rows()]
    with pytest.raises(InputError, match="no column 'geocode' of 16 digits, and no 'block' of 15"):
        read(tidy.write(tmp_path / "blocks.csv", rows))


def test_numbers_that_lost_their_zeros_and_missing_geocodes_are_named(read, tmp_path, tidy):
    rows = tidy.rows()
    rows[0]["cousubfp"], rows[2]["geocode"] = "5140", ""
    with pytest.raises(BadInputError) as caught:
        read(tidy.write(tmp_path / "blocks.csv", rows))
    assert [(problem.field, problem.rows) for problem in caught.value.problems] == [("geocode", 1), ("cousubfp", 1)]
