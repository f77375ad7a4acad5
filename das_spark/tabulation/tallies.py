"""Lines of tables that tally races: a person of several races counts once for each of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Final

from das_spark.tabulation.table import Line

_SINGLE_RACES: Final = 6
ORIGINS: Final = ("Not Hispanic or Latino", "Hispanic or Latino")


def in_combination(race: int) -> tuple[int, ...]:
    """Levels of cenrace with a race: combinations by their number of races, then in the order of the races.

    Args:
        race: From 0 to 5, alone or in combination.
    """
    every = chain.from_iterable(combinations(range(_SINGLE_RACES), number) for number in range(1, _SINGLE_RACES + 1))
    return tuple(level for level, races in enumerate(every) if race in races)


#: Cells that are tallied once for each of their races.
_TALLIED: Final = tuple({"cenrace": in_combination(race)} for race in range(_SINGLE_RACES))


def races_tallied(races: Sequence[str]) -> Iterator[Line]:
    """All races that people have, and each of the six (P6).

    Args:
        races: What the races are called, in the order of the levels of cenrace.
    """
    yield Line(0, "Total races tallied", {}, _TALLIED)
    for label, levels in zip(races, _TALLIED, strict=True):
        yield Line(1, f"{label} alone or in combination with one or more other races", levels)


def races_tallied_by_origin(races: Sequence[str]) -> Iterator[Line]:
    """The same, and the same again of people of each origin (P7); `races` as for `races_tallied`."""
    total, *lines = races_tallied(races)
    yield total
    for level, label in enumerate(ORIGINS):
        of_origin = {"hispanic": (level,)}
        yield Line(1, label, of_origin, _TALLIED)
        yield from (line.within(of_origin, indent=1) for line in lines)
