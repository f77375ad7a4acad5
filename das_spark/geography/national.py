"""Joining counties into one spine: indices of one width, shares above the county, and the proof of privacy.

Only summaries of constant size are joined; with the result, each county's paths are written out where the county is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError
from das_spark.geography.settings import PREFIXES
from das_spark.geography.spine import BLOCK, ROOT_GEOCODE
from das_spark.geography.tree import FanOut, Numerators, absorb_single_children

if TYPE_CHECKING:
    from das_spark.geography.county_spine import CountySpine, CountySummary
    from das_spark.geography.settings import LevelShares, SpineSettings

_STATE_LEVEL = "State"


@dataclass(frozen=True, slots=True)
class UpperGeounit:
    """A geounit above the county."""

    code: str  # its geocode: "0" for the root, branch and state for a state
    numerator: int  # its share, in parts of the spine's denominator
    children: int  # number of its children


@dataclass(frozen=True, slots=True)
class NationalSpine:
    """What all counties of a run have in common.

    Attributes:
        kind: Kind of the spine.
        levels: Names of the levels, root first.
        denominator: Of all shares.
        widths: Digits of the index at each level from the county to the one above the blocks; empty for plain spines.
        upper: For each level above the county its geounits, by code.
        absorbed: Branch, state and county of those counties whose share went to their only parent.
        fan_outs: Fan-outs of each level but the blocks, root first.
        bypassed: How many geounits of each level from the county to the one above the blocks were bypassed.
        unmeasured: How many geounits of each level, root first, have a share of 0.
    """

    kind: str
    levels: tuple[str, ...]
    denominator: int
    widths: tuple[int, ...]
    upper: tuple[tuple[UpperGeounit, ...], ...]
    absorbed: frozenset[tuple[int, str, str]]
    fan_outs: tuple[FanOut, ...]
    bypassed: tuple[int, ...]
    unmeasured: tuple[int, ...]

    @property
    def lengths(self) -> tuple[int, ...]:
        """Digits of the geocodes of each level, root first; 0 for a root."""
        above = [0 if level != _STATE_LEVEL else len(units[0].code) for level, units in self._named_upper()]
        if not self.widths:
            return (*above, *(PREFIXES[level] + (self.kind == "aian") for level in self.levels[len(above) :]))
        below = [8 + self.widths[0] if self.kind == "optimised" else 8]
        for width in self.widths[1:]:
            below.append(below[-1] + width)
        return (*above, *below, below[-1] + BLOCK)

    def above(self, aian: int, state: str) -> tuple[UpperGeounit, ...]:
        """The geounits above the counties of one branch of a state, root first.

        Args:
            aian: 1 on the AIAN branch, else 0; of no account in a spine of kind "census".
            state: Two digits.

        Raises:
            GeographyError: The run has no such state, or none on that branch.
        """
        found = []
        for level, units in self._named_upper():
            code = _upper_code(self.kind, level, aian, state)
            at = [unit for unit in units if unit.code == code]
            if not at:
                raise GeographyError(f"the spine has no geounit {code!r} at level {level!r}")
            found += at
        return tuple(found)

    def _named_upper(self) -> list[tuple[str, tuple[UpperGeounit, ...]]]:
        return list(zip(self.levels, self.upper, strict=False))


@dataclass(frozen=True, slots=True, eq=False)
class CountyLevel:
    """The geounits of one level of one county, or the ones above it."""

    level: str  # name of the level
    codes: NDArray[np.str_]  # (geounits,) geocodes
    parents: NDArray[np.int64]  # (geounits,) position of the parent in the level above
    numerators: Numerators  # (geounits,) shares, final, in parts of the spine's denominator


@dataclass(frozen=True, slots=True, eq=False)
class CountyPaths:
    """A county as it stands in the joined spine.

    Attributes:
        levels: All levels, root first, blocks last; above the county one geounit each.
        blocks: (blocks,) geocode of 16 digits of each geounit of the last level.
        positions: For each level an array (blocks,): position of the geounit that contains each block.
        denominator: Of all shares.
    """

    levels: tuple[CountyLevel, ...]
    blocks: NDArray[np.str_]
    positions: tuple[NDArray[np.int64], ...]
    denominator: int

    def codes(self) -> tuple[NDArray[np.str_], ...]:
        """For each level an array (blocks,): geocode of the geounit on each block's path."""
        return tuple(level.codes[place] for level, place in zip(self.levels, self.positions, strict=True))

    def numerators(self) -> tuple[Numerators, ...]:
        """For each level an array (blocks,): numerator of the share of the geounit on each block's path."""
        return tuple(level.numerators[place] for level, place in zip(self.levels, self.positions, strict=True))


def join_counties(summaries: Iterable[CountySummary], shares: LevelShares, settings: SpineSettings) -> NationalSpine:
    """Join the counties of a run (S-3, S-21).

    Args:
        summaries: Of every county and branch of the run, in any order.
        shares: Shares of all levels, the same that the counties were built with.
        settings: Shape of the spine.

    Returns:
        The joined spine.

    Raises:
        GeographyError: There is no county, one occurs twice or was built with other levels or shares, or the shares on
            the paths of a county do not sum to exactly 1 (Theorem 3).
    """
    counties = sorted(summaries, key=lambda item: (item.aian, item.state, item.county))
    _check_counties(counties, shares)
    upper, absorbed, above = _upper_levels(counties, shares, settings)
    fan_outs = [reduce(add, column) for column in zip(*(item.fan_outs for item in counties), strict=True)]
    widths = tuple(len(str(column.most)) for column in fan_outs[:-1]) if settings.is_optimized else ()
    lost = [item.unmeasured for item in counties]
    spine = NationalSpine(
        kind=settings.kind,
        levels=shares.levels,
        denominator=shares.denominator,
        widths=widths,
        upper=upper,
        absorbed=frozenset(_key(item) for item, gone in zip(counties, absorbed, strict=True) if gone),
        fan_outs=(*above, *fan_outs[1:]),
        bypassed=tuple(sum(column) for column in zip(*(item.bypassed for item in counties), strict=True)),
        unmeasured=(
            *(sum(unit.numerator == 0 for unit in units) for units in upper),
            sum(column[0] for column in lost) + int(absorbed.sum()),
            *(sum(column) for column in list(zip(*lost, strict=True))[1:]),
        ),
    )
    for item in counties:
        _check_path(spine, item)
    return spine


