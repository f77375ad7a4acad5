"""Two configurations side by side: differences of their errors, with confidence intervals.

With several runs a side, an interval is one over runs. Runs are independent: keys of the operating system share no
random bits, and a sweep gives every run a test key of its own; so the interval is that of Welch's t test, which needs
no order, nor as many runs of both. Only runs that were made under the same test keys share bits, so that much of their
noise cancels when they are paired in the order in which they are named; that must be asked for. With one run a side, an
interval can only cover geounits, the same ones in both: it tells of these two runs, not of what their configurations
would give another time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import sqrt
from statistics import fmean
from typing import Any, Final, Literal

from das_spark.errors import InputError
from das_spark.evaluation.accuracy import AccuracyReport, facts_together
from das_spark.evaluation.metrics import Frequencies
from das_spark.evaluation.statistics import LOSS
from das_spark.evaluation.study import PooledStatistic, statistics_of
from das_spark.evaluation.uncertainty import (
    LEVEL,
    Interval,
    paired_difference,
    student_interval,
    unpaired_difference,
    with_spread,
)
from das_spark.report import (
    CSV,
    EVERYWHERE,
    PAGE,
    PEOPLE,
    RESTRICTED,
    Axis,
    Cell,
    Figure,
    Guide,
    Panel,
    Report,
    ReportColumn,
    ReportSection,
    ReportTable,
    Span,
    Whiskers,
    number,
)

Over = Literal["runs", "geounits"]
#: How a difference was tested: Welch's t test on independent runs, or Student's on pairs of runs or of geounits.
Method = Literal["welch", "paired_runs", "paired_geounits"]

#: Mean difference of absolute residuals of the same geounits (and strata) in both.
PAIRED: Final = "absolute_residual_by_geounit"
_SCHEMA_VERSION: Final = 2
_FORM: Final = ",.4g"


@dataclass(frozen=True, slots=True)
class ComparedRow:
    """One figure of both sides, and their difference."""

    place: str  # a geolevel
    measure: str  # `total`, or the query of the strata
    statistic: str  # name of the figure; `PAIRED` for the difference of absolute residuals, geounit by geounit
    settings: str  # of empirical privacy loss; empty for other figures
    unit: str  # what it is counted in
    n: int  # residuals, or pairs of them, of all runs
    # Mean of the figure over the runs of the first side; None where it is undefined, and for `PAIRED`, which is of
    # the strata that have people in the truth or in either run, as no figure of one side is.
    first: float | None
    second: float | None  # the same of the second side
    difference: float | None  # first minus second; below zero where the first has the smaller figure
    interval: Interval | None  # of the difference; None where there is none
    pairs: int  # pairs of runs; 0 where runs are not paired
    p: float | None  # two-sided p-value of "no difference" over runs; None where there is none


@dataclass(frozen=True, slots=True)
class RunComparison:
    """Two configurations side by side."""

    product: str
    counted: str  #: what is counted, in the plural
    first: tuple[str, ...]  #: names of the runs of the first side
    second: tuple[str, ...]  #: of the second side; where runs are paired, in the order in which they are
    differing: Mapping[str, tuple[Any, Any]]  #: key path -> values of the first and of the second configuration
    lines: tuple[ComparedRow, ...]  #: in the order of the spine
    notes: tuple[str, ...]  #: sentences that a reader must know
    method: Method  #: how the intervals of all lines were computed
    facts: Mapping[str, str] = field(default_factory=dict)  #: of the runs of both sides by name
    words: Mapping[str, str] = field(default_factory=dict)  #: query -> what people read in its place

    def said(self, name: str) -> str:
        """A query or a geolevel as people read it."""
        return self.words.get(name, name.replace("_", " "))

    def to_json(self) -> str:
        """The comparison as text."""
        content = {"schema_version": _SCHEMA_VERSION, "classification": RESTRICTED, **asdict(self)}
        return json.dumps(content, indent=1, allow_nan=False) + "\n"


def compare_reports(
    first: Sequence[AccuracyReport],
    second: Sequence[AccuracyReport],
    differences: Sequence[Mapping[tuple[str, str], Frequencies]],
    differing: Mapping[str, tuple[Any, Any]],
    over: Over | None = None,
    *,
    paired: bool = False,
) -> RunComparison:
    """Set two configurations side by side.

    Args:
        first: Reports of the runs of the first side.
        second: Of the second.
        differences: Of each pair of runs, place and measure -> how often each difference of absolute residuals occurs
            (first minus second); not looked at where the method is Welch's.
        differing: Settings in which the two differ, with both values.
        over: What intervals cover; runs where there are several, otherwise geounits, where None.
        paired: Runs at the same place belong together, for they were made under the same test key.

    Raises:
        InputError: Pairs are needed and the sides have different numbers of runs; or runs are to be covered and there
            is one of a side.
    """
    method = method_of(len(first), len(second), over, paired=paired)
    sides = (statistics_of(first, replicates=0), statistics_of(second, replicates=0))
    lines: list[ComparedRow] = []
    for places, found in _by_entry(sides).items():
        if method == "welch":
            lines.append(_line_of_sums(places, (first, second), found[0][0].unit))
        else:
            lines.append(_paired_line(places, [difference[places] for difference in differences], method, found))
        lines += [_line(one, other, method) for one, other in found]
    own, other = (tuple(run for report in side for run in report.runs) for side in (first, second))
    notes = (_NOTES[method],)
    facts = facts_together([report.facts for report in (*first, *second)])
    of = (first[0].product, first[0].counted, own, other, differing, tuple(lines), notes, method)
    return RunComparison(*of, facts=facts, words=first[0].words)


def method_of(first: int, second: int, over: Over | None = None, *, paired: bool = False) -> Method:
    """How the intervals of a comparison are computed.

    Args:
        first: Runs of the first side.
        second: Runs of the second side.
        over: What is asked for; None for runs, where there are several.
        paired: Whether runs are paired in their order.

    Raises:
        InputError: Pairs are needed and the sides have different numbers of runs; or runs are to be covered and there
            is one of a side.
    """
    several = min(first, second) > 1
    if over == "runs" and not several:
        raise InputError(
            f"{first} runs beside {second}: an interval over runs needs two or more of each configuration",
            hint="run both again under other keys, or ask for --over geounits",
        )
    over_runs = over == "runs" or (over is None and several)
    if first != second and (paired or not over_runs):
        why = "--paired takes them in pairs" if paired else "geounits are compared in pairs of runs"
        hint = "name as many runs of one configuration as of the other"
        if several:
            hint += "; runs that do not share test keys need no pairs: leave --paired and --over geounits out"
        raise InputError(f"{first} runs beside {second}: {why}", hint=hint)
    if not over_runs:
        return "paired_geounits"
    return "paired_runs" if paired else "welch"


_NOTES: Final[Mapping[Method, str]] = {
    "welch": (
        "intervals cover runs, which are taken as independent (Welch's t test); runs under the same test keys would be "
        "compared with --paired"
    ),
    "paired_runs": (
        "intervals cover pairs of runs, in the order in which the runs were named (paired t test): that gains where "
        "the runs of a pair share a test key, and loses degrees of freedom where they do not"
    ),
    "paired_geounits": (
        "intervals cover geounits only, paired and as if they were independent: they tell of the residuals of these "
        "runs, not of what the configurations would give under other noise"
    ),
}

_FEWEST: Final = 2
_Both = tuple[PooledStatistic, PooledStatistic]
_Sides = tuple[Sequence[AccuracyReport], Sequence[AccuracyReport]]


def _by_entry(sides: tuple[Sequence[PooledStatistic], Sequence[PooledStatistic]]) -> dict[tuple[str, str], list[_Both]]:
    """Place and measure -> the figures of both sides; of those that both have."""
    second = {(one.place, one.measure, one.name, one.settings): one for one in sides[1]}
    found: dict[tuple[str, str], list[_Both]] = {}
    for one in sides[0]:
        other = second.get((one.place, one.measure, one.name, one.settings))
        if other is not None:
            found.setdefault((one.place, one.measure), []).append((one, other))
    return found


def _paired_line(
    of: tuple[str, str], differences: Sequence[Frequencies], method: Method, figures_of: Sequence[_Both]
) -> ComparedRow:
    """The difference of absolute residuals, geounit by geounit."""
    means = [difference.mean for difference in differences if difference.total]
    mean = fmean(means) if means else None
    interval, p = None, None
    if method == "paired_runs" and len(means) == len(differences):
        found = paired_difference(means, [0.0] * len(means), LEVEL)
        interval, p = with_spread(found.interval), found.p
    elif method == "paired_geounits" and mean is not None:
        interval = _over_geounits(differences, mean)
    n, unit, pairs = sum(difference.total for difference in differences), figures_of[0][0].unit, len(differences)
    return ComparedRow(*of, PAIRED, "", unit, n, None, None, mean, interval, pairs, p)


def _line_of_sums(of: tuple[str, str], sides: _Sides, unit: str) -> ComparedRow:
    """The difference of absolute residuals where runs have no partner.

    Over the same geounits, a mean of differences is the difference of the sums over their number. For totals these are
    the geounits. Strata that a run leaves out, for they are zero in both histograms, add nothing to its sum; the number
    is what runs have on average, and so the same for all runs and whatever their order.
    """
    entries = [[report.entry(*of).frequencies for report in side] for side in sides]
    numbers = [each.total for side in entries for each in side]
    mean, interval, p = None, None, None
    if sum(numbers):
        own, other = ([each.absolute_sum * len(numbers) / sum(numbers) for each in side] for side in entries)
        found = unpaired_difference(own, other, LEVEL)
        mean, interval, p = found.mean, with_spread(found.interval), found.p
    return ComparedRow(*of, PAIRED, "", unit, sum(numbers), None, None, mean, interval, 0, p)


def _over_geounits(differences: Sequence[Frequencies], mean: float) -> Interval | None:
    """Mean +- t x standard error, over all differences as if they were independent; None where there are too few."""
    n = sum(difference.total for difference in differences)
    if n < _FEWEST:
        return None
    # In integers: no rounding makes a spread of what has none, or takes it away.
    summed, squared = (sum(difference.sum_of(power) for difference in differences) for power in (1, 2))
    variance = (n * squared - summed**2) / (n * (n - 1))
    return replace(student_interval(mean, sqrt(variance / n), n - 1, LEVEL), over="geounits")


def _line(one: PooledStatistic, other: PooledStatistic, method: Method) -> ComparedRow:
    """A figure of both sides: mean of the runs' own figures."""
    first, second = _mean(one), _mean(other)
    difference = None if first is None or second is None else first - second
    interval, p = None, None
    if method != "paired_geounits" and difference is not None:
        compare = paired_difference if method == "paired_runs" else unpaired_difference
        found = compare(_defined(one), _defined(other), LEVEL)
        interval, p = with_spread(found.interval), found.p
    n, pairs = one.n + other.n, 0 if method == "welch" else len(one.of_runs)
    of = (one.place, one.measure, one.name, one.settings, one.unit)
    return ComparedRow(*of, n, first, second, difference, interval, pairs, p)


