"""Totals that several geounits have together: the parts of a state, whose own totals are nobody's business (public).

Geounits that share the digits `total_key` of their geocodes (first digit, from 1, and number of digits) are a *group*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

#: Name of invariants and bounds of geounits of which only the sum over their group has a total.
GROUP_TOTAL = "group_total"

TotalKey = tuple[int, int]


def shared_totals(totals: DataFrame, total_at: str, total_key: TotalKey) -> DataFrame:
    """Totals with that of a group in the place of its members'; a geounit alone in its group keeps its own.

    Args:
        totals: `total` rows of `tables.INVARIANTS` with a column level in front.
        total_at: The level that has groups.
        total_key: Digits that the members of a group share.

    Returns:
        The same columns; members of a group of two or more have `group_total` rows.
    """
    key = F.when(F.col("level") == total_at, F.substring("geocode", *total_key)).otherwise(F.col("geocode"))
    group = Window.partitionBy("level", key)
    shared = totals.select(
        "*", F.count(F.lit(1)).over(group).alias("members"), F.sum(F.col("values").getItem(0)).over(group).alias("sum")
    )
    name = F.when(F.col("members") > 1, GROUP_TOTAL).otherwise(F.col("name"))
    return shared.select("level", "geocode", "parent", name.alias("name"), F.array("sum").alias("values"))


def boxes_of_groups(bounds: DataFrame) -> DataFrame:
    """Sums of the members' class bounds, with the total of the group.

    Args:
        bounds: `tables.BOUNDS` with a column level: `class` and `group_total` rows.

    Returns:
        Columns geocode (the key of the group), lower, upper, total.
    """
    groups = bounds.where(F.col("name") == GROUP_TOTAL)
    totals = groups.select("level", "geocode", F.col("member").alias("key"), F.col("lower").getItem(0).alias("total"))
    members = bounds.where("name = 'class'").select("level", "geocode", "lower", "upper")
    sides = [F.collect_list(side).alias(side) for side in ("lower", "upper")]
    joined = members.join(totals, ["level", "geocode"]).groupBy("level", "key")
    listed = joined.agg(*sides, F.max("total").alias("total"))

    def summed(side: str) -> Column:
        rest = F.slice(side, F.lit(2), F.size(side) - 1)
        return F.aggregate(
            rest, F.col(side).getItem(0), lambda one, other: F.zip_with(one, other, lambda a, b: a + b)
        ).alias(side)

    return listed.select(F.col("key").alias("geocode"), summed("lower"), summed("upper"), "total")
