"""The microdata stage: records of the leaves, in every format of the run."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from das_spark.io.microdata_files import MicrodataWriting, records_of
from das_spark.spark.census import on_census
from das_spark.spark.microdata import write_microdata
from das_spark.store import finished, guarded_staging, write_durably

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.pipeline.context import RunContext


def publish_microdata(context: RunContext) -> None:
    """Write the microdata of what is counted and, where people are assigned to units, of the units."""
    plan = context.plan
    kinds = plan.product.files(units=plan.invariants.units)
    folders = [context.layout.public.microdata(kind, each) for kind in kinds for each in plan.output.microdata]
    rows_file = context.layout.public.microdata_rows
    if all(finished(folder) for folder in folders) and rows_file.is_file():
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
    write_durably(rows_file, json.dumps(records_of(written)))


def _published(context: RunContext) -> DataFrame | None:
    """What another product has published of the leaves, by geocodes of the census; None where that is nothing."""
    if context.plan.product.published is None:
        return None
    leaves = context.tables.read("published", context.spine.leaf.name)
    return on_census(leaves) if context.has_shares else leaves
