"""Tables of Summary File 1 of 2010 that households determine: their types, sizes, children, ages, and householders.

Numbers, titles, universes and names of columns are those of the Census Bureau's file of 2010, but for P20, whose lines
are those of the demonstration (couples and own children), and which became a table of that number in 2020. What needs
tenure, or the people of a household beyond its type, is not here; vacant units are no households (H3).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from das_spark.histogram import Attribute, Schema
from das_spark.tabulation.demographic import lowest_of
from das_spark.tabulation.table import Line, Table

#: Attribute -> levels that count.
_Levels = Mapping[str, tuple[int, ...]]

_OWN_YOUNG, _OWN_OLD, _OWN_BOTH = "Under 6 years only", "6 to 17 years only", "Under 6 years and 6 to 17 years"
#: Levels of hhtype, 24 of them: married couples of two sexes and of one, unmarried likewise, and others.
_MARRIED: Final = tuple(range(8))
_COHABITING: Final = tuple(range(8, 18))
_WITHOUT_PARTNER: Final = tuple(range(18, 24))
_ALONE: Final = (18,)
_NOT_ALONE: Final = (*range(18), *range(19, 24))
_UNRELATED: Final = (12, 17, 23)
_NONFAMILY: Final = (12, 17, 18, 23)
_FAMILY: Final = tuple(each for each in range(24) if each not in _NONFAMILY)
_OTHER_FAMILY: Final = tuple(each for each in _FAMILY if each not in _MARRIED)
#: With own children under 18: all, and by their ages.
_OWN: Final = (*range(3), *range(4, 7), *range(8, 11), *range(13, 16), *range(19, 22))
_BY_AGES: Final = {_OWN_YOUNG: (0, 4, 8, 13, 19), _OWN_BOTH: (2, 6, 10, 15, 21), _OWN_OLD: (1, 5, 9, 14, 20)}
_SEXES: Final = ((0, "Male householder"), (1, "Female householder"))
_OVER_65: Final = (6, 7, 8)
_SIZES: Final = range(1, 8)
_LARGEST: Final = 7


def household_tables(schema: Schema) -> tuple[Table, ...]:
    """The tables of households.

    Args:
        schema: With attributes hhsex (2 levels), hhage (9), hisp (2), hhrace (7), size (8, from 0), hhtype (24),
            elderly (4) and multi (2), in any order.

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
    hhrace, hhage = (schema.attributes[schema.axis(name)] for name in ("hhrace", "hhage"))
    households, by_type = "Households", "by household type"
    by_origin = "Hispanic or Latino origin of householder by race of householder"
    yield _base("P", 15, by_origin, households, _by_origin(hhrace))
    yield from _iterated("P", 18, "Household type", households, _types())
    size = "Household size by household type by presence of own children"
    yield _base("P", 19, size, households, _sizes_and_children())
    yield _base("P", 20, "Couples and own children, as the demonstration has them", households, _couples())
    yield _base("P", 22, "Household type by age of householder", households, _by_age(hhage))
    who = "Households by presence of people {} years and over"
    yield _base("P", 23, f"{who.format(60)} {by_type}", households, _presence_by_type((1, 2, 3), 60))
    for number, age, levels in ((24, 60, (1, 2, 3)), (25, 65, (2, 3)), (26, 75, (3,))):
        title = f"{who.format(age)}, household size, and household type"
        yield _base("P", number, title, households, _presence_by_size(levels, age))
    yield from _iterated("P", 28, "Household type by household size", households, _by_size())
    children = "Family type by presence and age of own children"
    yield from _iterated("P", 38, children, "Families", _families())
    multigenerational = "Presence of multigenerational households"
    yield from _iterated("PCT", 14, multigenerational, households, _generations())
    yield _base("PCT", 15, "Husband-wife and unmarried partner households by sex of partners", households, _pairs())
    alone = "Nonfamily households by sex of householder by living alone by age of householder"
    yield _base("PCT", 18, alone, "Nonfamily households", _nonfamilies())
    occupied = "Occupied housing units"
    yield _base("H", 6, "Race of householder", occupied, [Line(0, "Total", {}), *_races(hhrace, {})])
    yield _base("H", 7, by_origin, occupied, _by_origin(hhrace))
    yield _base("H", 13, "Household size", occupied, [Line(0, "Total", {}), *_of_sizes(1, {}, _SIZES)])


def _base(letters: str, number: int, title: str, universe: str, lines: Iterable[Line]) -> _Declared:
    return f"{letters}{number}", title, universe, f"{letters}{number:03d}", lines, 4


_ITERATIONS: Final[Mapping[str, tuple[str, _Levels]]] = {
    "A": ("White alone householder", {"hhrace": (0,)}),
    "B": ("Black or African American alone householder", {"hhrace": (1,)}),
    "C": ("American Indian and Alaska Native alone householder", {"hhrace": (2,)}),
    "D": ("Asian alone householder", {"hhrace": (3,)}),
    "E": ("Native Hawaiian and Other Pacific Islander alone householder", {"hhrace": (4,)}),
    "F": ("Some Other Race alone householder", {"hhrace": (5,)}),
    "G": ("Two or More Races householder", {"hhrace": (6,)}),
    "H": ("Hispanic or Latino householder", {"hisp": (1,)}),
    "I": ("White alone, not Hispanic or Latino householder", {"hhrace": (0,), "hisp": (0,)}),
}


