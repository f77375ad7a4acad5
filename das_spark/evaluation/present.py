"""The accuracy report of one run or several, with its study, as sections of tables and figures."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from fractions import Fraction
from math import nan
from typing import Final

from das_spark.evaluation.accuracy import (
    TOTAL,
    AccuracyReport,
    Entry,
    RunSpread,
    definitions,
    headline_spreads,
)
from das_spark.evaluation.coverage import present_coverage
from das_spark.evaluation.error_map import ErrorMap, present_map
from das_spark.evaluation.headline import key_figures, picture, verdict, why_unbiased
from das_spark.evaluation.metric_rows import ALL, Criterion, ErrorPart, HomogeneityRow, QueryErrors, by_sizes
from das_spark.evaluation.metrics import Frequencies
from das_spark.evaluation.privacy_loss import AS_CODED
from das_spark.evaluation.samples import ClosestRow, SampleReport, closest_table
from das_spark.evaluation.study import PooledStatistic, Study, statistics_table
from das_spark.evaluation.study_figures import TradeOffPoint, bias_by_index, loss_figure, trade_off
from das_spark.evaluation.tallies import DEFINITIONS, FIFTIES
from das_spark.evaluation.uncertainty import Interval
from das_spark.report import (
    CSV,
    JSON,
    PAGE,
    PEOPLE,
    RESTRICTED,
    STROKES,
    TERMINAL,
    Axis,
    Block,
    Boxes,
    Cell,
    Curve,
    Figure,
    Guide,
    Medium,
    Panel,
    Report,
    ReportColumn,
    ReportSection,
    ReportTable,
    Span,
    percent,
)

#: The share of geounits that shall meet the criterion. Source: U.S. Census Bureau, announcement of spring 2021 on the
#: tuning of the redistricting data: the largest group within 5 percentage points at least 95 % of the time, in any
#: geographic entity of 500 people or more (`das_spark.evaluation.metric_rows.LEAST_POPULATIONS`).
AIM: Final = Fraction(95, 100)
#: Fewer geounits than these make no point of a curve.
_FEWEST: Final = 5
#: Classes of population that make a curve.
_FEWEST_CLASSES: Final = 2
#: Geolevels, from the leaf up, of which the figures of the study are drawn; the tables tell of all.
_DRAWN: Final = 2

_SIZES: Final = (
    "Median, mean and 95th percentile of the absolute difference between protected and confidential counts: {counted} "
    "of each geounit (total) and {counted} of each geounit in each stratum; strata that are zero in both are left out."
)
_SIGNED: Final = (
    "Protected minus confidential counts: the box holds the middle half, its lines run from the 5th to the 95th "
    "percentile, the tick is the median and the dot the mean (bias). Blue: totals; vermilion: strata."
)
_AGREEMENT: Final = (
    "One minus the total variation distance between protected and confidential counts, over all geounits of a "
    "geolevel: 1 - (sum of absolute differences) / (2 x {counted})."
)
_LARGEST: Final = (
    "Share of the geounits in which the share of the largest group ({groups}) is within 5 percentage points of the "
    "confidential one, by {counted} in the geounit; points of 5 geounits or more; dashed: {aim}, the aim "
    "that was announced for the redistricting data of 2020 from a size of 500."
)
_SPREAD: Final = "Mean absolute residual in each run (dots) and its mean over the runs (squares)."


def present_accuracy(
    report: AccuracyReport,
    spreads: Sequence[RunSpread] = (),
    study: Study | None = None,
    error_map: ErrorMap | None = None,
) -> Report:
    """What every medium says of the accuracy of one run, or of several pooled.

    Args:
        report: One run, or several pooled.
        spreads: Spread over the runs, where there are several.
        study: Of the same runs: uncertainty, privacy loss, bias by homogeneity, samples; None for a report without.
        error_map: Errors of geounits in their places; None for a report without a map.
    """
    number = len(report.runs)
    runs = f"Residuals of {number} runs pooled" if number > 1 else "One run"
    return Report(
        f"Accuracy of {report.product} ({number} run{'s' if number > 1 else ''})",
        (
            ReportSection("Error of counts", tuple(_errors_of_counts(report, study))),
            *(() if error_map is None else (present_map(error_map),)),
            ReportSection("Errors in figures", tuple(_figures(report, spreads)), media=PAGE),
            *_errors_by_query(report),
            *_criteria(report),
            *present_coverage(report.coverage, report.counted),
            *(() if study is None else _study(study)),
            *_spread(report, spreads),
        ),
        restricted=RESTRICTED,
        lead=(f"{runs}: {', '.join(report.runs)}.",) if number > 1 or not report.facts else (),
        notes=report.notes,
        definitions=definitions(report.counted),
        facts=report.facts,
        verdict=verdict(report),
        key_figures=key_figures(report),
        picture=picture(report),
    )


def _errors_of_counts(report: AccuracyReport, study: Study | None) -> Iterator[Block]:
    intervals = {} if study is None else _intervals(study.statistics)
    if intervals:
        yield "Below a figure: its 95 % interval over residuals."
    if unbiased := why_unbiased(report):
        yield unbiased
    title = f"Error in {report.counted} (restricted: not protected by noise)"
    columns = (
        *("place", "measure", ("n", "counts"), ("double_zero", "zero in both")),
        *(("median_absolute", "median abs.", ",.1f"), ("mean_absolute", "mean abs.", ",.2f")),
        *(("p95_absolute", "95th pct. abs.", ",.1f"), ("bias", "", "+,.2f"), ("rmse", "RMSE", ",.2f")),
        ("largest", "", ",.0f"),
    )
    for media in (PAGE, TERMINAL):
        rows = []
        for entry in report.entries:
            found = intervals.get((entry.place, entry.measure), {}) if media is PAGE else {}
            figures = {name: _around(value, found.get(name)) for name, value in asdict(entry.figures).items()}
            rows.append({"place": report.said(entry.place), "measure": report.said(entry.measure), **figures})
        yield ReportTable.of("entries", title, columns, rows, media=media)


def _around(value: float, interval: Interval | None) -> Cell:
    return value if interval is None else Span(interval.low, interval.high, interval.level, value)


def _intervals(statistics: Iterable[PooledStatistic]) -> dict[tuple[str, str], dict[str, Interval]]:
    """Of every place and measure the intervals over residuals by name of the error figure, as far as there are any."""
    found: dict[tuple[str, str], dict[str, Interval]] = {}
    for one in statistics:
        if one.interval is not None and not one.settings:
            found.setdefault((one.place, one.measure), {})[one.name] = one.interval
    return found


def _errors_by_query(report: AccuracyReport) -> Iterator[ReportSection]:
    levels: dict[str, list[QueryErrors]] = {}
    for line in by_sizes(report.errors):
        levels.setdefault(line.place, []).append(line)
    if not levels:
        return
    found = {(line.query, line.place): line.all_classes.one_minus_tvd for line in report.errors}
    agreement = ReportTable.of(
        "agreement",
        "1 - total variation distance, by query",
        ("query", *((place, report.said(place), ".2%") for place in levels)),
        (
            (report.said(query), *(found.get((query, place), nan) for place in levels))
            for query in dict.fromkeys(line.query for line in report.errors)
        ),
        media=TERMINAL,
    )
    note = (
        f"In {report.counted}. Zero in both: left out, but for the total, where every geounit counts. Quantiles of the "
        "errors are in the JSON file."
    )
    yield ReportSection("Error by query", (note, agreement))
    for place, lines in levels.items():
        said = report.said(place)
        all_of = [(report.said(line.query), ALL, line.all_classes) for line in lines]
        classes = [
            (report.said(line.query), label, part) for line in lines for label, part in line.rows() if label != ALL
        ]
        blocks: tuple[Block, ...] = (
            _error_table(f"queries_{place}", "", all_of),
            *_by_population(report, lines),
            _error_table(f"queries_{place}_by_population", f"{said}: by population of the geounit", classes),
        )
        yield ReportSection(said, blocks, 3, PAGE)


_ERROR_COLUMNS: Final = (
    *("query", "population", "geounits", ("n", "counts"), ("double_zero", "zero in both"), "exact", ("l1", "L1")),
    *(("one_minus_tvd", "1 - TVD", ".4f"), ("mean_absolute", "mean abs.", ",.2f")),
    *(("median_absolute", "median abs.", ",.1f"), ("p95_absolute", "95th pct. abs.", ",.1f")),
    *(("bias", "", "+,.2f"), ("rmse", "RMSE", ",.2f")),
)


def _by_population(report: AccuracyReport, lines: Sequence[QueryErrors]) -> Iterator[Figure]:
    """Mean errors of the answers to each query by the population of the geounit; of a geolevel with several classes."""
    bins, said = lines[0].bins, report.said(lines[0].place)
    classes = sorted({part.bin for line in lines for part in line.parts if part.frequencies.total})
    if len(classes) < _FEWEST_CLASSES:
        return
    curves = []
    drawn = [line for line in lines if line.answers > 1 or line.query == TOTAL]
    for at, line in enumerate(drawn):
        found = {part.bin: part.frequencies.figures.mean_absolute for part in line.parts if part.frequencies.total}
        errors = [found.get(each, nan) for each in classes]
        name, stroke = report.said(line.query), STROKES[at % len(STROKES)]
        curves.append(Curve(range(len(classes)), errors, name, at, stroke, at, size=7))
    ticks = tuple((float(at), bins.label(each)) for at, each in enumerate(classes))
    x_axis = Axis(f"{report.counted} in the geounit", ticks=ticks)
    y_axis = Axis(f"mean error ({report.counted})", low=0)
    caption = (
        f"Mean absolute error of an answer, in {report.counted}, by the confidential population of the {said}; answers "
        "that are zero in both are left out, but for the total."
    )
    panel = Panel(tuple(curves), x_axis, y_axis)
    yield Figure(caption, (panel,), height=8, legend="above", title=f"{said}: mean error by population")


def _error_table(name: str, title: str, parts: Iterable[tuple[str, str, ErrorPart]]) -> ReportTable:
    rows = ({"query": query, "population": label, **part.numbers()} for query, label, part in parts)
    return ReportTable.of(name, title, _ERROR_COLUMNS, rows, media=PAGE, folded=bool(title))


def _criteria(report: AccuracyReport) -> Iterator[ReportSection]:
    """How often the share of the largest group, and the total, are close."""
    largest, totals = report.headlines("largest group"), report.headlines("total")
    if largest:
        others = [line for line in report.criteria if line.query not in (TOTAL, report.groups) and line.bins == FIFTIES]
        note = (
            f"Groups: {report.said(report.groups)}. How often the share of the group that is largest in the protected "
            "counts is within 5 percentage points of its confidential share."
        )
        more = (_criterion_table(report, "largest_others", "Largest answer of other queries", others, all_of=False),)
        blocks = (*_criterion_tables(report, "largest", largest), *(more if others else ()))
        yield ReportSection("Share of the largest group", (note, *blocks), media=PAGE)
    if totals:
        note = "How often the total is within 5 % of the confidential one."
        blocks = _criterion_tables(report, "totals", totals)
        yield ReportSection("Relative error of the total", (note, *blocks), media=PAGE)
    if largest or totals:
        rows = [
            {
                "what": _within_what(report, line),
                "place": report.said(line.place),
                "population": label,
                **part.numbers(),
            }
            for line in (*largest, *totals)
            for label, part in line.overall()
        ]
        columns = (
            *(("what", "within 5 % of"), "place", "population", "geounits"),
            *(("share_within", "within", ".2%"), ("mean_difference", "mean difference", ".2%")),
        )
        table = ReportTable.of("criteria", "How often the release is close", columns, rows, media=TERMINAL)
        yield ReportSection("", (table,), media=TERMINAL)


def _within_what(report: AccuracyReport, line: Criterion) -> str:
    return f"share of the largest of {report.said(line.query)}" if line.name == "largest group" else "total"


def _criterion_tables(report: AccuracyReport, name: str, lines: Sequence[Criterion]) -> tuple[ReportTable, ReportTable]:
    return (
        _criterion_table(report, name, "", lines, all_of=False, folded=False),
        _criterion_table(report, f"{name}_by_population", "By population of the geounit", lines, all_of=True),
    )


def _criterion_table(
    report: AccuracyReport, name: str, title: str, lines: Sequence[Criterion], *, all_of: bool, folded: bool = True
) -> ReportTable:
    columns = (
        *("place", "query", "population", "geounits", ("within", "within 5 %")),
        *(("share_within", "share within", ".2%"), "undefined", ("mean_difference", "mean difference", ".3%")),
    )
    rows = (
        {
            "place": report.said(line.place),
            "query": report.said(line.query),
            "population": label,
            **part.numbers(),
        }
        for line in lines
        for label, part in (line.rows() if all_of else line.overall())
    )
    return ReportTable.of(name, title, columns, rows, media=PAGE, folded=folded)


def _study(study: Study) -> Iterator[ReportSection]:
    counted, drawn = study.report.counted, tuple(_study_figures(study))
    errors = [one for one in study.statistics if not one.settings and one.n]
    losses = [one for one in study.statistics if one.settings and one.n]
    over = (
        "Over residuals: the interval of the value. Beside it the mean of the figures of the R runs, each of n/R "
        "residuals, with its own interval."
    )
    title = f"Errors with their uncertainty, in {counted}"
    errors, losses = (
        [replace(one, place=study.report.said(one.place), measure=study.report.said(one.measure)) for one in each]
        for each in (errors, losses)
    )
    table = statistics_table(errors, title, name="errors", note=over, media=PEOPLE, folded=True)
    yield ReportSection("Uncertainty", (statistics_table(study.statistics), table))
    note = (
        "A figure of the residuals, no bound: the guarantee stands in the privacy statement. Over residuals: the "
        "interval of the value. The mean of the figures of the R runs, each of n/R residuals, is another number: the "
        "largest of a curve grows as residuals get fewer."
    )
    table = statistics_table(losses, "Empirical privacy loss", name="losses", note=note, media=PEOPLE)
    yield ReportSection("Empirical privacy loss", (table,))
    if study.closest:
        note = (
            "Every person drawn counts 1 / share. Shares whose median absolute residual, privacy loss, or both are "
            f"closest to those of the release; {_samples(study.samples)}."
        )
        table = replace(closest_table(study.closest), title="Simple random samples as good as the release", note=note)
        yield ReportSection("Simple random samples as good as the release", (table,))
    yield ReportSection("Bias by homogeneity", tuple(_homogeneity(study.report)))
    if study.samples is None and drawn:
        note = "Figure 2, error against privacy loss beside simple random samples, needs --samples."
        yield ReportSection("", (note,), media=PAGE)
    yield ReportSection("Figures of the study", drawn, media=PAGE)


def _samples(samples: SampleReport | None) -> str:
    seeds = 0 if samples is None else len(samples.seeds)
    return f"{seeds} sample{'s' if seeds > 1 else ''} of every share, with independent seeds"


def _homogeneity(report: AccuracyReport) -> Iterator[Block]:
    if not report.homogeneity:
        return
    yield (
        f"Mean residual of totals, in {report.counted}, by how uniform the {report.counted} of a geounit are in the "
        "confidential counts. Over residuals: Student's t, as if they were independent; over runs: on the biases of "
        "the runs."
    )
    yield homogeneity_table("homogeneity", "", report.homogeneity, report.counted, CSV)
    for line in report.homogeneity:
        title = f"{report.said(line.place)}: {line.definition} ({report.said(line.strata)}, {line.cells} strata)"
        name = f"homogeneity_{line.place}_{line.definition.replace(' ', '_')}"
        yield homogeneity_table(name, title, [line], report.counted, PAGE)
    leaf = [line for line in report.homogeneity if line.place == report.homogeneity[-1].place]
    title = f"Bias of totals by homogeneity index, in {report.counted}"
    yield homogeneity_table("bias", title, leaf, report.counted, TERMINAL)


def homogeneity_table(
    name: str, title: str, lines: Iterable[HomogeneityRow], counted: str, media: frozenset[Medium]
) -> ReportTable:
    """The bias of every index with its intervals."""
    columns = (
        *(ReportColumn("place", media=CSV | TERMINAL), ReportColumn("definition", media=CSV | TERMINAL)),
        *("index", ("n", "residuals"), ("bias", "", "+,.2f")),
        ReportColumn("over_residuals", "95 % over residuals", "+,.2f", fields=("low", "high")),
        ("over_runs", "95 % over runs", "+,.2f"),
        ReportColumn("rmse", "RMSE", ",.2f", media=PAGE),
        ReportColumn("median_absolute", "median abs.", ",.1f", media=PAGE),
        ReportColumn("p95_absolute", "95th pct. abs.", ",.1f", media=PAGE),
        ReportColumn("unit", media=CSV),
    )
    rows = (
        {
            **{"place": line.place, "definition": line.definition, "index": index, "unit": counted, **numbers},
            "over_residuals": Span(numbers["low"], numbers["high"]),
            "over_runs": Span(numbers["low_over_runs"], numbers["high_over_runs"]),
        }
        for line in lines
        for index, numbers in line.numbers()
    )
    return ReportTable.of(name, title, columns, rows, media=media, folded=media is PAGE)


def _study_figures(study: Study) -> Iterator[Figure]:
    """Figures 1, 2 and 3 as far as there is something to draw."""
    report = study.report
    strata = [entry for entry in study.entries_of_levels() if entry.measure != TOTAL][-_DRAWN:]
    for entry in reversed(strata):
        figure = loss_figure({"this release": report}, entry.place, entry.measure)
        if figure is not None:
            yield figure
    drawn = {entry.place for entry in strata}
    for closest in study.closest:
        if study.samples is not None and closest.measure != TOTAL and closest.place in drawn:
            yield from _trade_off(report, study.samples, closest)
    for entry in reversed(strata):
        lines: dict[str, dict[int, Frequencies]] = {
            line.definition: dict(line.parts)
            for line in report.homogeneity
            if line.place == entry.place and line.definition in DEFINITIONS
        }
        if lines:
            yield bias_by_index(lines, entry.place, report.counted)


def _trade_off(report: AccuracyReport, samples: SampleReport, closest: ClosestRow) -> Iterator[Figure]:
    """Figure 2 of one entry, where the release and some samples have a privacy loss."""
    error, loss = closest.release
    of = (closest.place, closest.measure)
    points = [
        TradeOffPoint(
            percent(sample.share), sample.loss, sample.median_absolute, samples.entry(sample.share, *of).figures.n
        )
        for sample in closest.samples
        if sample.loss is not None
    ]
    if loss is not None and points:
        release = TradeOffPoint("this release", loss, error, report.entry(*of).frequencies.total)
        figure = trade_off([release], points, AS_CODED, report.counted)
        where = f"{report.said(closest.place)}, {report.said(closest.measure)}"
        yield replace(figure, title=f"{figure.title}: {where}")


def _spread(report: AccuracyReport, spreads: Sequence[RunSpread]) -> Iterator[ReportSection]:
    """Of whole levels what is shown first; all of it in JSON."""
    agreeing = [
        one for one in spreads if (one.figure, one.population) == ("one_minus_tvd", ALL) and one.bins != FIFTIES.name
    ]
    headlines = headline_spreads(report, spreads)
    yield ReportSection(
        "Spread over runs",
        (
            _spread_table("spread", spreads, JSON),
            *((_spread_table("spreads", [*headlines, *agreeing], PAGE),) if spreads else ()),
            *((_spread_table("spreads", headlines, TERMINAL),) if spreads else ()),
        ),
    )


def _spread_table(name: str, spreads: Iterable[RunSpread], media: frozenset[Medium]) -> ReportTable:
    columns = (
        *("place", "measure", "population", "figure"),
        ReportColumn("values", "each run", media=PAGE | JSON),
        *(("mean", "mean over runs"), ("standard_deviation", "standard deviation")),
        ReportColumn("bins", media=JSON),
    )
    return ReportTable.of(name, "", columns, map(asdict, spreads), media=media)


def _figures(report: AccuracyReport, spreads: Sequence[RunSpread]) -> Iterator[Figure]:
    """As far as there is something to draw."""
    shown = [entry for entry in report.entries if entry.frequencies.total]
    if shown:
        yield _error_sizes(shown, report)
        yield _signed_errors(shown, report)
    agreeing = [line for line in by_sizes(report.errors) if line.all_classes.counted]
    if agreeing:
        yield _agreement(agreeing, report)
    largest = report.headlines("largest group")
    if largest:
        yield _within_by_population(largest, report)
    means = [one for one in spreads if one.figure == "mean_absolute" and not one.bins]
    if means:
        yield _spread_over_runs(means, report)


def _error_sizes(entries: Sequence[Entry], report: AccuracyReport) -> Figure:
    counted = report.counted
    names = (("median_absolute", "median"), ("mean_absolute", "mean"), ("p95_absolute", "95th percentile"))
    curves = tuple(
        Curve([getattr(entry.figures, name) for entry in entries], range(len(entries)), label, at, "none", at, size=7)
        for at, (name, label) in enumerate(names)
    )
    axis = Axis(f"{counted} (absolute residual; the scale is linear up to 1)", "symlog", low=-0.2)
    panel = Panel(curves, axis, rows=_rows(entries, report))
    return Figure(_SIZES.format(counted=counted), (panel,), legend="above", title="How large errors are")


def _signed_errors(entries: Sequence[Entry], report: AccuracyReport) -> Figure:
    boxes = []
    for color, rows in enumerate(
        [at for at, entry in enumerate(entries) if (entry.measure == TOTAL) is total] for total in (True, False)
    ):
        # The 5th, 25th, 50th, 75th and 95th percentile stand at 2 to 6.
        low, first, median, third, high = (
            [entries[at].figures.quantiles[place] for at in rows] for place in (2, 3, 4, 5, 6)
        )
        if rows:
            bias = [entries[at].figures.bias for at in rows]
            boxes.append(Boxes(rows, low, first, median, third, high, bias, color))
    axis = Axis(f"{report.counted} (protected minus confidential; the scale is linear from -1 to 1)", "symlog")
    panel = Panel((*boxes, Guide(x=0)), axis, rows=_rows(entries, report))
    return Figure(_SIGNED, (panel,), title="Too many or too few")


def _spread_over_runs(spreads: Sequence[RunSpread], report: AccuracyReport) -> Figure:
    dots = [(value, row) for row, one in enumerate(spreads) for value in one.values]
    curves = (
        Curve([value for value, _ in dots], [row for _, row in dots], "", 0, "none", 0, alpha=0.6),
        Curve([one.mean for one in spreads], range(len(spreads)), "", 1, "none", 1),
    )
    panel = Panel(curves, Axis(f"mean absolute error ({report.counted})", "symlog"), rows=_rows(spreads, report))
    return Figure(_SPREAD, (panel,), title="How errors vary over runs")


def _rows(rows: Sequence[Entry] | Sequence[RunSpread], report: AccuracyReport) -> tuple[str, ...]:
    return tuple(f"{report.said(row.place)}: {report.said(row.measure)}" for row in rows)


def _agreement(errors: Sequence[QueryErrors], report: AccuracyReport) -> Figure:
    queries = list(dict.fromkeys(line.query for line in errors))
    curves = []
    for at, place in enumerate(dict.fromkeys(line.place for line in errors)):
        lines = [line for line in errors if line.place == place]
        values, rows = [line.all_classes.one_minus_tvd for line in lines], [queries.index(line.query) for line in lines]
        curves.append(Curve(values, rows, report.said(place), at, "none", at, size=7, alpha=0.8))
    axis = Axis(f"share of {report.counted} counted in the right answer (1 - TVD)")
    panel = Panel(tuple(curves), axis, rows=tuple(map(report.said, queries)))
    caption = _AGREEMENT.format(counted=report.counted)
    return Figure(caption, (panel,), legend="right", title="Agreement by question")


def _within_by_population(criteria: Sequence[Criterion], report: AccuracyReport) -> Figure:
    """Share of geounits that meet a criterion against their population, a line a geolevel."""
    curves = []
    for at, line in enumerate(criteria):
        met = {part.bin: part for part in line.parts if part.geounits >= _FEWEST}
        # Classes without a point break the line.
        shares = [met[place].within / met[place].geounits if place in met else nan for place in range(line.bins.number)]
        if met:
            least = [line.bins.least(place) for place in range(line.bins.number)]
            curves.append(Curve(least, shares, report.said(line.place), at, STROKES[at % len(STROKES)], at, size=5))
    x_axis = Axis(f"{report.counted} in the geounit, from (the last class is open)")
    y_axis = Axis("share of geounits", low=-0.02, high=1.02)
    panel = Panel((*curves, Guide(y=float(AIM), dashed=True)), x_axis, y_axis)
    words = {"counted": report.counted, "groups": report.said(report.groups), "aim": f"{float(AIM):.0%}"}
    title = "How often the share of the largest group is close"
    return Figure(_LARGEST.format(**words), (panel,), legend="above", title=title)
