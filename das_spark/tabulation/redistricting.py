"""The tables of the redistricting data (P.L. 94-171): P1 to P5 of persons, H1 of housing units.

Their columns follow from the schema: race lines from the recode of the 63 combinations by their number of races, whose
levels are in the published order; facility lines from the levels of the attribute of group quarters. Titles, universes,
order and names are those of the Census Bureau's 2020 redistricting data summary file.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final

from das_spark.errors import QueryError
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.tabulation.table import Line, Table

#: The recode that groups combinations of races by how many races they name.
NUMBER_OF_RACES: Final = "numraces"
#: What stands between the races in a level's label.
_AND: Final = "-"
_WORDS: Final = ("one race", "two races", "three races", "four races", "five races", "six races")

#: The attribute, or the recode of ages, whose last level are adults.
_VOTING_AGE: Final = "votingage"
_HISPANIC, _NOT_HISPANIC = (1,), (0,)
_INSTITUTIONS, _NO_INSTITUTIONS = (1, 2, 3, 4), (5, 6, 7)
_VACANT, _OCCUPIED = (0,), (1,)


def redistricting_tables(schema: Schema) -> tuple[Table, ...]:
    """P1 to P5.

    Args:
        schema: With attributes hhgq (8 levels), votingage (2), hispanic (2) and cenrace (63, with its recode numraces),
            in any order; votingage may be a recode of another attribute.

    Returns:
        The five tables.

    Raises:
        QueryError: The schema lacks an attribute, or the recode.
    """
    races = tuple(race_lines(schema.attributes[schema.axis("cenrace")]))
    by_race = (Line(0, "Total", {}), *races)
    by_origin = (
        Line(0, "Total", {}),
        Line(1, "Hispanic or Latino", {"hispanic": _HISPANIC}),
        Line(1, "Not Hispanic or Latino", {"hispanic": _NOT_HISPANIC}),
        *(line.within({"hispanic": _NOT_HISPANIC}, indent=1) for line in races),
    )
    origin = "Hispanic or Latino, and not Hispanic or Latino by race"
    adults, adult = "population 18 years and over", _adult(schema)
    quarters = _quarters(schema.attributes[schema.axis("hhgq")])
    declared = (
        ("P1", "Race", "Total population", by_race),
        ("P2", origin, "Total population", by_origin),
        ("P3", f"Race for the {adults}", f"Total {adults}", _among(adult, by_race)),
        ("P4", f"{origin} for the {adults}", f"Total {adults}", _among(adult, by_origin)),
        ("P5", "Group quarters population by major group quarters type", "Population in group quarters", quarters),
    )
    return tuple(
        Table.of(name=name, title=title, universe=universe, schema=schema, prefix=f"{name[0]}00{name[1]}", lines=lines)
        for name, title, universe, lines in declared
    )


def housing_tables(schema: Schema) -> tuple[Table, ...]:
    """H1.

    Args:
        schema: With the attribute h1: 0 vacant, 1 occupied.

    Returns:
        The one table.

    Raises:
        QueryError: The schema lacks the attribute.
    """
    lines = (
        Line(0, "Total", {}),
        Line(1, "Occupied", {"h1": _OCCUPIED}),
        Line(1, "Vacant", {"h1": _VACANT}),
    )
    title, universe = "Occupancy status", "Housing units"
    return (Table.of(name="H1", title=title, universe=universe, schema=schema, prefix="H001", lines=lines),)


def _adult(schema: Schema) -> dict[str, tuple[int, ...]]:
    """The levels of adults, by attribute."""
    for attribute in schema.attributes:
        for recode in attribute.recodes:
            if recode.name == _VOTING_AGE:
                return {attribute.name: recode.groups[-1][1]}
    return {_VOTING_AGE: (schema.attributes[schema.axis(_VOTING_AGE)].size - 1,)}


def _among(who: dict[str, tuple[int, ...]], lines: tuple[Line, ...]) -> tuple[Line, ...]:
    return tuple(line.within(who) for line in lines)


def race_lines(cenrace: Attribute) -> Iterator[Line]:
    """The 70 race lines under a total: one race and its six, two or more and then combinations by number of races."""
    one, *several = [levels for _, levels in _by_number(cenrace).groups]
    yield _race_line(1, f"Population of {_WORDS[0]}", one)
    for level in one:
        yield _race_line(2, f"{cenrace.levels[level]} alone", (level,))
    yield _race_line(1, "Population of two or more races", tuple(chain.from_iterable(several)))
    for words, group in zip(_WORDS[1:], several, strict=True):
        yield _race_line(2, f"Population of {words}", group)
        for level in group:
            yield _race_line(3, cenrace.levels[level].replace(_AND, "; "), (level,))


def _race_line(depth: int, label: str, levels: tuple[int, ...]) -> Line:
    return Line(depth, label, {"cenrace": levels})


def _by_number(cenrace: Attribute) -> Recode:
    for recode in cenrace.recodes:
        if recode.name == NUMBER_OF_RACES:
            return recode
    raise QueryError(f"attribute {cenrace.name!r} has no recode {NUMBER_OF_RACES!r}, which orders the race columns")


def _quarters(hhgq: Attribute) -> Iterator[Line]:
    """The ten lines of group quarters."""
    yield Line(0, "Total", {"hhgq": _INSTITUTIONS + _NO_INSTITUTIONS})
    yield from quarters_by_type(hhgq)


def quarters_by_type(hhgq: Attribute) -> Iterator[Line]:
    """The nine lines under a total: institutions and their four types, the others and their three."""
    kinds = (("Institutionalized population", _INSTITUTIONS), ("Noninstitutionalized population", _NO_INSTITUTIONS))
    for label, levels in kinds:
        yield Line(1, label, {"hhgq": levels})
        for level in levels:
            yield Line(2, hhgq.levels[level], {"hhgq": (level,)})
