"""A state of the size of Washington in the full-count file of 1940, by county, enumeration district and stratum.

1,741,616 people in 39 counties and 2,663 districts (published with the supplement to Petti and Flaxman, 2020), so
districts are a third smaller than the nation's; otherwise made as every state of the simulated 1940.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.simulation import generator
from das_spark.simulation.census_1940 import districts, people, plan

Counts = NDArray[np.int64]

FIPS: Final = 53
PERSONS: Final = 1_741_616
COUNTIES: Final = 39
DISTRICTS: Final = 2_663
#: Non-empty strata of the file, of 24 a district.
OCCUPIED: Final = 9_869


@dataclass(frozen=True, slots=True, eq=False)
class Strata:
    """People by district and stratum.

    Attributes:
        county: Number of the county of each district, ascending, shape (2663,).
        counts: Under 18 or not x Hispanic origin x race, shape (2663, 24).
    """

    county: Counts
    counts: Counts


def washington(seed: int) -> Strata:
    """Make the state.

    Args:
        seed: Another one gives other people.

    Returns:
        The same for the same seed.
    """
    state = next(each for each in plan(Fraction(1)) if each.state.fips == FIPS)
    numbers = generator(seed, FIPS, 1940)
    places = districts(state, numbers)
    counts = people(places, state.state.minors / 100, numbers)
    return Strata(places.county, counts.reshape(len(counts), -1))
