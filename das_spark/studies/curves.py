"""The two figures that the studies draw of every release: how often each residual occurs, and its loss curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from das_spark.evaluation.drawing import LINES, PALETTE, as_svg, panels
from das_spark.studies.residual_loss import ResidualLoss

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, slots=True, eq=False)
class DrawnLoss:
    """One release in a figure.

    Attributes:
        label: In the legend.
        found: Its residuals and loss.
    """

    label: str
    found: ResidualLoss


def residuals_and_curves(
    releases: Sequence[DrawnLoss], levels: Sequence[float], counted: str, reach: float, width: int = 1
) -> str:
    """Histogram of residuals beside the loss curves.

    Args:
        releases: One at least, drawn in this order.
        levels: Losses at which dashed lines are drawn, on both sides of zero.
        counted: What has a residual, in the plural.
        reach: Residuals are drawn up to it on both sides, people.
        width: Of a bin of the histogram, people.

    Returns:
        An SVG element.
    """
    figure, (left, right) = panels(2)
    # The middles of bins are multiples of their width, so that whole residuals fall inside.
    beside = int(np.ceil(reach / width))
    edges = (np.arange(-beside, beside + 2) - 0.5) * width
    for place, release in enumerate(releases):
        colour, line, found = PALETTE[place % len(PALETTE)], LINES[place % len(LINES)], release.found
        heights, _ = np.histogram(found.values, edges, weights=found.counts)
        left.stairs(heights, edges, color=colour, linestyle=line, linewidth=1.4, label=release.label)
        if found.curve is not None:
            right.plot(found.curve.x, found.curve.loss, line, color=colour, linewidth=1.4)
    _mark(right, levels)
    number = f"{counted} in bins of {width} people" if width > 1 else f"number of {counted}"
    left.set(xlim=(-reach, reach), xlabel="residual (people)", ylabel=number)
    left.set_ylim(bottom=0)
    right.set(xlim=(-reach, reach), xlabel="x (people)", ylabel="EPL(x)")
    if len(releases) > 1:
        figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return as_svg(figure)


def _mark(axes: Axes, levels: Sequence[float]) -> None:
    axes.axhline(0, color="grey", linewidth=0.8)
    for level in levels:
        for side in (-level, level):
            axes.axhline(side, color="grey", linewidth=0.8, linestyle="--")
