"""Rows that are used more than once: written by tasks as Parquet files, and read again; no part of any result."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from das_spark.places import Place, disk_errors
from das_spark.spark.engine import Work, in_tasks, scan
from das_spark.store import discard
from das_spark.store.parquet import REPORT, ParquetTables, TableFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS = "rows"


def write_and_read(frame: DataFrame, folder: Place) -> DataFrame:
    """Write a frame in the place of what is there, and read it back."""
    discard(folder)
    tables = _tables(folder, [_ROWS], to_arrow_schema(frame.schema))
    _write(frame, _ScratchTask(tables, _ROWS), folder)
    return scan(frame.sparkSession, frame.schema, [folder / _ROWS])


def write_kinds(
    rows: DataFrame, work: Work, schema: pa.Schema, by: str, kinds: Sequence[str], folder: Place
) -> dict[str, tuple[Place, ...]]:
    """Write what tasks make of rows in the place of what is there, each kind in a folder of its own, by one job.

    Args:
        rows: What tasks are given.
        work: What they make of it; the rows of a batch are of one kind.
        schema: Columns of what they make.
        by: The column that names the kind, which the files do not hold.
        kinds: Its values.
        folder: Need not exist.

    Returns:
        The files of each kind, at least one.
    """
    discard(folder)
    tables = _tables(folder, kinds, pa.schema([field for field in schema if field.name != by]))
    return _write(rows, _ScratchTask(tables, by, work), folder)


def _tables(folder: Place, kinds: Sequence[str], schema: pa.Schema) -> ParquetTables:
    return ParquetTables({kind: TableFolder(folder.absolute() / kind, schema) for kind in kinds})


def _write(rows: DataFrame, task: _ScratchTask, folder: Place) -> dict[str, tuple[Place, ...]]:
    with disk_errors(folder):
        placed = task.tables.place(in_tasks(rows, task, REPORT).toArrow().to_pylist())
    return {kind: tuple(folder / kind / file.name for file in files) for kind, files in placed.items()}


@dataclass(frozen=True, slots=True)
class _ScratchTask:
    """Writes the rows of a task under one name, or what is made of them under that of each kind."""

    tables: ParquetTables
    by: str
    work: Work | None = None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        file, made = f"part-{secrets.token_hex(8)}", batches if self.work is None else self.work(batches)
        filled = (batch for batch in made if batch.num_rows)
        return self.tables(
            (self.by if self.work is None else batch.column(self.by)[0].as_py(), file, batch) for batch in filled
        )
