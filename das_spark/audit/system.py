"""The system in memory on small populations: what ingestion derives from a few leaf geounits, and runs of a plan on it.

What ingestion derives (histograms, invariants, bounds) is the plain form of what `das_spark.spark` does with tables; a
test holds the two against each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np
from numpy.typing import NDArray

from das_spark.config import RunPlan, level_plan, measurement_plan, noise_streams, steps_of
from das_spark.constraints import UNBOUNDED, AddedConstraint, Sense, bounds_up_the_spine
from das_spark.core import (
    ConfidentialFamily,
    DeclaredBounds,
    InProcess,
    LevelInput,
    MeasurementPlan,
    PublishedFamily,
    run_levels,
)
from das_spark.errors import ConfigurationError, EstimationError
from das_spark.geography import ROOT_GEOCODE, Spine
from das_spark.histogram import Histogram, Query
from das_spark.privacy import RunKey

Counts = NDArray[np.int64]
_ATTEMPT = 1


@dataclass(frozen=True, slots=True, eq=False)
class SmallPopulation:
    """Records by leaf geounit."""

    geocodes: tuple[str, ...]  #: of the leaves, ascending, (K,)
    counts: Counts  #: records by leaf and cell, (K, cells)
    units: Counts  #: units by leaf and class, (K, classes)

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
    """Families of a level: parent -> children; a geounit of the top level is a family of its own."""
    codes = population.codes(spine, depth)
    if depth == 0:
        return {code: (code,) for code in codes}
    grouped = groupby(codes, key=lambda code: geocode_at(code, spine, depth - 1))
    return {family: tuple(children) for family, children in grouped}


def declared_bounds(plan: RunPlan, population: SmallPopulation) -> tuple[tuple[BoundRow, ...], ...]:
    """Every bound of every geounit, level by level from the top, as ingestion makes them from invariants alone."""
    spine, invariants = plan.spine, plan.invariants
    exact = len(invariants.total_levels(spine.names))
    people = population.counts.sum(axis=1)
    totals = [population.summed(people, spine, depth) if depth < exact else None for depth in range(len(spine.levels))]
    rows: list[list[BoundRow]] = [[] for _ in spine.levels]
    for depth, total in enumerate(totals):
        if total is not None:
            rows[depth] += _own("total", population.codes(spine, depth), total[:, None], total[:, None])
    if invariants.units and plan.product.unit_bounds is not None:
        of_classes = bounds_up_the_spine(
            plan.product.unit_bounds,
            population.units[:, : len(plan.product.unit_bounds.least)],
            _parents(population, spine),
            totals,
        )
        for depth, (lower, upper) in enumerate(of_classes):
            rows[depth] += _own("class", population.codes(spine, depth), lower, upper)
        total = totals[exact - 1] if exact > 1 else None
        if total is not None:
            _add_flows(rows, population, spine, exact - 1, (*of_classes[exact - 1], total))
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
    rows: list[list[BoundRow]], population: SmallPopulation, spine: Spine, depth: int, of_classes: tuple[Counts, ...]
) -> None:
    """For each geounit above the level of the exact totals: bounds and total of those of that level below it."""
    lower, upper, total = of_classes
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


class LocalSystem:
    """A configured system that runs on small populations.

    Subclasses may break it, or its executor: audits must find out.
    """

    executor: type[InProcess] = InProcess  # class of the executor

    def __init__(self, plan: RunPlan) -> None:  # noqa: D107 - Args stand with the class.
        if not plan.spine.is_census:
            raise ConfigurationError(
                f"geography.spine: an audit invents geounits of the census, none of areas as for '{plan.spine.kind}'",
                hint="audit the same budget with --set geography.spine=census",
            )
        self.plan = plan
        self._levels = {name: level_plan(plan, name) for name in plan.spine.names}
        self._noise: dict[str, MeasurementPlan] = {}

    def ingest(self, population: SmallPopulation, published: Counts | None = None) -> Mapping[str, LevelInput]:
        """Histograms and bounds of a population, level by level from the top.

        Args:
            population: The records.
            published: For products that are held to counts of another one: records by leaf and cell, (K, cells), whose
                answers that product has published, exactly; by default those of the population.
        """
        spine, found = self.plan.spine, {}
        told = population.counts if published is None else published
        for depth, (geolevel, rows) in enumerate(zip(spine.names, declared_bounds(self.plan, population), strict=True)):
            counts = population.summed(population.counts, spine, depth)
            codes = population.codes(spine, depth)
            truth = dict(zip(codes, map(Histogram.from_dense, counts), strict=True))
            of_published = dict(zip(codes, population.summed(told, spine, depth), strict=True))
            confidential, declared = {}, {}
            for family, children in families_of(population, spine, depth).items():
                confidential[family] = ConfidentialFamily.of({code: truth[code] for code in children})
                bounds, level = _family_bounds(rows, children), self._levels[geolevel]
                held = None
                if level.held is not None:
                    held = PublishedFamily.answering(level.held, {code: of_published[code] for code in children})
                declared[family] = level.declared(family if depth else "", children, bounds, held)
            found[geolevel] = LevelInput(confidential, declared)
        return found

    def measurement_plan(self, geolevel: str, key: RunKey) -> MeasurementPlan:
        """How a level is measured under a key."""
        if geolevel not in self._noise:
            share = {"": self.plan.budget.level(geolevel).share}
            self._noise[geolevel] = measurement_plan(self.plan, geolevel, share, key, _ATTEMPT)
        return replace(self._noise[geolevel], streams=noise_streams(self.plan, geolevel, key, _ATTEMPT))

    def run(self, ingested: Mapping[str, LevelInput], key: RunKey) -> InProcess:
        """Measure and estimate every level; a run ends at the first level with a family that failed."""
        noise = {name: self.measurement_plan(name, key) for name in self.plan.spine.names}
        executor = self.executor(ingested, self._levels, noise)
        with suppress(EstimationError):
            run_levels(steps_of(self.plan), executor)
        return executor


def _family_bounds(rows: Sequence[BoundRow], children: Sequence[str]) -> dict[str, DeclaredBounds]:
    own = set(children)
    found = {}
    for name, group in groupby((row for row in rows if row.geocode in own), key=lambda row: row.name):
        chosen = list(group)
        found[name] = DeclaredBounds(
            geocodes=tuple(row.geocode for row in chosen),
            members=tuple(row.member for row in chosen),
            lower=np.array([row.lower for row in chosen], dtype=np.int64),
            upper=np.array([row.upper for row in chosen], dtype=np.int64),
        )
    return found
