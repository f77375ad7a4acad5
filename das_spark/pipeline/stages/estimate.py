"""Estimates of a geolevel."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind
from das_spark.pipeline.rehearsal import rehearse_estimation, rehearse_solver
from das_spark.pipeline.stage import RunStage
from das_spark.pipeline.trials import Trial, product_fix

if TYPE_CHECKING:
    from das_spark.pipeline.trials import Ahead


class EstimateStage(RunStage):
    """Estimates the families of a level."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.ESTIMATE

    def trials(self, ahead: Ahead) -> Iterator[Trial]:
        """Estimate a synthetic family of every level, and solve once by each solver of the chain."""
        plan = ahead.plan
        for level in plan.spine.names:
            yield Trial("estimation", partial(rehearse_estimation, plan, level), product_fix(plan))
        for solver in plan.estimation.solvers:
            fix = "leave it out of estimation.solvers, or install what it needs: das-spark doctor"
            yield Trial(f"estimation.solvers = {solver!r}", partial(rehearse_solver, plan, solver), fix)

    @property
    def recorded(self) -> tuple[str, ...]:
        """The estimates of a level, and what is said of their families."""
        return ("estimates", "diagnostics")


STAGE: Final = EstimateStage
