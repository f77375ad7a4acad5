"""Whole runs on a cluster whose machines share no folder: input, work, output and ledger lie in a store.

Drivers are killed at the end of every stage and in the middle of writing; so are executors. Each next driver is started
by the same command with an empty home folder.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import servers
from outcomes import EAGER, TABLE
from published_files import differences, published
from scenarios import KEY, PATIENCE, STAGE_LINE, alive, draws, kill_group, pipeline_tools
from standalone import APART, ROOT, StandaloneCluster, standalone_cluster, wait_until

from das_spark.cli.main import main
from das_spark.config import load_plan, stages_of
from das_spark.pipeline import run_stages
from das_spark.places import Place, place_of
from das_spark.store import files_below, read_ledger

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.verified, pytest.mark.long]

#: Stages in the middle of which somebody dies -> folder of the restricted root, and table, that their tasks write to.
MIDDLES = {
    "measure Enumdist": ("staging", "measurements/level=Enumdist"),
    "estimate Enumdist": ("unpublished/.staging", "estimates/level=Enumdist"),
}


@dataclass(frozen=True)
class Machines:
    """A cluster, and a store that alone its machines have in common.

    Attributes:
        cluster: Workers see an empty folder where the driver has its files.
        store: Address of a bucket that holds the input.
        folder: Of the tests.
        conf: The run file, which only drivers see.
        expected: What the run publishes in local mode.
    """

    cluster: StandaloneCluster
    store: str
    folder: Path
    conf: Path
    expected: dict[str, Any]


@dataclass
class RunInStore:
    """A run of its own in that store, and its drivers."""

    machines: Machines
    name: str
    drivers: int = 0

    @property
    def address(self) -> str:
        return f"{self.machines.store}/{self.name}/runs/one"

    @property
    def restricted(self) -> Place:
        return place_of(f"{self.address}/restricted")

    @property
    def log(self) -> Path:
        """What the last driver says."""
        return self.machines.folder / f"{self.name}-{self.drivers}.log"

    def start(self) -> subprocess.Popen[bytes]:
        """Start a driver, which finds nothing that another one has left on a disk."""
        self.drivers += 1
        arguments = [str(self.machines.conf), "--run-id", "one", "--test-key", KEY]
        for key, place in (("output.root", f"{self.name}/runs"), ("ledger.path", f"{self.name}/ledgers")):
            arguments += ["--set", f"{key}={self.machines.store}/{place}"]
        arguments += ["--set", f"input.path={self.machines.store}/census"]
        home = self.machines.folder / f"home-{self.name}-{self.drivers}"
        return self.machines.cluster.submit(arguments, log=self.log, more={"HOME": str(home)})

    def wait_for_end(self, process: subprocess.Popen[bytes], stage: str) -> None:
        """Wait until a driver has ended a stage."""

        def over() -> bool:
            assert process.poll() is None, self.log.read_text()[-4000:]
            return stage in {line.group(1) for line in STAGE_LINE.finditer(self.log.read_text())}

        wait_until(over, f"the end of {stage}", PATIENCE)

    def wait_for_middle(self, process: subprocess.Popen[bytes], stage: str) -> None:
        """Wait until the first task of a stage has written its file."""
        folder, table = MIDDLES[stage]

        def begun() -> bool:
            assert process.poll() is None, self.log.read_text()[-4000:]
            return any(table in name and "/.part-" in name for name in files_below(self.restricted / folder))

        wait_until(begun, f"files of {stage}", PATIENCE)

    def is_in_the_middle(self, stage: str) -> bool:
        """Whether files of a stage are there, and its result is not."""
        folder, table = MIDDLES[stage]
        written = any(table in name for name in files_below(self.restricted / folder))
        return written and not (self.restricted / "unpublished" / table / "_SUCCESS").is_file()

    def check_draws(self) -> None:
        """No level has noisy answers of two attempts, in whatever object, and the ledger has one entry."""
        draws(servers.fetched(place_of(self.address), self.machines.folder / f"all-{self.name}-{self.drivers}"))
        ledger = read_ledger(place_of(f"{self.machines.store}/{self.name}/ledgers/tiny.privacy-ledger.jsonl"))
        assert len(ledger.entries) == 1

    def check_end(self, capsys: pytest.CaptureFixture[str]) -> None:
        """The end of a run that was disturbed: the bytes of local mode, verified, and nothing left over."""
        self.check_draws()
        public = servers.fetched(place_of(f"{self.address}/public"), self.machines.folder / f"public-{self.name}")
        assert differences(self.machines.expected, published(public)) == []
        assert main(["verify", self.address]) == 0
        assert "FAILED" not in capsys.readouterr().out
        assert main(["tidy", self.address]) == 0
        assert "0 found" in capsys.readouterr().out


def put(folder: Path, address: str) -> None:
    place = place_of(address)
    for path in folder.rglob("*"):
        if path.is_file():
            place.system.write(f"{place}/{path.relative_to(folder)}", path.read_bytes())


def may_mount(folder: Path) -> bool:
    """Whether this machine lets a test hide a folder from a program."""
    seen = subprocess.run([*APART, str(folder), "ls", str(folder)], capture_output=True, check=False)
    return seen.returncode == 0 and not seen.stdout


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, spark) -> Iterator[Machines]:
    folder = tmp_path_factory.mktemp("apart")
    driver = folder / "driver"
    driver.mkdir()
    workshop = pipeline_tools().Workshop(driver)
    conf = workshop.run_file()
    if not may_mount(driver):
        pytest.skip("a folder can be hidden from a program where mounting is permitted alone")
    run_stages(load_plan(conf), run_id="one", test_key=KEY, spark=spark)
    expected = published(driver / "runs" / "one" / "public")
    assert len(expected) > 12
    # Of this process, of the daemons, and so of executors.
    with servers.s3_server(folder / "s3") as server, servers.reached(server.environment, spark):
        put(workshop.census, f"{server.url}/census")
        with standalone_cluster(folder / "cluster", python_path=str(ROOT), settings=EAGER, hidden=driver) as cluster:
            yield Machines(cluster, server.url, folder, conf, expected)


def test_drivers_die_at_the_end_of_every_stage_and_while_files_are_written(machines, capsys):
    run = RunInStore(machines, "drivers")
    fault = "driver killed, machines without a shared disk"
    for stage in (stage.name for stage in stages_of(load_plan(machines.conf))):
        if stage in MIDDLES:
            process = run.start()
            run.wait_for_middle(process, stage)
            kill_group(process)
            assert run.is_in_the_middle(stage)
            run.check_draws()
            TABLE.append((fault, f"{stage} (in the middle)", "resumed by the same command, byte-equal"))
        process = run.start()
        run.wait_for_end(process, stage)
        kill_group(process)
        TABLE.append((fault, f"{stage} (at its end)", "resumed by the same command, byte-equal"))
    assert run.start().wait(PATIENCE) == 0, run.log.read_text()[-4000:]
    assert run.drivers == 9 + len(MIDDLES) + 1, "at the end of nine stages, in the middle of two, and the last one"
    run.check_end(capsys)


def test_executors_die_while_files_are_written(machines, capsys):
    run, dice = RunInStore(machines, "executors"), random.Random(1850)
    work = machines.cluster.folder / "work"
    before = set(work.glob("worker-*/app-*/*"))
    process = run.start()
    for stage in MIDDLES:
        run.wait_for_middle(process, stage)
        os.kill(dice.choice(alive(machines.cluster, "executor")), signal.SIGKILL)
        assert run.is_in_the_middle(stage)
        TABLE.append(("executor killed, machines without a shared disk", stage, "went on, byte-equal"))
    assert process.wait(PATIENCE) == 0, run.log.read_text()[-4000:]
    executors = set(work.glob("worker-*/app-*/*")) - before
    assert len(executors) >= 2 + len(MIDDLES), "those that died were replaced"
    run.check_end(capsys)
