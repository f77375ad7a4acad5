"""What a session asks of a cluster for each executor, and what the workers of the cluster have."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark import SparkContext

_MASTER: Final = re.compile(r"spark://(?P<host>[^:,]+):(?P<port>\d+)$")
_ALIVE: Final = "ALIVE"
#: Seconds that the master has for an answer.
_PATIENCE: Final = 10
#: MiB of a GiB.
_GIB: Final = 1024
#: Spark's own name for the memory of Python workers, which a standalone master leaves out of account.
_PYTHON_MEMORY: Final = "spark.executor.pyspark.memory"


@dataclass(frozen=True, slots=True, order=True)
class Room:
    """Cores and memory (MiB) of a machine, or for an executor."""

    cores: int
    memory: int

    def __str__(self) -> str:
        """In words."""
        return f"{self.cores} core{'' if self.cores == 1 else 's'} and {self.memory / _GIB:.1f} GiB"


def asked_of_cluster(context: SparkContext) -> Room:
    """Return what a session asks for each executor."""
    scala: Any = context._jsc.sc()
    return Room(int(context.getConf().get("spark.executor.cores", "1")), int(scala.executorMemory()))


def shortage(context: SparkContext) -> str:
    """Say, for a session that has no executor, what each should have and what the workers have.

    Only a standalone master can be asked, and one of several is not; YARN refuses by itself what no machine could hold.
    """
    asked = asked_of_cluster(context)
    python = context.getConf().get(_PYTHON_MEMORY, "")
    text = f"asked for {asked} for each executor{f', and {python} for Python' if python else ''}"
    master = _MASTER.match(str(context.master))
    if master is None:
        return text
    workers = _workers(context, master["host"], int(master["port"]))
    if not workers:
        return f"{text}; the master knows no living worker"
    whole, left = zip(*workers, strict=True)
    if not any(_holds(total, asked) for total in whole):
        return f"{text}; the largest worker has {max(whole)}"
    fitting = [room for room in left if _holds(room, asked)]
    if fitting:
        return f"{text}; a worker has {max(fitting)} left: executors may die when they start, see the logs there"
    return f"{text}; the workers are taken: the most that one has left is {max(left)}"


def _holds(room: Room, asked: Room) -> bool:
    return room.cores >= asked.cores and room.memory >= asked.memory


def _workers(context: SparkContext, host: str, port: int) -> list[tuple[Room, Room]]:
    """What living workers have and what of it is free, as the master says over Spark's own authenticated channel."""
    jvm: Any = context._jvm
    loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()

    # Objects of Scala are reached by their classes: no call from Python leads to them.
    request, tag = (
        jvm.java.lang.Class.forName(f"{name}$", True, loader).getField("MODULE$").get(None)
        for name in ("org.apache.spark.deploy.DeployMessages$RequestMasterState", "scala.reflect.ClassTag")
    )
    scala: Any = context._jsc.sc()
    address = jvm.org.apache.spark.rpc.RpcAddress(host, port)
    seconds = jvm.scala.concurrent.duration.FiniteDuration(_PATIENCE, jvm.java.util.concurrent.TimeUnit.SECONDS)
    limit = jvm.org.apache.spark.rpc.RpcTimeout(seconds, "spark.rpc.askTimeout")
    state = scala.env().rpcEnv().setupEndpointRef(address, "Master").askSync(request, limit, tag.Any())
    return [
        (Room(worker.cores(), worker.memory()), Room(worker.coresFree(), worker.memoryFree()))
        for worker in state.workers()
        if str(worker.state().toString()) == _ALIVE
    ]
