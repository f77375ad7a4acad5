"""The executor of a run: a level's families are measured, carried upwards and estimated by Spark, and committed once.

Measuring goes journal, draw, stage, promote: a finished level is never drawn again. Estimating reads public tables
alone; families that failed fail the stage once, by name. What is finished already is skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from das_spark.config import OF_A_LEVEL, Stage, StageKind, level_plan, measurement_plan, needs_of
from das_spark.errors import EstimationError
from das_spark.estimation import FamilyStatus
from das_spark.pipeline.charge import agree
from das_spark.pipeline.diagnosed import failed_families, slowest_families
from das_spark.places import Place, disk_errors
from das_spark.spark.arranged import written_files
from das_spark.spark.engine import cores
from das_spark.spark.family_rows import Families, FamilySpan, FamilySpread, StoredLevel
from das_spark.spark.level_pass import (
    EstimationTask,
    MeasurementTask,
    PublicLevel,
    UpwardTask,
    Writing,
    estimates,
    measurements,
    upward,
)
from das_spark.spark.session import entries_of_one_task, require_safe_session
from das_spark.store import (
    Journal,
    Step,
    discard,
    finished,
    make_folder,
    point_latest,
    replace_folder,
    require_held,
    write_durably,
)
from das_spark.store.parquet import ParquetTables, TableFolder
from das_spark.store.tables import TABLES
from das_spark.telemetry import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.core import MeasuredFamily, UpwardResult
    from das_spark.estimation import FamilyPlan
    from das_spark.geography import Spine
    from das_spark.pipeline.context import RunContext
    from das_spark.store import FileRecord

    Written = Mapping[str, tuple[FileRecord, ...]]
    Carry = Callable[[MeasuredFamily, FamilyPlan], UpwardResult]

#: How many failed families an error names and saves.
NAMED = 10
#: Of how many families of a level the log keeps the time.
SLOWEST = 20


@contextmanager
def stage_scope(context: RunContext, stage: Stage) -> Iterator[None]:
    """Run a stage under its name, with the number of its families where it is one of a level."""
    require_held(context.layout)
    number = None
    if stage.kind in OF_A_LEVEL:
        # A geounit of the top level is a family by itself.
        names = context.spine.names
        number = context.tables.geounit_counts()[names[max(context.spine.index(stage.geolevel) - 1, 0)]]
    with context.progress.stage(context.spark, stage.name, number):
        yield


@dataclass(frozen=True, slots=True)
class RunExecutor:
    """Carries out the steps of a run as its stages (`das_spark.core.Executor`)."""

    context: RunContext  # the run
    measured: Callable[[str], None] = lambda geolevel: None  # is called when a level is measured and committed

    def measure(self, geolevel: str) -> None:
        """Measure a level, once."""
        with stage_scope(self.context, Stage(StageKind.MEASURE, geolevel)):
            measure(self.context, geolevel)
        self.measured(geolevel)

    def upward(self, geolevel: str) -> None:
        """Carry a level upwards."""
        with stage_scope(self.context, Stage(StageKind.UPWARD, geolevel)):
            carry_upward(self.context, geolevel)

    def estimate(self, geolevel: str) -> None:
        """Estimate a level."""
        with stage_scope(self.context, Stage(StageKind.ESTIMATE, geolevel)):
            estimate(self.context, geolevel)


def measure(context: RunContext, geolevel: str) -> None:
    """Measure one level, once."""
    journal = Journal.of(context.layout)
    # Before anything is destroyed or drawn, and after each step of the journal: the ledger lies outside this folder,
    # and knows whether another copy of it has gone on.
    agreed = partial(agree, context.required_ledger(), journal, geolevel)
    agreed()
    decision = journal.next_step(geolevel)
    agreed()
    place = {"geolevel": geolevel, "attempt": decision.number}
    log = context.progress.log
    if decision.step is Step.DRAW:
        if decision.number > 1:
            log(Event.LEVEL_DESTROYED, geolevel=geolevel, attempt=decision.number - 1)
        synthetic = context.plan.input.is_simulated
        require_safe_session(context.spark, insecure=context.is_insecure, synthetic=synthetic)
        require_held(context.layout)
        _require_whole_input(context, geolevel)
        journal.open(geolevel, decision.number)
        agreed()
        log(Event.LEVEL_OPENED, **place)
        staging = context.layout.restricted.staging("measurements", geolevel, decision.number)
        with disk_errors(staging):
            written = _draw(context, geolevel, decision.number, staging)
        log(Event.LEVEL_DRAWN, **place)
        require_held(context.layout)
        journal.stage(geolevel, decision.number, written)
        agreed()
        log(Event.LEVEL_STAGED, **place)
    if decision.step is Step.NOTHING:
        log(Event.LEVEL_SKIPPED, geolevel=geolevel, work="measure")
    else:
        require_held(context.layout)
        journal.promote(geolevel, decision.number)
        log(Event.LEVEL_PROMOTED, **place)
        point_latest(context.layout)


def _require_whole_input(context: RunContext, geolevel: str) -> None:
    """Refuse to draw where a file of what is joined was lost, before an attempt is begun."""
    parents = LevelJobs.of(context).parents(geolevel)
    context.tables.require_complete("histograms", geolevel)
    if parents is not None:
        context.tables.require_complete("estimates", parents)
    if context.has_shares:
        context.tables.require_complete("shares", geolevel)


@dataclass(frozen=True, slots=True)
class LevelJobs:
    """The jobs of Spark that measure, carry upwards and estimate a level, wherever its tables lie.

    Each writes tables into folders that are given by the names of the tables, and returns the files.
    """

    plan: RunPlan
    spine: Spine
    spark: SparkSession
    folder: Callable[[str, str], Place]  # where a level of a table lies, by the names of both

    @classmethod
    def of(cls, context: RunContext) -> LevelJobs:
        """Those of a run."""
        return cls(context.plan, context.spine, context.spark, context.tables.folder)

    def read(self, table: str, geolevel: str) -> StoredLevel:
        """A level of a table."""
        return StoredLevel.of(self.folder(table, geolevel))

    def spread(self, geolevel: str, *, grouped: bool = True) -> FamilySpread:
        """The families whose children are of a level, and over which files and partitions they are spread."""
        span, above = FamilySpan.of(self.spine, geolevel, grouped=grouped), self.above(geolevel)
        if above is None:
            families = Families.of_children(self.read("geounits", geolevel), span)
        else:
            families = Families.of_parents(self.read("geounits", above), span)
        entries = int(families.children.sum()) * self.plan.product.schema.size
        # Planning a shuffle of some hundred rows takes longer than the work on them.
        partitions = cores(self.spark) * self.plan.estimation.partitions_per_core
        return FamilySpread.of(families, 1 if entries <= entries_of_one_task(self.spark) else partitions)

    @property
    def upward_levels(self) -> tuple[str, ...]:
        """The levels of the pass upwards, from the top."""
        return needs_of(self.plan).upward_levels(self.spine.names)

    def above(self, geolevel: str) -> str | None:
        """The level above one, where there is one."""
        depth = self.spine.index(geolevel)
        return self.spine.names[depth - 1] if depth else None

    def parents(self, geolevel: str) -> str | None:
        """The level above one, where there is one and it is estimated when the level is measured."""
        return None if geolevel in self.upward_levels else self.above(geolevel)

    def measure(self, histograms: StoredLevel, geolevel: str, task: MeasurementTask, folder: Place) -> Written:
        """Measure histograms of a level."""
        writer, parents = table_writer({"measurements": folder}), self.parents(geolevel)
        report = measurements(
            self.spark,
            histograms,
            None if parents is None else self.read("estimates", parents),
            task,
            self.spread(geolevel, grouped=False),
            Writing(writer),
            shares=None if self.spine.is_census else self.read("shares", geolevel),
        )
        return written_files(report, writer)

    def upward(self, geolevel: str, folders: Mapping[str, Place]) -> Written:
        """Carry a level upwards, as the estimator of the run does."""
        sums = None if geolevel == self.upward_levels[-1] else self.read("upward_sums", geolevel)
        return self.carry_up(geolevel, sums, level_plan(self.plan, geolevel).estimator.upward, folders)

    def upward_folders(self, geolevel: str, folder: Callable[[str, str], Place]) -> dict[str, Place]:
        """Where a level is carried to; the level itself comes last, since it says that the pass through it is done."""
        above = self.above(geolevel)
        sums = {} if above is None else {"upward_sums": folder("upward_sums", above)}
        return {**sums, "upward": folder("upward", geolevel)}

    def carry_up(
        self,
        geolevel: str,
        sums: StoredLevel | None,
        carry: Carry,
        folders: Mapping[str, Place],
        *,
        of_every: bool = True,
    ) -> Written:
        """Carry a level upwards; `sums` is what is known of every geounit with children by them, or else of some."""
        writer, task = table_writer(folders), UpwardTask(level_plan(self.plan, geolevel), carry)
        level = self.level(geolevel, sums)
        if not of_every:
            level = replace(level, unknown=None)
        elif sums is not None:
            rows = level.geounits.read("geocode", "children")
            childless = rows.column("geocode").filter(pc.equal(rows.column("children"), 0)).to_pylist()
            level = replace(level, unknown=frozenset(childless))
        return written_files(upward(self.spark, level, task, self.spread(geolevel), Writing(writer)), writer)

    def estimate(self, geolevel: str, folders: Mapping[str, Place]) -> Written:
        """Estimate a level."""
        known = self.read("upward", geolevel) if geolevel in self.upward_levels else None
        writer, above = table_writer(folders), self.above(geolevel)
        report = estimates(
            self.spark,
            self.level(geolevel, known),
            None if above is None else self.read("estimates", above),
            estimation_task(self.plan, geolevel),
            self.spread(geolevel),
            Writing(writer),
            arrays=None if above is None or "estimate_arrays" not in folders else self.read("estimate_arrays", above),
        )
        return written_files(report, writer)

    def level(self, geolevel: str, known: StoredLevel | None) -> PublicLevel:
        """What is public of a level, with what is known of it from below."""
        geounits, measured, bounds = (self.read(name, geolevel) for name in ("geounits", "measurements", "bounds"))
        published = None if self.plan.product.published is None else self.read("published", geolevel)
        return PublicLevel(geounits, measured, bounds, known, published)


def _draw(context: RunContext, geolevel: str, attempt: int, staging: Place) -> tuple[FileRecord, ...]:
    """Measure the confidential histograms of a level into the staging folder of an attempt."""
    jobs, task = LevelJobs.of(context), measurement_task(context, geolevel, attempt)
    return jobs.measure(jobs.read("histograms", geolevel), geolevel, task, staging)["measurements"]


def measurement_task(context: RunContext, geolevel: str, attempt: int) -> MeasurementTask:
    """What the tasks of one attempt at a level are given."""
    plan = measurement_plan(context.plan, geolevel, context.shares_of(geolevel), context.required_key(), attempt)
    return MeasurementTask(replace(plan, blind=context.options.blind))


def carry_upward(context: RunContext, geolevel: str) -> None:
    """Carry one level upwards, from what is public."""
    if finished(context.tables.folder("upward", geolevel)):
        context.progress.log(Event.LEVEL_SKIPPED, geolevel=geolevel, work="upward")
        return
    jobs = LevelJobs.of(context)
    staging = context.tables.fresh_staging("upward", geolevel)
    folders = jobs.upward_folders(geolevel, context.tables.folder)
    with disk_errors(staging):
        _commit(context, staging, folders, jobs.upward(geolevel, {table: staging / table for table in folders}))


def estimate(context: RunContext, geolevel: str) -> None:
    """Estimate one level from what is public."""
    target = context.tables.folder("estimates", geolevel)
    if finished(target):
        context.progress.log(Event.LEVEL_SKIPPED, geolevel=geolevel, work="estimate")
        return
    jobs = LevelJobs.of(context)
    above = jobs.above(geolevel)
    if above is not None:
        context.tables.require_complete("estimates", above)
    arrays = bool(needs_of(context.plan).arrays)
    staging = context.tables.fresh_staging("estimates", geolevel)
    # One job makes all tables side by side; the estimates come last, since they say that the level is done.
    names = ("diagnostics", *(["estimate_arrays"] if arrays else []), "estimates")
    with disk_errors(staging):
        written = jobs.estimate(geolevel, {table: staging / table for table in (*names, "seconds")})
        try:
            _refuse_failures(context, geolevel, staging / "diagnostics")
        except EstimationError:
            discard(staging)
            raise
        families = slowest_families(staging / "diagnostics", staging / "seconds", SLOWEST)
        # Times are restricted: the log is.
        context.progress.log(Event.FAMILIES_SLOWEST, geolevel=geolevel, families=families)
        _commit(context, staging, {table: context.tables.folder(table, geolevel) for table in names}, written)


def estimation_task(plan: RunPlan, geolevel: str) -> EstimationTask:
    """What the tasks of a level are given."""
    return EstimationTask(level_plan(plan, geolevel))


def table_writer(folders: Mapping[str, Place]) -> ParquetTables:
    """What writes tables of a run, each into a folder, in tasks."""
    return ParquetTables({name: TableFolder(path.absolute(), TABLES[name].schema) for name, path in folders.items()})


def _commit(
    context: RunContext,
    staging: Place,
    folders: Mapping[str, Place],
    written: Written,
) -> None:
    for table, folder in folders.items():
        require_held(context.layout)
        replace_folder(staging / table, folder, written[table])  # a driver may have died before all were whole
    discard(staging)


def _refuse_failures(context: RunContext, geolevel: str, diagnostics: Place) -> None:
    number, rows = failed_families(diagnostics, NAMED)
    if not number:
        return
    public = context.layout.public
    make_folder(public.problems)
    for row in rows:
        write_durably(public.problem(geolevel, row["family"]), row["problem"])
    named = "; ".join(f"{row['family']} ({row['status']}: {row['message']})" for row in rows)
    context.progress.log(
        Event.FAMILIES_FAILED, geolevel=geolevel, families=number, named=[row["family"] for row in rows]
    )
    # What is measured stays, and this setting is the one that may change when the run is resumed.
    unproved = all(row["status"] == str(FamilyStatus.UNCERTIFIED) for row in rows)
    other = "no draw is lost: the same command with estimation.accept_uncertified = true publishes them with their gaps"
    hint = other if unproved else "added constraints can do that (estimation.failsafe)"
    raise EstimationError(
        f"{number:,} families of level {geolevel} could not be estimated: {named}",
        hint=f"the problems are saved in {public.problems}; {hint}",
    )