def _mean(one: PooledStatistic) -> float | None:
    values = _defined(one)
    return fmean(values) if len(values) == len(one.of_runs) else None


def _defined(one: PooledStatistic) -> list[float]:
    return [value for value in one.of_runs if value is not None]


#: What people read in place of the names of figures.
_FIGURE_NAMES: Final[Mapping[str, str]] = {
    PAIRED: "|error|, geounit by geounit",
    "mean_absolute": "mean |error|",
    "median_absolute": "median |error|",
    "p95_absolute": "95th percentile of |error|",
    "rmse": "RMSE",
    "bias": "bias",
    LOSS: "privacy loss",
}
_HOW: Final[Mapping[Method, str]] = {
    "welch": ", not paired (Welch)",
    "paired_runs": ", in pairs",
    "paired_geounits": ", in pairs",
}


def present_comparison(comparison: RunComparison) -> Report:
    """What every medium says of two configurations."""
    differing = [(key, str(one), str(other)) for key, (one, other) in comparison.differing.items()]
    settings = ReportTable.of("settings", "What differs", ("setting", "first", "second"), differing, media=PEOPLE)
    paired = [line for line in comparison.lines if line.statistic == PAIRED and line.interval is not None]
    note = (
        "First minus second: below zero where the first has the smaller figure. A figure is the mean over the runs of "
        f"each side. {_FIGURE_NAMES[PAIRED]}: mean over geounits (and strata that have people in the truth or in a "
        "run) of the difference of absolute residuals; where runs are not paired, difference of their sums over the "
        "mean number of counts of a run."
    )
    return Report(
        f"Two configurations of {comparison.product}",
        (
            *((ReportSection("What differs", (settings,)),) if differing else ()),
            ReportSection("Differences", (note, *_difference_tables(comparison))),
        ),
        restricted=RESTRICTED,
        lead=(f"First: {', '.join(comparison.first)}. Second: {', '.join(comparison.second)}.",),
        notes=comparison.notes,
        facts=comparison.facts,
        verdict=_verdict(comparison),
        picture=_differences(paired, comparison) if paired else None,
    )


