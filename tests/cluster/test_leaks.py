"""Canary counts and the keys of a run on a cluster, looked for in everything that its processes leave behind.

Looked through: logs of master, workers, executors and driver, their scratch folders with shuffle, spill and broadcast
files (those that are deleted again, too), the workers' application folders, event logs, temporary files, and what the
run published. Encryption is that of conf/spark/standalone.conf; the control is the same run with files in the clear.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from scenarios import KEY, PATIENCE, canaries, pipeline_tools
from standalone import ROOT, StandaloneCluster, standalone_cluster

from das_spark.config import load_plan
from das_spark.privacy import RunKey

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.verified]

#: Runs, and what they change of the shipped properties.
NAMES = ("shipped", "open")


@dataclass(frozen=True)
class Watched:
    """What a run on the cluster left behind.

    Attributes:
        folder: Of the run: input, both roots, the driver's log, event logs, temporary files.
        net: Every file that stood in a scratch or temporary folder while the run was at work.
        cluster: Logs, application folders and scratch folders of all daemons.
        keys: Every form of the run's key and of the keys of its streams.
    """

    folder: Path
    net: Path
    cluster: Path
    keys: list[bytes]

    def outside(self) -> Iterator[Path]:
        """Files that are neither input nor restricted output; property files hold the shared secret, and no canary."""
        closed = [self.folder / "runs" / "run" / "restricted", *self.folder.glob("census-*")]
        for root in (self.folder, self.net, self.cluster):
            for path in root.rglob("*"):
                ledger = path.name.endswith(".privacy-ledger.jsonl")
                if path.is_file() and (ledger or not any(path.is_relative_to(each) for each in closed)):
                    yield path


def watched(cluster: StandaloneCluster, folder: Path, name: str) -> Watched:
    """A run of the census with canaries, under nets over all scratch folders."""
    search, settings = canaries(), {"shipped": {}, "open": canaries().OPEN}[name]
    for place in ("tmp", "events"):
        (folder / place).mkdir(mode=0o700, parents=True)
    logged = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": (folder / "events").as_uri(),
        "spark.worker.cleanup.enabled": "false",
    }
    run_file = search.planted_run_file(pipeline_tools(), folder, "planted")
    more = {
        "DAS_SPARK_ENV": str(cluster.with_settings(name, search.SPILLING | logged | settings)),
        "TMPDIR": str(folder / "tmp"),
        "JDK_JAVA_OPTIONS": f"-Djava.io.tmpdir={folder / 'tmp'}",
    }
    scratch = [cluster.folder / "local", cluster.folder / "work", folder / "tmp"]
    with search.Net(scratch, folder / "net"):
        process = cluster.submit(
            [str(run_file), "--run-id", "run", "--test-key", KEY], log=folder / "driver.log", more=more
        )
        code = process.wait(PATIENCE)
    assert code == 0, (folder / "driver.log").read_text()[-6000:]
    keys = search.all_keys(RunKey.insecure(KEY), load_plan(run_file), attempt=0)
    net = (folder / "net").rename(folder.parent / f"{name}-net")
    return Watched(folder, net, cluster.folder, keys)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Watched]:
    """Both runs, each on a cluster of its own: what one leaves must not be found with the other."""
    found = {}
    for name in NAMES:
        folder = tmp_path_factory.mktemp(name)
        with standalone_cluster(folder / "cluster", python_path=str(ROOT)) as cluster:
            found[name] = watched(cluster, folder / "watched", name)
    return found


def holding_counts(search: Any, paths: Iterator[Path]) -> list[str]:
    return [str(path) for path in paths if search.counts_in(path.read_bytes())]


def holding_keys(paths: Iterator[Path], keys: list[bytes]) -> list[str]:
    return [str(path) for path in paths if any(form in path.read_bytes() for form in keys)]


def test_the_net_holds_what_both_workers_and_the_driver_had_on_disk(runs):
    for run in runs.values():
        names = [path.name for path in run.net.iterdir()]
        assert len(names) > 100
        assert any("temp_shuffle_" in name for name in names)
        assert any("temp_local_" in name for name in names), "nothing was spilled"
        assert any("broadcast" in name for name in names)
        assert len([*run.cluster.glob("work/worker-*/app-*/*/stderr")]) == 2, "both workers had an executor"


def test_no_count_is_left_in_the_clear(runs):
    assert holding_counts(canaries(), runs["shipped"].outside()) == []


def test_no_key_is_left_in_the_clear(runs):
    run = runs["shipped"]
    assert holding_keys(run.outside(), run.keys) == []
    assert holding_keys((path for path in run.folder.rglob("*") if path.is_file()), run.keys) == []


def test_the_search_finds_counts_and_keys_where_files_are_not_encrypted(runs):
    run = runs["open"]
    assert len(holding_counts(canaries(), (path for path in run.net.iterdir()))) > 2
    assert holding_keys((path for path in run.net.iterdir()), run.keys)


def test_no_published_row_tells_the_counts_and_the_restricted_root_does(runs):
    run = runs["shipped"].folder / "runs" / "run"
    assert canaries().telling_rows(run / "public") == []
    assert canaries().telling_rows(run / "restricted")
