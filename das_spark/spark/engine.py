"""Functions of tasks that Spark carries out, and the files of tables that it reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema

from das_spark.errors import without_values
from das_spark.places import Location, Place, for_all, size_of
from das_spark.process import SAFE_PATH, same_numbers
from das_spark.store import part_files
from das_spark.store.parquet import batches_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


#: How many tasks read files for each core, at most, and how many bytes a task has at least.
_TASKS_A_CORE: Final = 4
_LEAST_BYTES: Final = 4 << 20
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


def scan(spark: SparkSession, schema: StructType, folders: Sequence[Place], base: Place | None = None) -> DataFrame:
    """Read the rows of Parquet files in some folders, at least one.

    On disks Spark reads them, and no more columns than are asked for. Anywhere else tasks do, so that Spark needs no
    connector to the store and no credentials but those of its workers.

    Args:
        spark: The session.
        schema: Their columns. One that is not in the files, such as `level`, is in the names of their folders.
        folders: Such as `<base>/level=County`.
        base: The folder above them, if their names hold a column.
    """
    if any(isinstance(folder, Location) for folder in folders):
        return _scan_elsewhere(spark, schema, folders)
    reader = spark.read.schema(schema)
    if base is not None:
        reader = reader.option("basePath", str(base))
    return reader.parquet(*[str(folder) for folder in folders])


def _scan_elsewhere(spark: SparkSession, schema: StructType, folders: Sequence[Place]) -> DataFrame:
    files = [path for found in for_all(folders[0], part_files, folders) for path in found]
    sizes = np.array(for_all(folders[0], size_of, files), dtype=np.int64)
    # As many tasks as Spark itself would make of files of these sizes, each with its share of the bytes.
    tasks = max(min(len(files), cores(spark) * _TASKS_A_CORE, int(sizes.sum() // _LEAST_BYTES) + 1), 1)
    shares: list[list[Place]] = [[] for _ in range(tasks)]
    filled = np.zeros(tasks, dtype=np.int64)
    for place in np.argsort(-sizes, kind="stable"):
        least = int(filled.argmin())
        shares[least].append(files[place])
        filled[least] += sizes[place]
    work = _ReadFiles(tuple(map(tuple, shares)), to_arrow_schema(schema))
    return in_tasks(spark.range(0, tasks, 1, tasks), work, schema)


@dataclass(frozen=True, slots=True)
class _ReadFiles:
    """The rows of the files of a task; a column that they lack stands in the name of their folder."""

    shares: tuple[tuple[Place, ...], ...]
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        numbers = (number for batch in batches for number in batch.column("id").to_pylist())
        for file in (file for number in numbers for file in self.shares[number]):
            name, _, value = file.parent.name.partition("=")
            for batch in batches_of(file):
                columns = dict(zip(batch.schema.names, batch.columns, strict=True))
                if name not in columns:
                    columns[name] = pa.array([value] * batch.num_rows)
                arrays = [columns[field.name].cast(field.type) for field in self.schema]
                yield pa.RecordBatch.from_arrays(arrays, schema=self.schema)
