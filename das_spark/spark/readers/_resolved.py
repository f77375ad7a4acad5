"""Rows of tables of the input, resolved in the task that reads them: to geounits, cells, classes and numbers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.geography import ROOT_GEOCODE
from das_spark.io.input_fields import GEOCODE, Names, Rows
from das_spark.io.text_lines import LINE
from das_spark.spark.readers._contributors import VISIBLE, normalised
from das_spark.spark.readers._told import TOLD, filled
from das_spark.spark.readers._units import UNITS, VACANT
from das_spark.spark.readers.base import Target, strides_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.geography import Spine
    from das_spark.products import CodedField
    from das_spark.products.base import Records

UNIT: Final = "unit"
COUNT: Final = "count"
#: Of a row that says that a geounit is there, and counts nothing.
NO_CELL: Final = -1
#: What a table of geounits without a row means.
NO_GEOUNIT: Final = "no geounit exists"
NO_ROWS: Final = f"the table has no rows, so {NO_GEOUNIT}"


class Kind(IntEnum):
    """What a row is about; of those of one unit, its own comes first."""

    HOME = 0
    VACANT_HOME = 1
    GEOGRAPHY = 2
    UNITS = 3
    VACANT = 4
    COUNTED = 5
    SAID = 6
    SUMMED = 7


#: What is made of tables.
#: cell: of what is counted, or the part of it that a record tells; class of units.
#: part: of a home, the part of the cells of its records that it tells; of a record, what it adds where it is alone.
#: count: how many; of a record, a home or a geounit, 1; of what is said, and of what is summed to compare, that.
#: row: number of a record in its file.
#: who, person: whose a record is, as it is written, and normalised unless bytes are compared.
INPUT_ROWS: Final = pa.schema(
    [
        (UNIT, pa.string()),
        (GEOCODE, pa.string()),
        ("kind", pa.int8()),
        ("cell", pa.int32()),
        ("part", pa.int32()),
        (COUNT, pa.int64()),
        ("row", pa.int64()),
        ("who", pa.string()),
        ("person", pa.string()),
        (TOLD, pa.string()),
    ]
)


def input_rows(
    kind: Kind, columns: Mapping[str, pa.Array | NDArray[np.int64]], rows: int, schema: pa.Schema = INPUT_ROWS
) -> pa.RecordBatch:
    """Make rows of `INPUT_ROWS`, or of a schema that has more."""
    arrays = {name: pa.array(column) if isinstance(column, np.ndarray) else column for name, column in columns.items()}
    return filled(schema, {"kind": pa.repeat(pa.scalar(int(kind), pa.int8()), rows), **arrays}, rows)


def cut_to(length: int, geocodes: pa.Array) -> pa.Array:
    """Return geocodes cut to those of a level above, of so many digits: the root has a code of its own."""
    return pc.utf8_slice_codeunits(geocodes, 0, length) if length else pa.repeat(ROOT_GEOCODE, len(geocodes))


def counts_of(
    kind: Kind,
    geocodes: pa.Array,
    counts: NDArray[np.int64],
    cells: NDArray[np.int64] | None = None,
    *,
    zeros: bool = False,
) -> pa.RecordBatch:
    """Make rows of geounits that have a count for each of some cells or classes.

    Args:
        kind: What is counted.
        geocodes: Of the geounits.
        counts: Shape ``(geounits, cells)``.
        cells: Which they are; the first ones where none are given.
        zeros: Whether what counts nothing is told, too.
    """
    rows, columns = counts.shape
    geounit = np.repeat(np.arange(rows), columns)
    cell = np.tile(np.arange(columns) if cells is None else cells, rows)
    made = input_rows(kind, {GEOCODE: geocodes.take(pa.array(geounit)), "cell": cell, COUNT: counts.ravel()}, len(cell))
    return made if zeros else made.filter(pa.array(counts.ravel() > 0))


def geounits_of(geocodes: pa.Array, units: NDArray[np.int64], vacant: NDArray[np.int64]) -> list[pa.RecordBatch]:
    """Make rows of geounits that exist, with their units by class, (geounits, classes), and the vacant ones."""
    one = np.ones((len(geocodes), 1), dtype=np.int64)
    kinds = ((Kind.GEOGRAPHY, one), (Kind.UNITS, units), (Kind.VACANT, vacant.reshape(-1, 1)))
    return [counts_of(kind, geocodes, counts) for kind, counts in kinds]


def summed(rows: pa.RecordBatch, *, numbered: bool = False) -> pa.RecordBatch:
    """Add up the counts of rows that are about the same cell, class or kind of a geounit.

    Args:
        rows: Of `INPUT_ROWS`.
        numbered: Whether the least of their numbers is kept.
    """
    keys, sums = [GEOCODE, "kind", "cell"], [(COUNT, "sum"), *([("row", "min")] if numbered else [])]
    table = pa.Table.from_batches([rows]).select([*keys, *(name for name, _ in sums)])
    made = table.group_by(keys, use_threads=False).aggregate(sums)
    columns = {name: made.column(name).combine_chunks() for name in keys}
    columns |= {name: made.column(f"{name}_{how}").combine_chunks() for name, how in sums}
    return filled(INPUT_ROWS, columns, made.num_rows)


class Resolve(ABC):
    """From the rows of a table to `INPUT_ROWS`.

    Attributes:
        schema: Of what is made: `INPUT_ROWS`, and perhaps more.
        nothing: What is said where it makes no row that tells of a geounit, though one must.
        kinds: Of the rows that are brought together by geounit, at least one of every row of the table.
        once: What is expected where a geounit, and cell or class, stands in one row; empty where it may in several.
        head: Cell or class that every row of the table tells, where one row tells of several; None otherwise.
        are_records: Whether its rows are records, and counts the numbers of them.
    """

    __slots__ = ()
    schema: ClassVar[pa.Schema] = INPUT_ROWS
    nothing: ClassVar[str] = NO_ROWS
    kinds: ClassVar[tuple[Kind, ...]] = (Kind.COUNTED,)
    once: ClassVar[str] = ""
    head: ClassVar[int | None] = None
    are_records: ClassVar[bool] = False

    @abstractmethod
    def fields(self, names: Names) -> tuple[str, ...]:
        """Return the fields that are read, of those that a table may have."""

    @abstractmethod
    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """Resolve some rows; those that are not as they must be are left out."""


class LineResolve(Resolve):
    """From lines of files to `INPUT_ROWS`."""

    __slots__ = ()

    def fields(self, names: Names) -> tuple[str, ...]:
        """See `Resolve`."""
        return (LINE,)


@dataclass(frozen=True, slots=True)
class Level:
    """A field that tells the level of an attribute, and what a level adds to the number of a cell."""

    attribute: str
    coded: CodedField
    labels: tuple[str, ...]
    stride: int

    def of(self, rows: Rows) -> NDArray[np.int64]:
        """Return the levels of rows; -1 where there is none."""
        return rows.level(self.coded, self.labels, self.attribute)


def levels_of(target: Target, *, without: str = "") -> tuple[Level, ...]:
    """Return the fields that tell the cell of a record, but for one attribute."""
    strides, schema = strides_of(target.product.schema), target.product.schema
    labels = {attribute.name: tuple(attribute.levels) for attribute in schema.attributes}
    coded = target.recodes.attributes
    return tuple(Level(name, coded[name], labels[name], strides[name]) for name in coded if name != without)


def cell_of(rows: Rows, levels: Sequence[Level]) -> NDArray[np.int64]:
    """Return the cells of rows, or the parts of them that some fields tell."""
    cell = np.zeros(len(rows), dtype=np.int64)
    for level in levels:
        cell += level.stride * level.of(rows)
    return cell


def once(rows: int) -> NDArray[np.int64]:
    """Return the counts of records."""
    return np.ones(rows, dtype=np.int64)


def kept(made: pa.RecordBatch, rows: Rows) -> pa.RecordBatch:
    """Leave out what was made of rows that break a rule."""
    return made.filter(pa.array(~rows.faulty)) if rows.faulty.any() else made


@dataclass(frozen=True, slots=True)
class CountRows(Resolve):
    """Counts of cells: geocode, attributes, count."""

    spine: Spine
    levels: tuple[Level, ...]

    def fields(self, names: Names) -> tuple[str, ...]:
        """See `Resolve`."""
        return (GEOCODE, *(level.coded.name for level in self.levels), COUNT)

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        geocode = rows.geocode(self.spine)
        columns = {GEOCODE: geocode, "cell": cell_of(rows, self.levels), COUNT: rows.count(COUNT)}
        return kept(input_rows(Kind.COUNTED, columns, len(rows)), rows)


@dataclass(frozen=True, slots=True)
class RecordRows(Resolve):
    """Records of what is counted, each in a unit, or in a geounit.

    Attributes:
        spine: Of the geocodes.
        levels: What a record tells of its cell.
        of_unit: Whether it names its unit.
        records: Whose records they are, if that is told.
        identity: How identities are compared; see `input.identity`.
    """

    are_records = True

    spine: Spine
    levels: tuple[Level, ...]
    of_unit: bool
    records: Records
    identity: str | None

    def fields(self, names: Names) -> tuple[str, ...]:
        """See `Resolve`."""
        whose = [self.records.contributor] if self.records.contributor else []
        return (UNIT if self.of_unit else GEOCODE, *(level.coded.name for level in self.levels), *whose)

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        size = len(rows)
        columns: dict[str, pa.Array | NDArray[np.int64]] = {COUNT: once(size)}
        if self.records.contributor:
            of = f"a {self.records.contributed_by}"
            who = rows.identity(self.records.contributor, of, visible=VISIBLE)
            distinct = who.dictionary_encode()
            persons = distinct.dictionary
            if self.identity != "bytes":
                persons = pa.array(map(normalised, persons.to_pylist()), pa.string())
            columns |= {"who": who, "person": persons.take(distinct.indices)}
        if self.of_unit:
            columns |= {UNIT: rows.identity(UNIT, "a unit"), "row": rows.numbers}
        columns["cell"] = cell_of(rows, self.levels)
        if not self.of_unit:
            columns[GEOCODE] = rows.geocode(self.spine)
        made = kept(input_rows(Kind.COUNTED, columns, size), rows)
        return made if self.of_unit or self.records.contributor else summed(made)


@dataclass(frozen=True, slots=True)
class HomeRows(Resolve):
    """Records of units: unit, geocode, class, and perhaps whether it is vacant.

    Attributes:
        spine: Of the geocodes.
        unit_class: The field of the class; its stride is what the class adds to the cells of records.
    """

    kinds = (Kind.UNITS, Kind.VACANT)
    are_records = True

    spine: Spine
    unit_class: Level

    def fields(self, names: Names) -> tuple[str, ...]:
        """See `Resolve`."""
        return (UNIT, GEOCODE, self.unit_class.coded.name, *([VACANT] if names.has_optional(VACANT) else []))

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        size = len(rows)
        geocode = rows.geocode(self.spine)
        level = self.unit_class.of(rows)
        unit = rows.identity(UNIT, "a unit")
        vacant = np.zeros(size, dtype=np.int64)
        if rows.names.has_optional(VACANT):
            number = rows.whole(VACANT)
            vacant = number.value
            rows.check(VACANT, "0 or 1", ~(number.is_whole & ((vacant == 0) | (vacant == 1))))
            rows.check(VACANT, "0 in every class but the first", (vacant == 1) & (level > 0))
        kind = np.where(vacant == 1, Kind.VACANT_HOME, Kind.HOME).astype(np.int8)
        columns = {UNIT: unit, GEOCODE: geocode, "cell": level, COUNT: once(size), "row": rows.numbers, "kind": kind}
        return kept(input_rows(Kind.HOME, columns | {"part": level * self.unit_class.stride}, size), rows)


def _by_cell(
    rows: Rows, geocode: pa.Array, counts: Sequence[tuple[Kind, NDArray[np.int64] | int, NDArray[np.int64]]]
) -> pa.RecordBatch:
    """Counts by kind and cell or class, of rows that are of geounits; where all are 0, the first one is told alone."""
    made = []
    for place, (kind, cell, count) in enumerate(counts):
        columns = {GEOCODE: geocode, "cell": np.broadcast_to(cell, count.shape).astype(np.int64), COUNT: count}
        told = ~rows.faulty & ((count > 0) | (place == 0))
        made.append(input_rows(kind, columns, len(rows)).filter(pa.array(told)))
    return pa.concat_batches(made)


def _vacant(rows: Rows) -> NDArray[np.int64]:
    return rows.count(VACANT) if rows.names.has_optional(VACANT) else np.zeros(len(rows), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class WideUnits(Resolve):
    """Units of geounits, a column a class: geocode, `units_0` and so on, and perhaps vacant ones."""

    kinds = (Kind.UNITS,)
    once = "each geounit in one row"
    head = 0

    spine: Spine
    classes: int

    def fields(self, names: Names) -> tuple[str, ...]:
        """See `Resolve`."""
        numbers = (f"{UNITS}_{level}" for level in range(self.classes))
        return (GEOCODE, *numbers, *([VACANT] if names.has_optional(VACANT) else []))

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        geocode = rows.geocode(self.spine)
        units = [rows.count(f"{UNITS}_{level}") for level in range(self.classes)]
        by_class = [(Kind.UNITS, level, number) for level, number in enumerate(units)]
        return _by_cell(rows, geocode, [*by_class, (Kind.VACANT, 0, _vacant(rows))])


@dataclass(frozen=True, slots=True)
class LongUnits(Resolve):
    """Units of geounits, a row a class: geocode, class, units, and perhaps vacant ones."""

    kinds = (Kind.UNITS,)
    once = "each geounit and class in one row"

    spine: Spine
    unit_class: Level

    def fields(self, names: Names) -> tuple[str, ...]:
        """See `Resolve`."""
        return (GEOCODE, self.unit_class.coded.name, UNITS, *([VACANT] if names.has_optional(VACANT) else []))

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        geocode = rows.geocode(self.spine)
        level = self.unit_class.of(rows)
        units = rows.count(UNITS)
        return _by_cell(rows, geocode, [(Kind.UNITS, level, units), (Kind.VACANT, 0, _vacant(rows))])


@dataclass(frozen=True, slots=True)
class GeographyRows(Resolve):
    """The geounits that exist."""

    kinds = (Kind.GEOGRAPHY,)
    once = "each geounit in one row"

    spine: Spine

    def fields(self, names: Names) -> tuple[str, ...]:
        """See `Resolve`."""
        return (GEOCODE,)

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        columns = {GEOCODE: rows.geocode(self.spine), COUNT: once(len(rows))}
        return kept(input_rows(Kind.GEOGRAPHY, columns, len(rows)), rows)


@dataclass(frozen=True, slots=True)
class PublishedCell:
    """A cell, the column of its count, and the columns that are taken from this."""

    cell: int
    column: str
    minus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PublishedRows(Resolve):
    """Counts of geounits, a column a count; what a count is left of has no more than it."""

    once = "each geounit in one row"
    head = NO_CELL

    spine: Spine
    cells: tuple[PublishedCell, ...]

    def fields(self, names: Names) -> tuple[str, ...]:
        """See `Resolve`."""
        return (GEOCODE, *self.columns)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of counts, once each."""
        return tuple(dict.fromkeys(name for cell in self.cells for name in (cell.column, *cell.minus)))

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        geocode = rows.geocode(self.spine)
        counts = {name: rows.count(name) for name in self.columns}
        numbers = [(Kind.COUNTED, NO_CELL, np.zeros(len(rows), dtype=np.int64))]
        for cell in self.cells:
            count = counts[cell.column]
            if cell.minus:
                # Taken away one by one, so that no sum goes beyond what a number holds.
                for name in cell.minus:
                    count = np.where(count < 0, count, count - counts[name])
                expected = f"a count no less than that of {' and '.join(cell.minus)} together"
                rows.check(cell.column, expected, (count < 0) & (counts[cell.column] >= 0))
            numbers.append((Kind.COUNTED, cell.cell, count))
        return _by_cell(rows, geocode, numbers)


def exact_sum(numbers: NDArray[np.int64]) -> int:
    """Return the sum of numbers, exactly."""
    low = numbers & 0xFFFFFFFF
    return (int((numbers >> 32).sum()) << 32) + int(low.sum())
