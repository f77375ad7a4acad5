"""Cells of histograms in Spark SQL: their levels are their digits in the mixed radix of the schema.

Nothing here is as long as the schema has cells: what counts a cell follows from its number and the query alone.
"""

from __future__ import annotations

from itertools import groupby
from math import prod
from operator import and_
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from das_spark.spark.balanced import balanced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from das_spark.histogram import Query, Schema
    from das_spark.tabulation import Selection


def exploded_cells(estimates: DataFrame, *more: str) -> DataFrame:
    """One row a geounit and occupied cell: level, geocode, further columns, cell (long), count (long)."""
    pairs = estimates.select("level", "geocode", *more, F.explode(F.arrays_zip("cells", "counts")).alias("pair"))
    cell, count = F.col("pair.cells").cast("long").alias("cell"), F.col("pair.counts").alias("count")
    return pairs.select("level", "geocode", *more, cell, count)


def level_of(cell: Column, shape: Sequence[int], axis: int) -> Column:
    """The level of an attribute that a cell has."""
    return _digits(cell, shape, axis, axis)


def selected(cell: Column, selection: Selection, schema: Schema) -> Column:
    """Whether a cell has levels that a selection names."""
    axes = [(schema.axis(name), levels) for name, levels in selection]
    return balanced(and_, [F.lit(True), *(level_of(cell, schema.shape, axis).isin(*levels) for axis, levels in axes)])


def answer_of(query: Query, cell: Column) -> Column:
    """The answer (int) of a query that counts a cell; null where none does, or where there is no such cell."""
    answer, rows = F.lit(0), query.rows
    # Neighboring attributes that are kept level by level are one number.
    for kept, run in groupby(range(len(query.shape)), lambda axis: _is_kept(query.factors[axis])):
        axes = list(run)
        for first, last in [(axes[0], axes[-1])] if kept else zip(axes, axes, strict=True):
            groups = query.factors[first]
            rows //= prod(int(query.factors[axis].max()) + 1 for axis in range(first, last + 1))
            digits = _digits(cell, query.shape, first, last)
            if kept:
                answer += digits * rows
            elif groups.any():
                known = F.array(*[F.lit(None if group < 0 else group) for group in groups.tolist()])
                answer += F.get(known, digits.cast("int")) * rows
    return F.when((cell >= 0) & (cell < query.size), answer.cast("int"))


def _is_kept(groups: np.ndarray) -> bool:
    return np.array_equal(groups, np.arange(len(groups)))


def _digits(cell: Column, shape: Sequence[int], first: int, last: int) -> Column:
    """The levels of neighboring attributes, as one number."""
    return F.call_function("div", cell, F.lit(prod(shape[last + 1 :]))) % prod(shape[first : last + 1])
