"""Draws the figures of all reports: the only module that calls matplotlib. SVG text, the same every time."""

from __future__ import annotations

import io
import re
from bisect import bisect_right
from dataclasses import replace
from html import escape
from math import isnan, nan
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Final

from das_spark.report.model import Axis, Bars, Boxes, Curve, Figure, Guide, Panel, Regions, Stroke, Violins, Whiskers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

#: Colors that colour-blind readers can tell apart: blue, vermilion, bluish green, orange, sky blue, reddish purple.
#: Source: Okabe and Ito.
PALETTE: Final = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7")
MARKERS: Final = ("o", "s", "^", "D", "v", "P", "X")
_LINES: Final[Mapping[Stroke, str]] = {"none": "", "solid": "-", "dashed": "--", "dashdot": "-.", "dotted": ":"}
_GRID: Final = "#dddddd"
_GREY: Final = "#767676"
#: Classes of a map, the lowest first: one hue that darkens, for it is read as more and more.
#: Source: ColorBrewer, YlOrBr.
RAMP: Final = ("#ffffd4", "#fee391", "#fec44f", "#fe9929", "#d95f0e", "#993404")
_NO_VALUE: Final = "#e8e8e8"
_BORDER: Final = "#555555"
#: Names of colors in a page, which has others for the dark: CSS variables by color as it is drawn.
THEMED: Final[Mapping[str, str]] = {
    "#000000": "ink",
    "#ffffff": "paper",
    _GRID: "grid",
    _GREY: "grey",
    _BORDER: "border",
    _NO_VALUE: "empty",
    **{color.lower(): f"c{at}" for at, color in enumerate(PALETTE)},
    **{color: f"r{at}" for at, color in enumerate(RAMP)},
}
_LEGEND_COLUMNS: Final = 4
#: Of a single plot without rows, in rows of text.
_HEIGHT: Final = 9
#: In inches; what is narrower has one plot a row, and fewer names side by side in its legend.
WIDTH: Final = 10.0
NARROW: Final = 4.4
_MAP_WIDTH: Final = 5.4
#: Places behind the point that coordinates keep, in points: a tenth is less than a screen shows.
_PLACES: Final = 1


def drawn(figure: Figure, width: float = WIDTH) -> str:
    """The figure as an SVG element: text stays text, and no time or path is inside.

    Args:
        figure: Any.
        width: In inches; below 6, plots stand one below another.
    """
    import matplotlib as mpl  # noqa: PLC0415 - half a second that only reports should cost

    # A label has dollars, and no formula between them.
    with mpl.rc_context({"text.parse_math": False, "svg.fonttype": "none", "svg.hashsalt": "das_spark"}):
        return _drawn(figure, width)


def _drawn(figure: Figure, width: float) -> str:
    import matplotlib as mpl  # noqa: PLC0415 - as above

    # The object interface: no global state, no display.
    from matplotlib.figure import Figure as Canvas  # noqa: PLC0415

    width = _MAP_WIDTH if is_map(figure) else width
    number, single, slim = len(figure.panels), len(figure.panels) == 1, width < WIDTH / 2
    columns = 1 if slim else figure.columns
    rows = -(-number // columns)
    height = figure.height or len(figure.panels[0].rows) or _HEIGHT
    canvas = Canvas(figsize=(width, 1.4 + 0.38 * height if single else 2.9 * rows + 0.4), layout="constrained")
    plots = list(canvas.subplots(*((1, 1) if single else (rows, columns)), squeeze=False).flat)
    for axes in plots[number:]:
        axes.set_visible(False)
    for axes, panel in zip(plots, figure.panels, strict=False):
        _plot(axes, _slim(panel) if slim else panel)
    labelled = {label: handle for axes in plots[:number] for handle, label in _handles(axes)}
    if labelled and figure.legend != "none":
        handles, labels = list(labelled.values()), list(labelled)
        if figure.legend == "above" or (slim and figure.legend == "right"):
            size = 8.5 if is_map(figure) else 10
            # A letter is half as wide as high, about; beside a name stand its mark and the room between names.
            room = int(72 * width / (0.55 * size * max(map(len, labels)) + 5 * size))
            names = max(1, min(len(labels), 2 if slim else _LEGEND_COLUMNS, room))
            canvas.legend(handles, labels, loc="outside upper center", ncols=names, frameon=False, fontsize=size)
        elif figure.legend == "right":
            plots[0].legend(handles, labels, loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
        else:
            plots[0].legend(handles, labels, loc=figure.legend, frameon=False)
    _spread(canvas, plots[:number])
    buffer = io.StringIO()
    with mpl.rc_context({"font.size": 10}):
        canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", buffer.getvalue(), flags=re.DOTALL)
    # Coordinates stand in tags; what people read stands between them, and keeps its digits.
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"-?\d+\.\d{2,}", _shortened, tag.group()), _with_tips(text, figure))
    text = re.sub(r' transform="rotate\(-0 [^)]*\)"', "", re.sub(r"\s*\n\s*", " ", text))
    return text[text.index("<svg") :].replace("<svg ", f'<svg role="img" aria-label="{escape(figure.alt)}" ', 1)


