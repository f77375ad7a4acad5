"""The accuracy report as one HTML file that needs nothing else: no script, style sheet or picture from elsewhere."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from das_spark.evaluation.bins import FIFTIES
from das_spark.evaluation.closest import percent
from das_spark.evaluation.definitions import RESTRICTED, TOTAL, definitions
from das_spark.evaluation.drawing import Captioned
from das_spark.evaluation.figures import (
    AIM,
    agreement,
    error_sizes,
    signed_errors,
    spread_over_runs,
    within_by_population,
)
from das_spark.evaluation.lines import ALL, Criterion, QueryErrors
from das_spark.evaluation.pooling import headline_spreads
from das_spark.evaluation.report import AccuracyReport
from das_spark.evaluation.spreads import Spread
from das_spark.evaluation.statistics import Statistic
from das_spark.evaluation.study import Study
from das_spark.evaluation.template import rendered
from das_spark.evaluation.uncertainty import Interval

_SIZES = (
    "Median, mean and 95th percentile of the absolute difference between protected and confidential counts: {counted} "
    "of each geounit (total) and {counted} of each geounit in each stratum; strata that are zero in both are left out."
)
_SIGNED = (
    "Protected minus confidential counts: the bar holds the middle half, the line runs from the 5th to the 95th "
    "percentile, the tick is the median and the dot the mean (bias). Blue: totals; orange: strata."
)
_AGREEMENT = (
    "One minus the total variation distance between protected and confidential counts, over all geounits of a "
    "geolevel: 1 - (sum of absolute differences) / (2 x {counted})."
)
_LARGEST = (
    "Share of the geounits in which the share of the largest group ({groups}) is within 5 percentage points of the "
    "confidential one, by {counted} in the geounit; points of 5 geounits or more; dashed: {aim}, the aim "
    "that was announced for the redistricting data of 2020 from a size of 500."
)
_SPREAD = "Mean absolute residual in each run (dots) and its mean over the runs (bar)."


def accuracy_page(report: AccuracyReport, spreads: Sequence[Spread] = (), study: Study | None = None) -> str:
    """Render the page.

    Args:
        report: One run, or several pooled.
        spreads: Spread over the runs, where there are several.
        study: Of the same runs: privacy loss, bias by homogeneity, samples; None for a page without.

    Returns:
        HTML.
    """
    return rendered(
        "accuracy.html",
        report=report,
        figures=_figures(report, spreads),
        queries=_by_level(report.errors),
        largest=report.headlines("largest group"),
        totals=report.headlines("total"),
        other_groups=[
            line for line in report.criteria if line.query not in (TOTAL, report.groups) and line.bins == FIFTIES
        ],
        spreads=_shown(report, spreads),
        study=study,
        studied=[] if study is None else list(study.drawn()),
        losses=[] if study is None else [one for one in study.statistics if one.settings and one.n],
        errors=[] if study is None else [one for one in study.statistics if not one.settings and one.n],
        intervals={} if study is None else intervals_of(study.statistics),
        percent=percent,
        definitions=definitions(report.counted),
        restricted=RESTRICTED,
    )


def intervals_of(statistics: Iterable[Statistic]) -> dict[tuple[str, str], dict[str, Interval]]:
    """Of every place and measure the intervals over residuals by name of the error figure, as far as there are any.

    Args:
        statistics: Of one study; empirical privacy losses are passed over.

    Returns:
        (place, measure) -> name of the figure -> interval.
    """
    found: dict[tuple[str, str], dict[str, Interval]] = {}
    for one in statistics:
        if one.interval is not None and not one.settings:
            found.setdefault((one.place, one.measure), {})[one.name] = one.interval
    return found


def _figures(report: AccuracyReport, spreads: Sequence[Spread]) -> list[Captioned]:
    """Figures and captions, as far as there is something to draw."""
    words = {"counted": report.counted, "groups": report.groups, "aim": f"{float(AIM):.0%}"}
    drawn = []
    shown = [entry for entry in report.entries if entry.frequencies.total]
    if shown:
        drawn += [(error_sizes(shown, report.counted), _SIZES), (signed_errors(shown, report.counted), _SIGNED)]
    agreeing = [line for line in _by_sizes(report.errors) if line.whole.counted]
    if agreeing:
        drawn.append((agreement(agreeing), _AGREEMENT))
    largest: tuple[Criterion, ...] = report.headlines("largest group")
    if largest:
        drawn.append((within_by_population(largest, report.counted), _LARGEST))
    means = [one for one in spreads if one.figure == "mean_absolute" and not one.bins]
    if means:
        drawn.append((spread_over_runs(means, report.counted), _SPREAD))
    return [Captioned(svg, caption.format(**words)) for svg, caption in drawn]


def _by_sizes(errors: Sequence[QueryErrors]) -> list[QueryErrors]:
    """One line a geolevel and query: by the classes of the geolevel."""
    return list({(line.place, line.query): line for line in reversed(errors)}.values())[::-1]


def _by_level(errors: Sequence[QueryErrors]) -> dict[str, list[QueryErrors]]:
    levels: dict[str, list[QueryErrors]] = {}
    for line in _by_sizes(errors):
        levels.setdefault(line.place, []).append(line)
    return levels


def _shown(report: AccuracyReport, spreads: Sequence[Spread]) -> list[Spread]:
    """Spreads of whole levels, of what the page shows first; the rest is in the JSON file."""
    agreeing = [
        one for one in spreads if (one.figure, one.population) == ("one_minus_tvd", ALL) and one.bins != FIFTIES.name
    ]
    return headline_spreads(report, spreads) + agreeing
