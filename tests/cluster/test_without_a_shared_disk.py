"""A whole run on a cluster whose machines share no folder: input, work, output and ledger lie in a store."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest
import servers
from outcomes import EAGER
from published_files import differences, published
from scenarios import KEY, PATIENCE, pipeline_tools
from standalone import APART, ROOT, standalone_cluster, wait_until

from das_spark.cli.main import main
from das_spark.config import load_plan
from das_spark.pipeline import run_stages
from das_spark.places import place_of

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.verified, pytest.mark.slow]


def put(folder: Path, address: str) -> None:
    place = place_of(address)
    for path in folder.rglob("*"):
        if path.is_file():
            place.system.write(f"{place}/{path.relative_to(folder)}", path.read_bytes())


def may_mount(folder: Path) -> bool:
    """Whether this machine lets a test hide a folder from a program."""
    seen = subprocess.run([*APART, str(folder), "ls", str(folder)], capture_output=True, check=False)
    return seen.returncode == 0 and not seen.stdout


def test_a_run_without_a_shared_disk_dies_goes_on_and_publishes_the_same(tmp_path, spark, capsys):
    """Drivers die in the middle of measuring, estimating and writing; each next one begins in a folder of its own."""
    driver = tmp_path / "driver"
    tools = pipeline_tools()
    workshop = tools.Workshop(driver)
    driver.mkdir()
    conf = workshop.run_file()
    if not may_mount(driver):
        pytest.skip("a folder can be hidden from a program where mounting is permitted alone")
    # Of this process, of the daemons, and so of executors.
    with servers.s3_server(tmp_path / "s3") as server, servers.reached(server.environment):
        put(workshop.census, f"{server.url}/census")
        arguments = [str(conf), "--run-id", "one", "--test-key", KEY]
        for key, value in (("input.path", "census"), ("output.root", "runs"), ("ledger.path", "ledgers")):
            arguments += ["--set", f"{key}={server.url}/{value}"]
        with standalone_cluster(tmp_path / "cluster", python_path=str(ROOT), settings=EAGER, hidden=driver) as cluster:
            for number, stage in enumerate(("measure State", "estimate State", "microdata", "")):
                log = tmp_path / f"driver-{number}.log"
                process = cluster.submit(arguments, log=log, more={"HOME": str(tmp_path / f"home-{number}")})
                if stage:
                    wait_until(
                        lambda log=log, process=process, stage=stage: (
                            process.poll() is not None or f"{stage}:" in log.read_text()
                        ),
                        f"the end of {stage}",
                    )
                    assert process.poll() is None, log.read_text()[-4000:]
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                else:
                    assert process.wait(PATIENCE) == 0, log.read_text()[-4000:]
        remote = servers.fetched(place_of(f"{server.url}/runs/one/public"), tmp_path / "remote")
        assert not (driver / "runs").exists()
        assert main(["tidy", f"{server.url}/runs/one"]) == 0
        assert "0 found" in capsys.readouterr().out
    plan = load_plan(conf, settings=[f"output.root={tmp_path / 'runs'}"])
    run_stages(plan, run_id="one", test_key=KEY, spark=spark)
    ours = published(tmp_path / "runs" / "one" / "public")
    assert differences(ours, published(remote)) == []
    assert len(ours) > 12
