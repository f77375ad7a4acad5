"""A synthetic population of the size and shape of the census of 2020, state by state, down to the block.

States, counties, tracts, block groups, blocks (a third of them empty), segregation, households, vacant units, group
quarters of all seven classes and the 63 combinations of races: calibrated to published figures
(:mod:`das_spark.simulation.states_2020`). Nobody of it exists; what codes of states it carries are those of states.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation.population import Population, PopulationKind, generator
from das_spark.simulation.states_2020 import GROUPS, PERSONS, STATES, SYNTHETIC_STATE, State2020

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

_TRACT, _BLOCK_GROUP = 3_900.0, 1_380.0
"""Mean number of persons in a tract and in a block group of 2020."""

_TRACTS_OF_A_STATE = 12
_TRACTS_OF_A_COUNTY = 2.0
_FEWEST_COUNTIES = 3
_MOST_GROUPS, _MOST_BLOCKS, _MOST_TRACTS = 9, 999, 9_999
_SPREAD_OF_COUNTIES = 1.3
_SHAPE_OF_TRACTS, _SHAPE_OF_GROUPS, _SHAPE_OF_BLOCKS = 7.0, 9.0, 0.9
_BLOCKS, _SHAPE_OF_BLOCK_NUMBERS = 33.0, 2.0
_EMPTY = 0.27
_ALIKE = np.array([24.0, 14.0, 18.0])
"""Concentration of the groups of counties around their state, of tracts around counties, of blocks around tracts."""

_ANYWHERE = 0.12
_LEAST_RATE = 2e-4


@dataclass(frozen=True, slots=True)
class StatePlan2020:
    """A state of a synthetic 2020."""

    state: State2020
    persons: float
    counties: int

    @property
    def rates(self) -> Floats:
        """Share of each group, (8,), none without anybody."""
        rates = np.maximum(np.array(self.state.groups) / 100, _LEAST_RATE)
        shares: Floats = rates / rates.sum()
        return shares


def _plan_of_nation(share: Fraction) -> tuple[StatePlan2020, ...]:
    """Which states a share of the nation has, and how large they are.

    All states are kept down to a share at which a state would have fewer than twelve tracts on average; then every so
    many, evenly through the list. Places keep their size, there are fewer of them.
    """
    persons = float(share) * PERSONS
    number = min(len(STATES), max(1, int(persons / _TRACT / _TRACTS_OF_A_STATE)))
    chosen = [STATES[place * len(STATES) // number] for place in range(number)]
    everyone = sum(state.persons for state in chosen)
    return tuple(_plan_of_state(state, persons * state.persons / everyone) for state in chosen)


def _plan_of_state(state: State2020, persons: float) -> StatePlan2020:
    """How many counties a state of a given size has: as many as it has, thinned with its people, down to three."""
    most = max(1, round(persons / _TRACT / _TRACTS_OF_A_COUNTY))
    thinned = max(round(state.counties * persons / state.persons), min(_FEWEST_COUNTIES, state.counties))
    return StatePlan2020(state, persons, min(thinned, most))


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The blocks of a state, by geocode."""

    geocodes: NDArray[np.str_]
    size: Floats
    tract: Counts  #: place of the tract of each block
    rates: Floats  #: share of each group by tract

    def block_rates(self, start: int, stop: int, numbers: np.random.Generator) -> Floats:
        """Share of each group in some blocks, drawn around their tracts, (n, 8)."""
        return _around(self.rates[self.tract[start:stop]], _ALIKE[2], numbers)


def _places(plan: StatePlan2020, numbers: np.random.Generator) -> Blocks:
    """Draw the places of a state."""
    counties = plan.persons * _portions(np.zeros(plan.counties, dtype=np.int64), 0.0, numbers)
    of_counties = _around(np.tile(plan.rates, (plan.counties, 1)), _ALIKE[0], numbers)
    county = _children(np.minimum(np.round(counties / _TRACT), _MOST_TRACTS))
    tracts = counties[county] * _portions(county, _SHAPE_OF_TRACTS, numbers)
    of_tracts = _around(of_counties[county], _ALIKE[1], numbers)
    tract = _children(np.minimum(np.round(tracts / _BLOCK_GROUP), _MOST_GROUPS))
    groups = tracts[tract] * _portions(tract, _SHAPE_OF_GROUPS, numbers)
    wanted = numbers.gamma(_SHAPE_OF_BLOCK_NUMBERS, _BLOCKS / _SHAPE_OF_BLOCK_NUMBERS, len(groups))
    group = _children(np.minimum(np.round(wanted), _MOST_BLOCKS))
    inhabited = numbers.random(len(group)) >= _EMPTY
    size = groups[group] * _portions(group, _SHAPE_OF_BLOCKS, numbers, inhabited)
    size *= plan.persons / max(size.sum(), 1.0)
    geocodes = _geocodes(plan.state.fips, county, tract, group)
    return Blocks(geocodes, size, tract[group], of_tracts)


