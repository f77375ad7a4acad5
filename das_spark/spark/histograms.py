"""From ingested counts to the confidential histograms of every geolevel (restricted tables)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.spark import tables

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.geography import Spine


def leaf_table(counts: DataFrame, geounits: DataFrame, *, vacant_counted: bool = False) -> DataFrame:
    """Gather counts into one sparse histogram a leaf geounit; geounits without people get an empty one.

    Args:
        counts: Columns geocode, cell (int), count (long, people); a cell may occur more than once.
        geounits: Columns geocode, units (array of long or null), vacant (long or null); every leaf geounit once.
        vacant_counted: Whether vacant units belong to the first class; if so, nothing tells them apart any more.

    Returns:
        `tables.LEAVES`.
    """
    summed = counts.groupBy("geocode", "cell").agg(F.sum("count").alias("count")).where("count > 0")
    gathered = _gather(summed, "geocode")
    joined = (
        geounits.join(gathered, "geocode", "left")
        .select(
            "geocode",
            F.coalesce("cells", F.array().cast("array<int>")).alias("cells"),
            F.coalesce("counts", F.array().cast("array<bigint>")).alias("counts"),
            *(_pooled() if vacant_counted else (F.col("units"), F.col("vacant"))),
        )
        .select(
            "geocode",
            "cells",
            "counts",
            F.col("units").cast("array<bigint>").alias("units"),
            F.col("vacant").cast("long").alias("vacant"),
        )
    )
    return joined.select(*[field.name for field in tables.LEAVES.fields])


def _pooled() -> tuple[Column, Column]:
    """Units with the vacant ones among those of the first class (null where no units are known), and no vacant."""
    first = F.get("units", F.lit(0)) + F.coalesce("vacant", F.lit(0))
    pooled = F.concat(F.array(first), F.slice("units", F.lit(2), F.size("units") - 1))
    return F.when(F.col("units").isNotNull(), pooled).alias("units"), F.lit(None).alias("vacant")


def all_levels(leaves: DataFrame, spine: Spine) -> DataFrame:
    """Histograms of every geounit of every level, by one sum over the leaf cells.

    Args:
        leaves: `tables.LEAVES`.
        spine: The levels and their geocode rules.

    Returns:
        `tables.HISTOGRAMS` with a column level in front (the geolevel's name).
    """
    exploded = leaves.select(
        F.explode(level_structs(spine)).alias("geounit"), F.arrays_zip("cells", "counts").alias("pairs")
    )
    cells = exploded.select("geounit.*", F.explode_outer("pairs").alias("pair")).select(
        "level", "geocode", "parent", F.col("pair.cells").alias("cell"), F.col("pair.counts").alias("count")
    )
    summed = cells.groupBy("level", "geocode", "parent", "cell").agg(F.sum("count").alias("count"))
    gathered = _gather(summed, "level", "geocode", "parent")
    return gathered.select("level", "geocode", "parent", "cells", "counts")


def all_geounits(leaves: DataFrame, spine: Spine) -> DataFrame:
    """Every geounit of every level with its number of children.

    Args:
        leaves: `tables.LEAVES`.
        spine: The levels and their geocode rules.

    Returns:
        `tables.GEOUNITS` with a column level in front; geounits of the lowest level have 0 children.
    """
    each = leaves.select(F.explode(level_structs(spine)).alias("geounit")).select("geounit.*").distinct()
    children = each.groupBy((F.col("depth") - 1).alias("depth"), F.col("parent").alias("geocode")).agg(
        F.count(F.lit(1)).alias("children")
    )
    joined = each.join(children, ["depth", "geocode"], "left")
    return joined.select("level", "geocode", "parent", F.coalesce("children", F.lit(0)).cast("long").alias("children"))


def level_structs(spine: Spine) -> Column:
    """An array column: for the leaf geocode of a row, (level, depth, geocode, parent) at every level of the spine.

    Args:
        spine: The levels and their geocode rules.

    Returns:
        The array, root first; depth is 0 and parent empty at the root.
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
    return F.array(*structs)


def _gather(cells: DataFrame, *keys: str) -> DataFrame:
    # A row with a null cell stands for an empty geounit: it keeps the geounit and adds nothing.
    pair = F.when(F.col("cell").isNotNull(), F.struct("cell", "count"))
    pairs = F.sort_array(F.collect_list(pair))
    grouped = cells.groupBy(*keys).agg(pairs.alias("pairs"))
    return grouped.select(
        *keys,
        F.col("pairs.cell").cast("array<int>").alias("cells"),
        F.col("pairs.count").cast("array<bigint>").alias("counts"),
    )
