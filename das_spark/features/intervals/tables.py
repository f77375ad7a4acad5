"""What intervals by the measurements are published as: columns, and folders below the public root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from das_spark.io.table_files import GEOCODE
from das_spark.spark.tabulate import read_files
from das_spark.store import TablesLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from das_spark.store import PublicLayout
    from das_spark.tabulation import Table, TableShell

#: What rows of intervals are counted under in the manifest, and their folder.
INTERVALS: Final = "intervals"


def interval_columns(table: TableShell) -> pa.Schema:
    """Return the columns of a table of intervals, as its Parquet files have them.

    Of each column of the table they have the estimate, its standard error, and both ends.
    """
    kinds = {"": pa.float64(), "_se": pa.float64(), "_low": pa.int64(), "_high": pa.int64()}
    fields = [pa.field(f"{name}{end}", kind, False) for name in table.names for end, kind in kinds.items()]
    return pa.schema([pa.field(GEOCODE, pa.string(), False), *fields])


def intervals_layout(public: PublicLayout) -> TablesLayout:
    """Return the layout of the tables of intervals."""
    return TablesLayout(public.table(INTERVALS))


def read_intervals(
    spark: SparkSession, public: PublicLayout, table: Table, format: str, levels: Sequence[str]
) -> DataFrame:
    """Read the intervals of a table at some geolevels, with the level."""
    return read_files(spark, intervals_layout(public), table.name, format, levels, interval_columns(table))
