"""From declared invariants to the bounds of every geounit, the tighter of own and summed at every level (public).

Nothing here reads a confidential count other than the declared invariants themselves. Levels at and below the one
where totals are invariant get bounds on the class margins; levels above it get, besides, one `flow` row for each
descendant whose total is invariant (das_spark/estimation/README.md says why sums of class bounds are not enough there).

Where a state is split into parts only the total of the state is invariant. The parts are then a *group*: they share the
digits `total_key` of their geocodes (first digit, from 1, and number of digits), and each has a row `group_total`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.constraints import UNBOUNDED, AddedConstraint, Invariants, Sense, UnitBounds, divisible, tighten
from das_spark.core import GROUP_TOTAL
from das_spark.geography import Spine
from das_spark.spark.engine import in_tasks
from das_spark.spark.ingest import level_structs
from das_spark.spark.lists import flat_lists, list_rows
from das_spark.spark.tables import union

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.histogram import Query


#: First digit, from 1, and number of the digits of a geocode that the members of a group share.
TotalKey = tuple[int, int]
_KEYS = ("level", "geocode", "parent")
_TOTALS = ("total", GROUP_TOTAL)
_CLASS_BOUNDS = (
    "level string, depth int, geocode string, parent string, units array<bigint>, total bigint, "
    "lower array<bigint>, upper array<bigint>"
)


def class_bounds(invariants: DataFrame, spine: Spine, unit_bounds: UnitBounds) -> DataFrame:
    """Bounds on the class margins of every geounit, the tighter of own and the sums of its leaves.

    Final at and below the level where totals are invariant; `bounds_above` tightens the levels above it. A member of a
    group has no total of its own, and is bounded as where totals are unknown.

    Columns level, depth, geocode, parent, units, total (null where unknown), lower, upper (arrays by class).
    """
    leaf_name = spine.leaf.name
    units = invariants.where((F.col("name") == "units") & (F.col("level") == leaf_name))
    bounding = F.slice("values", 1, len(unit_bounds.least))  # others, such as group quarters of households, bound none
    leaf_total = _totals(invariants).where(F.col("level") == leaf_name).drop("level")
    leaf = units.select("geocode", bounding.alias("units")).join(leaf_total, "geocode", "left")
    own = leaf.select(
        F.lit(leaf_name).alias("level"),
        F.lit(len(spine.levels) - 1).alias("depth"),
        "geocode",
        F.lit("").alias("parent"),
        "units",
        "total",
        F.col("units").alias("lower"),
        F.col("units").alias("upper"),
    )
    own = _bounded(own, unit_bounds, tightened=False)
    return _tightened(own, invariants, spine, unit_bounds)


def group_bounds(
    of_classes: DataFrame,
    invariants: DataFrame,
    spine: Spine,
    total_at: str,
    total_key: TotalKey,
    unit_bounds: UnitBounds,
) -> DataFrame:
    """Bounds of the groups at the level of the totals: sums over members, tightened by the total of the group.

    The same columns, of that level alone, with keys for geocodes; every total is known.
    """
    key = F.substring("geocode", *total_key).alias("geocode")
    members = of_classes.where(F.col("depth") == spine.index(total_at)).withColumn("geocode", key)
    exact = invariants.where((F.col("level") == total_at) & F.col("name").isin(*_TOTALS))
    totals = exact.select(key, F.col("values").getItem(0).alias("total")).groupBy("geocode").agg(F.max("total"))
    summed = _summed_lists(members, ("level", "depth", "geocode", "parent"), len(unit_bounds.least))
    known = summed.join(totals.toDF("geocode", "total"), "geocode").select(*_class_columns())
    return _bounded(known, unit_bounds)


def bounds_above(
    of_classes: DataFrame, invariants: DataFrame, spine: Spine, total_at: str, unit_bounds: UnitBounds
) -> DataFrame:
    """Bounds of the levels above the one with invariant totals, from the tightened bounds of that level.

    The same columns.
    """
    depth = spine.index(total_at)
    base = of_classes.where(F.col("depth") == depth)
    upper = Spine(spine.levels[: depth + 1])
    return _tightened(base, invariants, upper, unit_bounds).where(F.col("depth") < depth)


def all_bounds(
    invariants: DataFrame,
    geounits: DataFrame,
    spine: Spine,
    declared: Invariants,
    of_classes: DataFrame | None,
    unit_bounds: UnitBounds | None,
    added: tuple[tuple[AddedConstraint, Query], ...],
    total_key: TotalKey | None = None,
) -> DataFrame:
    """Every bound of every geounit: `tables.BOUNDS` with a column level in front.

    Those of classes are what `class_bounds` gives, written and read back; None where units are not invariant, or bound
    nothing.
    """
    frames = []
    if declared.total_at is not None:
        totals = invariants.where(F.col("name") == "total")
        frames.append(bound_rows(totals, "total", F.col("values"), F.col("values")))
        if total_key is not None:
            members, key = invariants.where(F.col("name") == GROUP_TOTAL), F.substring("geocode", *total_key)
            frames.append(bound_rows(members, GROUP_TOTAL, F.col("values"), F.col("values"), member=key))
    if of_classes is not None and unit_bounds is not None:
        final = of_classes
        if declared.total_at is not None and spine.index(declared.total_at) > 0:
            base = of_classes
            if total_key is not None:
                base = group_bounds(of_classes, invariants, spine, declared.total_at, total_key, unit_bounds)
            above = bounds_above(base, invariants, spine, declared.total_at, unit_bounds)
            final = of_classes.where(F.col("depth") >= spine.index(declared.total_at)).unionByName(above)
            frames.append(flow_rows(base, spine, declared.total_at))
        frames.append(bound_rows(final, "class", F.col("lower"), F.col("upper")))
    frames += [_added_rows(geounits, spine, constraint, query) for constraint, query in added]
    columns = "name string, member string, lower array<bigint>, upper array<bigint>"
    return _union(frames, geounits.sparkSession, columns)


def indivisible(bounds: DataFrame, *, grouped: bool = False) -> DataFrame:
    """Geounits whose class bounds contradict each other or their total: a column geocode; empty when all is well."""
    totals = bounds.where("name = 'total'").select("level", "geocode", F.col("lower").getItem(0).alias("total"))
    of_classes = bounds.where("name = 'class'").join(totals, ["level", "geocode"], "left")
    of_classes = of_classes.select("geocode", "lower", "upper", "total")
    if grouped:
        of_classes = of_classes.unionByName(_bounds_of_groups(bounds))

    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            lower, upper, total = _class_arrays(batch)
            good = np.ones(batch.num_rows, dtype=bool)
            for chosen, values in _by_total(total):
                good[chosen] = divisible(lower[chosen], upper[chosen], values)
            yield pa.RecordBatch.from_pydict(
                {"geocode": batch.column("geocode").filter(pa.array(~good))},
                schema=pa.schema([("geocode", pa.string())]),
            )

    return in_tasks(of_classes, failing, "geocode string")


def _union(frames: list[DataFrame], spark: SparkSession, columns: str) -> DataFrame:
    """All rows of the frames; an empty frame of the same columns where a run declares nothing."""
    empty = spark.createDataFrame([], f"level string, geocode string, parent string, {columns}")
    return union(frames) if frames else empty


def _totals(invariants: DataFrame) -> DataFrame:
    totals = invariants.where(F.col("name") == "total")
    return totals.select("level", "geocode", F.col("values").getItem(0).alias("total"))


def _tightened(of_classes: DataFrame, invariants: DataFrame, spine: Spine, unit_bounds: UnitBounds) -> DataFrame:
    """Sum class bounds over descendants at every level of the spine, and tighten each by its own bounds."""
    summed = _summed(of_classes, spine, len(unit_bounds.least))
    known = summed.join(_totals(invariants), ["level", "geocode"], "left").select(*_class_columns())
    return _bounded(known, unit_bounds)


def _class_columns() -> list[Column]:
    return [F.col(name) for name in ("level", "depth", "geocode", "parent", "units", "total", "lower", "upper")]


def _class_arrays(batch: pa.RecordBatch) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rows = batch.num_rows
    lower = flat_lists(batch.column("lower"), np.int64)[0].reshape(rows, -1)
    upper = flat_lists(batch.column("upper"), np.int64)[0].reshape(rows, -1)
    total = batch.column("total").to_numpy(zero_copy_only=False).astype(np.float64)
    return lower, upper, total


def _by_total(total: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Rows whose totals are known, with them, and rows whose totals are not."""
    known = np.isfinite(total)
    if known.any():
        yield known, total[known].astype(np.int64)
    if not known.all():
        yield ~known, None


