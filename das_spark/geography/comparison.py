"""Two spines of the same blocks compared: distances of off-spine entities, variances of their totals, fan-outs.

Before: the census spine, whose geounits are prefixes of a block's geocode. After: any other spine of the same blocks.
The distance is that of Algorithm 1 (`distance`). The variance is that of the matrix mechanism, for one query, the
total, with the shares of the geounits and the whole budget: as if nothing but totals were measured. It compares spines;
a run that asks more queries has larger variances.

*The matrix mechanism on a spine.* Source: Cumings-Menon et al., equations (18) and (19). Every geounit's total is
measured once with independent noise of known variance; all totals are then estimated together from all measurements,
without rounding and without bounds. On a tree the variances need no matrix: one pass from the blocks up collects what
a geounit's own subtree says of its total, in time proportional to the number of geounits.

*A county at a time.* What lies below the county is worked out where the county is; what lies above is joined later
from these few rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from fractions import Fraction
from functools import reduce
from operator import add
from typing import Any, Final, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError
from das_spark.geography.blocks import ENTITY_CATEGORIES, BlockTable, slice_column
from das_spark.geography.distance import Touch, climb, entity_distances, name_entities
from das_spark.geography.settings import PREFIXES, LevelShares
from das_spark.geography.spine import ROOT_GEOCODE
from das_spark.geography.tree import FanOut

#: A number for each geounit of each level, top first.
ByLevel: TypeAlias = tuple[NDArray[np.float64], ...]

#: Framework -> power of the share that the precision is proportional to.
_PRECISION_POWER: Final = {"pure_dp": 2, "zcdp": 1}


def precisions(shares: Sequence[NDArray[Any]], denominator: int, framework: str, budget: float = 1.0) -> ByLevel:
    """Precision of every geounit's total (Lemma 4): for each level 1/variance (geounits,), 0 where it is not measured.

    The variance is 1/(rho g) under zCDP, 2 b^2 of Laplace noise of scale b = 2/(epsilon g) under pure DP.
    """
    if framework not in _PRECISION_POWER:
        raise GeographyError(f"no noise is known for {framework!r}; known: {', '.join(_PRECISION_POWER)}")
    power = _PRECISION_POWER[framework]
    scale = budget if power == 1 else budget**2 / 8
    return tuple(scale * (level.astype(np.float64) / denominator) ** power for level in shares)


def upward(parents: Sequence[NDArray[np.int64]], precision: Sequence[NDArray[np.float64]]) -> ByLevel:
    """Variance of every geounit's total from its own subtree; infinite where that does not determine the total."""
    found = [_inverse(precision[-1])]
    for level in reversed(range(len(parents) - 1)):
        below = _sums(parents[level + 1], found[-1], precision[level].size)
        found.append(_inverse(precision[level] + _inverse(below)))
    return tuple(reversed(found))


@dataclass(frozen=True, slots=True, eq=False)
class Regression:
    """How the part of an entity inside a geounit depends on the geounit's total, for pairs that touch."""

    entity: NDArray[np.int64]  # (pairs,) number of the entity
    unit: NDArray[np.int64]  # (pairs,) position of the geounit in its level
    slope: NDArray[np.float64]  # (pairs,) how much the part changes with the total
    residual: NDArray[np.float64]  # (pairs,) variance of the part if the total were known, people^2


def regression_of(touch: Touch) -> Regression:
    """Regressions of entities on the totals of the blocks that they consist of."""
    return Regression(touch.entity, touch.unit, np.ones(touch.unit.size), np.zeros(touch.unit.size))


def climb_regression(parts: Regression, parents: NDArray[np.int64], subtree: NDArray[np.float64]) -> Regression:
    """From regressions on the geounits of a level to regressions on those of the level above."""
    width = int(parents.max(initial=0)) + 1
    pairs, place = np.unique(parts.entity * width + parents[parts.unit], return_inverse=True)
    entity, unit = pairs // width, pairs % width
    share = _division(parents, subtree)[0]
    slope = _sums(place, share[parts.unit] * parts.slope, pairs.size)
    own = subtree[parts.unit]
    apart = parts.slope - slope[place]
    spread = parts.residual + np.where(apart == 0, 0, np.where(np.isfinite(own), own, 0) * apart**2)
    # A single child of unknown total is what the others leave over: its slope is the parent's, and it adds nothing.
    unknown = _sums(parents, ~np.isfinite(subtree), width)
    spread[(~np.isfinite(own)) & (apart != 0) & (unknown[unit][place] > 1)] = np.inf
    finite = np.where(np.isfinite(subtree), subtree, 0)
    rest = _sums(parents, finite, width)[unit]
    rest = np.maximum(rest - _sums(place, finite[parts.unit], pairs.size), 0)
    residual = _sums(place, spread, pairs.size) + rest * slope**2
    hidden = unknown[unit] - _sums(place, ~np.isfinite(own), pairs.size)
    residual[(hidden > 0) & (slope != 0)] = np.inf
    return Regression(entity, unit, slope, residual)


def top_variances(parts: Regression, top: NDArray[np.float64], entities: int) -> NDArray[np.float64]:
    """Variances of entities from their regressions on the geounits of the top, which are independent of each other."""
    known = np.where(parts.slope == 0, 0, parts.slope**2 * top[parts.unit])
    return _sums(parts.entity, known + parts.residual, entities)


