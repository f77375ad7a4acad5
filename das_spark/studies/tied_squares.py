"""Nonnegative least squares with one measured total a group, solved exactly.

    minimise  w (sum_i x_i - t)^2 + sum_i (x_i - y_i)^2   over x >= 0                                              (X-6)

By the conditions of Karush, Kuhn and Tucker x_i = max(0, y_i - s), where s is the one root of

    g(s) = s - w (sum_i max(0, y_i - s) - t),                                                                      (X-7)

which increases and is linear between the measured values. With the k largest of them positive and of sum Y_k,
s = w (Y_k - t) / (1 + w k); the right k is how many values v have g(v) > 0. (w large: the projection on a simplex by
sorting.)
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import InputError

Floats = NDArray[np.float64]


def tied_squares(measured: Floats, totals: Floats, weight: float) -> Floats:
    """The minimisers of (X-6), of many groups at once.

    Args:
        measured: y, shape (groups, cells), people.
        totals: t, shape (groups,), people.
        weight: w, above 0: of the squared miss of a total, where that of a cell weighs 1.

    Returns:
        x, shape (groups, cells), nonnegative, people; exact zeros where the bound holds.

    Raises:
        InputError: Shapes do not fit, or the weight is not positive.
    """
    if measured.ndim != 2 or totals.shape != measured.shape[:1] or weight <= 0:  # noqa: PLR2004 - groups and cells
        raise InputError(
            f"tied squares: {totals.shape} totals for {measured.shape} cells with weight {weight:g}",
            hint="give one total a group, and a weight above 0",
        )
    falling = -np.sort(-measured, axis=1)
    sums = np.cumsum(falling, axis=1)
    # g at the k-th largest value, which is not below k of them; it falls from left to right.
    numbers = np.arange(1, measured.shape[1] + 1)
    slopes = falling - weight * (sums - numbers * falling - totals[:, None])
    positive = (slopes > 0).sum(axis=1)
    last = np.maximum(positive, 1) - 1
    kept = np.where(positive > 0, np.take_along_axis(sums, last[:, None], axis=1)[:, 0], 0.0)
    shift = weight * (kept - totals) / (1 + weight * positive)
    fitted: Floats = np.maximum(measured - shift[:, None], 0.0)
    return fitted


def tied_squares_of(groups: NDArray[np.int64], measured: Floats, totals: Floats, weight: float) -> Floats:
    """The same for groups of different sizes.

    Args:
        groups: Number of the group of each row of `measured`, ascending, from 0, shape (rows,).
        measured: Shape (rows, cells), people.
        totals: One a group, people.
        weight: As in `tied_squares`.

    Returns:
        Like `measured`.
    """
    ends = np.searchsorted(groups, np.arange(len(totals) + 1))
    parts = [
        tied_squares(measured[start:end].reshape(1, -1), totals[[group]], weight).reshape(end - start, -1)
        for group, (start, end) in enumerate(pairwise(ends))
    ]
    return np.concatenate(parts)
