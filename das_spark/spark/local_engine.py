"""Sail: another engine for runs on one machine that DAS_SPARK_ENGINE=sail names; tests use it where any run serves.

It works in a process of its own (`sail_server`), which nobody else can reach. What it holds stays in the memory of that
process and of its workers: it writes nothing to disks but results.
"""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
import tempfile
import warnings
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any, Final, cast

from das_spark.errors import SessionError
from das_spark.process import SAFE_PATH
from das_spark.spark import sail_server

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Lets functions of PySpark make columns for Connect, and not for a JVM.
_CONNECT: Final = "SPARK_CONNECT_MODE_ENABLED"
_OF_SAIL: Final = "SAIL_"
#: Its log may quote rows: what goes wrong comes as an error. And what fits in no memory is an error, and on no disk.
_SETTINGS: Final = {
    "RUST_LOG": "off",
    "SAIL_RUNTIME__MEMORY_POOL__TYPE": "unbounded",
    "SAIL_RUNTIME__TEMPORARY_FILES__MAX_SIZE": "0",
}
#: The folder of this package is searched last: where that is the working folder, it holds programs of others, too.
_PACKAGES: Final = Path(sail_server.__file__).parents[2]
_PROGRAM: Final = (
    "import sys; sys.path.append({folder!r}); from das_spark.spark import sail_server; sail_server.main(*sys.argv[1:])"
)
#: What must be there.
NEEDS: Final = "Linux, the package pysail, and a network of its own (user namespaces)"
_CHANNEL: Final = (
    # No limit of messages between processes that trust each other.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # The name of the other end, which the path of a socket is none of.
    ("grpc.default_authority", "localhost"),
    # A connection that were given up for being idle could not be made again.
    ("grpc.client_idle_timeout_ms", (1 << 31) - 1),
)


@dataclass(frozen=True, slots=True)
class Sail:
    """A process of Sail, and the way to it."""

    process: subprocess.Popen[bytes]
    place: Path  # the Unix socket

    @classmethod
    def started(cls) -> Sail | None:
        """One that is being started; None where Sail is not installed, or the system is not Linux."""
        if sys.platform != "linux" or find_spec("pysail") is None:
            return None
        place = Path(tempfile.mkdtemp(prefix="das_spark-")) / "sail"  # its owner alone may enter
        workers = str(_cores())
        others = {name: value for name, value in os.environ.items() if not name.startswith(_OF_SAIL)}
        environment = others | SAFE_PATH | _SETTINGS | {"SAIL_EXECUTION__DEFAULT_PARALLELISM": workers}
        process = subprocess.Popen(  # noqa: S603 - this interpreter, with a program of ours
            [sys.executable, "-P", "-c", _PROGRAM.format(folder=str(_PACKAGES)), str(place), workers],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C is for this process
        )
        sail = cls(process, place)
        atexit.register(sail.stop)
        return sail

    def is_alone(self) -> bool:
        """Whether it can be connected to by nobody else; waits until it knows."""
        assert self.process.stdout is not None  # noqa: S101 - it was asked for
        return self.process.stdout.read(len(sail_server.READY)) == sail_server.READY

    def connected(self, name: str) -> SparkSession:
        """A session with it.

        Raises:
            SessionError: It does not answer.
        """
        # With what Connect needs.
        from pyspark.sql.connect.client import ChannelBuilder  # noqa: PLC0415
        from pyspark.sql.connect.session import SparkSession as ConnectSession  # noqa: PLC0415

        target = f"unix:{self.place}"

        class Way(ChannelBuilder):
            def toChannel(self) -> Any:  # noqa: ANN401 - as PySpark calls it, and without types
                return self._insecure_channel(target)

            @property
            def host(self) -> str:
                return "localhost"

        os.environ[_CONNECT] = "1"
        # Of a window over some thousand families PySpark says that it is slow.
        warnings.filterwarnings("ignore", "WARN WindowExpression", UserWarning)
        try:
            session: Any = (
                ConnectSession.builder.channelBuilder(cast("Any", Way(list(_CHANNEL)))).appName(name).create()
            )
            session.client.set_retry_policies([])  # a process that has ended does not come back
            session.range(1).count()  # the connection is there
        except Exception as error:
            message = f"the local engine could not be started: {type(error).__name__}"
            raise SessionError(message, hint="try again; with DAS_SPARK_ENGINE=spark Spark does it") from error
        self.place.unlink()  # nobody else needs the way to it
        return cast("SparkSession", session)

    def stop(self) -> None:
        """End it with its workers; again, it does nothing."""
        assert self.process.stdin is not None  # noqa: S101 - it was asked for
        with suppress(OSError):
            self.process.stdin.close()
        try:
            self.process.wait(timeout=_PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        rmtree(self.place.parent, ignore_errors=True)


#: Seconds in which the process ends by itself.
_PATIENCE: Final = 5.0
_SESSIONS: list[SparkSession] = []


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def active() -> SparkSession | None:
    """The session of the engine, if it has been started in this process."""
    return _SESSIONS[0] if _SESSIONS else None


def sail_session(name: str) -> SparkSession | None:
    """A session of the engine, which is started; None where it cannot be used.

    Raises:
        SessionError: It does not answer.
    """
    sail = _started_alone()
    if sail is not None:
        _SESSIONS.append(sail.connected(name))
    return active()


def is_usable() -> bool:
    """Whether the engine can be used here: it is started to see."""
    sail = _started_alone()
    if sail is not None:
        sail.stop()
    return sail is not None


def _started_alone() -> Sail | None:
    sail = Sail.started()
    if sail is None or sail.is_alone():
        return sail
    sail.stop()
    return None
