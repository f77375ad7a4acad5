"""People of the enumeration districts of 1940: they come in households, so couples are as common as single persons."""

from __future__ import annotations

import numpy as np

from das_spark.simulation.places_1940 import GROUPS, Counts, Districts, Floats

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
