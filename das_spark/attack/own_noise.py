"""The noise that a run itself drew, by its measurements less the truth: is it what was declared?

Inference from drawn noise says nothing of what a run did with it. Here the attacker has the published measurements, and
whoever holds the confidential counts compares. For every query of a geolevel:

- **Was one record more counted in an answer?** The errors of this test over all answers, as many independent draws as
  there are answers, laid over the trade-off curve of the single mechanism (`das_spark.attack.roc`).
- **Is the distribution the declared one?** By the same limits: its tails must lie between them at every threshold.
- **Are there more zeros than declared**, as where noise was left out? An exact binomial test.
- **Do two geounits have the same noise** in all their answers? Of c equal pairs where E are expected, the probability
  is E / c at most (Markov), whatever depends on whatever.
- **Do signs agree** more or less often than half of the time, between the queries of a geounit, between siblings, and
  between child and parent, at the same answer? Signs of independent symmetric noise do exactly so, in chains of
  neighbours as well: an exact binomial test. Noise that is wide in one place and narrow in another shows here if it
  comes from the same bits.

Half of the probability of being wrong goes to the limits, the other half in equal parts to the tests.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc

from das_spark.attack.roc import Counted, JudgedCurve, judge_curves, roc_figure
from das_spark.privacy import ExactComposition, Mechanism, cumulative_table
from das_spark.report import EVERYWHERE, PROGRAMS, ReportColumn, ReportSection, ReportTable

if TYPE_CHECKING:
    from das_spark.config import RunPlan

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

#: Curves that the page draws.
_DRAWN: Final = 4
#: Between what signs are compared.
QUERIES: Final = "queries of a geounit"
SIBLINGS: Final = "siblings"
PARENTS: Final = "child and parent"
_THRESHOLDS: Final = 49
_REACH: Final = 6.0  # standard deviations of the thresholds from 0


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Measurements less true answers, of one query at one geolevel.

    Args:
        geolevel: Of the spine.
        query: What was measured.
        share: Share of the total of these geounits, exact, where geounits have shares of their own; empty otherwise.
        values: (n,) residuals, ascending, none twice.
        frequencies: (n,) how often each occurs.
        vectors: (m, 3) number of answers of a geounit; how many geounits have so many; pairs of them with equal noise
            in the same answers.
    """

    geolevel: str
    query: str
    share: str
    values: Integers
    frequencies: Integers
    vectors: Integers


@dataclass(frozen=True, slots=True)
class Agreement:
    """How often noise in two places has the same sign, where neither is 0."""

    geolevel: str
    between: str  #: `QUERIES`, `SIBLINGS` or `PARENTS`
    compared: int
    agreeing: int


@dataclass(frozen=True, slots=True)
class RunNoise:
    """The noise of a run."""

    residuals: tuple[Residuals, ...]
    agreements: tuple[Agreement, ...]


@dataclass(frozen=True, slots=True)
class NoiseRow:
    """What the noise of one query at one geolevel says.

    Args:
        geolevel: Of the spine.
        query: What was measured.
        share: As of `Residuals`.
        answers: How many there are.
        deviation: Root mean square of the residuals.
        declared_deviation: Standard deviation of the declared noise.
        curve: Whether one record more was counted.
        misfit: Largest distance of the declared tail from the limits of the observed one; above 0 it is another one.
        zeros: Residuals of 0.
        expected_zeros: How many were declared.
        zeros_probability: With what probability as many would be seen.
        pairs: Pairs of geounits with equal noise.
        expected_pairs: How many were expected.
        pairs_probability: With what probability as many would be seen, at most.
        findings: What contradicts the declared noise, in words; empty for nothing.
    """

    geolevel: str
    query: str
    share: str
    answers: int
    deviation: float
    declared_deviation: float
    curve: JudgedCurve
    misfit: float
    zeros: int
    expected_zeros: float
    zeros_probability: float
    pairs: int
    expected_pairs: float
    pairs_probability: float
    findings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AgreementRow:
    """What signs in two places say."""

    geolevel: str
    between: str
    compared: int
    agreeing: int
    probability: float  #: with which at least as far from half of them would agree
    convicts: bool


@dataclass(frozen=True, slots=True)
class NoiseFindings:
    """What the noise of a run says."""

    rows: tuple[NoiseRow, ...]
    agreements: tuple[AgreementRow, ...]

    @property
    def convicts(self) -> bool:
        """Whether something contradicts the declared noise."""
        return any(row.findings for row in self.rows) or any(row.convicts for row in self.agreements)

    @property
    def verdict(self) -> str:
        """In a sentence."""
        wrong = [f"{row.query} at {row.geolevel} ({', '.join(row.findings)})" for row in self.rows if row.findings]
        wrong += [f"signs agree between {row.between} at {row.geolevel}" for row in self.agreements if row.convicts]
        if wrong:
            return f"The noise of this run is not what was declared: {'; '.join(wrong)}."
        answers = sum(row.answers for row in self.rows)
        return f"The noise of this run, in {answers:,} answers, is not told from the declared one by any test."


