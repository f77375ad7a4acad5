"""Families of a level as a task of verification is given them, and what rules say of them.

A family is the children of one geounit. All that a run has published of the children and of their parent comes to one
task, so that a rule is a function of whole families: each sees every row that it compares, and no rule needs a pass of
its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import nsmallest
from math import inf
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.geography import ROOT_GEOCODE
from das_spark.store import tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.geography import Geolevel
    from das_spark.store.tables import TableDeclaration

#: Failing geounits that a check names.
NAMED: Final = 20
#: Geocode of a row that has none, and of its family.
NOWHERE: Final = "?"
#: Columns that say whose a row is; no column of a table is called so.
FAMILY: Final = "of_family"
GEOUNIT: Final = "of_geounit"
#: A check is known by its rule, its level and its note.
Key = tuple[str, str, str]


def _columns(table: TableDeclaration, *names: str) -> dict[str, pa.DataType]:
    """Types of columns of a table; what is read of a run may have a null where there must be none."""
    kinds = {name: table.schema.field(name).type for name in names}
    return {name: pa.list_(kind.value_type) if pa.types.is_list(kind) else kind for name, kind in kinds.items()}


#: Of published tables: what is not zero, by its number (`das_spark.verification.tables`), and the formats whose files
#: hold just these, a line each.
_NUMBERS: Final = {"formats": pa.string(), "items": pa.list_(pa.int32()), "values": pa.list_(pa.int64())}
#: What a task is given of the children of a family, and of their parent (`above`): columns by table.
COLUMNS: Final[Mapping[str, Mapping[str, pa.DataType]]] = {
    "geounits": _columns(tables.GEOUNITS, "parent", "children"),
    "estimates": _columns(tables.ESTIMATES, "parent", "cells", "counts"),
    "invariants": _columns(tables.INVARIANTS, "parent", "name", "values"),
    "bounds": _columns(tables.BOUNDS, "parent", "name", "member", "lower", "upper"),
    "shares": _columns(tables.SHARES, "parent", "share"),
    # What the path of a block says of a geounit; of the block itself its first wrong column, and if shares sum to 1.
    "paths": {**_columns(tables.SHARES, "parent", "share"), "wrong": pa.string(), "whole": pa.bool_()},
    # Of blocks of the census, by their places on the spine.
    "leaves": _columns(tables.ESTIMATES, "cells", "counts"),
    "published": _columns(tables.PUBLISHED, "parent", "cells", "counts"),
    "diagnostics": _columns(tables.DIAGNOSTICS, *tables.DIAGNOSTICS.schema.names),
    # Of several geounits that were asked alike, as `das_spark.verification.measurements.together` has it.
    "measured": {
        "query": pa.string(),
        "rows": pa.list_(pa.int32()),
        "width": pa.int64(),
        "geounits": pa.list_(pa.string()),
        "odd": pa.list_(pa.bool_()),
        "variances": pa.list_(pa.float64()),
        "values": pa.list_(pa.int64()),
    },
    # Of microdata, by format: sums in the place of all records, and units by class; what another product tells of them.
    "records": {"format": pa.string(), "one": pa.int64(), "other": pa.int64()},
    "record_units": {"format": pa.string(), "kind": pa.int32()} | dict.fromkeys(("count", "people", "odd"), pa.int64()),
    "told": {"vacant_kinds": pa.list_(pa.int64()), "divided": pa.int64()},
    "tables": _NUMBERS,
    "medians": _NUMBERS,
    # Sums over what lies below a geounit, and bounds on a geounit, or a group, of some above it.
    "below": {"name": pa.string(), "values": pa.list_(pa.int64())},
    "flows": {"of": pa.string(), "above": pa.string(), **_columns(tables.BOUNDS, "parent", "member", "lower", "upper")},
    "above_bounds": _columns(tables.BOUNDS, "lower", "upper"),
    "above_geounits": _columns(tables.GEOUNITS, "children"),
    "above_estimates": _columns(tables.ESTIMATES, "cells", "counts"),
    "above_published": _columns(tables.PUBLISHED, "cells", "counts"),
    "above_measured": _columns(tables.MEASUREMENTS, "query", "rows", "values", "variance"),
}


def family_schema(table: str) -> pa.Schema:
    """Return the columns of rows of a table that belong to families: which, which geounit, and those of `COLUMNS`."""
    return pa.schema([(FAMILY, pa.string()), (GEOUNIT, pa.string()), *COLUMNS[table].items()])


def geocodes_at(geocodes: pa.Array, level: Geolevel) -> pa.Array:
    """Return the geocodes of a level that geocodes of others begin with."""
    if level.length:
        return pc.utf8_slice_codeunits(geocodes, 0, level.length)
    return pa.repeat(pa.scalar(ROOT_GEOCODE, pa.string()), len(geocodes))


@dataclass(frozen=True, eq=False)
class Lists:
    """A column of lists.

    Attributes:
        values: All of them, one list after the other; 0 where an element is null.
        offsets: Where each list begins, and the last one ends: shape ``(rows + 1,)``.
        whole: Of each row, whether there is a list, and no element is null: shape ``(rows,)``.
    """

    values: NDArray[np.int64]
    offsets: NDArray[np.int64]
    whole: NDArray[np.bool_]

    @classmethod
    def of(cls, column: pa.Array) -> Lists:
        """Read a column of whole numbers."""
        lengths = column.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        whole = column.is_valid().to_numpy(zero_copy_only=False)
        flat = column.flatten()
        if flat.null_count:
            holes = np.flatnonzero(flat.is_null().to_numpy(zero_copy_only=False))
            whole = whole.copy()
            whole[np.searchsorted(offsets, holes, side="right") - 1] = False
            flat = flat.fill_null(0)
        return cls(flat.to_numpy(zero_copy_only=False).astype(np.int64, copy=False), offsets, whole)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """How many elements each list has."""
        return np.diff(self.offsets)

    @cached_property
    def row(self) -> NDArray[np.int64]:
        """Of each element the row of its list."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.lengths)

    def matrix(self, rows: NDArray[np.int64], width: int) -> NDArray[np.int64]:
        """Return the first `width` elements of some rows, which have as many: shape ``(rows, width)``."""
        return np.asarray(self.values[self.offsets[:-1][rows][:, None] + np.arange(width)])

    def any_of(self, bad: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Say of each row whether an element of its list is bad."""
        return np.asarray(np.bincount(self.row[bad], minlength=len(self.whole)) > 0)

    def total(self) -> NDArray[np.int64]:
        """Sum each list."""
        return summed(self.row, self.values, len(self.whole))


def summed(index: NDArray[np.int64], values: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Sum whole numbers by an index below `size`, exactly."""
    if float(np.abs(values.astype(np.float64)).sum()) < 1 << 53:  # as floating point they are exact, and quicker
        return np.bincount(index, values, size).astype(np.int64)
    sums = np.zeros(size, dtype=np.int64)
    np.add.at(sums, index, values)
    return sums


def summed_rows(index: NDArray[np.int64], matrix: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Sum the rows of a matrix by an index below `size`, exactly: shape ``(size, columns)``."""
    width = matrix.shape[1]
    flat = (index[:, None] * width + np.arange(width)).ravel()
    return summed(flat, matrix.ravel(), size * width).reshape(size, width)


def starts(batch: pa.RecordBatch, columns: Sequence[str]) -> NDArray[np.bool_]:
    """Say of each row whether it differs in some columns from the row before; the first one does."""
    changed = np.zeros(batch.num_rows, dtype=np.bool_)
    changed[:1] = True
    for name in columns:
        codes = batch.column(name).dictionary_encode(null_encoding="encode").indices.to_numpy()
        changed[1:] |= np.diff(codes) != 0
    return changed


def names_of(names: pa.Array, bad: NDArray[np.bool_], suffix: str = "") -> list[str]:
    """Return the names that a mask marks, no more than a check can have."""
    return [f"{name}{suffix}" for name in nsmallest(NAMED, names.filter(pa.array(bad)).to_pylist())]


def format_note(format: str, formats: Collection[str]) -> str:
    """Return what tells the checks of a format from those of others; nothing where there are none."""
    return f"{format} files" if len(formats) > 1 else ""


def first_wrong(names: pa.Array, wrong: Mapping[str, NDArray[np.bool_]]) -> list[str]:
    """Name what has a wrong column, with the first of these."""
    found, judged = list[str](), np.zeros(len(names), dtype=np.bool_)
    for column, bad in wrong.items():
        found += names_of(names, bad & ~judged, f" {column}")
        judged |= bad
    return found


def numbered(keys: NDArray[np.int64], size: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number keys below `size`: which there may be, ascending, and the place of each among these."""
    if size <= 4 * len(keys) + (1 << 16):  # as many places as there might be keys take less than to sort them
        return np.arange(size), keys
    return np.unique(keys, return_inverse=True)


def differing_lines(
    place: NDArray[np.int64], difference: NDArray[np.int64], width: int, number: int
) -> tuple[NDArray[np.bool_], int]:
    """Say which lines have a place (`line * width + place`) that sums to something, and how many places there are."""
    known, index = numbered(place, number * width)
    differs = np.zeros(number, dtype=np.bool_)
    differs[known[summed(index, difference, len(known)) != 0] // width] = True
    return differs, int(np.count_nonzero(np.bincount(index, minlength=len(known))))


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table in some families.

    Attributes:
        columns: By name, as `COLUMNS` has them.
        family: Of each row the place of its family.
        geounit: Of each row the place of its geounit among those of the families.
    """

    columns: Mapping[str, pa.Array]
    family: NDArray[np.int64]
    geounit: NDArray[np.int64]
    # Columns that were read: several rules look at each, and some of them query by query.
    _texts: dict[str, Texts] = field(init=False, repr=False, default_factory=dict)
    _lists: dict[str, Lists] = field(init=False, repr=False, default_factory=dict)

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.family)

    def texts(self, name: str) -> Texts:
        """Read a column of texts."""
        if name not in self._texts:
            self._texts[name] = Texts.of(self.columns[name])
        return self._texts[name]

    def lists(self, name: str) -> Lists:
        """Read a column of lists."""
        if name not in self._lists:
            self._lists[name] = Lists.of(self.columns[name])
        return self._lists[name]

    def numbers(self, name: str, missing: int) -> NDArray[np.int64]:
        """Read a column of whole numbers."""
        return np.asarray(self.columns[name].fill_null(missing).to_numpy(zero_copy_only=False), dtype=np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class Texts:
    """A column of texts: of each row the place of its text among the different ones; -1 where there is none."""

    code: NDArray[np.int64]
    known: tuple[str, ...]

    @classmethod
    def of(cls, column: pa.Array) -> Texts:
        """Read a column."""
        encoded = column.dictionary_encode()
        code = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return cls(code, tuple(encoded.dictionary.to_pylist()))

    def are(self, text: str) -> NDArray[np.bool_]:
        """Say which rows have a text."""
        return np.asarray(self.code == (self.known.index(text) if text in self.known else -2))

    def among(self, texts: Sequence[str]) -> NDArray[np.int64]:
        """Return the place of each row's text in some; -1 where it is none of them."""
        places = np.array([texts.index(text) if text in texts else -1 for text in self.known] + [-1])
        return places[self.code]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """The cells of histograms, but for those whose lists are of different lengths.

    Attributes:
        row: Of each cell the row of its histogram.
        cell: Its number.
        count: How many are counted in it.
        crooked: Of each row whether its lists are of different lengths.
    """

    row: NDArray[np.int64]
    cell: NDArray[np.int64]
    count: NDArray[np.int64]
    crooked: NDArray[np.bool_]

    @classmethod
    def of(cls, rows: Rows) -> Cells:
        """Read the histograms of a table."""
        cells, counts = rows.lists("cells"), rows.lists("counts")
        crooked = cells.lengths != counts.lengths
        if not crooked.any():
            return cls(cells.row, cells.values, counts.values, crooked)
        own, others = ~crooked[cells.row], ~crooked[counts.row]
        return cls(cells.row[own], cells.values[own], counts.values[others], crooked)


class Families:
    """Some whole families of one level."""

    def __init__(self, level: str, tables: Mapping[str, pa.RecordBatch]) -> None:
        """Take their rows by table, each with the columns of `family_schema`."""
        self.level = level
        self._tables = tables
        self.names, self._family = _numbered(tables, FAMILY)
        self.geocodes, self._geounit = _numbered(tables, GEOUNIT)
        self._rows: dict[str, Rows] = {}
        self._cells: dict[str, Cells] = {}

    def rows(self, table: str) -> Rows:
        """Return the rows of a table; none of one that a run does not have."""
        if table not in self._rows:
            batch = self._tables.get(table)
            if batch is None:
                batch = pa.RecordBatch.from_pylist([], schema=family_schema(table))
            columns = {name: batch.column(name) for name in COLUMNS[table]}
            nobody = np.zeros(0, dtype=np.int64)
            self._rows[table] = Rows(columns, self._family.get(table, nobody), self._geounit.get(table, nobody))
        return self._rows[table]

    def cells(self, table: str) -> Cells:
        """Return the cells of a table of histograms."""
        if table not in self._cells:
            self._cells[table] = Cells.of(self.rows(table))
        return self._cells[table]

    @cached_property
    def geounits(self) -> NDArray[np.int64]:
        """How many rows of the spine each geocode has: shape ``(geocodes,)``."""
        return np.bincount(self.rows("geounits").geounit, minlength=len(self.geocodes))

    @cached_property
    def family_of(self) -> NDArray[np.int64]:
        """Place of the family of each geocode."""
        found = np.zeros(len(self.geocodes), dtype=np.int64)
        for table, geounit in self._geounit.items():
            found[geounit] = self._family[table]
        return found

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """Sum of all counts of each row of the estimates."""
        return self.rows("estimates").lists("counts").total()


def _numbered(tables: Mapping[str, pa.RecordBatch], name: str) -> tuple[pa.StringArray, dict[str, NDArray[np.int64]]]:
    """Return the different texts of a column over all tables, and the place of the text of each row by table."""
    encoded = pa.chunked_array([batch.column(name) for batch in tables.values()], pa.string()).dictionary_encode()
    chunks = encoded.unify_dictionaries().chunks
    known = chunks[0].dictionary if chunks else pa.array([], pa.string())
    places = (chunk.indices.to_numpy().astype(np.int64) for chunk in chunks)
    return known, dict(zip(tables, places, strict=True))


def alike(
    index: NDArray[np.int64], values: NDArray[np.int64], size: int
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the value that all rows of an index have, and whether there is one."""
    value, same = np.zeros(size, dtype=np.int64), np.zeros(size, dtype=np.bool_)
    value[index] = values
    same[index] = True
    same[index[values != value[index]]] = False
    return value, same


def agreed(column: str, one: Rows, other: Rows, size: int) -> NDArray[np.bool_]:
    """Say of which of `size` geounits all rows of two tables have one text in a column."""
    sides = [rows.texts(column) for rows in (one, other)]
    every = list(dict.fromkeys([*sides[0].known, *sides[1].known]))
    codes = np.concatenate([np.array([*map(every.index, side.known), -1])[side.code] for side in sides])
    code, same = alike(np.concatenate([one.geounit, other.geounit]), codes, size)
    return np.asarray(same & (code >= 0))


@dataclass(frozen=True, slots=True)
class Found:
    """What a rule says of some families.

    Attributes:
        rule: Its name.
        checked: How many rows, cells or values were compared.
        failing: Names of geounits, or what else a check names.
        note: What a reader must know.
        level: The level that it is said of; that of the children where it is empty.
        squares, least: Of what a rule adds up over all families, before it judges: their sum, and the least one.
    """

    rule: str
    checked: int
    failing: Sequence[str] = ()
    note: str = ""
    level: str = ""
    squares: float = 0.0
    least: float = inf


@dataclass(frozen=True, slots=True)
class FamilyRule(ABC):
    """A rule on families, or several that look at the same rows."""

    needs: ClassVar[tuple[str, ...]]  # tables that it looks at, of `COLUMNS`

    @abstractmethod
    def judged(self, families: Families) -> Iterator[Found]:
        """Judge some whole families."""

    @property
    @abstractmethod
    def expected(self) -> tuple[Key, ...]:
        """Checks that must be there, whatever was found."""

    def concluded(self, tallies: Mapping[Key, Tally]) -> dict[Key, Tally]:
        """Turn what it has said of all families into checks."""
        return dict(tallies)


@dataclass(slots=True)
class Tally:
    """What a rule has said of many families."""

    checked: int = 0
    failing: set[str] = field(default_factory=set)
    squares: float = 0.0
    least: float = inf

    def add(self, found: Found | Tally) -> None:
        """Add more."""
        self.checked += found.checked
        self.squares += found.squares
        self.least = min(self.least, found.least)
        if found.failing:
            self.failing = set(nsmallest(NAMED, self.failing.union(found.failing)))


class Tallies:
    """What rules say, by number of the rule and by check."""

    schema: Final = pa.schema(
        [
            ("number", pa.int32()),
            ("rule", pa.string()),
            ("geolevel", pa.string()),
            ("note", pa.string()),
            ("checked", pa.int64()),
            ("failing", pa.list_(pa.string())),
            ("squares", pa.float64()),
            ("least", pa.float64()),
        ]
    )

    def __init__(self) -> None:
        """Begin."""
        self._by_key: dict[tuple[int, Key], Tally] = {}

    def add(self, number: int, key: Key, found: Found | Tally) -> None:
        """Add what one rule says."""
        self._by_key.setdefault((number, key), Tally()).add(found)

    def batch(self) -> pa.RecordBatch:
        """Return them as rows."""
        rows = [
            (number, *key, each.checked, sorted(each.failing), each.squares, each.least)
            for (number, key), each in self._by_key.items()
        ]
        arrays = zip(*rows, strict=True) if rows else [()] * len(self.schema)
        columns = [pa.array(list(values), kind) for values, kind in zip(arrays, self.schema.types, strict=True)]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)

    @classmethod
    def of(cls, rows: Iterable[Mapping[str, Any]]) -> Tallies:
        """Add up the rows of all tasks."""
        every = cls()
        for row in rows:
            found = Tally(row["checked"], set(row["failing"]), row["squares"], row["least"])
            every.add(row["number"], (row["rule"], row["geolevel"], row["note"]), found)
        return every

    def of_rule(self, number: int) -> dict[Key, Tally]:
        """Return those of a rule."""
        return {key: tally for (own, key), tally in self._by_key.items() if own == number}


@dataclass(frozen=True, slots=True)
class Judges:
    """The work of a task: all rules on all of its families."""

    rules: Sequence[FamilyRule]

    def __call__(self, chunks: Iterable[tuple[str, Mapping[str, pa.RecordBatch]]]) -> Tallies:
        """Judge chunks of whole families, each of one level, by table."""
        tallies = Tallies()
        for level, of_level in chunks:
            families = Families(level, of_level)
            for number, rule in enumerate(self.rules):
                for found in rule.judged(families):
                    tallies.add(number, (found.rule, found.level or level, found.note), found)
        return tallies
