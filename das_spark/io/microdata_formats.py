"""The columns of a microdata file, compiled from the product's layout to what a worker needs: ranges and codes.

The sources of a column are those of `das_spark.products.base`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from importlib.metadata import version
from itertools import groupby
from math import prod
from types import MappingProxyType
from typing import TYPE_CHECKING, BinaryIO, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.geography import PADDING
from das_spark.products.base import WITHOUT_UNITS

if TYPE_CHECKING:
    from das_spark.io.lines import LineComposer
    from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product


#: The format whose columns are compiled where none is named.
TEXT = "text"
#: Name of the class of a unit in a `recode` source.
_UNIT_CLASS = "unit_class"

#: Record types of people in households and in group quarters, and of housing units and group quarters.
_PERSON_TYPES, _UNIT_TYPES = ("3", "5"), ("2", "4")

_GEOCODE = re.compile(r"geocode\[(\d+):(\d+)\]")


class Scope(StrEnum):
    """What the value of a column depends on."""

    CONSTANT = "constant"
    GEOCODE = "geocode"
    CODE = "code"
    RECORD_NUMBER = "record_number"
    UNIT_NUMBER = "unit_number"
    PERSON_NUMBER = "person_number"
    POPULATION = "population"


_NUMBERS = (Scope.RECORD_NUMBER, Scope.UNIT_NUMBER, Scope.PERSON_NUMBER, Scope.POPULATION)


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """One compiled column.

    Attributes:
        name: Its name.
        scope: What its value depends on.
        begin: First digit of the geocode part.
        end: Digit after the last of the geocode part.
        filled: What fills up a code that is shorter than its part of the geocode; empty where nothing does.
        values: The constant (one value), or the texts of the levels that cells, or kinds of units, have.
        integers: Whether Parquet files have these texts as whole numbers.
        axes: Number of levels, and cells in which the level stays the same, of every attribute that tells.
        listed: The code from which on units are listed, which have the last text; None where none are.
        table: Place of the text of each code, where that does not follow from attributes.
        first_divided: Code of the first cell among records that another product tells apart; None where none are.
        divided: Place of the text of these; None where it is that of other records of their cells.
    """

    name: str
    scope: Scope
    begin: int = 0
    end: int = 0
    filled: str = ""
    values: tuple[str, ...] = ()
    integers: bool = False
    axes: tuple[tuple[int, int], ...] = ()
    listed: int | None = None
    table: NDArray[np.int8] | None = None
    first_divided: int | None = None
    divided: int | None = None

    def level(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """Place in `values` of the text of each cell or kind."""
        if self.first_divided is None:
            return self._level(codes)
        apart = codes >= self.first_divided
        found = self._level(np.where(apart, codes - self.first_divided, codes))
        return found if self.divided is None else np.where(apart, self.divided, found)

    def _level(self, codes: NDArray[np.int64]) -> NDArray[np.int64]:
        """The same of codes of cells and of what is listed."""
        if self.table is not None:
            return self.table[codes].astype(np.int64)
        if not self.axes:
            return codes
        found = np.zeros_like(codes)
        for size, stride in self.axes:
            found = found * size + codes // stride % size
        return found if self.listed is None else np.where(codes >= self.listed, len(self.values) - 1, found)

    def texts(self, codes: NDArray[np.int64]) -> list[str]:
        """The text of each cell or kind."""
        return [self.values[each] for each in self.level(codes).tolist()]

    def part(self, geocode: str) -> str:
        """The part of a geocode that stands in the column."""
        text = geocode[self.begin : self.end]
        return text.rstrip(self.filled) if self.filled else text

    @property
    def produced(self) -> bool:
        """Whether the run made the value: geocode parts, codes and numbers, no constants."""
        return self.scope is not Scope.CONSTANT


@dataclass(frozen=True, slots=True)
class FileColumns:
    """The columns of one file.

    Attributes:
        kind: What a record is: that which is counted, or `unit`.
        columns: In the order of the layout.
        codes: How many cells, or kinds of units, there are.
        delimiter: What stands between the fields of a text file.
        names_inside: Whether each part of a text file begins with a line of the names of its columns.
    """

    kind: str
    columns: tuple[Column, ...]
    codes: int
    delimiter: str = "|"
    names_inside: bool = False


def record_columns(product: Product, format: str = TEXT, *, units: bool) -> FileColumns:
    """Compile the columns of the file of what is counted; codes are by cell, those of listed units last."""
    layout = product.layout(format)
    compiled = []
    kinds = class_codes(product).astype(np.int8)
    first = product.first_divided
    for column in layout.columns(product.record):
        by_kind = _by_kind(column, product, _PERSON_TYPES if product.record == "person" else _UNIT_TYPES)
        if by_kind:
            compiled.append(Column(column.name, Scope.CODE, values=by_kind, table=kinds, first_divided=first))
        elif column.source.startswith(("recode:", "divided:")):
            compiled.append(_recoded(column, product))
        elif column.source in WITHOUT_UNITS and not units:
            compiled.append(Column(column.name, Scope.CONSTANT, values=(WITHOUT_UNITS[column.source],)))
        else:
            compiled.append(_common(column, product))
    return _file(product.kind, compiled, product.codes, layout)


def unit_columns(product: Product, format: str = TEXT) -> FileColumns:
    """Compile the columns of the file of units that people are assigned to; codes are by class, vacant units last."""
    layout = product.layout(format)
    compiled = []
    for column in layout.unit:
        values = _by_kind(column, product, _UNIT_TYPES)
        compiled.append(Column(column.name, Scope.CODE, values=values) if values else _common(column, product))
    return _file("unit", compiled, len(product.unit_classes) + 1, layout)


def _by_kind(column: MicrodataColumn, product: Product, record_types: tuple[str, str]) -> tuple[str, ...]:
    """The text of every class of units, and of vacant ones, in a column that the kind of unit tells; else none."""
    classes, vacant = len(product.unit_classes), product.vacant_kinds
    home, quarters = record_types
    if column.source.startswith(f"recode:{_UNIT_CLASS}:"):
        texts = _codes(column, classes + 1, f"one for each of {classes} classes and one for vacant units")
        return (*texts, *texts[-1:] * (vacant - 1))
    if column.source.startswith("vacancy:"):
        return (*["0"] * classes, *_texts(column, column.source.split(":")[1], vacant, "one for each kind of vacancy"))
    of_kinds = {
        "record_type": (home, *[quarters] * (classes - 1), *[home] * vacant),
        "tenure": ("9", *["0"] * (classes - 1 + vacant)),
        "vacancy": (*["0"] * classes, *["9"] * vacant),
    }
    return of_kinds.get(column.source, ())


def class_codes(product: Product) -> np.ndarray:
    """The unit class of each cell, shape (cells,), int64: the answer of the class query that counts it.

    Where units or households are counted, shape (codes,): 0, the kinds that are listed, and 0 again for records that
    another product tells apart. People without a class query are of one class.
    """
    if product.listed:
        found = np.zeros(product.codes, dtype=np.int64)
        found[product.schema.size : product.schema.size + len(product.listed)] = product.listed
        return found
    if not product.class_query:
        return np.zeros(product.schema.size, dtype=np.int64)
    codes = product.schema.query(product.class_query).row_of(np.arange(product.schema.size))
    return np.asarray(codes, dtype=np.int64)


def _file(kind: str, columns: Sequence[Column], codes: int, layout: MicrodataLayout) -> FileColumns:
    typed = tuple(
        replace(column, integers=bool(column.values) and declared.holds_integers(column.values))
        for column, declared in zip(columns, layout.columns(kind), strict=True)
    )
    return FileColumns(kind, typed, codes, layout.delimiter, layout.header == "inside")


def _common(column: MicrodataColumn, product: Product) -> Column:
    part = _GEOCODE.fullmatch(column.source)
    if part:
        filled = PADDING if product.geolevels[-1].code else ""
        return Column(column.name, Scope.GEOCODE, int(part[1]), int(part[2]), filled)
    if column.source.startswith("constant:"):
        return Column(column.name, Scope.CONSTANT, values=(column.source.removeprefix("constant:"),))
    if column.source in [str(scope) for scope in _NUMBERS]:
        return Column(column.name, Scope(column.source))
    raise ConfigurationError(f"microdata column {column.name}: no source {column.source!r} exists")


def _recoded(column: MicrodataColumn, product: Product) -> Column:
    schema, listed = product.schema, bool(product.listed)
    kind, name, _ = column.source.split(":", 2)
    divided = kind == "divided"
    places = [schema.axis(each) for each in name.split("*")]
    axes = tuple((schema.shape[axis], prod(schema.shape[axis + 1 :])) for axis in places)
    more = " and one for those of the last that are told apart" if divided else ""
    more += " and one for what is listed" if listed else ""
    levels = prod(size for size, _ in axes)
    values = _codes(column, levels + divided + listed, f"one for each level of {name}{more}")
    return Column(
        column.name,
        Scope.CODE,
        values=values,
        axes=axes,
        listed=schema.size if listed else None,
        first_divided=product.first_divided,
        divided=levels if divided else None,
    )


def _codes(column: MicrodataColumn, expected: int, meaning: str) -> tuple[str, ...]:
    return _texts(column, column.source.split(":", 2)[2], expected, meaning)


def _texts(column: MicrodataColumn, codes: str, expected: int, meaning: str) -> tuple[str, ...]:
    values = tuple(codes.split(","))
    if len(values) != expected:
        raise ConfigurationError(
            f"microdata column {column.name}: {len(values)} codes, expected {expected} ({meaning})"
        )
    return values


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of one file, column-wise and still as codes, in runs whose rows differ in their numbers alone.

    Attributes:
        geocodes: Leaf geocodes of the batch, K of them.
        owner: Shape (runs,): position of the geocode of each run in `geocodes`.
        code: Shape (runs,): cell (persons) or kind (units) of each run.
        lengths: Shape (runs,): rows of each run.
        numbers: Shape (rows,) each: the number columns, by scope; not negative.
    """

    geocodes: tuple[str, ...]
    owner: NDArray[np.int64]
    code: NDArray[np.int64]
    lengths: NDArray[np.int64]
    numbers: Mapping[Scope, NDArray[np.int64]]

    @property
    def number(self) -> int:
        """How many rows there are."""
        return int(self.lengths.sum())


