"""A few leaf geounits in memory, and everything that ingestion derives from them: histograms, invariants, bounds.

The plain form of what `das_spark.spark.histograms` and `das_spark.spark.bounds` do with tables; a test holds the two
against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das_spark.constraints import AddedConstraint, Sense, bounds_up_the_spine
from das_spark.geography import ROOT_GEOCODE, Spine
from das_spark.spark.bounds import UNBOUNDED

if TYPE_CHECKING:
    from das_spark.config import RunPlan
    from das_spark.histogram import Query

Counts = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class SmallPopulation:
    """Records by leaf geounit.

    Attributes:
        geocodes: Of the leaves, ascending, (K,).
        counts: Records by leaf and cell, (K, cells).
        units: Units by leaf and class, (K, classes).
    """

    geocodes: tuple[str, ...]
    counts: Counts
    units: Counts

    def codes(self, spine: Spine, depth: int) -> tuple[str, ...]:
        """Geocodes of the geounits of a level, ascending.

        Args:
            spine: The levels.
            depth: Of the level, from 0 at the top.
        """
        return tuple(sorted({geocode_at(code, spine, depth) for code in self.geocodes}))

    def summed(self, values: Counts, spine: Spine, depth: int) -> Counts:
        """Sums of leaf values over the geounits of a level, in the order of `codes`, (geounits, ...).

        Args:
            values: By leaf, (K, ...).
            spine: The levels.
            depth: Of the level.
        """
        codes = self.codes(spine, depth)
        place = {code: number for number, code in enumerate(codes)}
        owner = np.array([place[geocode_at(code, spine, depth)] for code in self.geocodes])
        sums = np.zeros((len(codes), *values.shape[1:]), dtype=np.int64)
        np.add.at(sums, owner, values)
        return sums


@dataclass(frozen=True, slots=True)
class BoundRow:
    """A row of `tables.BOUNDS`: a bound of a geounit on itself or on a descendant."""

    name: str
    geocode: str
    member: str
    lower: tuple[int, ...]
    upper: tuple[int, ...]


def geocode_at(geocode: str, spine: Spine, depth: int) -> str:
    """The geounit of a level that holds a leaf.

    Args:
        geocode: Of the leaf.
        spine: The levels.
        depth: Of the level.
    """
    return geocode[: spine.levels[depth].length] or ROOT_GEOCODE


def families_of(population: SmallPopulation, spine: Spine, depth: int) -> dict[str, tuple[str, ...]]:
    """Families of a level: parent -> children; a geounit of the top level is a family of its own.

    Args:
        population: The records.
        spine: The levels.
        depth: Of the children.
    """
    codes = population.codes(spine, depth)
    if depth == 0:
        return {code: (code,) for code in codes}
    grouped = groupby(codes, key=lambda code: geocode_at(code, spine, depth - 1))
    return {family: tuple(children) for family, children in grouped}


def declared_bounds(plan: RunPlan, population: SmallPopulation) -> tuple[tuple[BoundRow, ...], ...]:
    """Every bound of every geounit, level by level from the top, as ingestion makes them from invariants alone.

    Args:
        plan: The run; its spine is that of the census.
        population: The records.
    """
    spine, invariants = plan.spine, plan.invariants
    exact = len(invariants.total_levels(spine.names))
    people = population.counts.sum(axis=1)
    totals = [population.summed(people, spine, depth) if depth < exact else None for depth in range(len(spine.levels))]
    rows: list[list[BoundRow]] = [[] for _ in spine.levels]
    for depth, total in enumerate(totals):
        if total is not None:
            rows[depth] += _own("total", population.codes(spine, depth), total[:, None], total[:, None])
    if invariants.units and plan.product.unit_bounds is not None:
        boxes = bounds_up_the_spine(plan.product.unit_bounds, population.units, _parents(population, spine), totals)
        for depth, (lower, upper) in enumerate(boxes):
            rows[depth] += _own("class", population.codes(spine, depth), lower, upper)
        total = totals[exact - 1] if exact > 1 else None
        if total is not None:
            _add_flows(rows, population, spine, exact - 1, (*boxes[exact - 1], total))
    for constraint in plan.added:
        _add_rule(rows, population, spine, constraint, plan.product.schema.query(constraint.query))
    return tuple(tuple(sorted(level, key=lambda row: (row.name, row.geocode, row.member))) for level in rows)


def _parents(population: SmallPopulation, spine: Spine) -> list[Counts]:
    """For each level but the top: position of each geounit's parent in the level above."""
    found = []
    for depth in range(1, len(spine.levels)):
        place = {code: number for number, code in enumerate(population.codes(spine, depth - 1))}
        codes = population.codes(spine, depth)
        found.append(np.array([place[geocode_at(code, spine, depth - 1)] for code in codes], dtype=np.int64))
    return found


def _own(name: str, codes: Sequence[str], lower: Counts, upper: Counts) -> list[BoundRow]:
    pairs = zip(codes, lower.tolist(), upper.tolist(), strict=True)
    return [BoundRow(name, code, code, tuple(low), tuple(high)) for code, low, high in pairs]


def _add_flows(
    rows: list[list[BoundRow]], population: SmallPopulation, spine: Spine, depth: int, boxes: tuple[Counts, ...]
) -> None:
    """For each geounit above the level of the exact totals: bounds and total of those of that level below it."""
    lower, upper, total = boxes
    members = population.codes(spine, depth)
    ends = [np.hstack([side, total[:, None]]).tolist() for side in (lower, upper)]
    for above in range(depth):
        rows[above] += [
            BoundRow("flow", geocode_at(member, spine, above), member, tuple(low), tuple(high))
            for member, low, high in zip(members, *ends, strict=True)
        ]


def _add_rule(
    rows: list[list[BoundRow]], population: SmallPopulation, spine: Spine, rule: AddedConstraint, query: Query
) -> None:
    """An added constraint at its level, and its sums above."""
    right = rule.right_hand_sides(query.rows)
    low = right if rule.sense in (Sense.EQUAL, Sense.AT_LEAST) else np.zeros_like(right)
    high = right if rule.sense in (Sense.EQUAL, Sense.AT_MOST) else np.full_like(right, UNBOUNDED)
    at = spine.index(rule.geolevel)
    members = population.codes(spine, at)
    for depth in range(at + 1):
        number = Counter(geocode_at(member, spine, depth) for member in members)
        for code, times in number.items():
            ends = (tuple(np.minimum(side * times, UNBOUNDED).tolist()) for side in (low, high))
            rows[depth].append(BoundRow(f"added:{rule.name}", code, code, *ends))
