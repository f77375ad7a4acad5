"""Histograms and geounits of every level as sums over those of the lowest, and constraints against totals, in SQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.core.levels import GROUP_TOTAL
from das_spark.spark.lists import list_total

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.geography import Spine


def all_levels(leaves: DataFrame, spine: Spine) -> DataFrame:
    """Histograms of every geounit of every level, each level but the lowest by one sum over cells.

    The lowest level is the leaves themselves; the level above it is summed from them, and all others from that one,
    which has a fraction of their rows.

    `tables.HISTOGRAMS` with a column level in front (the geolevel's name).
    """
    structs = level_structs(spine)
    lowest = leaves.select(structs[-1].alias("geounit"), "cells", "counts").select(
        *[f"geounit.{name}" for name in _OF_GEOUNITS], *_HISTOGRAM
    )
    if len(spine.levels) == 1:
        return lowest
    pairs = leaves.select(
        structs[-2].getField("geocode").alias("geocode"),
        F.explode_outer(F.arrays_zip("cells", "counts")).alias("pair"),
    )
    cells = pairs.select("geocode", F.col("pair.cells").alias("cell"), F.col("pair.counts").alias("count"))
    above = cells.groupBy("geocode", "cell").agg(F.sum("count").alias("count"))
    upper = above.select(F.explode(F.array(*structs[:-1])).alias("geounit"), "cell", "count")
    summed = upper.groupBy(*[f"geounit.{name}" for name in _OF_GEOUNITS], "cell").agg(F.sum("count").alias("count"))
    return gather(summed, *_OF_GEOUNITS).select(*_OF_GEOUNITS, *_HISTOGRAM).unionAll(lowest)


_OF_GEOUNITS: Final = ("level", "geocode", "parent")
_HISTOGRAM: Final = ("cells", "counts")


def level_structs(spine: Spine) -> list[Column]:
    """For the leaf geocode of a row, (level, depth, geocode, parent) at every level of the spine.

    Root first; depth is 0 and parent empty at the root.
    """
    geocodes = [F.lit("0") if level.length == 0 else F.substring("geocode", 1, level.length) for level in spine.levels]
    structs = []
    for depth, level in enumerate(spine.levels):
        parent = geocodes[depth - 1] if depth else F.lit("")
        structs.append(
            F.struct(
                F.lit(level.name).alias("level"),
                F.lit(depth).alias("depth"),
                geocodes[depth].alias("geocode"),
                parent.alias("parent"),
            )
        )
    return structs


def gather(cells: DataFrame, *keys: str) -> DataFrame:
    """One sparse histogram for the cells (cell, count) of rows with the same keys."""
    # A row with a null cell stands for an empty geounit: it keeps the geounit and adds nothing.
    pair = F.when(F.col("cell").isNotNull(), F.struct("cell", "count"))
    pairs = F.sort_array(F.collect_list(pair))
    grouped = cells.groupBy(*keys).agg(pairs.alias("pairs"))
    return grouped.select(
        *keys,
        F.col("pairs.cell").cast("array<int>").alias("cells"),
        F.col("pairs.count").cast("array<bigint>").alias("counts"),
    )


def added_against_totals(bounds: DataFrame, whole: Sequence[str]) -> DataFrame:
    """Added constraints that ask for more people than a total, or leave no room for them: geocode, name."""
    total = F.col("lower").getItem(0).alias("total")
    # Geounits with a total together are asked together, under the name of their group.
    totals = bounds.where(F.col("name").isin("total", GROUP_TOTAL)).select(
        "level", "geocode", F.col("member").alias("holder"), total
    )
    sums = [F.sum(list_total(side)).alias(name) for side, name in (("lower", "least"), ("upper", "most"))]
    rules = bounds.where(F.col("name").startswith("added:")).join(totals, ["level", "geocode"])
    asked = rules.groupBy("level", F.col("holder").alias("geocode"), "name", "total").agg(*sums)
    least, most, everybody = F.col("least"), F.col("most"), F.col("name").isin([f"added:{name}" for name in whole])
    return asked.where((least > F.col("total")) | (everybody & (most < F.col("total"))))
