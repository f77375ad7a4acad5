"""The image, built step by step and used: see `image` for what stands for a container engine here, and what does not.

Needs root and the programs that tests/docker/run installs. DAS_SPARK_IMAGE names a folder where the base image and what
was built stay for the next time; without it everything is made anew.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
PATIENCE = 1200.0
#: Where `image` lets containers listen: they share the network of this machine.
ADDRESS = "127.0.0.1"
ROLES = ("master", "worker-1", "worker-2", "history", "submit")
WRITABLE = ("/data", "/scratch", "/tmp", "/run/das_spark", "/proc", "/dev", "/sys", "/var/tmp", "/run/lock")

pytestmark = [pytest.mark.long, pytest.mark.spark, pytest.mark.whole_run]


class Engine:
    """Containers of the image, by name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def command(self, action: str, *words: str) -> list[str]:
        return [str(HERE / "image"), action, str(self.folder), *words]

    def run(self, action: str, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(action, *words),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )

    @contextmanager
    def daemon(self, *words: str) -> Iterator[Path]:
        """A container that stays, until the block ends; yields its log."""
        log = self.folder / f"{words[0]}.log"
        with log.open("w") as out:
            process = subprocess.Popen(
                self.command("run", *words), stdin=subprocess.DEVNULL, stdout=out, stderr=out, start_new_session=True
            )
        try:
            yield log
        finally:
            os.killpg(process.pid, 15)
            process.wait(60)


@pytest.fixture(scope="module")
def engine(tmp_path_factory) -> Iterator[Engine]:
    missing = [program for program in ("buildah", "debootstrap") if not shutil.which(program)]
    if os.geteuid() != 0 or missing:
        pytest.skip("the image is built in a chroot, by root, with buildah and debootstrap: tests/docker/run")
    kept = os.environ.get("DAS_SPARK_IMAGE")
    folder = Path(kept) if kept else tmp_path_factory.mktemp("image")
    made = Engine(folder)
    built = made.run("build")
    (folder / "build.log").write_text(built.stdout)
    assert built.returncode == 0, built.stdout[-4000:]
    yield made
    if not kept:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def name(engine) -> Iterator[str]:
    """Of a container, and what the names of others begin with: each is a copy of two gigabytes."""
    found = f"test-{secrets.token_hex(4)}"
    yield found
    engine.run("remove", found, *(f"{found}-{role}" for role in ROLES))


def test_every_step_was_carried_out(engine):
    log = (engine.folder / "build.log").read_text()
    last = re.findall(r"STEP (\d+)/(\d+)", log)[-1]
    assert last[0] == last[1]
    assert "No broken requirements found." in log


def test_without_arguments_it_says_whether_it_would_work(engine, name):
    done = engine.run("run", name)
    assert done.returncode == 0, done.stdout
    assert "toy in Spark" in done.stdout
    assert "encryption of local files true" in done.stdout


def test_a_user_without_rights_can_write_where_it_must_and_nowhere_else(engine, name):
    engine.run("run", name, "--version")
    assert engine.run("shell", name, "id", "--user").stdout.split()[-1] == "10001"
    found = engine.run("shell", name, "find", "/", "-xdev", "-writable", "(", "-type", "d", "-o", "-type", "f", ")")
    lines = [line for line in found.stdout.splitlines() if not line.endswith("Permission denied")]
    places = [line for line in lines if line.startswith("/") and not line.startswith(WRITABLE)]
    assert places == []
    assert engine.run("shell", name, "stat", "-c", "%a", "/data/restricted").stdout.split()[-1] == "700"


def test_the_quickstart_under_a_real_key(engine, name):
    done = engine.run("run", name, "run", "quickstart", "--overlay", "/etc/das_spark/output.toml", "--run-id", "first")
    assert done.returncode == 0, done.stdout
    assert re.search(r"\d+ checks passed", done.stdout)
    listed = engine.run("shell", name, "find", "/data/restricted", "-perm", "/007", "!", "-type", "l").stdout
    assert listed.strip() == "", "open to others"
    assert engine.run("shell", name, "test", "-f", "/data/public/first/verification.json").returncode == 0


def test_a_wrong_command_has_the_exit_code_of_das_spark(engine, name):
    done = engine.run("run", name, "run", "nothing")
    assert done.returncode == 2
    assert "no such run file" in done.stdout


