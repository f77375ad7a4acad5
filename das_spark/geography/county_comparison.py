"""One county on two spines: what a nation needs to know to say how near its entities are to each of them.

Before: the census spine, whose geounits are prefixes of a block's geocode. After: any other spine of the same blocks.
What lies below the county is worked out here; what lies above is joined later (`comparison`) from these few rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError
from das_spark.geography.block_table import BlockTable
from das_spark.geography.county_spine import FanOut
from das_spark.geography.distance import climb, name_entities
from das_spark.geography.entities import ENTITY_CATEGORIES
from das_spark.geography.matrix_mechanism import climb_regression, precisions, regression_of, upward
from das_spark.geography.paths import SpinePaths, census_paths, level_arrays
from das_spark.geography.settings import LevelShares


@dataclass(frozen=True, slots=True, eq=False)
class CountyParts:
    """The parts of the entities of one category in the geounits at the level of the county, a row a pair.

    Attributes:
        entity: (pairs,) number of the entity in the county.
        unit: (pairs,) position of the geounit.
        inside: (pairs,) as in `Touch`.
        outside: (pairs,) as in `Touch`.
        slope: (pairs,) as in `Regression`.
        residual: (pairs,) as in `Regression`, in people^2.
    """

    entity: NDArray[np.int64]
    unit: NDArray[np.int64]
    inside: NDArray[np.int64]
    outside: NDArray[np.int64]
    slope: NDArray[np.float64]
    residual: NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class CountySide:
    """A county on one spine.

    Attributes:
        codes: For each level from the root to the county an array (county geounits,) of geocodes.
        shares: For each level above the county an array (county geounits,): shares of the geounits that contain them.
        variance: (county geounits,) variance of the total from the measurements in the subtree, people^2.
        fan_outs: Fan-outs of each level from the county to the one above the blocks.
        parts: Of each category.
    """

    codes: tuple[NDArray[np.str_], ...]
    shares: tuple[NDArray[np.float64], ...]
    variance: NDArray[np.float64]
    fan_outs: tuple[FanOut, ...]
    parts: tuple[CountyParts, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CountyComparison:
    """A county on two spines; its size is that of its entities, not of its blocks.

    Attributes:
        names: For each category the names of its entities in the county, sorted.
        blocks: For each category an array (entities,): number of blocks of the county in each.
        before: On the census spine.
        after: On the other.
    """

    names: tuple[tuple[str, ...], ...]
    blocks: tuple[NDArray[np.int64], ...]
    before: CountySide
    after: CountySide

    def to_json(self) -> str:
        """The comparison as text; Python's words for infinite numbers may occur."""
        return json.dumps(_plain(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote.

        Args:
            text: The text of one county.
        """
        data = json.loads(text)
        names = tuple(tuple(category) for category in data["names"])
        return cls(names, _integers(data["blocks"]), _side(data["before"]), _side(data["after"]))


def compare_county(
    table: BlockTable,
    paths: SpinePaths,
    shares: LevelShares,
    census: LevelShares,
    framework: str,
    budget: float,
    categories: Sequence[str],
) -> CountyComparison:
    """Compare the two spines of a county.

    Args:
        table: All blocks of the county.
        paths: Where they stand in the spine, in the same order.
        shares: Shares of its levels before anything was bypassed.
        census: Shares of the levels of the census spine, as `census_shares` gives them.
        framework: "zcdp" or "pure_dp".
        budget: rho or epsilon, all of it for the total.
        categories: Names in `ENTITY_CATEGORIES`.

    Raises:
        GeographyError: A category is unknown, or the paths are not those of a spine.
    """
    check_categories(categories)
    entities = [ENTITY_CATEGORIES[category](table) for category in categories]
    found = [name_entities(names) for names in entities]
    before = census_paths(table.geocode16, census)
    return CountyComparison(
        tuple(tuple(map(str, names)) for names, _ in found),
        tuple(np.bincount(touch.entity, minlength=names.size) for names, touch in found),
        _compared(before, census.above, entities, framework, budget),
        _compared(paths, shares.above, entities, framework, budget),
    )


def check_categories(categories: Sequence[str]) -> None:
    """Check names of categories.

    Args:
        categories: Names that should be in `ENTITY_CATEGORIES`.

    Raises:
        GeographyError: One is unknown.
    """
    for category in categories:
        if category not in ENTITY_CATEGORIES:
            raise GeographyError(
                f"no category of entities is called {category!r}", hint=f"known: {', '.join(ENTITY_CATEGORIES)}"
            )


def _compared(
    paths: SpinePaths, above: int, entities: Sequence[NDArray[np.str_]], framework: str, budget: float
) -> CountySide:
    levels = level_arrays(paths.codes[above:], paths.shares[above:])
    subtree = upward(levels.parents, precisions(levels.shares, 1, framework, budget))
    first = levels.first[0]
    return CountySide(
        tuple(level[first] for level in paths.codes[: above + 1]),
        tuple(level[first] for level in paths.shares[:above]),
        subtree[0],
        levels.fan_outs(),
        tuple(_parts(names, levels.parents, subtree) for names in entities),
    )


def _parts(
    names: NDArray[np.str_], parents: Sequence[NDArray[np.int64]], subtree: Sequence[NDArray[np.float64]]
) -> CountyParts:
    touch = name_entities(names)[1]
    parts = regression_of(touch)
    for level in reversed(range(1, len(parents))):
        touch, parts = climb(touch, parents[level]), climb_regression(parts, parents[level], subtree[level])
    # Both go through the same pairs in the same order.
    return CountyParts(touch.entity, touch.unit, touch.inside, touch.outside, parts.slope, parts.residual)


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    return value


def _side(data: Mapping[str, Any]) -> CountySide:
    return CountySide(
        tuple(np.array(level, dtype=np.str_) for level in data["codes"]),
        tuple(np.array(level, dtype=np.float64) for level in data["shares"]),
        np.array(data["variance"], dtype=np.float64),
        tuple(FanOut(**level) for level in data["fan_outs"]),
        tuple(map(_parts_of, data["parts"])),
    )


def _parts_of(data: Mapping[str, Any]) -> CountyParts:
    entity, unit, inside, outside = _integers([data[name] for name in ("entity", "unit", "inside", "outside")])
    slope, residual = (np.array(data[name], dtype=np.float64) for name in ("slope", "residual"))
    return CountyParts(entity, unit, inside, outside, slope, residual)


def _integers(columns: Sequence[Sequence[int]]) -> tuple[NDArray[np.int64], ...]:
    return tuple(np.array(column, dtype=np.int64) for column in columns)
