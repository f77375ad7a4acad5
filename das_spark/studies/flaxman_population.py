"""The simulated people of Flaxman (2019), section 2.1, counted by area on every level of a regular hierarchy.

N people; J nested levels below the root, each area with C = floor((N / mu)^(1/J)) children; on each level everybody is
in one of the C children with equal chances, so the leaf counts are multinomial. Areas are numbered so that the
children of area i are i C, ..., i C + C - 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import ConfigurationError
from das_spark.simulation import generator
from das_spark.studies.noise import Law

Counts = NDArray[np.int64]

EPSILONS: Final = (Fraction(1, 40), Fraction(1, 20), Fraction(1, 10))
#: The areas between which one person moves: so chosen in the study, arbitrarily.
SOURCE: Final = 0
TARGET: Final = 1001
_YEAR: Final = 2019  # names the random numbers of this population
_FEWEST_CHILDREN: Final = 2


@dataclass(frozen=True, slots=True)
class FlaxmanSettings:
    """What the study sets; the defaults are its own.

    Attributes:
        persons: N.
        levels: J, below the root.
        mean_size: mu, people an area of the last level should have on average, at least.
        epsilons: Every mechanism is run at each.
        parts: P, measurements that ADPC averages.
        law: Of the noise.
        seed: Of people and noise.
        replicates: R of the direct estimate, on each of the two databases; 0 leaves it out.

    Raises:
        ConfigurationError: There would be no hierarchy, or a number is not positive.
    """

    persons: int = 1_000_000
    levels: int = 3
    mean_size: int = 100
    epsilons: tuple[Fraction, ...] = EPSILONS
    parts: int = 4
    law: Law = Law.CODED
    seed: int = 12345
    replicates: int = 500

    def __post_init__(self) -> None:
        """Refuse what gives no hierarchy."""
        for name in ("persons", "levels", "mean_size", "parts"):
            if getattr(self, name) < 1:
                raise ConfigurationError(f"{name}: expected 1 or more, found {getattr(self, name)}")
        for name in ("seed", "replicates"):
            if getattr(self, name) < 0:
                raise ConfigurationError(f"{name}: expected 0 or more, found {getattr(self, name)}")
        if not self.epsilons or min(self.epsilons) <= 0:
            raise ConfigurationError("epsilon: expected numbers above 0")
        if self.children < _FEWEST_CHILDREN:
            raise ConfigurationError(
                f"{self.persons:,} people in {self.levels} levels with {self.mean_size:,} an area leave every area "
                f"{self.children} child",
                hint=f"take {self.mean_size * 2**self.levels:,} people or more, fewer levels, or a smaller mean size",
            )

    @property
    def children(self) -> int:
        """C: the largest whole number with C^J mu <= N."""
        root: int = round(float((self.persons / self.mean_size) ** (1 / self.levels))) + 1
        while root**self.levels * self.mean_size > self.persons:
            root -= 1
        return root


@dataclass(frozen=True, slots=True, eq=False)
class Database:
    """Exact counts.

    Attributes:
        name: D, or D' after one person has moved; noise on other databases is independent.
        levels: People by area, root first, shapes (1,), (C,), ..., (C^J,).
    """

    name: str
    levels: tuple[Counts, ...]

    @property
    def leaves(self) -> Counts:
        """People by area of the last level."""
        return self.levels[-1]


def population(settings: FlaxmanSettings) -> Database:
    """Everybody's place, drawn.

    Args:
        settings: Of the study.

    Returns:
        D: the same for the same seed.
    """
    areas = settings.children**settings.levels
    leaves = generator(settings.seed, _YEAR).multinomial(settings.persons, np.full(areas, 1 / areas))
    return Database("D", _sums(leaves, settings.children, settings.levels))


def moved(database: Database, settings: FlaxmanSettings) -> tuple[Database, int]:
    """The neighbour in which one person of the first area lives in another one.

    Args:
        database: D.
        settings: Of the study.

    Returns:
        D', and the area that the person moved to: 1001, or the last one where there are fewer.

    Raises:
        ConfigurationError: Nobody lives in the first area.
    """
    leaves = database.leaves.copy()
    target = min(TARGET, len(leaves) - 1)
    if leaves[SOURCE] == 0:
        raise ConfigurationError("nobody lives in the first area, so that nobody can move", hint="take more persons")
    leaves[SOURCE] -= 1
    leaves[target] += 1
    return Database("D'", _sums(leaves, settings.children, settings.levels)), target


def _sums(leaves: Counts, children: int, levels: int) -> tuple[Counts, ...]:
    return tuple(leaves.reshape(children**level, -1).sum(axis=1) for level in range(levels + 1))


def area_numbers(levels: Sequence[Counts]) -> tuple[int, ...]:
    """How many areas each level has, root first.

    Args:
        levels: Counts by area of each level, root first, (areas,) each.
    """
    return tuple(len(counts) for counts in levels)
