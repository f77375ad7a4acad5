"""How empirical privacy loss behaves: the appendix to Petti and Flaxman (2020), repeated.

Three examples, on a state like Washington in 1940: 24 strata in each of 2,663 enumeration districts in 39 counties;
noise has parameter epsilon / 2 throughout:

    example 1, near epsilon:  district totals + G(eps / 2)
    example 2, below epsilon: totals + G(eps1 / 2) and strata + G(eps2 / 2); nonnegative strata by (X-6), district by
                              district, with w = eps1 / eps2; residuals of the fitted totals
    example 3, above epsilon: strata + G(eps / 2); nonnegative strata by (X-6), county by county, with the exact county
                              total and w = 100; residuals of all strata, empty ones too (the appendix speaks of
                              districts; its program is of counties)

Table SA1, which repeats the first at many epsilons; and what the settings of the curve do. What example 1 finds near
epsilon is the largest |EPL(x)| of 2,663 residuals, which their number doubles: the slope of its distribution, which the
plateau shows, is half of epsilon.

Nonnegative least squares with one measured total a group is solved exactly:

    minimize  w (sum_i x_i - t)^2 + sum_i (x_i - y_i)^2   over x >= 0                                              (X-6)

By the conditions of Karush, Kuhn and Tucker x_i = max(0, y_i - s), where s is the one root of

    g(s) = s - w (sum_i max(0, y_i - s) - t),                                                                      (X-7)

which increases and is linear between the measured values. With the k largest of them positive and of sum Y_k,
s = w (Y_k - t) / (1 + w k); the right k is how many values v have g(v) > 0. (w large: the projection on a simplex by
sorting.)

Source: Flaxman and Petti, Supplementary Methods Appendix to "Differential privacy in the 2020 US census: what will it
do?" (Zenodo, 2020), the table SA1 in the authors' reply to their reviewers, and the programs that made them, with their
printed results. Every published loss is the largest |EPL(x)|: kernel factor 0.1, range up to the 95th percentile. The
sizes of the state were published with the supplement; districts are a third smaller than the nation's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise
from types import MappingProxyType
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError, InputError
from das_spark.evaluation import AS_CODED, LossSettings
from das_spark.report import Axis, Cell, Figure, Guide, Panel, ReportTable, Whiskers, table_records
from das_spark.simulation import state_of_1940
from das_spark.studies.noise import RATIOS, Noise, NoiseRatio, ResidualLoss, residuals_and_curves
from das_spark.studies.results import StudyResult, as_float, require_least, study_table

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

FIPS: Final = 53
PERSONS: Final = 1_741_616
COUNTIES: Final = 39
DISTRICTS: Final = 2_663
#: Non-empty strata of the file, of 24 a district.
OCCUPIED: Final = 9_869


@dataclass(frozen=True, slots=True, eq=False)
class WashingtonStrata:
    """People by district and stratum."""

    county: Counts  # number of the county of each district, ascending, shape (2663,)
    counts: Counts  # under 18 or not x Hispanic origin x race, shape (2663, 24)


def washington(seed: int) -> WashingtonStrata:
    """Make the state."""
    county, counts = state_of_1940(FIPS, seed)
    return WashingtonStrata(county, counts.reshape(len(counts), -1))


@dataclass(frozen=True, slots=True)
class MeanLoss:
    """A mean over replicates."""

    mean: float  # of the losses
    low: float  # their 2.5th percentile
    high: float  # their 97.5th percentile


@dataclass(frozen=True, slots=True)
class PublishedExample:
    """An example of the appendix; one release each."""

    shows: str  # what it was made to show of the loss, compared with epsilon
    epsilon: Fraction
    maximum: float  # largest |EPL(x)|
    twice_plateau: float  # twice the median of |EPL(x)|


def _spreads(lines: Mapping[str, tuple[float, float, float]]) -> Mapping[Fraction, MeanLoss]:
    return MappingProxyType({Fraction(value): MeanLoss(*line) for value, line in lines.items()})


EXAMPLES: Final = (
    PublishedExample("near epsilon", Fraction(1, 4), 0.1823, 0.2531),
    PublishedExample("below epsilon", Fraction(1), 0.5441, 0.3152),
    PublishedExample("above epsilon", Fraction(1, 4), 2.3255, 0.3234),
)
"""Examples 1, 2 and 3."""

ZEROS_OF_EXAMPLE_3: Final = Fraction(46_358, 63_912)
"""Share of residuals that are 0 to one decimal in example 3."""

SA1_REPLY: Final = _spreads(
    {
        "0.001": (0.001, 0.0008, 0.0013),
        "0.005": (0.0048, 0.0039, 0.0068),
        "0.01": (0.0099, 0.0076, 0.013),
        "0.05": (0.049, 0.039, 0.0673),
        "0.1": (0.098, 0.0752, 0.1262),
        "0.15": (0.1475, 0.1181, 0.1941),
        "0.2": (0.1988, 0.1521, 0.2639),
    }
)
"""Table SA1, by epsilon, as in the reply; the number of replicates is not said."""

SA1_PROGRAM: Final = _spreads(
    {
        "0.001": (0.001, 0.0008, 0.0011),
        "0.005": (0.0045, 0.0037, 0.0053),
        "0.01": (0.0092, 0.0082, 0.0112),
        "0.05": (0.0477, 0.0388, 0.0561),
        "0.1": (0.1015, 0.0823, 0.1368),
        "0.3": (0.2823, 0.2292, 0.3909),
        "0.35": (0.3326, 0.2769, 0.4564),
        "0.4": (0.3407, 0.2869, 0.429),
        "0.45": (0.3788, 0.3171, 0.4216),
        "0.5": (0.3786, 0.3376, 0.4182),
    }
)
"""The same, as the program printed it with 10 replicates."""

_PRINTED_LINES: Final = (
    (0.2392, 0.2012, 0.284),
    (0.2188, 0.1888, 0.2577),
    (0.238, 0.2025, 0.2733),
    (0.2409, 0.2002, 0.2788),
    (0.2432, 0.1889, 0.3144),
    (0.2343, 0.1917, 0.2681),
    (0.2233, 0.1878, 0.269),
    (0.2456, 0.2059, 0.3407),
)
_VARIED: Final = {
    "bandwidth": ("0.001", "0.005", "0.01", "0.05", "0.1", "0.5", "1", "5"),
    "percentile": ("75", "85", "95", "99", "99.9"),
    "multiplier": ("0.5", "1", "1.5", "2"),
}
PRINTED: Final[Mapping[str, Mapping[Fraction, MeanLoss]]] = MappingProxyType(
    {name: _spreads(dict(zip(values, _PRINTED_LINES, strict=False))) for name, values in _VARIED.items()}
)
"""By setting of the curve, at epsilon 1/4, as printed. The program ignored the settings: all lines are of kernel factor
0.1, percentile 95 and multiplier 1, and differ by chance; each table has the same lines from the first."""


def tied_squares(measured: Floats, totals: Floats, weight: float) -> Floats:
    """The minimizers of (X-6), of many groups at once: (groups, cells), exact zeros where the bound holds."""
    if measured.ndim != 2 or totals.shape != measured.shape[:1] or weight <= 0:  # noqa: PLR2004 - groups and cells
        raise InputError(
            f"tied squares: {totals.shape} totals for {measured.shape} cells with weight {weight:g}",
            hint="give one total a group, and a weight above 0",
        )
    falling = -np.sort(-measured, axis=1)
    sums = np.cumsum(falling, axis=1)
    # g at the k-th largest value, which is not below k of them; it falls from left to right.
    numbers = np.arange(1, measured.shape[1] + 1)
    slopes = falling - weight * (sums - numbers * falling - totals[:, None])
    positive = (slopes > 0).sum(axis=1)
    last = np.maximum(positive, 1) - 1
    kept = np.where(positive > 0, np.take_along_axis(sums, last[:, None], axis=1)[:, 0], 0.0)
    shift = weight * (kept - totals) / (1 + weight * positive)
    fitted: Floats = np.maximum(measured - shift[:, None], 0.0)
    return fitted


def tied_squares_of(groups: NDArray[np.int64], measured: Floats, totals: Floats, weight: float) -> Floats:
    """The same for groups of different sizes: the number of each row's group is given, ascending, from 0."""
    ends = np.searchsorted(groups, np.arange(len(totals) + 1))
    parts = [
        tied_squares(measured[start:end].reshape(1, -1), totals[[group]], weight).reshape(end - start, -1)
        for group, (start, end) in enumerate(pairwise(ends))
    ]
    return np.concatenate(parts)


