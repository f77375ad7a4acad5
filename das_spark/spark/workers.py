"""What the workers of a session are: who they are, which versions and numbers they have, what they can read and write.

Each is asked by a task. A worker that lacks a package or a place fails a run in its middle, and one whose kernels round
otherwise gives other estimates.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

from das_spark.errors import DasError
from das_spark.places import place_of
from das_spark.spark.engine import cores, in_tasks
from das_spark.spark.executors import has_executor
from das_spark.spark.session import in_local_mode
from das_spark.store import require_exclusive, require_writable

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

#: Packages whose versions decide what tasks do, or how they round.
PACKAGES: Final = ("das_spark", "numpy", "scipy", "pyarrow", "osqp", "piqp", "clarabel", "numba", "fsspec")
#: Tasks for each core, and how long each takes at least: so that every executor gets one.
_TASKS_A_CORE: Final = 3
_SECONDS: Final = 0.5
_SIZE: Final = 96
#: Seconds that a cluster has for giving an executor.
_PATIENCE: Final = 60.0


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """What a worker says of itself.

    Attributes:
        worker: Its machine, and the process from which its tasks are forked.
        versions: Python and packages, by name.
        numbers: Digest of numbers that its kernels compute.
        wrong: What it cannot read or write, in sentences.
    """

    worker: str
    versions: Mapping[str, str]
    numbers: str
    wrong: tuple[str, ...]

    @classmethod
    def here(cls, reads: Sequence[str] = (), writes: Sequence[str] = ()) -> WorkerReport:
        """What this process says of itself."""
        versions = {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES}
        wrong = [*map(_unread, reads), *map(_unwritten, writes)]
        worker = f"{socket.gethostname()}, process {os.getppid()}"
        return cls(worker, versions, _numbers(), tuple(filter(None, wrong)))


def look_at_workers(spark: SparkSession, reads: Sequence[str] = (), writes: Sequence[str] = ()) -> list[WorkerReport]:
    """Ask every worker of a session.

    Args:
        spark: The session.
        reads: Files that tasks read, paths or addresses.
        writes: Folders that tasks write to, paths or addresses.

    Returns:
        A report a worker, by its name.
    """
    tasks = cores(spark) * _TASKS_A_CORE
    asked = _Asked(tuple(reads), tuple(writes))
    rows = in_tasks(spark.range(0, tasks, 1, tasks), asked, "report string").collect()
    found: dict[str, WorkerReport] = {}
    for content in (json.loads(row["report"]) for row in rows):
        report = WorkerReport(**{**content, "wrong": tuple(content["wrong"])})
        if report.worker not in found or report.wrong:
            found[report.worker] = report
    return sorted(found.values(), key=lambda each: each.worker)


def wait_for_executor(context: SparkContext, seconds: float = _PATIENCE) -> bool:
    """Whether the session has an executor, or is given one within some seconds; the driver itself counts as none."""
    if in_local_mode(context):
        return True
    until = time.monotonic() + seconds
    while not has_executor(context):
        if time.monotonic() > until:
            return False
        time.sleep(0.5)
    return True


@dataclass(frozen=True, slots=True)
class _Asked:
    reads: tuple[str, ...]
    writes: tuple[str, ...]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        report = WorkerReport.here(self.reads, self.writes)
        time.sleep(_SECONDS)
        yield pa.RecordBatch.from_pydict({"report": [json.dumps(asdict(report))]})


def _version(name: str) -> str:
    with suppress(PackageNotFoundError):
        return version(name)
    return "none"


def _numbers() -> str:
    """Digest of products and solutions that differ in their last bits between kernels."""
    values = np.sin(np.arange(_SIZE * _SIZE, dtype=np.float64)).reshape(_SIZE, _SIZE)
    solved = np.linalg.solve(values @ values.T + np.eye(_SIZE), values)
    return hashlib.sha256(solved.tobytes()).hexdigest()[:16]


def _unread(path: str) -> str:
    try:
        with place_of(path).open("rb") as file:
            file.read(1)
    except OSError as error:
        return f"cannot read {path}: {error.strerror or type(error).__name__}"
    return ""


def _unwritten(named: str) -> str:
    try:
        require_writable(place_of(named))
        require_exclusive(place_of(named))
    except (OSError, DasError) as error:
        return f"cannot write to {named}: {error}"
    return ""
