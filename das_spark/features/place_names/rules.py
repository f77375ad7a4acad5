"""Whether tables with names hold the counts of the estimates, and one name for each geounit."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.features.place_names.tables import NAME, PLACE_NAMES, named_columns, named_layout, read_named
from das_spark.io.table_files import CSV, GEOCODE
from das_spark.pipeline.features import FeatureRules
from das_spark.spark.checks import Finding, Rule, findings
from das_spark.spark.tabulate import misnamed
from das_spark.spark.verify_tables import PublishedTable

if TYPE_CHECKING:
    from das_spark.spark.verify_run import Verified
    from das_spark.tabulation import Table

ONE_NAME: Final = "geounits have one name in all tables"


def rules_of(run: Verified, written: Sequence[tuple[Table, Sequence[str]]]) -> FeatureRules:
    """Judge the tables with names of a run.

    Args:
        run: The run that is verified.
        written: The tables, and the geolevels that each has.
    """
    layout = named_layout(run.layout)
    frames = [read_named(run.spark, run.layout, table, levels) for table, levels in written]
    counted = [
        PublishedTable(
            table,
            f"{PLACE_NAMES} {CSV}",
            frame.drop(NAME),
            misnamed(layout, table, CSV, levels, named_columns(table).names),
            tuple(levels),
        )
        for (table, levels), frame in zip(written, frames, strict=True)
    ]
    named = reduce(DataFrame.unionAll, [frame.select("level", GEOCODE, NAME) for frame in frames])
    names = named.groupBy("level", GEOCODE).agg(F.count_distinct(F.coalesce(NAME, F.lit(""))).alias("names"))
    levels = dict.fromkeys(level for _, own in written for level in own)
    rule = Rule(
        findings(names, Finding(ONE_NAME, F.col("names") != 1, 1)), tuple((ONE_NAME, each, "") for each in levels)
    )
    return FeatureRules([rule], counted)