def _verdict(comparison: RunComparison) -> str:
    """Which side errs less, where, by how much, and where nothing can be said."""
    lines = [line for line in comparison.lines if line.statistic == PAIRED and line.difference is not None]
    clear = [line for line in lines if line.interval is not None and (line.interval.high < 0 or line.interval.low > 0)]
    sides = {
        "first": [line for line in clear if (line.difference or 0) < 0],
        "second": [line for line in clear if (line.difference or 0) > 0],
    }
    parts = []
    for side, better in sides.items():
        if better:
            most = max(better, key=lambda line: abs(line.difference or 0))
            parts.append(
                f"The {side} configuration has the smaller errors in {len(better)} of {len(lines)} comparisons; most "
                f"at {comparison.said(most.place)}, {comparison.said(most.measure)}, by "
                f"{number(abs(most.difference or 0))} {most.unit} on average."
            )
    if not clear:
        parts.append("No comparison shows a difference that is clearly not zero.")
    unclear = len(lines) - len(clear)
    if clear and unclear:
        parts.append(f"In the other {unclear} the interval holds zero, or there is none.")
    return " ".join(parts)


def _difference_tables(comparison: RunComparison) -> tuple[ReportTable, ...]:
    """All figures; the page shows errors geounit by geounit first, and the others when asked to."""
    columns: tuple[str | tuple[str, ...] | ReportColumn, ...] = (
        *(ReportColumn(name, media=CSV) for name in ("place", "measure")),
        ReportColumn("where", "place", media=PEOPLE),
        ReportColumn("what", "measure", media=PEOPLE),
        ReportColumn("statistic", media=CSV),
        ReportColumn("settings", media=CSV),
        ReportColumn("figure", media=PEOPLE),
        ReportColumn("unit", media=CSV),
        *(("n", "counts"), ("first", "", _FORM), ("second", "", _FORM), ("difference", "first - second", _FORM)),
        ReportColumn("interval", "95 %", _FORM, fields=("low", "high"), missing="none"),
        ReportColumn("level", media=CSV),
        ReportColumn("over", missing=""),
        ReportColumn("method", media=CSV),
        ReportColumn("pairs", media=CSV),
        ReportColumn("p", form=".2g", missing=""),
    )
    rows = []
    for line in comparison.lines:
        of = line.interval
        span: dict[str, Cell] = dict.fromkeys(("interval", "level", "over", "method"))
        if of is not None:
            span = {"interval": Span(of.low, of.high), "level": of.level, "over": of.over, "method": comparison.method}
        said = {"where": comparison.said(line.place), "what": comparison.said(line.measure)}
        name = _FIGURE_NAMES.get(line.statistic, line.statistic)
        rows.append({**asdict(line), **said, "figure": f"{name} {line.settings}".strip(), **span})
    first, rest = ([row for row in rows if (row["statistic"] == PAIRED) is paired] for paired in (True, False))
    return (
        ReportTable.of("errors", "Mean absolute errors, geounit by geounit", columns, first, media=PAGE),
        ReportTable.of("comparison", "All figures", columns, rows, media=EVERYWHERE - PAGE),
        ReportTable.of("other_figures", "Other figures", columns, rest, media=PAGE, folded=True),
    )


