"""The tabulate stage: published tables of every geolevel, made of the public estimates and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from das_spark.pipeline.table_writing import TABLES, TablesWriting, run_fact
from das_spark.places import disk_errors
from das_spark.spark.census import on_census
from das_spark.spark.tables import read_levels
from das_spark.spark.tabulate import with_vacant, write_tables
from das_spark.store import discard, make_folder
from das_spark.store.parquet import count_rows
from das_spark.store.tables import published_estimates

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.store import FileRecord, PublicLayout
    from das_spark.tabulation import TableShell


def publish_tables(context: RunContext, facts: tuple[str, ...]) -> None:
    """Write the tables of a run; those that are finished are left as they are.

    Args:
        context: The run.
        facts: What the text beside the files of each table says.
    """
    plan, public = context.plan, context.layout.public
    writing = TablesWriting.of_run(context, TABLES, tuple(plan.output.tables), facts)
    tables = plan.product.every_table_on(plan.spine, units=plan.invariants.units)
    left = [table for table in tables if not writing.is_finished(table)]
    write_every_table(context.spark, public, plan, left, writing)


def facts_of_run(run_id: str, product: str, created: str, notices: Sequence[str]) -> tuple[str, ...]:
    """What the folder of each table says of the run."""
    return (*notices, run_fact(run_id, product, created), "Made of the estimates of the run.")


def write_every_table(
    spark: SparkSession, public: PublicLayout, plan: RunPlan, tables: Sequence[TableShell], writing: TablesWriting
) -> None:
    """Write tables: all of them by one Spark job into staged Parquet, CSV from that; then one by one by level.

    Those of occupancy, which count vacant units too, are made by a job of their own.
    """
    target, staging, census = writing.target.path, writing.staging.folder, writing.census
    published, names = published_estimates(plan.spine), {table.name for table in plan.product.occupancy}
    with disk_errors(target):
        make_folder(target)
        discard(staging)  # of an earlier process of that number
        if tables:
            estimates = read_levels(spark, public, published, census.names)
            leaves = count_rows(public.level(published, census.leaf.name))
            written: dict[str, tuple[FileRecord, ...]] = {}
            if of_cells := [table for table in tables if table.name not in names]:
                written |= write_tables(estimates, of_cells, census, writing.writer(*of_cells), leaves)
            if of_units := [table for table in tables if table.name in names]:
                declared = read_levels(spark, public, "invariants", (plan.spine.leaf.name,))
                on_leaves = declared if plan.spine.is_census else on_census(declared)
                every = with_vacant(estimates, on_leaves, census, plan.product.vacant_cell)
                written |= write_tables(every, of_units, census, writing.writer(*of_units), leaves)
            writing.promote(*((table, written[table.name]) for table in tables))
        discard(staging)
