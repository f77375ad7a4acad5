"""The values of published tables as their files hold them, read by tasks.

Files of one table, level and number in several formats hold the same rows, and are read side by side: what they agree
on goes to the task that compares it with estimates once. Spark's readers would need a scan for each table, since each
has columns of its own; hundreds of scans in one plan take longer than what they read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv
from scipy import sparse

from das_spark.io.table_files import GEOCODE, PARQUET, read_table_file, typed
from das_spark.places import Place, as_input, size_of
from das_spark.spark.verify import FileRows
from das_spark.store.parquet import batches_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.verification import ChildRows, TableRows

#: What stands for a value that is not there or is no whole number: a sum of people is never negative.
MISSING: Final = -1
#: Values that a task holds at once: bounds its memory.
_AT_ONCE: Final = 1 << 22
#: Bytes of CSV that are read at once.
_BLOCK: Final = 1 << 23
#: Blanks around a number, a plus, what begins a hexadecimal one, and quotes.
_SIGNS: Final = (b" ", b"\t", b"+", b"x", b"X", b'"')
#: Numbers with tenths are less: beyond, the tenths of a floating-point number are not exact.
_MOST: Final = float(1 << 40)


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a published table."""

    table: str  # name of the table
    format: str  # `parquet` or `csv`
    level: str  # geolevel of its rows
    path: Place


