"""The values of published tables as their files hold them, read by tasks: one job for all tables, formats and levels.

Spark's readers would need a scan for each table, since each has columns of its own; hundreds of scans in one plan take
longer than what they read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv, parquet

from das_spark.io.table_files import GEOCODE, PARQUET
from das_spark.spark.engine import cores, in_tasks
from das_spark.store.filesystem import system_of
from das_spark.verification import packed_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.geography import Spine

#: What stands for a value that is not there or is no whole number: a sum of people is never negative.
MISSING: Final = -1
PACKED_ROWS: Final = f"format string, level string, {GEOCODE} string, geocodes array<string>, packed binary"
_FILE: Final = ("table", "format", "level", "path")
#: Values that a task holds at once: bounds its memory.
_AT_ONCE: Final = 1 << 20
#: Numbers with tenths are less: beyond, the tenths of a floating-point number are not exact.
_MOST: Final = float(1 << 40)
#: Tasks for each core, so that a large file does not keep the others waiting.
_TASKS_A_CORE: Final = 4


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a published table."""

    table: str  # name of the table
    format: str  # `parquet` or `csv`
    level: str  # geolevel of its rows
    path: Path


#: Is given rows and the name of a column, and gives its values.
Numbers = Callable[[pa.RecordBatch, str], "NDArray[np.int64]"]


def whole_of(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """The whole numbers of a column; `MISSING` where there is none."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, MISSING, dtype=np.int64)
    column = batch.column(name)
    try:
        whole = column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # what is no whole number is looked at one by one
        whole = pa.array([_whole(value) for value in column.to_pylist()], pa.int64())
    numbers: NDArray[np.int64] = whole.fill_null(MISSING).to_numpy(zero_copy_only=False)
    return numbers


def tenths_of(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """Ten times the numbers of a column, 0 where there is none; `MISSING` for what is no positive number of tenths."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, MISSING, dtype=np.int64)
    column = batch.column(name)
    if pa.types.is_string(column.type):
        column = compute.if_else(compute.equal(column, ""), None, column)
    try:
        numbers = column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # what is no number is looked at one by one
        numbers = pa.array([None if value is None else _number(value) for value in column.to_pylist()], pa.float64())
    there = numbers.is_valid().to_numpy(zero_copy_only=False)
    values = numbers.fill_null(0.0).to_numpy(zero_copy_only=False)
    known = (values > 0) & (values < _MOST)
    tenths = np.rint(np.where(known, values, 0.0) * 10)
    known &= tenths / 10 == values
    return np.where(there, np.where(known, tenths, MISSING), 0).astype(np.int64)


def published_rows(
    spark: SparkSession,
    files: Sequence[TableFile],
    columns: Mapping[str, tuple[int, tuple[str, ...]]],
    numbers: Numbers = whole_of,
    spine: Spine | None = None,
) -> DataFrame:
    """Read the rows of files.

    Args:
        spark: The session.
        files: The files, at least one.
        columns: Of each table by name the number of its row, and the names of its columns, the total first.
        numbers: How values are read.
        spine: Levels of the tables; where it is None every geounit is by itself.

    Returns:
        `PACKED_ROWS`: neighbouring geounits with one parent together (`das_spark.verification.packed_of`), under the
        first geocode. Values are the number of the row with 1, the next one with the total, then the numbers of the
        columns in order. A column that is not there, and a value that is none, have `MISSING`; CSV is read by the order
        of its columns, and its first line is skipped. Values are bytes: the JVM takes and gives these whole, where it
        would copy a list one by one.
    """
    listed = [(each.table, each.format, each.level, str(each.path)) for each in files]
    tasks = min(len(files), _TASKS_A_CORE * cores(spark))
    named = dict(zip(_FILE, map(pa.array, zip(*listed, strict=True)), strict=True))
    frame = spark.createDataFrame(pa.table(named)).repartition(tasks)
    return in_tasks(frame, _Rows(dict(columns), numbers, _above(spine)), PACKED_ROWS)


def _above(spine: Spine | None) -> dict[str, int]:
    """By level the characters of a geocode that are those of its parent."""
    if spine is None:
        return {}
    return dict(zip(spine.names, [0, *(level.length for level in spine.levels[:-1])], strict=True))


@dataclass(frozen=True, slots=True)
class _Rows:
    """From the names of files to what is in them."""

    columns: Mapping[str, tuple[int, tuple[str, ...]]]
    numbers: Numbers
    above: Mapping[str, int]  # characters of the geocode of a parent, by level; none where every geounit is by itself

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for file in batch.to_pylist():
                yield from self._of_file(file["table"], file["format"], file["level"], file["path"])

    def _of_file(self, table: str, format: str, level: str, path: str) -> Iterator[pa.RecordBatch]:
        first, names = self.columns[table]
        items = np.arange(first, first + 2 + len(names), dtype=np.int32)
        rows = max(1, _AT_ONCE // len(items))
        for read in _parquet(Path(path), names, rows) if format == PARQUET else _csv(Path(path), names):
            for begin in range(0, read.num_rows, rows):
                part = read.slice(begin, rows)
                values = np.stack([self.numbers(part, name) for name in names], axis=1)
                told = np.hstack([np.ones((len(values), 1), np.int64), values[:, :1], values])
                packed = packed_of(_geocodes(part), told, items, self.above.get(level))
                same = [pa.array([text] * len(packed[GEOCODE]), pa.string()) for text in (format, level)]
                yield pa.RecordBatch.from_arrays([*same, *packed.values()], ["format", "level", *packed])


def _parquet(path: Path, names: Sequence[str], rows: int) -> Iterator[pa.RecordBatch]:
    with system_of(path).open_input(str(path)) as opened:
        file = parquet.ParquetFile(opened)
        there = [name for name in (GEOCODE, *names) if name in file.schema_arrow.names]
        yield from file.iter_batches(batch_size=rows, columns=there)


def _csv(path: Path, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows as texts; one with more or fewer values than columns is none."""
    named = (GEOCODE, *names)
    try:
        opened = csv.open_csv(
            path,
            csv.ReadOptions(skip_rows=1, column_names=list(named)),
            csv.ParseOptions(invalid_row_handler=lambda row: "skip"),
            csv.ConvertOptions(column_types=dict.fromkeys(named, pa.string())),
        )
    except pa.ArrowInvalid:  # nothing stands behind the header
        return
    with opened:
        yield from opened


def _geocodes(batch: pa.RecordBatch) -> pa.Array:
    if GEOCODE not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.string())
    return batch.column(GEOCODE).cast(pa.string())


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return float("nan")


def _whole(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < len(str(1 << 63)) else None
