"""Who of 1940 lives in group quarters, and how many units of each class a district has."""

from __future__ import annotations

import numpy as np

from das_spark.simulation.people_1940 import ADULT, AGES, MINOR, ORIGINS, RACES
from das_spark.simulation.places_1940 import Counts
from das_spark.simulation.states_1940 import PERSONS

HHGQ = 8

_KINDS = ((0.12, 65.0, (1, 2, 3)), (0.15, 26.0, (6,)), (0.13, 40.0, (4, 5, 7)))
"""Share of districts with them, mean persons there, and classes: of institutions, rooming houses and others."""

_PERSONS, _UNITS = 0.0178, (763_242 + 530_445) / PERSONS
"""Persons and units of group quarters by person of the file: persons as in Washington, Georgia and Massachusetts
together, units as in the nation (published with the evaluation of its protected release)."""

_MOST_OF_ADULTS = 0.6
_MINORS = 0.02
_SPLIT_ABOVE = 60


def house(people: Counts, persons_of_unit: float, numbers: np.random.Generator) -> tuple[Counts, Counts]:
    """Place people in households and group quarters.

    As in the file of 1940, a dwelling of more than 60 persons counts as a unit for each of them.

    Args:
        people: By age, origin and race, (D, 2, 2, 6).
        persons_of_unit: Mean persons of a unit, group quarters included.
        numbers: Random numbers of the state.

    Returns:
        People by class, age, origin and race, (D, 8, 2, 2, 6), and units by class, (D, 8).
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
