"""Whether published tables hold what the estimates say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from das_spark.pipeline.features import Judged
from das_spark.spark.tabulate import published_tables
from das_spark.spark.verify_tables import occupancy_rules

if TYPE_CHECKING:
    from das_spark.spark.verify import RunTables
    from das_spark.spark.verify_run import Verified
    from das_spark.spark.verify_tables import PublishedTable


def rules_of(run: Verified, by_census: RunTables) -> Judged:
    """Judge the tables of a run that count vacant housing units, too.

    Args:
        run: The run that is verified.
        by_census: Its estimates as they are published.
    """
    census, product = run.census, run.plan.product
    known = product.occupancy if run.plan.invariants.units else ()
    occupancy = published_tables(run.layout.tables, known, run.plan.output.tables, census)
    return Judged(occupancy_rules(occupancy, by_census, census, product.vacant_cell), headed=occupancy)


def compared_tables(run: Verified) -> tuple[PublishedTable, ...]:
    """Return the tables of sums and of medians."""
    product = run.plan.product
    return published_tables(run.layout.tables, (*product.tables, *product.medians), run.plan.output.tables, run.census)
