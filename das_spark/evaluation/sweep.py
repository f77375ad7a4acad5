"""Accuracy and privacy of one release at several budgets, beside simple random samples of the same population, as data.

The comparison is that of Petti and Flaxman (2020, Gates Open Research 3:1722), figure 2 and table 1, for any release:
median absolute residual and empirical privacy loss of the pooled residuals of all runs at a budget, in every geolevel,
for totals and for strata.

RESTRICTED: the figures come from confidential counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from typing import Final, Literal

from das_spark.errors import InputError
from das_spark.evaluation.accuracy import TOTAL, AccuracyReport, Entry, definitions, facts_together, pool
from das_spark.evaluation.metrics import ErrorFigures
from das_spark.evaluation.privacy_loss import AS_CODED, LossSettings, PrivacyLoss, empirical_privacy_loss
from das_spark.evaluation.samples import (
    CLOSEST,
    ClosestRow,
    ClosestSample,
    SampleEntry,
    SamplePoint,
    SampleReport,
    closest_row,
    closest_table,
)
from das_spark.evaluation.study import span_of
from das_spark.evaluation.study_figures import TradeOffPoint, bias_figure, loss_figure, trade_off
from das_spark.evaluation.tallies import DEFINITIONS
from das_spark.evaluation.uncertainty import LEVEL, Interval, interval_over_runs
from das_spark.report import (
    CSV,
    PAGE,
    RESTRICTED,
    STROKES,
    TERMINAL,
    Axis,
    Block,
    Cell,
    Curve,
    Figure,
    Panel,
    Report,
    ReportColumn,
    ReportSection,
    ReportTable,
    number,
    percent,
)

_TWO: Final = 2


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """How wrong a release at one budget, or samples of one share, are in one geolevel, and what they tell."""

    kind: Literal["release", "sample"]  # `release` or `sample`
    size: Fraction  # the budget, or the share of the sample; exact
    place: str  # a geolevel, or a kind of area
    measure: str  # `total`, or the query of the strata
    figures: ErrorFigures  # of the residuals of all runs (or seeds) pooled, people
    loss: PrivacyLoss  # empirical privacy loss of the same residuals
    # Mean over the runs of the median absolute residual of each, with its interval, people; None for one run and for
    # samples.
    over_runs: Interval | None = None


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The accuracy-privacy curve of a release."""

    product: str
    budget: str  #: what the budgets are called: epsilon or rho
    runs: Mapping[Fraction, tuple[str, ...]]  #: budget -> names of its runs
    points: tuple[CurvePoint, ...]  #: by kind, budget or share, then as in the accuracy report
    closest: tuple[ClosestRow, ...] = ()  #: by budget; none where there are no samples, or the release is exact
    seeds: tuple[int, ...] = ()  #: seeds of the samples
    settings: LossSettings = AS_CODED  #: how empirical privacy losses were computed
    notes: tuple[str, ...] = ()  #: sentences that a reader must know
    counted: str = "people"  #: what is counted, in the plural
    #: Budget -> all of its runs as one, ascending.
    pooled: Mapping[Fraction, AccuracyReport] = field(default_factory=dict)

    @property
    def cost(self) -> Fraction:
        """What all runs cost together, exactly."""
        return sum((total * len(names) for total, names in self.runs.items()), Fraction(0))

    @property
    def lines(self) -> tuple[tuple[str, str], ...]:
        """Places and measures, in the order of the accuracy report."""
        return tuple(dict.fromkeys((point.place, point.measure) for point in self.points if point.kind == "release"))

    def said(self, name: str) -> str:
        """A query or a geolevel as people read it."""
        report = next(iter(self.pooled.values()), None)
        return name if report is None else report.said(name)

    def curve(self, kind: Literal["release", "sample"], place: str, measure: str) -> tuple[CurvePoint, ...]:
        """The points of a place and measure, in the order of budgets or shares."""
        key = (kind, place, measure)
        return tuple(point for point in self.points if (point.kind, point.place, point.measure) == key)

    def closest_to(self, total: Fraction, place: str, measure: str) -> ClosestSample | None:
        """The closest samples of a budget, place and measure; None where there are none."""
        key = (total, place, measure)
        return next((each.closest for each in self.closest if (each.total, each.place, each.measure) == key), None)


