"""What the unit record of a household says of its members: size, householder, couple, family, children, the elderly.

Codes are those of the census edited file of 2020 (:mod:`das_spark.io.cef`), where 0 is "not in the universe": couples
of households of two and more, generations of three and more. Which relatives make three generations follows from
relationships to the householder alone: parents above, own children, children-in-law and grandchildren below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation.population import Counts

Flags = NDArray[np.bool_]

HOUSEHOLDER: Final = 20
SPOUSE, PARTNER, SAME_SEX_SPOUSE, SAME_SEX_PARTNER = 21, 22, 23, 24
CHILD, ADOPTED_CHILD, STEPCHILD = 25, 26, 27
SIBLING, PARENT, GRANDCHILD, PARENT_IN_LAW, CHILD_IN_LAW, OTHER_RELATIVE = 28, 29, 30, 31, 32, 33
ROOMMATE, FOSTER_CHILD, OTHER_NONRELATIVE = 34, 35, 36
"""Codes of RELSHIP in households."""

_COUPLES: Final = (SPOUSE, SAME_SEX_SPOUSE, PARTNER, SAME_SEX_PARTNER)
"""Who makes a couple with the householder, in the order of the codes of CPLT, from 1."""

_OWN: Final = (CHILD, ADOPTED_CHILD, STEPCHILD)
_RELATIVES: Final = (SPOUSE, SAME_SEX_SPOUSE, *range(CHILD, OTHER_RELATIVE + 1))
_ADULT, _SCHOOL = 18, 6
_NO_COUPLE, _NO_CHILDREN = 5, 4
_MAJOR_RACES = 6


def household_fields(
    home: Counts, relationship: Counts, woman: Counts, age: Counts, hispanic: Counts, race: Counts
) -> Mapping[str, Counts]:
    """Derive fields of unit records from the members of households.

    Args:
        home: Household of each person, from 0 without gaps, ascending, (n,).
        relationship: RELSHIP, 20 to 36, one householder a household, (n,).
        woman: 0 or 1, (n,).
        age: Years, (n,).
        hispanic: 0 or 1, (n,).
        race: 0 to 62, (n,).

    Returns:
        Name of each field as in the record -> its codes or numbers, (households,).
    """
    homes = int(home[-1]) + 1 if len(home) else 0

    def number(members: Flags) -> Counts:
        return np.bincount(home[members], minlength=homes).astype(np.int64)

    def some(members: Flags) -> Flags:
        return number(members) > 0

    size = number(np.ones(len(home), dtype=bool))
    head = np.flatnonzero(relationship == HOUSEHOLDER)
    female = woman[head]
    couple = np.select([some(relationship == couple) for couple in _COUPLES], [1, 2, 3, 4], _NO_COUPLE)
    married, coupled = couple <= 2, couple < _NO_COUPLE  # noqa: PLR2004 - the first two of them
    minor = age < _ADULT
    own = np.isin(relationship, _OWN)
    of_own = _children(some(own & minor & (age < _SCHOOL)), some(own & minor & (age >= _SCHOOL)))
    child = minor & (relationship != HOUSEHOLDER) & ~np.isin(relationship, _COUPLES)
    of_all = _children(some(child & (age < _SCHOOL)), some(child & (age >= _SCHOOL)))
    family = some(np.isin(relationship, _RELATIVES))
    alone = size == 1
    with_own = of_own < _NO_CHILDREN
    of_couple = 1 + 2 * ~married + ~with_own
    of_others = np.select([alone, with_own, family], [0, 1, 2], 3)
    same = (couple == 2) | (couple == 4)  # noqa: PLR2004 - the same-sex couples
    unmarried = 1 + 2 * female + ~same
    return {
        "FINAL_POP": size,
        "HHLDRAGE": age[head],
        "HHSPAN": 1 + hispanic[head],
        "HHLDRACE": 1 + np.minimum(race[head], _MAJOR_RACES - 1),
        "HHRACE": 1 + race[head],
        "HHSEX": 1 + female,
        "HHT": np.select([married, family], [1, 2 + female], 4 + 2 * female + ~alone),
        "HHT2": np.where(coupled, of_couple, np.where(female == 1, 5, 9) + of_others),
        "CPLT": np.where(alone, 0, couple),
        "UPART": np.select([alone, coupled & ~married], [0, unmarried], _NO_COUPLE),
        "MULTG": np.where(size > 2, 1 + _generations(some, relationship), 0),  # noqa: PLR2004 - its universe
        "PAOC": of_own,
        "PAC": of_all,
        **{f"P{limit}": number(age >= limit) for limit in (60, 65, 75)},
        "P18": number(minor),
    }


def _children(young: Flags, grown: Flags) -> Counts:
    """Code of the ages of children: under 6 alone, 6 to 17 alone, both, none."""
    return np.select([young & grown, young, grown], [3, 1, 2], _NO_CHILDREN).astype(np.int64)


def _generations(some: Callable[[Flags], Flags], relationship: Counts) -> Flags:
    """Whether three generations live there."""
    above = some(np.isin(relationship, (PARENT, PARENT_IN_LAW)))
    below = some(np.isin(relationship, (*_OWN, CHILD_IN_LAW)))
    grandchild = some(relationship == GRANDCHILD)
    three: Flags = (above & (below | grandchild)) | (below & grandchild)
    return three
