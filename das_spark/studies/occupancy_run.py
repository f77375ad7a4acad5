"""Occupancy of the housing units of a finished run, beside the truth. RESTRICTED."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.errors import InputError
from das_spark.pipeline.accuracy import pairs
from das_spark.pipeline.finished import FinishedRun, require_truths
from das_spark.products import PRODUCTS
from das_spark.spark.session import session
from das_spark.studies.occupancy_frames import occupancy_of_level
from das_spark.studies.occupancy_measures import OccupancyReport
from das_spark.studies.occupancy_result import RunOccupancy

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.products import Product

_STATUS: Final = frozenset({"Occupied", "Vacant"})


def occupancy_of_run(folder: Path, truth: Path | None = None, spark: SparkSession | None = None) -> RunOccupancy:
    """Compare occupied housing units of a run with the confidential ones, geolevel by geolevel. RESTRICTED.

    Args:
        folder: Of a finished run of a product that counts occupied and vacant housing units.
        truth: A run whose confidential histograms are taken; the run's own where None.
        spark: The session; found or started where None.

    Raises:
        InputError: The product does not tell occupied from vacant units, their number is not exact in every geounit,
            or there is no housing unit.
        OutputError: There is no run, or its confidential histograms were removed.
    """
    run = FinishedRun.at(folder)
    occupied = _occupied(run)
    exact_at = run.manifest.config["invariants"]["total_at"]
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
    """Cells of occupied housing units; None where a product does not tell them from vacant ones.

    Args:
        product: Counts units, with an attribute that has the levels Occupied and Vacant.
    """
    if product.record != "unit":
        return None
    for attribute in product.schema.attributes:
        if set(attribute.levels) >= _STATUS:
            level = attribute.levels.index("Occupied")
            return np.flatnonzero(product.schema.select(**{attribute.name: (level,)})).tolist()
    return None
