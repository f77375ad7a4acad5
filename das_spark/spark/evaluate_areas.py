"""Errors of areas off the spine, such as precincts: their counts are sums of leaf geounits.

RESTRICTED: reads confidential histograms. Nothing of data size reaches the driver: tasks reduce geounits to sums by
area and stratum, and those to how often each residual occurs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.evaluation import TOTAL, Entry, Frequencies
from das_spark.geography import ENTITY_CODES
from das_spark.io.area_files import open_areas
from das_spark.places import Place
from das_spark.spark.engine import in_tasks
from das_spark.spark.input_rows import table_rows
from das_spark.spark.lists import cut, flat_histograms

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.geography import Spine
    from das_spark.histogram import Query

_SUMS = "area string, row long, truth long, estimate long"
#: Geounits whose strata are held as dense arrays at once, times strata: bounds the memory of a task.
_DENSE = 1 << 22


@dataclass(frozen=True, slots=True)
class Areas:
    """Areas off the spine, such as precincts."""

    name: str  # what they are called in the report
    frame: DataFrame  # columns geocode (leaf, unique) and area (string); leaf geounits that are not in it count nowhere


def areas_of_file(spark: SparkSession, path: Place, spine: Spine) -> Areas:
    """Leaf geocodes and areas of a CSV (its first two columns); 15-digit blocks are widened where leaves have 16."""
    table = open_areas(path)
    table.require_whole()
    rows = table_rows(spark, table.narrowed(table.names[:2]))
    code, area = (F.col(f"`{name}`").cast("string") for name in table.names[:2])
    short = spine.leaf.length - 1
    # A 16-digit geocode repeats the block group, which is the first digit of the block, before the block.
    wide = F.concat(F.substring(code, 1, short - 4), F.substring(code, short - 3, 1), F.substring(code, short - 3, 4))
    geocode = F.when(F.length(code) == short, wide).otherwise(code)
    return Areas(
        path.stem,
        rows.select(geocode.alias("geocode"), area.alias("area")),
    )


def entity_areas(blocks: DataFrame) -> tuple[Areas, ...]:
    """Off-spine entities as areas, one a category that has any: tribal areas, places, school districts, ..."""
    found = []
    counted = blocks.agg(
        *[F.count(F.when(F.col(code.column) != code.none, 1)).alias(name) for name, code in ENTITY_CODES.items()]
    ).collect()[0]
    for name, code in ENTITY_CODES.items():
        if counted[name]:
            area = F.concat(F.substring("geocode", 1, code.within), F.col(code.column)).alias("area")
            found.append(Areas(name, blocks.where(F.col(code.column) != code.none).select("geocode", area)))
    return tuple(found)


def area_entries(joined: DataFrame, areas: Areas, strata: Query) -> tuple[list[Entry], str]:
    """The lines of areas."""
    note = _check_areas(joined, areas)
    inside = joined.join(areas.frame.select("geocode", "area"), "geocode")
    sums = in_tasks(inside, _AreaSums(strata), _SUMS).groupBy("area", "row")
    cells = sums.agg(F.sum("truth").alias("truth"), F.sum("estimate").alias("estimate"))
    both_zero = (F.col("truth") == 0) & (F.col("estimate") == 0)
    is_total = F.col("row") == -1
    found = cells.where(is_total | ~both_zero).select(
        is_total.alias("is_total"), (F.col("estimate") - F.col("truth")).alias("residual"), both_zero.alias("both_zero")
    )
    total, stratified = _frequencies(found)
    # Strata that are zero in every leaf of an area are never listed: count them from the number of areas.
    absent = total.total * strata.rows - stratified.total
    stratified = Frequencies(stratified.values, stratified.counts, absent)
    return [Entry(areas.name, TOTAL, total), Entry(areas.name, strata.name, stratified)], note


@dataclass(frozen=True, slots=True, eq=False)
class _AreaSums:
    """From joined histograms with an area to sums by area and stratum of a batch; row -1 is the total."""

    strata: Query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        step = max(1, _DENSE // self.strata.rows)
        yield from map(self._sums, cut(batches, step))

    def _sums(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        encoded = batch.column("area").dictionary_encode()
        area, names = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
        totals, strata = _both(batch, self.strata)
        each = np.concatenate([totals[:, :, np.newaxis], strata], axis=2)
        sums = np.zeros((2, len(names), each.shape[2]), dtype=np.int64)
        for side in (0, 1):
            np.add.at(sums[side], area, each[side])
        kept = (sums[0] != 0) | (sums[1] != 0)
        kept[:, 0] = True
        rows, columns = np.nonzero(kept)
        return pa.RecordBatch.from_pydict(
            {
                "area": names.take(pa.array(rows)),
                "row": pa.array(columns - 1),
                "truth": pa.array(sums[0][rows, columns]),
                "estimate": pa.array(sums[1][rows, columns]),
            }
        )


def _both(batch: pa.RecordBatch, strata: Query) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Totals, shape (2, K), and strata, shape (2, K, rows), of confidential (0) and protected (1) histograms."""
    rows = batch.num_rows
    totals = np.zeros((2, rows), dtype=np.int64)
    answers = np.zeros((2, rows * strata.rows), dtype=np.int64)
    for side, prefix in enumerate(("true_", "")):
        owner, cells, counts = flat_histograms(batch, prefix)
        np.add.at(totals[side], owner, counts)
        stratum = strata.row_of(cells)
        counted = stratum >= 0
        np.add.at(answers[side], owner[counted] * strata.rows + stratum[counted], counts[counted])
    return totals, answers.reshape(2, rows, strata.rows)


def _frequencies(found: DataFrame) -> tuple[Frequencies, Frequencies]:
    """How often each residual occurs: of totals, and of strata."""
    summed = found.groupBy("is_total", "residual").agg(
        F.count("*").alias("frequency"), F.sum(F.col("both_zero").cast("long")).alias("double_zero")
    )
    table = summed.toArrow().sort_by("residual")  # distinct residuals
    is_total = np.array(table.column("is_total").to_pylist(), dtype=np.bool_)
    residual, frequency, double_zero = (
        table.column(name).to_numpy().astype(np.int64) for name in ("residual", "frequency", "double_zero")
    )
    total, strata = (
        Frequencies(residual[chosen], frequency[chosen], int(double_zero[chosen].sum()))
        for chosen in (is_total, ~is_total)
    )
    return total, strata


def _check_areas(joined: DataFrame, areas: Areas) -> str:
    """Refuse leaf geounits in two areas; say how many lie in none."""
    twice = areas.frame.groupBy("geocode").count().where("count > 1").orderBy("geocode").head(1)
    if twice:
        raise InputError(f"areas {areas.name}: geocode {twice[0]['geocode']} lies in two areas")
    outside = joined.join(areas.frame, "geocode", "left_anti").count()
    return f"{areas.name}: {outside} leaf geounits lie in no area and count nowhere"
