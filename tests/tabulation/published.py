"""What the redistricting tables are, written down a second time: predicates on the labels of levels, in order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

RACES = (
    "White",
    "Black or African American",
    "American Indian and Alaska Native",
    "Asian",
    "Native Hawaiian and Other Pacific Islander",
    "Some Other Race",
)
INSTITUTIONS = (
    "Correctional facilities for adults",
    "Juvenile facilities",
    "Nursing facilities/Skilled-nursing facilities",
    "Other institutional facilities",
)
OTHERS = ("College/University student housing", "Military quarters", "Other noninstitutional facilities")

#: From the labels of a cell, by attribute, to whether it counts.
Predicate = Callable[[dict[str, str]], bool]


def races_of(labels: dict[str, str]) -> frozenset[str]:
    return frozenset(labels["cenrace"].split("-"))


def race_predicates() -> Iterator[Predicate]:
    """The 70 race columns: 2 to 71 of P1, 4 to 73 of P2."""
    yield lambda labels: len(races_of(labels)) == 1
    for race in RACES:
        yield lambda labels, race=race: races_of(labels) == {race}
    yield lambda labels: len(races_of(labels)) >= 2
    for number in range(2, 7):
        yield lambda labels, number=number: len(races_of(labels)) == number
        for chosen in combinations(RACES, number):
            yield lambda labels, chosen=frozenset(chosen): races_of(labels) == chosen


def hispanic(labels: dict[str, str]) -> bool:
    return labels["hispanic"] == "Hispanic or Latino"


def adult(labels: dict[str, str]) -> bool:
    return labels["votingage"] == "18 and over"


def both(*predicates: Predicate) -> Predicate:
    return lambda labels: all(predicate(labels) for predicate in predicates)


def everyone(_: dict[str, str]) -> bool:
    return True


def not_hispanic(labels: dict[str, str]) -> bool:
    return not hispanic(labels)


def one_of(kinds: tuple[str, ...]) -> Predicate:
    return lambda labels: labels["hhgq"] in kinds


def published_columns() -> dict[str, Predicate]:
    """Every column of P1 to P5 by its name."""
    by_race = [everyone, *race_predicates()]
    by_origin = [everyone, hispanic, not_hispanic, *(both(not_hispanic, predicate) for predicate in race_predicates())]
    quarters: list[Any] = [one_of(INSTITUTIONS + OTHERS), one_of(INSTITUTIONS)]
    quarters += [one_of((kind,)) for kind in INSTITUTIONS]
    quarters += [one_of(OTHERS), *(one_of((kind,)) for kind in OTHERS)]
    tables = {
        "P001": by_race,
        "P002": by_origin,
        "P003": [both(adult, each) for each in by_race],
        "P004": [both(adult, each) for each in by_origin],
        "P005": quarters,
    }
    return {
        f"{prefix}{number:04d}": predicate
        for prefix, predicates in tables.items()
        for number, predicate in enumerate(predicates, start=1)
    }
