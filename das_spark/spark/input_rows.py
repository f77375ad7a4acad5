"""Files of the input as rows, with the number of each row in its file: read by tasks, a file or a part of it at a time.

Which files there are is known before (`das_spark.io.input_tables`): no task, and no file system, lists anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.io.input_tables import InputTable
from das_spark.io.text_lines import TextLines
from das_spark.spark.engine import cores, in_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

#: Parts that a task reads one after the other, in the middle, where there are many.
_TASKS_OF_A_CORE: Final = 4

_Files = TypeVar("_Files", bound=InputTable | TextLines)


#: From a table and the numbers of some of its parts to rows.
Read = Callable[[_Files, Iterable[int]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class _Reading(Generic[_Files]):
    """From numbers of parts to their rows."""

    table: _Files
    read: Read[_Files]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from self.read(self.table, batch.column("id").to_pylist())


def in_parts(spark: SparkSession, table: _Files, read: Read[_Files], schema: StructType) -> DataFrame:
    """Let tasks read a table, each some of its parts.

    Args:
        spark: The session.
        table: The table, as it was listed.
        read: The work of a task.
        schema: Of the rows that it makes.
    """
    number = len(table.parts)
    tasks = max(1, min(number, _TASKS_OF_A_CORE * cores(spark)))
    return in_tasks(spark.range(0, number, 1, tasks), _Reading(table, read), schema)


def _rows_of(table: InputTable | TextLines, parts: Iterable[int]) -> Iterator[pa.RecordBatch]:
    for number in parts:
        yield from table.read(table.parts[number])


def table_rows(spark: SparkSession, table: InputTable) -> DataFrame:
    """The rows of a table: its columns that can be read, `ROW` and, of CSV, `MALFORMED`.

    A record of CSV that breaks a rule is a row without values, and `MALFORMED` says which rule.
    """
    return in_parts(spark, table, _rows_of, from_arrow_schema(table.schema))
