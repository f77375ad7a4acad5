"""Persons linked with released records, geounit by geounit. RESTRICTED: reads confidential histograms.

Nothing of data size reaches the driver: tasks reduce geounits to rows, one for each group of persons and class of
population.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.attack import GROUPS, SIZES, TALLY, LinkageFindings, Records, Target, area_above, link, linkage_rows
from das_spark.geography import ROOT_GEOCODE
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.lists import flat_histograms, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column

    from das_spark.geography import Spine
    from das_spark.spark.finished_runs import Pair

_AREA: Final = "area"
_TRUE: Final = "true_"
_NAMES: Final = tuple(GROUPS)
_ROWS: Final = f"person_group int, size int, {', '.join(f'{name} double' for name in TALLY)}"


def link_run(levels: Sequence[Pair], census: Spine, target: Target) -> LinkageFindings:
    """Link everybody with the released records of the lowest geolevel. RESTRICTED.

    Args:
        levels: Both histograms of every geolevel of the census, root first.
        census: The geolevels.
        target: What the attacker knows and learns.
    """
    leaf, area = levels[-1], area_above(census.names)
    true, released = (
        frame.select("geocode", *(F.col(name).alias(f"{prefix}{name}") for name in ("cells", "counts")))
        for frame, prefix in ((leaf.truth, _TRUE), (leaf.estimate, ""))
    )
    leaves = true.join(released, "geocode", "left").withColumn(_AREA, _above(census.level(area).length))
    published = next(pair.estimate for pair in levels if pair.geolevel == area)
    around = published.select(F.col("geocode").alias(_AREA), "cells", "counts")
    rows = leaves.unionByName(around, allowMissingColumns=True).repartition(_AREA)
    found = in_sorted_tasks(rows, (_AREA, "geocode"), _Links(target), _ROWS)
    sums = found.groupBy("person_group", "size").agg(*(F.sum(name).alias(name) for name in TALLY)).collect()
    arrays = {name: np.zeros((len(SIZES) + 1, len(TALLY))) for name in GROUPS}
    for row in sums:
        arrays[_NAMES[row["person_group"]]][row["size"]] = [row[name] for name in TALLY]
    every = [row for name, values in arrays.items() for row in linkage_rows(name, values)]
    return LinkageFindings(target.known.name, target.learned.name, leaf.geolevel, area, tuple(every))


def _above(length: int) -> Column:
    """The geocode of the area that holds a geounit."""
    return F.substring("geocode", 1, length) if length else F.lit(ROOT_GEOCODE)


@dataclass(frozen=True, slots=True, eq=False)
class _Links:
    """From the histograms of an area and of its geounits to sums by group and class of population."""

    target: Target

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, rows in together(batches, _AREA):
            batch = rows.combine_chunks().to_batches()[0]
            # The row of the area comes first: its geocode of a leaf is null.
            area, leaves = batch.slice(0, 1), batch.slice(1)
            true, released = (Records(*flat_histograms(leaves, prefix)) for prefix in (_TRUE, ""))
            sums = link(true, released, Records(*flat_histograms(area)), self.target)
            every = np.stack([sums[name] for name in _NAMES])
            group, size = np.nonzero(every[..., 0])
            columns = {"person_group": group.astype(np.int32), "size": size.astype(np.int32)}
            columns |= dict(zip(TALLY, every[group, size].T, strict=True))
            yield pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in columns.items()})
