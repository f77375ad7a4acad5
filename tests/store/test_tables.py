"""Every table is declared once: what files, Spark and the data dictionary are given follows from the declaration."""

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from das_spark.spark import tables as in_spark
from das_spark.store.tables import OF_EVERY_RUN, OF_OPTIMIZED_SPINES, TABLES, TableDeclaration

EACH = pytest.mark.parametrize("table", TABLES.values(), ids=str)


@EACH
def test_every_column_has_a_type_that_can_be_told_and_a_description(table: TableDeclaration) -> None:
    assert table.row
    for name, kind, description in table.described():
        assert name
        assert kind
        assert description


@EACH
def test_counts_and_noise_have_a_unit(table: TableDeclaration) -> None:
    units = {column.name: (column.metadata or {}).get(b"unit", b"").decode() for column in table.columns}
    for name in ("counts", "values", "variance", "lower", "upper", "seconds"):
        assert units.get(name) != ""


@EACH
def test_files_hold_no_metadata_of_columns(table: TableDeclaration) -> None:
    assert table.schema.metadata is None
    assert all(each.metadata is None for each in table.schema)
    assert table.schema.equals(table.columns)  # but for metadata


@EACH
def test_schema_of_spark_is_that_of_the_files(table: TableDeclaration) -> None:
    converted: pa.Schema = to_arrow_schema(getattr(in_spark, table.name.upper().replace("CENSUS_", "")))
    assert converted.equals(table.schema, check_metadata=True)


def test_tables_by_geolevel_have_a_schema_in_spark() -> None:
    assert set(in_spark.LEVEL_TABLES) == {table.name for table in TABLES.values() if table.by_level}
    assert {table.name for table in TABLES.values() if table.by_level and table.restricted} == {"histograms"}


def test_what_is_public_of_a_run() -> None:
    assert [each.name for each in (*OF_EVERY_RUN, *OF_OPTIMIZED_SPINES) if each.restricted] == ["histograms"]
