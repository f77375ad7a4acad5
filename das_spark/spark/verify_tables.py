"""Whether the published tables say what the estimates say, sharing no code with the tabulation.

What each column counts is read off the declared levels anew: tasks find the levels of occupied cells and add up their
counts, column by column. The sums are compared with every published value that is not zero (a column without any
person on one side and no value on the other agree). The totals are compared once more, with sums in SQL.

Several formats (Parquet, CSV) are compared at once: the side of the estimates is the same for all. A format need not
have all tables.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add, or_
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.spark.balanced import balanced
from das_spark.spark.cells import selected
from das_spark.spark.checks import Check, Finding, Rule, findings
from das_spark.spark.engine import in_sorted_tasks, in_tasks
from das_spark.spark.ingest import all_levels
from das_spark.spark.lists import cut, flat_lists, group_starts, list_total, slices, whole_groups
from das_spark.spark.published_rows import MISSING, PAIRS, TableFile, packed_of, published_rows, unpacked
from das_spark.spark.verify import present

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column

    from das_spark.geography import Spine
    from das_spark.histogram import Schema
    from das_spark.spark.verify import RunTables
    from das_spark.spark.verify_medians import PublishedMedians
    from das_spark.tabulation import Selection, Table, TableColumn

TABLES_EQUAL: Final = "tables equal estimates"
TOTALS_EQUAL: Final = "table totals equal estimates"
HEADERS: Final = "headers of tables"
_SUMS: Final = "level string, geocode string, packed binary"
#: Sums that a task holds at once: bounds its memory.
_SUMS_AT_ONCE: Final = 1 << 22
#: Bytes of the rows that it compares at once.
_BYTES_AT_ONCE: Final = 1 << 26
#: Cells that a task looks at together: there is a truth value of each for every set of levels that columns name.
_CELLS_AT_ONCE: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One table of a run as it was read back, all levels in one."""

    table: Table  # what it shall hold
    format: str  # such as `csv`
    frame: DataFrame | None  # level, geocode and the published columns (long); None where the files are named
    # levels whose files call their columns otherwise; None for files whose columns are read by name
    misnamed: tuple[str, ...] | None = None
    levels: tuple[str, ...] | None = None  # geolevels that it is published for, from the root; None for all
    files: tuple[TableFile, ...] = ()  # where there is no frame


class _Items:
    """What is compared, numbered over all tables: a row, the total by itself, and the columns of each."""

    def __init__(self, published: Sequence[PublishedTable], levels: Sequence[str]) -> None:
        self.levels = tuple(levels)
        of_tables = {each.table.name: levels if each.levels is None else each.levels for each in published}
        self.masks: list[int] = []  # which geolevels have an item, as bits, the root first
        self.tables = tuple({each.table.name: each.table for each in published}.values())
        self.first: dict[str, int] = {}  # of a table: the item of its row
        self.names: list[str] = []
        self.owners: list[str] = []  # which table an item is of
        self.values: list[int] = []  # how many values an item stands for: a row for those of all columns
        for table in self.tables:
            self.first[table.name] = len(self.names)
            self.names += [f"{table.name} (row)", f"{table.total.name} (total)", *table.names]
            self.owners += [table.name] * (2 + len(table.names))
            mask = sum(bit for level, bit in self.bits.items() if level in of_tables[table.name])
            self.masks += [mask] * (2 + len(table.names))
            self.values += [len(table.columns), 1, *[0] * len(table.columns)]

    @property
    def bits(self) -> dict[str, int]:
        """The bit of each geolevel."""
        return {level: 1 << depth for depth, level in enumerate(self.levels)}

    @property
    def columns(self) -> tuple[tuple[int, TableColumn], ...]:
        return tuple(
            (self.first[table.name] + 2 + place, column)
            for table in self.tables
            for place, column in enumerate(table.columns)
        )

    def at(self, level: str) -> tuple[int, ...]:
        """Places of the columns that are published for a level."""
        bit = self.bits[level]
        return tuple(place for place, (item, _) in enumerate(self.columns) if self.masks[item] & bit)

    def published(self, pairs: Column) -> Column:
        """Those pairs whose items are published for the level of the row; all where it is none of the run."""
        if min(self.masks) == sum(self.bits.values()):
            return pairs
        bit = F.lit(-1)
        for level, own in self.bits.items():
            bit = F.when(F.col("level") == level, own).otherwise(bit)
        masks = _constants(self.masks, "int")
        return F.filter(pairs.cast(PAIRS), lambda pair: F.get(masks, pair["item"]).bitwiseAND(bit) != 0)


