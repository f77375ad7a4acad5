"""Tables of a study and of a comparison; everything else is in their files."""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Final

from das_spark.cli.render import number, table
from das_spark.evaluation.closest import percent

if TYPE_CHECKING:
    from rich.console import Console

    from das_spark.evaluation import RunComparison, Statistic, Study
    from das_spark.evaluation.uncertainty import Interval

#: Figures of a comparison that are printed; the others are in its files.
_COMPARED = (
    "absolute_residual_by_geounit",
    "median_absolute",
    "p95_absolute",
    "rmse",
    "bias",
    "empirical_privacy_loss",
)

#: Errors that are printed with their uncertainty.
_ERRORS: Final = ("median_absolute", "mean_absolute", "p95_absolute", "rmse", "bias")
#: What is told of a figure: of n residuals of R runs, and of the runs by themselves.
_UNCERTAIN: Final = ("counts", "value", "95 % over residuals", "mean of runs (n/R each), 95 %")


def print_study(study: Study, out: Console) -> None:
    """Errors and empirical privacy loss with their uncertainty, bias by homogeneity index, and the closest samples.

    Args:
        study: Of one configuration.
        out: Where to print.
    """
    rows = [
        (each.place, each.measure, each.name, *_uncertain(each))
        for each in study.statistics
        if each.name in _ERRORS and each.n
    ]
    title = f"\nErrors with their uncertainty, in {study.report.counted} (restricted: not protected by noise)"
    out.print(table(title, ("place", "measure", "figure", *_UNCERTAIN), rows, left=3))
    rows = [
        (each.place, each.measure, each.settings, *_uncertain(each))
        for each in study.statistics
        if each.name == "empirical_privacy_loss" and each.n
    ]
    title = "\nEmpirical privacy loss (the largest of ln f(x) - ln f(x + 1))"
    out.print(table(title, ("place", "measure", "bandwidth", *_UNCERTAIN), rows, left=3))
    _print_homogeneity(study, out)
    if study.closest:
        shares = [
            (
                each.place,
                each.measure,
                *map(number, each.release),
                *map(percent, (each.closest.by_median_absolute, each.closest.by_loss, each.closest.by_both)),
            )
            for each in study.closest
        ]
        columns = ("place", "measure", "median |error|", "loss", "by error", "by loss", "by both")
        out.print(table("\nThe simple random sample closest to the release", columns, shares, left=2))


def print_comparison(comparison: RunComparison, out: Console) -> None:
    """Differences of the main figures with their intervals.

    Args:
        comparison: Of two configurations.
        out: Where to print.
    """
    for name, side in (("first", comparison.first), ("second", comparison.second)):
        out.print(f"{name}: {', '.join(side)}")
    for key, (one, other) in comparison.differing.items():
        out.print(f"  {key}: {one} | {other}")
    rows = [
        (
            line.place,
            line.measure,
            f"{line.statistic} {line.settings}".strip(),
            f"{line.n:,}",
            *map(number, (line.first, line.second, line.difference)),
            _ends(line.interval),
            "" if line.interval is None else line.interval.over,
        )
        for line in comparison.lines
        if line.statistic in _COMPARED
    ]
    columns = ("place", "measure", "figure", "counts", "first", "second", "first - second", "95 %", "over")
    out.print(table("\nDifferences (restricted: not protected by noise)", columns, rows, left=3))
    for note in comparison.notes:
        out.print(note)


def _print_homogeneity(study: Study, out: Console) -> None:
    """The bias by homogeneity index, of the lowest level."""
    if not study.report.homogeneity:
        return
    leaf = study.report.homogeneity[-1].place
    rows = [
        (
            *(line.place, line.definition, index, f"{told['n']:,}", f"{told['bias']:+.3g}"),
            *(_span(told["low"], told["high"]), _span(told["low_over_runs"], told["high_over_runs"])),
        )
        for line in study.report.homogeneity
        if line.place == leaf
        for index, told in line.numbers()
    ]
    columns = ("place", "definition", "index", "residuals", "bias", "95 % over residuals", "95 % over runs")
    title = f"\nBias of totals by homogeneity index, in {study.report.counted}"
    out.print(table(title, columns, rows, left=2))


def _uncertain(one: Statistic) -> tuple[str, ...]:
    """The cells of `_UNCERTAIN`."""
    value = one.why_undefined if one.value is None else number(one.value)
    runs = number(one.mean_of_runs) + (f" ({_ends(one.over_runs)})" if one.over_runs else "")
    return (f"{one.n:,}", value, _ends(one.interval), runs)


def _ends(interval: Interval | None) -> str:
    return "-" if interval is None else _span(interval.low, interval.high)


def _span(low: float, high: float) -> str:
    return "-" if isnan(low) else f"{number(low)} to {number(high)}"
