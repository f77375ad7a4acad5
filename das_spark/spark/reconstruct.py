"""Records of geounits of the lowest geolevel, reconstructed from their published tables. RESTRICTED.

Reads confidential histograms. Nothing of data size reaches the driver: the geocodes of the sample, the protected
histogram of the top geolevel, and some hundred numbers of each geounit of the sample.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F

from das_spark.attack.agreement import Nearness
from das_spark.attack.linkage import area_above
from das_spark.attack.reconstruction import PublishedColumns
from das_spark.attack.reconstruction_report import Reconstructed, ReconstructionFindings, findings_of
from das_spark.attack.reconstruction_tally import ReconstructionTally, Target, tally_geounit
from das_spark.attack.sample import allocation
from das_spark.attack.sizes import SIZES
from das_spark.attack.swap import Exchange, Held
from das_spark.errors import InputError
from das_spark.geography import ROOT_GEOCODE, Geolevel
from das_spark.histogram import Histogram
from das_spark.spark.census import geocode_at
from das_spark.spark.engine import cores, in_sorted_tasks, in_tasks
from das_spark.spark.lists import flat_lists, histograms_of, list_total, together

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column, DataFrame

    from das_spark.attack.settings import AttackSettings
    from das_spark.spark.finished_runs import FinishedRun, Pair
    from das_spark.tabulation import Table

#: Columns of the geounits that one of the lowest geolevel lies in.
_PARENT: Final = "parent"
_NEAR: Final = "near"
_FEWEST_LEVELS: Final = 2
_TASKS_A_CORE: Final = 4
_HISTOGRAM: Final = "cells array<int>, counts array<bigint>"
_SWAPPED: Final = f"geocode string, {_NEAR} string, {_HISTOGRAM}"
_TALLIES: Final = "geocode string, tally array<bigint>"


def reconstruct(run: FinishedRun, pairs: Sequence[Pair], settings: AttackSettings) -> ReconstructionFindings:
    """Reconstruct a sample of the geounits of the lowest geolevel, and compare with the truth.

    The area near by, from which guesses are made, is the geounit two geolevels above, as the tract is above a block;
    the parent where the run has two geolevels only. The sample is stratified by the true number of records.

    Args:
        run: The run.
        pairs: Its histograms and the true ones of every geolevel, root first.
        settings: How many geounits, and the share of records that the swapped baseline exchanges.

    Returns:
        Rates of agreement with standard errors, beside those of guesses.

    Raises:
        InputError: The run has one geolevel; it publishes no table at its lowest one; or nobody lives there.
    """
    if len(pairs) < _FEWEST_LEVELS:
        raise InputError(
            f"{run.folder} has one geolevel: guesses of its records are made from what is published above them",
            hint="attack a run of two geolevels or more",
        )
    product, leaf = run.product, pairs[-1]
    names = run.census.names
    parent, near = (run.census.level(name) for name in (names[-2], area_above(names)))
    if not (tables := tables_of_leaves(run)):
        raise InputError(
            f"{run.folder}: product {product.name} publishes no table of sums at {leaf.geolevel}",
            hint="records are reconstructed from tables; attack a run of a product that has some there",
        )
    geounits = _geounits_by_size(leaf.truth)
    if not geounits.any():
        raise InputError(f"{run.folder} has no {product.counted}: there is nothing to reconstruct")
    taken = allocation(geounits, settings.blocks)
    geocodes = _sampled(leaf.truth, taken, settings.seed)
    held, nearness = Held.of(product), Nearness.of(product.schema)
    exchange = Exchange(product.schema.size, held.query, settings.swapped, settings.seed)
    swap = _SwapTask(frozenset(geocodes), exchange)
    exchanged = _exchanged(leaf.truth, geocodes, parent, near, swap)
    near_pair = next(pair for pair in pairs if pair.geolevel == near.name)
    columns = PublishedColumns.of(tables, product.zero_cells())
    task = _TallyTask(columns, nearness, _whole(pairs[0].estimate, product.schema.size))
    targets = _targets(exchanged, leaf, near_pair).repartition(_TASKS_A_CORE * cores(leaf.truth.sparkSession))
    rows = in_tasks(targets, task, _TALLIES).collect()  # one row a geounit of the sample
    tallies = [ReconstructionTally.of_flat(row["tally"]) for row in sorted(rows, key=lambda row: str(row["geocode"]))]
    about = Reconstructed(
        run=run.manifest.run_id,
        product=product.name,
        counted=product.counted,
        geolevel=leaf.geolevel,
        near=near.name,
        whole=pairs[0].geolevel,
        tables=tuple(table.name for table in tables),
        columns=len(columns.matrix.names),
        within=nearness.words,
        held=held.words,
        swapped=settings.swapped,
        seed=settings.seed,
        geounits=tuple(geounits.tolist()),
        taken=tuple(taken.tolist()),
    )
    return findings_of(tallies, about)


def tables_of_leaves(run: FinishedRun) -> tuple[Table, ...]:
    """The tables of sums that are published of the lowest geolevel of a run; some products have none."""
    census = run.census
    return tuple(table for table in run.product.tables_on(run.spine) if census.leaf.name in table.levels(census))


def _size(people: Column) -> Column:
    """The place of the class of a geounit by its number of records."""
    reached = [F.when(people >= least, 1).otherwise(0) for least in SIZES[1:]]
    return sum(reached, F.lit(0))


def _by_size(truth: DataFrame) -> DataFrame:
    """Geounits with somebody in them, and the class of each."""
    people = truth.select("geocode", list_total("counts").alias("people")).where(F.col("people") > 0)
    return people.select("geocode", _size(F.col("people")).alias("size"))


def _geounits_by_size(truth: DataFrame) -> NDArray[np.int64]:
    """How many geounits each class has."""
    found = np.zeros(len(SIZES), dtype=np.int64)
    for row in _by_size(truth).groupBy("size").agg(F.count(F.lit(1)).alias("geounits")).collect():
        found[row["size"]] = row["geounits"]
    return found


def _sampled(truth: DataFrame, taken: NDArray[np.int64], seed: int) -> list[str]:
    """A simple random sample of each class: those whose hashes with the seed come first, for any partitions."""
    mixed = F.sha2(F.concat_ws("|", F.lit(str(seed)), "geocode"), 256)
    order = Window.partitionBy("size").orderBy("mixed", "geocode")
    ranked = _by_size(truth).withColumn("mixed", mixed).withColumn("rank", F.row_number().over(order))
    number = sum(
        (F.when(F.col("size") == size, F.lit(some)).otherwise(0) for size, some in enumerate(taken.tolist())), F.lit(0)
    )
    return sorted(row["geocode"] for row in ranked.where(F.col("rank") <= number).select("geocode").collect())


def _exchanged(
    truth: DataFrame, geocodes: Collection[str], parent: Geolevel, near: Geolevel, swap: _SwapTask
) -> DataFrame:
    """The geounits of the sample after records were exchanged among all children of their parents."""
    parents = sorted({code[: parent.length] or ROOT_GEOCODE for code in geocodes})
    of_sample = F.broadcast(truth.sparkSession.createDataFrame([(code,) for code in parents], f"{_PARENT} string"))
    children = truth.select(
        geocode_at(parent).alias(_PARENT), geocode_at(near).alias(_NEAR), "geocode", "cells", "counts"
    )
    families = children.join(of_sample, _PARENT).repartition(F.col(_PARENT))
    return in_sorted_tasks(families, (_PARENT, "geocode"), swap, _SWAPPED)


def _targets(exchanged: DataFrame, leaf: Pair, near: Pair) -> DataFrame:
    """The geounits of the sample with all that `Target` holds."""
    return (
        _named(exchanged, "swapped", _NEAR)
        .join(_named(leaf.truth, "truth"), "geocode")
        .join(_named(leaf.estimate, "protected"), "geocode")
        .join(_named(near.truth, "near_truth").withColumnRenamed("geocode", _NEAR), _NEAR)
        .join(_named(near.estimate, "near").withColumnRenamed("geocode", _NEAR), _NEAR)
    )


def _named(histograms: DataFrame, name: str, *more: str) -> DataFrame:
    """Histograms whose columns begin with a name."""
    return histograms.select("geocode", *more, *(F.col(each).alias(f"{name}_{each}") for each in ("cells", "counts")))


def _whole(top: DataFrame, size: int) -> Histogram:
    """The histogram of all geounits of the top geolevel together; mostly it is one."""
    rows = top.select("cells", "counts").toArrow()
    cells, _ = flat_lists(rows.column("cells"), np.int64)
    counts, _ = flat_lists(rows.column("counts"), np.int64)
    return Histogram.from_pairs(size, cells, counts)


@dataclass(frozen=True, slots=True, eq=False)
class _SwapTask:
    """From the children of whole parents, sorted, to those of the sample after the exchange."""

    geocodes: frozenset[str]  # of the sample
    exchange: Exchange

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for parent, rows in together(batches, _PARENT):
            after = self.exchange.of(histograms_of(rows, "", self.exchange.size), parent)
            codes, near = (rows.column(name).to_pylist() for name in ("geocode", _NEAR))
            chosen = [at for at, code in enumerate(codes) if code in self.geocodes]
            yield pa.RecordBatch.from_pydict(
                {
                    "geocode": [codes[at] for at in chosen],
                    _NEAR: [near[at] for at in chosen],
                    "cells": pa.array([after[at].cells for at in chosen], pa.list_(pa.int32())),
                    "counts": pa.array([after[at].counts for at in chosen], pa.list_(pa.int64())),
                }
            )


@dataclass(frozen=True, slots=True, eq=False)
class _TallyTask:
    """From geounits of the sample to what is counted of each."""

    columns: PublishedColumns
    nearness: Nearness
    whole: Histogram

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        names = ("truth", "protected", "swapped", "near_truth", "near")
        for batch in batches:
            geounits = zip(*(histograms_of(batch, f"{name}_", self.whole.size) for name in names), strict=True)
            tallies = [
                tally_geounit(Target(*geounit), self.whole, self.columns, self.nearness).flat() for geounit in geounits
            ]
            yield pa.RecordBatch.from_pydict(
                {"geocode": batch.column("geocode"), "tally": pa.array(tallies, pa.list_(pa.int64()))}
            )
