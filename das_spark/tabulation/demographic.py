"""Tables of Summary File 1 of 2010 that persons determine: ages by sex, races, group quarters, their iterations.

Their lines follow from ages, and from the levels of sex, race, Hispanic origin and group quarters. Numbers, titles,
universes and names of columns are those of the Census Bureau's file of 2010. Its P8 to P11 are P1 to P4 of the
redistricting data, its P13 and the iterations of it are medians (`demographic_medians`). What else is in the file and
not here needs more than persons tell: households, relationships, kinds of facilities.

The Bureau's system made tables besides that are not in the file: P43 by race and origin, for counties. Their names
begin with `DEMONSTRATION`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from das_spark.geography import Geolevel
from das_spark.histogram import Attribute, Schema
from das_spark.tabulation.medians import MedianTable
from das_spark.tabulation.redistricting import quarters_by_type
from das_spark.tabulation.table import COUNTY, TRACT, Line, Table
from das_spark.tabulation.tallies import races_tallied, races_tallied_by_origin

#: Attribute -> levels that count.
_Levels = Mapping[str, tuple[int, ...]]
#: First and last age of each group.
_Ages = Sequence[tuple[int, int]]

#: What the table's name begins with where tables of the redistricting data have the same number.
SHARED_NUMBER: Final = "SF1_"
#: What the name of a table begins with that is the demonstration's own, and not one of Summary File 1.
DEMONSTRATION: Final = "DDP_"

_TOP: Final = 115
_SINGLE_RACES: Final = range(6)
_SEVERAL_RACES: Final = tuple(range(6, 63))
_HOUSEHOLDS: Final = (0,)
_INSTITUTIONS, _OTHERS = (1, 2, 3, 4), (5, 6, 7)
_QUARTERS: Final = _INSTITUTIONS + _OTHERS
_HISPANIC, _NOT_HISPANIC = (1,), (0,)
_EVERYBODY: Final = "Total population"


def age_groups(*firsts: int) -> _Ages:
    """Groups that begin with given ages, and end before the next one or at the top."""
    return tuple(zip(firsts, (*(first - 1 for first in firsts[1:]), _TOP), strict=True))


#: Of P12, P12A to I and PCT13, PCT13A to I.
AGES_OF_P12: Final = age_groups(
    *(0, 5, 10, 15, 18, 20, 21, 22, 25, 30, 35, 40, 45, 50, 55, 60, 62, 65, 67, 70, 75, 80, 85),
)
SINGLE_YEARS: Final = age_groups(*range(100), 100, 105, 110)
_AGES_OF_P43: Final = age_groups(0, 18, 65)
_UNDER_20: Final = tuple((age, age) for age in range(20))
_AGES_OF_PCO: Final = age_groups(*range(0, 86, 5))
#: Of the tables PCO1 to PCO10: words of the title, the universe, and the levels of hhgq in it.
_PCO: Final = (
    ("", "Population in group quarters", _QUARTERS),
    (" in institutional facilities", "Institutionalized population", _INSTITUTIONS),
    (" in correctional facilities for adults", "Population in correctional facilities for adults", (1,)),
    (" in juvenile facilities", "Population in juvenile facilities", (2,)),
    (
        " in nursing facilities/skilled-nursing facilities",
        "Population in nursing facilities/skilled-nursing facilities",
        (3,),
    ),
    (" in other institutional facilities", "Population in other institutional facilities", (4,)),
    (" in noninstitutional facilities", "Noninstitutionalized population", _OTHERS),
    (" in college/university student housing", "Population in college/university student housing", (5,)),
    (" in military quarters", "Population in military quarters", (6,)),
    (" in other noninstitutional facilities", "Population in other noninstitutional facilities", (7,)),
)


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
        name: Such as PCT12, or DDP_PCT15; P and H are published for blocks, PCT and HCT for tracts, PCO for counties.
    """
    return {"PCT": TRACT, "HCT": TRACT, "PCO": COUNTY}.get(name.rpartition("_")[2][:3])


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
    return _made(_declared(schema), schema)


def demographic_medians(schema: Schema) -> tuple[MedianTable, ...]:
    """The tables of median ages: P13, and P13A to P13I by race and origin.

    Args:
        schema: With attributes sex (2), age (single years to 115), hispanic (2) and cenrace (63), in any order.

    Raises:
        QueryError: The schema lacks an attribute, or some of its levels.
    """
    declared = _iterated("P", 13, "Median age by sex", _EVERYBODY, sex_by_age((), {}))
    return tuple(MedianTable.of(table, "age") for table in _made(declared, schema))


def _made(declared: Iterable[_Declared], schema: Schema) -> tuple[Table, ...]:
    """The tables over the cells of a schema; raises as the table does."""
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
        for name, title, universe, prefix, lines, digits in declared
    )


_Declared = tuple[str, str, str, str, Iterable[Line], int]


