"""The image, built step by step and used: see `image` for what stands for a container engine here, and what does not.

Needs root and the programs that tests/docker/run installs. DAS_SPARK_IMAGE names a folder where the base image and what
was built stay for the next time; without it everything is made anew.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PATIENCE = 1200.0
#: Where `image` lets containers listen: they share the network of this machine.
ADDRESS = "127.0.0.1"
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
    engine.run("remove", found, *(f"{found}-{role}" for role in ("master", "worker", "submit")))


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


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((ADDRESS, port)) == 0


def test_master_worker_and_submit_speak_with_each_other(engine, name, tmp_path):
    """Three containers on this machine's network, with one secret and shared volumes, as in compose.yaml."""
    assert not listens(7077), "another master is at work on this machine"
    secret, sizes = tmp_path / "secret", tmp_path / "sizes.conf"
    secret.write_text(secrets.token_hex(32))
    sizes.write_text(
        "spark.driver.memory 1g\nspark.executor.memory 1g\nspark.executor.cores 2\nspark.executor.pyspark.memory 6g\n"
    )
    for folder, mode in (("public", 0o755), ("restricted", 0o700)):
        (tmp_path / folder).mkdir(mode=mode)
    for path in (tmp_path, *tmp_path.iterdir()):
        os.chown(path, 10001, 10001)
    secret.chmod(0o400)
    shared: list[str] = []
    for source, target in (
        (secret, "/data/spark_secret"),
        (sizes, "/data/executors.conf"),
        (tmp_path / "public", "/data/public"),
        (tmp_path / "restricted", "/data/restricted"),
    ):
        shared += ["--volume", f"{source}:{target}"]
    shared += ["--env", "DAS_SPARK_SECRET_FILE=/data/spark_secret"]
    master = f"spark://{ADDRESS}:7077"
    at_master = ["--env", f"SPARK_MASTER={master}", "--env", "DAS_SPARK_PROPERTIES=/data/executors.conf"]
    with engine.daemon(f"{name}-master", *shared, "master") as master_log:
        wait_for(lambda: listens(7077), master_log)
        size = ["--env", "SPARK_WORKER_CORES=2", "--env", "SPARK_WORKER_MEMORY=5g"]
        with engine.daemon(f"{name}-worker", *shared, *at_master, *size, "worker") as worker_log:
            wait_for(lambda: listens(8081), worker_log)
            assert engine.run("health", f"{name}-master").returncode == 0
            words = ["run", "quickstart", "--overlay", "/etc/das_spark/output.toml", "--run-id", "cluster"]
            done = engine.run("run", f"{name}-submit", *shared, *at_master, *words)
            assert done.returncode == 0, done.stdout[-4000:] + master_log.read_text() + worker_log.read_text()
            assert re.search(r"\d+ checks passed", done.stdout)
    assert (tmp_path / "public" / "cluster" / "verification.json").is_file()
    for log in (master_log, worker_log):
        assert secret.read_text() not in log.read_text()


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))
