"""The values of published tables as their files hold them, read by tasks.

Files of one table, level and number in several formats hold the same rows, and are read side by side: what they agree
on goes to the task that compares it with estimates once. Spark's readers would need a scan for each table, since each
has columns of its own; hundreds of scans in one plan take longer than what they read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyarrow import compute, csv
from scipy import sparse

from das_spark.io.table_files import BROKEN, GEOCODE, PARQUET
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
#: Numbers with tenths are less: beyond, the tenths of a floating-point number are not exact.
_MOST: Final = float(1 << 40)


@dataclass(frozen=True, slots=True)
class TableFile:
    """One file of a published table."""

    table: str  # name of the table
    format: str  # `parquet` or `csv`
    level: str  # geolevel of its rows
    path: Path


def whole_of(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """The whole numbers of a column; `MISSING` where there is none."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, MISSING, dtype=np.int64)
    column = batch.column(name)
    try:
        whole = column.cast(pa.int64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # what is no whole number is looked at one by one
        whole = pa.array([_whole(value) for value in column.to_pylist()], pa.int64())
    # Without a null among them they are where they are read.
    known = whole.fill_null(MISSING) if whole.null_count else whole
    numbers: NDArray[np.int64] = known.to_numpy(zero_copy_only=False)
    return numbers


def tenths_of(batch: pa.RecordBatch, name: str) -> NDArray[np.int64]:
    """Ten times the numbers of a column, 0 where there is none; `MISSING` for what is no positive number of tenths."""
    if name not in batch.schema.names:
        return np.full(batch.num_rows, MISSING, dtype=np.int64)
    column = batch.column(name)
    if pa.types.is_string(column.type):
        column = compute.if_else(compute.equal(column, ""), None, column)
    try:
        numbers = column.cast(pa.float64())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):  # what is no number is looked at one by one
        numbers = pa.array([None if value is None else _number(value) for value in column.to_pylist()], pa.float64())
    there = numbers.is_valid().to_numpy(zero_copy_only=False)
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
        text: What CSV is read as, as long as everything is that; texts else.
    """

    of: Callable[[pa.RecordBatch, str], NDArray[np.int64]]
    text: pa.DataType


WHOLE: Final = Numbers(whole_of, pa.int64())
TENTHS: Final = Numbers(tenths_of, pa.string())


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
            sum(file.path.stat().st_size for file in some), tuple(some), *columns[table], key=key, numbers=numbers
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
        done, text = 0, self.numbers.text
        if text != pa.string() and _has_blanks(file.path):
            text = pa.string()
        try:
            for batch in _csv(file.path, self.names, text):
                yield batch
                done += batch.num_rows
        except pa.ArrowInvalid:  # what is no number is looked at as a text
            for batch in _csv(file.path, self.names, pa.string()):
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


def _has_blanks(path: Path) -> bool:
    """Whether there is a blank behind the first line: Arrow passes over those around a number, which is none then."""
    with path.open("rb") as file:
        file.readline()
        return any(b" " in block or b"\t" in block for block in iter(lambda: file.read(_BLOCK), b""))


def _csv(path: Path, names: Sequence[str], kind: pa.DataType) -> Iterator[pa.RecordBatch]:
    """Rows of values of a type; one with more or fewer values than columns stands under a geocode of no geounit."""
    broken: list[str] = []

    def put_aside(_: csv.InvalidRow) -> str:
        broken.append(BROKEN)
        return "skip"

    try:
        opened = csv.open_csv(
            path,
            csv.ReadOptions(skip_rows=1, column_names=[GEOCODE, *names], block_size=_BLOCK),
            csv.ParseOptions(invalid_row_handler=put_aside),
            csv.ConvertOptions(column_types=dict.fromkeys(names, kind) | {GEOCODE: pa.string()}, null_values=[""]),
        )
    except pa.ArrowInvalid:
        if kind != pa.string():
            raise
        # Nothing stands behind the header, or nothing that is a row.
    else:
        with opened:
            yield from opened
    if broken:
        yield pa.RecordBatch.from_arrays([pa.array(broken)], [GEOCODE])


def _geocodes(batch: pa.RecordBatch) -> pa.Array:
    if GEOCODE not in batch.schema.names:
        return pa.nulls(batch.num_rows, pa.string())
    return batch.column(GEOCODE).cast(pa.string())


def _number(value: object) -> float:
    try:
        return float(str(value))
    except ValueError:
        return float("nan")


def _whole(value: object) -> int | None:
    text = str(value)
    return int(text) if text.isascii() and text.removeprefix("-").isdigit() and len(text) < len(str(1 << 63)) else None
