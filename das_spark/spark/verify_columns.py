"""Whether every column of the public tables holds what it must; plain Spark SQL, a check a table and level.

`das_spark.spark.verify` compares estimates with invariants and bounds. Here every table is compared with what follows
from others and from the configuration: geounits and parents from geocodes, the rows of invariants and bounds from what
is declared, rows, lengths and variances of measurements from the estimates above and the budget, families from
geounits. `RULES` says of each column what it is compared with; a column without a line there is an error of das_spark.

Two kinds of columns have no value that they must equal: noisy answers (given their number, and by
`das_spark.spark.verify_noise` how far they may be from one another), and what a solver says of its own work (given its
range, and by the manifest its worst values and counts). What fails is named by geocode and column.
"""

from __future__ import annotations

import secrets
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from itertools import pairwise
from operator import or_
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.core import GROUP_TOTAL, UNMEASURED
from das_spark.core.linear import UNKNOWN
from das_spark.estimation import UNPROVED, FamilyStatus
from das_spark.spark.balanced import balanced
from das_spark.spark.cells import answer_of
from das_spark.spark.checks import Finding, Rule, findings
from das_spark.spark.noisy_rows import by_level, parent_of
from das_spark.spark.verify import RunTables, present

if TYPE_CHECKING:
    from pyspark.sql import Column

    from das_spark.config import EstimationSettings
    from das_spark.constraints import Invariants
    from das_spark.geography import Spine
    from das_spark.histogram import Query
    from das_spark.spark.bounds import TotalKey

_PREFIX: Final = "a prefix of the geocode"
_SPINE: Final = "the levels of the spine"
_CELLS: Final = "children sum to parents; leaves equal the microdata"
_RANGE: Final = "its range; counts and worst values in the manifest"
#: Table -> column -> what verification compares it with.
RULES: Final[Mapping[str, Mapping[str, str]]] = {
    "geounits": {"geocode": _SPINE, "parent": _PREFIX, "children": "geounits one level below with that parent"},
    "invariants": {
        "geocode": "geounits",
        "parent": _PREFIX,
        "name": "declared invariants, each once",
        "values": "estimates, microdata and the bounds that follow",
    },
    "bounds": {
        "geocode": "bounds made again of the invariants",
        "parent": _PREFIX,
        **dict.fromkeys(("name", "member", "lower", "upper"), "bounds made again of the invariants"),
    },
    "measurements": {
        "geocode": "geounits that are measured",
        "parent": _PREFIX,
        "query": "queries of the budget, each once",
        "rows": "answers that the parent's estimate can touch, or all",
        "values": "number of answers; their noise by that of parents and children (verify_noise)",
        "variance": "the mechanism of the budget",
    },
    "estimates": {"geocode": "geounits", "parent": "geounits", "cells": _CELLS, "counts": _CELLS},
    **{
        table: {
            "geocode": "geounits",
            "parent": "geounits; empty in upward_sums",
            "name": "names in the other geounits of its level, each once",
            "values": "that they are numbers; the estimator alone knows them",
        }
        for table in ("estimate_arrays", "upward", "upward_sums")
    },
    "published": {
        "geocode": "geounits, each once",
        "parent": "parents of geounits",
        "cells": "possible cells in order, with the answers of the estimates; children sum to parents",
        "counts": "answers of the estimates; children sum to parents",
    },
    "census_estimates": {
        "geocode": "blocks",
        "parent": _PREFIX,
        **dict.fromkeys(("cells", "counts"), "sums over the blocks of the spine"),
    },
    "diagnostics": {
        "geolevel": "the level of the folder",
        "family": "parents of geounits",
        "children": "geounits of the family",
        "status": "known ones, as the manifest counts them",
        "solver": "known ones, as the manifest counts them",
        "relaxed": "the manifest",
        "message": "empty unless relaxed",
        "problem": "empty",
        "rounding": "known ones",
        "gap": "the tolerance of the configuration; the worst in the manifest",
        **dict.fromkeys(("variables", "passes", "primal_residual", "iterations", "attempts", "rounding_gap"), _RANGE),
    },
    "shares": dict.fromkeys(("geocode", "parent", "share"), "paths of the spine"),
    "spine/blocks": {
        "block": "the end of its path",
        "path": "prefixes of its last geocode",
        "shares": "shares sum to 1 on every path",
    },
}