def judge_noise(plan: RunPlan, noise: RunNoise, alpha: float) -> NoiseFindings:
    """Judge the noise of a run by what was declared.

    Args:
        plan: The run.
        noise: Its residuals.
        alpha: With what probability sound noise may be convicted, at most.
    """
    residuals = [residual for residual in noise.residuals if len(residual.values)]
    mechanisms = [_mechanism(plan, residual) for residual in residuals]
    grids = [_thresholds(mechanism) for mechanism in mechanisms]
    counted = [
        _counted(residual, grid, _claim(mechanism))
        for residual, grid, mechanism in zip(residuals, grids, mechanisms, strict=True)
    ]
    curves = judge_curves(counted, alpha / 2)
    own = alpha / 2 / max(1, 2 * len(residuals) + len(noise.agreements))
    return NoiseFindings(
        tuple(_row(*each, own) for each in zip(residuals, mechanisms, grids, curves, strict=True)),
        tuple(_agreement(agreement, own) for agreement in noise.agreements if agreement.compared),
    )


def _mechanism(plan: RunPlan, of: Residuals) -> Mechanism:
    if not of.share:
        return plan.budget.mechanism(of.geolevel, of.query)
    return plan.budget.mechanism_at(of.geolevel, of.query, Fraction(of.share))


@lru_cache(maxsize=256)
def _claim(mechanism: Mechanism) -> ExactComposition:
    """What one answer of this noise tells, with its curve, which takes some tenths of a second."""
    return ExactComposition(((mechanism, 1),))


def _thresholds(mechanism: Mechanism) -> Integers:
    """Residuals from which on one record more is claimed, ascending: fixed by the declared noise alone."""
    end = math.ceil(_REACH * math.sqrt(mechanism.variance())) + 2
    return np.unique(np.rint(np.linspace(-end, end, _THRESHOLDS)).astype(np.int64))


def _counted(of: Residuals, thresholds: Integers, claim: ExactComposition) -> Counted:
    """Errors of the claim that one record more is counted, made where a measurement exceeds the count by a threshold.

    It is wrong where residuals of the count reach the threshold; it is missed where one more does not reach it.
    """
    answers = int(of.frequencies.sum())
    below = np.concatenate([[0], np.cumsum(of.frequencies)])
    # By falling thresholds, from type I errors of 0.
    falling = thresholds[::-1]
    taken = answers - below[np.searchsorted(of.values, falling, side="left")]
    missed = below[np.searchsorted(of.values, falling - 1, side="left")]
    name = f"{of.query} at {of.geolevel}" + (f", share {of.share}" if of.share else "")
    return Counted(name, answers, taken, missed, claim)


def _row(of: Residuals, mechanism: Mechanism, thresholds: Integers, curve: JudgedCurve, alpha: float) -> NoiseRow:
    answers = int(of.frequencies.sum())
    limits = np.array(curve.type_one_limits)
    tails = declared_tails(mechanism, thresholds[::-1])
    misfit = float(np.maximum(limits[:, 0] - tails, tails - limits[:, 1]).max())
    (at_zero, above_zero) = declared_tails(mechanism, np.array([0, 1]))
    none = float(at_zero - above_zero)
    zeros = int(of.frequencies[of.values == 0].sum())
    zeros_probability = float(bdtrc(zeros - 1, answers, none)) if zeros else 1.0
    pairs = int(of.vectors[:, 2].sum())
    expected = _expected_pairs(mechanism, of.vectors)
    pairs_probability = min(1.0, expected / pairs) if pairs else 1.0
    found = {
        "below the claimed curve": curve.convicts,
        "another distribution": misfit > 0,
        "noise left out": zeros_probability < alpha,
        "noise used twice": pairs_probability < alpha,
    }
    return NoiseRow(
        geolevel=of.geolevel,
        query=of.query,
        share=of.share,
        answers=answers,
        deviation=math.sqrt(float((of.frequencies * of.values.astype(np.float64) ** 2).sum()) / answers),
        declared_deviation=math.sqrt(mechanism.variance()),
        curve=curve,
        misfit=misfit,
        zeros=zeros,
        expected_zeros=answers * none,
        zeros_probability=zeros_probability,
        pairs=pairs,
        expected_pairs=expected,
        pairs_probability=pairs_probability,
        findings=tuple(name for name, is_found in found.items() if is_found),
    )