def test_a_container_at_rest_is_healthy(engine, name):
    engine.run("run", name, "--version")
    assert engine.run("health", name).returncode == 0


def test_a_daemon_without_its_secret_is_refused(engine, name):
    done = engine.run("run", name, "master")
    assert done.returncode == 2
    assert "no shared secret" in done.stdout


def wait_for(seen: Callable[[], bool], log: Path) -> None:
    """Wait until a daemon answers, unless its log says that it has ended."""
    limit = time.monotonic() + PATIENCE
    while not seen():
        text = log.read_text()
        assert "Error: exit status" not in text, text
        assert time.monotonic() < limit, text
        time.sleep(1)


def listens(address: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((address, port)) == 0


def test_a_cluster_of_containers_carries_out_a_run_and_its_history_is_shown(engine, name, tmp_path):
    """Master, two workers, history server and submit on this machine's network, with one secret and shared volumes."""
    assert not listens(ADDRESS, 7077), "another master is at work on this machine"
    shared = volumes(tmp_path)
    at_master = ["--env", f"SPARK_MASTER=spark://{ADDRESS}:7077", "--env", "DAS_SPARK_PROPERTIES=/data/executors.conf"]
    size = ["--env", "SPARK_WORKER_CORES=1", "--env", "SPARK_WORKER_MEMORY=3g"]
    events = ["--env", "DAS_SPARK_EVENTS=/data/events"]
    words = ["run", "quickstart", "--overlay", "/etc/das_spark/output.toml", "--run-id", "cluster"]
    with ExitStack() as daemons:

        def start(role: str, address: str, port: int, *more: str) -> Path:
            own = (*shared, "--env", f"SPARK_LOCAL_IP={address}", *more)
            log = daemons.enter_context(engine.daemon(f"{name}-{role}", *own, role.partition("-")[0]))
            wait_for(lambda: listens(address, port), log)
            return log

        logs = [start("master", ADDRESS, 7077)]
        # Two addresses, as two machines have: Spark then speaks over the network between them.
        logs += [start(f"worker-{each}", f"127.0.0.{each + 1}", 8081, *at_master, *size) for each in (1, 2)]
        logs.append(start("history", ADDRESS, 18080, *events))
        assert engine.run("health", f"{name}-master").returncode == 0
        done = engine.run("run", f"{name}-submit", *shared, *at_master, *events, *words)
        assert done.returncode == 0, done.stdout[-4000:] + "".join(log.read_text() for log in logs)
        assert re.search(r"\d+ checks passed", done.stdout)
        wait_for(lambda: [each["attempts"][-1]["completed"] for each in history("applications")] == [True], logs[-1])
        executors = history(f"applications/{history('applications')[0]['id']}/allexecutors")
    assert (tmp_path / "public" / "cluster" / "verification.json").is_file()
    tasks = {
        executor["hostPort"].partition(":")[0]: executor["completedTasks"]
        for executor in executors
        if executor["id"] != "driver"
    }
    assert set(tasks) == {"127.0.0.2", "127.0.0.3"}
    assert all(tasks.values()), tasks
    secret = (tmp_path / "secret").read_text()
    for log in logs:
        assert secret not in log.read_text()


def volumes(folder: Path) -> list[str]:
    """What the containers of a cluster share: secret, sizes, the two sides of runs, event logs; their user owns it."""
    (folder / "secret").write_text(secrets.token_hex(32))
    (folder / "sizes.conf").write_text(
        "spark.driver.memory 1g\nspark.executor.memory 1g\nspark.executor.cores 1\nspark.executor.pyspark.memory 3g\n"
    )
    for side, mode in (("public", 0o755), ("restricted", 0o700), ("events", 0o700)):
        (folder / side).mkdir(mode=mode)
    for path in (folder, *folder.iterdir()):
        os.chown(path, 10001, 10001)
    (folder / "secret").chmod(0o400)
    targets = {"secret": "spark_secret", "sizes.conf": "executors.conf"}
    shared = ["--env", "DAS_SPARK_SECRET_FILE=/data/spark_secret"]
    for path in folder.iterdir():
        shared += ["--volume", f"{path}:/data/{targets.get(path.name, path.name)}"]
    return shared


def history(path: str) -> list[dict[str, Any]]:
    """What the history server answers."""
    with urllib.request.urlopen(f"http://{ADDRESS}:18080/api/v1/{path}", timeout=30) as answer:
        found: list[dict[str, Any]] = json.load(answer)
    return found


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
