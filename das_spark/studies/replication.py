"""The study of the 1940 runs (Petti and Flaxman 2020) beside a finished sweep: every figure, and how close it is.

Which published figures can another run be expected to repeat, how closely, and why? The confidential file of 1940 is
not ours: we have a synthetic population of its size and shape. So a figure that the noise decides should come out the
same; one that people decide can only have the same shape. :func:`rule_of` says for every published figure which it is.
Where a rule has a tolerance, its reason says where that comes from: from the distribution of the noise, from the
rounding of what was published, or from the sampling error of both sides (a single sample, or the runs that were
pooled). The rules lie beside this module in `agreement_1940.json`, the special ones first; `up_to` is the largest
epsilon at which the noise is so large that it is noticed that no count can be negative; a tolerance is relative, and
`steps` are of the smallest difference that figures show. :func:`replicate` reads the reports of a sweep's runs, which
are RESTRICTED where its population is.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cache
from importlib.resources import files
from math import isnan
from types import MappingProxyType
from typing import Any, Final

from das_spark.errors import ConfigurationError, InputError
from das_spark.evaluation import (
    AS_CODED,
    LOSS,
    MARGINAL_PRODUCT,
    REPLICATES,
    SHARES_OF_FIGURE_2,
    TOTAL,
    AccuracyReport,
    PooledStatistic,
    SamplePoint,
    SampleReport,
    bias_figure,
    closest_sample,
    loss_figure,
    pool,
    report_from_json,
    statistics_of,
)
from das_spark.places import Place
from das_spark.report import (
    PAGE,
    PROGRAMS,
    RESTRICTED,
    Axis,
    Cell,
    Curve,
    Figure,
    Guide,
    Panel,
    Report,
    ReportColumn,
    ReportSection,
    ReportTable,
    Span,
    table_records,
)
from das_spark.simulation import GEOUNITS_1940
from das_spark.store import RunLayout, RunState, SweepLayout, SweepRecord
from das_spark.studies.published_1940 import (
    BIAS,
    NEAREST_SHARE,
    OCCUPIED_STRATA,
    PRIVACY_LOSS,
    RUNS,
    STRATA,
    FigureKey,
    FigureSource,
    bias_at,
    nearest_share,
    protected,
    published,
    sampled,
)
from das_spark.studies.results import StudyResult, study_table


class Expectation(StrEnum):
    """What can be expected of a figure."""

    EXACT = "exact"
    AGREES = "agrees"
    SIGN = "sign agrees"
    SHAPE = "depends on data"


EXPECTATIONS: Final[Mapping[Expectation, str]] = {
    Expectation.EXACT: "follows from what is published without noise",
    Expectation.AGREES: "decided by the noise, or by sizes that the population is calibrated to; should agree",
    Expectation.SIGN: "its sign is robust; its size depends on who lives where",
    Expectation.SHAPE: "depends on who lives where; the shape can be compared, not the digits",
}
"""What the classes mean."""


@dataclass(frozen=True, slots=True)
class AgreementRule:
    """What can be expected of some figures."""

    expectation: Expectation
    reason: str
    tolerance: float | None = None
    steps: float = 0.0


def rule_of(key: FigureKey) -> AgreementRule:
    """What can be expected of a figure: the first rule that is about it.

    Raises:
        ConfigurationError: No rule is written for such a figure.
    """
    found = next((rule for of, rule in _rules() if _is_about(of, key)), None)
    if found is None:
        raise ConfigurationError(f"there is no rule for {key}", hint="published figures are those of `published()`")
    return found


@cache
def _rules() -> tuple[tuple[Mapping[str, Any], AgreementRule], ...]:
    """Which figures a rule is about, and the rule."""
    rows = json.loads(files(__package__).joinpath("agreement_1940.json").read_text(encoding="utf-8"))
    return tuple(
        (
            row,
            AgreementRule(Expectation(row["expectation"]), row["reason"], row.get("tolerance"), row.get("steps", 0.0)),
        )
        for row in rows
    )


def _is_about(of: Mapping[str, Any], key: FigureKey) -> bool:
    """What a rule does not name may be anything, but for the index: figures by index have rules of their own."""
    measure = "total" if key.measure == TOTAL else "strata"
    named = {"source": key.source, "level": key.level, "measure": measure}
    indices = of.get("indices")
    return (
        key.statistic in of["statistics"]
        and all(of.get(name, value) == value for name, value in named.items())
        and ("up_to" not in of or key.setting <= Fraction(of["up_to"]))
        and (key.index is not None if indices == "all" else key.index in (indices or (None,)))
    )


def step_of(key: FigureKey) -> float:
    """The smallest difference that the published figure, or ours, can show.

    Quantiles of releases are whole people; those of a sample of a share p / q are multiples of 1 / p people; others are
    as fine as they were printed.
    """
    if key.statistic in ("median_absolute", "p95_absolute"):
        return 1.0 if key.source is FigureSource.PROTECTED else 1.0 / key.setting.numerator
    return {"largest": 1.0, BIAS: 0.1, "rmse": 0.01, PRIVACY_LOSS: 0.001, NEAREST_SHARE: 0.05}[key.statistic]


def expected_residuals(key: FigureKey) -> int:
    """How many residuals the published figure is of, at least: a maximum over a curve compares at equal numbers only.

    Strata that are filled by mistake come on top; all runs of a sample were copies of one.
    """
    runs = RUNS if key.source is FigureSource.PROTECTED else 1
    return runs * (GEOUNITS_1940 if key.measure == TOTAL else OCCUPIED_STRATA)[key.level]


class Verdict(StrEnum):
    """What the comparison of two figures says."""

    WITHIN = "within tolerance"
    UNDECIDED = "undecided"
    OUTSIDE = "outside"
    SHAPE = "shape only"
    MISSING = "not measured"


_VERDICTS: Final[Mapping[Verdict, str]] = {
    Verdict.WITHIN: "as close as it should be",
    Verdict.UNDECIDED: "not as close as it should be, but its interval is; or the wrong sign of a single residual",
    Verdict.OUTSIDE: "neither it nor its interval is as close as it should be",
    Verdict.SHAPE: "nothing is promised; `close` says whether it is as close as was foreseen",
    Verdict.MISSING: "we have no such figure",
}
"""What the verdicts mean."""

_FEWEST, _MOST = 0.8, 2.0
_AT_OTHER_NUMBERS = AgreementRule(
    Expectation.SHAPE,
    "a maximum over a curve lies the higher the fewer residuals there are, and ours are not as many as the published",
)


@dataclass(frozen=True, slots=True)
class OurFigure:
    """A figure of ours."""

    value: float | None
    interval: tuple[float, float] | None = None
    n: int = 0

    def __post_init__(self) -> None:
        """Check the interval."""
        if self.interval is not None and not self.interval[0] <= self.interval[1]:
            raise InputError(f"interval {self.interval}: expected the low end first")


@dataclass(frozen=True, slots=True)
class FigureComparison:
    """A published figure and ours."""

    key: FigureKey
    published: float | None  # its value; None where undefined
    ours: OurFigure | None  # None: not measured
    rule: AgreementRule  # what can be expected, and why

    @property
    def ratio(self) -> float | None:
        """Ours by the published figure; None where one is missing, or zero."""
        if self.ours is None or self.ours.value is None or not self.published:
            return None
        return self.ours.value / self.published

    @property
    def close(self) -> bool | None:
        """Whether ours is within the tolerance, or as near as was foreseen; None where nothing is said."""
        if self.ours is None or self.rule.tolerance is None:
            return None
        return self._holds(self.ours.value, self.ours.value)

    @property
    def verdict(self) -> Verdict:
        """What the comparison says."""
        if self.ours is None:
            return Verdict.MISSING
        if self.rule.expectation is Expectation.SHAPE:
            return Verdict.SHAPE
        if self.rule.expectation is Expectation.SIGN:
            return self._of_sign(self.ours)
        if self.close:
            return Verdict.WITHIN
        return Verdict.UNDECIDED if self.ours.interval and self._holds(*self.ours.interval) else Verdict.OUTSIDE

    def _holds(self, low: float | None, high: float | None) -> bool:
        """Whether some value from low to high is close enough to the published one."""
        if self.published is None or low is None or high is None:
            return self.published is None and low is None and high is None
        least, most = self._band(self.published)
        return low <= most and high >= least

    def _band(self, published: float) -> tuple[float, float]:
        factor = 1 + (self.rule.tolerance or 0.0)
        ends = sorted((published / factor, published * factor))
        # A billionth: sums of floating-point numbers shall not decide at the very end of a band.
        apart = self.rule.steps * step_of(self.key) + 1e-9
        return ends[0] - apart, ends[1] + apart

    def _of_sign(self, ours: OurFigure) -> Verdict:
        if ours.value is None or self.published is None:
            return Verdict.WITHIN if ours.value is self.published else Verdict.OUTSIDE
        if ours.value * self.published > 0:
            return Verdict.WITHIN
        # One residual shows no spread: nothing says that its sign is no chance.
        reaches = ours.n == 1 if ours.interval is None else max(end * self.published for end in ours.interval) > 0
        return Verdict.UNDECIDED if reaches else Verdict.OUTSIDE


def compare(ours: Mapping[FigureKey, OurFigure]) -> tuple[FigureComparison, ...]:
    """Every published figure beside ours."""
    figures = published()
    for key in ours:
        if key not in figures:
            raise InputError(f"there is no published {key}", hint="figures are compared at published settings only")
    return tuple(
        FigureComparison(key, value, ours.get(key), _rule(key, ours.get(key))) for key, value in figures.items()
    )


def _rule(key: FigureKey, ours: OurFigure | None) -> AgreementRule:
    rule = rule_of(key)
    if key.statistic != PRIVACY_LOSS or rule.expectation is not Expectation.AGREES or ours is None or not ours.n:
        return rule
    enough = _FEWEST <= ours.n / expected_residuals(key) <= _MOST
    return rule if enough else _AT_OTHER_NUMBERS


def verdicts(comparisons: Iterable[FigureComparison]) -> dict[Expectation, Counter[Verdict]]:
    """How many figures of each class have each verdict."""
    found: dict[Expectation, Counter[Verdict]] = {expectation: Counter() for expectation in Expectation}
    for comparison in comparisons:
        found[comparison.rule.expectation][comparison.verdict] += 1
    return found


_COUNTY = "County"


def our_figures(
    runs: Mapping[Fraction, Sequence[AccuracyReport]],
    samples: SampleReport | None = None,
    *,
    replicates: int = REPLICATES,
) -> dict[FigureKey, OurFigure]:
    """All figures of ours that were published."""
    found: dict[FigureKey, OurFigure] = {}
    points = [] if samples is None else _points(samples)
    for epsilon, reports in runs.items():
        statistics = statistics_of(reports, replicates=replicates)
        found |= dict(_of_release(epsilon, statistics))
        found |= dict(_of_indices(epsilon, reports))
        found |= dict(_nearest(epsilon, statistics, points))
    if samples is not None:
        found |= dict(_of_samples(samples))
    known = published()
    return {key: measured for key, measured in found.items() if key in known}


def _of_release(epsilon: Fraction, statistics: Sequence[PooledStatistic]) -> Iterator[tuple[FigureKey, OurFigure]]:
    for one in statistics:
        if one.settings in ("", AS_CODED.name):
            name = PRIVACY_LOSS if one.name == LOSS else one.name
            ends = None if one.interval is None else (one.interval.low, one.interval.high)
            yield protected(epsilon, one.place, one.measure, name), OurFigure(one.value, ends, one.n)


def _of_indices(epsilon: Fraction, reports: Sequence[AccuracyReport]) -> Iterator[tuple[FigureKey, OurFigure]]:
    """Biases by homogeneity index as the program of the study computes it, with their intervals over residuals."""
    for line in pool(reports).homogeneity:
        if line.definition == MARGINAL_PRODUCT:
            for index, numbers in line.numbers():
                ends = None if isnan(numbers["low"]) else (numbers["low"], numbers["high"])
                yield bias_at(epsilon, line.place, index), OurFigure(numbers["bias"], ends, int(numbers["n"]))


def _points(samples: SampleReport) -> list[SamplePoint]:
    """What table 1 chooses from: strata of counties, shares of figure 2."""
    return [samples.point(share, _COUNTY, STRATA) for share in samples.shares if share in SHARES_OF_FIGURE_2]


def _nearest(
    epsilon: Fraction, statistics: Sequence[PooledStatistic], points: Sequence[SamplePoint]
) -> Iterator[tuple[FigureKey, OurFigure]]:
    """The share of the sample whose loss is nearest, as table 1 chose it."""
    of = {(one.name, one.settings): one.value for one in statistics if (one.place, one.measure) == (_COUNTY, STRATA)}
    error, loss = of.get(("median_absolute", "")), of.get((LOSS, AS_CODED.name))
    if error is not None and points:
        nearest = closest_sample(points, (error, loss)).by_loss
        yield nearest_share(epsilon), OurFigure(None if nearest is None else float(nearest))


def _of_samples(samples: SampleReport) -> Iterator[tuple[FigureKey, OurFigure]]:
    for entry in samples.pooled().entries:
        shown, of = entry.figures, (entry.share, entry.place, entry.measure)
        for name in ("median_absolute", "p95_absolute", "largest", "rmse"):
            yield sampled(*of, name), OurFigure(getattr(shown, name), None, shown.n)
        yield sampled(*of, PRIVACY_LOSS), OurFigure(entry.privacy_loss().value, None, shown.n)


#: Budgets of figures 1 and 3.
_DRAWN: Final = (Fraction(1, 2), Fraction(1), Fraction(2))
_LEAF: Final = "Enumdist"
_HEIGHT: Final = 11


_COLUMNS: Final = (
    *("source", "setting", "level", "measure", "statistic", "index", "published", "ours", "low", "high", "n", "ratio"),
    *("class", "tolerance", "close", "verdict", "reason"),
)


def comparison_table(comparisons: Sequence[FigureComparison]) -> ReportTable:
    """All figures, for programs."""
    note = "; ".join(f"{verdict}: {meaning}" for verdict, meaning in _VERDICTS.items())
    rows = map(_cells, comparisons)
    return study_table("figures", "Published figures of 1940, and ours", _COLUMNS, rows, note=note, media=PROGRAMS)


def verdict_table(comparisons: Sequence[FigureComparison]) -> ReportTable:
    """How many figures of each class have each verdict; classes without figures are there, too."""
    found = verdicts(comparisons)
    rows: list[tuple[Cell, ...]] = [
        (str(expectation), *(found[expectation][verdict] for verdict in Verdict), EXPECTATIONS[expectation])
        for expectation in Expectation
    ]
    columns = ("class", *(str(verdict) for verdict in Verdict), "meaning")
    return study_table("verdicts", "What could be expected, and what came out", columns, rows)


def _cells(each: FigureComparison) -> tuple[Cell, ...]:
    ours = each.ours or OurFigure(None)
    key, rule = each.key, each.rule
    close = None if each.close is None else "yes" if each.close else "no"
    named = (str(key.source), key.setting, key.level, key.measure, key.statistic, key.index)
    values = (each.published, ours.value, *(ours.interval or (None, None)), ours.n or None, each.ratio)
    return (*named, *values, str(rule.expectation), rule.tolerance, close, str(each.verdict), rule.reason)


_PAGE_COLUMNS: Final = (
    *map(ReportColumn, ("figure", "published", "ours", "interval", "n", "ratio")),
    ReportColumn("tolerance", form=".0%"),
    *map(ReportColumn, ("close", "verdict", "reason")),
)


def _class_table(expectation: Expectation, comparisons: Sequence[FigureComparison]) -> ReportTable:
    """The figures of a class that were measured, for the page; those outside stand out."""
    rows = []
    for comparison in comparisons:
        if comparison.ours is not None:
            low, high = comparison.ours.interval or (None, None)
            interval = None if low is None or high is None else Span(low, high)
            close = None if comparison.close is None else "yes" if comparison.close else "no"
            numbers = (
                comparison.published,
                comparison.ours.value,
                interval,
                comparison.ours.n or None,
                comparison.ratio,
            )
            rows.append(
                (
                    str(comparison.key),
                    *numbers,
                    comparison.rule.tolerance,
                    close,
                    str(comparison.verdict),
                    comparison.rule.reason,
                )
            )
    outside = frozenset(at for at, row in enumerate(rows) if row[-2] == Verdict.OUTSIDE)
    name = str(expectation).replace(" ", "_")
    return ReportTable(name, "", _PAGE_COLUMNS, tuple(rows), media=PAGE, marked=outside)


@dataclass(frozen=True, slots=True)
class Replication(StudyResult):
    """The study repeated."""

    comparisons: tuple[FigureComparison, ...]  # every published figure, with ours where we have it
    runs: Mapping[Fraction, Sequence[AccuracyReport]]  # epsilon -> reports on the runs with it

    title = "The study of 1940 repeated"
    definitions = MappingProxyType({str(verdict): meaning for verdict, meaning in _VERDICTS.items()})
    restricted = RESTRICTED

    def lead(self) -> tuple[str]:
        """What stands beside what."""
        runs, epsilons = sum(map(len, self.runs.values())), ", ".join(map(str, sorted(self.runs)))
        return (
            f"Published figures of the protected census of 1940 (Petti and Flaxman 2020) beside those of {runs} runs "
            f"on another population: epsilon {epsilons}. Where the population is the simulated one, nobody lives in "
            "it; the classes say which figures follow from noise alone, and which from who lives where.",
        )

    def tables(self) -> tuple[ReportTable, ReportTable]:
        """What came out of each class, and every figure."""
        return verdict_table(self.comparisons), comparison_table(self.comparisons)

    def figures(self) -> Iterator[Figure]:
        """Published figures against ours, and the figures of the study."""
        yield _published_against_ours(self.comparisons)
        yield from _study_figures(self.runs)

    def report(self, *, drawn: bool = False) -> Report:
        """With a section a class, and the figures last."""
        whole = super(Replication, self).report()
        sections = [ReportSection("", self.tables())]
        for expectation, meaning in EXPECTATIONS.items():
            of_class = [comparison for comparison in self.comparisons if comparison.rule.expectation is expectation]
            table = _class_table(expectation, of_class)
            if table.rows:
                sentence = f"{meaning[0].upper()}{meaning[1:]}."
                sections.append(ReportSection(str(expectation).capitalize(), (sentence, table), 3))
        sections.append(ReportSection("", tuple(self.figures()) if drawn else ()))
        return replace(whole, sections=tuple(sections))

    def content(self) -> dict[str, Any]:
        """Both tables."""
        return {"version": 1, **table_records(self.tables())}


def _published_against_ours(comparisons: Sequence[FigureComparison]) -> Figure:
    """Every positive figure that both have, on logarithmic scales."""
    clouds = []
    for at, expectation in enumerate(Expectation):
        points = [
            (comparison.published, comparison.ours.value)
            for comparison in comparisons
            if comparison.rule.expectation is expectation
            and comparison.published
            and comparison.ours
            and comparison.ours.value
            if comparison.published > 0 and comparison.ours.value > 0
        ]
        if points:
            across, up = zip(*points, strict=True)
            clouds.append(Curve(across, up, str(expectation), at, "none", at, alpha=0.7))
    panel = Panel(
        (*clouds, Guide()),
        Axis("published figure (its own unit)", "decades"),
        Axis("our figure (the same unit)", "decades"),
    )
    caption = (
        "Published figures (across) and ours (up), where both are above zero; people, but for privacy losses and "
        "shares. On the line both are equal. Classes: what could be expected."
    )
    return Figure(caption, (panel,), height=_HEIGHT, legend="above", title="Published figures and ours")


def _study_figures(runs: Mapping[Fraction, Sequence[AccuracyReport]]) -> Iterator[Figure]:
    """Figures 1 and 3 of the study from our runs, at its budgets as far as we have them."""
    pooled = {f"epsilon {epsilon}": pool(runs[epsilon]) for epsilon in _DRAWN if epsilon in runs}
    drawn = {1: loss_figure(pooled, _LEAF, STRATA), 3: bias_figure(pooled, _LEAF, MARGINAL_PRODUCT)}
    for number, figure in drawn.items():
        if figure is not None:
            yield replace(figure, caption=f"Figure {number}. {figure.caption}")


_PRODUCT: Final = "e2e_1940"


def replicate(sweep_folder: Place) -> Replication:
    """Set the figures of a sweep beside the published ones. RESTRICTED, where its population is."""
    layout = SweepLayout(sweep_folder)
    record = SweepRecord.load(layout.record)
    if record.product != _PRODUCT:
        raise InputError(
            f"{sweep_folder}: a sweep of {record.product}; the published study is one of {_PRODUCT}",
            hint="make a sweep of conf/e2e_1940.toml or conf/e2e_1940_simulated.toml",
        )
    if record.variants:
        raise InputError(
            f"{sweep_folder}: a sweep of several settings, {', '.join(record.variants)}; the published study has one",
            hint="make a sweep of budgets alone",
        )
    runs = _reports(record)
    if not runs:
        raise InputError(f"{sweep_folder}: no budget of it is finished", hint="call das-spark sweep again")
    samples = None
    if layout.samples.is_file():
        samples = SampleReport.from_json(layout.samples.read_text(encoding="utf-8"))
    return Replication(compare(our_figures(runs, samples)), runs)


def _reports(record: SweepRecord) -> dict[Fraction, list[AccuracyReport]]:
    """Epsilon -> the reports of its runs, where all are finished and have one."""
    names = list(record.states)
    found = {}
    for position, total in enumerate(record.totals):
        mine = names[position * record.runs : (position + 1) * record.runs]
        files = [RunLayout.at(record.root, name).restricted.accuracy_json for name in mine]
        if all(record.states[name] is RunState.FINISHED for name in mine) and all(file.is_file() for file in files):
            found[Fraction(total)] = [report_from_json(file.read_text(encoding="utf-8")) for file in files]
    return found