def declared_tails(mechanism: Mechanism, values: Integers) -> Floats:
    """P(noise >= value), from the certain boundaries by which noise is drawn.

    Args:
        mechanism: The declared noise.
        values: (n,) any integers.
    """
    table = cumulative_table(mechanism)
    # By symmetry P(X >= t) = P(X <= -t), of which the boundaries are the first 64 bits.
    place = -np.asarray(values) - table.lowest
    inside = np.clip(place, 0, len(table.boundaries) - 1)
    found = table.boundaries[inside].astype(np.float64) / 2.0**64
    return np.where(place < 0, 0.0, np.where(place >= len(table.boundaries), 1.0, found))


def _expected_pairs(mechanism: Mechanism, vectors: Integers) -> float:
    """Pairs of geounits whose independent noise is the same in all their answers."""
    table = cumulative_table(mechanism)
    steps = np.diff(table.boundaries.astype(np.float64) / 2.0**64, prepend=0.0, append=1.0)
    same = float((steps**2).sum())
    answers, geounits = vectors[:, 0].astype(np.float64), vectors[:, 1].astype(np.float64)
    return float((geounits * (geounits - 1) / 2 * same**answers).sum())


def _agreement(of: Agreement, alpha: float) -> AgreementRow:
    # From the nearer end on, and the same at the other one.
    fewer = min(of.agreeing, of.compared - of.agreeing)
    probability = min(1.0, 2 * float(bdtr(fewer, of.compared, 0.5)))
    return AgreementRow(of.geolevel, of.between, of.compared, of.agreeing, probability, probability < alpha)


_MEANING: Final = (
    "The noise that this run itself has drawn, measurements less true answers. For every query of a geolevel: errors of"
    " whoever tells by the measurement whether one record more was counted in an answer, over the curve that is claimed"
    " for this query; whether the distribution is the declared one, at every threshold; whether more noise is 0 than"
    " declared; whether geounits have the same noise in all their answers. And whether signs agree where they have no"
    " reason to. All limits and tests together convict sound noise with the probability above at most."
)
_CAPTION: Final = (
    "How well a measurement tells whether one record more was counted in an answer, over all answers of the run to the"
    " queries with the most answers."
)


def present_noise(found: NoiseFindings) -> ReportSection:
    """What people read of the noise of a run.

    Args:
        found: Findings of `judge_noise`.
    """
    largest = sorted(found.rows, key=lambda row: -row.answers)[:_DRAWN]
    figure = roc_figure([row.curve for row in largest], "The noise of this run", _CAPTION)
    columns = (
        ReportColumn("geolevel"),
        ReportColumn("query"),
        ReportColumn("share", media=EVERYWHERE if any(row.share for row in found.rows) else PROGRAMS),
        ReportColumn("answers", form=",d"),
        ReportColumn("deviation", "standard deviation of the noise", "number"),
        ReportColumn("declared_deviation", "declared", "number"),
        ReportColumn("advantage", form=".4f", media=PROGRAMS),
        ReportColumn("claimed_advantage", form=".4f", media=PROGRAMS),
        ReportColumn("zeros", "without noise", ",d"),
        ReportColumn("expected_zeros", "expected", "number"),
        ReportColumn("pairs", "equal pairs of geounits", ",d"),
        ReportColumn("expected_pairs", form="number", media=PROGRAMS),
        ReportColumn("finding"),
    )
    rows = [
        (
            row.geolevel,
            row.query,
            row.share,
            row.answers,
            row.deviation,
            row.declared_deviation,
            row.curve.advantage,
            row.curve.claimed_advantage,
            row.zeros,
            row.expected_zeros,
            row.pairs,
            row.expected_pairs,
            ", ".join(row.findings) or "as declared",
        )
        for row in found.rows
    ]
    marked = frozenset(number for number, row in enumerate(found.rows) if row.findings)
    queries = ReportTable.of("own_noise", "Noise by query", columns, rows, marked=marked)
    signs = ReportTable.of(
        "noise_signs",
        "Signs of the noise in two places",
        (
            "geolevel",
            "between",
            ReportColumn("compared"),
            ReportColumn("agreeing"),
            ReportColumn("probability", "probability of so many or so few", ".2g"),
            ReportColumn("convicts", "too many or too few"),
        ),
        [
            (row.geolevel, row.between, row.compared, row.agreeing, row.probability, row.convicts)
            for row in found.agreements
        ],
    )
    return ReportSection("The noise of this run", (_MEANING, figure, queries, signs, found.verdict))
