"""Rows of the input brought together: by unit, by contributor, and by geounit, each in one pass of tasks over them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import chain
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.io.input_fields import GEOCODE, MOST_EXAMPLES
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.lists import list_array, list_rows, whole_groups
from das_spark.spark.problems import Problem, refuse
from das_spark.spark.readers._resolved import COUNT, INPUT_ROWS, UNIT, Kind, exact_sum, input_rows, summed
from das_spark.spark.readers._told import CHANGED, TOLD, apart, facts_of, filled, problems_in, tell
from das_spark.store.tables import LEAVES

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from das_spark.spark.readers._told import Facts
    from das_spark.spark.readers._units import MadeUnits

    Flags = NDArray[np.bool_]
    Whole = NDArray[np.int64]

#: Kinds of facts: of units with their records, of contributors, of geounits, of what is said of geounits.
BY_UNIT, BY_PERSON, BY_GEOUNIT, BY_SUM = "units", "contributors", "geounits", "sums"
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


def groups_of(rows: pa.Table, key: str) -> tuple[Whole, Whole]:
    """Of sorted rows, the first row of each group with the same key, and the group of each row."""
    codes = rows.column(key).combine_chunks()
    first = np.ones(len(codes), dtype=np.bool_)
    if len(codes) > 1:
        first[1:] = np.asarray(pc.not_equal(codes.slice(1), codes.slice(0, len(codes) - 1)))
    return np.flatnonzero(first), np.cumsum(first) - 1


def array_of(rows: pa.Table, name: str) -> Whole:
    """Return a column of whole numbers; 0 where there is none."""
    return np.asarray(rows.column(name).combine_chunks().fill_null(0)).astype(np.int64)


class Pass(ABC):
    """Brings rows of tables together that have something in common, whole groups of them at once.

    Attributes:
        keys: By which rows are sorted; by the first one they come together.
        schema: Of what is made of them, and of what is told.
    """

    __slots__ = ()
    keys: ClassVar[tuple[str, ...]]
    schema: ClassVar[pa.Schema] = INPUT_ROWS

    def of(self, rows: DataFrame) -> DataFrame:
        """Return what rows are made into, and what is told: `schema`."""
        brought = rows.repartition(F.col(self.keys[0]))
        return in_sorted_tasks(brought, self.keys, self.tasks, from_arrow_schema(self.schema))

    def tasks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work on sorted rows, and pass on what was told before."""
        for group in whole_groups(batches, self.keys[:1], _ROWS, _BYTES):
            rows, told = apart(group, self.schema)
            yield from told
            if rows.num_rows:
                yield from self.together(rows)

    @abstractmethod
    def together(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Work on some whole groups."""

    def judged(self, facts: Facts) -> tuple[Problem, ...]:
        """Refuse, by what is told, what does not go together; return what is let pass."""
        return ()


@dataclass(frozen=True, slots=True)
class UnitPass(Pass):
    """Records with the unit that they lie in.

    Attributes:
        once: Each unit stands once among the records of units.
        known: The unit of every record is there.
        alone: A unit has one record, where units are counted; None where it may have many.
        occupied: Whether, where units are counted, the vacant ones have no record.
        bound: Whether contributors are looked at afterwards: records stay what they are.
    """

    keys = (UNIT, "kind")

    once: Rule
    known: Rule
    alone: Rule | None
    occupied: bool
    bound: bool

    def judged(self, facts: Facts) -> tuple[Problem, ...]:
        """Refuse records and units that do not go together, by what is told of them."""
        refuse(problems_in(facts_of(BY_UNIT, facts)))
        return ()

    def together(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Give records geocode and class, and count units by class."""
        first, group = groups_of(rows, UNIT)
        number, cell, count, row = len(first), array_of(rows, "cell"), array_of(rows, COUNT), array_of(rows, "row")
        kind, part = array_of(rows, "kind"), array_of(rows, "part")
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
        records = np.bincount(group[~home], minlength=number)[group]
        if self.alone is not None:
            several = ~home & (records > 1)
            problems.append(self.alone.broken(int(several.sum()), row[several]))
        geocode = rows.column(GEOCODE).combine_chunks().take(pa.array(first[group]))
        units = {
            GEOCODE: geocode,
            "cell": np.where(vacant, 0, cell),
            COUNT: count,
            "kind": np.where(vacant, Kind.VACANT, Kind.UNITS).astype(np.int8),
            "row": row,
        }
        yield summed(input_rows(Kind.UNITS, units, len(cell)).filter(pa.array(home & ~twice)), numbered=True)
        columns = {
            GEOCODE: geocode,
            "cell": cell + part[first][group] + np.where(records == 1, part, 0),
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
        return in_sorted_tasks(keyed, ("person",), self.tasks, from_arrow_schema(INPUT_ROWS))

    def tasks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            # What is of no contributor stands first.
            others = batch.column("person").null_count
            yield batch.slice(0, others)
            if others < batch.num_rows:
                for rows in whole_groups(chain([batch.slice(others)], batches), ("person",), _ROWS, _BYTES):
                    yield from self._bounded(rows)

    def _bounded(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        first, group = groups_of(rows, "person")
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
        )
        yield tell(INPUT_ROWS, CHANGED, counted=-int((~kept).sum()), others=0)


def _mixed(rows: pa.Table) -> Whole:
    """The order of the records of a contributor: shape ``(rows,)``."""
    names = ("person", GEOCODE, "cell")
    values = zip(*(rows.column(name).to_pylist() for name in names), strict=True)
    keys = [(sha256("|".join(map(str, value)).encode()).hexdigest(), *value[1:]) for value in values]
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), dtype=np.int64)


