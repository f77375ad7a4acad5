"""What a stage of a run cost Spark, read from the store behind Spark's own web page, which is there with the page off.

The store keeps the last `spark.ui.retainedJobs` jobs and `spark.ui.retainedStages` stages (1,000 each by default); a
stage of a run has a few dozen, and is read when it ends. What was thrown out before is counted as lost, and then the
other figures are too small. Nothing of this is documented as an interface for Python: where it fails, a run goes on
without figures.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from das_spark.evaluation import StageMetrics

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark import SparkContext

#: Events of the last tasks are still on their way when a job has ended; as long as this is waited for them.
_PATIENCE_MILLISECONDS: Final = 2_000
_MILLI, _NANO = 1e-3, 1e-9
#: Where a sum over Spark's stages comes from, and its unit.
_SUMS: Final[Mapping[str, tuple[str, float]]] = {
    "tasks": ("numCompleteTasks", 1),
    "failed_tasks": ("numFailedTasks", 1),
    "killed_tasks": ("numKilledTasks", 1),
    "run_seconds": ("executorRunTime", _MILLI),
    "cpu_seconds": ("executorCpuTime", _NANO),
    "gc_seconds": ("jvmGcTime", _MILLI),
    "shuffle_read_bytes": ("shuffleReadBytes", 1),
    "shuffle_write_bytes": ("shuffleWriteBytes", 1),
    "memory_spilled_bytes": ("memoryBytesSpilled", 1),
    "disk_spilled_bytes": ("diskBytesSpilled", 1),
    "input_bytes": ("inputBytes", 1),
    "output_bytes": ("outputBytes", 1),
}


@dataclass(frozen=True, slots=True)
class StageMeter:
    """Reads what the jobs of one job group cost from a point in time on."""

    context: SparkContext
    group: str
    before: frozenset[int]  # jobs of the group that ran earlier in this application

    @classmethod
    def started(cls, context: SparkContext, group: str) -> StageMeter | None:
        """A meter that counts from now on; None where Spark does not answer."""
        try:
            return cls(context, group, frozenset(context.statusTracker().getJobIdsForGroup(group)))
        except Exception:  # noqa: BLE001 - figures are worth no failed run, and the JVM fails in many ways
            return None

    def read(self) -> StageMetrics | None:
        """What the jobs since then cost; None where Spark does not answer."""
        try:
            return self._read()
        except Exception:  # noqa: BLE001 - as above
            return None

    def _read(self) -> StageMetrics:
        store = _Store(self.context)
        jobs = sorted(set(self.context.statusTracker().getJobIdsForGroup(self.group)) - self.before)
        # A stage whose result is still there is listed by every job that uses it.
        stages = sorted({stage for job in jobs for stage in store.stages_of(job)})
        attempts, lost = [], 0
        for stage in stages:
            found = store.attempts(stage)
            attempts += found
            lost += not found
        worked = [attempt for attempt in attempts if attempt["status"] != "SKIPPED"]
        return _summed(worked, jobs=len(jobs), lost=lost, slowest=max(map(store.slowest, worked), default=0.0))


class _Store:
    """Spark's status store, asked for the JSON that its REST interface would give."""

    def __init__(self, context: SparkContext) -> None:
        scala: Any = context._jsc.sc()
        jvm: Any = context._jvm
        scala.listenerBus().waitUntilEmpty(_PATIENCE_MILLISECONDS)
        api = jvm.org.apache.spark.status.api.v1
        self._store = scala.statusStore()
        self._mapper = api.JacksonMessageWriter().mapper()
        self._longest_first = api.TaskSorting.DECREASING_RUNTIME
        self._any = jvm.java.util.ArrayList()
        self._no_quantiles = context._gateway.new_array(jvm.double, 0)  # type: ignore[union-attr]

    def stages_of(self, job: int) -> list[int]:
        return list(self._asked("job", job).get("stageIds", ()))

    def attempts(self, stage: int) -> list[dict[str, Any]]:
        """Every attempt at a stage of Spark; none where the store has thrown it out."""
        return list(self._asked("stageData", stage, False, self._any, False, self._no_quantiles) or ())

    def slowest(self, attempt: Mapping[str, Any]) -> float:
        """Time of the task that ran longest, in seconds."""
        place = (attempt["stageId"], attempt["attemptId"])
        tasks = self._asked("taskList", *place, 0, 1, self._longest_first, self._any)
        return max((float(task.get("duration", 0)) * _MILLI for task in tasks), default=0.0)

    def _asked(self, name: str, *arguments: object) -> Any:  # noqa: ANN401 - whatever JSON it is
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415

        try:
            return json.loads(self._mapper.writeValueAsString(getattr(self._store, name)(*arguments)))
        except Py4JJavaError as error:
            if "NoSuchElementException" in str(error.java_exception.getClass().getName()):
                return {}
            raise


def _summed(attempts: list[dict[str, Any]], *, jobs: int, lost: int, slowest: float) -> StageMetrics:
    sums = {name: sum(attempt[key] for attempt in attempts) * unit for name, (key, unit) in _SUMS.items()}
    speculated = sum((attempt.get("speculationSummary") or {}).get("numTasks", 0) for attempt in attempts)
    return StageMetrics(
        jobs=jobs,
        spark_stages=len(attempts),
        speculative_tasks=speculated,
        execution_memory_bytes=max((attempt["peakExecutionMemory"] for attempt in attempts), default=0),
        heap_bytes=_peak(attempts, "JVMHeapMemory"),
        python_bytes=_peak(attempts, "ProcessTreePythonRSSMemory"),
        slowest_task_seconds=slowest,
        lost_stages=lost,
        **{name: round(value, 3) for name, value in sums.items()},
    )


def _peak(attempts: Iterable[Mapping[str, Any]], name: str) -> int:
    return max(((attempt.get("peakExecutorMetrics") or {}).get(name, 0) for attempt in attempts), default=0)


@dataclass(frozen=True, slots=True)
class RunningStage:
    """One of Spark's own stages, of which a stage of the run has several, in one job or one after another."""

    number: int  # as in Spark's displays
    done: int  # tasks done; fewer than all
    tasks: int  # tasks in all
    seconds: float  # since it was submitted


def running_stage(context: SparkContext, group: str) -> RunningStage | None:
    """The stage of Spark's that keeps a job group at work: of those not done, the one with most tasks to do."""
    tracker = context.statusTracker()
    found = []
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        if info is None or info.status != "RUNNING":
            continue
        for stage in info.stageIds:
            each = tracker.getStageInfo(stage)
            if each is not None and each.numActiveTasks and each.numCompletedTasks < each.numTasks:
                found.append(each)
    if not found:
        return None
    most = max(found, key=lambda each: (each.numTasks - each.numCompletedTasks, -each.stageId))
    submitted = tracker._jtracker.getStageInfo(most.stageId).submissionTime() / 1000
    return RunningStage(most.stageId, most.numCompletedTasks, most.numTasks, max(time.time() - submitted, 0.0))
