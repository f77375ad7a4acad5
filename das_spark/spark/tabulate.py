"""From estimates to published tables: one row a geounit, one column a published name.

Tasks see whole geounits, so a table needs no shuffle: it is a product of each batch with a sparse 0/1 matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StringType, StructField, StructType

from das_spark.errors import without_values
from das_spark.io.table_files import CSV, GEOCODE, PARQUET, csv_header
from das_spark.spark.arranged import write_levels
from das_spark.spark.lists import cut, flat_lists
from das_spark.spark.tables import with_level
from das_spark.spark.verify_tables import PublishedTable
from das_spark.tabulation import Incidence, incidence, tabulate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.geography import Spine
    from das_spark.store import FileRecord, TablesLayout
    from das_spark.store.parquet import ParquetTables
    from das_spark.tabulation import Table


#: Values that a task holds as a dense table at once: bounds its memory.
_DENSE = 1 << 22


def table_schema(tables: Sequence[Table], *more: str) -> StructType:
    """Columns of tables as files hold them: geocode, then the published names."""
    texts = [StructField(name, StringType(), nullable=False) for name in (*more, GEOCODE)]
    numbers = [StructField(name, LongType(), nullable=False) for table in tables for name in table.names]
    return StructType([*texts, *numbers])


def tabulated(estimates: DataFrame, tables: Sequence[Table], *more: str) -> DataFrame:
    """Sum histograms into the columns of tables."""
    chosen = estimates.select(*more, GEOCODE, "cells", "counts")
    return chosen.mapInArrow(
        without_values(TabulateTask(incidence(tables), (*more, GEOCODE))), table_schema(tables, *more)
    )


@dataclass(frozen=True, slots=True, eq=False)
class TabulateTask:
    """From batches of histograms to batches of table rows."""

    matrix: Incidence  # which columns count which cells
    kept: tuple[str, ...]  # text columns that are kept, in front

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sum each histogram into the columns."""
        step = max(1, _DENSE // len(self.matrix.names))
        yield from map(self._rows, cut(batches, step))

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        cells, offsets = flat_lists(batch.column("cells"), np.int64)
        counts, _ = flat_lists(batch.column("counts"), np.int64)
        sums = tabulate(self.matrix, cells, offsets, counts)
        texts = [batch.column(name) for name in self.kept]
        numbers = [pa.array(column) for column in np.ascontiguousarray(sums.T)]
        return pa.RecordBatch.from_arrays([*texts, *numbers], [*self.kept, *self.matrix.names])


def read_published(
    spark: SparkSession, layout: TablesLayout, tables: Sequence[Table], formats: Sequence[str], levels: Sequence[str]
) -> tuple[PublishedTable, ...]:
    """The tables of a run as their files hold them, for verification."""
    return tuple(
        PublishedTable(
            table,
            format,
            read_files(spark, layout, table.name, format, levels, table_schema([table])),
            misnamed(layout, table, format, levels, (GEOCODE, *table.names)),
        )
        for table in tables
        for format in formats
    )


def read_files(
    spark: SparkSession, layout: TablesLayout, name: str, format: str, levels: Sequence[str], schema: StructType
) -> DataFrame:
    """Levels of a table as its files hold them: the columns of the schema, and the level."""
    folders = [str(layout.level(name, format, level)) for level in levels]
    reader = spark.read.schema(with_level(schema)).option("basePath", str(layout.table(name, format)))
    frame = reader.parquet(*folders) if format == PARQUET else reader.option("header", "true").csv(folders)
    return frame.select(F.col("level"), *schema.names)


def misnamed(
    layout: TablesLayout, table: Table, format: str, levels: Sequence[str], names: Sequence[str]
) -> tuple[str, ...] | None:
    """Levels whose CSV files call their columns otherwise; None for files whose columns are read by name."""
    if format != CSV:
        return None
    return tuple(level for level in levels if csv_header(layout.level(table.name, CSV, level)) != tuple(names))


def write_table(estimates: DataFrame, table: Table, spine: Spine, writer: ParquetTables) -> tuple[FileRecord, ...]:
    """Write all levels of a table by one Spark job, in files by geocode."""
    leaves = estimates.where(F.col("level") == spine.leaf.name).select(GEOCODE)
    return write_levels(tabulated(estimates, [table], "level"), table.name, writer, leaves, spine, [GEOCODE])


def arrow_schema(table: Table) -> pa.Schema:
    """Columns of a table as its Parquet files have them."""
    return to_arrow_schema(table_schema([table]))
