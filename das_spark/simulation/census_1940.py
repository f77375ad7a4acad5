"""A synthetic population of the size and shape of the census of 1940, state by state.

States, counties, segregation between and within counties, households, group quarters: calibrated to the published
figures of the full-count file (:mod:`das_spark.simulation.states_1940`). Codes of counties are 1, 3, 5, ... times
ten, of districts 1, 2, 3, ...; there are no vacant units, as in that file. A share of 1940 has fewer districts, which
keep their size. People come in households, so couples are as common as single persons.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation.population import Population, PopulationKind, generator
from das_spark.simulation.states_1940 import DISTRICTS, PERSONS, STATES, Expected, State1940, expected

_DISTRICTS_OF_A_STATE = 4


@dataclass(frozen=True, slots=True)
class StatePlan1940:
    """A state of a synthetic 1940."""

    state: State1940
    expected: Expected
    persons: float
    counties: int
    large: tuple[float, ...]


def plan(share: Fraction) -> tuple[StatePlan1940, ...]:
    """Which states there are, and how large they are.

    All states are kept down to a share at which a state would have fewer than four districts on average; then every
    so many, evenly through the list. Counties are thinned evenly by size, and at least one is kept; people are as
    many as the share says.
    """
    districts = float(share) * DISTRICTS
    number = min(len(STATES), max(1, int(districts / _DISTRICTS_OF_A_STATE)))
    chosen = [STATES[place * len(STATES) // number] for place in range(number)]
    everyone = sum(expected()[state.fips].persons for state in chosen)
    return tuple(_state(state, float(share) * PERSONS / everyone) for state in chosen)


def _state(state: State1940, fraction: float) -> StatePlan1940:
    whole = expected()[state.fips]
    persons = whole.persons * fraction
    counties = max(1, min(state.counties, round(state.counties * fraction)))
    if counties == state.counties:
        return StatePlan1940(state, whole, persons, counties, tuple(1000.0 * size * fraction for size in state.large))
    # Every so many of the known large counties, as of all counties; what they lack is shared out among the others.
    large = state.large[:: max(1, round(1 / fraction))][: counties - 1]
    scale = min(1.0, persons * 0.7 / (1000.0 * sum(large))) if large else 1.0
    return StatePlan1940(state, whole, persons, counties, tuple(1000.0 * size * scale for size in large))


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
    """Enumeration districts of a state."""

    county: Counts
    size: Floats
    rates: Floats
    county_size: Floats
    county_rates: Floats
    people: Floats
    hispanic: Floats


def districts(plan: StatePlan1940, numbers: np.random.Generator) -> Districts:
    """Draw counties and districts."""
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


def _rates(plan: StatePlan1940) -> tuple[Floats, Floats]:
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


def _counties(plan: StatePlan1940, numbers: np.random.Generator) -> Floats:
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


AGES, ORIGINS, RACES = 2, 2, 6
MINOR, ADULT = 0, 1

_HOUSEHOLD = (3.6, 4.0, 2.0, 3.2, 2.0, 3.6)
_SECOND_ADULT = 0.95

_ISOLATED = (0.016, 0.008, 0.02, 0.02, 0.02, 0.028)
"""Share of each group that lives singly among others of the county: servants and lodgers."""

_COUPLES = 0.1
"""How often such a person has another adult of the group there."""

_SCATTERED = (0.95, 0.16, 0.14, 0.12, 0.18, 2.9)
"""Households of each group that live anywhere in a county of median size; the most, as a share of the group, next."""

_MOST_SCATTERED = 0.5

_SOMEBODY = 2.0
"""A state in which more of a group than this are expected has somebody of it."""

_MEDIAN_COUNTY = 18_679
_SPREAD_OF_MINORS = 0.05


def people(districts: Districts, minors: float, numbers: np.random.Generator) -> Counts:
    """Draw the people of every district."""
    counts = np.zeros((len(districts.size), AGES, ORIGINS, RACES), dtype=np.int64)
    for group in range(GROUPS):
        race, origin = (0, 1) if group == GROUPS - 1 else (group + 1, 0)
        counts[:, :, origin, race] += _group(districts, group, minors, numbers)
    for group, share in enumerate(districts.hispanic.tolist()):
        moved = _hispanics(counts[:, :, 0, group + 1], share, _HOUSEHOLD[group], minors, numbers)
        counts[:, :, 0, group + 1] -= moved
        counts[:, :, 1, group + 1] += moved
    others = np.maximum(numbers.poisson(districts.size) - counts.sum(axis=(1, 2, 3)), 0)
    young = np.clip(minors + numbers.normal(0.0, _SPREAD_OF_MINORS, len(others)), 0.02, 0.7)
    children = numbers.binomial(others, young)
    counts[:, MINOR, 0, 0] += children
    counts[:, ADULT, 0, 0] += others - children
    empty = counts.sum(axis=(1, 2, 3)) == 0
    counts[empty, ADULT, 0, 0] = 1  # the file of 1940 lists districts by their households, so none is empty
    return counts


def _group(districts: Districts, group: int, minors: float, numbers: np.random.Generator) -> Counts:
    """Persons of a group by age, (D, 2): in households by the district's rate, some all over the county."""
    size, alone = _HOUSEHOLD[group], _ISOLATED[group]
    anywhere = _anywhere(districts, group)
    rest = 1 - float(anywhere.sum()) * size / max(districts.people[group], 1e-9)
    households = districts.size * districts.rates[:, group] * rest * (1 - alone) / size
    counts = _households(numbers.poisson(households) + numbers.poisson(anywhere), size, minors, numbers)
    elsewhere = districts.county_size * districts.county_rates[:, group] * rest * alone / np.bincount(districts.county)
    arrivals = numbers.poisson(elsewhere[districts.county] / (1 + _COUPLES))
    counts[:, ADULT] += arrivals + numbers.binomial(arrivals, _COUPLES)
    if not counts.any() and districts.people[group] > _SOMEBODY:
        counts[numbers.integers(len(counts)), ADULT] = 1
    return counts