def _sums(place: NDArray[np.int64], values: NDArray[Any], size: int) -> NDArray[np.float64]:
    return np.asarray(np.bincount(place, weights=values, minlength=size), dtype=np.float64)


def _inverse(values: NDArray[np.float64]) -> NDArray[np.float64]:
    with np.errstate(divide="ignore"):
        return 1.0 / values


def _division(
    parents: NDArray[np.int64], subtree: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """How children share a correction of their parent's total, and their variances if that total were known.

    Children of unknown total take up the whole correction between them.
    """
    endless = ~np.isfinite(subtree)
    finite = np.where(endless, 0, subtree)
    unknown = _sums(parents, endless, 0)[parents]
    total = _sums(parents, finite, 0)[parents]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(unknown == 0, finite / total, endless / np.maximum(unknown, 1))
    others = np.where(endless, total, np.maximum(total - finite, 0))
    bound = np.where(endless, others, finite * others / np.where(total == 0, 1, total))
    rest = np.where(unknown == 0, bound, np.where(endless, np.where(unknown == 1, others, np.inf), finite))
    return share, rest


_TRACT: Final = "Tract"


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
    """The geounits on the paths of some leaves."""

    # for each level an array (geounits,); those of the last level are the leaves, in their order
    codes: tuple[NDArray[np.str_], ...]
    # for each level an array (geounits,): position of the parent in the level above; zeros at the top
    parents: tuple[NDArray[np.int64], ...]
    shares: tuple[NDArray[np.float64], ...]  # for each level an array (geounits,)
    first: tuple[NDArray[np.int64], ...]  # for each level an array (geounits,): the first leaf in each geounit

    def fan_outs(self) -> tuple[FanOut, ...]:
        """Fan-outs of each level but the last."""
        counts = [
            np.bincount(parents, minlength=above.size)
            for above, parents in zip(self.parents, self.parents[1:], strict=False)
        ]
        return tuple(FanOut(int(level.size), int(level.sum()), int(level.max())) for level in counts)


def census_shares(shares: LevelShares, kind: str) -> LevelShares:
    """Shares of the levels of the census spine that a spine is compared with.

    What an optimized spine has between counties and block groups (primitive geounits, subsets of tracts and their
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
        name = level if depth < shares.above or (level in PREFIXES and level != "Tract_Group") else _TRACT
        found[name] = found.get(name, Fraction(0)) + Fraction(part, shares.denominator)
    return LevelShares.of(found)


def census_paths(geocode16: NDArray[np.str_], shares: LevelShares) -> SpinePaths:
    """Where blocks stand in the census spine."""
    root = np.full(geocode16.size, ROOT_GEOCODE)
    codes = [slice_column(geocode16, 0, PREFIXES[level]) if level in PREFIXES else root for level in shares.levels]
    parts = [np.full(geocode16.size, part / shares.denominator) for part in shares.numerators]
    return SpinePaths(tuple(codes), tuple(parts))


def level_arrays(codes: Sequence[NDArray[np.str_]], shares: Sequence[NDArray[np.float64]]) -> LevelArrays:
    """The geounits on the paths of leaves; GeographyError where one has two parents or two shares."""
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


@dataclass(frozen=True, slots=True, eq=False)
class CountyParts:
    """The parts of the entities of one category in the geounits at the level of the county, a row a pair."""

    entity: NDArray[np.int64]  # (pairs,) number of the entity in the county
    unit: NDArray[np.int64]  # (pairs,) position of the geounit
    inside: NDArray[np.int64]  # (pairs,) as in `Touch`
    outside: NDArray[np.int64]  # (pairs,) as in `Touch`
    slope: NDArray[np.float64]  # (pairs,) as in `Regression`
    residual: NDArray[np.float64]  # (pairs,) as in `Regression`, in people^2


@dataclass(frozen=True, slots=True, eq=False)
class CountySide:
    """A county on one spine."""

    # for each level from the root to the county an array (county geounits,) of geocodes
    codes: tuple[NDArray[np.str_], ...]
    # for each level above the county an array (county geounits,): shares of the geounits that contain them
    shares: tuple[NDArray[np.float64], ...]
    # (county geounits,) variance of the total from the measurements in the subtree, people^2
    variance: NDArray[np.float64]
    fan_outs: tuple[FanOut, ...]  # fan-outs of each level from the county to the one above the blocks
    parts: tuple[CountyParts, ...]  # of each category


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
        """Read what `to_json` wrote."""
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
        """Distances and variances of the entities of a category."""
        entity = np.concatenate([number[own.entity] for own, number in zip(parts, numbers, strict=True)])
        unit = np.concatenate([own.unit + start for own, start in zip(parts, self.starts, strict=True)])
        inside, outside = (np.concatenate([getattr(own, name) for own in parts]) for name in ("inside", "outside"))
        slope, residual = (np.concatenate([getattr(own, name) for own in parts]) for name in ("slope", "residual"))
        touch, known = Touch(entity, unit, inside, outside), Regression(entity, unit, slope, residual)
        parents = self.levels.parents
        for level in reversed(range(1, len(parents))):
            known = climb_regression(known, parents[level], self.subtree[level])
        return entity_distances(touch, parents, size), top_variances(known, self.subtree[0], size)
