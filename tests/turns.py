"""How continuous integration divides the tests marked `long`: a few with every commit."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

#: Most long tests of a turn, all of one file: some minutes.
TESTS_OF_A_TURN: Final = 4


def turns(tests: Sequence[tuple[str, str]]) -> list[list[str]]:
    """Divide tests, each given with its file, into groups of few tests of one file."""
    groups = []
    for file in sorted({file for file, _ in tests}):
        names = [name for other, name in tests if other == file]
        groups += [names[start : start + TESTS_OF_A_TURN] for start in range(0, len(names), TESTS_OF_A_TURN)]
    return groups
