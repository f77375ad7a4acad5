"""A synthetic state with single years of age, sex and citizenship: what the demonstration of 2010 counts persons by.

Places, people, group quarters and units are those of the synthetic state of 2020 (:mod:`das_spark.simulation.
census_2020`) of the same seed and share, with the rest drawn person by person from a few plain distributions. These are
not calibrated to any census: ages of races and of places are alike but for the share of minors. Two tracts each share
the first four digits of their codes, and so a group of tracts.

Households are made of the same people: as many as the block has occupied units (or people of 15 and more), members
dealt to them at random, adults to householders of about their age; who is whose spouse, partner, child or other
relative is drawn by ages and sexes, so that type, size, generations and oldest member of a household are those of its
people. Sizes and couples are about those of the census of 2010 (26.7 % of households are of one person, 32.8 % of two;
48 % are of married couples, 6.6 % of others); nothing else about households is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation.census_2020 import STATE_2020
from das_spark.simulation.population import Counts, Households, Population, PopulationKind, generator

Floats = NDArray[np.float64]

_ADULT, _TOP = 18, 115
_SEXES, _AGES, _CITIZENS = 2, _TOP + 1, 2
_SHAPE: Final = (*STATE_2020.shape[:1], _SEXES, _AGES, *STATE_2020.shape[2:], _CITIZENS)

_WOMEN: Final = np.array([0.508, 0.09, 0.15, 0.66, 0.42, 0.53, 0.16, 0.4])
"""Share of women by class of units."""

_CITIZENS_OF_ORIGINS: Final = np.array([0.96, 0.78])
"""Share of citizens among people who are not Hispanic, and who are."""


_FEWER_FROM, _SPAN = 50, 22.0
"""Households have as many of one age as of another up to the first; how fast there are fewer of greater ages."""


def _of_households() -> Floats:
    older = np.maximum(np.arange(_AGES) - _FEWER_FROM, 0)
    weights: Floats = np.exp(-((older / _SPAN) ** 2))
    return weights


def _about(mean: float, spread: float, least: int = 0, most: int = _TOP) -> Floats:
    """Weights of ages about a mean, none outside of two ends."""
    weights: Floats = np.exp(-(((np.arange(_AGES) - mean) / spread) ** 2) / 2)
    weights[:least] = weights[most + 1 :] = 0.0
    return weights


_WEIGHTS: Final = np.stack(
    [
        _of_households(),
        _about(32, 12, least=15),
        _about(16, 2, most=25),
        _about(83, 9, least=20),
        _about(45, 20),
        _about(20, 1.6, least=16, most=65),
        _about(23, 5, least=17, most=65),
        _about(40, 15),
    ]
)
"""Of each class of units the weights of ages: none where the demonstration rules an age out."""


def _make(part: int, seed: int, share: Fraction) -> Population:
    """Give everybody of the state of 2020 the attributes that it lacks; deterministic."""
    plain, numbers = STATE_2020.make(part, seed, share), generator(seed, part, 2010)
    person = np.repeat(np.arange(len(plain.cell)), plain.count)
    level, adult, hispanic, race = np.unravel_index(plain.cell[person], STATE_2020.shape)
    women = (numbers.random(len(person)) < _WOMEN[level]).astype(np.int64)
    age = _drawn_ages(level, adult, numbers)
    citizen = (numbers.random(len(person)) < _CITIZENS_OF_ORIGINS[hispanic]).astype(np.int64)
    cells = np.ravel_multi_index((level, women, age, hispanic, race, citizen), _SHAPE)
    size = int(np.prod(_SHAPE))
    found, count = np.unique(plain.geounit[person] * size + cells, return_counts=True)
    codes = np.array([_with_shared_tract_digits(code) for code in plain.geocodes.tolist()])
    at_home = np.flatnonzero(level == 0)
    people = _People(*(each[at_home] for each in (plain.geounit[person], women, age, hispanic, race)))
    occupied, households = _households(people, plain.units, generator(seed, part, 2011))
    units = plain.units.copy()
    units[:, 0] = occupied
    return replace(
        plain,
        geocodes=codes,
        geounit=found // size,
        cell=found % size,
        count=count.astype(np.int64),
        units=units,
        vacant=plain.vacant + plain.units[:, 0] - occupied,  # as many housing units as before
        households=households,
    )


@dataclass(frozen=True, slots=True, eq=False)
class _People:
    """People in households, one by one; all arrays of shape (people,)."""

    geounit: Counts
    woman: Counts
    age: Counts
    hispanic: Counts
    race: Counts

    def of(self, chosen: Counts) -> _People:
        return _People(*(each[chosen] for each in (self.geounit, self.woman, self.age, self.hispanic, self.race)))


def _households(people: _People, units: Counts, numbers: np.random.Generator) -> tuple[Counts, Households]:
    """Households of each block (D,), and what they are."""
    blocks = len(units)
    adults = np.bincount(people.geounit[people.age >= _YOUNGEST], minlength=blocks)
    inhabited = np.bincount(people.geounit, minlength=blocks) > 0
    occupied = np.minimum(units[:, 0], np.maximum(adults, inhabited)).astype(np.int64)
    people, home, turn = _at_home(people, occupied, numbers)
    cells, geounit = (
        _described(people, home, turn, int(occupied.sum()), numbers),
        np.repeat(np.arange(blocks), occupied),
    )
    size = int(np.prod([levels for _, levels in HOUSEHOLD_ATTRIBUTES]))
    found, count = np.unique(geounit * size + cells, return_counts=True)
    facilities = np.concatenate(
        [
            numbers.multinomial(units[:, each], np.array(weights) / sum(weights))
            for each, weights in enumerate(_FACILITIES, start=1)
        ],
        axis=1,
    ).astype(np.int64)
    return occupied, Households(found // size, found % size, count.astype(np.int64), facilities)


def _at_home(people: _People, occupied: Counts, numbers: np.random.Generator) -> tuple[_People, Counts, Counts]:
    """People by home: the household of each, and her turn in it, householders (turn 0) and then adults first."""
    minor = (people.age >= _YOUNGEST).astype(np.int64) * -2 - (people.age >= _ADULT)
    people = people.of(np.lexsort((numbers.random(len(minor)), minor, people.geounit)))
    place = np.arange(len(people.age)) - np.searchsorted(people.geounit, people.geounit)
    head = place < occupied[people.geounit]
    # Homes in the order of their blocks, and of the ages of their householders.
    heads = np.flatnonzero(head)
    heads = heads[np.lexsort((people.age[heads], people.geounit[heads]))]
    home = np.zeros(len(people.age), dtype=np.int64)
    home[heads] = np.arange(len(heads))
    room = np.where(numbers.random(len(heads)) < _WITHOUT_ROOM, 0.0, numbers.gamma(_EVENNESS, size=len(heads)))
    grown = people.age >= _ADULT
    parents = (people.age[heads] >= _PARENTS[0]) & (people.age[heads] <= _PARENTS[1])
    for mine, fitting in (
        *((~head & grown & (people.woman == sex), people.woman[heads] != sex) for sex in range(_SEXES)),
        (~head & ~grown, parents),
    ):
        members = np.flatnonzero(mine)
        members = members[np.lexsort((people.age[members], people.geounit[members]))]
        weights = room * np.where(fitting, 1.0, _UNFITTING) + _LITTLE
        home[members] = _dealt(
            people.geounit[members], weights, people.geounit[heads], numbers, like=bool(grown[mine].all())
        )
    order = np.lexsort((minor, ~head, home))
    people, home = people.of(order), home[order]
    return people, home, np.arange(len(home)) - np.searchsorted(home, home)


def _dealt(block: Counts, weights: Floats, of_homes: Counts, numbers: np.random.Generator, *, like: bool) -> Counts:
    """A home of their block for members, more often where its weight is great; in the order of homes where alike."""
    total = np.cumsum(weights)
    first = np.searchsorted(of_homes, block)
    last = np.searchsorted(of_homes, block, side="right")
    low, high = total[first] - weights[first], total[last - 1]
    if like:
        begin, end = np.searchsorted(block, block), np.searchsorted(block, block, side="right")
        rank = (np.arange(len(block)) - begin + numbers.random(len(block))) / np.maximum(end - begin, 1)
        where = np.clip(rank + numbers.normal(0, _UNLIKE, len(block)), 0, 1)
    else:
        where = numbers.random(len(block))
    found: Counts = np.clip(np.searchsorted(total, low + where * (high - low)), first, last - 1)
    return found


def _described(people: _People, home: Counts, turn: Counts, homes: int, numbers: np.random.Generator) -> Counts:
    """The cell of each household, shape (homes,), by who its members are to the householder (of turn 0)."""
    head = np.zeros(homes, dtype=np.int64)
    head[home[turn == 0]] = np.flatnonzero(turn == 0)
    older = people.age - people.age[head][home]  # than the householder
    other_sex = people.woman != people.woman[head][home]
    luck = numbers.random(len(home))
    may_pair = (turn == 1) & (people.age >= _ADULT) & (people.age[head][home] >= _ADULT) & (np.abs(older) <= _PAIRED)
    partner = may_pair & (luck < np.where(other_sex, _PAIRS, _SAME_SEX))
    others = (turn > 0) & ~partner
    chance = numbers.random(len(home))
    own = others & (people.age < _ADULT) & (older <= -_GENERATION) & (older >= -_OLDEST_PARENT) & (chance < _OWN)
    related = others & ~own & (chance < _RELATED)

    def some(members: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return np.bincount(home[members], minlength=homes) > 0

    young, grown = some(own & (people.age < _SCHOOL)), some(own & (people.age >= _SCHOOL))
    relatives, size = some(related), np.minimum(np.bincount(home, minlength=homes), _LARGEST)
    above, below = some(related & (older >= _GENERATION)), some(own)
    child = some(related & (people.age >= _ADULT) & (older <= -_GENERATION))
    grandchild = some(related & (people.age < _ADULT) & (older <= -2 * _GENERATION))
    couple, same = some(partner), ~some(partner & other_sex)
    married = numbers.random(homes) < np.where(same, _MARRIED_SAME, _MARRIED)
    first = np.select([~couple, married & ~same, married, ~same], [19, 0, 4, 8], 13)
    children = np.select([young & grown, young, grown], [2, 0, 1], -1)
    none = np.select([~couple & (size == 1), ~couple, married], [18, np.where(relatives, 22, 23), first + 3])
    none = np.where(couple & ~married, first + np.where(relatives, 3, 4), none)
    kind = np.where(children >= 0, first + children, none)
    oldest = np.zeros(homes, dtype=np.int64)
    np.maximum.at(oldest, home, people.age)
    levels = (
        people.woman[head],
        np.maximum(np.searchsorted(_AGES_OF_HEADS, people.age[head], side="right") - 1, 0),
        people.hispanic[head],
        np.minimum(people.race[head], 6),
        size,
        kind,
        np.searchsorted(_ELDERLY, oldest, side="right"),
        ((above & below) | (child & grandchild)).astype(np.int64),
    )
    return np.ravel_multi_index(levels, tuple(levels for _, levels in HOUSEHOLD_ATTRIBUTES)).astype(np.int64)


def _drawn_ages(level: Counts, adult: Counts, numbers: np.random.Generator) -> Counts:
    """An age of every person, by class of units, on the right side of 18."""
    age = np.zeros(len(level), dtype=np.int64)
    of_adults = np.arange(_AGES) >= _ADULT
    for each, weights in enumerate(_WEIGHTS):
        for grown in (0, 1):
            mine = np.flatnonzero((level == each) & (adult == grown))
            cumulative = np.cumsum(weights * (of_adults == grown))
            age[mine] = np.searchsorted(cumulative, numbers.random(len(mine)) * cumulative[-1], side="right")
    return age


def _with_shared_tract_digits(code: str) -> str:
    """The geocode of a block whose tract is the first or second of a pair: 0001.01, 0001.02, 0002.01, and so on."""
    stem, second = divmod(int(code[5:9]) - 1, 2)
    return f"{code[:5]}{stem + 1:04d}{second + 1:02d}{code[11:]}"


HOUSEHOLD_ATTRIBUTES: Final = (
    ("hhsex", 2),
    ("hhage", 9),
    ("hisp", 2),
    ("hhrace", 7),
    ("size", 8),
    ("hhtype", 24),
    ("elderly", 4),
    ("multi", 2),
)
"""What the demonstration counts households by: name and levels of each attribute."""

_AGES_OF_HEADS: Final = np.array([15, 25, 35, 45, 55, 60, 65, 75, 85])
_ELDERLY: Final = np.array([60, 65, 75])
_YOUNGEST, _SCHOOL, _LARGEST = 15, 6, 7
_WITHOUT_ROOM, _EVENNESS, _UNFITTING, _LITTLE, _UNLIKE = 0.05, 8.0, 0.03, 1e-6, 0.04
_PARENTS: Final = (20, 58)
"""Share of homes that nobody is dealt to, how even the others are, how often members go where none of their sex is to
be expected, and how far members differ in age from householders, by ranks; ages of householders with minors."""
_PAIRED, _GENERATION, _OLDEST_PARENT = 15, 15, 50
"""Most years between partners; least and most between parent and child."""
_PAIRS, _SAME_SEX, _MARRIED, _MARRIED_SAME = 0.93, 0.01, 0.88, 0.3
"""Shares of couples among two adults of like age, of other sex or the same, and of the married among either."""
_OWN, _RELATED = 0.93, 0.75
"""Shares of own children among minors of fitting ages, and of relatives among all others."""
_FACILITIES: Final = (
    (1, 2, 4, 6, 3, 0.2),
    (5, 2, 2),
    (1,),
    (3, 1, 1, 0.2, 1),
    (1,),
    (5, 1),
    (3, 1, 0.5, 0.5, 9, 3, 0.5, 2, 0.1, 3),
)
"""Of each class of group quarters how often its detailed types are met."""

DEMONSTRATION_2010 = PopulationKind(
    "2010-state",
    (
        ("hhgq", _SHAPE[0]),
        ("sex", _SEXES),
        ("age", _AGES),
        ("hispanic", _SHAPE[3]),
        ("cenrace", _SHAPE[4]),
        ("citizen", _CITIZENS),
    ),
    STATE_2020.geocode_length,
    STATE_2020.parts,
    _make,
    HOUSEHOLD_ATTRIBUTES,
)
"""One synthetic state of up to ten million people, as the demonstration of 2010 counts persons and households."""
