"""The three figures of the study of the 1940 runs, drawn of any residuals, with captions that say how they were made.

Figure 1: residuals and loss curve. Figure 2: error against privacy loss, beside simple random samples. Figure 3:
violins of residuals by homogeneity index. Source: Petti and Flaxman, Gates Open Research 2020.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import UndefinedError
from das_spark.evaluation.accuracy import AccuracyReport
from das_spark.evaluation.metrics import Frequencies, pooled
from das_spark.evaluation.privacy_loss import (
    AS_CODED,
    LossCurve,
    LossSettings,
    kernel_density,
    loss_curve,
)
from das_spark.evaluation.tallies import Definition
from das_spark.report import STROKES, Axis, Curve, Figure, Guide, Panel, Violins

#: More bins than these are joined by twos, threes and so on.
_MOST_BINS: Final = 400
#: Beyond the range of the curves, this much more is shown of the residuals.
_MARGIN: Final = 1.1
#: Part of the room between two indices that violins fill.
_ROOM: Final = 0.84
#: Violins are cut where this share of the residuals of a line lies beyond, at either end half of it.
_CUT: Final = 0.025
#: Kernel deviation, people, at least: a narrower one shows the teeth of whole numbers.
_NARROWEST: Final = 0.5
_POINTS: Final = 60
#: Fewer residuals than these are shown as dots, one each: a density would make a shape of what is none.
_FEWEST_OF_DENSITY: Final = 20
_FEWEST: Final = 2
_MAXIMUM = "A maximum over a noisy curve grows as residuals get fewer: compare at equal n only."


def loss_figure(
    reports: Mapping[str, AccuracyReport], place: str, measure: str, settings: LossSettings = AS_CODED
) -> Figure | None:
    """Figure 1 of one measure, of several releases side by side; None where no release has a curve.

    Args:
        reports: Label of a release, such as "epsilon 1/2" -> all of its runs pooled.
        place: A geolevel.
        measure: The query of the strata.
        settings: Of the curves.
    """
    curves: dict[str, tuple[Frequencies, LossCurve]] = {}
    for label, report in reports.items():
        for entry in report.entries:
            if (entry.place, entry.measure) == (place, measure):
                residuals = entry.frequencies
                try:
                    curves[label] = residuals, loss_curve(residuals, settings)
                except UndefinedError:  # the table of losses says why
                    continue
    if not curves:
        return None
    one = next(iter(reports.values()))
    return residuals_and_loss(
        curves, f"strata of {one.said(place)}", _counted(reports), f" Strata: {one.said(measure)}."
    )


def bias_figure(reports: Mapping[str, AccuracyReport], place: str, definition: Definition) -> Figure | None:
    """Figure 3, of several releases side by side; None where no release has residuals by index.

    Args:
        reports: Label of a release -> all of its runs pooled.
        place: A geolevel.
        definition: Of the index.
    """
    lines = {
        label: dict(line.parts)
        for label, report in reports.items()
        for line in report.homogeneity
        if (line.place, line.definition) == (place, definition)
    }
    said = next(iter(reports.values())).said(place)
    return bias_by_index(lines, f"{said}, {definition}", _counted(reports)) if lines else None


def residuals_and_loss(
    curves: Mapping[str, tuple[Frequencies, LossCurve]], of: str = "counts", counted: str = "people", more: str = ""
) -> Figure:
    """Figure 1: how often each residual occurs, and the loss curve, a line a label."""
    reach = _MARGIN * max(float(np.abs(curve.density_at).max()) + 0.5 for _, curve in curves.values())
    width = max(1, int(np.ceil(2 * reach / _MOST_BINS)))
    left, right = [], []
    for at, (label, (residuals, curve)) in enumerate(curves.items()):
        edges, heights = binned(residuals, reach, width)
        # From the axis up to the first bin, and down to it after the last.
        x, y = [edges[0], *edges.tolist()], [0, *heights.tolist(), 0]
        stroke = STROKES[at % len(STROKES)]
        left.append(Curve(x, y, label, at, stroke, steps=True))
        right.append(Curve(curve.x.tolist(), curve.loss.tolist(), "", at, stroke))
    number = "number" if width == 1 else f"number in {width} {counted}"
    panels = (
        Panel(
            tuple(left),
            Axis(f"residual ({counted})", low=-reach, high=reach),
            Axis(number, low=0, form=",.0f"),
            f"a  Residuals of {of}",
        ),
        Panel(
            (*right, Guide(y=0)),
            Axis(f"x ({counted})", low=-reach, high=reach),
            Axis("ln f(x) - ln f(x + 1)"),
            "b  Empirical privacy loss",
        ),
    )
    each = "each residual" if width == 1 else f"residuals in each bin of {width} {counted}"
    words = [settings_in_words(one, counted) for one in dict.fromkeys(curve.settings for _, curve in curves.values())]
    lines = [
        f"{label}: n = {curve.n:,}, kernel deviation {curve.kernel_deviation:.3g} {counted}, largest absolute loss "
        f"{curve.maximum:.3g}, median {curve.plateau:.3g}, {_beyond(residuals, curve)}"
        for label, (residuals, curve) in curves.items()
    ]
    caption = (
        f"Left: number of {of} with {each} (protected minus confidential). Right: the loss "
        f"ln f(x) - ln f(x + 1); {'; or '.join(words)}. {'; '.join(lines)}. {_MAXIMUM}{more}"
    )
    return Figure(caption, panels, legend="above", title=f"Residuals and empirical privacy loss: {of}")


def binned(residuals: Frequencies, reach: float, width: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Residuals in bins, one of them around 0."""
    beside = int(np.ceil(reach / width))
    edges = (np.arange(-beside, beside + 2, dtype=np.float64) - 0.5) * width
    places = np.searchsorted(edges, residuals.values, "right") - 1
    inside = (places >= 0) & (places < edges.size - 1)
    heights = np.zeros(edges.size - 1, dtype=np.int64)
    np.add.at(heights, places[inside], residuals.counts[inside])
    return edges, heights


