"""Processes of this machine that carry out functions of tasks, for an engine that calls them in threads of this one.

Under one interpreter lock such functions wait for each other, and this process must not be forked: it has threads of
gRPC. So it starts a server, a fresh interpreter that imports once what tasks import, and the server forks the workers;
multiprocessing's would import the program of this process anew, and read its environment variables where they are.
Each worker has one socket to this process. What it says is answered before it goes on, so that no two ends wait for
each other: it asks for a batch and is given one, or the end; it hands out batches, and at last the end or a failure.
"""

from __future__ import annotations

import atexit
import gc
import heapq
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import count
from typing import Final

import pyarrow as pa
from pyspark import cloudpickle

from das_spark.errors import SessionError, TaskError
from das_spark.process import SAFE_PATH, same_numbers

_PROGRAM: Final = (
    "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.path[:] = {path!r}; "
    "from {module} import _serve; _serve({descriptor}, {modules!r})"
)
#: Of messages: their kind, and the bytes that follow.
_HEADER: Final = struct.Struct("<cQ")
_WORK, _NEXT, _BATCH, _END, _FAILED = b"W", b"N", b"B", b"E", b"F"
#: Bytes that are copied behind their header, rather than wake the reader twice.
_SHORT: Final = 1 << 16
#: Bytes of the number that a worker has for the server.
_NUMBER: Final = 8
_HINT: Final = "this machine may be short of memory; try again with more of it, or with DAS_SPARK_ENGINE=spark"


