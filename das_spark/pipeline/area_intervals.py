"""Intervals of finished runs, and of measurements that were published: of areas such as districts, or of all geounits.

Nothing but public files is read. What the passes make lies in a folder beside the result until that is there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from das_spark.config import IntervalSettings, interval_settings, lazy_levels
from das_spark.core.linear import Statistics
from das_spark.errors import ConfigurationError, InputError, OutputError
from das_spark.io.area_files import look_at_areas
from das_spark.io.noisy_files import RECORD
from das_spark.pipeline.driver import driver_attempt
from das_spark.pipeline.intervals import (
    PLACE,
    LinearPasses,
    interval_facts,
    intervals_of,
    measured_levels,
    write_intervals,
)
from das_spark.pipeline.progress import Progress
from das_spark.pipeline.reestimate import open_source
from das_spark.pipeline.sources import RunSource
from das_spark.pipeline.spines import spine_of_run
from das_spark.pipeline.statement import notices_of
from das_spark.pipeline.tabulate import TablesWriting, TabulationSummary, table_rows
from das_spark.spark.evaluate_areas import areas_of_file
from das_spark.spark.intervals import interval_schema, intervals, rows_of_intervals, unions_of_areas
from das_spark.spark.session import session
from das_spark.spark.tables import count_and_first
from das_spark.store import PublicLayout, RunLayout, Staging, TablesLayout, discard, disk_errors

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.geography import Spine
    from das_spark.pipeline.sources import Source
    from das_spark.tabulation import Table

#: Geocodes of a file of areas that a message names.
_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class IntervalRequest:
    """What is wanted of public measurements.

    Attributes:
        path: A run's folder (or its public folder), or a folder of measurements.
        level: Probability that an interval covers the truth, an exact text such as "0.9".
        tables: Names of tables; all of the product where there are none.
        geolevels: Of geounits; all that were measured completely where there are none.
        external: What was measured, for measurements of others.
    """

    path: Path
    level: str
    tables: tuple[str, ...] = ()
    geolevels: tuple[str, ...] = ()
    external: RunPlan | None = None

    def notices(self) -> tuple[str, ...]:
        """Sentences that everything made of these measurements must carry."""
        source, _ = self.opened()
        return notices_of(source.plan, insecure=source.entry.insecure)

    def opened(self) -> tuple[Source, IntervalSettings]:
        """Find the measurements, and what is wanted of them, without Spark."""
        measured = (self.path / RECORD).is_file() or self.external is not None
        run, folder = (None, self.path) if measured else (self.path, None)
        source = open_source(run, folder, (), self.external)
        return source, interval_settings(source.plan, self.level, self.tables, self.geolevels)


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
    request: IntervalRequest, areas: Path, beside: Path, spark: SparkSession | None = None
) -> Iterator[AreaInterval]:
    """Intervals of unions of geounits of the lowest level: exact, covariances between geounits included.

    Args:
        request: Of what; geolevels have no meaning.
        areas: CSV of geocode and area.
        beside: What the passes make lies in a folder beside this path meanwhile; every worker can write there.
        spark: The session; found or started where None.

    Raises:
        ConfigurationError: Not all answers of the lowest level were kept, or a table is none of the product.
        InputError: The file of areas, or the measurements, are not what they must be.
        OutputError: The disk is full.
    """
    source, settings = request.opened()
    plan, tables = source.plan, _tables(source.plan, settings)
    if lazy_levels(plan):
        raise ConfigurationError(
            f'{request.path}: not every noisy answer was kept (measurement.rows = "{plan.measurement_rows}"), and '
            "intervals of areas need those of the lowest level",
            hint='measure with measurement.rows = "all"',
        )
    census = plan.product.census(plan.spine)
    look_at_areas(areas, census.leaf.length)
    with _opened(source, tables, beside, spark) as passes, disk_errors(beside):
        passes.carry(_unions(passes, areas, census))
        moments, first, empty = passes.union_moments(), 0, True
        for table in tables:
            for row in rows_of_intervals(intervals(moments, table, first, float(settings.level))):
                empty = False
                yield from _of_row(row, table)
            first += len(table.names)
        if empty:
            raise InputError(f"{areas}: no geocode of it has an area", hint="its second column names the areas")


def geounit_intervals(request: IntervalRequest, out: Path, spark: SparkSession | None = None) -> TabulationSummary:
    """Write intervals of the geounits of a finished run, or of published measurements, into a folder of their own.

    Args:
        request: Of what.
        out: The folder; it must not exist, or be empty.
        spark: The session; found or started where None.

    Raises:
        ConfigurationError: A geolevel was not measured completely, or a table is none of the product.
        InputError: The measurements are not what they must be.
        OutputError: The folder cannot be written.
    """
    source, settings = request.opened()
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise OutputError(f"{out}: is there already, and not an empty folder", hint="choose another folder")
    plan = replace(source.plan, output=replace(source.plan.output, intervals=settings))
    written, tables, origin = intervals_of(plan), _tables(plan, settings), plan.origin
    notices = notices_of(plan, insecure=source.entry.insecure)
    run_id, created = ("", "") if origin is None else (origin.run_id, origin.created)
    facts = interval_facts(plan, run_id, created, notices)
    target, census = TablesLayout(out.absolute()), plan.product.census(plan.spine)
    with _opened(source, tables, out, spark) as passes:
        staging = Staging(passes.scratch.path / PLACE)
        formats = tuple(dict.fromkeys(format for _, format in written))
        writing = TablesWriting(target, staging, settings.geolevels, formats, facts, interval_schema)
        write_intervals(passes, census, tables, writing, float(settings.level))
    rows = table_rows(target, [(table.name, format) for table, format in written], settings.geolevels, PLACE)
    return TabulationSummary(out, {name.removeprefix(f"{PLACE}/"): count for name, count in rows.items()})


def _tables(plan: RunPlan, settings: IntervalSettings) -> list[Table]:
    return [table for table in plan.product.tables if table.name in settings.tables]


@contextmanager
def _opened(
    source: Source, tables: Sequence[Table], beside: Path, spark: SparkSession | None
) -> Iterator[LinearPasses]:
    """The passes over public tables: those of the run, or those that are made of a folder of measurements."""
    plan, scratch = source.plan, beside.absolute().with_name(f".{beside.name}.unfinished")
    started = spark or session("das_spark interval")
    try:
        discard(scratch)  # what a driver left that died
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


def _unions(passes: LinearPasses, areas: Path, census: Spine) -> DataFrame:
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
