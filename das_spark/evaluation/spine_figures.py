"""Figures of the report on a spine as SVG text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.drawing import PALETTE, as_svg, log_scales, name_rows, panels, wide_axes
from das_spark.evaluation.spine_lines import LevelMove, SpineLevelLine
from das_spark.geography import EntityComparison

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_BEFORE, _AFTER = PALETTE[1], PALETTE[0]

#: More points than these of a category are thinned out in a plot.
MOST_POINTS: Final = 1500


def spoken(category: str) -> str:
    """A category as readers call it.

    Args:
        category: Name of a category of entities.
    """
    return category.replace("_", " ").replace("aian", "AIAN")


def distance_curves(categories: Sequence[EntityComparison]) -> str:
    """Cumulative distribution of off-spine distances, a plot a category.

    Args:
        categories: With one entity at least.

    Returns:
        An SVG element.
    """
    figure, plots = panels(len(categories))
    for axes, entities in zip(plots, categories, strict=True):
        sides = (
            (entities.distance_before, _BEFORE, "--", "census spine"),
            (entities.distance_after, _AFTER, "-", "after"),
        )
        for distances, colour, line, label in sides:
            values, counts = np.unique(distances, return_counts=True)
            reached = np.cumsum(counts) / distances.size
            # The curve begins at the axis, and goes on to where the other ends.
            largest = int(max(entities.distance_before.max(), entities.distance_after.max(), 2))
            steps = np.concatenate([values[:1], values, [largest]]), np.concatenate([[0], reached, [1]])
            axes.plot(*steps, line, drawstyle="steps-post", color=colour, label=label, linewidth=1.8)
        log_scales(axes)
        axes.set_xlim(0.9, largest * 1.15)
        axes.set_ylim(0, 1.04)
        _title(axes, entities)
        axes.set_xlabel("off-spine distance (geounits)")
    plots[0].set_ylabel("share of entities")
    figure.legend(*plots[0].get_legend_handles_labels(), loc="outside upper center", ncols=2, frameon=False)
    return as_svg(figure)


def deviations(categories: Sequence[EntityComparison]) -> str:
    """Standard deviations of totals before and after, a plot a category and a point an entity.

    Args:
        categories: With one entity at least.

    Returns:
        An SVG element.
    """
    figure, plots = panels(len(categories))
    for axes, entities in zip(plots, categories, strict=True):
        before, after = (np.sqrt(column) for column in (entities.variance_before, entities.variance_after))
        shown = thinned(before)
        axes.plot(before[shown], after[shown], "o", color=_AFTER, alpha=0.45, markersize=3.5, markeredgewidth=0)
        known = np.concatenate([before, after])
        known = known[np.isfinite(known)]
        ends = (known.min() / 1.4, known.max() * 1.4) if known.size else (1.0, 10.0)
        axes.plot(ends, ends, color="grey", linewidth=0.8, linestyle="--")
        log_scales(axes, both=True)
        axes.set(xlim=ends, ylim=ends)
        _title(axes, entities)
        axes.set_xlabel("census spine (people)")
        axes.set_ylabel("after (people)")
    return as_svg(figure)


def fan_outs(before: Sequence[SpineLevelLine], after: Sequence[SpineLevelLine]) -> str:
    """Mean and largest fan-outs by level.

    Args:
        before: Levels of the census spine.
        after: Levels of the spine.

    Returns:
        An SVG element.
    """
    names = merged_levels(before, after)[:-1]
    figure, axes = wide_axes(len(names))
    for lines, shift, colour, label in ((before, -0.14, _BEFORE, "census spine"), (after, 0.14, _AFTER, "after")):
        rows = [(names.index(line.name) + shift, line) for line in lines[:-1]]
        places = [place for place, _ in rows]
        means, most = [line.mean_fan_out for _, line in rows], [line.most for _, line in rows]
        axes.hlines(places, means, most, color=colour, linewidth=1, alpha=0.6)
        axes.plot(means, places, "o", color=colour, label=f"{label}: mean")
        axes.plot(most, places, "s", color=colour, label=f"{label}: largest", markerfacecolor="white")
    log_scales(axes)
    name_rows(axes, names)
    axes.set_xlabel("children of a geounit")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return as_svg(figure)


def budget_moves(moves: Sequence[LevelMove]) -> str:
    """Share of the budget by level before and after bypassing.

    Args:
        moves: Root first.

    Returns:
        An SVG element.
    """
    figure, axes = wide_axes(len(moves))
    places = np.arange(len(moves))
    for shift, shares, colour, label in (
        (-0.19, [move.share for move in moves], _BEFORE, "before bypassing"),
        (0.19, [move.after for move in moves], _AFTER, "after, mean over blocks"),
    ):
        axes.barh(places + shift, list(map(float, shares)), height=0.36, color=colour, label=label)
    name_rows(axes, [move.level for move in moves])
    axes.set_xlabel("share of the budget")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return as_svg(figure)


def merged_levels(before: Sequence[SpineLevelLine], after: Sequence[SpineLevelLine]) -> list[str]:
    """Names of the levels of both spines, root first; those of one only stand where the other has its own.

    Args:
        before: Levels of the census spine, root first.
        after: Levels of the spine, root first.
    """
    names = [line.name for line in after]
    for place, line in enumerate(before):
        if line.name not in names:
            names.insert(names.index(before[place - 1].name) + 1 if place else 0, line.name)
    return names


def thinned(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Positions of `MOST_POINTS` values at most, evenly over their order; the smallest and the largest stay.

    Args:
        values: Shape (n,).

    Returns:
        Shape (n,) or (`MOST_POINTS`,), whichever is shorter: in ascending order of the values.
    """
    order = np.argsort(values, kind="stable")
    if values.size <= MOST_POINTS:
        return order
    return order[np.linspace(0, values.size - 1, MOST_POINTS).round().astype(np.int64)]


def _title(axes: Axes, entities: EntityComparison) -> None:
    axes.set_title(f"{spoken(entities.category)} ({entities.names.size:,})", fontsize=10, loc="left")