class _Channel:
    """One end of the socket between a task and its worker."""

    def __init__(self, end: socket.socket, number: bytes = b"") -> None:
        self.number = number
        self._end = end
        self._size = 0

    def send(self, kind: bytes, payload: bytes | pa.Buffer = b"") -> None:
        """Send a message: its kind, and bytes that go with it."""
        view = memoryview(payload).cast("B")
        header = _HEADER.pack(kind, view.nbytes)
        try:
            if view.nbytes < _SHORT:
                self._end.sendall(header + view)
            else:
                self._end.sendall(header)
                self._end.sendall(view)
        except OSError:
            raise _gone() from None

    def send_batch(self, batch: pa.RecordBatch) -> None:
        """Send a batch as a stream of its own, written once into memory of the right size."""
        measure = pa.MockOutputStream()
        _write(measure, batch)
        stream = pa.allocate_buffer(measure.size())
        _write(pa.FixedSizeBufferWriter(stream), batch)
        self.send(_BATCH, stream)

    def receive(self) -> bytes:
        """The kind of the next message, whose payload is taken next if it has one."""
        kind, self._size = _HEADER.unpack(self._received(_HEADER.size))
        return bytes(kind)

    def payload(self) -> pa.Buffer:
        """What the message holds whose kind was received."""
        return self._received(self._size)

    def batch(self) -> pa.RecordBatch:
        """The batch that the message holds; it keeps no other memory alive."""
        return pa.ipc.open_stream(self.payload()).read_next_batch()

    def _received(self, size: int) -> pa.Buffer:
        buffer = pa.allocate_buffer(size)
        view = memoryview(buffer).cast("B")
        try:
            while view.nbytes:
                taken = self._end.recv_into(view, view.nbytes, socket.MSG_WAITALL)
                if not taken:
                    raise _gone()
                view = view[taken:]
        except OSError:
            raise _gone() from None
        return buffer

    def is_waiting(self) -> bool:
        """Whether the worker that has nothing to say is still there."""
        try:
            self._end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
        except BlockingIOError:
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Let go of the other end, which finds no more to read."""
        self._end.close()


def _write(sink: pa.NativeFile, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)


def _gone() -> SessionError:
    return SessionError("a worker process ended before its task was done", hint=_HINT)


class _Server:
    """The process that imports what tasks import, forks workers, and ends them; it knows them by numbers."""

    def __init__(self, modules: tuple[str, ...]) -> None:
        self._control, theirs = socket.socketpair()
        with theirs:
            descriptor = theirs.fileno()
            # Not the working folder, in which programs of others may have the names of modules.
            path = [folder for folder in sys.path if folder]
            program = _PROGRAM.format(path=path, module=__name__, descriptor=descriptor, modules=modules)
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, with a program of ours
                [sys.executable, "-P", "-c", program],
                env=os.environ | SAFE_PATH | same_numbers(),
                stdin=subprocess.DEVNULL,
                pass_fds=[descriptor],
            )

    def is_there(self) -> bool:
        return self._process.poll() is None

    def fork(self, number: bytes) -> _Channel:
        """The way to a worker, which may be given work before it is there."""
        ours, theirs = socket.socketpair()
        with theirs:
            socket.send_fds(self._control, [number], [theirs.fileno()])
        return _Channel(ours, number)

    def kill(self, number: bytes) -> None:
        self._control.sendall(number)

    def close(self) -> None:
        """End it with all its workers: while it imports, by the signal; later it ends when there is no more to read."""
        self._control.close()
        self._process.terminate()
        self._process.wait()


class _Turns:
    """Lets so many tasks compute at once, those first that began first: they end, and hold no memory any more."""

    def __init__(self, at_once: int) -> None:
        self._free = at_once
        self._waiting: list[int] = []
        self._changed = threading.Condition()

    @contextmanager
    def had(self, number: int) -> Iterator[None]:
        """Wait for a turn of the task with a number, and have it."""
        self._take(number)
        try:
            yield
        finally:
            self._give()

    @contextmanager
    def left(self, number: int) -> Iterator[None]:
        """Let another task have the turn for a while."""
        self._give()
        try:
            yield
        finally:
            self._take(number)

    def _take(self, number: int) -> None:
        with self._changed:
            heapq.heappush(self._waiting, number)
            self._changed.wait_for(lambda: self._free and self._waiting[0] == number)
            heapq.heappop(self._waiting)
            self._free -= 1
            self._changed.notify_all()

    def _give(self) -> None:
        with self._changed:
            self._free += 1
            self._changed.notify_all()


class WorkerPool:
    """Processes of this machine that carry out functions of tasks.

    There may be any number of tasks, which wait for each other's batches, and each that has begun has a worker of its
    own; but only so many compute at once as are asked for. Workers have the folder and the environment that this
    process had when the first of them was started. They end with this process, however it ends.

    Args:
        at_once: How many workers compute at once.
        modules: What is imported once, before the first worker is forked.
    """

    def __init__(self, at_once: int, modules: Sequence[str] = ()) -> None:  # noqa: D107 - Args stand with the class.
        self._turns, self._tasks = _Turns(at_once), count()
        self._modules = tuple(modules)
        self._lock = threading.Lock()
        self._idle: list[_Channel] = []
        self._numbers = count()
        self._server: _Server | None = None
        self._closed = False
        atexit.register(self.close)

    def warm(self, workers: int) -> None:
        """Let so many idle workers be started, and wait for none of them.

        Args:
            workers: How many, besides those that there are.
        """
        with self._lock:
            self._idle += [self._started() for _ in range(workers)]

    def carry_out(self, work: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Let a worker apply a function to batches; called from any thread, several at once.

        Args:
            work: The function, batches in and batches out, as `pyspark.cloudpickle.dumps` gives it.
            batches: What the function takes, asked for as the function asks.

        Yields:
            What the function yields.

        Raises:
            SessionError: The worker ended, or none can be started.
            Exception: What the function raised; a TaskError that names its type, if it cannot be pickled.
        """
        number, failure = next(self._tasks), None
        # A task has a turn while its worker computes, and none while it waits for what it is given, which may be what
        # another task makes, nor while what it has made is taken.
        with self._at_work(number) as worker:
            worker.send(_WORK, work)
            while (kind := worker.receive()) in (_NEXT, _BATCH):
                if kind == _BATCH:
                    batch = worker.batch()
                    with self._turns.left(number):
                        yield batch
                        del batch
                else:
                    with self._turns.left(number):
                        given = next(batches, None)
                    _answer(worker, given)
            if kind == _FAILED:
                failure = _read_failure(worker.payload())
        if failure is not None:
            raise failure

    @contextmanager
    def _at_work(self, number: int) -> Iterator[_Channel]:
        """A worker for a task that has its turn; it is ended where the task is left in the middle, or it is gone."""
        with self._turns.had(number):
            worker = self._taken()
            try:
                yield worker
            except BaseException:
                self._end(worker)
                raise
            self._idle.append(worker)

    def close(self) -> None:
        """End all workers, those at work too; again, it does nothing."""
        with self._lock:
            self._closed = True
            server, self._server = self._server, None
            while self._idle:
                self._idle.pop().close()
        if server is not None:
            server.close()
        atexit.unregister(self.close)

    def _taken(self) -> _Channel:
        """An idle worker, the one that worked last, or a new one."""
        while True:
            with self._lock:
                worker = self._idle.pop() if self._idle else self._started()
            if worker.is_waiting():
                return worker
            self._end(worker)

    def _started(self) -> _Channel:
        if self._closed:
            raise SessionError("the worker processes of this session have been ended", hint="start another session")
        try:
            if self._server is None or not self._server.is_there():
                self._server = _Server(self._modules)
            return self._server.fork(next(self._numbers).to_bytes(_NUMBER, "little"))
        except OSError as error:
            message = f"a worker process could not be started: {error.strerror}"
            raise SessionError(message, hint=_HINT) from None

    def _end(self, worker: _Channel) -> None:
        """Let the server kill a worker: nobody else can tell that its process id is still its own."""
        worker.close()
        with self._lock, suppress(OSError):
            if self._server is not None:
                self._server.kill(worker.number)


