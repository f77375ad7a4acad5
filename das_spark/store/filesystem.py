"""Disks that fill: the many faces of that error, Spark's among them, become one that says what to do."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from das_spark.errors import OutputError

_FULL = (errno.ENOSPC, errno.EDQUOT)
_FULL_WORDS = ("No space left on device", "Disk quota exceeded")
#: A disk with less than so many bytes is full: what was half written has been removed when that is asked.
_LITTLE = 16 << 20


def is_disk_full(error: BaseException) -> bool:
    """Whether an error, or what caused it (also in the JVM), is a disk without room.

    Args:
        error: Looked at with all that it was raised from, or was raised while it was handled.
    """
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _FULL:
            return True
        if any(words in str(seen) for words in _FULL_WORDS):
            return True
        seen = seen.__cause__ or seen.__context__
    return False


def no_room(what: str) -> OutputError:
    """The error of a disk that filled while nothing of the results was written: what fills then are scratch files.

    Args:
        what: What could not be done.

    Returns:
        To be raised.
    """
    return OutputError(
        f"{what}: no space left on a disk that holds scratch files of Spark (spark.local.dir)",
        hint="make room there, or set it to another disk; a run resumes where it stopped",
    )


@contextmanager
def disk_errors(place: Path) -> Iterator[None]:
    """Turn the many faces of a full disk, Spark's among them, into one error that says what to do.

    Args:
        place: What was being written.

    Raises:
        OutputError: The disk is full, or the place cannot be written.
    """
    try:
        yield
    except OutputError:
        raise
    except Exception as error:
        if is_disk_full(error):
            other = "" if _has_little_room(place) else ", or on one that holds scratch files of Spark (spark.local.dir)"
            raise OutputError(
                f"{place}: no space left on the disk{other}",
                hint="make room, or set output.root to another disk; the run resumes where it stopped",
            ) from error
        if isinstance(error, PermissionError | NotADirectoryError | FileExistsError):
            raise OutputError(
                f"{place}: cannot be written ({type(error).__name__})", hint="choose another output folder"
            ) from error
        raise


def _has_little_room(place: Path) -> bool:
    """Whether the disk of a place is full; Spark does not say whose disk it was that filled."""
    there = next(folder for folder in (place, *place.absolute().parents) if folder.exists())
    return shutil.disk_usage(there).free < _LITTLE
