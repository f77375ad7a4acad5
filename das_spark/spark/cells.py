"""Cells of histograms in Spark SQL: their levels are their digits in the mixed radix of the schema."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column


def level_of(cell: Column, shape: Sequence[int], axis: int) -> Column:
    """The level of an attribute that a cell has."""
    return F.call_function("div", cell, F.lit(prod(shape[axis + 1 :]))) % shape[axis]
