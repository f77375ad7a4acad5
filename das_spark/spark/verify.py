"""Whether the tables of all levels keep every rule that they must: Spark SQL, sharing no code with estimation.

Each rule looks at public tables as they were read back from files, at all levels at once, and says how much it looked
at and which geounits fail (`das_spark.spark.checks`). Where two tables must agree their rows are put one below the
other and summed by key, with opposite signs: one shuffle, and no key can be lost as in a join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain, pairwise
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.core import GROUP_TOTAL
from das_spark.errors import VerificationError
from das_spark.spark.cells import answer_of, exploded_cells, selected
from das_spark.spark.checks import RELAXED, Finding, Key, Rule, findings
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.lists import group_starts, list_total, whole_groups
from das_spark.spark.tables import union

if TYPE_CHECKING:
    from pyspark.sql import Column

    from das_spark.constraints import StructuralZero
    from das_spark.histogram import Query, Schema

UNKNOWN = "no query of that name is known"
#: Names of bounds whose rows say nothing about one answer of one geounit; members are checked at their own level.
_FLOW = "flow"
_TOTALS = "invariant totals"


@dataclass(frozen=True, slots=True)
class RunTables:
    """The public tables of a run as read back, all levels in one, with a column level."""

    levels: tuple[str, ...]  # names of the geolevels, root first
    geounits: DataFrame  # level, geocode, parent, ...: every geounit of the spine
    estimates: DataFrame  # level, geocode, parent, cells, counts
    invariants: DataFrame | None = None  # level, geocode, name, values; None where nothing is declared
    bounds: DataFrame | None = None  # level, geocode, name, member, lower, upper; None where nothing is bounded
    # level -> geocodes of parents whose families are exempt from consistency
    relaxed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def notes(self) -> dict[str, str]:
        """Level -> `RELAXED`, of the levels with exempt families."""
        return {level: RELAXED for level, parents in self.relaxed.items() if parents}


def level_rules(
    tables: RunTables,
    schema: Schema,
    *,
    queries: Mapping[str, Query],
    zeros: Sequence[StructuralZero],
    totals: Sequence[str],
    total_key: tuple[int, int] | None = None,
) -> list[Rule]:
    """The rules on the tables of all levels.

    Args:
        tables: The tables.
        schema: Whose cells are counted.
        queries: Name of a bound -> the query whose answers it bounds.
        zeros: Cells in which nobody can be.
        totals: Levels whose totals are declared invariant, root first.
        total_key: First digit (from 1) and number of the digits that geounits of the last of these levels share when
            only their sum has a total; None where every geounit has its own.
    """
    rules = [geounits_present(tables), histograms_possible(tables, schema, zeros)]
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


def histograms_possible(tables: RunTables, schema: Schema, zeros: Sequence[StructuralZero]) -> Rule:
    """Rules on each histogram alone: `nonnegative`, and one a structural zero.

    Counts are positive integers of cells that exist, each cell once and in ascending order; nobody is in a cell in
    which nobody can be.
    """
    cells, counts = F.col("cells"), F.col("counts")
    orderly = F.array_sort(F.array_distinct(cells)) == cells
    inside = ~F.exists(cells, lambda cell: (cell < 0) | (cell >= schema.size))
    positive = ~F.exists(counts, lambda count: count <= 0)
    whole = cells.isNotNull() & counts.isNotNull() & (F.size(cells) == F.size(counts))
    found = [Finding("nonnegative", ~(whole & orderly & inside & positive), 1)]
    found += [Finding(f"structural zero {zero.name}", _is_met(zero, schema), _cells_of(zero, schema)) for zero in zeros]
    expected = [_keys(str(each.rule), tables.levels) for each in found]
    return Rule(findings(tables.estimates, *found), tuple(chain.from_iterable(expected)))


def _is_met(zero: StructuralZero, schema: Schema) -> Column:
    """Whether somebody is in a cell of a structural zero. A histogram that is null fails `nonnegative`."""
    pairs = F.arrays_zip("cells", "counts")
    met = F.exists(pairs, lambda pair: selected(pair["cells"], zero.selection, schema) & (pair["counts"] != 0))
    return F.coalesce(met, F.lit(False))


def _cells_of(zero: StructuralZero, schema: Schema) -> int:
    """How many cells a structural zero names."""
    named = {name: len(set(levels)) for name, levels in zero.selection}
    return prod(named.get(attribute.name, attribute.size) for attribute in schema.attributes)


def invariant_totals(tables: RunTables, totals: Sequence[str]) -> Rule:
    """Every geounit has a declared total, and its estimate has exactly that."""
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
    # Estimates of no geounit fail `geounits present once`.
    bad = (F.col("geounits") > 0) & ~F.coalesce(equal, F.lit(False))
    levels = tuple(level for level in tables.levels if level in totals)
    return Rule(findings(summed, Finding(_TOTALS, bad, F.col("geounits"))), _keys(_TOTALS, levels))


def invariant_group_totals(tables: RunTables, level: str, total_key: tuple[int, int]) -> Rule:
    """The estimates of the geounits with the same key sum to the total that each of them declares.

    A geounit alone with its key declares its own `total`, every other one the `group_total`; each declares once.
    """
    declared = present(tables.invariants, "invariants").where(F.col("name").isin("total", GROUP_TOTAL))
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
    name = F.when(F.col("geounits") > 1, GROUP_TOTAL).otherwise("total")
    once = (F.col("declared") == F.col("geounits")) & (F.col("declaring") == F.col("geounits"))
    named = (F.col("first_name") == name) & (F.col("last_name") == name)
    equal = (F.col("least") == F.col("found")) & (F.col("most") == F.col("found"))
    # Estimates of no geounit fail `geounits present once`.
    bad = (F.col("geounits") > 0) & ~F.coalesce(once & named & equal, F.lit(False))
    return Rule(findings(summed, Finding(_TOTALS, bad, F.col("geounits"))), _keys(_TOTALS, (level,)))


def group_bounds_kept(tables: RunTables) -> Rule:
    """The estimates of the members of every group of the bounds sum to what the rows of the group allow."""
    limits = present(tables.bounds, "bounds").where(F.col("name") == GROUP_TOTAL)
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
    return Rule(findings(summed, Finding(f"bounds {GROUP_TOTAL}", bad, F.col("members"))))


def bounds_kept(tables: RunTables, queries: Mapping[str, Query], *, grouped: bool = False) -> Rule:
    """Every bound row holds, answer by answer; one check a kind of bound that a level has.

    Families that the failsafe relaxed are no exception: what it gives up is the sum to the parent (E-30 to E-34).
    """
    rows = present(tables.bounds, "bounds").where(~F.col("name").isin(_FLOW, *([GROUP_TOTAL] if grouped else [])))
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
    answers = [
        F.struct(F.lit(name).alias("name"), answer_of(query, F.col("cell")).alias("row"))
        for name, query in queries.items()
    ]
    cells = exploded_cells(estimates).select("level", "geocode", "count", F.inline(F.array(*answers)))
    # A level is asked only what bounds it has.
    wanted = F.broadcast(bounds.select("level", "name").distinct())
    counted = cells.where(F.col("row").isNotNull()).join(wanted, ["level", "name"])
    nothing = F.lit(None).cast("bigint")
    both = limits.select(*keys, F.lit(True).alias("limit"), "at.lower", "at.upper", F.lit(0).alias("found")).unionAll(
        counted.select(*keys, F.lit(False), nothing, nothing, "count")
    )
    summed = both.groupBy(*keys).agg(
        F.max("limit").alias("limit"),
        F.max("lower").alias("lower"),
        F.min("upper").alias("upper"),
        F.coalesce(F.sum("found"), F.lit(0)).alias("found"),
    )
    return summed.where("limit")


def children_sum_to_parents(tables: RunTables) -> Rule:
    """The children of every geounit sum to it, cell by cell; reported at the level of the children.

    The histograms of a family are brought together as they are, and added up by a task.
    """
    names = chain.from_iterable(pairwise(tables.levels))
    below = F.create_map(*[F.lit(name) for name in names])[F.col("level")].alias("level")
    upper = F.col("level") != tables.levels[-1]
    arrays = ("cells", "counts")
    no_arrays = [F.lit(None).cast(kind).alias(name) for name, kind in zip(arrays, _ARRAYS, strict=True)]
    own, children = tables.estimates.where(upper), tables.estimates.where(F.col("level") != tables.levels[0])
    sides = [
        own.select(below, F.col("geocode").alias("family"), *arrays, F.lit(-1).alias("sign")),
        children.select("level", F.col("parent").alias("family"), *arrays, F.lit(1).alias("sign")),
        # A parent whose children are all empty is looked at, too.
        tables.geounits.where(upper).select(
            below, F.col("geocode").alias("family"), *no_arrays, F.lit(0).alias("sign")
        ),
    ]
    summed, bad = added_up(sides), F.col("differs")
    for level, exempt in tables.relaxed.items():
        bad &= ~((F.col("level") == level) & F.col("geocode").isin(*exempt))
    name, levels = "children sum to parents", tables.levels[1:]
    expected = tuple((name, level, tables.notes.get(level, "")) for level in levels)
    return Rule(findings(summed, Finding(name, bad, F.col("checked"), _noted(tables))), expected)


def added_up(sides: Sequence[DataFrame]) -> DataFrame:
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


def _keys(name: str, levels: Sequence[str]) -> tuple[Key, ...]:
    return tuple((name, level, "") for level in levels)


def _noted(tables: RunTables) -> Column:
    note = F.lit("")
    for level, text in tables.notes.items():
        note = F.when(F.col("level") == level, text).otherwise(note)
    return note


def present(frame: DataFrame | None, table: str) -> DataFrame:
    """A table that a check needs."""
    if frame is None:
        raise VerificationError(f"table {table} is not there, so it cannot be verified")
    return frame