def _children(number: Floats) -> Counts:
    """Place of the parent of each child, given how many children each parent has; at least one."""
    return np.repeat(np.arange(len(number)), np.maximum(number, 1).astype(np.int64))


def _portions(
    parent: Counts, shape: float, numbers: np.random.Generator, there: NDArray[np.bool_] | None = None
) -> Floats:
    """Random portions of what each parent has, summing to 1 among its children, or to 0 where no child is there."""
    if shape:
        drawn = numbers.gamma(shape, 1.0, len(parent)) + 1e-9
    else:
        drawn = np.exp(numbers.normal(0.0, _SPREAD_OF_COUNTIES, len(parent)))
    if there is not None:
        drawn *= there
    whole = np.bincount(parent, drawn)
    return drawn / np.where(whole > 0, whole, 1.0)[parent]


def _around(mean: Floats, concentration: float, numbers: np.random.Generator) -> Floats:
    """Shares of groups around the given ones: mostly Dirichlet, and a little of every group everywhere, (n, 8)."""
    drawn = numbers.standard_gamma(concentration * mean) + 1e-12
    drawn /= drawn.sum(axis=1, keepdims=True)
    return (1 - _ANYWHERE) * drawn + _ANYWHERE * mean


def _number(parent: Counts) -> Counts:
    """Number of each child among those of its parent, from 1."""
    return np.arange(len(parent)) - np.searchsorted(parent, parent) + 1


def _geocodes(fips: int, county: Counts, tract: Counts, group: Counts) -> NDArray[np.str_]:
    """Counties are 001, 003, 005, ..., tracts 0001.00, 0002.00, ...; a block is its block group and three digits."""
    of_tracts = [
        f"{fips:02d}{2 * place + 1:03d}{number * 100:06d}"
        for place, number in zip(county.tolist(), _number(county).tolist(), strict=True)
    ]
    of_groups = [f"{of_tracts[place]}{number}{number}" for place, number in zip(tract, _number(tract), strict=True)]
    number = (_number(group) - 1).tolist()
    codes = [f"{of_groups[place]}{block:03d}" for place, block in zip(group.tolist(), number, strict=True)]
    return np.array(codes)


_HHGQ, _AGES, _ORIGINS, _RACES = 8, 2, 2, 63
_CELLS = _HHGQ * _AGES * _ORIGINS * _RACES
_SEVERAL, _HISPANIC = 6, 7

_MEMBERS = 2.53
"""Mean number of persons in a household of 2020."""

_MINORS = np.array([0.181, 0.242, 0.263, 0.200, 0.275, 0.304, 0.363, 0.302])
"""Share of persons under 18 in each group."""

_SPREAD_OF_MINORS = 0.15
_MINORS_OF_CLASS = np.array([0.0, 0.0, 0.9, 0.0, 0.35, 0.004, 0.002, 0.06])
"""Share of minors in each class of group quarters; in nursing facilities there are none."""

_RACES_OF_SEVERAL = (
    *(2055, 2628, 1851, 145, 1693, 253, 163, 29, 262, 28, 6, 11, 143, 57, 9),
    *(224, 76, 10, 48, 53, 9, 13, 127, 14, 2, 7, 2, 5, 7, 5, 1, 2, 1, 0.1, 2),
    *(18, 3, 10, 5, 3, 0.1, 9, 1, 0.1, 1, 1, 0.1, 0.1, 1, 0.1),
    *(4, 2, 0.1, 0.1, 0.1, 0.1, 1),
)
"""Of 10,000 non-Hispanics of several races: in each of the 57 combinations, in the order of the codes."""

_RACES_OF_HISPANICS = (
    *(2030, 188, 238, 43, 11, 4217),
    *(46, 69, 27, 4, 2748, 8, 3, 1, 110, 2, 1, 59, 3, 18, 6),
    *(13, 3, 0.1, 33, 3, 1, 62, 5, 17, 2, 0.1, 0.1, 3, 0.1, 1, 0.1, 0.1, 1, 0.1, 1),
    *(1, 0.1, 12, 0.1, 1, 0.1, 1, 2, 0.1, 1, 0.1, 0.1, 0.1, 0.1, 0.1),
    *(1, 1, 0.1, 0.1, 0.1, 0.1, 0.1),
)
"""Of 10,000 Hispanics: in each of the 63 combinations of races."""


@dataclass(frozen=True, slots=True, eq=False)
class _Dwellings:
    """Households and facilities of some blocks."""

    households: Counts
    block: Counts
    level: Counts
    size: Counts