def table_rules(published: Sequence[PublishedTable], tables: RunTables) -> list[Rule]:
    """The rules on published tables against the estimates and the geounits of a run; none where none are published.

    `tables equal estimates`: every geounit of a level that a table is published for has one row in it, every value of
    which is the sum of its cells.
    `table totals equal estimates`: the first column of every table is the sum over its universe.
    """
    if not published:
        return []
    items = _Items(published, tables.levels)
    formats = tuple(dict.fromkeys(each.format for each in published))
    notes = {format: f"{format} files" if len(formats) > 1 else "" for format in formats}
    rows = [_of_geounits(tables.geounits, items), *_of_estimates(tables.estimates, items)]
    rows += [_of_frame(each.table, each.format, each.frame, items) for each in published if each.frame is not None]
    if files := [file for each in published for file in each.files]:
        columns = {table.name: (items.first[table.name], table.names) for table in items.tables}
        rows.append(_packed_side(published_rows(tables.geounits.sparkSession, files, columns, packed=True)))
    # The rows of a geounit are brought together as they are, and compared by a task: a row an item would be thousands.
    held = {
        format: _held([each.table.name for each in published if each.format == format], items) for format in formats
    }
    together = reduce(DataFrame.unionAll, rows).repartition("level", "geocode")
    compare = _Comparison(formats, tuple(items.values), tuple(held.values()))
    compared = in_sorted_tasks(together, ("level", "geocode"), compare, compare.schema)
    item = F.col("item")
    totals = [first + 1 for first in items.first.values()]
    rule = F.when(F.array_contains(_constants(totals, "int"), item), TOTALS_EQUAL).otherwise(TABLES_EQUAL)
    # What fails is a geounit and a column of it.
    name = F.concat_ws(" ", F.coalesce("geocode", F.lit("?")), F.get(_constants(items.names, "string"), item))
    named = compared.withColumn("geocode", name)
    there = {
        (each.format, level)
        for each in published
        for level, bit in items.bits.items()
        if items.masks[items.first[each.table.name]] & bit
    }
    expected = tuple(
        (of, level, note)
        for of in _RULES
        for level in tables.levels
        for format, note in notes.items()
        if (format, level) in there
    )
    found = [
        Finding(rule, F.col(f"differs{place}"), F.col(f"checked{place}"), notes[format])
        for place, format in enumerate(formats)
    ]
    return [Rule(findings(named, *found), expected)]


def occupancy_rules(published: Sequence[PublishedTable], tables: RunTables, census: Spine, cell: int) -> list[Rule]:
    """The same rules on tables that count vacant housing units: the units of a geounit, less its households.

    Args:
        published: The tables.
        tables: Of the run, by the census, with the invariants of its leaves.
        census: The levels.
        cell: Where vacant units are counted.
    """
    if not published:
        return []
    here = F.array(F.lit(cell))
    declared = present(tables.invariants, "invariants").where(F.col("level") == census.leaf.name)
    of_leaves = declared.where("name = 'units'").select(
        "geocode", here.alias("cells"), F.slice("values", 1, 1).alias("counts")
    )
    units = all_levels(of_leaves, census).select("level", "geocode", list_total("counts").alias("units"))
    households = tables.estimates.select("level", "geocode", "cells", "counts").join(
        units, ["level", "geocode"], "left"
    )
    vacant = F.array(F.coalesce("units", F.lit(0)) - list_total("counts"))
    both = (F.concat("cells", here).alias("cells"), F.concat("counts", vacant).alias("counts"))
    every = replace(tables, estimates=households.select("level", "geocode", *both))
    # The checks are those of the other tables.
    return [Rule(rule.frame) for rule in table_rules(published, every)]


