"""Households of 2020, member by member: who lives with whom, of which sex, age, origin and race.

A household is first a type (one person; a married or an unmarried couple; nobody's partner) and a size, by the group of
the householder. Householder's age follows type and size; the relationship of every member beside the couple follows
the type and the age of the householder; and the age of a member follows relationship and the age of the householder,
with weights that are 0 where the Demographic and Housing Characteristics have nobody.

Shares of types and sizes are those of the census of 2020. Ages of householders and relationships of members are
percentages of the public use sample of the census of 2010 for Delaware. Spreads of ages are plain distributions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation.census_2020 import origins_and_races
from das_spark.simulation.household_fields import (
    ADOPTED_CHILD,
    CHILD,
    CHILD_IN_LAW,
    FOSTER_CHILD,
    GRANDCHILD,
    HOUSEHOLDER,
    OTHER_NONRELATIVE,
    OTHER_RELATIVE,
    PARENT,
    PARENT_IN_LAW,
    PARTNER,
    ROOMMATE,
    SAME_SEX_PARTNER,
    SAME_SEX_SPOUSE,
    SIBLING,
    SPOUSE,
    STEPCHILD,
)
from das_spark.simulation.population import Counts

Floats = NDArray[np.float64]

AGES: Final = 116
_MARRIED, _COHABITING, _OTHERS, _ALONE = 0, 1, 2, 3
_LARGEST, _MOST = 7, 20
_AMONG_LARGE: Final = 0.42
"""From 7 persons on, how many of the households of a size have one person more."""

_SIZES: Final = np.array(
    [
        [20.5, 9.1, 9.4, 4.6, 1.75, 1.05],
        [3.7, 1.45, 0.9, 0.45, 0.18, 0.12],
        [9.8, 4.65, 2.4, 1.25, 0.57, 0.53],
    ]
)
"""Percentages of all households: married couples, unmarried couples, others, of 2, 3, 4, 5, 6, 7 and more persons."""

_SINGLES: Final = 27.6
"""Percentage of one person."""

_SHARES: Final = np.array([_SINGLES, *_SIZES.ravel()]) / 100
_TYPE_OF: Final = np.array([_ALONE, *np.repeat([_MARRIED, _COHABITING, _OTHERS], _SIZES.shape[1])])
_SIZE_OF: Final = np.array([1, *np.tile(np.arange(2, _LARGEST + 1), 3)])
"""Type and size of each kind of household, of which the shares are above."""

_PERSONS_OF_GROUPS: Final = np.array([2.36, 2.5, 2.85, 2.9, 3.5, 2.9, 2.65, 3.2])
"""Persons per household by the group of the householder."""

_COUPLES_OF_GROUPS: Final = np.array(
    [
        [1.1, 0.45, 0.8, 1.6, 1.1, 1.0, 0.9, 1.0],
        [0.95, 0.85, 1.4, 0.5, 1.1, 1.2, 1.3, 1.3],
        [0.85, 1.5, 1.3, 0.8, 1.1, 1.1, 1.1, 1.1],
        [1.1, 1.25, 1.0, 0.8, 0.8, 0.9, 1.0, 0.65],
    ]
)
"""How often each group has a type of households, as odds."""

TRACT_KINDS: Final = 3
"""Tracts with small, usual and large households."""

_TILT_OF_TRACTS, _SPREAD_OF_SIZES, _ROUNDS = 0.12, 2.1, 100
"""How much more of one person more in either; variance of sizes; rounds of raking."""


def kinds_of_households(groups: Floats) -> Floats:
    """Share of each kind of household among those of a kind of tract and group, raked to the published shares.

    Args:
        groups: Share of each group of people, (8,).

    Returns:
        (3, 8, kinds); each row sums to 1.
    """
    persons = groups / _PERSONS_OF_GROUPS
    rows = np.tile(persons / persons.sum(), (TRACT_KINDS, 1)) / TRACT_KINDS
    tracts = _TILT_OF_TRACTS * (np.arange(TRACT_KINDS) - 1)[:, None, None]
    of_groups = ((_PERSONS_OF_GROUPS - _PERSONS_OF_GROUPS[0]) / _SPREAD_OF_SIZES)[:, None]
    table = _SHARES * _COUPLES_OF_GROUPS[_TYPE_OF].T * np.exp((tracts + of_groups) * _SIZE_OF)
    for _ in range(_ROUNDS):
        table *= (rows / table.sum(axis=2))[:, :, None]
        table *= _SHARES / table.sum(axis=(0, 1))
    shares: Floats = table / table.sum(axis=2, keepdims=True)
    return shares


_BANDS: Final = np.array([15, 25, 35, 45, 55, 60, 65, 75, 85])
_HEADS: Final = np.array(
    [
        [
            [9, 71, 55, 144, 128, 171, 266, 131, 25],
            [16, 139, 199, 311, 130, 82, 83, 34, 6],
            [12, 167, 379, 299, 68, 36, 28, 9, 1],
            [13, 175, 393, 282, 56, 40, 30, 9, 1],
        ],
        [
            [115, 251, 147, 188, 92, 73, 92, 33, 9],
            [142, 313, 216, 200, 57, 38, 26, 5, 3],
            [88, 349, 322, 183, 30, 15, 10, 3, 0],
            [68, 374, 336, 160, 30, 16, 11, 3, 3],
        ],
        [
            [86, 149, 167, 231, 99, 77, 94, 68, 29],
            [104, 175, 254, 225, 68, 53, 65, 43, 12],
            [149, 209, 243, 188, 56, 38, 63, 41, 14],
            [71, 218, 229, 224, 99, 60, 72, 22, 6],
        ],
        [[33, 104, 100, 178, 107, 100, 168, 139, 69]] * 4,
    ],
    dtype=np.float64,
)
"""Of 1,000 households of each type and of 2, 3, 4, 5 and more persons, how many have a householder of each band."""

_RELATIONSHIPS: Final = np.array(
    [
        *(CHILD, ADOPTED_CHILD, STEPCHILD, SIBLING, PARENT, GRANDCHILD, PARENT_IN_LAW, CHILD_IN_LAW, OTHER_RELATIVE),
        *(ROOMMATE, OTHER_NONRELATIVE, FOSTER_CHILD),
    ]
)
_BANDS_OF_MEMBERS: Final = np.array([15, 25, 35, 45, 55, 65, 75])
_MEMBERS: Final = np.array(
    [
        [
            [664, 15, 37, 63, 7, 0, 19, 0, 75, 60, 60, 0],
            [814, 12, 51, 24, 16, 0, 9, 1, 45, 17, 9, 2],
            [845, 14, 54, 7, 14, 10, 12, 2, 24, 8, 7, 4],
            [779, 21, 57, 5, 13, 61, 12, 10, 17, 7, 14, 4],
            [605, 27, 54, 12, 25, 157, 24, 23, 35, 13, 23, 3],
            [497, 25, 36, 15, 42, 265, 15, 29, 33, 6, 35, 1],
            [506, 25, 32, 16, 6, 272, 9, 28, 51, 13, 41, 0],
        ],
        [
            [624, 4, 29, 49, 37, 0, 12, 0, 69, 107, 69, 0],
            [678, 5, 58, 30, 24, 0, 3, 0, 68, 41, 88, 3],
            [689, 14, 98, 14, 16, 18, 5, 0, 25, 20, 97, 4],
            [560, 40, 80, 25, 29, 80, 2, 6, 19, 44, 110, 4],
            [428, 19, 50, 19, 38, 145, 6, 6, 63, 63, 160, 4],
            [460, 35, 40, 25, 20, 230, 0, 10, 55, 40, 83, 2],
            [500, 20, 40, 20, 0, 200, 0, 20, 60, 40, 100, 0],
        ],
        [
            [255, 2, 0, 78, 66, 0, 0, 1, 66, 483, 50, 0],
            [637, 5, 5, 54, 42, 0, 1, 0, 69, 136, 45, 3],
            [717, 14, 4, 34, 41, 23, 1, 2, 47, 71, 43, 4],
            [569, 16, 6, 50, 33, 102, 0, 11, 65, 92, 50, 4],
            [404, 18, 6, 46, 39, 258, 1, 22, 42, 97, 65, 3],
            [405, 18, 5, 53, 26, 302, 0, 27, 48, 77, 38, 1],
            [530, 14, 4, 25, 3, 229, 0, 51, 48, 54, 41, 0],
        ],
    ],
    dtype=np.float64,
)
"""Of 1,000 members beside householder and partner, by type and age of the householder: how many of each relationship.