def _iterated(letters: str, number: int, title: str, universe: str, lines: Iterable[Line]) -> Iterator[_Declared]:
    """A table, and nine times more by race or origin of the householder; a letter takes the place of a digit."""
    every = tuple(lines)
    yield _base(letters, number, title, universe, every)
    for letter, (who, levels) in _ITERATIONS.items():
        of = tuple(line.within(levels) for line in every)
        name, prefix = f"{letters}{number}{letter}", f"{letters}{number:03d}{letter}"
        yield name, f"{title} ({who})", f"{universe} with {_article(who)} {who}", prefix, of, 3


def _article(who: str) -> str:
    return "an" if who[0] in "AEIOU" else "a"


def _of(levels: Iterable[int], **more: tuple[int, ...]) -> dict[str, tuple[int, ...]]:
    return {"hhtype": tuple(levels), **more}


def _both(first: tuple[int, ...], second: tuple[int, ...], *, inside: bool = True) -> tuple[int, ...]:
    """Levels of the first that are in the second, or that are not."""
    return tuple(each for each in first if (each in second) == inside)


def _races(hhrace: Attribute, universe: _Levels, depth: int = 1) -> Iterator[Line]:
    for level, label in enumerate(hhrace.levels):
        yield Line(depth, label, {**universe, "hhrace": (level,)})


def _by_origin(hhrace: Attribute) -> Iterator[Line]:
    yield Line(0, "Total", {})
    for level, label in enumerate(("Not Hispanic or Latino", "Hispanic or Latino")):
        yield Line(1, label, {"hisp": (level,)})
        yield from _races(hhrace, {"hisp": (level,)}, 2)


def _types() -> Iterator[Line]:
    yield Line(0, "Total", {})
    yield Line(1, "Family households", _of(_FAMILY))
    yield Line(2, "Husband-wife family", _of(_MARRIED))
    yield Line(2, "Other family", _of(_OTHER_FAMILY))
    for sex, label in _SEXES:
        yield Line(3, f"{label}, no spouse present", _of(_OTHER_FAMILY, hhsex=(sex,)))
    yield Line(1, "Nonfamily households", _of(_NONFAMILY))
    yield Line(2, "Householder living alone", _of(_ALONE))
    yield Line(2, "Householder not living alone", _of(_UNRELATED))


def _own_or_none(depth: int, types: tuple[int, ...], **more: tuple[int, ...]) -> Iterator[Line]:
    yield Line(depth, "With own children under 18 years", _of(_both(types, _OWN), **more))
    yield Line(depth, "No own children under 18 years", _of(_both(types, _OWN, inside=False), **more))


def _sizes_and_children() -> Iterator[Line]:
    yield Line(0, "Total", {})
    yield Line(1, "1-person household", _of(_ALONE))
    for sex, label in _SEXES:
        yield Line(2, label, _of(_ALONE, hhsex=(sex,)))
    yield Line(1, "2-or-more-person household", _of(_NOT_ALONE))
    yield Line(2, "Family households", _of(_FAMILY))
    yield Line(3, "Husband-wife family", _of(_MARRIED))
    yield from _own_or_none(4, _MARRIED)
    yield Line(3, "Other family", _of(_OTHER_FAMILY))
    for sex, label in _SEXES:
        yield Line(4, f"{label}, no spouse present", _of(_OTHER_FAMILY, hhsex=(sex,)))
        yield from _own_or_none(5, _OTHER_FAMILY, hhsex=(sex,))
    yield Line(2, "Nonfamily households", _of(_UNRELATED))
    for sex, label in _SEXES:
        yield Line(3, label, _of(_UNRELATED, hhsex=(sex,)))


def _couples() -> Iterator[Line]:
    yield Line(0, "Total", {})
    for label, types in (("Married couple household", _MARRIED), ("Cohabiting couple household", _COHABITING)):
        yield Line(1, label, _of(types))
        yield from _own_or_none(2, types)
    for sex, label in _SEXES:
        of_sex = {"hhsex": (sex,)}
        yield Line(1, f"{label}, no spouse or partner present", _of(_WITHOUT_PARTNER, **of_sex))
        yield Line(2, "Living alone", _of(_ALONE, **of_sex))
        yield Line(3, "65 years and over", _of(_ALONE, **of_sex, hhage=_OVER_65))
        yield Line(2, "With own children under 18 years", _of(_both(_WITHOUT_PARTNER, _OWN), **of_sex))
        yield Line(2, "With relatives, no own children under 18 years", _of((22,), **of_sex))
        yield Line(2, "No relatives present, not living alone", _of((23,), **of_sex))