def _people(dwellings: _Dwellings, rates: Floats, numbers: np.random.Generator) -> tuple[Counts, Counts, Counts]:
    """Draw everyone, person by person, and count them."""
    blocks = len(dwellings.households)
    members = dwellings.households + numbers.poisson(dwellings.households * (_MEMBERS - 1))
    group = _groups(members, rates, numbers)
    block = np.repeat(np.arange(blocks), members)
    young = np.minimum(_MINORS * numbers.gamma(1 / _SPREAD_OF_MINORS, _SPREAD_OF_MINORS, (blocks, 1)), 0.9)
    minor = numbers.random(len(block)) < young[block, group]
    keys = block * _CELLS + _cells(group, minor, numbers)
    resident = _groups(dwellings.size, rates[dwellings.block], numbers)
    facility = np.repeat(np.arange(len(dwellings.size)), dwellings.size)
    level = dwellings.level[facility]
    minor = numbers.random(len(facility)) < _MINORS_OF_CLASS[level]
    inside = dwellings.block[facility] * _CELLS + level * (_CELLS // _HHGQ) + _cells(resident, minor, numbers)
    found, count = np.unique(np.concatenate([keys, inside]), return_counts=True)
    return found // _CELLS, found % _CELLS, count.astype(np.int64)


def _groups(number: Counts, rates: Floats, numbers: np.random.Generator) -> Counts:
    """Group of every person, by place, (number.sum(),)."""
    drawn = numbers.multinomial(number, rates / rates.sum(axis=1, keepdims=True))
    return np.repeat(np.tile(np.arange(GROUPS), len(number)), drawn.ravel())


def _cells(group: Counts, minor: np.ndarray[tuple[int], np.dtype[np.bool_]], numbers: np.random.Generator) -> Counts:
    """Voting age, Hispanic origin and race of every person, as one number."""
    hispanic, race = origins_and_races(group, numbers)
    cells: Counts = ((~minor) * _ORIGINS + hispanic) * _RACES + race
    return cells


def origins_and_races(group: Counts, numbers: np.random.Generator) -> tuple[Counts, Counts]:
    """Draw Hispanic origin (0, 1) and race (0 to 62) of people of known groups, (n,) each."""
    race = group.copy()
    several, hispanic = group == _SEVERAL, group == _HISPANIC
    race[several] = 6 + _pick(_RACES_OF_SEVERAL, int(several.sum()), numbers)
    race[hispanic] = _pick(_RACES_OF_HISPANICS, int(hispanic.sum()), numbers)
    return hispanic.astype(np.int64), race


def _pick(weights: tuple[float, ...], number: int, numbers: np.random.Generator) -> Counts:
    cumulative = np.cumsum(weights)
    picked: Counts = np.searchsorted(cumulative, numbers.random(number) * cumulative[-1], side="right")
    return picked


_FACILITIES = ((1, 59e-4, 400.0), (2, 2.7e-4, 18.0), (3, 49e-4, 80.0), (4, 2.1e-4, 25.0), (5, 84e-4, 260.0))
_MORE_FACILITIES = ((6, 10e-4, 220.0), (7, 41e-4, 11.0))
"""Class, residents as a share of everybody, and mean residents of a facility."""

_SHAPE = 0.8
_IN_EMPTY_BLOCKS = 0.15
_VACANT = 0.107
_SEASONAL = 0.5
_EMPTY_WITH_UNITS, _UNITS_THERE = 0.09, 1.5

_RESIDENTS = sum(share for _, share, _ in (*_FACILITIES, *_MORE_FACILITIES))
"""Share of everybody who lives in group quarters."""


def _facilities(blocks: Blocks, persons: float, numbers: np.random.Generator) -> tuple[Counts, Counts, Counts]:
    """Draw the facilities of a state: some of every class, most of them where people live."""
    kinds = (*_FACILITIES, *_MORE_FACILITIES)
    number = numbers.poisson([persons * share / mean for _, share, mean in kinds])
    # Of a class that is too rare for a small state there is one, too small to change how many live in quarters.
    usual = [
        mean if drawn else min(persons * share, mean) for (_, share, mean), drawn in zip(kinds, number, strict=True)
    ]
    of_kind = np.repeat(np.arange(len(kinds)), np.maximum(number, 1))
    level = np.array([each for each, _, _ in kinds])[of_kind]
    size = 1 + numbers.poisson(numbers.gamma(_SHAPE, np.array(usual)[of_kind] / _SHAPE))
    where = np.cumsum(np.where(blocks.size > 0, 1.0, _IN_EMPTY_BLOCKS))
    block = np.searchsorted(where, numbers.random(len(level)) * where[-1], side="right")
    order = np.argsort(block, kind="stable")
    return block[order], level[order], size[order]


def _vacant_units(blocks: Blocks, households: Counts, numbers: np.random.Generator) -> Counts:
    """Draw the vacant housing units of every block: more in some tracts than others, and a few where nobody lives."""
    seasonal = numbers.gamma(1 / _SEASONAL, _SEASONAL, len(blocks.rates))[blocks.tract]
    vacant = numbers.poisson(households * _VACANT * seasonal)
    alone = (households == 0) & (numbers.random(len(households)) < _EMPTY_WITH_UNITS)
    return np.where(alone, 1 + numbers.poisson(_UNITS_THERE, len(households)), vacant).astype(np.int64)


_ATTRIBUTES = (("hhgq", _HHGQ), ("votingage", _AGES), ("hispanic", _ORIGINS), ("cenrace", _RACES))
_PERSONS_AT_ONCE = 500_000
_GEOCODE_LENGTH = 16


def _nation(share: Fraction) -> tuple[int, ...]:
    return tuple(each.state.fips for each in _plan_of_nation(share))


def _make_nation(part: int, seed: int, share: Fraction) -> Population:
    return _make(next(each for each in _plan_of_nation(share) if each.state.fips == part), seed)


def _one(share: Fraction) -> tuple[int, ...]:
    del share
    return (SYNTHETIC_STATE.fips,)


def _make_one(part: int, seed: int, share: Fraction) -> Population:
    del part
    return _make(_plan_of_state(SYNTHETIC_STATE, float(share) * SYNTHETIC_STATE.persons), seed)


@dataclass(frozen=True, slots=True, eq=False)
class Housing:
    """The places of a state and what stands there: blocks by geocode, housing units and facilities."""

    places: Blocks
    households: Counts  #: occupied housing units of each block, (D,)
    vacant: Counts  #: vacant ones, (D,)
    block: Counts  #: block of each facility, ascending, (F,)
    level: Counts  #: class of each, 1 to 7, (F,)
    size: Counts  #: residents of each, (F,)

    def chunks(self) -> list[tuple[int, int]]:
        """Runs of blocks with a bounded number of persons, for persons are drawn one by one."""
        before = np.cumsum(self.places.size) - self.places.size
        starts = np.flatnonzero(np.diff(before // _PERSONS_AT_ONCE, prepend=-1.0))
        return list(zip(starts.tolist(), [*starts[1:].tolist(), len(before)], strict=True))

    def facilities(self, start: int, stop: int) -> slice:
        """The facilities of a run of blocks."""
        return slice(*np.searchsorted(self.block, [start, stop]))


def _housing(plan: StatePlan2020, numbers: np.random.Generator) -> Housing:
    """Draw all blocks of a state, empty ones too, and their units."""
    places = _places(plan, numbers)
    households = numbers.poisson(places.size * (1 - _RESIDENTS) / _MEMBERS).astype(np.int64)
    block, level, size = _facilities(places, plan.persons, numbers)
    vacant = _vacant_units(places, households, numbers)
    return Housing(places, households, vacant, block, level, size)


def housing_of_state(seed: int, share: Fraction) -> Housing:
    """The places and units of `STATE_2020` of a seed and share, without people."""
    plan = _plan_of_state(SYNTHETIC_STATE, float(share) * SYNTHETIC_STATE.persons)
    return _housing(plan, generator(seed, plan.state.fips, 2020))


def housing_of_nation(seed: int, share: Fraction) -> Iterator[tuple[int, Housing]]:
    """The places and units of each state of `CENSUS_2020` of a seed and share, without people; before them its code."""
    for plan in _plan_of_nation(share):
        yield plan.state.fips, _housing(plan, generator(seed, plan.state.fips, 2020))


def _make(plan: StatePlan2020, seed: int) -> Population:
    """Make a state; deterministic."""
    numbers = generator(seed, plan.state.fips, 2020)
    made = _housing(plan, numbers)
    found = []
    for start, stop in made.chunks():
        mine = made.facilities(start, stop)
        dwellings = _Dwellings(made.households[start:stop], made.block[mine] - start, made.level[mine], made.size[mine])
        rates = made.places.block_rates(start, stop, numbers)
        geounit, cell, count = _people(dwellings, rates, numbers)
        found.append((geounit + start, cell, count))
    geounit, cell, count = (np.concatenate(each) for each in zip(*found, strict=True))
    units = np.zeros((len(made.households), _HHGQ), dtype=np.int64)
    units[:, 0] = made.households
    np.add.at(units, (made.block, made.level), 1)
    return Population(made.places.geocodes, geounit, cell, count, units, made.vacant)


CENSUS_2020 = PopulationKind("2020", _ATTRIBUTES, _GEOCODE_LENGTH, _nation, _make_nation)
"""The nation: a share of its people, in all states or in some."""

STATE_2020 = PopulationKind("2020-state", _ATTRIBUTES, _GEOCODE_LENGTH, _one, _make_one)
"""One synthetic state of up to ten million people."""
