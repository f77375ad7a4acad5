"""Rows of the input brought together: by unit, by contributor, and by geounit, each in one pass of tasks over them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.io.input_fields import GEOCODE, MOST_EXAMPLES
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.lists import list_array, list_rows, whole_groups
from das_spark.spark.problems import Problem
from das_spark.spark.readers._resolved import COUNT, INPUT_ROWS, UNIT, Kind, exact_sum, input_rows, summed
from das_spark.spark.readers._told import TOLD, apart, filled, tell
from das_spark.store.tables import LEAVES

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from das_spark.spark.readers._units import MadeUnits

    Flags = NDArray[np.bool_]
    Whole = NDArray[np.int64]

#: Kinds of facts: of units with their records, of contributors, of geounits.
BY_UNIT, BY_PERSON, BY_GEOUNIT = "units", "contributors", "geounits"
#: Rows, and bytes, that are looked at together.
_ROWS: Final = 1 << 18
_BYTES: Final = 1 << 26

#: Leaves, and rows of facts, in which nothing else is.
LEAVES_TOLD: Final = pa.schema([*(column.with_nullable(True) for column in LEAVES.schema), (TOLD, pa.string())])


@dataclass(frozen=True, slots=True)
class Rule:
    """What is expected of a field, for messages."""

    file: str
    field: str
    expected: str

    def broken(self, rows: int, examples: Whole | None = None, geounits: pa.Array | None = None) -> Problem:
        """Say how many rows are not so, which of them, or in which geounits."""
        numbers = () if examples is None else tuple(np.sort(examples)[:MOST_EXAMPLES].tolist())
        codes = () if geounits is None else tuple(sorted(set(geounits.to_pylist()))[:MOST_EXAMPLES])
        return Problem(self.file, self.field, self.expected, rows, numbers, codes)


def _by_groups(
    batches: Iterator[pa.RecordBatch],
    key: str,
    schema: pa.Schema,
    together: Callable[[pa.Table], Iterator[pa.RecordBatch]],
) -> Iterator[pa.RecordBatch]:
    """Work on sorted rows, whole groups with the same key at once, and pass on what was told before."""
    for group in whole_groups(batches, (key,), _ROWS, _BYTES):
        rows, told = apart(group, schema)
        yield from told
        if rows.num_rows:
            yield from together(rows)


def _groups(rows: pa.Table, key: str) -> tuple[Whole, Whole]:
    """Of sorted rows, the first row of each group with the same key, and the group of each row."""
    codes = rows.column(key).combine_chunks()
    first = np.ones(len(codes), dtype=np.bool_)
    if len(codes) > 1:
        first[1:] = np.asarray(pc.not_equal(codes.slice(1), codes.slice(0, len(codes) - 1)))
    return np.flatnonzero(first), np.cumsum(first) - 1


def _array(rows: pa.Table, name: str) -> Whole:
    return np.asarray(rows.column(name).combine_chunks().fill_null(0)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class UnitPass:
    """Records with the unit that they lie in.

    Attributes:
        once: Each unit stands once among the records of units.
        known: The unit of every record is there.
        alone: A unit has one record, where units are counted; None where it may have many.
        occupied: Whether, where units are counted, the vacant ones have no record.
        bound: Whether contributors are looked at afterwards: records stay what they are.
    """

    once: Rule
    known: Rule
    alone: Rule | None
    occupied: bool
    bound: bool

    def of(self, rows: DataFrame) -> DataFrame:
        """Give records geocode and class, and count units by class: `INPUT_ROWS`."""
        return in_sorted_tasks(
            rows.repartition(F.col(UNIT)), (UNIT, "kind"), self._tasks, from_arrow_schema(INPUT_ROWS)
        )

    def _tasks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _by_groups(batches, UNIT, INPUT_ROWS, self._together)

    def _together(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        first, group = _groups(rows, UNIT)
        number, cell, count, row = len(first), _array(rows, "cell"), _array(rows, COUNT), _array(rows, "row")
        kind = _array(rows, "kind")
        home, vacant = kind <= Kind.VACANT_HOME, kind == Kind.VACANT_HOME
        homes = np.bincount(group[home], minlength=number)
        # A home stands before the records of its unit.
        unit_class = cell[first]
        allowed = homes > 0
        if self.alone is not None:
            allowed &= (unit_class == 0) & ~(vacant[first] & self.occupied)
        twice = home & (homes > 1)[group]
        lost = ~home & ~allowed[group]
        problems = [self.once.broken(int(twice.sum()), row[twice]), self.known.broken(int(lost.sum()), row[lost])]
        if self.alone is not None:
            several = ~home & (np.bincount(group[~home], minlength=number) > 1)[group]
            problems.append(self.alone.broken(int(several.sum()), row[several]))
        geocode = rows.column(GEOCODE).combine_chunks().take(pa.array(first[group]))
        units = {
            GEOCODE: geocode,
            "cell": np.where(vacant, 0, cell),
            COUNT: count,
            "kind": np.where(vacant, Kind.VACANT, Kind.UNITS).astype(np.int8),
        }
        yield summed(input_rows(Kind.UNITS, units, len(cell)).filter(pa.array(home & ~twice)))
        columns = {
            GEOCODE: geocode,
            "cell": cell + _array(rows, "part")[first][group],
            COUNT: count,
            "who": rows.column("who").combine_chunks(),
            "person": rows.column("person").combine_chunks(),
        }
        counted = input_rows(Kind.COUNTED, columns, len(cell)).filter(pa.array(~home & ~lost))
        yield counted if self.bound else summed(counted)
        yield tell(INPUT_ROWS, BY_UNIT, problems)


@dataclass(frozen=True, slots=True)
class ContributorPass:
    """As many records of each contributor as are protected.

    Identities that agree when normalised are those of one contributor, unless they are compared by their bytes. Which
    records are counted follows from the records of a contributor alone: from a digest of who it is, place and cell,
    which prefers no place and no cell. Records that agree in all of these are the same to whatever is counted.

    Attributes:
        most: How many there are.
    """

    most: int

    def of(self, rows: DataFrame) -> DataFrame:
        """Leave out the records beyond the bound, and tell how many contributors had any: `INPUT_ROWS`."""
        keyed = rows.repartition(F.coalesce("person", GEOCODE))
        return in_sorted_tasks(keyed, ("person",), self._tasks, from_arrow_schema(INPUT_ROWS))

    def _tasks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            # What is of no contributor stands first.
            others = batch.column("person").null_count
            yield batch.slice(0, others)
            if others < batch.num_rows:
                for rows in whole_groups(chain([batch.slice(others)], batches), ("person",), _ROWS, _BYTES):
                    yield from self._bounded(rows)

    def _bounded(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        first, group = _groups(rows, "person")
        who = rows.column("who").combine_chunks()
        spelled = pa.table({"person": group, "who": who}).group_by(["person", "who"], use_threads=False).aggregate([])
        spellings = np.bincount(np.asarray(spelled.column("person")), minlength=len(first))
        size = np.bincount(group, minlength=len(first))
        kept = np.ones(rows.num_rows, dtype=np.bool_)
        for person in np.flatnonzero(size > self.most).tolist():
            start = int(first[person])
            kept[start + _mixed(rows.slice(start, int(size[person])))[self.most :]] = False
        alike, over = spellings > 1, size > self.most
        made = rows.filter(pa.array(kept)).combine_chunks().to_batches()
        yield from map(summed, made)
        yield tell(
            INPUT_ROWS,
            BY_PERSON,
            pairs=int((spellings * (spellings - 1)).sum()) // 2,
            alike=int(size[alike].sum()),
            contributors=int(over.sum()),
            over=int(size[over].sum()),
            dropped=int((~kept).sum()),
        )


def _mixed(rows: pa.Table) -> Whole:
    """The order of the records of a contributor: shape ``(rows,)``."""
    names = ("person", GEOCODE, "cell")
    values = zip(*(rows.column(name).to_pylist() for name in names), strict=True)
    keys = [(sha256("|".join(map(str, each)).encode()).hexdigest(), *each[1:]) for each in values]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class LeafPass:
    """All that is told of each geounit of the lowest level.

    Attributes:
        classes: Of units.
        exists: Kinds of rows by which a geounit exists.
        once: Kind of rows -> what is expected where a geounit, or a geounit and class, stands in one of them.
        inside: Kind of rows -> what is expected of their geounits.
        heads: Kind of rows -> the cell or class that every row of a table has, which is taken apart.
        records: Kinds of rows whose counts are those of records.
        units: Whether there are units.
        made: How units are made of the people, where they are.
    """

    classes: int
    exists: tuple[Kind, ...]
    once: Mapping[Kind, Rule]
    inside: Mapping[Kind, Rule]
    heads: Mapping[Kind, int]
    records: frozenset[Kind]
    units: bool
    made: MadeUnits | None

    def of(self, rows: DataFrame) -> DataFrame:
        """Make one sparse histogram a geounit, with its units: `tables.LEAVES`, and what is told."""
        keys = (GEOCODE, "kind", "cell")
        placed = rows.select(*keys, COUNT, TOLD).repartition(F.col(GEOCODE))
        return in_sorted_tasks(placed, keys, self._tasks, from_arrow_schema(LEAVES_TOLD))

    def _tasks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from _by_groups(batches, GEOCODE, LEAVES_TOLD, self._together)

    def _together(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        first, geounit = _groups(rows, GEOCODE)
        geocodes = rows.column(GEOCODE).combine_chunks().take(pa.array(first))
        kind, cell, count = _array(rows, "kind"), _array(rows, "cell"), _array(rows, COUNT)
        number = len(first)
        exists = np.bincount(geounit[np.isin(kind, self.exists)], minlength=number) > 0
        problems = [
            *self._repeated(geocodes, geounit, kind, cell),
            *self._outside(geocodes, geounit, kind, cell, count, exists),
        ]
        counted = (kind == Kind.COUNTED) & exists[geounit]
        own, cells, sums = _sums(geounit[counted], cell[counted], count[counted])
        units = np.zeros((number, self.classes), dtype=np.int64)
        vacant = np.zeros(number, dtype=np.int64)
        if self.made is not None:
            units = self.made.of(own, cells, sums, units.shape)
        else:
            of_class, empty = kind == Kind.UNITS, kind == Kind.VACANT
            np.add.at(units, (geounit[of_class], cell[of_class]), count[of_class])
            np.add.at(vacant, geounit[empty], count[empty])
        yield self._leaves(geocodes, exists, (own, cells, sums), units, vacant)
        yield tell(
            LEAVES_TOLD,
            BY_GEOUNIT,
            problems,
            counted=exact_sum(count[kind == Kind.COUNTED]),
            others=exact_sum(count[kind != Kind.COUNTED]),
        )

    def _repeated(self, geocodes: pa.Array, geounit: Whole, kind: Whole, cell: Whole) -> Iterator[Problem]:
        """Geounits that stand in several rows; rows are sorted by geounit, kind and cell."""
        same = (np.diff(geounit) == 0) & (np.diff(kind) == 0) & (np.diff(cell) == 0)
        again = np.append(False, same) | np.append(same, False)
        for of, rule in self.once.items():
            bad = again & self._told_by(of, kind, cell)
            yield rule.broken(int(bad.sum()), geounits=_some(geocodes, geounit[bad]))

    def _outside(
        self, geocodes: pa.Array, geounit: Whole, kind: Whole, cell: Whole, count: Whole, exists: Flags
    ) -> Iterator[Problem]:
        for of, rule in self.inside.items():
            bad = self._told_by(of, kind, cell) & ~exists[geounit]
            rows = int(count[bad].sum() if of in self.records else bad.sum())
            yield rule.broken(rows, geounits=_some(geocodes, geounit[bad]))

    def _told_by(self, of: Kind, kind: Whole, cell: Whole) -> Flags:
        """Rows of a kind, one for each row of the table that tells them."""
        heads = cell == self.heads[of] if of in self.heads else np.ones(len(cell), dtype=np.bool_)
        own: Flags = (kind == of) & heads
        return own

    def _leaves(
        self, geocodes: pa.Array, exists: Flags, occupied: tuple[Whole, Whole, Whole], units: Whole, vacant: Whole
    ) -> pa.RecordBatch:
        own, cells, sums = occupied
        ends = np.append(0, np.cumsum(np.bincount(own, minlength=len(exists))))
        columns = {
            GEOCODE: geocodes,
            "cells": list_array(cells.astype(np.int32), ends, pa.int32()),
            "counts": list_array(sums, ends, pa.int64()),
        }
        if self.units or self.made is not None:
            columns |= {"units": list_rows(units), "vacant": pa.array(vacant)}
        return filled(LEAVES_TOLD, columns, len(exists)).filter(pa.array(exists))


def _some(geocodes: pa.Array, geounit: Whole) -> pa.Array:
    """Some geocodes of geounits, which may be there several times."""
    return geocodes.take(pa.array(np.unique(geounit)[:MOST_EXAMPLES]))


def _sums(geounit: Whole, cell: Whole, count: Whole) -> tuple[Whole, Whole, Whole]:
    """Add up counts of the same cell, of rows that are sorted; cells of which there are none are left out."""
    if not len(geounit):
        return geounit, cell, count
    first = np.append(True, (np.diff(geounit) != 0) | (np.diff(cell) != 0))
    places = np.flatnonzero(first)
    sums = np.add.reduceat(count, places)
    some = sums > 0
    return geounit[places][some], cell[places][some], sums[some]
