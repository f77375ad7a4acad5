"""Stages after estimation: microdata, the privacy statement, and what the two manifests say."""

from __future__ import annotations

import json
import platform
from dataclasses import asdict, replace
from importlib import metadata
from typing import TYPE_CHECKING

from das_spark import __version__
from das_spark.config import (
    StageKind,
    geounit_sentences,
    holding_losses,
    needs_of,
    notice_of_people,
    plan_to_config,
    published_from_people,
    rules_from_people,
    stages_from_measurements,
    stages_of,
    stays_within,
)
from das_spark.io.diagnostics_files import solver_facts
from das_spark.io.dictionary import data_dictionary
from das_spark.io.microdata_files import records_of
from das_spark.pipeline.charge import declared_invariants
from das_spark.pipeline.origin import Origin
from das_spark.pipeline.spines import adopt_spine
from das_spark.privacy import PUBLISHED_DELTA, LedgerEntry, StatementFacts, privacy_statement
from das_spark.spark.census import census_histograms, on_census
from das_spark.spark.microdata import write_microdata
from das_spark.spark.spine_report import share_paths
from das_spark.store import (
    PublicManifest,
    RestrictedManifest,
    StageRecord,
    finished,
    guarded_staging,
    public_files,
    require_held,
    write_durably,
)
from das_spark.store.tables import of_estimator
from das_spark.telemetry import logged_stages, read_log

if TYPE_CHECKING:
    from collections.abc import Sequence

    from das_spark.config import RunPlan, Stage
    from das_spark.evaluation import SharePath, StageRow
    from das_spark.pipeline.context import RunContext
    from das_spark.privacy import Ledger
    from das_spark.store import PublicLayout


INSECURE = "INSECURE: made under a test key; nothing protects these outputs; for tests only"
_SOFTWARE = ("pyspark", "numpy", "scipy", "osqp", "piqp", "clarabel", "numba", "pyarrow", "cryptography")
#: Most right-hand sides of an added constraint that the statement spells out.
_SPELLED = 16
#: Public tables whose rows the manifest counts, by level.
_COUNTED = ("geounits", "invariants", "bounds", "measurements", "estimates")


def notices_of(context: RunContext) -> tuple[str, ...]:
    """Sentences that every public file of the run must carry."""
    return planned_notices(context.plan, insecure=context.is_insecure)


def planned_notices(plan: RunPlan, *, insecure: bool) -> tuple[str, ...]:
    """Sentences that every public file of a run must carry."""
    found = [INSECURE] if insecure else []
    found += notice_of_people(published_from_people(plan.acknowledged, plan.spine.leaf.name))
    if plan.estimation.failsafe:
        found.append("Consistency with the parent may be relaxed in families that the manifest names")
    return tuple(found)


def publish_microdata(context: RunContext) -> None:
    """Write the microdata of what is counted and, where people are assigned to units, of the units."""
    plan = context.plan
    kinds = plan.product.files(units=plan.invariants.units)
    folders = [context.layout.public.microdata(kind, each) for kind in kinds for each in plan.output.microdata]
    rows_file = context.layout.public.microdata_rows
    if all(finished(folder) for folder in folders) and rows_file.is_file():
        context.public_facts.microdata_rows = json.loads(rows_file.read_text(encoding="utf-8"))
        return
    leaf = plan.spine.leaf.name
    declared = context.tables.read("invariants", leaf) if plan.invariants.units else None
    written = write_microdata(
        context.tables.read(context.published, leaf),
        on_census(declared) if declared is not None and context.has_shares else declared,
        plan.product,
        context.layout.public,
        plan.output.microdata,
        staging=guarded_staging(context.layout, context.layout.public, "microdata"),
        created=context.created,
        notices=notices_of(context),
        form=plan.output.microdata_files,
    )
    rows = records_of(written)
    write_durably(rows_file, json.dumps(rows))
    context.public_facts.microdata_rows = rows


