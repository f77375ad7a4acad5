"""Reader of a population that nobody lives in: made by :mod:`das_spark.simulation`, in Spark's tasks, from a seed.

Settings (``[input.simulate]``): ``like`` = "quickstart" (the default) or another one of
:data:`das_spark.simulation.LIKES`; ``seed``, a whole number (0 where missing); ``share``, such as "1/100", of all.
A product of housing units counts those of the population: vacant and occupied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError, without_values
from das_spark.simulation import LIKES, Population, parts_of, share_of
from das_spark.spark.readers._tables import housing_counts
from das_spark.spark.readers.base import IngestedTables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product


_ROWS = "geocode string, cells array<int>, counts array<bigint>, units array<bigint>, vacant bigint"
_HOUSING = (2,)


@dataclass(frozen=True, slots=True)
class Simulated:
    """Makes a population instead of reading one."""

    name: str = "simulated"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See that there is such a population; see :class:`~das_spark.spark.readers.base.Reader`.

        Args:
            settings: Which population, its share and seed.
            product: What the run publishes.
            spine: Its lowest level must have geocodes as long as the population's.

        Raises:
            ConfigurationError: A setting is unknown or impossible, or the population is of another schema or spine.
        """
        like, _, _ = _settings(settings)
        kind = LIKES[like]
        shape = _HOUSING if product.record == "unit" else kind.shape
        classes = kind.attributes[0][1]
        if (shape, kind.geocode_length, classes) != (
            product.schema.shape,
            spine.leaf.length,
            len(product.unit_classes),
        ):
            raise ConfigurationError(
                f"a population like {like!r} has cells {shape} and geocodes of {kind.geocode_length} digits; "
                f"product {product.name!r} has {product.schema.shape}, and {spine.leaf.name} {spine.leaf.length} digits"
            )

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Make the population; see :class:`~das_spark.spark.readers.base.Reader`.

        Args:
            spark: The session.
            settings: Which population, its share and seed.
            product: What the run publishes.
            spine: Its lowest level must have geocodes as long as the population's.

        Raises:
            ConfigurationError: A setting is unknown or impossible, or the population is of another schema or spine.
        """
        self.look(settings, product, spine)
        like, seed, share = _settings(settings)
        of_units = product.record == "unit"
        parts = parts_of(like, share)
        numbers = spark.range(len(parts), numPartitions=min(len(parts), 4 * spark.sparkContext.defaultParallelism))
        made = numbers.mapInArrow(without_values(partial(_make, like=like, seed=seed, share=share)), _ROWS).persist()
        geounits = made.select("geocode", "units", "vacant")
        return IngestedTables(housing_counts(geounits) if of_units else _counts(made), geounits, held=made)


def _settings(settings: InputSettings) -> tuple[str, int, Fraction]:
    given = settings.population
    if given.like not in LIKES:
        raise ConfigurationError(
            f"input.simulate.like: no population {given.like!r}", hint=f"known: {', '.join(LIKES)}"
        )
    if given.seed < 0:
        raise ConfigurationError("input.simulate.seed: expected a whole number of 0 or more")
    return given.like, given.seed, share_of(given.share, "input.simulate.share")


def _make(batches: Iterator[pa.RecordBatch], like: str, seed: int, share: Fraction) -> Iterator[pa.RecordBatch]:
    parts = parts_of(like, share)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield _record_batch(LIKES[like].make(parts[number], seed, share))


def _record_batch(population: Population) -> pa.RecordBatch:
    sizes = np.bincount(population.geounit, minlength=len(population.geocodes))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    classes = population.units.shape[1]
    columns = [
        pa.array(population.geocodes.tolist(), pa.string()),
        pa.ListArray.from_arrays(offsets, pa.array(population.cell.astype(np.int32))),
        pa.ListArray.from_arrays(offsets, pa.array(population.count)),
        pa.ListArray.from_arrays(
            np.arange(0, population.units.size + 1, classes, dtype=np.int32), population.units.ravel()
        ),
        pa.array(population.vacant),
    ]
    return pa.RecordBatch.from_arrays(columns, ["geocode", "cells", "counts", "units", "vacant"])


def _counts(made: DataFrame) -> DataFrame:
    pairs = made.select("geocode", F.explode(F.arrays_zip("cells", "counts")).alias("pair"))
    return pairs.select("geocode", F.col("pair.cells").alias("cell"), F.col("pair.counts").alias("count"))
