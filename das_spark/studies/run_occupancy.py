"""Occupancy of the housing units of a finished run, beside the truth. RESTRICTED.

Nothing of data size reaches the driver: Spark counts how often each true number of households occurs, which gives the
quintiles, and then how often each difference occurs in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.errors import InputError
from das_spark.evaluation import Frequencies
from das_spark.pipeline.accuracy import pairs
from das_spark.products import PRODUCTS
from das_spark.spark.finished_runs import FinishedRun, require_truths
from das_spark.spark.session import session
from das_spark.studies.occupancy import LevelOccupancy, Occupancy, OccupancyReport
from das_spark.studies.occupancy_report import RunOccupancy
from das_spark.studies.quintiles import FIFTHS, Quintile, fivefold_thresholds

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.products import Product

_STATUS: Final = frozenset({"Occupied", "Vacant"})

#: Records in all cells of a histogram, and in some.
_TOTAL: Final = "aggregate(counts, 0L, (total, count) -> total + count)"
_PART: Final = (
    "aggregate(zip_with(cells, counts, (cell, count) -> if(array_contains(array({cells}), cell), count, 0L)), 0L, "
    "(total, count) -> total + count)"
)
#: The numbers of `Occupancy` by difference; they are sums over geounits.
_BY_DIFFERENCE: Final = """
SELECT fifth, released - truth AS difference, count(1) AS geounits,
    sum(int(truth = units)) AS full_in_truth, sum(int(released = units)) AS full_in_release,
    sum(int(released = units AND truth < units)) AS filled, sum(int(released > units)) AS overfull,
    sum(units) AS units, sum(truth) AS true_households, sum(released) AS released_households,
    min(truth) AS least, max(truth) AS most
FROM {households} GROUP BY fifth, released - truth
"""


def occupancy_of_run(folder: Path, truth: Path | None = None, spark: SparkSession | None = None) -> RunOccupancy:
    """Compare occupied housing units of a run with the confidential ones, geolevel by geolevel. RESTRICTED."""
    run = FinishedRun.at(folder)
    occupied = _occupied(run)
    exact_at = run.plan.invariants.total_at
    if exact_at != run.census.leaf.name:
        raise InputError(
            f"{folder}: the number of housing units is not exact in every {run.census.leaf.name}",
            hint=f'occupancy rests on it: make the run with invariants.total_at = "{run.census.leaf.name}"',
        )
    require_truths([run], truth)
    started = spark or session("das_spark occupancy")
    levels = tuple(
        occupancy_of_level(each.geolevel, each.truth, each.estimate, occupied) for each in pairs(started, run, truth)
    )
    name = run.manifest.run_id
    return RunOccupancy(run.product.name, name, OccupancyReport(name, run.product.title, levels))


def _occupied(run: FinishedRun) -> list[int]:
    """Cells of occupied housing units in the schema of the run's product."""
    cells = occupied_cells(run.product)
    if cells is None:
        able = [name for name, product in PRODUCTS.items() if occupied_cells(product) is not None]
        raise InputError(
            f"{run.folder}: a run of {run.product.name}, which does not count occupied and vacant housing units",
            hint=f"name a run of {' or '.join(able)}",
        )
    return cells


def occupied_cells(product: Product) -> list[int] | None:
    """Cells of occupied housing units; None where a product does not tell them from vacant ones."""
    if product.record != "unit":
        return None
    for attribute in product.schema.attributes:
        if set(attribute.levels) >= _STATUS:
            level = attribute.levels.index("Occupied")
            return np.flatnonzero(product.schema.select(**{attribute.name: (level,)})).tolist()
    return None


def occupancy_of_level(geolevel: str, truth: DataFrame, estimate: DataFrame, occupied: Sequence[int]) -> LevelOccupancy:
    """Compare the geounits of a geolevel in which the number of housing units is exact."""
    households = geounits(truth, estimate, occupied)
    counted = households.groupBy("truth").count().toArrow().sort_by("truth")
    if not counted.num_rows:
        raise InputError(f"{geolevel}: no geounit has a housing unit")
    values, counts = _integers(counted, "truth", "count")
    # The fifth of a geounit, in integers: as many thresholds as its count exceeds.
    fifth = " + ".join(f"int(truth * {FIFTHS} > {each})" for each in fivefold_thresholds(Frequencies(values, counts)))
    divided = households.selectExpr("*", f"{fifth} AS fifth")
    found = truth.sparkSession.sql(_BY_DIFFERENCE, households=divided).toArrow().sort_by("difference")
    numbers = found.column("fifth").to_numpy()
    parts = [found.filter(numbers == place) for place in range(FIFTHS)]
    return LevelOccupancy(
        geolevel,
        tuple(_quintile(place + 1, part) for place, part in enumerate(parts)),
        tuple(Occupancy(*(int(each.sum()) for each in _integers(part, *Occupancy.__slots__))) for part in parts),
    )


def geounits(truth: DataFrame, estimate: DataFrame, occupied: Sequence[int]) -> DataFrame:
    """Housing units and households of every geounit that has a housing unit: columns units, truth, released, long."""
    part = _PART.format(cells=", ".join(map(str, occupied)))
    true = truth.selectExpr("geocode", f"{_TOTAL} AS units", f"{part} AS truth").where("units > 0")
    released = estimate.selectExpr("geocode", f"{part} AS released")
    return true.join(released, "geocode", "left").selectExpr("units", "truth", "coalesce(released, 0L) AS released")


def _quintile(number: int, part: pa.Table) -> Quintile:
    """One fifth, from how often each difference occurs in it."""
    values, counts, least, most = _integers(part, "difference", "geounits", "least", "most")
    ends = (int(least.min()), int(most.max())) if len(values) else (0, 0)
    return Quintile(number, *ends, Frequencies(values, counts))


def _integers(table: pa.Table, *names: str) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return [table.column(name).to_numpy().astype(np.int64) for name in names]
