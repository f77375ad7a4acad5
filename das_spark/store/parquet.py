"""Parquet files of which every byte is a function of their rows, written by the tasks of a Spark job.

Spark's own writer names files by a random number and lets the order of what was read decide which rows stand in which
file; a table that is made of confidential rows would tell of their order, sizes and times in that way. Here whoever
arranges the rows says which file each belongs to, and in which order; row groups are cut by rows and values alone; and
a file gets its name from the driver, when the task that wrote it is known to have succeeded.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from das_spark.geography import PADDING
from das_spark.places import Place, system_of
from das_spark.store.commit import part_files
from das_spark.store.digests import FileRecord, require_committed
from das_spark.store.hashed import HashedOutput

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: What a task says of each file that it wrote; `written` is the name under which it lies there.
REPORT: Final = "table string, file string, written string, rows long, size long, sha256 string"
SUFFIX: Final = ".parquet"
_LEVEL: Final = "level="
#: A row group has at most so many rows, and so many values in its lists (or a single row): bounds the memory of a task.
_GROUP_ROWS: Final = 1 << 16
_GROUP_VALUES: Final = 1 << 22
_REPORT_SCHEMA: Final = pa.schema(
    [(part.split()[0], {"string": pa.string(), "long": pa.int64()}[part.split()[1]]) for part in REPORT.split(", ")]
)

#: Table, file without suffix and below the folder of the table, rows.
Rows = tuple[str, str, pa.RecordBatch]


@dataclass(frozen=True, slots=True)
class TableFolder:
    """Where the files of one table are written before they are published.

    Attributes:
        path: A folder that every worker can write to, absolute.
        schema: The columns of the table.
    """

    path: Place
    schema: pa.Schema

    def __post_init__(self) -> None:
        """A relative path would mean another place in each process."""
        if not self.path.is_absolute():
            raise ValueError(f"{self.path}: workers need an absolute path")


@dataclass(frozen=True, slots=True)
class ParquetTables:
    """Writes the tables of one job: called in its tasks, and by the driver when they are done.

    Attributes:
        folders: Of each table, by name.
        codes: Of each level that has codes of its own in its geocodes, the first character and the one behind the last:
            files of this level hold these in the column geocode, without what fills them up.
    """

    folders: Mapping[str, TableFolder]
    codes: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def __call__(self, rows: Iterable[Rows]) -> Iterator[pa.RecordBatch]:
        """Write what a task has, which may hold several tables; in the worker.

        Yields:
            `REPORT`, a row a file.
        """
        writing = Writing(self)
        for row in rows:
            yield from writing.take(*row)
        yield from writing.close()

    def by_codes(self, file: str, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Rows of a file as it holds them."""
        level = next((part.removeprefix(_LEVEL) for part in file.split("/") if part.startswith(_LEVEL)), "")
        return own_codes(batch, self.codes[level]) if level in self.codes else batch

    def place(self, report: Iterable[Mapping[str, Any]]) -> dict[str, tuple[FileRecord, ...]]:
        """Give the files of tasks that succeeded their names, and leave all others behind; on the driver.

        Args:
            report: All rows of `REPORT` of the job.

        Returns:
            The files of each table, sorted by name; their names are paths below the folder of the table. A table
            without a row has one file without rows.
        """
        placed: dict[str, list[FileRecord]] = {}
        for row in report:
            folder, name = self.folders[row["table"]].path, f"{row['file']}{SUFFIX}"
            system_of(folder).move(str(folder / row["written"]), str(folder / name))
            placed.setdefault(row["table"], []).append(FileRecord(name, row["size"], row["sha256"]))
        for table in self.folders.keys() - placed.keys():
            placed[table] = [self._place_empty(table)]
        return {table: tuple(sorted(records, key=lambda record: record.name)) for table, records in placed.items()}

    def _place_empty(self, table: str) -> FileRecord:
        folder = self.folders[table]
        name = f"{file_name(0)}{SUFFIX}"
        opened = HashedOutput.open(folder.path / name)
        with opened, _writer(opened, folder.schema):
            pass
        return opened.record(name)


