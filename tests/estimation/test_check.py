"""The exact check names every kind of violation, and nothing that is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from das_spark.estimation import FamilyFlows
from das_spark.estimation.check import broken_rules, divisible
from das_spark.estimation.support import Relaxation
from das_spark.histogram import Attribute, Schema


def dense_truth(made):
    return np.arange(made.problem.size, dtype=np.int32), made.truth


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("options", [{}, {"totals": True}, {"flows": True}, {"root": True, "flows": True}], ids=str)
def test_the_truth_breaks_nothing(small, seed, options):
    made = small(seed, **options)
    assert broken_rules(made.problem, made.plan, *dense_truth(made)) == ()


def test_each_kind_of_violation_is_named(small):
    made = small(3, totals=True)
    cells, truth = dense_truth(made)
    child, cell = np.argwhere(truth > 0)[0]
    changed = truth.copy()
    changed[child, cell] -= truth[child, cell] + 1
    words = " ".join(broken_rules(made.problem, made.plan, cells, changed))
    assert "negative" in words
    assert "do not sum" in words
    assert "'total'" in words
    assert broken_rules(made.problem, made.plan, cells, truth.astype(float)) == ("estimates are not 64-bit integers",)
    plan = replace(made.plan, zero_cells=np.array([cell], dtype=np.int32))
    assert "people in structural zeros" in broken_rules(made.problem, plan, cells, truth)


def test_margins_that_cannot_be_divided_are_named(small):
    made = small(3, root=True, flows=True)
    cells, truth = dense_truth(made)
    moved = truth.copy()
    moved[0, 0] += 1000
    assert any("cannot be divided" in rule for rule in broken_rules(made.problem, made.plan, cells, moved))


def test_under_the_failsafe_only_the_kept_margin_must_agree(small):
    made = small(3)
    cells, truth = dense_truth(made)
    group = np.tile(np.arange(4), 3)
    totals = np.bincount(group, truth.sum(axis=0)).astype(np.int64)
    relaxation = Relaxation(group, totals, 10.0)
    problem = replace(made.problem, bounds=())
    child, cell = np.argwhere(truth > 0)[0]
    moved = truth.copy()
    moved[child, cell] -= 1
    moved[child, (cell + 4) % 12] += 1  # another class, same group
    assert broken_rules(problem, made.plan, cells, moved, relaxation) == ()
    assert broken_rules(problem, made.plan, cells, moved) != ()
    moved[child, (cell + 5) % 12] += 1
    assert broken_rules(problem, made.plan, cells, moved, relaxation) != ()


def test_many_classes_are_decided_by_a_linear_program():
    classes = 15
    query = Schema("many", (Attribute("kind", tuple(f"k{number}" for number in range(classes))),)).query("kind")
    generator = np.random.default_rng(4)
    inside = generator.integers(0, 3, (3, classes))
    flows = FamilyFlows(query, np.zeros(3, dtype=np.int64), np.maximum(inside - 1, 0), inside + 1, inside.sum(axis=1))
    assert divisible(inside.sum(axis=0, keepdims=True), flows)[0]
    off = inside.sum(axis=0, keepdims=True)
    off[0, 0] += 7
    off[0, 1:] -= np.minimum(off[0, 1:], 1)
    assert not divisible(off, flows)[0]
