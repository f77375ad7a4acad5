"""A population of the size and shape of the census of 2020, state by state, down to the block.

States, counties, tracts, block groups, blocks (a third of them empty), segregation, households, vacant units, group
quarters of all seven classes and the 63 combinations of races: calibrated to published figures
(:mod:`das_spark.simulation.states_2020`). Nobody of it exists; what codes of states it carries are those of states.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from das_spark.simulation.people_2020 import AGES, HHGQ, MEMBERS, ORIGINS, RACES, Dwellings, people
from das_spark.simulation.places_2020 import Blocks, StatePlan, blocks, plan_of_nation, plan_of_state
from das_spark.simulation.population import Kind, Population, generator
from das_spark.simulation.quarters_2020 import RESIDENTS, facilities, vacant_units
from das_spark.simulation.states_2020 import INVENTED

_ATTRIBUTES = (("hhgq", HHGQ), ("votingage", AGES), ("hispanic", ORIGINS), ("cenrace", RACES))
_PERSONS_AT_ONCE = 500_000
_GEOCODE_LENGTH = 16


def _nation(share: Fraction) -> tuple[int, ...]:
    return tuple(each.state.fips for each in plan_of_nation(share))


def _make_nation(part: int, seed: int, share: Fraction) -> Population:
    return _make(next(each for each in plan_of_nation(share) if each.state.fips == part), seed)


def _one(share: Fraction) -> tuple[int, ...]:
    del share
    return (INVENTED.fips,)


def _make_one(part: int, seed: int, share: Fraction) -> Population:
    del part
    return _make(plan_of_state(INVENTED, float(share) * INVENTED.persons), seed)


def _make(plan: StatePlan, seed: int) -> Population:
    """Make a state: all blocks, empty ones too; deterministic."""
    numbers = generator(seed, plan.state.fips, 2020)
    places = blocks(plan, numbers)
    households = numbers.poisson(places.size * (1 - RESIDENTS) / MEMBERS).astype(np.int64)
    block, level, size = facilities(places, plan.persons, numbers)
    vacant = vacant_units(places, households, numbers)
    found = []
    for start, stop in _chunks(places):
        mine = slice(*np.searchsorted(block, [start, stop]))
        dwellings = Dwellings(households[start:stop], block[mine] - start, level[mine], size[mine])
        rates = places.block_rates(start, stop, numbers)
        geounit, cell, count = people(dwellings, rates, numbers)
        found.append((geounit + start, cell, count))
    geounit, cell, count = (np.concatenate(each) for each in zip(*found, strict=True))
    units = np.zeros((len(households), HHGQ), dtype=np.int64)
    units[:, 0] = households
    np.add.at(units, (block, level), 1)
    return Population(places.geocodes, geounit, cell, count, units, vacant)


def _chunks(places: Blocks) -> list[tuple[int, int]]:
    """Runs of blocks with a bounded number of persons, for persons are drawn one by one."""
    before = np.cumsum(places.size) - places.size
    starts = np.flatnonzero(np.diff(before // _PERSONS_AT_ONCE, prepend=-1.0))
    return list(zip(starts.tolist(), [*starts[1:].tolist(), len(before)], strict=True))


CENSUS_2020 = Kind("2020", _ATTRIBUTES, _GEOCODE_LENGTH, _nation, _make_nation)
"""The nation: a share of its people, in all states or in some."""

STATE_2020 = Kind("2020-state", _ATTRIBUTES, _GEOCODE_LENGTH, _one, _make_one)
"""One invented state of up to ten million people."""