_METHOD: Final = "(largest remainder|minimum-cost flow|(linear|mixed-integer) program(, widened)?)"
_ROUNDING: Final = f"^{_METHOD}(, {_METHOD})*$"
_SHORTCUTS: Final = (str(FamilyStatus.ONLY_CHILD), str(FamilyStatus.EMPTY_PARENT))


@dataclass(frozen=True, slots=True)
class MeasuredQuery:
    """A query that a level is asked."""

    query: Query
    # share of the budget that geounits have, as text ("" stands for the level's) -> variance of the noise
    variances: Mapping[str, float]


def side_by_side(frames: Sequence[DataFrame], keys: Sequence[str], compared: Sequence[str]) -> DataFrame:
    """What frames have of the same keys: how many rows each (rows0, rows1), and their values (parent0, parent1)."""
    sides = [frame.withColumn("side", F.lit(number)) for number, frame in enumerate(frames)]

    def of(number: int, value: Column) -> Column:
        return F.when(F.col("side") == number, value)

    rows = [F.count(of(number, F.lit(1))).alias(f"rows{number}") for number in range(len(frames))]
    values = [F.max(of(number, F.col(name))).alias(f"{name}{number}") for name in compared for number in (0, 1)]
    every = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), sides)
    return every.groupBy(*keys).agg(*rows, *values)


def rule_name(table: str) -> str:
    """Name of the check of a table."""
    return f"columns of {table}"


def first_wrong(frame: DataFrame, table: str, wrong: Mapping[str, Column], checked: int | Column = 1) -> DataFrame:
    """Findings that name a geocode and the first of its columns that is wrong; null is wrong, too."""
    column = F.coalesce(*[F.when(F.coalesce(bad, F.lit(True)), F.lit(name)) for name, bad in wrong.items()])
    named = frame.withColumn("wrong", column).withColumn(
        "geocode", F.concat_ws(" ", F.coalesce("geocode", F.lit("?")), "wrong")
    )
    return findings(named, Finding(rule_name(table), F.col("wrong").isNotNull(), checked))


def columns_rule(found: DataFrame, table: str, levels: Sequence[str]) -> Rule:
    """The rule of a table."""
    return Rule(found, tuple((rule_name(table), level, "") for level in levels))


def geounit_columns(tables: RunTables, spine: Spine) -> Rule:
    """Every geounit has a geocode of its level, a parent that is there and begins it, and the count of its children."""
    own = tables.geounits.select(
        "level", "geocode", F.lit(1).alias("rows"), "children", _odd_parent(spine).cast("int").alias("parent")
    )
    lower = tables.geounits.where(F.col("level") != spine.names[0])
    none = F.lit(0)
    above = lower.select(_level_above(spine), F.col("parent").alias("geocode"), none, F.lit(-1).cast("bigint"), none)
    summed = own.unionAll(above).groupBy("level", "geocode")
    counted = summed.agg(
        F.sum("rows").alias("rows"), F.sum("children").alias("children"), F.max("parent").alias("parent")
    )
    wrong = {
        "geocode": (F.col("rows") != 1) | ~_fits(spine),
        "parent": F.col("parent") != 0,
        "children": F.col("children") != 0,
    }
    return columns_rule(first_wrong(counted, "geounits", wrong), "geounits", spine.names)


def parent_columns(rows: DataFrame, table: str, spine: Spine) -> Rule:
    """The parent of every row is that of its geocode."""
    return columns_rule(first_wrong(rows, table, {"parent": _odd_parent(spine)}), table, spine.names)


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


