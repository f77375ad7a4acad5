"""Units: made of records and blocks that were counted, or from the people where no counts of units are published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError
from das_spark.io.input_fields import GEOCODE
from das_spark.spark.readers.base import Target, strides_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.constraints import UnitBounds
    from das_spark.products import Product

    Whole = NDArray[np.int64]


UNITS: Final = "units"
VACANT: Final = "vacant"

_PEOPLE_OF_UNITS: Final = (5, 2)
"""Persons and housing units where no counts of units are published: five in two, so one for each 2.5."""


def zero_if_null(column: Column) -> Column:
    """A count (long), 0 where there is none."""
    return F.coalesce(column, F.lit(0).cast("long"))


def further_kinds(target: Target) -> tuple[int, int, int]:
    """Kinds of records behind the classes of units: vacant units, persons without a unit, repeated units."""
    return target.classes, target.classes + 1, target.classes + 2


def units_by_kind(counted: DataFrame, target: Target) -> DataFrame:
    """The geounits of counted records (geocode, kind, count) with their units: by class, and vacant."""
    numbers = [zero_if_null(F.sum(F.when(F.col("kind") == each, F.col("count")))) for each in range(target.classes + 1)]
    return counted.groupBy(target.geocode()).agg(F.array(*numbers[:-1]).alias(UNITS), numbers[-1].alias(VACANT))


#: Rows of blocks with the list of their occupied cells.
BLOCK_ROWS: Final = "geocode string, cells array<int>, counts array<bigint>, units array<bigint>, vacant bigint"


def block_batch(
    geocodes: pa.Array, sizes: NDArray[np.int64], cells: NDArray[np.int64], counts: NDArray[np.int64],
    units: NDArray[np.int64], vacant: NDArray[np.int64], **more: pa.Array
) -> pa.RecordBatch:  # fmt: skip
    """Rows of `BLOCK_ROWS`, and of more columns: each block has the next `sizes` of the cells."""
    ends = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    blocks, classes = units.shape
    columns = {
        GEOCODE: geocodes,
        "cells": pa.ListArray.from_arrays(ends, pa.array(cells.astype(np.int32))),
        "counts": pa.ListArray.from_arrays(ends, pa.array(counts.astype(np.int64))),
        UNITS: pa.ListArray.from_arrays(np.arange(blocks + 1, dtype=np.int32) * classes, units.ravel()),
        VACANT: pa.array(vacant),
    }
    return pa.RecordBatch.from_pydict({**columns, **more})


def counts_of_blocks(blocks: DataFrame, target: Target) -> DataFrame:
    """The counts of rows of `BLOCK_ROWS`, which may repeat."""
    pairs = blocks.select(GEOCODE, F.explode(F.arrays_zip("cells", "counts")).alias("pair"))
    return pairs.select(target.geocode(), F.col("pair.cells").alias("cell"), F.col("pair.counts").alias("count"))


def housing_counts(geounits: DataFrame, target: Target, field: str, *, occupied: int, vacant: int) -> DataFrame:
    """Housing units as what is counted: those of the first class, occupied, and the vacant ones."""
    codes = target.cells({field: np.array([vacant, occupied])}).tolist()
    numbers = (F.col(VACANT), F.get(UNITS, F.lit(0)))
    cells = [F.struct(F.lit(cell).alias("cell"), n.alias("count")) for cell, n in zip(codes, numbers, strict=True)]
    pairs = geounits.select(GEOCODE, F.explode(F.array(*cells)).alias("pair"))
    return pairs.select(GEOCODE, F.col("pair.cell").cast("int").alias("cell"), "pair.count").where("count > 0")


@dataclass(frozen=True, slots=True)
class MadeUnits:
    """Units that are made of the people, where no counts of them are published.

    One housing unit for each 2.5 persons in households, rounded up, and one facility of a class of group quarters where
    it has people, or as many of either as can hold them; no unit is vacant.

    Attributes:
        stride: What a class adds to the number of a cell.
        bounds: Least and most people of a unit; None where units bound nothing.
    """

    stride: int
    bounds: UnitBounds | None

    def of(self, geounit: Whole, cell: Whole, count: Whole, shape: tuple[int, int]) -> Whole:
        """Return units by geounit and class.

        Args:
            geounit: Place of the geounit of what is counted, shape ``(rows,)``.
            cell: Its cell.
            count: How many there are.
            shape: Geounits and classes.
        """
        people = np.zeros(shape, dtype=np.int64)
        np.add.at(people, (geounit, cell // self.stride % shape[1]), count)
        units = (people > 0).astype(np.int64)
        by, of = _PEOPLE_OF_UNITS
        units[:, 0] = people[:, 0] // by * of + -(-(people[:, 0] % by * of) // by)
        if self.bounds is not None:
            most = np.array(self.bounds.most)
            bound = slice(0, len(most))
            needed = people[:, bound] // most + (people[:, bound] % most > 0)
            units[:, bound] = np.maximum(units[:, bound], needed)
        return units


def made_units(product: Product) -> MadeUnits:
    """Say how the units of a product are made of the people.

    Raises:
        ConfigurationError: It counts the units themselves.
    """
    if not product.class_query:
        raise ConfigurationError(
            f"input.units_from_people: product {product.name!r} counts the units themselves", hint="leave it out"
        )
    return MadeUnits(strides_of(product.schema)[product.class_query], product.unit_bounds)
