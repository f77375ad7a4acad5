"""Noisy answers of a geolevel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind
from das_spark.pipeline.stage import RunStage
from das_spark.pipeline.trials import Trial
from das_spark.privacy import require_table

if TYPE_CHECKING:
    from das_spark.pipeline.trials import Ahead


class MeasureStage(RunStage):
    """Draws noise, once for each level."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.MEASURE

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Ask for noise that can be drawn: its table fits the memory."""
        budget = ahead.plan.budget
        for level in budget.levels:
            for query in level.queries:
                mechanism = budget.mechanism(level.geolevel, query.query)
                yield Trial(f"budget, {query.query} at {level.geolevel}", partial(require_table, mechanism))

    @property
    def recorded(self) -> tuple[str, ...]:
        """The measurements of a level."""
        return ("measurements",)


STAGE: Final = MeasureStage
