"""Bounds and invariants from the constraints of published measurement files, which hold no units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.spark.bounds import bound_rows, flow_rows
from das_spark.spark.noisy_rows import EXACT
from das_spark.spark.tables import union

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.geography import Spine


_KEYS = ("level", "geocode")


def published_totals(rows: DataFrame, geounits: DataFrame) -> DataFrame:
    """Exact totals: `tables.INVARIANTS` with a column level in front."""
    totals = rows.where(F.col("query_name") == f"total{EXACT}").join(geounits.select(*_KEYS, "parent"), [*_KEYS])
    return totals.select(*_KEYS, "parent", F.lit("total").alias("name"), F.col("value").alias("values"))


def tightened_class_bounds(
    rows: DataFrame, geounits: DataFrame, totals: DataFrame, spine: Spine, class_query: str, classes: int
) -> DataFrame:
    """Bounds on the class margins of every geounit: the tighter of its own constraints and the sums of its children's.

    Columns level, depth, geocode, parent, total (null where it is not exact), lower, upper (arrays by class).
    """
    low, high = (
        rows.where(F.col("query_name") == f"{class_query}_total_{side}{EXACT}").select(
            *_KEYS, F.col("value").alias(name)
        )
        for side, name in (("lb", "lower"), ("ub", "upper"))
    )
    exact = totals.select(*_KEYS, F.get("values", F.lit(0)).alias("total"))
    own = geounits.select(*_KEYS, "parent").join(low, [*_KEYS]).join(high, [*_KEYS]).join(exact, [*_KEYS], "left")
    levels: list[DataFrame] = []
    for depth in reversed(range(len(spine.names))):
        at = own.where(F.col("level") == spine.names[depth]).withColumn("depth", F.lit(depth))
        levels.append(_tightened(at, levels[-1], classes) if levels else at)
    columns = ("level", "depth", "geocode", "parent", "total", "lower", "upper")
    return union(level.select(*columns) for level in levels)


def published_class_bounds(of_classes: DataFrame, spine: Spine, total_at: str | None) -> DataFrame:
    """Class bounds and flows: `tables.BOUNDS` with a column level in front.

    The class bounds are used more than once: they should be written and read back.
    """
    frame = bound_rows(of_classes, "class", F.col("lower"), F.col("upper"))
    if total_at is not None and spine.index(total_at) > 0:
        return frame.unionByName(flow_rows(of_classes, spine, total_at))
    return frame


def _tightened(own: DataFrame, below: DataFrame, classes: int) -> DataFrame:
    sums = [
        F.sum(F.col(side).getItem(place)).alias(f"{side}{place}")
        for side in ("lower", "upper")
        for place in range(classes)
    ]
    summed = below.groupBy(F.col("parent").alias("geocode")).agg(*sums)
    tighter = {
        side: F.array(*[function(F.col(side).getItem(i), F.col(f"{side}{i}")) for i in range(classes)])
        for side, function in (("lower", F.greatest), ("upper", F.least))
    }
    return own.join(summed, "geocode").withColumns(tighter).drop(*[f"{s}{i}" for s in tighter for i in range(classes)])