def invariant_columns(
    tables: RunTables,
    spine: Spine,
    declared: Invariants,
    classes: int,
    *,
    counts_units: bool,
) -> Rule | None:
    """Every geounit declares what the run declares, once, and nothing else."""
    if tables.invariants is None:
        return None
    totals, leaf = declared.total_levels(spine.names), spine.leaf.name
    units = [name for name in declared.names if name != "total"]
    names = {level: ["total"] * (level in totals) + (units if level == leaf else []) for level in spine.names}
    grouped = spine.total_key_at(declared.total_at) is not None
    name = F.when((F.col("name") == GROUP_TOTAL) & F.lit(grouped), "total").otherwise(F.col("name"))
    of_levels = F.array(*[F.array(*map(F.lit, names[level])).cast("array<string>") for level in spine.names])
    geounits = tables.geounits.where(F.col("level").isin(*[level for level in spine.names if names[level]])).select(
        "level", "geocode", F.explode(F.get(of_levels, by_level(spine, F.lit))).alias("name")
    )
    size = F.when(F.col("name") == "units", classes).otherwise(1)
    possible = (F.size("values") == size) & ~F.exists("values", lambda value: value.isNull() | (value < 0))
    first = F.col("values").getItem(0)
    # Of a total and the units of the first class, where these are the same.
    same = F.col("level").isin(*totals) & (F.col("level") == leaf) & F.lit(counts_units and "units" in units)
    found = tables.invariants.select(
        "level",
        "geocode",
        name.alias("name"),
        F.lit(0).alias("expected"),
        F.lit(1).alias("found"),
        _odd_parent(spine).cast("int").alias("parent"),
        F.when(possible, 0).otherwise(1).alias("impossible"),
        F.when(same & (F.col("name") == "total"), first).when(same & (F.col("name") == "units"), -first).alias("twice"),
    )
    none = F.lit(0)
    rows = geounits.select("level", "geocode", "name", F.lit(1), none, none, none, none.cast("bigint"))
    each = found.unionAll(rows).groupBy("level", "geocode", "name")
    sums = ("expected", "found", "twice")
    counted = each.agg(*[F.sum(x).alias(x) for x in sums], *[F.max(x).alias(x) for x in ("parent", "impossible")])
    # A geounit of which nobody said how many vacant units it has declares none.
    absent = (F.col("name") == "vacant") & (F.col("found") == 0)
    odd = (F.col("expected") != F.col("found")) & ~absent
    whole = counted.withColumn("odd", F.coalesce(odd, F.lit(True)).cast("int")).groupBy("level", "geocode")
    summed = whole.agg(
        *[F.max(x).alias(x) for x in ("odd", "parent", "impossible")],
        F.sum("twice").alias("twice"),
        F.sum("expected").alias("checked"),
    )
    wrong = {
        "name": F.col("odd") != 0,
        "parent": F.col("parent") != 0,
        "values": (F.col("impossible") != 0) | (F.coalesce("twice", none) != 0),
    }
    declaring = [level for level in spine.names if names[level]]
    return columns_rule(first_wrong(summed, "invariants", wrong, F.col("checked")), "invariants", declaring)


def bound_columns(tables: RunTables, spine: Spine, expected: DataFrame, levels: Sequence[str]) -> Rule | None:
    """The bounds are those that follow, and there are no others."""
    if tables.bounds is None:
        return None
    keys, compared = ("level", "geocode", "name", "member"), ("parent", "lower", "upper")
    both = [frame.select(*keys, *compared) for frame in (expected, tables.bounds)]
    summed = side_by_side(both, keys, compared)
    wrong = {
        "name or member": (F.col("rows0") != 1) | (F.col("rows1") != 1),
        **{name: ~F.col(f"{name}0").eqNullSafe(F.col(f"{name}1")) for name in compared},
    }
    return columns_rule(first_wrong(summed, "bounds", wrong, F.col("rows0")), "bounds", levels)