_RULES: Final = (TABLES_EQUAL, TOTALS_EQUAL)


def header_checks(published: Sequence[PublishedTable | PublishedMedians], levels: Sequence[str]) -> list[Check]:
    """`headers of tables`: CSV files call their columns by the published names; none where there are no such files."""
    named = [each for each in published if each.misnamed is not None]
    return [
        Check.of(
            (HEADERS, level, ""), len(there), {each.table.name for each in there if level in (each.misnamed or ())}
        )
        for level in levels
        if (there := [each for each in named if each.levels is None or level in each.levels])
    ]


def _side(frame: DataFrame, format: str, pairs: Column) -> DataFrame:
    """What one side says of each geounit: items and values; no format is the side of the estimates."""
    of = F.lit(format).alias("format")
    return frame.select(
        of, "level", "geocode", pairs.cast(PAIRS).alias("pairs"), F.lit(None).cast("binary").alias("packed")
    )


def _packed_side(frame: DataFrame) -> DataFrame:
    """What tasks say of a side, whose pairs are bytes."""
    return frame.select("format", "level", "geocode", F.lit(None).cast(PAIRS).alias("pairs"), "packed")


def _constants(values: Iterable[object], kind: str) -> Column:
    """A constant array, as one text: thousands of values one by one take seconds to be told to Spark."""
    return F.split(F.lit(",".join(map(str, values))), ",").cast(f"array<{kind}>")


def _pair(item: Column, value: Column) -> Column:
    return F.struct(item.alias("item"), value.cast("bigint").alias("value"))


def _of_geounits(geounits: DataFrame, items: _Items) -> DataFrame:
    """Every geounit is expected to have one row in every table."""
    rows = F.transform(_constants(items.first.values(), "int"), lambda item: _pair(item, F.lit(1)))
    return _side(geounits, "", items.published(rows))


def _of_estimates(estimates: DataFrame, items: _Items) -> tuple[DataFrame, DataFrame]:
    """Totals by sums in SQL, and the sums of all columns by tasks."""
    schema = items.tables[0].schema
    # Of cells that cannot be other rules tell.
    possible = F.filter(
        F.arrays_zip("cells", "counts"),
        lambda pair: (pair["cells"] >= 0) & (pair["cells"] < schema.size) & pair["counts"].isNotNull(),
    )
    columns = [possible.getField(name).alias(name) for name in ("cells", "counts")]
    task = _ColumnSums(schema, items.columns, {level: items.at(level) for level in items.levels})
    sums = in_tasks(estimates.select("level", "geocode", *columns), task, _SUMS)
    return _totals(estimates, items), _packed_side(sums.withColumn("format", F.lit("")))


def _totals(estimates: DataFrame, items: _Items) -> DataFrame:
    """What the totals of all tables count, one after the other in SQL; tables of one universe share a sum."""
    universes: dict[tuple[tuple[Selection, ...], bool], list[int]] = {}
    for table in items.tables:
        universes.setdefault((table.total.where, table.total.tallies), []).append(items.first[table.name] + 1)
    # An outer explode: a geounit without anybody has totals of 0.
    pairs = estimates.select("level", "geocode", F.explode_outer(F.arrays_zip("cells", "counts")).alias("pair"))
    cells = pairs.select("level", "geocode", "pair.cells", "pair.counts")
    schema, counts = items.tables[0].schema, F.col("counts").cast("bigint")
    sums = []
    for place, (where, tallies) in enumerate(universes):
        inside = [selected(F.col("cells").cast("bigint"), each, schema) for each in where]
        times = balanced(add, [each.cast("bigint") for each in (inside if tallies else [balanced(or_, inside)])])
        sums.append(F.coalesce(F.sum(counts * times), F.lit(0)).alias(f"sum{place}"))
    summed = cells.groupBy("level", "geocode").agg(*sums)
    of_universe = _constants([" ".join(map(str, each)) for each in universes.values()], "string")
    totals = F.flatten(
        F.transform(
            F.array(*[f"sum{place}" for place in range(len(universes))]),
            lambda total, place: F.transform(
                F.split(F.get(of_universe, place), " ").cast("array<int>"), lambda item: _pair(item, total)
            ),
        )
    )
    return _side(summed, "", items.published(totals))


