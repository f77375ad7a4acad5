"""Families of the redistricting production of 2020, made from a seed: its queries, passes, budget and bounds.

People follow what matters to a solver: how many cells the parent occupies, how uneven the children are, and how many of
them have group quarters. No census data are read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from das_spark.estimation import FamilyBounds, FamilyMeasurement, FamilyPlan, FamilyProblem
from das_spark.histogram import Histogram
from das_spark.products import product

PRODUCT = product("pl94_2020_person")
STRATEGY = PRODUCT.strategies["us"]
CLASSES = 8
STRATA = 2 * 2 * 63


@dataclass(frozen=True)
class Shape2020:
    """How to make a family.

    Attributes:
        name: For tables.
        level: Geolevel of the children, which says what is measured, how well, and in which passes.
        children: Their number.
        cells: Cells that the parent occupies.
        people: Mean of a child.
        facilities: Chance of a child to have group quarters of a given type.
        spread: Unevenness of the children.
    """

    name: str
    level: str
    children: int
    cells: int
    people: float
    facilities: float
    spread: float = 0.5


BLOCKS = Shape2020("block group, 30 blocks", "Block", 30, 112, 45.0, 0.01, 1.0)
GROUPS = Shape2020("tract, 3 block groups", "Block_Group", 3, 180, 1400.0, 0.1)
TRACTS = Shape2020("county, 50 tracts", "Tract", 50, 477, 4000.0, 0.25)
COUNTIES = Shape2020("state, 5 counties", "County", 5, 599, 230_000.0, 0.9, 1.0)
TRACTS_250 = Shape2020("county, 250 tracts", "Tract", 250, 747, 4000.0, 0.3)
TRACTS_1332 = Shape2020("county, 1,332 tracts", "Tract", 1332, 800, 4000.0, 0.2)
TRACTS_2000 = Shape2020("county, 2,000 tracts", "Tract", 2000, 666, 4000.0, 0.15)
SHAPES_2020 = (BLOCKS, GROUPS, TRACTS, COUNTIES, TRACTS_250, TRACTS_1332, TRACTS_2000)


def family_2020(shape: Shape2020, seed: int) -> tuple[FamilyProblem, FamilyPlan]:
    """One family of a shape with the passes of its level; its parent is the true sum."""
    generator = np.random.default_rng([seed, sum(shape.name.encode())])
    counts, units = _people(shape, generator)
    parent = Histogram.from_dense(counts.sum(axis=0))
    least, most = (np.array(side, dtype=np.int64) for side in (PRODUCT.unit_bounds.least, PRODUCT.unit_bounds.most))
    class_query = PRODUCT.schema.query("hhgq")
    problem = FamilyProblem(
        parent_geocode="1",
        parent=parent,
        children=tuple(f"1{child:04d}" for child in range(shape.children)),
        size=PRODUCT.schema.size,
        measurements=tuple(_measurements(shape.level, counts, parent.cells, generator)),
        bounds=(FamilyBounds("class", class_query, units * least, units * most),),
    )
    return problem, plan_2020(shape.level)


def plan_2020(level: str) -> FamilyPlan:
    """The plan of a geolevel: passes and queries of the production."""
    passes = STRATEGY.passes[level]
    names = {name for each in passes for name in each.names}
    zeros = np.flatnonzero(np.any([zero.mask(PRODUCT.schema) for zero in PRODUCT.structural_zeros], axis=0))
    return FamilyPlan(
        geolevel=level,
        zero_cells=zeros.astype(np.int32),
        solvers=("batched", "piqp", "clarabel", "osqp"),
        classes=PRODUCT.schema.query("hhgq"),
        passes=passes,
        queries={name: PRODUCT.schema.query(name) for name in names},
    )


def at_once(plan: FamilyPlan) -> FamilyPlan:
    """The same plan without passes: one fit of everything, rounded cell by cell."""
    return replace(plan, passes=())


def _measurements(
    level: str, counts: np.ndarray, cells: np.ndarray, generator: np.random.Generator
) -> list[FamilyMeasurement]:
    made = []
    for share in STRATEGY.budget.level(level).queries:
        query = PRODUCT.schema.query(share.query)
        variance = float(STRATEGY.budget.mechanism(level, share.query).variance())
        rows = query.restrict(cells).rows
        truth = query.answer_dense(counts)[:, rows]
        noise = np.rint(generator.normal(0.0, np.sqrt(variance), truth.shape)).astype(np.int64)
        made.append(FamilyMeasurement(query, rows, truth + noise, np.full(len(counts), variance)))
    return made


def _people(shape: Shape2020, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Counts (K, 2016) of which exactly `cells` cells are occupied, and units by class (K, 8)."""
    allowed = np.ones(PRODUCT.schema.size, dtype=np.bool_)
    allowed[plan_2020(shape.level).zero_cells] = False
    joint = np.multiply.outer([0.25, 0.75], np.multiply.outer([0.85, 0.15], _races())).ravel()
    size = shape.people * generator.lognormal(-(shape.spread**2) / 2, shape.spread, shape.children)
    units = np.zeros((shape.children, CLASSES), dtype=np.int64)
    counts = np.zeros((shape.children, CLASSES, STRATA), dtype=np.int64)
    for child in range(shape.children):
        mix = generator.dirichlet(400.0 * joint)
        counts[child, 0] = generator.multinomial(generator.poisson(size[child]) + (shape.people > 100), mix)
        units[child, 0] = max(1, counts[child, 0].sum() // 3)
        for kind in range(1, CLASSES):
            if generator.random() < shape.facilities:
                mix_there = np.where(allowed[kind * STRATA : (kind + 1) * STRATA], mix, 0.0)
                inmates = 1 + int(generator.poisson(min(0.02 * size[child], 2000.0)))
                counts[child, kind] = generator.multinomial(inmates, mix_there / mix_there.sum())
                units[child, kind] = 1 + inmates // 200
    counts = counts.reshape(shape.children, -1)
    return _occupied(counts, units, allowed, shape.cells, generator), units


def _races() -> np.ndarray:
    rare = 0.85 ** np.arange(57)
    return np.concatenate([[0.70, 0.12, 0.012, 0.05, 0.004, 0.06], 0.054 * rare / rare.sum()])


def _occupied(
    counts: np.ndarray, units: np.ndarray, allowed: np.ndarray, cells: int, generator: np.random.Generator
) -> np.ndarray:
    """Counts of which exactly so many cells are occupied: the most populous ones keep their people."""
    possible = allowed & (units > 0).any(axis=0).repeat(STRATA)
    kept = np.argsort(-(counts.sum(axis=0) + possible * generator.random(counts.shape[1])), kind="stable")[:cells]
    found = np.zeros_like(counts)
    found[:, kept] = counts[:, kept]
    for kind in range(CLASSES):  # who lost a cell moves to the first one of the class
        own = np.sort(kept[kept // STRATA == kind])
        lost = counts[:, kind * STRATA : (kind + 1) * STRATA].sum(axis=1) - found[:, own].sum(axis=1)
        if len(own):
            found[:, own[0]] += lost
        else:
            units[:, kind] = 0
    for cell in kept[found[:, kept].sum(axis=0) == 0]:
        found[generator.choice(np.flatnonzero(units[:, cell // STRATA])), cell] += 1
    return found


__all__ = ["SHAPES_2020", "Shape2020", "at_once", "family_2020", "plan_2020"]