def settings_in_words(settings: LossSettings, counted: str = "people") -> str:
    """Kernel and range of a loss curve."""
    size = f"{settings.bandwidth:g} x the standard deviation of the residuals"
    kernel = size if settings.bandwidth_of == "deviation" else f"{settings.bandwidth:g} {counted}"
    return (
        f"f is a Gaussian kernel density of the residuals with a kernel deviation of {kernel}, read in steps of 1 "
        f"from -B to B, B = {settings.multiplier:g} x the larger absolute value of percentiles "
        f"{100 - settings.percentile:g} and {settings.percentile:g} (settings: {settings.name})"
    )


@dataclass(frozen=True, slots=True)
class TradeOffPoint:
    """A release at one budget, or the samples of one share, in figure 2."""

    label: str  # written beside the point
    loss: float  # empirical privacy loss
    error: float  # median absolute residual
    n: int  # residuals that it is computed from
    variant: str = ""  # settings of a release, where several are compared: each has a curve of its own


def trade_off(
    release: Sequence[TradeOffPoint], samples: Sequence[TradeOffPoint], settings: LossSettings, counted: str = "people"
) -> Figure:
    """Figure 2: error against privacy loss, for a release at several budgets and for simple random samples."""
    series = []
    # Names of the samples stand below their curve, those of the release above.
    curves = [(samples, 1, "simple random sample")]
    for at, variant in enumerate(dict.fromkeys(point.variant for point in release)):
        # The second color is that of the samples.
        color = at if at == 0 else at + 1
        curves.append(([each for each in release if each.variant == variant], color, variant or "protected release"))
    for points, color, name in sorted(curves, key=lambda curve: curve[1]):
        if points:
            losses, errors = [point.loss for point in points], [point.error for point in points]
            texts = tuple(point.label for point in points)
            stroke = STROKES[color % len(STROKES)]
            series.append(Curve(losses, errors, name, color, stroke, color, texts=texts, below=color == 1))
    # From 0 on both axes, with room for what is written below the lowest squares.
    highest = 1.05 * max((point.error for point in (*release, *samples)), default=1.0) or 1.0
    y_axis = Axis(f"median absolute residual ({counted})", low=-0.06 * highest, high=highest)
    released, sampled = (_between([point.n for point in points]) for points in (release, samples))
    several = len({point.variant for point in release}) > 1
    marks = "Other marks, one kind for each of the settings compared" if several else "Circles"
    caption = (
        f"Median absolute residual in {counted} against the empirical privacy loss, the largest absolute value of "
        f"ln f(x) - ln f(x + 1); {settings_in_words(settings, counted)}. {marks}, joined: the protected release at the "
        f"budgets named ({released} residuals a point). Squares, dashed: simple random samples of the "
        f"shares named, weighted by 1 / share ({sampled}). {_MAXIMUM}"
    )
    panel = Panel(tuple(series), Axis("empirical privacy loss", low=0), y_axis)
    return Figure(caption, (panel,), height=10, legend="above", title="Error against privacy loss")


