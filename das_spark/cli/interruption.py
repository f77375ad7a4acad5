"""Ctrl-C: one sentence that says how the work goes on, instead of what each library says while it is torn down."""

from __future__ import annotations

import logging
import os
import shlex
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Final

#: What started the command, where that was not `das-spark` itself; its arguments have no name of a command.
LAUNCHER: Final = "DAS_SPARK_LAUNCHER"
_RUN_ID: Final = "--run-id"


class Interrupted(Exception):
    """Somebody interrupted what can go on where it stopped."""

    def __init__(self, run_id: str = "") -> None:  # noqa: D107 - Args stand with the class.
        super().__init__(run_id)
        self.run_id = run_id

    def command(self, arguments: Sequence[str]) -> str:
        """The command that goes on."""
        launcher = os.environ.get(LAUNCHER)
        again = ["das-spark", *arguments] if launcher is None else [launcher, *arguments[1:]]
        named = any(each == _RUN_ID or each.startswith(f"{_RUN_ID}=") for each in arguments)
        return shlex.join(again if named or not self.run_id else [*again, _RUN_ID, self.run_id])

    def __str__(self) -> str:
        """What was interrupted, before the command that goes on."""
        return f"interrupted; run {self.run_id} goes on with" if self.run_id else "interrupted; it goes on with"


def take_interruptions() -> None:
    """Be interrupted by Ctrl-C also where the starting shell ignores it, and keep Spark's bridge from telling of it."""
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN and LAUNCHER in os.environ:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # Py4J writes a traceback through the root logger where a call is interrupted, and raises the same.
    logging.getLogger().addFilter(_is_not_of_the_bridge)


def _is_not_of_the_bridge(record: logging.LogRecord) -> bool:
    return f"{os.sep}py4j{os.sep}" not in record.pathname


@contextmanager
def resumable(run_id: str = "") -> Iterator[None]:
    """Say of an interruption in a block how the work goes on.

    Raises:
        Interrupted: Somebody interrupted the block.
    """
    try:
        yield
    except BaseException as error:
        if not _is_interruption(error):
            raise
        hush()
        raise Interrupted(run_id) from error


def hush() -> None:
    """Let nothing be written any more while processes end: a second Ctrl-C ends this one at once."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    with suppress(Exception):  # the JVM may be gone
        from pyspark import SparkContext  # noqa: PLC0415 - it is there already, where there is a context

        context = SparkContext._active_spark_context
        if context is not None:
            context.setLogLevel("OFF")


def _is_interruption(error: BaseException | None) -> bool:
    """Whether somebody interrupted, or what failed did so while an interruption was handled."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__cause__ or error.__context__
    return False
