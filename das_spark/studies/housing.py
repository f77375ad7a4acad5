"""Simulated households and housing units of a few states: counties in full, and the small ones of them to the block.

Sizes follow what is published of 2010: 62 counties a state, about 10,000 households in the median county, 2.68 people
in a household, 1,600 units in a tract, 550 in a block group. All else is made up: who lives where, and that 80 to 98 %
of the housing units of a county are occupied. Blocks of a county differ by chance alone.

Source of the sizes and of the range of occupancy: Van Riper, Kugler and Ruggles (2020), section 3, and the checks that
follow from it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]

#: Geolevels, top first: those that had a share of the budget in the demonstration of 2019.
HOUSING_LEVELS: Final = ("Nation", "State", "County", "Tract_Group", "Tract", "Block_Group", "Block")
#: Levels of each attribute of a household: sex, Hispanic origin and race of the householder, type of household.
HOUSEHOLD_SHAPE: Final = (2, 2, 7, 24)
#: Levels of each attribute of a person: voting age, Hispanic origin, race, citizenship.
PERSON_SHAPE: Final = (2, 2, 63, 2)
COUNTY: Final = HOUSING_LEVELS.index("County")

_MEDIAN_UNITS, _SPREAD_OF_COUNTIES, _FEWEST_UNITS = 11_400.0, 1.4, 400
_OCCUPIED: Final = (0.80, 0.98)
_PEOPLE_IN_A_HOUSEHOLD: Final = 2.68
#: Housing units in a tract group, tract, block group and block; and how evenly units are divided among siblings.
_UNITS: Final = (2_800.0, 1_600.0, 550.0, 22.0)
_EVENNESS: Final = (6.0, 8.0, 8.0, 0.8)
#: Concentration of the shares of counties around those of all: races differ most, types of household least.
_ALIKE_RACES, _ALIKE_TYPES, _ALIKE_PEOPLE = 8.0, 60.0, 40.0
_HISPANIC: Final = (0.6, 5.0)
_FEMALE, _ADULT, _CITIZEN = 0.48, 0.76, 0.93
_RACES: Final = (0.76, 0.12, 0.01, 0.04, 0.003, 0.045, 0.022)
_RACES_OF_HISPANICS: Final = (0.55, 0.03, 0.02, 0.005, 0.002, 0.34, 0.053)
#: Shares of the types of household, largest first: a few are common, most are rare.
_TYPES: Final = (280, 220, 120, 80, 50, 40, 30, 30, 25, 20, 20, 15, 15, 10, 10, 8, 7, 6, 5, 4, 2, 1, 1, 1)
#: Of people of two races or more, each further combination has so much of the share of the one before.
_NEXT_COMBINATION: Final = 0.9


@dataclass(frozen=True, slots=True, eq=False)
class HousingLevel:
    """The geounits of one geolevel, in an order in which siblings stand together."""

    name: str
    parent: Counts  # position of each geounit's parent in the level above, ascending, (K,); zeros in the first level
    units: Counts  # housing units, (K,)
    households: Counts  # households by cell of `HOUSEHOLD_SHAPE`, (K, cells)

    @property
    def totals(self) -> Counts:
        """Households of each geounit, (K,)."""
        totals: Counts = self.households.sum(axis=1)
        return totals


@dataclass(frozen=True, slots=True, eq=False)
class Housing:
    """A simulated nation."""

    # From the nation to the block. Below the county there are the geounits of small counties only.
    levels: tuple[HousingLevel, ...]
    people: Counts  # people of each county by cell of `PERSON_SHAPE`, (counties, cells)


def simulate_housing(seed: int, states: int, counties: int, follow_up_to: int) -> Housing:
    """Simulate a nation; counties of at most `follow_up_to` housing units are divided down to the block."""
    for name, number in (("states", states), ("counties", counties)):
        if number < 1:
            raise ConfigurationError(f"a simulated nation needs at least one of {name}, not {number}")
    random = np.random.default_rng(seed)
    units, parents = _places(random, states, counties, follow_up_to)
    rates = random.uniform(*_OCCUPIED, states * counties)
    shares = _shares_of_households(random, states * counties)
    levels = _households(random, units, parents, rates, shares)
    sizes = random.poisson(_PEOPLE_IN_A_HOUSEHOLD * levels[COUNTY].totals)
    people = random.multinomial(sizes, _shares_of_people(random, states * counties)).astype(np.int64)
    return Housing(levels, people)


def _places(
    random: np.random.Generator, states: int, counties: int, follow_up_to: int
) -> tuple[list[Counts], list[Counts]]:
    """Housing units of every geounit, and its parent, from the county down."""
    number = states * counties
    drawn = _MEDIAN_UNITS * np.exp(_SPREAD_OF_COUNTIES * random.standard_normal(number))
    units = [np.maximum(_FEWEST_UNITS, drawn).astype(np.int64)]
    parents = [np.repeat(np.arange(states), counties)]
    divided = np.flatnonzero(units[0] <= follow_up_to)
    for size, evenness in zip(_UNITS, _EVENNESS, strict=True):
        above = units[-1][divided]
        children = np.maximum(1, np.rint(above / size)).astype(np.int64)
        parents.append(np.repeat(divided, children))
        units.append(_divide(random, above, children, evenness))
        divided = np.arange(len(units[-1]))
    return units, parents


def _divide(random: np.random.Generator, wholes: Counts, children: Counts, evenness: float) -> Counts:
    """Divide the units of each parent among its children, at random shares."""
    parts = [
        random.multinomial(whole, random.dirichlet(np.full(number, evenness)))
        for whole, number in zip(wholes.tolist(), children.tolist(), strict=True)
    ]
    return np.concatenate([np.zeros(0, dtype=np.int64), *parts]).astype(np.int64)


def _households(
    random: np.random.Generator, units: list[Counts], parents: list[Counts], rates: Floats, shares: Floats
) -> tuple[HousingLevel, ...]:
    """Fill the lowest geounits of every county with households, and sum them up."""
    county_of = [np.arange(len(rates))]
    for parent in parents[1:]:
        county_of.append(county_of[-1][parent])
    found: list[Counts] = []
    for depth in reversed(range(len(units))):
        county = county_of[depth]
        counts = np.zeros((len(county), shares.shape[1]), dtype=np.int64)
        if depth + 1 < len(units):
            np.add.at(counts, parents[depth + 1], found[-1])
        lowest = np.flatnonzero(~np.isin(np.arange(len(county)), parents[depth + 1] if depth + 1 < len(units) else ()))
        occupied = random.binomial(units[depth][lowest], rates[county[lowest]])
        counts[lowest] = random.multinomial(occupied, shares[county[lowest]])
        found.append(counts)
    below = [HousingLevel(*each) for each in zip(HOUSING_LEVELS[COUNTY:], parents, units, reversed(found), strict=True)]
    state = _above("State", below[0], np.zeros(int(parents[0][-1]) + 1, dtype=np.int64))
    nation = _above("Nation", state, np.zeros(1, dtype=np.int64))
    return nation, state, *below


def _above(name: str, children: HousingLevel, parent: Counts) -> HousingLevel:
    """The level of the parents of a whole level."""
    units = np.zeros(len(parent), dtype=np.int64)
    households = np.zeros((len(parent), children.households.shape[1]), dtype=np.int64)
    np.add.at(units, children.parent, children.units)
    np.add.at(households, children.parent, children.households)
    return HousingLevel(name, parent, units, households)


def _shares_of_households(random: np.random.Generator, counties: int) -> Floats:
    """Shares of the cells of households in each county, (counties, cells)."""
    types = np.array(_TYPES) / sum(_TYPES)
    by_type = np.stack([random.dirichlet(types * _ALIKE_TYPES) for _ in range(counties)])
    sex = np.array([1 - _FEMALE, _FEMALE])
    origin = _shares_of_origin(random, counties, np.array(_RACES), np.array(_RACES_OF_HISPANICS), _ALIKE_RACES)
    cells = np.einsum("s,chr,ct->cshrt", sex, origin, by_type).reshape(counties, -1)
    return _as_shares(cells)


def _shares_of_people(random: np.random.Generator, counties: int) -> Floats:
    """Shares of the cells of people in each county, (counties, cells)."""
    races, of_hispanics = (_combinations(np.array(each)) for each in (_RACES, _RACES_OF_HISPANICS))
    origin = _shares_of_origin(random, counties, races, of_hispanics, _ALIKE_PEOPLE)
    age, citizen = (np.array([1 - share, share]) for share in (_ADULT, _CITIZEN))
    return _as_shares(np.einsum("v,chr,i->cvhri", age, origin, citizen).reshape(counties, -1))


def _shares_of_origin(
    random: np.random.Generator, counties: int, races: Floats, of_hispanics: Floats, concentration: float
) -> Floats:
    """Shares of Hispanic origin by race in each county, (counties, 2, races)."""
    hispanic = random.beta(*_HISPANIC, counties)[:, np.newaxis]
    others = np.stack([random.dirichlet(races * concentration) for _ in range(counties)])
    return np.stack([(1 - hispanic) * others, hispanic * of_hispanics], axis=1)


def _combinations(races: Floats) -> Floats:
    """Shares of the 63 combinations of races: six single ones, and the last share spread over the others."""
    several = _NEXT_COMBINATION ** np.arange(PERSON_SHAPE[2] - (len(races) - 1))
    return np.concatenate([races[:-1], races[-1] * several / several.sum()])


def _as_shares(cells: Floats) -> Floats:
    """Rows that sum to 1 as far as floats go, which the multinomial distribution asks for."""
    shares: Floats = cells / cells.sum(axis=1, keepdims=True)
    return shares
