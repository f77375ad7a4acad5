"""Counting of wide intervals: tasks reduce rows to a line a column and geolevel, Spark sums those."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.spark.engine import in_tasks

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.features.intervals.wide_cells import WidthLimit
    from das_spark.tabulation import TableShell

_TALLIES: Final = pa.schema(
    [
        pa.field("level", pa.string(), False),
        pa.field("column", pa.int32(), False),
        pa.field("cells", pa.int64(), False),
        pa.field("wider", pa.int64(), False),
    ]
)


@dataclass(frozen=True, slots=True)
class _WidthTask:
    """From batches of intervals to how many are wider, by geolevel and column."""

    names: tuple[str, ...]  # of the columns of the table
    limit: WidthLimit

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count."""
        for batch in batches:
            for level in pc.unique(batch.column("level")).to_pylist():
                yield self._counted(level, batch.filter(pc.equal(batch.column("level"), level)))

    def _counted(self, level: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        wider = []
        for name in self.names:
            estimates, low, high = (batch.column(f"{name}{end}").to_numpy() for end in ("", "_low", "_high"))
            wider.append(int(self.limit.exceeded(estimates, low, high).sum()))
        count = len(self.names)
        columns = [[level] * count, np.arange(count, dtype=np.int32), np.full(count, batch.num_rows), wider]
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _TALLIES, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_TALLIES)


def wide_tallies(intervals: DataFrame, table: TableShell, limit: WidthLimit) -> dict[tuple[str, int], tuple[int, int]]:
    """Cells of a table and those with wider intervals, by geolevel and place of the column.

    Args:
        intervals: Of the table, with the level: columns `NAME`, `NAME_low` and `NAME_high` of each of its own.
        table: The table.
        limit: What is wider.
    """
    ends = [f"{name}{end}" for name in table.names for end in ("", "_low", "_high")]
    counted = in_tasks(
        intervals.select("level", *ends), _WidthTask(tuple(table.names), limit), from_arrow_schema(_TALLIES)
    )
    sums = counted.groupBy("level", "column").agg(F.sum("cells").alias("cells"), F.sum("wider").alias("wider"))
    return {(row["level"], row["column"]): (row["cells"], row["wider"]) for row in sums.collect()}
