"""Whether columns of arrays, shares and census geounits hold what they must: Spark SQL, a check a table and level.

What fails is named by geocode and column; `das_spark.verification.RULES` says of each column what it is compared with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.core.linear import UNKNOWN
from das_spark.spark.checks import Finding, Rule, findings
from das_spark.spark.verify import RunTables
from das_spark.verification import keys, rule_name

if TYPE_CHECKING:
    from pyspark.sql import Column


def first_wrong(frame: DataFrame, table: str, wrong: Mapping[str, Column], checked: int | Column = 1) -> DataFrame:
    """Findings that name a geocode and the first of its columns that is wrong; null is wrong, too."""
    column = F.coalesce(*[F.when(F.coalesce(bad, F.lit(True)), F.lit(name)) for name, bad in wrong.items()])
    named = frame.withColumn("wrong", column).withColumn(
        "geocode", F.concat_ws(" ", F.coalesce("geocode", F.lit("?")), "wrong")
    )
    return findings(named, Finding(rule_name(table), F.col("wrong").isNotNull(), checked))


def columns_rule(found: DataFrame, table: str, levels: Sequence[str]) -> Rule:
    """The rule of a table."""
    return Rule(found, keys(rule_name(table), levels))


def array_columns(rows: DataFrame, table: str, tables: RunTables, levels: Sequence[str]) -> Rule:
    """Every geounit of some levels has the same arrays, each once, of numbers; or one alone, if nothing is known."""
    is_unknown = F.col("name") == UNKNOWN
    names = F.broadcast(rows.where(~is_unknown).select("level", "name").distinct())
    known = tables.geounits.where(F.col("level").isin(*levels)).select("level", "geocode", "parent")
    unknown = rows.where(is_unknown).select("level", "geocode", F.lit(UNKNOWN).alias("name")).distinct()
    wanted = (
        known.join(unknown, ["level", "geocode"], "left_anti")
        .join(names, "level", "left")
        .unionByName(known.join(unknown, ["level", "geocode"]))
    )
    given = rows.select(
        "level",
        "geocode",
        "name",
        F.lit(1).alias("times"),
        F.col("parent").alias("given"),
        F.exists("values", F.isnan).alias("odd"),
    )
    both = wanted.join(given, ["level", "geocode", "name"], "full")
    parent = F.lit("") if table == "upward_sums" else F.col("parent")
    counted = both.groupBy("level", "geocode", "name").agg(
        F.sum("times").alias("times"),
        F.max(F.col("parent").isNull()).alias("unknown"),
        F.max(F.col("given") != parent).alias("wrong"),
        F.max("odd").alias("odd"),
    )
    wrong = {
        "geocode": F.col("unknown"),
        "name": F.col("times") != 1,
        "parent": F.col("wrong"),
        "values": F.col("odd"),
    }
    return columns_rule(first_wrong(counted, table, wrong), table, levels)