def sweep_report(
    runs: Mapping[Fraction, Sequence[AccuracyReport]],
    samples: SampleReport | None,
    budget: str,
    settings: LossSettings = AS_CODED,
) -> SweepReport:
    """Put the runs of a sweep and the samples beside each other.

    Args:
        runs: Budget -> accuracy of each of its runs, one at least.
        samples: Samples of the same population; None where nothing is to be compared with.
        budget: What the budgets are called: epsilon or rho.
        settings: How empirical privacy losses are computed.

    Raises:
        InputError: There is no run, or reports are not about the same places and measures.
    """
    if not runs:
        raise InputError("a sweep without runs has no curve")
    pooled = {total: pool(reports) for total, reports in runs.items()}
    first = next(iter(pooled.values()))
    release = [
        _release_point(total, entry, [report.entries[row] for report in runs[total]], settings)
        for total, report in sorted(pooled.items())
        for row, entry in enumerate(report.entries)
    ]
    drawn = [] if samples is None else [_sample_point(entry, settings) for entry in samples.pooled().entries]
    return SweepReport(
        product=first.product,
        budget=budget,
        runs={total: report.runs for total, report in sorted(pooled.items())},
        points=(*release, *drawn),
        closest=tuple(_closest(release, drawn)),
        seeds=() if samples is None else samples.seeds,
        settings=settings,
        notes=tuple(dict.fromkeys(note for report in pooled.values() for note in report.notes)),
        counted=first.counted,
        pooled=dict(sorted(pooled.items())),
    )


def _release_point(total: Fraction, pooled: Entry, each: Sequence[Entry], settings: LossSettings) -> CurvePoint:
    loss = empirical_privacy_loss(pooled.frequencies, settings)
    interval = interval_over_runs([entry.figures.median_absolute for entry in each], LEVEL)
    return CurvePoint("release", total, pooled.place, pooled.measure, pooled.figures, loss, interval)


def _sample_point(entry: SampleEntry, settings: LossSettings) -> CurvePoint:
    loss = entry.privacy_loss(settings)
    return CurvePoint("sample", entry.share, entry.place, entry.measure, entry.figures, loss)


def _closest(release: Iterable[CurvePoint], drawn: Iterable[CurvePoint]) -> Iterator[ClosestRow]:
    """A line for every point of the release that can be compared."""
    points: dict[tuple[str, str], list[SamplePoint]] = {}
    for each in drawn:
        found = SamplePoint(each.size, each.figures.median_absolute, each.loss.value)
        points.setdefault((each.place, each.measure), []).append(found)
    for point in release:
        of = (point.place, point.measure)
        line = closest_row(of, point.figures, point.loss.value, points.get(of, ()), point.size)
        if line is not None:
            yield line


#: Terms of the accuracy report that the page uses.
_TERMS: Final = ("residual", "total", "stratified", "double_zero", "median_absolute", "p95_absolute", "rmse", "bias")


def present_sweep(sweep: SweepReport, tables: Sequence[ReportTable] = (), *, insecure: bool = False) -> Report:
    """What every medium says of a sweep.

    Args:
        sweep: The curve.
        tables: Further tables of the page, such as one of published figures beside those of the sweep.
        insecure: Whether the runs were made under test keys.
    """
    terms = definitions(sweep.counted)
    made = sum(map(len, sweep.runs.values()))
    budgets = ((total, ", ".join(names)) for total, names in sweep.runs.items())
    runs = ReportTable.of("runs", "Runs", (_budget(sweep), "runs"), budgets, media=PAGE, folded=True)
    return Report(
        f"Accuracy and privacy of {sweep.product} ({len(sweep.runs)} budgets)",
        (
            *_closest_section(sweep),
            *(ReportSection(each.title, (replace(each, title=""),), media=PAGE) for each in tables),
            ReportSection("", (_curve_table(sweep), _printed_table(sweep))),
            *(
                ReportSection(_line_name(sweep, place, measure), tuple(_panel(sweep, place, measure)), media=PAGE)
                for place, measure in sweep.lines
            ),
            ReportSection("Runs", (runs,), media=PAGE),
        ),
        restricted=RESTRICTED,
        notices=("INSECURE: the runs were made under test keys; nothing protects their outputs.",) if insecure else (),
        lead=(
            f"{made} runs on one input, which cost {sweep.budget} = {sweep.cost} together. Residuals of the runs at "
            "a budget are pooled.",
        ),
        notes=sweep.notes,
        definitions={name: terms[name] for name in _TERMS}
        | {
            "over runs": f"{LEVEL:.0%} interval of the mean over runs of the median absolute residual of each run "
            "(Student's t)",
            "privacy loss": "empirical privacy loss: largest absolute value of ln f(x) - ln f(x + 1), f the density of "
            "the residuals; a figure of these data, no guarantee. Depends on how many counts there are: compare at "
            "equal numbers only",
            "plateau": "median of the same absolute values",
            "simple random sample": f"a share of all {sweep.counted} drawn without replacement, each weighted by "
            "1 / share; totals of all geounits, strata that somebody is in",
        },
        facts=facts_together([report.facts for report in sweep.pooled.values()]),
        verdict=_verdict(sweep),
        picture=_error_by_budget(sweep),
    )


