"""Say how the engine has ended, where all that is known of it is that nobody answers any more."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing
from signal import SIGKILL, Signals
from subprocess import Popen, TimeoutExpired
from typing import Any, Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext

from das_spark.errors import EngineEndedError

#: Seconds that a process may take to end after its last connection.
_ENDING: Final = 5.0
#: Exit statuses above this say by which signal a process that heeds it has ended.
_BY_SIGNAL: Final = 128


def engine_ended(error: BaseException) -> EngineEndedError | None:
    """Return the error that says that Spark's JVM has ended, and how; None where it has not, or an error says so.

    Args:
        error: What came of asking it.
    """
    gateway: Any = SparkContext._gateway
    if gateway is None or isinstance(error, EngineEndedError) or not any(_is_no_answer(each) for each in _chain(error)):
        return None
    process = getattr(gateway, "proc", None)
    how = _lost(gateway) if process is None else _status(process)
    if not how:
        return None
    return EngineEndedError(
        f"Spark's JVM, which does the work, has ended{how}",
        hint="see that the machine has memory left, and run the same command again: it goes on with what is finished",
    )


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_no_answer(error: BaseException) -> bool:
    """Return whether an error is that of a connection; the JVM's own errors are answers."""
    return isinstance(error, Py4JError | ConnectionError | EOFError) and not isinstance(error, Py4JJavaError)


def _status(process: Popen[bytes]) -> str:
    """Return how a process has ended, as the end of a sentence; "" where it is alive."""
    try:
        status = process.wait(_ENDING)
    except TimeoutExpired:
        return ""
    number = -status if status < 0 else status - _BY_SIGNAL
    if number not in set(Signals):
        return f" (exit status {status})"
    why = ": probably by the system, for want of memory" if number == SIGKILL else ""
    return f" (by signal {number}, {Signals(number).name}{why})"


def _lost(gateway: Any) -> str:  # noqa: ANN401 - Py4J has no types
    """Return that a JVM which started this process has ended, as the end of a sentence; "" where it listens."""
    parameters = gateway.gateway_parameters
    try:
        with closing(socket.create_connection((parameters.address, parameters.port), _ENDING)):
            return ""
    except OSError:
        return " (spark-submit started it, and knows how)"
