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
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.errors import ConfigurationError
from das_spark.io.input_fields import GEOCODE
from das_spark.products import CodedField, FileRecodes
from das_spark.simulation import LIKES, PopulationKind, parts_of, share_of
from das_spark.spark.engine import cores, in_tasks
from das_spark.spark.readers._passes import LeafPass
from das_spark.spark.readers._resolved import COUNT, INPUT_ROWS, Kind, counts_of, geounits_of, input_rows
from das_spark.spark.readers._told import TOLD
from das_spark.spark.readers.base import IngestedTables, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product


_HOUSING = {"OCCUPIED": "0-1"}


@dataclass(frozen=True, slots=True)
class Simulated:
    """Makes a population instead of reading one."""

    name: str = "simulated"
    reads_tables: bool = False

    def files(self, settings: InputSettings) -> dict[str, bool]:
        """None; see :class:`~das_spark.spark.readers.base.Reader`."""
        return {}

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See that there is such a population; see :class:`~das_spark.spark.readers.base.Reader`."""
        self._target(LIKES[_settings(settings)[0]], product, spine)

    def _target(self, kind: PopulationKind, product: Product, spine: Spine) -> Target:
        """The recodes of a population: those of the product, or none where its schema is that of the population."""
        same_shape = product.record == "person" and product.schema.shape == kind.shape
        own = zip(product.schema.attributes, kind.attributes, strict=same_shape)
        same = FileRecodes({each.name: CodedField.numbered(name, size) for each, (name, size) in own})
        default = same if same_shape else None
        recoded = product.file_recodes.get(self.name, default)
        lengths = (spine.leaf.length, len(product.unit_classes))
        if recoded is None or lengths != (kind.geocode_length, kind.attributes[0][1]):
            raise ConfigurationError(
                f"a population like {kind.name!r} has cells {kind.shape} and geocodes of {kind.geocode_length} digits; "
                f"product {product.name!r} has {product.schema.shape}, and {spine.leaf.name} {lengths[0]} digits"
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
        numbers = spark.range(len(parts), numPartitions=min(len(parts), 4 * cores(spark)))
        make = partial(
            _make, like=like, seed=seed, share=share, cells=_cells(LIKES[like], target), units=target.counts_units
        )
        leaves = LeafPass(target.classes, (Kind.GEOGRAPHY,), {}, {}, {}, frozenset(), units=True, made=None)
        held = leaves.of(in_tasks(numbers, make, from_arrow_schema(INPUT_ROWS))).persist()
        return IngestedTables(held.where(f"{TOLD} is null").drop(TOLD), held=held)


def _cells(kind: PopulationKind, target: Target) -> NDArray[np.int64]:
    """The cell of the product that each cell of a population is; of units, that of occupied and of vacant ones."""
    if target.counts_units:
        return target.cells({"OCCUPIED": np.array([1, 0])})
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
    batches: Iterator[pa.RecordBatch], like: str, seed: int, share: Fraction, cells: NDArray[np.int64], *, units: bool
) -> Iterator[pa.RecordBatch]:
    parts = parts_of(like, share)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            made = LIKES[like].make(parts[number], seed, share)
            geocodes = pa.array(made.geocodes.tolist(), pa.string())
            yield from geounits_of(geocodes, made.units, made.vacant)
            if units:
                homes = np.stack([made.units[:, 0], made.vacant], axis=1)
                yield counts_of(Kind.COUNTED, geocodes, homes, cells)
            else:
                people = {GEOCODE: geocodes.take(pa.array(made.geounit)), "cell": cells[made.cell], COUNT: made.count}
                yield input_rows(Kind.COUNTED, people, len(made.cell))