@dataclass(frozen=True, slots=True)
class LeafPass(Pass):
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
        agreed: Digits of a geocode, and what is summed -> what is said of geounits, which are not of the lowest level.
    """

    keys = (GEOCODE, "kind", "cell")
    schema = LEAVES_TOLD

    classes: int
    exists: tuple[Kind, ...]
    once: Mapping[Kind, Rule]
    inside: Mapping[Kind, Rule]
    heads: Mapping[Kind, int]
    records: frozenset[Kind]
    units: bool
    made: MadeUnits | None
    agreed: Mapping[tuple[int, int], Rule] = field(default_factory=dict)

    def of(self, rows: DataFrame) -> DataFrame:
        """Make one sparse histogram a geounit, with its units: `tables.LEAVES`, and what is told."""
        return Pass.of(self, rows.select(*self.keys, COUNT, TOLD))

    def together(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        """Put together what is told of some geounits."""
        first, geounit = groups_of(rows, GEOCODE)
        geocodes = rows.column(GEOCODE).combine_chunks().take(pa.array(first))
        kind, cell, count = array_of(rows, "kind"), array_of(rows, "cell"), array_of(rows, COUNT)
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
            others=exact_sum(count[kind < Kind.COUNTED]),
        )
        if self.agreed:
            told = kind > Kind.COUNTED
            if told.any():
                other = self._disagreeing(geocodes, geounit[told], kind[told], cell[told], count[told])
                yield tell(LEAVES_TOLD, BY_SUM, other)

    def _disagreeing(
        self, geocodes: pa.Array, geounit: Whole, kind: Whole, cell: Whole, count: Whole
    ) -> Iterator[Problem]:
        """Geounits of which something else is said than their parts sum to."""
        key = geounit * (int(cell.max()) + 1) + cell
        keys, first, place = np.unique(key, return_index=True, return_inverse=True)
        said, sums = (np.bincount(place, np.where(kind == of, count, 0)) for of in (Kind.SAID, Kind.SUMMED))
        is_said = np.bincount(place[kind == Kind.SAID], minlength=len(keys)) > 0
        digits = np.asarray(pc.utf8_length(geocodes))[geounit[first]]
        for (length, item), rule in self.agreed.items():
            bad = is_said & (said != sums) & (digits == length) & (cell[first] == item)
            yield rule.broken(int(bad.sum()), geounits=_some(geocodes, geounit[first][bad]))

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
