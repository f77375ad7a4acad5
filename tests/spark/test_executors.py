"""A run that has work and no executor waits, and after a while no longer."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from das_spark.errors import EnvironmentProblemError, SessionError
from das_spark.spark import executors as module
from das_spark.spark.executors import DEFAULT_TIMEOUT, TIMEOUT, ExecutorWait, executor_timeout


class Cluster:
    """A context whose jobs and executors the test decides; the driver is one of the executors, as for Spark."""

    def __init__(self, master="spark://host:7077", timeout=None, jobs=(1,), executors=2):
        self.master, self.jobs, self.executors, self.cancelled = master, jobs, executors, []
        pairs = {} if timeout is None else {TIMEOUT: timeout}
        self.getConf = lambda: pairs
        self.statusTracker = lambda: SimpleNamespace(getActiveJobsIds=lambda: list(self.jobs))
        infos = SimpleNamespace(getExecutorInfos=lambda: ["driver"] + ["executor"] * self.executors)
        self._jsc = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: infos))
        self.cancelJobGroup = self.cancelled.append


@pytest.fixture
def clock(monkeypatch):
    now = SimpleNamespace(seconds=1000.0)
    monkeypatch.setattr(module.time, "monotonic", lambda: now.seconds)
    return now


def test_it_counts_from_the_moment_at_which_the_last_executor_is_missed(clock):
    cluster = Cluster(executors=0)
    wait = ExecutorWait.of(cluster, "run/ingest")
    assert wait.timeout == float(DEFAULT_TIMEOUT)
    found = []
    for clock.seconds, cluster.executors in ((1000, 0), (1040, 0), (1050, 1), (1060, 0), (1075, 0)):
        found.append(wait.seconds())
    assert found == [0, 40, 0, 0, 15]
    assert not wait.over


def test_an_application_without_work_waits_for_nothing(clock):
    cluster = Cluster(executors=0, jobs=())
    wait = ExecutorWait.of(cluster, "run/ingest")
    wait.seconds()
    clock.seconds += 10_000
    assert wait.seconds() == 0
    assert cluster.cancelled == []


def test_the_jobs_of_the_stage_are_ended_after_the_timeout_and_that_is_the_cause(clock):
    cluster = Cluster(executors=0, timeout="30")
    wait, met = ExecutorWait.of(cluster, "run/ingest"), ValueError("Job 7 cancelled part of cancelled job group")
    wait.seconds()
    clock.seconds += 29
    assert wait.seconds() == 29
    assert cluster.cancelled == []
    assert wait.cause_of(met) is met
    clock.seconds += 1
    assert wait.seconds() == 30
    assert cluster.cancelled == ["run/ingest"]
    error = wait.cause_of(met)
    assert isinstance(error, SessionError)
    assert "no executor for 30 s" in str(error)
    assert TIMEOUT in error.hint
    wait.seconds()
    assert cluster.cancelled == ["run/ingest"] * 2, "a job that was started meanwhile is ended, too"


def test_what_workers_lack_is_asked_anew_until_the_master_is_silent(clock, monkeypatch):
    said = iter(["no worker", "one is too small"])
    monkeypatch.setattr(module, "shortage", lambda _: next(said))
    wait = ExecutorWait.of(Cluster(executors=0, timeout="30"), "run/ingest")
    assert [wait.shortage() for _ in range(3)] == ["no worker", "one is too small", ""]
    monkeypatch.setattr(module, "shortage", lambda _: pytest.fail("it gave no answer, and is asked no more"))
    wait.over = True
    assert "no executor for 30 s" in str(wait.cause_of(ValueError()))


@pytest.mark.parametrize("master", ["local", "local[*]", "local[*,2]"])
def test_in_local_mode_the_driver_is_the_executor(clock, master):
    wait = ExecutorWait.of(Cluster(master=master, executors=0, timeout="30"), "run/ingest")
    wait.seconds()
    clock.seconds += 10_000
    assert wait.seconds() == 0


@pytest.mark.parametrize("text", ["15min", "-1", "", "1.5"])
def test_a_timeout_that_is_no_number_of_seconds_is_named(text):
    with pytest.raises(EnvironmentProblemError, match=f"{TIMEOUT} is '{text}'"):
        executor_timeout(Cluster(timeout=text))


@pytest.mark.spark
def test_spark_lists_the_driver_as_the_one_executor_of_local_mode(spark):
    """What `Cluster` says of Spark's own list."""
    infos = spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()
    assert len(infos) == 1
    assert list(spark.sparkContext.statusTracker().getActiveJobsIds()) == []
