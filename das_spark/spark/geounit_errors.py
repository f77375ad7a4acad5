"""Errors of the totals of single geounits, for maps. RESTRICTED: reads confidential histograms."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from das_spark.evaluation import GeounitErrors
from das_spark.spark.engine import in_tasks
from das_spark.spark.lists import flat_histograms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def geounit_errors(geolevel: str, runs: Sequence[tuple[DataFrame, DataFrame]]) -> GeounitErrors:
    """Mean absolute errors of the totals of a geolevel.

    Args:
        geolevel: Its name.
        runs: Confidential and protected histograms of each run: columns geocode, cells and counts. A geounit that is
            missing on a side counts as empty there.
    """
    codes: dict[str, int] = {}
    every = []
    for pair in runs:
        sides = [_totals(side) for side in pair]
        codes |= dict.fromkeys((code for side in sides for code in side), 0)
        every.append(sides)
    geocodes = tuple(sorted(codes))
    truth, error = np.zeros((2, len(geocodes)), dtype=np.int64)
    for confidential, protected in every:
        true, estimate = (_in_order(side, geocodes) for side in (confidential, protected))
        truth, error = true, error + np.abs(estimate - true)
    return GeounitErrors(geolevel, geocodes, truth, error / len(every))


def _totals(histograms: DataFrame) -> dict[str, int]:
    """Geocode -> total."""
    table = in_tasks(histograms.select("geocode", "cells", "counts"), _sums, "geocode string, total long").toArrow()
    return dict(zip(table.column("geocode").to_pylist(), table.column("total").to_pylist(), strict=True))


def _sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        owner, _, counts = flat_histograms(batch)
        totals = np.zeros(batch.num_rows, dtype=np.int64)
        np.add.at(totals, owner, counts)
        yield pa.RecordBatch.from_pydict({"geocode": batch.column("geocode"), "total": pa.array(totals)})


def _in_order(totals: dict[str, int], geocodes: Sequence[str]) -> NDArray[np.int64]:
    return np.array([totals.get(code, 0) for code in geocodes], dtype=np.int64)
