"""Replicates: a run done again on its own output, for intervals of the counts that it publishes.

A replicate takes the published estimates for the truth, measures them as the run has measured, with noise that anybody
can draw again, and estimates as the run has estimated. Nothing confidential is read; nothing is charged. What is kept
of a replicate is how often each error occurs, so that a run that was stopped goes on with the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Final

from das_spark.config import measurement_plan, needs_of, steps_of
from das_spark.core import run_levels
from das_spark.errors import EstimationError
from das_spark.features.replicates.files import read_errors, read_offsets
from das_spark.features.replicates.rows import (
    collected_offsets,
    intervals_of_counts,
    replicate_errors,
    replicate_offsets,
)
from das_spark.features.replicates.tables import (
    ERRORS,
    ERRORS_ORDER,
    INTERVALS,
    OFFSETS,
    OFFSETS_ORDER,
    errors_folder,
    interval_columns,
    offsets_folder,
)
from das_spark.pipeline.diagnosed import failed_families
from das_spark.pipeline.levels import NAMED, LevelJobs
from das_spark.pipeline.table_writing import TablesWriting, named, publish_beside
from das_spark.places import Place, disk_errors
from das_spark.privacy import RunKey
from das_spark.spark.arranged import write_one_file
from das_spark.spark.census import census_histograms
from das_spark.spark.family_rows import StoredLevel
from das_spark.spark.level_pass import MeasurementTask
from das_spark.spark.tables import at_levels, levels_together, read_levels, read_table
from das_spark.store import PublicLayout, discard, finished, guarded_staging, replace_folder
from das_spark.store.parquet import ParquetTables, TableFolder

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.features.replicates.settings import ReplicateSettings
    from das_spark.pipeline.context import RunContext
    from das_spark.store.tables import TableDeclaration
    from das_spark.tabulation import Table

#: Tables that a replicate has of its own; it shares all others with the run.
_OWN: Final = ("measurements", "diagnostics", "upward", "upward_sums", "estimates", "estimate_arrays")


@dataclass(frozen=True, slots=True)
class _Replicate:
    """Measures and estimates what a run has published (`das_spark.core.Executor`), in a folder of its own."""

    context: RunContext
    number: int
    folder: PublicLayout

    def measure(self, geolevel: str) -> None:
        """Measure the estimates of the run."""
        context = self.context
        plan = measurement_plan(context.plan, geolevel, context.shares_of(geolevel), self._key(), self.number)
        published = StoredLevel.of(context.tables.folder("estimates", geolevel))
        self._jobs.measure(published, geolevel, MeasurementTask(plan), self.folder.level("measurements", geolevel))

    def upward(self, geolevel: str) -> None:
        """Carry a level upwards."""
        self._jobs.upward(geolevel, self._jobs.upward_folders(geolevel, self.folder.level))

    def estimate(self, geolevel: str) -> None:
        """Estimate a level."""
        arrays = ("estimate_arrays",) if needs_of(self.context.plan).arrays else ()
        names = ("diagnostics", *arrays, "estimates", "seconds")
        self._jobs.estimate(geolevel, {name: self.folder.level(name, geolevel) for name in names})
        number, rows = failed_families(self.folder.level("diagnostics", geolevel), NAMED)
        if number:
            named = ", ".join(row["family"] for row in rows)
            raise EstimationError(
                f"replicate {self.number}: {number:,} families of level {geolevel} could not be estimated: {named}",
                hint="the run itself is whole; leave output.replicates out, or add solvers (estimation.solvers)",
            )

    def estimates(self) -> DataFrame:
        """The estimates by geounits of the census, with the level."""
        context = self.context
        if context.has_shares:
            return census_histograms(self._read("estimates", context.spine.leaf.name), context.census)
        return levels_together((name, self._read("estimates", name)) for name in context.spine.names)

    def _key(self) -> RunKey:
        # Of public things alone: noise that is to hide nothing may be drawn again by anybody.
        return RunKey.insecure(f"replicate {self.number} of run {self.context.layout.run_id}")

    @property
    def _jobs(self) -> LevelJobs:
        return replace(LevelJobs.of(self.context), folder=self._folder)

    def _folder(self, table: str, geolevel: str) -> Place:
        return self.folder.level(table, geolevel) if table in _OWN else self.context.tables.folder(table, geolevel)

    def _read(self, table: str, geolevel: str) -> DataFrame:
        return read_table(self.context.spark, table, self._folder(table, geolevel))


def publish_replicates(context: RunContext, settings: ReplicateSettings, facts: tuple[str, ...]) -> None:
    """Carry out the replicates of a run that are not finished, and write the intervals that follow.

    Args:
        context: The run.
        settings: What is wanted.
        facts: What the folder of each table of intervals says.
    """
    plan, public = context.plan, context.layout.public
    tables = named(plan, settings.named_tables)
    staging = guarded_staging(context.layout, public, "replicates")
    estimates = read_levels(context.spark, public, context.published, context.census.names)

    def put(rows: DataFrame, table: TableDeclaration, target: Place, order: Sequence[str]) -> None:
        """Write a table of one file, and promote it."""
        source = staging.folder / table.name
        writer = ParquetTables({table.name: TableFolder(source.absolute(), table.schema)})
        files = write_one_file(rows, table.name, writer, order)
        staging.guard()
        replace_folder(source, target, files)

    with disk_errors(staging.folder):
        for number in range(1, settings.runs + 1):
            folder = errors_folder(public, number)
            if not finished(folder):
                discard(staging.folder)
                again = _Replicate(context, number, PublicLayout(staging.folder / "run"))
                run_levels(steps_of(plan), again)
                errors = replicate_errors(estimates, again.estimates(), tables)
                put(errors, ERRORS, folder, ERRORS_ORDER)
                context.progress.report(f"replicates: {number} of {settings.runs}")
        if not finished(offsets_folder(public)):
            errors = read_errors(context.spark, public, settings.runs)
            put(replicate_offsets(errors, float(settings.level)), OFFSETS, offsets_folder(public), OFFSETS_ORDER)
        discard(staging.folder)
        _write_intervals(context, estimates, tables, facts)


def _write_intervals(
    context: RunContext, estimates: DataFrame, tables: Sequence[Table], facts: tuple[str, ...]
) -> None:
    offsets = cache(lambda: collected_offsets(read_offsets(context.spark, context.layout.public)))
    formats = context.plan.output.interval_formats
    writing = TablesWriting.of_run(context, INTERVALS, formats, facts, schema=interval_columns)

    def rows(table: Table) -> DataFrame:
        return intervals_of_counts(at_levels(estimates, writing.levels(table)), table, offsets())

    publish_beside(context, tables, writing, rows)
