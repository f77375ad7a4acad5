"""Stages after estimation: microdata, the privacy statement, and what the two manifests say."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from das_spark.pipeline.features import publications_of
from das_spark.pipeline.spines import load_spine
from das_spark.pipeline.stages import stages_at_work
from das_spark.pipeline.statement import ledger_text, planned_manifest, solver_facts_of, statement_of
from das_spark.privacy import PUBLISHED_DELTA, LedgerEntry
from das_spark.spark.spine_report import share_paths
from das_spark.store import (
    PublicManifest,
    RestrictedManifest,
    StageRecord,
    commits_of,
    level_folder,
    public_files,
    require_held,
    write_durably,
)
from das_spark.telemetry import logged_stages, read_log

if TYPE_CHECKING:
    from das_spark.config import RunPlan, Stage
    from das_spark.evaluation import StageRow
    from das_spark.pipeline.context import RunContext
    from das_spark.privacy import Ledger


#: Public tables whose rows the manifest counts, by level.
_COUNTED = ("geounits", "invariants", "bounds", "measurements", "estimates")


def publish_statement(context: RunContext, entry: LedgerEntry, ledger: Ledger | None) -> PublicManifest:
    """Write the privacy statement, the ledger entry and, last, the manifest, which answers for all public files."""
    require_held(context.layout)
    commits = commits_of(context.layout.restricted.path)
    if commits is not None:
        commits.compare_all()  # what the manifest answers for is what was committed
    public, all_runs = context.layout.public, ""
    if ledger is not None:
        all_runs = ledger.describe(PUBLISHED_DELTA, entry.run_id)
    manifest = _manifest(context, entry, all_runs)
    paths = share_paths(load_spine(context), len(context.spine.levels)) if context.has_shares else ()
    write_durably(public.privacy_statement, statement_of(manifest, context.plan, paths))
    write_durably(public.privacy_ledger, ledger_text(manifest))
    whole = replace(manifest, files=public_files(public, as_written=True))
    require_held(context.layout)
    whole.save(public.manifest)
    return whole


def _manifest(context: RunContext, entry: LedgerEntry, all_runs: str) -> PublicManifest:
    """The public manifest of a run, but for its files; holds nothing that tells of the input."""
    planned = planned_manifest(
        context.plan, entry, run_id=context.layout.run_id, created=context.created, insecure=context.is_insecure
    )
    return replace(
        planned,
        all_runs=all_runs,
        published=dict(context.published_run),
        stages=stage_records(context.plan),
        rows=_rows(context),
        **solver_facts_of(context.layout.public, context.spine.names),
    )


def restricted_manifest(context: RunContext) -> RestrictedManifest:
    """The restricted manifest: what tells of the input, wall times and accuracy."""
    facts = context.restricted_facts
    stages = logged_stages(read_log(context.layout.restricted.log).lines, live=True)
    return RestrictedManifest(
        run_id=context.layout.run_id,
        created=context.created,
        input_files={**(facts.input_files or {}), **facts.geography_files},
        input_rows=facts.input_rows,
        problems=facts.problems,
        seconds=dict(context.progress.seconds) | {stage.name: stage.seconds for stage in stages},
        metrics={stage.name: _cost(stage) for stage in stages},
        accuracy=facts.accuracy,
        places=dict(context.plan.places),
    )


def _cost(stage: StageRow) -> dict[str, object]:
    spent = {} if stage.metrics is None else asdict(stage.metrics)
    return {"entered": stage.entered, "failed": stage.failed, "cut_short": stage.cut_short, **spent}


def stage_records(plan: RunPlan) -> tuple[StageRecord, ...]:
    """Return every stage that has written something public when the manifest is written: not the last two."""
    return tuple(
        StageRecord(work.name, stage.geolevel, tuple(_output(name, stage) for name in work.recorded))
        for stage, work in stages_at_work(plan)
        if work.recorded
    )


def _output(name: str, stage: Stage) -> str:
    """What a stage wrote, as a path below the root."""
    return f"{name}/{level_folder(stage.geolevel)}" if stage.geolevel else name


def counted_tables(plan: RunPlan) -> list[tuple[str, str]]:
    """Return the public tables by level, and the levels, whose rows a manifest counts."""
    levels = plan.spine.names
    places = [(table, name) for table in _COUNTED for name in levels]
    if plan.product.published is not None:
        places += [("published", name) for name in levels]
    if not plan.spine.is_census:
        places += [("shares", name) for name in levels]
    return places


def _rows(context: RunContext) -> dict[str, int]:
    rows = {f"{table}/{name}": context.tables.rows(table, name) for table, name in counted_tables(context.plan)}
    for publication in publications_of(context.plan):
        rows |= publication.rows(context.layout.public)
    return rows
