"""Say how far a run is: one line a stage and level, and names for its jobs in Spark's own displays."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

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
    """

    say: Callable[[str], None]
    run_id: str
    every: float = 10.0
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def stage(self, spark: SparkSession, name: str, families: int | None = None) -> Iterator[None]:
        """Run a stage under its name: Spark job group and description, a line while it runs, a line when it ends.

        Args:
            spark: The session.
            name: Such as "measure County".
            families: Number of families of an estimate stage, for its line; None for other stages.
        """
        context = spark.sparkContext
        group = f"{self.run_id}/{name}"
        context.setJobGroup(group, f"das_spark {self.run_id}: {name}", interruptOnCancel=True)
        ended = threading.Event()
        watcher = threading.Thread(target=self._watch, args=(context, group, name, families, ended), daemon=True)
        start = time.monotonic()
        watcher.start()
        try:
            yield
        finally:
            ended.set()
            watcher.join()
            spent = time.monotonic() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
        extent = f"{families:,} families, " if families is not None else ""
        self.say(f"{name}: {extent}{spent:.1f} s")

    def _watch(
        self, context: SparkContext, group: str, name: str, families: int | None, ended: threading.Event
    ) -> None:
        start = time.monotonic()
        while not ended.wait(self.every):
            spent = time.monotonic() - start
            done, total = _tasks(context, group) if families is not None else (0, 0)
            if families is None or not done:
                # A stage of many small jobs has no known extent: its share done would jump to and fro.
                self.say(f"{name}: {spent:.0f} s so far")
            else:
                share = done / total
                self.say(f"{name}: {share:.0%} of {families:,} families, about {spent / share - spent:.0f} s left")


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
