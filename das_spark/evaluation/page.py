"""The accuracy report as one HTML file that needs nothing else: no script, style sheet or picture from elsewhere."""

from __future__ import annotations

from collections.abc import Sequence

from das_spark.evaluation.figures import error_sizes, signed_errors, spread_over_runs
from das_spark.evaluation.report import DEFINITIONS, RESTRICTED, AccuracyReport, Spread

_SIZES = (
    "Median, mean and 95th percentile of the absolute difference between protected and confidential counts: people of "
    "each geounit (total) and people of each geounit in each stratum; strata that are zero in both are left out."
)
_SIGNED = (
    "Protected minus confidential counts: the bar holds the middle half, the line runs from the 5th to the 95th "
    "percentile, the tick is the median and the dot the mean (bias). Blue: totals; orange: strata."
)
_SPREAD = "Mean absolute residual in each run (dots) and its mean over the runs (bar)."


def accuracy_page(report: AccuracyReport, spreads: Sequence[Spread] = ()) -> str:
    """Render the page.

    Args:
        report: One run, or several pooled.
        spreads: Spread over the runs, where there are several.

    Returns:
        HTML.
    """
    from jinja2 import Environment, PackageLoader, StrictUndefined  # noqa: PLC0415 - only reports pay for it

    shown = [entry for entry in report.entries if entry.frequencies.total]
    figures = []
    if shown:
        figures = [
            {"svg": error_sizes(shown), "caption": _SIZES},
            {"svg": signed_errors(shown), "caption": _SIGNED},
        ]
    means = [one for one in spreads if one.figure == "mean_absolute"]
    if means:
        figures.append({"svg": spread_over_runs(means), "caption": _SPREAD})
    environment = Environment(
        loader=PackageLoader("das_spark.evaluation", "."), autoescape=True, undefined=StrictUndefined
    )
    template = environment.get_template("accuracy.html")
    return template.render(
        report=report, figures=figures, spreads=list(spreads), definitions=DEFINITIONS, restricted=RESTRICTED
    )
