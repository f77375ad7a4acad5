"""Reader of a population that nobody lives in: made by :mod:`das_spark.simulation`, in Spark's tasks, from a seed.

Settings (``[input.simulate]``): ``like`` = "quickstart" (the default) or another one of
:data:`das_spark.simulation.LIKES`; ``seed``, a whole number (0 where missing); ``share``, such as "1/100", of all.
Fields are the attributes of the population; of housing units, which a product may count, OCCUPIED: 0 or 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError, without_values
from das_spark.products import CodedField, FileRecodes
from das_spark.simulation import LIKES, Population, PopulationKind, parts_of, share_of
from das_spark.spark.readers._tables import housing_counts
from das_spark.spark.readers.base import IngestedTables, Target

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product


_ROWS = "geocode string, cells array<int>, counts array<bigint>, units array<bigint>, vacant bigint"
_HOUSING = {"OCCUPIED": "0-1"}


@dataclass(frozen=True, slots=True)
class Simulated:
    """Makes a population instead of reading one."""

    name: str = "simulated"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See that there is such a population; see :class:`~das_spark.spark.readers.base.Reader`."""
        like, _, _ = _settings(settings)
        self._target(LIKES[like], product, spine)

    def _target(self, kind: PopulationKind, product: Product, spine: Spine) -> Target:
        """The recodes of a population: those of the product, or none where its schema is that of the population."""
        same_shape = product.record == "person" and product.schema.shape == kind.shape
        own = zip(product.schema.attributes, kind.attributes, strict=same_shape)
        same = FileRecodes({each.name: CodedField.numbered(name, size) for each, (name, size) in own})
        default = same if same_shape else None
        length = spine.leaf.length
        classes = kind.attributes[0][1]
        recoded = product.file_recodes.get(self.name, default)
        if recoded is None or (length, len(product.unit_classes)) != (kind.geocode_length, classes):
            raise ConfigurationError(
                f"a population like {kind.name!r} has cells {kind.shape} and geocodes of {kind.geocode_length} digits; "
                f"product {product.name!r} has {product.schema.shape}, and {spine.leaf.name} {length} digits"
            )
        target = Target(product, spine, recoded)
        allowed = _HOUSING if target.counts_units else {name: f"0-{size - 1}" for name, size in kind.attributes}
        target.require_codes(self.name, allowed, recoded.attributes.values())
        return target

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Make the population; see :class:`~das_spark.spark.readers.base.Reader`."""
        like, seed, share = _settings(settings)
        target = self._target(LIKES[like], product, spine)
        parts = parts_of(like, share)
        numbers = spark.range(len(parts), numPartitions=min(len(parts), 4 * spark.sparkContext.defaultParallelism))
        make = without_values(partial(_make, like=like, seed=seed, share=share, cells=_cells(LIKES[like], target)))
        made = numbers.mapInArrow(make, _ROWS).persist()
        geounits = made.select("geocode", "units", "vacant")
        if target.counts_units:
            counts = housing_counts(geounits, target, "OCCUPIED", occupied=1, vacant=0)
        else:
            counts = _counts(made)
        return IngestedTables(counts, geounits, held=made)


def _cells(kind: PopulationKind, target: Target) -> NDArray[np.int64] | None:
    """The cell of the product that each cell of a population is; None where people are not counted."""
    if target.counts_units:
        return None
    codes = np.unravel_index(np.arange(np.prod(kind.shape)), kind.shape)
    return target.cells({name: code for (name, _), code in zip(kind.attributes, codes, strict=True)})


def _settings(settings: InputSettings) -> tuple[str, int, Fraction]:
    given = settings.population
    if given.like not in LIKES:
        raise ConfigurationError(
            f"input.simulate.like: no population {given.like!r}", hint=f"known: {', '.join(LIKES)}"
        )
    if given.seed < 0:
        raise ConfigurationError("input.simulate.seed: expected a whole number of 0 or more")
    return given.like, given.seed, share_of(given.share, "input.simulate.share")


def _make(
    batches: Iterator[pa.RecordBatch], like: str, seed: int, share: Fraction, cells: NDArray[np.int64] | None
) -> Iterator[pa.RecordBatch]:
    parts = parts_of(like, share)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield _record_batch(LIKES[like].make(parts[number], seed, share), cells)


def _record_batch(population: Population, recoded: NDArray[np.int64] | None) -> pa.RecordBatch:
    sizes = np.bincount(population.geounit, minlength=len(population.geocodes))
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    classes = population.units.shape[1]
    cells = population.cell if recoded is None else recoded[population.cell]
    columns = [
        pa.array(population.geocodes.tolist(), pa.string()),
        pa.ListArray.from_arrays(offsets, pa.array(cells.astype(np.int32))),
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
