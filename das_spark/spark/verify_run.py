"""The rules on the columns of every table of a run, with what its configuration says that they must hold.

Nothing here trusts the writer of a file: expectations come from the configuration in the manifest, from geocodes, and
from the other tables. Bounds are made again of the published invariants by the formulas of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from das_spark.config import held_counts, lazy_levels, needs_of
from das_spark.places import Place, as_input, seen_from
from das_spark.spark import tables
from das_spark.spark.census import on_census, read_spine
from das_spark.spark.checks import Check
from das_spark.spark.own_codes import under_own_codes
from das_spark.spark.tables import read_levels
from das_spark.spark.told_apart import told_apart
from das_spark.spark.verify import RunTables, Source, SpineTables, StoredTable
from das_spark.spark.verify_columns import array_columns
from das_spark.store import part_files
from das_spark.store.spine import blocks_of
from das_spark.store.tables import of_estimator, of_published, published_estimates
from das_spark.verification import (
    ADDED,
    CLASS,
    LOWER,
    UNITS,
    UPPER,
    BoundColumns,
    BoundsKept,
    BoundsNotLooser,
    ChildrenSum,
    DiagnosticColumns,
    FlowRows,
    GeounitColumns,
    GeounitsPresent,
    GroupBoundsKept,
    GroupTotals,
    HistogramsPossible,
    InvariantColumns,
    InvariantTotals,
    MeasuredHaveShare,
    MeasuredQuery,
    MeasurementColumns,
    NoiseDiffers,
    PathRows,
    PublishedKept,
    PublishedSums,
    PublishedWhole,
    SpinePaths,
    SumRows,
    share_of,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.geography import Spine
    from das_spark.spark.checks import Rule
    from das_spark.store import PublicLayout, PublicManifest
    from das_spark.verification import FamilyRows, FamilyRule

#: Names and types of the columns of Parquet files.
SCHEMAS: Final = "columns of Parquet files"
_OF_EVERY_LEVEL: Final = ("geounits", "invariants", "bounds", "measurements", "estimates", "diagnostics")


@dataclass(frozen=True, slots=True)
class Verified:
    """A run that is verified."""

    spark: SparkSession
    layout: PublicLayout
    manifest: PublicManifest
    plan: RunPlan
    spine: Spine  # its levels, with the lengths of its geocodes
    scratch: Place  # a folder of this process that every worker can write to

    @property
    def is_external(self) -> bool:
        """Whether the measurements were published by others, in this run or in one that it has them from."""
        return self.plan.origin is not None and self.plan.origin.began_external

    @property
    def census(self) -> Spine:
        """The levels of the census."""
        return self.plan.product.census(self.spine)

    def read(self, table: str, levels: Sequence[str] = ()) -> DataFrame:
        """A table, some levels of the spine."""
        return read_levels(self.spark, self.layout, table, levels or self.spine.names)

    def stored(self, table: str, levels: Sequence[str] = ()) -> StoredTable:
        """The same, in its files."""
        folders = {level: self.layout.level(table, level) for level in levels or self.spine.names}
        return StoredTable(self.spark, table, folders)

    def tables(self) -> SpineTables[StoredTable]:
        """Every table that verification compares along the spine."""
        relaxed: dict[str, tuple[str, ...]] = {}
        for each in self.manifest.relaxed:
            level, parent = each.split("/", 1)
            relaxed[level] = (*relaxed.get(level, ()), parent)
        return SpineTables(
            levels=self.spine.names,
            geounits=self.stored("geounits"),
            estimates=self.stored("estimates"),
            invariants=self.stored("invariants") if self._has("invariants") else None,
            bounds=self.stored("bounds") if self._has("bounds") else None,
            measurements=self.stored("measurements"),
            diagnostics=self.stored("diagnostics"),
            shares=None if self.spine.is_census else self.stored("shares"),
            published=None if self.plan.product.published is None else self.stored("published"),
            relaxed=relaxed,
        )

    def _has(self, table: str) -> bool:
        """Whether any level has rows of a table: where nothing is declared none has."""
        return any(self.manifest.rows.get(f"{table}/{level}", 0) for level in self.spine.names)

    def frames(self) -> RunTables:
        """Those that rules in SQL look at."""
        declared = self.read("invariants") if self._has("invariants") else None
        return RunTables(self.spine.names, self.read("geounits"), self.read("estimates"), declared)

    def published(self, read: RunTables) -> RunTables:
        """The estimates by geounits of the census as they were published, with the invariants of blocks."""
        if self.spine.is_census:
            return under_own_codes(read, self.spine) if self.spine.own_codes else read
        levels = self.census.names
        estimates, is_leaf = self.read(published_estimates(self.spine), levels), F.col("level") == self.spine.leaf.name
        declared = read.invariants
        if declared is not None:
            declared = on_census(declared.where(is_leaf))
        geounits = estimates.select("level", "geocode", "parent", F.lit(0).cast("bigint").alias("children"))
        return RunTables(levels, geounits, estimates, declared)

    def told_apart(self) -> DataFrame | None:
        """What microdata take from counts of another product, by blocks of the census; None where that is nothing."""
        if self.plan.product.published is None:
            return None
        published, leaf = self.read("published"), self.spine.leaf.name
        leaves = published.where(F.col("level") == leaf)
        return told_apart(leaves if self.spine.is_census else on_census(leaves), self.plan.product)


def histogram_rules(run: Verified, read: SpineTables[Any]) -> list[FamilyRule]:
    """The rules on the estimates of all geounits."""
    plan, levels, totals = run.plan, run.spine.names, run.plan.invariants.total_levels(run.spine.names)
    total_key = run.spine.total_key_at(plan.invariants.total_at)
    return [
        GeounitsPresent(levels),
        HistogramsPossible(levels, plan.product.schema, plan.product.structural_zeros),
        InvariantTotals(totals if total_key is None else totals[:-1]),
        *([GroupTotals(totals[-1], total_key)] if total_key is not None else []),
        BoundsKept(plan.bound_queries, grouped=total_key is not None),
        *([GroupBoundsKept()] if total_key is not None else []),
        ChildrenSum(levels[1:], read.relaxed),
    ]


def published_rules(run: Verified) -> list[FamilyRule]:
    """The rules on estimates that are held to what another product has published; none where none are."""
    held = held_counts(run.plan.product, units=run.plan.invariants.units)
    if held is None:
        return []
    levels, size = run.spine.names, held.of.size
    return [
        PublishedWhole(levels, size),
        PublishedKept(levels, held.query, held.of),
        *([PublishedSums(levels[1:], size)] if len(levels) > 1 else []),
    ]


def declared_columns(run: Verified) -> list[FamilyRule]:
    """The rules on the columns of geounits and invariants."""
    product, spine = run.plan.product, run.spine
    counts_units, classes = product.record == "unit", len(product.unit_classes)
    return [
        GeounitColumns(spine),
        InvariantColumns.of(spine, run.plan.invariants, classes, counts_units=counts_units),
    ]


def estimated_columns(run: Verified, read: SpineTables[Any]) -> list[FamilyRule]:
    """The rules on the columns of measurements and diagnostics."""
    plan, levels = run.plan, run.spine.names
    lazy = frozenset(() if run.is_external else lazy_levels(plan))
    total_key = run.spine.total_key_at(levels[0])
    return [
        MeasurementColumns(levels, _asked(run), lazy, not run.spine.is_census),
        NoiseDiffers(levels[1:]),
        DiagnosticColumns(levels, plan.estimation, read.relaxed, total_key),
    ]


def spine_rules(run: Verified) -> tuple[list[FamilyRule], list[Source]]:
    """The rules on a spine that is made of areas, and what its blocks say; none on another one."""
    if run.spine.is_census:
        return [], []
    blocks = read_spine(run.spark, run.layout.spine).blocks
    levels = run.spine.names
    # A block says something of every level.
    paths = Source(blocks.withColumn("level", F.lit(run.spine.leaf.name)), (PathRows(run.spine),))
    return [SpinePaths(levels), MeasuredHaveShare(levels)], [paths]


def array_rules(run: Verified, read: RunTables) -> list[Rule]:
    """The rules on the columns of arrays that an estimator keeps."""
    tables = of_estimator(needs_of(run.plan), run.spine.names).items()
    return [array_columns(run.read(added.name, levels), added.name, read, levels) for added, levels in tables]


def _asked(run: Verified) -> dict[str, dict[str, MeasuredQuery]]:
    """Level -> query -> what the budget says of it, for every share that geounits of the level have."""
    budget = run.plan.budget
    known: dict[str, dict[str, Fraction]] = {level.geolevel: {"": level.share} for level in budget.levels}
    if not run.spine.is_census:
        known = {name: {} for name in run.spine.names}
        for row in run.read("shares").select("level", "share").distinct().collect():  # a handful
            if share := share_of(row["share"]):
                known[row["level"]][row["share"]] = share
    return {
        level.geolevel: {
            query.query: MeasuredQuery(
                run.plan.queries[query.query],
                {
                    text: budget.mechanism_at(level.geolevel, query.query, share).variance()
                    for text, share in known[level.geolevel].items()
                },
            )
            for query in level.queries
        }
        for level in budget.levels
    }


def bound_columns(run: Verified, read: SpineTables[Any]) -> tuple[list[FamilyRule], list[Source]]:
    """The rules on bounds, with what they look at besides; none where nothing is bounded."""
    plan, spine, declared = run.plan, run.spine, run.plan.invariants
    if read.bounds is None:
        return [], []
    product = plan.product
    external = run.is_external and not run.read("bounds").where(F.col("name") == CLASS).isEmpty()
    imported = product.schema.query(product.class_query).rows if external else 0
    added = [(each, product.schema.query(each.query).rows) for each in plan.added]
    formulas = product.unit_bounds if declared.units else None
    levels = [name for name in spine.names if run.manifest.rows.get(f"bounds/{name}", 0)]
    rule = BoundColumns(spine, levels, declared.total_at, formulas, added, imported)
    leaf = spine.leaf.name
    of_bounds: list[FamilyRows] = []
    sources: list[Source] = []
    if formulas is not None and read.invariants is not None and len(spine.names) > 1:
        above = spine.names[-2]  # leaves have their own
        units = SumRows(spine, leaf, above, UNITS, "values", UNITS, len(formulas.least))
        sources.append(Source(read.invariants, (units,)))
        of_bounds += [SumRows(spine, leaf, above, side, side, CLASS) for side in (LOWER, UPPER)]
    if rule.flowing:
        of_bounds.append(FlowRows(spine, spine.index(str(declared.total_at))))
    if of_bounds:
        sources.append(Source(read.bounds, tuple(of_bounds)))
    if added:
        sums = tuple(SumRows(spine, each.geolevel, each.geolevel, f"{ADDED}{each.name}") for each, _ in added)
        sources.append(Source(read.geounits, sums))
    return [rule, *([BoundsNotLooser(spine.names, imported)] if imported and len(spine.names) > 1 else [])], sources


def schema_check(run: Verified, published: Mapping[Place, pa.Schema]) -> Check:
    """Every Parquet file of a table has the columns of the table, of their types and in their order, and no others.

    Args:
        run: The run.
        published: Columns of what is published of estimates, by folder.
    """
    layout, spine = run.layout, run.spine
    of_levels: dict[str, Sequence[str]] = {name: spine.names for name in _OF_EVERY_LEVEL}
    held = run.plan.product.published is not None
    more = of_estimator(needs_of(run.plan), spine.names) | of_published(held=held, levels=spine.names)
    of_levels |= {added.name: levels for added, levels in more.items()}
    if not spine.is_census:
        of_levels["shares"] = spine.names
    folders = {
        layout.level(name, level): tables.LEVEL_TABLES[name] for name, levels in of_levels.items() for level in levels
    }
    if not spine.is_census:
        folders[blocks_of(layout.spine)] = tables.BLOCKS
    expected = {**{folder: to_arrow_schema(schema) for folder, schema in folders.items()}, **published}
    failing, compared = [], 0
    for folder, schema in expected.items():
        declared = _columns_of(schema)
        compared += len(declared)
        for path in part_files(folder):
            columns = _columns_of(parquet.read_schema(as_input(path)))
            if columns != declared:
                odd = sorted({name for name, _ in set(declared) ^ set(columns)})
                failing.append(f"{seen_from(layout.path, path)}: {', '.join(odd) or 'their order'}")
    return Check.of((SCHEMAS, "", ""), compared, failing)


def _columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """Names and types; how the elements of a list are called, and whether one may be missing, is no matter."""
    types = (f"list of {kind.value_type}" if pa.types.is_list(kind) else str(kind) for kind in schema.types)
    return list(zip(schema.names, types, strict=True))
