"""Lines of progress and the names of jobs."""

from __future__ import annotations

import logging
import os
import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace

import pytest

from das_spark.errors import SessionError
from das_spark.pipeline import progress as module
from das_spark.pipeline.progress import Progress
from das_spark.telemetry import RunLog, read_log


@pytest.fixture
def spark_session():
    """A session that only remembers its job group."""
    groups = []
    context = SimpleNamespace(setJobGroup=lambda *group, **_: groups.append(group), master="local[2]")
    return SimpleNamespace(sparkContext=context, groups=groups)


@dataclass
class SparkStage:
    """One of Spark's stages, as its status tracker shows it."""

    number: int
    done: int
    tasks: int
    seconds: float

    stageIds = (0,)
    status = "RUNNING"
    numActiveTasks = 1

    stageId = property(lambda self: self.number)
    numTasks = property(lambda self: self.tasks)
    numCompletedTasks = property(lambda self: self.done)

    def submissionTime(self) -> float:
        return (time.time() - self.seconds) * 1000


def showing(look):
    """A status tracker of Spark in which each look finds a stage at work, or none."""
    shown = []

    def jobs(_):
        shown[:] = [look()]
        return [0] if shown[0] is not None else []

    inner = SimpleNamespace(getStageInfo=lambda _: shown[0])
    tracker = SimpleNamespace(
        getJobIdsForGroup=jobs, getJobInfo=lambda _: shown[0], getStageInfo=lambda _: shown[0], _jtracker=inner
    )
    return lambda: tracker


class Records(logging.Handler):
    """What whoever follows a run is given."""

    def __init__(self):
        super().__init__()
        self.found = []

    def emit(self, record):
        self.found.append(record)


def test_a_stage_ends_with_one_line_and_its_time(spark_session):
    lines = []
    progress = Progress(lines.append, "r1")
    with progress.stage(spark_session, "estimate County", 3108):
        pass
    with progress.stage(spark_session, "verify"):
        pass
    assert lines == ["estimate County: 3,108 families, 0.0 s", "verify: 0.0 s"]
    assert set(progress.seconds) == {"estimate County", "verify"}


def test_jobs_are_named_by_run_and_stage(spark_session):
    with Progress(lambda _: None, "r1").stage(spark_session, "measure County"):
        pass
    assert spark_session.groups == [("r1/measure County", "das_spark r1: measure County")]


def test_a_stage_that_fails_says_nothing_and_its_time_is_kept(spark_session):
    lines = []
    progress = Progress(lines.append, "r1")
    with pytest.raises(ValueError, match="x"), progress.stage(spark_session, "ingest"):
        raise ValueError("x")
    assert lines == []
    assert "ingest" in progress.seconds
    assert not [thread for thread in threading.enumerate() if "_watch" in thread.name]


def test_times_of_a_stage_that_is_entered_twice_are_added(spark_session):
    progress = Progress(lambda _: None, "r1")
    progress.seconds["ingest"] = 100.0
    with progress.stage(spark_session, "ingest"):
        pass
    assert progress.seconds["ingest"] >= 100.0


def watched(spark_session, *steps, families=1234):
    """The lines of a stage of families that is looked at so many times, and what is seen of Spark's stages."""
    seen, lines, over = iter(steps), [], threading.Event()

    def step():
        try:
            return next(seen)
        except StopIteration:
            over.set()
            raise

    spark_session.sparkContext.statusTracker = showing(step)
    with Progress(lines.append, "r1", every=0.002).stage(spark_session, "estimate County", families):
        assert over.wait(10)
    return lines[:-1]


def test_a_long_stage_says_how_many_tasks_are_done_and_how_long_the_others_take(spark_session):
    (line,) = watched(spark_session, SparkStage(7, 1, 4, 20.0))
    assert line == (
        "estimate County: 1,234 families, 0 s so far; 1 of 4 tasks of Spark's stage 7, about 60 s for the others"
    )


def test_the_parts_of_a_stage_are_distinguished_and_none_is_the_whole(spark_session):
    steps = [
        SparkStage(7, 3, 4, 6.0),
        None,
        SparkStage(8, 0, 64, 0.1),
        SparkStage(8, 16, 64, 30.0),
    ]
    lines = watched(spark_session, *steps)
    assert [line.partition("; ")[2] for line in lines] == [
        "3 of 4 tasks of Spark's stage 7, about 2 s for the others",
        "",
        "0 of 64 tasks of Spark's stage 8",
        "16 of 64 tasks of Spark's stage 8, about 90 s for the others",
    ]
    assert not any("100%" in line or "about 0 s" in line for line in lines)


def test_no_line_is_said_twice_and_a_task_that_lasts_is_not_always_about_to_end(spark_session):
    lines = watched(spark_session, *[SparkStage(7, 63, 64, 63.0 + seconds) for seconds in range(9)])
    assert len(set(lines)) == len(lines) == 2
    assert [line.endswith("about 1 s for the others") for line in lines] == [True, False]


