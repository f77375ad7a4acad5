"""Break ties of rounding by one public hash, so that no geounit wins them for its place in a list.

A value is taken to the nearest `QUANTUM`; a hash of its geocode, its cell and its whole part then moves the fraction by
less than half of that. What was a tie is decided, and nothing else (README, section 6, E-21). The whole part is in the
hash so that a geounit does not win the ties of a cell in every run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from collections.abc import Sequence

    from das_spark.estimation.problem import Floats, Integers

QUANTUM: Final = 2.0**-16
"""People. Fractions that differ by less are equal: solvers leave smaller differences, and always the same way."""

_PARTS: Final = 2**16
"""How many places there are between two multiples of `QUANTUM`: sums of a million fractions stay exact."""

_OFFSET, _PRIME = np.uint64(0xCBF29CE484222325), np.uint64(0x100000001B3)  # of the hash FNV-1a in 64 bits
_WEYL, _FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def hash_geocodes(geocodes: Sequence[str]) -> NDArray[np.uint64]:
    """Return the FNV-1a hash of the characters of each geocode, whatever geocodes are beside it."""
    texts = np.array(geocodes, dtype=np.str_)
    found = np.full(len(texts), _OFFSET)
    for character in texts.view(np.uint32).reshape(len(texts), -1).T:
        found = np.where(character > 0, (found ^ character) * _PRIME, found)
    return found


def split(values: Floats) -> tuple[Integers, Floats]:
    """Return floor and fraction of each value, which is taken to the nearest `QUANTUM`."""
    nearest = np.rint(values / QUANTUM) * QUANTUM
    base = np.floor(nearest)
    return base.astype(np.int64), nearest - base


def split_without_ties(
    values: Floats, hashes: NDArray[np.uint64], cells: NDArray[np.integer[Any]]
) -> tuple[Integers, Floats]:
    """Return floor and fraction of each value, of which no two are equal but by accident or because they are whole.

    Args:
        values: People.
        hashes: Of the geocode of each value.
        cells: Number of its cell in the schema.
    """
    base, fraction = split(values)
    mixed = hashes
    for number in (cells.astype(np.uint64), base.astype(np.uint64)):
        mixed = mixed + (number + np.uint64(1)) * _WEYL  # a step of SplitMix64, and what makes its numbers of it
        mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
        mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
        mixed ^= mixed >> np.uint64(31)
    place = (mixed >> np.uint64(48)).astype(np.float64)
    return base, np.where(fraction > 0, fraction + ((place + 0.5) / _PARTS - 0.5) * QUANTUM, 0.0)
