"""Intervals from the measurements alone: for every cell of published tables, and for unions of geounits.

All of it is post-processing of what is public. The passes go over the public tables of a run (its own, or those that
were made of a folder of measurements): upwards from the lowest level that was measured on all rows, then downwards.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from das_spark.config import lazy_levels, level_plan
from das_spark.core.linear import Statistics, upward
from das_spark.pipeline.levels import LevelJobs, table_writer
from das_spark.pipeline.tabulate import TablesWriting, named, named_in_formats, run_fact
from das_spark.spark.arranged import write_levels, written_files
from das_spark.spark.family_rows import StoredLevel
from das_spark.spark.intervals import (
    at_level,
    census_moments,
    census_unions,
    interval_schema,
    intervals,
    of_unions,
    summed_moments,
)
from das_spark.spark.level_pass import (
    DownwardTask,
    Writing,
    carried_down,
)
from das_spark.spark.tables import at_levels, read_table, union
from das_spark.store import PublicLayout, discard, disk_errors, guarded_staging

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.geography import Spine
    from das_spark.pipeline.context import RunContext
    from das_spark.tabulation import Table

#: What rows of intervals are counted under in the manifest.
PLACE: Final = "intervals"


def measured_levels(plan: RunPlan, levels: Sequence[str]) -> tuple[str, ...]:
    """The levels of a run that were measured on all rows, from the top: intervals need them so.

    Args:
        plan: The run.
        levels: All its levels, from the top.
    """
    lazy = lazy_levels(plan)
    return tuple(level for level in levels if level not in lazy)


def downward_levels(levels: Sequence[str], wanted: Collection[str], *, unions: bool) -> Sequence[str]:
    """The levels of the pass downwards: to the lowest one that is wanted; with unions all, since borders are anywhere.

    Args:
        levels: Those of the passes, from the top.
        wanted: Levels whose geounits are wanted.
        unions: Whether unions of geounits of the lowest level are wanted besides.
    """
    return levels if unions else levels[: 1 + max(map(levels.index, wanted))]


@dataclass(frozen=True, slots=True)
class LinearPasses:
    """Both passes over the public tables of a run; what they make lies in a scratch folder."""

    spark: SparkSession
    plan: RunPlan
    spine: Spine
    public: PublicLayout[Path]  # tables that are read
    scratch: PublicLayout[Path]  # what is made; whoever gives it removes it
    levels: tuple[str, ...]  # of the passes, from the top
    statistics: Statistics

    def carry(self, wanted: Collection[str], unions: DataFrame | None = None) -> None:
        """Go up through all levels, and down to the lowest one that is wanted.

        Args:
            wanted: Levels whose geounits are wanted.
            unions: Which geounits of the lowest level of the passes lie in which unions: columns geocode and union.
        """
        if unions is not None:
            self._write_unions(of_unions(unions))
        for level in reversed(self.levels):
            self._up(level, unions=unions is not None)
        down = downward_levels(self.levels, wanted, unions=unions is not None)
        for level in down:
            self._down(level, lowest=level == down[-1])

    def leaves(self) -> DataFrame:
        """The geounits of the lowest level of the passes."""
        return self._read("geounits", self.levels[-1])

    def moments(self, level: str) -> DataFrame:
        """Estimates and variances of the geounits of a level."""
        return read_table(self.spark, "moments", self.scratch.level("moments", level))

    def union_moments(self) -> DataFrame:
        """Estimates and variances of unions."""
        parts = [
            read_table(self.spark, "union_moments", self.scratch.level("union_moments", level)) for level in self.levels
        ]
        return summed_moments(union(parts))

    def _write_unions(self, rows: DataFrame) -> None:
        """Let the lowest level know its unions, as higher ones know what the levels below have summed."""
        level = self.levels[-1]
        writer = table_writer({"upward_sums": self.scratch.table("upward_sums")})
        write_levels(at_level(rows, level), "upward_sums", writer, self.leaves(), self.spine, ["geocode", "name"])

    def _up(self, level: str, *, unions: bool) -> None:
        is_lowest = level == self.levels[-1]
        known = self._made("upward_sums", level) if unions or not is_lowest else None
        folders = self._jobs.upward_folders(level, self.scratch.level)
        self._jobs.carry_up(level, known, upward, folders, of_every=not is_lowest)

    def _down(self, level: str, *, lowest: bool) -> None:
        jobs, known = self._jobs, self._made("upward", level)
        above = jobs.above(level)
        tables = ("moments", "union_moments", *(() if lowest else ("linear",)))
        writer = table_writer({name: self.scratch.level(name, level) for name in tables})
        given = None if above is None else self._made("linear", above)
        task = DownwardTask(level_plan(self.plan, level), self.statistics, lowest)
        report = carried_down(self.spark, jobs.level(level, known), given, task, jobs.spread(level), Writing(writer))
        written_files(report, writer)

    @property
    def _jobs(self) -> LevelJobs:
        return LevelJobs(self.plan, self.spine, self.spark, self.public.level)

    def _made(self, table: str, level: str) -> StoredLevel:
        return StoredLevel.of(self.scratch.level(table, level))

    def _read(self, table: str, level: str) -> DataFrame:
        return read_table(self.spark, table, self.public.level(table, level))


def interval_tables(plan: RunPlan) -> tuple[Table, ...]:
    """Tables that a run has intervals of; none where it has no intervals."""
    return named(plan, () if plan.output.intervals is None else plan.output.intervals.tables)


def intervals_of(plan: RunPlan) -> list[tuple[Table, str]]:
    """Tables that a run has intervals of, each with each format."""
    return named_in_formats(plan, () if plan.output.intervals is None else plan.output.intervals.tables)


def interval_levels(plan: RunPlan) -> tuple[str, ...]:
    """Geolevels of the census that a run has intervals of; none where it has no intervals."""
    return () if plan.output.intervals is None else plan.output.intervals.geolevels


def interval_facts(plan: RunPlan, run_id: str, created: str, notices: Sequence[str]) -> tuple[str, ...]:
    """What the folder of each table of intervals says."""
    settings = plan.output.intervals
    level = 0.0 if settings is None else float(settings.level)
    return (*notices, run_fact(run_id, plan.product.name, created), *sentences(level))


def publish_intervals(context: RunContext) -> None:
    """Write the intervals of a run at the level that its run file names; those that are finished are left."""
    plan, public = context.plan, context.layout.public
    settings = plan.output.intervals
    if settings is None:
        return
    tables, formats = interval_tables(plan), plan.output.interval_formats
    for folder in public.intervals.abandoned:
        discard(folder)
    staging = guarded_staging(context.layout, public, "intervals")
    levels = settings.geolevels
    facts = interval_facts(plan, context.layout.run_id, context.created, context.notices)
    writing = TablesWriting(public.intervals, staging, context.census, formats, facts, levels, interval_schema)
    if not all(writing.is_finished(table) for table in tables):
        discard(staging.folder)
        passes = LinearPasses(
            context.spark,
            plan,
            context.spine,
            public,
            PublicLayout(staging.folder / "passes"),
            measured_levels(plan, context.spine.names),
            Statistics.of(tables),
        )
        write_intervals(passes, tables, writing, float(settings.level))
        discard(staging.folder)


def geounit_moments(passes: LinearPasses, census: Spine, levels: Sequence[str]) -> DataFrame:
    """Go up and down: moments of the geounits of levels of the census, with a column level."""
    if passes.spine.is_census:
        passes.carry(levels)
        return union([at_level(passes.moments(level), level) for level in levels])
    passes.carry(levels, census_unions(passes.leaves(), census, levels))
    return census_moments(passes.moments(passes.levels[-1]), passes.union_moments(), census, levels)


def write_intervals(passes: LinearPasses, tables: Sequence[Table], writing: TablesWriting, level: float) -> None:
    """Go up and down, and write intervals of tables: all levels of each by one job, then level by level."""
    census = writing.census
    with disk_errors(writing.target.path):
        leaves, first = passes.leaves(), 0
        rows = geounit_moments(passes, census, writing.wanted)
        for table in tables:
            chosen = at_levels(rows, writing.levels(table))
            found = intervals(chosen, table, first, level, passes.plan.budget.framework, "level")
            files = write_levels(found, table.name, writing.writer(table), leaves, census, ["geocode"])
            writing.promote((table, files))
            first += len(table.names)


def sentences(level: float) -> tuple[str, ...]:
    """What a reader of intervals must know."""
    return (
        f"Intervals of {100 * level:g} %, from the noisy measurements of all levels alone: post-processing of what is "
        "public.",
        "A column without ending is the estimate by generalised least squares (unbiased, not rounded, maybe negative), "
        "_se its standard error; the truth lies from _low to _high with the stated probability.",
        "The tables of the run hold other estimates, whole and nonnegative; these intervals are of the truth, not of "
        "how far those estimates are from it.",
    )
