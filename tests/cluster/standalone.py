"""A real standalone Spark cluster on the loopback interface: a master and workers from the installed pyspark.

    with standalone_cluster(folder) as cluster:
        done = cluster.submit(["conf/quickstart.toml", "--run-id", "one"], archive).wait()

Every daemon is a process of its own with its own work and scratch folders. All of them, and all that they start, carry
the folder of the cluster in their environment: so they are found, and stopped, whatever died before.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pyspark

from das_spark.spark.session import properties

ROOT = Path(__file__).parents[2]
SPARK_HOME = Path(str(pyspark.__file__)).parent
MARK = "DAS_SPARK_TEST_CLUSTER"
#: Seconds to wait for a daemon: some five on an idle machine, minutes on one that is busy with other things.
PATIENCE = 600.0

#: What differs from conf/spark/standalone.conf: sizes of a small machine, and addresses of the loopback interface.
SMALL = {
    "spark.driver.memory": "1g",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.executor.memory": "1g",
    "spark.executor.pyspark.memory": "3g",
    "spark.executor.cores": "1",
    "spark.sql.shuffle.partitions": "4",
    # Levels of these runs are small, and are to be divided as those of large ones are.
    "spark.das_spark.entriesOfOneTask": "0",
    # One collector thread each: there are five JVMs on the machine. (No -XX:TieredStopAtLevel=1: the quick compiler has
    # no AES instructions, and sending the encrypted archive would take a minute.)
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC",
}

#: Of master and workers, beside `SHARED`. Heartbeats are quick, so that a dead worker is noticed within seconds.
DAEMON_PROPERTIES = {"spark.worker.timeout": "10", "spark.master.rest.enabled": "false"}
#: Without these a master that was started again knows of no application, and has its executors killed.
RECOVERY = {"spark.deploy.recoveryMode": "FILESYSTEM", "spark.deploy.recoveryDirectory": "{folder}/master"}
#: What master, workers and drivers must agree on: with two ciphers they cannot speak to each other.
SHARED = ("spark.authenticate", "spark.network.crypto.", "spark.io.encryption.")

#: Starts a program in a name space of mounts of its own, in which an empty folder covers the one that is named.
APART = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none "$0" && exec "$@"')

LOG = """rootLogger.level = info
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n%ex
"""


@dataclass
class StandaloneCluster:
    """A running cluster.

    Attributes:
        folder: Everything of it lies here: logs, work and scratch folders, property files.
        secret: What master, workers and drivers share; in files of mode 0600 and in no argument of a process.
        driver_properties: Property file for `spark-submit.sh`: conf/spark/standalone.conf, small, with the secret.
        memory: Of a worker, as Spark writes sizes.
        python_path: PYTHONPATH of the executors; "" where an archive brings the packages.
        hidden: A folder in whose place workers and executors, each by itself, see an empty one.
    """

    folder: Path
    secret: str
    driver_properties: Path
    memory: str = "1200m"
    python_path: str = ""
    hidden: Path | None = None
    url: str = ""
    page: str = ""
    daemons: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    _began: dict[str, int] = field(default_factory=dict)

    def start_master(self) -> None:
        """Start the master, or start it again at its old address; wait until it says where it listens."""
        port = self.url.rpartition(":")[2] or "0"
        self._start("master", "org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", port)
        port = self._logged("master", r"Starting Spark master at spark://127\.0\.0\.1:(\d+)")
        self.url = f"spark://127.0.0.1:{port}"
        page = self._logged("master", r"Successfully started service 'MasterUI' on port (\d+)")
        self.page = f"http://127.0.0.1:{page}/json/"

    def start_worker(self, name: str) -> None:
        """Start a worker of one core, or start it again after it was killed.

        Each has an address of its own, so that Spark holds them for machines: it runs no two copies of a task on one.
        """
        address = f"127.0.0.{1 + int(name.rpartition('-')[2])}"
        arguments = ("--host", address, "--cores", "1", "--memory", self.memory, self.url)
        self._start(name, "org.apache.spark.deploy.worker.Worker", *arguments, address=address)

    def alive_workers(self) -> int:
        """How many workers the master holds for alive; none where its page is not there yet."""
        try:
            with urllib.request.urlopen(self.page, timeout=10) as answer:  # the loopback address of our own master
                return sum(worker["state"] == "ALIVE" for worker in json.load(answer)["workers"])
        except (OSError, json.JSONDecodeError):  # a master that has just begun answers with its front page
            return 0

    def wait_for_workers(self, number: int) -> None:
        """Wait until the master has registered so many.

        Raises:
            TimeoutError: They did not come.
        """
        wait_until(lambda: self.alive_workers() == number, f"{number} workers")

    def submit(
        self,
        arguments: Sequence[str],
        archive: Path | None = None,
        log: Path | None = None,
        more: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Start `spark-submit.sh` against this cluster, in a process group of its own.

        Args:
            arguments: Run file and options.
            archive: The packed environment; where None, executors run the Python of this test.
            log: Where its output goes; `submit.log` of the cluster by default.
            more: Further variables of its environment.
        """
        environment = self.environment() | {
            "SPARK_MASTER": self.url,
            "DAS_SPARK_ENV": str(self.driver_properties),
            "DAS_SPARK_ARCHIVE": str(archive or "none"),
            "SPARK_LOCAL_DIRS": str(self.folder / "local" / "driver"),
            "PYTHONPATH": str(ROOT),
            **(more or {}),
        }
        with (log or self.folder / "submit.log").open("ab") as output:
            return subprocess.Popen(
                [str(ROOT / "spark-submit.sh"), *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )

    def with_settings(self, name: str, settings: Mapping[str, str]) -> Path:
        """A further property file for drivers, like `driver_properties` but for some settings; made once."""
        path = self.folder / "conf" / f"{name}.conf"
        if not path.exists():
            write_privately(path, properties(self.driver_properties) | dict(settings))
        return path

    def environment(self) -> dict[str, str]:
        """Of every process of the cluster: no address but the loopback, and the mark by which it is found again."""
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        return ours | {
            MARK: str(self.folder),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_NO_DAEMONIZE": "1",
        }

    def processes(self) -> dict[int, str]:
        """Command lines of all living processes of the cluster, drivers and Python workers included."""
        return marked_processes(self.folder)

    def stop(self) -> None:
        """Stop everything: politely first, so that workers end their executors, then by force."""
        for process in self.daemons.values():
            with suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
                process.terminate()
        deadline = time.monotonic() + 5
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        kill_marked(self.folder)
        for process in self.daemons.values():
            process.wait()

    def _start(self, name: str, main: str, *arguments: str, address: str = "127.0.0.1") -> None:
        environment = self.environment() | {
            "SPARK_LOCAL_IP": address,
            "PYTHONPATH": self.python_path,
            "SPARK_CONF_DIR": str(self.folder / "conf"),
            "SPARK_LOCAL_DIRS": str(self.folder / "local" / name),
            "SPARK_WORKER_DIR": str(self.folder / "work" / name),
            "SPARK_DAEMON_JAVA_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
        }
        common = ("--webui-port", "0", "--properties-file", str(self.folder / "conf" / "daemons.conf"))
        apart = () if self.hidden is None or name == "master" else (*APART, str(self.hidden))
        with (self.folder / f"{name}.log").open("ab") as log:
            self._began[name] = log.tell()
            self.daemons[name] = subprocess.Popen(
                [*apart, str(SPARK_HOME / "bin" / "spark-class"), main, *common, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def _logged(self, name: str, pattern: str) -> str:
        log = self.folder / f"{name}.log"

        def found() -> re.Match[str] | None:
            if self.daemons[name].poll() is not None:
                raise RuntimeError(f"{name} ended: {log.read_text()[-2000:]}")
            return re.search(pattern, log.read_text()[self._began[name] :])

        wait_until(found, f"{name} to say {pattern}")
        match = found()
        assert match is not None
        return match.group(1)


@contextmanager
def standalone_cluster(
    folder: Path,
    *,
    workers: int = 2,
    memory: str = "1200m",
    python_path: str = "",
    settings: Mapping[str, str] | None = None,
    recovers: bool = True,
    hidden: Path | None = None,
) -> Iterator[StandaloneCluster]:
    """A master and registered workers of one core each; stopped at the end, whatever happens.

    Args:
        folder: An empty folder for all files of the cluster.
        workers: How many; they are called worker-1, worker-2 and so on.
        memory: Of a worker, as Spark writes sizes.
        python_path: PYTHONPATH of the executors; "" where an archive brings the packages.
        settings: Spark properties of drivers that differ from conf/spark/standalone.conf and `SMALL`.
        recovers: Whether the master keeps on disk what it knows of workers and applications, as jobs/README.md says.
        hidden: A folder that no worker can see.

    Raises:
        TimeoutError: Master or workers did not start.
    """
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "log4j2.properties").write_text(LOG)
    secret = secrets.token_hex(32)
    with_secret = {"spark.authenticate.secret": secret}
    shipped = properties(ROOT / "conf" / "spark" / "standalone.conf")
    shared = {name: value for name, value in shipped.items() if name.startswith(SHARED)}
    kept = {name: value.format(folder=folder) for name, value in RECOVERY.items()} if recovers else {}
    write_privately(folder / "conf" / "daemons.conf", DAEMON_PROPERTIES | shared | kept | with_secret)
    driver = folder / "conf" / "driver.conf"
    write_privately(driver, shipped | SMALL | dict(settings or {}) | with_secret)
    cluster = StandaloneCluster(folder, secret, driver, memory, python_path, hidden)
    try:
        cluster.start_master()
        for number in range(1, workers + 1):
            cluster.start_worker(f"worker-{number}")
        cluster.wait_for_workers(workers)
        yield cluster
    finally:
        cluster.stop()


def write_privately(path: Path, pairs: Mapping[str, str]) -> None:
    """Write Spark properties into a new file that only its owner can read from its first byte on."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.writelines(f"{key} {value}\n" for key, value in pairs.items())


def pack_environment(target: Path) -> Path:
    """The environment of this test as an archive, made by the script that operators use."""
    script = ROOT / "jobs" / "pack_environment.py"
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, str(script), str(target)], env=environment, check=True, capture_output=True)
    return target


def marked_processes(folder: Path) -> dict[int, str]:
    """Command lines of the living processes whose environment carries the mark of a folder."""
    mark, found = f"{MARK}={folder}\0".encode(), {}
    for place in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if mark in (place / "environ").read_bytes() + b"\0":
                found[int(place.name)] = (place / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return found


def kill_marked(folder: Path) -> None:
    """SIGKILL to all processes that carry the mark of a folder, until there are none."""
    while processes := marked_processes(folder):
        for process_id in processes:
            with suppress(ProcessLookupError):
                os.kill(process_id, signal.SIGKILL)
        time.sleep(0.05)


def wait_until(seen: object, what: str, patience: float = PATIENCE) -> None:
    """Ask again and again until the answer is true.

    Raises:
        TimeoutError: It never was.
    """
    assert callable(seen)
    limit = time.monotonic() + patience
    while not seen():
        if time.monotonic() > limit:
            raise TimeoutError(f"waited {patience:.0f} s for {what}")
        time.sleep(0.05)
