"""Gaussian kernel densities of residuals, computed from how often each occurs: nothing is expanded to data size."""

from __future__ import annotations

from math import pi, sqrt
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.metrics import Residuals

#: Kernel deviations beyond which the kernel is exactly 0 in double precision: exp(-39^2 / 2) < 2^-1075.
_REACH: Final = 39.0
#: Numbers of a block: it stays in the cache of a core.
_BLOCK: Final = 2**17


def standard_deviation(values: Residuals, counts: NDArray[np.int64]) -> float:
    """Sample standard deviation, divisor n - 1.

    Args:
        values: Shape (m,), distinct residuals, people.
        counts: Shape (m,): how often; two in all at least.
    """
    total = counts.sum()
    centred = values - (values @ counts) / total
    return sqrt(float(centred**2 @ counts / (total - 1)))


def kernel_density(
    values: Residuals, counts: NDArray[np.int64], kernel_deviation: float, at: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The density sum_i counts_i phi((t - values_i) / h) / (n h) at points t, h the kernel deviation.

    The same as `scipy.stats.gaussian_kde` on the expanded residuals, where its factor is h / standard deviation.

    Args:
        values: Shape (m,), distinct residuals, ascending, people.
        counts: Shape (m,): how often.
        kernel_deviation: Standard deviation of the kernel, people; positive.
        at: Shape (k,), ascending points, people.

    Returns:
        Shape (k,), per person. Far from every residual it is 0 or has lost digits: below
        `numpy.finfo(float).tiny` nothing should be read off it.
    """
    weights = counts / (counts.sum() * kernel_deviation * sqrt(2 * pi))
    density = np.empty(at.size)
    rows = max(1, _BLOCK // max(1, values.size))
    for first in range(0, at.size, rows):
        points = at[first : first + rows]
        ends = points[0] - _REACH * kernel_deviation, points[-1] + _REACH * kernel_deviation
        near = slice(*np.searchsorted(values, ends))
        distances = (points[:, None] - values[None, near]) / kernel_deviation
        density[first : first + rows] = np.exp(-0.5 * distances**2) @ weights[near]
    return density