def measurement_columns(
    measurements: DataFrame,
    tables: RunTables,
    spine: Spine,
    asked: Mapping[str, Mapping[str, MeasuredQuery]],
    *,
    lazy: Collection[str],
    shares: DataFrame | None = None,
) -> Rule:
    """Every geounit that is measured has each query of its level once, of the shape and variance that follow.

    Of `lazy` levels, answers that the parent's estimate cannot touch, and geounits alone in theirs, are left out; where
    geounits have shares of the budget of their own, `shares` has them (level, geocode, share).
    """
    named = F.broadcast(_variances(tables, asked))
    wanted = _wanted(tables, spine, asked, lazy=lazy)
    if shares is None:
        wanted = wanted.withColumn("share", F.lit(""))
    else:
        wanted = wanted.join(shares.select("level", "geocode", "share"), ["level", "geocode"], "left")
        wanted = wanted.withColumn("times", F.when(F.col("share") == UNMEASURED, 0).otherwise(F.col("times")))
    expected = wanted.join(named, ["level", "query", "share"], "left").select(
        "level", "geocode", "query", F.lit(0).alias("side"), F.col("times").alias("rows"), *_SHAPE, "variance"
    )
    shape = _shape(F.col("rows"), F.size("values"))
    odd = F.coalesce(_odd_parent(spine), F.lit(True)).cast("int").alias("odd")
    found = measurements.select("level", "geocode", "query", F.lit(1), F.lit(1), *shape, "variance", odd)
    # Of a nation there are a hundred million rows. Those of a geounit are told apart by hashes under a key that is
    # drawn now, and the hashes of each side are put together: as every query is expected once, as many rows of the
    # same hashes are the same rows, unless hashes of 64 bits meet.
    own = {
        "query": ("query",),
        "rows": ("query", "kept", "hash"),
        "values": ("query", "length"),
        "variance": ("query", "variance"),
    }
    key, there = F.lit(secrets.randbits(63)), F.col("rows") > 0
    hashes = [F.when(there, F.xxhash64(key, *columns)).alias(f"of_{name}") for name, columns in own.items()]
    both = expected.withColumn("odd", F.lit(0)).unionAll(found)
    of_side = [F.when(F.col("side") == side, F.col("rows")) for side in (0, 1)]
    summed = (
        both.select("level", "geocode", "side", "rows", "odd", *hashes)
        .groupBy("level", "geocode")
        .agg(
            F.count(of_side[0]).alias("checked"),
            *[F.coalesce(F.sum(rows), F.lit(0)).alias(f"rows{side}") for side, rows in enumerate(of_side)],
            *[F.bit_xor(f"of_{name}").alias(f"of_{name}") for name in own],
            F.max("odd").alias("odd"),
        )
    )
    differ = {name: F.coalesce(F.col(f"of_{name}"), F.lit(0)) != 0 for name in own}
    wrong = {
        "geocode or query": (F.col("rows0") != F.col("rows1")) | differ["query"],
        "parent": F.col("odd") != 0,
        **{name: differ[name] for name in ("rows", "values", "variance")},
    }
    return columns_rule(first_wrong(summed, "measurements", wrong, F.col("checked")), "measurements", spine.names)


def diagnostic_columns(
    diagnostics: DataFrame,
    tables: RunTables,
    spine: Spine,
    settings: EstimationSettings,
    total_key: TotalKey | None = None,
) -> Rule:
    """Every family has one row, which says nothing impossible."""
    top = tables.geounits.where(F.col("level") == spine.names[0])
    key = F.col("geocode") if total_key is None else F.substring("geocode", *total_key)
    firsts = top.groupBy("level", key.alias("key")).agg(
        F.min("geocode").alias("family"), F.count(F.lit(1)).alias("members")
    )
    lower = tables.geounits.where(F.col("level") != spine.names[0])
    families = lower.groupBy("level", F.col("parent").alias("family")).agg(F.count(F.lit(1)).alias("members"))
    expected = firsts.select("level", "family", "members").unionAll(families)
    impossible = _impossible(tables, settings)
    said = F.coalesce(
        *[F.when(F.coalesce(bad, F.lit(True)), F.lit(name)) for name, bad in impossible.items()], F.lit("")
    )
    none, nothing = F.lit(0), F.lit(0).cast("bigint")
    found = diagnostics.select(
        "level", "family", F.lit(1).alias("rows"), "children", none.alias("due"), said.alias("odd")
    )
    due = expected.select("level", "family", none, -F.col("members"), F.lit(1), F.lit(""))
    summed = (
        found.unionAll(due)
        .groupBy("level", F.col("family").alias("geocode"))
        .agg(*[F.sum(name).alias(name) for name in ("rows", "children", "due")], F.max("odd").alias("odd"))
    )
    wrong = {
        "family": (F.col("rows") != 1) | (F.col("due") != 1),
        "children": F.coalesce("children", nothing) != 0,
        **{name: F.col("odd") == name for name in impossible},
    }
    return columns_rule(first_wrong(summed, "diagnostics", wrong, F.col("due")), "diagnostics", spine.names)


