"""The log of a run from its opening to its end, and its stages: named in Spark's displays, timed, reported, logged."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Final

from das_spark import __version__
from das_spark.errors import DasError, OutputError, PrivacyGuardError
from das_spark.pipeline.run_record import write_page
from das_spark.places import parse_address
from das_spark.process import interruption
from das_spark.spark.engine import cores
from das_spark.spark.engine_end import engine_ended
from das_spark.spark.executors import ExecutorWait
from das_spark.spark.session import application_of
from das_spark.spark.stage_metrics import RunningStage, StageMeter, running_stage
from das_spark.telemetry import Event, LineageOf, Reporter, RunLog, lineage_events

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import RunPlan
    from das_spark.store import RunLayout


#: Seconds between two looks of somebody who watches.
_LIVE: Final = 0.5


@dataclass(slots=True)
class Progress(Reporter):
    """What a run logs with, and the wall time of each stage (restricted: times tell of the input)."""

    every: float = 10.0  # seconds between two lines of a long stage
    seconds: dict[str, float] = field(default_factory=dict)  # wall time by stage

    @contextmanager
    def stage(self, spark: SparkSession, name: str, families: int | None = None) -> Iterator[None]:
        """Run a stage under its name: Spark job group and description, a line while it runs, a line when it ends."""
        context = spark.sparkContext
        group = f"{self.run_id}/{name}"
        context.setJobGroup(group, f"das_spark {self.run_id}: {name}", interruptOnCancel=True)
        self.log(Event.STAGE_STARTED, stage=name, families=families)
        self.follow(Event.STAGE_STARTED, {"stage": name, "families": families})
        meter = None if self.run_log is None else StageMeter.started(context, group)
        wait = ExecutorWait.of(context, group)
        start = time.monotonic()
        try:
            with self._watched(wait, name, families):
                yield
        except Exception as caught:
            error = wait.cause_of(caught)
            spent = round(time.monotonic() - start, 3)
            self._log_failure({"stage": name, "families": families, "seconds": spent}, meter, error)
            if error is caught:
                raise
            raise error from caught
        finally:
            spent = time.monotonic() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + spent
        extent = f"{families:,} families, " if families is not None else ""
        facts: dict[str, object] = {"stage": name, "families": families, "seconds": round(spent, 1)}
        cost = _cost(meter)
        jobs = "" if cost is None else f", {cost['jobs']} {'job' if cost['jobs'] == 1 else 'jobs'} of Spark"
        self.report(f"{name}: {extent}{spent:.1f} s{jobs}", Event.STAGE_FINISHED, facts)
        self.log(Event.STAGE_FINISHED, **facts | {"seconds": round(spent, 3), "spark": cost})

    def _log_failure(self, facts: Mapping[str, object], meter: StageMeter | None, error: Exception) -> None:
        code = error.code if isinstance(error, DasError) else None
        with suppress(OutputError):  # the error itself is what must be heard of
            self.log(Event.STAGE_FAILED, **facts, spark=_cost(meter), code=code, error=type(error).__name__)

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
        watched, due = _Watched(), self.every
        while not ended.wait(min(_LIVE, self.every) if self.is_live else self.every):
            # Of a full disk or a JVM that died the stage itself will tell; a thread could only print a traceback.
            with suppress(Exception):
                # A stage of many small jobs has no known extent: its share done would jump to and fro.
                known = None if families is None else wait.context
                step = None if known is None else running_stage(known, wait.group)
                spent = time.monotonic() - start
                self._follow_extent(name, families, spent, step)
                if self.is_live and spent < due:
                    continue
                due = spent + self.every
                self._report_extent(name, families, spent, watched, step)
            with suppress(Exception):
                if waited := wait.seconds():
                    self._report_no_executor(name, waited, wait.shortage())

    def _report_no_executor(self, name: str, waited: float, shortage: str) -> None:
        facts: dict[str, object] = {"stage": name, "seconds": float(round(waited))}
        text = "; ".join(filter(None, (f"no executor for {waited:.0f} s", shortage)))
        self.report(f"{name}: {text}", Event.EXECUTORS_MISSING, facts)
        self.log(Event.EXECUTORS_MISSING, **facts)

    def _follow_extent(self, name: str, families: int | None, spent: float, step: RunningStage | None) -> None:
        tasks = {} if step is None else {"tasks_done": step.done, "tasks": step.tasks}
        self.follow(Event.STAGE_PROGRESS, {"stage": name, "families": families, "seconds": spent, **tasks})

    def _report_extent(
        self, name: str, families: int | None, spent: float, watched: _Watched, step: RunningStage | None
    ) -> None:
        facts: dict[str, object] = {"stage": name, "families": families, "seconds": float(round(spent))}
        extent = f"{families:,} families, " if families is not None else ""
        text = f"{name}: {extent}{spent:.0f} s so far"
        if step is not None:
            facts |= {"step": step.number, "tasks_done": step.done, "tasks": step.tasks}
            text += f"; {step.done} of {step.tasks} tasks of Spark's stage {step.number}"
            left = watched.seconds_left(step)
            if left is not None:
                facts["step_seconds_left"] = float(round(left))
                text += f", about {left:.0f} s for the others"
        if text != watched.line:
            watched.line = text
            self.report(text, Event.STAGE_PROGRESS, facts)
            self.log(Event.STAGE_PROGRESS, **facts | {"seconds": round(spent, 3)})


def _cost(meter: StageMeter | None) -> dict[str, object] | None:
    metrics = meter.read() if meter is not None else None
    return asdict(metrics) if metrics is not None else None


@dataclass(slots=True)
class _Watched:
    """What was seen and said last of a stage of the run."""

    step: RunningStage | None = None
    line: str = ""

    def seconds_left(self, step: RunningStage) -> float | None:
        """How long the other tasks of a step take, if like those done; None where none has ended since the last look.

        The last tasks may be the longest: while none ends, nobody can say when they will.
        """
        before, self.step = self.step, step
        if not step.done or (before is not None and (before.number, before.done) == (step.number, step.done)):
            return None
        return step.seconds / step.done * (step.tasks - step.done)


@contextmanager
def logged(layout: RunLayout, plan: RunPlan, progress: Progress, *, resumed: bool, insecure: bool) -> Iterator[None]:
    """Open the log of a run that is held, and log how the driver ends. A killed driver logs nothing more."""
    log = progress.run_log = RunLog(layout.restricted.log, layout.run_id)
    of = LineageOf(plan.name, plan.input.dataset or "", _public_root(layout))
    progress.lineage = lineage_events(of, progress.report)
    progress.log(
        Event.RUN_RESUMED if resumed else Event.RUN_OPENED,
        product=plan.product.name,
        geolevels=list(plan.spine.names),
        config_hash=plan.config_hash,
        insecure=insecure,
        software=__version__,
    )
    try:
        yield
    except BaseException as caught:
        number = interruption(caught)
        if number is not None:
            progress.log(Event.RUN_INTERRUPTED, signal=number.name)
        if number is not None or not isinstance(caught, Exception):
            raise
        error = engine_ended(caught) or caught
        with suppress(OutputError):  # of the first error somebody must hear, also where the disk is full
            _log_failure(progress, error)
            _leave_page(layout, progress)
        if error is caught:
            raise
        raise error from caught
    if log.last is not Event.RUN_FINISHED:
        progress.log(Event.RUN_LEFT)
    _leave_page(layout, progress)


def _public_root(layout: RunLayout) -> tuple[str, str]:
    """Namespace and name of the public root, as collectors of lineage call places."""
    root = (layout.published or layout.public).path
    found = parse_address(str(root))
    if found is None:
        return "file", str(root.absolute())
    return f"{found.scheme}://{found.authority}", found.path


def log_application(progress: Progress, spark: SparkSession) -> None:
    """Say where Spark works and where the log is, and let all further lines of it name the Spark application."""
    master, version = str(spark.sparkContext.master), str(spark.version)
    if progress.run_log is not None:
        progress.run_log.application, progress.run_log.attempt = application_of(spark.sparkContext)
        progress.report(f"Spark {version} on {master}; log of the run: {progress.run_log.path}")
    progress.log(Event.SPARK_STARTED, master=master, version=version, cores=cores(spark))


def _log_failure(progress: Progress, error: Exception) -> None:
    """Messages of our own errors hold nothing confidential; of others, of Spark's say, that is not known."""
    if isinstance(error, PrivacyGuardError):
        progress.log(Event.GUARD_REFUSED, code=error.code, message=error.message, hint=error.hint or None)
    if isinstance(error, DasError):
        ours: dict[str, object] = {"code": error.code, "message": error.message, "hint": error.hint or None}
    else:
        ours = {}
    exit_code = error.exit_code if isinstance(error, DasError) else 1
    progress.log(Event.RUN_FAILED, error=type(error).__name__, exit_code=exit_code, **ours)


def _leave_page(layout: RunLayout, progress: Progress) -> None:
    try:
        write_page(layout)
    except Exception as error:  # noqa: BLE001 - a run is not worth less because its page could not be drawn
        progress.log(Event.PAGE_FAILED, error=type(error).__name__)
