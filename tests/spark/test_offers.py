"""A session without an executor says what it asked for, and what of it workers lack."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from das_spark.spark import offers
from das_spark.spark.offers import Room, asked_of_cluster, shortage

GIB = 1024


def context(master="spark://127.0.0.1:7077", **properties):
    """A session that asks for two cores and 8 GiB."""
    pairs = {"spark.executor.cores": "2"} | {name.replace("_", "."): value for name, value in properties.items()}
    scala = SimpleNamespace(executorMemory=lambda: 8 * GIB)
    return SimpleNamespace(master=master, getConf=lambda: pairs, _jsc=SimpleNamespace(sc=lambda: scala))


@pytest.mark.parametrize(
    ("workers", "said"),
    [
        ([], "the master knows no living worker"),
        ([(Room(8, 4 * GIB), Room(8, 4 * GIB))], "the largest worker has 8 cores and 4.0 GiB"),
        ([(Room(1, 64 * GIB), Room(1, 64 * GIB))], "the largest worker has 1 core and 64.0 GiB"),
        (
            [(Room(4, 16 * GIB), Room(1, 2 * GIB)), (Room(4, 16 * GIB), Room(0, 16 * GIB))],
            "the workers are taken: the most that one has left is 1 core and 2.0 GiB",
        ),
        (
            [(Room(8, 16 * GIB), Room(8, 4 * GIB)), (Room(2, 64 * GIB), Room(2, 64 * GIB))],
            "a worker has 2 cores and 64.0 GiB left: executors may die when they start, see the logs there",
        ),
    ],
)
def test_what_workers_lack_is_said_beside_what_was_asked_for(monkeypatch, workers, said):
    monkeypatch.setattr(offers, "_workers", lambda *_: workers)
    assert asked_of_cluster(context()) == Room(2, 8 * GIB)
    assert shortage(context()) == f"asked for 2 cores and 8.0 GiB for each executor; {said}"


@pytest.mark.parametrize("master", ["yarn", "k8s://https://host", "spark://a:7077,b:7077", "spark://[::1]:7077"])
def test_other_masters_are_not_asked(monkeypatch, master):
    monkeypatch.setattr(offers, "_workers", lambda *_: pytest.fail("asked"))
    said = shortage(context(master, spark_executor_pyspark_memory="3g"))
    assert said == "asked for 2 cores and 8.0 GiB for each executor, and 3g for Python"
