"""The master dies and is started again at its address; with what it kept on disk, and without."""

from __future__ import annotations

import random
import signal

import pytest
from outcomes import EAGER, check_end
from scenarios import Scenario, half_written, kill_one, signal_group
from standalone import ROOT, StandaloneCluster, standalone_cluster

from das_spark.spark.executors import TIMEOUT

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.verified]


def kill_and_start_the_master(cluster: StandaloneCluster) -> None:
    """SIGKILL, and a new one at the same address."""
    cluster.daemons["master"].kill()
    cluster.daemons["master"].wait()
    cluster.start_master()


def test_the_master_is_killed_and_started_again(tmp_path, calm):
    """The driver and its executors go on without it; when it is back, lost executors are replaced as before."""
    dice = random.Random(1790)
    with standalone_cluster(tmp_path / "cluster", python_path=str(ROOT), settings=EAGER) as cluster:
        scenario = Scenario(cluster, tmp_path / "scenario")
        process = scenario.start()
        for stage in ("ingest", "measure County", "estimate Enumdist", "verify"):
            number = calm.stages.index(stage)
            met = scenario.wait_for(process, calm.stages, number, dice.random() * calm.seconds[number])
            kill_and_start_the_master(cluster)
            cluster.wait_for_workers(2)
            scenario.faults.append(("master killed", met, "went on, byte-equal"))
            if stage != "verify":
                kill_one(cluster, "executor", dice)
                scenario.faults.append(("executor killed after that", met, "replaced by the new master, byte-equal"))
        scenario.finish(process)
        check_end(scenario, calm)


def test_an_executor_that_no_worker_could_hold_is_said_beside_what_workers_have(tmp_path):
    greedy = EAGER | {TIMEOUT: "10", "spark.executor.cores": "4", "spark.executor.memory": "18g"}
    with standalone_cluster(tmp_path / "cluster", python_path=str(ROOT), settings=greedy) as cluster:
        scenario = Scenario(cluster, tmp_path / "scenario")
        said = " ".join(scenario.fails(scenario.start()).split())
    assert "no executor for 10 s; asked for 4 cores and 18.0 GiB for each executor" in said
    assert "; the largest worker has 1 core and 1.2 GiB" in said


def test_a_master_that_forgot_the_run_makes_it_fail_after_a_while(tmp_path, calm):
    """Without recovery the new master has the executors killed, and gives no others: Spark would wait for ever."""
    impatient = EAGER | {TIMEOUT: "15"}
    with standalone_cluster(tmp_path / "cluster", python_path=str(ROOT), settings=impatient, recovers=False) as cluster:
        scenario = Scenario(cluster, tmp_path / "scenario")
        for stage in ("measure County", "estimate Enumdist"):
            process = scenario.start()
            met = scenario.wait_for(process, calm.stages, calm.stages.index(stage), 0.0)
            # The driver stands still meanwhile: its run may be over before workers know of the new master.
            signal_group(process, signal.SIGSTOP)
            kill_and_start_the_master(cluster)
            cluster.wait_for_workers(2)
            signal_group(process, signal.SIGCONT)
            assert "no executor for 15 s" in scenario.fails(process)
            assert half_written(scenario.run) == []
            outcome = "failed: the cluster gives no executor (exit 1); resumed, byte-equal"
            scenario.faults.append(("master killed, and what it knew is lost", met, outcome))
        scenario.finish()
        check_end(scenario, calm)
