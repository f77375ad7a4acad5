"""Level by level: which steps there are, in which order, and the one loop that carries them out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np

from das_spark.core.published import HeldCounts, PublishedFamily, held_bounds, held_on
from das_spark.estimation import (
    LEAST_VARIANCE,
    FamilyBounds,
    FamilyFlows,
    FamilyGroups,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
)

if TYPE_CHECKING:
    from das_spark.core.estimators import Estimator, Needs
    from das_spark.core.family import DeclaredBounds, NoisyAnswers
    from das_spark.histogram import Histogram, Query

#: Name of bounds of geounits of which only the sum over a group, such as the parts of a state, has a known total.
GROUP_TOTAL: Final = "group_total"


@dataclass(frozen=True, slots=True)
class LevelPlan:
    """How the families whose children are of one level are estimated; small and picklable.

    Attributes:
        size: Cells of the histogram.
        queries: Every query that a measurement or a bound of the level names: measured queries by their name, bounds by
            the bound's name (`class`, `total`, `added:...`).
        family: How its families are solved and rounded.
        estimator: What estimates them.
        held: Counts of another product that every child is held to; None where they are held to none.
    """

    size: int
    queries: Mapping[str, Query]
    family: FamilyPlan
    estimator: Estimator
    held: HeldCounts | None = None

    def declared(
        self,
        parent: str,
        children: tuple[str, ...],
        bounds: Mapping[str, DeclaredBounds],
        published: PublishedFamily | None = None,
    ) -> FamilyProblem:
        """The problem of a family before it is measured: its children, and what declared invariants demand of them.

        Args:
            parent: Geocode of the parent; empty at the top.
            children: Geocodes, sorted.
            bounds: By name.
            published: What another product has published of the children; None where they are not held to it.

        Raises:
            EstimationError: The children are held to what was published, and it is not there.
        """
        groups = _groups(children, bounds.get(GROUP_TOTAL), bounds.get("total"))
        apart = {"flow", GROUP_TOTAL} | ({"total"} if groups is not None else set())
        flow = bounds.get("flow")
        if self.held is not None and flow is not None and self.held.query.answers_in(self.queries["class"]) is not None:
            flow = None  # what was published of the descendants divides the class margins, and says what they are
        return FamilyProblem(
            parent_geocode=parent,
            parent=None,
            children=children,
            size=self.size,
            measurements=(),
            bounds=(
                *(
                    FamilyBounds(name, self.queries[name], bound.lower, bound.upper)
                    for name, bound in bounds.items()
                    if name not in apart
                ),
                *([] if self.held is None else [held_bounds(self.held, children, published)]),
            ),
            flows=None if flow is None else _flows(children, flow, self.queries["class"]),
            groups=groups,
        )

    def measured(
        self, declared: FamilyProblem, parent: Histogram | None, answers: Iterable[NoisyAnswers]
    ) -> FamilyProblem:
        """The problem of a family that is measured.

        Args:
            declared: What follows from declared invariants alone: the children and their bounds.
            parent: The estimate of the parent; None at the top, and while nothing is estimated yet.
            answers: Noisy answers of all children.
        """
        bounds = declared.bounds
        # While nothing is estimated yet, the parent of a family below the top says nothing of its cells.
        if self.held is not None and (parent is not None or not declared.parent_geocode):
            name, relaxing = self.held.name, self.family.failsafe
            bounds = tuple(
                held_on(bound, parent, everywhere=relaxing) if bound.name == name else bound for bound in bounds
            )
        measurements = tuple(self._measurement(answer) for answer in answers)
        return replace(declared, parent=parent, measurements=measurements, bounds=bounds)

    def _measurement(self, answers: NoisyAnswers) -> FamilyMeasurement:
        query = self.queries[answers.query]
        rows = np.arange(query.rows) if answers.rows is None else answers.rows
        return FamilyMeasurement(query, rows, answers.values, np.maximum(answers.variance, LEAST_VARIANCE))


def _flows(children: tuple[str, ...], rows: DeclaredBounds, query: Query) -> FamilyFlows:
    position = {code: index for index, code in enumerate(children)}
    return FamilyFlows(
        query=query,
        child=np.array([position[code] for code in rows.geocodes], dtype=np.int64),
        lower=rows.lower[:, :-1],
        upper=rows.upper[:, :-1],
        total=rows.lower[:, -1],
    )


def _groups(
    children: tuple[str, ...], grouped: DeclaredBounds | None, alone: DeclaredBounds | None
) -> FamilyGroups | None:
    """Groups of children with their totals, where there are groups: a child that shares no total is its own."""
    if grouped is None:
        return None
    labels, totals = {code: code for code in children}, dict.fromkeys(children, -1)
    for rows in (grouped,) if alone is None else (grouped, alone):
        labels |= dict(zip(rows.geocodes, rows.members, strict=True))
        totals |= dict(zip(rows.geocodes, rows.lower[:, 0].tolist(), strict=True))
    return FamilyGroups(
        labels=tuple(labels[code] for code in children),
        totals=np.array([totals[code] for code in children], dtype=np.int64),
    )


class Work(StrEnum):
    """What is done with the families of a level."""

    MEASURE = "measure"
    UPWARD = "upward"
    ESTIMATE = "estimate"


@dataclass(frozen=True, slots=True)
class LevelStep:
    """One kind of work on one level."""

    work: Work
    geolevel: str


class Executor(Protocol):
    """Brings what belongs to a family together, and lets it be measured or estimated.

    A step finds the results of those before it where the executor has put them: in tables of a run, or in memory.
    """

    def measure(self, geolevel: str) -> None:
        """Measure every family of a level; where not all rows are measured, the level above is estimated."""

    def upward(self, geolevel: str) -> None:
        """Carry the families of a level upwards; it is measured, and so was every level below it."""

    def estimate(self, geolevel: str) -> None:
        """Estimate every family of a level; it is measured, and the level above it is estimated.

        Raises:
            EstimationError: A family is infeasible or was not solved; nothing of the level is kept.
        """


def level_steps(levels: Sequence[str], needs: Needs) -> tuple[LevelStep, ...]:
    """The steps through all levels, in order, as an estimator needs them.

    Without an upward pass each level is measured and estimated before the next one, whose measurements can then leave
    out what its parents' estimates do not touch. With one, its levels are measured first, and gone through from the
    lowest to the top; then all levels are estimated from the top.

    Args:
        levels: Names of the levels, from the top.
        needs: What the estimator declares.
    """
    first = needs.upward_levels(levels)
    steps = [LevelStep(Work.MEASURE, level) for level in first]
    steps += [LevelStep(Work.UPWARD, level) for level in reversed(first)]
    for level in levels:
        steps += [] if level in first else [LevelStep(Work.MEASURE, level)]
        steps.append(LevelStep(Work.ESTIMATE, level))
    return tuple(steps)


def run_levels(steps: Iterable[LevelStep], executor: Executor) -> None:
    """Carry out steps: the one loop over the levels of a run.

    Args:
        steps: As `level_steps` gives them; or the first of them, or those that are left.
        executor: Carries out a step.

    Raises:
        DasError: As the executor does; later steps are not begun.
    """
    works = {Work.MEASURE: executor.measure, Work.UPWARD: executor.upward, Work.ESTIMATE: executor.estimate}
    for step in steps:
        works[step.work](step.geolevel)