def _verdict(sweep: SweepReport) -> str:
    """What the budget buys at the lowest place, from the smallest to the largest."""
    parts: list[str] = []
    ends = ""
    for place, measure in sweep.lines[-_TWO:]:  # total and strata of the last place
        points = sweep.curve("release", place, measure)
        first, last = points[0], points[-1]
        if len(points) < _TWO or not last.figures.mean_absolute:
            continue
        small, large = (f"{sweep.budget} {each.size}" for each in (first, last))
        before, after = first.figures.mean_absolute, last.figures.mean_absolute
        text = f"from {number(round(before, 1))} to {number(round(after, 1))} {sweep.counted}"
        parts.append(f"{_line_name(sweep, place, measure)} {text} ({percent(float(f'{after / before:.2g}'))} of it)")
        ends = f"Mean errors at {small} and at {large}"
    if not parts:
        return ""
    found = [f"{ends}: {'; '.join(parts)}."]
    nearest = [
        (each.size, closest.by_median_absolute)
        for each in sweep.curve("release", *sweep.lines[-1])
        if (closest := sweep.closest_to(each.size, *sweep.lines[-1])) and closest.by_median_absolute is not None
    ]
    if nearest:
        alike = " and ".join(
            f"one of {percent(share)} at {sweep.budget} {size}" for size, share in nearest[:: len(nearest) - 1 or 1]
        )
        found.append(f"{_line_name(sweep, *sweep.lines[-1])} errs as a simple random sample does: {alike}.")
    return " ".join(found)


def _line_name(sweep: SweepReport, place: str, measure: str) -> str:
    return f"{sweep.said(place)}: {sweep.said(measure)}"


def _error_by_budget(sweep: SweepReport) -> Figure | None:
    """Mean absolute error against the budget, a line a place: totals, and strata; None where nothing can be drawn."""
    panels = []
    places = list(dict.fromkeys(place for place, _ in sweep.lines))
    for totals, title in ((True, "totals"), (False, "strata")):
        curves = []
        for place, measure in sweep.lines:
            points = [each for each in sweep.curve("release", place, measure) if each.figures.mean_absolute > 0]
            if (measure == TOTAL) is totals and points:
                at = places.index(place)
                sizes, errors = zip(*((float(each.size), each.figures.mean_absolute) for each in points), strict=True)
                stroke = STROKES[at % len(STROKES)]
                curves.append(Curve(sizes, errors, sweep.said(place), at, stroke, at, size=7))
        if curves:
            ticks = tuple((float(total), str(total)) for total in sweep.runs)
            x_axis = Axis(sweep.budget, "log", ticks=ticks)
            panels.append(Panel(tuple(curves), x_axis, Axis(f"mean error ({sweep.counted})", "log"), title))
    if not panels:
        return None
    strata = next((measure for _, measure in sweep.lines if measure != TOTAL), "")
    caption = (
        f"Mean absolute error in {sweep.counted} against {sweep.budget}, of the residuals of all runs at a budget, by "
        f"geolevel: of totals, and of the strata ({sweep.said(strata)}). Both scales are logarithmic; what is exact is "
        "left out."
    )
    return Figure(caption, tuple(panels), legend="above", title=f"What {sweep.budget} buys")


def _closest_section(sweep: SweepReport) -> Iterator[ReportSection]:
    table = closest_table(sweep.closest, sweep.budget)
    if not sweep.closest:
        yield ReportSection("", (replace(table, media=CSV),), media=CSV)
        return
    rules = f"By error: {CLOSEST['by_median_absolute']}. By loss: {CLOSEST['by_loss']}. By both: {CLOSEST['by_both']}."
    note = (
        "Of the samples compared, the share of the population that comes closest to the release at each budget. "
        f"{rules} A dash: the loss is undefined. What the release holds exactly is not compared."
    )
    yield ReportSection(
        "Closest simple random samples",
        (note, replace(_said_table(sweep, table), title="", media=PAGE), replace(table, media=CSV)),
        media=PAGE | CSV,
    )


def _said_table(sweep: SweepReport, table: ReportTable) -> ReportTable:
    """A table of places and measures as people read them."""
    named = [at for at, column in enumerate(table.columns) if column.name in ("place", "measure")]
    rows = (tuple(sweep.said(str(cell)) if at in named else cell for at, cell in enumerate(row)) for row in table.rows)
    return replace(table, rows=tuple(rows))


def _curve_table(sweep: SweepReport) -> ReportTable:
    """All points, for programs."""
    columns = (
        *("kind", "size", "place", "measure", "n", "double_zero", "median_absolute", "mean_absolute", "p95_absolute"),
        *("rmse", "bias", "largest", "privacy_loss", "privacy_loss_plateau", "why_undefined"),
        ReportColumn("run_median", fields=("run_median_low", "run_median_high")),
    )
    return ReportTable.of("curve", "", columns, map(_point_row, sweep.points), media=CSV)


