"""Ingestion: confidential records to histograms (restricted), invariants and bounds (public), before any spending."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from das_spark.errors import InfeasibleError, InputError
from das_spark.io.parents_file import read_parents
from das_spark.pipeline.charge import enter_invariants
from das_spark.pipeline.input_record import (
    geography_files_of,
    keep_problems,
    load_input_record,
    problems_kept,
    require_same_geography,
    require_unchanged,
    save_input_record,
)
from das_spark.pipeline.levels import table_writer
from das_spark.pipeline.reused_input import reuse_input
from das_spark.pipeline.spines import leaves_on_spine, load_spine
from das_spark.places import Place, disk_errors, place_of
from das_spark.spark.geounit_rows import Contradiction, Declared
from das_spark.spark.leaves import LeafRules, UnitRule, pooled, resolve_conflicts, write_leaves
from das_spark.spark.level_sums import write_levels_of
from das_spark.spark.own_codes import under_geocodes
from das_spark.spark.problems import Problem
from das_spark.spark.readers import reader
from das_spark.spark.tables import read_table
from das_spark.store import discard, finished, replace_folder, require_held, staging_of
from das_spark.store.parquet import count_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from das_spark.config import InputSettings, RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.spark.leaves import LeafFacts
    from das_spark.spark.readers import IngestedTables


#: How many geounits an error names.
NAMED = 5
#: Tables by level that every ingestion writes, in its order.
WRITTEN = ("geounits", "histograms", "invariants", "bounds")


def ingest(context: RunContext, identity: str) -> None:
    """Read the input and write every table that is made before noise: leaves, histograms, invariants, bounds."""
    if _is_finished(context):
        load_input_record(context, identity)
        if context.has_shares:
            load_spine(context)
        return
    leaves = run_leaves(context, identity)
    missing = [table for table in WRITTEN if not context.tables.is_finished(table)]
    if missing:
        _write_levels(context, leaves, missing)


def _is_finished(context: RunContext) -> bool:
    """Whether everything is there. A run in many steps asks in each of them: no job of Spark answers."""
    tables_written = (*WRITTEN, "shares") if context.has_shares else WRITTEN
    leaves = context.layout.restricted.table("leaves")
    return finished(leaves) and all(context.tables.is_finished(table) for table in tables_written)


def _write_levels(context: RunContext, leaves: DataFrame, names: Sequence[str]) -> None:
    """Write tables of all levels by one job; those that cannot hold together are refused, and nothing is public."""
    plan, tables, spine = context.plan, context.tables, context.spine
    added = tuple((each, plan.product.schema.query(each.query)) for each in plan.added)
    declared = Declared(spine, plan.invariants, plan.product.unit_bounds, added)
    staging = {table: tables.fresh_staging(table) for table in names}
    number = count_rows(context.layout.restricted.table("leaves"))
    try:
        with disk_errors(context.layout.folder):
            written = write_levels_of(leaves, declared, table_writer(staging), number, NAMED)
            refuse_contradictions(context, written.contradictions)
            for table in names:
                tables.promote_levels(table, staging[table], spine.names, written.files[table])
    finally:
        for folder in staging.values():
            discard(folder)


def run_leaves(context: RunContext, identity: str) -> DataFrame:
    """The leaves of the run: the input is read, and the spine built where it is made of areas, unless that is done.

    The run is entered in the ledger in between: after everything for which the input may be refused, and before the
    first table that is public.
    """
    if context.options.ingested_by is not None:
        enter_invariants(context.required_ledger())  # its public tables are part of the reused input
        reuse_input(context, context.options.ingested_by, identity)
    folder = context.layout.restricted.table("leaves")
    with problems_kept(context):
        if not finished(folder):
            _write_leaves(context, folder, identity)
        load_input_record(context, identity)
        enter = partial(enter_invariants, context.required_ledger())
        leaves = leaves_on_spine(context, _leaves(context, folder), enter)
        enter()
        return leaves


def _leaves(context: RunContext, folder: Place) -> DataFrame:
    return read_table(context.spark, "leaves", folder)


def _write_leaves(context: RunContext, folder: Place, identity: str) -> None:
    plan = context.plan
    ingested = reader(plan.input.reader).read(context.spark, plan.input, plan.product, plan.spine)
    geography: Sequence[Mapping[str, object]] = ()
    if plan.geography.parents is not None:
        geography = geography_files_of(context)
        known = read_parents(plan.geography.parents, plan.product.geolevels, plan.spine.leaf)
        require_same_geography(context, geography)
        ingested = under_geocodes(ingested, known, plan.geography.parents)
    problems = ingested.problems
    if problems:
        # What and how much tells of the input: it stands in the restricted record.
        record = context.layout.restricted.input_problems
        context.progress.report(f"ingest: the files do not agree in all that they say; see {record}")
    staging, rules = staging_of(context.layout, context.layout.restricted) / "leaves", _leaf_rules(plan)
    discard(staging)
    with disk_errors(staging):
        try:
            leaves = pooled(ingested.leaves) if plan.product.vacant_counted else ingested.leaves
            facts = write_leaves(leaves, table_writer({"leaves": staging}), rules)
        finally:
            ingested.release()
        _refuse_leaves(context, facts)
        if facts.conflicts:
            staging, facts, resolved = _resolve_conflicts(context, staging, facts, rules)
            problems += resolved
        _refuse_changed(context, staging, ingested)
        keep_problems(context, problems)
        records = {str(place_of(path)): number for path, number in ingested.records.items()}
        save_input_record(context, identity, facts, problems, geography, records)
        require_held(context.layout)
        replace_folder(staging, folder, facts.files)  # a driver may have died before all was there


def _leaf_rules(plan: RunPlan) -> LeafRules:
    """What must hold of the leaves of a run."""
    product = plan.product
    if not plan.invariants.units:
        return LeafRules(NAMED)
    bounds = product.unit_bounds
    rule = None if bounds is None else UnitRule(product.schema.query(product.class_query), bounds)
    return LeafRules(NAMED, units=True, counted=product.record == "unit", bounds=rule)


def _refuse_changed(context: RunContext, staging: Place, read: IngestedTables) -> None:
    """The ledger is that of the files that were hashed; what was read since then must be the same."""
    hashed = context.restricted_facts.input_files
    try:
        if hashed:
            require_unchanged(context.plan.input, hashed.values(), lambda: context.spark, read)
    except InputError:
        discard(staging)
        raise


def _refuse_leaves(context: RunContext, facts: LeafFacts) -> None:
    """Name geounits whose units are not known, or contradict what is counted in them."""
    product, settings = context.plan.product, context.plan.input
    if facts.without_units:
        raise InputError(
            f"no units are given for geounits such as {', '.join(facts.without_units)}, and units are a declared "
            "invariant",
            hint="give them in the unit file, or set invariants.units to false",
        )
    if facts.uncounted:
        raise InputError(
            f"units of class '{product.unit_classes[0]}' are not as many as the {product.counted} that are counted, in "
            f"geounits such as {', '.join(facts.uncounted)}",
            hint=f"correct units_0 of {_units_file(settings)}: the two are the same units; or set invariants.units to "
            "false",
        )
    if facts.conflicts and settings.unit_conflicts == "fail":
        named = [f"{geocode} (class {unit_class})" for geocode, unit_class in facts.conflicting]
        raise InputError(
            f"units and {product.counted} contradict each other in geounits such as {', '.join(named)}: a geounit "
            f"with units of a class must hold between the least and the most {product.counted} that they can take",
            hint=f"correct the units of {_units_file(settings)}"
            + (', or set input.unit_conflicts = "from_people"' if product.record == "person" else ""),
        )


def _resolve_conflicts(
    context: RunContext, staging: Place, facts: LeafFacts, rules: LeafRules
) -> tuple[Place, LeafFacts, tuple[Problem, ...]]:
    """Change units to what the people allow, as the run file asks, in another folder."""
    assert rules.bounds is not None  # noqa: S101 - there are no conflicts without
    resolved = staging.with_name("leaves_resolved")
    discard(resolved)
    changed = resolve_conflicts(_leaves(context, staging), rules.bounds)
    now = write_leaves(changed, table_writer({"leaves": resolved}), rules)
    discard(staging)
    # How many there are follows from the people: it stands in the restricted record of the input.
    context.progress.report("ingest: units changed to what the people allow where they contradicted them")
    expected = "units that the people of the geounit can live in"
    return resolved, now, (Problem(_units_file(context.plan.input), "units", expected, facts.conflicts),)


def _units_file(settings: InputSettings) -> str:
    """Where the units of a run come from: not every reader has a file of its own for them."""
    return settings.units or settings.path or settings.reader


def refuse_contradictions(context: RunContext, contradictions: Sequence[Contradiction]) -> None:
    """Name the first of each kind: those of invariants among themselves, then those of added constraints."""
    indivisible = sorted({contradiction.geocode for contradiction in contradictions if not contradiction.constraint})
    if indivisible:
        raise InfeasibleError(
            f"the declared invariants contradict each other in geounits such as {', '.join(indivisible[:NAMED])}: the "
            "total does not lie between the least and the most people of their units (rules hhgq_total_lb, "
            "hhgq_total_ub)",
            hint="correct the units, or declare fewer invariants in [invariants]",
        )
    against = sorted({(contradiction.geocode, contradiction.constraint) for contradiction in contradictions})
    if against:
        named = ", ".join(f"{geocode} ({constraint})" for geocode, constraint in against[:NAMED])
        raise InfeasibleError(
            f"added constraints cannot hold together with the invariant totals in geounits such as {named}",
            hint="change them in [[constraints]], or declare fewer invariants in [invariants]",
        )
