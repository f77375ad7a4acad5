"""The study of the 1940 runs (Petti and Flaxman 2020) beside a finished sweep: every figure, and how close it is.

Which published figures can another run be expected to repeat, how closely, and why? The confidential file of 1940 is
not ours: we have a synthetic population of its size and shape. So a figure that the noise decides should come out the
same; one that people decide can only have the same shape. :func:`rule_of` says for every published figure which it is.
Where a rule has a tolerance, its reason says where that comes from: from the distribution of the noise, from the
rounding of what was published, or from the sampling error of both sides (a single sample, or the runs that were
pooled). :func:`replicate` reads the reports of a sweep's runs, which are RESTRICTED where its population is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from math import isnan
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from das_spark.errors import ConfigurationError, InputError
from das_spark.evaluation import (
    AS_CODED,
    LOSS,
    MARGINAL_PRODUCT,
    REPLICATES,
    RESTRICTED,
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
from das_spark.products.e2e_1940 import STRATA
from das_spark.report import (
    PAGE,
    PROGRAMS,
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


_MEDIAN, _P95, _RMSE, _LARGEST = "median_absolute", "p95_absolute", "rmse", "largest"
_AGREES, _SHAPE = Expectation.AGREES, Expectation.SHAPE
_TWOFOLD, _HALF_MORE = 1.0, 0.5

_EXTREME = AgreementRule(_SHAPE, "an extreme value: it varies from run to run, and with the largest geounits")

_STATE_TOTALS = AgreementRule(Expectation.EXACT, "the totals of the states are invariants", 0.0)
_MEAN_ERROR = AgreementRule(Expectation.EXACT, "residuals sum to zero, as the totals of the states are invariants", 0.0)

_FEW_CELLS = (
    "sum of the four or five cells that are not empty, and of the answers on group quarters: the noise, and how many "
    "cells there are, decide; as close as an independent prototype came"
)
_DISTRICT_TOTALS = AgreementRule(_AGREES, _FEW_CELLS, 0.10, steps=1)
_COUNTY_TOTALS = AgreementRule(
    _SHAPE,
    "a county has nearly every class of group quarters, and each adds noise: within a tenth if they are as many as in "
    "the file, a fifth less without them",
    0.10,
    steps=1,
)
_COUNTY_TOTAL_LOSS = AgreementRule(
    _SHAPE,
    "follows the errors of the counties' totals, hence group quarters; a maximum over a curve from few residuals: a "
    "prototype had up to half as much again",
    _HALF_MORE,
)

_STRATA_NOISE = (
    "the noise of age x origin x race, of scale 11.85 / epsilon, and what the detailed answers add: the limit is 2.03 "
    "at epsilon 8, where 2.01 to 2.02 were published"
)
_STRATA_RMSE = AgreementRule(_AGREES, _STRATA_NOISE, 0.05)
_STRATA_RMSE_DAMPED = AgreementRule(_AGREES, _STRATA_NOISE + "; somewhat damped, as no count can be negative", 0.08)
_STRATA_P95 = AgreementRule(_AGREES, _STRATA_NOISE, 0.05, steps=1)
_STRATA_P95_DAMPED = AgreementRule(
    _SHAPE,
    "where noise is larger than most cells, how many cells are small decides how far they can err",
    0.10,
    steps=1,
)
_STRATA_MEDIAN = AgreementRule(
    _SHAPE,
    "set by the share of cells of one or two people, and of empty cells filled by mistake",
    0.30,
    steps=1,
)
_SPIKE = "where noise is large, it is the spike of cells of one or two people that vanish, not the noise, that decides"
_STRATA_LOSS_SMALL = AgreementRule(_SHAPE, _SPIKE + ": 0.1 to 0.25 for districts", _TWOFOLD)
_STRATA_LOSS_COUNTY = AgreementRule(_SHAPE, _SPIKE + ", at counties for every epsilon", _TWOFOLD)
_STRATA_LOSS_STATE = AgreementRule(
    _SHAPE, "a maximum over a curve from a thousand cells and four runs, which lies above the loss of the noise", 0.5
)
_STRATA_LOSS_DISTRICT = AgreementRule(
    _AGREES,
    "the loss of the noise, from half a million cells a run; an independent prototype came within 8 percent",
    0.15,
)

_BIAS = AgreementRule(
    Expectation.SIGN,
    "empty cells can only gain and others pay for it, so geounits of few groups gain; the change of sign (districts: "
    "between 18 and 20, counties: between 8 and 12) is robust, and how much is won depends on who lives where",
    0.35,
    steps=1,
)
_BIAS_OF_FEW = AgreementRule(_SHAPE, "few geounits have this index, so the mean is unsteady")
_UNSTEADY: Final[Mapping[str, frozenset[int]]] = {"County": frozenset(), "Enumdist": frozenset({14, 21, 23})}

_NEAREST = AgreementRule(
    _SHAPE,
    "judged by eye from error and loss of the counties' strata, which depend on data; one step of 5 percent",
    0.0,
    1,
)

_SIZES = "of a sample, error is sqrt(n (1 - share) / share) for n people: only the sizes of geounits or cells decide"
_R = AgreementRule
_SAMPLES: Final[Mapping[tuple[str, str, str], AgreementRule]] = {
    ("State", TOTAL, _MEDIAN): _R(_AGREES, _SIZES + "; but one sample of 51 states varies by a quarter", _TWOFOLD),
    ("State", TOTAL, _P95): _R(_AGREES, _SIZES + "; but one sample of 51 states varies by a quarter", _TWOFOLD),
    ("State", TOTAL, _RMSE): _R(_AGREES, _SIZES + "; but one sample of 51 states varies by a quarter", _TWOFOLD),
    ("County", TOTAL, _MEDIAN): _R(_AGREES, _SIZES + "; the ratio of two samples varies by 4 percent", 0.12, 1),
    ("County", TOTAL, _P95): _R(_AGREES, _SIZES + "; the ratio of two samples varies by 5 percent", 0.15, 1),
    ("County", TOTAL, _RMSE): _R(_AGREES, _SIZES + "; the largest counties make it vary by 8 percent", 0.25),
    ("Enumdist", TOTAL, _MEDIAN): _R(_AGREES, _SIZES, 0.05, 1),
    ("Enumdist", TOTAL, _P95): _R(_AGREES, _SIZES, 0.05, 1),
    ("Enumdist", TOTAL, _RMSE): _R(_AGREES, _SIZES, 0.05),
    ("State", STRATA, _MEDIAN): _R(_SHAPE, "how large the small groups of the states are", _HALF_MORE, 1),
    ("County", STRATA, _MEDIAN): _R(_SHAPE, "how large the small groups of the counties are", 0.30, 1),
    ("Enumdist", STRATA, _MEDIAN): _R(_SHAPE, "how large the small groups of the districts are", 0.30, 1),
    ("State", STRATA, _P95): _R(_SHAPE, "fifty cells decide, one sample of each", _HALF_MORE, 1),
    ("County", STRATA, _P95): _R(_AGREES, _SIZES + ", and large cells are calibrated", 0.10, 1),
    ("Enumdist", STRATA, _P95): _R(_AGREES, _SIZES + ", and large cells are calibrated", 0.05, 1),
    ("State", STRATA, _RMSE): _R(_AGREES, _SIZES + "; the largest cells make it vary by a sixth", _HALF_MORE),
    ("County", STRATA, _RMSE): _R(_AGREES, _SIZES + "; the largest cells make it vary by 6 percent", 0.15),
    ("Enumdist", STRATA, _RMSE): _R(_AGREES, _SIZES, 0.05),
    ("State", TOTAL, PRIVACY_LOSS): _R(_SHAPE, "a maximum over a curve from 51 residuals: noise"),
    ("County", TOTAL, PRIVACY_LOSS): _R(_SHAPE, "a maximum over a nearly flat curve from 3,108 residuals: noise"),
    ("Enumdist", TOTAL, PRIVACY_LOSS): _R(_SHAPE, "a maximum over a curve from one sample; sizes of districts", 0.35),
    ("State", STRATA, PRIVACY_LOSS): _R(_SHAPE, "a maximum over a curve from a thousand cells", _TWOFOLD),
    ("County", STRATA, PRIVACY_LOSS): _R(_SHAPE, "how many cells are small", 0.35),
    ("Enumdist", STRATA, PRIVACY_LOSS): _R(_SHAPE, "how many cells are small", 0.35),
}

_TOTALS: Final[Mapping[tuple[str, str], AgreementRule]] = {
    **{("State", statistic): _STATE_TOTALS for statistic in (_MEDIAN, _P95, _RMSE, _LARGEST, PRIVACY_LOSS)},
    **{("County", statistic): _COUNTY_TOTALS for statistic in (_MEDIAN, _P95, _RMSE)},
    **{("Enumdist", statistic): _DISTRICT_TOTALS for statistic in (_MEDIAN, _P95, _RMSE, PRIVACY_LOSS)},
    **{(level, BIAS): _MEAN_ERROR for level in GEOUNITS_1940},
    ("County", PRIVACY_LOSS): _COUNTY_TOTAL_LOSS,
}
_DAMPED_RMSE, _DAMPED_P95, _DAMPED_LOSS = Fraction(1), Fraction(1, 4), Fraction(1)
"""The largest epsilon at which the noise is so large that it is noticed that no count can be negative."""


def rule_of(key: FigureKey) -> AgreementRule:
    """What can be expected of a figure."""
    rule = (
        _SAMPLES.get((key.level, key.measure, key.statistic))
        if key.source is FigureSource.SAMPLE
        else _of_releases(key)
    )
    if rule is None and key.statistic == _LARGEST:
        rule = _EXTREME
    if rule is None:
        raise ConfigurationError(f"there is no rule for {key}", hint="published figures are those of `published()`")
    return rule


def step_of(key: FigureKey) -> float:
    """The smallest difference that the published figure, or ours, can show.

    Quantiles of releases are whole people; those of a sample of a share p / q are multiples of 1 / p people; others are
    as fine as they were printed.
    """
    if key.statistic in (_MEDIAN, _P95):
        return 1.0 if key.source is FigureSource.PROTECTED else 1.0 / key.setting.numerator
    return {_LARGEST: 1.0, BIAS: 0.1, _RMSE: 0.01, PRIVACY_LOSS: 0.001, NEAREST_SHARE: 0.05}[key.statistic]


def expected_residuals(key: FigureKey) -> int:
    """How many residuals the published figure is of, at least: a maximum over a curve compares at equal numbers only.

    Strata that are filled by mistake come on top; all runs of a sample were copies of one.
    """
    runs = RUNS if key.source is FigureSource.PROTECTED else 1
    return runs * (GEOUNITS_1940 if key.measure == TOTAL else OCCUPIED_STRATA)[key.level]


def _of_releases(key: FigureKey) -> AgreementRule | None:
    if key.index is not None:
        return _BIAS_OF_FEW if key.index in _UNSTEADY[key.level] else _BIAS
    return _TOTALS.get((key.level, key.statistic)) if key.measure == TOTAL else _of_strata(key)


def _of_strata(key: FigureKey) -> AgreementRule | None:
    loss = {"State": _STRATA_LOSS_STATE, "County": _STRATA_LOSS_COUNTY, "Enumdist": _STRATA_LOSS_DISTRICT}[key.level]
    return {
        _MEDIAN: _STRATA_MEDIAN,
        _P95: _STRATA_P95_DAMPED if key.setting <= _DAMPED_P95 else _STRATA_P95,
        _RMSE: _STRATA_RMSE_DAMPED if key.setting <= _DAMPED_RMSE else _STRATA_RMSE,
        PRIVACY_LOSS: _STRATA_LOSS_SMALL if key.setting <= _DAMPED_LOSS else loss,
        NEAREST_SHARE: _NEAREST,
    }.get(key.statistic)


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
    for each in comparisons:
        found[each.rule.expectation][each.verdict] += 1
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
    for each in comparisons:
        if each.ours is not None:
            low, high = each.ours.interval or (None, None)
            interval = None if low is None or high is None else Span(low, high)
            close = None if each.close is None else "yes" if each.close else "no"
            numbers = (each.published, each.ours.value, interval, each.ours.n or None, each.ratio)
            rows.append((str(each.key), *numbers, each.rule.tolerance, close, str(each.verdict), each.rule.reason))
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
            of_class = [each for each in self.comparisons if each.rule.expectation is expectation]
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
            (each.published, each.ours.value)
            for each in comparisons
            if each.rule.expectation is expectation and each.published and each.ours and each.ours.value
            if each.published > 0 and each.ours.value > 0
        ]
        if points:
            across, up = zip(*points, strict=True)
            clouds.append(Curve(across, up, str(expectation), at, "none", at, alpha=0.7))
    panel = Panel((*clouds, Guide()), Axis("published", "decades"), Axis("ours", "decades"))
    caption = (
        "Published figures (across) and ours (up), where both are above zero; people, but for privacy losses and "
        "shares. On the line both are equal. Classes: what could be expected."
    )
    return Figure(caption, (panel,), height=_HEIGHT, legend="best")


def _study_figures(runs: Mapping[Fraction, Sequence[AccuracyReport]]) -> Iterator[Figure]:
    """Figures 1 and 3 of the study from our runs, at its budgets as far as we have them."""
    pooled = {f"epsilon {epsilon}": pool(runs[epsilon]) for epsilon in _DRAWN if epsilon in runs}
    drawn = {1: loss_figure(pooled, _LEAF, STRATA), 3: bias_figure(pooled, _LEAF, MARGINAL_PRODUCT)}
    for number, figure in drawn.items():
        if figure is not None:
            yield replace(figure, caption=f"Figure {number}. {figure.caption}")


_PRODUCT: Final = "e2e_1940"


def replicate(sweep_folder: Path) -> Replication:
    """Set the figures of a sweep beside the published ones. RESTRICTED, where its population is."""
    layout = SweepLayout(sweep_folder)
    record = SweepRecord.load(layout.record)
    if record.product != _PRODUCT:
        raise InputError(
            f"{sweep_folder}: a sweep of {record.product}; the published study is one of {_PRODUCT}",
            hint="make a sweep of conf/e2e_1940.toml or conf/e2e_1940_simulated.toml",
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
