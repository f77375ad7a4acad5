"""Draws the figures of all reports: the only module that calls matplotlib. SVG text, the same every time."""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING, Any, Final

from das_spark.report.model import Axis, Bars, Boxes, Curve, Figure, Guide, Panel, Stroke, Violins, Whiskers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

#: Colors that colour-blind readers can tell apart: blue, vermilion, bluish green, orange, sky blue, reddish purple.
#: Source: Okabe and Ito.
PALETTE: Final = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_LINES: Final[Mapping[Stroke, str]] = {"none": "", "solid": "-", "dashed": "--", "dashdot": "-.", "dotted": ":"}
_GRID: Final = "#dddddd"
_LEGEND_COLUMNS: Final = 4
#: Of a single plot without rows, in rows of text.
_HEIGHT: Final = 7


def drawn(figure: Figure) -> str:
    """The figure as an SVG element: text stays text, and no time or path is inside."""
    # The object interface: no global state, no display.
    import matplotlib as mpl  # noqa: PLC0415 - half a second that only reports should cost
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415

    number, single = len(figure.panels), len(figure.panels) == 1
    rows = -(-number // figure.columns)
    height = figure.height or len(figure.panels[0].rows) or _HEIGHT
    canvas = Canvas(figsize=(8, 1.4 + 0.38 * height if single else 2.6 * rows + 0.4), layout="constrained")
    plots = list(canvas.subplots(*((1, 1) if single else (rows, figure.columns)), squeeze=False).flat)
    for axes in plots[number:]:
        axes.set_visible(False)
    for axes, panel in zip(plots, figure.panels, strict=False):
        _plot(axes, panel)
    labelled = {label: handle for axes in plots[:number] for handle, label in _handles(axes)}
    if labelled and figure.legend != "none":
        handles, labels = list(labelled.values()), list(labelled)
        if figure.legend == "above":
            columns = min(len(labels), _LEGEND_COLUMNS)
            canvas.legend(handles, labels, loc="outside upper center", ncols=columns, frameon=False)
        elif figure.legend == "right":
            plots[0].legend(handles, labels, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        else:
            plots[0].legend(handles, labels, loc=figure.legend, frameon=False)
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "das_spark", "font.size": 10}):
        canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    return text[text.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{escape(figure.alt)}" ', 1)


def _handles(axes: Axes) -> list[tuple[Artist, str]]:
    return list(zip(*axes.get_legend_handles_labels(), strict=True))


def _plot(axes: Axes, panel: Panel) -> None:
    across = bool(panel.rows)
    upright = not across and any(isinstance(one, Boxes | Violins) for one in panel.series)
    axes.grid(axis="y" if upright else "x", color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    _scale(axes, panel)
    for one in panel.series:
        if not isinstance(one, Guide):
            _draw(axes, one, across=across)
    _limit(axes, panel.x, panel.y)
    for guide in panel.series:  # after the data, whose limits the diagonal follows
        if isinstance(guide, Guide):
            _guide(axes, guide)
    if panel.rows:
        axes.set_yticks(range(len(panel.rows)), panel.rows)
        axes.set_ylim(len(panel.rows) - 0.4, -0.6)
    if panel.title:
        axes.set_title(panel.title, fontsize=10, loc="left")


def _scale(axes: Axes, panel: Panel) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, SymmetricalLogLocator  # noqa: PLC0415

    for axis, asked, set_scale, set_label, set_ticks in (
        (axes.xaxis, panel.x, axes.set_xscale, axes.set_xlabel, axes.set_xticks),
        (axes.yaxis, panel.y, axes.set_yscale, axes.set_ylabel, axes.set_yticks),
    ):
        if asked.scale in ("log", "decades"):
            set_scale("log")
            axis.set_major_locator(LogLocator(subs=(1,) if asked.scale == "decades" else (1, 2, 5)))
            axis.set_minor_locator(NullLocator())
            # Ticks at plain numbers.
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        elif asked.scale == "symlog":
            set_scale("symlog", linthresh=1)
            axis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=1, subs=(1, 3)))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        if asked.form:
            axis.set_major_formatter(f"{{x:{asked.form}}}")
        if asked.ticks:
            set_ticks([place for place, _ in asked.ticks], [name for _, name in asked.ticks])
        if asked.label:
            set_label(asked.label)


