"""The rules on the columns of every table of a run, with what its configuration says that they must hold.

Nothing here trusts the writer of a file: expectations come from the configuration in the manifest, from geocodes, and
from the other tables. Bounds are made again of the published invariants by the formulas of the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema

from das_spark.config import lazy_levels, needs_of
from das_spark.core import UNMEASURED
from das_spark.io.table_files import PARQUET
from das_spark.spark import bounds, tables
from das_spark.spark.census import on_census, read_spine
from das_spark.spark.checks import Check
from das_spark.spark.intervals import interval_schema
from das_spark.spark.own_codes import under_own_codes
from das_spark.spark.published_bounds import published_class_bounds
from das_spark.spark.run_tables import write_and_read
from das_spark.spark.tables import read_folders, read_levels
from das_spark.spark.tabulate import table_schema
from das_spark.spark.told_apart import told_apart
from das_spark.spark.verify import RunTables, present
from das_spark.spark.verify_columns import (
    MeasuredQuery,
    array_columns,
    bound_columns,
    diagnostic_columns,
    geounit_columns,
    invariant_columns,
    looser_bounds,
    measurement_columns,
    parent_columns,
)
from das_spark.spark.verify_noise import noise_rule
from das_spark.spark.verify_spine import block_columns, share_columns
from das_spark.store import part_files
from das_spark.store.spine import blocks_of
from das_spark.store.tables import of_estimator, of_published, published_estimates

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import RunPlan
    from das_spark.geography import Spine
    from das_spark.spark.checks import Rule
    from das_spark.store import PublicLayout, PublicManifest

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
        return RunTables(self.spine.names, self.read("geounits"), self.read("estimates"), **declared, relaxed=relaxed)

    def published(self, read: RunTables) -> RunTables:
        """The estimates by geounits of the census as they were published, with the invariants of blocks."""
        if self.spine.is_census:
            return under_own_codes(read, self.spine) if self.spine.own_codes else read
        levels = self.census.names
        estimates = self.read(published_estimates(self.spine), levels)
        declared = read.invariants
        if declared is not None:
            declared = on_census(declared.where(F.col("level") == self.spine.leaf.name))
        return RunTables(levels, estimates, estimates, declared)

    def told_apart(self) -> DataFrame | None:
        """What microdata take from counts of another product, by blocks of the census; None where that is nothing."""
        if self.plan.product.published is None:
            return None
        published, leaf = self.read("published"), self.spine.leaf.name
        leaves = published.where(F.col("level") == leaf)
        return told_apart(leaves if self.spine.is_census else on_census(leaves), self.plan.product)


def column_rules(run: Verified, read: RunTables, published: RunTables) -> list[Rule]:
    """The rules on the columns of every table of a run, read by the spine, and as published by the census."""
    plan, spine = run.plan, run.spine
    product, solving = plan.product, plan.estimation
    shares = None if spine.is_census else run.read("shares")
    lazy = () if run.is_external else lazy_levels(plan)
    counts_units, classes = product.record == "unit", len(product.unit_classes)
    rules = [
        geounit_columns(read, spine),
        invariant_columns(read, spine, plan.invariants, classes, counts_units=counts_units),
        *_bound_rules(run, read),
        measurement_columns(run.read("measurements"), read, spine, _asked(run, shares), lazy=lazy, shares=shares),
        *([noise_rule(run.read("measurements"), read.geounits, spine.names)] if len(spine.names) > 1 else []),
        diagnostic_columns(
            run.read("diagnostics"),
            read,
            spine,
            solving,
            spine.total_key_at(spine.names[0]),
        ),
    ]
    for added, levels in of_estimator(needs_of(plan), spine.names).items():
        rules.append(array_columns(run.read(added.name, levels), added.name, read, levels))
    if shares is not None:
        blocks = read_spine(run.spark, run.layout.spine).blocks
        rules += [block_columns(blocks, spine), share_columns(shares, blocks, read, spine)]
        rules.append(parent_columns(published.estimates, published_estimates(spine), run.census))
    return [rule for rule in rules if rule is not None]


def _asked(run: Verified, shares: DataFrame | None) -> dict[str, dict[str, MeasuredQuery]]:
    """Level -> query -> what the budget says of it, for every share that geounits of the level have."""
    budget = run.plan.budget
    known: dict[str, dict[str, Fraction]] = {level.geolevel: {"": level.share} for level in budget.levels}
    if shares is not None:
        known = {name: {} for name in run.spine.names}
        for row in shares.select("level", "share").distinct().collect():  # a handful
            if row["share"] != UNMEASURED:
                known[row["level"]][row["share"]] = Fraction(row["share"])
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


def _bound_rules(run: Verified, read: RunTables) -> list[Rule | None]:
    """The bounds as they follow from the invariants, or, of others, from the class bounds that they published."""
    plan, spine, declared = run.plan, run.spine, run.plan.invariants
    product, formulas = plan.product, plan.product.unit_bounds
    invariants = read.invariants
    if invariants is None:
        invariants = read_folders(run.spark, "invariants", run.layout.path, [])
    of_classes = None
    if declared.units and formulas is not None:
        # Read three times, and made once.
        of_classes = write_and_read(bounds.class_bounds(invariants, spine, formulas), run.scratch / "class_bounds")
    expected = bounds.all_bounds(
        invariants,
        read.geounits,
        spine,
        declared,
        of_classes,
        formulas,
        tuple((each, product.schema.query(each.query)) for each in plan.added),
        spine.total_key_at(declared.total_at),
    )
    rules: list[Rule | None] = []
    if run.is_external and read.bounds is not None and not read.bounds.where("name = 'class'").isEmpty():
        expected = expected.unionByName(_published(run, read, invariants))
        if len(spine.names) > 1:
            rules.append(looser_bounds(read, spine, product.schema.query(product.class_query).rows))
    levels = [name for name in spine.names if run.manifest.rows.get(f"bounds/{name}", 0)]
    return [bound_columns(read, spine, expected, levels), *rules]


def _published(run: Verified, read: RunTables, invariants: DataFrame) -> DataFrame:
    """Class bounds of others, one for each geounit, and the flows that follow from them."""
    rows = present(read.bounds, "bounds").where("name = 'class'").select("level", "geocode", "lower", "upper")
    totals = invariants.where("name = 'total'").select("level", "geocode", F.get("values", F.lit(0)).alias("total"))
    depths = F.create_map(*[F.lit(each) for pair in enumerate(run.spine.names) for each in reversed(pair)])
    of_classes = (
        read.geounits.select("level", "geocode", "parent")
        .join(rows, ["level", "geocode"], "left")
        .join(totals, ["level", "geocode"], "left")
        .withColumn("depth", depths[F.col("level")])
    )
    return published_class_bounds(of_classes, run.spine, run.plan.invariants.total_at)


def schema_check(run: Verified, of_features: Mapping[Path, pa.Schema]) -> Check:
    """Every Parquet file of a table has the columns of the table, of their types and in their order, and no others.

    Args:
        run: The run.
        of_features: Columns of what features have published, by folder.
    """
    layout, spine = run.layout, run.spine
    of_levels: dict[str, Sequence[str]] = {name: spine.names for name in _OF_EVERY_LEVEL}
    held = run.plan.product.published is not None
    more = of_estimator(needs_of(run.plan), spine.names) | of_published(held=held, levels=spine.names)
    of_levels |= {added.name: levels for added, levels in more.items()}
    if not spine.is_census:
        of_levels |= {"shares": spine.names, published_estimates(spine): run.census.names}
    folders = {
        layout.level(name, level): tables.LEVEL_TABLES[name] for name, levels in of_levels.items() for level in levels
    }
    if not spine.is_census:
        folders[blocks_of(layout.spine)] = tables.BLOCKS
    for name, format in run.manifest.tables:
        if format == PARQUET:
            (table,) = (each for each in run.plan.product.every_table if each.name == name)
            schema = table_schema([table])
            folders |= {layout.tables.level(name, format, level): schema for level in table.levels(run.census)}
    expected = {folder: to_arrow_schema(schema) for folder, schema in folders.items()} | _uncertainty(run)
    expected |= of_features
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


def _uncertainty(run: Verified) -> dict[Path, pa.Schema]:
    """Columns of what Parquet says of how uncertain counts are, by folder."""
    output, layout = run.plan.output, run.layout
    tables_by_name = {table.name: table for table in run.plan.product.tables}
    found: dict[Path, pa.Schema] = {}
    if PARQUET not in output.interval_formats:
        return found
    if output.intervals is not None:
        for name in output.intervals.tables:
            schema = interval_schema(tables_by_name[name])
            levels = tables_by_name[name].levels(run.census, output.intervals.geolevels)
            found |= {layout.intervals.level(name, PARQUET, level): schema for level in levels}
    return found


def _columns_of(schema: pa.Schema) -> list[tuple[str, str]]:
    """Names and types; how the elements of a list are called, and whether one may be missing, is no matter."""
    types = (f"list of {kind.value_type}" if pa.types.is_list(kind) else str(kind) for kind in schema.types)
    return list(zip(schema.names, types, strict=True))