def test_a_stage_without_executors_says_so_and_ends_with_that_as_its_error(spark_session):
    ended, records = threading.Event(), Records()
    context = spark_session.sparkContext
    context.master, context.getConf = "spark://host:7077", lambda: {"spark.das_spark.executorTimeout": "0"}
    context.cancelJobGroup = lambda _: ended.set()
    context.statusTracker = lambda: SimpleNamespace(getActiveJobsIds=lambda: [1])
    driver_alone = SimpleNamespace(getExecutorInfos=lambda: ["the driver"])
    context._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: driver_alone))
    progress = Progress(records, "r1", every=0.01)

    def job():
        assert ended.wait(10)
        while "ingest: no executor for 0 s" not in [each.getMessage() for each in records.found]:
            time.sleep(0.01)
        raise ValueError("a job was cancelled")

    with pytest.raises(SessionError, match="no executor"), progress.stage(spark_session, "ingest"):
        job()
    assert {each.event.value for each in records.found} == {"stage.progress", "executors.missing"}


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_jvm_that_dies_makes_no_traceback_in_the_thread_that_watches(spark_session):
    twice = threading.Barrier(2)

    def dead():
        twice.wait(10)
        raise ConnectionRefusedError("the JVM is gone")

    spark_session.sparkContext.statusTracker = showing(dead)
    with Progress(lambda _: None, "r1", every=0.01).stage(spark_session, "estimate County", 1234):
        twice.wait(10)
        twice.wait(10)  # it goes on asking
        twice.abort()


def test_a_stage_of_unknown_extent_says_how_long_it_runs(spark_session):
    said = threading.Event()
    lines = []
    with Progress(lambda line: (lines.append(line), said.set()), "r1", every=0.01).stage(spark_session, "ingest"):
        assert said.wait(10)
    assert lines[0] == "ingest: 0 s so far"


def test_an_event_has_the_figures_that_the_line_for_people_holds_and_no_others(spark_session):
    records = Records()
    progress = Progress(records, "r1", every=0.01)
    spark_session.sparkContext.statusTracker = showing(lambda: SparkStage(7, 1, 4, 20.0))
    for name, families in (("estimate County", 1234), ("ingest", None)):
        before = len(records.found)
        with progress.stage(spark_session, name, families):
            while len(records.found) == before:
                time.sleep(0.01)
    assert {each.event.value for each in records.found} == {"stage.progress", "stage.finished"}
    for record in records.found:
        assert record.run_id == "r1"
        texts = {name: form(record, name, value) for name, value in record.fields.items()}
        assert texts["stage"] in ("estimate County", "ingest")
        assert all(text in record.getMessage() for text in texts.values()), texts


def form(record, name, value):
    """How a figure stands in the line for people."""
    if name == "seconds":
        return f"{value:.0f} s so far" if record.event.value == "stage.progress" else f"{value:.1f} s"
    forms = {
        "stage": str,
        "families": "{:,} families".format,
        "step": "Spark's stage {}".format,
        "tasks_done": "{} of ".format,
        "tasks": " of {} tasks".format,
        "step_seconds_left": "about {:.0f} s".format,
    }
    return forms[name](value)


def test_a_failed_stage_is_in_the_log_with_its_error_and_without_its_message(spark_session, tmp_path):
    log = RunLog(tmp_path / "log.jsonl", "r1")
    progress = Progress(lambda _: None, "r1", log)
    with pytest.raises(ValueError, match="secret"), progress.stage(spark_session, "ingest"):
        raise ValueError("a secret")
    started, failed = read_log(log.path).lines
    assert started["event"] == "stage.started"
    assert (failed["event"], failed["error"]) == ("stage.failed", "ValueError")
    assert "secret" not in log.path.read_text()


def test_a_driver_that_is_killed_in_a_stage_says_nothing_more(spark_session, tmp_path):
    log = RunLog(tmp_path / "log.jsonl", "r1")
    progress = Progress(lambda _: None, "r1", log)
    with pytest.raises(SystemExit), progress.stage(spark_session, "ingest"):
        raise SystemExit
    assert [line["event"] for line in read_log(log.path).lines] == ["stage.started"]


@pytest.mark.spark
def test_the_stage_of_spark_that_is_at_work_is_found_in_a_job_of_several(spark, tmp_path):
    """Tasks of a stage wait until it was seen: no machine is too slow for that."""
    context = spark.sparkContext
    assert module.running_stage(context, "no such group") is None
    seen = []

    def watch():
        while not ended.wait(0.02):
            step = module.running_stage(context, "counted")
            if step is not None:
                seen.append(step)
                (tmp_path / str(step.tasks)).touch()

    def waiting(tasks):
        place = str(tmp_path / str(tasks))

        def work(batches):
            for batch in batches:
                for _ in range(600):
                    if os.path.exists(place):
                        break
                    time.sleep(0.05)
                yield batch

        return work

    ended = threading.Event()
    watcher = threading.Thread(target=watch)
    context.setJobGroup("counted", "counted")
    watcher.start()
    try:
        shuffled = spark.range(0, 4, 1, 4).mapInArrow(waiting(4), "id long").repartition(3, "id")
        shuffled.mapInArrow(waiting(3), "id long").collect()
    finally:
        ended.set()
        watcher.join()
        context.setJobGroup("", "")
    assert {4, 3} <= {step.tasks for step in seen}, "both stages"
    assert len({step.number for step in seen}) >= 2
    assert all(step.done < step.tasks and 0 <= step.seconds < 60 for step in seen)
