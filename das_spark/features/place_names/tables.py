"""What tables with names are published as: columns, and folders below the public root."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from das_spark.io.table_files import CSV
from das_spark.spark.tabulate import arrow_schema, read_files
from das_spark.store import TablesLayout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

    from das_spark.store import PublicLayout
    from das_spark.tabulation import TableShell

#: What their rows are counted under in the manifest, and their folder.
PLACE_NAMES: Final = "place_names"
NAME: Final = "name"


def named_columns(table: TableShell) -> pa.Schema:
    """Return the columns of a table with the names of geounits behind their geocodes."""
    geocode, *counts = arrow_schema(table)
    return pa.schema([geocode, pa.field(NAME, pa.string(), False), *counts])


def named_layout(public: PublicLayout) -> TablesLayout:
    """Return the layout of the tables with names."""
    return TablesLayout(public.table(PLACE_NAMES))


def read_named(spark: SparkSession, public: PublicLayout, table: TableShell, levels: Sequence[str]) -> DataFrame:
    """Read a table with names at some geolevels, with the level."""
    return read_files(spark, named_layout(public), table.name, CSV, levels, named_columns(table))
