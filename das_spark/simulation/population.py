"""A synthetic population as arrays: geounits, occupied cells, units."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import BudgetError, ConfigurationError
from das_spark.privacy import exact

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Households:
    """Households by geounit and cell, and facilities by geounit and detailed type."""

    geounit: Counts  #: place of each occupied cell among the geocodes of the population, ascending, (n,)
    cell: Counts  #: flat cell index, (n,)
    count: Counts  #: households, positive, (n,)
    facilities: Counts  #: group quarters by detailed type, (D, F)


@dataclass(frozen=True, slots=True, eq=False)
class Population:
    """People by geounit and cell, and units by geounit and class."""

    geocodes: NDArray[np.str_]  #: leaf geocodes, ascending, (D,) of text
    geounit: Counts  #: place in ``geocodes`` of each occupied cell, ascending, (n,)
    cell: Counts  #: flat cell index, (n,)
    count: Counts  #: people, positive, (n,)
    units: Counts  #: occupied units by class, (D, C)
    vacant: Counts  #: vacant housing units, (D,)
    households: Households | None = None  #: None where people have no households

    @classmethod
    def from_dense(cls, geocodes: NDArray[np.str_], people: Counts, units: Counts, vacant: Counts) -> Population:
        """Keep the occupied cells of full histograms.

        Args:
            geocodes: Ascending, (D,).
            people: By geounit and attributes, (D, ...).
            units: By class, (D, C).
            vacant: (D,).
        """
        flat = people.reshape(len(people), -1)
        geounit, cell = np.nonzero(flat)
        return cls(geocodes, geounit, cell, flat[geounit, cell], units, vacant)

    @property
    def persons(self) -> int:
        """People in all."""
        return int(self.count.sum())


@dataclass(frozen=True, slots=True)
class PopulationKind:
    """A kind of population that can be simulated, in independent parts."""

    name: str  #: as in ``--like``
    attributes: tuple[tuple[str, int], ...]  #: name and levels of each attribute, in the order of cells
    geocode_length: int  #: digits of a leaf geocode
    parts: Callable[[Fraction], tuple[int, ...]]  #: numbers of the parts, given the share
    #: Makes a part, given its number, seed and share; the same arguments give the same population.
    make: Callable[[int, int, Fraction], Population]
    households: tuple[tuple[str, int], ...] = ()  #: attributes of households, likewise; none where it has none
    contributor: str = ""  #: column that says whose a record is; empty where records are nobody's in particular
    at_most: int = 1  #: most records of one contributor
    #: Where the codes of each geolevel stand in geocodes that are made of them, root first; none where codes nest.
    own_codes: tuple[tuple[str, tuple[int, int]], ...] = ()

    @property
    def shape(self) -> tuple[int, ...]:
        """Levels of each attribute."""
        return tuple(size for _, size in self.attributes)


def contributors(records: int, at_most: int) -> Counts:
    """Whose each record is: numbers of contributors who have from one record to the most, (records,).

    Args:
        records: How many there are; the same number gives the same contributors.
        at_most: Most records of one.
    """
    numbers = generator(records, 0)
    sizes = numbers.integers(1, at_most + 1, records)
    return np.asarray(numbers.permutation(np.repeat(np.arange(records), sizes)[:records]), dtype=np.int64)


def share_of(value: object, where: str) -> Fraction:
    """Read a share such as "1/100".

    Args:
        value: Text or a whole number.
        where: Key path, for the message.

    Raises:
        ConfigurationError: It is no exact number above 0 and up to 1.
    """
    if isinstance(value, Fraction | str | int) and not isinstance(value, bool):
        try:
            share = exact(value, where)  # which computes no number of a million digits
        except BudgetError:
            share = Fraction(0)
        if 0 < share <= 1:
            return share
    raise ConfigurationError(f'{where}: expected a share above 0 and up to 1, as text such as "1/100"')


def generator(seed: int, *stream: int) -> np.random.Generator:
    """The random numbers of a part of a population; independent of other parts and of the order in which they are made.

    Args:
        seed: Of the population.
        stream: Numbers that name the part.
    """
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, *stream])))
