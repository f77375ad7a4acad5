"""Where blocks stand in a spine, as columns of geocodes and shares; and in the census spine of the same blocks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError
from das_spark.geography.county_spine import PLAIN_LEVELS, FanOut
from das_spark.geography.digits import slice_column
from das_spark.geography.geocode import BLOCK, ROOT_GEOCODE
from das_spark.geography.settings import COUNTY, LevelShares

_TRACT: Final = "Tract"
_PREFIXES: Final = {"State": 2, COUNTY: 5, **PLAIN_LEVELS, "Block": BLOCK}


@dataclass(frozen=True, slots=True, eq=False)
class SpinePaths:
    """Where blocks stand in a spine.

    Attributes:
        codes: For each level, root first, an array (blocks,): geocode of the geounit that contains each block.
        shares: For each level an array (blocks,): its share of the budget.
    """

    codes: tuple[NDArray[np.str_], ...]
    shares: tuple[NDArray[np.float64], ...]


@dataclass(frozen=True, slots=True, eq=False)
class LevelArrays:
    """The geounits on the paths of some leaves.

    Attributes:
        codes: For each level an array (geounits,); those of the last level are the leaves, in their order.
        parents: For each level an array (geounits,): position of the parent in the level above; zeros at the top.
        shares: For each level an array (geounits,).
        first: For each level an array (geounits,): the first leaf in each geounit.
    """

    codes: tuple[NDArray[np.str_], ...]
    parents: tuple[NDArray[np.int64], ...]
    shares: tuple[NDArray[np.float64], ...]
    first: tuple[NDArray[np.int64], ...]

    def fan_outs(self) -> tuple[FanOut, ...]:
        """Fan-outs of each level but the last."""
        counts = [
            np.bincount(parents, minlength=above.size)
            for above, parents in zip(self.parents, self.parents[1:], strict=False)
        ]
        return tuple(FanOut(int(level.size), int(level.sum()), int(level.max())) for level in counts)


def census_shares(shares: LevelShares, kind: str) -> LevelShares:
    """Shares of the levels of the census spine that a spine is compared with.

    What an optimised spine has between counties and block groups (primitive geounits, subsets of tracts and their
    groups, groups of tracts) takes the place of the tracts, which get the sum of those shares. A plain spine has the
    levels of the census, whichever were chosen.

    Args:
        shares: Of the levels of the spine, before anything was bypassed.
        kind: Kind of the spine.
    """
    if kind in ("census", "aian"):
        return shares
    found: dict[str, Fraction] = {}
    for depth, (level, part) in enumerate(zip(shares.levels, shares.numerators, strict=True)):
        name = level if depth < shares.above or (level in _PREFIXES and level != "Tract_Group") else _TRACT
        found[name] = found.get(name, Fraction(0)) + Fraction(part, shares.denominator)
    return LevelShares.of(found)


def census_paths(geocode16: NDArray[np.str_], shares: LevelShares) -> SpinePaths:
    """Where blocks stand in the census spine.

    Args:
        geocode16: (blocks,).
        shares: Of its levels.
    """
    root = np.full(geocode16.size, ROOT_GEOCODE)
    codes = [slice_column(geocode16, 0, _PREFIXES[level]) if level in _PREFIXES else root for level in shares.levels]
    parts = [np.full(geocode16.size, part / shares.denominator) for part in shares.numerators]
    return SpinePaths(tuple(codes), tuple(parts))


def level_arrays(codes: Sequence[NDArray[np.str_]], shares: Sequence[NDArray[np.float64]]) -> LevelArrays:
    """The geounits on the paths of leaves.

    Args:
        codes: For each level an array (leaves,): geocode of the geounit that contains each leaf.
        shares: For each level an array (leaves,): its share.

    Raises:
        GeographyError: A geounit has two parents or two shares.
    """
    leaves = np.arange(codes[-1].size, dtype=np.int64)
    above = np.zeros_like(leaves)
    found, parents, firsts = [], [], []
    for level, (names, parts) in enumerate(zip(codes, shares, strict=True)):
        if level + 1 == len(codes):
            known, first, unit = names, leaves, leaves
        else:
            known, first, unit = np.unique(names, return_index=True, return_inverse=True)
        wrong = (above[first][unit] != above) | (parts[first][unit] != parts)
        if wrong.any():
            name = str(names[np.argmax(wrong)])
            raise GeographyError(f"geounit {name!r} of the spine has two parents, or two shares of the budget")
        found.append(known)
        parents.append(above[first])
        firsts.append(first)
        above = unit
    own = tuple(level[first] for level, first in zip(shares, firsts, strict=True))
    return LevelArrays(tuple(found), tuple(parents), own, tuple(firsts))
