"""Ctrl-C, SIGTERM, SIGHUP: one sentence that says how the work goes on, instead of what libraries say meanwhile."""

from __future__ import annotations

import logging
import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

from das_spark.errors import EngineEndedError
from das_spark.process import interruption, take_signals

#: What started the command, where that was not `das-spark` itself; its arguments have no name of a command.
LAUNCHER: Final = "DAS_SPARK_LAUNCHER"
_RUN_ID: Final = "--run-id"
#: Added to the number of a signal it is the exit code of a command that the signal ended, as shells have it.
BY_SIGNAL: Final = 128


class Interrupted(Exception):
    """A signal interrupted the command.

    Args:
        number: The signal.
        run_id: Name of the run that was at work, "" where the command alone says what goes on; None: nothing does.
    """

    def __init__(self, number: signal.Signals, run_id: str | None = None) -> None:  # noqa: D107 - Args stand above.
        super().__init__(number, run_id)
        self.run_id = run_id
        self.exit_code = BY_SIGNAL + number
        self.what = "interrupted" if number is signal.SIGINT else f"interrupted by {number.name}"

    def __str__(self) -> str:
        """What was interrupted, before the command that goes on."""
        if self.run_id is None:
            return self.what
        return f"{self.what}; {f'run {self.run_id}' if self.run_id else 'it'} goes on with"


def resuming(arguments: Sequence[str], run_id: str) -> str:
    """Return the command that goes on with a run, or with what the arguments name."""
    launcher = os.environ.get(LAUNCHER)
    again = ["das-spark", *arguments] if launcher is None else [launcher, *arguments[1:]]
    named = any(argument == _RUN_ID or argument.startswith(f"{_RUN_ID}=") for argument in arguments)
    return shlex.join(again if named or not run_id else [*again, _RUN_ID, run_id])


def take_interruptions() -> None:
    """Be interrupted by Ctrl-C also where the starting shell ignores it, and keep Spark's bridge from telling of it."""
    take_signals()
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN and LAUNCHER in os.environ:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Py4J writes a traceback through the root logger where a call is interrupted, and raises the same.
    logging.getLogger().addFilter(_is_not_of_the_bridge)
    # A filter is not asked of what the loggers of its modules pass on.
    bridge = logging.getLogger("py4j")
    bridge.addHandler(logging.NullHandler())
    bridge.propagate = False


def _is_not_of_the_bridge(record: logging.LogRecord) -> bool:
    return f"{os.sep}py4j{os.sep}" not in record.pathname


@contextmanager
def resumable(run_id: str = "") -> Iterator[None]:
    """Say of an interruption in a block, or of the end of its engine, how the work goes on.

    Raises:
        Interrupted: Somebody interrupted the block.
    """
    try:
        yield
    except BaseException as error:
        number = interruption(error)
        if number is None:
            if run_id and isinstance(error, EngineEndedError):
                error.hint += f" (--run-id {run_id})"
            raise
        hush()
        raise Interrupted(number, run_id) from error


def hush() -> None:
    """Let nothing be written any more while processes end: a second Ctrl-C ends this one at once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(Exception):  # the JVM may be gone
        from pyspark import SparkContext  # noqa: PLC0415 - it is there already, where there is a context

        context = SparkContext._active_spark_context
        if context is not None:
            context.setLogLevel("OFF")
