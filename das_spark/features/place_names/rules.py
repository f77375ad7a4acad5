"""Whether tables with names hold the counts of the estimates, and one name for each geounit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.features.place_names.tables import NAME, PLACE_NAMES, named_columns, named_layout, read_named
from das_spark.io.table_files import CSV, GEOCODE
from das_spark.pipeline.features import Judged
from das_spark.spark.checks import Finding, Rule, findings
from das_spark.spark.tabulate import tables_beside

if TYPE_CHECKING:
    from das_spark.spark.verify_run import Verified
    from das_spark.spark.verify_tables import PublishedTable
    from das_spark.tabulation import Table

ONE_NAME: Final = "geounits have one name in all tables"


def rules_of(run: Verified, written: Sequence[tuple[Table, Sequence[str]]]) -> Judged:
    """Judge the names that a run has published.

    Args:
        run: The run that is verified.
        written: The tables, and the geolevels that each has.
    """
    frames = [read_named(run.spark, run.layout, table, levels) for table, levels in written]
    named = reduce(DataFrame.unionAll, [frame.select("level", GEOCODE, NAME) for frame in frames])
    names = named.groupBy("level", GEOCODE).agg(F.count_distinct(F.coalesce(NAME, F.lit(""))).alias("names"))
    levels = dict.fromkeys(level for _, own in written for level in own)
    found = findings(names, Finding(ONE_NAME, F.col("names") != 1, 1))
    return Judged([Rule(found, tuple((ONE_NAME, level, "") for level in levels))])


def compared_counts(run: Verified, written: Sequence[tuple[Table, Sequence[str]]]) -> tuple[PublishedTable, ...]:
    """Return the counts beside the names, which must be those of the estimates."""
    tables = [(table, CSV, levels) for table, levels in written]
    return tables_beside(run.spark, named_layout(run.layout), PLACE_NAMES, tables, named_columns)