#: The two parts of epsilon in example 2.
_TOTAL_EPSILON: Final = Fraction(1, 4)
_STRATA_EPSILON: Final = Fraction(3, 4)
#: Weight of a squared county total in example 3, where that of a stratum is 1.
_COUNTY_WEIGHT: Final = 100.0
_TENTH: Final = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Example:
    """One example."""

    number: int  # 1, 2 or 3
    counted: str  # what has a residual
    published: PublishedExample  # what the appendix says
    found: ResidualLoss  # what is found here

    @property
    def near_zero(self) -> float:
        """Share of the residuals that are 0 to one decimal."""
        residuals = self.found.residuals
        return float(residuals.counts[np.abs(residuals.values) < _TENTH].sum() / residuals.total)


def examples(state: WashingtonStrata, noise: Noise) -> tuple[Example, ...]:
    """The three examples on a state."""
    counts = state.counts.astype(np.float64)
    residuals = (
        ("districts", noise.draw("example 1", EXAMPLES[0].epsilon / 2, len(counts))),
        ("districts", _with_measured_totals(counts, noise)),
        ("strata", _with_exact_counties(state.county, counts, noise)),
    )
    return tuple(
        Example(number, counted, published, ResidualLoss.of(each.astype(np.float64), AS_CODED))
        for number, (published, (counted, each)) in enumerate(zip(EXAMPLES, residuals, strict=True), 1)
    )


