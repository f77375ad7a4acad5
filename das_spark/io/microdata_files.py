"""The protected microdata: one record of whatever is counted and, where people are assigned to units, one a unit.

Spark cuts the leaf geounits, in the order of their geocodes, into slices of about equal numbers of records; each task
writes the files of its slice itself (a row-wise writer would cost microseconds a person) under a name of its own
attempt and reports them; the driver promotes exactly the reported files, destroys all others and sets the marker last.

Part n of the person file holds the people of the units in part n of the unit file, and no others: whoever reads one
geounit, or checks the files, needs no other part. Unit numbers run through the parts in the order of their own.

Without units the person file alone is written: its unit number is 999999999 and its person number 99999 in every
record.

Workers write to the staging folder themselves, so it must lie on a file system that all of them mount.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import prod
from operator import itemgetter
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das_spark.errors import OutputError
from das_spark.io.microdata_formats import (
    PARTS,
    SINGLE,
    WRITERS,
    FileColumns,
    Rows,
    Scope,
    Sink,
    class_codes,
    heads_of,
    record_columns,
    unit_columns,
)
from das_spark.places import Place, disk_errors, system_of
from das_spark.products.base import OF_UNITS
from das_spark.store import FileRecord, discard, make_folder, promote, write_durably
from das_spark.store.hashed import HashedOutput

if TYPE_CHECKING:
    from das_spark.products.base import Product
    from das_spark.store import PublicLayout, Staging


#: Bytes that are copied at once where parts are joined.
_COPIED = 1 << 22
#: Columns that say which slice rows are of, and the numbers that it begins with.
_OF_SLICE = {"slice": pa.int32(), "first_record": pa.int64(), "first_unit": pa.int64()}


@dataclass(frozen=True, slots=True)
class WrittenFolder:
    """One finished microdata file, of a kind (`person` or `unit`) and format: a folder of parts, with so many rows."""

    kind: str
    format: str
    rows: int
    files: tuple[FileRecord, ...]


@dataclass(frozen=True, slots=True, eq=False)
class MicrodataWriting:
    """Where the microdata of a run go, and in which form."""

    product: Product
    layout: PublicLayout
    formats: Sequence[str]
    staging: Staging  # where they are written first
    created: str  # when the run began
    notices: tuple[str, ...] = ()  # what every file must say
    form: str = PARTS

    def write(self, run: Callable[[WriteTask], list[dict[str, Any]]], *, units: bool) -> tuple[WrittenFolder, ...]:
        """Let a task write all parts, by whatever carries it out, and promote what it reports."""
        files = files_of(self.product, self.formats, units=units, form=self.form)
        folder = self.staging.folder
        discard(folder)
        with disk_errors(self.layout.path):
            for format, columns in files:
                make_folder(folder / f"{columns.kind}.{format}")
            reports = run(self._task(files, units=units))
            _refuse_unassignable(reports)
            self.staging.guard()
            # All go before the first one comes: parts of units and of persons belong together.
            for format, columns in files:
                discard(self.layout.microdata(columns.kind, format))
            written = tuple(self._finished(reports, format, columns) for format, columns in files)
        discard(folder)
        return written

    def write_one_slice(self, leaves: pa.RecordBatch) -> tuple[WrittenFolder, ...]:
        """Write the microdata of a few geounits in this process, without Spark, by the same steps as those of a run."""
        zeros = {name: pa.array([0] * leaves.num_rows, kind) for name, kind in _OF_SLICE.items()}
        whole = pa.RecordBatch.from_pydict({**zeros, **{name: leaves.column(name) for name in leaves.schema.names}})
        return self.write(
            lambda task: [row for report in task(iter([whole])) for row in report.to_pylist()],
            units=leaves.column("units").null_count == 0,
        )

    def _task(self, files: tuple[tuple[str, FileColumns], ...], *, units: bool) -> WriteTask:
        """What writes the parts; units that are known and in no file are left out."""
        product = self.product
        classes, known = len(product.unit_classes), units and any(columns.kind in OF_UNITS for _, columns in files)
        return WriteTask(
            product.kind,
            files,
            len(product.files(units=known)) > 1,
            product.schema.size,
            product.listed if known else (),
            class_codes(product),
            classes,
            np.array(product.unit_bounds.least if product.unit_bounds else [0] * classes, dtype=np.int64),
            self.staging.folder.absolute(),
            self.notices,
            product.vacant_kinds,
            Division.of(product),
        )

    def _finished(self, reports: Sequence[Mapping[str, Any]], format: str, columns: FileColumns) -> WrittenFolder:
        """Promote the reported parts of one folder, and nothing else, with the texts that stand before and beside."""
        kind, layout = columns.kind, self.layout
        folder = self.staging.folder / f"{kind}.{format}"
        chosen = [row for row in reports if (row["kind"], row["format"]) == (kind, format)]
        records = []
        for row in sorted(chosen, key=itemgetter("file")):
            name = f"part-{row['slice']:05d}{WRITERS[format].suffix}"
            system_of(folder).move(str(folder / row["file"]), str(folder / name))
            records.append(FileRecord(name, row["size"], row["sha256"]))
        rows = sum(row["rows"] for row in chosen)
        texts = heads_of(
            self.product, format, columns, self.form, created=self.created, notices=self.notices, rows=rows
        )
        if WRITERS[format].has_metadata_file and self.form == SINGLE:
            single = layout.microdata_single(kind, format)
            records = [_joined(texts.before, [folder / record.name for record in records], folder / single.name)]
        target = layout.microdata(kind, format)
        if texts.beside:
            make_folder(target)
        for name, text in texts.beside.items():
            write_durably(target / name, text)
        return WrittenFolder(kind, format, rows, promote(folder, target, records, check=False))


def files_of(
    product: Product, formats: Sequence[str], *, units: bool, form: str
) -> tuple[tuple[str, FileColumns], ...]:
    """Format and columns of every file of a run, those of what is counted first."""
    assigned = len(product.files(units=units)) > 1
    counted = [(format, record_columns(product, format, units=assigned)) for format in formats]
    of_units = [(format, unit_columns(product, format)) for format in formats] if assigned else []
    if form == PARTS:
        return (*counted, *of_units)
    # Column names stand once, before the first part.
    return tuple((format, replace(columns, names_inside=False)) for format, columns in (*counted, *of_units))


def _refuse_unassignable(reports: Sequence[Mapping[str, Any]]) -> None:
    stuck = sorted(row["file"] for row in reports if row["kind"] == _PROBLEM)
    if stuck:
        raise OutputError(
            f"geounits {', '.join(stuck[:10])}: what is counted in them cannot be assigned to their units",
            hint="estimates and unit invariants do not belong together: run verify",
        )


def _joined(before: str, parts: Sequence[Place], single: Place) -> FileRecord:
    """One file of a text and parts; each part goes when it is copied, so that the disk holds them once."""
    with HashedOutput.open(single) as whole:
        whole.write(before.encode("utf-8"))
        for part in parts:
            with part.open("rb") as source:
                shutil.copyfileobj(source, whole, _COPIED)
            system_of(part).remove(str(part))
    return whole.record(single.name)


def records_of(written: Sequence[WrittenFolder]) -> dict[str, int]:
    """Rows by `<kind>.<format>`, as the public manifest lists them."""
    return {f"{folder.kind}.{folder.format}": folder.rows for folder in written}


Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Geounits:
    """What is counted (people, or units), and the units that people are assigned to, of K leaf geounits.

    Attributes:
        cells: Shape (n,), int64: occupied cells, geounit after geounit.
        counts: Shape (n,), int64: people in them.
        owner: Shape (n,), int64 in [0, K): whose cell it is, ascending.
        units: Shape (K, C + 1), int64: units by class, vacant ones last; None where no units are known.
    """

    cells: Integers
    counts: Integers
    owner: Integers
    units: Integers | None


@dataclass(frozen=True, slots=True, eq=False)
class _PersonBlock:
    """Persons in the order in which they are written, in runs of the same geounit and cell."""

    owner: Integers  # geounit of each run, shape (runs,)
    cell: Integers  # shape (runs,)
    lengths: Integers  # persons of each run, shape (runs,)
    unit_number: Integers | None  # over the whole file, shape (persons,); None without units, as the next
    person_number: Integers | None  # in the unit, from 1, shape (persons,)


@dataclass(frozen=True, slots=True, eq=False)
class _UnitBlock:
    """Units in the order of their numbers; all arrays of shape (units,)."""

    owner: Integers  # their geounit
    kind: Integers  # their class; C (one more than the last) for vacant units
    unit_number: Integers  # over the whole file
    population: Integers  # persons assigned to the unit


def listed_units(units: Integers, counted: Integers, listed: tuple[int, ...], vacant_kinds: int = 1) -> Integers:
    """Units of each listed kind; vacant ones are those of the first class that nobody was counted in.

    Args:
        units: Units by class, those that are known to be vacant last, shape (K, C + V), of V kinds of vacant units.
        counted: What is counted in all, shape (K,).
        listed: Kinds, from 1; C and what follows stand for vacant units.
        vacant_kinds: V; where there are several, units of the first class are all housing units.

    Returns:
        Shape (K, kinds). Negative where there are more households than housing units, or where the vacant ones of
        several kinds are others than those that nobody was counted in.
    """
    kinds = units.copy()
    if vacant_kinds == 1:
        kinds[:, -1] += units[:, 0] - counted
    else:
        apart = units[:, -vacant_kinds:].sum(axis=1)
        kinds[apart != units[:, 0] - counted, -1] = -1
    return np.asarray(kinds[:, list(listed)])


@dataclass(frozen=True, slots=True)
class Division:
    """How some records of the last level of an attribute get a code of their own.

    Attributes:
        levels: Of the attribute.
        stride: Cells in which the level stays the same.
        first: Code of the first cell of the records that are told apart.
    """

    levels: int
    stride: int
    first: int

    @classmethod
    def of(cls, product: Product) -> Division | None:
        """How records of a product are told apart; None where none are."""
        if product.first_divided is None:
            return None
        schema = product.schema
        sources = [column.source.split(":") for column in product.microdata.columns(product.record)]
        (name,) = (parts[1] for parts in sources if parts[0] == "divided")
        axis = schema.axis(name)
        return cls(schema.shape[axis], prod(schema.shape[axis + 1 :]), product.first_divided)

    def divide(self, geounits: Geounits, apart: Integers) -> tuple[Geounits, NDArray[np.bool_]]:
        """Give the last records of the level in each geounit their codes.

        Args:
            geounits: What is counted.
            apart: How many are told apart in each geounit, shape (K,).

        Returns:
            The same records in the same order, and in which geounits there are too few of them, (K,).
        """
        inside = geounits.cells // self.stride % self.levels == self.levels - 1
        counts = np.where(inside, geounits.counts, 0)
        every = np.bincount(geounits.owner, counts, minlength=len(apart)).astype(np.int64)
        before = _running_within(geounits.owner, counts)
        kept = np.clip((every - apart)[geounits.owner] - before, 0, counts)
        kept = np.where(inside, kept, geounits.counts)
        both = np.stack([kept, geounits.counts - kept], axis=1).ravel()
        cells = np.stack([geounits.cells, geounits.cells + self.first], axis=1).ravel()
        some = both > 0
        owner = np.repeat(geounits.owner, 2)
        return Geounits(cells[some], both[some], owner[some], geounits.units), np.asarray(every < apart)


def _with_listed(geounits: Geounits, listed: Integers, first: int) -> Geounits:
    """Add the listed units of each geounit behind what is counted; codes begin with the first."""
    rows, kinds = listed.shape
    owner = np.concatenate([geounits.owner, np.repeat(np.arange(rows, dtype=np.int64), kinds)])
    order = np.argsort(owner, kind="stable")
    cells = np.concatenate([geounits.cells, np.tile(np.arange(first, first + kinds, dtype=np.int64), rows)])
    counts = np.concatenate([geounits.counts, listed.ravel()])
    order = order[counts[order] > 0]
    return Geounits(cells[order], counts[order], owner[order], None)


def class_margins(geounits: Geounits, class_of_cell: Integers, rows: int, classes: int) -> Integers:
    """People by class, shape (K, C)."""
    key = geounits.owner * classes + class_of_cell[geounits.cells]
    sums = np.zeros(rows * classes, dtype=np.int64)
    np.add.at(sums, key, geounits.counts)
    return sums.reshape(rows, classes)


def unassignable(margins: Integers, units: Integers, least: Integers) -> NDArray[np.bool_]:
    """Geounits whose people cannot be assigned, shape (K,): people without a unit, or a unit left with too few."""
    without_unit = (margins > 0) & (units[:, :-1] == 0)
    return np.asarray((without_unit | (margins < least * units[:, :-1])).any(axis=1))


def assign_persons(
    geounits: Geounits, class_of_cell: Integers, first_unit: int, most: int = 1 << 20
) -> Iterator[_PersonBlock]:
    """Expand cells to persons, each with a unit, in blocks of at most `most`; in a geounit by class, then by cell."""
    if geounits.units is None:
        for entry, counts, _ in _pieces(geounits.counts, most):
            yield _PersonBlock(geounits.owner[entry], geounits.cells[entry], counts, None, None)
        return
    classes = geounits.units.shape[1] - 1
    kind = class_of_cell[geounits.cells]
    order = np.lexsort((geounits.cells, kind, geounits.owner))
    owner, cells, counts, kind = (array[order] for array in (geounits.owner, geounits.cells, geounits.counts, kind))
    first_person = _running_within(owner * classes + kind, counts)
    base = _first_units(geounits.units, first_unit)[owner, kind]
    units = np.maximum(geounits.units[owner, kind], 1)
    for entry, counts_here, skipped in _pieces(counts, most):
        ordinal = _ramp(first_person[entry] + skipped, counts_here)
        turn, slot = np.divmod(ordinal, np.repeat(units[entry], counts_here))
        yield _PersonBlock(
            owner[entry], cells[entry], counts_here, np.repeat(base[entry], counts_here) + slot, turn + 1
        )


def list_units(units: Integers, margins: Integers, first_unit: int, most: int = 1 << 20) -> Iterator[_UnitBlock]:
    """Expand unit counts to units, each with the number of persons that `assign_persons` gives it.

    Blocks of at most `most` units. A unit of class 0 that got nobody counts as vacant.
    """
    rows, kinds = units.shape
    counts = units.ravel()
    people = np.concatenate([margins, np.zeros((rows, 1), dtype=np.int64)], axis=1).ravel()
    base = _first_units(units, first_unit).ravel()
    share, more = np.divmod(people, np.maximum(counts, 1))
    for entry, counts_here, skipped in _pieces(counts, most):
        slot = _ramp(skipped, counts_here)
        population = np.repeat(share[entry], counts_here) + (slot < np.repeat(more[entry], counts_here))
        kind = np.repeat(entry % kinds, counts_here)
        kind = np.where((kind == 0) & (population == 0), kinds - 1, kind)
        yield _UnitBlock(
            np.repeat(entry // kinds, counts_here), kind, np.repeat(base[entry], counts_here) + slot, population
        )


def _first_units(units: Integers, first_unit: int) -> Integers:
    """Number of the first unit of each geounit and kind, shape of `units`."""
    flat = units.ravel()
    return (first_unit + np.cumsum(flat) - flat).reshape(units.shape)


def _running_within(groups: Integers, counts: Integers) -> Integers:
    """Exclusive running sum of counts that starts anew with each group; groups ascend."""
    before = np.cumsum(counts) - counts
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(np.append(starts, len(groups)))
    return before - np.repeat(before[starts], lengths)


def _ramp(starts: Integers, counts: Integers) -> Integers:
    """starts[0], starts[0] + 1, ... (counts[0] numbers), starts[1], ...; shape (sum of counts,)."""
    ends = np.cumsum(counts)
    numbers = np.arange(ends[-1] if len(ends) else 0, dtype=np.int64)
    shifted: Integers = numbers + np.repeat(starts - (ends - counts), counts)
    return shifted


def _pieces(counts: Integers, most: int) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Cut repeated entries into blocks of at most `most`: (entries, how many of each, how many were used before)."""
    ends = np.cumsum(counts)
    starts = ends - counts
    total = int(ends[-1]) if len(ends) else 0
    for low in range(0, total, most):
        high = min(low + most, total)
        entry = np.arange(np.searchsorted(ends, low, "right"), np.searchsorted(starts, high, "left"))
        begin = np.maximum(starts[entry], low)
        yield entry, np.minimum(ends[entry], high) - begin, begin - starts[entry]


