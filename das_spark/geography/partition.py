"""Which geounit of every level a block of a county lies in, before anything is bypassed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.geography.aian import NO_AIAN_AREA, aian_area
from das_spark.geography.block_table import NO_ENTITY, BlockTable
from das_spark.geography.digits import joined, slice_column
from das_spark.geography.distance import Touch, climb_to_top, touch_blocks
from das_spark.geography.entities import group_quarters, places_or_subdivisions, school_districts
from das_spark.geography.grouping import group_labels, ranks
from das_spark.geography.merging import MERGERS, TractDistances
from das_spark.geography.settings import SpineSettings
from das_spark.geography.tree import tree_of

_GROUP_QUARTERS: Final = "gq"


def prefix_labels(table: BlockTable, widths: Sequence[int]) -> list[NDArray[np.int64]]:
    """Geounits of a plain spine, by prefixes of the geocode.

    Args:
        table: Blocks of one county and branch.
        widths: Digits of the prefix of each level between county and block.

    Returns:
        For each level an array (blocks,) of numbers.
    """
    return [ranks(slice_column(table.geocode16, 0, width)) for width in widths]


def optimised_labels(table: BlockTable, aian: bool, settings: SpineSettings) -> list[NDArray[np.int64]]:
    """Tract groups, tracts and optimised block groups of the spine for P.L. 94-171.

    Args:
        table: Blocks of one county and branch, in order of geocode.
        aian: Whether the branch is that of AIAN areas.
        settings: Shape of the spine.

    Returns:
        Three arrays (blocks,): siblings are numbered in the order in which they stand.
    """
    tract = ranks(table.tract)
    components = _components(table, aian, settings)
    kind = ranks(joined(*components.values()))
    group = group_labels(tract, kind, settings.fanout_cutoff, settings.group_type)
    if settings.merge == "none":
        return [tract, tract, group]
    merged = MERGERS[settings.merge](
        tract_distances(tract, group, components),
        settings.fanout_cutoff,
        settings.entity_threshold,
        settings.group_type,
    )
    tract_group, place = np.empty((2, int(tract.max()) + 1), dtype=np.int64)
    for number, members in enumerate(merged):
        tract_group[members], place[members] = number, np.arange(len(members))
    return [tract_group[tract], place[tract], group]


def dhc_labels(
    table: BlockTable, aian: bool, settings: SpineSettings, primitive: NDArray[np.str_]
) -> list[NDArray[np.int64]]:
    """Primitive geounits, tract subset groups, tract subsets and optimised block groups of the DHC spine (S-11, S-13).

    Args:
        table: Blocks of one county and branch, in order of geocode.
        aian: Whether the branch is that of AIAN areas.
        settings: Shape of the spine.
        primitive: (blocks,) primitive geounit of each block.

    Returns:
        Four arrays (blocks,).
    """
    prim = ranks(primitive)
    tract = ranks(table.tract)
    width = int(tract.max()) + 1
    pairs, subset = np.unique(prim * width + tract, return_inverse=True)
    subset = subset.astype(np.int64)
    prim_of_subset = pairs // width
    subset_group = group_labels(
        prim_of_subset, np.zeros(pairs.size, dtype=np.int64), settings.fanout_cutoff, settings.group_type
    )
    kind = ranks(joined(*_components(table, aian, settings).values()))
    group = group_labels(subset, kind, settings.fanout_cutoff, settings.group_type)
    return [prim, subset_group[subset], subset, group]


def _components(table: BlockTable, aian: bool, settings: SpineSettings) -> dict[str, NDArray[np.str_]]:
    """Parts of the entity string of every block, in the order in which they are concatenated (S-10)."""
    count = len(table)
    branch = np.full(count, aian)
    dhc = settings.kind == "dhc"
    parts = {
        # Primitive geounits keep places and subdivisions apart already.
        "place": np.full(count, NO_ENTITY) if dhc else places_or_subdivisions(table, branch),
        "aian": aian_area(table.aiannhce, settings.aian_categories)
        if settings.target_aian_areas
        else np.full(count, NO_AIAN_AREA),
        _GROUP_QUARTERS: group_quarters(table, settings.consider_gq),
    }
    if dhc and settings.target_school_districts:
        parts["school"] = school_districts(table)
    if dhc and settings.target_block_groups:
        parts["block_group"] = table.block_group
    return parts


def tract_distances(
    tract: NDArray[np.int64], group: NDArray[np.int64], categories: Mapping[str, NDArray[np.str_]]
) -> TractDistances:
    """Distances of all entities of a county from its tracts, for merging them.

    Args:
        tract: (blocks,) number of the tract.
        group: (blocks,) number of the optimised block group.
        categories: Category of entities -> (blocks,) codes, each code an entity: combinations of group quarters where
            the category is "gq", else areas.

    Returns:
        Distances; the entities stand by category and code.
    """
    tree = tree_of(tract.size, [tract, group], (0, 0, 0, 0), 1)
    entity, block, coded, named, start = [], [], [], [], 0
    for category, codes in categories.items():
        found, rank = np.unique(codes, return_inverse=True)
        entity.append(rank.astype(np.int64)[tree.rows] + start)
        block.append(np.arange(tree.rows.size))
        coded.append(np.full(found.size, category != _GROUP_QUARTERS))
        named.append(coded[-1] & ~np.isin(found, (NO_ENTITY, NO_AIAN_AREA)))
        start += found.size
    top = climb_to_top(touch_blocks(np.concatenate(entity), np.concatenate(block)), tree.parents[1:])
    inside, outside = _dense(top, start, int(tract.max()) + 1)
    return TractDistances(inside, outside, inside > 0, np.concatenate(coded), np.concatenate(named))


def _dense(touch: Touch, entities: int, tracts: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    inside = np.zeros((entities, tracts), dtype=np.int64)
    outside = np.ones((entities, tracts), dtype=np.int64)
    inside[touch.entity, touch.unit] = touch.inside
    outside[touch.entity, touch.unit] = touch.outside
    return inside, outside
