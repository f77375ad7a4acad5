"""The Spark side of the accuracy report: how often each residual occurs, level by level and by area.

RESTRICTED: reads confidential histograms. Nothing of data size reaches the driver: tasks reduce geounits to (measure,
residual, how often) rows, of which there are at most a few thousand.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.evaluation.metrics import Frequencies, frequencies_of, union_residuals
from das_spark.evaluation.report import TOTAL, AccuracyReport, Entry
from das_spark.spark.families import flat_lists

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from das_spark.histogram import Query

_FOUND = "measure string, residual long, frequency long, double_zero long"
_SUMS = "area string, row long, truth long, estimate long"
#: Geounits whose strata are held as dense arrays at once, times strata: bounds the memory of a task.
_DENSE = 1 << 22


@dataclass(frozen=True, slots=True)
class Areas:
    """Areas off the spine, such as precincts.

    Attributes:
        name: What they are called in the report.
        frame: Columns geocode (leaf, unique) and area (string); leaf geounits that are not in it count nowhere.
    """

    name: str
    frame: DataFrame


def evaluate_levels(
    levels: Iterable[tuple[str, DataFrame, DataFrame]],
    strata: Query,
    *,
    product: str,
    run: str,
    areas: Areas | None = None,
) -> AccuracyReport:
    """Compare estimates with confidential histograms.

    Args:
        levels: Of each level its name, confidential histograms, and estimates; the leaf last.
        strata: The query of stratified counts.
        product: Name of the product.
        run: Name of the run.
        areas: Areas to evaluate besides.

    Returns:
        The report: total and stratified counts of each level, then of the areas.

    Raises:
        InputError: A leaf geounit lies in two areas.
    """
    entries: list[Entry] = []
    notes: list[str] = []
    joined: DataFrame | None = None
    for name, truth, estimate in levels:
        joined = _joined(truth, estimate)
        found = joined.mapInArrow(_LevelResiduals(strata), _FOUND)
        entries += _entries(name, strata, found)
    if areas is not None and joined is not None:
        notes.append(_check_areas(joined, areas))
        entries += _area_entries(joined, areas, strata)
    return AccuracyReport(product, (run,), tuple(entries), tuple(notes))


def _joined(truth: DataFrame, estimate: DataFrame) -> DataFrame:
    """Both histograms of every geounit; one that is missing on a side counts as empty there (verify finds it)."""
    true = truth.select("geocode", F.col("cells").alias("true_cells"), F.col("counts").alias("true_counts"))
    return true.join(estimate.select("geocode", "cells", "counts"), "geocode", "full")


@dataclass(frozen=True, slots=True, eq=False)
class _LevelResiduals:
    """From joined histograms to residual frequencies of a batch."""

    strata: Query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in _bounded(batches, self.strata):
            totals, strata = _both(part, self.strata)
            yield _found(TOTAL, frequencies_of(totals[1] - totals[0], int((totals == 0).all(axis=0).sum())))
            yield _found(self.strata.name, union_residuals(strata[0], strata[1]))


@dataclass(frozen=True, slots=True, eq=False)
class _AreaSums:
    """From joined histograms with an area to sums by area and stratum of a batch; row -1 is the total."""

    strata: Query

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for part in _bounded(batches, self.strata):
            yield self._sums(part)

    def _sums(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        encoded = batch.column("area").dictionary_encode()
        area, names = encoded.indices.to_numpy(zero_copy_only=False), encoded.dictionary
        totals, strata = _both(batch, self.strata)
        each = np.concatenate([totals[:, :, np.newaxis], strata], axis=2)
        sums = np.zeros((2, len(names), each.shape[2]), dtype=np.int64)
        for side in (0, 1):
            np.add.at(sums[side], area, each[side])
        kept = sums.any(axis=0)
        kept = np.asarray(kept)
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


def _bounded(batches: Iterator[pa.RecordBatch], strata: Query) -> Iterator[pa.RecordBatch]:
    """The batches in slices whose dense strata fit the memory of a task."""
    step = max(1, _DENSE // strata.rows)
    for batch in batches:
        for begin in range(0, batch.num_rows, step):
            yield batch.slice(begin, step)


def _both(batch: pa.RecordBatch, strata: Query) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Totals, shape (2, K), and strata, shape (2, K, rows), of confidential (0) and protected (1) histograms."""
    rows = batch.num_rows
    totals = np.zeros((2, rows), dtype=np.int64)
    answers = np.zeros((2, rows * strata.rows), dtype=np.int64)
    for side, prefix in enumerate(("true_", "")):
        cells, offsets = flat_lists(batch.column(f"{prefix}cells"), np.int64)
        counts, _ = flat_lists(batch.column(f"{prefix}counts"), np.int64)
        owner = np.repeat(np.arange(rows), np.diff(offsets))
        np.add.at(totals[side], owner, counts)
        stratum = strata.row_of(cells)
        counted = stratum >= 0
        np.add.at(answers[side], owner[counted] * strata.rows + stratum[counted], counts[counted])
    return totals, answers.reshape(2, rows, strata.rows)


