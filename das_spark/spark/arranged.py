"""Put the rows of a table into files and into an order that public facts decide, whatever order they came in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from operator import add
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.spark.balanced import balanced
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.lists import slices
from das_spark.store import level_folder
from das_spark.store.parquet import REPORT, file_name

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.geography import Spine
    from das_spark.store import FileRecord
    from das_spark.store.parquet import ParquetTables

FILE: Final = "file"
#: Geounits of a level whose rows stand in one file of a table, about.
_GEOUNITS_A_FILE: Final = 1 << 18

#: Geolevel -> first geocodes of its files but for the first file, ascending.
FileStarts = Mapping[str, tuple[str, ...]]


def file_starts(leaves: DataFrame, spine: Spine, number: int | None = None) -> FileStarts:
    """Cut every level into files of about equal size, by geocode: a function of which geounits exist alone.

    Whoever knows the number of leaves says it: to count them is a job.
    """
    if number is None:
        number = leaves.limit(_GEOUNITS_A_FILE + 1).count()
    if number <= _GEOUNITS_A_FILE:
        return {level.name: () for level in spine.levels}
    above = spine.levels[-2].length if len(spine.levels) > 1 else 0
    parents = leaves.groupBy(F.substring("geocode", 1, above).alias("parent")).agg(F.count(F.lit(1)).alias("children"))
    found = parents.toArrow().sort_by("parent")
    codes, children = found.column("parent").to_pylist(), found.column("children").to_numpy()
    starts = {spine.leaf.name: _starts(codes, children)}
    for level in spine.levels[:-1]:
        units = list(dict.fromkeys(code[: level.length] for code in codes))
        starts[level.name] = _starts(units, np.ones(len(units), dtype=np.int64))
    return starts


def _starts(codes: Sequence[str], sizes: np.ndarray) -> tuple[str, ...]:
    number = (np.cumsum(sizes) - sizes) // _GEOUNITS_A_FILE
    return tuple(codes[place] for place in (np.flatnonzero(np.diff(number)) + 1).tolist())


def file_number(starts: Sequence[str], geocode: Column) -> Column:
    """In which file of its level a geounit stands, from 0."""
    return balanced(add, [F.lit(0), *((geocode >= start).cast("int") for start in starts)])


def level_files(starts: FileStarts, level: Column, geocode: Column) -> Column:
    """The file of a row of a table of several levels: `level=<geolevel>/part-<number>`."""
    number = F.lit(0)
    for name, codes in starts.items():
        if codes:
            number = F.when(level == name, file_number(codes, geocode)).otherwise(number)
    return F.format_string(f"{level_folder('%s')}/part-%05d", level, number)


def write_levels(
    rows: DataFrame,
    table: str,
    writer: ParquetTables,
    leaves: DataFrame,
    spine: Spine,
    order: Sequence[str],
    kinds: Sequence[str] = (),
    number: int | None = None,
) -> tuple[FileRecord, ...]:
    """Write rows with columns level and geocode to `level=<geolevel>/part-<number>`, cut by the leaves there are.

    Where there are kinds, rows have a column kind, and its value is the folder above those of the levels. As for the
    number of the leaves, see `file_starts`.
    """
    starts = file_starts(leaves, spine, number)
    file = level_files(starts, F.col("level"), F.col("geocode"))
    if kinds:
        file = F.concat(F.col("kind"), F.lit("/"), file)
    files = sum(len(codes) + 1 for codes in starts.values()) * max(len(kinds), 1)
    return write_arranged(rows, table, writer, file=file, files=files, order=order)


def write_arranged(
    rows: DataFrame, table: str, writer: ParquetTables, *, file: Column, files: int, order: Sequence[str]
) -> tuple[FileRecord, ...]:
    """Bring the rows of each file together, sort them, and write them.

    No two rows of a file may share the columns of `order`: what decides their order must decide it wholly.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from writer((table, name, part) for batch in batches for name, part in slices(batch, FILE))

    arranged = rows.withColumn(FILE, file).repartition(files, FILE)
    return written_files(in_sorted_tasks(arranged, (FILE, *order), work, REPORT), writer)[table]


def write_one_file(rows: DataFrame, table: str, writer: ParquetTables, order: Sequence[str]) -> tuple[FileRecord, ...]:
    """Write the rows of a small table into one file."""
    return write_arranged(rows, table, writer, file=F.lit(file_name(0)), files=1, order=order)


def written_files(report: DataFrame, writer: ParquetTables) -> dict[str, tuple[FileRecord, ...]]:
    """Carry out a job whose tasks write by `writer` and report it, and give their files their names."""
    return writer.place(report.toArrow().to_pylist())