def looser_bounds(tables: RunTables, spine: Spine, classes: int) -> Rule:
    """Where class bounds were published by others: none is looser than the sum of those one level below."""
    rows = present(tables.bounds, "bounds").where(F.col("name") == "class")
    sides = ("lower", "upper")
    own = [F.col(side).getItem(place).alias(f"{side}{place}") for side in sides for place in range(classes)]
    less = [(-F.col(side).getItem(place)).alias(f"{side}{place}") for side in sides for place in range(classes)]
    below = rows.where(F.col("level") != spine.names[0])
    both = rows.select("level", "geocode", F.lit(1).alias("rows"), *own).unionAll(
        below.select(_level_above(spine), F.col("parent").alias("geocode"), F.lit(0).alias("rows"), *less)
    )
    names = [f"{side}{place}" for side in sides for place in range(classes)]
    summed = both.where(F.col("level") != spine.names[-1]).groupBy("level", "geocode")
    differences = summed.agg(F.sum("rows").alias("rows"), *[F.sum(name).alias(name) for name in names])
    wrong = {
        "lower": balanced(or_, [F.col(f"lower{place}") < 0 for place in range(classes)]),
        "upper": balanced(or_, [F.col(f"upper{place}") > 0 for place in range(classes)]),
    }
    return columns_rule(first_wrong(differences, "bounds", wrong, F.col("rows")), "bounds", spine.names[:-1])


def _impossible(tables: RunTables, settings: EstimationSettings) -> dict[str, Column]:
    """Column of a row of diagnostics -> whether its value cannot be."""
    refused = "" if settings.accept_uncertified else str(FamilyStatus.ACCEPTED)
    usable = [str(status) for status in FamilyStatus if status.is_usable and str(status) != refused]
    accepted = F.col("status") == str(FamilyStatus.ACCEPTED)
    short = F.col("status").isin(*_SHORTCUTS)
    names = "|".join(["presolve", *settings.solvers])
    exempt = F.lit(False)
    for level, parents in tables.relaxed.items():
        exempt |= (F.col("level") == level) & F.col("family").isin(*parents)
    finite = {name: (F.col(name) >= 0) & (F.col(name) < float("inf")) for name in ("primal_residual", "rounding_gap")}
    most = F.when(short, 0).otherwise(np.iinfo(np.int64).max)
    counted = {name: F.col(name).between(F.lit(0), most) for name in ("variables", "iterations", "attempts")}
    only = F.col("status") == str(FamilyStatus.ONLY_CHILD)
    relaxed = accepted | ((F.col("status") == str(FamilyStatus.RELAXED)) == exempt)
    right = {
        "geolevel": F.col("geolevel") == F.col("level"),
        "status": F.col("status").isin(*usable) & (~only | (F.col("children") == 1)) & relaxed,
        "solver": F.col("solver").rlike(f"^({names})(, ({names}))*$") & (~short | (F.col("solver") == "presolve")),
        "passes": F.col("passes") >= 1,
        **counted,
        **finite,
        "gap": accepted | (F.abs("gap") <= settings.gap_tolerance),
        "rounding": (F.col("rounding") == "") | (~short & F.col("rounding").rlike(_ROUNDING)),
        "relaxed": F.col("relaxed") == exempt,
        "message": (F.col("message") == F.when(accepted, UNPROVED).otherwise(""))
        | (F.col("relaxed") & F.col("message").startswith("relaxed because: ")),
        "problem": F.col("problem").isNull(),
    }
    return {name: ~each for name, each in right.items()}


#: What is compared of a measurement besides its variance: how many rows it names, which, and how many values it has.
_SHAPE: Final = ("kept", "hash", "length")


