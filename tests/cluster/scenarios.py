"""Runs on a cluster that meet faults at seeded moments, and what must hold of them afterwards.

A scenario is one run folder with an input of its own. A driver of it is `spark-submit.sh` in a process group; it may be
killed and started again as often as the scenario wants, always by the same command with the same `--run-id`.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from published_files import published
from standalone import ROOT, StandaloneCluster, wait_until

KEY = "an open secret"
#: Seconds for one driver. A tiny run takes twenty on an idle machine; ten minutes mean that it hangs.
PATIENCE = 600.0
#: A line that ends a stage: its name and its seconds.
STAGE_LINE = re.compile(
    r"^((?:spine|ingest|published|measure|estimate|census|microdata|tabulate|verify|evaluate)[^:]*): "
    r"(?:[\d,]+ families, )?([\d.]+) s(?:, \d+ jobs? of Spark)?$",
    re.M,
)

VICTIMS = {
    "worker": "org.apache.spark.deploy.worker.Worker",
    "executor": "CoarseGrainedExecutorBackend",
    "Python worker": "das_spark.spark.python_daemon",
}


def pipeline_tools() -> Any:
    """tests/pipeline/conftest.py as a module: the tiny census and its run file."""
    return _of_the_pipeline("conftest")


def canaries() -> Any:
    """tests/pipeline/canaries.py as a module: rare counts, and the search for them."""
    return _of_the_pipeline("canaries")


def _of_the_pipeline(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(f"pipeline_{name}", ROOT / "tests" / "pipeline" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    tools = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = tools
    spec.loader.exec_module(tools)
    return tools


@dataclass
class Scenario:
    """One run, its drivers, and the faults that it met.

    Attributes:
        cluster: Where it runs.
        folder: Holds census, run file, run and driver logs of this scenario.
        key: The test key; None for a real one.
        faults: (kind, stage, what became of it) of every fault so far.
        options: Further options of the run.
    """

    cluster: StandaloneCluster
    folder: Path
    key: str | None = KEY
    faults: list[tuple[str, str, str]] = field(default_factory=list)
    options: tuple[str, ...] = ()
    _from: int = 0

    def __post_init__(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.workshop = pipeline_tools().Workshop(self.folder)
        self.run_file = self.workshop.run_file()

    @property
    def run(self) -> Path:
        return self.folder / "runs" / "run"

    @property
    def public(self) -> Path:
        return self.run / "public"

    @property
    def restricted(self) -> Path:
        return self.run / "restricted"

    @property
    def log(self) -> Path:
        return self.folder / "driver.log"

    def start(self, more: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start or resume the run."""
        self._from = self.log.stat().st_size if self.log.exists() else 0
        key = ("--test-key", self.key) if self.key else ()
        return self.cluster.submit(
            [str(self.run_file), *self.options, "--run-id", "run", *key], log=self.log, more=more
        )

    def said(self) -> str:
        """What the last driver said so far."""
        with self.log.open("rb") as file:
            file.seek(self._from)
            return file.read().decode(errors="replace")

    def stages(self) -> list[tuple[str, float]]:
        """Stages that the last driver has ended, with their seconds."""
        return [(match.group(1), float(match.group(2))) for match in STAGE_LINE.finditer(self.said())]

    def finish(self, process: subprocess.Popen[bytes] | None = None) -> None:
        """Bring the run to its end.

        Raises:
            AssertionError: The driver failed.
        """
        code = (process or self.start()).wait(PATIENCE)
        assert code == 0, self.said()[-6000:]

    def fails(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for a clear failure: a code that says what to do, and one line that says why. Returns that line."""
        code = process.wait(PATIENCE)
        said = [line for line in self.said().splitlines() if line.startswith("das-spark: error: ")]
        assert code in (1, 2, 3), (code, self.said()[-4000:])
        assert len(said) == 1, self.said()[-4000:]
        return f"exit {code}, {said[0].removeprefix('das-spark: error: ')}"

    def result(self) -> dict[str, Any]:
        """What the run has published, without names that differ between scenarios."""
        marker = json.loads((self.public / "run.json").read_text())
        return published(self.public, {str(self.folder): "FOLDER", marker["config_hash"]: "HASH"})

    def measured(self) -> dict[str, str]:
        """Checksums of the measurements of all published levels."""
        tools, table = pipeline_tools(), self.public / "measurements"
        levels = [folder for folder in table.glob("level=*") if (folder / "_SUCCESS").is_file()]
        return {f"{folder.name}/{name}": sha for folder in levels for name, sha in tools.checksums(folder).items()}

    def wait_for(self, process: subprocess.Popen[bytes], stages: list[str], number: int, delay: float) -> str:
        """Wait until so many stages of a whole run are over, then the delay. Returns the stage that runs then."""
        wanted = set(stages[:number])

        def there() -> bool:
            assert process.poll() is None, self.said()[-4000:]
            return wanted <= {name for name, _ in self.stages()}

        wait_until(there, f"stage {number} of {self.folder.name}", PATIENCE)
        time.sleep(delay)
        over = {name for name, _ in self.stages()}
        return next((name for name in stages if name not in over), "the end")


def kill_group(process: subprocess.Popen[bytes]) -> None:
    """SIGKILL to a driver: the shell, its JVM and its Python at one moment, as a power cut does."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """A signal to all processes of a driver."""
    os.killpg(process.pid, number)


def alive(cluster: StandaloneCluster, kind: str) -> list[int]:
    """Living processes of a kind of `VICTIMS`, oldest first."""
    return sorted(process for process, line in cluster.processes().items() if VICTIMS[kind] in line)


def kill_one(cluster: StandaloneCluster, kind: str, dice: random.Random) -> None:
    """SIGKILL to a seeded choice among the processes of a kind; a worker is started again, as its supervisor would.

    Raises:
        TimeoutError: There was none for a long time.
    """
    wait_until(lambda: alive(cluster, kind), f"a process to kill: {kind}", PATIENCE)
    chosen = dice.choice(alive(cluster, kind))
    with suppress(ProcessLookupError):
        os.kill(chosen, signal.SIGKILL)
    if kind == "worker":
        name = next(name for name, daemon in cluster.daemons.items() if daemon.pid == chosen)
        cluster.daemons[name].wait()
        cluster.start_worker(name)


@contextmanager
def a_frozen_executor(cluster: StandaloneCluster) -> Iterator[None]:
    """SIGSTOP to the youngest executor and its Python daemon; SIGCONT at the end, where they still live."""
    wait_until(lambda: alive(cluster, "executor"), "an executor")
    frozen = [alive(cluster, "executor")[-1]]
    frozen += [each for each in alive(cluster, "Python worker") if parent(each) == frozen[0]]
    for each in frozen:
        os.kill(each, signal.SIGSTOP)
    try:
        yield
    finally:
        for each in frozen:
            # Where copies ended all that was left to do, the executor is gone with the application.
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


def applications(cluster: StandaloneCluster) -> set[Path]:
    """Work folders of all applications so far, one on each worker."""
    return set((cluster.folder / "work").glob("worker-*/app-*"))


def second_copies(folders: set[Path]) -> list[str]:
    """Tasks that executors began for a second time, from their logs; nothing failed, so these are copies."""
    logs = [path.read_text(errors="replace") for folder in folders for path in folder.glob("*/stderr")]
    return [found for log in logs for found in re.findall(r"Running task \d+\.[1-9]\d* in stage [\d.]+", log)]


def parent(process: int) -> int:
    """The process that started one; 0 where it is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[1])
    return 0


