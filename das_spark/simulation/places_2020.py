"""Counties, tracts, block groups and blocks of a simulated state of 2020: how many, how large, and of whom."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation.states_2020 import PERSONS, STATES, State

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

TRACT, BLOCK_GROUP = 3_900.0, 1_380.0
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
class StatePlan:
    """A state of a simulated 2020.

    Args:
        state: Its figures.
        persons: People expected in it.
        counties: How many counties it has.
    """

    state: State
    persons: float
    counties: int

    @property
    def rates(self) -> Floats:
        """Share of each group, (8,), none without anybody."""
        rates = np.maximum(np.array(self.state.groups) / 100, _LEAST_RATE)
        shares: Floats = rates / rates.sum()
        return shares


def plan_of_nation(share: Fraction) -> tuple[StatePlan, ...]:
    """Which states a share of the nation has, and how large they are.

    All states are kept down to a share at which a state would have fewer than twelve tracts on average; then every so
    many, evenly through the list. Places keep their size, there are fewer of them.

    Args:
        share: Above 0 and up to 1.

    Returns:
        The states by code.
    """
    persons = float(share) * PERSONS
    number = min(len(STATES), max(1, int(persons / TRACT / _TRACTS_OF_A_STATE)))
    chosen = [STATES[place * len(STATES) // number] for place in range(number)]
    everyone = sum(state.persons for state in chosen)
    return tuple(plan_of_state(state, persons * state.persons / everyone) for state in chosen)


def plan_of_state(state: State, persons: float) -> StatePlan:
    """How many counties a state of a given size has: as many as it has, thinned with its people, down to three.

    Args:
        state: Its figures.
        persons: People expected in it.
    """
    most = max(1, round(persons / TRACT / _TRACTS_OF_A_COUNTY))
    thinned = max(round(state.counties * persons / state.persons), min(_FEWEST_COUNTIES, state.counties))
    return StatePlan(state, persons, min(thinned, most))


@dataclass(frozen=True, slots=True, eq=False)
class Blocks:
    """The blocks of a state, by geocode.

    Args:
        geocodes: 16 digits, ascending, (B,) of text.
        size: People expected in each, 0 in those where nobody lives, (B,).
        tract: Place of the tract of each, ascending, (B,).
        rates: Share of each group in each tract, (T, 8).
    """

    geocodes: NDArray[np.str_]
    size: Floats
    tract: Counts
    rates: Floats

    def block_rates(self, start: int, stop: int, numbers: np.random.Generator) -> Floats:
        """Share of each group in some blocks, drawn around their tracts, (n, 8).

        Args:
            start: Place of the first block.
            stop: Place behind the last one.
            numbers: Random numbers of the state.
        """
        return _around(self.rates[self.tract[start:stop]], _ALIKE[2], numbers)


def blocks(plan: StatePlan, numbers: np.random.Generator) -> Blocks:
    """Draw the places of a state.

    Args:
        plan: Of the state.
        numbers: Random numbers of the state.
    """
    counties = plan.persons * _portions(np.zeros(plan.counties, dtype=np.int64), 0.0, numbers)
    of_counties = _around(np.tile(plan.rates, (plan.counties, 1)), _ALIKE[0], numbers)
    county = _children(np.minimum(np.round(counties / TRACT), _MOST_TRACTS))
    tracts = counties[county] * _portions(county, _SHAPE_OF_TRACTS, numbers)
    of_tracts = _around(of_counties[county], _ALIKE[1], numbers)
    tract = _children(np.minimum(np.round(tracts / BLOCK_GROUP), _MOST_GROUPS))
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


def _around(mean: Floats, alike: float, numbers: np.random.Generator) -> Floats:
    """Shares of groups around the given ones: mostly Dirichlet, and a little of every group everywhere, (n, 8)."""
    drawn = numbers.standard_gamma(alike * mean) + 1e-12
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
