"""Differencing: what two runs of one dataset tell together that neither tells alone.

The ledger composes their budgets: what both measure is one composition, of which the accountant knows the trade-off
curve. The likelihood ratio of all noisy answers of both is the best attacker's test (`das_spark.attack.drawing`), and
its errors are laid over that curve, as those of either run alone over its own.

Estimates of both runs are combined as well. With errors e_A and e_B of the number of records in a geounit, summed over
those of a geolevel, and weights inverse to their squares,

    w = (1 / sum e_A^2) / (1 / sum e_A^2 + 1 / sum e_B^2),     sum (w e_A + (1 - w) e_B)^2                         (T-4)

is what the combination is wrong by. Weights are taken from the errors themselves, which no attacker has: he does no
better with weights of this form.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from das_spark.attack.drawing import DrawnTarget, MeasuredRun, Measuring, count_errors
from das_spark.attack.roc import JudgedCurve, judge_curves, roc_figure
from das_spark.errors import ConfigurationError
from das_spark.privacy import PUBLISHED_DELTA, compose_exactly
from das_spark.report import ReportColumn, ReportSection, ReportTable

if TYPE_CHECKING:
    from das_spark.attack.settings import AttackSettings
    from das_spark.config import RunPlan

TOGETHER: Final = "both together"


@dataclass(frozen=True, slots=True)
class TotalErrors:
    """Errors of the number of records by two runs, summed over the geounits of a geolevel.

    Args:
        geolevel: Of the census.
        geounits: How many.
        first: Sum of the squared errors of the first run.
        second: Of the second one.
        product: Sum of the products of both errors.
    """

    geolevel: str
    geounits: int
    first: float
    second: float
    product: float

    def root_mean_squares(self) -> tuple[float, float, float]:
        """Of the first run, of the second one, and of both combined by (T-4); in records."""
        if min(self.first, self.second) == 0:  # one is exact, and is taken
            combined = 0.0
        else:
            weight = self.second / (self.first + self.second)
            combined = (
                weight**2 * self.first + 2 * weight * (1 - weight) * self.product + (1 - weight) ** 2 * self.second
            )
        first, second, both = (
            math.sqrt(max(each, 0.0) / self.geounits) for each in (self.first, self.second, combined)
        )
        return first, second, both


@dataclass(frozen=True, slots=True)
class DifferencingFindings:
    """What two runs tell together.

    Args:
        names: Of both runs.
        draws: Of the noise, under either record.
        level: Confidence with which all limits hold together.
        usual_shares: Whether geounits have shares of their own, in place of which the usual ones are drawn.
        delta: Of the epsilons.
        epsilons: Certified upper ends of the first run's epsilon, the second one's, and that of both.
        curves: Of the whole record from the first run, from the second one, and from both.
        totals: Errors of the number of records by geolevel of the census; none where the runs are of two products.
    """

    names: tuple[str, str]
    draws: int
    level: float
    usual_shares: bool
    delta: float
    epsilons: tuple[float, float, float]
    curves: tuple[JudgedCurve, ...]
    totals: tuple[TotalErrors, ...] = ()

    @property
    def convicts(self) -> bool:
        """Whether something contradicts the claims."""
        return any(curve.convicts for curve in self.curves)

    @property
    def verdict(self) -> str:
        """In a sentence or two."""
        wrong = [curve.name for curve in self.curves if curve.convicts]
        if wrong:
            return f"Differencing beats the claim of {', '.join(wrong)}."
        first, second, both = (curve.advantage for curve in self.curves)
        return (
            f"Who has both runs tells one record from another with an advantage of {both:.3f}; with one of them,"
            f" {first:.3f} and {second:.3f}. The ledger's composed claim allows"
            f" {self.curves[-1].claimed_advantage:.3f}, and no curve exceeds its claim by more than chance."
        )


def difference(
    plans: Sequence[RunPlan],
    names: tuple[str, str],
    settings: AttackSettings,
    progress: Callable[[str], None] = lambda line: None,
    totals: Sequence[TotalErrors] = (),
    measuring: Sequence[Measuring | None] = (None, None),
) -> DifferencingFindings:
    """Tell records apart by two runs of one dataset, alone and together, and judge the errors by what is claimed.

    Args:
        plans: Of both runs.
        names: Of both runs, which differ.
        settings: Draws, confidence and key.
        progress: Is given a line at a time.
        totals: Errors of both runs' estimates, by `das_spark.spark.differences`.
        measuring: How geolevels are measured; as the plans say where None.

    Raises:
        ConfigurationError: There are not two runs of two names, or nothing exact is known of their composition.
    """
    if len(plans) != 2 or names[0] == names[1]:  # noqa: PLR2004 - a difference has two sides
        raise ConfigurationError("differencing: name two runs of one dataset that are not the same")
    runs = [MeasuredRun.of(plan, how) for plan, how in zip(plans, measuring, strict=True)]
    own = [frozenset(run.answers(number)) for number, run in enumerate(runs)]
    budgets = [plan.budget for plan in plans]
    claims = [compose_exactly(each) for each in ([budgets[0]], [budgets[1]], budgets)]
    targets = [
        DrawnTarget(name, answers, same_geounit=False, claim=claim)
        for name, answers, claim in zip((*names, TOGETHER), (*own, own[0] | own[1]), claims, strict=True)
        if claim is not None
    ]
    if len(targets) < len(claims):
        raise ConfigurationError(
            "differencing: no exact composition is known of Gaussian noise beside several records of a contributor",
            hint="attack the runs one by one",
        )
    curves = judge_curves(count_errors(runs, targets, settings, "differencing"), 1 - settings.level)
    progress(f"differencing: {settings.draws:,} draws under either record, {len(curves)} curves")
    first, second, both = (target.claim.epsilon(PUBLISHED_DELTA).high for target in targets)
    return DifferencingFindings(
        names=names,
        draws=settings.draws,
        level=settings.level,
        usual_shares=not all(plan.spine.is_census for plan in plans),
        delta=float(PUBLISHED_DELTA),
        epsilons=(first, second, both),
        curves=curves,
        totals=tuple(totals),
    )


_MEANING: Final = (
    "Runs of one dataset add up: the ledger composes what they claim. Somebody who knows all records but one tells two"
    " records apart by the likelihood ratio of all noisy answers of {first}, of {second}, and of both; noise was drawn"
    " {draws:,} times under either record by the code that measures these runs. With {level:.0%} confidence all limits"
    " hold together."
)
_USUAL: Final = (
    "Geounits of a spine have shares of their own; the usual shares of their geolevels are drawn and claimed."
)
_CAPTION: Final = (
    "How well the best test tells one of two records from the other by one run, by the other one, and by both, for"
    " which the ledger's composed claim is drawn."
)
_TOTALS: Final = (
    "How well the number of records of a geounit is known by the published estimates of either run, and by both"
    " combined with weights inverse to their mean squared errors."
)


def present_differencing(found: DifferencingFindings) -> tuple[ReportSection, ...]:
    """What people read of differencing.

    Args:
        found: Findings of `difference`.
    """
    first, second = found.names
    meaning = _MEANING.format(first=first, second=second, draws=found.draws, level=found.level)
    blocks = (
        meaning,
        *((_USUAL,) if found.usual_shares else ()),
        roc_figure(found.curves, "Inference from two runs", _CAPTION),
        _claims(found),
        *(_totals(found) if found.totals else ()),
        found.verdict,
    )
    return (ReportSection("Differencing", blocks),)


def _claims(found: DifferencingFindings) -> ReportTable:
    columns = (
        ReportColumn("by"),
        ReportColumn("epsilon", f"claimed epsilon at delta {found.delta:g}", ".4f"),
        ReportColumn("advantage", form=".4f"),
        ReportColumn("claimed_advantage", "claimed advantage", ".4f"),
        ReportColumn("auc", "area under the curve", ".4f"),
        ReportColumn("claimed_auc", "claimed area", ".4f"),
        ReportColumn("finding"),
    )
    rows = [
        (
            curve.name,
            epsilon,
            curve.advantage,
            curve.claimed_advantage,
            curve.auc,
            curve.claimed_auc,
            curve.finding,
        )
        for curve, epsilon in zip(found.curves, found.epsilons, strict=True)
    ]
    marked = frozenset(number for number, curve in enumerate(found.curves) if curve.convicts)
    return ReportTable.of("differencing", "One record from another by two runs", columns, rows, marked=marked)


def _totals(found: DifferencingFindings) -> tuple[ReportTable]:
    first, second = found.names
    columns = (
        ReportColumn("geolevel"),
        ReportColumn("geounits"),
        ReportColumn("first", f"root mean squared error of {first}", "number"),
        ReportColumn("second", f"of {second}", "number"),
        ReportColumn("combined", "of both combined", "number"),
    )
    rows = [(total.geolevel, total.geounits, *total.root_mean_squares()) for total in found.totals]
    return (ReportTable.of("differencing_totals", "Numbers of records by two runs", columns, rows, note=_TOTALS),)
