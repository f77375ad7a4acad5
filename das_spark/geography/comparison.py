"""Two spines of the same blocks compared: distances of off-spine entities, variances of their totals, fan-outs.

Before: the census spine. After: another. The distance is that of Algorithm 1. The variance is that of the matrix
mechanism, equation (19), for one query, the total, with the shares of the geounits and the whole budget: as if nothing
but totals were measured. It compares spines; a run that asks more queries has larger variances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError
from das_spark.geography.county_comparison import CountyComparison, CountyParts, CountySide
from das_spark.geography.county_spine import FanOut
from das_spark.geography.distance import Touch, entity_distances
from das_spark.geography.matrix_mechanism import (
    ByLevel,
    Regression,
    climb_regression,
    precisions,
    top_variances,
    upward,
)
from das_spark.geography.paths import LevelArrays, level_arrays


@dataclass(frozen=True, slots=True, eq=False)
class EntityComparison:
    """The entities of one category on two spines.

    Attributes:
        category: Name of the category.
        names: (entities,) sorted.
        blocks: (entities,) number of blocks.
        distance_before: (entities,) off-spine distance on the census spine.
        distance_after: (entities,) off-spine distance on the other.
        variance_before: (entities,) variance of the total on the census spine, people^2.
        variance_after: (entities,) variance of the total on the other, people^2.
    """

    category: str
    names: NDArray[np.str_]
    blocks: NDArray[np.int64]
    distance_before: NDArray[np.int64]
    distance_after: NDArray[np.int64]
    variance_before: NDArray[np.float64]
    variance_after: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SpineComparison:
    """Two spines of the same blocks.

    Attributes:
        fan_outs_before: Fan-outs of each level of the census spine but the blocks, root first.
        fan_outs_after: Fan-outs of each level of the other but the blocks, root first.
        categories: Entities by category.
    """

    fan_outs_before: tuple[FanOut, ...]
    fan_outs_after: tuple[FanOut, ...]
    categories: tuple[EntityComparison, ...]


def join_comparisons(
    counties: Sequence[CountyComparison], categories: Sequence[str], framework: str, budget: float
) -> SpineComparison:
    """Join the comparisons of all counties over the levels above them.

    Args:
        counties: Each county once.
        categories: What the counties were compared for, in that order.
        framework: "zcdp" or "pure_dp".
        budget: rho or epsilon, as for the counties.

    Raises:
        GeographyError: There is no county, or a geounit above them has two parents or two shares.
    """
    if not counties:
        raise GeographyError("a comparison of spines needs one county at least")
    before = _Upper.of([county.before for county in counties], framework, budget)
    after = _Upper.of([county.after for county in counties], framework, budget)
    found = []
    for place, category in enumerate(categories):
        sizes = [len(county.names[place]) for county in counties]
        texts = np.array([name for county in counties for name in county.names[place]], dtype=np.str_)
        names, number = np.unique(texts, return_inverse=True)
        blocks = np.zeros(names.size, dtype=np.int64)
        np.add.at(blocks, number, np.concatenate([county.blocks[place] for county in counties]))
        numbers = np.split(number.astype(np.int64), np.cumsum(sizes)[:-1])
        sides = [
            upper.entities([getattr(county, side).parts[place] for county in counties], numbers, names.size)
            for upper, side in ((before, "before"), (after, "after"))
        ]
        (near, known), (nearer, better) = sides
        found.append(EntityComparison(category, names, blocks, near, nearer, known, better))
    return SpineComparison(before.fan_outs, after.fan_outs, tuple(found))


@dataclass(frozen=True, slots=True, eq=False)
class _Upper:
    """The levels of a spine down to the county geounits, which are its leaves."""

    levels: LevelArrays
    subtree: ByLevel
    starts: tuple[int, ...]
    fan_outs: tuple[FanOut, ...]

    @classmethod
    def of(cls, sides: Sequence[CountySide], framework: str, budget: float) -> _Upper:
        variance = np.concatenate([side.variance for side in sides])
        codes = [np.concatenate(level) for level in zip(*(side.codes for side in sides), strict=True)]
        shares = [np.concatenate(level) for level in zip(*(side.shares for side in sides), strict=True)]
        levels = level_arrays(codes, [*shares, np.zeros(variance.size)])
        # All that is known of a county from below is one measurement of its total.
        precision = (*precisions(levels.shares[:-1], 1, framework, budget), 1 / variance)
        below = [reduce(add, column) for column in zip(*(side.fan_outs for side in sides), strict=True)]
        starts = np.cumsum([0, *(side.variance.size for side in sides[:-1])])
        return cls(levels, upward(levels.parents, precision), tuple(map(int, starts)), (*levels.fan_outs(), *below))

    def entities(
        self, parts: Sequence[CountyParts], numbers: Sequence[NDArray[np.int64]], size: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Distances and variances of the entities of a category.

        Args:
            parts: Of each county.
            numbers: For each county an array (its entities,): number of each among all.
            size: How many entities there are.
        """
        entity = np.concatenate([number[own.entity] for own, number in zip(parts, numbers, strict=True)])
        unit = np.concatenate([own.unit + start for own, start in zip(parts, self.starts, strict=True)])
        inside, outside = (np.concatenate([getattr(own, name) for own in parts]) for name in ("inside", "outside"))
        slope, residual = (np.concatenate([getattr(own, name) for own in parts]) for name in ("slope", "residual"))
        touch, known = Touch(entity, unit, inside, outside), Regression(entity, unit, slope, residual)
        parents = self.levels.parents
        for level in reversed(range(1, len(parents))):
            known = climb_regression(known, parents[level], self.subtree[level])
        return entity_distances(touch, parents, size), top_variances(known, self.subtree[0], size)