def _with_measured_totals(counts: Floats, noise: Noise) -> Floats:
    """Example 2: residuals of fitted totals, shape (districts,)."""
    totals = counts.sum(axis=1)
    noisy_totals = totals + noise.draw("example 2, totals", _TOTAL_EPSILON / 2, len(counts))[:, 0]
    noisy = counts + noise.draw("example 2, strata", _STRATA_EPSILON / 2, *counts.shape)
    fitted = tied_squares(noisy, noisy_totals, float(_TOTAL_EPSILON / _STRATA_EPSILON))
    missed: NDArray[np.float64] = fitted.sum(axis=1) - totals
    return missed


def _with_exact_counties(county: NDArray[np.int64], counts: Floats, noise: Noise) -> Floats:
    """Example 3: residuals of fitted strata, shape (districts, strata)."""
    noisy = counts + noise.draw("example 3", EXAMPLES[2].epsilon / 2, *counts.shape)
    exact: Floats = np.bincount(county, counts.sum(axis=1)).astype(np.float64)
    return tied_squares_of(county, noisy, exact, _COUNTY_WEIGHT) - counts


def examples_table(found: Sequence[Example]) -> ReportTable:
    """A line an example."""
    columns = ("example", "was made to show", "epsilon", "residuals", "mean residual", "r.m.s.", "zero", "maximum")
    return study_table(
        "examples",
        "Three examples, one release each",
        (*columns, "published", "2 x plateau", "published 2 x plateau"),
        map(_example_row, found),
        note="maximum: the empirical privacy loss, largest |EPL(x)|; plateau: median of |EPL(x)|; zero: share of "
        "residuals that are 0 to one decimal. In example 3, "
        f"{float(ZEROS_OF_EXAMPLE_3):.1%} was published. The published state and this one have other people.",
    )


