"""Stages after estimation: microdata, the privacy statement, and what the two manifests say."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from das_spark.config import (
    StageKind,
    stages_from_measurements,
    stages_of,
)
from das_spark.io.microdata_files import MicrodataWriting, records_of
from das_spark.pipeline.features import counted_outputs, features_of
from das_spark.pipeline.sources import imported_tables
from das_spark.pipeline.spines import load_spine
from das_spark.pipeline.statement import ledger_text, planned_manifest, solver_facts_of, statement_of
from das_spark.pipeline.tabulate import PLACE as TABLES
from das_spark.pipeline.tabulate import table_rows
from das_spark.privacy import PUBLISHED_DELTA, LedgerEntry
from das_spark.spark.census import census_histograms, on_census
from das_spark.spark.microdata import write_microdata
from das_spark.spark.spine_report import share_paths
from das_spark.store import (
    PublicManifest,
    RestrictedManifest,
    StageRecord,
    commits_of,
    finished,
    guarded_staging,
    level_folder,
    public_files,
    require_held,
    strict_json,
    write_durably,
)
from das_spark.store.tables import published_estimates
from das_spark.telemetry import logged_stages, read_log

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import DataFrame

    from das_spark.config import RunPlan, Stage
    from das_spark.evaluation import StageRow
    from das_spark.geography import Spine
    from das_spark.pipeline.context import RunContext
    from das_spark.privacy import Ledger
    from das_spark.store import PublicLayout
    from das_spark.tabulation import TableShell


#: Public tables whose rows the manifest counts, by level.
_COUNTED = ("geounits", "invariants", "bounds", "measurements", "estimates")


def publish_microdata(context: RunContext) -> None:
    """Write the microdata of what is counted and, where people are assigned to units, of the units."""
    plan = context.plan
    kinds = plan.product.files(units=plan.invariants.units)
    folders = [context.layout.public.microdata(kind, each) for kind in kinds for each in plan.output.microdata]
    rows_file = context.layout.public.microdata_rows
    if all(finished(folder) for folder in folders) and rows_file.is_file():
        context.microdata_rows = strict_json(rows_file.read_text(encoding="utf-8"))
        return
    leaf = plan.spine.leaf.name
    declared = context.tables.read("invariants", leaf) if plan.invariants.units else None
    writing = MicrodataWriting(
        plan.product,
        context.layout.public,
        plan.output.microdata,
        guarded_staging(context.layout, context.layout.public, "microdata"),
        context.created,
        context.notices,
        plan.output.microdata_files,
    )
    written = write_microdata(
        writing,
        context.tables.read(context.published, leaf),
        on_census(declared) if declared is not None and context.has_shares else declared,
        _published(context),
    )
    rows = records_of(written)
    write_durably(rows_file, json.dumps(rows))
    context.microdata_rows = rows


def _published(context: RunContext) -> DataFrame | None:
    """What another product has published of the leaves, by geocodes of the census; None where that is nothing."""
    if context.plan.product.published is None:
        return None
    leaves = context.tables.read("published", context.spine.leaf.name)
    return on_census(leaves) if context.has_shares else leaves


def publish_census(context: RunContext) -> None:
    """Write the estimates by geounits of the census, where the spine has others."""
    levels = context.census.names
    if context.has_shares and not context.tables.is_finished(context.published, levels):
        leaf = context.tables.read("estimates", context.spine.leaf.name)
        context.tables.write_all(context.published, census_histograms(leaf, context.census), levels=levels)


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
    rows = _rows(context)
    planned = planned_manifest(
        context.plan, entry, run_id=context.layout.run_id, created=context.created, insecure=context.is_insecure
    )
    return replace(
        planned,
        all_runs=all_runs,
        published=dict(context.published_run),
        stages=stage_records(context.plan, rows),
        rows=rows,
        **solver_facts_of(context.layout.public, context.spine.names),
    )


def restricted_manifest(context: RunContext) -> RestrictedManifest:
    """The restricted manifest: what tells of the input, wall times and accuracy."""
    facts = context.restricted_facts
    stages = logged_stages(read_log(context.layout.restricted.log).lines, live=True)
    return RestrictedManifest(
        run_id=context.layout.run_id,
        created=context.created,
        input_files=facts.input_files or {},
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


def stage_records(plan: RunPlan, rows: Iterable[str]) -> tuple[StageRecord, ...]:
    """Return every stage that has written something public when the manifest is written: not the last two.

    Args:
        plan: Of the run.
        rows: Names under which the manifest counts rows.
    """
    made = ("geounits", "invariants", "bounds")
    spine = () if plan.spine.is_census else ("spine", "shares")
    names = list(rows)

    def counted(place: str) -> tuple[str, ...]:
        return tuple(name for name in names if name.startswith(f"{place}/"))

    outputs: dict[str, tuple[str, ...]] = {
        StageKind.SPINE: spine,
        StageKind.INGEST: made,
        StageKind.PUBLISHED: ("published",),
        StageKind.IMPORT: (*spine, *imported_tables(plan)),
        StageKind.MEASURE: ("measurements",),
        StageKind.ESTIMATE: ("estimates", "diagnostics"),
        StageKind.CENSUS: (published_estimates(plan.spine),),
        StageKind.MICRODATA: ("microdata",),
        StageKind.TABULATE: counted(TABLES),
        **{each.name: tuple(output.path for output in each.outputs()) for each in features_of(plan)},
    }
    stages = stages_of(plan) if plan.origin is None else stages_from_measurements(plan)
    return tuple(
        StageRecord(str(stage.kind), stage.geolevel, tuple(_output(name, stage) for name in outputs[stage.kind]))
        for stage in stages
        if stage.kind in outputs
    )


def _output(name: str, stage: Stage) -> str:
    """What a stage wrote, as a path below the root."""
    return f"{name}/{level_folder(stage.geolevel)}" if stage.geolevel else name


def counted_tables(plan: RunPlan) -> list[tuple[str, str]]:
    """Return the public tables by level, and the levels, whose rows a manifest counts."""
    levels, census = plan.spine.names, plan.product.census(plan.spine)
    places = [(table, name) for table in _COUNTED for name in levels]
    if plan.product.published is not None:
        places += [("published", name) for name in levels]
    if not plan.spine.is_census:
        places += [("shares", name) for name in levels]
        places += [(published_estimates(plan.spine), name) for name in census.names]
    return places


def _rows(context: RunContext) -> dict[str, int]:
    plan = context.plan
    tables = plan.product.every_table_on(plan.spine, units=plan.invariants.units)
    written = [(table, format) for table in tables for format in plan.output.tables]
    counted = {f"{table}/{name}": context.tables.rows(table, name) for table, name in counted_tables(plan)}
    return (
        counted
        | {f"microdata/{name}": rows for name, rows in context.microdata_rows.items()}
        | rows_beside_microdata(context.layout.public, plan, context.census, written)
    )


def rows_beside_microdata(
    public: PublicLayout, plan: RunPlan, census: Spine, written: Iterable[tuple[TableShell, str]]
) -> dict[str, int]:
    """Count what the files of tables, and of what goes with them, hold.

    Args:
        public: Where they lie.
        plan: Of the run.
        census: Geolevels of the published tables.
        written: The tables, each with each format.
    """
    return table_rows(public.tables, list(written), census) | {
        each.path: each.rows(public) for each in counted_outputs(plan)
    }
