"""Whether published tables hold the counts of the estimates, of occupied and vacant units, and their medians."""

from __future__ import annotations

from typing import TYPE_CHECKING

from das_spark.pipeline.features import Judged
from das_spark.spark.tabulate import published_medians, published_tables
from das_spark.spark.verify_medians import median_rules
from das_spark.spark.verify_tables import occupancy_rules

if TYPE_CHECKING:
    from das_spark.spark.verify import RunTables
    from das_spark.spark.verify_run import Verified
    from das_spark.spark.verify_tables import PublishedTable


def rules_of(run: Verified, by_census: RunTables) -> Judged:
    """Judge the tables of a run that are no sums of its estimates.

    Args:
        run: The run that is verified.
        by_census: Its estimates as they are published.
    """
    layout, census, product, formats = run.layout.tables, run.census, run.plan.product, run.plan.output.tables
    known = product.occupancy if run.plan.invariants.units else ()
    occupancy = published_tables(layout, known, formats, census)
    medians = published_medians(layout, product.medians, formats, census)
    rules = [*occupancy_rules(occupancy, by_census, census, product.vacant_cell), *median_rules(medians, by_census)]
    return Judged(rules, headed=(*occupancy, *medians))


def compared_tables(run: Verified) -> tuple[PublishedTable, ...]:
    """Return the tables of sums."""
    plan = run.plan
    return published_tables(run.layout.tables, plan.product.tables, plan.output.tables, run.census)
