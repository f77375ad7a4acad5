"""Membership and attribute inference from the noisy answers, by the likelihood ratio: the best attacker's test.

Of everything that is measured he knows all but one record: which of two it is, which attribute of it is what, or where
in a geounit it lives. Noise is drawn under either record by the code that measures a run, and how often the test goes
wrong is laid over the trade-off curve that the accountant claims (`das_spark.attack.roc`). The pairs are those that the
accountant counts as the worst: all answers to which something is charged differ. So the curves must not lie below the
claimed ones, and should lie on them: what is claimed is then no more than what can happen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from das_spark.attack.drawing import Answers, DrawnTarget, MeasuredRun, Measuring, count_errors
from das_spark.attack.own_noise import NoiseFindings, RunNoise, judge_noise, present_noise
from das_spark.attack.roc import JudgedCurve, judge_curves, roc_figure
from das_spark.config import held_geolevel
from das_spark.privacy import compose_exactly
from das_spark.report import PROGRAMS, ReportColumn, ReportSection, ReportTable

if TYPE_CHECKING:
    from das_spark.attack.settings import AttackSettings
    from das_spark.config import RunPlan

RECORD: Final = "record"
ATTRIBUTE: Final = "attribute"
PLACE: Final = "place"
#: What is inferred -> what the two records differ in.
KINDS: Final = {
    RECORD: "the whole record: every answer in which two records can differ, differs",
    ATTRIBUTE: "one attribute, all others and the place being known",
    PLACE: "where in a geounit of the geolevel the person lives, all attributes being known",
}
#: Curves that the page draws.
_DRAWN: Final = 6


@dataclass(frozen=True, slots=True)
class InferredRow:
    """What one target says.

    Args:
        kind: One of `KINDS`.
        attribute: Which is inferred; empty for all.
        geolevel: Whose answers alone are used; empty for all. Of a place, that in whose geounits it is looked for.
        curve: Number of its curve; several targets have the same where the same answers differ.
    """

    kind: str
    attribute: str
    geolevel: str
    curve: int

    @property
    def name(self) -> str:
        """In a few words."""
        if self.kind == PLACE:
            return f"place within {self.geolevel}"
        return (self.attribute or "whole record") + (f" at {self.geolevel}" if self.geolevel else "")


@dataclass(frozen=True, slots=True)
class InferenceFindings:
    """What inference found.

    Args:
        draws: Of the noise, under either record.
        level: Confidence with which all limits hold together.
        usual_shares: Whether geounits have shares of their own, in place of which the usual ones are drawn.
        rows: What is inferred.
        curves: The curves of the rows.
        own: What the noise of the run itself says; None where it was not looked at.
    """

    draws: int
    level: float
    usual_shares: bool
    rows: tuple[InferredRow, ...]
    curves: tuple[JudgedCurve, ...]
    own: NoiseFindings | None = None

    @property
    def convicts(self) -> bool:
        """Whether something contradicts the claims, or the declared noise."""
        return any(curve.convicts for curve in self.curves) or (self.own is not None and self.own.convicts)

    @property
    def verdict(self) -> str:
        """In a few sentences."""
        return self._of_draws if self.own is None else f"{self._of_draws} {self.own.verdict}"

    @property
    def _of_draws(self) -> str:
        wrong = [row.name for row in self.rows if self.curves[row.curve].convicts]
        if wrong:
            return f"Inference beats the claim: more is learned than the accountant allows of {', '.join(wrong)}."
        whole = self.curves[self.rows[0].curve]
        touching = sum(curve.touches for curve in self.curves)
        return (
            f"Inference by the best attacker tells one record from another with an advantage of {whole.advantage:.3f};"
            f" the accountant allows {whole.claimed_advantage:.3f}. None of {len(self.curves)} curves exceeds its"
            f" claim by more than chance, and {touching} cannot be told from it."
        )


def infer(
    plan: RunPlan,
    settings: AttackSettings,
    progress: Callable[[str], None] = lambda line: None,
    measuring: Measuring | None = None,
    noise: RunNoise | None = None,
) -> InferenceFindings:
    """Infer records, attributes and places from drawn noise, and judge the errors by what the accountant claims.

    Args:
        plan: The run; its input and output are not opened.
        settings: Draws, confidence and key.
        progress: Is given a line at a time.
        measuring: How geolevels are measured; as the plan says where None.
        noise: What the run itself drew; None where nobody looks.

    Raises:
        ConfigurationError: Nothing exact is known of the composition.
    """
    run = MeasuredRun.of(plan, measuring)
    rows = list(_targets(run))
    # What is said of drawn noise, and of that of the run, holds together.
    alpha = (1 - settings.level) / (1 if noise is None else 2)
    curves = judge_curves(count_errors([run], [target for _, target in rows], settings, "inference"), alpha)
    progress(f"inference: {settings.draws:,} draws under either record, {len(curves)} curves")
    # Targets of the same answers share the first one's curve.
    numbers: dict[tuple[frozenset[Answers], bool], int] = {}
    for _, target in rows:
        numbers.setdefault((target.answers, target.same_geounit), len(numbers))
    return InferenceFindings(
        draws=settings.draws,
        level=settings.level,
        usual_shares=not plan.spine.is_census,
        rows=tuple(InferredRow(*row, numbers[target.answers, target.same_geounit]) for row, target in rows),
        curves=curves,
        own=None if noise is None else judge_noise(plan, noise, alpha),
    )


def _targets(run: MeasuredRun) -> Iterator[tuple[tuple[str, str, str], DrawnTarget]]:
    """What is inferred (kind, attribute, geolevel), and which answers differ. The whole record comes first."""
    for row, answers in _differing(run):
        levels, queries = {answer.geolevel for answer in answers}, {answer.query for answer in answers}
        claim = compose_exactly([run.plan.budget], levels, queries)
        if claim is not None and answers:
            yield row, DrawnTarget(InferredRow(*row, 0).name, frozenset(answers), row[0] == ATTRIBUTE, claim)


def _differing(run: MeasuredRun) -> Iterator[tuple[tuple[str, str, str], list[Answers]]]:
    plan, every = run.plan, run.answers(0)
    names = [level.geolevel for level in plan.budget.levels]
    yield (RECORD, "", ""), every
    for axis, attribute in enumerate(plan.product.schema.attributes):
        asking = [each for each in every if plan.queries[each.query].involves(axis)]
        yield (ATTRIBUTE, attribute.name, ""), asking
        for name in names:
            yield (ATTRIBUTE, attribute.name, name), [each for each in asking if each.geolevel == name]
    held = held_geolevel(plan)
    for depth in range(0 if held is None else names.index(held), len(names) - 1):
        yield (PLACE, "", names[depth]), [each for each in every if each.geolevel in names[depth + 1 :]]


_MEANING: Final = (
    "Somebody knows all records but one, and that this one is either of two. He tells the two apart by the likelihood"
    " ratio of all noisy answers in which they differ, which no test surpasses. Noise was drawn {draws:,} times under"
    " either record, by the code that measures a run. Advantage is the largest difference of the probabilities with"
    " which he claims the one record where it is the right one and where it is not: 0 for a guess, 1 for certainty."
    " Limits of errors are those of Clopper and Pearson; with {level:.0%} confidence all of them hold together."
)
_USUAL: Final = (
    "Geounits of this spine have shares of the budget of their own; the usual shares of their geolevels are drawn and"
    " claimed here."
)
_CAPTION: Final = "How well the best test tells one of two records from the other, by {draws:,} draws under either."


def present_inference(found: InferenceFindings) -> tuple[ReportSection, ...]:
    """What people read of inference.

    Args:
        found: Findings of `infer`.
    """
    meaning = _MEANING.format(draws=found.draws, level=found.level)
    drawn = [found.curves[number] for number in dict.fromkeys(row.curve for row in found.rows if _is_drawn(row))]
    figure = roc_figure(drawn[:_DRAWN], "Inference from the noisy answers", _CAPTION.format(draws=found.draws))
    usual = (_USUAL,) if found.usual_shares else ()
    kinds = tuple(f"{name}: {text}." for name, text in KINDS.items())
    section = ReportSection("Inference", (meaning, *usual, *kinds, figure, _table(found), found.verdict))
    return (section,) if found.own is None else (section, present_noise(found.own))


def _is_drawn(row: InferredRow) -> bool:
    """Whether the page draws it: attributes from all geolevels together."""
    return row.kind != ATTRIBUTE or not row.geolevel


def _table(found: InferenceFindings) -> ReportTable:
    rows, marked = [], set()
    for number, row in enumerate(found.rows):
        curve = found.curves[row.curve]
        advantage = (curve.advantage, curve.claimed_advantage)
        area = (curve.auc, curve.claimed_auc)
        rows.append((row.kind, row.attribute, row.geolevel, *advantage, *area, curve.excess, curve.finding))
        if curve.convicts:
            marked.add(number)
    columns = (
        ReportColumn("kind", "inferred"),
        ReportColumn("attribute"),
        ReportColumn("geolevel"),
        ReportColumn("advantage", form=".4f"),
        ReportColumn("claimed_advantage", "claimed advantage", ".4f"),
        ReportColumn("auc", "area under the curve", ".4f"),
        ReportColumn("claimed_auc", "claimed area", ".4f"),
        ReportColumn("excess", "nearest to a violation", "+.1e", media=PROGRAMS),
        ReportColumn("finding"),
    )
    return ReportTable.of("inference", "What is inferred", columns, rows, marked=frozenset(marked))