def publish_census(context: RunContext) -> None:
    """Write the estimates by geounits of the census, where the spine has others."""
    levels = context.census.names
    if context.has_shares and not context.tables.is_finished(context.published, levels):
        leaf = context.tables.read("estimates", context.spine.leaf.name)
        context.tables.write_all(context.published, census_histograms(leaf, context.census), levels=levels)


def publish_statement(context: RunContext, entry: LedgerEntry, ledger: Ledger | None) -> PublicManifest:
    """Write the privacy statement, the ledger entry and, last, the manifest, which answers for all public files."""
    require_held(context.layout)
    public, all_runs = context.layout.public, ""
    if ledger is not None:
        all_runs = ledger.describe(PUBLISHED_DELTA, entry.run_id)
    manifest = _manifest(context, entry, all_runs)
    paths = share_paths(adopt_spine(context), len(context.spine.levels)) if context.has_shares else ()
    write_durably(public.privacy_statement, statement_of(manifest, context.plan, paths))
    write_durably(public.privacy_ledger, ledger_text(manifest))
    whole = replace(manifest, files=public_files(public, as_written=True))
    require_held(context.layout)
    whole.save(public.manifest)
    return whole


def statement_of(manifest: PublicManifest, plan: RunPlan, paths: Sequence[SharePath] = ()) -> str:
    """The privacy statement that follows from a manifest: whoever has the public root can make it again."""
    attributes, within = holding_losses(plan, tuple(path.shares for path in paths))
    entry = LedgerEntry.of(manifest.ledger)
    origin = None if plan.origin is None else Origin(plan.origin, entry)
    facts = StatementFacts(
        title=plan.product.title,
        run_id=manifest.run_id,
        budget=plan.budget,
        invariants=(*manifest.invariants, *rules_from_people(plan.acknowledged)),
        public_rules=manifest.public_rules,
        attributes=attributes,
        within=within,
        from_people=published_from_people(plan.acknowledged, plan.spine.leaf.name),
        paths={tuple(map(str, path.shares)): path.blocks for path in paths},
        insecure=entry.insecure,
        unit=plan.product.record,
        held_within=stays_within(plan),
        all_runs=manifest.all_runs,
        notices=manifest.notices,
        origin="" if origin is None else origin.sentence,
        external_noise=plan.origin is not None and plan.origin.is_external,
    )
    return privacy_statement(facts)


def ledger_text(manifest: PublicManifest) -> str:
    """The text of the public privacy ledger that follows from a manifest."""
    return json.dumps(manifest.ledger, indent=1) + "\n"


def _manifest(context: RunContext, entry: LedgerEntry, all_runs: str) -> PublicManifest:
    """The public manifest of a run, but for its files; holds nothing that tells of the input."""
    solver_status, residuals, relaxed = solver_facts_of(context.layout.public, context.spine.names)
    planned = planned_manifest(
        context.plan, entry, run_id=context.layout.run_id, created=context.created, insecure=context.is_insecure
    )
    return replace(
        planned,
        all_runs=all_runs,
        stages=_stages(context),
        rows=_rows(context),
        solver_status=solver_status,
        worst_residuals=residuals,
        relaxed=relaxed,
    )


