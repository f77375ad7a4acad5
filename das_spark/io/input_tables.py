"""Tables of the input, as CSV or Parquet: what they are, and their rows as Arrow batches, a part at a time.

Everything that can be seen without reading the rows is looked at once, when a table is opened: the list of its files,
their columns and types. Tasks read what is listed, and refuse a file that is another one by then.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TYPE_CHECKING, BinaryIO, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import parquet

from das_spark.errors import InputError
from das_spark.io.csv_records import CsvRecords, csv_records
from das_spark.io.input_files import PLAIN_CSV, CsvForm, csv_names, is_catalog_table
from das_spark.io.input_places import readable
from das_spark.io.listed_files import ROW, ListedFile, Part, numbered, with_numbers
from das_spark.io.table_folder import is_csv, table_files
from das_spark.places import as_input, place_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.io.listed_files import HashedFile

#: Column of what a record of CSV breaks; null where it could be read.
MALFORMED: Final = "row_malformed"
#: Bytes of CSV that are read at once where a record is all that is looked for.
_BEGINNING: Final = 1 << 16
#: Rows of Parquet that are read at once.
_ROWS: Final = 1 << 16
#: Digits of the numbers that a column of decimals holds at most.
_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class InputTable:
    """A table, as it was when it was opened.

    Attributes:
        path: File or folder, as it was named.
        files: Its files.
        partitions: Of each file, the columns that its folders are called by, and their texts; None for nothing.
        names: Columns of each file.
        kinds: Type by column, those that folders are called by included, of those that can be read.
        form: Of CSV; None for Parquet.
        parts: What there is to read.
    """

    path: str
    files: tuple[ListedFile, ...]
    partitions: tuple[Mapping[str, str | None], ...]
    names: tuple[str, ...]
    kinds: Mapping[str, pa.DataType]
    form: CsvForm | None
    parts: tuple[Part, ...]

    @classmethod
    def open(cls, path: str, form: CsvForm = PLAIN_CSV) -> InputTable:
        """Look at a table.

        Args:
            path: File or folder.
            form: How it is written, if it is CSV.

        Raises:
            InputError: It is not there, or not what its name says; or its files have not the same columns.
        """
        found = table_files(path)
        files = tuple(ListedFile.of(file.path) for file in found)
        partitions = tuple(dict(file.partition) for file in found)
        kinds: dict[str, pa.DataType]
        if is_csv(files[0].path):
            written: CsvForm | None = form
            names, parts = _csv_columns(files, form)
            kinds = dict.fromkeys(names, pa.string())
        else:
            written = None
            kinds, names, parts = _parquet_columns(files)
        if twice := [name for name in partitions[0] if name in names]:
            raise InputError(f"{path}: folders are called by column {twice[0]!r}, which their files have, too")
        return cls(path, files, partitions, names, kinds | dict.fromkeys(partitions[0], pa.string()), written, parts)

    def narrowed(self, names: Sequence[str]) -> InputTable:
        """Return the same table with some of its columns to read.

        Raises:
            InputError: One of them holds neither texts nor numbers.
        """
        if unread := [name for name in names if name in self.unread]:
            raise InputError(f"{self.path}: column {unread[0]!r} holds neither texts nor numbers")
        return replace(self, kinds={name: self.kinds[name] for name in names})

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns, those that folders are called by last."""
        return (*self.names, *self.partitions[0])

    @property
    def schema(self) -> pa.Schema:
        """Of its rows: columns that can be read, their numbers, and what records of CSV break."""
        broken = [] if self.form is None else [(MALFORMED, pa.string())]
        return with_numbers(pa.schema([*self.kinds.items(), *broken]))

    @property
    def unread(self) -> frozenset[str]:
        """Names of columns whose values are neither texts nor numbers."""
        return frozenset(self.columns) - self.kinds.keys()

    def has_rows(self) -> bool:
        """Say whether it has a row, or a record that cannot be read."""
        return any(number for part in self.parts for number in self._counted(part, _BEGINNING))

    def count_records(self) -> int:
        """Count its rows, and records that cannot be read."""
        return sum(number for part in self.parts for number in self._counted(part))

    def _counted(self, part: Part, *size: int) -> Iterator[int]:
        """Count the records of a part, some at a time."""
        if self.form is None:
            yield part.rows
            return
        for some in self._records(part, *size):
            yield len(some.numbers) + len(some.faults)

    def _records(self, part: Part, *size: int) -> Iterator[CsvRecords]:
        """Find the records of a file of CSV, and read no column of them."""
        file = self.files[part.file]
        with file.hashed() as opened:
            yield from csv_records(file.unpacked(opened), self.names, (), self.form or PLAIN_CSV, *size)

    def read(self, part: Part, digests: dict[str, str] | None = None) -> Iterator[pa.RecordBatch]:
        """Read the rows of a part.

        Args:
            part: Of the table.
            digests: To which the digest of the file is added, by its path, when its first part is read.

        Raises:
            InputError: The file is another one than it was, or cannot be read.
        """
        file = self.files[part.file]
        with file.hashed() as opened:
            yield from self._csv(part, file.unpacked(opened)) if self.form is not None else self._parquet(part)
            if digests is not None and part.group == 0:
                digests[file.path] = opened.sha256()

    def texts(self, names: Sequence[str]) -> pa.Table:
        """Read some columns, whole, as texts: of a table that is public, and small.

        Raises:
            InputError: A record breaks a rule of CSV, or a column holds neither texts nor numbers.
        """
        narrow = self.narrowed(names)
        batches = []
        for part in self.parts:
            for batch in narrow.read(part):
                if self.form is not None and (broken := batch.filter(pc.is_valid(batch.column(MALFORMED)))).num_rows:
                    rule, row = (broken.column(name)[0].as_py() for name in (MALFORMED, ROW))
                    raise _not_so(self.files[part.file].path, rule, row)
                batches.append(batch)
        whole = pa.Table.from_batches(batches, narrow.schema)
        return pa.table({name: whole.column(name).cast(pa.string()) for name in names})

    def require_whole(self) -> None:
        """Refuse a table, of which all is public, that has a record of CSV which cannot be read, and name the first."""
        for part in self.parts if self.form is not None else ():
            for some in self._records(part):
                if some.faults:
                    number = min(some.faults)
                    raise _not_so(self.files[part.file].path, some.faults[number], number)

    @property
    def _wanted(self) -> list[str]:
        """Columns of the files that are read."""
        return [name for name in self.kinds if name in self.names]

    def _csv(self, part: Part, text: BinaryIO | HashedFile) -> Iterator[pa.RecordBatch]:
        wanted = self._wanted
        for some in csv_records(text, self.names, wanted, self.form or PLAIN_CSV):
            yield self._rows(part, dict(zip(wanted, some.rows.columns, strict=True)), some.numbers)
            if some.faults:
                numbers = np.array(list(some.faults), dtype=np.int64)
                broken = {MALFORMED: pa.array(some.faults.values(), pa.string())}
                yield self._rows(part, broken, numbers)

    def _parquet(self, part: Part) -> Iterator[pa.RecordBatch]:
        file = self.files[part.file]
        wanted, before = self._wanted, part.before
        # Pages are held to their checksums, where their writer made some.
        with parquet.ParquetFile(as_input(place_of(file.path)), page_checksum_verification=True) as opened:
            for batch in opened.iter_batches(_ROWS, row_groups=[part.group], columns=wanted):
                columns = {name: _as_kind(file.path, name, batch.column(name), self.kinds[name]) for name in wanted}
                yield self._rows(part, columns, np.arange(before + 1, before + 1 + batch.num_rows))
                before += batch.num_rows
        if before != part.before + part.rows:
            raise InputError(f"{file.path}: holds other numbers of rows than it says", hint="copy it again, whole")

    def _rows(self, part: Part, columns: Mapping[str, pa.Array], numbers: NDArray[np.int64]) -> pa.RecordBatch:
        size = len(numbers)
        of_folders = {
            name: pa.repeat(pa.scalar(text, pa.string()), size) for name, text in self.partitions[part.file].items()
        }
        return numbered(self.schema, {**columns, **of_folders}, numbers)


