"""Go through the stages of a run: what is finished is skipped, what is half done done again, nothing drawn twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from das_spark.config import (
    OF_A_LEVEL,
    Stage,
    is_preparing,
    require_dataset,
    stages_of,
    stages_until,
    steps_of,
)
from das_spark.core import run_levels
from das_spark.errors import VerificationError
from das_spark.pipeline.charge import enter_level, enter_manifest, enter_run, is_charged
from das_spark.pipeline.context import RunOptions
from das_spark.pipeline.driver import driver_attempt, look_ahead
from das_spark.pipeline.features import Publication
from das_spark.pipeline.levels import RunExecutor, stage_scope
from das_spark.pipeline.progress import Progress
from das_spark.pipeline.publish import publish_statement, restricted_manifest
from das_spark.pipeline.published import part_that_publishes
from das_spark.pipeline.space import require_disk_space
from das_spark.pipeline.spines import shares_on_paths
from das_spark.pipeline.stage import Judgement, Preparation
from das_spark.pipeline.stages import stages_at_work
from das_spark.pipeline.summary import RunSummary, stopped, summary_of
from das_spark.privacy import Ledger, LedgerEntry, RunKey
from das_spark.process import forbid_core_files
from das_spark.store import CompletionRecord, RunLayout, now, publish, require_held, set_times
from das_spark.telemetry import Event

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.stage import RunStage


def run_stages(
    plan: RunPlan,
    *,
    run_id: str | None = None,
    test_key: str | None = None,
    spark: SparkSession | None = None,
    progress: Callable[[str], None] = lambda line: None,
    until: str | None = None,
    options: RunOptions | None = None,
) -> RunSummary:
    """Carry out a run, or resume it where it stopped.

    Args:
        plan: What to do.
        run_id: Name of the run folder; by default the plan's name and the time.
        test_key: INSECURE: a text from which all noise follows; every output is marked.
        spark: The session; found or started where None.
        progress: Is given a line at a time.
        until: Name of the last stage to carry out, one of `stage_names`; a later call with the same run id goes on.
        options: How; by default as a run by itself.

    Raises:
        ConfigurationError: The run has no such stage; nothing was begun.
        DasError: See `das_spark.errors`; the run can be resumed after the cause is mended.
    """
    stages_until(plan, until)  # a wrong name is refused before a folder is made
    chosen = replace(options or RunOptions(), until=until)
    with opened_run(plan, run_id or usual_run_id(plan.name), test_key, spark, progress, chosen) as context:
        return carry_out(context, until)


def charge(context: RunContext) -> tuple[LedgerEntry, Ledger]:
    """Charge a run that has read its input, if the disks can hold what is left of it."""
    if not is_charged(context.layout):
        require_disk_space(context)
    return enter_run(context.required_ledger(), () if is_charged(context.layout) else shares_on_paths(context))


def usual_run_id(name: str) -> str:
    """The id of a run that was given none: its plan's name and the time."""
    return f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"


@contextmanager
def opened_run(
    plan: RunPlan,
    name: str,
    test_key: str | None,
    spark: SparkSession | None,
    progress: Callable[[str], None],
    options: RunOptions | None,
) -> Iterator[RunContext]:
    """A run that reads the input, under a key of its own; all that it will need is tried before anything is made."""
    chosen = options or RunOptions()
    began = chosen.created or now()  # before the input is looked at
    if test_key is None:
        require_dataset(plan.input)  # before a folder is made
    layout = RunLayout.of(plan.output, name).as_published()
    if not chosen.tried:
        # All stages, also where this call ends before the last: another call goes on with what this one spends.
        look_ahead(plan, layout, stages_of(plan), progress, chosen.until)
    forbid_core_files()  # whoever called: from here on there is a key in this process
    key = RunKey.from_system() if test_key is None else RunKey.insecure(test_key)
    chosen = replace(chosen, created=began)
    with driver_attempt(plan, layout, Progress(progress, name), key=key, spark=spark, options=chosen) as context:
        yield context


def carry_out(context: RunContext, until: str | None = None) -> RunSummary:
    """Carry out the stages of a run that is open."""
    stages = stages_until(context.plan, until)
    read_input(context, until)
    levels = [stage for stage in stages if stage.kind in OF_A_LEVEL]
    later = [
        (stage, work)
        for stage, work in _at_work(context, stages)
        if isinstance(work, Preparation) and not is_preparing(context.plan, stage.name)
    ]
    if not levels and not later:
        return stopped(context, stages)
    if later:
        part_that_publishes(context)  # a part that is carried out by itself spends nothing
    entry, ledger = charge(context)  # a run that stops before it measures has spent nothing
    for stage, work in later:
        with stage_scope(context, stage):
            work.prepare(context)

    def measured(geolevel: str) -> None:
        nonlocal entry, ledger
        entry, ledger = enter_level(context.required_ledger(), entry, geolevel)

    run_levels(steps_of(context.plan)[: len(levels)], RunExecutor(context, measured))
    return publish_results(context, entry, ledger, until)


def read_input(context: RunContext, until: str | None = None) -> None:
    """Carry out the stages that read the input, unless that is done already; nothing is charged or drawn."""
    context.restricted_facts.input_files = {str(file["file"]): file for file in context.required_ledger().files}
    for stage, work in _at_work(context, stages_until(context.plan, until)):
        if isinstance(work, Preparation) and is_preparing(context.plan, stage.name):
            with stage_scope(context, stage):
                work.prepare(context)


def publish_results(
    context: RunContext, entry: LedgerEntry, ledger: Ledger | None, until: str | None = None
) -> RunSummary:
    """Make all that is made of estimates: microdata, tables, statement, manifests, verification, accuracy."""
    stages = stages_until(context.plan, until)
    at_work = _at_work(context, stages)
    for stage, work in at_work:
        if isinstance(work, Publication):
            with stage_scope(context, stage):
                work.publish(context)
    judging = [(stage, work) for stage, work in at_work if isinstance(work, Judgement)]
    if not judging:
        return stopped(context, stages)
    manifest = publish_statement(context, entry, ledger)
    if context.ledger is not None:
        enter_manifest(context.ledger, entry, manifest.sha256)
    # What is examined is known again by its times of change, which are those that it keeps.
    set_times(context.layout.public.path, datetime.fromisoformat(context.created))
    done = CompletionRecord.of(context.layout, manifest.to_json())
    for stage, judgement in judging:
        with stage_scope(context, stage):
            done = judgement.judge(context, done)
        done.save(context.layout)
    if stages == stages_of(context.plan):
        restricted = restricted_manifest(context)
        require_held(context.layout)
        restricted.save(context.layout.restricted.manifest)
    if not done.passed:
        raise VerificationError(done.verified, hint=f"see {context.layout.public.verification}")
    if stages != stages_of(context.plan):
        return stopped(context, stages)
    summary = summary_of(context, manifest, done.verified)
    done.moved(publish(context.layout), manifest.to_json())
    context.progress.log(Event.RUN_FINISHED)
    return summary


def _at_work(context: RunContext, asked: Sequence[Stage]) -> list[tuple[Stage, RunStage]]:
    """Return what is done in the stages that are asked for."""
    return [(stage, work) for stage, work in stages_at_work(context.plan) if stage in asked]
