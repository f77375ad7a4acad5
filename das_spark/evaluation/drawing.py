"""What all figures share: colours that colour-blind readers can tell apart, plain axes, and SVG text."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Blue, vermilion, bluish green, orange, sky blue, reddish purple. Source: Okabe and Ito.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#E69F00", "#56B4E9", "#CC79A7")
#: What tells lines apart where colours do not.
LINES = ("-", "--", "-.", ":")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")


@dataclass(frozen=True, slots=True)
class Captioned:
    """A figure as pages show it.

    Attributes:
        svg: An SVG element.
        caption: What it shows.
    """

    svg: str
    caption: str


def wide_axes(rows: float) -> tuple[Figure, Axes]:
    """One plot over the whole width.

    Args:
        rows: Its height, in rows of text.
    """
    # The object interface: no global state, no display.
    from matplotlib.figure import Figure  # noqa: PLC0415 - half a second that only reports should cost

    figure = Figure(figsize=(8, 1.4 + 0.38 * rows), layout="constrained")
    axes = figure.subplots()
    _plain(axes)
    return figure, axes


def panels(number: int, columns: int = 2) -> tuple[Figure, list[Axes]]:
    """Several plots of one size, row by row.

    Args:
        number: How many, one at least.
        columns: How many side by side.
    """
    from matplotlib.figure import Figure  # noqa: PLC0415

    rows = -(-number // columns)
    figure = Figure(figsize=(8, 2.6 * rows + 0.4), layout="constrained")
    found = list(figure.subplots(rows, columns, squeeze=False).flat)
    for axes in found[number:]:
        axes.set_visible(False)
    for axes in found[:number]:
        _plain(axes)
    return figure, found[:number]


def log_scales(axes: Axes, *, both: bool = False, decades: bool = False) -> None:
    """Logarithmic scales with ticks at plain numbers: 1, 2, 5, 10 and so on.

    Args:
        axes: A plot.
        both: Whether the vertical axis gets one too.
        decades: Powers of ten alone, where a scale is too long for more.
    """
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator  # noqa: PLC0415

    axes.set_xscale("log")
    if both:
        axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis) if both else (axes.xaxis,):
        axis.set_major_locator(LogLocator(subs=(1,) if decades else (1, 2, 5)))
        axis.set_minor_locator(NullLocator())
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Rows of a plot with their names, the first one on top.

    Args:
        axes: A plot with one thing at each of the heights 0, 1, 2 and so on.
        names: In order.
    """
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)


def as_svg(figure: Figure) -> str:
    """The figure as an SVG element: text stays text, and no time or path is inside.

    Args:
        figure: The figure, drawn already.
    """
    import matplotlib as mpl  # noqa: PLC0415

    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": "das_spark", "font.size": 10}):
        figure.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def _plain(axes: Axes) -> None:
    axes.grid(axis="x", color="#dddddd", linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
