"""Persons linked with released records, geounit by geounit. RESTRICTED: reads confidential histograms.

Nothing of data size reaches the driver: tasks reduce geounits to rows, one for each group of persons and class of
population.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.attack import GROUPS, TALLY, LinkageFindings, LinkedAttributes, Records, area_above, link, linkage_rows
from das_spark.attack.sizes import SIZES
from das_spark.attack.swap import Exchange, Held
from das_spark.geography import ROOT_GEOCODE
from das_spark.spark.census import geocode_at
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.lists import flat_histograms, histograms_of, together

if TYPE_CHECKING:
    from collections.abc import Sequence

    from das_spark.attack import AttackSettings
    from das_spark.spark.finished_runs import FinishedRun, Pair

_AREA: Final = "area"
_TRUE: Final = "true_"
_NAMES: Final = tuple(GROUPS)
_ROWS: Final = f"person_group int, size int, {', '.join(f'{name} double' for name in TALLY)}"


def link_run(
    run: FinishedRun, levels: Sequence[Pair], attributes: LinkedAttributes, settings: AttackSettings
) -> LinkageFindings:
    """Link everybody with the released records of the lowest geolevel. RESTRICTED.

    Args:
        run: The run.
        levels: Both histograms of every geolevel of the census, root first.
        attributes: What the attacker knows and learns.
        settings: Share of the records that the baseline of swapping exchanges, and its seed.
    """
    census, leaf, area = run.census, levels[-1], area_above(run.census.names)
    parent = census.level(census.names[max(0, len(census.names) - 2)])
    true, released = (
        frame.select("geocode", *(F.col(name).alias(f"{prefix}{name}") for name in ("cells", "counts")))
        for frame, prefix in ((leaf.truth, _TRUE), (leaf.estimate, ""))
    )
    leaves = true.join(released, "geocode", "left").withColumn(_AREA, geocode_at(census.level(area)))
    published = next(pair.estimate for pair in levels if pair.geolevel == area)
    around = published.select(F.col("geocode").alias(_AREA), "cells", "counts")
    rows = leaves.unionByName(around, allowMissingColumns=True).repartition(_AREA)
    exchange = Exchange(run.product.schema.size, Held.of(run.product).query, settings.swapped, settings.seed)
    task = _Links(attributes, exchange, parent.length)
    found = in_sorted_tasks(rows, (_AREA, "geocode"), task, _ROWS)
    sums = found.groupBy("person_group", "size").agg(*(F.sum(name).alias(name) for name in TALLY)).collect()
    arrays = {name: np.zeros((len(SIZES), len(TALLY))) for name in GROUPS}
    for row in sums:
        arrays[_NAMES[row["person_group"]]][row["size"]] = [row[name] for name in TALLY]
    every = [row for name, values in arrays.items() for row in linkage_rows(name, values)]
    known, learned, words = attributes.known.name, attributes.learned.name, run.product.schema.words
    return LinkageFindings(
        known, learned, words(known), words(learned), leaf.geolevel, settings.swapped, area, tuple(every)
    )


@dataclass(frozen=True, slots=True, eq=False)
class _Links:
    """From the histograms of an area and of its geounits to sums by group and class of population."""

    attributes: LinkedAttributes
    exchange: Exchange
    parent: int  # length of the geocodes of parents of leaves

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, rows in together(batches, _AREA):
            batch = rows.combine_chunks().to_batches()[0]
            # The row of the area comes first: its geocode of a leaf is null.
            area, leaves = batch.slice(0, 1), batch.slice(1)
            true, released = (Records(*flat_histograms(leaves, prefix)) for prefix in (_TRUE, ""))
            around = Records(*flat_histograms(area))
            sums = link(true, released, self._swapped(leaves), around, self.attributes)
            every = np.stack([sums[name] for name in _NAMES])
            group, size = np.nonzero(every[..., 0])
            columns = {"person_group": group.astype(np.int32), "size": size.astype(np.int32)}
            columns |= dict(zip(TALLY, every[group, size].T, strict=True))
            yield pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in columns.items()})

    def _swapped(self, leaves: pa.RecordBatch) -> Records:
        """Confidential records of leaves, which are sorted, after the exchange among the children of each parent."""
        codes = [code[: self.parent] or ROOT_GEOCODE for code in leaves.column("geocode").to_pylist()]
        histograms = histograms_of(leaves, _TRUE, self.exchange.size)
        after = [
            each
            for parent, places in groupby(range(len(codes)), codes.__getitem__)
            for each in self.exchange.of([histograms[place] for place in places], parent)
        ]
        geounit = np.repeat(np.arange(len(after)), [len(each.cells) for each in after])
        cells, counts = (np.concatenate([getattr(each, of) for each in after]) for of in ("cells", "counts"))
        return Records(geounit, cells.astype(np.int64), counts)
