"""Whether what was written keeps every rule that it must: plain Spark SQL, sharing no code with estimation.

Each check looks at public tables as they were read back from files and says how much it looked at and which geounits
fail (up to 20). A check that finds nothing to look at where something was promised fails too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.errors import VerificationError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.histogram import Query
    from das_spark.privacy.budget import Budget

SCHEMA_VERSION = 1
#: Failing geounits that a check names.
NAMED = 20
RELAXED = "consistency relaxed"
#: Names of bounds whose rows say nothing about one answer of one geounit; members are checked at their own level.
_FLOW = "flow"


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of one rule.

    Attributes:
        name: Which rule.
        geolevel: At which level; empty for a rule of the whole run.
        passed: Whether it holds.
        checked: How many rows, cells or values were compared.
        failing: Geounits (or names) that break it, up to 20, sorted.
        note: What a reader must know, such as `consistency relaxed`.
    """

    name: str
    geolevel: str
    passed: bool
    checked: int
    failing: tuple[str, ...] = ()
    note: str = ""


@dataclass(frozen=True, slots=True)
class VerificationReport:
    """All outcomes of a run.

    Attributes:
        checks: In the order in which they were made.
        relaxed: Families that are exempt, by `<geolevel>/<parent>`.
    """

    checks: tuple[Check, ...]
    relaxed: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether every rule holds."""
        return all(check.passed for check in self.checks)

    @property
    def failures(self) -> tuple[Check, ...]:
        """The rules that do not hold."""
        return tuple(check for check in self.checks if not check.passed)

    def summary(self) -> str:
        """One line: what failed and where, or that nothing did."""
        if self.passed:
            return f"{len(self.checks)} checks passed"
        parts = [f"{check.name} {check.geolevel} ({', '.join(check.failing[:3])})" for check in self.failures[:5]]
        return f"{len(self.failures)} of {len(self.checks)} checks failed: {'; '.join(parts)}"

    def to_json(self) -> str:
        """The report as text."""
        checks = [asdict(check) for check in self.checks]
        content = {"schema_version": SCHEMA_VERSION, "passed": self.passed, "relaxed": list(self.relaxed)}
        return json.dumps({**content, "checks": checks}, indent=1) + "\n"


@dataclass(frozen=True, slots=True)
class LevelTables:
    """The public tables of one level, as read back.

    Attributes:
        name: The geolevel.
        geounits: geocode, parent, ...: every geounit of the spine.
        estimates: geocode, parent, cells, counts.
        invariants: geocode, name, values; None where nothing is declared.
        bounds: geocode, name, member, lower, upper; None where nothing is bounded.
        relaxed: geocode of parents whose families are exempt from consistency.
    """

    name: str
    geounits: DataFrame
    estimates: DataFrame
    invariants: DataFrame | None = None
    bounds: DataFrame | None = None
    relaxed: tuple[str, ...] = ()


def verify_levels(
    levels: Sequence[LevelTables],
    *,
    size: int,
    queries: Mapping[str, Query],
    zeros: Mapping[str, Sequence[int]],
    totals: Sequence[str] | None = None,
) -> list[Check]:
    """Check the tables of all levels.

    Args:
        levels: Root first.
        size: Cells of the schema.
        queries: Name of a bound -> the query whose answers it bounds.
        zeros: Name of a structural zero -> its cells.
        totals: Levels whose totals are declared invariant; None for those that declare any total.
    """
    checks: list[Check] = []
    for level in levels:
        checks += [geounits_present(level), nonnegative(level, size)]
        checks += [structural_zero(level, name, cells) for name, cells in zeros.items()]
        if _declares_totals(level) if totals is None else level.name in totals:
            checks.append(invariant_totals(level))
        if level.bounds is not None:
            checks += bounds_kept(level, queries)
    checks += [children_sum_to_parents(above, below) for above, below in pairwise(levels)]
    return checks


def geounits_present(level: LevelTables) -> Check:
    """Every geounit of the spine has exactly one estimate, under its own parent, and there is no other."""
    keys = ["geocode", "parent"]
    expected = level.geounits.groupBy(*keys).agg(F.count(F.lit(1)).alias("expected"))
    found = level.estimates.groupBy(*keys).agg(F.count(F.lit(1)).alias("found"))
    bad = expected.join(found, keys, "full").where("expected is null or found is null or expected != 1 or found != 1")
    return check_of("geounits present once", level.name, bad, level.geounits.count())


def nonnegative(level: LevelTables, size: int) -> Check:
    """Counts are positive integers of cells that exist, each cell once and in ascending order."""
    cells, counts = F.col("cells"), F.col("counts")
    orderly = F.array_sort(F.array_distinct(cells)) == cells
    inside = ~F.exists(cells, lambda cell: (cell < 0) | (cell >= size))
    positive = ~F.exists(counts, lambda count: count <= 0)
    whole = cells.isNotNull() & counts.isNotNull() & (F.size(cells) == F.size(counts))
    good = whole & orderly & inside & positive
    bad = level.estimates.where(~F.coalesce(good, F.lit(False)))
    return check_of("nonnegative", level.name, bad, level.estimates.count())


def structural_zero(level: LevelTables, name: str, cells: Sequence[int]) -> Check:
    """Nobody is in a cell in which nobody can be."""
    forbidden = small_frame(level.estimates.sparkSession, {"cell": np.asarray(cells, dtype=np.int64)})
    bad = exploded_cells(level.estimates).join(F.broadcast(forbidden), "cell").where("count != 0")
    return check_of(f"structural zero {name}", level.name, bad, level.estimates.count() * len(cells))


def _declares_totals(level: LevelTables) -> bool:
    return level.invariants is not None and bool(level.invariants.where("name = 'total'").head(1))


def invariant_totals(level: LevelTables) -> Check:
    """Every geounit has a declared total, and its estimate has exactly that."""
    totals = present(level.invariants, "invariants").where("name = 'total'")
    declared = totals.select("geocode", F.col("values").getItem(0).alias("exact"))
    sums = level.estimates.select("geocode", list_total("counts").alias("found"))
    both = level.geounits.select("geocode").join(declared, "geocode", "left").join(sums, "geocode", "left")
    bad = both.where("found is null or exact is null or found != exact")
    return check_of("invariant totals", level.name, bad, level.geounits.count())


def bounds_kept(level: LevelTables, queries: Mapping[str, Query]) -> list[Check]:
    """Every bound row holds, answer by answer."""
    names = [
        row["name"] for row in present(level.bounds, "bounds").select("name").distinct().collect()
    ]  # one a kind of bound
    return [_bound_kept(level, name, queries.get(name)) for name in sorted(names) if name != _FLOW]


def _bound_kept(level: LevelTables, name: str, query: Query | None) -> Check:
    rows = present(level.bounds, "bounds").where(F.col("name") == name)
    if query is None:
        return Check(f"bounds {name}", level.name, False, 0, note="no query of that name is known")
    limits = rows.select("geocode", F.posexplode(F.arrays_zip("lower", "upper")).alias("row", "limit"))
    answers = _answers(level.estimates, query)
    joined = limits.join(answers, ["geocode", "row"], "left").withColumn("found", F.coalesce("found", F.lit(0)))
    outside = (F.col("found") < F.col("limit.lower")) | (F.col("found") > F.col("limit.upper"))
    short = rows.where((F.size("lower") != query.rows) | (F.size("upper") != query.rows)).select("geocode")
    bad = joined.where(F.coalesce(outside, F.lit(True))).select("geocode").unionByName(short)
    if not level.relaxed:
        return check_of(f"bounds {name}", level.name, bad, rows.count() * query.rows)
    exempt = level.geounits.where(F.col("parent").isin(*level.relaxed)).select("geocode")
    kept = bad.join(exempt, "geocode", "left_anti")
    return check_of(f"bounds {name}", level.name, kept, rows.count() * query.rows, RELAXED)


def children_sum_to_parents(above: LevelTables, below: LevelTables) -> Check:
    """The children of every geounit sum to it, cell by cell."""
    sums = exploded_cells(below.estimates.select(F.col("parent").alias("geocode"), "cells", "counts"))
    summed = sums.groupBy("geocode", "cell").agg(F.sum("count").alias("children"))
    own = exploded_cells(above.estimates).groupBy("geocode", "cell").agg(F.sum("count").alias("own"))
    both = own.join(summed, ["geocode", "cell"], "full")
    bad = both.where(F.coalesce("own", F.lit(0)) != F.coalesce("children", F.lit(0)))
    note = ""
    if below.relaxed:
        bad, note = bad.where(~F.col("geocode").isin(*below.relaxed)), RELAXED
    return check_of(
        "children sum to parents",
        below.name,
        bad,
        exploded_cells(below.estimates).count() + above.geounits.count(),
        note,
    )


def row_counts(expected: Mapping[str, int], frames: Mapping[str, DataFrame]) -> list[Check]:
    """Row counts equal those of the manifest.

    Args:
        expected: Rows by name of an output, from the manifest.
        frames: The outputs by the same names.
    """
    checks = []
    for name in sorted(set(expected) | set(frames)):
        found = frames[name].count() if name in frames else -1
        passed = found == expected.get(name)
        checks.append(Check(f"rows of {name}", "", passed, max(found, 0), () if passed else (name,)))
    return checks


def budget_shares(budget: Budget) -> dict[str, str]:
    """A budget as a flat table of exact fractions: framework, total, `<geolevel>` and `<geolevel> / <query>`."""
    shares = {"framework": str(budget.framework), "total": str(budget.total)}
    for level in budget.levels:
        shares[level.geolevel] = str(level.share)
        shares.update({f"{level.geolevel} / {each.query}": str(each.share) for each in level.queries})
    return shares


def ledger_equals_config(ledger: Mapping[str, str], config: Mapping[str, str]) -> Check:
    """What the ledger says was spent is what the configuration says, share by share.

    Args:
        ledger: `budget_shares` of the budget that the ledger holds.
        config: `budget_shares` of the budget that the configuration resolves to.
    """
    names = sorted(set(ledger) | set(config))
    wrong = tuple(name for name in names if name not in ledger or name not in config or ledger[name] != config[name])
    return Check("ledger equals configuration", "", bool(names) and not wrong, len(names), wrong[:NAMED])


def _answers(estimates: DataFrame, query: Query) -> DataFrame:
    """Answers of a query: geocode, row, found; answers of zero are missing."""
    size = int(np.prod([len(factor) for factor in query.factors], dtype=np.int64))
    rows = np.asarray(query.row_of(np.arange(size)), dtype=np.int64)
    table = small_frame(estimates.sparkSession, {"cell": np.flatnonzero(rows >= 0), "row": rows[rows >= 0]})
    cells = exploded_cells(estimates).join(F.broadcast(table), "cell")
    return cells.groupBy("geocode", "row").agg(F.sum("count").alias("found"))


def exploded_cells(estimates: DataFrame) -> DataFrame:
    """One row a geounit and cell: geocode, cell (long), count (long)."""
    pairs = estimates.select("geocode", F.explode(F.arrays_zip("cells", "counts")).alias("pair"))
    return pairs.select("geocode", F.col("pair.cells").cast("long").alias("cell"), F.col("pair.counts").alias("count"))


def list_total(column: str) -> Column:
    """Sum of a list of longs."""
    return F.aggregate(column, F.lit(0).cast("bigint"), lambda total, value: total + value)


def small_frame(spark: SparkSession, columns: Mapping[str, Any]) -> DataFrame:
    """A small table of the driver as a DataFrame: arrays become longs, lists booleans or texts by their first value."""
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

    Raises:
        VerificationError: It is not there.
    """
    if frame is None:
        raise VerificationError(f"table {table} is not there, so it cannot be verified")
    return frame


def check_of(name: str, geolevel: str, bad: DataFrame, checked: int, note: str = "") -> Check:
    """Make a check from the frame of failing rows: at most `NAMED` distinct geocodes are collected.

    Args:
        name: Which rule.
        geolevel: At which level.
        bad: Failing rows, with a column geocode.
        checked: How much was compared; nothing compared is no success.
        note: What a reader must know.
    """
    rows = bad.select(F.coalesce("geocode", F.lit("?")).alias("geocode")).distinct().orderBy("geocode").head(NAMED)
    failing = tuple(row["geocode"] for row in rows)
    passed = not failing and (checked > 0 or bool(note))
    if checked == 0 and not note:
        note = "nothing to check"
    return Check(name, geolevel, passed, checked, failing, note)
