"""The spine of one county: its geounits below the state, on or off the AIAN branch, from the table of its blocks.

A county is built without looking at any other, so that a nation can be built in parallel. What the nation decides, the
widths of the indices in geocodes and the shares above the county, is joined afterwards (`national`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError
from das_spark.geography.blocks import (
    NO_AIAN_AREA,
    NO_ENTITY,
    BlockTable,
    aian_area,
    group_quarters,
    in_aian_branch,
    joined,
    places_or_subdivisions,
    primitive_geounits,
    school_districts,
    slice_column,
    zero_padded,
)
from das_spark.geography.distance import Touch, climb_to_top, touch_blocks
from das_spark.geography.grouping import MERGERS, TractDistances, group_labels, ranks
from das_spark.geography.settings import COUNTY, PLAIN_LEVELS, PREFIXES, LevelShares, SpineSettings
from das_spark.geography.tree import FanOut, Tree, bypass_rule, drop_level, single_child_rule, sweep, tree_of

_GROUP_QUARTERS: Final = "gq"


def prefix_labels(table: BlockTable, widths: Sequence[int]) -> list[NDArray[np.int64]]:
    """Geounits of a plain spine, by prefixes of the geocode: for each level the number (blocks,) of each block's."""
    return [ranks(slice_column(table.geocode16, 0, width)) for width in widths]


def optimized_labels(table: BlockTable, aian: bool, settings: SpineSettings) -> list[NDArray[np.int64]]:
    """Tract groups, tracts and optimized block groups of the spine for P.L. 94-171."""
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
    """Primitive geounits, tract subset groups, tract subsets, optimized block groups of the DHC spine (S-11, S-13)."""
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
    """Distances of all entities of a county from its tracts, for merging them."""
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


_BLOCK: Final = "Block"

_OPTIMIZED: Final = (COUNTY, "Tract", "Block_Group", _BLOCK)
_MERGED: Final = (COUNTY, "Tract_Group", "Tract", "Block_Group", _BLOCK)
_DHC: Final = (COUNTY, "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", _BLOCK)


@dataclass(frozen=True, slots=True)
class CountySummary:
    """What a nation needs to know of a county, of constant size.

    Attributes:
        aian: 1 on the AIAN branch, else 0.
        state: Two digits.
        county: Three digits.
        levels: Names of the levels, county first.
        denominator: Of all shares.
        tops: Numerators of the shares of the geounits at the level of the county; several where it was bypassed.
        path: Numerator of the sum of the shares from the county down to any block.
        fan_outs: Fan-outs above each level: of the county below its branch of the state first, of the blocks last.
        bypassed: How many geounits of each level but the blocks were bypassed.
        unmeasured: How many geounits of each level have a share of 0.
    """

    aian: int
    state: str
    county: str
    levels: tuple[str, ...]
    denominator: int
    tops: tuple[int, ...]
    path: int
    fan_outs: tuple[FanOut, ...]
    bypassed: tuple[int, ...]
    unmeasured: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class CountySpine:
    """The spine of the part of a county on one branch.

    Attributes:
        kind: Kind of the spine.
        aian: 1 on the AIAN branch, else 0.
        levels: Names of the levels, county first, blocks last.
        tree: Geounits of the levels, with shares as they are before the step above the county.
        blocks: (blocks,) geocode of 16 digits of each leaf.
        bypassed: How many geounits of each level but the blocks were bypassed.
    """

    kind: str
    aian: int
    levels: tuple[str, ...]
    tree: Tree
    blocks: NDArray[np.str_]
    bypassed: tuple[int, ...]

    @property
    def state(self) -> str:
        """Two digits of the state."""
        return str(self.blocks[0])[:2]

    @property
    def county(self) -> str:
        """Three digits of the county within the state."""
        return str(self.blocks[0])[2:5]

    def summary(self) -> CountySummary:
        """What the nation needs to know."""
        tree = self.tree
        tops = tree.parents[0].size
        fan_outs = [FanOut(1, tops, tops)]
        for level in range(tree.depth - 1):
            counts = tree.fan_outs(level)
            fan_outs.append(FanOut(int(counts.size), int(counts.sum()), int(counts.max())))
        return CountySummary(
            aian=self.aian,
            state=self.state,
            county=self.county,
            levels=self.levels,
            denominator=tree.denominator,
            tops=tuple(int(share) for share in tree.shares[0]),
            path=int(tree.path_sums()[0]),
            fan_outs=tuple(fan_outs),
            bypassed=self.bypassed,
            unmeasured=tuple(int((shares == 0).sum()) for shares in tree.shares),
        )

    def codes(self, widths: Sequence[int]) -> tuple[NDArray[np.str_], ...]:
        """Geocodes of all geounits (S-2, S-3).

        Plain spines have prefixes of the block's geocode, behind the digit of the branch if there is one (shorter than
        the code of the released software, which repeats the block's geocode). Optimized ones have the branch, the
        state, "10" and the county, then for each level the index of the geounit among its siblings; blocks have the
        code of their parent and the geocode of 16 digits.

        Args:
            widths: Digits of the index at each level but the blocks, county first; plain spines ask for none.

        Returns:
            For each level an array (geounits,); within a level all codes are of one length.

        Raises:
            GeographyError: An index needs more digits than the widths allow.
        """
        if self.kind in ("census", "aian"):
            return self._prefixes()
        base = np.array([f"{self.aian}{self.state}10{self.county}"])
        codes: list[NDArray[np.str_]] = []
        for level, width in enumerate(widths):
            parents = base if level == 0 else codes[-1]
            codes.append(self._with_index(parents[self.tree.parents[level]], level, width))
        return (*codes, joined(codes[-1][self.tree.parents[-1]], self.blocks))

    def _with_index(self, parents: NDArray[np.str_], level: int, width: int) -> NDArray[np.str_]:
        if level == 0 and self.kind == "dhc":
            return parents
        index = self.tree.child_indices(level)
        if index.max() >= 10**width:
            raise GeographyError(f"level {self.levels[level]!r} has {index.max()} siblings, more than {width} digits")
        return joined(parents, zero_padded(index, width))

    def _prefixes(self) -> tuple[NDArray[np.str_], ...]:
        branch = np.full(self.blocks.size, str(self.aian))
        codes = []
        for level, path in zip(self.levels, self.tree.paths(), strict=True):
            leaf = np.unique(path, return_index=True)[1]
            prefix = slice_column(self.blocks[leaf], 0, PREFIXES[level])
            codes.append(joined(branch[leaf], prefix) if self.kind == "aian" else prefix)
        return tuple(codes)


