"""Counties and enumeration districts of a simulated state of 1940: how many, how large, and of whom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation.shares import DISTRICT, StatePlan
from das_spark.simulation.states_1940 import HISPANICS, NATIONAL, STATES

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

GROUPS = 6
"""Black, American Indian, Chinese, Japanese, other Asian or Pacific Islander, and Hispanic White."""

_SPREAD_OF_COUNTIES = 0.69
_USUAL, _WEIBULL_SHAPE, _WEIBULL_SCALE = 0.915, 2.0, 1040.0
_LARGE_MEAN, _LARGE_SPREAD = 7.85, 0.45
_URBAN_TILT = np.array([0.45, 0.0, 0.5, 0.2, 0.3, 0.1])
_OF_COUNTIES = np.array([25.0, 120.0, 900.0, 250.0, 700.0, 60.0])
_OF_DISTRICTS = np.array([7.0, 8.0, 60.0, 30.0, 60.0, 9.0])
_SOUTH = 0.15
_SOUTH_COUNTIES, _SOUTH_DISTRICTS = 6.0, 2.4
_HIGHEST = 0.97


@dataclass(frozen=True, slots=True, eq=False)
class Districts:
    """Enumeration districts of a state.

    Args:
        county: Place of the county of each, ascending, (D,).
        size: People expected in each, (D,).
        rates: Share of each group, (D, 6).
        county_size: People expected in each county, (C,).
        county_rates: Share of each group, (C, 6).
    """

    county: Counts
    size: Floats
    rates: Floats
    county_size: Floats
    county_rates: Floats


def state_rates(plan: StatePlan) -> Floats:
    """Share of each group in a state, scaled so that all states sum to the national figures, (6,)."""
    persons = np.array([state.persons for state in STATES], dtype=np.float64)
    races = np.array([state.races for state in STATES], dtype=np.float64)
    hispanic = np.array([state.hispanic / 100 for state in STATES])
    scale = persons.sum() / sum(state.persons for state in STATES)
    wanted = np.append(np.array(NATIONAL) / races.sum(axis=0), HISPANICS / (persons * hispanic).sum())
    mine = np.append(np.array(plan.state.races) / plan.state.persons, plan.state.hispanic / 100)
    rates: Floats = np.minimum(mine * wanted * scale, _HIGHEST)
    return rates


def districts(plan: StatePlan, numbers: np.random.Generator) -> Districts:
    """Draw counties and districts.

    Args:
        plan: Of the state.
        numbers: Random numbers of the state.
    """
    counties = _counties(plan, numbers)
    rates = state_rates(plan)
    south = bool(rates[0] > _SOUTH)
    of_counties = _county_rates(counties, rates, south, numbers)
    number = np.maximum(1, np.round(counties / DISTRICT)).astype(np.int64)
    county = np.repeat(np.arange(len(counties)), number)
    size = _sizes(counties, county, numbers)
    strength = _OF_DISTRICTS.copy()
    if south:
        strength[0] = _SOUTH_DISTRICTS
    of_districts = _beta(of_counties[county], strength, numbers)
    crowded = of_districts.sum(axis=1)
    of_districts *= np.minimum(1.0, _HIGHEST / np.maximum(crowded, 1e-12))[:, None]
    return Districts(county, size, of_districts, counties, of_counties)


def _counties(plan: StatePlan, numbers: np.random.Generator) -> Floats:
    rest = plan.counties - len(plan.large)
    shares = np.exp(numbers.normal(0.0, _SPREAD_OF_COUNTIES, rest))
    left = plan.persons - sum(plan.large)
    sizes = np.concatenate([np.array(plan.large), left * shares / shares.sum() if rest else []])
    # Large counties have low codes only by chance.
    return numbers.permutation(sizes * plan.persons / sizes.sum())


def _sizes(counties: Floats, county: Counts, numbers: np.random.Generator) -> Floats:
    usual = _WEIBULL_SCALE * numbers.weibull(_WEIBULL_SHAPE, len(county))
    large = np.exp(numbers.normal(_LARGE_MEAN, _LARGE_SPREAD, len(county)))
    raw = np.where(numbers.random(len(county)) < _USUAL, usual, large)
    return raw * (counties / np.bincount(county, raw, len(counties)))[county]


def _county_rates(counties: Floats, rates: Floats, south: bool, numbers: np.random.Generator) -> Floats:
    tilt, strength = _URBAN_TILT.copy(), _OF_COUNTIES.copy()
    if south:
        tilt[0], strength[0] = 0.0, _SOUTH_COUNTIES
    mean = rates * (counties[:, None] / counties.mean()) ** tilt
    mean *= rates * counties.sum() / np.maximum((mean * counties[:, None]).sum(axis=0), 1e-12)
    drawn = _beta(np.minimum(mean, _HIGHEST), strength, numbers)
    people = (drawn * counties[:, None]).sum(axis=0)
    drawn *= np.where(people > 0, rates * counties.sum() / np.maximum(people, 1e-12), 0.0)
    return np.minimum(drawn, _HIGHEST)


def _beta(mean: Floats, strength: Floats, numbers: np.random.Generator) -> Floats:
    """Rates around a mean: Beta with the given concentration; 0 where the mean is 0."""
    safe = np.clip(mean, 1e-9, 1 - 1e-9)
    return np.where(mean > 0, numbers.beta(safe * strength, (1 - safe) * strength), 0.0)
