"""How tables of the 2020 Demographic and Housing Characteristics are called, and how one becomes many by race.

Names of columns have 8 characters in tables P, 9 in H and 10 in PCT, HCT and PCO: letters, number of the table, letters
of the iteration, and the number of the line, which has the digits that are left, and 4 where nothing is iterated.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from das_spark.histogram import Schema
from das_spark.tabulation.demographic import lowest_of
from das_spark.tabulation.table import Line, Table
from das_spark.tabulation.tallies import ORIGINS

#: Attribute -> levels that count.
Levels = Mapping[str, tuple[int, ...]]
#: Letters of an iteration -> who is in it, in words and by levels.
Iterations = Mapping[str, tuple[str, Levels]]

#: The six races, in the order of the levels of every attribute of race.
RACES: Final = (
    "White",
    "Black or African American",
    "American Indian and Alaska Native",
    "Asian",
    "Native Hawaiian and Other Pacific Islander",
    "Some Other Race",
)
SEVERAL_RACES: Final = "Two or More Races"
_WIDTHS: Final = {"P": 8, "H": 9, "PCT": 10}


@dataclass(frozen=True, slots=True)
class Declared:
    """A table before it has a schema."""

    letters: str  # such as PCT
    number: int
    title: str
    universe: str
    lines: tuple[Line, ...]
    iteration: str = ""  # its letters

    def table(self, schema: Schema) -> Table:
        """The table over the cells of a schema; raises as the table does."""
        name = f"{self.letters}{self.number}{self.iteration}"
        prefix, digits = f"{self.letters}{self.number:03d}", 4
        if self.iteration:
            # PCT7 and PCT9 alone have one zero fewer before the number.
            places = 2 if self.letters == "PCT" and self.number < 10 else 3  # noqa: PLR2004
            prefix = f"{self.letters}{self.number:0{places}d}{self.iteration}"
            digits = _WIDTHS[self.letters] - len(prefix)
        return Table.of(
            name=name,
            title=self.title,
            universe=self.universe,
            schema=schema,
            prefix=prefix,
            lines=self.lines,
            digits=digits,
            lowest=lowest_of(name),
        )

    def among(self, iterations: Iterations, letters: str = "") -> Iterator[Declared]:
        """The table once for each of some races and origins.

        Args:
            iterations: Who.
            letters: Of the names, where they are not those of the table.
        """
        for iteration, (who, levels) in iterations.items():
            lines = tuple(line.within(levels) for line in self.lines)
            title, universe = f"{self.title} ({who})", f"{self.universe}: {who}"
            yield Declared(letters or self.letters, self.number, title, universe, lines, iteration)

    def and_among(self, iterations: Iterations) -> Iterator[Declared]:
        """The table, and then the same."""
        yield self
        yield from self.among(iterations)


def iterations_by(race: str, origin: str, several: tuple[int, ...], person: str = "") -> dict[str, tuple[str, Levels]]:
    """The iterations A to V: by race alone, by origin, and by both.

    Args:
        race: Name of the attribute of race, whose first six levels are the races alone.
        origin: Name of the attribute of origin, whose second level is Hispanic.
        several: Levels of two or more races.
        person: Whose they are, where it is not who is counted.
    """
    of_race: list[tuple[str, Levels]] = [(f"{label} alone", {race: (level,)}) for level, label in enumerate(RACES)]
    of_race.append((SEVERAL_RACES, {race: several}))
    of_origin: list[Levels] = [{origin: (level,)} for level in range(2)]
    found: dict[str, tuple[str, Levels]] = {}
    found.update(zip("ABCDEFG", of_race, strict=True))
    found["H"] = ORIGINS[1], of_origin[1]
    for level, letters in ((0, "IJKLMNO"), (1, "PQRSTUV")):
        for letter, (who, levels) in zip(letters, of_race, strict=True):
            found[letter] = f"{who}, {ORIGINS[level]}", {**levels, **of_origin[level]}
    return {letter: (f"{who} {person}".strip(), levels) for letter, (who, levels) in found.items()}


def first(iterations: Iterations, last: str) -> dict[str, tuple[str, Levels]]:
    """The iterations up to a letter."""
    letters = list(iterations)
    return {letter: iterations[letter] for letter in letters[: letters.index(last) + 1]}


def race_lines_alone(race: str, several: tuple[int, ...], universe: Levels, depth: int = 1) -> Iterator[Line]:
    """Six races alone, and two or more."""
    for level, label in enumerate(RACES):
        yield Line(depth, f"{label} alone", {**universe, race: (level,)})
    yield Line(depth, SEVERAL_RACES, {**universe, race: several})


def origin_by_race(
    race: str, origin: str, several: tuple[int, ...], universe: Levels, depth: int = 1
) -> Iterator[Line]:
    """Each origin, and the races of its people."""
    for level, label in enumerate(ORIGINS):
        of_origin = {**universe, origin: (level,)}
        yield Line(depth, label, of_origin)
        yield from race_lines_alone(race, several, of_origin, depth + 1)


def made(declared: Iterable[Declared], schema: Schema) -> tuple[Table, ...]:
    """The tables over the cells of a schema; raises as the table does."""
    return tuple(each.table(schema) for each in declared)
