"""Say how far a run is: a line a stage and level, names for its jobs in Spark's own displays, lines in its log."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from das_spark.errors import DasError, OutputError
from das_spark.io.events import Event
from das_spark.io.run_log import ProgressLine, RunLog
from das_spark.spark.executors import ExecutorWait
from das_spark.spark.stage_metrics import StageMeter

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


@dataclass(slots=True)
class Progress:
    """Lines of progress, and the wall time of each stage (restricted: times tell of the input).

    Attributes:
        say: Where a line goes.
        run_id: Names the run in Spark's displays.
        every: Seconds between two lines of a long stage.
        seconds: Wall time by stage.
        log: The restricted log of the run, where there is one.
    """

    say: Callable[[str], None]
    run_id: str
    every: float = 10.0
    seconds: dict[str, float] = field(default_factory=dict)
    log: RunLog | None = None

    def note(self, event: Event, **fields: object) -> None:
        """Append an event to the log of the run; nothing happens where there is none.

        Args:
            event: What happened.
            fields: What it carries; None is left out.

        Raises:
            OutputError: The disk is full.
        """
        if self.log is not None:
            self.log.note(event, **fields)

    @contextmanager
    def stage(self, spark: SparkSession, name: str, families: int | None = None) -> Iterator[None]:
        """Run a stage under its name: Spark job group and description, a line while it runs, a line when it ends.

        Args:
            spark: The session.
            name: Such as "measure County".
            families: Number of families of an estimate stage, for its line; None for other stages.

        Raises:
            SessionError: The cluster has given no executor for too long.
        """
        context = spark.sparkContext
        group = f"{self.run_id}/{name}"
        context.setJobGroup(group, f"das_spark {self.run_id}: {name}", interruptOnCancel=True)
        self.note(Event.STAGE_STARTED, stage=name, families=families)
        meter = StageMeter.started(context, group) if self.log is not None else None
        wait = ExecutorWait.of(context, group)
        start = time.monotonic()
        try:
            with self._watched(wait, name, families):
                yield
        except Exception as caught:
            error = wait.cause_of(caught)
            spent = round(time.monotonic() - start, 3)
            self._note_failure({"stage": name, "families": families, "seconds": spent}, meter, error)
            if error is caught:
                raise
            raise error from caught
        finally:
            spent = time.monotonic() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
        extent = f"{families:,} families, " if families is not None else ""
        facts: dict[str, object] = {"stage": name, "families": families, "seconds": round(spent, 1)}
        self._tell(f"{name}: {extent}{spent:.1f} s", Event.STAGE_FINISHED, facts)
        self.note(Event.STAGE_FINISHED, **facts | {"seconds": round(spent, 3), "spark": _cost(meter)})

    def _tell(self, text: str, event: Event, facts: dict[str, object]) -> None:
        """Say a line; where it goes may be a collector of logs, so that its facts are those in the text."""
        self.say(ProgressLine(text, event, self.run_id, facts))

    def _note_failure(self, facts: Mapping[str, object], meter: StageMeter | None, error: Exception) -> None:
        code = error.code if isinstance(error, DasError) else None
        with suppress(OutputError):  # the error itself is what must be heard of
            self.note(Event.STAGE_FAILED, **facts, spark=_cost(meter), code=code, error=type(error).__name__)

    @contextmanager
    def _watched(self, wait: ExecutorWait, name: str, families: int | None) -> Iterator[None]:
        """Say from time to time how far a stage is, and end it where it gets no executor."""
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(wait, name, families, ended), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()

    def _watch(self, wait: ExecutorWait, name: str, families: int | None, ended: threading.Event) -> None:
        start = time.monotonic()
        while not ended.wait(self.every):
            # Of a full disk or a JVM that died the stage itself will tell; a thread could only print a traceback.
            with suppress(Exception):
                self._say_how_far(wait, name, families, time.monotonic() - start)
            with suppress(Exception):
                if waited := wait.seconds():
                    self._say_no_executor(name, waited)

    def _say_no_executor(self, name: str, waited: float) -> None:
        facts: dict[str, object] = {"stage": name, "seconds": float(round(waited))}
        self._tell(f"{name}: no executor for {waited:.0f} s", Event.EXECUTORS_MISSING, facts)
        self.note(Event.EXECUTORS_MISSING, **facts)

    def _say_how_far(self, wait: ExecutorWait, name: str, families: int | None, spent: float) -> None:
        done, total = _tasks(wait.context, wait.group) if families is not None else (0, 0)
        facts: dict[str, object] = {"stage": name, "families": families}
        if families is None or not done:
            # A stage of many small jobs has no known extent: its share done would jump to and fro.
            facts["seconds"] = float(round(spent))
            self._tell(f"{name}: {spent:.0f} s so far", Event.STAGE_PROGRESS, facts)
        else:
            share = done / total
            left = spent / share - spent
            facts |= {"share": round(share, 2), "seconds_left": float(round(left))}
            text = f"{name}: {share:.0%} of {families:,} families, about {left:.0f} s left"
            self._tell(text, Event.STAGE_PROGRESS, facts)
        self.note(Event.STAGE_PROGRESS, **facts | {"seconds": round(spent, 3)})


def _cost(meter: StageMeter | None) -> dict[str, object] | None:
    metrics = meter.read() if meter is not None else None
    return asdict(metrics) if metrics is not None else None


def _tasks(context: SparkContext, group: str) -> tuple[int, int]:
    """Tasks done and tasks in all, of the last stage that runs for a job group."""
    tracker = context.statusTracker()
    done = total = 0
    for job in tracker.getJobIdsForGroup(group):
        info = tracker.getJobInfo(job)
        if info is None or info.status != "RUNNING":
            continue
        for stage in info.stageIds:
            found = tracker.getStageInfo(stage)
            if found is not None:
                done, total = found.numCompletedTasks, found.numTasks
    return done, total
