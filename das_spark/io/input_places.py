"""Where input lies, by paths and addresses: asked so that an error names the place, and quotes nothing of a file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from das_spark.errors import InputError
from das_spark.places import Entry, FileSystem, is_address, place_of, said, system_of


@contextmanager
def readable(path: str) -> Iterator[None]:
    """Turn errors about a place into one that names it, and quotes nothing of a file or of a library."""
    try:
        yield
    except (pa.ArrowException, OSError) as error:
        reason, hint = type(error).__name__, "is the file whole, and may it be read?"
        if is_address(path):
            hint = "is the address right, is the file whole, and may this user read it?"
            if isinstance(error, OSError) and error.strerror:  # of the store; what Arrow says has none
                reason = said(error)
        raise InputError(f"{path}: cannot be read ({reason})", hint=hint) from None


def system_at(path: str) -> FileSystem:
    """The file system in which a place lies."""
    return system_of(place_of(path))


def is_file(path: str) -> bool:
    """Whether a place is a file."""
    with readable(path):
        return system_at(path).is_file(path)


def is_folder(path: str) -> bool:
    """Whether a place is a folder."""
    with readable(path):
        return system_at(path).is_folder(path)


def is_there(path: str) -> bool:
    """Whether a place is a file or a folder."""
    return is_file(path) or is_folder(path)


def entries(folder: str) -> list[Entry]:
    """What is in a folder, by names in order."""
    with readable(folder):
        return system_at(folder).entries(folder)


def holds_file(folder: str) -> bool:
    """Whether there is a file in a folder, or below it."""
    found = entries(folder)
    return any(each.is_file for each in found) or any(holds_file(each.path) for each in found if each.is_folder)
