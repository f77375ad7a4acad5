"""How continuous integration divides what it cannot carry with every commit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

#: A file has the turn of its slow tests with every so many commits.
PARTS: Final = 3
#: Most long tests of a commit, all of one file: some minutes.
LONG_TESTS: Final = 4
#: Commands of documents are carried out with every commit; those that take minutes have turns, each by itself.
_DOCUMENTS: Final = "tests/documents/"


@dataclass(frozen=True, slots=True)
class Divided:
    """A test that may be left out: its file and its name, and whether it is a long one."""

    file: str
    name: str
    long: bool


def divided(file: str, name: str, marks: Iterable[str]) -> Divided | None:
    """Return a test by its marks; None where it is carried out with every commit."""
    if "long" in marks:
        return Divided(file, name, long=not file.startswith(_DOCUMENTS))
    return Divided(file, name, long=False) if "slow" in marks and not file.startswith(_DOCUMENTS) else None


def in_turn(tests: Sequence[Divided], turn: int) -> set[str]:
    """Return the names of the tests that have their turn."""
    names = set[str]()
    for parts in (_slow_parts(tests), _long_parts(tests)):
        if parts:
            names |= parts[turn % len(parts)]
    return names


def _slow_parts(tests: Sequence[Divided]) -> list[set[str]]:
    slow = [test for test in tests if not test.long]
    units = {test.name if test.file.startswith(_DOCUMENTS) else test.file: set[str]() for test in slow}
    for test in slow:
        units[test.name if test.name in units else test.file].add(test.name)
    return [set().union(*(units[unit] for unit in sorted(units)[part::PARTS])) for part in range(PARTS)]


def _long_parts(tests: Sequence[Divided]) -> list[set[str]]:
    parts = []
    for file in sorted({test.file for test in tests if test.long}):
        names = [test.name for test in tests if test.long and test.file == file]
        parts += [set(names[start : start + LONG_TESTS]) for start in range(0, len(names), LONG_TESTS)]
    return parts