def _not_so(path: str, rule: str, number: int) -> InputError:
    return InputError(f"{path}: expected {rule}; not so in record {number}")


def _csv_columns(files: Sequence[ListedFile], form: CsvForm) -> tuple[tuple[str, ...], tuple[Part, ...]]:
    """Find the names of the columns of CSV files; a file without a byte has none, and no rows."""
    some = [place for place, file in enumerate(files) if file.size]
    if not some:
        raise InputError(f"{files[0].path}: is empty; its first line must hold the names of columns")
    first, *others = [(files[place].path, csv_names(files[place].path, form)) for place in some]
    for path, names in others:
        if names != first[1]:  # another first line may be a record, which is not quoted
            hint = "every file of a folder has the same columns, and CSV begins with the same line of their names"
            raise InputError(f"{path}: its first line is not that of {first[0]}", hint=hint)
    return first[1], tuple(map(Part, some))


def _parquet_columns(
    files: Sequence[ListedFile],
) -> tuple[dict[str, pa.DataType], tuple[str, ...], tuple[Part, ...]]:
    """Find the columns of Parquet files, with the types that all of them can be read as, and their row groups."""
    kinds: dict[str, pa.DataType | None] = {}
    names: tuple[str, ...] = ()
    parts: list[Part] = []
    for place, file in enumerate(files):
        schema, groups = _footer(file.path)
        if place and tuple(schema.names) != names:
            hint = "every file of a folder has the same columns, in the same order"
            raise InputError(f"{file.path}: its columns are not those of {files[0].path}", hint=hint)
        names = tuple(schema.names)
        for field in schema:
            own = _kind(field.type)
            known = kinds.setdefault(field.name, own)
            if known != own:
                kinds[field.name] = _common(known, own, file.path, field.name)
        before = accumulate(groups, initial=0)
        parts += [Part(place, group, rows, own) for (group, own), rows in zip(enumerate(groups), before, strict=False)]
    return {name: kind for name, kind in kinds.items() if kind is not None}, names, tuple(parts)


