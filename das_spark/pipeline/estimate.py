"""The estimate stage: public tables in, estimates and diagnostics out; failed families fail the stage once, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from das_spark.errors import EstimationError
from das_spark.estimation import FamilyPlan, FamilyStatus
from das_spark.evaluation import FAMILY_FIGURES
from das_spark.io.events import Event
from das_spark.spark import tables
from das_spark.spark.estimate import WRITTEN, EstimationTask, estimates
from das_spark.spark.families import Writing
from das_spark.store import discard, disk_errors, finished, replace_folder, require_held, staging_of
from das_spark.store.parquet import REPORT, ParquetTables, TableFolder, file_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext

#: How many failed families an error names and saves.
NAMED = 10
#: Of how many families of a level the log keeps the time.
SLOWEST = 20


def estimate(context: RunContext, geolevel: str) -> None:
    """Estimate one level from what is public.

    Args:
        context: The run; the level is measured, and the level above it is estimated.
        geolevel: Name of the level.

    Raises:
        EstimationError: If a family is infeasible, or none of its solutions could be certified.
        OutputError: If the disk is full, a file of what is read is gone, or another driver has taken over the run.
    """
    target = context.folder("estimates", geolevel)
    if finished(target):
        context.progress.note(Event.LEVEL_SKIPPED, geolevel=geolevel, work="estimate")
        return
    staging = staging_of(context.layout, context.layout.public) / "estimates" / f"level={geolevel}"
    discard(staging)
    spine = context.plan.spine
    depth = spine.index(geolevel)
    task = estimation_task(context, geolevel)
    if depth:
        context.require_whole("estimates", spine.names[depth - 1])
    schemas = {table: to_arrow_schema(schema) for table, schema in WRITTEN.items()}
    writer = ParquetTables({table: TableFolder((staging / table).absolute(), schemas[table]) for table in WRITTEN})
    report = estimates(
        context.read("geounits", geolevel),
        context.read("measurements", geolevel),
        context.read("bounds", geolevel),
        context.read("estimates", spine.names[depth - 1]) if depth else None,
        task,
        context.spread(geolevel),
        spine.total_key_at(geolevel),
        Writing(writer, REPORT, file_name),
    )
    with disk_errors(staging):
        written = writer.place(report.toArrow().to_pylist())
        found = context.spark.read.schema(tables.DIAGNOSTICS).parquet(str(staging / "diagnostics"))
        try:
            _refuse_failures(context, geolevel, found)
        except EstimationError:
            discard(staging)
            raise
        seconds = context.spark.read.schema(tables.SECONDS).parquet(str(staging / "seconds"))
        _note_slowest(context, geolevel, found.join(seconds, "family"))
        # One job made both tables side by side; the estimates come last, since they say that the level is done.
        for table, folder in (
            ("diagnostics", context.layout.public.level("diagnostics", geolevel)),
            ("estimates", target),
        ):
            require_held(context.layout)
            replace_folder(staging / table, folder, written[table])  # a driver may have died before both were whole
    discard(staging)


def estimation_task(context: RunContext, geolevel: str) -> EstimationTask:
    """What the tasks of a level are given.

    Args:
        context: The run.
        geolevel: Name of the level of the children.
    """
    return planned_estimation(context.plan, geolevel)


def planned_estimation(plan: RunPlan, geolevel: str) -> EstimationTask:
    """What a plan says of the estimation of a level.

    Args:
        plan: The run.
        geolevel: The level.
    """
    schema = plan.product.schema
    queries = {each.query: plan.queries[each.query] for each in plan.budget.level(geolevel).queries}
    queries["total"] = schema.query("total")
    classes = schema.query(plan.product.class_query) if plan.product.class_query else None
    if classes is not None:
        queries["class"] = classes
    queries |= {f"added:{each.name}": schema.query(each.query) for each in plan.added}
    passes = plan.estimation.passes.get(geolevel, ())
    return EstimationTask(
        size=schema.size,
        plan=FamilyPlan(
            geolevel=geolevel,
            zero_cells=np.flatnonzero(plan.product.zero_cells()).astype(np.int32),
            solvers=plan.estimation.solvers,
            gap_tolerance=plan.estimation.gap_tolerance,
            rounding=plan.estimation.rounding,
            failsafe=plan.estimation.failsafe,
            class_query=classes.name if classes is not None else "",
            passes=passes,
            queries={name: schema.query(name) for each in passes for name in each.names},
        ),
        queries=queries,
    )


def _note_slowest(context: RunContext, geolevel: str, found: DataFrame) -> None:
    """Keep the times of the slowest families in the log, which is restricted."""
    slowest = found.orderBy(F.col("seconds").desc(), "family").limit(SLOWEST).select(*FAMILY_FIGURES, "seconds")
    families = [row.asDict() | {"seconds": round(row["seconds"], 6)} for row in slowest.collect()]
    context.progress.note(Event.FAMILIES_SLOWEST, geolevel=geolevel, families=families)


def _refuse_failures(context: RunContext, geolevel: str, found: DataFrame) -> None:
    usable = [str(status) for status in FamilyStatus if status.is_usable]
    failed = found.where(~F.col("status").isin(*usable))
    rows = failed.orderBy("family").limit(NAMED).collect()
    if not rows:
        return
    problems = context.layout.public.problems
    problems.mkdir(exist_ok=True)
    for row in rows:
        (problems / f"{geolevel}.{row['family']}.npz").write_bytes(row["problem"])
    named = "; ".join(f"{row['family']} ({row['status']}: {row['message']})" for row in rows)
    number = failed.count()
    context.progress.note(
        Event.FAMILIES_FAILED, geolevel=geolevel, families=number, named=[row["family"] for row in rows]
    )
    raise EstimationError(
        f"{number:,} families of level {geolevel} could not be estimated: {named}",
        hint=f"the problems are saved in {problems}; added constraints can do that (estimation.failsafe)",
    )
