"""The people of the blocks of 2020: households with their members, and facilities with theirs, person by person."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das_spark.simulation.places_2020 import Counts, Floats
from das_spark.simulation.states_2020 import GROUPS

HHGQ, AGES, ORIGINS, RACES = 8, 2, 2, 63
_CELLS = HHGQ * AGES * ORIGINS * RACES
_SEVERAL, _HISPANIC = 6, 7

MEMBERS = 2.53
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
class Dwellings:
    """Households and facilities of some blocks.

    Args:
        households: Of each block, (n,).
        block: Place of the block of each facility, (F,).
        level: Class of each, 1 to 7, (F,).
        size: People in each, (F,).
    """

    households: Counts
    block: Counts
    level: Counts
    size: Counts


def people(dwellings: Dwellings, rates: Floats, numbers: np.random.Generator) -> tuple[Counts, Counts, Counts]:
    """Draw everyone, person by person, and count them.

    Args:
        dwellings: Of n blocks.
        rates: Share of each group in each block, (n, 8).
        numbers: Random numbers.

    Returns:
        Block, cell and count of every occupied cell, by block and cell.
    """
    blocks = len(dwellings.households)
    members = dwellings.households + numbers.poisson(dwellings.households * (MEMBERS - 1))
    group = _groups(members, rates, numbers)
    block = np.repeat(np.arange(blocks), members)
    young = np.minimum(_MINORS * numbers.gamma(1 / _SPREAD_OF_MINORS, _SPREAD_OF_MINORS, (blocks, 1)), 0.9)
    minor = numbers.random(len(block)) < young[block, group]
    keys = block * _CELLS + _cells(group, minor, numbers)
    resident = _groups(dwellings.size, rates[dwellings.block], numbers)
    facility = np.repeat(np.arange(len(dwellings.size)), dwellings.size)
    level = dwellings.level[facility]
    minor = numbers.random(len(facility)) < _MINORS_OF_CLASS[level]
    inside = dwellings.block[facility] * _CELLS + level * (_CELLS // HHGQ) + _cells(resident, minor, numbers)
    found, count = np.unique(np.concatenate([keys, inside]), return_counts=True)
    return found // _CELLS, found % _CELLS, count.astype(np.int64)


def _groups(number: Counts, rates: Floats, numbers: np.random.Generator) -> Counts:
    """Group of every person, by place, (number.sum(),)."""
    drawn = numbers.multinomial(number, rates / rates.sum(axis=1, keepdims=True))
    return np.repeat(np.tile(np.arange(GROUPS), len(number)), drawn.ravel())


def _cells(group: Counts, minor: np.ndarray[tuple[int], np.dtype[np.bool_]], numbers: np.random.Generator) -> Counts:
    """Voting age, Hispanic origin and race of every person, as one number."""
    race = group.copy()
    several, hispanic = group == _SEVERAL, group == _HISPANIC
    race[several] = 6 + _pick(_RACES_OF_SEVERAL, int(several.sum()), numbers)
    race[hispanic] = _pick(_RACES_OF_HISPANICS, int(hispanic.sum()), numbers)
    cells: Counts = ((~minor) * ORIGINS + hispanic) * RACES + race
    return cells


def _pick(weights: tuple[float, ...], number: int, numbers: np.random.Generator) -> Counts:
    law = np.cumsum(weights)
    picked: Counts = np.searchsorted(law, numbers.random(number) * law[-1], side="right")
    return picked
