"""Functions of tasks that Spark carries out, and the files of tables that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from das_spark.errors import without_values
from das_spark.process import SAFE_PATH, same_numbers
from das_spark.store import uri_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from das_spark.store import Address

#: The function of a task: batches of a partition in, batches out.
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def cores(spark: SparkSession) -> int:
    """Return how many tasks are carried out at once."""
    return spark.sparkContext.defaultParallelism


def in_tasks(rows: DataFrame, work: Work, schema: StructType | str) -> DataFrame:
    """Let tasks work on rows, partition by partition. What libraries say of their errors is held back."""
    # Whoever started the session: its workers import nothing from the folder in which the JVM was started, and have the
    # same numbers on every machine.
    rows.sparkSession.sparkContext.environment.update(SAFE_PATH | same_numbers())
    return rows.mapInArrow(without_values(work), schema)


def in_sorted_tasks(rows: DataFrame, order: Sequence[str], work: Work, schema: StructType | str) -> DataFrame:
    """Let tasks work on the rows of each partition in the order of some columns, nulls first."""
    return in_tasks(rows.sortWithinPartitions(*order), work, schema)


def scan(spark: SparkSession, schema: StructType, folders: Sequence[Address], base: Address | None = None) -> DataFrame:
    """Read the rows of Parquet files in some folders, at least one.

    Args:
        spark: The session.
        schema: Their columns. One that is not in the files, such as `level`, is in the names of their folders.
        folders: Such as `<base>/level=County`.
        base: The folder above them, if their names hold a column.
    """
    reader = spark.read.schema(schema)
    if base is not None:
        reader = reader.option("basePath", uri_of(base))
    return reader.parquet(*[uri_of(folder) for folder in folders])