def _point_row(point: CurvePoint) -> dict[str, Cell]:
    """All that is known of a point, by the names of columns."""
    return {
        **{"kind": point.kind, "size": point.size, "place": point.place, "measure": point.measure},
        **asdict(point.figures),
        **{"privacy_loss": point.loss.value, "privacy_loss_plateau": point.loss.plateau},
        **{"why_undefined": point.loss.why_undefined, "run_median": span_of(point.over_runs)},
    }


def _budget(sweep: SweepReport) -> tuple[str, str, str]:
    """The column of budgets, exact."""
    return ("size", sweep.budget, "exact")


def _printed_table(sweep: SweepReport) -> ReportTable:
    """Error, privacy loss and closest samples, a row a budget, place and measure."""
    rows = []
    for place, measure in sweep.lines:
        for point in sweep.curve("release", place, measure):
            closest = sweep.closest_to(point.size, place, measure)
            shares = dict.fromkeys(CLOSEST) if closest is None else asdict(closest)
            rows.append(_point_row(point) | shares | {"place": sweep.said(place), "measure": sweep.said(measure)})
    columns = (
        *("place", "measure", _budget(sweep), ("n", "counts"), ("median_absolute", "median |error|")),
        *(("p95_absolute", "95th percentile"), ("rmse", "RMSE"), ("privacy_loss", "privacy loss")),
        *(("by_median_absolute", "closest by error", "percent"), ("by_loss", "by loss", "percent")),
        ("by_both", "by both", "percent"),
    )
    reasons = dict.fromkeys(point.loss.why_undefined for point in sweep.points if point.loss.why_undefined)
    note = "\n".join(f"privacy loss -: {reason}" for reason in reasons)
    title = f"Error in {sweep.counted}, empirical privacy loss, closest sample"
    return ReportTable.of("printed", title, columns, rows, note=note, media=TERMINAL)


def _panel(sweep: SweepReport, place: str, measure: str) -> Iterator[Block]:
    """A place and measure: figures where something can be drawn, and tables."""
    release, samples = (sweep.curve(kind, place, measure) for kind in ("release", "sample"))
    circles = list(_marks(release, lambda size: f"{sweep.budget} {size}"))
    if circles:
        yield trade_off(circles, list(_marks(samples, percent)), sweep.settings, sweep.counted)
    yield from _first_and_third(sweep, place, measure)
    reasons = [point.loss.why_undefined for point in (*release, *samples) if point.loss.value is None]
    for reason in dict.fromkeys(reasons):
        times = reasons.count(reason)
        yield f"Without a point in the figure: {times} (the empirical privacy loss is undefined: {reason})."
    name = f"{place}_{measure}".replace(" ", "_")
    yield _point_table(f"release_{name}", "", _budget(sweep), release)
    if samples:
        title = f"Simple random samples ({len(sweep.seeds)} a share)"
        yield _point_table(f"samples_{name}", title, ("size", "share", "percent"), samples)


def _point_table(name: str, title: str, size: tuple[str, str, str], points: Iterable[CurvePoint]) -> ReportTable:
    columns = (
        *(size, ("n", "counts"), ("median_absolute", "median abs.", ",.1f")),
        *(() if title else (("run_median", "over runs", ",.2f"),)),
        *(("mean_absolute", "mean abs.", ",.2f"), ("p95_absolute", "95th pct. abs.", ",.1f"), ("rmse", "RMSE", ",.2f")),
        *(("bias", "", "+,.2f"), ("privacy_loss", "privacy loss", ".4g")),
        ("privacy_loss_plateau", "plateau", ".4g"),
    )
    return ReportTable.of(name, title, columns, map(_point_row, points), media=PAGE, folded=bool(title))


def _first_and_third(sweep: SweepReport, place: str, measure: str) -> Iterator[Figure]:
    """Figure 1 of strata, figure 3 of totals: all budgets side by side."""
    labelled = {f"{sweep.budget} {total}": pooled for total, pooled in sweep.pooled.items()}
    if measure == TOTAL:
        if all(not entry.frequencies.absolute_sum for entry in _entries(sweep, place, measure)):
            return  # exact: nothing to see
        drawn = [bias_figure(labelled, place, definition) for definition in DEFINITIONS]
    else:
        drawn = [loss_figure(labelled, place, measure, sweep.settings)]
    yield from (figure for figure in drawn if figure is not None)


def _entries(sweep: SweepReport, place: str, measure: str) -> list[Entry]:
    return [report.entry(place, measure) for report in sweep.pooled.values()]


def _marks(points: Sequence[CurvePoint], named: Callable[[Fraction], str]) -> Iterator[TradeOffPoint]:
    """Every point that has a loss."""
    for point in points:
        if point.loss.value is not None:
            yield TradeOffPoint(named(point.size), point.loss.value, point.figures.median_absolute, point.figures.n)
