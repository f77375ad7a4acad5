"""Geounits in which the published counts of several products contradict each other (public tables alone)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.products import PRODUCTS, QUANTITIES, Compared, contradictions_among
from das_spark.spark.engine import in_tasks
from das_spark.spark.lists import flat_histograms
from das_spark.spark.tables import union

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


def count_contradictions(leaves: Mapping[str, DataFrame]) -> tuple[int, dict[str, int]]:
    """Count the geounits in which products contradict each other.

    Args:
        leaves: Product -> published histograms of the lowest geolevel: columns geocode, cells and counts.

    Returns:
        Number of all geounits; and sentence of each contradiction that there can be -> number of those that have it.
        Zero, and none, where the products cannot contradict each other.
    """
    possible = contradictions_among(leaves)
    if not possible:
        return 0, {}
    names = list(dict.fromkeys(name for each in possible for name in (each.one, each.other)))
    counting = (leaf for leaf in leaves if leaf in QUANTITIES)
    frame = union(_quantities(leaves[product], product, names) for product in counting)
    summed = frame.groupBy("geocode").agg(*(F.sum(f"q{place}").alias(f"q{place}") for place in range(len(names))))

    def holds(one: Column, compared: Compared, other: Column) -> Column:
        if compared is Compared.ALONE:
            return (one > 0) & (other == 0)
        return one < other if compared is Compared.FEWER else one != other

    conditions = [
        holds(F.col(f"q{names.index(each.one)}"), each.compared, F.col(f"q{names.index(each.other)}"))
        for each in possible
    ]
    (row,) = summed.agg(F.count("*"), *(F.count_if(condition) for condition in conditions)).collect()
    geounits, *numbers = row
    return geounits, {each.sentence: number for each, number in zip(possible, numbers, strict=True)}


def _quantities(frame: DataFrame, product: str, names: list[str]) -> DataFrame:
    """What a product counts of each quantity in each geounit, zero of those that it does not count."""
    counted, schema = QUANTITIES[product], PRODUCTS[product].schema
    asked = {name: (schema.query(each.query), np.array([*each.weights, 0])) for name, each in counted.items()}
    columns = [f"q{place}" for place in range(len(names))]

    def sums(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            row, cells, counts = flat_histograms(batch)
            arrays = [batch.column("geocode")]
            for name in names:
                found = np.zeros(batch.num_rows, dtype=np.int64)
                if name in asked:
                    query, weights = asked[name]
                    np.add.at(found, row, weights[query.row_of(cells)] * counts)
                arrays.append(pa.array(found))
            yield pa.RecordBatch.from_arrays(arrays, names=["geocode", *columns])

    kept = frame.select("geocode", "cells", "counts")
    return in_tasks(kept, sums, ", ".join(["geocode string", *(f"{column} bigint" for column in columns)]))