def _differences(lines: Sequence[ComparedRow], comparison: RunComparison) -> Figure:
    """Differences with their intervals, a row a place and measure; grey where the interval holds zero."""
    series = []
    for clear, color in ((True, 0), (False, None)):
        found = [
            (row, line.interval.low, line.interval.high, line.difference)
            for row, line in enumerate(lines)
            if line.interval is not None and line.difference is not None
            if (line.interval.high < 0 or line.interval.low > 0) is clear
        ]
        if found:
            rows, low, high, values = zip(*found, strict=True)
            series.append(Whiskers(rows, low, high, color, 3, values))
    over = lines[0].interval.over if lines[0].interval else ""
    caption = (
        f"Mean difference of absolute residuals, first minus second, in {comparison.counted}: to the left of zero the "
        f"first is nearer to the confidential counts. Bars: 95 % intervals over {over}{_HOW[comparison.method]}; "
        f"{len(comparison.first)} and {len(comparison.second)} runs."
    )
    axis = Axis(f"first minus second ({comparison.counted})")
    names = tuple(f"{comparison.said(line.place)}: {comparison.said(line.measure)}" for line in lines)
    panel = Panel((*series, Guide(x=0)), axis, rows=names)
    return Figure(caption, (panel,), title="Which has the smaller errors")
