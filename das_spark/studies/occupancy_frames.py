"""Occupancy of the geounits of a run: how many are full, and by how much the number of households is off, by quintile.

RESTRICTED: reads confidential histograms. Nothing of data size reaches the driver: Spark counts how often each true
number of households occurs, which gives the quintiles, and then how often each difference occurs in each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.evaluation.metrics import Frequencies
from das_spark.evaluation.quintiles import FIFTHS, Quintile, QuintileThresholds, quintile_thresholds
from das_spark.spark.lists import list_total
from das_spark.studies.occupancy_measures import LevelOccupancy, Occupancy

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

#: The numbers of `Occupancy` that are sums over geounits, and how each is told of one of them.
_SUMS = {
    "geounits": "1",
    "full_in_truth": "int(truth = units)",
    "full_in_release": "int(released = units)",
    "filled": "int(released = units and truth < units)",
    "overfull": "int(released > units)",
    "units": "units",
    "true_households": "truth",
    "released_households": "released",
}


def occupancy_of_level(geolevel: str, truth: DataFrame, estimate: DataFrame, occupied: Sequence[int]) -> LevelOccupancy:
    """Compare the geounits of a geolevel in which the number of housing units is exact.

    Args:
        geolevel: Its name.
        truth: Confidential histograms of housing units: columns geocode, cells, counts.
        estimate: Protected ones, the same columns; a geounit that is missing counts as empty.
        occupied: Cells of occupied housing units.

    Raises:
        InputError: No geounit has a housing unit.
    """
    households = geounits(truth, estimate, occupied)
    counted = households.groupBy("truth").count().toArrow().sort_by("truth")
    if not counted.num_rows:
        raise InputError(f"{geolevel}: no geounit has a housing unit")
    sizes, frequencies = _integers(counted, "truth", "count")
    thresholds = quintile_thresholds(Frequencies(sizes, frequencies))
    sums = [F.sum(F.expr(text)).alias(name) for name, text in _SUMS.items()]
    ends = [F.min("truth").alias("least"), F.max("truth").alias("most")]
    by_difference = households.groupBy(_fifth(thresholds), (F.col("released") - F.col("truth")).alias("difference"))
    found = by_difference.agg(*sums, *ends).toArrow().sort_by("difference")
    fifth = found.column("fifth").to_numpy()
    parts = [found.filter(fifth == place) for place in range(FIFTHS)]
    return LevelOccupancy(
        geolevel,
        tuple(_quintile(place + 1, part) for place, part in enumerate(parts)),
        tuple(Occupancy(*(int(each.sum()) for each in _integers(part, *_SUMS))) for part in parts),
    )


def geounits(truth: DataFrame, estimate: DataFrame, occupied: Sequence[int]) -> DataFrame:
    """Housing units and households of every geounit that has a housing unit.

    Args:
        truth: As for `occupancy_of_level`.
        estimate: Likewise.
        occupied: Likewise.

    Returns:
        Columns units, truth and released, long.
    """
    true = truth.select("geocode", _total().alias("units"), _total(occupied).alias("truth"))
    released = estimate.select("geocode", _total(occupied).alias("released"))
    joined = true.where("units > 0").join(released, "geocode", "left")
    return joined.select("units", "truth", F.coalesce("released", F.lit(0).cast("long")).alias("released"))


def _total(cells: Sequence[int] | None = None) -> Column:
    """Sum of the counts of a histogram: of all cells, or of some."""
    if cells is None:
        return list_total("counts")
    chosen = F.array(*map(F.lit, cells))
    kept = F.zip_with("cells", "counts", lambda cell, count: F.when(F.array_contains(chosen, cell), count).otherwise(0))
    return list_total(kept)


def _fifth(thresholds: QuintileThresholds) -> Column:
    """The fifth of a geounit, in integers: as many thresholds as its count exceeds."""
    exceeded = [(F.col("truth") * FIFTHS > each).cast("int") for each in thresholds.fivefold]
    first, *others = exceeded
    return sum(others, start=first).alias("fifth")


def _quintile(number: int, part: pa.Table) -> Quintile:
    """One fifth, from how often each difference occurs in it."""
    values, counts, least, most = _integers(part, "difference", "geounits", "least", "most")
    ends = (int(least.min()), int(most.max())) if len(values) else (0, 0)
    return Quintile(number, *ends, Frequencies(values, counts))


def _integers(table: pa.Table, *names: str) -> list[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    return [table.column(name).to_numpy().astype(np.int64) for name in names]
