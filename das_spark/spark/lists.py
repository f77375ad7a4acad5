"""Batches of rows and their columns of lists: in Arrow and numpy, and in SQL."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from das_spark.errors import GeographyError
from das_spark.histogram import Histogram
from das_spark.verification import starts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

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


def flat_histograms(
    batch: pa.RecordBatch, prefix: str = ""
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """The occupied cells of a batch of histograms: row of the batch, cell and count of each."""
    cells, offsets = flat_lists(batch.column(f"{prefix}cells"), np.int64)
    counts, _ = flat_lists(batch.column(f"{prefix}counts"), np.int64)
    return np.repeat(np.arange(batch.num_rows), np.diff(offsets)), cells, counts


def histograms_of(rows: pa.RecordBatch | pa.Table, prefix: str, size: int) -> list[Histogram]:
    """The histograms of some rows, on a schema of so many cells."""
    cells, offsets = flat_lists(rows.column(f"{prefix}cells"), np.int64)
    counts, _ = flat_lists(rows.column(f"{prefix}counts"), np.int64)
    return [
        Histogram.from_pairs(size, cells[start:end], counts[start:end]) for start, end in pairwise(offsets.tolist())
    ]


def cut(batches: Iterable[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of at most so many."""
    for batch in batches:
        for begin in range(0, batch.num_rows, rows):
            yield batch.slice(begin, rows)


def slices(batch: pa.RecordBatch, column: str) -> Iterator[tuple[Any, pa.RecordBatch]]:
    """Cut a batch where the value of a column changes; each value with its rows."""
    if not batch.num_rows:
        return
    values = batch.column(column).dictionary_encode()
    codes = values.indices.to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), batch.num_rows]
    for begin, end in pairwise(edges):
        yield values.dictionary[int(codes[begin])].as_py(), batch.slice(begin, end - begin)


def together(batches: Iterable[pa.RecordBatch], column: str) -> Iterator[tuple[Any, pa.Table]]:
    """Cut a stream of rows, sorted by a column, into one table a value, across the borders of batches.

    A table that was given away is not kept here.
    """
    for table in whole_groups(batches, (column,), rows=1, size=1):
        value = table.column(column)[0].as_py()
        parts = [table]
        del table  # whoever is given it may let it go
        yield value, parts.pop()


def _taken(batches: list[pa.RecordBatch]) -> pa.Table:
    table = pa.Table.from_batches(batches)
    batches.clear()
    return table


def whole_groups(batches: Iterable[pa.RecordBatch], keys: Sequence[str], rows: int, size: int) -> Iterator[pa.Table]:
    """Cut a stream of rows, sorted by some columns, into tables that hold whole groups of rows with the same keys.

    A table has so many rows, or so many bytes, and what is left of its last group. One that was given away is not kept.
    """
    waiting, count, held = list[pa.RecordBatch](), 0, 0
    last: tuple[Any, ...] = ()
    for batch in batches:
        if not batch.num_rows:
            continue
        first = _key(batch, keys, 0)
        starts = group_starts(batch, keys)[1 if last == first else 0 :]
        begin, each = 0, max(1, batch.nbytes // batch.num_rows)
        while count + batch.num_rows > begin:
            # The first group that begins when enough rows are there.
            enough = begin + max(0 if count else 1, min(rows - count, (size - held) // each))
            place = int(np.searchsorted(starts, enough))
            if place == len(starts):
                break
            end = int(starts[place])
            waiting.append(batch.slice(begin, end - begin))
            yield _taken(waiting)
            begin, count, held = end, 0, 0
        waiting.append(batch.slice(begin))
        count, held = count + batch.num_rows - begin, held + each * (batch.num_rows - begin)
        last = _key(batch, keys, batch.num_rows - 1)
    if waiting:
        yield _taken(waiting)


def _key(batch: pa.RecordBatch, keys: Sequence[str], row: int) -> tuple[Any, ...]:
    return tuple(batch.column(name)[row].as_py() for name in keys)


def group_starts(batch: pa.RecordBatch, keys: Sequence[str]) -> NDArray[np.int64]:
    """Rows of a batch, which has some, at which a group of rows with the same keys begins: the first one, too."""
    return np.flatnonzero(starts(batch, keys))


def list_array(values: NDArray[np.generic], offsets: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """The inverse of `flat_lists`: an Arrow list column."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values, type=kind))


def list_rows(numbers: NDArray[np.generic]) -> pa.Array:
    """A list of numbers a row of an array (rows, width): an Arrow list column."""
    rows, width = numbers.shape
    values = pa.array(np.ascontiguousarray(numbers).ravel())
    return pa.ListArray.from_arrays(pa.array(np.arange(rows + 1, dtype=np.int32) * width), values)


def list_total(column: str | Column) -> Column:
    """Sum of a list of longs. A column of longs: 0 for an empty list, null for none."""
    return F.aggregate(column, F.lit(0).cast("bigint"), lambda total, value: total + value)


def text_column(rows: pa.Table, name: str) -> NDArray[np.str_]:
    """A column of text, shape (blocks,)."""
    column = rows.column(name)
    if column.null_count:
        raise GeographyError(f"column {name!r} of the blocks holds {column.null_count:,} nulls")
    return np.asarray(column.to_numpy().tolist(), dtype=np.str_)