def bias_by_index(lines: Mapping[str, Mapping[int, Frequencies]], of: str, counted: str = "people") -> Figure:
    """Figure 3: violins of residuals by homogeneity index with their means, side by side a label.

    Indices that occur stand side by side, and are not spread out as numbers.
    """
    numbers = [
        f"{label}: " + ", ".join(f"{index} ({line[index].total:,})" for index in sorted(line))
        for label, line in lines.items()
    ]
    lines = {label: {index: part for index, part in line.items() if part.total} for label, line in lines.items()}
    indices = sorted({index for line in lines.values() for index in line})
    limit = violin_limit(line.values() for line in lines.values())
    slot = _ROOM / max(1, len(lines))
    series: list[Violins | Curve] = []
    for at, (label, line) in enumerate(lines.items()):
        first = (at - (len(lines) - 1) / 2) * slot
        few = {index: part for index, part in line.items() if part.total < _FEWEST_OF_DENSITY}
        dots = [
            (first + indices.index(index), value)
            for index, part in few.items()
            for value in part.values.tolist()
            if abs(value) <= limit
        ]
        if dots:
            across, up = zip(*dots, strict=True)
            series.append(Curve(across, up, "", at, "none", 0, size=3.5, alpha=0.55))
        found = [
            ResidualDensity(np.zeros(0), np.zeros(0), line[index].mean) if index in few else violin(line[index], limit)
            for index in indices
            if index in line
        ]
        series.append(
            Violins(
                [first + place for place, index in enumerate(indices) if index in line],
                tuple(one.heights.tolist() for one in found),
                tuple(one.widths.tolist() for one in found),
                [one.mean for one in found],
                slot / 2,
                label,
                at,
                at,
            )
        )
    ticks = tuple((float(place), str(index)) for place, index in enumerate(indices))
    x_axis = Axis("homogeneity index", ticks=ticks)
    panel = Panel((*series, Guide(y=0)), x_axis, Axis(f"residual ({counted})", low=-limit, high=limit))
    caption = (
        f"Residuals of totals (protected minus confidential {counted}) by homogeneity index. Marks: means "
        f"(bias). Violins: Gaussian kernel densities with Scott's bandwidth, {_NARROWEST:g} {counted} at least, each "
        f"scaled to the same width, of {_FEWEST_OF_DENSITY} residuals or more (dots: each value of fewer), cut where "
        f"at most {_CUT:.1%} of the residuals of a line lie beyond; means are over all. Number of residuals by index: "
        f"{'; '.join(numbers)}."
    )
    return Figure(caption, (panel,), legend="above", title=f"Bias by homogeneity index: {of}")


@dataclass(frozen=True, slots=True, eq=False)
class ResidualDensity:
    """A density of residuals standing upright, and their mean."""

    heights: NDArray[np.float64]  # shape (k,), people: where the density is read; empty where all residuals are equal
    widths: NDArray[np.float64]  # shape (k,): the density as a part of its largest value
    mean: float  # of all residuals, also of those that are cut off; people


def violin(residuals: Frequencies, limit: float) -> ResidualDensity:
    """The outline of a violin: a Gaussian kernel density with Scott's bandwidth, `_NARROWEST` at least."""
    values = residuals.values
    low, high = max(-limit, float(values[0])), min(limit, float(values[-1]))
    if values.size < _FEWEST or low >= high:
        return ResidualDensity(np.zeros(0), np.zeros(0), residuals.mean)
    # Scott, Multivariate Density Estimation: n^(-1/5) standard deviations in one dimension.
    kernel = max(_NARROWEST, residuals.total**-0.2 * residuals.standard_deviation)
    heights = np.linspace(low, high, _POINTS)
    density = kernel_density(residuals, kernel, heights)
    largest = density.max()
    return ResidualDensity(heights, density / largest if largest > 0 else density, residuals.mean)


def violin_limit(lines: Iterable[Iterable[Frequencies]]) -> float:
    """Where violins are cut: so far from 0 that all means and most residuals of every line are seen; people."""
    found = [0.0]
    for parts in map(list, lines):
        found += [1.1 * abs(part.mean) for part in parts]
        if parts:
            found += map(abs, pooled(parts).quantiles((_CUT / 2, 1 - _CUT / 2)))
    return max(found) or 1.0


def _counted(reports: Mapping[str, AccuracyReport]) -> str:
    return next((report.counted for report in reports.values()), "people")


def _beyond(residuals: Frequencies, curve: LossCurve) -> str:
    """The share of residuals that the range leaves out."""
    bound = abs(curve.density_at[0] - 0.5)
    beyond = residuals.counts[abs(residuals.values) > bound].sum() / residuals.total
    return f"{beyond:.1%} of the residuals beyond B = {bound:g}"


def _between(numbers: Sequence[int]) -> str:
    if not numbers:
        return "none"
    low, high = min(numbers), max(numbers)
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