#: What a task says about each file it wrote; `problem` rows name a geounit in `file`.
REPORT: Final = pa.schema(
    {
        "kind": pa.string(),
        "format": pa.string(),
        "slice": pa.int32(),
        "file": pa.string(),
        "rows": pa.int64(),
        "size": pa.int64(),
        "sha256": pa.string(),
    }
)
_PROBLEM = "problem"
#: Geounits that cannot be assigned which a slice names at most.
_NAMED = 20


@dataclass(frozen=True, slots=True, eq=False)
class WriteTask:
    """Everything a worker needs; small, and made of public things.

    Attributes:
        record: What is counted, and the kind of its file.
        files: Format (a name in `WRITERS`) and columns of every file.
        assigned: Whether there is a file of units that people are assigned to.
        cells: Number of cells of the schema; the codes of units that are listed follow.
        listed: Kinds of units that are listed behind what is counted; none where units are not known.
        class_of_cell: Shape (cells of the schema,), int64; one more for every kind of units that can be listed.
        classes: Number of classes of units.
        vacant_kinds: Number of kinds of vacant units.
        least: Shape (C,), int64: least persons of a unit of each class.
        staging: Where the files go, readable and writable by every worker; one folder `<kind>.<format>` a file.
        notices: Sentences that every file must carry.
        division: How records are told apart that another product tells apart, by the column `divided` of leaf rows.
        attempt: Gives the number of the attempt of the task that it is called in.
    """

    record: str
    files: tuple[tuple[str, FileColumns], ...]
    assigned: bool
    cells: int
    listed: tuple[int, ...]
    class_of_cell: np.ndarray
    classes: int
    least: np.ndarray
    staging: Place
    notices: tuple[str, ...]
    vacant_kinds: int = 1
    division: Division | None = None
    attempt: Callable[[], int] = int

    @property
    def knows_units(self) -> bool:
        """Whether units stand in any of the files."""
        return self.assigned or bool(self.listed)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the files of every slice."""
        writing: _OpenSlice | None = None
        for batch in batches:
            for part in _by_slice(batch):
                number = part.column("slice")[0].as_py()
                if writing is None or writing.number != number:
                    if writing is not None:
                        yield writing.close()
                    first = (part.column(f"first_{of}")[0].as_py() for of in ("record", "unit"))
                    writing = _OpenSlice(self, number, *first)
                writing.write(part)
        if writing is not None:
            yield writing.close()


@dataclass(slots=True)
class _OpenSlice:
    """The open files of one slice."""

    task: WriteTask
    number: int
    next_record: int
    next_unit: int
    sinks: dict[tuple[str, str], tuple[str, HashedOutput, Sink]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        attempt = self.task.attempt()
        for name, columns in self.task.files:
            self.rows[columns.kind] = 0
            format = WRITERS[name]
            folder = self.task.staging / f"{columns.kind}.{name}"
            path = folder / f"part-{self.number:05d}-{attempt}{format.suffix}"
            output = HashedOutput.open(path)
            sink = format.open(cast("BinaryIO", output), columns, self.task.notices)
            self.sinks[columns.kind, name] = (path.name, output, sink)

    def write(self, batch: pa.RecordBatch) -> None:
        geocodes = tuple(batch.column("geocode").to_pylist())
        geounits = _geounits(batch, self.task.classes, with_units=self.task.assigned)
        if self.task.division is not None:
            apart = batch.column("divided").to_numpy(zero_copy_only=False).astype(np.int64)
            geounits, too_few = self.task.division.divide(geounits, apart)
            self._note(geocodes, too_few)
        if self.task.listed:
            counted = np.bincount(geounits.owner, geounits.counts, minlength=len(geocodes)).astype(np.int64)
            vacant = self.task.vacant_kinds
            known = _units(batch, self.task.classes + vacant)
            listed = listed_units(known, counted, self.task.listed, vacant)
            self._note(geocodes, np.asarray((listed < 0).any(axis=1)))
            geounits = _with_listed(geounits, listed, self.task.cells)
        if geounits.units is not None:
            margins = class_margins(geounits, self.task.class_of_cell, len(geocodes), len(self.task.least))
            self._note(geocodes, unassignable(margins, geounits.units, self.task.least))
            for units in list_units(geounits.units, margins, self.next_unit):
                numbers = {Scope.UNIT_NUMBER: units.unit_number, Scope.POPULATION: units.population}
                self._append("unit", Rows(geocodes, units.owner, units.kind, np.ones_like(units.owner), numbers))
        for people in assign_persons(geounits, self.task.class_of_cell, self.next_unit):
            record_number = np.arange(people.lengths.sum(), dtype=np.int64) + self.next_record
            self.next_record += len(record_number)
            numbers = {Scope.RECORD_NUMBER: record_number}
            if people.unit_number is not None and people.person_number is not None:
                numbers |= {Scope.UNIT_NUMBER: people.unit_number, Scope.PERSON_NUMBER: people.person_number}
            self._append(self.task.record, Rows(geocodes, people.owner, people.cell, people.lengths, numbers))
        if geounits.units is not None:
            self.next_unit += int(geounits.units.sum())

    def close(self) -> pa.RecordBatch:
        """Finish the files and report them."""
        report: list[tuple[object, ...]] = []
        for (kind, format), (name, output, sink) in self.sinks.items():
            sink.close()
            output.close()
            record = output.record(name)
            report.append((kind, format, self.number, record.name, self.rows[kind], record.size, record.sha256))
        report += [(_PROBLEM, "", self.number, geocode, 0, 0, "") for geocode in self.problems]
        return pa.RecordBatch.from_pylist([dict(zip(REPORT.names, row, strict=True)) for row in report], REPORT)

    def _append(self, kind: str, rows: Rows) -> None:
        self.rows[kind] += rows.number
        for (of, _), (*_, sink) in self.sinks.items():
            if of == kind:
                sink.write(rows)

    def _note(self, geocodes: Sequence[str], failing: np.ndarray) -> None:
        room = _NAMED - len(self.problems)
        self.problems += [geocodes[row] for row in np.flatnonzero(failing)[:room]]


def _by_slice(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch where the slice changes; rows are sorted by slice and geocode."""
    if batch.num_rows == 0:
        return
    slices = batch.column("slice").to_numpy(zero_copy_only=False)
    edges = [0, *(np.flatnonzero(np.diff(slices)) + 1).tolist(), batch.num_rows]
    for begin, end in pairwise(edges):
        yield batch.slice(begin, end - begin)


def _units(batch: pa.RecordBatch, kinds: int) -> np.ndarray:
    units = batch.column("units").flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    return np.asarray(units.reshape(batch.num_rows, kinds))


def _geounits(batch: pa.RecordBatch, classes: int, *, with_units: bool) -> Geounits:
    cells, counts = batch.column("cells"), batch.column("counts")
    lengths = np.diff(cells.offsets.to_numpy())
    owner = np.repeat(np.arange(batch.num_rows, dtype=np.int64), lengths)
    flat = [column.flatten().to_numpy(zero_copy_only=False).astype(np.int64) for column in (cells, counts)]
    occupied = flat[1] > 0
    units = _units(batch, classes + 1) if with_units else None
    return Geounits(flat[0][occupied], flat[1][occupied], owner[occupied], units)