class Sink(Protocol):
    """One open file."""

    def write(self, rows: Rows) -> None:
        """Append rows."""

    def close(self) -> None:
        """Write what is left; the file is whole only after this."""


class MicrodataFormat(Protocol):
    """A way to write microdata."""

    @property
    def name(self) -> str:
        """As the configuration spells it."""

    @property
    def what(self) -> str:
        """What its files are, in a line."""

    @property
    def suffix(self) -> str:
        """Of its files, with the dot."""

    @property
    def has_metadata_file(self) -> bool:
        """Whether comments stand in a text file beside the data instead of inside."""

    def open(self, file: BinaryIO, columns: FileColumns, notices: tuple[str, ...]) -> Sink:
        """Begin a file, which the sink does not close."""
        ...


@dataclass(frozen=True, slots=True)
class TextFormat:
    """Delimited text files, in the layout of the product for the format."""

    name: str
    suffix: str
    what: str
    has_metadata_file: bool = True

    def open(self, file: BinaryIO, columns: FileColumns, notices: tuple[str, ...]) -> Sink:
        """Begin a file; see `MicrodataFormat`."""
        from das_spark.io.lines import LineComposer  # noqa: PLC0415 - the compiler takes time

        runs = groupby(_with_scopes(columns.columns), key=lambda pair: pair[0])
        segments = tuple(_segment(scope, tuple(column for _, column in run), columns) for scope, run in runs)
        if columns.names_inside:
            file.write(_name_line(columns).encode("ascii"))
        return _TextSink(file, segments, LineComposer(columns.delimiter))


