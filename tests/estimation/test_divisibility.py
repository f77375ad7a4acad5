"""Whatever the noise says, what is estimated can always be divided among the children, two more levels down.

A search for counterexamples: random trees, random units, noise so large that estimates run into every bound.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.estimation import (
    FamilyBounds,
    FamilyFlows,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    FamilyStatus,
    estimate_family,
)
from das_spark.estimation.check import divisible_margins
from das_spark.histogram import Attribute, Histogram, Schema

CLASSES = 4
CAP = 6
SCHEMA = Schema("toy", (Attribute("kind", tuple("hkbp")), Attribute("race", ("a", "b"))))
KIND, TOTAL, DETAILED = (SCHEMA.query(text) for text in ("kind", "total", "detailed"))


@dataclass
class Node:
    """A geounit with its truth and what is public of it."""

    code: str
    truth: np.ndarray
    units: np.ndarray
    children: list[Node] = field(default_factory=list)
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    total: int | None = None


def grow(generator, code, depth):
    if depth == 0:
        units = generator.integers(0, 3, CLASSES) * (generator.random(CLASSES) < 0.5)
        truth = np.zeros((CLASSES, 2), dtype=np.int64)
        for kind in range(CLASSES):
            if units[kind]:
                people = int(generator.integers(units[kind], CAP * units[kind] + 1))
                first = int(generator.integers(0, people + 1))
                truth[kind] = first, people - first
        return Node(code, truth.ravel(), units)
    children = [grow(generator, f"{code}{digit}", depth - 1) for digit in range(int(generator.integers(1, 4)))]
    truth, units = sum(child.truth for child in children), sum(child.units for child in children)
    return Node(code, truth, units, children)


def own_box(node):
    """The rule of the product for one geounit: at least one person a unit, at most CAP, or what others leave over."""
    lower, upper = node.units.copy(), node.units * CAP
    if node.total is not None:
        others = node.units.sum() - node.units > 0
        lower = np.where(others, node.units, np.where(node.units > 0, node.total, 0))
        upper = np.where(node.units > 0, np.minimum(upper, node.total - (node.units.sum() - node.units)), 0)
    return lower, upper


def impose(node, depth, total_depth):
    """Own bounds, and the tighter of them and the sums of the children's; totals are known down to a depth."""
    node.total = int(node.truth.sum()) if depth <= total_depth else None
    for child in node.children:
        impose(child, depth + 1, total_depth)
    node.lower, node.upper = own_box(node)
    if node.children:
        node.lower = np.maximum(node.lower, sum(child.lower for child in node.children))
        node.upper = np.minimum(node.upper, sum(child.upper for child in node.children))


def descendants(node, depth, at):
    if depth == at:
        return [node]
    return [found for child in node.children for found in descendants(child, depth + 1, at)]


def family(generator, parent, estimate, nodes, depth, total_depth, *, with_flows=True):
    """The family of geounits `nodes` at a depth below `parent`, with wild noise."""
    count = len(nodes)
    histogram = None if estimate is None else Histogram.from_dense(estimate)
    measured = []
    for query in (DETAILED, KIND):
        truth = query.answer_dense(np.array([node.truth for node in nodes]))
        noise = np.rint(generator.laplace(0, 15, truth.shape)).astype(np.int64)
        measured.append(FamilyMeasurement(query, np.arange(query.rows), truth + noise, np.full(count, 450.0)))
    bounds = [
        FamilyBounds("class", KIND, *(np.array([getattr(n, side) for n in nodes]) for side in ("lower", "upper")))
    ]
    flows = None
    if depth <= total_depth:
        total = np.array([[node.total] for node in nodes])
        bounds.append(FamilyBounds("total", TOTAL, total, total))
    if depth < total_depth and with_flows:
        below = [(place, found) for place, n in enumerate(nodes) for found in descendants(n, depth, total_depth)]
        flows = FamilyFlows(
            KIND,
            np.array([place for place, _ in below]),
            np.array([found.lower for _, found in below]),
            np.array([found.upper for _, found in below]),
            np.array([found.total for _, found in below]),
        )
    return FamilyProblem(
        "" if parent is None else parent.code,
        histogram,
        tuple(node.code for node in nodes),
        SCHEMA.size,
        tuple(measured),
        tuple(bounds),
        flows,
    )


