"""What is known of the geounits of a geolevel from below, for estimators that begin at the leaves."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind, steps_of
from das_spark.core import Work
from das_spark.pipeline.rehearsal import synthetic_family
from das_spark.pipeline.stage import RunStage
from das_spark.pipeline.trials import Trial, product_fix

if TYPE_CHECKING:
    from das_spark.pipeline.trials import Ahead


class UpwardStage(RunStage):
    """Carries a level upwards; what it writes is work, which no manifest names."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.UPWARD

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Pose a synthetic family of every level of the pass."""
        plan = ahead.plan
        for step in steps_of(plan):
            if step.work is Work.UPWARD:
                work = partial(synthetic_family, plan, step.geolevel)
                yield Trial("estimation.estimator", work, product_fix(plan))


STAGE: Final = UpwardStage
