"""Columns of lists."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column


def list_total(column: str | Column) -> Column:
    """Sum of a list of longs.

    Args:
        column: A column of lists, or its name.

    Returns:
        A column of longs: 0 for an empty list, null for none.
    """
    return F.aggregate(column, F.lit(0).cast("bigint"), lambda total, value: total + value)
