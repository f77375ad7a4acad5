"""Read back what replicates have published."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from das_spark.features.replicates.tables import (
    ERRORS,
    OFFSETS,
    errors_folder,
    interval_columns,
    intervals_layout,
    offsets_folder,
)
from das_spark.spark.tables import read_declared, union
from das_spark.spark.tabulate import read_files

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.store import PublicLayout
    from das_spark.tabulation import Table


def read_errors(spark: SparkSession, public: PublicLayout, runs: int) -> DataFrame:
    """Read the errors of all replicates, rows of `tables.ERRORS`."""
    return union(read_declared(spark, ERRORS, errors_folder(public, number + 1)) for number in range(runs))


def read_offsets(spark: SparkSession, public: PublicLayout) -> DataFrame:
    """Read how far the truth may be from published counts, rows of `tables.OFFSETS`."""
    return read_declared(spark, OFFSETS, offsets_folder(public))


def read_intervals(
    spark: SparkSession, public: PublicLayout, table: Table, format: str, levels: Sequence[str]
) -> DataFrame:
    """Read published counts of a table with their intervals, with the level."""
    return read_files(spark, intervals_layout(public), table.name, format, levels, interval_columns(table))
