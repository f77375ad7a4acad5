"""Geounits and invariants of all levels, defined in SQL: what one job of Arrow is compared with."""

from __future__ import annotations

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from das_spark.core import GROUP_TOTAL
from das_spark.spark.ingest import level_structs
from das_spark.spark.lists import list_total
from das_spark.spark.tables import union

_KEYS = ("level", "geocode", "parent")


def all_geounits(leaves, spine):
    """Every geounit of every level with its number of children.

    `tables.GEOUNITS` with a column level in front; geounits of the lowest level, which are the leaves, have 0 children.
    """
    structs, depth = level_structs(spine), len(spine.levels) - 2
    columns = ("level", "geocode", "parent", "children")
    none = F.lit(0).cast("long").alias("children")
    leaf = leaves.select(structs[-1].alias("geounit"))
    lowest = leaf.select("geounit.level", "geounit.geocode", "geounit.parent", none)
    if depth < 0:
        return lowest
    above = leaf.groupBy(F.col("geounit.parent").alias("geocode")).agg(F.count(F.lit(1)).alias("children"))
    each = above.select(F.explode(F.array(*structs[:-1])).alias("geounit")).select("geounit.*").distinct()
    children = (
        each.groupBy((F.col("depth") - 1).alias("depth"), F.col("parent").alias("geocode"))
        .agg(F.count(F.lit(1)).alias("children"))
        .unionAll(above.select(F.lit(depth), "geocode", "children"))
    )
    joined = each.join(children, ["depth", "geocode"])
    return joined.select(*columns).unionAll(lowest)


def all_invariants(leaves, histograms, spine, invariants, total_key=None):
    """The declared invariants: `tables.INVARIANTS` with a column level in front."""
    frames = []
    if invariants.total_at is not None:
        names = spine.names[: spine.index(invariants.total_at) + 1]
        totals = histograms.where(F.col("level").isin(*names)).select(
            *_KEYS, F.lit("total").alias("name"), F.array(list_total("counts")).alias("values")
        )
        frames.append(totals if total_key is None else _shared_totals(totals, invariants.total_at, total_key))
    if invariants.units:
        leaf = leaves.select(level_structs(spine)[-1].alias("at"), "units", "vacant")
        keys = [F.col(f"at.{key}").alias(key) for key in _KEYS]
        frames.append(leaf.select(*keys, F.lit("units").alias("name"), F.col("units").alias("values")))
        vacant = leaf.where("vacant is not null")
        frames.append(vacant.select(*keys, F.lit("vacant").alias("name"), F.array("vacant").alias("values")))
    empty = "level string, geocode string, parent string, name string, values array<bigint>"
    return union(frames) if frames else histograms.sparkSession.createDataFrame([], empty)


def _shared_totals(totals, total_at, total_key):
    """Totals with that of a group in the place of its members'; a geounit alone in its group keeps its own."""
    key = F.when(F.col("level") == total_at, F.substring("geocode", *total_key)).otherwise(F.col("geocode"))
    group = Window.partitionBy("level", key)
    shared = totals.select(
        "*", F.count(F.lit(1)).over(group).alias("members"), F.sum(F.col("values").getItem(0)).over(group).alias("sum")
    )
    name = F.when(F.col("members") > 1, GROUP_TOTAL).otherwise(F.col("name"))
    return shared.select("level", "geocode", "parent", name.alias("name"), F.array("sum").alias("values"))
