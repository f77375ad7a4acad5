"""The measure stage: journal, draw, stage, promote. A finished level is never drawn again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.pandas.types import to_arrow_schema

from das_spark.errors import PrivacyGuardError
from das_spark.io.events import Event
from das_spark.pipeline.charge import agree
from das_spark.privacy import StreamDomain, cumulative_table
from das_spark.spark.families import Writing
from das_spark.spark.measure import MeasurementTask, measurements, shared_addresses
from das_spark.spark.session import require_safe_session
from das_spark.spark.tables import MEASUREMENTS
from das_spark.store import Journal, Step, disk_errors, require_held
from das_spark.store.parquet import REPORT, ParquetTables, TableFolder, file_name

if TYPE_CHECKING:
    from pathlib import Path

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.privacy import KeyedStream, RunKey


def journal_of(context: RunContext) -> Journal:
    """The measurement journal of a run.

    Args:
        context: The run.
    """
    return Journal.of(context.layout)


def measure(context: RunContext, geolevel: str) -> None:
    """Measure one level, once.

    Args:
        context: The run; its histograms are written, and the level above this one is estimated.
        geolevel: Name of the level.

    Raises:
        PrivacyGuardError: If journal, files and ledger do not agree, or the session does not protect the key.
        OutputError: If the disk is full, a file of what is read is gone, or another driver has taken over the run.
    """
    journal = journal_of(context)
    # Before anything is destroyed or drawn, and after each step of the journal: the ledger lies outside this folder,
    # and knows whether another copy of it has gone on.
    agreed = partial(agree, context.required_ledger(), journal, geolevel)
    agreed()
    decision = journal.next_step(geolevel)
    agreed()
    place = {"geolevel": geolevel, "attempt": decision.number}
    note = context.progress.note
    if decision.step is Step.DRAW:
        if decision.number > 1:
            note(Event.LEVEL_DESTROYED, geolevel=geolevel, attempt=decision.number - 1)
        require_safe_session(context.spark, insecure=context.is_insecure)
        require_held(context.layout)
        _require_whole_input(context, geolevel)
        _require_own_addresses(context, geolevel)
        journal.open(geolevel, decision.number)
        agreed()
        note(Event.LEVEL_OPENED, **place)
        staging = context.layout.restricted.staging("measurements", geolevel, decision.number)
        with disk_errors(staging):
            _draw(context, geolevel, decision.number, staging)
        note(Event.LEVEL_DRAWN, **place)
        require_held(context.layout)
        journal.stage(geolevel, decision.number)
        agreed()
        note(Event.LEVEL_STAGED, **place)
    if decision.step is Step.NOTHING:
        note(Event.LEVEL_SKIPPED, geolevel=geolevel, work="measure")
    else:
        require_held(context.layout)
        journal.promote(geolevel, decision.number)
        note(Event.LEVEL_PROMOTED, **place)


def _require_whole_input(context: RunContext, geolevel: str) -> None:
    """Refuse to draw where a file of what is joined was lost: geounits that are left out could never be measured."""
    context.require_whole("histograms", geolevel)
    if depth := context.plan.spine.index(geolevel):
        context.require_whole("estimates", context.plan.spine.names[depth - 1])
    if context.has_shares:
        context.require_whole("shares", geolevel)


def _require_own_addresses(context: RunContext, geolevel: str) -> None:
    """Refuse to draw where two geounits would get one noise: their difference would be published exactly."""
    found = shared_addresses(context.read("histograms", geolevel)).orderBy("geocode").limit(1).collect()
    if found:
        raise PrivacyGuardError(
            f"geolevel {geolevel}: {found[0]['geounits']} geounits, of which {found[0]['geocode']} is one, have one "
            "address in the randomness and would get the same noise",
            hint="nothing is drawn; if no geocode stands twice in the input, this is a fault of das_spark: report it",
        )


def _draw(context: RunContext, geolevel: str, attempt: int, staging: Path) -> None:
    """Measure a level into the staging folder of an attempt."""
    spine = context.plan.spine
    depth = spine.index(geolevel)
    parents = context.read("estimates", spine.names[depth - 1]) if depth else None
    task = measurement_task(context, geolevel, attempt)
    shares = context.read("shares", geolevel) if context.has_shares else None
    writer = ParquetTables({"measurements": TableFolder(staging.absolute(), to_arrow_schema(MEASUREMENTS))})
    writing = Writing(writer, REPORT, file_name)
    histograms, spread = context.read("histograms", geolevel), context.spread(geolevel)
    writer.place(measurements(histograms, parents, task, spread, shares, writing).toArrow().to_pylist())


def measurement_task(context: RunContext, geolevel: str, attempt: int) -> MeasurementTask:
    """What the tasks of one attempt at a level are given.

    Args:
        context: The run, with a key.
        geolevel: Name of the level.
        attempt: Number of the attempt, from 1.

    Raises:
        PrivacyGuardError: The run has no key: it never draws.
    """
    task = planned_measurement(context.plan, geolevel, context.shares_of(geolevel), context.required_key(), attempt)
    return replace(task, blind=context.blind)


def planned_measurement(
    plan: RunPlan, geolevel: str, shares: Mapping[str, Fraction], key: RunKey, attempt: int
) -> MeasurementTask:
    """What a plan says of the measurements of a level.

    Args:
        plan: The run.
        geolevel: The level.
        shares: Shares of the budget that its geounits have, by their text; "" stands for the level's.
        key: The run key.
        attempt: Number of the attempt at measuring the level.
    """
    queries = {each.query: plan.queries[each.query] for each in plan.budget.level(geolevel).queries}
    laws = {
        share: {name: plan.budget.mechanism_at(geolevel, name, part) for name in queries}
        for share, part in shares.items()
    }
    return MeasurementTask(
        size=plan.product.schema.size,
        queries=queries,
        mechanisms={
            share: {name: (cumulative_table(law), law.variance()) for name, law in each.items()}
            for share, each in laws.items()
        },
        streams=planned_streams(plan, geolevel, key, attempt),
        lazy=plan.measurement_rows == "support",
    )


def planned_streams(plan: RunPlan, geolevel: str, key: RunKey, attempt: int) -> dict[str, KeyedStream]:
    """The random bits of every query of a level, under one key.

    Args:
        plan: The run.
        geolevel: The level.
        key: The run key.
        attempt: Number of the attempt at measuring the level.
    """
    # A test key exists to repeat a run byte for byte, so a repeated draw repeats the draw.
    number = 0 if key.is_insecure else attempt
    # Product and record are part of the domain: persons and units never share bits.
    return {
        each.query: key.derive(StreamDomain(plan.product.name, plan.product.record, geolevel, number, each.query))
        for each in plan.budget.level(geolevel).queries
    }