def half_written(root: Path) -> list[str]:
    """Folders of part files under a final name that hold no `_SUCCESS`; staging folders are not final names."""
    return [
        str(folder)
        for folder in {path.parent for path in root.rglob("part-*")}
        if not (folder / "_SUCCESS").is_file()
        and not {".staging", "staging"} & set(folder.parts)
        and not any(part.startswith(".") for part in folder.relative_to(root).parts)
    ]


def draws(run: Path) -> dict[str, set[int]]:
    """Attempts at each level of which noisy answers are left anywhere below a run, in whatever folder.

    Under a test key all attempts draw the same, so that values alone would show nothing: published files count as the
    attempt that the journal says they are, and files of any other one are a second draw.

    Raises:
        AssertionError: Bytes of several attempts at a level are left, or one answer with two values.
    """
    homes: dict[str, set[int]] = {}
    values: dict[tuple[str, str, str], str] = {}
    for path in run.rglob("*"):
        with suppress(OSError):
            if not path.is_file() or path.open("rb").read(4) != b"PAR1" or "measurements" not in path.parts:
                continue
            level = next((part for part in path.parts if part.startswith(("level=", ".level="))), "")
            name, _, attempt = level.removeprefix(".").removeprefix("level=").partition(".attempt=")
            number = attempt.removesuffix(".destroyed")
            homes.setdefault(name, set()).add(int(number) if number else published_attempt(run, name))
            with suppress(pa.ArrowInvalid):  # cut short while it was written
                for row in pq.ParquetFile(path).read().to_pylist():
                    key = (name, row["geocode"], row["query"])
                    found = repr(row["values"])
                    assert values.setdefault(key, found) == found, f"{path}: a second draw of {key}"
    for name, attempts in homes.items():
        assert len(attempts) <= 1, f"bytes of several attempts at {name}: {attempts}"
    return homes


def published_attempt(run: Path, geolevel: str) -> int:
    """The attempt at a level whose bytes the journal calls staged or published."""
    journal = [json.loads(path.read_text()) for path in (run / "restricted" / "journal").glob(f"{geolevel}.*.json")]
    (number,) = {state["number"] for state in journal if state["state"] in ("staged", "promoted")}
    return int(number)
