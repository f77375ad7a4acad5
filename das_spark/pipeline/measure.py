"""The measure stage: journal, draw, stage, promote. A finished level is never drawn again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from das_spark.io.files import disk_errors
from das_spark.io.journal import Journal, Step
from das_spark.privacy import StreamDomain, cumulative_table
from das_spark.spark.measure import MeasurementTask, measurements
from das_spark.spark.session import require_safe_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.pipeline.context import RunContext


def journal_of(context: RunContext) -> Journal:
    """The measurement journal of a run."""
    restricted, public = context.layout.restricted, context.layout.public
    return Journal(
        folder=restricted.journal,
        staging=lambda geolevel, attempt: restricted.staging("measurements", geolevel, attempt),
        target=lambda geolevel: public.level("measurements", geolevel),
    )


def measure(context: RunContext, geolevel: str) -> None:
    """Measure one level, once.

    Raises:
        PrivacyGuardError: If journal and files do not agree, or the session does not protect the key.
        OutputError: If the disk is full.
    """
    journal = journal_of(context)
    decision = journal.next_step(geolevel)
    if decision.step is Step.DRAW:
        require_safe_session(context.spark, insecure=context.is_insecure)
        journal.open(geolevel, decision.number)
        staging = context.layout.restricted.staging("measurements", geolevel, decision.number)
        with disk_errors(staging):
            _drawn(context, geolevel, decision.number).write.parquet(str(staging))
        journal.stage(geolevel, decision.number)
    if decision.step is not Step.NOTHING:
        journal.promote(geolevel, decision.number)


def _drawn(context: RunContext, geolevel: str, attempt: int) -> DataFrame:
    spine = context.plan.spine
    depth = spine.index(geolevel)
    parents = context.read("estimates", spine.names[depth - 1]) if depth else None
    task = measurement_task(context, geolevel, attempt)
    shares = context.read("shares", geolevel) if context.has_shares else None
    return measurements(context.read("histograms", geolevel), parents, task, context.partitions(geolevel), shares)


def measurement_task(context: RunContext, geolevel: str, attempt: int) -> MeasurementTask:
    """What the tasks of one attempt at a level are given."""
    plan = context.plan
    queries = {each.query: plan.queries[each.query] for each in plan.budget.level(geolevel).queries}
    laws = {
        share: {name: plan.budget.mechanism_at(geolevel, name, part) for name in queries}
        for share, part in context.shares_of(geolevel).items()
    }
    key = context.required_key()
    # A test key exists to repeat a run byte for byte, so a repeated draw repeats the draw.
    number = 0 if key.is_insecure else attempt
    # Product and record are part of the domain: persons and units never share bits.
    streams = {
        name: key.derive(StreamDomain(plan.product.name, plan.product.record, geolevel, number, name))
        for name in queries
    }
    return MeasurementTask(
        size=plan.product.schema.size,
        queries=queries,
        mechanisms={
            share: {name: (cumulative_table(law), law.variance()) for name, law in each.items()}
            for share, each in laws.items()
        },
        streams=streams,
        lazy=plan.measurement_rows == "support",
    )