def divide(generator, node, estimate, depth, total_depth):
    """Estimate all levels below a geounit; every family must come out usable."""
    if not node.children:
        return
    problem = family(generator, node, estimate, node.children, depth + 1, total_depth)
    result = estimate_family(problem, FamilyPlan("toy", classes=SCHEMA.query("kind")))
    assert result.diagnostics.status.is_usable, (result.diagnostics, problem)
    for place, child in enumerate(node.children):
        dense = np.zeros(SCHEMA.size, dtype=np.int64)
        dense[result.cells] = result.counts[place]
        divide(generator, child, dense, depth + 1, total_depth)


@given(seed=st.integers(0, 2**32 - 1), total_depth=st.integers(-1, 3))
@settings(max_examples=80, deadline=None)
@pytest.mark.slow
def test_estimates_can_always_be_divided_down_to_the_leaves(seed, total_depth):
    generator = np.random.default_rng(seed)
    root = grow(generator, "1", 3)
    impose(root, 0, total_depth)
    problem = family(generator, None, None, [root], 0, total_depth)
    result = estimate_family(problem, FamilyPlan("toy", classes=SCHEMA.query("kind")))
    assert result.diagnostics.status.is_usable, (result.diagnostics, problem)
    dense = np.zeros(SCHEMA.size, dtype=np.int64)
    dense[result.cells] = result.counts[0]
    divide(generator, root, dense, 0, total_depth)


def counterexample():
    """Two states with known totals; sums of their class bounds allow a national margin that cannot be divided."""
    units = np.array([[1, 1, 1, 0], [1, 0, 0, 1]])
    totals = np.array([10, 100])
    lower = units.astype(np.int64)
    rest = totals[:, None] - (lower.sum(axis=1, keepdims=True) - lower)
    upper = np.where(units > 0, rest, 0).astype(np.int64)
    return lower, upper, totals


def test_sums_of_bounds_alone_would_allow_an_indivisible_margin():
    lower, upper, totals = counterexample()
    margin = np.array([[2, 8, 8, 92]])
    assert (margin >= lower.sum(axis=0)).all()
    assert (margin <= upper.sum(axis=0)).all()
    flows = FamilyFlows(KIND, np.zeros(2, dtype=np.int64), lower, upper, totals)
    assert not divisible_margins(margin, flows)[0]


@pytest.mark.parametrize("with_flows", [True, False])
def test_flows_keep_the_nation_away_from_the_counterexample(with_flows):
    lower, upper, totals = counterexample()
    flows = FamilyFlows(KIND, np.zeros(2, dtype=np.int64), lower, upper, totals)
    values = np.repeat(np.array([[2, 8, 8, 92]]), 2, axis=1) // 2  # half of each class is of either race
    measured = FamilyMeasurement(DETAILED, np.arange(8), values, np.ones(1))
    summed = FamilyBounds("class", KIND, lower.sum(axis=0, keepdims=True), upper.sum(axis=0, keepdims=True))
    whole = FamilyBounds("total", TOTAL, np.array([[110]]), np.array([[110]]))
    problem = FamilyProblem("", None, ("0",), 8, (measured,), (summed, whole), flows if with_flows else None)
    result = estimate_family(problem, FamilyPlan("toy"))
    assert result.diagnostics.status is FamilyStatus.OPTIMAL
    margin = np.zeros((1, 4), dtype=np.int64)
    np.add.at(margin[0], result.cells // 2, result.counts[0])
    assert divisible_margins(margin, flows)[0] == with_flows
