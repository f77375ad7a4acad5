"""Files of the input as rows, with the place of each row in its file: read by tasks, a file or a part of it at a time.

Which files there are is known before (`das_spark.io.input_tables`): no task, and no file system, lists anything.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.io.text_lines import TextLines
from das_spark.spark.engine import cores, in_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.io.input_tables import InputTable

#: Parts that a task reads one after the other, in the middle, where there are many.
_TASKS_OF_A_CORE: Final = 4


@dataclass(frozen=True, slots=True)
class _Reading:
    """From numbers of parts to their rows."""

    table: InputTable | TextLines

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column("id").to_pylist():
                yield from self.table.read(self.table.parts[number])


def _rows(spark: SparkSession, table: InputTable | TextLines) -> DataFrame:
    number = len(table.parts)
    tasks = max(1, min(number, _TASKS_OF_A_CORE * cores(spark)))
    return in_tasks(spark.range(0, number, 1, tasks), _Reading(table), from_arrow_schema(table.schema))


def table_rows(spark: SparkSession, table: InputTable) -> DataFrame:
    """The rows of a table: its columns that can be read, `POSITION` and, of CSV, `MALFORMED`.

    A record of CSV that breaks a rule is a row without values, and `MALFORMED` says which rule.
    """
    return _rows(spark, table)


def text_lines(
    spark: SparkSession, paths: Sequence[str], *, patterns: Sequence[str] = (), encoding: str = "UTF-8"
) -> DataFrame:
    """The lines of text files, and where they lie: value, and `POSITION`.

    Args:
        spark: The session.
        paths: Files, or folders with all that they hold, plain or compressed.
        patterns: Of a folder, the names of the files that are read; all where none are given.
        encoding: Of the text; bytes that are none become the sign of replacement.
    """
    return _rows(spark, TextLines.of(paths, patterns, encoding))