Foster children are a small part of the nonrelatives, who were not told apart in 2010.
"""

_WOMEN: Final = np.array([0.485, 0.49, 0.475, 0.45, 0.76, 0.49, 0.78, 0.45, 0.5, 0.44, 0.46, 0.49])
"""Share of women of each of the relationships."""

_SAME_SEX: Final = np.array([0.0108, 0.059])
"""Share of same-sex couples of the married and of the unmarried."""

_WOMEN_OF_COUPLES: Final = np.array([0.43, 0.5])
_WOMEN_OF_OTHERS: Final = np.array([0.58, 0.68, 0.72, 0.71, 0.7, 0.7, 0.72, 0.74, 0.78])
_WOMEN_ALONE: Final = np.array([0.48, 0.42, 0.4, 0.45, 0.52, 0.55, 0.62, 0.71, 0.75])
"""Share of women of householders, the latter two by age."""


def _cumulative(weights: Floats) -> Floats:
    """Rows that rise to 1; those without any weight stay at 0."""
    total = weights.cumsum(axis=-1)
    whole = total[..., -1:]
    rising: Floats = total / np.where(whole > 0, whole, 1.0)
    return rising


def drawn(weights: Floats, row: Counts, numbers: np.random.Generator) -> Counts:
    """Draw a column of a table of weights for each row number, (n,).

    Args:
        weights: Nonnegative, (R, C); a row that is asked for has some weight.
        row: Row of each draw, (n,).
        numbers: Where chance comes from.
    """
    rising = _cumulative(weights) + np.arange(len(weights))[:, None]
    luck = np.nextafter(1.0, 0.0) * numbers.random(len(row)) + row
    found: Counts = np.searchsorted(rising.ravel(), luck, side="right") - row * weights.shape[1]
    return np.clip(found, 0, weights.shape[1] - 1)


def _normal(values: Floats, mean: float, spread: float) -> Floats:
    weights: Floats = np.exp(-(((values - mean) / spread) ** 2) / 2)
    return weights


def _at_home(age: Floats) -> Floats:
    """How many children of an age still live with their parents, and grandchildren with theirs."""
    shares: Floats = np.interp(age, [17, 18, 22, 26, 30, 36, 46], [1.0, 0.9, 0.7, 0.4, 0.2, 0.1, 0.08])
    return shares


def _alive(age: Floats) -> Floats:
    weights: Floats = np.where(age > 75, np.exp(-(((age - 75) / 12) ** 2)), 1.0)  # noqa: PLR2004 - years
    return weights


@cache
def _ages_of_members() -> Floats:
    """Weights of the age of a member by relationship, and by the age of the householder; (relationships, 116, 116)."""
    head, age = np.meshgrid(np.arange(AGES, dtype=np.float64), np.arange(AGES, dtype=np.float64), indexing="ij")
    younger = head - age
    child = (younger >= 15) & (younger <= 52) & (age <= 89)  # noqa: PLR2004 - years, as all numbers below
    older = (-younger >= 15) & (-younger <= 45) & (age >= 30) & (age <= 110)  # noqa: PLR2004
    parent = older * _normal(younger, -26, 5) * _alive(age)
    tables = {
        CHILD: child * _normal(younger, 29, 6.5) * _at_home(age),
        ADOPTED_CHILD: child * _normal(younger, 35, 8) * _at_home(age),
        STEPCHILD: child * _normal(younger, 27, 8) * _at_home(age) * np.minimum(0.05 + age / 8, 1),
        SIBLING: (abs(younger) <= 25) * _normal(younger, 2, 9) * _alive(age),  # noqa: PLR2004
        PARENT: parent,
        GRANDCHILD: (younger >= 32) * (younger <= 85) * (age <= 74) * _normal(younger, 49, 9) * _at_home(age) ** 1.5,  # noqa: PLR2004
        PARENT_IN_LAW: parent,
        CHILD_IN_LAW: (younger >= 15) * (younger <= 52) * (age >= 18) * (age <= 89) * _normal(younger, 27, 8),  # noqa: PLR2004
        OTHER_RELATIVE: _normal(younger, 17, 22) * _alive(age),
        ROOMMATE: (age >= 18) * (_normal(younger, 1, 5) + 0.12 * _normal(younger, 3, 18)) * _alive(age),  # noqa: PLR2004
        OTHER_NONRELATIVE: _normal(younger, 17, 22) * _alive(age),
        FOSTER_CHILD: (head >= 25) * (age <= 20) * np.where(age < 18, 1.0, 0.3),  # noqa: PLR2004
    }
    return np.stack([tables[relationship] for relationship in _RELATIONSHIPS.tolist()])


@cache
def _ages_of_partners() -> Floats:
    """Weights of the age of a partner by kind of couple, sex of the householder and her age; (2, 2, 116, 116)."""
    head, age = np.meshgrid(np.arange(AGES, dtype=np.float64), np.arange(AGES, dtype=np.float64), indexing="ij")
    older = age - head
    possible = (age >= 15) & (abs(older) <= 35) & (age <= 110)  # noqa: PLR2004 - years
    minors = np.where(age < 18, 0.02, 1.0)  # noqa: PLR2004
    table = [
        [
            possible * minors * (0.8 * _normal(older, mean, spread) / spread + 0.2 * _normal(older, mean, 9) / 9)
            for mean in means
        ]
        for means, spread in (((-2.2, 1.8), 3.0), ((-2.0, 1.5), 4.0))
    ]
    return np.array(table)


@cache
def _ages_of_heads() -> Floats:
    """Weights of the age of a householder by type and size, (4 x 4, 116)."""
    age = np.arange(AGES)
    within = np.ones(AGES)
    within[15:25] = [0.02, 0.05, 0.1, 0.8, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5]
    within[75:] = np.exp(-(np.arange(75, AGES) - 75) / 14.0)
    within[85:] = np.exp(-(((np.arange(85, AGES) - 85) / 7.0) ** 2))
    within[111:] = 0.0
    band = np.searchsorted(_BANDS, age, side="right") - 1
    within[band < 0] = 0.0
    share = within / np.bincount(np.maximum(band, 0), within)[np.maximum(band, 0)]
    table: Floats = _HEADS.reshape(-1, len(_BANDS))[:, np.maximum(band, 0)] * share
    return table


@cache
def _relationships() -> Floats:
    """Weights of the relationship of a member by type and the age of the householder, (3 x 116, relationships).

    None where no age fits.
    """
    band = np.clip(np.searchsorted(_BANDS_OF_MEMBERS, np.arange(AGES), side="right") - 1, 0, None)
    possible = _ages_of_members().sum(axis=2).T > 1e-9  # noqa: PLR2004 - so far from what is usual
    table: Floats = (_MEMBERS[:, band] * possible).reshape(-1, len(_RELATIONSHIPS))
    return table


_LIKE_HEAD: Final = {PARTNER: 0.9, ROOMMATE: 0.7, OTHER_NONRELATIVE: 0.75, FOSTER_CHILD: 0.6}
_LIKE_FAMILY: Final = 0.94
"""Share of members with the group of the householder, before others are drawn from everybody of the block."""

_SAME_RACE: Final = 0.85
"""Share of members with the race of a householder of their group, where groups have several races."""


@dataclass(frozen=True, slots=True, eq=False)
class Households:
    """Everybody in the households of some blocks, householder, partner and then all others; sorted by household."""

    home: Counts  #: household of each person, (n,)
    relationship: Counts  #: RELSHIP, 20 to 36, (n,)
    woman: Counts  #: 0 or 1, (n,)
    age: Counts  #: years, (n,)
    group: Counts  #: of `states_2020.GROUPS`, (n,)
    hispanic: Counts  #: 0 or 1, (n,)
    race: Counts  #: 0 to 62, (n,)


def groups_of(rates: Floats, block: Counts, numbers: np.random.Generator) -> Counts:
    """Draw a group for each person by the shares of groups of her block, (n,)."""
    rising = _cumulative(rates)
    luck = numbers.random(len(block))
    group: Counts = (luck[:, None] >= rising[block, :-1]).sum(axis=1)
    return group


def make_households(
    block: Counts, tract_kind: Counts, rates: Floats, kinds: Floats, numbers: np.random.Generator
) -> Households:
    """Draw the members of households.

    Args:
        block: Block of each household, (h,).
        tract_kind: 0, 1 or 2 for small, usual and large households around the block, by block, (D,).
        rates: Share of each group of people by block, (D, 8).
        kinds: What `kinds_of_households` gives.
        numbers: Where chance comes from.
    """
    group = groups_of(rates / _PERSONS_OF_GROUPS, block, numbers)
    kind = drawn(kinds.reshape(-1, kinds.shape[-1]), tract_kind[block] * kinds.shape[1] + group, numbers)
    what, size = _TYPE_OF[kind], _SIZE_OF[kind]
    more = np.minimum(numbers.geometric(1 - _AMONG_LARGE, len(size)) - 1, _MOST - _LARGEST)
    size = size + np.where(size == _LARGEST, more, 0)
    age = drawn(_ages_of_heads(), what * _HEADS.shape[1] + np.clip(size - 2, 0, _HEADS.shape[1] - 1), numbers)
    band = np.searchsorted(_BANDS, age, side="right") - 1
    women = np.choose(what, [*(_WOMEN_OF_COUPLES[:, None] + 0 * band), _WOMEN_OF_OTHERS[band], _WOMEN_ALONE[band]])
    woman = (numbers.random(len(block)) < women).astype(np.int64)

    home = np.repeat(np.arange(len(block)), size)
    turn = np.arange(len(home)) - (np.cumsum(size) - size)[home]
    head_age, head_woman, what_of = age[home], woman[home], what[home]
    of_couple = (what_of <= _COHABITING) & (turn == 1)
    relationship = np.full(len(home), HOUSEHOLDER)
    ages, women_of = head_age.copy(), head_woman.copy()

    pair = np.flatnonzero(of_couple)
    same = numbers.random(len(pair)) < _SAME_SEX[what_of[pair]]
    codes = np.array([[SPOUSE, SAME_SEX_SPOUSE], [PARTNER, SAME_SEX_PARTNER]])
    relationship[pair] = codes[what_of[pair], same.astype(np.int64)]
    women_of[pair] = np.where(same, head_woman[pair], 1 - head_woman[pair])
    row = (what_of[pair] * 2 + head_woman[pair]) * AGES + head_age[pair]
    ages[pair] = drawn(_ages_of_partners().reshape(-1, AGES), row, numbers)

    others = np.flatnonzero((turn > 0) & ~of_couple)
    member = drawn(_relationships(), what_of[others] * AGES + head_age[others], numbers)
    relationship[others] = _RELATIONSHIPS[member]
    ages[others] = drawn(_ages_of_members().reshape(-1, AGES), member * AGES + head_age[others], numbers)
    women_of[others] = numbers.random(len(others)) < _WOMEN[member]

    groups, hispanic, race = _origins(block, group, home, turn, relationship, rates, numbers)
    return Households(home, relationship, women_of, ages, groups, hispanic, race)


def _origins(
    block: Counts,
    group: Counts,
    home: Counts,
    turn: Counts,
    relationship: Counts,
    rates: Floats,
    numbers: np.random.Generator,
) -> tuple[Counts, Counts, Counts]:
    """Group, origin and race of everybody: often those of the householder."""
    like = np.full(OTHER_NONRELATIVE + 1, _LIKE_FAMILY)
    for code, share in _LIKE_HEAD.items():
        like[code] = share
    like[[SPOUSE, SAME_SEX_SPOUSE, SAME_SEX_PARTNER]] = like[PARTNER]
    alike = (turn == 0) | (numbers.random(len(home)) < like[relationship])
    groups = np.where(alike, group[home], groups_of(rates, block[home], numbers))
    hispanic, race = origins_and_races(groups, numbers)
    head = np.flatnonzero(turn == 0)
    family = (groups == group[home]) & (numbers.random(len(home)) < _SAME_RACE)
    return groups, hispanic, np.where(family, race[head][home], race)