def _name_line(columns: FileColumns) -> str:
    """The names of the columns, as a line of a text file."""
    return columns.delimiter.join(column.name for column in columns.columns) + "\n"


#: Gives all texts that neighboring columns may have, and the place among them of the text of each run.
_Texts = Callable[[Rows], tuple[list[str], NDArray[np.int64]]]


@dataclass(frozen=True, slots=True, eq=False)
class _TextSink:
    file: BinaryIO
    segments: tuple[_Texts | Scope, ...]  # in the order of the line; a scope stands for its number
    composer: LineComposer

    def write(self, rows: Rows) -> None:
        numbers = [segment for segment in self.segments if isinstance(segment, Scope)]
        texts: list[str] = []
        fields = np.empty((len(rows.owner), len(self.segments)), dtype=np.int64)
        for place, segment in enumerate(self.segments):
            if isinstance(segment, Scope):
                fields[:, place] = -1 - numbers.index(segment)
            else:
                own, chosen = segment(rows)
                fields[:, place] = chosen + len(texts)
                texts += own
        numbered = [rows.numbers[scope] for scope in numbers]
        self.file.write(self.composer.lines(texts, fields, rows.lengths, numbered))

    def close(self) -> None:
        self.file.flush()


def _with_scopes(columns: tuple[Column, ...]) -> list[tuple[Scope, Column]]:
    """Pair each column with the scope of the segment that it joins: constants join what stands before them."""
    first = next((column.scope for column in columns if column.produced), Scope.CONSTANT)
    paired: list[tuple[Scope, Column]] = []
    for column in columns:
        before = paired[-1][0] if paired else first
        if column.produced:
            paired.append((column.scope, column))
        else:
            paired.append((Scope.CODE if before in _NUMBERS else before, column))
    return paired


