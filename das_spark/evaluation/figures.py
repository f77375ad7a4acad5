"""Figures of the accuracy report as SVG text; colours that colour-blind readers can tell apart (Okabe and Ito)."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import nan
from typing import TYPE_CHECKING, TypeVar

from das_spark.evaluation.definitions import TOTAL
from das_spark.evaluation.drawing import MARKERS, PALETTE, as_svg, name_rows, wide_axes
from das_spark.evaluation.lines import Criterion, QueryErrors
from das_spark.evaluation.report import Entry
from das_spark.evaluation.spreads import Spread

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: The share of geounits that shall meet the criterion. Source: U.S. Census Bureau, announcement of spring 2021 on the
#: tuning of the redistricting data: the largest group within 5 percentage points at least 95 % of the time, in any
#: geographic entity of 500 people or more (`das_spark.evaluation.lines.LEAST_POPULATIONS`).
AIM = Fraction(95, 100)
#: Fewer geounits than these make no point of a curve.
_FEWEST = 5
_HEIGHT = 7

_Line = TypeVar("_Line", QueryErrors, Criterion)


def error_sizes(entries: Sequence[Entry], counted: str = "people") -> str:
    """Median, mean and 95th percentile of absolute residuals, one row a place and measure.

    Args:
        entries: Lines of a report.
        counted: What is counted, in the plural.

    Returns:
        An SVG element.
    """
    figure, axes = wide_axes(len(entries))
    names = (("median_absolute", "median"), ("mean_absolute", "mean"), ("p95_absolute", "95th percentile"))
    for marker, colour, (name, label) in zip(MARKERS, PALETTE, names, strict=False):
        sizes = [getattr(entry.figures, name) for entry in entries]
        axes.plot(sizes, range(len(entries)), marker, color=colour, label=label, markersize=7)
    axes.set_xscale("symlog", linthresh=1)
    axes.set_xlim(left=-0.2)
    _label(axes, entries)
    axes.set_xlabel(f"{counted} (absolute residual; the scale is linear up to 1)")
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, 1.18 if len(entries) > 4 else 1.3), ncols=3, frameon=False)  # noqa: PLR2004
    return as_svg(figure)


def signed_errors(entries: Sequence[Entry], counted: str = "people") -> str:
    """Signed residuals: middle half as a bar, 5th to 95th percentile as a line, median as a tick, mean as a dot.

    Args:
        entries: Lines of a report.
        counted: What is counted, in the plural.

    Returns:
        An SVG element.
    """
    figure, axes = wide_axes(len(entries))
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
    axes.set_xlabel(f"{counted} (protected minus confidential; the scale is linear from -1 to 1)")
    return as_svg(figure)


def spread_over_runs(spreads: Sequence[Spread], counted: str = "people") -> str:
    """One figure of several runs: a dot a run, a bar at the mean.

    Args:
        spreads: All of one figure, such as `mean_absolute`.
        counted: What is counted, in the plural.

    Returns:
        An SVG element.
    """
    figure, axes = wide_axes(len(spreads))
    for row, one in enumerate(spreads):
        axes.plot(one.values, [row] * len(one.values), "o", color=PALETTE[0], alpha=0.6, markersize=6)
        axes.vlines(one.mean, row - 0.3, row + 0.3, color=PALETTE[1], linewidth=2)
    axes.set_xscale("symlog", linthresh=1)
    _label(axes, spreads)
    axes.set_xlabel(counted)
    return as_svg(figure)


def agreement(errors: Sequence[QueryErrors]) -> str:
    """One minus the total variation distance of every query, a row a query and a mark a geolevel.

    Args:
        errors: Lines of a report, one a geolevel and query.

    Returns:
        An SVG element.
    """
    queries = list(dict.fromkeys(line.query for line in errors))
    figure, axes = wide_axes(len(queries))
    for place, (style, lines) in _by_place(errors).items():
        shown = [(line.whole.one_minus_tvd, queries.index(line.query)) for line in lines]
        axes.plot(*zip(*shown, strict=True), style[1], color=style[0], label=place, markersize=7, alpha=0.8)
    name_rows(axes, queries)
    axes.set_xlabel("1 - L1 / (2 counted)")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return as_svg(figure)


def within_by_population(criteria: Sequence[Criterion], counted: str = "people") -> str:
    """Share of geounits that meet a criterion against their population, a line a geolevel; classes of 5 or more.

    Args:
        criteria: One a geolevel, by steps of population.
        counted: What is counted, in the plural.

    Returns:
        An SVG element.
    """
    figure, axes = wide_axes(_HEIGHT)
    for place, (style, lines) in _by_place(criteria).items():
        bins = lines[0].bins
        met = {part.bin: part for part in lines[0].parts if part.geounits >= _FEWEST}
        # Classes without a point break the line.
        shares = [met[at].within / met[at].geounits if at in met else nan for at in range(bins.number)]
        if met:
            least = [bins.least(at) for at in range(bins.number)]
            axes.plot(least, shares, f"-{style[1]}", color=style[0], label=place, markersize=4)
    axes.axhline(float(AIM), color="grey", linewidth=0.8, linestyle="--")
    axes.set_ylim(-0.02, 1.02)
    axes.set_ylabel("share of geounits")
    axes.set_xlabel(f"{counted} in the geounit, from (the last class is open)")
    if axes.lines[:-1]:
        axes.legend(loc="lower right", frameon=False)
    return as_svg(figure)


def _by_place(lines: Sequence[_Line]) -> dict[str, tuple[tuple[str, str], list[_Line]]]:
    """Geolevel -> colour and marker, and its lines."""
    found: dict[str, tuple[tuple[str, str], list[_Line]]] = {}
    for line in lines:
        style = (PALETTE[len(found) % len(PALETTE)], MARKERS[len(found) % len(MARKERS)])
        found.setdefault(line.place, (style, []))[1].append(line)
    return found


def _label(axes: Axes, rows: Sequence[Entry] | Sequence[Spread]) -> None:
    name_rows(axes, [f"{row.place}: {row.measure}" for row in rows])
