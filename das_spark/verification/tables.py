"""Rules on published tables against the estimates, sharing no code with the tabulation.

What each column of a table of sums counts is read off the declared levels anew: how many times each cell counts in it.
The counts of cells times these numbers, a sparse product, are compared with every published value that is not zero (a
column without any person on one side and no value on the other agree).

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
from scipy import sparse

from das_spark.verification.families import NAMED, FamilyRule, Found, Key, format_note

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.histogram import Schema
    from das_spark.tabulation import Table, TableColumn, TableShell
    from das_spark.verification.families import Families

_Table = TypeVar("_Table", bound="TableShell")

TABLES_EQUAL: Final = "tables equal estimates"
TOTALS_EQUAL: Final = "table totals equal estimates"


@dataclass(frozen=True, slots=True)
class ComparedTables(FamilyRule, Generic[_Table]):
    """Every geounit of a level that a table is published for has one row in it, of what its estimate says.

    Attributes:
        levels: From the top.
        tables: All tables, each once.
        formats: Format -> name of a table -> levels that it is published for in that format.
    """

    published: ClassVar[str]  # what rows of the tables are called, of `COLUMNS`

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
            (rule, level, format_note(format, self.formats))
            for rule in self.names
            for level in self.levels
            for format in self.formats
            if (format, level) in there
        )

    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""
        compared = self.compared(families)
        expected, found = compared.expected(), compared.found()
        checked = compared.checked(expected, found)
        # Formats that say the same are one matrix.
        differences = {id(each): sparse.coo_array(expected - each) for each in found}
        for place, format in enumerate(self.formats):
            failing: tuple[list[str], list[str]] = ([], [])
            geounits, items = compared.differing(place, differences[id(found[place])])
            for is_total, names in enumerate(failing):
                own = np.flatnonzero(compared.is_total[items] == is_total)[:NAMED]
                codes = families.geocodes.take(pa.array(geounits[own])).to_pylist()
                names += [f"{code} {compared.names[item]}" for code, item in zip(codes, items[own], strict=True)]
            for is_total, rule in enumerate(self.names):
                if checked[place, is_total] or failing[is_total]:
                    yield Found(
                        rule, int(checked[place, is_total]), failing[is_total], format_note(format, self.formats)
                    )


class Compared(ABC, Generic[_Table]):
    """What estimates and published tables say of the geounits of some families, item by item."""

    def __init__(self, rule: ComparedTables[_Table], families: Families) -> None:
        """Number the items, and read what is published."""
        self._families = families
        self._schema, self._published = rule.schema, rule.published
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
        self._held = np.array([[owner in names for owner in owners] for names in here])
        self._rows = np.array([place for place in rule.first.values() if self._held[:, place].any()], dtype=np.int64)
        self._shape = (len(families.geocodes), len(self.names))
        self._read(families, tuple(rule.formats))

    def _read(self, families: Families, formats: Sequence[str]) -> None:
        """Read the values of tables, row by row."""
        tables = families.rows(self._published)
        items, values = tables.lists("items"), tables.lists("values")
        shape = (len(tables), self._shape[1])
        self._said = sparse.csr_array((values.values, items.values, items.offsets), shape)
        #: Which row is of which geounit: shape ``(geounits, rows)``.
        one = np.ones(len(tables), dtype=np.int64)
        self._of = sparse.csr_array((one, (tables.geounit, np.arange(len(tables)))), (self._shape[0], len(tables)))
        said = tables.texts("formats")
        #: Of each format, which rows are of it.
        named = [np.array([format in text.split("\n") for text in said.known], dtype=np.bool_) for format in formats]
        self._in_format = [own[said.code] for own in named]

    @abstractmethod
    def expected(self) -> sparse.csr_array:
        """What the estimates say: shape ``(geounits, items)``."""

    def found(self) -> list[sparse.csr_array]:
        """What the tables of each format say, shape ``(geounits, items)``: one matrix for those that say the same."""
        said: dict[bytes, sparse.csr_array] = {}
        for own in self._in_format:
            if own.tobytes() not in said:
                said[own.tobytes()] = sparse.csr_array(self._of[:, own] @ self._said[own])
        return [said[own.tobytes()] for own in self._in_format]

    def differing(self, place: int, difference: sparse.coo_array) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return geounit and item of everything that a format should hold and says otherwise."""
        held = self._held[place][difference.col] & (difference.data != 0)
        return difference.row[held].astype(np.int64), difference.col[held].astype(np.int64)

    def checked(self, expected: sparse.csr_array, found: Sequence[sparse.csr_array]) -> NDArray[np.int64]:
        """Count the values of rows, and the totals, that are compared in each format: shape ``(formats, 2)``."""
        some = np.flatnonzero(self._values)
        there = np.zeros((self._shape[0], len(some)), dtype=np.bool_)
        for side in (expected, *found):
            there |= side[:, some].toarray() != 0
        estimates = self._families.rows("estimates")
        there[:, self.is_total[some]] |= (np.bincount(estimates.geounit, minlength=len(there)) > 0)[:, None]
        values = there.sum(axis=0) * self._values[some] * self._held[:, some]
        total = self.is_total[some]
        return np.stack([values[:, ~total].sum(axis=1), values[:, total].sum(axis=1)], axis=1)


class _Counted(Compared["Table"]):
    """Sums over the cells of estimates."""

    def expected(self) -> sparse.csr_array:
        """What the estimates say: shape ``(geounits, items)``."""
        estimates, cells = self._families.rows("estimates"), self._families.cells("estimates")
        inside = np.flatnonzero((cells.cell >= 0) & (cells.cell < self._schema.size))
        known, place = np.unique(cells.cell[inside], return_inverse=True)
        size, width = len(self._families.geocodes), len(known)
        # The spine stands behind the cells, as one more, which every row of a table counts.
        geounit = np.concatenate([estimates.geounit[cells.row[inside]], np.arange(size)])
        cell = np.concatenate([place, np.full(size, width)])
        count = np.concatenate([cells.count[inside], self._families.geounits])
        counts = sparse.csr_array((count, (geounit, cell)), (size, width + 1))
        return sparse.csr_array(counts @ self._times(known).T)

    def _times(self, known: NDArray[np.int64]) -> sparse.csr_array:
        """How many times each item counts some cells, and the spine: shape ``(items, cells + 1)``."""
        cells = _Cells(np.unravel_index(known, self._schema.shape))
        parts = [(row, np.array([len(known)]), np.array([1])) for row in self._rows.tolist()]
        for first, table in self._tables:
            for item, column in enumerate((table.total, *table.columns), first + 1):
                times = cells.times(column, self._schema)
                counted = np.flatnonzero(times)
                parts.append((item, counted, times[counted]))
        if not parts:
            return sparse.csr_array((self._shape[1], len(known) + 1), dtype=np.int64)
        items = np.repeat([item for item, _, _ in parts], [len(counted) for _, counted, _ in parts])
        of, times = (np.concatenate([part[place] for part in parts]) for place in (1, 2))
        return sparse.csr_array((times, (items, of)), (self._shape[1], len(known) + 1))


@dataclass(frozen=True, slots=True)
class TablesEqual(ComparedTables["Table"]):
    """Tables hold the sums of the cells of estimates.

    `table totals equal estimates` says of the first column alone that it is the sum over the universe of the table.
    """

    needs: ClassVar = ("geounits", "estimates", "tables")
    published: ClassVar = "tables"

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