def _segment(scope: Scope, columns: tuple[Column, ...], file: FileColumns) -> _Texts | Scope:
    """What gives the text of neighboring columns that depend on the same thing."""
    if scope in _NUMBERS:
        return scope
    if scope is Scope.GEOCODE:
        return lambda rows: ([_place(geocode, columns, file.delimiter) for geocode in rows.geocodes], rows.owner)
    if not any(column.produced for column in columns):
        text = file.delimiter.join(column.values[0] for column in columns)
        return lambda rows: ([text], np.zeros_like(rows.owner))
    return _CodeTexts(columns, file.delimiter, np.full(file.codes, -1, dtype=np.int64))


@dataclass(slots=True, eq=False)
class _CodeTexts:
    """Texts of neighboring columns with codes, put together once for each cell (or kind) that is met."""

    columns: tuple[Column, ...]
    delimiter: str
    place: NDArray[np.int64]
    known: list[str] = field(default_factory=list)

    def __call__(self, rows: Rows) -> tuple[list[str], NDArray[np.int64]]:
        new = np.unique(rows.code[self.place[rows.code] < 0])
        if len(new):
            fields = [column.texts(new) if column.produced else column.values * len(new) for column in self.columns]
            self.place[new] = np.arange(len(self.known), len(self.known) + len(new))
            self.known += [self.delimiter.join(codes) for codes in zip(*fields, strict=True)]
        return self.known, self.place[rows.code]


def _place(geocode: str, columns: tuple[Column, ...], delimiter: str) -> str:
    return delimiter.join(column.part(geocode) if column.produced else column.values[0] for column in columns)


_TEXT = pa.dictionary(pa.int32(), pa.string())


@dataclass(frozen=True, slots=True)
class _ParquetFormat:
    name: str = "parquet"
    suffix: str = ".parquet"
    what: str = "Parquet files, zstd, dictionaries for codes and delta encoding for running numbers."
    has_metadata_file: bool = False

    def open(self, file: BinaryIO, columns: FileColumns, notices: tuple[str, ...]) -> Sink:
        """Begin a file; see `MicrodataFormat`."""
        fields = [pa.field(column.name, _type_of(column), nullable=False) for column in columns.columns]
        metadata = {"das_spark.notices": json.dumps(list(notices))} if notices else None
        schema = pa.schema(fields, metadata=metadata)
        numbers = [column.name for column in columns.columns if column.scope in _NUMBERS]
        writer = pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=[column.name for column in columns.columns if column.name not in numbers],
            # Every group of rows has all codes: least and greatest say nothing of them, and took half the time.
            write_statistics=[column.name for column in columns.columns if column.scope is not Scope.CODE],
            column_encoding=dict.fromkeys(numbers, "DELTA_BINARY_PACKED"),
        )
        coded = {column.name: _dictionary(column) for column in columns.columns if column.values}
        return _ParquetSink(writer, schema, columns.columns, coded)


@dataclass(frozen=True, slots=True, eq=False)
class _ParquetSink:
    writer: pq.ParquetWriter
    schema: pa.Schema
    columns: tuple[Column, ...]
    coded: dict[str, tuple[NDArray[np.int32], pa.Array | None]]

    def write(self, rows: Rows) -> None:
        arrays = [self._array(column, rows) for column in self.columns]
        self.writer.write_table(pa.Table.from_arrays(arrays, schema=self.schema), row_group_size=rows.number or None)

    def close(self) -> None:
        self.writer.close()

    def _array(self, column: Column, rows: Rows) -> pa.Array:
        if column.values:
            values, dictionary = self.coded[column.name]
            if column.scope is Scope.CONSTANT:
                of_rows = np.full(rows.number, values[0])
            else:
                of_rows = np.repeat(values[column.level(rows.code)], rows.lengths)
            return pa.array(of_rows) if dictionary is None else pa.DictionaryArray.from_arrays(of_rows, dictionary)
        if column.scope is Scope.GEOCODE:
            parts = pa.array([column.part(geocode) for geocode in rows.geocodes]).dictionary_encode()
            index = parts.indices.to_numpy()
            return pa.DictionaryArray.from_arrays(np.repeat(index[rows.owner], rows.lengths), parts.dictionary)
        return pa.array(rows.numbers[column.scope].astype(np.int32))