def _formula(unit_bounds: UnitBounds, units: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    lower, upper = np.empty_like(units), np.empty_like(units)
    for chosen, values in _by_total(total):
        lower[chosen] = unit_bounds.lower(units[chosen], values)
        upper[chosen] = unit_bounds.upper(units[chosen], values)
    return lower, upper


def _bounded(frame: DataFrame, unit_bounds: UnitBounds, *, tightened: bool = True) -> DataFrame:
    """Class bounds that follow from the units and the total of each row, tightened by those that the row has."""

    def bounded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            units = flat_lists(batch.column("units"), np.int64)[0].reshape(batch.num_rows, -1)
            lower, upper, total = _class_arrays(batch)
            sides = _formula(unit_bounds, units, total)
            if tightened:
                sides = tighten(*sides, lower, upper)
            columns = {name: batch.column(name) for name in batch.schema.names}
            for name, side in zip(("lower", "upper"), sides, strict=True):
                columns[name] = list_rows(side)
            yield pa.RecordBatch.from_pydict(columns)

    return in_tasks(frame, bounded, _CLASS_BOUNDS)


def _summed(of_classes: DataFrame, spine: Spine, classes: int) -> DataFrame:
    """Sum units, lower and upper over all descendants, for every level of the spine given, whose lowest level they are.

    The level above the lowest is summed from that, and all others from the former, which has a fraction of the rows.
    """
    structs = level_structs(spine)
    keys, sides = ("level", "depth", "geocode", "parent"), ("units", "lower", "upper")
    own = of_classes.select(structs[-1].alias("at"), *sides).select("at.*", *sides)
    if len(structs) == 1:
        return own.select(*keys, *sides)
    parent = structs[-2].getField("geocode").alias("geocode")
    above = _summed_lists(of_classes.select(parent, *sides), ("geocode",), classes)
    each = above.select(F.explode(F.array(*structs[:-1])).alias("at"), *sides).select("at.*", *sides)
    return _summed_lists(each, keys, classes).unionByName(own)


def _summed_lists(frame: DataFrame, keys: tuple[str, ...], classes: int) -> DataFrame:
    """Sum units, lower and upper, class by class, over the rows with the same keys."""
    names = ("units", "lower", "upper")
    sums = [F.sum(F.col(name).getItem(i)).alias(f"{name}{i}") for name in names for i in range(classes)]
    grouped = frame.groupBy(*keys).agg(*sums)
    arrays = [F.array(*[F.col(f"{name}{i}") for i in range(classes)]).alias(name) for name in names]
    return grouped.select(*keys, *arrays)


def bound_rows(frame: DataFrame, name: str, lower: Column, upper: Column, *, member: Column | None = None) -> DataFrame:
    """Bounds of geounits on themselves: `tables.BOUNDS` with a column level in front."""
    return frame.select(
        *_KEYS,
        F.lit(name).alias("name"),
        (F.col("geocode") if member is None else member).alias("member"),
        lower.alias("lower"),
        upper.alias("upper"),
    )


def flow_rows(of_classes: DataFrame, spine: Spine, total_at: str) -> DataFrame:
    """Class bounds and totals of the geounits whose totals are invariant, for each geounit above them.

    `tables.BOUNDS` with a column level in front.
    """
    depth = spine.index(total_at)
    members = of_classes.where(F.col("depth") == depth).select(
        F.col("geocode"),
        F.concat("lower", F.array("total")).alias("lower"),
        F.concat("upper", F.array("total")).alias("upper"),
    )
    above = F.explode(F.array(*level_structs(Spine(spine.levels[: depth + 1]))[:-1])).alias("at")
    rows = members.select(above, F.col("geocode").alias("member"), "lower", "upper")
    return rows.select(
        F.col("at.level").alias("level"),
        F.col("at.geocode").alias("geocode"),
        F.col("at.parent").alias("parent"),
        F.lit("flow").alias("name"),
        "member",
        "lower",
        "upper",
    )


def _added_rows(geounits: DataFrame, spine: Spine, constraint: AddedConstraint, query: Query) -> DataFrame:
    right = np.broadcast_to(np.asarray(constraint.right, dtype=np.int64), (query.rows,)).tolist()
    low = right if constraint.sense in (Sense.EQUAL, Sense.AT_LEAST) else [0] * query.rows
    high = right if constraint.sense in (Sense.EQUAL, Sense.AT_MOST) else [UNBOUNDED] * query.rows
    depth = spine.index(constraint.geolevel)
    at = geounits.where(F.col("level") == constraint.geolevel).select(
        F.explode(F.array(*level_structs(Spine(spine.levels[: depth + 1])))).alias("at")
    )
    counted = at.select("at.*").groupBy("level", "geocode", "parent").agg(F.count(F.lit(1)).alias("members"))

    def scaled(values: list[int]) -> Column:
        limits = [min(value, UNBOUNDED) for value in values]  # so that no product overflows
        return F.array(*[F.least(F.lit(limit) * F.col("members"), F.lit(UNBOUNDED)).cast("long") for limit in limits])

    return bound_rows(counted, f"added:{constraint.name}", scaled(low), scaled(high))


def _bounds_of_groups(bounds: DataFrame) -> DataFrame:
    """Columns geocode (key of the group), lower, upper (sums of the members' class bounds), total."""
    groups = bounds.where(F.col("name") == GROUP_TOTAL)
    totals = groups.select("level", "geocode", F.col("member").alias("key"), F.col("lower").getItem(0).alias("total"))
    members = bounds.where("name = 'class'").select("level", "geocode", "lower", "upper")
    sides = [F.collect_list(side).alias(side) for side in ("lower", "upper")]
    joined = members.join(totals, ["level", "geocode"]).groupBy("level", "key")
    listed = joined.agg(*sides, F.max("total").alias("total"))

    def summed(side: str) -> Column:
        rest = F.slice(side, F.lit(2), F.size(side) - 1)
        return F.aggregate(
            rest,
            F.col(side).getItem(0),
            lambda one, other: F.transform(one, lambda value, place: value + F.get(other, place)),
        ).alias(side)

    return listed.select(F.col("key").alias("geocode"), summed("lower"), summed("upper"), "total")
