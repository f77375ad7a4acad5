"""Classes of geounits by population, as data: by them the released accuracy reports were read.

The population is the confidential one, so that a geounit is in the same class whatever a run made of it. Edges are
those of the accuracy metrics released with the redistricting data of 2020: one set for blocks, one for counties, powers
of ten elsewhere, and steps of 50 for shares and totals of small areas.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import InputError


@dataclass(frozen=True, slots=True)
class Bins:
    """Classes of geounits by population; the last one is open.

    Attributes:
        name: How reports call them.
        upper: The largest population of each class but the last, ascending.

    Raises:
        InputError: The edges do not ascend from 0 or more.
    """

    name: str
    upper: tuple[int, ...]

    def __post_init__(self) -> None:
        """Check the edges."""
        if not self.upper or self.upper[0] < 0 or any(low >= high for low, high in pairwise(self.upper)):
            raise InputError(f"population classes {self.name}: edges must ascend from 0 or more")

    @property
    def number(self) -> int:
        """How many classes there are."""
        return len(self.upper) + 1

    def place(self, population: NDArray[np.int64]) -> NDArray[np.int64]:
        """The class of each geounit.

        Args:
            population: Shape (K,), nonnegative.

        Returns:
            Shape (K,), from 0.
        """
        return np.searchsorted(np.array(self.upper), population, side="left").astype(np.int64)

    def least(self, place: int) -> int:
        """The smallest population of a class.

        Args:
            place: The class, from 0.
        """
        return self.upper[place - 1] + 1 if place else 0

    def label(self, place: int) -> str:
        """A class in words, such as "10 to 99".

        Args:
            place: The class, from 0.
        """
        low = self.least(place)
        if place == len(self.upper):
            return f"{low:,} or more"
        high = self.upper[place]
        return f"{low:,}" if low == high else f"{low:,} to {high:,}"


BLOCK: Final = Bins("block", (0, 9, 99, 999))
COUNTY: Final = Bins("county", (1_000, 9_999, 99_999, 999_999))
MAGNITUDE: Final = Bins("magnitude", (0, 9, 99, 999, 9_999, 99_999, 999_999, 9_999_999))
FIFTIES: Final = Bins("fifties", tuple(range(49, 2_500, 50)))

#: By name, for reports that are read again.
BINS: Final[Mapping[str, Bins]] = {bins.name: bins for bins in (BLOCK, COUNTY, MAGNITUDE, FIFTIES)}
#: Geolevels with classes of their own; powers of ten elsewhere.
_OF_LEVEL: Final[Mapping[str, Bins]] = {"Block": BLOCK, "County": COUNTY}


def sizes_of(geolevel: str) -> Bins:
    """The classes in which the errors of a geolevel are shown.

    Args:
        geolevel: Name of the geolevel.

    Returns:
        Classes of its own for blocks and counties, powers of ten for others.
    """
    return _OF_LEVEL.get(geolevel, MAGNITUDE)
