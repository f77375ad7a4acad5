"""The 63 race groups of the census: every non-empty set of six races, and its recodes."""

from __future__ import annotations

from itertools import combinations
from typing import Final

from das_spark.histogram import Attribute, Recode

#: Short and full names of the six races, in the order of the codes.
RACES: Final = {
    "white": "White",
    "black": "Black or African American",
    "aian": "American Indian and Alaska Native",
    "asian": "Asian",
    "nhopi": "Native Hawaiian and Other Pacific Islander",
    "sor": "Some Other Race",
}

#: The races (0-5) of each level: by number of races, then in the order of the positions.
_RACE_SETS: Final = tuple(races for size in range(1, 7) for races in combinations(range(6), size))

_SHORT: Final = tuple(RACES)
_FULL: Final = tuple(RACES.values())
_ALONE: Final = tuple((race,) for race in range(6))
_SEVERAL: Final = tuple(range(6, 63))


def _alone_and_rest(names: tuple[str, ...], rest: str) -> tuple[tuple[str, tuple[int, ...]], ...]:
    return (*zip(names, _ALONE, strict=True), (rest, _SEVERAL))


def _number_of_races() -> Recode:
    groups = []
    for size in range(1, 7):
        levels = tuple(level for level, races in enumerate(_RACE_SETS) if len(races) == size)
        groups.append((f"{size} Race{'s' if size > 1 else ''}", levels))
    return Recode("numraces", tuple(groups), title="number of races")


def _alone_or_with_white() -> Recode:
    """Each race alone or together with White; every other combination in a last group."""
    white = _RACE_SETS.index((0,))
    groups: list[tuple[str, tuple[int, ...]]] = [(_SHORT[0], (white,))]
    for race in range(1, 6):
        groups.append((_SHORT[race], (_RACE_SETS.index((race,)), _RACE_SETS.index((0, race)))))
    taken = {level for _, levels in groups for level in levels}
    rest = tuple(level for level in range(len(_RACE_SETS)) if level not in taken)
    return Recode("cenrace_7lev_two_comb", (*groups, ("Two or more races", rest)), title="race with pairs of two")


def _eleven_categories() -> Recode:
    pairs = ((0, 1), (0, 2), (0, 3), (1, 2))
    labels = (
        "Black or African American and White",
        "American Indian and Alaska Native and White",
        "Asian and White",
        "American Indian and Alaska Native and Black or African American",
    )
    groups = [(f"{name} alone", alone) for name, alone in zip(_FULL, _ALONE, strict=True)]
    groups += [(label, (_RACE_SETS.index(pair),)) for label, pair in zip(labels, pairs, strict=True)]
    taken = {level for _, levels in groups for level in levels}
    rest = tuple(level for level in range(len(_RACE_SETS)) if level not in taken)
    return Recode("cenrace11cats", (*groups, ("Balance/remainder", rest)), title="race in eleven groups")


def _alone_or_in_combination(race: int) -> Recode:
    levels = tuple(level for level, races in enumerate(_RACE_SETS) if race in races)
    return Recode(f"{_SHORT[race]}combo", ((f"{_FULL[race]} alone or in combination", levels),))


CENRACE: Final = Attribute(
    "cenrace",
    tuple("-".join(_FULL[race] for race in races) for races in _RACE_SETS),
    (
        Recode(
            "majorRaces",
            _alone_and_rest(tuple(f"{name} alone" for name in _FULL), "Two or More Races"),
            title="race in seven groups",
        ),
        Recode("race7lev", _alone_and_rest(_SHORT, "Two or more races"), title="race in seven groups (short names)"),
        _alone_or_with_white(),
        _eleven_categories(),
        _number_of_races(),
        Recode("allraces", tuple(zip(_SHORT, _ALONE, strict=True)), title="race alone"),
        Recode("tomr", (("Two or more races", _SEVERAL),)),
        *(_alone_or_in_combination(race) for race in range(6)),
        *(Recode(f"{_SHORT[race]}Alone", ((f"{_FULL[race]} alone", (race,)),)) for race in range(6)),
    ),
    title="race",
)
