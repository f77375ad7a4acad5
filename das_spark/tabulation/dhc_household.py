"""Tables of the 2020 Demographic and Housing Characteristics that households determine: 28, and 89 by race and origin.

Numbers, universes and names of columns are those of the Census Bureau's file. Races and origins are those of the
householder. Tenure of whom owns is with a mortgage or without; whom else the household rents from, or whether it pays,
households do not tell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from das_spark.histogram import Schema
from das_spark.tabulation._dhc import (
    Declared,
    Levels,
    first,
    iterations_by,
    made,
    origin_by_race,
    race_lines_alone,
)
from das_spark.tabulation.household_types import BOTH, COUPLES, FROM_6, LARGEST, UNDER_6, HouseholdType, levels
from das_spark.tabulation.table import Line, Table
from das_spark.tabulation.tallies import ORIGINS

_SEVERAL: Final = (6,)
_SEXES: Final = ((0, "Male householder"), (1, "Female householder"))
_TYPE, _SEX, _AGE, _TENURE, _OLDEST = "hhtype_dhch", "sex", "hhage", "hhtenshort_3lev", "elderly"
#: Label of a tenure, and its levels.
_TENURES: Final = (("Owner occupied", (0, 1)), ("Renter occupied", (2,)))
_AGES_OF_H14: Final = (("15 to 34 years", (0, 1)), ("35 to 64 years", (2, 3, 4, 5)), ("65 years and over", (6, 7, 8)))
_AGES_OF_PCT16: Final = (
    ("Householder 15 to 64 years", (0, 1, 2, 3, 4, 5)),
    ("Householder 65 years and over", (6, 7, 8)),
)

_Rule = Callable[[HouseholdType], bool]
_ALONE: Final = levels(lambda each: each.alone)
_NOT_ALONE: Final = levels(lambda each: not each.alone)
_FAMILY: Final = levels(lambda each: each.relatives)
_NONFAMILY: Final = levels(lambda each: not each.relatives)
_UNRELATED: Final = levels(lambda each: not each.relatives and not each.alone)
_MARRIED: Final = levels(lambda each: each.married)
_OTHER_FAMILY: Final = levels(lambda each: each.relatives and not each.married)
_COHABITING: Final = levels(lambda each: each.cohabiting)
_WITHOUT_PARTNER: Final = levels(lambda each: not each.coupled)
_MINOR: Final = levels(lambda each: each.minor)
_NO_MINOR: Final = levels(lambda each: not each.minor)
_GENERATIONS: Final = levels(lambda each: each.generations)
_FEWER_GENERATIONS: Final = levels(lambda each: not each.generations)
_OWN: Final = levels(lambda each: each.own_children > 0)
_NO_OWN: Final = levels(lambda each: not each.own_children)
#: Ages of children, in the order of the lines.
_CHILDREN: Final = (
    ("Under 6 years only", UNDER_6),
    ("Under 6 years and 6 to 17 years", BOTH),
    ("6 to 17 years only", FROM_6),
)


def _of(types: Iterable[int], **more: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {_TYPE: tuple(types), **more}


def _both(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Types that are in two sets."""
    return tuple(sorted(set(first) & set(second)))


_TO_V: Final = iterations_by("race", "hisp", _SEVERAL, "householder")
_TO_I: Final = first(_TO_V, "I")


def dhc_household_tables(schema: Schema) -> tuple[Table, ...]:
    """The tables of households.

    Args:
        schema: With attributes sex (2 levels), hhage (9), hisp (2), race (7), elderly (4), hhtenshort_3lev (3) and
            hhtype_dhch (522), in any order.

    Returns:
        The tables: P, PCT, H and HCT, each followed by its iterations.

    Raises:
        QueryError: The schema lacks an attribute, or some of its levels.
    """
    return made(_declared(schema), schema)


