"""Tables of measurements that exist are taken over (`das_spark.pipeline.sources.Source.write_tables`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from das_spark.config import StageKind
from das_spark.pipeline.sources import imported_tables
from das_spark.pipeline.stage import RunStage
from das_spark.pipeline.trials import Trial, bounds_trial

if TYPE_CHECKING:
    from das_spark.pipeline.trials import Ahead


class ImportStage(RunStage):
    """Takes the place of ingestion and measurement."""

    @property
    def name(self) -> str:
        """Of the stage."""
        return StageKind.IMPORT

    def trials(self, ahead: Ahead) -> tuple[Trial, ...]:
        """Try bounds of units."""
        return (bounds_trial(ahead.plan),)

    @property
    def recorded(self) -> tuple[str, ...]:
        """What comes before estimation."""
        return (*(() if self.plan.spine.is_census else ("spine", "shares")), *imported_tables(self.plan))


STAGE: Final = ImportStage
