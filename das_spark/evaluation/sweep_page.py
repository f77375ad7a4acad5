"""The report on a sweep as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Final

from das_spark.evaluation.captioned import bias_figure, loss_figure
from das_spark.evaluation.closest import percent
from das_spark.evaluation.definitions import RESTRICTED, TOTAL, definitions
from das_spark.evaluation.drawing import Captioned
from das_spark.evaluation.homogeneity import DEFINITIONS
from das_spark.evaluation.sampling import CLOSEST
from das_spark.evaluation.study_captions import trade_off_caption
from das_spark.evaluation.study_figures import trade_off
from das_spark.evaluation.sweep_report import CurvePoint, SweepReport
from das_spark.evaluation.template import rendered
from das_spark.evaluation.uncertainty import LEVEL

#: Terms of the accuracy report that the page uses.
_TERMS: Final = ("residual", "total", "stratified", "double_zero", "median_absolute", "p95_absolute", "rmse", "bias")


@dataclass(frozen=True, slots=True)
class PageTable:
    """A further table of the page, such as one of published figures beside those of the sweep.

    Attributes:
        title: Heading.
        caption: What was computed, and where the rest comes from.
        columns: Headings of the columns.
        rows: Cells, as text.
    """

    title: str
    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def sweep_page(report: SweepReport, tables: Sequence[PageTable] = (), *, insecure: bool = False) -> str:
    """Render the page.

    Args:
        report: Of a sweep.
        tables: Further tables.
        insecure: Whether the runs were made under test keys.

    Returns:
        HTML.
    """
    terms = definitions(report.counted)
    return rendered(
        "sweep.html",
        report=report,
        panels=[_panel(report, place, measure) for place, measure in report.lines],
        tables=tables,
        rules=CLOSEST,
        percent=percent,
        definitions={name: terms[name] for name in _TERMS},
        insecure=insecure,
        level=LEVEL,
        restricted=RESTRICTED,
    )


def _panel(report: SweepReport, place: str, measure: str) -> Mapping[str, Any]:
    """What the page shows of a place and measure: figures where something can be drawn, and the rows of tables."""
    release, samples = (report.curve(kind, place, measure) for kind in ("release", "sample"))
    circles = list(_marks(release, lambda size: f"{report.budget} {size}"))
    squares = list(_marks(samples, percent))
    figures = list(_first_and_third(report, place, measure))
    if circles:
        counts, sampled = (
            [each.figures.n for each in points if each.loss.value is not None] for points in (release, samples)
        )
        caption = trade_off_caption(report.settings, counts, sampled, report.counted)
        figures.insert(0, Captioned(trade_off(circles, squares, report.counted), caption))
    closest = [report.closest_to(each.size, place, measure) for each in release]
    return {
        "place": place,
        "measure": measure,
        "release": list(zip(release, closest, strict=True)),
        "samples": samples,
        "figures": figures,
        "left_out": _left_out((*release, *samples)),
    }


def _first_and_third(report: SweepReport, place: str, measure: str) -> Iterator[Captioned]:
    """Figure 1 of strata, figure 3 of totals: all budgets side by side."""
    labelled = {f"{report.budget} {total}": pooled for total, pooled in report.pooled.items()}
    if measure == TOTAL:
        drawn = [bias_figure(labelled, place, definition) for definition in DEFINITIONS]
    else:
        drawn = [loss_figure(labelled, place, measure, report.settings)]
    yield from (figure for figure in drawn if figure is not None)


def _marks(points: Sequence[CurvePoint], named: Callable[[Fraction], str]) -> Iterator[tuple[str, float, float]]:
    """Label, privacy loss and error of every point that has a loss."""
    for point in points:
        if point.loss.value is not None:
            yield named(point.size), point.loss.value, point.figures.median_absolute


def _left_out(points: Sequence[CurvePoint]) -> Mapping[str, int]:
    """Why points are not in the figure, and how many."""
    reasons = [point.loss.why_undefined for point in points if point.loss.value is None]
    return {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}
