"""Lets one file operation of a driver fail, as an output store does that has lost its disk: errno EIO, once.

This folder stands first on the driver's PYTHONPATH, and the variable says what fails:

    DAS_SPARK_TEST_BROKEN=rename:measurements/level=County:2    the second rename of a path that holds this text
    DAS_SPARK_TEST_BROKEN=read:journal:1                        the first time such a file is opened for reading

Executors are started by the workers of the cluster and have another environment: nothing fails there.
"""

import errno
import io
import os

WORDS = os.environ.get("DAS_SPARK_TEST_BROKEN", "")


def breaking(original, text, nth, applies):
    """The function, failing the nth time that it is called for a path with this text."""
    seen = 0

    def wrapper(path, *more, **named):
        nonlocal seen
        if not isinstance(path, int) and text in os.fspath(path) and applies(*more, **named):
            seen += 1
            if seen == nth:
                raise OSError(errno.EIO, "Input/output error", os.fspath(path))
        return original(path, *more, **named)

    return wrapper


def reads(mode="r", *_, **__):
    """Whether a file is opened for reading only."""
    return "r" in mode and "+" not in mode


if WORDS:
    kind, text, number = WORDS.split(":")
    if kind == "rename":
        os.replace = breaking(os.replace, text, int(number), lambda *_, **__: True)
        os.rename = breaking(os.rename, text, int(number), lambda *_, **__: True)
    else:
        io.open = breaking(io.open, text, int(number), reads)
