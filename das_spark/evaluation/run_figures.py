"""Figures of the page of a run as SVG text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from das_spark.evaluation.drawing import PALETTE, as_svg, name_rows, wide_axes


def stage_times(stages: Sequence[tuple[str, float]]) -> str:
    """A bar a stage, the first on top.

    Args:
        stages: Name and wall time in seconds; one at least.

    Returns:
        An SVG element.
    """
    figure, axes = wide_axes(len(stages))
    seconds = [time for _, time in stages]
    bars = axes.barh(range(len(stages)), seconds, color=PALETTE[0], height=0.7)
    axes.bar_label(bars, [f"{time:,.1f} s" for time in seconds], padding=3)
    name_rows(axes, [name for name, _ in stages])
    axes.set_xlim(0, max([*seconds, 0.1]) * 1.15)
    axes.set_xlabel("seconds")
    return as_svg(figure)


def level_times(levels: Sequence[tuple[str, float, float]]) -> str:
    """Two bars a level, the top of the spine on top: measuring and estimating.

    Args:
        levels: Name, seconds of measuring, seconds of estimating; one at least.

    Returns:
        An SVG element.
    """
    figure, axes = wide_axes(1.6 * len(levels))
    places = np.arange(len(levels))
    for shift, colour, label, times in (
        (-0.19, PALETTE[1], "measure", [each[1] for each in levels]),
        (0.19, PALETTE[0], "estimate", [each[2] for each in levels]),
    ):
        bars = axes.barh(places + shift, times, height=0.36, color=colour, label=label)
        axes.bar_label(bars, [f"{time:,.1f} s" for time in times], padding=3)
    longest = max(max(each[1:]) for each in levels)
    axes.set_xlim(0, max(longest, 0.1) * 1.15)
    name_rows(axes, [each[0] for each in levels])
    axes.set_xlabel("seconds")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return as_svg(figure)