class Writing:
    """What a task has open: the files of one name at a time."""

    def __init__(self, tables: ParquetTables) -> None:
        """Begin with nothing."""
        self._tables, self._file, self._open = tables, "", dict[str, _File]()

    def take(self, table: str, file: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Write further rows; files of another name are finished first, and reported."""
        if file != self._file:
            yield from self.close()
            self._file = file
        if table not in self._open:
            self._open[table] = _File.begin(self._tables.folders[table], table, file)
        self._open[table].append(self._tables.by_codes(file, batch) if self._tables.codes else batch)

    def close(self) -> Iterator[pa.RecordBatch]:
        """Finish all files, and report them."""
        finished, self._open = list(self._open.values()), {}
        yield from (each.close() for each in finished)


def own_codes(batch: pa.RecordBatch, span: tuple[int, int]) -> pa.RecordBatch:
    """Rows whose column geocode holds the codes that geounits have by themselves.

    Args:
        batch: With geocodes.
        span: First character of the codes in them, from 0, and the one behind the last.
    """
    place = batch.schema.get_field_index("geocode")
    texts = batch.column(place).cast(pa.string())
    codes = pc.utf8_rtrim(pc.utf8_slice_codeunits(texts, *span), PADDING)
    return batch.set_column(place, "geocode", codes)


def file_name(number: int) -> str:
    """The name of a file of a table, without suffix.

    Args:
        number: Its number in the folder, from 0.
    """
    return f"part-{number:05d}"


def below(folder: str, files: Iterable[FileRecord]) -> tuple[FileRecord, ...]:
    """The files in one of the folders of a table, by their names in it.

    Args:
        folder: Its path below the folder of the table.
        files: As `ParquetTables.place` gives them.
    """
    return tuple(
        replace(file, name=file.name.removeprefix(f"{folder}/")) for file in files if file.name.startswith(f"{folder}/")
    )


def read_metadata(file: Place) -> pq.FileMetaData:
    """The footer of one file: its rows, row groups and columns.

    Raises:
        OSError: It cannot be read (`pyarrow.ArrowInvalid`: it is not a whole Parquet file).
    """
    with system_of(file).open_input(str(file)) as opened:
        return pq.read_metadata(opened)


def count_rows(folder: Place) -> int:
    """Rows of one level of a table, from the footers of its files; raises as `read_metadata` does."""
    require_committed(folder)
    return sum(read_metadata(path).num_rows for path in part_files(folder))


def read_batches(folder: Place, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of one level of a table, a piece at a time, in the order of its files."""
    require_committed(folder)
    for path in part_files(folder):
        yield from batches_of(path, columns)


def batches_of(file: Place, columns: Sequence[str] | None = None, most: int = 1 << 16) -> Iterator[pa.RecordBatch]:
    """The rows of one file, so many at the most at a time, and never more than a row group."""
    with system_of(file).open_input(str(file)) as opened:
        rows, names = pq.ParquetFile(opened), None if columns is None else list(columns)
        for group in range(rows.num_row_groups):  # pyarrow joins the small ones, whose rows are large
            yield from rows.iter_batches(most, row_groups=[group], columns=names)


def read_rows(folder: Place, schema: pa.Schema) -> pa.Table:
    """All rows of one level of a table that is small."""
    batches = list(read_batches(folder, schema.names))
    return pa.Table.from_batches(batches).cast(schema).combine_chunks() if batches else schema.empty_table()


@dataclass(slots=True)
class _File:
    """One file that a task writes, under a name that no other attempt at the task has."""

    table: str
    file: str
    written: str
    output: HashedOutput
    writer: pq.ParquetWriter
    schema: pa.Schema
    rows: int = 0
    waiting: list[pa.Table] = field(default_factory=list)
    waiting_rows: int = 0
    waiting_values: int = 0

    @classmethod
    def begin(cls, folder: TableFolder, table: str, file: str) -> _File:
        name = PurePosixPath(file)
        # The driver gives a file its name; until then it has one that no other attempt at the task has.
        written = str(name.with_name(f".{name.name}-{secrets.token_hex(8)}"))
        output = HashedOutput.open(folder.path / written)
        return cls(table, file, written, output, _writer(output, folder.schema), folder.schema)

    def append(self, batch: pa.RecordBatch) -> None:
        """Take further rows; a row group is written when it is full, wherever the batches are cut."""
        arrays = [
            batch.column(name).cast(kind) for name, kind in zip(self.schema.names, self.schema.types, strict=True)
        ]
        table = pa.Table.from_arrays(arrays, schema=self.schema)
        values = np.cumsum(_values(table))
        begin = 0
        while begin < table.num_rows:
            # How many of these rows the row group still takes: by their number, and by their values.
            before = int(values[begin - 1]) if begin else 0
            room = _GROUP_VALUES - self.waiting_values
            end = min(
                begin + _GROUP_ROWS - self.waiting_rows, int(np.searchsorted(values, before + room, side="right"))
            )
            if end <= begin and not self.waiting_rows:
                end = begin + 1  # a row with more values than a row group should have
            if end > begin:
                self.waiting.append(table.slice(begin, end - begin))
                self.waiting_rows += end - begin
                self.waiting_values += int(values[end - 1]) - before
                begin = end
            if begin < table.num_rows:
                self._write_group()
        if self.waiting_rows == _GROUP_ROWS:
            self._write_group()

    def close(self) -> pa.RecordBatch:
        """Finish the file, and report it."""
        self._write_group()
        self.writer.close()
        self.output.close()
        record = self.output.record(self.written)
        report = (self.table, self.file, self.written, self.rows, record.size, record.sha256)
        return pa.RecordBatch.from_arrays(
            [pa.array([value], each.type) for value, each in zip(report, _REPORT_SCHEMA, strict=True)],
            schema=_REPORT_SCHEMA,
        )

    def _write_group(self) -> None:
        if self.waiting_rows:
            # In one piece: where the pieces met would decide where pages end.
            self.writer.write_table(pa.concat_tables(self.waiting).combine_chunks(), row_group_size=self.waiting_rows)
            self.rows += self.waiting_rows
            self.waiting, self.waiting_rows, self.waiting_values = [], 0, 0


def _writer(output: HashedOutput, schema: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(output, schema, compression="zstd", compression_level=1)


def _values(table: pa.Table) -> NDArray[np.int64]:
    """How many values the lists of each row hold together."""
    total = np.zeros(table.num_rows, dtype=np.int64)
    for column in table.columns:
        if pa.types.is_list(column.type):
            for chunk_start, chunk in _chunks(column):
                lengths = chunk.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
                total[chunk_start : chunk_start + len(chunk)] += lengths
    return total


def _chunks(column: pa.ChunkedArray) -> Iterator[tuple[int, pa.Array]]:
    start = 0
    for chunk in column.chunks:
        yield start, chunk
        start += len(chunk)
