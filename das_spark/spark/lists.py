"""Columns of lists: in Arrow and numpy, and in SQL."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

Number = TypeVar("Number", bound=np.generic)


def flat_lists(column: pa.Array | pa.ChunkedArray, kind: type[Number]) -> tuple[NDArray[Number], NDArray[np.int64]]:
    """Flatten a column of lists; a null list counts as empty.

    Values (flat), and offsets (int64, length rows + 1), of which the first is 0.
    """
    array = column if isinstance(column, pa.Array) else column.combine_chunks()
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return array.flatten().to_numpy(zero_copy_only=False).astype(kind, copy=False), offsets


def list_array(values: NDArray[np.generic], offsets: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """The inverse of `flat_lists`: an Arrow list column."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values, type=kind))


def list_total(column: str | Column) -> Column:
    """Sum of a list of longs. A column of longs: 0 for an empty list, null for none."""
    return F.aggregate(column, F.lit(0).cast("bigint"), lambda total, value: total + value)
