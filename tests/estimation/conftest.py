"""Small families, made from a seed, whose truth is known to be feasible."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest

from das_spark.estimation import FamilyBounds, FamilyFlows, FamilyMeasurement, FamilyPlan, FamilyProblem
from das_spark.histogram import Attribute, Histogram, Schema

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


def boxes(units: np.ndarray, total: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
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
    member_lower, member_upper = boxes(units, own_total if totals or flows else None)
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
        children=tuple(f"9{child}" for child in range(count)),
        size=TOY.size,
        measurements=tuple(measured),
        bounds=tuple(bounds),
        flows=family_flows,
    )
    return Small(problem, FamilyPlan(geolevel="toy", class_query="kind"), truth)


@pytest.fixture(scope="session")
def small() -> Callable[..., Small]:
    """Make small families."""
    return small_family


@pytest.fixture(scope="session")
def toy() -> Schema:
    """The schema of small families: 3 x 2 x 2 cells."""
    return TOY


@pytest.fixture(scope="session")
def all_rows() -> Callable[[Small], Small]:
    """Complete the measurements of a small family: rows beyond the support are the truth, zero."""

    def completed(made: Small) -> Small:
        measured = []
        for each in made.problem.measurements:
            values = np.full((len(each.values), each.query.rows), 3, dtype=np.int64)
            values[:, each.rows] = each.values
            measured.append(FamilyMeasurement(each.query, np.arange(each.query.rows), values, each.variance))
        return replace(made, problem=replace(made.problem, measurements=tuple(measured)))

    return completed