def _footer(path: str) -> tuple[pa.Schema, list[int]]:
    """Return the columns of a Parquet file, and how many rows its row groups have."""
    place = place_of(path)
    with readable(path), place.open("rb") as file:
        begin = file.read(len(_MAGIC))
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - len(_MAGIC), 0))
        end = file.read()
    if begin != _MAGIC:
        hint = "name a table of CSV to end in .csv (or .csv.gz), and one of Parquet in .parquet"
        raise InputError(f"{path}: cannot be read: it is no Parquet file, and has no name of CSV", hint=hint)
    if size < _LEAST_PARQUET or end != _MAGIC:
        hint = "copy it again, whole"
        raise InputError(f"{path}: cannot be read: it begins as Parquet, and does not end so", hint=hint)
    with readable(path), parquet.ParquetFile(as_input(place)) as opened:
        metadata = opened.metadata
        groups = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
        return opened.schema_arrow, groups


_MAGIC: Final = b"PAR1"
_LEAST_PARQUET: Final = 12


def _kind(kind: pa.DataType) -> pa.DataType | None:
    """Return the type that values of a type of Parquet are read as; None where they are neither text nor numbers."""
    if pa.types.is_dictionary(kind):
        return _kind(kind.value_type)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_integer(kind):
        return pa.int64()
    if pa.types.is_floating(kind):
        return pa.float64()
    if pa.types.is_decimal(kind):
        return pa.decimal128(_DIGITS, kind.scale) if kind.precision <= _DIGITS else None
    return kind if pa.types.is_null(kind) else None


def _common(one: pa.DataType | None, other: pa.DataType | None, path: str, name: str) -> pa.DataType | None:
    """Return the type that values of two types are both read as, without another value of any."""
    if one is None or other is None:
        return None  # refused where the column is asked for
    if pa.types.is_null(one) or pa.types.is_null(other):
        return other if pa.types.is_null(one) else one
    if pa.types.is_decimal(one) and pa.types.is_decimal(other):
        return pa.decimal128(_DIGITS, max(one.scale, other.scale))
    if {one, other} == {pa.int64(), pa.float64()}:
        return pa.float64()
    raise InputError(
        f"{path}: column {name!r} holds values of type {other}, and other files of the table {one}",
        hint="write all files with the same types",
    )


def _as_kind(path: str, name: str, column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Cast a column, if that changes no value."""
    if pa.types.is_dictionary(column.type):
        column = pc.cast(column, column.type.value_type)
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:
        raise InputError(
            f"{path}: column {name!r} holds values that {kind} cannot hold exactly",
            hint="whole numbers go up to 9,223,372,036,854,775,807",
        ) from None


def columns_in(path: str, form: CsvForm = PLAIN_CSV) -> tuple[str, ...] | None:
    """Find the names of the columns of a table; None of one of a catalog, which is left to the session."""
    return None if is_catalog_table(path) else InputTable.open(path, form).columns
