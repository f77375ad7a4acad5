"""Outlines of violins, computed from how often each residual occurs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.kernel_density import kernel_density, standard_deviation
from das_spark.evaluation.metrics import Frequencies, pooled, quantiles

#: Violins are cut where this share of the residuals of a line lies beyond, at either end half of it.
CUT: Final = 0.025
#: Kernel deviation, people, at least: a narrower one shows the teeth of whole numbers.
NARROWEST: Final = 0.5
_POINTS: Final = 200
_FEWEST: Final = 2


@dataclass(frozen=True, slots=True, eq=False)
class Violin:
    """A density standing upright, and the mean.

    Attributes:
        heights: Shape (k,), people: where the density is read; empty where all residuals are equal.
        widths: Shape (k,): the density as a part of its largest value.
        mean: Of all residuals, also of those that are cut off; people.
    """

    heights: NDArray[np.float64]
    widths: NDArray[np.float64]
    mean: float


def violin(residuals: Frequencies, limit: float) -> Violin:
    """The violin of residuals: a Gaussian kernel density with Scott's bandwidth, `NARROWEST` at least.

    Args:
        residuals: One at least, people.
        limit: Where it is cut, on both sides of 0, people.
    """
    values, counts = residuals.values, residuals.counts
    low, high = max(-limit, float(values[0])), min(limit, float(values[-1]))
    if values.size < _FEWEST or low >= high:
        return Violin(np.zeros(0), np.zeros(0), mean(residuals))
    # Scott, Multivariate Density Estimation: n^(-1/5) standard deviations in one dimension.
    kernel = max(NARROWEST, residuals.total**-0.2 * standard_deviation(values, counts))
    heights = np.linspace(low, high, _POINTS)
    density = kernel_density(values, counts, kernel, heights)
    largest = density.max()
    return Violin(heights, density / largest if largest > 0 else density, mean(residuals))


def violin_limit(lines: Iterable[Iterable[Frequencies]]) -> float:
    """Where violins are cut: so far from 0 that all means and most residuals of every line are seen; people.

    Args:
        lines: Residuals of each line, in parts with one residual at least.
    """
    found = [0.0]
    for parts in map(list, lines):
        found += [1.1 * abs(mean(part)) for part in parts]
        if parts:
            found += map(abs, quantiles(pooled(parts), (CUT / 2, 1 - CUT / 2)))
    return max(found) or 1.0


def mean(residuals: Frequencies) -> float:
    """Mean residual, people: the bias.

    Args:
        residuals: One at least, people.
    """
    return float(residuals.values @ residuals.counts / residuals.total)