def _declared(schema: Schema) -> Iterator[_Declared]:
    """Name, title, universe, what the names of columns begin with, lines, and digits of the number of a line."""
    hhgq, cenrace = (schema.attributes[schema.axis(name)] for name in ("hhgq", "cenrace"))
    everybody, races, origins = Line(0, "Total", {}), tuple(_races(cenrace)), tuple(_origins())
    by_origin = chain.from_iterable((origin, *lines_within(origin, races)) for origin in origins)
    shared, people, by_age = f"{SHARED_NUMBER}P", _EVERYBODY, "Sex by age"
    yield _base(shared, 1, people, people, [everybody])
    yield _base(shared, 3, "Race", people, [everybody, *races])
    yield _base(shared, 4, "Hispanic or Latino origin", people, [everybody, *origins])
    yield _base("P", 5, "Hispanic or Latino origin by race", people, [everybody, *by_origin])
    tally, names = "(total races tallied)", cenrace.levels[: len(_SINGLE_RACES)]
    yield _base("P", 6, f"Race {tally}", "Races tallied", races_tallied(names))
    yield _base("P", 7, f"Hispanic or Latino origin by race {tally}", "Races tallied", races_tallied_by_origin(names))
    yield from _iterated("P", 12, by_age, people, sex_by_age(AGES_OF_P12, {}))
    young, under_20 = {"age": tuple(range(len(_UNDER_20)))}, f"{by_age} for the population under 20 years"
    yield _base("P", 14, under_20, "Population under 20 years", sex_by_age(_UNDER_20, young))
    households, in_households = "Population in households", {"hhgq": _HOUSEHOLDS}
    yield _base("P", 16, f"{households} by age", households, _adults_or_not(in_households))
    quarters, title = "Population in group quarters", "Group quarters population"
    kinds = [Line(0, "Total", {"hhgq": _QUARTERS}), *quarters_by_type(hhgq)]
    yield _base("P", 42, f"{title} by group quarters type", quarters, kinds)
    by_type, lines = f"{title} by sex by age by group quarters type", tuple(_of_quarters(hhgq))
    yield _base("P", 43, by_type, quarters, lines)
    yield from _iterations(f"{DEMONSTRATION}PCO", 43, by_type, quarters, lines)
    yield from _iterated("PCT", 12, by_age, people, sex_by_age(SINGLE_YEARS, {}), _ITERATIONS_TO_O)
    by_age_there = f"{by_age} for the population in households"
    yield from _iterated("PCT", 13, by_age_there, households, sex_by_age(AGES_OF_P12, in_households))
    by_sex = f"{title} by sex by group quarters type for the population 18 years and over"
    yield from _iterated("PCT", 22, by_sex, "Population 18 years and over in group quarters", _adults(hhgq))
    for number, (words, universe, levels) in enumerate(_PCO, start=1):
        of_levels = sex_by_age(_AGES_OF_PCO, {"hhgq": levels})
        yield _base("PCO", number, f"{title}{words} by sex by age", universe, of_levels)
    occupied = "Total population in occupied housing units"
    yield _base("H", 10, occupied, "Population in occupied housing units", [Line(0, "Total", in_households)])


def _base(letters: str, number: int, title: str, universe: str, lines: Iterable[Line]) -> _Declared:
    return f"{letters}{number}", title, universe, f"{letters}{number:03d}", lines, 4


#: Letter of an iteration -> who is in it, in words that follow "who are", and by levels.
_Iterations = Mapping[str, tuple[str, _Levels]]

_ALONE: Final[_Iterations] = {
    "A": ("White alone", {"cenrace": (0,)}),
    "B": ("Black or African American alone", {"cenrace": (1,)}),
    "C": ("American Indian and Alaska Native alone", {"cenrace": (2,)}),
    "D": ("Asian alone", {"cenrace": (3,)}),
    "E": ("Native Hawaiian and Other Pacific Islander alone", {"cenrace": (4,)}),
    "F": ("Some Other Race alone", {"cenrace": (5,)}),
    "G": ("Two or More Races", {"cenrace": _SEVERAL_RACES}),
}
#: I to O are A to G of another origin than H.
_ITERATIONS_TO_O: Final[_Iterations] = {
    **_ALONE,
    "H": ("Hispanic or Latino", {"hispanic": _HISPANIC}),
    **{
        letter: (f"{who}, not Hispanic or Latino", {**levels, "hispanic": _NOT_HISPANIC})
        for letter, (who, levels) in zip("IJKLMNO", _ALONE.values(), strict=True)
    },
}
_ITERATIONS: Final[_Iterations] = {letter: _ITERATIONS_TO_O[letter] for letter in "ABCDEFGHI"}


def _iterations(
    letters: str,
    number: int,
    title: str,
    universe: str,
    lines: Iterable[Line],
    iterations: _Iterations = _ITERATIONS,
) -> Iterator[_Declared]:
    """Yield a table again and again, each among people of a race or origin; the letter takes the place of a digit."""
    every, people = tuple(lines), "People" if universe == _EVERYBODY else universe
    for letter, (who, levels) in iterations.items():
        own = tuple(line.within(levels) for line in every)
        prefix = f"{letters}{number:03d}{letter}"
        yield f"{letters}{number}{letter}", f"{title} ({who})", f"{people} who are {who}", prefix, own, 3


def _iterated(
    letters: str,
    number: int,
    title: str,
    universe: str,
    lines: Iterable[Line],
    iterations: _Iterations = _ITERATIONS,
) -> Iterator[_Declared]:
    every = tuple(lines)
    yield _base(letters, number, title, universe, every)
    yield from _iterations(letters, number, title, universe, every, iterations)


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
