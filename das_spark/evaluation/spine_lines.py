"""Lines of the report on a spine: levels, paths of shares, what bypassing moved, figures of a category of entities."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError
from das_spark.geography import EntityComparison


@dataclass(frozen=True, slots=True)
class SpineLevelLine:
    """One level of a spine.

    Attributes:
        name: Name of the geolevel.
        share: Its share of the budget before anything was bypassed.
        geounits: How many geounits it has.
        children: How many children they have together; 0 at the blocks.
        most: Largest number of children of one; 0 at the blocks.
        bypassed: How many geounits were bypassed.
        unmeasured: How many geounits have a share of 0.
    """

    name: str
    share: Fraction
    geounits: int
    children: int
    most: int
    bypassed: int = 0
    unmeasured: int = 0

    @property
    def mean_fan_out(self) -> float:
        """Mean number of children of a geounit."""
        return self.children / self.geounits


@dataclass(frozen=True, slots=True)
class SharePath:
    """Shares of the geounits on the way from the root to a block.

    Attributes:
        shares: One a level, root first; they sum to 1.
        blocks: How many blocks have such a path.
    """

    shares: tuple[Fraction, ...]
    blocks: int


@dataclass(frozen=True, slots=True)
class LevelMove:
    """What bypassing moved to a level and away from it, in shares of the budget of a mean block.

    Attributes:
        level: Name of the geolevel.
        share: Its share before anything was bypassed.
        received: Mean over blocks of what their geounit has more.
        given: Mean over blocks of what their geounit has less.
    """

    level: str
    share: Fraction
    received: Fraction
    given: Fraction

    @property
    def after(self) -> Fraction:
        """Mean over blocks of the share of their geounit."""
        return self.share + self.received - self.given


@dataclass(frozen=True, slots=True)
class Distances:
    """Off-spine distances of the entities of a category; not a number where there are none."""

    median: float
    mean: float
    p90: float
    worst: float


@dataclass(frozen=True, slots=True)
class CategoryFigures:
    """Figures of a category of entities; not a number where it has none.

    Attributes:
        category: Its name.
        entities: Number of entities.
        before: Distances on the census spine.
        after: Distances on the spine.
        deviation_before: Median standard deviation of their totals on the census spine, people.
        deviation_after: The same on the spine.
        nearer: Share of the entities whose distance fell.
        same: Share of those whose distance is the same.
        farther: Share of those whose distance rose.
    """

    category: str
    entities: int
    before: Distances
    after: Distances
    deviation_before: float
    deviation_after: float
    nearer: float
    same: float
    farther: float

    @classmethod
    def of(cls, entities: EntityComparison) -> CategoryFigures:
        """The figures of a category.

        Args:
            entities: The entities of the category, before and after; may be none.
        """
        fell = np.sign(entities.distance_after - entities.distance_before)
        return cls(
            entities.category,
            int(entities.names.size),
            _distances(entities.distance_before),
            _distances(entities.distance_after),
            _of(np.median, np.sqrt(entities.variance_before)),
            _of(np.median, np.sqrt(entities.variance_after)),
            *(_of(np.mean, fell == sign) for sign in (-1, 0, 1)),
        )


def share_path(shares: Sequence[str], blocks: int) -> SharePath:
    """A path from the texts of its shares.

    Args:
        shares: Exact fractions such as "1/4", root first.
        blocks: How many blocks have it.

    Raises:
        GeographyError: A share is no fraction, or they do not sum to exactly 1 (Theorem 3).
    """
    try:
        path = SharePath(tuple(map(Fraction, shares)), blocks)
    except (ValueError, ZeroDivisionError) as error:
        raise GeographyError(f"the shares {', '.join(shares)} of {blocks:,} blocks are not fractions") from error
    if sum(path.shares) != 1 or min(path.shares) < 0:
        raise GeographyError(f"the shares {', '.join(shares)} of {blocks:,} blocks do not sum to 1")
    return path


def _distances(values: NDArray[np.int64]) -> Distances:
    if not values.size:
        return Distances(np.nan, np.nan, np.nan, np.nan)
    return Distances(*map(float, (np.median(values), values.mean(), np.quantile(values, 0.9), values.max())))


def _of(figure: Callable[..., Any], values: NDArray[Any]) -> float:
    return float(figure(values)) if values.size else float("nan")
