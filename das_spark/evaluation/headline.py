"""What the first screen of an accuracy report says: how good the release is, and where it is bad, from its numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite
from typing import Final

from das_spark.evaluation.accuracy import TOTAL, AccuracyReport
from das_spark.evaluation.metric_rows import ErrorPart, QueryErrors, by_sizes
from das_spark.report import STROKES, Axis, Curve, Figure, KeyFigure, Panel, number, percent

#: Fewer geounits than these are not named as the worst, and make no point of a curve.
FEWEST: Final = 5
_TWO: Final = 2


@dataclass(frozen=True, slots=True)
class _SizeClass:
    """The totals of the geounits of one geolevel and class of population."""

    place: str
    label: str  # of the class
    part: ErrorPart

    @property
    def error(self) -> float:
        """Mean absolute error of a total."""
        return self.part.frequencies.absolute_sum / self.part.geounits

    @property
    def population(self) -> float:
        """Mean of the confidential totals."""
        return self.part.counted / self.part.geounits

    @property
    def relative(self) -> float:
        """Mean absolute error as a share of the mean population."""
        return self.part.frequencies.absolute_sum / self.part.counted


def totals_of(report: AccuracyReport) -> list[QueryErrors]:
    """Errors of totals, a line a geolevel, by its classes of population."""
    return [line for line in by_sizes(report.errors) if line.query == TOTAL and line.all_classes.geounits]


def verdict(report: AccuracyReport) -> str:
    """How good, and where bad, in at most three sentences; empty of a report without residuals."""
    lines = totals_of(report)
    if not lines:
        return _verdict_of_entries(report)
    return " ".join(part for part in (_by_level(report, lines), _worst_class(report, lines), _least(report)) if part)


def key_figures(report: AccuracyReport) -> tuple[KeyFigure, ...]:
    """Three numbers of the leaf: half of the totals, nearly all of them, and the share of people in the right group."""
    entries = [entry for entry in report.entries if entry.frequencies.total]
    lines = totals_of(report)
    leaf = lines[-1].place if lines else entries[-1].place if entries else ""
    found = []
    for entry in entries:
        if (entry.place, entry.measure) == (leaf, TOTAL):
            figures, place = entry.figures, report.said(leaf)
            size = "" if not lines else f"; a {place} has {number(round(_mean_size(lines[-1]), 1))} on average"
            half = f"half of the {figures.n:,} totals of a {place} are off by no more{size}"
            most = f"95 of 100 totals of a {place} are off by no more; the largest error is {figures.largest:,.0f}"
            found = [
                KeyFigure(number(figures.median_absolute), report.counted, half),
                KeyFigure(number(round(figures.p95_absolute, 1)), report.counted, most),
            ]
    strata = next((entry.measure for entry in reversed(entries) if entry.measure != TOTAL), "")
    for line in by_sizes(report.errors):
        share = line.all_classes.one_minus_tvd
        if (line.place, line.query) == (leaf, strata) and isfinite(share):
            what = f"of the {report.counted} of a {report.said(leaf)} are counted in the right group of"
            found.append(KeyFigure(rough_share(max(share, 0)), "", f"{what} {report.said(strata)} (1 - TVD)"))
    return tuple(found)


def picture(report: AccuracyReport) -> Figure | None:
    """Mean error of totals by size of the geounit, in counts and in percent; None where there are no two sizes."""
    sizes = [[each for each in _classes(line) if each.part.counted and each.error] for line in totals_of(report)]
    drawn = [size for size in sizes if size]
    if sum(map(len, drawn)) < _TWO:
        return None
    counts, shares = [], []
    for at, line in enumerate(drawn):
        across, stroke = [each.population for each in line], STROKES[at % len(STROKES)]
        name = report.said(line[0].place)
        counts.append(Curve(across, [each.error for each in line], name, at, stroke, at, size=7))
        shares.append(Curve(across, [100 * each.relative for each in line], "", at, stroke, at, size=7))
    size = Axis(f"mean {report.counted} in the geounit", "decades")
    panels = (
        Panel(tuple(counts), size, Axis(f"mean error ({report.counted})", "log"), f"in {report.counted}"),
        Panel(tuple(shares), size, Axis(f"mean error (% of {report.counted})", "decades"), "in percent of the total"),
    )
    caption = (
        f"Mean absolute error of the totals of geounits by their size: in {report.counted}, and in percent of the "
        f"{report.counted} that they have. A point is a class of geounits by their confidential population; classes "
        "without an error are left out."
    )
    return Figure(caption, panels, legend="above", title="Error of the total by size of the geounit")


def why_unbiased(report: AccuracyReport) -> str:
    """Why the bias is zero in every row, where it is; empty where it is not."""
    entries = [entry for entry in report.entries if entry.frequencies.total]
    totals = [entry for entry in entries if entry.measure == TOTAL]
    exact = [report.said(entry.place) for entry in totals if not entry.frequencies.absolute_sum]
    if not exact or any(entry.figures.bias for entry in totals):
        return ""
    return (
        f"The bias of totals is 0 in every row, for the total of {_listed(exact)} is published exactly, and the "
        "geounits below add up to it: what one of them has too many, others have too few. It says nothing of single "
        "geounits; their errors are in the other columns."
    )


def _classes(line: QueryErrors) -> list[_SizeClass]:
    """Classes of population that have geounits."""
    return [_SizeClass(line.place, line.bins.label(part.bin), part) for part in line.parts if part.geounits]


def _mean_size(line: QueryErrors) -> float:
    return line.all_classes.counted / line.all_classes.geounits


def _by_level(report: AccuracyReport, lines: Sequence[QueryErrors]) -> str:
    every = [_SizeClass(line.place, "", line.all_classes) for line in lines if line.all_classes.counted]
    exact = [report.said(each.place) for each in every if not each.error]
    wrong = [f"{rough_share(each.relative)} at {report.said(each.place)}" for each in every if each.error]
    parts = [f"exact at {_listed(exact)}"] if exact else []
    if wrong:
        parts.append(f"off by {_listed(wrong)} on average")
    return f"Totals are {', and '.join(parts)}." if parts else ""


def _worst_class(report: AccuracyReport, lines: Sequence[QueryErrors]) -> str:
    """The class of population with the greatest relative error."""
    classes = [each for line in lines for each in _classes(line) if each.part.counted and each.part.geounits >= FEWEST]
    worst = max(classes, key=lambda each: each.relative, default=None)
    if worst is None or not worst.error:
        return ""
    where = f"the {worst.part.geounits:,} geounits of {report.said(worst.place)} with {worst.label} {report.counted}"
    error = f"{number(round(worst.error, 1))} {report.counted} on average"
    return f"Worst: {where}, off by {error} ({rough_share(worst.relative)} of what they have)."


def _least(report: AccuracyReport) -> str:
    """The query and geolevel whose answers agree least."""
    shares = [(line.all_classes.one_minus_tvd, line) for line in by_sizes(report.errors) if line.query != TOTAL]
    known = [pair for pair in shares if isfinite(pair[0])]
    if not known:
        return ""
    share, line = min(known, key=lambda pair: pair[0])
    return (
        f"Least reliable question: {report.said(line.query)} at {report.said(line.place)}, where "
        f"{rough_share(max(share, 0))} of the {report.counted} are counted in the right cell."
    )


def _verdict_of_entries(report: AccuracyReport) -> str:
    """Of a report without errors by population."""
    parts = list(_entry_parts(report))
    return f"Totals: {'; '.join(parts)}." if parts else ""


def _entry_parts(report: AccuracyReport) -> Iterator[str]:
    for entry in report.entries:
        if entry.measure == TOTAL and entry.frequencies.total:
            figures = entry.figures
            yield (
                f"at {report.said(entry.place)} half are within {number(figures.median_absolute)} {report.counted} of "
                f"the truth, and 95 of 100 within {number(round(figures.p95_absolute, 1))}"
            )


def rough_share(share: float) -> str:
    """A share in percent, of two significant digits."""
    return percent(float(f"{share:.2g}"))


def _listed(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}" if len(parts) > 1 else "".join(parts)