def whole_of(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """The whole numbers of a column; `MISSING` where there is none."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, MISSING, dtype=np.int64)
    whole = typed(batch.column(name), pa.int64())
    # Without a null among them they are where they are read.
    known = whole.fill_null(MISSING) if whole.null_count else whole
    numbers: NDArray[np.int64] = known.to_numpy(zero_copy_only=False)
    return numbers


def tenths_of(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """Ten times the numbers of a column, 0 where there is none; `MISSING` for what is no positive number of tenths."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, MISSING, dtype=np.int64)
    column = batch.column(name)
    numbers = typed(column, pa.float64())
    empty = pc.equal(column, "") if pa.types.is_string(column.type) else column.is_null()
    there = pc.invert(pc.fill_null(empty, True)).to_numpy(zero_copy_only=False)
    values = numbers.fill_null(0.0).to_numpy(zero_copy_only=False)
    known = (values > 0) & (values < _MOST)
    tenths = np.rint(np.where(known, values, 0.0) * 10)
    known &= tenths / 10 == values
    return np.where(there, np.where(known, tenths, MISSING), 0).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Numbers:
    """How the values of a table are read.

    Attributes:
        of: Is given rows and the name of a column, and gives its values.
        are_whole: Whether they are whole numbers.
    """

    of: Callable[[pa.RecordBatch, str], NDArray[np.int64]]
    are_whole: bool


WHOLE: Final = Numbers(whole_of, are_whole=True)
TENTHS: Final = Numbers(tenths_of, are_whole=False)


def published_rows(
    files: Sequence[TableFile],
    columns: Mapping[str, tuple[int, tuple[str, ...]]],
    key: ChildRows,
    numbers: Numbers = WHOLE,
) -> list[FileRows]:
    """List what tasks read of files.

    Args:
        files: The files.
        columns: Of each table by name the number of its row, and the names of its columns, the total first.
        key: What the rows are to families.
        numbers: How values are read.

    Returns:
        Each gives rows as `table_rows` makes them. A column that is not there, and a value that is none, have
        `MISSING`; CSV is read by the order of its columns, and its first line is skipped.
    """
    together: dict[tuple[str, str, str], list[TableFile]] = {}
    for file in files:
        together.setdefault((file.table, file.level, file.path.stem), []).append(file)
    return [
        _PublishedFiles(
            sum(size_of(file.path) for file in some), tuple(some), *columns[table], key=key, numbers=numbers
        )
        for (table, _, _), some in together.items()
    ]


@dataclass(frozen=True, slots=True)
class _PublishedFiles(FileRows):
    """Files that hold the same rows in several formats."""

    size: int
    files: tuple[TableFile, ...]
    first: int  # number of the row
    names: tuple[str, ...]
    key: ChildRows
    numbers: Numbers

    def __call__(self) -> Iterator[TableRows]:
        """Read them."""
        formats = [file.format for file in self.files]
        for parts in _side_by_side([self._values(file) for file in self.files]):
            there = [(format, part) for format, part in zip(formats, parts, strict=True) if part is not None]
            alike = [format for format, part in there if _same(part, there[0][1])]
            yield from self._rows(alike, there[0][1])
            for format, part in there:
                if format not in alike:
                    yield from self._rows([format], part)

    def _values(self, file: TableFile) -> Iterator[_Values]:
        rows = max(1, _AT_ONCE // (len(self.names) + 2))
        for read in self._batches(file, rows):
            for begin in range(0, read.num_rows, rows):
                part = read.slice(begin, rows)
                yield _Values(_geocodes(part), [self.numbers.of(part, name) for name in self.names])

    def _batches(self, file: TableFile, rows: int) -> Iterator[pa.RecordBatch]:
        if file.format == PARQUET:
            yield from batches_of(file.path, (GEOCODE, *self.names), rows)
            return
        done = 0
        if self.numbers.are_whole and _is_plain(file.path):
            try:
                for batch in _whole_numbers(file.path, self.names):
                    yield batch
                    done += batch.num_rows
                return
            except pa.ArrowInvalid:  # a value is no whole number, or a record is none
                pass
        texts = pa.schema(dict.fromkeys((GEOCODE, *self.names), pa.string()).items())
        for batch in read_table_file(file.path, file.format, texts):
            yield batch.slice(min(done, batch.num_rows))
            done -= min(done, batch.num_rows)

    def _rows(self, formats: Sequence[str], rows: _Values) -> Iterator[TableRows]:
        told = table_rows(formats, rows.geocodes, rows.columns, self.first)
        for level, keyed in self.key(self.files[0].level, told):
            yield self.key.table, level, keyed


def table_rows(
    formats: Sequence[str], geocodes: pa.Array, columns: Sequence[NDArray[np.int64]], first: int
) -> pa.RecordBatch:
    """Put rows of a table into the form in which they are compared: of each the numbers that are not zero.

    Args:
        formats: Which files hold them.
        geocodes: Of each row; null where it has none.
        columns: The values of each column, the total first.
        first: The number of the row: 1 for each row. The next one is that of the total, by itself; then come the
            columns in order.

    Returns:
        Columns geocode, formats, items and values.
    """
    told = [np.ones(len(geocodes), dtype=np.int64), columns[0], *columns]
    where = [np.flatnonzero(column) for column in told]
    ends = np.concatenate([[0], np.cumsum([len(rows) for rows in where])])
    values = np.concatenate([column[rows] for column, rows in zip(told, where, strict=True)])
    # By rows, where they are by columns.
    by_row = sparse.csc_array((values, np.concatenate(where), ends), (len(geocodes), len(told))).tocsr()
    offsets = pa.array(by_row.indptr.astype(np.int32))
    items, values = by_row.indices.astype(np.int32) + np.int32(first), by_row.data
    lists = [pa.ListArray.from_arrays(offsets, pa.array(flat)) for flat in (items, values)]
    named = pa.repeat(pa.scalar("\n".join(formats), pa.string()), len(geocodes))
    return pa.RecordBatch.from_arrays([geocodes, named, *lists], [GEOCODE, "formats", "items", "values"])


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """Rows of a table: geocodes, and the values of its columns."""

    geocodes: pa.Array
    columns: Sequence[NDArray[np.int64]]

    def slice(self, begin: int, end: int | None = None) -> _Values:
        return _Values(self.geocodes[begin:end], [column[begin:end] for column in self.columns])


def _same(one: _Values, other: _Values) -> bool:
    return one is other or (
        one.geocodes.equals(other.geocodes) and all(map(np.array_equal, one.columns, other.columns))
    )


def _side_by_side(streams: Sequence[Iterator[_Values]]) -> Iterator[list[_Values | None]]:
    """Cut streams of rows where any of them is cut; None stands for one that has ended."""
    parts = [next(stream, None) for stream in streams]
    while any(part is not None for part in parts):
        rows = min(len(part.geocodes) for part in parts if part is not None)
        yield [None if part is None else part.slice(0, rows) for part in parts]
        parts = [
            None if part is None else part.slice(rows) if len(part.geocodes) > rows else next(stream, None)
            for part, stream in zip(parts, streams, strict=True)
        ]


def _is_plain(path: Place) -> bool:
    """Whether nothing stands behind the first line that Arrow reads around a number or a text, and is no part of it."""
    with path.open("rb") as file:
        file.readline()
        return not any(sign in block for block in iter(lambda: file.read(_BLOCK), b"") for sign in _SIGNS)


def _whole_numbers(path: Place, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Rows of whole numbers alone.

    Raises:
        pa.ArrowInvalid: There are others, or there is no row.
    """
    kinds = dict.fromkeys(names, pa.int64()) | {GEOCODE: pa.string()}
    reading = csv.ReadOptions(skip_rows=1, column_names=[GEOCODE, *names], block_size=_BLOCK)
    converting = csv.ConvertOptions(column_types=kinds, null_values=[""])
    with csv.open_csv(as_input(path), reading, convert_options=converting) as opened:
        yield from opened


def _geocodes(batch: pa.RecordBatch) -> pa.Array:
    if GEOCODE not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.string())
    return batch.column(GEOCODE).cast(pa.string())
