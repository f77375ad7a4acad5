"""People of the enumeration districts of 1940: they come in households, so couples are as common as single persons."""

from __future__ import annotations

import numpy as np

from das_spark.simulation.places_1940 import GROUPS, Counts, Districts, Floats

AGES, ORIGINS, RACES = 2, 2, 6
MINOR, ADULT = 0, 1

_HOUSEHOLD = (3.6, 4.0, 2.0, 3.2, 2.0, 3.6)
_SECOND_ADULT = 0.95
_ISOLATED = (0.003, 0.008, 0.02, 0.02, 0.02, 0.02)
_HISPANIC_WITHIN = (0.0, 0.002, 0.004, 0.004, 0.0, 0.10)
"""Share of Hispanics among the persons of each race; Hispanic Whites are a group of their own."""

_RARE = ((1, 0, 0.45), (2, 0, 0.30), (3, 0, 0.15), (4, 0, 0.20), (0, 1, 0.20), (1, 1, 0.06), (4, 1, 0.05))
"""Group, origin and strength of the households that live anywhere."""

_MEDIAN_COUNTY = 18_679
_SPREAD_OF_MINORS = 0.05


def people(districts: Districts, minors: float, numbers: np.random.Generator) -> Counts:
    """Draw the people of every district.

    Args:
        districts: Of a state.
        minors: Share of persons under 18.
        numbers: Random numbers of the state.

    Returns:
        By age, Hispanic origin and race, (D, 2, 2, 6).
    """
    counts = np.zeros((len(districts.size), AGES, ORIGINS, RACES), dtype=np.int64)
    for group in range(GROUPS):
        race, origin = (0, 1) if group == GROUPS - 1 else (group + 1, 0)
        counts[:, :, origin, race] += _group(districts, group, minors, numbers)
    for group, origin, strength in _RARE:
        counts[:, :, origin, group + 1] += _rare(districts, group, strength, minors, numbers)
    for race, share in enumerate(_HISPANIC_WITHIN):
        moved = numbers.binomial(counts[:, :, 0, race], share)
        counts[:, :, 0, race] -= moved
        counts[:, :, 1, race] += moved
    others = np.maximum(numbers.poisson(districts.size) - counts.sum(axis=(1, 2, 3)), 0)
    young = np.clip(minors + numbers.normal(0.0, _SPREAD_OF_MINORS, len(others)), 0.02, 0.7)
    children = numbers.binomial(others, young)
    counts[:, MINOR, 0, 0] += children
    counts[:, ADULT, 0, 0] += others - children
    empty = counts.sum(axis=(1, 2, 3)) == 0
    counts[empty, ADULT, 0, 0] = 1  # the file of 1940 lists districts by their households, so none is empty
    return counts


def _group(districts: Districts, group: int, minors: float, numbers: np.random.Generator) -> Counts:
    """Persons of a group by age, (D, 2): in households by the district's rate, single adults all over the county."""
    alone = _ISOLATED[group]
    households = numbers.poisson(districts.size * districts.rates[:, group] * (1 - alone) / _HOUSEHOLD[group])
    counts = _households(households, _HOUSEHOLD[group], minors, numbers)
    size_of_county = np.bincount(districts.county)
    single = districts.county_size * districts.county_rates[:, group] * alone / size_of_county
    counts[:, ADULT] += numbers.poisson(single[districts.county])
    return counts


def _households(households: Counts, size: float, minors: float, numbers: np.random.Generator) -> Counts:
    adults = size * (1 - minors)
    second = min(_SECOND_ADULT, max(adults - 1, 0.0))
    more = max(adults - 1 - second, 0.0)
    counts = np.zeros((len(households), AGES), dtype=np.int64)
    counts[:, ADULT] = households + numbers.binomial(households, second) + numbers.poisson(households * more)
    mean: Floats = numbers.gamma(households, size * minors)
    counts[:, MINOR] = numbers.poisson(mean)
    return counts


def _rare(districts: Districts, group: int, strength: float, minors: float, numbers: np.random.Generator) -> Counts:
    """A few households more, anywhere in every county: nearly every county has someone of nearly every group."""
    first = np.searchsorted(districts.county, np.arange(len(districts.county_size)))
    number = np.bincount(districts.county)
    drawn = numbers.poisson(strength * np.sqrt(districts.county_size / _MEDIAN_COUNTY))
    county = np.repeat(np.arange(len(number)), drawn)
    place = first[county] + numbers.integers(0, number[county])
    households = np.bincount(place, minlength=len(districts.size))
    return _households(households, _HOUSEHOLD[group], minors, numbers)
