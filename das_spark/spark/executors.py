"""Notice that a run has work and no executor, and end the wait after a while.

Spark itself waits for ever, and says so in a warning at most: for a cluster that is full, but also for one that has
forgotten the application, as a standalone master does that is started again without what it knew.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from das_spark.errors import EnvironmentProblemError, SessionError
from das_spark.spark.offers import shortage
from das_spark.spark.session import in_local_mode

if TYPE_CHECKING:
    from pyspark import SparkContext

#: Spark property: how many seconds a run waits.
TIMEOUT: Final = "spark.das_spark.executorTimeout"
DEFAULT_TIMEOUT: Final = "900"
_NEVER: Final = -1.0


def executor_timeout(context: SparkContext) -> float:
    """Return how many seconds a run waits for an executor, by the session's properties."""
    text = str(context.getConf().get(TIMEOUT, DEFAULT_TIMEOUT))
    if not text.isdecimal():
        message = f"{TIMEOUT} is {text!r}, and must be a number of seconds"
        raise EnvironmentProblemError(message, hint=f"write {DEFAULT_TIMEOUT}, or leave it out")
    return float(text)


def has_executor(context: SparkContext) -> bool:
    """Return whether a session on a cluster has an executor at the moment."""
    scala: Any = context._jsc.sc()
    return len(scala.statusTracker().getExecutorInfos()) > 1  # the driver is one of them


@dataclass(slots=True)
class ExecutorWait:
    """How long the jobs of a job group have had no executor."""

    context: SparkContext
    group: str  # name of the job group, whose jobs are ended after the timeout
    timeout: float  # seconds; negative where the driver itself does the work
    over: bool = False  # whether the timeout is over, and jobs have been ended
    _since: float | None = None
    _is_silent: bool = False  # whether the master gave no answer

    @classmethod
    def of(cls, context: SparkContext, group: str) -> ExecutorWait:
        """With the timeout of the session's properties."""
        return cls(context, group, _NEVER if in_local_mode(context) else executor_timeout(context))

    def seconds(self) -> float:
        """For how long there has been none until now; 0 where there is one, or nothing to do. Ends jobs if too long."""
        if self.timeout < 0 or not self._is_stuck(self.context):
            self._since = None
            return 0.0
        self._since = self._since or time.monotonic()
        waited = time.monotonic() - self._since
        if waited >= self.timeout:
            self.over = True
            self.context.cancelJobGroup(self.group)
        return waited

    def shortage(self) -> str:
        """What was asked for and what the workers have, in words; a master that gave no answer is asked no more."""
        if self._is_silent:
            return ""
        try:
            return shortage(self.context)
        except Exception:  # noqa: BLE001 - that there is no executor is said all the same
            self._is_silent = True
            return ""

    def cause_of(self, error: Exception) -> Exception:
        """The error that a stage ends with: that there was no executor, if its jobs were ended for that."""
        if not self.over:
            return error
        hint = "see whether workers are alive and have room, or submit again: what is finished is kept. "
        hint += f"{TIMEOUT} says how long to wait"
        message = f"the cluster has given no executor for {self.timeout:.0f} s"
        return SessionError("; ".join(filter(None, (message, self.shortage()))), hint=hint)

    @staticmethod
    def _is_stuck(context: SparkContext) -> bool:
        return bool(context.statusTracker().getActiveJobsIds()) and not has_executor(context)