def _example_row(example: Example) -> tuple[Cell, ...]:
    published, found = example.published, example.found
    sizes = (f"{found.n:,} {example.counted}", found.residuals.mean, found.root_mean_square, example.near_zero)
    twice = None if found.plateau is None else 2 * found.plateau
    losses = (found.maximum, published.maximum, twice, published.twice_plateau)
    return (str(example.number), published.shows, published.epsilon, *sizes, *losses)


_ENDS: Final = (2.5, 97.5)  # percentiles


@dataclass(frozen=True, slots=True)
class LossSpread:
    """Losses of several releases."""

    value: Fraction  # what was varied: epsilon, or a setting of the curve
    spread: MeanLoss | None  # of the largest |EPL(x)|; None where no curve is defined
    twice_plateau: float | None  # mean of twice the median |EPL(x)|; None likewise
    undefined: int  # releases without a curve

    @classmethod
    def of(cls, value: Fraction, releases: Iterable[NDArray[np.float64]], settings: LossSettings) -> LossSpread:
        """Draw the curve of each release."""
        found = [ResidualLoss.of(residuals, settings).curve for residuals in releases]
        curves = [curve for curve in found if curve is not None]
        undefined = len(found) - len(curves)
        if not curves:
            return cls(value, None, None, undefined)
        maxima = [curve.maximum for curve in curves]
        low, high = np.percentile(maxima, _ENDS)
        spread = MeanLoss(float(np.mean(maxima)), float(low), float(high))
        return cls(value, spread, 2 * float(np.mean([curve.plateau for curve in curves])), undefined)


def _sa1_table(lines: Sequence[LossSpread], law: NoiseRatio, areas: int, replicates: int) -> ReportTable:
    """Table SA1, with both published versions."""
    columns = ("epsilon", "mean", "2.5 %", "97.5 %", "2 x plateau", "slope of the law x 2")
    published = ("reply: mean", "2.5 %, reply", "97.5 %, reply", "program: mean", "2.5 %, program", "97.5 %, program")
    rows = (
        (
            line.value,
            *_numbers(line.spread),
            line.twice_plateau,
            2 * law.slope(line.value / 2),
            *_numbers(SA1_REPLY.get(line.value)),
            *_numbers(SA1_PROGRAM.get(line.value)),
        )
        for line in lines
    )
    return study_table(
        "table_SA1",
        f"Table SA1: empirical privacy loss of {areas:,} district totals, {replicates} releases an epsilon",
        (*columns, *published),
        rows,
        note="mean and percentiles of the largest |EPL(x)| over the releases; published in the authors' reply and "
        "printed by their program (10 releases).",
    )


def _sensitivity_table(varied: Mapping[str, Sequence[LossSpread]], replicates: int) -> ReportTable:
    """What a setting of the curve does, with what was printed of it."""
    rows = (
        (name, line.value, *_numbers(line.spread), line.twice_plateau, line.undefined, PRINTED[name][line.value].mean)
        for name, lines in varied.items()
        for line in lines
    )
    return study_table(
        "sensitivity",
        f"Sensitivity at epsilon = {float(EXAMPLES[0].epsilon):g}, {replicates} releases",
        ("setting", "value", "mean", "2.5 %", "97.5 %", "2 x plateau", "undefined", "printed mean"),
        rows,
        note="The printed tables are no evidence: their program ignored the setting and drew anew, so every line is of "
        "factor 0.1, percentile 95, multiplier 1. Here it is varied, on the same releases. undefined: releases whose "
        "density vanishes within the range.",
    )


def _numbers(spread: MeanLoss | None) -> tuple[float | None, float | None, float | None]:
    return (None, None, None) if spread is None else (spread.mean, spread.low, spread.high)


