"""The study of one configuration: every statistic with sample size and uncertainty, and samples as good as its runs.

Source: Petti and Flaxman (2020), "Differential privacy in the 2020 US census: what will it do? Quantifying the
accuracy/privacy tradeoff": residuals of all runs are pooled before a figure is taken. Beside it stands its interval
over the residuals (as if geounits were independent), and, with several runs, the mean of the runs' own figures with an
interval of this mean: another number, since a figure such as the largest of a curve depends on how many residuals
there are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Final

from das_spark.errors import UndefinedError
from das_spark.evaluation.accuracy import AccuracyReport, Entry, pool
from das_spark.evaluation.metrics import Frequencies
from das_spark.evaluation.privacy_loss import AS_CODED
from das_spark.evaluation.samples import ClosestRow, SampleReport, closest_row, unequal_seeds_note
from das_spark.evaluation.statistics import LOSS, PLATEAU, STATISTICS, StatisticKind
from das_spark.evaluation.uncertainty import LEVEL, Interval, bootstrap, interval_of_mean, interval_over_runs
from das_spark.report import CSV, JSON, PAGE, PEOPLE, PROGRAMS, Cell, Medium, ReportColumn, ReportTable, Span

#: Resamples behind an interval over residuals.
REPLICATES: Final = 200
#: Names in the table of empirical privacy losses.
_SHORT: Final = {LOSS: "largest", PLATEAU: "plateau"}


@dataclass(frozen=True, slots=True)
class PooledStatistic:
    """One figure of pooled residuals."""

    place: str  #: a geolevel, or a kind of area
    measure: str  #: `total`, or the query of the strata
    name: str
    settings: str  #: settings of empirical privacy loss by name; empty for other figures
    unit: str  #: what it is counted in
    n: int  #: residuals it is computed from
    value: float | None  #: the figure; None where it is undefined
    why_undefined: str  #: why; empty where it is defined
    #: Of the value, over residuals; None where it is undefined, an extreme value, or of one residual.
    interval: Interval | None
    #: The same figure of each run by itself, in their order; None where it is undefined.
    of_runs: tuple[float | None, ...]
    over_runs: Interval | None  #: of `mean_of_runs`, not of the value; None for a single run, or where one is undefined

    @property
    def mean_of_runs(self) -> float | None:
        """Mean of the figures of the runs, n / runs residuals each; None for one run, or where one is undefined."""
        defined = [each for each in self.of_runs if each is not None]
        return fmean(defined) if len(defined) == len(self.of_runs) > 1 else None


def statistics_of(reports: Sequence[AccuracyReport], *, replicates: int = REPLICATES) -> tuple[PooledStatistic, ...]:
    """Every statistic of every geolevel and area, of several runs pooled.

    Args:
        reports: One a run, about the same places.
        replicates: Resamples behind an interval over residuals; 0 for no such intervals.

    Returns:
        Total and strata of every place, in the order of the reports; the figures of one in a fixed order.

    Raises:
        InputError: There is no report, or they cannot be pooled.
    """
    pooled = pool(reports)
    found = []
    for row, entry in enumerate(pooled.entries):
        values, *of_runs = [_values(each.frequencies) for each in (entry, *(report.entries[row] for report in reports))]
        intervals = _intervals(entry.frequencies, replicates) if replicates and entry.frequencies.total else {}
        for kind in STATISTICS.values():
            value, why = values[kind]
            each_run = [of[kind][0] for of in of_runs]
            defined = [each for each in each_run if each is not None]
            found.append(
                PooledStatistic(
                    *(entry.place, entry.measure, kind.name, kind.settings, kind.unit or pooled.counted),
                    entry.frequencies.total,
                    value,
                    why,
                    None if value is None else intervals.get(kind),
                    tuple(each_run),
                    interval_over_runs(defined, LEVEL) if len(defined) == len(each_run) else None,
                )
            )
    return tuple(found)


def _values(residuals: Frequencies) -> dict[StatisticKind, tuple[float | None, str]]:
    """Every figure, or why there is none."""
    if residuals.total == 0:
        return dict.fromkeys(STATISTICS.values(), (None, "there are no residuals"))
    found: dict[StatisticKind, tuple[float | None, str]] = {}
    for kind in STATISTICS.values():
        try:
            found[kind] = kind.of(residuals), ""
        except UndefinedError as reason:
            found[kind] = None, reason.message
    return found


def _intervals(residuals: Frequencies, replicates: int) -> dict[StatisticKind, Interval | None]:
    """Over residuals, all resampled ones from the same resamples; that of the mean is Student's, good for few."""
    kinds: dict[str, list[StatisticKind]] = {}
    for kind in STATISTICS.values():
        kinds.setdefault(kind.interval, []).append(kind)

    def resampled(table: Frequencies) -> dict[StatisticKind, float | None]:
        values = _values(table)
        return {kind: values[kind][0] for kind in kinds["resampling"]}

    student = interval_of_mean(residuals, LEVEL)
    return bootstrap(residuals, resampled, replicates, LEVEL, 0) | dict.fromkeys(kinds["student"], student)


