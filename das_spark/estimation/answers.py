"""Sums of cells by the rows of a query, and their transpose: all that the certificate knows of queries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]


def sums(x: Floats, rows: Integers, count: int) -> Floats:
    """Sum cells by row.

    Args:
        x: People, shape ``(K, n)``.
        rows: Row of each cell, -1 where none counts it, shape ``(n,)``.
        count: Number of rows.

    Returns:
        Shape ``(K, count)``.
    """
    children = len(x)
    flat = np.arange(children)[:, None] * (count + 1) + np.where(rows < 0, count, rows)
    found = np.bincount(flat.ravel(), x.ravel(), minlength=children * (count + 1))
    return np.asarray(found.reshape(children, count + 1)[:, :count], dtype=np.float64)


def spread(values: Floats, rows: Integers) -> Floats:
    """Give each cell the value of its row, and zero where none counts it: the transpose of `sums`.

    Args:
        values: Shape ``(K, count)``.
        rows: Row of each cell, shape ``(n,)``.

    Returns:
        Shape ``(K, n)``.
    """
    return np.asarray(np.where(rows >= 0, values[:, rows], 0.0), dtype=np.float64)