_SOURCE: Final = (
    "The study: A. D. Flaxman and S. Petti, Supplementary Methods Appendix to Differential privacy in the 2020 US "
    "census: what will it do? Quantifying the accuracy/privacy tradeoff: design and validation of the empirical "
    "privacy loss metric, 2020."
)
_DEFINITIONS: Final = {
    "EPL(x)": "ln f(x) - ln f(x + 1), f the Gaussian kernel density of the residuals (factor 0.1 of their standard "
    "deviation), x up to the 95th percentile of residuals.",
    "maximum": "Largest |EPL(x)|, which the study calls the empirical privacy loss and compares with epsilon. It grows "
    "as the number of residuals falls.",
    "plateau": "Median of |EPL(x)|: the slope of the distribution, here half of epsilon, since noise has parameter "
    "epsilon / 2.",
    "epsilon": "The budget that the study compares with; in example 2 the sum of two.",
    "coded, exact": "Two distributions of noise with parameter z: its ratio is 1 - z, or exp(-z).",
}
_WHAT: Final = {
    1: "Example 1: district totals with noise at epsilon = {epsilon:g}.",
    2: f"Example 2: district totals measured at {float(_TOTAL_EPSILON):g} and strata at {float(_STRATA_EPSILON):g}, "
    "fitted without negative counts; residuals of the fitted totals.",
    3: "Example 3: strata measured at epsilon = {epsilon:g}, fitted without negative counts to exact county totals "
    f"(weight {_COUNTY_WEIGHT:g}); residuals of all strata.",
}
_EXAMPLE: Final = " Left: residuals (protected minus exact). Right: EPL(x); dashed: {half:g} and {epsilon:g}."
_SA1: Final = (
    "Mean of the largest |EPL(x)| over the releases of example 1 at each epsilon, with the 2.5th and 97.5th "
    "percentile, and both published versions; dashed: epsilon itself."
)
_ROWS: Final = 8
_SHIFT: Final = 1.06  # neighbours on a logarithmic scale


#: All epsilons of table SA1, in either version, and that of the examples.
GRID: Final = tuple(sorted({*SA1_REPLY, *SA1_PROGRAM, EXAMPLES[0].epsilon}))


@dataclass(frozen=True, slots=True)
class AppendixSettings:
    """What can be set; the defaults are those of the appendix."""

    epsilons: tuple[Fraction, ...] = GRID  # lines of table SA1
    replicates: int = 10  # of each line, and of the sensitivity tables
    law: NoiseRatio = NoiseRatio.CODED
    seed: int = 12345  # of people and noise

    def __post_init__(self) -> None:
        """Refuse what cannot be done."""
        require_least(1, replicates=self.replicates)
        require_least(0, seed=self.seed)
        if not self.epsilons or min(self.epsilons) <= 0:
            raise ConfigurationError("epsilon: expected numbers above 0")


@dataclass(frozen=True, slots=True, eq=False)
class AppendixResult(StudyResult):
    """Everything that was found."""

    title = "How empirical privacy loss behaves"
    definitions = _DEFINITIONS

    settings: AppendixSettings
    examples: tuple[Example, ...]  # the three
    lines: tuple[LossSpread, ...]  # table SA1, by epsilon
    # At the epsilon of example 1, by setting of the curve: "bandwidth", "percentile", "multiplier".
    sensitivity: Mapping[str, tuple[LossSpread, ...]]

    def tables(self) -> tuple[ReportTable, ...]:
        """Examples, table SA1, sensitivity."""
        number = self.settings.replicates
        return (
            examples_table(self.examples),
            _sa1_table(self.lines, self.settings.law, DISTRICTS, number),
            _sensitivity_table(self.sensitivity, number),
        )

    def lead(self) -> tuple[str, str]:
        """The source, and what was simulated."""
        settings = self.settings
        return (
            _SOURCE,
            f"{COUNTIES} counties and {DISTRICTS:,} enumeration districts of a simulated state like Washington in "
            f"1940; {RATIOS[settings.law]}; {settings.replicates} releases an epsilon; seed {settings.seed}. Nobody "
            "lives there and the key of the noise is known.",
        )

    def figures(self) -> list[Figure]:
        """An example each, and table SA1."""
        return [*map(_example_figure, self.examples), _sa1_figure(self)]

    def content(self) -> dict[str, Any]:
        """Settings, tables and curves."""
        of = self.settings
        settings: dict[str, Any] = {"replicates": of.replicates, "law": of.law.value, "seed": of.seed}
        settings["epsilons"] = [as_float(epsilon) for epsilon in of.epsilons]
        curves = [{"example": example.number, **example.found.curve_json()} for example in self.examples]
        facts = {"format": 1, "experiment": "epl-appendix", "settings": settings}
        return {**facts, "tables": table_records(self.tables()), "curves": curves}


