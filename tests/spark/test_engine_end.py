"""The end of Spark's JVM is said to be one, and how it came about."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace

import pytest
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkContext

from das_spark.cli import main as door
from das_spark.errors import InputError
from das_spark.spark import engine_end
from das_spark.spark.engine_end import engine_ended

ENDS = {
    "kill -KILL $$": "by signal 9, SIGKILL: probably by the system, for want of memory",
    "kill -TERM $$": "by signal 15, SIGTERM",
    "exit 143": "by signal 15, SIGTERM",
    "exit 3": "exit status 3",
    "exit 0": "exit status 0",
}


@pytest.fixture
def jvm(monkeypatch):
    """Lets a process be the JVM of this one."""
    started = []

    def start(script: str) -> None:
        started.append(subprocess.Popen(["sh", "-c", script]))
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(proc=started[-1]))

    yield start
    for each in started:
        each.kill()
        each.wait()


def raised_over(cause: Exception, error: Exception) -> Exception:
    """An error that came while another one was handled."""
    try:
        try:
            raise cause
        finally:
            raise error
    except Exception as caught:  # noqa: BLE001 - whatever it is
        return caught


@pytest.mark.parametrize(("script", "how"), ENDS.items())
def test_the_end_of_the_jvm_is_told_with_its_reason(jvm, monkeypatch, capsys, script, how):
    jvm(script)

    def app(**_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    monkeypatch.setattr(door, "app", app)
    assert door.main([]) == 1
    assert capsys.readouterr().err == (
        f"das-spark: error: [DAS620] Spark's JVM, which does the work, has ended ({how}) Hint: see that the machine "
        "has memory left, and run the same command again: it goes on with what is finished\n"
    )


@pytest.mark.parametrize(
    "error",
    [
        Py4JNetworkError("Answer from Java side is empty"),
        Py4JError("An error occurred while calling o49.count"),
        EOFError(),
        ConnectionResetError(104, "Connection reset by peer"),
        raised_over(ConnectionRefusedError(111, "Connection refused"), ValueError("no lines of a log")),
    ],
)
def test_whatever_is_said_of_a_lost_connection_is_recognised(jvm, error):
    jvm("exit 1")
    ended = engine_ended(error)
    assert ended is not None
    assert engine_ended(ended) is None, "it is said once"


@pytest.mark.parametrize(
    "error", [InputError("no such file"), ValueError("x"), Py4JJavaError("x", SimpleNamespace(_target_id="o1"))]
)
def test_other_errors_are_no_end(jvm, error):
    jvm("exit 1")
    assert engine_ended(error) is None


def test_a_jvm_that_lives_has_not_ended(jvm, monkeypatch):
    monkeypatch.setattr(engine_end, "_ENDING", 0.1)
    jvm("exec sleep 60")
    assert engine_ended(ConnectionResetError(104, "of another connection")) is None
    monkeypatch.setattr(SparkContext, "_gateway", None)
    assert engine_ended(ConnectionResetError(104, "of another connection")) is None


def test_a_jvm_that_started_this_process_is_asked_for_by_its_port(monkeypatch):
    with engine_end.socket.create_server(("127.0.0.1", 0)) as listening:
        address, port = listening.getsockname()
        place = SimpleNamespace(address=address, port=port)
        monkeypatch.setattr(SparkContext, "_gateway", SimpleNamespace(gateway_parameters=place))
        assert engine_ended(EOFError()) is None
    ended = engine_ended(EOFError())
    assert ended is not None
    assert "has ended (spark-submit started it, and knows how)" in ended.message