def _type_of(column: Column) -> pa.DataType:
    return pa.int32() if column.integers or column.scope in _NUMBERS else _TEXT


def _dictionary(column: Column) -> tuple[NDArray[np.int32], pa.Array | None]:
    """Position of the text of each level among the distinct texts, and these; of whole numbers, these and None."""
    if column.integers:
        return np.array(column.values, dtype=np.int32), None
    names, index = np.unique(np.array(column.values), return_inverse=True)
    return index.astype(np.int32), pa.array(names.tolist(), pa.string())


PARTS: Final = "parts"
_CONCATENATE: Final = "concatenate"
SINGLE: Final = "single"

_METADATA: Final = "metadata"
#: Beside the parts of a text file whose layout has it there: metadata, header and parts, joined, are the file, and
#: their names sort in this order.
HEADER: Final = "header"
_BEFORE_PARTS: Final = {_METADATA: "0_metadata", HEADER: "1_header"}

_RECORDS: Final = "Records"
#: What the lines of the releases say, in their order: of 2018 and 1940 (no column names), of 2020 (column names).
_UNAME: Final = ("os_sysname", "host", "os_release", "os_version", "arch")
_WHO: Final = ("Command line", "uid", "username", "Boot Time", "Start Time")
_RELEASED: Final = {
    False: ("Created", _RECORDS, *_WHO, *_UNAME),
    True: ("Created", _RECORDS, *_WHO, "Git Repo Info", "PLB allocation table", *_UNAME),
}
#: Of what names a person or a machine, or says when it ran.
_WITHHELD: Final = "withheld"


@dataclass(frozen=True, slots=True)
class Heads:
    """The texts of one file.

    Attributes:
        before: What a single file begins with; empty in other forms.
        beside: Texts beside the records, by name.
    """

    before: str
    beside: Mapping[str, str]


def heads_of(
    product: Product,
    format: str,
    columns: FileColumns,
    form: str,
    *,
    rows: int,
    created: str,
    notices: tuple[str, ...],
    software: str = "",
) -> Heads:
    """The texts before and beside the records of a file; none names a person, a machine or a path."""
    if not WRITERS[format].has_metadata_file:
        return Heads("", {})
    layout = product.layout(format)
    as_released = form != PARTS and layout.header != "inside"
    software = f"das_spark {software or version('das_spark')}"
    facts = {"Product": product.name, "Created": created, "Software": software, _RECORDS: str(rows)}
    if as_released:
        known = facts | {"Git Repo Info": software, "PLB allocation table": "privacy_ledger.json"}
        labels = (*_RELEASED[layout.header == "beside"], "Product", "Software")
        facts = {label: known.get(label, _WITHHELD) for label in labels}
    first = [layout.comment] if layout.comment else []
    lines = [*first, *notices, *(f"{label}: {value}" for label, value in facts.items())]
    texts = {_METADATA: "".join(f"{line if line.startswith('#') else f'# {line}'}\n" for line in lines)}
    if layout.header == "beside" or (layout.header == "inside" and form != PARTS):
        texts[HEADER] = _name_line(columns)
    if form == PARTS:
        return Heads("", {_BEFORE_PARTS[name]: texts[name] for name in texts} if HEADER in texts else texts)
    if form == SINGLE:
        return Heads("".join(texts.values()), {}) if as_released else Heads(texts.pop(HEADER), texts)
    return Heads("", {_BEFORE_PARTS[name] if as_released or name == HEADER else name: texts[name] for name in texts})


_FORMATS: Final[tuple[MicrodataFormat, ...]] = (
    _ParquetFormat(),
    TextFormat("text", ".txt", "Pipe-delimited text files."),
    TextFormat("ppmf", ".csv", "CSV files in the public layout of a product, column names first."),
)
WRITERS: Final[Mapping[str, MicrodataFormat]] = MappingProxyType({format.name: format for format in _FORMATS})
"""Every format of microdata by its name."""
