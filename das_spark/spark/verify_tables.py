"""Published tables as they are read back, and what is judged of them (`das_spark.verification.TablesEqual`)."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.spark.checks import Check, Rule
from das_spark.spark.engine import in_tasks
from das_spark.spark.ingest import all_levels
from das_spark.spark.lists import list_total
from das_spark.spark.published_rows import PACKED_ROWS, TableFile, published_rows, tenths_of, whole_of
from das_spark.spark.verify import RunTables, judged_families, present
from das_spark.tabulation import MedianTable
from das_spark.verification import CensusSums, MediansEqual, TablesEqual, packed_of

if TYPE_CHECKING:
    from das_spark.geography import Spine
    from das_spark.spark.published_rows import Numbers
    from das_spark.tabulation import Table
    from das_spark.verification import ComparedTables, FamilyRule

HEADERS = "headers of tables"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One table of a run as it was read back, all levels in one."""

    table: Table | MedianTable  # what it shall hold
    format: str  # such as `csv`
    frame: DataFrame | None  # level, geocode and the published columns (long); None where the files are named
    # levels whose files call their columns otherwise; None for files whose columns are read by name
    misnamed: tuple[str, ...] | None = None
    levels: tuple[str, ...] | None = None  # geolevels that it is published for, from the root; None for all
    files: tuple[TableFile, ...] = ()  # where there is no frame


def compared_tables(
    published: Sequence[PublishedTable], tables: RunTables, spine: Spine | None
) -> tuple[list[FamilyRule], RunTables]:
    """Return the rules on published tables, and the tables of a run with the rows that they look at.

    Args:
        published: The tables, of sums and of medians.
        tables: Of the run.
        spine: Levels of both; where it is None every geounit is by itself.
    """
    rules: list[FamilyRule] = []
    sums = {each.table.name: each.table for each in published if not isinstance(each.table, MedianTable)}
    if sums:
        of_sums = TablesEqual(tables.levels, tuple(sums.values()), _formats(published, sums, tables.levels))
        rules.append(of_sums)
        tables = replace(tables, tables=_rows_of(published, of_sums, whole_of, tables, spine))
    medians = {each.table.name: each.table for each in published if isinstance(each.table, MedianTable)}
    if medians:
        of_medians = MediansEqual(tables.levels, tuple(medians.values()), _formats(published, medians, tables.levels))
        rules.append(of_medians)
        tables = replace(tables, medians=_rows_of(published, of_medians, tenths_of, tables, spine))
    return rules, tables


def _formats(
    published: Sequence[PublishedTable], names: Collection[str], levels: Sequence[str]
) -> dict[str, dict[str, Sequence[str]]]:
    """Format -> name of a table, of some -> its levels."""
    formats: dict[str, dict[str, Sequence[str]]] = {}
    for each in published:
        if each.table.name in names:
            formats.setdefault(each.format, {})[each.table.name] = each.levels or levels
    return formats


def _rows_of(
    published: Sequence[PublishedTable],
    rule: ComparedTables[Any],
    numbers: Numbers,
    tables: RunTables,
    spine: Spine | None,
) -> DataFrame:
    """`PACKED_ROWS` of the tables that a rule compares."""
    own = [each for each in published if each.table.name in rule.first]
    frames = [
        in_tasks(each.frame, _Packed(each.format, rule.first[each.table.name], each.table.names), PACKED_ROWS)
        for each in own
        if each.frame is not None
    ]
    if files := [file for each in own for file in each.files]:
        columns = {table.name: (rule.first[table.name], table.names) for table in rule.tables}
        frames.append(published_rows(tables.geounits.sparkSession, files, columns, numbers, spine))
    return reduce(DataFrame.unionByName, frames)


def table_rules(published: Sequence[PublishedTable], tables: RunTables) -> list[Rule]:
    """Judge published tables by a pass of their own, geounit by geounit; none where none are published.

    Args:
        published: The tables, of sums and of medians.
        tables: Geounits, and the estimates that tables must say, under the geocodes of tables.
    """
    if not published:
        return []
    keys = ("level", "geocode", F.lit("").alias("parent"))
    geounits = tables.geounits.select(*keys, F.lit(0).cast("bigint").alias("children"))
    estimates = tables.estimates.select(*keys, "cells", "counts")
    return judged_families(*compared_tables(published, RunTables(tables.levels, geounits, estimates), None))


def census_rules(published: Sequence[PublishedTable], tables: RunTables, census: Spine) -> list[Rule]:
    """Judge what lies along the census, by one job, where the run has a spine that is made of areas.

    Args:
        published: The tables, of sums and of medians.
        tables: The estimates by geounits of the census, and those of its blocks on the spine.
        census: The levels.
    """
    of_tables, read = compared_tables(published, tables, census)
    return judged_families([CensusSums(census.names), *of_tables], read, census)


@dataclass(frozen=True, slots=True)
class _Packed:
    """From rows of a table to what `published_rows` gives of its files."""

    format: str
    first: int
    names: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        items = np.arange(self.first, self.first + 2 + len(self.names), dtype=np.int32)
        for batch in batches:
            values = np.stack([whole_of(batch, name) for name in self.names], axis=1)
            told = np.hstack([np.ones((len(values), 1), np.int64), values[:, :1], values])
            format = pa.array([self.format] * batch.num_rows, pa.string())
            packed = packed_of(batch.column("geocode"), told, items, None)
            arrays = [format, batch.column("level"), *packed.values()]
            yield pa.RecordBatch.from_arrays(arrays, ["format", "level", *packed])


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
    return [replace(rule, expected=()) for rule in table_rules(published, every)]


def header_checks(published: Sequence[PublishedTable], levels: Sequence[str]) -> list[Check]:
    """`headers of tables`: CSV files call their columns by the published names; none where there are no such files."""
    named = [each for each in published if each.misnamed is not None]
    return [
        Check.of(
            (HEADERS, level, ""), len(there), {each.table.name for each in there if level in (each.misnamed or ())}
        )
        for level in levels
        if (there := [each for each in named if each.levels is None or level in each.levels])
    ]
