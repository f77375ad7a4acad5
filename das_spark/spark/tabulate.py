"""From estimates to published tables: one row a geounit, one column a published name.

Tasks see whole geounits, so a table needs no shuffle: it is a product of each batch with a sparse 0/1 matrix.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql.types import LongType, StringType, StructField, StructType

from das_spark.errors import without_values
from das_spark.tabulation import Incidence, incidence, tabulate

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from das_spark.tabulation import Table

GEOCODE = "geocode"
#: Values that a task holds as a dense table at once: bounds its memory.
_DENSE = 1 << 22


def table_schema(tables: Sequence[Table], *more: str) -> StructType:
    """Columns of tables as files hold them: geocode, then the published names.

    Args:
        tables: The tables, whose columns stand one behind the other.
        *more: Further text columns, in front.
    """
    texts = [StructField(name, StringType(), nullable=False) for name in (*more, GEOCODE)]
    numbers = [StructField(name, LongType(), nullable=False) for table in tables for name in table.names]
    return StructType([*texts, *numbers])


def tabulated(estimates: DataFrame, tables: Sequence[Table], *more: str) -> DataFrame:
    """Sum histograms into the columns of tables.

    Args:
        estimates: Columns geocode, cells (array of int) and counts (array of long), and those of `more`.
        tables: Tables of one schema; their columns stand one behind the other.
        *more: Text columns of the estimates that are kept, in front, such as level.

    Returns:
        `table_schema`: a row for every row of the estimates, in their order.

    Raises:
        QueryError: The tables have different schemas, or share column names.
    """
    chosen = estimates.select(*more, GEOCODE, "cells", "counts")
    return chosen.mapInArrow(
        without_values(TabulateTask(incidence(tables), (*more, GEOCODE))), table_schema(tables, *more)
    )


@dataclass(frozen=True, slots=True, eq=False)
class TabulateTask:
    """From batches of histograms to batches of table rows.

    Attributes:
        matrix: Which columns count which cells.
        kept: Text columns that are kept, in front.
    """

    matrix: Incidence
    kept: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Sum each histogram into the columns.

        Args:
            batches: Columns cells, counts and those that are kept.

        Yields:
            The same rows, with the columns of the tables.
        """
        step = max(1, _DENSE // len(self.matrix.names))
        for batch in batches:
            for begin in range(0, batch.num_rows, step):
                yield self._rows(batch.slice(begin, step))

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        cells, counts = batch.column("cells"), batch.column("counts")
        sums = tabulate(self.matrix, _values(cells), _offsets(cells), _values(counts))
        texts = [batch.column(name) for name in self.kept]
        numbers = [pa.array(column) for column in np.ascontiguousarray(sums.T)]
        return pa.RecordBatch.from_arrays([*texts, *numbers], [*self.kept, *self.matrix.names])


def _values(column: pa.Array) -> NDArray[np.int64]:
    values: NDArray[np.int64] = column.flatten().to_numpy(zero_copy_only=False)
    return values


def _offsets(column: pa.Array) -> NDArray[np.int64]:
    """Where the values of each row begin once the list column is flattened, and the end."""
    lengths = column.value_lengths().to_numpy(zero_copy_only=False)
    return np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(lengths, dtype=np.int64)])