def planned_manifest(plan: RunPlan, entry: LedgerEntry, *, run_id: str, created: str, insecure: bool) -> PublicManifest:
    """What the public manifest says of a run that follows from its plan alone."""
    return PublicManifest(
        run_id=run_id,
        created=created,
        product=plan.product.name,
        config=plan_to_config(plan),
        config_hash=plan.config_hash,
        versions=software_versions(),
        ledger=entry.public_record(),
        invariants=declared_invariants(plan),
        public_rules=public_rules_of(plan),
        notices=planned_notices(plan, insecure=insecure),
        data_dictionary=data_dictionary(
            plan.product,
            plan.output.microdata,
            units=plan.invariants.units,
            tabulated=bool(plan.output.tables),
            areas=not plan.spine.is_census,
            added=of_estimator(needs_of(plan), plan.spine.names),
        ),
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


def software_versions() -> dict[str, str]:
    """Versions of what computed the run."""
    versions = {name: metadata.version(name) for name in _SOFTWARE}
    return {"das_spark": __version__, "python": platform.python_version(), **versions}


def public_rules_of(plan: RunPlan) -> tuple[str, ...]:
    """What a run treats as public, as sentences."""
    zeros = [f"Structural zero {zero.name}: {zero.meaning}" for zero in plan.product.structural_zeros]
    bounds = plan.product.unit_bounds
    capacity = [
        f"Units of class '{label}' hold between {least} and {most} people each."
        for label, least, most in (
            zip(plan.product.unit_classes, bounds.least, bounds.most, strict=True) if bounds else ()
        )
    ]
    geounits = geounit_sentences(plan.input)
    added = [
        f"Added constraint {each.name} at {each.geolevel}: {each.query} {each.sense} {_constants(each.right)}."
        for each in plan.added
    ]
    return (*zeros, *(capacity if plan.invariants.units else []), *geounits, *added)


def _constants(right: tuple[int, ...]) -> str:
    """Right-hand sides; a long list stands in the manifest alone."""
    if len(right) > _SPELLED:
        return f"{len(right)} constants, in the manifest"
    return ", ".join(f"{value:,}" for value in right) if len(right) == 1 else f"({', '.join(map(str, right))})"


def _stages(context: RunContext) -> tuple[StageRecord, ...]:
    """Every stage that has written something public when the manifest is written: all but verification and accuracy."""
    made = ("geounits", "invariants", "bounds")
    spine = ("spine", "shares") if context.has_shares else ()
    outputs = {
        StageKind.SPINE: spine,
        StageKind.INGEST: made,
        StageKind.ADOPT: (*spine, *made, "measurements"),
        StageKind.MEASURE: ("measurements",),
        StageKind.ESTIMATE: ("estimates", "diagnostics"),
        StageKind.CENSUS: (context.published,),
        StageKind.MICRODATA: ("microdata",),
        StageKind.TABULATE: tuple(context.public_facts.table_rows),
    }
    stages = stages_of(context.plan) if context.origin is None else stages_from_measurements(context.plan)
    return tuple(
        StageRecord(stage.kind.value, stage.geolevel, tuple(_output(name, stage) for name in outputs[stage.kind]))
        for stage in stages
        if stage.kind in outputs
    )


def _output(name: str, stage: Stage) -> str:
    """What a stage wrote, as a path below the root."""
    return f"{name}/level={stage.geolevel}" if stage.geolevel else name


def _rows(context: RunContext) -> dict[str, int]:
    places = [(table, name) for table in _COUNTED for name in context.spine.names]
    if context.has_shares:
        places += [("shares", name) for name in context.spine.names]
        places += [(context.published, name) for name in context.census.names]
    counted = {f"{table}/{name}": context.tables.rows(table, name) for table, name in places}
    facts = context.public_facts
    return counted | {f"microdata/{name}": rows for name, rows in facts.microdata_rows.items()} | dict(facts.table_rows)


def solver_facts_of(
    public: PublicLayout, levels: Sequence[str]
) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]], tuple[str, ...]]:
    """What the manifest says of the families of a run: statuses, worst residuals, and which were relaxed."""
    found = {name: solver_facts(public.level("diagnostics", name)) for name in levels}
    relaxed = sorted(f"{name}/{family}" for name, each in found.items() for family in each.relaxed)
    return (
        {name: each.status for name, each in found.items()},
        {name: each.worst for name, each in found.items()},
        tuple(relaxed),
    )


__all__ = [
    "ledger_text",
    "notices_of",
    "planned_manifest",
    "planned_notices",
    "public_rules_of",
    "publish_microdata",
    "publish_statement",
    "restricted_manifest",
    "software_versions",
    "solver_facts_of",
    "statement_of",
]
