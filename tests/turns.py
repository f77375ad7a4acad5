"""How continuous integration divides what it cannot carry with every commit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from zlib import crc32

#: A unit of slow tests has its turn with every so many commits.
PARTS: Final = 10
#: Most long tests of a commit, all of one unit: some minutes.
LONG_TESTS: Final = 4


@dataclass(frozen=True, slots=True)
class Divided:
    """A test that is carried out in turns: the unit that has its turn together, its name, and whether it is long."""

    unit: str  # its file, or what its marker says
    name: str
    long: bool


def in_turn(tests: Sequence[Divided], turn: int) -> set[str]:
    """Return the names of the tests that have their turn."""
    names = set[str]()
    for parts in (_slow_parts(tests), _long_parts(tests)):
        if parts:
            names |= parts[turn % len(parts)]
    return names


def _slow_parts(tests: Sequence[Divided]) -> list[set[str]]:
    slow = [test for test in tests if not test.long]
    return [{test.name for test in slow if _part(test.unit) == part} for part in range(PARTS)]


def _part(unit: str) -> int:
    """Of the unit's name alone: by its place among all units, a new unit would shift the turns of the others."""
    return crc32(unit.encode()) % PARTS


def _long_parts(tests: Sequence[Divided]) -> list[set[str]]:
    parts = []
    for unit in sorted({test.unit for test in tests if test.long}):
        names = [test.name for test in tests if test.long and test.unit == unit]
        parts += [set(names[start : start + LONG_TESTS]) for start in range(0, len(names), LONG_TESTS)]
    return parts