def _of_frame(table: Table, format: str, frame: DataFrame, items: _Items) -> DataFrame:
    """The rows of a table, their totals, and their values that are not zero."""
    values = ", ".join(["1L", *(f"coalesce(`{name}`, {MISSING}L)" for name in (table.total.name, *table.names))])
    every = F.expr(f"transform(array({values}), (value, item) -> struct(item + {items.first[table.name]}, value))")
    some = F.filter(every.cast(PAIRS), lambda pair: pair["value"] != 0)
    return _side(frame, format, some)


def _held(names: Collection[str], items: _Items) -> tuple[bool, ...]:
    """Whether each item is of one of the tables that a format has."""
    return tuple(owner in names for owner in items.owners)


@dataclass(frozen=True, slots=True)
class _Comparison:
    """Adds up what the two sides say of each geounit, item by item, and tells where they differ.

    A row for every item of a geounit in which a format differs; of the others one for each item and level of a batch,
    which says how many values were compared.
    """

    formats: tuple[str, ...]
    values: tuple[int, ...]  # how many values an item stands for
    held: tuple[tuple[bool, ...], ...]  # for each format, whether it has the table of each item

    @property
    def schema(self) -> str:
        """The columns of the rows, those of formats by their places."""
        of_formats = [f"differs{place} boolean, checked{place} bigint" for place in range(len(self.formats))]
        return f"level string, geocode string, item int, {', '.join(of_formats)}"

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = max(1, _SUMS_AT_ONCE // len(self.values))
        for table in whole_groups(batches, ("level", "geocode"), rows, _BYTES_AT_ONCE):
            for batch in table.combine_chunks().to_batches():
                for level, part in slices(batch, "level"):
                    yield self._compared(level, part)

    def _compared(self, level: str | None, batch: pa.RecordBatch) -> pa.RecordBatch:
        first = group_starts(batch, ("geocode",))
        geounit = np.repeat(np.arange(len(first)), np.diff([*first, batch.num_rows]))
        pairs = batch.column("pairs")
        lengths = pairs.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        flat, (packed, records) = pairs.flatten(), unpacked(batch.column("packed"))
        item, value = (
            np.concatenate([flat.field(name).to_numpy(zero_copy_only=False), records[name]])
            for name in ("item", "value")
        )
        rows = np.arange(batch.num_rows)
        row = np.concatenate([np.repeat(rows, lengths), np.repeat(rows, packed)])
        key = geounit[row] * len(self.values) + item
        shape = (len(first), len(self.values))
        of_row = batch.column("format").to_pylist()
        format = np.array([self.formats.index(each) if each in self.formats else -1 for each in of_row])[row]
        found, checked = np.zeros((len(self.formats), *shape), dtype=np.int64), np.array(self.values)
        expected = _added(key[format < 0], value[format < 0], shape)
        for place in range(len(self.formats)):
            own = format == place
            found[place] = expected - _added(key[own], value[own], shape)
        differs = (found != 0) & np.array(self.held)[:, None, :]
        there = np.bincount(key, minlength=shape[0] * shape[1]).reshape(shape) > 0
        # What differs is named; of all others it is enough to know how many there are.
        where, which = np.nonzero(differs.any(axis=0))
        alike = (there & ~differs.any(axis=0)).sum(axis=0)
        (some,) = np.nonzero((alike > 0) & (checked > 0))
        items = np.concatenate([which, some]).astype(np.int32)
        times = np.concatenate([np.ones(len(which), dtype=np.int64), alike[some]])
        named = batch.column("geocode").take(pa.array(first[where]))
        arrays = [
            pa.array([level] * len(items), pa.string()),
            pa.concat_arrays([named, pa.nulls(len(some), pa.string())]),
            pa.array(items),
        ]
        for place in range(len(self.formats)):
            arrays.append(pa.array(np.concatenate([differs[place][where, which], np.zeros(len(some), dtype=np.bool_)])))
            arrays.append(pa.array(np.where(np.array(self.held)[place][items], checked[items] * times, 0)))
        names = ["level", "geocode", "item"]
        names += [f"{what}{place}" for place in range(len(self.formats)) for what in ("differs", "checked")]
        return pa.RecordBatch.from_arrays(arrays, names)


def _added(key: NDArray[np.int64], value: NDArray[np.int64], shape: tuple[int, int]) -> NDArray[np.int64]:
    """Sums of values by key: people of a nation are whole numbers in floating point, too."""
    sums = np.bincount(key, weights=value, minlength=shape[0] * shape[1])
    return np.rint(sums).astype(np.int64).reshape(shape)


@dataclass(frozen=True, slots=True)
class _ColumnSums:
    """From histograms to what columns (of these items) count of them, where that is not zero."""

    schema: Schema
    columns: tuple[tuple[int, TableColumn], ...]
    places: Mapping[str, tuple[int, ...]]  # geolevel -> places of the columns that are published for it

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = max(1, _SUMS_AT_ONCE // len(self.columns))
        for batch in cut(batches, step):
            for level, rows in slices(batch, "level"):
                yield self._sums(rows, [self.columns[place] for place in self.places.get(level, ())])

    def _sums(self, batch: pa.RecordBatch, columns: Sequence[tuple[int, TableColumn]]) -> pa.RecordBatch:
        cells, offsets = flat_lists(batch.column("cells"), np.int64)
        counts, _ = flat_lists(batch.column("counts"), np.int64)
        row = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
        sums = np.zeros((len(columns), batch.num_rows), dtype=np.int64)
        for begin in range(0, len(cells), _CELLS_AT_ONCE):
            part = slice(begin, begin + _CELLS_AT_ONCE)
            known = _Cells(np.unravel_index(cells[part], self.schema.shape))
            for place, (_, column) in enumerate(columns):
                times = self._times(column, known)
                counted = np.flatnonzero(times)
                np.add.at(sums[place], row[part][counted], counts[part][counted] * times[counted])
        pairs = packed_of(sums.T, np.array([item for item, _ in columns], dtype=np.int32))
        arrays = [batch.column("level"), batch.column("geocode"), pairs]
        return pa.RecordBatch.from_arrays(arrays, ["level", "geocode", "packed"])

    def _times(self, column: TableColumn, cells: _Cells) -> NDArray[np.int64] | NDArray[np.bool_]:
        """How many times a column counts each cell, by its levels of every attribute."""
        once = np.zeros(cells.number, dtype=np.bool_)
        times = np.zeros(cells.number if column.tallies else 0, dtype=np.int64)
        for selection in column.where:
            whole = np.ones(cells.number, dtype=np.bool_)
            for name, named in selection:
                whole &= cells.have(self.schema.axis(name), named)
            if column.tallies:
                times += whole
            else:
                once |= whole
        return times if column.tallies else once


class _Cells:
    """Cells by their levels, and which of them have some of the levels of an attribute: columns name few such sets."""

    def __init__(self, levels: Sequence[NDArray[np.int64]]) -> None:
        self._levels = levels
        self._known: dict[tuple[int, tuple[int, ...]], NDArray[np.bool_]] = {}

    @property
    def number(self) -> int:
        return len(self._levels[0])

    def have(self, axis: int, named: tuple[int, ...]) -> NDArray[np.bool_]:
        if (axis, named) not in self._known:
            self._known[axis, named] = np.isin(self._levels[axis], named)
        return self._known[axis, named]
