"""Accuracy and privacy of a release at several budgets and settings, beside simple random samples, as data.

The comparison is that of Petti and Flaxman (2020, Gates Open Research 3:1722), figure 2 and table 1, for any release:
median absolute residual and empirical privacy loss of the pooled residuals of all runs at a budget, in every geolevel,
for totals and for strata.

RESTRICTED: the figures come from confidential counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from fractions import Fraction
from itertools import product
from math import isfinite
from types import MappingProxyType
from typing import Any, Final, Literal

from das_spark.errors import InputError
from das_spark.evaluation.accuracy import TOTAL, AccuracyReport, Entry, definitions, facts_together, pool
from das_spark.evaluation.headline import rough_share
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
    records,
)

_TWO: Final = 2
#: The variants of a sweep of nothing but budgets.
NOTHING_VARIES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GridPoint:
    """What the runs have in common that a sweep pools: their budget, and what else varies."""

    total: Fraction  # the budget, exact
    variant: str = ""  # such as "strategy us, spine census"; empty where nothing but the budget varies


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
    variant: str = ""  # of the release, as in `GridPoint`


@dataclass(frozen=True, slots=True)
class SweepReport:
    """The accuracy-privacy curve of a release."""

    product: str
    budget: str  #: what the budgets are called: epsilon or rho
    runs: Mapping[GridPoint, tuple[str, ...]]  #: point of the grid -> names of its runs; by variant, budgets ascending
    points: tuple[CurvePoint, ...]  #: by kind, budget or share, then as in the accuracy report
    closest: tuple[ClosestRow, ...] = ()  #: by budget; none where there are no samples, or the release is exact
    seeds: tuple[int, ...] = ()  #: seeds of the samples
    settings: LossSettings = AS_CODED  #: how empirical privacy losses were computed
    notes: tuple[str, ...] = ()  #: sentences that a reader must know
    counted: str = "people"  #: what is counted, in the plural
    #: Point of the grid -> all of its runs as one, in the order of `runs`.
    pooled: Mapping[GridPoint, AccuracyReport] = field(default_factory=dict)
    #: Label of each variant -> its settings in full; empty where nothing but the budget varies.
    variants: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def cost(self) -> Fraction:
        """What all runs cost together, exactly."""
        return sum((point.total * len(names) for point, names in self.runs.items()), Fraction(0))

    def label(self, point: GridPoint) -> str:
        """What tells a point of the grid from the others: what varies, and the budget where there are several."""
        one_budget = len({run.total for run in self.runs}) == 1
        budget = "" if point.variant and one_budget else f"{self.budget} {point.total}"
        return ", ".join(filter(None, (point.variant, budget)))

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

    def closest_to(self, total: Fraction, place: str, measure: str, variant: str = "") -> ClosestSample | None:
        """The closest samples of a budget, place, measure and variant; None where there are none."""
        key = (total, place, measure, variant)
        found = ((each.closest, (each.total, each.place, each.measure, each.variant)) for each in self.closest)
        return next((closest for closest, of in found if of == key), None)


def sweep_report(
    runs: Mapping[Fraction, Sequence[AccuracyReport]] | Mapping[GridPoint, Sequence[AccuracyReport]],
    samples: SampleReport | None,
    budget: str,
    settings: LossSettings = AS_CODED,
    variants: Mapping[str, tuple[str, ...]] = NOTHING_VARIES,
) -> SweepReport:
    """Put the runs of a sweep and the samples beside each other.

    Args:
        runs: Budget, or point of the grid where more than the budget varies -> accuracy of each of its runs, one at
            least.
        samples: Samples of the same population; None where nothing is to be compared with.
        budget: What the budgets are called: epsilon or rho.
        settings: How empirical privacy losses are computed.
        variants: Label of each variant -> its settings in full, in the order of reports.

    Raises:
        InputError: There is no run, or reports are not about the same places and measures.
    """
    if not runs:
        raise InputError("a sweep without runs has no curve")
    order = list(variants)
    found = {each if isinstance(each, GridPoint) else GridPoint(each): reports for each, reports in runs.items()}
    points = sorted(found, key=lambda each: (order.index(each.variant) if each.variant else -1, each.total))
    pooled = {point: pool(found[point]) for point in points}
    first = next(iter(pooled.values()))
    release = [
        _release_point(point, entry, [report.entries[row] for report in found[point]], settings)
        for point, report in pooled.items()
        for row, entry in enumerate(report.entries)
    ]
    drawn = [] if samples is None else [_sample_point(entry, settings) for entry in samples.pooled().entries]
    return SweepReport(
        product=first.product,
        budget=budget,
        runs={point: report.runs for point, report in pooled.items()},
        points=(*release, *drawn),
        closest=tuple(_closest(release, drawn)),
        seeds=() if samples is None else samples.seeds,
        settings=settings,
        notes=tuple(dict.fromkeys(note for report in pooled.values() for note in report.notes)),
        counted=first.counted,
        pooled=pooled,
        variants=variants,
    )


def _release_point(point: GridPoint, pooled: Entry, each: Sequence[Entry], settings: LossSettings) -> CurvePoint:
    loss = empirical_privacy_loss(pooled.frequencies, settings)
    interval = interval_over_runs([entry.figures.median_absolute for entry in each], LEVEL)
    of = (point.total, pooled.place, pooled.measure)
    return CurvePoint("release", *of, pooled.figures, loss, interval, point.variant)


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
        line = closest_row(of, point.figures, point.loss.value, points.get(of, ()), point.size, point.variant)
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
    budgets = len({point.total for point in sweep.runs})
    variants = f", {len(sweep.variants)} settings" if sweep.variants else ""
    rows = (
        {"variant": point.variant, "size": point.total, "runs": ", ".join(names)}
        | {"settings": "; ".join(sweep.variants.get(point.variant, ()))}
        for point, names in sweep.runs.items()
    )
    columns = (*_grid(sweep), "runs", *(("settings",) if sweep.variants else ()))
    runs = ReportTable.of("runs", "Runs", columns, rows, media=PAGE, folded=True)
    return Report(
        f"Accuracy and privacy of {sweep.product} ({budgets} budget{'s' if budgets != 1 else ''}{variants})",
        (
            *_closest_section(sweep),
            *(ReportSection(table.title, (replace(table, title=""),), media=PAGE) for table in tables),
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
            f"a budget{' under the same settings' if sweep.variants else ''} are pooled.",
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
    """What the budget buys at the lowest place, from the smallest to the largest; or which settings err least there."""
    if sweep.variants:
        return _verdict_of_settings(sweep)
    parts: list[str] = []
    ends = ""
    for place, measure in sweep.lines[-_TWO:]:  # total and strata of the last place
        points = sweep.curve("release", place, measure)
        first, last = points[0], points[-1]
        if len(points) < _TWO or not last.figures.mean_absolute:
            continue
        small, large = (sweep.label(GridPoint(each.size, each.variant)) for each in (first, last))
        before, after = first.figures.mean_absolute, last.figures.mean_absolute
        text = f"from {number(round(before, 1))} to {number(round(after, 1))} {sweep.counted}"
        parts.append(f"{_line_name(sweep, place, measure)} {text} ({rough_share(after / before)} of it)")
        ends = f"Mean errors at {small} and at {large}"
    if not parts:
        return ""
    found = [f"{ends}: {'; '.join(parts)}."]
    nearest = [
        (sweep.label(GridPoint(each.size, each.variant)), closest.by_median_absolute)
        for each in sweep.curve("release", *sweep.lines[-1])
        if (closest := sweep.closest_to(each.size, *sweep.lines[-1], each.variant))
        and closest.by_median_absolute is not None
    ]
    if nearest:
        alike = " and ".join(
            f"one of {percent(share)} at {label}" for label, share in nearest[:: len(nearest) - 1 or 1]
        )
        found.append(f"{_line_name(sweep, *sweep.lines[-1])} errs as a simple random sample does: {alike}.")
    return " ".join(found)


def _verdict_of_settings(sweep: SweepReport) -> str:
    """Which settings err least and most at the lowest place, at the largest budget that several of them have."""
    of_budget: dict[Fraction, int] = {}
    for point in sweep.runs:
        of_budget[point.total] = of_budget.get(point.total, 0) + 1
    shared = [total for total, number_of in of_budget.items() if number_of > 1]
    parts: list[str] = []
    for place, measure in sweep.lines[-_TWO:] if shared else ():
        points = [each for each in sweep.curve("release", place, measure) if each.size == max(shared)]
        errors = {
            point.variant: point.figures.mean_absolute for point in points if isfinite(point.figures.mean_absolute)
        }
        if len(set(errors.values())) > 1:
            least, most = (of(errors, key=errors.__getitem__) for of in (min, max))
            shown = (f"{errors[each]:,.3g} {sweep.counted} with {each}" for each in (least, most))
            parts.append(f"{_line_name(sweep, place, measure)}: {' to '.join(shown)}")
    return f"Mean errors at {sweep.budget} {max(shared)}: {'; '.join(parts)}." if parts else ""


def _line_name(sweep: SweepReport, place: str, measure: str) -> str:
    return f"{sweep.said(place)}: {sweep.said(measure)}"


def _error_by_budget(sweep: SweepReport) -> Figure | None:
    """Mean absolute error against the budget, a line a place and what else varies: totals, and strata.

    None where nothing can be drawn.
    """
    panels = []
    places = list(dict.fromkeys(place for place, _ in sweep.lines))
    variants = list(dict.fromkeys(point.variant for point in sweep.runs))
    for totals, title in ((True, "totals"), (False, "strata")):
        curves = []
        for (place, measure), variant in product(sweep.lines, variants):
            of = [each for each in sweep.curve("release", place, measure) if each.variant == variant]
            points = [each for each in of if each.figures.mean_absolute > 0]
            if (measure == TOTAL) is totals and points:
                at = places.index(place)
                sizes, errors = zip(
                    *((float(point.size), point.figures.mean_absolute) for point in points), strict=True
                )
                # the colour is of the place, the stroke of what varies; of the place, too, where nothing does
                stroke = STROKES[(variants.index(variant) if variant else at) % len(STROKES)]
                name = ", ".join(filter(None, (sweep.said(place), variant)))
                curves.append(Curve(sizes, errors, name, at, stroke, at, size=7))
        if curves:
            ticks = tuple((float(total), str(total)) for total in dict.fromkeys(point.total for point in sweep.runs))
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


def sweep_record(sweep: SweepReport) -> dict[str, Any]:
    """A sweep for programs: runs, points of the curve and closest samples. RESTRICTED."""
    return {
        "classification": RESTRICTED,
        "product": sweep.product,
        "budget": sweep.budget,
        "cost": str(sweep.cost),
        "variants": sweep.variants,
        "runs": [
            {"variant": point.variant, "total": str(point.total), "runs": names} for point, names in sweep.runs.items()
        ],
        "curve": records(_curve_table(sweep)),
        "closest_samples": records(closest_table(sweep.closest, sweep.budget, varied=bool(sweep.variants))),
        "notes": sweep.notes,
    }


def _closest_section(sweep: SweepReport) -> Iterator[ReportSection]:
    table = closest_table(sweep.closest, sweep.budget, varied=bool(sweep.variants))
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
        *("kind", *(("variant",) if sweep.variants else ()), "size", "place", "measure"),
        *("n", "double_zero", "median_absolute", "mean_absolute", "p95_absolute"),
        *("rmse", "bias", "largest", "privacy_loss", "privacy_loss_plateau", "why_undefined"),
        ReportColumn("run_median", fields=("run_median_low", "run_median_high")),
    )
    return ReportTable.of("curve", "", columns, map(_point_row, sweep.points), media=CSV)


def _point_row(point: CurvePoint) -> dict[str, Cell]:
    """All that is known of a point, by the names of columns."""
    return {
        **{"kind": point.kind, "variant": point.variant, "size": point.size},
        **{"place": point.place, "measure": point.measure},
        **asdict(point.figures),
        **{"privacy_loss": point.loss.value, "privacy_loss_plateau": point.loss.plateau},
        **{"why_undefined": point.loss.why_undefined, "run_median": span_of(point.over_runs)},
    }


def _grid(sweep: SweepReport) -> tuple[str | tuple[str, str, str], ...]:
    """The columns of what varies: settings, where they do, and budgets, exact."""
    return (*(("variant",) if sweep.variants else ()), ("size", sweep.budget, "exact"))


def _printed_table(sweep: SweepReport) -> ReportTable:
    """Error, privacy loss and closest samples, a row a budget, place and measure."""
    rows = []
    for place, measure in sweep.lines:
        for point in sweep.curve("release", place, measure):
            closest = sweep.closest_to(point.size, place, measure, point.variant)
            shares = dict.fromkeys(CLOSEST) if closest is None else asdict(closest)
            rows.append(_point_row(point) | shares | {"place": sweep.said(place), "measure": sweep.said(measure)})
    columns = (
        *("place", "measure", *_grid(sweep), ("n", "counts"), ("median_absolute", "median |error|")),
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
    circles = list(_marks(release, lambda point: f"{sweep.budget} {point.size}"))
    if circles:
        squares = list(_marks(samples, lambda point: percent(point.size)))
        yield trade_off(circles, squares, sweep.settings, sweep.counted)
    yield from _first_and_third(sweep, place, measure)
    reasons = [point.loss.why_undefined for point in (*release, *samples) if point.loss.value is None]
    for reason in dict.fromkeys(reasons):
        times = reasons.count(reason)
        yield f"Without a point in the figure: {times} (the empirical privacy loss is undefined: {reason})."
    name = f"{place}_{measure}".replace(" ", "_")
    yield _point_table(f"release_{name}", "", _grid(sweep), release)
    if samples:
        title = f"Simple random samples ({len(sweep.seeds)} a share)"
        yield _point_table(f"samples_{name}", title, (("size", "share", "percent"),), samples)


def _point_table(
    name: str, title: str, grid: tuple[str | tuple[str, str, str], ...], points: Iterable[CurvePoint]
) -> ReportTable:
    columns = (
        *(*grid, ("n", "counts"), ("median_absolute", "median abs.", ",.1f")),
        *(() if title else (("run_median", "over runs", ",.2f"),)),
        *(("mean_absolute", "mean abs.", ",.2f"), ("p95_absolute", "95th pct. abs.", ",.1f"), ("rmse", "RMSE", ",.2f")),
        *(("bias", "", "+,.2f"), ("privacy_loss", "privacy loss", ".4g")),
        ("privacy_loss_plateau", "plateau", ".4g"),
    )
    return ReportTable.of(name, title, columns, map(_point_row, points), media=PAGE, folded=bool(title))


def _first_and_third(sweep: SweepReport, place: str, measure: str) -> Iterator[Figure]:
    """Figure 1 of strata, figure 3 of totals: all budgets side by side."""
    labelled = {sweep.label(point): pooled for point, pooled in sweep.pooled.items()}
    if measure == TOTAL:
        if all(not entry.frequencies.absolute_sum for entry in _entries(sweep, place, measure)):
            return  # exact: nothing to see
        drawn = [bias_figure(labelled, place, definition) for definition in DEFINITIONS]
    else:
        drawn = [loss_figure(labelled, place, measure, sweep.settings)]
    yield from (figure for figure in drawn if figure is not None)


def _entries(sweep: SweepReport, place: str, measure: str) -> list[Entry]:
    return [report.entry(place, measure) for report in sweep.pooled.values()]


def _marks(points: Sequence[CurvePoint], named: Callable[[CurvePoint], str]) -> Iterator[TradeOffPoint]:
    """Every point that has a loss."""
    for point in points:
        if point.loss.value is not None:
            figures = point.figures
            yield TradeOffPoint(named(point), point.loss.value, figures.median_absolute, figures.n, point.variant)
