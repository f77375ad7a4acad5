"""Families with the size, shape and noise of real ones, made from a seed: for benchmarks and for tests.

Populations follow what matters to a solver: how many cells a parent occupies, how uneven children are, how many of them
have group quarters, and how large the noise is beside the counts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das_spark.estimation import FamilyBounds, FamilyFlows, FamilyMeasurement, FamilyPlan, FamilyProblem
from das_spark.histogram import Attribute, Histogram, Schema


def _attribute(name: str, size: int) -> Attribute:
    return Attribute(name, tuple(f"{name}{level}" for level in range(size)))


SCHEMA_1940 = Schema(
    "e2e_1940", (_attribute("hhgq", 8), _attribute("age18plus", 2), _attribute("hispanic", 2), _attribute("race", 6))
)
SCHEMA_2018 = Schema(
    "e2e_2018",
    (_attribute("hhgq", 8), _attribute("votingage", 2), _attribute("hispanic", 2), _attribute("cenrace", 63)),
)
POPULARITY = {
    2: np.array([0.3, 0.7]),
    6: np.array([0.88, 0.1, 0.008, 0.004, 0.006, 0.002]),
    63: np.concatenate([[0.72, 0.12, 0.01, 0.05, 0.004, 0.06], 0.036 * 0.9 ** np.arange(57) * 0.1 / (1 - 0.9**57)]),
}
"""How common the levels of an attribute are, by its number of levels (no attribute but the class has eight)."""
SHARES_1940 = {"detailed": 0.1, "hhgq": 0.225, "age18plus * hispanic * race": 0.675}
SHARES_2018 = {"detailed": 0.1, "hhgq": 0.225, "votingage * hispanic * cenrace": 0.675}


@dataclass(frozen=True)
class Shape:
    """How to make a family."""

    name: str
    schema: Schema
    shares: dict[str, float]
    children: int
    people: float  # mean of a child
    epsilon: float  # of the level
    gq: float = 0.15  # chance of a child to have a given kind of group quarters
    all_occupied: bool = False  # force every cell of the parent above 0
    spread: float = 0.5  # unevenness of children
    total_known: bool = False


COUNTY = Shape("1940 county, 47 districts (S8)", SCHEMA_1940, SHARES_1940, 47, 980.0, 0.0625, gq=0.12)
COUNTY_HARD = Shape("same, every cell occupied (SF)", SCHEMA_1940, SHARES_1940, 47, 980.0, 0.0625, all_occupied=True)
STATE_63 = Shape("1940 state, 63 counties", SCHEMA_1940, SHARES_1940, 63, 42_000.0, 0.0625, gq=0.8, spread=1.2)
STATE_254 = Shape("1940 state, 254 counties", SCHEMA_1940, SHARES_1940, 254, 42_000.0, 0.0625, gq=0.8, spread=1.2)
BLOCKS = Shape("2018 block group, 30 blocks", SCHEMA_2018, SHARES_2018, 30, 40.0, 0.05, gq=0.02, spread=1.0)
GROUPS = Shape("2018 tract, 3 block groups", SCHEMA_2018, SHARES_2018, 3, 1300.0, 0.05)
TRACTS = Shape("2018 county, 50 tracts", SCHEMA_2018, SHARES_2018, 50, 4000.0, 0.05, gq=0.3)
TRACTS_141 = Shape("2018 county, 141 tracts", SCHEMA_2018, SHARES_2018, 141, 4400.0, 0.05, gq=0.3)
SHAPES = (COUNTY, COUNTY_HARD, STATE_63, STATE_254, BLOCKS, GROUPS, TRACTS, TRACTS_141)


def truth(shape: Shape, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Confidential counts (K, size) and units by class (K, 8)."""
    schema = shape.schema
    axes = [len(attribute.levels) for attribute in schema.attributes]
    joint = np.ones(1)
    for axis in axes[1:]:
        joint = np.multiply.outer(joint, POPULARITY[axis]).ravel()
    people = shape.people * generator.lognormal(-(shape.spread**2) / 2, shape.spread, shape.children)
    units = np.zeros((shape.children, axes[0]), dtype=np.int64)
    counts = np.zeros((shape.children, axes[0], len(joint)), dtype=np.int64)
    for child in range(shape.children):
        mix = generator.dirichlet(400.0 * joint)
        size = int(generator.poisson(people[child])) + (1 if shape.people > 100 else 0)
        counts[child, 0] = generator.multinomial(size, mix)
        units[child, 0] = max(1, size // 3) if size else 0
        for kind in range(1, axes[0]):
            if generator.random() < shape.gq / kind**0.5:
                inmates = 1 + int(generator.poisson(0.01 * people[child]))
                counts[child, kind] = generator.multinomial(inmates, mix)
                units[child, kind] = 1 + inmates // 200
    flat = counts.reshape(shape.children, -1)
    if shape.all_occupied:
        empty = np.flatnonzero(flat.sum(axis=0) == 0)
        kinds = empty // len(joint)
        for kind, cell in zip(kinds, empty, strict=True):
            child = int(generator.integers(shape.children))
            flat[child, cell] += 1
            units[child, kind] = max(1, units[child, kind])
    return flat, units


def class_bounds(units: np.ndarray, total: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """The E2E rules: at least one person a unit; at most 99 a household and 99,999 a facility, or what is left over."""
    lower = units.copy()
    cap = np.where(np.arange(units.shape[1]) == 0, 99, 99_999)
    upper = units * cap
    if total is not None:
        rest = total[:, None] - (lower.sum(axis=1, keepdims=True) - lower)
        upper = np.where(units > 0, rest, 0)
        only = (units > 0).sum(axis=1, keepdims=True) <= 1
        lower = np.where(only & (units > 0), total[:, None], lower)
    return lower.astype(np.int64), upper.astype(np.int64)


def noisy(generator: np.random.Generator, answers: np.ndarray, epsilon: float) -> tuple[np.ndarray, float]:
    """Add discrete Laplace noise of scale 2 / epsilon; returns answers and variance."""
    ratio = np.exp(-epsilon / 2.0)
    noise = generator.geometric(1 - ratio, answers.shape) - generator.geometric(1 - ratio, answers.shape)
    return answers + noise, float(2 * ratio / (1 - ratio) ** 2)


def measurements(
    shape: Shape, counts: np.ndarray, generator: np.random.Generator, cells: np.ndarray
) -> tuple[FamilyMeasurement, ...]:
    """Noisy answers to the strategy, restricted to the rows that some cells touch."""
    made = []
    for text, share in shape.shares.items():
        query = shape.schema.query(text)
        values, variance = noisy(generator, query.answer_dense(counts), shape.epsilon * share)
        rows = query.restrict(cells).rows
        made.append(FamilyMeasurement(query, rows, values[:, rows], np.full(len(counts), variance)))
    return tuple(made)


def family(shape: Shape, seed: int) -> tuple[FamilyProblem, FamilyPlan]:
    """One family of a shape, its parent being the true sum."""
    generator = np.random.default_rng([seed, sum(shape.name.encode())])
    counts, units = truth(shape, generator)
    parent = Histogram.from_dense(counts.sum(axis=0))
    lower, upper = class_bounds(units)
    query = shape.schema.query("hhgq")
    problem = FamilyProblem(
        parent_geocode="1",
        parent=parent,
        children=tuple(f"1{child:04d}" for child in range(shape.children)),
        size=shape.schema.size,
        measurements=measurements(shape, counts, generator, parent.cells),
        bounds=(FamilyBounds("class", query, lower, upper),),
    )
    return problem, FamilyPlan(geolevel="child", classes=query)


def nation(seed: int, states: int = 51, people: float = 2.6e6) -> tuple[FamilyProblem, FamilyPlan]:
    """A root whose states have invariant totals: bounds, a known total, and flows."""
    shape = Shape("nation", SCHEMA_1940, SHARES_1940, states, people, 0.0625, gq=3.0, spread=1.0)
    generator = np.random.default_rng([seed, 7])
    counts, units = truth(shape, generator)
    totals = counts.sum(axis=1)
    lower, upper = class_bounds(units, totals)
    whole = counts.sum(axis=0, keepdims=True)
    cells = np.arange(shape.schema.size)
    query = shape.schema.query("hhgq")
    total = shape.schema.query("total")
    problem = FamilyProblem(
        parent_geocode="",
        parent=None,
        children=("0",),
        size=shape.schema.size,
        measurements=measurements(shape, whole, generator, cells),
        bounds=(
            FamilyBounds("class", query, lower.sum(axis=0, keepdims=True), upper.sum(axis=0, keepdims=True)),
            FamilyBounds("total", total, totals.sum(keepdims=True)[:, None], totals.sum(keepdims=True)[:, None]),
        ),
        flows=FamilyFlows(query, np.zeros(states, dtype=np.int64), lower, upper, totals),
    )
    return problem, FamilyPlan(geolevel="National", classes=query)


__all__ = ["SHAPES", "Shape", "class_bounds", "family", "nation"]
