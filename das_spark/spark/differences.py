"""Errors of two runs' numbers of records, by geolevel. RESTRICTED: reads confidential histograms.

Sums alone reach the driver.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.attack import TotalErrors
from das_spark.errors import InputError
from das_spark.spark.finished_runs import FinishedRun, require_one_truth, truth_of
from das_spark.spark.lists import list_total

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.places import Place


def total_errors(
    spark: SparkSession, first: FinishedRun, second: FinishedRun, other: Place | None = None
) -> tuple[TotalErrors, ...]:
    """Errors of the number of records in the geounits of every geolevel of the census that both runs have. RESTRICTED.

    Args:
        spark: The session.
        first: A run.
        second: Another run on the same records.
        other: A run whose confidential histograms are taken for both.

    Returns:
        By geolevel, root first; none where the runs are of two products.

    Raises:
        InputError: The runs are of different records.
        OutputError: Estimates or confidential histograms are not there.
    """
    if first.product.name != second.product.name:
        return ()
    truth = truth_of(spark, first, other)
    if other is None:
        _, theirs = truth_of(spark, second)[-1]
        hint = "differencing is of runs on one dataset"
        require_one_truth({first.folder: truth[-1][1], second.folder: theirs}, hint=hint)
    if first.census.names != second.census.names:
        raise InputError(
            f"{first.folder} and {second.folder} have different geolevels of the census",
            hint="difference runs on the same geolevels",
        )
    return tuple(
        _of_level(name, frame, first.estimates(spark, name), second.estimates(spark, name)) for name, frame in truth
    )


def _of_level(geolevel: str, truth: DataFrame, first: DataFrame, second: DataFrame) -> TotalErrors:
    counted, one, two = (
        frame.select("geocode", list_total("counts").alias(name))
        for frame, name in ((truth, "truth"), (first, "one"), (second, "two"))
    )
    joined = counted.join(one, "geocode").join(two, "geocode")
    errors = [(F.col(name) - F.col("truth")).cast("double") for name in ("one", "two")]
    row = joined.agg(
        F.count(F.lit(1)).alias("geounits"),
        F.sum(errors[0] * errors[0]).alias("first"),
        F.sum(errors[1] * errors[1]).alias("second"),
        F.sum(errors[0] * errors[1]).alias("product"),
    ).collect()[0]
    return TotalErrors(geolevel, row["geounits"], row["first"], row["second"], row["product"])
