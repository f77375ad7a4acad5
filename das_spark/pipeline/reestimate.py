"""A run from measurements that exist: no confidential input, no key, nothing drawn, nothing charged.

All that can be refused is refused before the folder of the run is made. From the estimates on, it is a run like any
other: microdata, tables, statement, manifests and verification.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from das_spark.config import Stage, StageKind, stages_from_measurements, steps_of
from das_spark.core import Work, run_levels
from das_spark.errors import ConfigurationError, DasError
from das_spark.io.noisy_files import RECORD
from das_spark.pipeline.driver import driver_attempt, look_ahead
from das_spark.pipeline.levels import RunExecutor, stage_scope
from das_spark.pipeline.noisy_sources import open_external, open_measurements
from das_spark.pipeline.progress import Progress
from das_spark.pipeline.published import load_published
from das_spark.pipeline.runner import publish_results, usual_run_id
from das_spark.pipeline.sources import imported_tables, open_run_source
from das_spark.pipeline.spines import load_spine
from das_spark.places import Place
from das_spark.spark.session import session
from das_spark.store import RunLayout, discard, finished, point_latest, require_held

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.sources import Source
    from das_spark.pipeline.summary import RunSummary


def open_source(
    run: Place | None, measurements: Place | None, settings: Sequence[str] = (), external: RunPlan | None = None
) -> Source:
    """Find measurements, and verify all of them that can be verified without Spark.

    Args:
        run: Folder of a finished run, or its public folder.
        measurements: Folder of measurements instead.
        settings: Texts `key.path=value` of `estimation` and `output`.
        external: What was measured, for external files: they do not say so themselves.

    Raises:
        ConfigurationError: Both or none are given, or a setting is about what the measurements fix.
        InputError: The measurements are not what they must be.
        OutputError: There is no finished run.
    """
    if measurements is None and run is not None:
        if external is not None:
            raise ConfigurationError("estimate: a run has its own configuration", hint="leave --conf out")
        return open_run_source(run, settings)
    if measurements is None or run is not None:
        raise ConfigurationError(
            "estimate: name a run, or measurements", hint="das-spark estimate RUN, or --from-measurements PATH"
        )
    if external is None:
        return open_measurements(measurements, settings)
    if (measurements / RECORD).is_file():
        raise ConfigurationError(
            f"{measurements}: has its own configuration in {RECORD}",
            hint="leave --conf out; --set changes estimation and output",
        )
    return open_external(measurements, external)


def estimate_from(
    source: Source,
    *,
    run_id: str | None = None,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] = lambda line: None,
) -> RunSummary:
    """Carry out a run from measurements, or resume it where it stopped.

    Args:
        source: Result of `open_source`.
        run_id: Name of the run folder; by default the plan's name, "estimate" and the time.
        spark: The session; found or started where None.
        progress: Is given a line at a time.

    Raises:
        DasError: See `das_spark.errors`; the run can be resumed after the cause is mended.
    """
    plan = source.plan
    name = run_id or usual_run_id(f"{plan.name}-estimate")
    layout = RunLayout.of(plan.output, name).as_published()
    look_ahead(plan, layout, stages_from_measurements(plan), progress)
    started, reported = spark or session(f"das_spark {name}"), Progress(progress, name)
    levels = [layout.public.level(table, level) for table in imported_tables(plan) for level in plan.spine.names]
    imported = all(finished(level) for level in levels)
    if not imported:
        with reported.stage(started, Stage(StageKind.CHECK).name):
            source.check(started)
    with driver_attempt(plan, layout, reported, measured_by=source.entry, spark=started) as context:
        if not imported:
            with stage_scope(context, Stage(StageKind.IMPORT)):
                _import_tables(context, source)
            point_latest(layout)
        if context.has_shares:
            load_spine(context)
        load_published(context)
        run_levels([step for step in steps_of(plan) if step.work is not Work.MEASURE], RunExecutor(context))
        return publish_results(context, source.entry, None)


def _import_tables(context: RunContext, source: Source) -> None:
    """Take the tables over, all or none."""
    try:
        source.write_tables(context)
    except DasError:
        require_held(context.layout)  # what stands there may belong to another driver by now
        for table in imported_tables(context.plan):
            discard(context.layout.public.table(table))
        raise