def _declared(schema: Schema) -> Iterator[Declared]:
    ages = schema.attributes[schema.axis(_AGE)].levels
    households, occupied, children = "Households", "Occupied housing units", "presence and ages of children"
    by_origin = "Hispanic or Latino origin of householder by race of householder"
    yield from _base("P", 16, "Household type", households, _types()).and_among(_TO_V)
    who = "Households by presence of people {} years and over, household size, and household type"
    yield _base("P", 19, who.format(65), households, _presence_by_size((2, 3), 65))
    yield _base("P", 20, "Couples, sex of householders without one, and own children", households, _couples())
    yield _base("P", 21, "Presence of people under 18 years by household type", households, _by_minors())
    every = tuple(origin_by_race("race", "hisp", _SEVERAL, {}))
    yield _base("PCT", 1, by_origin, households, (_TOTAL, *every))
    size = "Household size by household type by presence of own children"
    yield _base("PCT", 2, size, households, _sizes_and_children())
    yield _base("PCT", 3, "Household type by age of householder", households, _by_age(ages))
    sixty = "Households by presence of people 60 years and over by household type"
    yield _base("PCT", 4, sixty, households, _presence_by_type((1, 2, 3), 60))
    yield _base("PCT", 5, who.format(60), households, _presence_by_size((1, 2, 3), 60))
    yield _base("PCT", 6, who.format(75), households, _presence_by_size((3,), 75))
    yield from _base("PCT", 7, "Household type by household size", households, _by_size()).and_among(_TO_I)
    families = _base("PCT", 10, "Family type by presence and ages of own children", "Families", _families())
    yield from families.and_among(_TO_I)
    yield from _base("PCT", 14, "Multigenerational households", households, _multigenerational()).and_among(_TO_I)
    yield _base("PCT", 15, "Couples by sex of the partners", households, _pairs())
    alone = "Sex of householder by living alone by age of householder"
    yield _base("PCT", 16, alone, "Nonfamily households", _nonfamilies())
    yield from _base("H", 4, "Tenure", occupied, _tenures()).and_among(_TO_V)
    yield _base("H", 6, "Race of householder", occupied, [_TOTAL, *race_lines_alone("race", _SEVERAL, {})])
    yield _base("H", 7, by_origin, occupied, (_TOTAL, *every))
    yield _base("H", 9, "Household size", occupied, [_TOTAL, *_of_sizes(1, {})])
    races = list(race_lines_alone("race", _SEVERAL, {}))
    yield _base("H", 10, "Tenure by race of householder", occupied, _by_tenure(races))
    origins = [Line(1, label, {"hisp": (level,)}) for level, label in enumerate(ORIGINS)]
    yield _base("H", 11, "Tenure by Hispanic or Latino origin of householder", occupied, _by_tenure(origins))
    sizes = _base("H", 12, "Tenure by household size", occupied, _by_tenure(_of_sizes(1, {})))
    yield from sizes.and_among(_TO_I)
    of_ages = _base("H", 13, "Tenure by age of householder", occupied, _by_tenure(_of_ages(1, ages, {})))
    yield from of_ages.and_among(_TO_I)
    types = "Tenure by household type by age of householder"
    yield _base("H", 14, types, occupied, _by_tenure(_types_and_ages()))
    others = "Tenure by presence of people under 18 years other than householder, spouse, and unmarried partner"
    with_or_without = (line for line in _ages_of_children(_any) if line.depth == 1)
    yield _base("H", 15, others, occupied, _by_tenure(with_or_without))
    yield _base("HCT", 1, f"Tenure by {by_origin}", occupied, _by_tenure(every))
    yield _base("HCT", 2, f"Tenure by {children} of the householder", occupied, _by_tenure(_ages_of_children(_own)))
    but = "other than householder, spouse, and unmarried partner"
    yield _base("HCT", 3, f"Tenure by {children} {but}", occupied, _by_tenure(_ages_of_children(_any)))


_TOTAL: Final = Line(0, "Total", {})


def _base(letters: str, number: int, title: str, universe: str, lines: Iterable[Line]) -> Declared:
    return Declared(letters, number, title, universe, tuple(lines))


def _types() -> Iterator[Line]:
    yield _TOTAL
    yield Line(1, "Family households", _of(_FAMILY))
    yield Line(2, "Married couple family", _of(_MARRIED))
    yield from _other_family(2)
    yield Line(1, "Nonfamily households", _of(_NONFAMILY))
    yield Line(2, "Householder living alone", _of(_ALONE))
    yield Line(2, "Householder not living alone", _of(_UNRELATED))


def _other_family(depth: int, **more: tuple[int, ...]) -> Iterator[Line]:
    yield Line(depth, "Other family", _of(_OTHER_FAMILY, **more))
    for sex, label in _SEXES:
        yield Line(depth + 1, f"{label}, no spouse present", _of(_OTHER_FAMILY, sex=(sex,), **more))


def _presence(oldest: tuple[int, ...], age: int) -> Iterator[tuple[str, dict[str, tuple[int, ...]]]]:
    yield f"Households with one or more people {age} years and over", {_OLDEST: oldest}
    others = tuple(each for each in range(4) if each not in oldest)
    yield f"Households with no people {age} years and over", {_OLDEST: others}


def _presence_by_size(oldest: tuple[int, ...], age: int) -> Iterator[Line]:
    yield _TOTAL
    for label, who in _presence(oldest, age):
        yield Line(1, label, who)
        yield Line(2, "1-person household", _of(_ALONE, **who))
        yield Line(2, "2-or-more-person household", _of(_NOT_ALONE, **who))
        yield Line(3, "Family households", _of(_FAMILY, **who))
        yield Line(3, "Nonfamily households", _of(_UNRELATED, **who))