def _by_age(hhage: Attribute) -> Iterator[Line]:
    yield Line(0, "Total", {})
    for label, types in (("Family households", _FAMILY), ("Nonfamily households", _NONFAMILY)):
        yield Line(1, label, _of(types))
        for level, age in enumerate(hhage.levels):
            yield Line(2, age, _of(types, hhage=(level,)))


def _presence(levels: tuple[int, ...], age: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    others = tuple(each for each in range(4) if each not in levels)
    yield f"Households with one or more people {age} years and over", levels
    yield f"Households with no people {age} years and over", others


def _presence_by_type(levels: tuple[int, ...], age: int) -> Iterator[Line]:
    yield Line(0, "Total", {})
    for label, elderly in _presence(levels, age):
        yield Line(1, label, {"elderly": elderly})
        yield Line(2, "Family households", _of(_FAMILY, elderly=elderly))
        yield Line(3, "Husband-wife family", _of(_MARRIED, elderly=elderly))
        yield Line(3, "Other family", _of(_OTHER_FAMILY, elderly=elderly))
        for sex, householder in _SEXES:
            line = f"{householder}, no spouse present"
            yield Line(4, line, _of(_OTHER_FAMILY, elderly=elderly, hhsex=(sex,)))
        yield Line(2, "Nonfamily households", _of(_NONFAMILY, elderly=elderly))


def _presence_by_size(levels: tuple[int, ...], age: int) -> Iterator[Line]:
    yield Line(0, "Total", {})
    for label, elderly in _presence(levels, age):
        yield Line(1, label, {"elderly": elderly})
        yield Line(2, "1-person household", _of(_ALONE, elderly=elderly))
        yield Line(2, "2-or-more-person household", _of(_NOT_ALONE, elderly=elderly))
        yield Line(3, "Family households", _of(_FAMILY, elderly=elderly))
        yield Line(3, "Nonfamily households", _of(_UNRELATED, elderly=elderly))


def _of_sizes(depth: int, universe: _Levels, sizes: Iterable[int]) -> Iterator[Line]:
    for size in sizes:
        more = "-or-more" if size == _LARGEST else ""
        yield Line(depth, f"{size}{more}-person household", {**universe, "size": (size,)})


def _by_size() -> Iterator[Line]:
    yield Line(0, "Total", {})
    yield Line(1, "Family households", _of(_FAMILY))
    yield from _of_sizes(2, _of(_FAMILY), _SIZES[1:])
    yield Line(1, "Nonfamily households", _of(_NONFAMILY))
    yield from _of_sizes(2, _of(_NONFAMILY), _SIZES)


def _ages_of_children(depth: int, types: tuple[int, ...], **more: tuple[int, ...]) -> Iterator[Line]:
    own, none = _own_or_none(depth, types, **more)
    yield own
    for label, levels in _BY_AGES.items():
        yield Line(depth + 1, label, _of(_both(types, levels), **more))
    yield none


def _families() -> Iterator[Line]:
    yield Line(0, "Total", _of(_FAMILY))
    yield Line(1, "Husband-wife family", _of(_MARRIED))
    yield from _ages_of_children(2, _MARRIED)
    yield Line(1, "Other family", _of(_OTHER_FAMILY))
    for sex, label in _SEXES:
        yield Line(2, f"{label}, no spouse present", _of(_OTHER_FAMILY, hhsex=(sex,)))
        yield from _ages_of_children(3, _OTHER_FAMILY, hhsex=(sex,))


def _generations() -> Iterator[Line]:
    yield Line(0, "Total", {})
    yield Line(1, "Household has three or more generations", {"multi": (1,)})
    yield Line(1, "Household does not have three or more generations", {"multi": (0,)})


def _pairs() -> Iterator[Line]:
    yield Line(0, "Total", {})
    for label, opposite, same in (
        ("Husband-wife households", tuple(range(4)), tuple(range(4, 8))),
        ("Unmarried-partner households", tuple(range(8, 13)), tuple(range(13, 18))),
    ):
        yield Line(1, label, _of((*opposite, *same)))
        yield Line(2, "Opposite-sex", _of(opposite))
        yield Line(2, "Same-sex", _of(same))
        for sex, householder in _SEXES:
            yield Line(3, householder, _of(same, hhsex=(sex,)))
    yield Line(1, "All other households", _of(_WITHOUT_PARTNER))


def _nonfamilies() -> Iterator[Line]:
    yield Line(0, "Total", _of(_NONFAMILY))
    for sex, label in _SEXES:
        yield Line(1, label, _of(_NONFAMILY, hhsex=(sex,)))
        for kind, types in (("Living alone", _ALONE), ("Not living alone", _UNRELATED)):
            yield Line(2, kind, _of(types, hhsex=(sex,)))
            yield Line(3, "Householder 15 to 64 years", _of(types, hhsex=(sex,), hhage=tuple(range(6))))
            yield Line(3, "Householder 65 years and over", _of(types, hhsex=(sex,), hhage=_OVER_65))