def _found(measure: str, frequencies: Frequencies) -> pa.RecordBatch:
    """Frequencies as rows; the first row, of frequency 0 when there is none, carries the count of double zeros."""
    values, counts = frequencies.values, frequencies.counts
    if not len(values):
        values, counts = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
    zeros = np.zeros(len(values), dtype=np.int64)
    zeros[0] = frequencies.double_zero
    columns = {"residual": pa.array(values), "frequency": pa.array(counts), "double_zero": pa.array(zeros)}
    return pa.RecordBatch.from_pydict({"measure": pa.array([measure] * len(values)), **columns})


def _entries(place: str, strata: Query, found: DataFrame) -> list[Entry]:
    """Sum the frequencies and make the lines of a place."""
    summed = found.groupBy("measure", "residual").agg(
        F.sum("frequency").alias("frequency"), F.sum("double_zero").alias("double_zero")
    )
    table = summed.toArrow().sort_by([("measure", "ascending"), ("residual", "ascending")])  # distinct residuals
    measure = np.array(table.column("measure").to_pylist(), dtype=object)
    columns = [table.column(name).to_numpy().astype(np.int64) for name in ("residual", "frequency", "double_zero")]
    entries = []
    for name in (TOTAL, strata.name):
        residual, frequency, double_zero = (column[measure == name] for column in columns)
        some = frequency > 0
        frequencies = Frequencies(residual[some], frequency[some], int(double_zero.sum()))
        entries.append(Entry(place, name, frequencies))
    return entries


def _check_areas(joined: DataFrame, areas: Areas) -> str:
    """Refuse leaf geounits in two areas; say how many lie in none."""
    twice = areas.frame.groupBy("geocode").count().where("count > 1").orderBy("geocode").head(1)
    if twice:
        raise InputError(f"areas {areas.name}: geocode {twice[0]['geocode']} lies in two areas")
    outside = joined.join(areas.frame, "geocode", "left_anti").count()
    return f"{areas.name}: {outside} leaf geounits lie in no area and count nowhere"


def _area_entries(joined: DataFrame, areas: Areas, strata: Query) -> list[Entry]:
    inside = joined.join(F.broadcast(areas.frame.select("geocode", "area")), "geocode")
    sums = inside.mapInArrow(_AreaSums(strata), _SUMS).groupBy("area", "row")
    cells = sums.agg(F.sum("truth").alias("truth"), F.sum("estimate").alias("estimate"))
    both_zero = (F.col("truth") == 0) & (F.col("estimate") == 0)
    is_total = F.col("row") == -1
    found = cells.where(is_total | ~both_zero).select(
        F.when(is_total, TOTAL).otherwise(strata.name).alias("measure"),
        (F.col("estimate") - F.col("truth")).alias("residual"),
        F.lit(1).cast("long").alias("frequency"),
        (is_total & both_zero).cast("long").alias("double_zero"),
    )
    total, stratified = _entries(areas.name, strata, found)
    # Strata that are zero in every leaf of an area are never listed: count them from the number of areas.
    absent = total.frequencies.total * strata.rows - stratified.frequencies.total
    kept = stratified.frequencies
    return [total, Entry(areas.name, strata.name, Frequencies(kept.values, kept.counts, absent))]