def county_paths(county: CountySpine, spine: NationalSpine) -> CountyPaths:
    """Write out the geounits and paths of a county with final codes and shares.

    Args:
        county: The county.
        spine: The joined spine that it is part of.

    Returns:
        Its levels from the root to the blocks.

    Raises:
        GeographyError: The county is no part of the spine, or the shares on the path to a block do not sum to exactly
            1 (Theorem 3); the block is named.
    """
    tree, above = county.tree, spine.above(county.aian, county.state)
    one = np.zeros(1, dtype=np.int64)
    levels = [
        CountyLevel(name, np.array([unit.code]), one, np.array([unit.numerator], dtype=tree.shares[0].dtype))
        for name, unit in zip(spine.levels, above, strict=False)
    ]
    shares = list(tree.shares)
    if (county.aian, county.state, county.county) in spine.absorbed:
        shares[0] = np.zeros_like(shares[0])
    names = spine.levels[len(above) :]
    columns = zip(names, county.codes(spine.widths), tree.parents, shares, strict=True)
    levels += [CountyLevel(*column) for column in columns]
    top = np.zeros(county.blocks.size, dtype=np.int64)
    paths = CountyPaths(tuple(levels), county.blocks, (*(top,) * len(above), *tree.paths()), spine.denominator)
    _check_blocks(paths)
    return paths


def _check_blocks(paths: CountyPaths) -> None:
    total = sum(paths.numerators(), start=np.zeros_like(paths.numerators()[0]))
    wrong = np.flatnonzero(total != paths.denominator)
    if wrong.size:
        raise GeographyError(
            f"the shares on the path to block {str(paths.blocks[wrong[0]])!r} sum to "
            f"{total[wrong[0]]}/{paths.denominator}, not to 1"
        )


def _key(item: CountySummary) -> tuple[int, str, str]:
    return (item.aian, item.state, item.county)


def _upper_code(kind: str, level: str, aian: int, state: str) -> str:
    if level != _STATE_LEVEL:
        return ROOT_GEOCODE
    return state if kind == "census" else f"{aian}{state}"


def _check_counties(counties: Sequence[CountySummary], shares: LevelShares) -> None:
    if not counties:
        raise GeographyError("a spine needs one county at least")
    for item in counties:
        if (item.levels, item.denominator) != (shares.county_levels, shares.denominator):
            raise GeographyError(f"county {item.state + item.county!r} was built with other geolevels or shares")
    keys = [_key(item) for item in counties]
    twice = [key for key, following in pairwise(keys) if key == following]
    if twice:
        raise GeographyError(f"county {twice[0][1] + twice[0][2]!r} occurs twice on branch {twice[0][0]}")


def _upper_levels(
    counties: Sequence[CountySummary], shares: LevelShares, settings: SpineSettings
) -> tuple[tuple[tuple[UpperGeounit, ...], ...], NDArray[np.bool_], list[FanOut]]:
    """Geounits above the county with their final shares, whose share was absorbed, and fan-outs."""
    numbers = np.repeat(np.arange(len(counties)), [len(item.tops) for item in counties])
    below: Numerators = np.array([share for item in counties for share in item.tops], dtype=np.object_)
    members = [_upper_code(settings.kind, _STATE_LEVEL, item.aian, item.state) for item in counties for _ in item.tops]
    upper: list[tuple[UpperGeounit, ...]] = []
    fan_outs: list[FanOut] = []
    gone = np.zeros(len(counties), dtype=np.bool_)
    for depth in reversed(range(shares.above)):
        state = shares.levels[depth] == _STATE_LEVEL
        codes, parents = np.unique(np.array(members if state else [ROOT_GEOCODE] * len(members)), return_inverse=True)
        own: Numerators = np.full(codes.size, shares.numerators[depth], dtype=np.object_)
        left = below
        if settings.is_optimized:
            own, left = absorb_single_children(parents, own, below)
        if upper:
            upper[0] = tuple(
                UpperGeounit(unit.code, int(share), unit.children) for unit, share in zip(upper[0], left, strict=True)
            )
        else:
            gone[numbers[(left == 0) & (below != 0)]] = True
        children = np.bincount(parents)
        upper.insert(0, tuple(map(UpperGeounit, codes.tolist(), map(int, own), children.tolist())))
        fan_outs.insert(0, FanOut(int(codes.size), int(children.sum()), int(children.max())))
        below, members = own, codes.tolist()
    return tuple(upper), gone, fan_outs


def _check_path(spine: NationalSpine, item: CountySummary) -> None:
    above = sum(unit.numerator for unit in spine.above(item.aian, item.state))
    taken = item.tops[0] if _key(item) in spine.absorbed else 0
    total = above - taken + item.path
    if total != spine.denominator:
        raise GeographyError(
            f"the shares on the paths of county {item.state + item.county!r} sum to "
            f"{total}/{spine.denominator}, not to 1"
        )