def is_map(figure: Figure) -> bool:
    """Whether it has regions: then it is drawn once for all widths, for it may be large."""
    return any(isinstance(one, Regions) for panel in figure.panels for one in panel.series)


def _slim(panel: Panel) -> Panel:
    """The same for a narrow canvas: names of rows and axes on several lines, ticks at powers of ten alone."""
    x, y = (
        replace(
            axis,
            label=_folded(axis.label, letters),
            scale="decades" if axis is panel.x and axis.scale == "log" else axis.scale,
            ticks=tuple((place, _folded(name, _SHORT)) for place, name in axis.ticks),
            sparse=True,
        )
        for axis, letters in ((panel.x, _LONG), (panel.y, _LONG))
    )
    return replace(panel, x=x, y=y, rows=tuple(_folded(name, _ROW) for name in panel.rows))


#: Letters in a line of a narrow figure: of an axis, of the name of a row, of a tick.
_LONG, _ROW, _SHORT = 44, 19, 9


def _folded(text: str, letters: int) -> str:
    return "\n".join(wrap(text, letters, break_long_words=False)) if len(text) > letters else text


def _shortened(found: re.Match[str]) -> str:
    return f"{float(found.group()):.{_PLACES}f}".rstrip("0").rstrip(".")


def _with_tips(text: str, figure: Figure) -> str:
    """What the regions of a map say where a pointer rests on them."""
    tips = [tip for panel in figure.panels for one in panel.series if isinstance(one, Regions) for tip in one.texts]
    for at, tip in enumerate(tips):
        text = text.replace(f'<g id="{_REGION}{at}">', f'<g id="{_REGION}{at}"><title>{escape(tip)}</title>', 1)
    return text


#: Where a text may stand beside its point, in points across and up, and its side; the first that is free is taken.
_BESIDE: Final = ((5, 5, "left"), (-5, 5, "right"), (5, -12, "left"), (-5, -12, "right"), (0, 12, "center"))


def _spread(canvas: Canvas, plots: Sequence[Axes]) -> None:
    """Move texts beside points to where they cover nothing; one without a free place is left out."""
    from matplotlib.text import Annotation  # noqa: PLC0415
    from matplotlib.transforms import Bbox  # noqa: PLC0415

    if not any(isinstance(text, Annotation) for axes in plots for text in axes.texts):
        return
    canvas.draw_without_rendering()  # the layout, which places of texts follow from
    for axes in plots:
        texts = [text for text in axes.texts if isinstance(text, Annotation)]
        marks = [Bbox.from_extents(x - _MARK, y - _MARK, x + _MARK, y + _MARK) for x, y in _marks(axes)]
        taken: list[Bbox] = []
        for text in texts:
            usual = (*text.xyann, text.get_horizontalalignment())
            for across, up, side in (usual, *_BESIDE):
                text.set(position=(across, up), horizontalalignment=side)
                box = text.get_window_extent()
                if not any(box.overlaps(other) for other in (*taken, *marks)):
                    taken.append(box)
                    break
            else:
                text.remove()