def county_spines(
    table: BlockTable,
    settings: SpineSettings,
    shares: LevelShares,
    framework: str,
    primitive: NDArray[np.str_] | None = None,
) -> tuple[CountySpine, ...]:
    """Build the spine of one county, off the AIAN branch and on it.

    Args:
        table: All blocks of the county.
        settings: Shape of the spine.
        shares: Shares of all levels of the run.
        framework: "pure_dp" or "zcdp", which decides on bypassing.
        primitive: (blocks,) primitive geounit of each row of the table; None takes the built-in rule (S-9).

    Returns:
        One spine, or two where the county has blocks on both branches.

    Raises:
        GeographyError: The levels do not fit the kind of spine, an AIAN code or the framework is unknown, or the
            shares on some block's path do not sum to what they should (Theorem 3).
    """
    check_levels(settings, shares)
    order = np.argsort(table.geocode16)
    branch = in_aian_branch(table.aiannhce, settings.aian_categories)[order]
    if settings.kind == "dhc":
        primitive = (primitive_geounits(table) if primitive is None else primitive)[order]
    table = table.rows(order)
    if not settings.has_aian_branch:
        return (_plain(table, 0, settings, shares),)
    built = []
    for aian in (0, 1):
        rows = np.flatnonzero(branch == bool(aian))
        if rows.size:
            part = None if primitive is None else primitive[rows]
            built.append(_branch(table.rows(rows), aian, settings, shares, framework, part))
    return tuple(built)


def check_levels(settings: SpineSettings, shares: LevelShares) -> None:
    """Check that the levels of a run are those of its kind of spine.

    Args:
        settings: Shape of the spine: its kind, and whether tracts are merged.
        shares: Shares of all levels of the run.

    Raises:
        GeographyError: Naming the levels that there should be.
    """
    levels = shares.county_levels
    wanted: tuple[str, ...] = (COUNTY, *(level for level in PLAIN_LEVELS if level in levels), _BLOCK)
    if settings.kind == "dhc":
        wanted = _DHC
    elif settings.kind == "optimised":
        wanted = _OPTIMIZED if settings.merge == "none" else _MERGED
    if levels != wanted:
        raise GeographyError(
            f"a spine of kind {settings.kind!r} has the levels {', '.join(wanted)}, the run has {', '.join(levels)}"
        )


def _branch(
    table: BlockTable,
    aian: int,
    settings: SpineSettings,
    shares: LevelShares,
    framework: str,
    primitive: NDArray[np.str_] | None,
) -> CountySpine:
    if settings.kind == "aian":
        return _plain(table, aian, settings, shares)
    rule, numerators = bypass_rule(framework), list(shares.county_numerators)
    if primitive is not None:
        labels = dhc_labels(table, bool(aian), settings, primitive)
        tree = tree_of(len(table), labels, numerators, shares.denominator)
        tree, counts = sweep(tree, rule, settings.bypass_cutoff, top=single_child_rule)
    else:
        labels = optimized_labels(table, bool(aian), settings)
        alone = settings.merge == "none"
        # Without merging, every tract has a group of its own, which takes the tract's place after the sweep.
        if alone:
            numerators.insert(1, 0)
        tree = tree_of(len(table), labels, numerators, shares.denominator)
        tree, counts = sweep(tree, rule, settings.bypass_cutoff, forced=(1,) if alone else ())
        if alone:
            tree, counts = drop_level(tree, 2), (counts[0], *counts[2:])
    return _checked(table, aian, settings, shares, tree, counts)


def _plain(table: BlockTable, aian: int, settings: SpineSettings, shares: LevelShares) -> CountySpine:
    widths = [PREFIXES[level] for level in shares.county_levels[1:-1]]
    tree = tree_of(len(table), prefix_labels(table, widths), shares.county_numerators, shares.denominator)
    return _checked(table, aian, settings, shares, tree, (0,) * (tree.depth - 1))


def _checked(
    table: BlockTable,
    aian: int,
    settings: SpineSettings,
    shares: LevelShares,
    tree: Tree,
    bypassed: tuple[int, ...],
) -> CountySpine:
    """The spine, if the shares of every path add up to those of its levels (Theorem 3, S-22)."""
    spine = CountySpine(settings.kind, aian, shares.county_levels, tree, table.geocode16[tree.rows], bypassed)
    expected = sum(shares.county_numerators)
    wrong = np.flatnonzero(tree.path_sums() != expected)
    if wrong.size:
        raise GeographyError(
            f"the shares on the path to block {str(spine.blocks[wrong[0]])!r} sum to "
            f"{tree.path_sums()[wrong[0]]}/{tree.denominator}, expected {expected}/{tree.denominator}"
        )
    return spine
