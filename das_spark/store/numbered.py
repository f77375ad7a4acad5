"""Lines that are only ever added, where no file can be appended to: an object an addition, numbered, never replaced.

What a file of lines is on a disk is a folder of its name elsewhere, whose objects together are that file. Each is
created exclusively, so that of two that would add a next one only one does; the other reads, and decides anew.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from das_spark.errors import OutputError, PrivacyGuardError
from das_spark.places import Location, Place

_READERS: Final = 16
#: Additions that this process has read, by their places, each with the state in which it was listed.
_READ: Final[dict[Location, tuple[str, bytes]]] = {}


def read_numbered(folder: Location) -> tuple[int, bytes]:
    """Return how often something was added, and all of it; 0 and nothing where there is no such folder.

    Raises:
        PrivacyGuardError: An addition is missing.
    """
    states = folder.system.files(str(folder))
    numbers = sorted(int(name) for name in states if name.isdigit())
    while _numbered(folder, len(numbers) + 1).is_file():  # a listing may be late
        numbers.append(len(numbers) + 1)
    if numbers != list(range(1, len(numbers) + 1)):
        raise PrivacyGuardError(
            f"{folder}: of the objects that were added to it one after the other, some are missing",
            hint="restore them from a copy",
        )

    def read(number: int) -> bytes:
        place = _numbered(folder, number)
        known, state = _READ.get(place), states.get(place.name)
        if known is None or state is None or known[0] != state:
            known = _READ[place] = (state or "", place.read_bytes())
        return known[1]

    with ThreadPoolExecutor(_READERS) as threads:
        return len(numbers), b"".join(threads.map(read, numbers))


def add_numbered(folder: Location, number: int, content: bytes) -> bool:
    """Add something after so many additions; return whether nobody was quicker."""
    place = _numbered(folder, number + 1)
    return place.system.create(str(place), content, mode=0o600)


def read_lines(file: Place) -> bytes:
    """Return the lines of a file, or of what stands for it; nothing where there is none."""
    if isinstance(file, Location):
        return read_numbered(file)[1]
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return b""


@dataclass(slots=True)
class Lines:
    """A file of lines that this process alone adds to; elsewhere than on a disk each addition is an object.

    Attributes:
        file: The file, which need not exist.
    """

    file: Place
    _added: int | None = None

    def append(self, lines: bytes, *, durably: bool = False) -> None:
        """Add lines by one write.

        Args:
            lines: Whole ones.
            durably: Whether to wait until they are on the disk.

        Raises:
            OutputError: Another process has added something.
        """
        if isinstance(self.file, Location):
            if self._added is None:
                self._added = read_numbered(self.file)[0]
            if not add_numbered(self.file, self._added, lines):
                raise OutputError(
                    f"{self.file}: another driver has gone on with this run; this one stops, and publishes nothing",
                    hint="see whether the run is finished; if no other driver is at work on it, start it again",
                )
            self._added += 1
            return
        descriptor = os.open(self.file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "wb", buffering=0) as opened:
            opened.write(lines)
            if durably:
                os.fsync(opened.fileno())


def _numbered(folder: Location, number: int) -> Location:
    return folder / f"{number:08d}"
