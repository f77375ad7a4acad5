"""Intervals of the truth by the noisy measurements alone: of every cell of published tables, and of areas.

from das_spark.features import intervals

intervals.area_intervals("runs/latest", "districts.csv")
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.places import place_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.features.intervals.finished import AreaInterval
    from das_spark.pipeline import TabulationSummary

__all__ = ["area_intervals", "geounit_intervals"]


def geounit_intervals(
    measured: str | Path,
    out: str | Path,
    *,
    level: str | Fraction = "0.9",
    tables: Sequence[str] = (),
    geolevels: Sequence[str] = (),
    plan: RunPlan | None = None,
    spark: SparkSession | None = None,
) -> TabulationSummary:
    """Write what the noisy measurements alone say of every geounit: estimates, standard errors, intervals of the truth.

    Args:
        measured: The folder of a finished run or its public folder, or of published measurements: public files alone.
        out: The folder to make; it must not exist, or be empty.
        level: Probability that an interval covers the truth, exact: a text or a fraction.
        tables: Names of published tables; all of the product where there are none.
        geolevels: All that were measured completely where there are none.
        plan: What measurements of others are (`load_plan` with `files=False`).
        spark: The session; found or started where None.

    Raises:
        DasError: See `das_spark.errors`.
    """
    from das_spark.features.intervals import finished  # noqa: PLC0415 - Spark is imported when it is asked for

    found = finished.open_intervals(place_of(measured), str(level), tables, geolevels, plan)
    return finished.geounit_intervals(found, place_of(out), spark)


def area_intervals(
    measured: str | Path,
    areas: str | Path,
    *,
    level: str | Fraction = "0.9",
    tables: Sequence[str] = (),
    plan: RunPlan | None = None,
    spark: SparkSession | None = None,
) -> list[AreaInterval]:
    """Tell what the noisy measurements alone say of areas such as districts, covariances between their blocks included.

    Every worker must be able to write to the current folder, where files lie meanwhile. What must be told with the
    numbers, such as that a run is insecure, are the notices of `das_spark.features.intervals.finished.open_intervals`.

    Args:
        measured: As for `geounit_intervals`.
        areas: CSV of geocode and area: one row for each block of an area.
        level: As for `geounit_intervals`.
        tables: As for `geounit_intervals`.
        plan: As for `geounit_intervals`.
        spark: The session; found or started where None.

    Returns:
        For each table, area by area, an interval of each column.

    Raises:
        DasError: See `das_spark.errors`.
    """
    from das_spark.features.intervals import finished  # noqa: PLC0415

    found = finished.open_intervals(place_of(measured), str(level), tables, (), plan)
    return list(finished.area_intervals(found, place_of(areas), spark=spark))