def _presence_by_type(oldest: tuple[int, ...], age: int) -> Iterator[Line]:
    yield _TOTAL
    for label, who in _presence(oldest, age):
        yield Line(1, label, who)
        yield Line(2, "Family households", _of(_FAMILY, **who))
        yield Line(3, "Married couple family", _of(_MARRIED, **who))
        yield from _other_family(3, **who)
        yield Line(2, "Nonfamily households", _of(_NONFAMILY, **who))


def _own_or_none(depth: int, types: tuple[int, ...], **more: tuple[int, ...]) -> Iterator[Line]:
    yield Line(depth, "With own children under 18 years", _of(_both(types, _OWN), **more))
    yield Line(depth, "No own children under 18 years", _of(_both(types, _NO_OWN), **more))


def _couples() -> Iterator[Line]:
    yield _TOTAL
    for label, types in (("Married couple household", _MARRIED), ("Cohabiting couple household", _COHABITING)):
        yield Line(1, label, _of(types))
        yield from _own_or_none(2, types)
    related = _both(_both(_WITHOUT_PARTNER, _FAMILY), _NO_OWN)
    for sex, label in _SEXES:
        of_sex = {_SEX: (sex,)}
        yield Line(1, f"{label}, no spouse or partner present", _of(_WITHOUT_PARTNER, **of_sex))
        yield Line(2, "Living alone", _of(_ALONE, **of_sex))
        yield Line(3, "65 years and over", _of(_ALONE, **of_sex, hhage=(6, 7, 8)))
        yield Line(2, "With own children under 18 years", _of(_both(_WITHOUT_PARTNER, _OWN), **of_sex))
        yield Line(2, "With relatives, no own children under 18 years", _of(related, **of_sex))
        unrelated = _both(_WITHOUT_PARTNER, _UNRELATED)
        yield Line(2, "No relatives present, not living alone", _of(unrelated, **of_sex))


def _by_minors() -> Iterator[Line]:
    yield _TOTAL
    for label, types in (
        ("Households with one or more people under 18 years", _MINOR),
        ("Households with no people under 18 years", _NO_MINOR),
    ):
        yield Line(1, label, _of(types))
        yield Line(2, "Family households", _of(_both(types, _FAMILY)))
        yield Line(2, "Nonfamily households", _of(_both(types, _NONFAMILY)))


def _sizes_and_children() -> Iterator[Line]:
    yield _TOTAL
    yield Line(1, "1-person household", _of(_ALONE))
    yield from (Line(2, label, _of(_ALONE, sex=(sex,))) for sex, label in _SEXES)
    yield Line(1, "2-or-more-person household", _of(_NOT_ALONE))
    yield Line(2, "Family households", _of(_FAMILY))
    yield Line(3, "Married couple family", _of(_MARRIED))
    yield from _own_or_none(4, _MARRIED)
    yield Line(3, "Other family", _of(_OTHER_FAMILY))
    for sex, label in _SEXES:
        yield Line(4, f"{label}, no spouse present", _of(_OTHER_FAMILY, sex=(sex,)))
        yield from _own_or_none(5, _OTHER_FAMILY, sex=(sex,))
    yield Line(2, "Nonfamily households", _of(_UNRELATED))
    yield from (Line(3, label, _of(_UNRELATED, sex=(sex,))) for sex, label in _SEXES)


def _of_ages(depth: int, ages: Iterable[str], universe: Levels) -> Iterator[Line]:
    for level, age in enumerate(ages):
        yield Line(depth, age, {**universe, _AGE: (level,)})


def _by_age(ages: Iterable[str]) -> Iterator[Line]:
    every = tuple(ages)
    yield _TOTAL
    for label, types in (("Family households", _FAMILY), ("Nonfamily households", _NONFAMILY)):
        yield Line(1, label, _of(types))
        yield from _of_ages(2, every, _of(types))


def _sized(size: int) -> tuple[int, ...]:
    return levels(lambda each: each.size == size)


def _of_sizes(depth: int, universe: Levels, types: tuple[int, ...] = (), first_size: int = 1) -> Iterator[Line]:
    for size in range(first_size, LARGEST + 1):
        more = "-or-more" if size == LARGEST else ""
        sized = _both(types, _sized(size)) if types else _sized(size)
        yield Line(depth, f"{size}{more}-person household", {**universe, _TYPE: sized})


def _by_size() -> Iterator[Line]:
    yield _TOTAL
    yield Line(1, "Family households", _of(_FAMILY))
    yield from _of_sizes(2, {}, _FAMILY, 2)
    yield Line(1, "Nonfamily households", _of(_NONFAMILY))
    yield from _of_sizes(2, {}, _NONFAMILY)


def _own(each: HouseholdType) -> int:
    return each.own_children


def _any(each: HouseholdType) -> int:
    return each.children


