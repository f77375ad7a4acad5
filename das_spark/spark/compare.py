"""The Spark side of setting two runs side by side: how often each difference of absolute residuals occurs.

RESTRICTED: reads confidential histograms. Nothing of data size reaches the driver.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.evaluation import TOTAL, ComparedSide, Frequencies, absolute_differences
from das_spark.spark.engine import in_tasks
from das_spark.spark.lists import cut, flat_histograms

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.histogram import Query

_ROWS = "measure string, value long, frequency long"
#: Geounits that are compared at once: bounds the memory of a task.
_GEOUNITS = 1 << 14
_SIDES = ("truth", "first", "second")


def difference_frequencies(
    truth: DataFrame, first: DataFrame, second: DataFrame, strata: Query
) -> dict[str, Frequencies]:
    """Differences of absolute residuals of one geolevel, below zero where the first release is nearer to the truth."""
    frames = dict(zip(_SIDES, (truth, first, second), strict=True))
    sides = [frame.select("geocode", F.struct("cells", "counts").alias(name)) for name, frame in frames.items()]
    joined = sides[0].join(sides[1], "geocode", "full").join(sides[2], "geocode", "full")
    missing = [name for name in _SIDES if joined.where(F.col(name).isNull()).head(1)]
    if missing:
        raise InputError(
            f"the runs are not about the same geounits: some are missing in the {missing[0]}",
            hint="compare runs on the same input and spine",
        )
    columns = [F.col(f"{name}.{of}").alias(f"{name}_{of}") for name in _SIDES for of in ("cells", "counts")]
    rows = in_tasks(joined.select(*columns), _Differences(strata), _ROWS)
    table = rows.groupBy("measure", "value").agg(F.sum("frequency").alias("frequency")).toArrow().sort_by("value")
    measure = np.array(table.column("measure").to_pylist(), dtype=np.str_)
    value, frequency = (table.column(name).to_numpy().astype(np.int64) for name in ("value", "frequency"))
    chosen = {name: measure == name for name in (TOTAL, strata.name)}
    return {name: Frequencies(value[rows], frequency[rows]) for name, rows in chosen.items()}


def same_histograms(one: DataFrame, other: DataFrame) -> bool:
    """Whether two tables of histograms are of the same geounits and equal, count by count."""
    columns = ("geocode", "cells", "counts")
    # As many rows, and none of the first that the second lacks: they are the same rows.
    return one.count() == other.count() and not one.select(*columns).exceptAll(other.select(*columns)).head(1)


@dataclass(frozen=True, slots=True, eq=False)
class _Differences:
    """From three histograms of each geounit to how often each difference occurs in a batch."""

    strata: Query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from map(self._rows, cut(batches, _GEOUNITS))

    def _rows(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        sides = [ComparedSide(*flat_histograms(batch, f"{name}_")) for name in _SIDES]
        found = absolute_differences(self.strata, batch.num_rows, *sides)
        counted = [np.unique(each, return_counts=True) for each in found]
        names = [
            np.repeat(name, len(values)) for name, (values, _) in zip((TOTAL, self.strata.name), counted, strict=True)
        ]
        columns = (np.concatenate(names), *(np.concatenate([each[place] for each in counted]) for place in (0, 1)))
        return pa.RecordBatch.from_pydict(
            {name: pa.array(column) for name, column in zip(("measure", "value", "frequency"), columns, strict=True)}
        )
