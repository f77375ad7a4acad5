"""Measurements that exist are examined, before a folder is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind
from das_spark.pipeline.stage import RunStage
from das_spark.pipeline.trials import Trial

if TYPE_CHECKING:
    from das_spark.pipeline.trials import Ahead


class CheckStage(RunStage):
    """Is a trial itself (`das_spark.pipeline.sources.Source.check`): nothing is spent in it."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.CHECK

    def trials(self, ahead: Ahead) -> tuple[Trial, ...]:
        """Try nothing beforehand."""
        del ahead
        return ()


STAGE: Final = CheckStage
