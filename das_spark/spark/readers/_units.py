"""Units: made of records and blocks that were counted, or from the people where no counts of units are published."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError
from das_spark.spark.problems import GEOCODE
from das_spark.spark.readers.base import Target, level_in_cell

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.products import Product


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


def with_empty_geounits(units: DataFrame, geography: DataFrame, classes: int) -> DataFrame:
    """Add the geounits of a geography table that have no unit."""
    none = F.array(*[F.lit(0).cast("long")] * classes)
    joined = geography.select(GEOCODE).join(units, GEOCODE, "left")
    return joined.select(GEOCODE, F.coalesce(UNITS, none).alias(UNITS), zero_if_null(F.col(VACANT)).alias(VACANT))


def housing_counts(geounits: DataFrame, target: Target, field: str, *, occupied: int, vacant: int) -> DataFrame:
    """Housing units as what is counted: those of the first class, occupied, and the vacant ones."""
    codes = target.cells({field: np.array([vacant, occupied])}).tolist()
    numbers = (F.col(VACANT), F.get(UNITS, F.lit(0)))
    cells = [F.struct(F.lit(cell).alias("cell"), n.alias("count")) for cell, n in zip(codes, numbers, strict=True)]
    pairs = geounits.select(GEOCODE, F.explode(F.array(*cells)).alias("pair"))
    return pairs.select(GEOCODE, F.col("pair.cell").cast("int").alias("cell"), "pair.count").where("count > 0")


def units_from_people(counts: DataFrame, geounits: DataFrame, product: Product) -> DataFrame:
    """Make the units of a run of which no counts are published, by the fixed rule that `plan` and statement state.

    One housing unit for each 2.5 persons in households, rounded up, and one facility of a class of group quarters
    where it has people, or as many of either as can hold them; no unit is vacant.
    """
    if not product.class_query:
        raise ConfigurationError(
            f"input.units_from_people: product {product.name!r} counts the units themselves", hint="leave it out"
        )
    level = level_in_cell(product.schema, product.class_query)
    people = [
        F.sum(F.when(level == each, F.col("count")).otherwise(F.lit(0).cast("long")))
        for each in range(len(product.unit_classes))
    ]
    # Whole numbers throughout: a quotient of doubles would be one off where there are very many people.
    households = _quotient_up(people[0] * _PEOPLE_OF_UNITS[1], _PEOPLE_OF_UNITS[0])
    units = [households, *[F.when(number > 0, F.lit(1)).otherwise(F.lit(0)) for number in people[1:]]]
    if product.unit_bounds is not None:
        most = product.unit_bounds.most
        units = [F.greatest(unit, _quotient_up(each, of)) for unit, each, of in zip(units, people, most, strict=True)]
    made = counts.groupBy(GEOCODE).agg(F.array(*[unit.cast("long") for unit in units]).alias(UNITS))
    none = F.lit(0).cast("long")
    return with_empty_geounits(made.withColumn(VACANT, none), geounits, len(product.unit_classes))


def _quotient_up(number: Column, by: int) -> Column:
    """A whole number of 0 or more divided by another one, rounded up."""
    return F.call_function("div", number + F.lit(by - 1), F.lit(by))
