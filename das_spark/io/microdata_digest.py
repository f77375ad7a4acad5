"""Microdata files read back and reduced to what verification compares: one Spark task a part, arrays within.

A part of 4 million people and their units becomes some ten thousand rows, in bounded memory; reading persons through
Spark's own rows and joining them with their units by shuffles takes ten times as long. The digest is written once,
below the public root, for the checks to read.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv, parquet

from das_spark.io.microdata_order import RecordOrder
from das_spark.places import Place, as_input, size_of
from das_spark.products import (
    CODE_SEPARATOR,
    COLUMNS_AS_DECLARED,
    PERSONS_EQUAL,
    PERSONS_IN_UNITS,
    RECORD_NUMBERS,
    ROW_ORDER,
    UNIT_NUMBERS,
    ColumnRule,
    FileForm,
    MicrodataCodes,
)
from das_spark.store import part_files, record_of

if TYPE_CHECKING:
    from io import BufferedReader

    from das_spark.io.record_weights import RecordWeights
    from das_spark.store import PublicLayout


#: Rows of a digest, by `record`.
#: persons: people of one geocode, codes and kind (class of their unit, -1 without one, null where no units are known);
#: to Spark a task gives those of one geocode together, with two sums of weights in the place of codes and kind.
#: units: units of one geocode and kind (-1: codes of no class), their people, and how many have an odd population.
#: part: units (count) and people of a part; low and high, numbers of its first and last unit; geocode of the first;
#: first, number of the first record where records are numbered.
#: fault: a geocode, a column, or a file that cannot be read, that breaks a rule; the first 20 of each rule and part.
#: file: path, bytes (count) and checksum of a file that was read.
DIGEST: Final = pa.schema(
    [
        *((name, pa.string()) for name in ("format", "record")),
        ("part", pa.int32()),
        *((name, pa.string()) for name in ("rule", "geocode", "codes")),
        ("kind", pa.int32()),
        *((name, pa.int64()) for name in ("count", "people", "odd", "low", "high", "first", "one", "other")),
        *((name, pa.string()) for name in ("path", "sha256")),
    ]
)
_NUMBER = re.compile(r"part-(\d+)")


@dataclass(frozen=True, slots=True)
class DigestTask:
    """What a worker needs to reduce the parts whose places in the list it is given."""

    parts: tuple[FilePart, ...]
    weights: RecordWeights

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Reduce each part whose place is in the column id."""
        for batch in batches:
            for place in batch.column("id").to_pylist():
                yield from map(self._weighed, digest_part(self.parts[place], self.weights.codes))

    def _weighed(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Persons by geocode alone, and other rows as they are."""
        if not rows.num_rows or rows.column("record")[0].as_py() != PERSONS:
            return rows
        sums = self.weights.found(*(rows.column(name) for name in ("geocode", "codes", "kind", "count")))
        same = rows.slice(0, 1).take(pa.array(np.zeros(sums.num_rows, dtype=np.int64)))
        named = {name: sums.column(name) for name in sums.schema.names}
        named |= {name: pa.nulls(sums.num_rows, DIGEST.field(name).type) for name in ("codes", "kind")}
        return pa.RecordBatch.from_arrays([named.get(name, same.column(name)) for name in DIGEST.names], schema=DIGEST)


def microdata_parts(
    layout: PublicLayout, formats: Sequence[str], *, units: bool, record: str = "person", form: str = "parts"
) -> tuple[FilePart, ...]:
    """The parts of the microdata of a run, the largest first."""
    parts = []
    for format in formats:
        if form == "single" and format != "parquet":
            unit = layout.microdata_single("unit", format) if units else None
            parts.append(FilePart(format, 0, layout.microdata_single(record, format), unit, form))
            continue
        persons = _numbered(layout.microdata(record, format))
        of_units = _numbered(layout.microdata("unit", format)) if units else {}
        for number in persons.keys() | of_units.keys():
            name = (persons | of_units)[number].name
            person = layout.microdata_file(record, format, name)
            unit = layout.microdata_file("unit", format, name) if units else None
            parts.append(FilePart(format, number, person, unit, form))
    return tuple(sorted(parts, key=lambda part: (-_size(part), part.format, part.number)))


def _numbered(folder: Place) -> dict[int, Place]:
    named = ((_NUMBER.match(path.name), path) for path in part_files(folder))
    return {int(match[1]): path for match, path in named if match}


def _size(part: FilePart) -> int:
    return size_of(part.person) if part.person.is_file() else 0


Integers = NDArray[np.int64]

#: Rows of a batch of a Parquet file: a few dozen bytes a row and column.
_ROWS = 1 << 19
#: Bytes of a text file that are read at once: about as many rows.
_BYTES = 1 << 24
#: Bytes of its end that are looked at first for the end of a line.
_TAIL = 1 << 12
#: Most runs for a line at which it pays to look for runs.
_RUNS_OF_LINES = 0.6
_TEXT = pa.dictionary(pa.int32(), pa.string())
#: Where a record has no text, which no code is.
_NOTHING = "?"


@dataclass(frozen=True, slots=True)
class Columns:
    """What is read of a file.

    Attributes:
        layout: Names of all columns of a text file, in order.
        texts: Columns that are read as texts.
        numbers: Columns that are read as whole numbers.
        delimiter: What stands between the fields of a text file.
        names_inside: Whether a text file begins with a line of the names of all its columns.
        commented: Whether lines that begin with "#" stand before that, or before the records.
        constants: Columns that hold one text throughout -> that text.
    """

    layout: tuple[str, ...]
    texts: tuple[str, ...]
    numbers: tuple[str, ...] = ()
    delimiter: str = "|"
    names_inside: bool = False
    commented: bool = False
    constants: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class _Numbering:
    """Numbers for texts, in the order in which they appear."""

    known: dict[str, int] = field(default_factory=dict)

    def of(self, texts: pa.Array) -> Integers:
        """The number of each text, shape (texts,); new texts get the next numbers."""
        encoded = texts.dictionary_encode()
        numbers = [self.known.setdefault(text, len(self.known)) for text in encoded.dictionary.to_pylist()]
        found: Integers = np.array(numbers, dtype=np.int64)[encoded.indices.to_numpy()]
        return found

    @property
    def texts(self) -> list[str]:
        """The texts by number."""
        return list(self.known)


@dataclass(frozen=True, slots=True, eq=False)
class RecordRuns:
    """Some records of a file, in the order of the file, in runs that differ in their numbers alone.

    Attributes:
        firsts: The texts of the first record of each run.
        lengths: Records of each run, shape (runs,).
        numbers: Columns of whole numbers, shape (records,) each; -1 where there is none.
        deviating: Columns of constants that hold another text anywhere.
    """

    firsts: pa.RecordBatch
    lengths: Integers
    numbers: Mapping[str, Integers]
    deviating: frozenset[str] = frozenset()

    @property
    def records(self) -> int:
        """How many records there are."""
        return int(self.lengths.sum())

    def of_records(self, values: Integers) -> Integers:
        """What each run has, for each of its records."""
        return np.repeat(values, self.lengths)


def read_runs(path: Place, format: str, columns: Columns) -> Iterator[RecordRuns]:
    """Read a part of a microdata file."""
    if format == "parquet":
        yield from _parquet_runs(path, columns)
    else:
        yield from _text_runs(path, columns)


def _parquet_runs(path: Place, columns: Columns) -> Iterator[RecordRuns]:
    needed, names = (*columns.texts, *columns.numbers), parquet.read_schema(as_input(path)).names
    missing = sorted(set(needed) - set(names))
    if missing:
        raise pa.ArrowInvalid(f"no column {missing[0]}")
    constants = {name: text for name, text in columns.constants.items() if name in names}
    with parquet.ParquetFile(as_input(path), read_dictionary=[*columns.texts, *constants]) as file:
        for batch in file.iter_batches(_ROWS, columns=[*needed, *constants], use_threads=False):
            encoded = [_encoded(batch.column(name)) for name in columns.texts]
            starts = _starts([each.indices.to_numpy() for each in encoded], batch.num_rows)
            firsts = [each.take(pa.array(starts)) for each in encoded]
            yield RecordRuns(
                pa.RecordBatch.from_arrays(firsts, columns.texts),
                np.diff(np.append(starts, batch.num_rows)),
                {name: _numbers_of(batch, name) for name in columns.numbers},
                frozenset(name for name, text in constants.items() if _texts_of(batch, name) != {text}),
            )


def _starts(columns: Sequence[Integers], rows: int) -> Integers:
    """Rows in which any column has another value than in the row before."""
    changed = np.zeros(rows, dtype=bool)
    changed[:1] = True
    for column in columns:
        changed[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changed)


def _skip_head(file: BufferedReader, columns: Columns) -> None:
    """Go to the first record, behind comments and names."""
    while columns.commented and file.peek(1)[:1] == b"#":
        file.readline()
    if columns.names_inside:
        names = f"{columns.delimiter.join(columns.layout)}\n".encode("ascii")
        if file.read(len(names)) != names:
            raise pa.ArrowInvalid("the first line has other names than those of the columns")


def _whole_lines(file: BufferedReader) -> Iterator[NDArray[np.uint8]]:
    """The rest of a file in blocks that end with a line; each is to be used before the next one is asked for."""
    room, kept = np.empty(_BYTES, dtype=np.uint8), 0
    while read := file.readinto(room[kept:].data):
        filled = kept + read
        end = kept + _end_of_lines(room[kept:filled])
        if end > kept:
            yield room[:end]
            room[: filled - end] = room[end:filled].copy()
            kept = filled - end
        else:
            kept = filled
        if kept == len(room):  # a line that is longer than what is read at once
            room = np.concatenate([room, np.empty_like(room)])
    if kept:
        yield room[:kept]


def _end_of_lines(data: NDArray[np.uint8]) -> int:
    """The place behind the last newline; 0 where there is none."""
    for size in (_TAIL, len(data)):
        place = data[-size:].tobytes().rfind(b"\n")
        if place >= 0:
            return max(len(data) - size, 0) + place + 1
    return 0


def _text_runs(path: Place, columns: Columns) -> Iterator[RecordRuns]:
    """Runs of a text, block by block; where lines are all others than the one before, Arrow alone is faster."""
    repeated = True
    with path.open("rb") as file:
        _skip_head(file, columns)
        for block in _whole_lines(file):
            runs = _repeated_lines(block, columns) if repeated else None
            if runs is not None:
                repeated = len(runs.lengths) < _RUNS_OF_LINES * runs.records
            yield _every_line(block, columns) if runs is None else runs


def _every_line(block: NDArray[np.uint8], columns: Columns) -> RecordRuns:
    """Each line as a run of its own, read by Arrow."""
    lines = _read_lines(block.data, columns)
    numbers = {name: _numbers_of(lines, name) for name in columns.numbers}
    return RecordRuns(lines, np.ones(lines.num_rows, dtype=np.int64), numbers, _deviating(lines, columns.constants))


def _repeated_lines(block: NDArray[np.uint8], columns: Columns) -> RecordRuns | None:
    """Runs whose first lines Arrow reads, and a compiled loop the digits of all others; None for lines that are odd."""
    from das_spark.io.lines import LineRuns  # noqa: PLC0415 - the compiler takes time

    places = sorted((columns.layout.index(name), name) for name in columns.numbers)
    runs = LineRuns.of(block, columns.delimiter, [place for place, _ in places], len(columns.layout))
    if runs is None:
        return None
    firsts = _read_lines(runs.firsts, columns)
    if firsts.num_rows != len(runs.lengths):  # Arrow takes more than a newline for an end, and leaves out empty lines
        return None
    starts = np.cumsum(runs.lengths) - runs.lengths
    for (_, name), values in zip(places, runs.numbers, strict=True):
        values[starts] = _numbers_of(firsts, name)
    numbers = {name: runs.numbers[place] for place, (_, name) in enumerate(places)}
    return RecordRuns(firsts, runs.lengths, numbers, _deviating(firsts, columns.constants))


def _read_lines(lines: memoryview, columns: Columns) -> pa.RecordBatch:
    kinds = dict.fromkeys(columns.texts, _TEXT) | dict.fromkeys(columns.numbers, pa.int64())
    kinds |= dict.fromkeys(columns.constants, pa.binary())  # compared as they are: half the time of decoding them
    table = csv.read_csv(
        pa.BufferReader(pa.py_buffer(lines)),
        read_options=csv.ReadOptions(column_names=list(columns.layout), block_size=len(lines) + 1, use_threads=False),
        parse_options=csv.ParseOptions(delimiter=columns.delimiter, quote_char=False),
        convert_options=csv.ConvertOptions(column_types=kinds, include_columns=list(kinds)),
    )
    batches = table.combine_chunks().to_batches()
    return batches[0] if batches else pa.RecordBatch.from_pylist([], table.schema)


def _deviating(lines: pa.RecordBatch, constants: Mapping[str, str]) -> frozenset[str]:
    """Names of the columns of a text that do not hold their text everywhere."""
    wanted = {name: pa.scalar(text.encode(), pa.binary()) for name, text in constants.items()}
    return frozenset(name for name, text in wanted.items() if not pc.all(pc.equal(lines.column(name), text)).as_py())


def _texts_of(batch: pa.RecordBatch, column: str) -> set[str]:
    """The distinct texts that stand in a column."""
    return set(pc.unique(_encoded(batch.column(column))).cast(pa.string()).to_pylist())


def _misdeclared(path: Place, form: FileForm, kind: str) -> set[str]:
    """Columns of a Parquet file that it lacks, has besides, or has at another place or of another type."""
    file = parquet.read_schema(as_input(path))
    of_file = list(zip(file.names, file.types, strict=True))
    rules, integers = form.rules[kind], form.integers[kind]
    declared = [(name, pa.int32() if name in integers else _TEXT) for name in rules]
    # Earlier versions left constants out, and had codes as texts.
    earlier = [
        (name, pa.int32() if rule.is_number else _TEXT)
        for name, rule in rules.items()
        if rule is not ColumnRule.CONSTANT
    ]
    if of_file in (declared, earlier):
        return set()
    return {name for name, _ in set(declared) ^ set(of_file)} or {"(their order)"}


def _numbers_of(batch: pa.RecordBatch, column: str) -> Integers:
    """A column of whole numbers, shape (rows,); -1 where there is none."""
    return np.asarray(pc.fill_null(batch.column(column).cast(pa.int64()), -1).to_numpy(zero_copy_only=False))


def _joined_texts(runs: RecordRuns, columns: Sequence[str], separator: str, numbering: _Numbering) -> Integers:
    """The number of the text that the columns of each run make when joined, shape (runs,).

    Texts are put together once for runs that have the same: people of a geounit stand together, and of a cell.
    """
    encoded = [_encoded(runs.firsts.column(name)) for name in columns]
    starts = _starts([each.indices.to_numpy() for each in encoded], len(runs.lengths))
    firsts = [column.take(pa.array(starts)).cast(pa.string()) for column in encoded]
    number = numbering.of(pc.binary_join_element_wise(*firsts, separator))
    return np.repeat(number, np.diff(np.append(starts, len(runs.lengths))))


def _encoded(column: pa.Array) -> pa.DictionaryArray:
    if pa.types.is_dictionary(column.type) and not column.null_count:
        return column
    if pa.types.is_integer(column.type) and not column.null_count:
        numbers = column.dictionary_encode()
        return pa.DictionaryArray.from_arrays(numbers.indices, numbers.dictionary.cast(pa.string()))
    return pc.fill_null(column.cast(pa.string()), _NOTHING).dictionary_encode()


#: Kinds of rows of a digest.
PERSONS: Final = "persons"
UNITS: Final = "units"
PART: Final = "part"
FAULT: Final = "fault"
FILE: Final = "file"

#: Kind of the file of units that people are assigned to.
UNIT: Final = "unit"
#: Class of a person whose unit is not in the part, or has codes of no class.
_NO_KIND: Final = -1
#: Failing geounits that a part names by rule.
_NAMED = 20
#: More combinations of codes than a part can hold rows, and more classes than there are; keys stay below 2**63.
_CODES = 1 << 27
_KINDS = 1 << 8
#: Rows of a digest that are handed on at once.
_OUTPUT_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class FilePart:
    """Part n of the person file and part n of the unit file.

    Attributes:
        format: `parquet`, or one of text.
        number: n.
        person: The person part.
        unit: The unit part; None where no units are known.
        form: `parts`, `concatenate` (no names of columns in a part), or `single` (they stand behind comments).
    """

    format: str
    number: int
    person: Place
    unit: Place | None
    form: str = "parts"


def digest_part(part: FilePart, codes: MicrodataCodes) -> Iterator[pa.RecordBatch]:
    """Read a part and reduce it."""
    reduced = _Reduced(part, codes)
    if part.unit is not None:
        try:
            reduced.units = _read_units(part.unit, reduced)
        except (pa.ArrowException, OSError) as error:
            _raise_out_of_memory(error)
            reduced.unreadable += [(PERSONS_IN_UNITS, _unreadable(part.unit)), (UNIT_NUMBERS, _unreadable(part.unit))]
            reduced.units = _Units.of(*[np.zeros(0, dtype=np.int64)] * 4)
    try:
        columns = _person_columns(codes, part)
        reduced.declared(codes.record, part.person)
        for runs in read_runs(part.person, part.format, columns):
            reduced.take(runs)
    except (pa.ArrowException, OSError) as error:
        _raise_out_of_memory(error)
        reduced.unreadable.append((PERSONS_EQUAL, _unreadable(part.person)))
    yield from reduced.tables()


def _raise_out_of_memory(error: Exception) -> None:
    """Pass on what says nothing of a file: that the worker has no memory left to read it.

    Where the address space of a worker is too small for another thread, Arrow raises an exception of no kind.
    """
    no_thread = type(error) is pa.ArrowException
    if no_thread or isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        raise MemoryError("no memory left to read the microdata: raise spark.executor.pyspark.memory") from error


def _unreadable(path: Place) -> str:
    return f"({path.name} cannot be read)"  # sorts before all geocodes, so that it is among the names that are kept


@dataclass(frozen=True, slots=True, eq=False)
class _Units:
    """The units of a part; `members` and `seen` are filled while people are read.

    Arrays have shape (units,). The last entry of `place` and `kind`, of shape (units + 1,), stands for no unit, so that
    position -1 is that of whoever has none.

    Attributes:
        number: Number of each unit over the whole file.
        place: Number of its geocode; -1 for no unit.
        kind: Class, vacant ones last, or `_NO_KIND`.
        population: Its people, as it says itself.
        order: Units in the order of their numbers.
        sorted_number: Numbers in that order.
        first_slot: First slot of each unit, and the number of slots at the end, shape (units + 1,).
        members: People who name it.
        seen: Shape (slots,): whether person number p of a unit was met, at slot first_slot + p - 1.
    """

    number: Integers
    place: Integers
    kind: Integers
    population: Integers
    order: Integers
    sorted_number: Integers
    first_slot: Integers
    members: Integers
    seen: NDArray[np.bool_]

    @classmethod
    def of(cls, number: Integers, place: Integers, kind: Integers, population: Integers) -> _Units:
        order = np.argsort(number, kind="stable")
        # What a corrupt file claims must not fill the memory: units beyond the limit hold nobody, and are named.
        slots = np.minimum(np.concatenate([[0], np.cumsum(np.clip(population, 0, _CODES))]), _CODES)
        seen = np.zeros(int(slots[-1]), dtype=bool)
        place, kind = np.append(place, -1), np.append(kind, _NO_KIND)
        return cls(number, place, kind, population, order, number[order], slots, np.zeros_like(number), seen)

    def position(self, number: Integers) -> Integers:
        """Where the units of these numbers stand, -1 where they do not; of two units of one number, the first."""
        if not len(self.number):
            return np.full(len(number), -1, dtype=np.int64)
        low, count = self.sorted_number[0], len(self.number)
        if self.sorted_number[-1] - low == count - 1 and (np.diff(self.sorted_number) == 1).all():
            at = number - low
            inside = (at >= 0) & (at < count)
        else:
            at = np.searchsorted(self.sorted_number, number)
            inside = at < count
            inside &= self.sorted_number[np.minimum(at, count - 1)] == number
        found: Integers = np.where(inside, self.order[np.where(inside, at, 0)], -1)
        return found

    def add_members(self, unit: Integers, person_number: Integers) -> None:
        """Count persons in their units (positions, none missing)."""
        if not len(unit):
            return
        least = int(unit.min())
        times = np.bincount(unit - least)
        self.members[least : least + len(times)] += times
        first = self.first_slot[unit]
        fits = (person_number >= 1) & (person_number <= self.first_slot[unit + 1] - first)
        self.seen[(first + person_number - 1)[fits]] = True

    def without_all_members(self) -> Integers:
        """Places of units whose people are not numbered from 1 to their population exactly."""
        met = np.concatenate([[0], np.cumsum(self.seen, dtype=np.int64)])
        filled = met[self.first_slot[1:]] - met[self.first_slot[:-1]]
        # As many people as slots, and every slot met: each was met once.
        return np.unique(self.place[:-1][(self.members != self.population) | (filled != self.population)])

    def unsorted(self) -> Integers:
        """Places of units that stand behind one of a greater number."""
        return np.unique(self.place[1:-1][np.diff(self.number) < 0])

    def misnumbered(self) -> Integers:
        """Places of units whose numbers appear twice or follow a gap."""
        step = np.diff(self.sorted_number, prepend=self.sorted_number[:1] - 1)
        return np.unique(self.place[self.order[step != 1]])


@dataclass(slots=True)
class _Reduced:
    """What was read so far."""

    part: FilePart
    codes: MicrodataCodes
    units: _Units | None = None
    places: _Numbering = field(default_factory=_Numbering)
    combinations: _Numbering = field(default_factory=_Numbering)
    persons: int = 0
    first: int | None = None
    order: RecordOrder = field(default_factory=RecordOrder)
    misshapen: set[tuple[str, str]] = field(default_factory=set)
    keys: list[Integers] = field(default_factory=list)
    counts: list[Integers] = field(default_factory=list)
    without_unit: list[Integers] = field(default_factory=list)
    unreadable: list[tuple[str, str]] = field(default_factory=list)

    def declared(self, kind: str, path: Place) -> None:
        """Look at which columns a Parquet file has."""
        if self.part.format == "parquet":
            form = self.codes.forms[self.part.format]
            self._note(COLUMNS_AS_DECLARED, kind, _misdeclared(path, form, kind))

    def compare(self, kind: str, runs: RecordRuns) -> None:
        """Note the columns that do not hold their constant."""
        self._note(COLUMNS_AS_DECLARED, kind, runs.deviating)

    def _note(self, rule: str, kind: str, columns: Iterable[str]) -> None:
        self.misshapen |= {(rule, f"{kind}.{self.part.format}: {column}") for column in columns}

    def _number_records(self, runs: RecordRuns) -> None:
        """Records are numbered in the order in which they stand."""
        column = self.codes.forms[self.part.format].record_number(self.codes.record)
        if column and runs.records:
            numbers = runs.numbers[column]
            if self.first is None:
                self.first = int(numbers[0])
            if numbers[0] != self.first + self.persons or (np.diff(numbers) != 1).any():
                self._note(RECORD_NUMBERS, self.codes.record, [column])

    def take(self, runs: RecordRuns) -> None:
        """Count some persons, and add them to their units."""
        self.compare(self.codes.record, runs)
        self._number_records(runs)
        place = _joined_texts(runs, self.codes.person_place, "", self.places)
        code = _joined_texts(runs, self.codes.person_columns, CODE_SEPARATOR, self.combinations)
        key = (place * _CODES + code) * _KINDS + 1
        if self.units is None:
            self.order.take(place, np.zeros_like(place), code)
            self._count(key, runs.lengths)
        else:
            place, code = runs.of_records(place), runs.of_records(code)
            unit = self.units.position(runs.numbers[self.codes.unit_number])
            at_home = self.units.place[unit] == place
            kind = np.where(at_home, self.units.kind[unit], _NO_KIND)
            numbers = [runs.numbers[name] for name in (self.codes.person_number, self.codes.unit_number)]
            self.order.take(place, kind, code)
            self.order.take_people(place, kind, *numbers)
            self.units.add_members(unit[at_home], runs.numbers[self.codes.person_number][at_home])
            self.without_unit.append(np.unique(place[~at_home]))
            self._count(runs.of_records(key) + kind, np.ones_like(kind))
        self.persons += runs.records

    def _count(self, key: Integers, counts: Integers) -> None:
        starts = np.flatnonzero(np.diff(key, prepend=-1))  # equal keys stand together: few remain to be sorted
        keys, group = np.unique(key[starts], return_inverse=True)
        self.keys.append(keys)
        sums = np.bincount(group, np.add.reduceat(counts, starts), minlength=len(keys)) if len(key) else counts
        self.counts.append(sums.astype(np.int64))

    def tables(self) -> Iterator[pa.RecordBatch]:
        """The rows of the digest."""
        texts = pa.array(self.places.texts, pa.string())
        yield from self._person_rows(texts)
        if self.units is not None:
            yield from self._batches(UNITS, **_unit_rows(self.units, texts, self.codes.vacant))
        yield from self._batches(PART, **self._part_row())
        faults = [*self.unreadable, *self._faults(), *sorted(self.misshapen)]
        rules, names = [rule for rule, _ in faults], [name for _, name in faults]
        yield from self._batches(FAULT, rule=pa.array(rules, pa.string()), geocode=pa.array(names, pa.string()))
        yield from self._batches(FILE, **self._files())

    def _person_rows(self, texts: pa.Array) -> Iterator[pa.RecordBatch]:
        if not self.keys:
            return
        keys, group = np.unique(np.concatenate(self.keys), return_inverse=True)
        counts = np.bincount(group, np.concatenate(self.counts), minlength=len(keys)).astype(np.int64)
        places, code = np.divmod(keys // _KINDS, _CODES)
        kind = pa.nulls(len(keys), pa.int32())
        if self.units is not None:
            kind = pa.array(keys % _KINDS - 1, pa.int32())
        combinations = pa.array(self.combinations.texts, pa.string())
        yield from self._batches(
            PERSONS,
            geocode=texts.take(pa.array(places)),
            codes=combinations.take(pa.array(code)),
            kind=kind,
            count=pa.array(counts),
        )

    def _part_row(self) -> dict[str, pa.Array]:
        units = self.units
        row: dict[str, Any] = {"people": self.persons, "count": 0, "first": self.first}
        row |= {"low": None, "high": None, "geocode": None}
        if units is not None and len(units.number):
            first = self.places.texts[units.place[units.order[0]]]
            ends = {"low": int(units.sorted_number[0]), "high": int(units.sorted_number[-1])}
            row |= {"count": len(units.number), "geocode": first, **ends}
        return {name: pa.array([value], DIGEST.field(name).type) for name, value in row.items()}

    def _files(self) -> dict[str, pa.Array]:
        """Checksums: what was just read lies in memory still, so that whoever compares them need not read it again."""
        paths = [path for path in (self.part.person, self.part.unit) if path is not None and path.is_file()]
        records = [record_of(path) for path in paths]
        return {
            "path": pa.array(map(str, paths), pa.string()),
            "count": pa.array([record.size for record in records], pa.int64()),
            "sha256": pa.array([record.sha256 for record in records], pa.string()),
        }

    def _faults(self) -> list[tuple[str, str]]:
        texts = self.places.texts
        misordered = self.order.misordered(texts, self.combinations.texts, self.codes)
        found: dict[str, Iterable[int]] = {ROW_ORDER: misordered}
        if self.units is not None:
            wrong = np.unique(np.concatenate([*self.without_unit, self.units.without_all_members()]))
            found |= {PERSONS_IN_UNITS: wrong, UNIT_NUMBERS: self.units.misnumbered()}
            found[ROW_ORDER] = misordered | set(self.units.unsorted().tolist())
        return [
            (rule, name) for rule, places in found.items() for name in sorted(texts[place] for place in places)[:_NAMED]
        ]

    def _batches(self, record: str, **columns: pa.Array) -> Iterator[pa.RecordBatch]:
        rows = len(next(iter(columns.values())))
        constants = {"format": self.part.format, "record": record, "part": self.part.number}
        whole = [
            columns.get(each.name, pa.repeat(pa.scalar(constants.get(each.name), each.type), rows)) for each in DIGEST
        ]
        yield from pa.table(whole, schema=DIGEST).to_batches(max_chunksize=_OUTPUT_ROWS)


def _person_columns(codes: MicrodataCodes, part: FilePart) -> Columns:
    numbers = (codes.unit_number, codes.person_number) if part.unit is not None else ()
    form = codes.forms[part.format]
    if form.record_number(codes.record):
        numbers = (*numbers, form.record_number(codes.record))
    texts = (*codes.person_place, *codes.person_columns)
    return _columns(form, part, codes.record, texts, numbers)


def _columns(form: FileForm, part: FilePart, kind: str, texts: tuple[str, ...], numbers: tuple[str, ...]) -> Columns:
    layout = tuple(form.rules[kind])
    single = part.form == "single"
    named = form.header != "none" if single else part.form == "parts" and form.names_inside
    # CSV with names inside is for programs that read it without options: there is no comment in it.
    commented = single and not form.names_inside
    return Columns(layout, texts, numbers, form.delimiter, named, commented, form.constants[kind])


def _read_units(path: Place, reduced: _Reduced) -> _Units:
    part, codes, places = reduced.part, reduced.codes, reduced.places
    texts, numbers = (*codes.unit_place, *codes.unit_columns), (codes.unit_number, codes.population)
    columns = _columns(codes.forms[part.format], part, UNIT, texts, numbers)
    reduced.declared(UNIT, path)
    combinations = _Numbering()
    found: list[tuple[Integers, ...]] = [(np.zeros(0, dtype=np.int64),) * 4]
    for runs in read_runs(path, part.format, columns):
        reduced.compare(UNIT, runs)
        place = _joined_texts(runs, codes.unit_place, "", places)
        combination = _joined_texts(runs, codes.unit_columns, CODE_SEPARATOR, combinations)
        kinds = np.array([codes.kinds.get(text, _NO_KIND) for text in combinations.texts], dtype=np.int64)
        kind = kinds[combination] if len(kinds) else combination
        number, population = (runs.numbers[name] for name in numbers)
        found.append((number, runs.of_records(place), runs.of_records(kind), population))
    return _Units.of(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))


def _unit_rows(units: _Units, texts: pa.Array, vacant: int) -> dict[str, pa.Array]:
    """Units by place and class: how many, the sum of their populations, and how many have an impossible one."""
    place, kind = units.place[:-1], units.kind[:-1]
    keys, group = np.unique(place * _KINDS + kind + 1, return_inverse=True)
    impossible = (units.population < 0) | ((kind == vacant) & (units.population != 0))
    sums = {"count": np.ones_like(kind), "people": units.population, "odd": impossible}
    summed = {name: np.bincount(group, each, minlength=len(keys)).astype(np.int64) for name, each in sums.items()}
    places, kinds = np.divmod(keys, _KINDS)
    return {
        "geocode": texts.take(pa.array(places)),
        "kind": pa.array(kinds - 1, pa.int32()),
        **{name: pa.array(each) for name, each in summed.items()},
    }