def _ages_of_children(
    of: Callable[[HouseholdType], int], depth: int = 1, types: tuple[int, ...] = (), **more: tuple[int, ...]
) -> Iterator[Line]:
    """With children, by their ages, and without."""

    def chosen(where: _Rule) -> dict[str, tuple[int, ...]]:
        return _of(_both(types, levels(where)) if types else levels(where), **more)

    own = "own children" if of is _own else "children"
    yield Line(depth, f"With {own} under 18 years", chosen(lambda each: of(each) > 0))
    for label, ages in _CHILDREN:
        yield Line(depth + 1, label, chosen(lambda each, ages=ages: of(each) == ages))  # type: ignore[misc]
    yield Line(depth, f"No {own} under 18 years", chosen(lambda each: not of(each)))


def _families() -> Iterator[Line]:
    yield Line(0, "Total", _of(_FAMILY))
    yield Line(1, "Married couple family", _of(_MARRIED))
    yield from _ages_of_children(_own, 2, _MARRIED)
    yield Line(1, "Other family", _of(_OTHER_FAMILY))
    for sex, label in _SEXES:
        yield Line(2, f"{label}, no spouse present", _of(_OTHER_FAMILY, sex=(sex,)))
        yield from _ages_of_children(_own, 3, _OTHER_FAMILY, sex=(sex,))


def _multigenerational() -> Iterator[Line]:
    yield _TOTAL
    yield Line(1, "Household has three or more generations", _of(_GENERATIONS))
    yield Line(1, "Household does not have three or more generations", _of(_FEWER_GENERATIONS))


def _pairs() -> Iterator[Line]:
    yield _TOTAL
    opposite, same, cohabiting_opposite, cohabiting_same, _ = (
        levels(lambda each, place=place: each.couple == place)  # type: ignore[misc]
        for place in range(len(COUPLES))
    )
    for label, types, of_two, of_one in (
        ("Married couple household", _MARRIED, opposite, same),
        ("Cohabiting couple household", _COHABITING, cohabiting_opposite, cohabiting_same),
    ):
        yield Line(1, label, _of(types))
        yield Line(2, "Opposite-sex", _of(of_two))
        yield Line(2, "Same-sex", _of(of_one))
        yield from (Line(3, householder, _of(of_one, sex=(sex,))) for sex, householder in _SEXES)
    yield Line(1, "All other households", _of(_WITHOUT_PARTNER))


def _alone_or_not(depth: int, ages: Iterable[tuple[str, tuple[int, ...]]], **of_sex: tuple[int, ...]) -> Iterator[Line]:
    every = tuple(ages)
    for label, types in (("Living alone", _ALONE), ("Not living alone", _UNRELATED)):
        yield Line(depth, label, _of(types, **of_sex))
        yield from (Line(depth + 1, age, _of(types, **of_sex, hhage=chosen)) for age, chosen in every)


def _nonfamilies() -> Iterator[Line]:
    yield Line(0, "Total", _of(_NONFAMILY))
    for sex, label in _SEXES:
        yield Line(1, label, _of(_NONFAMILY, sex=(sex,)))
        yield from _alone_or_not(2, _AGES_OF_PCT16, sex=(sex,))


def _tenures() -> Iterator[Line]:
    yield _TOTAL
    yield Line(1, "Owned with a mortgage or a loan", {_TENURE: (0,)})
    yield Line(1, "Owned free and clear", {_TENURE: (1,)})
    yield Line(1, "Renter occupied", {_TENURE: (2,)})


def _by_tenure(lines: Iterable[Line]) -> Iterator[Line]:
    """Lines under each tenure."""
    every = tuple(lines)
    yield _TOTAL
    for label, tenure in _TENURES:
        yield Line(1, label, {_TENURE: tenure})
        yield from (line.within({_TENURE: tenure}, indent=1) for line in every)


def _types_and_ages() -> Iterator[Line]:
    """Of H14: family or not, and below three ages of the householder."""
    yield Line(1, "Family households", _of(_FAMILY))
    yield Line(2, "Married couple family", _of(_MARRIED))
    yield from (Line(3, age, _of(_MARRIED, hhage=chosen)) for age, chosen in _AGES_OF_H14)
    yield Line(2, "Other family", _of(_OTHER_FAMILY))
    for sex, label in _SEXES:
        yield Line(3, f"{label}, no spouse present", _of(_OTHER_FAMILY, sex=(sex,)))
        yield from (Line(4, age, _of(_OTHER_FAMILY, sex=(sex,), hhage=chosen)) for age, chosen in _AGES_OF_H14)
    yield Line(1, "Nonfamily households", _of(_NONFAMILY))
    for sex, label in _SEXES:
        yield Line(2, label, _of(_NONFAMILY, sex=(sex,)))
        yield from _alone_or_not(3, _AGES_OF_H14, sex=(sex,))
