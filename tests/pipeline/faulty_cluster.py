"""Plays on a cluster of processes: workers are killed, tasks run twice, an executor dies. Run by test_faults.

    python faulty_cluster.py FOLDER CALM TEST_KEY

FOLDER holds census/; the runs and scenarios.json are written there. CALM: a run whose ingested tables are read.

The tasks of a stage are wrapped on their way to the workers, so nothing in the product knows of faults.
"""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark import SparkConf, SparkContext, TaskContext
from pyspark.sql import SparkSession

from das_spark.pipeline import levels
from das_spark.privacy import RunKey, StreamDomain
from das_spark.spark.session import properties
from das_spark.store import RunLayout

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Faulty:
    """A task that fails in a given way, once for each of its names."""

    task: Any
    kind: str
    flags: Path
    name: str

    def __call__(self, family: Any) -> Any:
        context = TaskContext.get()
        assert context is not None
        # Whichever attempt comes first: a copy may win before the original's worker has imported its modules.
        if context.partitionId() == 0 and self.claimed():
            if self.kind == "killed workers":
                os.kill(os.getpid(), signal.SIGKILL)
            elif self.kind == "doubled tasks":
                time.sleep(30)  # until the copy has won; the sleeper is killed then
            elif self.kind == "lost executor" and self.name.startswith(("measure County", "estimate County")):
                os.kill(executor(), signal.SIGKILL)
        return self.task(family)

    def claimed(self) -> bool:
        try:
            os.close(os.open(self.flags / self.name, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def executor() -> int:
    """The JVM above this worker and its daemon."""
    process = os.getpid()
    while "java" not in Path(f"/proc/{process}/comm").read_text():
        process = int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return process


def cluster(settings: dict[str, str], work: Path) -> str:
    """Start a master and two workers inside the driver's JVM; the workers count as two machines.

    On one host name, as in local-cluster mode, Spark would never run two copies of a task.
    """
    SparkContext._ensure_initialized(conf=SparkConf().setAll(list(settings.items())))
    conf = SparkConf().setAll(list(settings.items()))
    jvm, gateway = SparkContext._jvm, SparkContext._gateway
    assert jvm is not None
    assert gateway is not None
    deploy = jvm.org.apache.spark.deploy
    endpoint = deploy.master.Master.startRpcEnvAndEndpoint("127.0.0.1", 0, 0, conf._jconf)._1()
    url = f"spark://127.0.0.1:{endpoint.address().port()}"
    urls = gateway.new_array(jvm.java.lang.String, 1)
    urls[0] = url
    nothing = jvm.scala.Option.empty()
    for number in (1, 2):
        host, number_of = f"127.0.0.{number + 1}", jvm.scala.Option.apply(number)
        start = deploy.worker.Worker.startRpcEnvAndEndpoint
        start(host, 0, 0, 1, 800, urls, str(work), number_of, conf._jconf, nothing)
    return url


def start(folder: Path) -> SparkSession:
    settings = properties(ROOT / "conf" / "spark" / "test.conf") | {
        "spark.executor.cores": "1",
        "spark.cores.max": "2",
        "spark.locality.wait": "0",
        "spark.shuffle.io.maxRetries": "1",
        "spark.shuffle.io.retryWait": "200ms",
        "spark.driver.host": "127.0.0.1",
        "spark.master.rest.enabled": "false",
        "spark.authenticate.secret": "known to this test only",
        "spark.executor.memory": "700m",
        "spark.das_spark.entriesOfOneTask": "0",  # small as they are, levels are divided
        "spark.task.maxFailures": "4",
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.1",
        "spark.speculation.quantile": "0.5",
        "spark.speculation.minTaskRuntime": "300ms",
        "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": str(folder / "events"),
        "spark.eventLog.compress": "false",
    }
    (folder / "events").mkdir(mode=0o700)
    settings["spark.master"] = cluster(settings, folder / "work")
    builder = SparkSession.builder.appName("faulty cluster")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("FATAL")  # faults are what happens here
    return session


def wrap(kind: str, flags: Path) -> None:
    """Let both stages give wrapped tasks to the workers."""
    flags.mkdir()
    makers = {"measure": (levels, "measurement_task"), "estimate": (levels, "estimation_task")}
    for name, (stage, maker) in makers.items():
        original = getattr(stage, maker)
        original = getattr(original, "original", original)

        def wrapped(given: Any, level: str, *more: Any, made: Any = original, of: str = name) -> Faulty:
            return Faulty(made(given, level, *more), kind, flags, f"{of} {level}")

        wrapped.original = original  # type: ignore[attr-defined]
        setattr(stage, maker, wrapped)


def secrets(key: RunKey, plan: Any) -> list[bytes]:
    """The test key and the key of every stream, as bytes and in hexadecimal."""
    found = [key._reveal()]
    for level in plan.budget.levels:
        for query in level.queries:
            domain = StreamDomain(plan.product.name, plan.product.record, level.geolevel, 0, query.query)
            found.append(key.derive(domain)._reveal())
    return [form for raw in found for form in (raw, raw.hex().encode(), raw.hex().upper().encode())]


def places_of(wanted: list[bytes], folder: Path) -> tuple[list[str], int]:
    """Files that hold one of the byte strings, and how many were searched."""
    found, searched = [], 0
    for path in folder.rglob("*"):
        if path.is_file():
            content, searched = path.read_bytes(), searched + 1
            found += [str(path)] * any(each in content for each in wanted)
    return found, searched


def main(folder: Path, calm: Path, test_key: str) -> None:
    sys.path.insert(0, str(Path(__file__).parents[1]))  # where pytest finds what all tests share
    spec = importlib.util.spec_from_file_location("pipeline_tools", Path(__file__).with_name("conftest.py"))
    assert spec is not None
    assert spec.loader is not None
    tools = importlib.util.module_from_spec(spec)
    sys.modules["pipeline_tools"] = tools
    spec.loader.exec_module(tools)
    session = start(folder)
    workshop = tools.Workshop(folder, session)
    scenarios: dict[str, Any] = {}
    key = RunKey.insecure(test_key)
    for kind in ("killed workers", "doubled tasks", "lost executor"):
        run_id = kind.replace(" ", "-")
        context = workshop.ingested(run_id, RunLayout.at(calm.parent, calm.name))
        wrap(kind, folder / f"flags-{run_id}")
        tools.all_levels(context)
        faults = sorted(path.name for path in (folder / f"flags-{run_id}").iterdir())
        scenarios[kind] = {"public": str(context.layout.public.path), "faults": faults}
    wanted = secrets(key, context.plan)
    keys, searched = places_of(wanted, folder)
    (folder / "planted").write_bytes(b"before" + wanted[-3] + b"after")
    planted = len(places_of(wanted, folder / ".")[0]) - len(keys)
    copies = sum(path.read_text().count('"Speculative":true') for path in (folder / "events").rglob("events_*"))
    record = {"scenarios": scenarios, "keys": keys, "searched": searched, "planted": planted, "copies": copies}
    (folder / "scenarios.json").write_text(json.dumps(record))
    session.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
