"""Whether the tables of all levels keep every rule that they must: plain Spark SQL, sharing no code with estimation.

Each rule looks at public tables as they were read back from files, at all levels at once, and says how much it looked
at and which geounits fail (`das_spark.spark.checks`). Where two tables must agree their rows are put one below the
other and summed by key, with opposite signs: one shuffle, and no key can be lost as in a join.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.errors import VerificationError
from das_spark.spark.checks import RELAXED, Finding, Key, Rule, findings
from das_spark.spark.lists import list_total

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from das_spark.histogram import Query

UNKNOWN = "no query of that name is known"
#: Names of bounds whose rows say nothing about one answer of one geounit; members are checked at their own level.
_FLOW = "flow"
#: Name of invariants and bounds of geounits of which only the sum over their group has a total.
_GROUP_TOTAL = "group_total"
_TOTALS = "invariant totals"


@dataclass(frozen=True, slots=True)
class RunTables:
    """The public tables of a run as read back, all levels in one, with a column level.

    Attributes:
        levels: Names of the geolevels, root first.
        geounits: level, geocode, parent, ...: every geounit of the spine.
        estimates: level, geocode, parent, cells, counts.
        invariants: level, geocode, name, values; None where nothing is declared.
        bounds: level, geocode, name, member, lower, upper; None where nothing is bounded.
        relaxed: Level -> geocodes of parents whose families are exempt from consistency.
    """

    levels: tuple[str, ...]
    geounits: DataFrame
    estimates: DataFrame
    invariants: DataFrame | None = None
    bounds: DataFrame | None = None
    relaxed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def notes(self) -> dict[str, str]:
        """Level -> `RELAXED`, of the levels with exempt families."""
        return {level: RELAXED for level, parents in self.relaxed.items() if parents}


def level_rules(
    tables: RunTables,
    *,
    size: int,
    queries: Mapping[str, Query],
    zeros: Mapping[str, Sequence[int]],
    totals: Sequence[str],
    total_key: tuple[int, int] | None = None,
) -> list[Rule]:
    """The rules on the tables of all levels.

    Args:
        tables: The tables.
        size: Cells of the schema.
        queries: Name of a bound -> the query whose answers it bounds.
        zeros: Name of a structural zero -> its cells.
        totals: Levels whose totals are declared invariant, root first.
        total_key: First digit (from 1) and number of the digits that geounits of the last of these levels share when
            only their sum has a total; None where every geounit has its own.

    Raises:
        VerificationError: Totals are declared, and there is no table of invariants.
    """
    rules = [geounits_present(tables), histograms_possible(tables, size, zeros)]
    own = totals if total_key is None else totals[:-1]
    if own:
        rules.append(invariant_totals(tables, own))
    if totals and total_key is not None:
        rules.append(invariant_group_totals(tables, totals[-1], total_key))
    if tables.bounds is not None:
        rules.append(bounds_kept(tables, queries, grouped=total_key is not None))
        if total_key is not None:
            rules.append(group_bounds_kept(tables))
    if len(tables.levels) > 1:
        rules.append(children_sum_to_parents(tables))
    return rules


def geounits_present(tables: RunTables) -> Rule:
    """Every geounit of the spine has exactly one estimate, under its own parent, and there is no other."""
    keys, one, none = ("level", "geocode", "parent"), F.lit(1), F.lit(0)
    spine = tables.geounits.select(*keys, one.alias("expected"), none.alias("found"))
    estimates = tables.estimates.select(*keys, none.alias("expected"), one.alias("found"))
    counted = spine.unionAll(estimates).groupBy(*keys)
    summed = counted.agg(F.sum("expected").alias("expected"), F.sum("found").alias("found"))
    once = (F.col("expected") == 1) & (F.col("found") == 1) & F.col("geocode").isNotNull() & F.col("parent").isNotNull()
    name = "geounits present once"
    return Rule(findings(summed, Finding(name, ~once, F.col("expected"))), _keys(name, tables.levels))


def histograms_possible(tables: RunTables, size: int, zeros: Mapping[str, Sequence[int]]) -> Rule:
    """Rules on each histogram alone: `nonnegative`, and one a structural zero.

    Counts are positive integers of cells that exist, each cell once and in ascending order; nobody is in a cell in
    which nobody can be.
    """
    cells, counts = F.col("cells"), F.col("counts")
    orderly = F.array_sort(F.array_distinct(cells)) == cells
    inside = ~F.exists(cells, lambda cell: (cell < 0) | (cell >= size))
    positive = ~F.exists(counts, lambda count: count <= 0)
    whole = cells.isNotNull() & counts.isNotNull() & (F.size(cells) == F.size(counts))
    found = [Finding("nonnegative", ~(whole & orderly & inside & positive), 1)]
    for name, forbidden in zeros.items():
        numbers = ", ".join(str(int(cell)) for cell in forbidden) or "-1"
        met = F.expr(f"exists(arrays_zip(cells, counts), pair -> pair.cells in ({numbers}) and pair.counts != 0)")
        # Of a histogram that is none (null), `nonnegative` tells.
        found.append(Finding(f"structural zero {name}", F.coalesce(met, F.lit(False)), len(forbidden)))
    expected = [_keys(str(each.rule), tables.levels) for each in found]
    return Rule(findings(tables.estimates, *found), tuple(chain.from_iterable(expected)))


def invariant_totals(tables: RunTables, totals: Sequence[str]) -> Rule:
    """Every geounit has a declared total, and its estimate has exactly that.

    Raises:
        VerificationError: There is no table of invariants.
    """
    invariants = present(tables.invariants, "invariants").where("name = 'total'")
    exact, found = F.col("values").getItem(0), list_total("counts")
    keys, unknown = ("level", "geocode"), F.lit(None).cast("bigint")
    rows = [
        tables.geounits.select(*keys, F.lit(1).alias("geounit"), unknown.alias("exact"), unknown.alias("found")),
        invariants.select(*keys, F.lit(0).alias("geounit"), exact.alias("exact"), unknown.alias("found")),
        tables.estimates.select(*keys, F.lit(0).alias("geounit"), unknown.alias("exact"), found.alias("found")),
    ]
    summed = (
        reduce(DataFrame.unionAll, [each.where(F.col("level").isin(*totals)) for each in rows])
        .groupBy(*keys)
        .agg(
            F.sum("geounit").alias("geounits"),
            *[F.min(side).alias(f"least_{side}") for side in ("exact", "found")],
            *[F.max(side).alias(f"most_{side}") for side in ("exact", "found")],
        )
    )
    equal = (F.col("least_exact") == F.col("most_found")) & (F.col("most_exact") == F.col("least_found"))
    # Estimates of no geounit are told of by `geounits present once`.
    bad = (F.col("geounits") > 0) & ~F.coalesce(equal, F.lit(False))
    levels = tuple(level for level in tables.levels if level in totals)
    return Rule(findings(summed, Finding(_TOTALS, bad, F.col("geounits"))), _keys(_TOTALS, levels))


def invariant_group_totals(tables: RunTables, level: str, total_key: tuple[int, int]) -> Rule:
    """The estimates of the geounits with the same key sum to the total that each of them declares.

    A geounit alone with its key declares its own `total`, every other one the `group_total`; each declares once.
    """
    declared = present(tables.invariants, "invariants").where(F.col("name").isin("total", _GROUP_TOTAL))
    unknown = F.lit(None)
    columns = ("level", "geocode", "geounit", "name", "exact", "found")
    exact, found = F.col("values").getItem(0), list_total("counts")
    each = [
        tables.geounits.select("level", "geocode", F.lit(1), unknown.cast("string"), *[unknown.cast("bigint")] * 2),
        declared.select("level", "geocode", F.lit(0), "name", exact, unknown.cast("bigint")),
        tables.estimates.select("level", "geocode", F.lit(0), unknown.cast("string"), unknown.cast("bigint"), found),
    ]
    rows = reduce(DataFrame.unionAll, [frame.toDF(*columns).where(F.col("level") == level) for frame in each])
    summed = rows.groupBy("level", F.substring("geocode", *total_key).alias("geocode")).agg(
        F.sum("geounit").alias("geounits"),
        F.count("exact").alias("declared"),
        F.countDistinct(F.when(F.col("exact").isNotNull(), F.col("geocode"))).alias("declaring"),
        F.min("name").alias("first_name"),
        F.max("name").alias("last_name"),
        F.min("exact").alias("least"),
        F.max("exact").alias("most"),
        F.sum("found").alias("found"),
    )
    name = F.when(F.col("geounits") > 1, _GROUP_TOTAL).otherwise("total")
    once = (F.col("declared") == F.col("geounits")) & (F.col("declaring") == F.col("geounits"))
    named = (F.col("first_name") == name) & (F.col("last_name") == name)
    equal = (F.col("least") == F.col("found")) & (F.col("most") == F.col("found"))
    # Estimates of no geounit are told of by `geounits present once`.
    bad = (F.col("geounits") > 0) & ~F.coalesce(once & named & equal, F.lit(False))
    return Rule(findings(summed, Finding(_TOTALS, bad, F.col("geounits"))), _keys(_TOTALS, (level,)))


def group_bounds_kept(tables: RunTables) -> Rule:
    """The estimates of the members of every group of the bounds sum to what the rows of the group allow.

    Raises:
        VerificationError: There is no table of bounds.
    """
    limits = present(tables.bounds, "bounds").where(F.col("name") == _GROUP_TOTAL)
    found = tables.estimates.select("level", "geocode", list_total("counts").alias("found"))
    members = limits.join(found, ["level", "geocode"], "left")
    sides = ("lower", "upper")
    summed = members.groupBy("level", F.col("member").alias("geocode")).agg(
        F.count(F.lit(1)).alias("members"),
        F.max((F.size("lower") != 1) | (F.size("upper") != 1)).alias("crooked"),
        F.sum("found").alias("found"),
        *[F.min(F.col(side).getItem(0)).alias(f"least_{side}") for side in sides],
        *[F.max(F.col(side).getItem(0)).alias(f"most_{side}") for side in sides],
    )
    inside = (F.col("found") >= F.col("most_lower")) & (F.col("found") <= F.col("least_upper"))
    agreed = (F.col("least_lower") == F.col("most_lower")) & (F.col("least_upper") == F.col("most_upper"))
    bad = F.col("crooked") | ~F.coalesce(inside & agreed, F.lit(False))
    return Rule(findings(summed, Finding(f"bounds {_GROUP_TOTAL}", bad, F.col("members"))))


def bounds_kept(tables: RunTables, queries: Mapping[str, Query], *, grouped: bool = False) -> Rule:
    """Every bound row holds, answer by answer; one check a kind of bound that a level has.

    Families that the failsafe relaxed are no exception: what it gives up is the sum to the parent (E-30 to E-34).

    Raises:
        VerificationError: There is no table of bounds.
    """
    rows = present(tables.bounds, "bounds").where(~F.col("name").isin(_FLOW, *([_GROUP_TOTAL] if grouped else [])))
    rule, known = F.concat(F.lit("bounds "), F.col("name")), F.col("name").isin(*queries)
    answers = F.lit(0)
    for name, query in queries.items():
        answers = F.when(F.col("name") == name, query.rows).otherwise(answers)
    wrong_size = (F.size("lower") != answers) | (F.size("upper") != answers)
    sizes = findings(
        rows, Finding(rule, ~known | wrong_size, answers, F.when(known, "").otherwise(UNKNOWN).alias("note"))
    )
    outside = (F.col("found") < F.col("lower")) | (F.col("found") > F.col("upper"))
    compared = _limited_answers(tables.estimates, rows.where(known), queries)
    return Rule(sizes.unionAll(findings(compared, Finding(rule, outside, 0))))


def _limited_answers(estimates: DataFrame, bounds: DataFrame, queries: Mapping[str, Query]) -> DataFrame:
    """Answers that have a bound: level, geocode, name, row, lower, upper, found."""
    keys = ("level", "geocode", "name", "row")
    sides = F.posexplode(F.arrays_zip("lower", "upper")).alias("row", "at")
    limits = bounds.select("level", "geocode", "name", sides)
    # A level is asked only what bounds it has.
    wanted = F.broadcast(bounds.select("level", "name").distinct())
    rows = F.broadcast(_rows_of(estimates.sparkSession, queries))
    cells = exploded_cells(estimates).join(wanted, "level").join(rows, ["name", "cell"])
    nothing = F.lit(None).cast("bigint")
    both = limits.select(*keys, F.lit(True).alias("limit"), "at.lower", "at.upper", F.lit(0).alias("found")).unionAll(
        cells.select(*keys, F.lit(False), nothing, nothing, "count")
    )
    summed = both.groupBy(*keys).agg(
        F.max("limit").alias("limit"),
        F.max("lower").alias("lower"),
        F.min("upper").alias("upper"),
        F.coalesce(F.sum("found"), F.lit(0)).alias("found"),
    )
    return summed.where("limit")


def _rows_of(spark: SparkSession, queries: Mapping[str, Query]) -> DataFrame:
    """Which answer counts a cell: name, cell, row."""
    names: list[str] = []
    cells, rows = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for name, query in queries.items():
        size = int(np.prod([len(factor) for factor in query.factors], dtype=np.int64))
        row = np.asarray(query.row_of(np.arange(size)), dtype=np.int64)
        names += [name] * int((row >= 0).sum())
        cells.append(np.flatnonzero(row >= 0))
        rows.append(row[row >= 0])
    return small_frame(spark, {"name": names, "cell": np.concatenate(cells), "row": np.concatenate(rows)})


def children_sum_to_parents(tables: RunTables) -> Rule:
    """The children of every geounit sum to it, cell by cell; told of at the level of the children."""
    names = chain.from_iterable(pairwise(tables.levels))
    below = F.create_map(*[F.lit(name) for name in names])[F.col("level")].alias("level")
    upper = F.col("level") != tables.levels[-1]
    one, none = F.lit(1).alias("checked"), F.lit(0).alias("checked")
    cells = exploded_cells(tables.estimates, "parent")
    own = cells.where(upper).select(below, "geocode", "cell", F.col("count").alias("difference"), none)
    children = cells.where(F.col("level") != tables.levels[0])
    # A parent whose children are all empty is looked at, too.
    parents = tables.geounits.where(upper).select(below, "geocode", F.lit(-1), F.lit(0), one)
    summed = (
        own.unionAll(children.select("level", F.col("parent").alias("geocode"), "cell", -F.col("count"), one))
        .unionAll(parents)
        .groupBy("level", "geocode", "cell")
        .agg(F.sum("difference").alias("difference"), F.sum("checked").alias("checked"))
    )
    bad = F.coalesce(F.col("difference"), F.lit(0)) != 0
    for level, exempt in tables.relaxed.items():
        bad &= ~((F.col("level") == level) & F.col("geocode").isin(*exempt))
    name, levels = "children sum to parents", tables.levels[1:]
    expected = tuple((name, level, tables.notes.get(level, "")) for level in levels)
    return Rule(findings(summed, Finding(name, bad, F.col("checked"), _noted(tables))), expected)


def _keys(name: str, levels: Sequence[str]) -> tuple[Key, ...]:
    return tuple((name, level, "") for level in levels)


def _noted(tables: RunTables) -> Column:
    note = F.lit("")
    for level, text in tables.notes.items():
        note = F.when(F.col("level") == level, text).otherwise(note)
    return note


def exploded_cells(estimates: DataFrame, *more: str) -> DataFrame:
    """One row a geounit and occupied cell: level, geocode, further columns, cell (long), count (long)."""
    pairs = estimates.select("level", "geocode", *more, F.explode(F.arrays_zip("cells", "counts")).alias("pair"))
    cell, count = F.col("pair.cells").cast("long").alias("cell"), F.col("pair.counts").alias("count")
    return pairs.select("level", "geocode", *more, cell, count)


def small_frame(spark: SparkSession, columns: Mapping[str, Any]) -> DataFrame:
    """A small table of the driver as a DataFrame; arrays become longs."""
    kinds = {bool: pa.bool_(), str: pa.string()}
    arrays = {}
    for name, values in columns.items():
        if isinstance(values, np.ndarray):
            arrays[name] = pa.array(values, pa.int64())
        else:
            arrays[name] = pa.array(list(values), kinds[type(values[0]) if len(values) else str])
    return spark.createDataFrame(pa.table(arrays))


def present(frame: DataFrame | None, table: str) -> DataFrame:
    """A table that a check needs.

    Args:
        frame: The table, or None.
        table: Its name, for the message.

    Raises:
        VerificationError: It is not there.
    """
    if frame is None:
        raise VerificationError(f"table {table} is not there, so it cannot be verified")
    return frame
