"""Two configurations side by side: differences of their errors, with confidence intervals.

With several runs a side, an interval is one over runs (paired t test on the runs in the order in which they are named:
under one test key a pair shares its random bits, so that much of the noise cancels). With one run a side, an interval
can only cover geounits: it tells of these two runs, not of what their configurations would give another time.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import sqrt
from statistics import NormalDist, fmean
from typing import Any, Final, Literal

from das_spark.errors import InputError
from das_spark.evaluation.comparing import paired_difference
from das_spark.evaluation.definitions import RESTRICTED
from das_spark.evaluation.metrics import Frequencies, figures
from das_spark.evaluation.report import AccuracyReport
from das_spark.evaluation.statistics import LEVEL, Statistic, statistics_of
from das_spark.evaluation.uncertainty import Interval

Over = Literal["runs", "geounits"]

#: Mean difference of absolute residuals of the same geounits (and strata) in both.
PAIRED: Final = "absolute_residual_by_geounit"
SCHEMA_VERSION: Final = 1
_HEADINGS: Final = (
    *("place", "measure", "statistic", "settings", "unit", "n", "first", "second", "difference"),
    *("low", "high", "level", "over", "pairs", "p"),
)


@dataclass(frozen=True, slots=True)
class ComparedLine:
    """One figure of both sides, and their difference.

    Attributes:
        place: A geolevel.
        measure: `total`, or the query of the strata.
        statistic: Name of the figure; `PAIRED` for the difference of absolute residuals, geounit by geounit.
        settings: Of empirical privacy loss; empty for other figures.
        unit: What it is counted in.
        n: Residuals, or pairs of them, of all runs.
        first: Mean of the figure over the runs of the first side; None where it is undefined, and for `PAIRED`, which
            is of the strata that have people in the truth or in either run, as no figure of one side is.
        second: The same of the second side.
        difference: First minus second; below zero where the first has the smaller figure.
        interval: Of the difference; None where there is none.
        pairs: Pairs of runs.
        p: Two-sided p-value of "no difference" over runs; None where there is none.
    """

    place: str
    measure: str
    statistic: str
    settings: str
    unit: str
    n: int
    first: float | None
    second: float | None
    difference: float | None
    interval: Interval | None
    pairs: int
    p: float | None


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two configurations side by side.

    Attributes:
        product: Name of the product.
        counted: What is counted, in the plural.
        first: Names of the runs of the first side.
        second: Of the second side, in the order in which they are paired.
        differing: Key path -> values of the first and of the second configuration.
        lines: In the order of the spine.
        notes: Sentences that a reader must know.
    """

    product: str
    counted: str
    first: tuple[str, ...]
    second: tuple[str, ...]
    differing: Mapping[str, tuple[Any, Any]]
    lines: tuple[ComparedLine, ...]
    notes: tuple[str, ...]

    def to_json(self) -> str:
        """The comparison as text."""
        content = {"schema_version": SCHEMA_VERSION, "classification": RESTRICTED, **asdict(self)}
        return json.dumps(content, indent=1, allow_nan=False) + "\n"

    def to_csv(self) -> str:
        """One line a figure, with headings; an empty field where there is no number."""
        buffer = io.StringIO()
        rows = csv.writer(buffer, lineterminator="\n")
        rows.writerow(_HEADINGS)
        for line in self.lines:
            of = line.interval
            ends = ("", "", "", "") if of is None else (of.low, of.high, of.level, of.over)
            before = (line.place, line.measure, line.statistic, line.settings, line.unit, line.n)
            rows.writerow((*before, line.first, line.second, line.difference, *ends, line.pairs, line.p))
        return buffer.getvalue()


def compare_reports(
    first: Sequence[AccuracyReport],
    second: Sequence[AccuracyReport],
    paired: Sequence[Mapping[tuple[str, str], Frequencies]],
    differing: Mapping[str, tuple[Any, Any]],
    over: Over | None = None,
) -> RunComparison:
    """Set two configurations side by side.

    Args:
        first: Reports of the runs of the first side.
        second: Of the second, as many; those at the same place belong together.
        paired: Of each pair, place and measure -> how often each difference of absolute residuals occurs (first minus
            second).
        differing: Settings in which the two differ, with both values.
        over: What intervals cover; runs where there are several, otherwise geounits, where None.

    Raises:
        InputError: The sides have different numbers of runs; or runs are to be covered and there is one pair.
    """
    chosen = intervals_over(len(first), len(second), over)
    notes = () if chosen == "runs" else (_ONLY_GEOUNITS,)
    sides = (statistics_of(first, replicates=0), statistics_of(second, replicates=0))
    lines: list[ComparedLine] = []
    for places, found in _by_entry(sides).items():
        lines.append(_paired_line(places, [each[places] for each in paired], chosen, found))
        lines += [_line(one, other, chosen) for one, other in found]
    named = [tuple(run for report in side for run in report.runs) for side in (first, second)]
    return RunComparison(first[0].product, first[0].counted, named[0], named[1], differing, tuple(lines), notes)