def epl_appendix(settings: AppendixSettings) -> AppendixResult:
    """Repeat the appendix; the same for the same settings."""
    noise = Noise("epl-appendix", settings.seed, settings.law)
    lines = [
        LossSpread.of(epsilon, _repeated(epsilon, noise, settings.replicates), AS_CODED)
        for epsilon in sorted(set(settings.epsilons))
    ]
    found = examples(washington(settings.seed), noise)
    return AppendixResult(settings, found, tuple(lines), _sensitivity(noise, settings.replicates))


def _repeated(epsilon: Fraction, noise: Noise, replicates: int) -> list[NDArray[np.float64]]:
    """Residuals of example 1, which are its noise whatever the counts, several times."""
    drawn = noise.draw(f"table SA1, epsilon {epsilon}", epsilon / 2, DISTRICTS, replicates)
    return list(drawn.T.astype(np.float64))


def _sensitivity(noise: Noise, replicates: int) -> dict[str, tuple[LossSpread, ...]]:
    """The same releases throughout, so that differences come from the setting alone."""
    releases = _repeated(EXAMPLES[0].epsilon, noise, replicates)
    return {
        name: tuple(LossSpread.of(value, releases, _varied(name, float(value))) for value in printed)
        for name, printed in PRINTED.items()
    }


def _varied(name: str, value: float) -> LossSettings:
    """The settings of the appendix but for one."""
    changed: dict[str, Any] = {name: value}
    return replace(AS_CODED, name="varied", **changed)


def _example_figure(example: Example) -> Figure:
    epsilon, curve = float(example.published.epsilon), example.found.curve
    reach = 1.2 * (example.found.root_mean_square if curve is None else float(np.abs(curve.x).max() + 1))
    caption = (_WHAT[example.number] + _EXAMPLE).format(epsilon=epsilon, half=epsilon / 2)
    releases = {f"example {example.number}": example.found}
    return residuals_and_curves(releases, (epsilon / 2, epsilon), example.counted, reach, caption)


def _sa1_figure(result: AppendixResult) -> Figure:
    ours = {line.value: line.spread for line in result.lines if line.spread is not None}
    series: list[Whiskers | Guide] = []
    for at, (label, lines) in enumerate({"here": ours, "reply": SA1_REPLY, "program": SA1_PROGRAM}.items()):
        shown = {value: loss for value, loss in lines.items() if value in ours}
        if shown:
            low, mean, high = zip(*((loss.low, loss.mean, loss.high) for loss in shown.values()), strict=True)
            across = [float(value) * _SHIFT ** (at - 1) for value in shown]
            series.append(Whiskers(across, low, high, at, 1, mean, label, at))
    ends = [float(value) for value in sorted(ours)] or [0.1, 1.0]
    epsilons = Axis("epsilon", "log", ends[0] / 1.2, ends[-1] * 1.2)
    panel = Panel((*series, Guide(dashed=True)), epsilons, Axis("largest |EPL(x)|", "log"))
    return Figure(_SA1, (panel,), height=_ROWS, legend="above", title="Largest empirical privacy loss (EPL)")
