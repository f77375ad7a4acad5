"""Published tables as they are read back, and what is judged of them (`das_spark.verification.TablesEqual`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from das_spark.io.table_files import GEOCODE
from das_spark.spark.checks import Check, Rule
from das_spark.spark.ingest import all_levels
from das_spark.spark.lists import list_total
from das_spark.spark.published_rows import TENTHS, WHOLE, TableFile, published_rows, table_rows
from das_spark.spark.verify import FileRows, RunTables, Source, SpineTables, judged_families, present
from das_spark.store.tables import published_estimates
from das_spark.tabulation import MedianTable
from das_spark.verification import CensusSums, ChildRows, FamilyRows, LeafRows, MediansEqual, TablesEqual

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from das_spark.geography import Spine
    from das_spark.spark.published_rows import Numbers
    from das_spark.spark.verify_run import Verified
    from das_spark.tabulation import Table
    from das_spark.verification import ComparedTables, FamilyRule, KeyedRows

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
    published: Sequence[PublishedTable], levels: Sequence[str], spine: Spine | None
) -> tuple[list[FamilyRule], list[Source | FileRows]]:
    """Return the rules on published tables, and the rows that they look at besides estimates.

    Args:
        published: The tables, of sums and of medians.
        levels: Of the run.
        spine: The same with their geocodes; where it is None every geounit is by itself.
    """
    rules: list[FamilyRule] = []
    rows: list[Source | FileRows] = []
    sums = {each.table.name: each.table for each in published if not isinstance(each.table, MedianTable)}
    if sums:
        of_sums = TablesEqual(levels, tuple(sums.values()), _formats(published, sums, levels))
        rules.append(of_sums)
        rows += _rows_of(published, of_sums, WHOLE, spine)
    medians = {each.table.name: each.table for each in published if isinstance(each.table, MedianTable)}
    if medians:
        of_medians = MediansEqual(levels, tuple(medians.values()), _formats(published, medians, levels))
        rules.append(of_medians)
        rows += _rows_of(published, of_medians, TENTHS, spine)
    return rules, rows


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
    published: Sequence[PublishedTable], rule: ComparedTables[Any], numbers: Numbers, spine: Spine | None
) -> list[Source | FileRows]:
    """The rows of the tables that a rule compares."""
    own, key = [each for each in published if each.table.name in rule.first], ChildRows(rule.published, spine)
    columns = {table.name: (rule.first[table.name], table.names) for table in rule.tables}
    files = [file for each in own for file in each.files]
    frames = [
        Source(each.frame, (_FrameRows(key.table, each.format, *columns[each.table.name], key, numbers),))
        for each in own
        if each.frame is not None
    ]
    return [*published_rows(files, columns, key, numbers), *frames]


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
    rules, rows = compared_tables(published, tables.levels, None)
    return judged_families(rules, RunTables(tables.levels, geounits, estimates), None, rows)


def census_rules(published: Sequence[PublishedTable], run: Verified) -> list[Rule]:
    """Judge what lies along the census, by one job, where the run has a spine that is made of areas.

    Args:
        published: The tables, of sums and of medians.
        run: The run.
    """
    census = run.census
    of_tables, rows = compared_tables(published, census.names, census)
    estimates = run.stored(published_estimates(run.spine), census.names)
    blocks = Source(run.stored("estimates"), (LeafRows(census, run.spine.leaf.name),))
    # Whatever has an estimate is a geounit of the census.
    tables = SpineTables(census.names, geounits=estimates, estimates=estimates)
    return judged_families([CensusSums(census.names), *of_tables], tables, census, [blocks, *rows])


@dataclass(frozen=True, slots=True)
class _FrameRows(FamilyRows):
    """Rows of a published table that is read as a frame."""

    table: str
    format: str
    first: int  # number of the row
    names: tuple[str, ...]
    key: ChildRows
    numbers: Numbers

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the table."""
        return (GEOCODE, *self.names)

    def __call__(self, level: str, rows: pa.RecordBatch) -> KeyedRows:
        """Key some rows of a level."""
        values = [self.numbers.of(rows, name) for name in self.names]
        return self.key(level, table_rows([self.format], rows.column(GEOCODE), values, self.first))


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