#: Half the size of a mark, in pixels of the canvas.
_MARK: Final = 4.0


def _marks(axes: Axes) -> list[tuple[float, float]]:
    """Where all points of a plot are, in pixels of the canvas."""
    return [tuple(point) for line in axes.lines for point in axes.transData.transform(line.get_xydata())]


def _handles(axes: Axes) -> list[tuple[Artist, str]]:
    return list(zip(*axes.get_legend_handles_labels(), strict=True))


def _plot(axes: Axes, panel: Panel) -> None:
    if any(isinstance(one, Regions) for one in panel.series):
        _map(axes, panel)
        return
    across = bool(panel.rows)
    upright = not across and any(isinstance(one, Boxes | Violins) for one in panel.series)
    axes.grid(axis="y" if upright else "x", color=_GRID, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    _scale(axes, panel)
    for one in panel.series:
        if not isinstance(one, Guide | Regions):
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


#: Beginning of the identifiers of regions.
_REGION: Final = "region-"


def _map(axes: Axes, panel: Panel) -> None:
    from matplotlib.patches import PathPatch  # noqa: PLC0415
    from matplotlib.path import Path  # noqa: PLC0415

    number, nowhere = 0, Path([(nan, nan)])  # what stands in the legend alone
    for one in panel.series:
        if not isinstance(one, Regions):
            continue
        colors = _ramp(len(one.labels))
        for rings, value in zip(one.rings, one.values, strict=True):
            color = _NO_VALUE if isnan(value) else colors[bisect_right(one.edges, value)]
            shape = Path.make_compound_path(*(Path(list(zip(*ring, strict=True)), closed=True) for ring in rings))
            patch = PathPatch(shape, facecolor=color, edgecolor=_BORDER, linewidth=0.4, gid=f"{_REGION}{number}")
            axes.add_patch(patch)
            number += 1
        for color, label in zip(colors, one.labels, strict=True):
            axes.add_patch(PathPatch(nowhere, facecolor=color, edgecolor=_BORDER, linewidth=0.4, label=label))
        if any(map(isnan, one.values)):
            axes.add_patch(PathPatch(nowhere, facecolor=_NO_VALUE, edgecolor=_BORDER, linewidth=0.4, label="no value"))
    axes.autoscale_view()
    axes.set_aspect(panel.aspect)
    axes.set_axis_off()
    if panel.title:
        axes.set_title(panel.title, fontsize=10, loc="left")


def _ramp(number: int) -> list[str]:
    """Colors of so many classes, from light to dark."""
    last = max(number - 1, 1)
    return [RAMP[round(at * (len(RAMP) - 1) / last)] for at in range(number)]


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
            axis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=1, subs=(1,) if asked.sparse else (1, 3)))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        if asked.form:
            axis.set_major_formatter(f"{{x:{asked.form}}}")
        if asked.ticks:
            set_ticks([place for place, _ in asked.ticks], [name for _, name in asked.ticks])
        if asked.label:
            set_label(asked.label)


#: Ticks within a decade, and how wide the span of a logarithmic axis is from which on fewer serve.
_FINE: Final = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
_NARROW: Final = 4


def _limit(axes: Axes, x: Axis, y: Axis) -> None:
    from matplotlib.ticker import LogLocator  # noqa: PLC0415

    axes.set_xlim(x.low, x.high)
    axes.set_ylim(y.low, y.high)
    for axis, asked in ((axes.xaxis, x), (axes.yaxis, y)):
        low, high = axis.get_view_interval()
        if asked.scale == "log" and not asked.ticks and low > 0 and high < low * _NARROW:
            axis.set_major_locator(LogLocator(subs=_FINE))


def _color(number: int | None) -> str:
    return _GREY if number is None else PALETTE[number % len(PALETTE)]


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
        words.set(horizontalalignment=side)


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
