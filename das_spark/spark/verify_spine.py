"""Whether a run on an optimized spine kept its budget and published the right census geounits; plain SQL.

The sum of shares on every path is what the guarantee rests on (Theorem 3 of Cumings-Menon et al. 2022, S-22).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import pairwise
from math import lcm
from operator import or_
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.core import UNMEASURED
from das_spark.geography import BLOCK
from das_spark.spark.balanced import balanced
from das_spark.spark.census import census_geocode, geounit_shares
from das_spark.spark.checks import Finding, Rule, findings
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.ingest import level_structs
from das_spark.spark.lists import group_starts, whole_groups
from das_spark.spark.tables import union
from das_spark.spark.verify import RunTables
from das_spark.spark.verify_columns import columns_rule, first_wrong, side_by_side

if TYPE_CHECKING:
    from das_spark.geography import Spine


PATHS: Final = "shares sum to 1 on every path"
MEASURED: Final = "measured geounits have a share"
CENSUS: Final = "census geounits sum up blocks"


def spine_rules(
    shares: DataFrame, measurements: DataFrame, read: RunTables, published: RunTables, census: Spine
) -> list[Rule]:
    """The rules of an optimized spine."""
    return [
        _paths(shares, read.levels),
        _measured(shares, measurements, read.levels),
        _census(read, published, census),
    ]


def share_of(text: str | None) -> Fraction:
    """The share that a text says; 0 where it says none."""
    try:
        return max(Fraction(text or 0), Fraction(0))
    except (ValueError, ZeroDivisionError):
        return Fraction(0)


def block_columns(blocks: DataFrame, spine: Spine) -> Rule:
    """Every block ends its path, on which each geocode begins the next one; shares are one for each geounit."""
    leaf, depth = F.element_at("path", -1), len(spine.names)
    path = blocks.select(F.lit(spine.leaf.name).alias("level"), leaf.alias("geocode"), "block", "path", "shares")
    way = F.array(*[at.getField("geocode") for at in level_structs(spine)])
    wrong = {
        "block": F.col("block") != F.right("geocode", F.lit(BLOCK)),
        "path": F.col("path") != way,
        "shares": F.size("shares") != depth,
    }
    return columns_rule(first_wrong(path, "spine", wrong), "spine", (spine.leaf.name,))


def share_columns(shares: DataFrame, blocks: DataFrame, read: RunTables, spine: Spine) -> Rule:
    """Every geounit has the share that the paths of its blocks say, once."""
    keys, compared = ("level", "geocode"), ("parent", "share")
    both = [frame.select(*keys, *compared) for frame in (geounit_shares(blocks, spine.names), shares)]
    summed = side_by_side([*both, read.geounits.select(*keys)], keys, compared)
    wrong = {
        "geocode": balanced(or_, [F.col(f"rows{number}") != 1 for number in range(3)]),
        **{name: F.col(f"{name}0") != F.col(f"{name}1") for name in compared},
    }
    return columns_rule(first_wrong(summed, "shares", wrong), "shares", spine.names)


def _paths(shares: DataFrame, levels: tuple[str, ...]) -> Rule:
    """The shares from the top to each leaf sum to exactly 1: in integers over their common denominator."""
    texts = [str(row["share"]) for row in shares.select("share").distinct().collect()]  # a handful
    parts = [share_of(text) for text in texts]
    one = lcm(*(part.denominator for part in parts))
    numerators = pa.array([int(part * one) for part in parts], pa.int64())
    known = shares.sparkSession.createDataFrame(pa.table({"share": pa.array(texts, pa.string()), "part": numerators}))
    numbered = shares.join(F.broadcast(known), "share")
    at = {name: numbered.where(F.col("level") == name).select("geocode", "parent", "part") for name in levels}
    summed = at[levels[0]].select("geocode", F.col("part").alias("above"))
    for _, name in pairwise(levels):
        over = summed.withColumnRenamed("geocode", "parent")
        summed = (
            at[name].join(over, "parent", "left").select("geocode", (F.col("part") + F.col("above")).alias("above"))
        )
    leaf = levels[-1]
    paths = summed.select(F.lit(leaf).alias("level"), "geocode", "above")
    return Rule(
        findings(paths, Finding(PATHS, ~F.coalesce(F.col("above") == one, F.lit(False)), 1)), ((PATHS, leaf, ""),)
    )


def _measured(shares: DataFrame, measurements: DataFrame, levels: tuple[str, ...]) -> Rule:
    """No answer of a geounit without a share was published, and none of one that the spine does not have."""
    measured = measurements.select("level", "geocode", F.lit(1).alias("found"), F.lit(0).alias("share")).distinct()
    shared = shares.select(
        "level", "geocode", F.lit(0).alias("found"), (F.col("share") != UNMEASURED).cast("int").alias("share")
    )
    summed = measured.unionAll(shared).groupBy("level", "geocode")
    both = summed.agg(F.max("found").alias("found"), F.max("share").alias("share"))
    expected = tuple((MEASURED, name, "") for name in levels)
    return Rule(findings(both, Finding(MEASURED, (F.col("found") == 1) & (F.col("share") == 0), 1)), expected)


def _census(read: RunTables, published: RunTables, census: Spine) -> Rule:
    """Every block of the census has its own counts, and every geounit above in every cell the sum of its children's.

    Where nobody lives nothing is summed; so every histogram has a cell more, in which one geounit is counted.
    """
    one = {"cells": F.array(F.lit(-1)), "counts": F.array(F.lit(1).cast("bigint"))}
    arrays = [F.concat(name, each).alias(name) for name, each in one.items()]
    leaf, sign = read.estimates.where(F.col("level") == read.levels[-1]), F.lit(1).alias("sign")
    own = published.estimates.select("level", F.col("geocode").alias("family"), *arrays, F.lit(-1).alias("sign"))
    blocks = leaf.select(F.lit(census.leaf.name).alias("level"), census_geocode().alias("family"), *arrays, sign)
    sides = [own, blocks]
    if len(census.names) > 1:
        above = F.create_map(*[F.lit(name) for pair in pairwise(census.names) for name in reversed(pair)])
        children = published.estimates.where(F.col("level") != census.names[0])
        keys = (above[F.col("level")].alias("level"), F.col("parent").alias("family"))
        sides.append(children.select(*keys, "cells", "counts", sign))
        there = [each.alias(name) for name, each in one.items()]
        sides.append(children.select(*keys).distinct().select("level", "family", *there, sign))
    found = Finding(CENSUS, F.col("differs"), F.col("checked"))
    return Rule(findings(_added_up(sides), found), tuple((CENSUS, name, "") for name in census.names))


def _added_up(sides: Sequence[DataFrame]) -> DataFrame:
    """Whether the histograms of every family sum to nothing: level, geocode (of the family), differs, checked.

    Args:
        sides: Columns level, family, cells, counts, and sign: -1 for what others sum up to, 1 for those, 0 for a family
            that is looked at even if it has no rows besides.
    """
    together = union(sides).repartition("level", "family")
    return in_sorted_tasks(together, ("level", "family"), _families_summed, _FAMILIES)


_ARRAYS: Final = ("array<int>", "array<bigint>")
_FAMILIES: Final = "level string, geocode string, differs boolean, checked bigint"
#: Rows, and bytes, of the families whose histograms are added up at once.
_ROWS_AT_ONCE: Final = 1 << 15
_BYTES_AT_ONCE: Final = 1 << 26


def _families_summed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row a family: whether its children differ from it in any cell, and how many values were compared."""
    for table in whole_groups(batches, ("level", "family"), _ROWS_AT_ONCE, _BYTES_AT_ONCE):
        (rows,) = table.combine_chunks().to_batches()
        first = group_starts(rows, ("level", "family"))
        family = np.repeat(np.arange(len(first)), np.diff([*first, rows.num_rows]))
        sign = rows.column("sign").to_numpy().astype(np.int64)
        cells, counts = (rows.column(name) for name in ("cells", "counts"))
        width = cells.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        # Lists of different lengths are no histogram: the family differs, and they are not added up.
        crooked = width != counts.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        differs = np.bincount(family[crooked], minlength=len(first)) > 0
        straight = pa.array(~crooked)
        cell, count = (each.filter(straight).flatten().fill_null(0).to_numpy() for each in (cells, counts))
        row = np.repeat(np.flatnonzero(~crooked), width[~crooked])
        lowest, highest = int(cell.min(initial=0)), int(cell.max(initial=0))
        key = family[row] * (highest - lowest + 1) + (cell.astype(np.int64) - lowest)
        _, some, place = np.unique(key, return_index=True, return_inverse=True)
        total = np.zeros(len(some), dtype=np.int64)
        np.add.at(total, place, sign[row] * count)
        differs[family[row[some[total != 0]]]] = True
        # Cells of children, and every parent once.
        checked = np.bincount(family, weights=np.where(sign > 0, width, sign == 0), minlength=len(first))
        begin = pa.array(first)
        yield pa.RecordBatch.from_arrays(
            [
                rows.column("level").take(begin),
                rows.column("family").take(begin),
                pa.array(differs),
                pa.array(checked.astype(np.int64)),
            ],
            ["level", "geocode", "differs", "checked"],
        )
