"""A small synthetic census in the schema of the 2018 End-to-End test: a synthetic county.

Four tracts, ten block groups and about 150 blocks; some blocks are empty, some have only vacant units; one tract
has a single block group and one block group a single block; every class of group quarters occurs.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from das_spark.simulation.population import Counts, Population, PopulationKind, generator

HHGQ, AGES, ORIGINS, RACES = 8, 2, 2, 63
COUNTY = "99001"
BLOCKS_OF_GROUPS = ((14, 17, 12), (36,), (1, 15, 18, 13), (19, 9))
"""Blocks of each block group of each tract."""

_EMPTY, _ONLY_VACANT = 0.2, 0.06
_PEOPLE_OF_BLOCK = 70.0
_HOUSEHOLD = 2.5
_MINORS = 0.23
_HISPANIC = 0.2
_SINGLE_RACES = (0.62, 0.14, 0.01, 0.1, 0.005, 0.09)
_PLACED = ((1, 90), (2, 25), (3, 60), (4, 20), (5, 160), (6, 35), (7, 24))
_MORE_PLACES = 8
_JUVENILE, _NURSING = 2, 3
_MINORS_IN_JUVENILE = 0.9


def _make(part: int, seed: int, share: Fraction) -> Population:
    """Make the census."""
    del share
    numbers = generator(seed, part, 2018)
    geocodes = _geocodes()
    people = np.zeros((len(geocodes), HHGQ, AGES, ORIGINS, RACES), dtype=np.int64)
    units = np.zeros((len(geocodes), HHGQ), dtype=np.int64)
    kind = numbers.random(len(geocodes))
    inhabited = kind >= _EMPTY + _ONLY_VACANT
    inhabited[:2] = True, True
    sizes = numbers.gamma(1.6, _PEOPLE_OF_BLOCK / 1.6, len(geocodes)).astype(np.int64) + 1
    rates = _race_rates(numbers, len(geocodes))
    for block in np.flatnonzero(inhabited).tolist():
        people[block, 0] = _people(numbers, int(sizes[block]), rates[block], _MINORS)
        units[block, 0] = _households(numbers, int(sizes[block]))
    for place, level, size in _facilities(numbers, np.flatnonzero(inhabited)):
        minors = {_NURSING: 0.0, _JUVENILE: _MINORS_IN_JUVENILE}.get(level, 0.02)
        people[place, level] += _people(numbers, size, rates[place], minors)
        units[place, level] += 1
    vacant = np.where(kind < _EMPTY, 0, 1 + numbers.poisson(2.0, len(geocodes)))
    return Population.from_dense(geocodes, people, units, vacant.astype(np.int64))


def _geocodes() -> np.ndarray[tuple[int], np.dtype[np.str_]]:
    codes = [
        f"{COUNTY}{tract * 100:06d}{group}{group}{block:03d}"
        for tract, groups in enumerate(BLOCKS_OF_GROUPS, start=1)
        for group, blocks in enumerate(groups, start=1)
        for block in range(blocks)
    ]
    return np.array(sorted(codes))


def _race_rates(numbers: np.random.Generator, blocks: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Share of each of the 63 combinations in each block: single races by neighbourhood, the others rare."""
    single = np.stack([numbers.gamma(6 * rate, 1.0, blocks) for rate in _SINGLE_RACES], axis=1) + 1e-3
    rates = np.empty((blocks, RACES))
    rates[:, :6] = 0.965 * single / single.sum(axis=1, keepdims=True)
    weights = 0.55 ** np.arange(RACES - 6)
    rates[:, 6:] = 0.035 * (weights + 2e-3) / (weights + 2e-3).sum()
    return rates


def _people(
    numbers: np.random.Generator, size: int, rates: np.ndarray[tuple[int], np.dtype[np.float64]], minors: float
) -> Counts:
    """Persons by age, origin and race, (2, 2, 63)."""
    ages = np.array([minors, 1 - minors])
    origins = np.array([1 - _HISPANIC, _HISPANIC])
    weights = ages[:, None, None] * origins[None, :, None] * rates[None, None, :]
    drawn: Counts = numbers.multinomial(size, (weights / weights.sum()).ravel()).reshape(weights.shape)
    return drawn


def _households(numbers: np.random.Generator, persons: int) -> int:
    """Occupied housing units: one person in each at least, and never more than 99."""
    return int(np.clip(numbers.poisson(persons / _HOUSEHOLD), -(-persons // 99), persons))


def _facilities(numbers: np.random.Generator, blocks: Counts) -> list[tuple[int, int, int]]:
    """Block, class and size of every facility: one of each class, and some more."""
    classes = [level for level, _ in _PLACED]
    mean = dict(_PLACED)
    levels = classes + [int(level) for level in numbers.choice(classes, _MORE_PLACES)]
    places = numbers.choice(blocks, len(levels))
    return [
        (int(block), level, 1 + int(numbers.poisson(mean[level]))) for block, level in zip(places, levels, strict=True)
    ]


QUICKSTART = PopulationKind(
    name="quickstart",
    attributes=(("hhgq", HHGQ), ("votingage", AGES), ("hispanic", ORIGINS), ("cenrace", RACES)),
    geocode_length=16,
    parts=lambda share: (0,),
    make=_make,
)
