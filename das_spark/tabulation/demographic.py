"""Tables of Summary File 1 of 2010 that persons determine: ages by sex, races, group quarters, their iterations.

Their lines follow from ages, and from the levels of sex, race, Hispanic origin and group quarters. Numbers, titles,
universes and names of columns are those of the Census Bureau's file of 2010. What is in the file and not here needs
more than persons tell (households, relationships, kinds of facilities), or is a median (P13).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from das_spark.geography import Geolevel
from das_spark.histogram import Attribute, Schema
from das_spark.tabulation.redistricting import quarters_by_type
from das_spark.tabulation.table import COUNTY, TRACT, Line, Table
from das_spark.tabulation.tallies import races_tallied, races_tallied_by_origin

#: Attribute -> levels that count.
_Levels = Mapping[str, tuple[int, ...]]
#: First and last age of each group.
_Ages = Sequence[tuple[int, int]]

#: What the table's name begins with where tables of the redistricting data have the same number.
SHARED_NUMBER: Final = "SF1_"

_TOP: Final = 115
_SINGLE_RACES: Final = range(6)
_SEVERAL_RACES: Final = tuple(range(6, 63))
_HOUSEHOLDS: Final = (0,)
_INSTITUTIONS, _OTHERS = (1, 2, 3, 4), (5, 6, 7)
_QUARTERS: Final = _INSTITUTIONS + _OTHERS
_HISPANIC, _NOT_HISPANIC = (1,), (0,)


def age_groups(*firsts: int) -> _Ages:
    """Groups that begin with given ages, and end before the next one or at the top."""
    return tuple(zip(firsts, (*(first - 1 for first in firsts[1:]), _TOP), strict=True))


def _every_five(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1, 5))


#: Of P12, P12A to I and PCT13, PCT13A to I.
AGES_OF_P12: Final = age_groups(
    *(0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
)
SINGLE_YEARS: Final = age_groups(*range(100), 100, 105, 110)
_AGES_OF_P43: Final = age_groups(0, 18, 65)
_UNDER_20: Final = tuple((age, age) for age in range(20))
#: Number of a PCO table -> its universe, the levels of hhgq in it, and the first ages of its groups.
_PCO: Final = {
    1: ("Population in group quarters", _QUARTERS, _every_five(0, 85)),
    2: ("Institutionalized population", _INSTITUTIONS, _every_five(0, 85)),
    3: ("Population in correctional facilities for adults", (1,), (0, *_every_five(20, 85))),
    4: ("Population in juvenile facilities", (2,), _every_five(0, 25)),
    5: ("Population in nursing facilities/skilled-nursing facilities", (3,), (0, *_every_five(30, 85))),
    6: ("Population in other institutional facilities", (4,), _every_five(0, 85)),
    7: ("Noninstitutionalized population", _OTHERS, (0, *_every_five(15, 65))),
    8: ("Population in college/university student housing", (5,), (0, 20, 25, 30, 40)),
    9: ("Population in military quarters", (6,), (0, 20, 25, 30, 40)),
    10: ("Population in other noninstitutional facilities", (7,), (0, *_every_five(15, 65))),
}


def age_label(first: int, last: int) -> str:
    """Words for a group of ages, as tables have them.

    Args:
        first: Youngest age.
        last: Oldest age; that of the top code says "and over".
    """
    if first == last:
        return "Under 1 year" if not first else f"{first} year{'s' if first > 1 else ''}"
    if not first:
        return f"Under {last + 1} years"
    if last == _TOP:
        return f"{first} years and over"
    return f"{first} {'and' if last == first + 1 else 'to'} {last} years"


def lowest_of(name: str) -> Geolevel | None:
    """The lowest geolevel of a table of a summary file by the letters of its name: all, tracts, or counties.

    Args:
        name: Such as PCT12; P and H are published for blocks, PCT and HCT for tracts, PCO for counties.
    """
    return {"PCT": TRACT, "HCT": TRACT, "PCO": COUNTY}.get(name[:3])


def demographic_tables(schema: Schema) -> tuple[Table, ...]:
    """The tables of persons.

    Args:
        schema: With attributes hhgq (8 levels), sex (2), age (single years to 115), hispanic (2) and cenrace (63), in
            any order.

    Returns:
        The tables, in the order of the file.

    Raises:
        QueryError: The schema lacks an attribute, or some of its levels.
    """
    return tuple(
        Table.of(
            name=name,
            title=title,
            universe=universe,
            schema=schema,
            prefix=prefix,
            lines=lines,
            digits=digits,
            lowest=lowest_of(name),
        )
        for name, title, universe, prefix, lines, digits in _declared(schema)
    )


_Declared = tuple[str, str, str, str, Iterable[Line], int]


def _declared(schema: Schema) -> Iterator[_Declared]:
    """Name, title, universe, what the names of columns begin with, lines, and digits of the number of a line."""
    hhgq, cenrace = (schema.attributes[schema.axis(name)] for name in ("hhgq", "cenrace"))
    everybody, races, origins = Line(0, "Total", {}), tuple(_races(cenrace)), tuple(_origins())
    by_origin = chain.from_iterable((origin, *lines_within(origin, races)) for origin in origins)
    shared, people, by_age = f"{SHARED_NUMBER}P", "Total population", "Sex by age"
    yield _base(shared, 1, "Total population", people, [everybody])
    yield _base(shared, 3, "Race", people, [everybody, *races])
    yield _base(shared, 4, "Hispanic or Latino origin", people, [everybody, *origins])
    yield _base("P", 5, "Hispanic or Latino origin by race", people, [everybody, *by_origin])
    tally, names = "(total races tallied)", cenrace.levels[: len(_SINGLE_RACES)]
    yield _base("P", 6, f"Race {tally}", "Races tallied", races_tallied(names))
    yield _base("P", 7, f"Hispanic or Latino origin by race {tally}", "Races tallied", races_tallied_by_origin(names))
    yield from _iterated("P", 12, by_age, people, sex_by_age(AGES_OF_P12, {}))
    young = {"age": tuple(range(len(_UNDER_20)))}
    yield _base("P", 14, by_age, "Population under 20 years", sex_by_age(_UNDER_20, young))
    households = "Population in households"
    yield _base("P", 16, f"{households} by age", households, _adults_or_not({"hhgq": _HOUSEHOLDS}))
    quarters, title = "Population in group quarters", "Population in group quarters by sex by age by type"
    lines = tuple(_of_quarters(hhgq))
    yield _base("P", 43, title, quarters, lines)
    yield from _iterations("PCO", 43, title, quarters, lines)
    yield _base("PCT", 12, by_age, people, sex_by_age(SINGLE_YEARS, {}))
    yield from _iterated("PCT", 13, by_age, households, sex_by_age(AGES_OF_P12, {"hhgq": _HOUSEHOLDS}))
    adults = "Population 18 years and over in group quarters"
    yield _base("PCT", 22, f"{adults} by sex by type", adults, _adults(hhgq))
    for number, (universe, levels, firsts) in _PCO.items():
        yield _base("PCO", number, by_age, universe, sex_by_age(age_groups(*firsts), {"hhgq": levels}))


def _base(letters: str, number: int, title: str, universe: str, lines: Iterable[Line]) -> _Declared:
    return f"{letters}{number}", title, universe, f"{letters}{number:03d}", lines, 4


def _iterations(letters: str, number: int, title: str, universe: str, lines: Iterable[Line]) -> Iterator[_Declared]:
    """A table nine times, each among people of a race or origin; the letter takes the place of a digit."""
    every = tuple(lines)
    for letter, (who, levels) in _ITERATIONS.items():
        of = tuple(line.within(levels) for line in every)
        prefix = f"{letters}{number:03d}{letter}"
        yield f"{letters}{number}{letter}", f"{title} ({who})", f"{universe}: people who are {who}", prefix, of, 3


def _iterated(letters: str, number: int, title: str, universe: str, lines: Iterable[Line]) -> Iterator[_Declared]:
    every = tuple(lines)
    yield _base(letters, number, title, universe, every)
    yield from _iterations(letters, number, title, universe, every)


_ITERATIONS: Final[Mapping[str, tuple[str, _Levels]]] = {
    "A": ("White alone", {"cenrace": (0,)}),
    "B": ("Black or African American alone", {"cenrace": (1,)}),
    "C": ("American Indian and Alaska Native alone", {"cenrace": (2,)}),
    "D": ("Asian alone", {"cenrace": (3,)}),
    "E": ("Native Hawaiian and Other Pacific Islander alone", {"cenrace": (4,)}),
    "F": ("Some Other Race alone", {"cenrace": (5,)}),
    "G": ("Two or More Races", {"cenrace": _SEVERAL_RACES}),
    "H": ("Hispanic or Latino", {"hispanic": _HISPANIC}),
    "I": ("White alone, not Hispanic or Latino", {"cenrace": (0,), "hispanic": _NOT_HISPANIC}),
}


def _races(cenrace: Attribute) -> Iterator[Line]:
    for race in _SINGLE_RACES:
        yield Line(1, f"{cenrace.levels[race]} alone", {"cenrace": (race,)})
    yield Line(1, "Two or More Races", {"cenrace": _SEVERAL_RACES})


def _origins() -> Iterator[Line]:
    yield Line(1, "Not Hispanic or Latino", {"hispanic": _NOT_HISPANIC})
    yield Line(1, "Hispanic or Latino", {"hispanic": _HISPANIC})


def lines_within(heading: Line, lines: Iterable[Line]) -> Iterator[Line]:
    """Lines as they stand under a heading that they do not know."""
    return (line.within(heading.levels, indent=heading.depth) for line in lines)


def sex_lines(universe: _Levels) -> Iterator[tuple[Line, _Levels]]:
    """The line of each sex, and the levels of what stands under it."""
    for level, label in enumerate(("Male", "Female")):
        of_sex = {**universe, "sex": (level,)}
        yield Line(1, label, of_sex), of_sex


def sex_by_age(ages: _Ages, universe: _Levels) -> Iterator[Line]:
    """The total, and of each sex its line and those of groups of ages, given by first and last age."""
    yield Line(0, "Total", universe)
    for sex, of_sex in sex_lines(universe):
        yield sex
        for first, last in ages:
            yield Line(2, age_label(first, last), {**of_sex, "age": tuple(range(first, last + 1))})


def _adults_or_not(universe: _Levels) -> Iterator[Line]:
    yield Line(0, "Total", universe)
    for first, last in age_groups(0, 18):
        yield Line(1, age_label(first, last), {**universe, "age": tuple(range(first, last + 1))})


def _of_quarters(hhgq: Attribute) -> Iterator[Line]:
    """Sex by three ages by type of group quarters."""
    yield Line(0, "Total", {"hhgq": _QUARTERS})
    for sex, of_sex in sex_lines({"hhgq": _QUARTERS}):
        yield sex
        for first, last in _AGES_OF_P43:
            age = tuple(range(first, last + 1))
            yield Line(2, age_label(first, last), {**of_sex, "age": age})
            who = {"sex": of_sex["sex"], "age": age}
            yield from (line.within(who, indent=2) for line in quarters_by_type(hhgq))


def _adults(hhgq: Attribute) -> Iterator[Line]:
    """Those of 18 and more years in group quarters by sex and type; the release's own query began a year too early."""
    age = tuple(range(18, _TOP + 1))
    universe = {"hhgq": _QUARTERS, "age": age}
    yield Line(0, "Total", universe)
    for sex, of_sex in sex_lines(universe):
        yield sex
        who = {"sex": of_sex["sex"], "age": age}
        yield from (line.within(who, indent=1) for line in quarters_by_type(hhgq))
