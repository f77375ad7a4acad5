"""The short tables of an accuracy report; everything else is in its JSON file and page."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from das_spark.cli.render import number, table
from das_spark.evaluation import headline_spreads

if TYPE_CHECKING:
    from rich.console import Console

    from das_spark.evaluation import AccuracyReport, Spread


def print_accuracy(report: AccuracyReport, out: Console) -> None:
    """Errors of totals and strata, agreement by query, and the two criteria.

    Args:
        report: Of one run, or of several pooled.
        out: Where to print.
    """
    rows = []
    for entry in report.entries:
        shown = entry.figures
        errors = (shown.median_absolute, shown.mean_absolute, shown.p95_absolute, shown.rmse, shown.bias)
        rows.append((entry.place, entry.measure, f"{shown.n:,}", *map(number, errors)))
    columns = ("place", "measure", "counts", "median |error|", "mean |error|", "95th percentile", "RMSE", "bias")
    out.print(table(f"Error in {report.counted} (restricted: not protected by noise)", columns, rows, left=2))
    for note in report.notes:
        out.print(note)
    if report.errors:
        _print_agreement(report, out)
    if report.criteria:
        _print_criteria(report, out)


def print_spread(report: AccuracyReport, spreads: Sequence[Spread], runs: int, out: Console) -> None:
    """The spread of totals, strata and the first criterion over runs.

    Args:
        report: One of the runs.
        spreads: All figures.
        runs: How many runs.
        out: Where to print.
    """
    rows = [
        (each.place, each.measure, each.population, each.figure, number(each.mean), number(each.standard_deviation))
        for each in headline_spreads(report, spreads)
    ]
    columns = ("place", "measure", "population", "figure", "mean", "standard deviation")
    out.print(table(f"\nSpread over {runs} runs", columns, rows, left=4))


def _print_agreement(report: AccuracyReport, out: Console) -> None:
    """A row a query, a column a geolevel."""
    places = list(dict.fromkeys(line.place for line in report.errors))
    found = {(line.query, line.place): line.whole.one_minus_tvd for line in report.errors}
    rows = [
        (query, *(_share(found.get((query, place), float("nan"))) for place in places))
        for query in dict.fromkeys(line.query for line in report.errors)
    ]
    out.print(table("\n1 - total variation distance, by query", ("query", *places), rows))


def _print_criteria(report: AccuracyReport, out: Console) -> None:
    """Of each geolevel, how often the largest group's share and the total are close."""
    rows = []
    for line in (*report.headlines("largest group"), *report.headlines("total")):
        what = f"share of the largest of {line.query}" if line.name == "largest group" else "total"
        for label, part in line.overall():
            shown = part.numbers()
            close = (_share(shown["share_within"]), _share(shown["mean_difference"]))
            rows.append((what, line.place, label, f"{part.geounits:,}", *close))
    columns = ("within 5 % of", "place", "population", "geounits", "within", "mean difference")
    out.print(table("\nHow often the release is close", columns, rows, left=3))


def _share(value: float) -> str:
    return "-" if isnan(value) else f"{value:.2%}"