def _shape(rows: Column, length: Column) -> tuple[Column, Column, Column]:
    kept = F.when(rows.isNull(), -1).otherwise(F.size(rows))
    return kept.alias("kept"), F.xxhash64(rows).alias("hash"), length.alias("length")


def _wanted(
    tables: RunTables, spine: Spine, asked: Mapping[str, Mapping[str, MeasuredQuery]], *, lazy: Collection[str]
) -> DataFrame:
    """What each geounit and query must have: level, geocode, query, times (0: nothing), kept, hash, length."""
    geounits = tables.geounits.select("level", "geocode", "parent")
    rows = [
        {"level": level, "query": name, "answers": each.query.rows}
        for level, queries in asked.items()
        for name, each in queries.items()
        if level not in lazy
    ]
    queries = F.broadcast(_small_frame(tables, rows, {"level": _TEXT, "query": _TEXT, "answers": pa.int32()}))
    everything = F.lit(None).cast("array<int>")
    whole = geounits.join(queries, "level")
    first = whole.select("level", "geocode", "query", F.lit(1).alias("times"), *_shape(everything, F.col("answers")))
    if not lazy:
        return first
    below = F.create_map(*[F.lit(name) for pair in pairwise(spine.names) for name in pair] or [F.lit(""), F.lit("")])
    upper = F.col("level") != spine.names[-1]
    at = (below[F.col("level")].alias("level"), F.col("geocode").alias("parent"))
    supports = tables.estimates.where(upper).select(*at, "cells")
    several = tables.geounits.where(upper).select(*at, (F.col("children") > 1).cast("int").alias("times"))
    parents = supports.join(several, ["level", "parent"]).where(F.col("level").isin(*lazy))
    touched = parents.select("level", "parent", "times", F.inline(_touched(asked)))
    shapes = touched.select("level", "parent", "query", "times", *_shape(F.col("kept"), F.size("kept")))
    columns = ("level", "geocode", "query", "times", *_SHAPE)
    return first.unionAll(geounits.join(shapes, ["level", "parent"]).select(*columns))


def _touched(asked: Mapping[str, Mapping[str, MeasuredQuery]]) -> Column:
    """Of a level and the cells of a parent: each query of the level, and its answers that count one of them."""
    queries = {name: each.query for named in asked.values() for name, each in named.items()}
    each = []
    for name, query in queries.items():
        levels = [level for level, named in asked.items() if name in named]
        answers = F.transform("cells", partial(answer_of, query))
        kept = F.array_sort(F.array_distinct(F.filter(answers, lambda answer: answer.isNotNull())))
        touched = F.struct(F.lit(name).alias("query"), kept.alias("kept"))
        each.append(F.when(F.col("level").isin(*levels), touched))
    return F.filter(F.array(*each), lambda touched: touched.isNotNull())


_TEXT: Final = pa.string()


def _small_frame(tables: RunTables, rows: list[dict[str, Any]], columns: Mapping[str, pa.DataType]) -> DataFrame:
    return tables.geounits.sparkSession.createDataFrame(pa.Table.from_pylist(rows, pa.schema(columns.items())))


def _variances(tables: RunTables, asked: Mapping[str, Mapping[str, MeasuredQuery]]) -> DataFrame:
    """level, query, share, variance."""
    rows = [
        {"level": level, "query": name, "share": share, "variance": variance}
        for level, queries in asked.items()
        for name, each in queries.items()
        for share, variance in each.variances.items()
    ]
    return _small_frame(tables, rows, {"level": _TEXT, "query": _TEXT, "share": _TEXT, "variance": pa.float64()})


def _odd_parent(spine: Spine) -> Column:
    """Whether the parent of a row is another one than that of its geocode; null where one of them is."""
    return F.col("parent") != parent_of(spine)


def _fits(spine: Spine) -> Column:
    """Whether a geocode has the characters of its level."""
    length = by_level(spine, lambda depth: F.lit(spine.levels[depth].length or 1))
    return F.col("geocode").rlike(f"^{spine.characters}+$") & (F.length("geocode") == length)


def _level_above(spine: Spine) -> Column:
    return by_level(spine, lambda depth: F.lit(spine.names[depth - 1] if depth else "")).alias("level")
