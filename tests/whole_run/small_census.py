"""A census of one nation, two states, eight counties and 24 districts, made to reach every branch of the estimator.

Plain numpy: both the system and the reference are run on it. It has districts and a whole county without a unit, a
county of one district, every class of group quarters, districts at their least (one person in every unit), one filled
to capacity, and some without households.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]

#: hhgq, age18plus, hispanic, race: the persons of the 1940 product.
SHAPE = (8, 2, 2, 6)
SIZE = 192
CLASSES = 8
#: Levels with the length of their geocodes, root first.
LEVELS = {"National": 0, "State": 2, "County": 6, "Enumdist": 10}

#: County -> its districts -> class of units -> (units, people).
_PLACES: dict[str, list[dict[int, tuple[int, int]]]] = {
    "010001": [
        {0: (60, 190)},
        {0: (45, 160), 5: (2, 40)},
        {},  # nobody, and no unit
        {0: (30, 30), 7: (3, 3)},  # one person in every unit
    ],
    "010002": [
        {1: (1, 80)},  # a prison and nothing else
        {0: (70, 260), 4: (2, 120)},
        {0: (50, 180), 1: (1, 9), 2: (1, 12), 3: (2, 20), 5: (1, 30), 6: (3, 18)},
        {0: (20, 66)},
    ],
    "010003": [{0: (40, 133), 6: (1, 8)}],  # a single child
    "010004": [{}, {}],  # a county where nobody lives
    "020001": [
        {0: (90, 310)},
        {0: (65, 230), 5: (1, 55)},
        {0: (12, 40)},
    ],
    "020002": [
        {0: (3, 297)},  # 99 people in each household: no room for one more
        {0: (58, 200), 2: (2, 33)},
        {0: (1, 1)},
        {0: (26, 80), 3: (1, 11)},
    ],
    "020003": [
        {4: (1, 150)},  # barracks
        {0: (48, 170), 7: (5, 31)},
        {0: (28, 28)},
    ],
    "020004": [
        {0: (75, 240), 4: (1, 14)},
        {},
        {0: (110, 400), 3: (1, 35)},
    ],
}


@dataclass(frozen=True)
class Census:
    """A population by leaf geounit.

    Attributes:
        geocodes: Of the leaves, sorted.
        counts: People by leaf and cell, (K, SIZE).
        units: Units by leaf and class, (K, CLASSES).
        vacant: Vacant units by leaf, (K,).
        levels: Name -> length of geocode, root first.
    """

    geocodes: tuple[str, ...]
    counts: Integers
    units: Integers
    vacant: Integers
    levels: Mapping[str, int]

    def codes(self, level: str) -> tuple[str, ...]:
        """Geocodes of a level, sorted."""
        return tuple(sorted({self.at(code, level) for code in self.geocodes}))

    def at(self, code: str, level: str) -> str:
        """The geounit of a level that holds a geounit."""
        length = self.levels[level]
        return code[:length] if length else "0"

    def places(self, level: str) -> Integers:
        """For each leaf the position of its geounit of a level, (K,)."""
        position = {code: number for number, code in enumerate(self.codes(level))}
        return np.array([position[self.at(code, level)] for code in self.geocodes])

    def parents(self, level: str) -> Integers:
        """For each geounit of a level but the top the position of its parent in the level above."""
        names = list(self.levels)
        above = names[names.index(level) - 1]
        position = {code: number for number, code in enumerate(self.codes(above))}
        return np.array([position[self.at(code, above)] for code in self.codes(level)])

    def summed(self, values: Integers, level: str) -> Integers:
        """Sums of leaf values over the geounits of a level."""
        sums = np.zeros((len(self.codes(level)), *values.shape[1:]), dtype=np.int64)
        np.add.at(sums, self.places(level), values)
        return sums


def every_branch() -> Census:
    """The census of this module."""
    return made_of(_PLACES)


def made_of(places: Mapping[str, list[dict[int, tuple[int, int]]]], levels: Mapping[str, int] | None = None) -> Census:
    """A census of given units and people by class; ages, origins and races are drawn from a fixed seed."""
    generator = np.random.default_rng(1940)
    codes, counts, units = [], [], []
    for county in sorted(places):
        for number, classes in enumerate(places[county], start=1):
            codes.append(f"{county}{number:04d}")
            units.append([classes.get(each, (0, 0))[0] for each in range(CLASSES)])
            rows = [_people(generator, classes.get(each, (0, 0))[1]) for each in range(CLASSES)]
            counts.append(np.concatenate(rows))
    leaves = len(codes)
    return Census(
        geocodes=tuple(codes),
        counts=np.array(counts, dtype=np.int64),
        units=np.array(units, dtype=np.int64),
        vacant=np.arange(leaves, dtype=np.int64) % 4,
        levels=dict(levels or LEVELS),
    )


def _people(generator: np.random.Generator, people: int) -> Integers:
    """People of one class of one district by age, origin and race, (24,): most of one race, a few of many."""
    races = generator.dirichlet((6.0, 1.5, 0.2, 0.1, 0.1, 0.1))
    chances = np.einsum("a,h,r->ahr", generator.dirichlet((4.0, 6.0)), generator.dirichlet((9.0, 0.7)), races)
    return generator.multinomial(people, chances.ravel() / chances.sum())
