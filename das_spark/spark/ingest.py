"""From what readers give to the confidential histograms of every geolevel (restricted tables).

Units and people that contradict each other in a leaf geounit are found, named, and on request resolved: a geounit with
n units of a class must hold between least*n and most*n people of that class. Published counts that were protected
before (such as those of the 2018 End-to-End test) break this; so may records with errors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from das_spark.core.levels import GROUP_TOTAL
from das_spark.spark import tables
from das_spark.spark.engine import in_tasks
from das_spark.spark.lists import flat_histograms, flat_lists, list_array, list_total

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.constraints import UnitBounds
    from das_spark.geography import Spine
    from das_spark.histogram import Query


def leaf_table(counts: DataFrame, geounits: DataFrame, *, vacant_counted: bool = False) -> DataFrame:
    """Gather counts into one sparse histogram a leaf geounit (`tables.LEAVES`), an empty one where there are no people.

    Counts have the columns geocode, cell, count (a cell may occur more than once); geounits, every leaf once, geocode,
    units (by class, or null) and vacant (or null). Where vacant units are counted they belong to the first class.
    """
    summed = counts.groupBy("geocode", "cell").agg(F.sum("count").alias("count")).where("count > 0")
    gathered = _gather(summed, "geocode")
    joined = (
        geounits.join(gathered, "geocode", "left")
        .select(
            "geocode",
            F.coalesce("cells", F.array().cast("array<int>")).alias("cells"),
            F.coalesce("counts", F.array().cast("array<bigint>")).alias("counts"),
            *(_pooled() if vacant_counted else (F.col("units"), F.col("vacant"))),
        )
        .select(
            "geocode",
            "cells",
            "counts",
            F.col("units").cast("array<bigint>").alias("units"),
            F.col("vacant").cast("long").alias("vacant"),
        )
    )
    return joined.select(*[field.name for field in tables.LEAVES.fields])


def _pooled() -> tuple[Column, Column]:
    """Units with the vacant ones among those of the first class (null where no units are known), and no vacant."""
    first = F.get("units", F.lit(0)) + F.coalesce("vacant", F.lit(0))
    pooled = F.concat(F.array(first), F.slice("units", F.lit(2), F.size("units") - 1))
    return F.when(F.col("units").isNotNull(), pooled).alias("units"), F.lit(None).alias("vacant")


def all_levels(leaves: DataFrame, spine: Spine) -> DataFrame:
    """Histograms of every geounit of every level, each level but the lowest by one sum over cells.

    The lowest level is the leaves themselves; the level above it is summed from them, and all others from that one,
    which has a fraction of their rows.

    `tables.HISTOGRAMS` with a column level in front (the geolevel's name).
    """
    structs = level_structs(spine)
    lowest = leaves.select(structs[-1].alias("geounit"), "cells", "counts").select(
        *[f"geounit.{name}" for name in _OF_GEOUNITS], *_HISTOGRAM
    )
    if len(spine.levels) == 1:
        return lowest
    pairs = leaves.select(
        structs[-2].getField("geocode").alias("geocode"),
        F.explode_outer(F.arrays_zip("cells", "counts")).alias("pair"),
    )
    cells = pairs.select("geocode", F.col("pair.cells").alias("cell"), F.col("pair.counts").alias("count"))
    above = cells.groupBy("geocode", "cell").agg(F.sum("count").alias("count"))
    upper = above.select(F.explode(F.array(*structs[:-1])).alias("geounit"), "cell", "count")
    summed = upper.groupBy(*[f"geounit.{name}" for name in _OF_GEOUNITS], "cell").agg(F.sum("count").alias("count"))
    return _gather(summed, *_OF_GEOUNITS).select(*_OF_GEOUNITS, *_HISTOGRAM).unionAll(lowest)


_OF_GEOUNITS: Final = ("level", "geocode", "parent")
_HISTOGRAM: Final = ("cells", "counts")


def all_geounits(leaves: DataFrame, spine: Spine) -> DataFrame:
    """Every geounit of every level with its number of children.

    `tables.GEOUNITS` with a column level in front; geounits of the lowest level, which are the leaves, have 0 children.
    """
    structs, depth = level_structs(spine), len(spine.levels) - 2
    columns = ("level", "geocode", "parent", "children")
    none = F.lit(0).cast("long").alias("children")
    leaf = leaves.select(structs[-1].alias("geounit"))
    lowest = leaf.select("geounit.level", "geounit.geocode", "geounit.parent", none)
    if depth < 0:
        return lowest
    above = leaf.groupBy(F.col("geounit.parent").alias("geocode")).agg(F.count(F.lit(1)).alias("children"))
    each = above.select(F.explode(F.array(*structs[:-1])).alias("geounit")).select("geounit.*").distinct()
    children = (
        each.groupBy((F.col("depth") - 1).alias("depth"), F.col("parent").alias("geocode"))
        .agg(F.count(F.lit(1)).alias("children"))
        .unionAll(above.select(F.lit(depth), "geocode", "children"))
    )
    joined = each.join(children, ["depth", "geocode"])
    return joined.select(*columns).unionAll(lowest)


def level_structs(spine: Spine) -> list[Column]:
    """For the leaf geocode of a row, (level, depth, geocode, parent) at every level of the spine.

    Root first; depth is 0 and parent empty at the root.
    """
    geocodes = [F.lit("0") if level.length == 0 else F.substring("geocode", 1, level.length) for level in spine.levels]
    structs = []
    for depth, level in enumerate(spine.levels):
        parent = geocodes[depth - 1] if depth else F.lit("")
        structs.append(
            F.struct(
                F.lit(level.name).alias("level"),
                F.lit(depth).alias("depth"),
                geocodes[depth].alias("geocode"),
                parent.alias("parent"),
            )
        )
    return structs


def _gather(cells: DataFrame, *keys: str) -> DataFrame:
    # A row with a null cell stands for an empty geounit: it keeps the geounit and adds nothing.
    pair = F.when(F.col("cell").isNotNull(), F.struct("cell", "count"))
    pairs = F.sort_array(F.collect_list(pair))
    grouped = cells.groupBy(*keys).agg(pairs.alias("pairs"))
    return grouped.select(
        *keys,
        F.col("pairs.cell").cast("array<int>").alias("cells"),
        F.col("pairs.count").cast("array<bigint>").alias("counts"),
    )


@dataclass(frozen=True, slots=True)
class UnitRule:
    """How units bound people in a leaf geounit."""

    query: Query  # the query of class margins (people by class)
    unit_bounds: UnitBounds  # least and most people a unit of each class may hold

    def people(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """People by class of each leaf of a batch, shape (leaves, classes)."""
        leaf, cells, counts = flat_histograms(batch)
        margins = np.zeros((batch.num_rows, self.query.rows), dtype=np.int64)
        np.add.at(margins, (leaf, self.query.row_of(cells)), counts)
        return margins

    def units(self, batch: pa.RecordBatch) -> NDArray[np.int64]:
        """Units of each class that bounds, of each leaf of a batch, shape (leaves, classes)."""
        return flat_lists(batch.column("units"), np.int64)[0].reshape(batch.num_rows, -1)[:, : self.query.rows]

    def nearest_units(self, people: NDArray[np.int64], units: NDArray[np.int64]) -> NDArray[np.int64]:
        """The nearest number of units, class by class, that the people allow.

        Units by class, shape (leaves, classes).
        """
        least, most = np.array(self.unit_bounds.least), np.array(self.unit_bounds.most)
        fewest = -(-people // most)
        # A class whose units may be empty has no largest number of them.
        largest = np.where(least > 0, people // np.maximum(least, 1), np.maximum(units, fewest))
        return np.clip(units, fewest, np.maximum(largest, fewest))


def conflicts(leaves: DataFrame, rule: UnitRule) -> DataFrame:
    """Leaves whose people break the bounds of their units: columns geocode, unit_class (int). Restricted."""

    def find(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            people, units = rule.people(batch), rule.units(batch)
            low, high = np.array(rule.unit_bounds.least) * units, np.array(rule.unit_bounds.most) * units
            leaf, unit_class = np.nonzero((people < low) | (people > high))
            yield pa.RecordBatch.from_arrays(
                [batch.column("geocode").take(pa.array(leaf)), pa.array(unit_class.astype(np.int32))],
                names=["geocode", "unit_class"],
            )

    return in_tasks(leaves, find, "geocode string, unit_class int")


def resolve_conflicts(leaves: DataFrame, rule: UnitRule) -> DataFrame:
    """Leaves with units changed, where they contradict the people, to the nearest number that does not.

    `tables.LEAVES`.
    """

    def change(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            units = rule.nearest_units(rule.people(batch), rule.units(batch))
            offsets = np.arange(batch.num_rows + 1, dtype=np.int64) * units.shape[1]
            columns = {name: batch.column(name) for name in batch.schema.names}
            columns["units"] = list_array(units.ravel(), offsets, pa.int64())
            yield pa.RecordBatch.from_pydict(columns)

    return in_tasks(leaves, change, tables.LEAVES)


def some_without_units(leaves: DataFrame, number: int) -> list[str]:
    """Geocodes of some leaves whose units are not known."""
    return [row["geocode"] for row in leaves.where("units is null").limit(number).collect()]


def some_uncounted(leaves: DataFrame, number: int) -> list[str]:
    """Geocodes of some leaves whose units of the first class are not as many as are counted."""
    counted = list_total("counts") == F.col("units").getItem(0)
    odd = leaves.where(~counted).select("geocode").orderBy("geocode").limit(number)
    return [row["geocode"] for row in odd.collect()]


def leaf_facts(leaves: DataFrame) -> dict[str, int]:
    """What leaves hold: geounits, different ones, occupied cells, people. Restricted."""
    (found,) = leaves.agg(
        F.count(F.lit(1)).alias("geounits"),
        F.countDistinct("geocode").alias("different"),
        F.coalesce(F.sum(F.size("cells")), F.lit(0)).alias("occupied cells"),
        F.coalesce(F.sum(list_total("counts")), F.lit(0)).alias("people"),
    ).collect()
    return dict(found.asDict())


def added_against_totals(bounds: DataFrame, whole: Sequence[str]) -> DataFrame:
    """Added constraints that ask for more people than a total, or leave no room for them: geocode, name."""
    total = F.col("lower").getItem(0).alias("total")
    # Geounits with a total together are asked together, under the name of their group.
    totals = bounds.where(F.col("name").isin("total", GROUP_TOTAL)).select(
        "level", "geocode", F.col("member").alias("holder"), total
    )
    sums = [F.sum(list_total(side)).alias(name) for side, name in (("lower", "least"), ("upper", "most"))]
    rules = bounds.where(F.col("name").startswith("added:")).join(totals, ["level", "geocode"])
    asked = rules.groupBy("level", F.col("holder").alias("geocode"), "name", "total").agg(*sums)
    least, most, everybody = F.col("least"), F.col("most"), F.col("name").isin([f"added:{name}" for name in whole])
    return asked.where((least > F.col("total")) | (everybody & (most < F.col("total"))))
