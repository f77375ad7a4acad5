"""The digest of a table: the same for the same rows in any order, another one for any other rows."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from das_spark.errors import InputError
from das_spark.io.listed_files import ROW
from das_spark.spark.catalog import TableDigest, catalog_rows, table_digest
from das_spark.spark.session import temporary_properties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark]

DATABASE = "digested"
SCHEMA = "geocode string, count bigint, at timestamp, share double"
NOON = datetime.datetime(2020, 4, 1, 12, 0, 0, 123456, tzinfo=datetime.UTC)
ROWS = [("01", 3, NOON, 0.5), ("02", None, None, None), ("02", 0, NOON, -0.0), ("01", 3, NOON, 0.5)]

Digest = Callable[["DataFrame"], TableDigest]


@pytest.fixture
def digest(spark: SparkSession) -> Iterator[Digest]:
    """Save rows as a table, and give its digest."""
    spark.sql(f"CREATE DATABASE {DATABASE}")

    def of(frame: DataFrame) -> TableDigest:
        frame.write.mode("overwrite").saveAsTable(f"{DATABASE}.t")
        return table_digest(spark, f"table:{DATABASE}.t")

    yield of
    spark.sql(f"DROP DATABASE {DATABASE} CASCADE")


def test_order_of_rows_and_columns_files_and_zone_decide_nothing(spark, digest):
    frame = spark.createDataFrame(ROWS, SCHEMA)
    found = digest(frame.coalesce(1))
    assert found.rows == len(ROWS)
    assert len(found.sha256) == 64
    assert digest(frame.repartition(3).sortWithinPartitions("count")) == found
    assert digest(frame.select("share", "geocode", "at", "count")) == found
    with temporary_properties(spark, {"spark.sql.session.timeZone": "Asia/Tokyo"}):
        assert table_digest(spark, f"table:{DATABASE}.t") == found


@pytest.mark.parametrize(
    "other",
    [
        ROWS[:3],  # a row that stood twice stands once
        [*ROWS, ROWS[0]],
        [*ROWS[:3], ("01", 3, NOON.replace(microsecond=123457), 0.5)],
        [*ROWS[:3], ("01", 4, NOON, 0.5)],
        [ROWS[0], ("02", None, None, 0.0), *ROWS[2:]],  # a null is no zero
        [ROWS[0], ("", None, None, None), *ROWS[2:]],
        # Values of two columns that change their rows.
        [("02", 3, NOON, 0.5), ("01", None, None, None), *ROWS[2:]],
        [],
    ],
)
def test_any_other_rows_have_another_digest(spark, digest, other):
    assert digest(spark.createDataFrame(ROWS, SCHEMA)) != digest(spark.createDataFrame(other, SCHEMA))


def test_names_and_types_of_columns_are_part_of_what_a_table_is(spark, digest):
    one: Any = spark.range(3)
    found = {digest(each).sha256 for each in (one, one.withColumnRenamed("id", "di"), one.selectExpr("int(id) AS id"))}
    assert len(found) == 3


def test_rows_that_were_written_behind_the_session_are_seen(spark, digest, tmp_path):
    digest(spark.createDataFrame(ROWS, SCHEMA))
    place = str(tmp_path / "outside")
    spark.createDataFrame(ROWS, SCHEMA).write.parquet(place)
    spark.sql(f"CREATE TABLE {DATABASE}.outside USING parquet LOCATION '{place}'")
    before = table_digest(spark, f"table:{DATABASE}.outside")
    spark.createDataFrame(ROWS, SCHEMA).coalesce(1).write.mode("append").parquet(place)
    assert table_digest(spark, f"table:{DATABASE}.outside").rows == 2 * before.rows


def test_the_number_of_a_row_is_its_place_in_the_order_of_reading(spark, digest):
    digest(spark.range(100).repartitionByRange(4, "id").sortWithinPartitions("id"))
    frame = catalog_rows(spark, f"table:{DATABASE}.t")
    order = [row["id"] for row in frame.collect()]
    assert [row["id"] for row in frame.orderBy(ROW).collect()] == order


@pytest.mark.parametrize(
    ("place", "missing", "hint"),
    [
        (f"table:{DATABASE}.tt", "there is no such table", "did you mean 't'? tables of digested: t"),
        (f"table:{DATABASE}.households", "there is no such table", "tables of digested: t"),
        (
            "table:digestet.t",
            "there is no database digestet",
            "did you mean 'digested'? databases of the session's catalog: ",
        ),
        ("table:elsewhere.digested.t", "", ""),
    ],
)
def test_a_table_that_is_not_there_is_named_with_the_nearest(spark, digest, place, missing, hint):
    digest(spark.range(1))
    with pytest.raises(InputError, match=f"{place}: {missing}") as raised:
        table_digest(spark, place)
    assert raised.value.hint.startswith(hint)
    assert raised.value.hint
