"""From a spine that is made of areas back to the geounits of the census, and from its paths to shares and geocodes.

The leaf of such a spine is a block behind its path; the geocode that the census gives it stands at the end (S-3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.geography import BLOCK, ROOT_GEOCODE
from das_spark.places import Place
from das_spark.spark.engine import scan
from das_spark.spark.ingest import all_levels
from das_spark.spark.problems import reading
from das_spark.spark.tables import BLOCKS
from das_spark.store.spine import SpineRecord, blocks_of, read_record, require_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.geography import Geolevel, Spine


def census_geocode(column: str = "geocode") -> Column:
    """The geocode that the census gives a block, from its geocode on the spine. A column named geocode."""
    return F.right(F.col(column), F.lit(BLOCK)).alias("geocode")


def geocode_at(level: Geolevel) -> Column:
    """The geounit of a level that holds the one of a column geocode."""
    return F.substring("geocode", 1, level.length) if level.length else F.lit(ROOT_GEOCODE)


def on_spine(leaves: DataFrame, paths: DataFrame) -> DataFrame:
    """Leaves under their geocodes on the spine. The same columns; leaves without a path are left out."""
    on_it = paths.select(F.col("block").alias("geocode"), F.element_at("path", -1).alias("on_it"))
    others = [name for name in leaves.columns if name != "geocode"]
    return leaves.join(on_it, "geocode").select(F.col("on_it").alias("geocode"), *others)


def unknown_blocks(rows: DataFrame, known: DataFrame) -> DataFrame:
    """Geocodes of rows whose block is not among the known ones.

    Column geocode: one row for each row with an unknown block.
    """
    return rows.select("geocode").join(known.select("geocode"), "geocode", "left_anti")


def on_census(rows: DataFrame) -> DataFrame:
    """Rows of leaves under the geocodes of the census; parents are those of the spine still."""
    return rows.select(*[census_geocode() if name == "geocode" else F.col(name) for name in rows.columns])


def leaves_on_census(rows: DataFrame, spine: Spine) -> DataFrame:
    """Rows of the lowest level of a table with a column level, under the geocodes of the census."""
    return on_census(rows.where(F.col("level") == spine.leaf.name))


def geounit_shares(paths: DataFrame, levels: Sequence[str]) -> DataFrame:
    """The share of every geounit: `tables.SHARES` with a column level in front."""
    structs = [
        F.struct(
            F.lit(level).alias("level"),
            F.get("path", F.lit(depth)).alias("geocode"),
            (F.get("path", F.lit(depth - 1)) if depth else F.lit("")).alias("parent"),
            F.get("shares", F.lit(depth)).alias("share"),
        )
        for depth, level in enumerate(levels)
    ]
    return paths.select(F.explode(F.array(*structs)).alias("geounit")).select("geounit.*").distinct()


def census_histograms(leaves: DataFrame, spine: Spine) -> DataFrame:
    """Histograms of the geounits of the census: `tables.HISTOGRAMS` with a column level in front."""
    return all_levels(leaves.select(census_geocode(), "cells", "counts"), spine)


@dataclass(frozen=True, slots=True)
class StoredSpine:
    """A spine that was read back."""

    record: SpineRecord  # what it is
    blocks: DataFrame  # columns block (16 digits), path and shares (arrays of text, root first), one row a block


def read_spine(spark: SparkSession, folder: Place) -> StoredSpine:
    """Open a spine that `write_spine` wrote, after comparing every byte with its record."""
    record = read_record(folder)
    require_blocks(folder, record.files)
    with reading(str(folder)):
        return StoredSpine(record, scan(spark, BLOCKS, [blocks_of(folder)]))
