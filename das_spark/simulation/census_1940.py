"""A population of the size and shape of the census of 1940, state by state.

States, counties, segregation between and within counties, households, group quarters: calibrated to the published
figures of the full-count file (:mod:`das_spark.simulation.states_1940`). Codes of counties are 1, 3, 5, ... times
ten, of districts 1, 2, 3, ...; there are no vacant units, as in that file.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from das_spark.simulation.people_1940 import AGES, ORIGINS, RACES, people
from das_spark.simulation.places_1940 import districts
from das_spark.simulation.population import Kind, Population, generator
from das_spark.simulation.quarters_1940 import HHGQ, house
from das_spark.simulation.shares import plan


def parts(share: Fraction) -> tuple[int, ...]:
    """Codes of the states that a share of 1940 has.

    Args:
        share: Of 1940, exact, above 0 and up to 1.
    """
    return tuple(each.state.fips for each in plan(share))


def make(part: int, seed: int, share: Fraction) -> Population:
    """Make a state.

    Args:
        part: Its code; one of :func:`parts`.
        seed: Of the population; states do not share random numbers.
        share: Of 1940.

    Returns:
        All enumeration districts of the state; deterministic.
    """
    mine = next(each for each in plan(share) if each.state.fips == part)
    numbers = generator(seed, part, 1940)
    places = districts(mine, numbers)
    placed, units = house(people(places, mine.state.minors / 100, numbers), mine.expected.persons_of_unit, numbers)
    first = np.searchsorted(places.county, places.county)
    number = np.arange(len(places.county)) - first + 1
    geocodes = np.array(
        [
            f"{part:02d}{county * 20 + 10:04d}{district:04d}"
            for county, district in zip(places.county, number, strict=True)
        ]
    )
    return Population.from_dense(geocodes, placed, units, np.zeros(len(geocodes), dtype=np.int64))


CENSUS_1940 = Kind(
    name="1940",
    attributes=(("hhgq", HHGQ), ("age18plus", AGES), ("hispanic", ORIGINS), ("race", RACES)),
    geocode_length=10,
    parts=parts,
    make=make,
)