def _limit(axes: Axes, x: Axis, y: Axis) -> None:
    axes.set_xlim(x.low, x.high)
    axes.set_ylim(y.low, y.high)


def _color(number: int | None) -> str:
    return "grey" if number is None else PALETTE[number % len(PALETTE)]


def _draw(axes: Axes, one: Curve | Bars | Whiskers | Boxes | Violins, *, across: bool) -> None:
    match one:
        case Curve():
            _curve(axes, one)
        case Bars():
            bar = axes.barh if across else axes.bar
            size: dict[str, Any] = {"height" if across else "width": one.thickness}
            bars = bar(one.at, one.values, color=_color(one.color), label=one.label or None, **size)
            if one.texts:
                axes.bar_label(bars, list(one.texts), padding=3)
        case Whiskers():
            lines = axes.hlines if across else axes.vlines
            lines(one.at, one.low, one.high, color=_color(one.color), linewidth=one.width)
            if len(one.values):
                marks = (one.values, one.at) if across else (one.at, one.values)
                marker = MARKERS[one.marker % len(MARKERS)]
                axes.plot(*marks, marker, color=_color(one.color), label=one.label or None, markersize=6)
        case Boxes():
            _boxes(axes, one, across=across)
        case Violins():
            for place, heights, widths in zip(one.at, one.heights, one.widths, strict=True):
                left, right = ([place + side * one.half * width for width in widths] for side in (-1, 1))
                axes.fill_betweenx(heights, left, right, color=_color(one.color), alpha=0.4, linewidth=0)
            style: dict[str, Any] = {"color": _color(one.color), "markeredgecolor": "black", "markersize": 6}
            axes.plot(one.at, one.means, MARKERS[one.marker % len(MARKERS)], label=one.label or None, **style)


def _curve(axes: Axes, one: Curve) -> None:
    color = _color(one.color)
    axes.plot(
        one.x,
        one.y,
        linestyle=_LINES[one.stroke],
        marker="" if one.marker is None else MARKERS[one.marker % len(MARKERS)],
        drawstyle="steps-post" if one.steps else "default",
        color=color,
        label=one.label or None,
        linewidth=1.5,
        markersize=one.size,
        markerfacecolor="white" if one.hollow else color,
        markeredgewidth=1 if one.hollow or one.size > 4 else 0,  # noqa: PLR2004 - edges would hide small marks
        alpha=one.alpha,
    )
    beside, side = ((-4, -11), "right") if one.below else ((5, 5), "left")
    for x, y, text in zip(one.x, one.y, one.texts, strict=False):
        words = axes.annotate(text, (x, y), beside, textcoords="offset points", fontsize=8)
        words.set(color=color, horizontalalignment=side)


def _boxes(axes: Axes, one: Boxes, *, across: bool) -> None:
    names = ("whislo", "q1", "med", "q3", "whishi", "mean")
    columns = (one.low, one.first, one.median, one.third, one.high, one.mean)
    color = _color(one.color)
    axes.bxp(
        [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)],
        positions=list(one.at),
        widths=0.55,
        orientation="horizontal" if across else "vertical",
        showfliers=False,
        showcaps=False,
        showmeans=True,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": color, "edgecolor": color, "alpha": 0.35, "linewidth": 0.8},
        whiskerprops={"color": color, "linewidth": 1.5},
        medianprops={"color": color, "linewidth": 2},
        meanprops={"marker": "o", "markerfacecolor": "black", "markeredgecolor": "black", "markersize": 4},
    )


def _guide(axes: Axes, guide: Guide) -> None:
    style: dict[str, Any] = {
        "color": _color(guide.color),
        "linewidth": 0.8 if guide.color is None else 1.2,
        "linestyle": "--" if guide.dashed else "-",
        "label": guide.label or None,
        "zorder": 0.5,
    }
    if guide.x is not None:
        axes.axvline(guide.x, **style)
    elif guide.y is not None:
        axes.axhline(guide.y, **style)
    else:
        ends = axes.get_xlim()
        axes.plot(ends, ends, **style)
        axes.set_xlim(ends)
