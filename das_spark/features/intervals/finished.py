"""Intervals of finished runs, and of measurements that were published: of areas such as districts, or of all geounits.

Nothing but public files is read. What the passes make lies in a hidden folder beside the result until that is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

from das_spark.config import lazy_levels
from das_spark.core.linear import Statistics
from das_spark.errors import ConfigurationError, InputError
from das_spark.evaluation import MEASUREMENTS
from das_spark.features.intervals.feature import Intervals
from das_spark.features.intervals.passes import (
    LinearPasses,
    geounit_moments,
    measured_levels,
    write_intervals,
)
from das_spark.features.intervals.rows import intervals, rows_of_intervals, unions_of_areas
from das_spark.features.intervals.settings import IntervalSettings, interval_settings
from das_spark.features.intervals.tables import INTERVALS, interval_columns
from das_spark.features.intervals.wide_cells import WideCells
from das_spark.features.intervals.wide_tallies import wide_tallies
from das_spark.io.area_files import look_at_areas
from das_spark.io.noisy_files import RECORD
from das_spark.pipeline.driver import driver_attempt
from das_spark.pipeline.features import uncertainties_of
from das_spark.pipeline.progress import Progress
from das_spark.pipeline.reestimate import open_source
from das_spark.pipeline.sources import RunSource
from das_spark.pipeline.spines import spine_of_run
from das_spark.pipeline.statement import notices_of
from das_spark.pipeline.table_writing import TablesWriting, TabulationSummary, table_rows
from das_spark.places import Place, disk_errors
from das_spark.spark.evaluate_areas import areas_of_file
from das_spark.spark.session import session
from das_spark.spark.tables import at_levels, count_and_first
from das_spark.store import PublicLayout, RunLayout, Staging, TablesLayout, discard, new_folder, unfinished_beside

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.features.intervals.wide_cells import WidthLimit
    from das_spark.geography import Spine
    from das_spark.pipeline.sources import Source
    from das_spark.tabulation import Table

#: Geocodes of a file of areas that a message names.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class IntervalSource:
    """Public measurements that were found and verified, and what is wanted of them: result of `open_intervals`."""

    path: Place  # where they were found
    source: Source  # the measurements
    settings: IntervalSettings  # what is wanted

    @property
    def plan(self) -> RunPlan:
        """What was measured."""
        return self.source.plan

    @property
    def feature(self) -> Intervals:
        """The intervals that are wanted."""
        return Intervals(self.plan, self.settings)

    @property
    def notices(self) -> tuple[str, ...]:
        """Sentences that everything made of these measurements must carry."""
        return notices_of(self.source.plan, insecure=self.source.entry.insecure)


def open_intervals(
    path: Place,
    level: str,
    tables: Sequence[str] = (),
    geolevels: Sequence[str] = (),
    external: RunPlan | None = None,
) -> IntervalSource:
    """Find measurements, verify all of them that can be verified without Spark, and check what is wanted of them.

    Args:
        path: A run's folder (or its public folder), or a folder of measurements.
        level: Probability that an interval covers the truth, an exact text such as "0.9".
        tables: Names of tables; all of the product where there are none.
        geolevels: Of geounits; all that were measured completely where there are none.
        external: What was measured, for measurements of others.

    Raises:
        ConfigurationError: A geolevel was not measured completely, or a table is none of the product.
        InputError: The measurements are not what they must be.
        OutputError: There is no finished run.
    """
    measured = (path / RECORD).is_file() or external is not None
    run, folder = (None, path) if measured else (path, None)
    source = open_source(run, folder, (), external)
    return IntervalSource(path, source, interval_settings(source.plan, level, tables, geolevels))


@dataclass(frozen=True, slots=True)
class AreaInterval:
    """The interval of one column of one area.

    Attributes:
        area: Its name.
        table: Name of the table.
        column: Published name of the column.
        label: What it counts, with the headings above it.
        depth: How far it is indented in the table.
        estimate: Unbiased, maybe negative; people or units.
        standard_error: Of the estimate.
        low: Least count in the interval.
        high: Greatest count in the interval.
    """

    area: str
    table: str
    column: str
    label: str
    depth: int
    estimate: float
    standard_error: float
    low: int
    high: int


def area_intervals(
    measured: IntervalSource, areas: Place, beside: Place | None = None, spark: SparkSession | None = None
) -> Iterator[AreaInterval]:
    """Intervals of unions of geounits of the lowest level: exact, covariances between geounits included.

    Args:
        measured: What is known, and wanted; geolevels have no meaning.
        areas: CSV of geocode and area.
        beside: The file or folder that is made of them: what the passes make lies in a hidden folder beside it
            meanwhile, and every worker must be able to write there. Where None, it is in one of its own in the current
            folder.
        spark: The session; found or started where None.

    Raises:
        ConfigurationError: Not all answers of the lowest level were kept.
        InputError: The file of areas, or the measurements, are not what they must be.
        OutputError: The disk is full, or the place cannot be written.
    """
    plan, tables = measured.plan, measured.feature.tables
    if lazy_levels(plan):
        raise ConfigurationError(
            f'{measured.path}: not every noisy answer was kept (measurement.rows = "{plan.measurement_rows}"), and '
            "intervals of areas need those of the lowest level",
            hint='measure with measurement.rows = "all"',
        )
    census = plan.product.census(plan.spine)
    look_at_areas(areas, census)
    # One of its own where nothing is named: two commands may work in one folder.
    scratch = unfinished_beside(Path(f"intervals-{token_hex(8)}") if beside is None else beside)
    with disk_errors(beside or scratch), _passes(measured.source, tables, scratch, spark) as passes:
        passes.carry((), _unions(passes, areas, census))
        moments, first, empty = passes.union_moments(), 0, True
        for table in tables:
            found = intervals(moments, table, first, float(measured.settings.level), plan.budget.framework)
            for row in rows_of_intervals(found):
                empty = False
                yield from _of_row(row, table)
            first += len(table.names)
        if empty:
            raise InputError(f"{areas}: no geocode of it has an area", hint="its second column names the areas")


def geounit_intervals(measured: IntervalSource, out: Place, spark: SparkSession | None = None) -> TabulationSummary:
    """Write intervals of geounits into a folder of their own, which appears when all of them are there.

    Args:
        measured: What is known, and wanted.
        out: The folder; it must not exist, or be empty.
        spark: The session; found or started where None.

    Raises:
        InputError: The measurements are not what they must be.
        OutputError: The folder cannot be written.
    """
    plan, settings, feature = measured.plan, measured.settings, measured.feature
    tables, geolevels, origin = feature.tables, settings.named_geolevels, plan.origin
    census = plan.product.census(plan.spine)
    run_id, created = ("", "") if origin is None else (origin.run_id, origin.created)
    facts = feature.facts(run_id, created, measured.notices)
    with new_folder(out) as made:
        target, scratch = TablesLayout(made), made / ".passes"
        with _passes(measured.source, tables, scratch, spark) as passes:
            staging, formats = Staging(scratch / INTERVALS), plan.output.interval_formats
            writing = TablesWriting(target, staging, census, formats, facts, geolevels, interval_columns)
            write_intervals(passes, tables, writing, float(settings.level))
        rows = table_rows(target, feature.written, census, geolevels, place=INTERVALS)
    return TabulationSummary(out, {name.removeprefix(f"{INTERVALS}/"): count for name, count in rows.items()})


def wide_intervals(
    measured: IntervalSource, limit: WidthLimit, spark: SparkSession | None = None
) -> tuple[WideCells, ...]:
    """How many cells of tables have intervals that are wider than a limit, by geolevel and column.

    Counted by Spark; nothing is published. Intervals that features of the run have published are counted, too,
    behind the others.

    Args:
        measured: What is known, and wanted.
        limit: What is wider.
        spark: The session; found or started where None. Every worker must be able to write to the current folder.

    Raises:
        InputError: The measurements are not what they must be.
        OutputError: The disk is full, or the current folder cannot be written.
    """
    plan, settings, found, first = measured.plan, measured.settings, list[WideCells](), 0
    census = plan.product.census(plan.spine)
    tables = measured.feature.tables
    scratch = unfinished_beside(Path(f"intervals-{token_hex(8)}"))
    with disk_errors(scratch), _passes(measured.source, tables, scratch, spark) as passes:
        rows = geounit_moments(passes, census, settings.named_geolevels)
        for table in tables:
            levels = table.levels(census, settings.named_geolevels)
            chosen, framework = at_levels(rows, levels), plan.budget.framework
            own = intervals(chosen, table, first, float(settings.level), framework, "level")
            tallies = wide_tallies(own, table, limit)
            found += _wide_cells(tallies, table, levels, MEASUREMENTS, float(settings.level))
            first += len(table.names)
        if not isinstance(measured.source, RunSource):
            return tuple(found)
        first_format = plan.output.interval_formats[0]  # every format holds the same
        for each in (one for one in uncertainties_of(plan) if one.of != MEASUREMENTS):
            for table in (one for one in each.tables if one in tables):
                levels = table.levels(census, settings.named_geolevels)
                counts = each.read(passes.spark, measured.source.public, table, first_format, levels)
                found += _wide_cells(wide_tallies(counts, table, limit), table, levels, each.of, each.level)
    return tuple(found)


def _wide_cells(
    tallies: Mapping[tuple[str, int], tuple[int, int]], table: Table, levels: Sequence[str], of: str, level: float
) -> Iterator[WideCells]:
    for geolevel in levels:
        for place, name in enumerate(table.names):
            yield WideCells(of, level, table.name, geolevel, name, table.path(place), *tallies[geolevel, place])


@contextmanager
def _passes(
    source: Source, tables: Sequence[Table], scratch: Place, spark: SparkSession | None
) -> Iterator[LinearPasses]:
    """The passes over public tables: those of the run, or those that are made of a folder of measurements.

    What they make lies in a scratch folder, which is removed at the end, as is what an attempt left there that died.
    """
    plan, started = source.plan, spark or session("das_spark interval")
    try:
        discard(scratch)
        source.check(started)
        if isinstance(source, RunSource):
            public, spine = source.public, spine_of_run(source.public, plan)
        else:
            output = replace(plan.output, root=str(scratch / "imported"), public=None, restricted=None)
            layout = RunLayout.of(output, "measurements")
            with driver_attempt(
                replace(plan, output=output),
                layout,
                Progress(lambda line: None, ""),
                measured_by=source.entry,
                spark=started,
            ) as context:
                source.write_tables(context)
                public, spine = layout.public, context.spine
        levels = measured_levels(plan, spine.names)
        yield LinearPasses(
            started, plan, spine, public, PublicLayout(scratch / "passes"), levels, Statistics.of(tables)
        )
    finally:
        discard(scratch)


def _unions(passes: LinearPasses, areas: Place, census: Spine) -> DataFrame:
    """The leaves of the spine that lie in areas; every geocode of the file must be one of them."""
    named = areas_of_file(passes.spark, areas, census).frame
    unions, others = unions_of_areas(named, passes.leaves(), is_census=passes.spine.is_census)
    unknown, rows = count_and_first(others, _NAMED, "geocode")
    if unknown:
        codes = ", ".join(row["geocode"] for row in rows)
        raise InputError(
            f"{areas}: {unknown:,} geocodes are of no geounit of the run, {codes} among them",
            hint=f"name geounits of level {census.leaf.name} that exist in the run, or leave these rows out",
        )
    return unions


def _of_row(row: Mapping[str, Any], table: Table) -> Iterator[AreaInterval]:
    for place, column in enumerate(table.columns):
        values = [row[f"{column.name}{end}"] for end in ("", "_se", "_low", "_high")]
        yield AreaInterval(row["geocode"], table.name, column.name, table.path(place), column.depth, *values)
