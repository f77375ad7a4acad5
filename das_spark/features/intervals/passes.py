"""Both passes over the public tables of a run, from which intervals by the measurements alone follow.

All of it is post-processing of what is public: a run's own tables, or those that were made of a folder of measurements.
The passes go upwards from the lowest level that was measured on all rows, then downwards.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from das_spark.config import lazy_levels, level_plan
from das_spark.core.linear import upward
from das_spark.features.intervals.rows import (
    at_level,
    census_moments,
    census_unions,
    intervals,
    of_unions,
    summed_moments,
)
from das_spark.pipeline.levels import LevelJobs, table_writer
from das_spark.places import disk_errors
from das_spark.spark.arranged import write_levels, written_files
from das_spark.spark.family_rows import StoredLevel
from das_spark.spark.level_pass import (
    DownwardTask,
    Writing,
    carried_down,
)
from das_spark.spark.tables import at_levels, read_table, union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.core.linear import Statistics
    from das_spark.geography import Spine
    from das_spark.pipeline.table_writing import TablesWriting
    from das_spark.store import PublicLayout
    from das_spark.tabulation import Table


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
    public: PublicLayout  # tables that are read
    scratch: PublicLayout  # what is made; whoever gives it removes it
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