def _anywhere(districts: Districts, group: int) -> Floats:
    """Households expected in each district of those that live anywhere: nearly every county has someone, (D,)."""
    of_county = _SCATTERED[group] * np.sqrt(districts.county_size / _MEDIAN_COUNTY)
    most = _MOST_SCATTERED * districts.people[group] / _HOUSEHOLD[group]
    of_district: Floats = of_county * min(1.0, most / of_county.sum()) / np.bincount(districts.county)
    return of_district[districts.county]


def _households(households: Counts, size: float, minors: float, numbers: np.random.Generator) -> Counts:
    adults = size * (1 - minors)
    second = min(_SECOND_ADULT, max(adults - 1, 0.0))
    more = max(adults - 1 - second, 0.0)
    counts = np.zeros((len(households), AGES), dtype=np.int64)
    counts[:, ADULT] = households + numbers.binomial(households, second) + numbers.poisson(households * more)
    mean: Floats = numbers.gamma(households, size * minors)
    counts[:, MINOR] = numbers.poisson(mean)
    return counts


def _hispanics(counts: Counts, share: float, size: float, minors: float, numbers: np.random.Generator) -> Counts:
    """Hispanics among the persons of a race by age, (D, 2): whole households."""
    households = numbers.poisson(counts.sum(axis=1) * share / size)
    return np.minimum(_households(households, size, minors, numbers), counts)


def state_of_1940(fips: int, seed: int) -> tuple[Counts, Counts]:
    """People of a whole state, without their households.

    Args:
        fips: Of the state.
        seed: Of the population.

    Returns:
        County of each district, ascending, (D,); people by district, age, Hispanic origin and race, (D, 2, 2, 6).
    """
    chosen = next(each for each in plan(Fraction(1)) if each.state.fips == fips)
    numbers = generator(seed, fips, 1940)
    found = districts(chosen, numbers)
    return found.county, people(found, chosen.state.minors / 100, numbers)


HHGQ = 8

