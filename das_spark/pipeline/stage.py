"""What the rest of a run knows of each of its stages, whatever the stage does."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.pipeline.context import RunContext
    from das_spark.pipeline.trials import Ahead, Trial
    from das_spark.store import CompletionRecord


@dataclass(frozen=True, slots=True)
class RunStage(ABC):
    """A kind of stage in a run. Stages of levels are carried out by `das_spark.pipeline.levels.RunExecutor`."""

    plan: RunPlan

    @property
    @abstractmethod
    def name(self) -> str:
        """Its kind, as users see it."""

    @abstractmethod
    def trials(self, ahead: Ahead) -> Iterable[Trial]:
        """Say what it will need, to be tried before anything is charged."""

    @property
    def recorded(self) -> tuple[str, ...]:
        """What the manifest says that it has written below the public root; of a level, if it is a stage of one."""
        return ()


class Preparation(RunStage):
    """A stage that is carried out before anything is drawn."""

    @abstractmethod
    def prepare(self, context: RunContext) -> None:
        """Carry it out; what is finished is left as it is."""


class Judgement(RunStage):
    """A stage that judges what is written, when the manifest answers for it."""

    @abstractmethod
    def judge(self, context: RunContext, done: CompletionRecord) -> CompletionRecord:
        """Judge it, unless that is done and nothing has changed since; return what is known now."""