@dataclass(frozen=True, slots=True)
class Study:
    """A study of one configuration, over one run or several."""

    report: AccuracyReport  #: all runs pooled
    statistics: tuple[PooledStatistic, ...]  #: every figure with its uncertainty
    samples: SampleReport | None  #: simple random samples of the same population; None where none was drawn
    closest: tuple[ClosestRow, ...]  #: samples as good as the release; none where none was drawn

    def entries_of_levels(self) -> list[Entry]:
        """Entries of geolevels, without areas."""
        places = {line.place for line in self.report.homogeneity}
        return [entry for entry in self.report.entries if entry.place in places]


def study_of(
    reports: Sequence[AccuracyReport], samples: SampleReport | None = None, *, replicates: int = REPLICATES
) -> Study:
    """Study the runs of one configuration; a note says where samples are not as many as the runs.

    Args:
        reports: One a run.
        samples: Simple random samples of the same population, or None.
        replicates: Resamples behind an interval over residuals.

    Raises:
        InputError: There is no report, or they cannot be pooled; or the samples are of other geolevels.
    """
    pooled = pool(reports)
    statistics = statistics_of(reports, replicates=replicates)
    closest = () if samples is None else tuple(_closest(pooled, statistics, samples))
    notes = () if samples is None else unequal_seeds_note(len(reports), len(samples.seeds))
    return Study(replace(pooled, notes=(*pooled.notes, *notes)), statistics, samples, closest)


def _closest(
    report: AccuracyReport, statistics: Sequence[PooledStatistic], samples: SampleReport
) -> Iterator[ClosestRow]:
    """One for all that was sampled too and is not exact."""
    losses = {
        (one.place, one.measure): one.value for one in statistics if (one.name, one.settings) == (LOSS, AS_CODED.name)
    }
    sampled = {(entry.place, entry.measure) for entry in samples.entries}
    for entry in report.entries:
        of = (entry.place, entry.measure)
        if of in sampled:
            points = [samples.point(share, *of) for share in samples.shares]
            line = closest_row(of, entry.figures, losses[of], points)
            if line is not None:
                yield line


def statistics_table(
    statistics: Iterable[PooledStatistic],
    title: str = "",
    *,
    name: str = "statistics",
    note: str = "",
    media: frozenset[Medium] = PROGRAMS,
    folded: bool = False,
) -> ReportTable:
    """Statistics with their uncertainty, one a row: all for programs, and those with residuals for people."""
    columns = (
        *("place", "measure"),
        ReportColumn("statistic", media=PROGRAMS),
        ReportColumn("figure", media=PEOPLE),
        ReportColumn("settings", "bandwidth", missing=""),
        ReportColumn("unit", media=PROGRAMS | (PAGE if name == "errors" else PROGRAMS)),
        ("n", "counts"),
        ReportColumn("value", media=PROGRAMS),
        ReportColumn("shown", "value", media=PEOPLE),
        ReportColumn("why_undefined", media=PROGRAMS),
        ReportColumn("interval", "95 % over residuals", fields=("low_over_residuals", "high_over_residuals")),
        ReportColumn("of_runs", media=JSON),
        ReportColumn("runs", media=CSV),
        ReportColumn("mean_of_runs", media=PROGRAMS),
        ReportColumn("each", "mean of runs (n/R each), 95 %", media=PEOPLE),
        ReportColumn("over_runs", media=PROGRAMS, fields=("low_over_runs", "high_over_runs")),
        ReportColumn("level", media=CSV),
    )
    return ReportTable.of(name, title, columns, map(_statistic_row, statistics), note=note, media=media, folded=folded)


def _statistic_row(one: PooledStatistic) -> dict[str, Cell]:
    """All that is known of a statistic, by the names of columns."""
    runs = span_of(one.over_runs)
    return {
        **asdict(one),
        "statistic": one.name,
        "figure": _SHORT.get(one.name, one.name),
        "shown": f"undefined: {one.why_undefined}" if one.value is None else one.value,
        "interval": span_of(one.interval),
        "runs": len(one.of_runs),
        "mean_of_runs": one.mean_of_runs,
        "each": one.mean_of_runs if runs is None else replace(runs, value=one.mean_of_runs),
        "over_runs": runs,
        "level": LEVEL,
    }


def span_of(interval: Interval | None) -> Span | None:
    """An interval as a cell of a table."""
    return None if interval is None else Span(interval.low, interval.high, interval.level)
