"""Rules on published tables against the estimates, sharing no code with the tabulation.

What each column of a table of sums counts is read off the declared levels anew: the counts of cells with these levels
are added up, column by column. The sums are compared with every published value that is not zero (a column without any
person on one side and no value on the other agree).

Several formats (Parquet, CSV) are compared at once: the side of the estimates is the same for all. A format need not
have all tables, nor all levels of one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.verification.families import NAMED, NOWHERE, FamilyRule, Found, Key, summed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.histogram import Schema
    from das_spark.tabulation import Table, TableColumn, TableShell
    from das_spark.verification.families import Families

_Table = TypeVar("_Table", bound="TableShell")

TABLES_EQUAL: Final = "tables equal estimates"
TOTALS_EQUAL: Final = "table totals equal estimates"
#: Values as bytes, record after record: the place of the geounit, the number of the column, and the value.
PACKED: Final = np.dtype([("place", "<i4"), ("item", "<i4"), ("value", "<i8")])
#: Sums that a task holds at once: bounds its memory.
_SUMS_AT_ONCE: Final = 1 << 22
#: Cells that a task looks at together: there is a truth value of each for every set of levels that columns name.
_CELLS_AT_ONCE: Final = 1 << 17


def packed_of(
    geocodes: pa.Array, values: NDArray[np.int64], items: NDArray[np.int32], above: int | None
) -> dict[str, pa.Array]:
    """Put neighbouring geounits with one parent together: a nation has tens of millions of rows in its tables.

    Args:
        geocodes: Of each row; null where it has none.
        values: Shape ``(rows, columns)``.
        items: The number of each column, ``(columns,)``.
        above: Characters of a geocode that are those of its parent; None where every geounit is by itself.

    Returns:
        The first geocode, all of them, and the values that are not zero, as `PACKED`.
    """
    number, known = len(values), geocodes.fill_null(NOWHERE)
    first = np.ones(number, dtype=np.bool_)
    if above is not None:
        parents = pc.utf8_slice_codeunits(known, 0, above).dictionary_encode().indices.to_numpy(zero_copy_only=False)
        alone = pc.equal(known, NOWHERE).to_numpy(zero_copy_only=False)
        first[1:] = (np.diff(parents) != 0) | alone[1:] | alone[:-1]
    begin = np.flatnonzero(first)
    row, column = np.nonzero(values)
    records = np.empty(len(row), dtype=PACKED)
    group = np.cumsum(first) - 1
    records["place"], records["item"], records["value"] = row - begin[group[row]], items[column], values[row, column]
    ends = ends_of(group[row], len(begin)) * np.int32(PACKED.itemsize)
    packed = pa.BinaryArray.from_buffers(pa.binary(), len(begin), [None, pa.py_buffer(ends), pa.py_buffer(records)])
    lists = pa.ListArray.from_arrays(pa.array(np.append(begin, number), pa.int32()), known)
    return {"geocode": known.take(pa.array(begin)), "geocodes": lists, "packed": packed}


def ends_of(row: NDArray[np.int64], rows: int) -> NDArray[np.int32]:
    """Return where the pairs of each row begin, and where the last ones end."""
    return np.searchsorted(row, np.arange(rows + 1)).astype(np.int32)


def unpacked(column: pa.BinaryArray) -> tuple[NDArray[np.int64], NDArray[np.void]]:
    """Return how many pairs each row has, shape ``(rows,)``, and all of them, one after the other."""
    _, offsets, data = column.buffers()
    ends = np.frombuffer(offsets, dtype=np.int32)[column.offset : column.offset + len(column) + 1]
    records = np.frombuffer(data or b"", dtype=np.uint8)[ends[0] : ends[-1]].view(PACKED)
    return np.diff(ends).astype(np.int64) // PACKED.itemsize, records


@dataclass(frozen=True, slots=True)
class ComparedTables(FamilyRule, Generic[_Table]):
    """Every geounit of a level that a table is published for has one row in it, of what its estimate says.

    Attributes:
        levels: From the top.
        tables: All tables, each once.
        formats: Format -> name of a table -> levels that it is published for in that format.
    """

    levels: Sequence[str]
    tables: Sequence[_Table]
    formats: Mapping[str, Mapping[str, Sequence[str]]]
    # What is compared, numbered over all tables: a row, the total by itself, and the columns of each.
    first: dict[str, int] = field(init=False, default_factory=dict)  # of a table: the item of its row

    def __post_init__(self) -> None:
        """Number what is compared."""
        number = 0
        for table in self.tables:
            self.first[table.name] = number
            number += 2 + len(table.columns)

    @property
    def schema(self) -> Schema:
        """Whose cells are counted."""
        return self.tables[0].schema

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of the rule on columns and, where there is one, of that on totals."""

    @abstractmethod
    def compared(self, families: Families) -> Compared[_Table]:
        """Bring estimates and published tables of some families together."""

    @property
    def expected(self) -> tuple[Key, ...]:
        """Every rule at each level and in each format for which a table is published."""
        there = {
            (format, level) for format, tables in self.formats.items() for levels in tables.values() for level in levels
        }
        return tuple(
            (rule, level, self._note(format))
            for rule in self.names
            for level in self.levels
            for format in self.formats
            if (format, level) in there
        )

    def _note(self, format: str) -> str:
        return f"{format} files" if len(self.formats) > 1 else ""

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families, some geounits at a time."""
        counted = self.compared(families)
        checked = np.zeros((len(self.formats), 2), dtype=np.int64)
        failing: list[tuple[list[str], list[str]]] = [
            ([f"{geocode} (row)" for geocode in strange[:NAMED]], []) for strange in counted.strange
        ]
        for geounits in counted.slices():
            expected, found = counted.expected(geounits), counted.found(geounits)
            present = counted.present(geounits, expected, found)
            checked += present
            differs = (found != expected) & counted.held[:, None, :]
            for place, geounit, item in zip(*np.nonzero(differs), strict=True):
                names = failing[place][int(counted.is_total[item])]
                if len(names) < NAMED:
                    code = families.geocodes[geounits.start + int(geounit)].as_py()
                    names.append(f"{code} {counted.names[item]}")
        for place, format in enumerate(self.formats):
            for is_total, rule in enumerate(self.names):
                if checked[place, is_total] or failing[place][is_total]:
                    yield Found(rule, int(checked[place, is_total]), failing[place][is_total], self._note(format))


class Compared(ABC, Generic[_Table]):
    """What estimates and published tables say of the geounits of some families, item by item."""

    rows: ClassVar[str]  # of published tables, of `COLUMNS`

    def __init__(self, rule: ComparedTables[_Table], families: Families) -> None:
        """Number the items, and sort what is compared by geounit."""
        self._families = families
        self._schema = rule.schema
        self.names: list[str] = []
        owners: list[str] = []
        values: list[int] = []  # how many values an item stands for: a row for those of all columns
        #: Tables that are published for this level, by the item of their row.
        self._tables: list[tuple[int, _Table]] = []
        here = [
            {name for name, levels in tables.items() if families.level in levels} for tables in rule.formats.values()
        ]
        for table in rule.tables:
            first = len(self.names)
            self.names += [f"{table.name} (row)", f"{table.total.name} (total)", *table.names]
            owners += [table.name] * (2 + len(table.names))
            values += [len(table.columns), 1, *[0] * len(table.columns)]
            if any(table.name in names for names in here):
                self._tables.append((first, table))
        self._values = np.array(values, dtype=np.int64)
        self.is_total = np.zeros(len(owners), dtype=np.bool_)
        self.is_total[[first + 1 for first in rule.first.values()]] = True
        self.held = np.array([[owner in names for owner in owners] for names in here])
        self._rows = np.array([place for place in rule.first.values() if self.held[:, place].any()], dtype=np.int64)
        self._totals = self._rows + 1
        # The cells of estimates, and the values of tables, by geounit.
        estimates, cells = families.rows("estimates"), families.cells("estimates")
        inside = np.flatnonzero((cells.cell >= 0) & (cells.cell < self._schema.size))
        geounit = estimates.geounit[cells.row[inside]]
        order = np.argsort(geounit, kind="stable")
        self._geounit, self._cell, self._count = (
            each[order] for each in (geounit, cells.cell[inside], cells.count[inside])
        )
        self._estimated = np.bincount(estimates.geounit, minlength=len(families.geocodes)) > 0
        tables = families.rows(self.rows)
        names = tables.columns["geocodes"].flatten()
        known = pc.index_in(names, families.geocodes).fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        listed = tables.columns["geocodes"].value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        lengths, records = unpacked(tables.columns["packed"])
        row = np.repeat(np.arange(len(tables)), lengths)
        geounit = known[(np.cumsum(listed) - listed)[row] + records["place"]]
        format = tables.texts("format").among(tuple(rule.formats))
        #: Names that no other table of their family has, by the place of their format.
        self.strange = [
            sorted(names.filter(pa.array((known < 0) & (np.repeat(format, listed) == place))).unique().to_pylist())
            for place in range(len(rule.formats))
        ]
        order = np.argsort(geounit, kind="stable")
        order = order[np.searchsorted(geounit[order], 0) :]
        self._said_geounit = geounit[order]
        self._said_format = format[row][order]
        self._said = records[order]

    def slices(self) -> Iterator[slice]:
        """Cut the geounits into as many at a time as a task holds sums of."""
        step = max(1, _SUMS_AT_ONCE // max(1, len(self.names)))
        for begin in range(0, len(self._families.geocodes), step):
            yield slice(begin, min(begin + step, len(self._families.geocodes)))

    @abstractmethod
    def expected(self, geounits: slice) -> NDArray[np.int64]:
        """What the estimates say: shape ``(geounits, items)``."""

    def found(self, geounits: slice) -> NDArray[np.int64]:
        """What the tables of each format say: shape ``(formats, geounits, items)``."""
        begin, end = np.searchsorted(self._said_geounit, [geounits.start, geounits.stop])
        part = slice(int(begin), int(end))
        shape = (len(self.held), geounits.stop - geounits.start, len(self.names))
        place = self._said_format[part] * shape[1] + self._said_geounit[part] - geounits.start
        key = place * shape[2] + self._said["item"][part]
        return summed(key, self._said["value"][part], shape[0] * shape[1] * shape[2]).reshape(shape)

    def present(self, geounits: slice, expected: NDArray[np.int64], found: NDArray[np.int64]) -> NDArray[np.int64]:
        """How many values of rows, and of totals, are compared in each format: shape ``(formats, 2)``."""
        there = (expected != 0) | (found != 0).any(axis=0)
        there[:, self._totals] |= self._estimated[geounits][:, None]
        values = there.sum(axis=0) * self._values * self.held
        return np.stack([values[:, ~self.is_total].sum(axis=1), values[:, self.is_total].sum(axis=1)], axis=1)


class _Counted(Compared["Table"]):
    """Sums over the cells of estimates."""

    rows: ClassVar = "tables"

    def expected(self, geounits: slice) -> NDArray[np.int64]:
        """What the estimates say: shape ``(geounits, items)``."""
        sums = np.zeros((len(self.names), geounits.stop - geounits.start), dtype=np.int64)
        sums[self._rows] = self._families.geounits[geounits]
        columns = [
            (first + place, column)
            for first, table in self._tables
            for place, column in enumerate((table.total, *table.columns), 1)
        ]
        begin, end = np.searchsorted(self._geounit, [geounits.start, geounits.stop])
        for start in range(int(begin), int(end), _CELLS_AT_ONCE):
            part = slice(start, min(start + _CELLS_AT_ONCE, int(end)))
            known = _Cells(np.unravel_index(self._cell[part], self._schema.shape))
            for item, column in columns:
                times = known.times(column, self._schema)
                counted = np.flatnonzero(times)
                target = self._geounit[part][counted] - geounits.start
                sums[item] += summed(target, self._count[part][counted] * times[counted], sums.shape[1])
        return np.ascontiguousarray(sums.T)


@dataclass(frozen=True, slots=True)
class TablesEqual(ComparedTables["Table"]):
    """Tables hold the sums of the cells of estimates.

    `table totals equal estimates` says of the first column alone that it is the sum over the universe of the table.
    """

    needs: ClassVar = ("geounits", "estimates", "tables")

    @property
    def names(self) -> tuple[str, ...]:
        """Of both rules."""
        return (TABLES_EQUAL, TOTALS_EQUAL)

    def compared(self, families: Families) -> Compared[Table]:
        """Bring estimates and published tables of some families together."""
        return _Counted(self, families)


class _Cells:
    """Cells by their levels, and which of them have some of the levels of an attribute: columns name few such sets."""

    def __init__(self, levels: Sequence[NDArray[np.int64]]) -> None:
        self._levels = levels
        self._known: dict[tuple[int, tuple[int, ...]], NDArray[np.bool_]] = {}

    def times(self, column: TableColumn, schema: Schema) -> NDArray[np.int64]:
        """How many times a column counts each cell, by its levels of every attribute."""
        number = len(self._levels[0])
        times = np.zeros(number, dtype=np.int64)
        for selection in column.where:
            whole = np.ones(number, dtype=np.bool_)
            for name, named in selection:
                whole &= self._have(schema.axis(name), named)
            times += whole
        return times if column.tallies else np.minimum(times, 1)

    def _have(self, axis: int, named: tuple[int, ...]) -> NDArray[np.bool_]:
        if (axis, named) not in self._known:
            self._known[axis, named] = np.isin(self._levels[axis], named)
        return self._known[axis, named]
