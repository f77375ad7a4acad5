"""Codes that geounits have by themselves, where geocodes are made of those of all geounits above (`Geolevel.code`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.geography import PADDING
from das_spark.io.input_fields import GEOCODE
from das_spark.spark.problems import Problem, refuse, some_geounits

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.geography import Spine
    from das_spark.spark.readers import IngestedTables
    from das_spark.spark.verify import RunTables


def under_geocodes(ingested: IngestedTables, known: Mapping[str, str], table: str) -> IngestedTables:
    """What a reader gives by the codes of an office, by geocodes.

    Args:
        ingested: Tables whose column geocode holds codes of the lowest level.
        known: Code -> geocode, of public geography.
        table: Where that is from, for messages.

    Raises:
        BadInputError: A code is not known there.
    """
    leaves = ingested.leaves
    spark: SparkSession = leaves.sparkSession
    columns = {"code": pa.array(list(known), pa.string()), "known": pa.array(list(known.values()), pa.string())}
    codes = F.broadcast(spark.createDataFrame(pa.table(columns)))
    # Whatever is counted lies in one of the geounits: the readers have seen to that.
    unknown = leaves.join(codes, F.col(GEOCODE) == F.col("code"), "left_anti")
    number = unknown.count()
    if number:
        some = some_geounits(unknown)
        refuse([Problem("the geounits of the input", GEOCODE, f"codes that are in {table}", number, geounits=some)])
    others = [name for name in leaves.columns if name != GEOCODE]
    joined = leaves.join(codes, F.col(GEOCODE) == F.col("code"))
    return replace(ingested, leaves=joined.select(F.col("known").alias(GEOCODE), *others))


def own_code(spine: Spine) -> Column:
    """The code that a geounit has by itself, of rows with a column level; a column named geocode."""
    code: Column = F.col(GEOCODE)
    for name, span in spine.own_codes.items():
        code = F.when(F.col("level") == name, own_part(span)).otherwise(code)
    return code.alias(GEOCODE)


def own_part(span: tuple[int, int]) -> Column:
    """One of the codes that a geocode is made of, without what fills it up."""
    begin, end = span
    return F.regexp_replace(F.substring(GEOCODE, begin + 1, end - begin), rf"[{PADDING}]+$", "")


def under_own_codes(tables: RunTables, spine: Spine) -> RunTables:
    """Tables under the codes that geounits have by themselves, as published tables are."""
    return _under(tables, own_code(spine))


def under_parts(tables: RunTables, spans: Sequence[tuple[int, int]]) -> RunTables:
    """The same of leaves under the codes that columns of microdata hold, one behind the other."""
    return _under(tables, F.concat(*map(own_part, spans)).alias(GEOCODE))


def _under(tables: RunTables, code: Column) -> RunTables:
    def named(rows: DataFrame) -> DataFrame:
        return rows.select(*[code if name == GEOCODE else F.col(name) for name in rows.columns])

    declared = None if tables.invariants is None else named(tables.invariants)
    return replace(tables, geounits=named(tables.geounits), estimates=named(tables.estimates), invariants=declared)


def by_geocodes(rows: DataFrame, geounits: DataFrame, spine: Spine) -> DataFrame:
    """Rows with columns level and own code, under geocodes again; `geounits` are all there are (level, geocode)."""
    if not spine.own_codes:
        return rows
    known = geounits.select("level", F.col(GEOCODE).alias("known"), own_code(spine))
    joined = rows.join(known, ["level", GEOCODE], "left")
    found = F.coalesce("known", GEOCODE).alias(GEOCODE)
    return joined.select(*[found if name == GEOCODE else F.col(f"`{name}`") for name in rows.columns])
