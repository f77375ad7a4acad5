"""Synthetic states of 2020, person by person and unit by unit.

They have all that the Demographic and Housing Characteristics count: relationships, single years of age, tenure, kinds
of vacancy, types of group quarters. Places, households, vacant units and facilities are those of the populations `2020`
and `2020-state` of the same seed and share (:mod:`das_spark.simulation.census_2020`); people are drawn anew, household
by household (:mod:`das_spark.simulation.households_2020`), so their numbers and races are like there, not the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation.census_2020 import (
    CENSUS_2020,
    Housing,
    housing_of_nation,
    housing_of_state,
    origins_and_races,
)
from das_spark.simulation.household_fields import HOUSEHOLDER
from das_spark.simulation.households_2020 import (
    AGES,
    TRACT_KINDS,
    Households,
    drawn,
    groups_of,
    kinds_of_households,
    make_households,
)
from das_spark.simulation.population import Counts, Population, generator

Floats = NDArray[np.float64]

INSTITUTION, NO_INSTITUTION = 37, 38
"""RELSHIP of people in group quarters."""

_LAST_INSTITUTION: Final = 4


@dataclass(frozen=True, slots=True)
class _Quarters:
    """A type of group quarters: how often its class has it, and who lives there."""

    weight: float
    age: float
    spread: float
    youngest: int
    oldest: int
    women: float


QUARTERS: Final = {
    101: _Quarters(0.3, 36, 11, 18, 90, 0.08),
    102: _Quarters(0.6, 40, 11, 18, 90, 0.07),
    103: _Quarters(2.5, 39, 12, 17, 95, 0.07),
    104: _Quarters(5, 34, 11, 15, 90, 0.13),
    105: _Quarters(2, 36, 11, 18, 85, 0.15),
    106: _Quarters(0.1, 28, 6, 17, 65, 0.05),
    201: _Quarters(5, 15, 2.5, 0, 20, 0.4),
    202: _Quarters(2, 15, 2.5, 3, 20, 0.35),
    203: _Quarters(3, 16, 1.6, 10, 21, 0.14),
    301: _Quarters(1, 81, 11, 20, 110, 0.64),
    401: _Quarters(3, 42, 15, 5, 95, 0.35),
    402: _Quarters(1, 50, 20, 0, 100, 0.42),
    403: _Quarters(1, 77, 12, 18, 110, 0.55),
    404: _Quarters(0.2, 30, 9, 17, 65, 0.25),
    405: _Quarters(1, 15, 4, 3, 30, 0.4),
    501: _Quarters(1, 20, 1.6, 16, 65, 0.54),
    601: _Quarters(5, 22, 4, 17, 65, 0.16),
    602: _Quarters(1, 26, 7, 17, 65, 0.1),
    701: _Quarters(3, 37, 18, 0, 90, 0.43),
    702: _Quarters(1, 46, 13, 0, 90, 0.3),
    704: _Quarters(0.4, 45, 13, 0, 90, 0.3),
    706: _Quarters(0.6, 44, 13, 0, 90, 0.27),
    801: _Quarters(9, 50, 17, 18, 105, 0.42),
    802: _Quarters(3, 39, 12, 18, 85, 0.3),
    900: _Quarters(0.3, 40, 12, 18, 70, 0.05),
    901: _Quarters(2, 35, 11, 16, 75, 0.15),
    903: _Quarters(0.1, 40, 21, 0, 95, 0.5),
    904: _Quarters(2, 52, 20, 0, 105, 0.5),
}
"""Every type by its code, with ages that it is allowed to have."""

_CODES: Final = np.array(list(QUARTERS))
_CLASS_OF: Final = np.minimum(_CODES // 100, 7)


@cache
def _types() -> Floats:
    """Weights of types by class, (8, types)."""
    weights = np.array([quarter.weight for quarter in QUARTERS.values()])
    table: Floats = np.where(np.arange(8)[:, None] == _CLASS_OF, weights, 0.0)
    return table


@cache
def _ages_in_quarters() -> Floats:
    """Weights of ages by type, (types, 116)."""
    age = np.arange(AGES)
    rows = [
        np.exp(-(((age - quarter.age) / quarter.spread) ** 2) / 2)
        * ((age >= quarter.youngest) & (age <= quarter.oldest))
        for quarter in QUARTERS.values()
    ]
    return np.array(rows)


_BANDS: Final = np.array([15, 25, 35, 45, 55, 65, 75, 85])
_OWNERS: Final = np.array([0.17, 0.41, 0.59, 0.68, 0.74, 0.79, 0.78, 0.69])
_MORTGAGES: Final = np.array([0.75, 0.86, 0.86, 0.78, 0.62, 0.42, 0.25, 0.15])
_OWNING: Final = np.array([2.1, 0.75, 0.6])
_OWNING_OF_GROUPS: Final = np.array([1.3, 0.45, 0.75, 0.95, 0.5, 0.6, 0.7, 0.65])
_FREE: Final = 0.054
"""Shares of owners, and of owners with a mortgage, by age of the householder; odds of owning of married and unmarried
couples and of others, and of groups; share of renters who pay nothing."""

_VACANCIES: Final = np.array([0.24, 0.035, 0.075, 0.04, 0.32, 0.005, 0.285])
"""Share of each kind of vacancy: for rent, rented, for sale, sold, for occasional use, migrant workers, other."""


@dataclass(frozen=True, slots=True, eq=False)
class Records:
    """Units and persons of some blocks; units sorted by block, persons by unit, the householder first."""

    block: Counts  #: place of the block of each unit among all geocodes of the state, ascending, (u,)
    quarters: Counts  #: type of group quarters, 0 for a housing unit, (u,)
    tenure: Counts  #: 1 mortgage, 2 owned clear, 3 rented, 4 without payment; 0 where nobody has a household, (u,)
    vacancy: Counts  #: 1 to 7; 0 where the unit is occupied, (u,)
    unit: Counts  #: place of the unit of each person in the arrays above, ascending, (p,)
    relationship: Counts  #: RELSHIP, 20 to 38, (p,)
    woman: Counts  #: 0 or 1, (p,)
    age: Counts  #: years, (p,)
    hispanic: Counts  #: 0 or 1, (p,)
    race: Counts  #: 0 to 62, (p,)


@dataclass(frozen=True, slots=True, eq=False)
class People2020:
    """A state: its blocks, and its records some blocks at a time; the same seed and share give the same."""

    seed: int
    housing: Housing
    fips: tuple[int, ...] = ()  #: the state, where there are several

    @classmethod
    def of(cls, seed: int, share: Fraction) -> People2020:
        """Make the places and units of a state.

        Args:
            seed: 0 or more.
            share: Of ten million people.
        """
        return cls(seed, housing_of_state(seed, share))

    @classmethod
    def nation(cls, seed: int, share: Fraction) -> Iterator[People2020]:
        """Make the places and units of the nation, state by state.

        Args:
            seed: 0 or more.
            share: Of the nation.
        """
        for fips, housing in housing_of_nation(seed, share):
            yield cls(seed, housing, (fips,))

    @property
    def geocodes(self) -> NDArray[np.str_]:
        """Geocodes of all blocks, empty ones too, ascending, (D,) of text."""
        return self.housing.places.geocodes

    def records(self) -> Iterator[Records]:
        """Draw people, a bounded number of them at a time."""
        made, places = self.housing, self.housing.places
        numbers = generator(self.seed, *self.fips, _STREAM)
        weights = np.bincount(places.tract, places.size, len(places.rates))
        kinds = kinds_of_households(weights @ places.rates / max(weights.sum(), 1e-9))
        tract_kind = numbers.integers(0, TRACT_KINDS, len(places.rates))[places.tract]
        for start, stop in made.chunks():
            rates = places.block_rates(start, stop, numbers)
            yield _records(made, (start, stop), rates, tract_kind[start:stop], kinds, numbers)

    def population(self, digits: int) -> Population:
        """Count people by cell, and units by class: housing units, then facilities of each type.

        Args:
            digits: Of the geocodes, from the front, that name a geounit to count in.
        """
        made = self.housing
        geocodes, geounit = np.unique(self.geocodes.astype(f"U{digits}"), return_inverse=True)
        size = int(np.prod([levels for _, levels in PERSON_ATTRIBUTES]))
        units, vacant = (np.zeros((len(geocodes), *more), dtype=np.int64) for more in ((_CLASSES,), ()))
        np.add.at(units[:, 0], geounit, made.households)
        np.add.at(vacant, geounit, made.vacant)
        found = []
        for record in self.records():
            found.append(
                np.unique(geounit[record.block[record.unit]] * size + person_cells(record), return_counts=True)
            )
            facility = record.quarters > 0
            level = _LEVEL_OF_CODE[record.quarters[facility]]
            np.add.at(units, (geounit[record.block[facility]], level - _MEMBERS + 1), 1)
        keys, place = np.unique(np.concatenate([key for key, _ in found]), return_inverse=True)
        count = np.zeros(len(keys), dtype=np.int64)
        np.add.at(count, place, np.concatenate([number for _, number in found]))
        return Population(geocodes, keys // size, keys % size, count, units, vacant)


_STREAM: Final = 2022

PERSON_ATTRIBUTES: Final = (("relgq", 42), ("sex", 2), ("age", AGES), ("hispanic", 2), ("cenrace", 63))
"""What people are counted by, and the levels of each, in the order of cells."""

_ADULT: Final = 18
_MEMBERS: Final = 18
_OTHER_QUARTERS: Final = (702, 704, 706, 903, 904)
_TOLD_APART: Final = [code for code in QUARTERS if code not in _OTHER_QUARTERS]
_LEVEL_OF_CODE: Final = np.full(max(QUARTERS) + 1, -1)
_LEVEL_OF_CODE[_TOLD_APART] = np.arange(_MEMBERS, _MEMBERS + len(_TOLD_APART))
_LEVEL_OF_CODE[list(_OTHER_QUARTERS)] = _MEMBERS + len(_TOLD_APART)
_CLASS_OF_LEVEL: Final = np.array([0] * _MEMBERS + [min(code // 100, 7) for code in (*_TOLD_APART, 904)])
_CLASSES: Final = 1 + len(_CLASS_OF_LEVEL) - _MEMBERS
"""Level of relgq of each type of quarters, five of which are one; class of each level in the redistricting data; and
classes of units by type."""


def person_cells(records: Records) -> Counts:
    """Cell of each person by `PERSON_ATTRIBUTES`, flat, (p,)."""
    members = np.bincount(records.unit, minlength=len(records.block))[records.unit]
    relgq = records.relationship - (HOUSEHOLDER - 1)
    relgq[(records.relationship == HOUSEHOLDER) & (members == 1)] = 0
    quarters = records.quarters[records.unit]
    inside = quarters > 0
    relgq[inside] = _LEVEL_OF_CODE[quarters[inside]]
    levels = (relgq, records.woman, records.age, records.hispanic, records.race)
    cells: Counts = np.ravel_multi_index(levels, tuple(size for _, size in PERSON_ATTRIBUTES))
    return cells


def class_cells(cells: Counts) -> Counts:
    """Cell in a population like `CENSUS_2020` of people in cells by `PERSON_ATTRIBUTES`, flat, likewise."""
    relgq, _, age, hispanic, race = np.unravel_index(cells, tuple(size for _, size in PERSON_ATTRIBUTES))
    levels = (_CLASS_OF_LEVEL[relgq], (age >= _ADULT).astype(np.int64), hispanic, race)
    found: Counts = np.ravel_multi_index(levels, CENSUS_2020.shape)
    return found


def class_units(units: Counts) -> Counts:
    """Units by the classes of the redistricting data, of units by type of facility, (D, 8)."""
    classes = np.concatenate([[0], _CLASS_OF_LEVEL[_MEMBERS:]])
    found: Counts = np.add.reduceat(units, np.unique(classes, return_index=True)[1], axis=1)
    return found


def _records(
    made: Housing,
    blocks: tuple[int, int],
    rates: Floats,
    tract_kind: Counts,
    kinds: Floats,
    numbers: np.random.Generator,
) -> Records:
    start, stop = blocks
    here = np.arange(stop - start)
    household_block = np.repeat(here, made.households[start:stop])
    vacant_block = np.repeat(here, made.vacant[start:stop])
    mine = made.facilities(start, stop)
    facility_block, level, size = made.block[mine] - start, made.level[mine], made.size[mine]
    homes, empty, facilities = len(household_block), len(vacant_block), len(facility_block)

    people = make_households(household_block, tract_kind, rates, kinds, numbers)
    tenure = _tenure(people, numbers)
    vacancy = 1 + drawn(_VACANCIES[None], np.zeros(empty, dtype=np.int64), numbers)
    kind = drawn(_types(), level, numbers)
    resident = np.repeat(np.arange(facilities), size)
    age = drawn(_ages_in_quarters(), kind[resident], numbers)
    women = np.array([quarter.women for quarter in QUARTERS.values()])
    woman = (numbers.random(len(resident)) < women[kind[resident]]).astype(np.int64)
    hispanic, race = origins_and_races(groups_of(rates, facility_block[resident], numbers), numbers)
    relationship = np.where(level[resident] <= _LAST_INSTITUTION, INSTITUTION, NO_INSTITUTION)

    nothing = np.zeros(homes + empty + facilities, dtype=np.int64)
    of_tenure, of_vacancy, of_quarters = nothing.copy(), nothing.copy(), nothing.copy()
    of_tenure[:homes] = tenure
    of_vacancy[homes : homes + empty] = vacancy
    of_quarters[homes + empty :] = _CODES[kind]
    block = np.concatenate([household_block, vacant_block, facility_block])
    order = np.argsort(block, kind="stable")
    place = np.empty_like(order)
    place[order] = np.arange(len(order))
    unit = place[np.concatenate([people.home, homes + empty + resident])]
    by_unit = np.argsort(unit, kind="stable")
    own = (people.relationship, people.woman, people.age, people.hispanic, people.race)
    others = (relationship, woman, age, hispanic, race)
    everybody = [np.concatenate(pair)[by_unit] for pair in zip(own, others, strict=True)]
    return Records(
        block=start + block[order],
        quarters=of_quarters[order],
        tenure=of_tenure[order],
        vacancy=of_vacancy[order],
        unit=unit[by_unit],
        relationship=everybody[0],
        woman=everybody[1],
        age=everybody[2],
        hispanic=everybody[3],
        race=everybody[4],
    )


def _tenure(people: Households, numbers: np.random.Generator) -> Counts:
    """TEN of each household, 1 to 4, (h,)."""
    head = np.flatnonzero(people.relationship == HOUSEHOLDER)
    partner = people.relationship[np.minimum(head + 1, len(people.relationship) - 1)]
    couple = np.select([np.isin(partner, (21, 23)), np.isin(partner, (22, 24))], [0, 1], 2)
    band = np.clip(np.searchsorted(_BANDS, people.age[head], side="right") - 1, 0, None)
    odds = _OWNERS[band] / (1 - _OWNERS[band]) * _OWNING[couple] * _OWNING_OF_GROUPS[people.group[head]]
    owner = numbers.random(len(head)) < odds / (1 + odds)
    luck = numbers.random(len(head))
    tenure: Counts = np.where(owner, 2 - (luck < _MORTGAGES[band]), 3 + (luck < _FREE))
    return tenure
