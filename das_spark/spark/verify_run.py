"""The rules on the columns of every table of a run, with what its configuration says that they must hold.

Nothing here trusts the writer of a file: expectations come from the configuration in the manifest, from geocodes, and
from the other tables. Bounds are made again of the published invariants by the formulas of the run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

from das_spark.config import held_counts, lazy_levels, needs_of
from das_spark.geography import ROOT_GEOCODE
from das_spark.spark import tables
from das_spark.spark.census import on_census, read_spine
from das_spark.spark.checks import Check
from das_spark.spark.engine import in_tasks
from das_spark.spark.own_codes import under_own_codes
from das_spark.spark.tables import read_levels, union
from das_spark.spark.told_apart import told_apart
from das_spark.spark.verify import RunTables
from das_spark.spark.verify_columns import array_columns
from das_spark.store import part_files
from das_spark.store.spine import blocks_of
from das_spark.store.tables import of_estimator, of_published, published_estimates
from das_spark.verification import (
    ADDED,
    CLASS,
    FLOW,
    LOWER,
    NOWHERE,
    PATH_ROWS,
    SUMS,
    UNITS,
    UPPER,
    BoundColumns,
    BoundsKept,
    BoundsNotLooser,
    ChildrenSum,
    DiagnosticColumns,
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
    PublishedKept,
    PublishedSums,
    PublishedWhole,
    SpinePaths,
    paths_of,
    share_of,
    sums_above,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.constraints import UnitBounds
    from das_spark.geography import Spine
    from das_spark.spark.checks import Rule
    from das_spark.store import PublicLayout, PublicManifest
    from das_spark.verification import FamilyRule

#: Names and types of the columns of Parquet files.
SCHEMAS: Final = "columns of Parquet files"
_HISTOGRAM: Final = ("geocode", "cells", "counts")
_OF_EVERY_LEVEL: Final = ("geounits", "invariants", "bounds", "measurements", "estimates", "diagnostics")


@dataclass(frozen=True, slots=True)
class Verified:
    """A run that is verified."""

    spark: SparkSession
    layout: PublicLayout
    manifest: PublicManifest
    plan: RunPlan
    spine: Spine  # its levels, with the lengths of its geocodes
    scratch: Path  # a folder of this process that every worker can write to

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

    def tables(self) -> RunTables:
        """Every table that verification compares, all levels of each by one scan."""
        relaxed: dict[str, tuple[str, ...]] = {}
        for each in self.manifest.relaxed:
            level, parent = each.split("/", 1)
            relaxed[level] = (*relaxed.get(level, ()), parent)
        # Where nothing is declared no level has rows of it.
        declared = {
            name: self.read(name)
            for name in ("invariants", "bounds")
            if any(self.manifest.rows.get(f"{name}/{level}", 0) for level in self.spine.names)
        }
        names = ["geounits", "estimates", "measurements", "diagnostics"]
        names += [] if self.spine.is_census else ["shares"]
        names += [] if self.plan.product.published is None else ["published"]
        return RunTables(
            levels=self.spine.names, **{name: self.read(name) for name in names}, **declared, relaxed=relaxed
        )

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
        leaves = on_census(read.estimates.where(is_leaf).select(F.lit(levels[-1]).alias("level"), *_HISTOGRAM))
        return RunTables(levels, geounits, estimates, declared, leaves=leaves)

    def told_apart(self) -> DataFrame | None:
        """What microdata take from counts of another product, by blocks of the census; None where that is nothing."""
        if self.plan.product.published is None:
            return None
        published, leaf = self.read("published"), self.spine.leaf.name
        leaves = published.where(F.col("level") == leaf)
        return told_apart(leaves if self.spine.is_census else on_census(leaves), self.plan.product)


def histogram_rules(run: Verified, read: RunTables) -> list[FamilyRule]:
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


def estimated_columns(run: Verified, read: RunTables) -> list[FamilyRule]:
    """The rules on the columns of measurements and diagnostics."""
    plan, levels = run.plan, run.spine.names
    lazy = frozenset(() if run.is_external else lazy_levels(plan))
    total_key = run.spine.total_key_at(levels[0])
    return [
        MeasurementColumns(levels, _asked(run, read.shares), lazy, read.shares is not None),
        NoiseDiffers(levels[1:]),
        DiagnosticColumns(levels, plan.estimation, read.relaxed, total_key),
    ]


def spine_rules(run: Verified, read: RunTables) -> tuple[list[FamilyRule], RunTables]:
    """The rules on a spine that is made of areas, and the tables with what its blocks say; none on another one."""
    if run.spine.is_census:
        return [], read
    blocks = read_spine(run.spark, run.layout.spine).blocks
    paths = in_tasks(
        blocks.select("block", "path", "shares"), partial(_paths, spine=run.spine), from_arrow_schema(PATH_ROWS)
    )
    levels = run.spine.names
    return [SpinePaths(levels), MeasuredHaveShare(levels)], replace(read, paths=paths)


def array_rules(run: Verified, read: RunTables) -> list[Rule]:
    """The rules on the columns of arrays that an estimator keeps."""
    tables = of_estimator(needs_of(run.plan), run.spine.names).items()
    return [array_columns(run.read(added.name, levels), added.name, read, levels) for added, levels in tables]


def _asked(run: Verified, shares: DataFrame | None) -> dict[str, dict[str, MeasuredQuery]]:
    """Level -> query -> what the budget says of it, for every share that geounits of the level have."""
    budget = run.plan.budget
    known: dict[str, dict[str, Fraction]] = {level.geolevel: {"": level.share} for level in budget.levels}
    if shares is not None:
        known = {name: {} for name in run.spine.names}
        for row in shares.select("level", "share").distinct().collect():  # a handful
            if share := share_of(row["share"]):
                known[row["level"]][row["share"]] = share
    return {
        level.geolevel: {
            each.query: MeasuredQuery(
                run.plan.queries[each.query],
                {
                    text: budget.mechanism_at(level.geolevel, each.query, share).variance()
                    for text, share in known[level.geolevel].items()
                },
            )
            for each in level.queries
        }
        for level in budget.levels
    }


def bound_columns(run: Verified, read: RunTables) -> tuple[list[FamilyRule], RunTables]:
    """The rules on bounds, with the tables that they look at besides; none where nothing is bounded."""
    plan, spine, declared, bounds = run.plan, run.spine, run.plan.invariants, read.bounds
    if bounds is None:
        return [], read
    product, of_classes = plan.product, F.col("name") == CLASS
    external = run.is_external and not bounds.where(of_classes).isEmpty()
    imported = product.schema.query(product.class_query).rows if external else 0
    added = [(each, product.schema.query(each.query).rows) for each in plan.added]
    formulas = product.unit_bounds if declared.units else None
    levels = [name for name in spine.names if run.manifest.rows.get(f"bounds/{name}", 0)]
    rule = BoundColumns(spine, levels, declared.total_at, formulas, added, imported)
    if rule.flowing:
        read = replace(read, flows=_flows(bounds, spine, spine.index(str(declared.total_at))))
    summed = [] if formulas is None or read.invariants is None else _summed_up(read.invariants, bounds, spine, formulas)
    for each, _ in added:
        at = read.geounits.where(F.col("level") == each.geolevel)
        one = F.array(F.lit(1).cast("bigint")).alias("values")
        summed.append(at.select("geocode", F.lit(f"{ADDED}{each.name}").alias("name"), one))
    if summed:
        below = in_tasks(union(summed), partial(_sums, spine=spine), from_arrow_schema(SUMS))
        read = replace(read, below=below)
    return [rule, *([BoundsNotLooser(spine.names, imported)] if imported and len(spine.names) > 1 else [])], read


def _summed_up(invariants: DataFrame, bounds: DataFrame, spine: Spine, formulas: UnitBounds) -> list[DataFrame]:
    """What is summed over leaves: their units, of classes that bound anything, and their class bounds."""
    is_leaf = F.col("level") == spine.leaf.name
    units = invariants.where(is_leaf & (F.col("name") == UNITS))
    of_leaves = bounds.where(is_leaf & (F.col("name") == CLASS))
    return [
        units.select("geocode", F.lit(UNITS).alias("name"), F.slice("values", 1, len(formulas.least)).alias("values")),
        *(
            of_leaves.select("geocode", F.lit(name).alias("name"), F.col(name).alias("values"))
            for name in (LOWER, UPPER)
        ),
    ]


def _flows(bounds: DataFrame, spine: Spine, depth: int) -> DataFrame:
    """Flows, brought to what has the total: its level, its family, and its geocode or that of its group."""
    length = spine.levels[depth - 1].length
    family = F.substring("member", 1, length) if length else F.lit(ROOT_GEOCODE)
    return bounds.where(F.col("name") == FLOW).select(
        F.lit(spine.names[depth]).alias("level"),
        F.coalesce(family, F.lit(NOWHERE)).alias("family"),
        F.coalesce("member", F.lit(NOWHERE)).alias("geocode"),
        F.col("level").alias("of"),
        F.coalesce("geocode", F.lit(NOWHERE)).alias("above"),
        "parent",
        "member",
        "lower",
        "upper",
    )


def _paths(batches: Iterator[pa.RecordBatch], spine: Spine) -> Iterator[pa.RecordBatch]:
    return chain.from_iterable(paths_of(batch, spine) for batch in batches)


def _sums(batches: Iterator[pa.RecordBatch], spine: Spine) -> Iterator[pa.RecordBatch]:
    return chain.from_iterable(sums_above(batch, spine) for batch in batches)


def schema_check(run: Verified, published: Mapping[Path, pa.Schema]) -> Check:
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
            columns = _columns_of(parquet.read_schema(path))
            if columns != declared:
                odd = sorted({name for name, _ in set(declared) ^ set(columns)})
                failing.append(f"{path.relative_to(layout.path)}: {', '.join(odd) or 'their order'}")
    return Check.of((SCHEMAS, "", ""), compared, failing)


def _columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """Names and types; how the elements of a list are called, and whether one may be missing, is no matter."""
    types = (f"list of {kind.value_type}" if pa.types.is_list(kind) else str(kind) for kind in schema.types)
    return list(zip(schema.names, types, strict=True))
