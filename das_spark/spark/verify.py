"""The tables of a run as they are read back, and one pass of all that lies along the spine.

The rows of all tables are put one below the other, each under the family that it is of: those of geounits under their
parents, and those that parents need for themselves under their own geocodes, too. One shuffle brings families together.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, reduce
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.errors import VerificationError
from das_spark.spark.checks import Rule
from das_spark.spark.engine import in_sorted_tasks, in_tasks
from das_spark.spark.lists import slices, whole_groups
from das_spark.spark.noisy_rows import parent_of
from das_spark.verification import CLASS, COLUMNS, NOWHERE, TOGETHER, Judges, Tallies, together

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from pyspark.sql import Column
    from pyspark.sql.types import StructType

    from das_spark.geography import Spine
    from das_spark.verification import FamilyRule

_FAMILY: Final = ("level", "family")
#: Rows, and bytes, of the families that are judged at once.
_ROWS_AT_ONCE: Final = 1 << 15
_BYTES_AT_ONCE: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class RunTables:
    """The public tables of a run as read back, all levels in one, with a column level."""

    levels: tuple[str, ...]  # names of the geolevels, root first
    geounits: DataFrame  # level, geocode, parent, ...: every geounit of the spine
    estimates: DataFrame  # level, geocode, parent, cells, counts
    invariants: DataFrame | None = None  # level, geocode, name, values; None where nothing is declared
    bounds: DataFrame | None = None  # level, geocode, name, member, lower, upper; None where nothing is bounded
    measurements: DataFrame | None = None  # level, geocode, parent, query, rows, values, variance
    diagnostics: DataFrame | None = None  # level, and the columns of the table
    shares: DataFrame | None = None  # level, geocode, parent, share; None where geounits have that of their level
    published: DataFrame | None = None  # level, geocode, parent, cells, counts: what estimates are held to
    paths: DataFrame | None = None  # level, geocode, and `COLUMNS` of paths: what blocks say of a spine of areas
    leaves: DataFrame | None = None  # level, geocode, cells, counts: blocks of the census, beside a spine of areas
    below: DataFrame | None = None  # level, geocode, name, values: sums over what lies below geounits
    # Bounds on what has a total, for geounits above: level and family of what has it, geocode, and `COLUMNS` of flows.
    flows: DataFrame | None = None
    tables: DataFrame | None = None  # format, level, geocode, packed: what published tables say
    medians: DataFrame | None = None  # the same of tables of medians
    # level -> geocodes of parents whose families are exempt from consistency
    relaxed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def present(frame: DataFrame | None, table: str) -> DataFrame:
    """A table that a check needs."""
    if frame is None:
        raise VerificationError(f"table {table} is not there, so it cannot be verified")
    return frame


def judged_families(rules: Sequence[FamilyRule], tables: RunTables, spine: Spine | None = None) -> list[Rule]:
    """Judge rules on the families of a run, by one job.

    Args:
        rules: The rules.
        tables: All that they look at.
        spine: Levels of the tables; where it is None every geounit is by itself, whatever its geocode is made of.
    """
    needed = set(chain.from_iterable(rule.needs for rule in rules))
    rows = _by_family(needed, tables, spine).repartition(*_FAMILY)
    work = _Work(Judges(tuple(rules)))
    tallies = Tallies.of(row.asDict() for row in in_sorted_tasks(rows, _FAMILY, work, work.schema).collect())
    judged = []
    for number, rule in enumerate(rules):
        checks = rule.concluded(tallies.of_rule(number))
        judged.append(
            Rule(
                None,
                rule.expected,
                {key: tuple(sorted(each.failing)) for key, each in checks.items() if each.failing},
                {key: each.checked for key, each in checks.items()},
            )
        )
    return judged


def begin_judging(
    threads: Executor, rules: Sequence[FamilyRule], tables: RunTables, spine: Spine
) -> Future[list[Rule]]:
    """Judge rules on families in a thread: of small tables Spark plans about as long as it works.

    Args:
        threads: Where.
        rules: As in `judged_families`.
        tables: As there.
        spine: As there.
    """
    # Spark writes into the properties of a thread, which it is given with the wrapping.
    work = inheritable_thread_target(tables.geounits.sparkSession)(judged_families)
    return threads.submit(work, rules, tables, spine)


@dataclass(frozen=True, slots=True)
class _Work:
    """What a task does with the rows of its families."""

    judges: Judges

    @property
    def schema(self) -> StructType:
        """Columns of what it says."""
        return from_arrow_schema(Tallies.schema)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield self.judges(self._chunks(batches)).batch()

    def _chunks(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.RecordBatch]]:
        for table in whole_groups(batches, _FAMILY, _ROWS_AT_ONCE, _BYTES_AT_ONCE):
            (rows,) = table.combine_chunks().to_batches()
            yield from slices(rows, "level")


def _by_family(needed: Collection[str], tables: RunTables, spine: Spine | None) -> DataFrame:
    """Rows of needed tables: level of the children, family, geocode, and a struct for each table, all but one null."""
    known = {
        "geounits": tables.geounits,
        "estimates": tables.estimates,
        "invariants": tables.invariants,
        "bounds": tables.bounds,
        "shares": tables.shares,
        "published": tables.published,
        "paths": tables.paths,
        "leaves": tables.leaves,
        "below": tables.below,
        "tables": tables.tables,
        "medians": tables.medians,
    }
    geocode = F.coalesce("geocode", F.lit(NOWHERE))
    parent = geocode if spine is None else F.coalesce(parent_of(spine), F.lit(NOWHERE))
    frames = [
        frame.select("level", parent.alias("family"), geocode.alias("geocode"), _row(name))
        for name, frame in known.items()
        if frame is not None and name in needed
    ]
    names = [F.lit(name) for pair in pairwise(tables.levels) for name in pair]
    if names:
        below, upper = F.create_map(*names)[F.col("level")].alias("level"), F.col("level") != tables.levels[-1]
        above = {
            "above_geounits": tables.geounits,
            "above_estimates": tables.estimates,
            "above_published": tables.published,
            "above_measured": tables.measurements,
            "above_bounds": None if tables.bounds is None else tables.bounds.where(F.col("name") == CLASS),
        }
        frames += [
            frame.where(upper).select(below, geocode.alias("family"), geocode.alias("geocode"), _row(name))
            for name, frame in above.items()
            if frame is not None and name in needed
        ]
    if tables.flows is not None:
        frames.append(tables.flows.select("level", "family", "geocode", _row("flows")))
    if tables.measurements is not None and "measured" in needed:
        frames.append(_measured(tables.measurements, parent, geocode))
    if tables.diagnostics is not None and "diagnostics" in needed:
        family = F.coalesce("family", F.lit(NOWHERE))
        at_the_top = F.when(F.col("level") == tables.levels[0], "").otherwise(family).alias("of")
        named = tables.diagnostics.withColumn("family", family).select("level", at_the_top, _row("diagnostics"))
        frames.append(named.select("level", F.col("of").alias("family"), F.lit("").alias("geocode"), "diagnostics"))
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames)


def _row(table: str) -> Column:
    """The columns of a table as one."""
    return F.struct(*COLUMNS[table]).alias(table)


def _measured(measurements: DataFrame, parent: Column, geocode: Column) -> DataFrame:
    """Rows of measurements, those of neighbours put together where they lie."""
    odd = F.coalesce(F.col("parent") != parent, F.lit(True)).alias("odd")
    rows = measurements.select(
        "level", parent.alias("family"), "query", "rows", "values", geocode.alias("geocode"), odd, "variance"
    )
    summed = in_tasks(rows, _put_together, from_arrow_schema(TOGETHER))
    return summed.select("level", "family", F.get("geounits", F.lit(0)).alias("geocode"), _row("measured"))


def _put_together(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # Batches of Spark have few rows where answers are many.
    for table in whole_groups(batches, _FAMILY, _ROWS_AT_ONCE, _BYTES_AT_ONCE):
        yield from map(together, table.combine_chunks().to_batches())