def intervals_over(first: int, second: int, over: Over | None = None) -> Over:
    """What the intervals of a comparison cover.

    Args:
        first: Runs of the first side.
        second: Runs of the second side.
        over: What is asked for; None for runs, where there are several.

    Raises:
        InputError: The sides have different numbers of runs; or runs are to be covered and there is one pair.
    """
    if first != second:
        raise InputError(
            f"{first} runs beside {second}: runs are compared in pairs",
            hint="name as many runs of one configuration as of the other",
        )
    if over == "runs" and first < 2:  # noqa: PLR2004 - one run shows no spread
        raise InputError(
            "one run of each configuration: an interval over runs needs two or more",
            hint="run both again under other keys, or ask for --over geounits",
        )
    return over or ("runs" if first > 1 else "geounits")


_ONLY_GEOUNITS: Final = (
    "intervals cover geounits only, as if they were independent: they tell of the residuals of these runs, not of what "
    "the configurations would give under other noise"
)

_Both = tuple[Statistic, Statistic]


def _by_entry(sides: tuple[Sequence[Statistic], Sequence[Statistic]]) -> dict[tuple[str, str], list[_Both]]:
    """Place and measure -> the figures of both sides; of those that both have."""
    second = {(one.place, one.measure, one.name, one.settings): one for one in sides[1]}
    found: dict[tuple[str, str], list[_Both]] = {}
    for one in sides[0]:
        other = second.get((one.place, one.measure, one.name, one.settings))
        if other is not None:
            found.setdefault((one.place, one.measure), []).append((one, other))
    return found


def _paired_line(
    of: tuple[str, str], differences: Sequence[Frequencies], over: Over, figures_of: Sequence[_Both]
) -> ComparedLine:
    """The difference of absolute residuals, geounit by geounit."""
    means = [figures(each).bias for each in differences if each.total]
    mean = fmean(means) if means else None
    interval, p = None, None
    if over == "runs" and len(means) == len(differences):
        found = paired_difference(means, [0.0] * len(means), LEVEL)
        interval, p = found.interval, found.p
    elif mean is not None:
        interval = _over_geounits(differences, mean)
    n, unit, pairs = sum(each.total for each in differences), figures_of[0][0].unit, len(differences)
    return ComparedLine(*of, PAIRED, "", unit, n, None, None, mean, interval, pairs, p)


def _over_geounits(differences: Sequence[Frequencies], mean: float) -> Interval:
    """Mean +- z x standard error, over all differences as if they were independent."""
    n = sum(each.total for each in differences)
    squares = sum(figures(each).rmse ** 2 * each.total for each in differences)
    error = sqrt(max(squares / n - mean**2, 0.0) / n)
    reach = NormalDist().inv_cdf((1 + LEVEL) / 2) * error
    return Interval(mean - reach, mean + reach, LEVEL, "geounits")


def _line(one: Statistic, other: Statistic, over: Over) -> ComparedLine:
    """A figure of both sides: mean of the runs' own figures."""
    first, second = _mean(one), _mean(other)
    difference = None if first is None or second is None else first - second
    interval, p = None, None
    if over == "runs" and difference is not None:
        found = paired_difference(_defined(one), _defined(other), LEVEL)
        interval, p = found.interval, found.p
    n, pairs = one.n + other.n, len(one.of_runs)
    of = (one.place, one.measure, one.name, one.settings, one.unit)
    return ComparedLine(*of, n, first, second, difference, interval, pairs, p)


def _mean(one: Statistic) -> float | None:
    values = _defined(one)
    return fmean(values) if len(values) == len(one.of_runs) else None


def _defined(one: Statistic) -> list[float]:
    return [value for value in one.of_runs if value is not None]


def rows_of(comparison: RunComparison, statistics: Sequence[str]) -> Iterator[ComparedLine]:
    """The lines of some figures.

    Args:
        comparison: All of them.
        statistics: Names of figures.
    """
    return (line for line in comparison.lines if line.statistic in statistics)
