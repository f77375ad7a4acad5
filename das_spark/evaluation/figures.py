"""Figures of the accuracy report as SVG text; colours that colour-blind readers can tell apart (Okabe and Ito)."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from das_spark.evaluation.report import TOTAL, Entry, Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Blue, vermilion, bluish green, orange.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00")
_MARKERS = ("o", "s", "^")


def error_sizes(entries: Sequence[Entry]) -> str:
    """Median, mean and 95th percentile of absolute residuals, one row a place and measure.

    Args:
        entries: Lines of a report.

    Returns:
        An SVG element.
    """
    figure, axes = _axes(len(entries))
    names = (("median_absolute", "median"), ("mean_absolute", "mean"), ("p95_absolute", "95th percentile"))
    for marker, colour, (name, label) in zip(_MARKERS, PALETTE, names, strict=False):
        sizes = [getattr(entry.figures, name) for entry in entries]
        axes.plot(sizes, range(len(entries)), marker, color=colour, label=label, markersize=7)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(left=-0.2)
    _label(axes, entries)
    axes.set_xlabel("people (absolute residual; the scale is linear up to 1)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.18 if len(entries) > 4 else 1.3), ncols=3, frameon=False)  # noqa: PLR2004
    return _svg(figure)


def signed_errors(entries: Sequence[Entry]) -> str:
    """Signed residuals: middle half as a bar, 5th to 95th percentile as a line, median as a tick, mean as a dot.

    Args:
        entries: Lines of a report.

    Returns:
        An SVG element.
    """
    figure, axes = _axes(len(entries))
    for row, entry in enumerate(entries):
        shown = entry.figures
        low, first, median, third, high = (shown.quantiles[place] for place in (2, 3, 4, 5, 6))
        colour = PALETTE[0] if entry.measure == TOTAL else PALETTE[1]
        axes.hlines(row, low, high, color=colour, linewidth=1.5)
        axes.barh(row, third - first, left=first, height=0.5, color=colour, alpha=0.35)
        axes.vlines(median, row - 0.25, row + 0.25, color=colour, linewidth=2)
        axes.plot([shown.bias], [row], "o", color="black", markersize=4)
    axes.axvline(0, color="grey", linewidth=0.8)
    axes.set_xscale("symlog", linthresh=1)
    _label(axes, entries)
    axes.set_xlabel("people (protected minus confidential; the scale is linear from -1 to 1)")
    return _svg(figure)


def spread_over_runs(spreads: Sequence[Spread]) -> str:
    """One figure of several runs: a dot a run, a bar at the mean.

    Args:
        spreads: All of one figure, such as `mean_absolute`.

    Returns:
        An SVG element.
    """
    figure, axes = _axes(len(spreads))
    for row, one in enumerate(spreads):
        axes.plot(one.values, [row] * len(one.values), "o", color=PALETTE[0], alpha=0.6, markersize=6)
        axes.vlines(one.mean, row - 0.3, row + 0.3, color=PALETTE[1], linewidth=2)
    axes.set_xscale("symlog", linthresh=1)
    _label(axes, spreads)
    axes.set_xlabel("people")
    return _svg(figure)


def _axes(rows: int) -> tuple[Figure, Axes]:
    # The object interface: no global state, no display.
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second that only reports should cost

    figure = Figure(figsize=(8, 1.4 + 0.38 * rows), layout="constrained")
    axes = figure.subplots()
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    return figure, axes


def _label(axes: Axes, rows: Sequence[Entry] | Sequence[Spread]) -> None:
    axes.set_yticks(range(len(rows)), [f"{row.place}: {row.measure}" for row in rows])
    axes.set_ylim(len(rows) - 0.4, -0.6)


def _svg(figure: Figure) -> str:
    """The figure as an SVG element: text stays text, and no time or path is inside."""
    import matplotlib as mpl  # noqa: PLC0415

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "das_spark", "font.size": 10}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]
