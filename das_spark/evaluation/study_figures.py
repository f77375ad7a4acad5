"""The three figures of the study of the 1940 runs, redrawn as SVG text from any residuals.

Source: Petti and Flaxman, Gates Open Research 2020, figures 1 to 3. What they say of themselves stands in
`das_spark.evaluation.study_captions`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.evaluation.drawing import LINES, MARKERS, PALETTE, as_svg, panels, wide_axes
from das_spark.evaluation.metrics import Frequencies
from das_spark.evaluation.privacy_loss import LossCurve
from das_spark.evaluation.violins import violin, violin_limit

#: More bins than these are joined by twos, threes and so on.
_MOST_BINS: Final = 400
#: Beyond the range of the curves, this much more is shown of the residuals.
_MARGIN: Final = 1.1
#: Part of the room between two indices that violins fill.
_ROOM: Final = 0.84
#: Heights of plots, in rows of text.
_TRADE_OFF_ROWS, _VIOLIN_ROWS = 8, 7


def residuals_and_loss(
    curves: Mapping[str, tuple[Frequencies, LossCurve]], title_counted: str = "counts", counted: str = "people"
) -> str:
    """Figure 1: how often each residual occurs, and the loss curve, a line a label.

    Args:
        curves: Label -> residuals in people, and the curve of these residuals; one at least.
        title_counted: What has a residual, in the plural, such as "strata of counties".
        counted: What is counted in them, in the plural.

    Returns:
        An SVG element.
    """
    figure, (left, right) = panels(2)
    reach = shown_reach(curve for _, curve in curves.values())
    for at, (label, (residuals, curve)) in enumerate(curves.items()):
        colour, line = PALETTE[at % len(PALETTE)], LINES[at % len(LINES)]
        edges, heights = binned(residuals, reach)
        left.stairs(heights, edges, color=colour, linestyle=line, linewidth=1.4, label=label)
        right.plot(curve.x, curve.loss, line, color=colour, linewidth=1.4)
    right.axhline(0, color="grey", linewidth=0.8)
    right.set_ylabel("ln f(x) - ln f(x + 1)")
    width = bin_width(reach)
    left.set_ylabel("number" if width == 1 else f"number in {width} {counted}")
    left.set_ylim(bottom=0)
    left.yaxis.set_major_formatter("{x:,.0f}")
    left.set_title(f"a  Residuals of {title_counted}", fontsize=10, loc="left")
    right.set_title("b  Empirical privacy loss", fontsize=10, loc="left")
    for axes, label in ((left, f"residual ({counted})"), (right, f"x ({counted})")):
        axes.set_xlim(-reach, reach)
        axes.set_xlabel(label)
    figure.legend(*left.get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    return as_svg(figure)


def shown_reach(curves: Iterable[LossCurve]) -> float:
    """How far from 0 the first figure reaches, people: a little beyond the widest curve.

    Args:
        curves: The curves of the figure, one at least.
    """
    return _MARGIN * max(float(np.abs(curve.density_at).max()) + 0.5 for curve in curves)


def bin_width(reach: float) -> int:
    """People that share a bin in the first figure: 1, unless that makes too many bins.

    Args:
        reach: How far from 0 the figure reaches, people.
    """
    return max(1, int(np.ceil(2 * reach / _MOST_BINS)))


def binned(residuals: Frequencies, reach: float) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Residuals in bins of `bin_width`, one of them around 0.

    Args:
        residuals: People.
        reach: How far from 0 bins are needed, people.

    Returns:
        Edges, shape (bins + 1,), people; and how many residuals lie between them, shape (bins,).
    """
    width = bin_width(reach)
    beside = int(np.ceil(reach / width))
    edges = (np.arange(-beside, beside + 2, dtype=np.float64) - 0.5) * width
    places = np.searchsorted(edges, residuals.values, "right") - 1
    inside = (places >= 0) & (places < edges.size - 1)
    heights = np.zeros(edges.size - 1, dtype=np.int64)
    np.add.at(heights, places[inside], residuals.counts[inside])
    return edges, heights


def trade_off(
    release: Sequence[tuple[str, float, float]], samples: Sequence[tuple[str, float, float]], counted: str = "people"
) -> str:
    """Figure 2: error against privacy loss, for a release at several budgets and for simple random samples.

    Args:
        release: Label, empirical privacy loss, median absolute residual; in the order in which they are joined.
        samples: The same of samples.
        counted: What is counted, in the plural.

    Returns:
        An SVG element.
    """
    figure, axes = wide_axes(_TRADE_OFF_ROWS)
    # Names of the samples stand below their curve, those of the release above.
    for points, style, colour, name, beside, side in (
        (release, f"{MARKERS[0]}-", PALETTE[0], "protected release", (5, 5), "left"),
        (samples, f"{MARKERS[1]}--", PALETTE[1], "simple random sample", (-4, -11), "right"),
    ):
        if points:
            labels, losses, errors = zip(*points, strict=True)
            axes.plot(losses, errors, style, color=colour, label=name, markersize=6)
            for label, loss, error in zip(labels, losses, errors, strict=True):
                words = axes.annotate(label, (loss, error), beside, textcoords="offset points", fontsize=8)
                words.set(color=colour, horizontalalignment=side)
    # From 0 on both axes, with room for what is written below the lowest squares.
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=-0.06 * axes.get_ylim()[1])
    axes.set_xlabel("empirical privacy loss")
    axes.set_ylabel(f"median absolute residual ({counted})")
    axes.legend(loc="upper right", frameon=False)
    return as_svg(figure)


def bias_by_index(lines: Mapping[str, Mapping[int, Frequencies]], counted: str = "people") -> str:
    """Figure 3: violins of residuals by homogeneity index with their means, side by side a label.

    Indices that occur stand side by side, and are not spread out as numbers.

    Args:
        lines: Label -> homogeneity index -> residuals, people.
        counted: What is counted, in the plural.

    Returns:
        An SVG element.
    """
    figure, axes = wide_axes(_VIOLIN_ROWS)
    lines = {label: {index: part for index, part in line.items() if part.total} for label, line in lines.items()}
    indices = sorted({index for line in lines.values() for index in line})
    limit = violin_limit(line.values() for line in lines.values())
    slot = _ROOM / max(1, len(lines))
    for at, (label, line) in enumerate(lines.items()):
        colour, marker = PALETTE[at % len(PALETTE)], MARKERS[at % len(MARKERS)]
        first = (at - (len(lines) - 1) / 2) * slot
        violins = [(first + place, violin(line[index], limit)) for place, index in enumerate(indices) if index in line]
        for place, one in violins:
            half = slot / 2 * one.widths
            axes.fill_betweenx(one.heights, place - half, place + half, color=colour, alpha=0.4, linewidth=0)
        places, means = [place for place, _ in violins], [one.mean for _, one in violins]
        axes.plot(places, means, marker, color=colour, markeredgecolor="black", markersize=6, label=label)
    axes.axhline(0, color="grey", linewidth=0.8, zorder=0)
    axes.grid(visible=False, axis="x")
    axes.set_xticks(range(len(indices)), [str(index) for index in indices])
    axes.set(xlabel="homogeneity index", ylabel=f"residual ({counted})", ylim=(-limit, limit))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
    return as_svg(figure)
