"""The schema of every table that a run keeps, as Spark has it: made from the declarations of `das_spark.store`."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType

from das_spark.spark.engine import scan
from das_spark.store import require_committed
from das_spark.store import tables as declared

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, Row, SparkSession

    from das_spark.places import Place
    from das_spark.store import PublicLayout

LEAVES = from_arrow_schema(declared.LEAVES.schema)
GEOUNITS = from_arrow_schema(declared.GEOUNITS.schema)
BLOCKS = from_arrow_schema(declared.BLOCKS.schema)
SHARES = from_arrow_schema(declared.SHARES.schema)
HISTOGRAMS = from_arrow_schema(declared.HISTOGRAMS.schema)
INVARIANTS = from_arrow_schema(declared.INVARIANTS.schema)
BOUNDS = from_arrow_schema(declared.BOUNDS.schema)
MEASUREMENTS = from_arrow_schema(declared.MEASUREMENTS.schema)
ESTIMATES = from_arrow_schema(declared.ESTIMATES.schema)
DIAGNOSTICS = from_arrow_schema(declared.DIAGNOSTICS.schema)
PUBLISHED = from_arrow_schema(declared.PUBLISHED.schema)
ESTIMATE_ARRAYS = from_arrow_schema(declared.ESTIMATE_ARRAYS.schema)
UPWARD = from_arrow_schema(declared.UPWARD.schema)
UPWARD_SUMS = from_arrow_schema(declared.UPWARD_SUMS.schema)
LINEAR = from_arrow_schema(declared.LINEAR.schema)
MOMENTS = from_arrow_schema(declared.MOMENTS.schema)
UNION_MOMENTS = from_arrow_schema(declared.UNION_MOMENTS.schema)
SECONDS = from_arrow_schema(declared.SECONDS.schema)

#: Every table with geolevels, by name.
LEVEL_TABLES = {name: from_arrow_schema(table.schema) for name, table in declared.TABLES.items() if table.by_level}


def with_level(schema: StructType) -> StructType:
    """A table's columns, and the geolevel of the folder that a row was read from, as Spark adds it."""
    return StructType([*schema.fields, StructField("level", StringType(), nullable=False)])


def read_table(spark: SparkSession, table: str, folder: Place) -> DataFrame:
    """The rows of a table, or of one level of it, in a folder."""
    return read_declared(spark, declared.TABLES[table], folder)


def read_declared(spark: SparkSession, table: declared.TableDeclaration, folder: Place) -> DataFrame:
    """The rows of a table that is declared elsewhere, in a folder."""
    require_committed(folder)
    return scan(spark, from_arrow_schema(table.schema), [folder])


def union(frames: Iterable[DataFrame]) -> DataFrame:
    """All rows of frames with the same columns."""
    return reduce(lambda one, other: one.unionByName(other), frames)


def levels_together(frames: Iterable[tuple[str, DataFrame]]) -> DataFrame:
    """Levels of a table as one frame, with a column level in front."""
    return union(frame.select(F.lit(level).alias("level"), "*") for level, frame in frames)


def at_levels(frame: DataFrame, levels: Sequence[str]) -> DataFrame:
    """The rows of some geolevels."""
    return frame.where(F.col("level").isin(*levels))


def first_rows(frame: DataFrame, number: int, *order: str) -> list[Row]:
    """Some rows for a message, the first ones by columns."""
    return frame.orderBy(*order).limit(number).collect()


def count_and_first(frame: DataFrame, number: int, *order: str) -> tuple[int, list[Row]]:
    """How many rows there are, and some of them."""
    found = frame.count()
    return found, first_rows(frame, number, *order) if found else []


def read_folders(spark: SparkSession, table: str, base: Place, folders: Sequence[Place]) -> DataFrame:
    """Several levels of a table by one scan, with a column level from the names of the folders; there may be none."""
    schema = with_level(LEVEL_TABLES[table])
    if not folders:
        return spark.createDataFrame([], schema)
    for folder in folders:
        require_committed(folder)
    return scan(spark, schema, folders, base)


def read_levels(spark: SparkSession, layout: PublicLayout, table: str, levels: Sequence[str]) -> DataFrame:
    """All levels of a public table by one scan, with a column level."""
    return read_folders(spark, table, layout.table(table), [layout.level(table, level) for level in levels])
