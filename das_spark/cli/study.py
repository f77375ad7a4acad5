"""Tables of a study and of a comparison; everything else is in their files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from das_spark.cli.render import number, table

if TYPE_CHECKING:
    from fractions import Fraction

    from rich.console import Console

    from das_spark.evaluation import RunComparison, Study
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


def print_study(study: Study, out: Console) -> None:
    """Empirical privacy loss, bias by homogeneity index in the leaf, and the closest samples.

    Args:
        study: Of one configuration.
        out: Where to print.
    """
    rows = [
        (
            each.place,
            each.measure,
            each.settings,
            f"{each.n:,}",
            each.why_undefined if each.value is None else number(each.value),
            _ends(each.interval),
            _ends(each.over_runs),
        )
        for each in study.statistics
        if each.name == "empirical_privacy_loss" and each.n
    ]
    columns = ("place", "measure", "bandwidth", "counts", "loss", "95 % over residuals", "95 % over runs")
    out.print(table("\nEmpirical privacy loss (the largest of ln f(x) - ln f(x + 1))", columns, rows, left=3))
    _print_homogeneity(study, out)
    if study.closest:
        shares = [
            (
                each.place,
                each.measure,
                *map(number, each.release),
                *map(_share, (each.shares.by_median_absolute, each.shares.by_loss, each.shares.by_both)),
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
        (line.place, line.definition, index, f"{numbers['n']:,}", f"{numbers['bias']:+.3g}")
        for line in study.report.homogeneity
        if line.place == leaf
        for index, numbers in line.numbers()
    ]
    columns = ("place", "definition", "index", "geounits", "bias")
    out.print(table("\nBias of totals by homogeneity index", columns, rows, left=2))


def _ends(interval: Interval | None) -> str:
    return "-" if interval is None else f"{number(interval.low)} to {number(interval.high)}"


def _share(share: Fraction | None) -> str:
    return "-" if share is None else f"{float(share):.3g}"
