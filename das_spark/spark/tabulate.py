"""From estimates to published tables: one row a geounit, one column a published name.

Tasks see whole geounits, so a table needs no shuffle: it is a product of each batch with a sparse matrix, or the median
of each histogram. Medians are tenths until they are written, as numbers with one decimal; what is not defined is null.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from das_spark.io.table_files import CSV, GEOCODE, csv_header, read_table_file
from das_spark.spark.arranged import FILE, file_starts, level_files, written_files
from das_spark.spark.engine import cores, in_sorted_tasks, in_tasks
from das_spark.spark.ingest import all_levels
from das_spark.spark.lists import cut, flat_lists, list_total, slices
from das_spark.spark.published_rows import TableFile
from das_spark.spark.verify_tables import PublishedTable
from das_spark.store import part_files
from das_spark.store.parquet import REPORT
from das_spark.tabulation import UNDEFINED, MedianTable, Tabulation

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.geography import Spine
    from das_spark.store import FileRecord, TablesLayout
    from das_spark.store.parquet import ParquetTables
    from das_spark.tabulation import Table, TableShell


#: Values that a task holds as a dense table at once: bounds its memory.
_DENSE = 1 << 22


def table_schema(tables: Sequence[TableShell], *more: str) -> StructType:
    """Columns of tables as files hold them: geocode, then the published names."""
    texts = [StructField(name, StringType(), nullable=False) for name in (*more, GEOCODE)]
    numbers = [
        StructField(name, DoubleType(), nullable=True)
        if isinstance(table, MedianTable)
        else StructField(name, LongType(), nullable=False)
        for table in tables
        for name in table.names
    ]
    return StructType([*texts, *numbers])


def tabulated(estimates: DataFrame, tables: Sequence[TableShell], *more: str) -> DataFrame:
    """Make the columns of tables of histograms."""
    chosen = estimates.select(*more, GEOCODE, "cells", "counts")
    task = TabulateTask(Tabulation.of(tables), (*more, GEOCODE))
    return in_tasks(chosen, task, table_schema(tables, *more))


def with_vacant(households: DataFrame, declared: DataFrame, census: Spine, cell: int) -> DataFrame:
    """Add the vacant housing units to histograms of households: units of the leaves, less their households.

    Args:
        households: Level, geocode, cells and counts of every geounit of the census.
        declared: The invariants of the leaves, under the geocodes of the census.
        census: The levels.
        cell: Where vacant units are counted.
    """
    units = declared.where("name = 'units'").select(GEOCODE, F.get("values", F.lit(0)).alias("units"))
    leaves = households.where(F.col("level") == census.leaf.name)
    counted = leaves.select(GEOCODE, list_total("counts").alias("households")).join(units, GEOCODE)
    number = F.array(F.col("units") - F.col("households"))
    vacant = all_levels(counted.select(GEOCODE, F.array(F.lit(cell)).alias("cells"), number.alias("counts")), census)
    more = vacant.select("level", GEOCODE, F.col("cells").alias("more_cells"), F.col("counts").alias("more_counts"))
    together = households.join(more, ["level", GEOCODE])
    both = [F.concat(name, f"more_{name}").alias(name) for name in ("cells", "counts")]
    return together.select("level", GEOCODE, *both)


@dataclass(frozen=True, slots=True, eq=False)
class TabulateTask:
    """From batches of histograms to batches of table rows."""

    tabulation: Tabulation  # how columns follow from histograms
    kept: tuple[str, ...]  # text columns that are kept, in front

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Make the columns of each histogram."""
        step = max(1, _DENSE // self.tabulation.numbers)
        yield from map(self._rows, cut(batches, step))

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        values = _values(self.tabulation, batch)
        texts = [batch.column(name) for name in self.kept]
        numbers = _arrays(values, self.tabulation.tenths)
        return pa.RecordBatch.from_arrays([*texts, *numbers], [*self.kept, *self.tabulation.names])


def _values(tabulation: Tabulation, batch: pa.RecordBatch) -> NDArray[np.int64]:
    cells, offsets = flat_lists(batch.column("cells"), np.int64)
    counts, _ = flat_lists(batch.column("counts"), np.int64)
    return tabulation.values(cells, offsets, counts)


def _arrays(values: NDArray[np.int64], tenths: NDArray[np.bool_]) -> list[pa.Array]:
    """A column for each of the values, (rows, columns), as files have them."""
    columns = np.ascontiguousarray(values.T)
    return [
        pa.array(column / 10, mask=column == UNDEFINED) if of_tenths else pa.array(column)
        for column, of_tenths in zip(columns, tenths.tolist(), strict=True)
    ]


def published_tables(
    layout: TablesLayout, tables: Sequence[Table | MedianTable], formats: Sequence[str], census: Spine
) -> tuple[PublishedTable, ...]:
    """The files of the tables of a run, for verification."""
    return tuple(
        PublishedTable(
            table,
            format,
            None,
            misnamed(layout, table, format, levels, (GEOCODE, *table.names)),
            levels,
            _files(layout, table.name, format, levels),
        )
        for table in tables
        if (levels := table.levels(census))
        for format in formats
    )


def tables_beside(
    spark: SparkSession,
    layout: TablesLayout,
    output: str,
    written: Iterable[tuple[Table, str, Sequence[str]]],
    schema: Callable[[TableShell], pa.Schema],
) -> tuple[PublishedTable, ...]:
    """Read the counts of tables that go with published ones, among their other columns.

    Args:
        spark: The session.
        layout: Where they lie.
        output: What they are called in checks, before the format.
        written: The tables, each with a format and its geolevels.
        schema: Columns of the files of a table.
    """
    return tuple(
        PublishedTable(
            table,
            f"{output} {format}",
            read_files(spark, layout, table.name, format, levels, schema(table)).select(
                "level", "geocode", *table.names
            ),
            misnamed(layout, table, format, levels, schema(table).names),
            tuple(levels),
        )
        for table, format, levels in written
    )


def _files(layout: TablesLayout, name: str, format: str, levels: Sequence[str]) -> tuple[TableFile, ...]:
    return tuple(
        TableFile(name, format, level, path)
        for level in levels
        for path in part_files(layout.level(name, format, level))
    )


def read_files(
    spark: SparkSession, layout: TablesLayout, name: str, format: str, levels: Sequence[str], schema: pa.Schema
) -> DataFrame:
    """Levels of a table as `read_table_file` reads its files: the level, and the columns of a schema."""
    files = _files(layout, name, format, levels)
    numbers = spark.range(0, len(files), 1, max(len(files), 1))
    columns = pa.schema([pa.field("level", pa.string()), *(field.with_nullable(True) for field in schema)])
    return in_tasks(numbers, _ReadFiles(files, schema), from_arrow_schema(columns))


@dataclass(frozen=True, slots=True)
class _ReadFiles:
    """From numbers of files to their rows."""

    files: tuple[TableFile, ...]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in (self.files[number] for number in batch.column("id").to_pylist()):
                for rows in read_table_file(file.path, file.format, self.schema):
                    level = pa.repeat(pa.scalar(file.level, pa.string()), rows.num_rows)
                    yield pa.RecordBatch.from_arrays([level, *rows.columns], ["level", *rows.schema.names])


def misnamed(
    layout: TablesLayout, table: TableShell, format: str, levels: Sequence[str], names: Sequence[str]
) -> tuple[str, ...] | None:
    """Levels whose CSV files call their columns otherwise; None for files whose columns are read by name."""
    if format != CSV:
        return None
    return tuple(level for level in levels if csv_header(layout.level(table.name, CSV, level)) != tuple(names))


def write_tables(
    estimates: DataFrame, tables: Sequence[TableShell], census: Spine, writer: ParquetTables, leaves: int | None = None
) -> dict[str, tuple[FileRecord, ...]]:
    """Write all levels of several tables by one Spark job, in files by geocode.

    A task reads each histogram once and makes the columns of all tables that its geolevel has. Rows are brought
    together by table and file, so that a task writes one file after the other. As for the number of the leaves, see
    `file_starts`.

    Returns:
        The files of each table by its name, with paths below its folder.
    """
    starts = file_starts(estimates.where(F.col("level") == census.leaf.name).select(GEOCODE), census, leaves)
    of_levels = {
        level.name: tuple(table for table in tables if level.name in table.levels(census)) for level in census.levels
    }
    made = {own: Tabulation.of(own) for own in of_levels.values() if own}
    task = _ManyTables({level: (made[own], own) for level, own in of_levels.items() if own})
    rows = estimates.where(F.col("level").isin(*task.of_levels)).select("level", GEOCODE, "cells", "counts")
    file = level_files(starts, F.col("level"), F.col(GEOCODE))
    files = sum(len(starts[level]) + 1 for level in task.of_levels)
    together = min(files * len(tables), max(files, _FILES_A_CORE * cores(estimates.sparkSession)))
    arranged = in_tasks(rows, task, _ROWS).withColumn(FILE, file).repartition(together, _TABLE, FILE)

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        shells = {table.name: table for table in tables}
        parts = (
            (table, name, _columns(part, shells[table]))
            for batch in batches
            for table, of_table in slices(batch, _TABLE)
            for name, part in slices(of_table, FILE)
        )
        for _, of_table in groupby(parts, itemgetter(0)):
            yield from writer(of_table)

    return written_files(in_sorted_tasks(arranged, (_TABLE, FILE, GEOCODE), work, REPORT), writer)


#: Rows of several tables: the values of the columns in order, those of medians in tenths.
_TABLE: Final = "table"
_VALUES: Final = "values"
_ROWS: Final = f"{_TABLE} string, level string, {GEOCODE} string, {_VALUES} array<bigint>"
#: Tasks that write tables, for each core.
_FILES_A_CORE: Final = 4


@dataclass(frozen=True, slots=True, eq=False)
class _ManyTables:
    """From batches of histograms to the rows of all tables that their geolevels have."""

    of_levels: Mapping[str, tuple[Tabulation, tuple[TableShell, ...]]]  # the tables of each level

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for level, rows in slices(batch, "level"):
                tabulation, tables = self.of_levels[level]
                for part in cut([rows], max(1, _DENSE // tabulation.numbers)):
                    yield self._rows(part, tabulation, tables)

    def _rows(self, batch: pa.RecordBatch, tabulation: Tabulation, tables: Sequence[TableShell]) -> pa.RecordBatch:
        every, number = _values(tabulation, batch), batch.num_rows
        widths = np.array([len(table.names) for table in tables])
        ends = np.cumsum(widths)
        values = np.concatenate([every[:, end - width : end].ravel() for width, end in zip(widths, ends, strict=True)])
        lists = pa.ListArray.from_arrays(
            pa.array(np.concatenate([[0], np.cumsum(np.repeat(widths, number))]).astype(np.int32)), pa.array(values)
        )
        names = pa.array([table.name for table in tables]).take(pa.array(np.repeat(np.arange(len(tables)), number)))
        texts = [pa.concat_arrays([batch.column(name)] * len(tables)) for name in ("level", GEOCODE)]
        return pa.RecordBatch.from_arrays([names, *texts, lists], [_TABLE, "level", GEOCODE, _VALUES])


def _columns(batch: pa.RecordBatch, table: TableShell) -> pa.RecordBatch:
    """Rows of one table with a column for each of its values."""
    values = flat_lists(batch.column(_VALUES), np.int64)[0].reshape(batch.num_rows, len(table.names))
    numbers = _arrays(values, np.full(len(table.names), isinstance(table, MedianTable)))
    return pa.RecordBatch.from_arrays([batch.column(GEOCODE), *numbers], [GEOCODE, *table.names])


def arrow_schema(table: TableShell) -> pa.Schema:
    """Columns of a table as its Parquet files have them."""
    return to_arrow_schema(table_schema([table]))
