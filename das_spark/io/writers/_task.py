"""What one Spark task does: deal the people of a slice of leaf geounits to units and write them to its own files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from das_spark.io.writers._columns import FileColumns, Scope
from das_spark.io.writers._dealing import (
    Geounits,
    class_margins,
    deal_persons,
    list_units,
    undealable,
    with_listed,
)
from das_spark.io.writers.base import Rows, Sink
from das_spark.store import record_of

#: What a task says about each file it wrote; `problem` rows name a geounit in `file`.
REPORT = "kind string, flavour string, slice int, file string, rows long, size long, sha256 string"
PROBLEM = "problem"
#: Geounits that cannot be dealt which a slice names at most.
_NAMED = 20


@dataclass(frozen=True, slots=True, eq=False)
class WriteTask:
    """Everything a worker needs; small, and made of public things.

    Attributes:
        record: What is counted, and the kind of its file.
        files: Flavour (a name in `WRITERS`) and columns of every file.
        dealt: Whether there is a file of units that people are dealt to.
        listed: What stands for the cell of group quarters, which are listed besides; None where they are not.
        class_of_cell: Shape (cells of the schema,), int64; one more where group quarters are listed.
        classes: Number of classes of units.
        least: Shape (C,), int64: least persons of a unit of each class.
        staging: Where the files go, readable and writable by every worker; one folder `<kind>.<flavour>` a file.
        notices: Sentences that every file must carry.
    """

    record: str
    files: tuple[tuple[str, FileColumns], ...]
    dealt: bool
    listed: int | None
    class_of_cell: np.ndarray
    classes: int
    least: np.ndarray
    staging: Path
    notices: tuple[str, ...]

    @property
    def knows_units(self) -> bool:
        """Whether units stand in any of the files."""
        return self.dealt or self.listed is not None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the files of every slice.

        Args:
            batches: Columns slice, first_record, first_unit, geocode, cells, counts, units; in the order of the first.

        Yields:
            `REPORT`: a row for every file.
        """
        writing: _Slice | None = None
        for batch in batches:
            for part in _by_slice(batch):
                number = part.column("slice")[0].as_py()
                if writing is None or writing.number != number:
                    if writing is not None:
                        yield writing.close()
                    first = (part.column(f"first_{of}")[0].as_py() for of in ("record", "unit"))
                    writing = _Slice(self, number, *first)
                writing.write(part)
        if writing is not None:
            yield writing.close()


@dataclass(slots=True)
class _Slice:
    """The open files of one slice."""

    task: WriteTask
    number: int
    next_record: int
    next_unit: int
    sinks: dict[tuple[str, str], tuple[Path, Sink]] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        from das_spark.io.writers import WRITERS  # noqa: PLC0415 - the registry imports the flavours, workers only

        context = TaskContext.get()
        attempt = context.taskAttemptId() if context else 0
        for name, columns in self.task.files:
            self.rows[columns.kind] = 0
            flavour = WRITERS[name]
            folder = self.task.staging / f"{columns.kind}.{name}"
            path = folder / f"part-{self.number:05d}-{attempt}{flavour.suffix}"
            self.sinks[columns.kind, name] = (path, flavour.open(path, columns, self.task.notices))

    def write(self, batch: pa.RecordBatch) -> None:
        geocodes = tuple(batch.column("geocode").to_pylist())
        geounits = _geounits(batch, self.task.classes, with_units=self.task.dealt)
        if self.task.listed is not None:
            geounits = with_listed(geounits, _units(batch, self.task.classes), self.task.listed)
        if geounits.units is not None:
            margins = class_margins(geounits, self.task.class_of_cell, len(geocodes), len(self.task.least))
            self._note(geocodes, undealable(margins, geounits.units, self.task.least))
            for units in list_units(geounits.units, margins, self.next_unit):
                numbers = {Scope.UNIT_NUMBER: units.unit_number, Scope.POPULATION: units.population}
                self._append("unit", Rows(geocodes, units.owner, units.kind, numbers))
        for people in deal_persons(geounits, self.task.class_of_cell, self.next_unit):
            record_number = np.arange(len(people.owner), dtype=np.int64) + self.next_record
            self.next_record += len(people.owner)
            numbers = {Scope.RECORD_NUMBER: record_number}
            if people.unit_number is not None and people.person_number is not None:
                numbers |= {Scope.UNIT_NUMBER: people.unit_number, Scope.PERSON_NUMBER: people.person_number}
            self._append(self.task.record, Rows(geocodes, people.owner, people.cell, numbers))
        if geounits.units is not None:
            self.next_unit += int(geounits.units.sum())

    def close(self) -> pa.RecordBatch:
        """Finish the files and report them."""
        report: list[tuple[object, ...]] = []
        for (kind, flavour), (path, sink) in self.sinks.items():
            sink.close()
            record = record_of(path)
            report.append((kind, flavour, self.number, record.name, self.rows[kind], record.size, record.sha256))
        report += [(PROBLEM, "", self.number, geocode, 0, 0, "") for geocode in self.problems]
        return _report(report)

    def _append(self, kind: str, rows: Rows) -> None:
        self.rows[kind] += len(rows.owner)
        for (of, _), (_, sink) in self.sinks.items():
            if of == kind:
                sink.write(rows)

    def _note(self, geocodes: Sequence[str], failing: np.ndarray) -> None:
        room = _NAMED - len(self.problems)
        self.problems += [geocodes[row] for row in np.flatnonzero(failing)[:room]]


def _report(rows: list[tuple[object, ...]]) -> pa.RecordBatch:
    types = {"string": pa.string(), "int": pa.int32(), "long": pa.int64()}
    fields = [pa.field(part.split()[0], types[part.split()[1]]) for part in REPORT.split(", ")]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, field.type) for values, field in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))


def _by_slice(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch where the slice changes; rows are sorted by slice and geocode."""
    if batch.num_rows == 0:
        return
    slices = batch.column("slice").to_numpy(zero_copy_only=False)
    edges = [0, *(np.flatnonzero(np.diff(slices)) + 1).tolist(), batch.num_rows]
    for begin, end in pairwise(edges):
        yield batch.slice(begin, end - begin)


def _units(batch: pa.RecordBatch, classes: int) -> np.ndarray:
    units = batch.column("units").flatten().to_numpy(zero_copy_only=False).astype(np.int64)
    return np.asarray(units.reshape(batch.num_rows, classes + 1))


def _geounits(batch: pa.RecordBatch, classes: int, *, with_units: bool) -> Geounits:
    cells, counts = batch.column("cells"), batch.column("counts")
    lengths = np.diff(cells.offsets.to_numpy())
    owner = np.repeat(np.arange(batch.num_rows, dtype=np.int64), lengths)
    flat = [column.flatten().to_numpy(zero_copy_only=False).astype(np.int64) for column in (cells, counts)]
    occupied = flat[1] > 0
    units = _units(batch, classes) if with_units else None
    return Geounits(flat[0][occupied], flat[1][occupied], owner[occupied], units)
