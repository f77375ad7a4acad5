"""The process in which Sail works: nobody but the process that started it can reach it.

Sail carries out what Spark Connect tells it over a TCP port of this machine, and asks nobody who he is: whoever could
connect could read confidential files as the operator of the run. So the process first gives itself a network in which
it is alone (a network namespace of Linux), and hands on bytes between the port and one Unix socket, in a folder that
its owner alone may enter. Where the system grants no such network, Sail is not used.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import signal
import socket
import struct
import threading
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Final

from das_spark.process import guard_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from das_spark.spark.engine import Work
    from das_spark.spark.worker_pool import WorkerPool

#: What the process says when it can be connected to, and where the system grants it no network of its own.
READY, NOT_ALONE = b"ready", b"not alone"
_NEW_NETWORK, _NEW_USER = 0x40000000, 0x10000000  # of unshare(2)
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 1  # of netdevice(7)
_INTERFACE: Final = struct.Struct("16sH22x")
#: Bytes that are handed on at once.
_CHUNK: Final = 1 << 20
_POOL: list[WorkerPool] = []


def leave_network() -> bool:
    """Give this process, of one thread, a network in which it is alone; whether the system has granted it."""
    user, group = os.geteuid(), os.getegid()
    if not _unshare(_NEW_NETWORK):  # which root may
        if not _unshare(_NEW_NETWORK | _NEW_USER):
            return False
        try:
            Path("/proc/self/setgroups").write_text("deny", encoding="ascii")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="ascii")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="ascii")
        except OSError:
            return False
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        name, flags = _INTERFACE.unpack(fcntl.ioctl(any_socket, _GET_FLAGS, _INTERFACE.pack(b"lo", 0)))
        fcntl.ioctl(any_socket, _SET_FLAGS, _INTERFACE.pack(name, flags | _UP))
    return True


def _unshare(flags: int) -> bool:
    return bool(ctypes.CDLL(None).unshare(flags) == 0)


def carry_out(work: Work, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Let a worker process do the work of a task, which a thread of this process was given."""
    from pyspark import cloudpickle  # noqa: PLC0415 - the process is to be alone before it imports

    yield from _POOL[0].carry_out(cloudpickle.dumps(work), batches)  # type: ignore[no-untyped-call]


def main(place: str, workers: str) -> None:
    """Serve the process at the other end of the standard input until that ends.

    Args:
        place: Path of the Unix socket, in a folder that its owner alone may enter.
        workers: How many worker processes there are from the beginning.
    """
    guard_process()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that started this one
    if not leave_network():
        os.write(1, NOT_ALONE)
        return
    from das_spark.spark.python_daemon import OF_TASKS  # noqa: PLC0415 - as above
    from das_spark.spark.worker_pool import WorkerPool  # noqa: PLC0415 - as above

    _POOL.append(WorkerPool(int(workers), OF_TASKS))
    _POOL[0].warm(int(workers))
    from pysail.spark import SparkConnectServer  # type: ignore[import-untyped] # noqa: PLC0415 - as above, and no types

    door = socket.socket(socket.AF_UNIX)
    door.bind(place)
    door.listen(1)
    server = SparkConnectServer(port=0)
    server.start(background=True)
    threading.Thread(target=_connect, args=(door, server.listening_address), daemon=True).start()
    os.write(1, READY)
    while os.read(0, 1):
        pass
    _POOL[0].close()
    rmtree(Path(place).parent, ignore_errors=True)  # also where the process that made it was killed
    os._exit(0)  # the threads of Sail end with it


def _connect(door: socket.socket, address: tuple[str, int]) -> None:
    """Let one process in, and hand on what comes from either end to the other."""
    with door:
        inside, _ = door.accept()
    port = socket.create_connection(address)
    port.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    threading.Thread(target=_hand_on, args=(inside, port), daemon=True).start()
    _hand_on(port, inside)


def _hand_on(source: socket.socket, sink: socket.socket) -> None:
    buffer = bytearray(_CHUNK)
    view = memoryview(buffer)
    while size := source.recv_into(buffer):
        sink.sendall(view[:size])
    sink.shutdown(socket.SHUT_WR)