_KINDS = ((0.12, 65.0, (1, 2, 3)), (0.15, 26.0, (6,)), (0.13, 40.0, (4, 5, 7)))
"""Share of districts with them, mean persons there, and classes: of institutions, rooming houses and others."""

_PERSONS, _UNITS = 0.0178, (763_242 + 530_445) / PERSONS
"""Persons and units of group quarters by person of the file: persons as in Washington, Georgia and Massachusetts
together, units as in the nation (published with the evaluation of its protected release)."""

_MOST_OF_ADULTS = 0.6
_MINORS = 0.02
_SPLIT_ABOVE = 60


def _house(people: Counts, persons_of_unit: float, numbers: np.random.Generator) -> tuple[Counts, Counts]:
    """Place people in households and group quarters.

    As in the file of 1940, a dwelling of more than 60 persons counts as a unit for each of them.
    """
    placed = np.zeros((len(people), HHGQ, AGES, ORIGINS, RACES), dtype=np.int64)
    left = people.reshape(len(people), AGES, -1).copy()
    for share, mean, classes in _KINDS:
        chosen = np.flatnonzero(numbers.random(len(people)) < share)
        level = numbers.choice(classes, len(chosen))
        wanted = 1 + numbers.poisson(numbers.gamma(1.0, mean, len(chosen)))
        for age, most in ((ADULT, wanted), (MINOR, numbers.binomial(wanted, _MINORS))):
            room = (left[chosen, age].sum(axis=1) * _MOST_OF_ADULTS).astype(np.int64)
            taken = _draw(left[chosen, age], np.minimum(most, room), numbers)
            left[chosen, age] -= taken
            placed[chosen, level, age] += taken.reshape(len(chosen), ORIGINS, RACES)
    placed[:, 0] = left.reshape(people.shape)
    return placed, _units(placed.sum(axis=(2, 3, 4)), persons_of_unit, numbers)


def _draw(counts: Counts, number: Counts, numbers: np.random.Generator) -> Counts:
    """Draw persons without replacement, a row a district, (n, k)."""
    taken = np.zeros_like(counts)
    pool, wanted = counts.sum(axis=1), number.copy()
    for cell in range(counts.shape[1]):
        mine = counts[:, cell]
        taken[:, cell] = numbers.hypergeometric(mine, pool - mine, wanted)
        wanted -= taken[:, cell]
        pool -= mine
    return taken


def _units(persons: Counts, persons_of_unit: float, numbers: np.random.Generator) -> Counts:
    """Units of each class, (D, 8): at least one where there is someone, at most one a person."""
    units = np.where(persons > _SPLIT_ABOVE, persons, np.minimum(persons, 1))
    households = numbers.poisson(persons[:, 0] * (1 / persons_of_unit - _UNITS) / (1 - _PERSONS))
    units[:, 0] = np.clip(households, -(-persons[:, 0] // 99), persons[:, 0])
    return units


def _parts(share: Fraction) -> tuple[int, ...]:
    """Codes of the states that a share of 1940 has."""
    return tuple(each.state.fips for each in plan(share))


def _make(part: int, seed: int, share: Fraction) -> Population:
    """Make a state."""
    mine = next(each for each in plan(share) if each.state.fips == part)
    numbers = generator(seed, part, 1940)
    places = districts(mine, numbers)
    placed, units = _house(people(places, mine.state.minors / 100, numbers), mine.expected.persons_of_unit, numbers)
    first = np.searchsorted(places.county, places.county)
    number = np.arange(len(places.county)) - first + 1
    geocodes = np.array(
        [
            f"{part:02d}{county * 20 + 10:04d}{district:04d}"
            for county, district in zip(places.county, number, strict=True)
        ]
    )
    return Population.from_dense(geocodes, placed, units, np.zeros(len(geocodes), dtype=np.int64))


CENSUS_1940 = PopulationKind(
    name="1940",
    attributes=(("hhgq", HHGQ), ("age18plus", AGES), ("hispanic", ORIGINS), ("race", RACES)),
    geocode_length=10,
    parts=_parts,
    make=_make,
)
