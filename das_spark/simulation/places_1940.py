"""Counties and enumeration districts of a simulated state of 1940: how many, how large, and of whom."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation.shares import StatePlan

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

GROUPS = 6
"""Black, American Indian, Chinese, Japanese, other Asian or Pacific Islander, and Hispanic White."""

_SPREAD_OF_COUNTIES, _SPREAD_IN_THE_WEST = 0.58, 1.1
"""Standard deviation of the logarithm of the size of counties that are not named; that of Washington's is about 1."""

_WEST = frozenset({2, 4, 6, 8, 15, 16, 30, 32, 35, 41, 49, 53, 56})
_LARGEST_OF_THE_REST = 3.0

# Sizes in units of a common scale: fitted to mean, standard deviation, median and 95th percentile of districts, and to
# median and 95th percentile of the errors of the published samples, which small districts decide.
_SMALL, _SMALL_MEAN = 0.155, 0.176
_LARGE, _LARGE_MEDIAN, _LARGE_SPREAD = 0.08, 2.33, 0.36
_WEIBULL_SHAPE = 2.2

_URBAN_TILT = np.array([0.45, 0.0, 0.5, 0.2, 0.3, 0.1])
_OF_COUNTIES = np.array([25.0, 120.0, 900.0, 250.0, 700.0, 60.0])
_OF_DISTRICTS = np.array([5.2, 8.0, 60.0, 30.0, 60.0, 9.0])
"""How alike counties of a state, and districts of a county, are in the share of each group: a concentration."""

_SOUTH = 0.15
_SOUTH_COUNTIES, _SOUTH_DISTRICTS = 9.0, 1.55
_HIGHEST = 0.97

_HISPANIC = np.array([0.014, 0.0065, 0.0065, 0.0012, 0.074])
"""Share of Hispanics among the first five groups; of Blacks, about as in Massachusetts, and in the South in Georgia."""

_HISPANIC_BLACKS_OF_THE_SOUTH = 0.0022


@dataclass(frozen=True, slots=True, eq=False)
class Districts:
    """Enumeration districts of a state.

    Args:
        county: Place of the county of each, ascending, (D,).
        size: People expected in each, (D,).
        rates: Share of each group, (D, 6).
        county_size: People expected in each county, (C,).
        county_rates: Share of each group, (C, 6).
        people: People expected in each group, (6,).
        hispanic: Share of Hispanics among the persons of the first five groups, (5,).
    """

    county: Counts
    size: Floats
    rates: Floats
    county_size: Floats
    county_rates: Floats
    people: Floats
    hispanic: Floats


def districts(plan: StatePlan, numbers: np.random.Generator) -> Districts:
    """Draw counties and districts.

    Args:
        plan: Of the state.
        numbers: Random numbers of the state.
    """
    counties = _counties(plan, numbers)
    rates, hispanic = _rates(plan)
    of_counties = _county_rates(counties, rates, numbers)
    number = max(plan.counties, round(plan.persons / plan.expected.persons_of_district))
    county = np.repeat(np.arange(len(counties)), _apportioned(counties, number))
    size = _sizes(counties, county, numbers)
    strength = _OF_DISTRICTS.copy()
    if _is_south(rates):
        strength[0] = _SOUTH_DISTRICTS
    of_districts = _beta(of_counties[county], strength, numbers)
    crowded = of_districts.sum(axis=1)
    of_districts *= np.minimum(1.0, _HIGHEST / np.maximum(crowded, 1e-12))[:, None]
    of_districts = _rescaled(of_districts, size, rates)
    return Districts(county, size, of_districts, counties, of_counties, rates * size.sum(), hispanic)


def _rates(plan: StatePlan) -> tuple[Floats, Floats]:
    """Share of each group, Hispanics of other races counted there, (6,); and share of Hispanics in each race, (5,)."""
    rates, hispanic = plan.expected.rates.copy(), _HISPANIC.copy()
    if _is_south(rates):
        hispanic[0] = _HISPANIC_BLACKS_OF_THE_SOUTH
    rates[5] -= min(rates[:5] @ hispanic, rates[5] / 2)
    return rates, hispanic


def _is_south(rates: Floats) -> bool:
    return bool(rates[0] > _SOUTH)


def _apportioned(counties: Floats, number: int) -> Counts:
    """One district a county, and the rest by population: whole parts first, then the largest remainders."""
    quotas = counties / counties.sum() * (number - len(counties))
    whole = np.floor(quotas).astype(np.int64)
    left = number - len(counties) - int(whole.sum())
    whole[np.argsort(whole - quotas, kind="stable")[:left]] += 1
    apportioned: Counts = whole + 1
    return apportioned


def _counties(plan: StatePlan, numbers: np.random.Generator) -> Floats:
    rest = plan.counties - len(plan.large)
    spread = _SPREAD_IN_THE_WEST if plan.state.fips in _WEST else _SPREAD_OF_COUNTIES
    shares = np.exp(numbers.normal(0.0, spread, rest))
    # All counties that are much larger than the others are known.
    shares = np.minimum(shares, _LARGEST_OF_THE_REST * shares.mean()) if rest else shares
    left = plan.persons - sum(plan.large)
    sizes = np.concatenate([np.array(plan.large), left * shares / shares.sum() if rest else []])
    # Large counties have low codes only by chance.
    return numbers.permutation(sizes * plan.persons / sizes.sum())


def _sizes(counties: Floats, county: Counts, numbers: np.random.Generator) -> Floats:
    """Most districts are near the mean; some are small, such as villages and institutions, and some large."""
    draw = numbers.random(len(county))
    small = _SMALL_MEAN * numbers.standard_exponential(len(county))
    large = _LARGE_MEDIAN * np.exp(numbers.normal(0.0, _LARGE_SPREAD, len(county)))
    usual = numbers.weibull(_WEIBULL_SHAPE, len(county))
    raw = np.where(draw < _SMALL, small, np.where(draw > 1 - _LARGE, large, usual))
    return raw * (counties / np.bincount(county, raw, len(counties)))[county]


def _county_rates(counties: Floats, rates: Floats, numbers: np.random.Generator) -> Floats:
    tilt, strength = _URBAN_TILT.copy(), _OF_COUNTIES.copy()
    if _is_south(rates):
        tilt[0], strength[0] = 0.0, _SOUTH_COUNTIES
    mean = rates * (counties[:, None] / counties.mean()) ** tilt
    mean *= rates * counties.sum() / np.maximum((mean * counties[:, None]).sum(axis=0), 1e-12)
    return _rescaled(_beta(np.minimum(mean, _HIGHEST), strength, numbers), counties, rates)


def _rescaled(drawn: Floats, size: Floats, rates: Floats) -> Floats:
    """Rates of geounits, (n, 6), such that each group is the share of all their people that it should be."""
    people = (drawn * size[:, None]).sum(axis=0)
    scale = np.where(people > 0, rates * size.sum() / np.maximum(people, 1e-12), 0.0)
    return np.minimum(drawn * scale, _HIGHEST)


def _beta(mean: Floats, strength: Floats, numbers: np.random.Generator) -> Floats:
    """Rates around a mean: Beta with the given concentration; 0 where the mean is 0."""
    safe = np.clip(mean, 1e-9, 1 - 1e-9)
    return np.where(mean > 0, numbers.beta(safe * strength, (1 - safe) * strength), 0.0)
