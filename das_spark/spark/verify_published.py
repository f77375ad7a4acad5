"""Rules on estimates that are held to what another product has published: every answer of every geounit is the same.

Both sides are answers in Spark SQL of tables as they were read back, summed by key with opposite signs: no code is
shared with estimation, which is given the same counts as bounds.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.spark.cells import answer_of, exploded_cells
from das_spark.spark.checks import Finding, Rule, findings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.histogram import Query
    from das_spark.spark.verify import RunTables

KEPT: Final = "published counts kept"
TABLE: Final = "published counts whole"
SUMS: Final = "published counts sum up"


def published_rules(tables: RunTables, published: DataFrame, query: Query, of: Query) -> list[Rule]:
    """The rules on the estimates, and on the table of what was published.

    Args:
        tables: The tables of the run.
        published: `tables.PUBLISHED`, all levels, with a column level.
        query: Whose answers of the estimates are held.
        of: The query of the other product with the same answers.
    """
    rules = [published_whole(tables, published, of), published_kept(tables, published, query, of)]
    return [*rules, published_sums(tables, published)] if len(tables.levels) > 1 else rules


def published_whole(tables: RunTables, published: DataFrame, of: Query) -> Rule:
    """Something was published of every geounit, once, under its own parent: possible counts of cells that exist."""
    cells, counts = F.col("cells"), F.col("counts")
    orderly = F.array_sort(F.array_distinct(cells)) == cells
    inside = ~F.exists(cells, lambda cell: (cell < 0) | (cell >= of.size))
    good = orderly & inside & ~F.exists(counts, lambda count: count <= 0) & (F.size(cells) == F.size(counts))
    keys = ("level", "geocode", "parent")
    spine = tables.geounits.select(*keys, F.lit(1).alias("expected"), F.lit(0).alias("found"))
    rows = published.select(*keys, F.lit(0).alias("expected"), F.when(good, 1).otherwise(2).alias("found"))
    summed = spine.unionAll(rows).groupBy(*keys).agg(F.sum("expected").alias("expected"), F.sum("found").alias("found"))
    bad = (F.col("expected") != 1) | (F.col("found") != 1)
    return Rule(findings(summed, Finding(TABLE, bad, F.col("expected"))), _keys(TABLE, tables.levels))


def published_kept(tables: RunTables, published: DataFrame, query: Query, of: Query) -> Rule:
    """Every estimate has exactly the published answers, those that are zero included."""
    sides = [(tables.estimates, query, 1), (published, of, -1)]
    frames = [
        exploded_cells(frame).select(
            "level",
            "geocode",
            answer_of(asked, F.col("cell")).alias("row"),
            (F.col("count") * sign).alias("difference"),
        )
        for frame, asked, sign in sides
    ]
    counted = frames[0].unionAll(frames[1]).where("row is not null")
    # Every geounit is looked at, those without anybody too.
    every = tables.geounits.select(
        "level", "geocode", F.lit(-1).alias("row"), F.lit(0).cast("bigint").alias("difference")
    )
    summed = counted.unionAll(every).groupBy("level", "geocode", "row").agg(F.sum("difference").alias("difference"))
    return Rule(findings(summed, Finding(KEPT, F.col("difference") != 0, 1)), _keys(KEPT, tables.levels))


def published_sums(tables: RunTables, published: DataFrame) -> Rule:
    """What was published of the children of every geounit sums to what was published of it, cell by cell."""
    names = [F.lit(name) for pair in pairwise(tables.levels) for name in pair]
    below = F.create_map(*names)[F.col("level")].alias("level")
    upper = F.col("level") != tables.levels[-1]
    cells = exploded_cells(published, "parent")
    own = cells.where(upper).select(below, "geocode", "cell", F.col("count").alias("difference"))
    children = cells.where(F.col("level") != tables.levels[0])
    every = tables.geounits.where(upper).select(below, "geocode", F.lit(-1).cast("bigint"), F.lit(0).cast("bigint"))
    summed = (
        own.unionAll(children.select("level", F.col("parent").alias("geocode"), "cell", -F.col("count")))
        .unionAll(every)
        .groupBy("level", "geocode", "cell")
        .agg(F.sum("difference").alias("difference"))
    )
    return Rule(findings(summed, Finding(SUMS, F.col("difference") != 0, 1)), _keys(SUMS, tables.levels[1:]))


def _keys(name: str, levels: tuple[str, ...]) -> tuple[tuple[str, str, str], ...]:
    return tuple((name, level, "") for level in levels)
