"""Small families, made from a seed, whose truth is known to be feasible."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from das_spark.estimation import FamilyBounds, FamilyFlows, FamilyMeasurement, FamilyPlan, FamilyProblem
from das_spark.estimation.chain import PosedFamily, solve_chain
from das_spark.estimation.presolve import Presolved, presolve
from das_spark.estimation.support import restrict
from das_spark.histogram import Attribute, Histogram, Query, Recode, Schema

sys.path.insert(0, str(Path(__file__).parent))  # for `measured_trees`

TOY = Schema(
    "toy",
    (
        Attribute("kind", ("home", "barracks", "prison")),
        Attribute("age", ("minor", "adult")),
        Attribute("race", ("a", "b")),
    ),
)


@dataclass(frozen=True)
class Small:
    """A family, its plan and its truth (K, size)."""

    problem: FamilyProblem
    plan: FamilyPlan
    truth: np.ndarray


def class_bounds(units: np.ndarray, total: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """At least one person a unit, at most 5; with a known total what the others leave over."""
    lower, upper = units.copy(), units * 5
    if total is not None:
        rest = total[:, None] - (lower.sum(axis=1, keepdims=True) - lower)
        upper = np.where(units > 0, np.minimum(upper, rest), 0)
        other = (units > 0).sum(axis=1, keepdims=True) - (units > 0) > 0
        lower = np.where(other, lower, np.where(units > 0, total[:, None], 0))
    return lower.astype(np.int64), upper.astype(np.int64)


def small_family(
    seed: int,
    children: int = 3,
    *,
    noise: float = 2.0,
    queries: tuple[str, ...] = ("detailed", "kind", "age * race"),
    bounded: bool = True,
    totals: bool = False,
    root: bool = False,
    flows: bool = False,
    equal_variance: bool = False,
    people: int = 6,
) -> Small:
    """Make a family; at the root it has one child."""
    generator = np.random.default_rng(seed)
    members = children
    units = generator.integers(0, 3, (members, 3))
    truth = np.zeros((members, TOY.size), dtype=np.int64)
    for member in range(members):
        for kind in range(3):
            count = int(units[member, kind] * generator.integers(1, 6)) if units[member, kind] else 0
            count = min(max(count, int(units[member, kind])), people * 4)
            chances = generator.dirichlet(np.full(4, 0.7))
            truth[member, 4 * kind : 4 * kind + 4] = generator.multinomial(count, chances)
    own_total = truth.sum(axis=1)
    member_lower, member_upper = class_bounds(units, own_total if totals or flows else None)
    family_flows = None
    if root:
        lower, upper = member_lower.sum(axis=0, keepdims=True), member_upper.sum(axis=0, keepdims=True)
        if flows:
            owner = np.zeros(members, dtype=np.int64)
            family_flows = FamilyFlows(TOY.query("kind"), owner, member_lower, member_upper, own_total)
        truth = truth.sum(axis=0, keepdims=True)
        parent = None
    else:
        lower, upper = member_lower, member_upper
        parent = Histogram.from_dense(truth.sum(axis=0))
        if flows:
            owner = np.arange(members)
            family_flows = FamilyFlows(TOY.query("kind"), owner, member_lower, member_upper, own_total)
    count = len(truth)
    bounds = []
    if bounded:
        bounds.append(FamilyBounds("class", TOY.query("kind"), lower, upper))
    if totals:
        total = truth.sum(axis=1, keepdims=True)
        bounds.append(FamilyBounds("total", TOY.query("total"), total, total))
    cells = np.arange(TOY.size) if parent is None else parent.cells
    measured = []
    for text in queries:
        query = TOY.query(text)
        variance = np.full(count, noise**2) * (1 if equal_variance else generator.uniform(0.5, 2.0, count))
        draw = np.rint(generator.laplace(0, 1, (count, query.rows)) * np.sqrt(variance / 2)[:, None]).astype(np.int64)
        rows = query.restrict(cells).rows
        measured.append(FamilyMeasurement(query, rows, (query.answer_dense(truth) + draw)[:, rows], variance))
    problem = FamilyProblem(
        parent_geocode="" if root else "9",
        parent=parent,
        children=tuple(f"9{child:02d}" for child in range(count)),
        size=TOY.size,
        measurements=tuple(measured),
        bounds=tuple(bounds),
        flows=family_flows,
    )
    return Small(problem, FamilyPlan(geolevel="toy", classes=TOY.query("kind")), truth)


def wild_schema(generator: np.random.Generator) -> Schema:
    """Three attributes and a recode that leaves cells out; 4 to 24 cells."""
    kinds, ages, races = (int(generator.integers(2, top)) for top in (5, 4, 3))
    recode = Recode("some", (("first", (0,)), ("last", (kinds - 1,))))
    levels = [
        tuple(f"{name}{level}" for level in range(size)) for name, size in zip("kab", (kinds, ages, races), strict=True)
    ]
    return Schema(
        "wild", (Attribute("kind", levels[0], (recode,)), Attribute("age", levels[1]), Attribute("race", levels[2]))
    )


WILD = ("total", "kind", "age", "race", "kind * age", "age * race", "kind * race", "some", "some * race")


def wild_family(seed: int) -> Small:
    """A family whose truth keeps every constraint; the rest is left to chance.

    Queries are nested or cross, count some cells or all, with one variance, two, or one a child; nobody may be of some
    kind in some child; there may be bounds on kinds, known totals, bounds that cross them, narrow bands, and bounds on
    single cells.
    """
    generator = np.random.default_rng(seed)
    schema = wild_schema(generator)
    children = int(generator.integers(2, 6))
    shape = (children, len(schema.attributes[0].levels), schema.size // len(schema.attributes[0].levels))
    here = generator.random(shape[:2]) < 0.8
    people = generator.choice([0.5, 3.0, 40.0, 2000.0])
    truth = generator.poisson(people * generator.gamma(0.5, 2.0, shape)) * here[:, :, None]
    truth = (truth * (generator.random(shape) < 0.8)).reshape(children, -1).astype(np.int64)
    truth[0, 0] += not truth.any()
    here[0, 0] = True
    parent = Histogram.from_dense(truth.sum(axis=0))
    problem = FamilyProblem(
        parent_geocode="8",
        parent=parent,
        children=tuple(f"8{child}" for child in range(children)),
        size=schema.size,
        measurements=tuple(wild_measurements(schema, truth, parent, generator)),
        bounds=tuple(wild_bounds(schema, truth, here, generator)),
    )
    return Small(problem, FamilyPlan("wild"), truth)


def wild_measurements(
    schema: Schema, truth: np.ndarray, parent: Histogram, generator: np.random.Generator
) -> list[FamilyMeasurement]:
    names = list(generator.choice(WILD, int(generator.integers(1, 6)), replace=False))
    names += ["detailed"] if generator.random() < 0.8 else []
    size = generator.choice([0.3, 3.0, 30.0])
    classes = generator.choice([1, 2, len(truth)])
    made = []
    for name in names:
        query = schema.query(name)
        variance = (size * generator.lognormal(0.0, 1.0, classes))[np.arange(len(truth)) % classes] ** 2
        rows = query.restrict(parent.cells).rows
        noise = np.rint(generator.normal(size=(len(truth), len(rows))) * np.sqrt(variance)[:, None]).astype(np.int64)
        made.append(FamilyMeasurement(query, rows, query.answer_dense(truth)[:, rows] + noise, variance))
    return made


def wild_bounds(
    schema: Schema, truth: np.ndarray, here: np.ndarray, generator: np.random.Generator
) -> list[FamilyBounds]:
    found = []
    for name, chance in (("kind", 0.7), ("age", 0.2), ("race", 0.1), ("detailed", 0.05)):
        if generator.random() < chance:
            query = schema.query(name)
            answer = query.answer_dense(truth)
            lower = np.maximum(answer - generator.integers(0, 4, answer.shape), 0)
            upper = answer + generator.integers(0, 4, answer.shape) * generator.choice([1, 50])
            found.append(FamilyBounds(name, query, lower, np.where(here, upper, 0) if name == "kind" else upper))
    if generator.random() < 0.3:
        total = truth.sum(axis=1, keepdims=True)
        found.append(FamilyBounds("total", schema.query("total"), total, total))
    if generator.random() < 0.3:
        query = schema.query(str(generator.choice(WILD)))
        middle = query.answer_dense(truth) + generator.uniform(-0.009, 0.009, (len(truth), query.rows))
        found.append(FamilyBounds("held", query, middle - 0.01, middle + 0.01))
    return found


@pytest.fixture(scope="session")
def wild() -> Callable[[int], Small]:
    """Make small families of every kind."""
    return wild_family


@pytest.fixture(scope="session")
def small() -> Callable[..., Small]:
    """Make small families."""
    return small_family


@pytest.fixture(scope="session")
def toy() -> Schema:
    """The schema of small families: 3 x 2 x 2 cells."""
    return TOY


@pytest.fixture(scope="session")
def toy_queries(toy: Schema) -> list[list[Query]]:
    """Its total first, then a margin with the cells."""
    return [[toy.query("total")], [toy.query("kind"), toy.query("detailed")]]


@pytest.fixture(scope="session")
def estimated() -> Callable[[FamilyProblem, FamilyPlan], tuple[Presolved, np.ndarray]]:
    """Presolve a family without contradictions and estimate it: real numbers (K, n)."""

    def solved(problem: FamilyProblem, plan: FamilyPlan) -> tuple[Presolved, np.ndarray]:
        presolved = presolve(restrict(problem, plan))
        assert not presolved.contradiction
        return presolved, solve_chain(PosedFamily.of(presolved), plan).candidate.x

    return solved


@pytest.fixture(scope="session")
def all_rows() -> Callable[[Small], Small]:
    """Complete the measurements of a small family: rows beyond the support are the truth, zero."""

    def completed(made: Small) -> Small:
        measured = []
        for measurement in made.problem.measurements:
            values = np.full((len(measurement.values), measurement.query.rows), 3, dtype=np.int64)
            values[:, measurement.rows] = measurement.values
            measured.append(
                FamilyMeasurement(measurement.query, np.arange(measurement.query.rows), values, measurement.variance)
            )
        return replace(made, problem=replace(made.problem, measurements=tuple(measured)))

    return completed
