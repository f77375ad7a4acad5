"""Where the two engines that carry out DataFrames differ: Spark, and Sail, which needs no JVM (see `local_engine`).

All other code says what it wants in PySpark's DataFrames, and does not ask who carries it out. Here stands what one of
the two has no words for, or understands otherwise, each with the reason.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StructField, StructType

from das_spark.errors import without_values
from das_spark.process import SAFE_PATH, same_numbers
from das_spark.store import create_exclusively, make_folder

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.readwriter import DataFrameReader

#: The function of a task: batches of a partition in, batches out.
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
#: Rows of a batch that is cut out of sorted rows, as Spark has it by its properties.
_ROWS_OF_A_BATCH: Final = 2_000
_SUCCESS: Final = "_SUCCESS"


def is_sail(of: SparkSession | DataFrame) -> bool:
    """Whether Sail carries out a DataFrame, or those of a session, which are told to it by Spark Connect."""
    return type(of).__module__.startswith("pyspark.sql.connect.")


def cores(spark: SparkSession) -> int:
    """How many tasks the engine carries out at once."""
    return len(os.sched_getaffinity(0)) if is_sail(spark) else spark.sparkContext.defaultParallelism


def in_tasks(rows: DataFrame, work: Work, schema: StructType | str) -> DataFrame:
    """Let tasks work on rows, partition by partition. What libraries say of their errors is held back.

    Sail calls functions by threads of one process, of which Python lets only one run: there the work is done by
    processes of `das_spark.spark.worker_pool`, as Spark does it by its own.
    """
    if is_sail(rows):
        return rows.mapInArrow(without_values(_Elsewhere(work)), schema)
    # Whoever started the session: its workers import nothing from the folder in which the JVM was started, and have the
    # same numbers on every machine.
    rows.sparkSession.sparkContext.environment.update(SAFE_PATH | same_numbers())
    return rows.mapInArrow(without_values(work), schema)


def in_sorted_tasks(rows: DataFrame, order: Sequence[str], work: Work, schema: StructType | str) -> DataFrame:
    """Let tasks work on the rows of each partition in the order of some columns, nulls first.

    Sail leaves out what sorts rows for a function, of which it does not know that it wants them sorted: there the task
    sorts them itself.
    """
    if is_sail(rows):
        return in_tasks(rows, _Sorted(tuple(order), work), schema)
    return in_tasks(rows.sortWithinPartitions(*order), work, schema)


def settled(rows: DataFrame) -> DataFrame:
    """The same rows, which Sail has before it plans what is made of them.

    It refuses some plans of its own: of sums of rows put together, in which a value is missing on one side alone, and
    of conditions on the elements of a list that lies in a file.
    """
    return rows.mapInArrow(without_values(iter), _nullable(rows.schema)) if is_sail(rows) else rows


def by_number(rows: DataFrame, partitions: int, number: Column) -> DataFrame:
    """Bring rows to the partitions of their numbers; Sail knows only that those of a number are in the same one."""
    if is_sail(rows):
        return rows.repartition(partitions, number)
    return rows.repartitionById(partitions, number)


def each_field(structs: Column, name: str) -> Column:
    """A field of every struct of an array, as an array; Sail takes `structs.getField` for the place of an element."""
    return F.transform(structs, lambda struct: struct[name])


def scan(
    spark: SparkSession, schema: StructType, folders: Sequence[Path], base: Path | None = None, *, csv: bool = False
) -> DataFrame:
    """The rows of files in some folders, at least one.

    Args:
        spark: The session.
        schema: Their columns. One that is not in the files, such as `level`, is in the names of their folders.
        folders: Such as `<base>/level=County`.
        base: The folder above them, if their names hold a column.
        csv: Whether they are CSV with a line of names, and not Parquet.
    """
    if is_sail(spark):
        return reduce(lambda one, other: one.unionAll(other), [_read(spark, schema, each, csv) for each in folders])
    reader = spark.read.schema(schema)
    if base is not None:
        reader = reader.option("basePath", str(base))
    return _of_format(reader, [str(each) for each in folders], csv=csv)


def _read(spark: SparkSession, schema: StructType, folder: Path, csv: bool) -> DataFrame:
    """The rows of one folder for Sail, which reads no column from the names of folders that it is given."""
    held = re.fullmatch(r"(\w+)=(.*)", folder.name)
    in_files = StructType([each for each in _nullable(schema).fields if held is None or each.name != held[1]])
    frame = _of_format(spark.read.schema(in_files), [str(folder)], csv=csv)
    if held is None or held[1] not in schema.names:
        return frame
    value = F.lit(unquote(held[2])).cast(schema[held[1]].dataType).alias(held[1])
    return frame.select(*[value if name == held[1] else F.col(f"`{name}`") for name in schema.names])


def _of_format(reader: DataFrameReader, folders: list[str], *, csv: bool) -> DataFrame:
    return reader.option("header", "true").csv(folders) if csv else reader.parquet(*folders)


def _nullable(kind: Any) -> Any:  # noqa: ANN401 - the same kind as is given
    """A type whose values and elements may be missing, as Spark reads every file."""
    if isinstance(kind, StructType):
        return StructType([StructField(each.name, _nullable(each.dataType)) for each in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_nullable(kind.elementType))
    assert isinstance(kind, DataType)  # noqa: S101 - there is nothing else in a schema
    return kind


def write_parquet(frame: DataFrame, folder: Path, by: str | None = None) -> None:
    """Write rows to Parquet files in a new folder, in one each for the values of a column, by name; `_SUCCESS` is last.

    Sail gives files names of its own, and leaves no mark when all are there.
    """
    writer = frame.write if by is None else frame.write.partitionBy(by)
    writer.parquet(str(folder))
    if is_sail(frame):
        make_folder(folder)  # there is none where there are no rows
        for number, file in enumerate(sorted(folder.rglob("*.parquet"))):
            file.rename(file.with_name(f"part-{number:05d}.zstd.parquet"))
        create_exclusively(folder / _SUCCESS, b"")


@dataclass(frozen=True, slots=True)
class _Elsewhere:
    """Work that a worker process does for a thread of Sail."""

    work: Work

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from das_spark.spark import sail_server  # noqa: PLC0415 - Spark's workers, who import this module, have none

        yield from sail_server.carry_out(without_values(self.work), batches)


@dataclass(frozen=True, slots=True)
class _Sorted:
    """Work on the rows of a partition that are sorted first."""

    order: tuple[str, ...]
    work: Work

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from self.work(self._rows(batches))

    def _rows(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        given = list(batches)
        if given:
            rows = pa.Table.from_batches(given).combine_chunks()
            keys = [(name, "ascending", "at_start") for name in self.order]
            yield from rows.take(pc.sort_indices(rows, keys)).to_batches(_ROWS_OF_A_BATCH)
