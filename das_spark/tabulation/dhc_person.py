"""Tables of the 2020 Demographic and Housing Characteristics that persons determine: 32, and 85 by race and origin.

Numbers, universes and names of columns are those of the Census Bureau's file. P6 and P7 tally races: they count people
once for each of their races. P13 and its nine iterations are no sums: they are median ages (`dhc_person_medians`). Not
here is P2, which needs to know which blocks are urban.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from das_spark.histogram import Attribute, Schema
from das_spark.tabulation._dhc import (
    RACES,
    Declared,
    Levels,
    first,
    iterations_by,
    made,
    origin_by_race,
    race_lines_alone,
)
from das_spark.tabulation.demographic import (
    AGES_OF_P12,
    SINGLE_YEARS,
    age_groups,
    age_label,
    sex_by_age,
    sex_lines,
)
from das_spark.tabulation.medians import MedianTable
from das_spark.tabulation.redistricting import race_lines
from das_spark.tabulation.table import Line, Table
from das_spark.tabulation.tallies import ORIGINS, in_combination, races_tallied, races_tallied_by_origin

#: First and last age of each group.
_Ages = Sequence[tuple[int, int]]


def _span(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


_SEVERAL: Final = _span(6, 62)
_ADULTS: Final = {"age": _span(18, 115)}
_MINORS: Final = {"age": _span(0, 17)}
_ELDERLY: Final = {"age": _span(65, 115)}
#: Levels of relgq: members of households, and types of group quarters.
_HOUSEHOLDS: Final = {"relgq": _span(0, 17)}
_QUARTERS: Final = {"relgq": _span(18, 41)}
_INSTITUTIONS: Final = _span(18, 32)
_OTHERS: Final = _span(33, 41)
_ALONE, _NOT_ALONE = 0, 1
#: The two kinds of group quarters, with the classes of facilities in each.
_KINDS: Final = (
    (
        "Institutionalized population",
        _INSTITUTIONS,
        (
            ("Correctional facilities for adults", _span(18, 23)),
            ("Juvenile facilities", _span(24, 26)),
            ("Nursing facilities/Skilled-nursing facilities", (27,)),
            ("Other institutional facilities", _span(28, 32)),
        ),
    ),
    (
        "Noninstitutionalized population",
        _OTHERS,
        (
            ("College/University student housing", (33,)),
            ("Military quarters", (34, 35)),
            ("Other noninstitutional facilities", _span(36, 41)),
        ),
    ),
)
#: Of P17, below the householder: label, levels, and whether those under 18 have a line of their own.
_MEMBERS: Final = (
    ("Opposite-sex spouse", (2,), False),
    ("Same-sex spouse", (4,), False),
    ("Opposite-sex unmarried partner", (3,), False),
    ("Same-sex unmarried partner", (5,), False),
    ("Biological child", (6,), True),
    ("Adopted child", (7,), True),
    ("Stepchild", (8,), True),
    ("Grandchild", (11,), True),
    ("Brother or sister", (9,), False),
    ("Parent", (10,), False),
    ("Parent-in-law", (12,), False),
    ("Son-in-law or daughter-in-law", (13,), False),
    ("Other relative", (14,), False),
    ("Foster child", (16,), False),
    ("Other nonrelative", (15, 17), False),
)
_OF_CHILDREN: Final = ((0, 2), (3, 4), (5, 5), (6, 11), (12, 13), (14, 14), (15, 17))
_OF_GRANDCHILDREN: Final = ((0, 2), (3, 4), (5, 5), (6, 11), (12, 17))
_OF_P18: Final = age_groups(0, 18, 65)
_FIVES: Final = tuple(range(0, 86, 5))
#: Number of a PCO table -> its universe, the levels of relgq in it, and the first ages of its groups.
_PCO: Final = {
    1: ("Population in group quarters", _span(18, 41), _FIVES),
    2: ("Institutionalized population", _INSTITUTIONS, _FIVES),
    3: ("Population in correctional facilities for adults", _span(18, 23), (0, *range(20, 86, 5))),
    4: ("Population in juvenile facilities", _span(24, 26), tuple(range(0, 26, 5))),
    5: ("Population in nursing facilities/skilled-nursing facilities", (27,), (0, *range(25, 86, 5))),
    6: ("Population in other institutional facilities", _span(28, 32), _FIVES),
    7: ("Noninstitutionalized population", _OTHERS, _FIVES),
    8: ("Population in college/university student housing", (33,), (0, *range(20, 66, 5))),
    9: ("Population in military quarters", (34, 35), (0, *range(20, 66, 5))),
    10: ("Population in other noninstitutional facilities", _span(36, 41), _FIVES),
}


def _in_combination_iterations() -> dict[str, tuple[str, Levels]]:
    """W to AH: each race alone or in combination, by origin."""
    letters = iter(("W", "X", "Y", "Z", *(f"A{letter}" for letter in "ABCDEFGH")))
    return {
        next(letters): (
            f"{label} alone or in combination, {ORIGINS[level]}",
            {"cenrace": in_combination(race), "hispanic": (level,)},
        )
        for level in range(2)
        for race, label in enumerate(RACES)
    }


_TO_V: Final = iterations_by("cenrace", "hispanic", _SEVERAL)
_TO_I: Final = first(_TO_V, "I")


def dhc_person_tables(schema: Schema) -> tuple[Table, ...]:
    """The tables of persons.

    Args:
        schema: With attributes relgq (42 levels), sex (2), age (single years to 115), hispanic (2) and cenrace (63,
            with its recode numraces), in any order.

    Returns:
        The tables: P, PCT, PCO and H8, each followed by its iterations.

    Raises:
        QueryError: The schema lacks an attribute, some of its levels, or the recode.
    """
    return made(_declared(schema), schema)


def dhc_person_medians(schema: Schema) -> tuple[MedianTable, ...]:
    """The tables of median ages: P13, and P13A to P13I by race and origin.

    Args:
        schema: With attributes sex (2), age (single years to 115), hispanic (2) and cenrace (63), in any order.

    Raises:
        QueryError: The schema lacks an attribute, or some of its levels.
    """
    base = _base("P", 13, "Median age by sex", "Total population", sex_by_age((), {}))
    return tuple(MedianTable.of(table, "age") for table in made(base.and_among(_TO_I), schema))


def _declared(schema: Schema) -> Iterator[Declared]:
    relgq, cenrace = (schema.attributes[schema.axis(name)] for name in ("relgq", "cenrace"))
    everybody, people, adults = Line(0, "Total", {}), "Total population", "Population 18 years and over"
    households, quarters, by_age = "Population in households", "Population in group quarters", "Sex by age"
    origins = tuple(Line(1, label, {"hispanic": (level,)}) for level, label in enumerate(ORIGINS))
    races = tuple(race_lines(cenrace))
    hispanic, not_hispanic = {"hispanic": (1,)}, {"hispanic": (0,)}
    by_origin = (
        everybody,
        Line(1, ORIGINS[1], hispanic),
        Line(1, ORIGINS[0], not_hispanic),
        *(line.within(not_hispanic, indent=1) for line in races),
    )
    origin = "Hispanic or Latino, and not Hispanic or Latino by race"
    yield _base("P", 1, people, people, [everybody])
    yield _base("P", 3, "Race", people, [everybody, *race_lines_alone("cenrace", _SEVERAL, {})])
    yield _base("P", 4, "Hispanic or Latino origin", people, [everybody, *origins])
    by_both = origin_by_race("cenrace", "hispanic", _SEVERAL, {})
    yield _base("P", 5, "Hispanic or Latino origin by race", people, [everybody, *by_both])
    by_race, by_tally = "Race (total races tallied)", "Hispanic or Latino origin by race (total races tallied)"
    yield _base("P", 6, by_race, "Races tallied", races_tallied(RACES))
    yield _base("P", 7, by_tally, "Races tallied", races_tallied_by_origin(RACES))
    yield _base("P", 8, "Race", people, (everybody, *races))
    yield _base("P", 9, origin, people, by_origin)
    yield _base("P", 10, "Race", adults, _among(_ADULTS, (everybody, *races)))
    yield _base("P", 11, origin, adults, _among(_ADULTS, by_origin))
    every = {**_TO_V, **_in_combination_iterations()}
    yield from _base("P", 12, by_age, people, sex_by_age(AGES_OF_P12, {})).and_among(every)
    under_20 = sex_by_age([(age, age) for age in range(20)], {"age": _span(0, 19)})
    yield _base("P", 14, by_age, "Population under 20 years", under_20)
    minors = _ages(1, age_groups(0, 18), _HOUSEHOLDS)
    yield _base("P", 15, "Population in households by age", households, [Line(0, "Total", _HOUSEHOLDS), *minors])
    related = _base("P", 17, "Household or group quarters, and relationship to the householder", people, _related())
    yield related
    by_type = _base("P", 18, "Sex by age by major type of group quarters", quarters, _sex_age_type(_classes()))
    yield by_type
    yield _base("PCT", 8, "Relationship to the householder by age", "Population under 18 years", _minors())
    elders = "Population 65 years and over"
    yield from _base("PCT", 9, "Household or group quarters, and relationship", elders, _elders()).and_among(_TO_I)
    yield _base("PCT", 11, "Age", "Grandchildren of the householder under 18 years", _grandchildren())
    single = _base("PCT", 12, by_age, people, sex_by_age(SINGLE_YEARS, {}))
    yield from single.and_among(first(_TO_V, "O"))
    yield from _base("PCT", 13, by_age, households, sex_by_age(AGES_OF_P12, _HOUSEHOLDS)).and_among(_TO_I)
    yield from related.among(_TO_I, "PCT")
    yield from by_type.among(_TO_I, "PCT")
    yield _base("PCT", 19, "Sex by age by type of group quarters", quarters, _sex_age_type(_types(relgq)))
    for number, (universe, levels, firsts) in _PCO.items():
        yield _base("PCO", number, by_age, universe, sex_by_age(age_groups(*firsts), {"relgq": levels}))
    yield _base("H", 8, "Population in occupied housing units", households, [Line(0, "Total", _HOUSEHOLDS)])


def _base(letters: str, number: int, title: str, universe: str, lines: Iterable[Line]) -> Declared:
    return Declared(letters, number, title, universe, tuple(lines))


def _among(who: Levels, lines: Iterable[Line]) -> Iterator[Line]:
    return (line.within(who) for line in lines)


def _ages(depth: int, ages: _Ages, universe: Levels) -> Iterator[Line]:
    for youngest, oldest in ages:
        yield Line(depth, age_label(youngest, oldest), {**universe, "age": _span(youngest, oldest)})


def _kinds(depth: int, universe: Levels) -> Iterator[Line]:
    for label, levels, _ in _KINDS:
        yield Line(depth, label, {**universe, "relgq": levels})


def _related() -> Iterator[Line]:
    """Members of households, and who lives in group quarters."""
    yield Line(0, "Total", {})
    yield Line(1, "In households", _HOUSEHOLDS)
    yield Line(2, "Householder", {"relgq": (_ALONE, _NOT_ALONE)})
    for level, sex in enumerate(("Male", "Female")):
        yield Line(3, sex, {"relgq": (_ALONE, _NOT_ALONE), "sex": (level,)})
        yield Line(4, "Living alone", {"relgq": (_ALONE,), "sex": (level,)})
        yield Line(4, "Not living alone", {"relgq": (_NOT_ALONE,), "sex": (level,)})
    for label, levels, young in _MEMBERS:
        yield Line(2, label, {"relgq": levels})
        if young:
            yield Line(3, "Under 18 years", {"relgq": levels, **_MINORS})
    yield Line(1, "In group quarters", _QUARTERS)
    yield from _kinds(2, {})


def _sex_age_type(types: Iterable[Line]) -> Iterator[Line]:
    """Group quarters by sex, three ages, and given lines under these."""
    below = tuple(types)
    yield Line(0, "Total", _QUARTERS)
    for sex, of_sex in sex_lines(_QUARTERS):
        yield sex
        for line in _ages(2, _OF_P18, of_sex):
            yield line
            who = {name: line.levels[name] for name in ("sex", "age")}
            yield from (each.within(who, indent=3) for each in below)


def _classes() -> Iterator[Line]:
    for label, levels, classes in _KINDS:
        yield Line(0, label, {"relgq": levels})
        for name, of_class in classes:
            yield Line(1, name, {"relgq": of_class})


def _types(relgq: Attribute) -> Iterator[Line]:
    """The same, and the types of each class that has several."""
    for line in _classes():
        yield line
        levels = line.levels["relgq"]
        if line.depth and len(levels) > 1:
            yield from (Line(2, relgq.levels[level], {"relgq": (level,)}) for level in levels)


def _minors() -> Iterator[Line]:
    yield Line(0, "Total", _MINORS)
    yield Line(1, "In households", {**_HOUSEHOLDS, **_MINORS})
    yield Line(2, "Householder, spouse, or unmarried partner", {"relgq": _span(0, 5), **_MINORS})
    for label, levels in (("Own child", _span(6, 8)), ("Other relative or nonrelative", _span(9, 17))):
        yield Line(2, label, {"relgq": levels, **_MINORS})
        yield from _ages(3, _OF_CHILDREN, {"relgq": levels})
    yield Line(1, "In group quarters", {**_QUARTERS, **_MINORS})
    for line in _kinds(2, _MINORS):
        yield line
        yield from _ages(3, _OF_CHILDREN, {"relgq": line.levels["relgq"]})


def _elders() -> Iterator[Line]:
    yield Line(0, "Total", _ELDERLY)
    yield Line(1, "In households", {**_HOUSEHOLDS, **_ELDERLY})
    yield Line(2, "Householder", {"relgq": (_ALONE, _NOT_ALONE), **_ELDERLY})
    for label, level in (("Living alone", _ALONE), ("Not living alone", _NOT_ALONE)):
        universe = {"relgq": (level,), **_ELDERLY}
        yield Line(3, label, universe)
        yield from (Line(4, sex.label, sex.levels) for sex, _ in sex_lines(universe))
    for label, levels in (
        ("Spouse or unmarried partner", _span(2, 5)),
        ("Parent or parent-in-law", (10, 12)),
        ("Other relative", (*_span(6, 9), 11, 13, 14)),
        ("Nonrelative", _span(15, 17)),
    ):
        yield Line(2, label, {"relgq": levels, **_ELDERLY})
    yield Line(1, "In group quarters", {**_QUARTERS, **_ELDERLY})
    yield from _kinds(2, _ELDERLY)


def _grandchildren() -> Iterator[Line]:
    yield Line(0, "Total", {"relgq": (11,), **_MINORS})
    yield from _ages(1, _OF_GRANDCHILDREN, {"relgq": (11,)})
