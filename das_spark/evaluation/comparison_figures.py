"""The figure of a comparison as SVG text."""

from __future__ import annotations

from collections.abc import Sequence

from das_spark.evaluation.drawing import PALETTE, as_svg, name_rows, wide_axes
from das_spark.evaluation.run_comparison import ComparedLine


def differences(lines: Sequence[ComparedLine], counted: str = "people") -> str:
    """Differences with their intervals, a row a place and measure.

    Args:
        lines: Those with an interval are drawn.
        counted: What is counted, in the plural.

    Returns:
        An SVG element.
    """
    figure, axes = wide_axes(len(lines))
    for row, line in enumerate(lines):
        if line.interval is not None and line.difference is not None:
            colour = PALETTE[0] if line.interval.high < 0 or line.interval.low > 0 else "grey"
            axes.hlines(row, line.interval.low, line.interval.high, color=colour, linewidth=3)
            axes.plot([line.difference], [row], "o", color=colour, markersize=7)
    axes.axvline(0, color="black", linewidth=0.8)
    name_rows(axes, [f"{line.place}: {line.measure}" for line in lines])
    axes.set_xlabel(f"first minus second ({counted})")
    return as_svg(figure)
