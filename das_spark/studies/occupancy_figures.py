"""Figures of occupancy as SVG text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from das_spark.evaluation.drawing import MARKERS, PALETTE, as_svg, panels, wide_axes
from das_spark.evaluation.quintiles import Quintile
from das_spark.studies.allocation import noise_figures
from das_spark.studies.occupancy import CountyRelease
from das_spark.studies.occupancy_measures import Occupancy, OccupancyReport

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_HEIGHT = 6
#: Rows of text that a release takes in the figure of shares, and how far releases of a geolevel are apart.
_ROWS, _APART = 0.6, 0.16


def difference_boxes(groups: Mapping[str, Sequence[Quintile]], counted: str) -> str:
    """A box plot by quintile for each group, side by side; the scale is the same for all.

    Args:
        groups: Title -> five quintiles.
        counted: What is counted, in the plural.

    Returns:
        An SVG element.
    """
    figure, plots = panels(len(groups))
    reach = max((abs(end) for five in groups.values() for one in five for end in _ends(one)), default=1.0) or 1.0
    for place, (axes, (title, five)) in enumerate(zip(plots, groups.items(), strict=True)):
        _boxes(axes, five)
        axes.set_ylim(-1.08 * reach, 1.08 * reach)
        axes.yaxis.set_major_formatter("{x:,g}")
        axes.set_title(title, fontsize=10, loc="left")
        if place % 2 == 0:
            axes.set_ylabel(f"released minus true\n({counted})")
        if place >= len(plots) - 2:
            axes.set_xlabel("quintile (1: smallest)")
    return as_svg(figure)


def _boxes(axes: Axes, five: Sequence[Quintile]) -> None:
    shown = [(one.number, one.box) for one in five if one.box is not None]
    stats = [
        {"med": box.median, "q1": box.first, "q3": box.third, "whislo": box.low, "whishi": box.high, "mean": box.mean}
        for _, box in shown
    ]
    axes.axhline(0, color="grey", linewidth=0.8, linestyle="--")
    axes.bxp(
        stats,
        positions=[number for number, _ in shown],
        widths=0.55,
        showfliers=False,
        showmeans=True,
        patch_artist=True,
        boxprops={"facecolor": PALETTE[4], "alpha": 0.6, "linewidth": 0.8},
        medianprops={"color": PALETTE[0], "linewidth": 2},
        meanprops={"marker": "o", "markerfacecolor": "black", "markeredgecolor": "black", "markersize": 4},
    )
    axes.grid(axis="x", visible=False)
    axes.grid(axis="y", color="#dddddd", linewidth=0.6)
    axes.set_xticks([one.number for one in five], [str(one.number) for one in five])


def _ends(one: Quintile) -> tuple[float, ...]:
    return () if one.box is None else (one.box.low, one.box.high, one.box.mean)


def shares_filled(reports: Sequence[OccupancyReport]) -> str:
    """Share of geounits that lost their last vacant unit, a row a geolevel and a mark a release, with intervals.

    Args:
        reports: In order.

    Returns:
        An SVG element.
    """
    levels: dict[str, list[tuple[int, Occupancy]]] = {}
    for place, report in enumerate(reports):
        for level in report.levels:
            levels.setdefault(level.geolevel, []).append((place, level.occupancy))
    figure, axes = wide_axes(_ROWS * sum(map(len, levels.values())) + len(levels))
    for row, marks in enumerate(levels.values()):
        for at, (place, whole) in enumerate(marks):
            if whole.interval is None or whole.share_filled is None:
                continue
            height = row + (at - (len(marks) - 1) / 2) * _APART
            colour, marker = PALETTE[place % len(PALETTE)], MARKERS[place % len(MARKERS)]
            label = None if row else reports[place].name
            axes.hlines(height, whole.interval.low, whole.interval.high, color=colour, linewidth=1.5)
            axes.plot([whole.share_filled], [height], marker, color=colour, label=label)
    axes.set_yticks(range(len(levels)), [level.replace("_", " ") for level in levels])
    axes.set_ylim(len(levels) - 0.5, -0.5)
    axes.set_xlim(-0.02, 1.02)
    axes.set_xlabel("share of the geounits with vacant units in truth that are full in the release")
    axes.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return as_svg(figure)


def occupancy_rates(counties: CountyRelease, arms: Sequence[str]) -> str:
    """Occupancy of every county against its size, in truth and in the release, a plot an arm.

    Args:
        counties: Simulated counties.
        arms: Which arms.

    Returns:
        An SVG element.
    """
    figure, plots = panels(len(arms))
    true = counties.truth / counties.units
    for place, (axes, arm) in enumerate(zip(plots, arms, strict=True)):
        rate = counties.released[arm] / counties.units
        axes.plot(counties.units, true, "o", color="#999999", markersize=2.5, markeredgewidth=0, label="truth")
        full = rate == 1
        for chosen, colour, marker, label in ((~full, PALETTE[0], "o", "release"), (full, PALETTE[1], "D", "full")):
            axes.plot(counties.units[chosen], rate[chosen], marker, color=colour, markersize=3.5, label=label)
        axes.axhline(1, color="grey", linewidth=0.8, linestyle="--")
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.set_ylim(0.98 * min(true.min(), rate.min()), 1.02 * max(1.0, rate.max()))
        axes.set_title(arm, fontsize=10, loc="left")
        axes.set_xlabel("housing units of the county")
        if place % 2 == 0:
            axes.set_ylabel("households / housing units")
    figure.legend(*plots[0].get_legend_handles_labels(), loc="outside upper center", ncols=3, frameon=False)
    return as_svg(figure)


def noise_law(scale: Fraction) -> str:
    """The discrete Laplace law of a scale with the percentiles that hold half and 95 % of its draws.

    Args:
        scale: In people or households.

    Returns:
        An SVG element.
    """
    figure, axes = wide_axes(_HEIGHT)
    ratio = float(np.exp(-1 / float(scale)))
    reach = round(6 * float(scale))
    x = np.arange(-reach, reach + 1)
    axes.plot(x, (1 - ratio) / (1 + ratio) * ratio ** np.abs(x), color=PALETTE[0], linewidth=1.5)
    noise = noise_figures(scale)
    for bound, colour, label in ((noise.p75, PALETTE[2], "half"), (noise.p97_5, PALETTE[1], "95 %")):
        for end in (-bound, bound):
            axes.axvline(end, color=colour, linewidth=1.2, linestyle="--", label=None if end < 0 else label)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("noise (people or households)")
    axes.set_ylabel("probability")
    handles, _ = axes.get_legend_handles_labels()
    axes.legend(handles, [f"half within {noise.p75}", f"95 % within {noise.p97_5}"], loc="upper right", frameon=False)
    return as_svg(figure)
