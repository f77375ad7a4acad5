"""Replicates: a run done again on its own output, for intervals of the counts that it publishes.

A replicate takes the published estimates for the truth, measures them as the run has measured, with noise that anybody
can draw again, and estimates as the run has estimated. Nothing confidential is read; nothing is charged. What is kept
of a replicate is how often each error occurs, so that a run that was stopped goes on with the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from das_spark.config import measurement_plan, needs_of, steps_of
from das_spark.core import run_levels
from das_spark.errors import EstimationError
from das_spark.pipeline.diagnosed import failed_families
from das_spark.pipeline.levels import NAMED, LevelJobs, table_writer
from das_spark.pipeline.tabulate import TablesWriting, named, named_in_formats, run_fact, table_rows
from das_spark.privacy import RunKey
from das_spark.spark.arranged import write_levels, write_one_file
from das_spark.spark.census import census_histograms
from das_spark.spark.family_rows import StoredLevel
from das_spark.spark.level_pass import MeasurementTask
from das_spark.spark.replicates import (
    collected_offsets,
    intervals_of_counts,
    replicate_errors,
    replicate_offsets,
    replicate_schema,
)
from das_spark.spark.tables import at_levels, levels_together, read_levels, read_table, union
from das_spark.store import PublicLayout, discard, disk_errors, finished, guarded_staging, replace_folder

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from das_spark.config import ReplicateSettings, RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.tabulation import Table

#: What rows of intervals of published counts are counted under in the manifest.
PLACE: Final = "replicate_intervals"
#: Tables that a replicate has of its own; it shares all others with the run.
_OWN: Final = ("measurements", "diagnostics", "upward", "upward_sums", "estimates", "estimate_arrays")


@dataclass(frozen=True, slots=True)
class _Replicate:
    """Measures and estimates what a run has published (`das_spark.core.Executor`), in a folder of its own."""

    context: RunContext
    number: int
    folder: PublicLayout[Path]

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

    def _folder(self, table: str, geolevel: str) -> Path:
        return self.folder.level(table, geolevel) if table in _OWN else self.context.tables.folder(table, geolevel)

    def _read(self, table: str, geolevel: str) -> DataFrame:
        return read_table(self.context.spark, table, self._folder(table, geolevel))


def replicate_intervals_of(plan: RunPlan) -> list[tuple[Table, str]]:
    """Tables whose counts have intervals from replicates, each with each format."""
    return named_in_formats(plan, () if plan.output.replicates is None else plan.output.replicates.tables)


def replicate_facts(plan: RunPlan, run_id: str, created: str, notices: Sequence[str]) -> tuple[str, ...]:
    """What the folder of each table of intervals of published counts says."""
    settings = plan.output.replicates
    said = () if settings is None else sentences(settings)
    return (*notices, run_fact(run_id, plan.product.name, created), *said)


def publish_replicates(context: RunContext) -> None:
    """Carry out the replicates of a run that are not finished, and write the intervals that follow."""
    plan, public, settings = context.plan, context.layout.public, context.plan.output.replicates
    if settings is None:
        return
    tables = named(plan, settings.tables)
    staging = guarded_staging(context.layout, public, "replicates")
    estimates = read_levels(context.spark, public, context.published, context.census.names)

    def put(rows: DataFrame, name: str, target: Path, order: Sequence[str]) -> None:
        """Write a table of one file, and promote it."""
        source = staging.folder / name
        writer = table_writer({name: source})
        files = write_one_file(rows, name, writer, order)
        staging.guard()
        replace_folder(source, target, files)

    with disk_errors(staging.folder):
        for number in range(1, settings.runs + 1):
            if not finished(public.replicate_errors(number)):
                discard(staging.folder)
                again = _Replicate(context, number, PublicLayout(staging.folder / "run"))
                run_levels(steps_of(plan), again)
                errors = replicate_errors(estimates, again.estimates(), tables)
                put(
                    errors,
                    "replicate_errors",
                    public.replicate_errors(number),
                    ("level", "column", "class", "difference"),
                )
                context.progress.report(f"replicates: {number} of {settings.runs}")
        if not finished(public.replicate_offsets):
            errors = union(
                read_table(context.spark, "replicate_errors", public.replicate_errors(number))
                for number in range(1, settings.runs + 1)
            )
            offsets = replicate_offsets(errors, float(settings.level))
            put(offsets, "replicate_offsets", public.replicate_offsets, ("level", "column", "class"))
        discard(staging.folder)
        _write_intervals(context, estimates, tables)
    written = replicate_intervals_of(plan)
    context.replicate_rows = table_rows(public.replicate_intervals, written, context.census, place=PLACE)


def _write_intervals(context: RunContext, estimates: DataFrame, tables: Sequence[Table]) -> None:
    public = context.layout.public
    for folder in public.replicate_intervals.abandoned:
        discard(folder)
    staging = guarded_staging(context.layout, public, PLACE)
    facts = replicate_facts(context.plan, context.layout.run_id, context.created, context.notices)
    formats = context.plan.output.interval_formats
    writing = TablesWriting(
        public.replicate_intervals, staging, context.census, formats, facts, schema=replicate_schema
    )
    left = [table for table in tables if not writing.is_finished(table)]
    if not left:
        return
    discard(staging.folder)
    offsets = collected_offsets(read_table(context.spark, "replicate_offsets", public.replicate_offsets))
    leaves = read_table(context.spark, context.published, public.level(context.published, context.census.leaf.name))
    for table in left:
        rows = intervals_of_counts(at_levels(estimates, writing.levels(table)), table, offsets)
        files = write_levels(rows, table.name, writing.writer(table), leaves, context.census, ["geocode"])
        writing.promote((table, files))
        discard(staging.folder)


def sentences(settings: ReplicateSettings) -> tuple[str, ...]:
    """What a reader of intervals of published counts must know."""
    return (
        "A column without ending is the published count, the same as in the tables of the run; the truth lies from "
        f"_low to _high with a probability of about {100 * float(settings.level):g} %, and _rmse is the expected root "
        "mean square error of such counts.",
        f"Both are from {settings.runs} replicates: the run done again on its own output, so that errors are known. "
        "They are pooled over counts of about one size in geounits of about one size: they say how far counts of that "
        "kind are from the truth, and hold on average over them, not for each geounit by itself.",
        "They know the noise better than the bias: where keeping counts nonnegative moves them most, such as totals of "
        "blocks and people in group quarters, they cover the truth less often.",
        "Post-processing of what is public; the confidential counts have no part in it.",
    )