def _answer(worker: _Channel, batch: pa.RecordBatch | None) -> None:
    if batch is None:
        worker.send(_END)
    else:
        worker.send_batch(batch)


def _read_failure(told: pa.Buffer) -> Exception:
    """What the function raised, or its type if no more can be told: never a text that may quote confidential rows."""
    name, pickled = pickle.loads(told)  # noqa: S301 - from a worker of ours
    with suppress(Exception):
        error = pickle.loads(pickled)  # noqa: S301 - the same
        if isinstance(error, Exception):
            return error
    return TaskError(f"{name} in a worker process, which cannot be pickled")


def _serve(descriptor: int, modules: Sequence[str]) -> None:
    """The server: import, then fork a worker for each socket that comes, and end those whose number comes alone."""
    for name in modules:
        import_module(name)
    gc.collect()
    gc.freeze()  # workers collect after every task: what is imported is never garbage
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # from now on there are workers to be ended first
    workers: dict[bytes, int] = {}
    with socket.socket(fileno=descriptor) as control:
        while True:
            number, sockets, _, _ = socket.recv_fds(control, _NUMBER, 1)
            if not number:
                break
            if sockets:
                with suppress(OSError):  # a task without worker finds its socket closed
                    workers[number] = _forked(control, sockets[0])
                os.close(sockets[0])
            elif number in workers:
                _kill(workers.pop(number))
    for process in workers.values():
        _kill(process)
    os._exit(0)


def _kill(process: int) -> None:
    """End a child that nobody else waits for, so that its id is still its own."""
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def _forked(control: socket.socket, descriptor: int) -> int:
    process = os.fork()
    if process == 0:
        try:
            control.close()
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            _work(_Channel(socket.socket(fileno=descriptor)))
        finally:
            os._exit(0)
    return process


def _work(channel: _Channel) -> None:
    """A worker: carry out one function after the other, and keep nothing of any."""
    while channel.receive() == _WORK:
        _carry_out(channel)
        gc.collect()
        pa.default_memory_pool().release_unused()


def _carry_out(channel: _Channel) -> None:
    try:
        function: Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]
        function = pickle.loads(channel.payload())  # noqa: S301 - from the process that started this one
        for batch in function(_inputs(channel)):
            channel.send_batch(batch)
            del batch
    except Exception as error:  # noqa: BLE001 - the task raises it
        channel.send(_FAILED, _failure(error))
    else:
        channel.send(_END)


def _inputs(channel: _Channel) -> Iterator[pa.RecordBatch]:
    channel.send(_NEXT)
    while channel.receive() == _BATCH:
        yield channel.batch()
        channel.send(_NEXT)


def _failure(error: Exception) -> bytes:
    pickled = b""
    with suppress(Exception):
        pickled = cloudpickle.dumps(error)  # type: ignore[no-untyped-call]  # of a class of the task's own, too
    return pickle.dumps((type(error).__name__, pickled))
