"""Passes with nested sums as flows, against the linear program of the whole family."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.estimation import FamilyBounds, FamilyPlan, FamilyProblem, nested_rounding
from das_spark.estimation import rounding as rounding_module
from das_spark.estimation.check import broken_rules
from das_spark.estimation.presolve import presolve
from das_spark.estimation.rounding import round_family, round_in_passes
from das_spark.estimation.support import restrict
from das_spark.estimation.ties import split
from das_spark.histogram import Attribute, Histogram, Recode, Schema

SCHEMA = Schema(
    "nested",
    (
        Attribute("kind", ("home", "prison", "ship")),
        Attribute("sex", ("f", "m")),
        Attribute("age", ("0", "1", "2", "3"), (Recode("adult", (("no", (0, 1)), ("yes", (2, 3)))),)),
    ),
)
PLAN = FamilyPlan("nested")
CHAIN = ("kind * sex", "kind * sex * adult", "detailed")
PASSES = [
    [CHAIN],
    [("detailed",)],
    [("kind * sex * adult",)],
    [("total", *CHAIN)],
    [("detailed", "detailed", "kind * sex")],
]


def queries(passes):
    return [[SCHEMA.query(name) for name in names] for names in passes]


def family(seed, *, root=False, loose=False):
    """A family held to its kinds, and a point that keeps them and the parent's cells, with many whole numbers in it."""
    generator = np.random.default_rng(seed)
    children = 1 if root else int(generator.integers(2, 6))
    truth = generator.poisson(generator.choice([0.4, 2.0]), (children, SCHEMA.size))
    truth[:, 8:16] *= generator.integers(0, 2, (children, 1))
    truth[0, 0] += 1
    kind = SCHEMA.query("kind")
    exact = kind.answer_dense(truth)
    lower, upper = exact, exact
    if loose:
        lower = np.maximum(exact - generator.integers(0, 3, exact.shape), 0)
        upper = exact + generator.integers(0, 3, exact.shape) * (exact > 0)
    problem = FamilyProblem(
        "" if root else "1",
        None if root else Histogram.from_dense(truth.sum(axis=0)),
        tuple(f"1{child}" for child in range(children)),
        SCHEMA.size,
        (),
        (FamilyBounds("kind", kind, lower, upper),),
    )
    x = truth.astype(float)
    rows = kind.row_of(np.arange(SCHEMA.size))
    for _ in range(60):
        one, other = generator.integers(0, SCHEMA.size, 2)
        first, second = generator.integers(0, children, 2)
        if rows[one] != rows[other] or one == other or (first == second) != root:
            continue
        moved = generator.choice([0.25, 0.5, generator.random()])
        most = min(x[first, one], moved if root else min(moved, x[second, other]))
        x[first, one] -= most
        x[first, other] += most
        if not root:
            x[second, one] += most
            x[second, other] -= most
    presolved = presolve(restrict(problem, PLAN))
    return presolved, x[:, presolved.support.cells]


def distance(presolved, counts, x, names, rounding):
    """What a pass minimises, by dense matrices; in the release with the ties of cells at their weight (E-54)."""
    base, fraction = (part.reshape(x.shape) for part in split(x.ravel()))
    total = 0.0
    for name in names:
        query = SCHEMA.query(name)
        place = query.row_of(presolved.support.cells)
        matrix = (place[:, None] == np.arange(query.rows)).astype(float)
        wanted = np.round(fraction @ matrix, 9)
        total += np.abs((counts - base) @ matrix - (np.rint(wanted) if rounding == "released" else wanted)).sum()
    if rounding == "released":
        total += np.abs(counts - base - fraction).sum() / (2 * presolved.variables + 2)
    return total


def both(monkeypatch, presolved, x, passes, rounding):
    """Rounded as flows, and by the linear program of the whole family."""
    found = []
    for limit in (0, 10**9):
        with monkeypatch.context() as patch:
            patch.setattr(rounding_module, "LARGE", limit)
            found.append(round_in_passes(presolved, x, queries(passes), rounding))
    return found


@pytest.mark.parametrize("at_once", [1, nested_rounding.AT_ONCE], ids=["block by block", "together"])
@pytest.mark.parametrize("rounding", ["nearest", "released"])
@pytest.mark.parametrize("passes", PASSES, ids=str)
@pytest.mark.parametrize("options", [{}, {"loose": True}, {"root": True}], ids=str)
def test_blocks_reach_the_optimum_of_the_whole_program(monkeypatch, at_once, rounding, passes, options):
    monkeypatch.setattr(nested_rounding, "AT_ONCE", at_once)
    used = 0
    for seed in range(12):
        presolved, x = family(seed, **options)
        flows, program = both(monkeypatch, presolved, x, passes, rounding)
        assert program is not None
        if "widened" in program.method:
            continue
        used += flows.method == "minimum-cost flow"
        assert flows.gap == 0
        assert broken_rules(presolved.support.problem, PLAN, presolved.support.cells, flows.counts) == ()
        assert (flows.counts - np.floor(x + 1e-5)).max() <= 1
        ours, theirs = (distance(presolved, each.counts, x, passes[0], rounding) for each in (flows, program))
        assert ours == pytest.approx(theirs, abs=1e-6)
    assert used >= 6


@given(seed=st.integers(0, 10**6), loose=st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_nested_family_is_rounded_to_the_optimum(seed, loose):
    presolved, x = family(seed, loose=loose)
    with pytest.MonkeyPatch.context() as patch:
        flows, program = both(patch, presolved, x, [CHAIN], "nearest")
    if program is None or "widened" in program.method:
        return
    assert broken_rules(presolved.support.problem, PLAN, presolved.support.cells, flows.counts) == ()
    ours, theirs = (distance(presolved, each.counts, x, CHAIN, "nearest") for each in (flows, program))
    assert ours == pytest.approx(theirs, abs=1e-6)


def test_later_passes_hold_what_earlier_ones_reached(monkeypatch):
    monkeypatch.setattr(rounding_module, "LARGE", 0)
    for seed in range(10):
        presolved, x = family(seed)
        one = round_in_passes(presolved, x, queries([CHAIN[:1]]), "nearest")
        found = round_in_passes(presolved, x, queries([[name] for name in CHAIN]), "nearest")
        costs = [distance(presolved, each.counts, x, CHAIN[:1], "nearest") for each in (one, found)]
        assert costs[1] == pytest.approx(costs[0])


def test_cells_of_different_kinds_are_different_networks(monkeypatch):
    monkeypatch.setattr(rounding_module, "LARGE", 0)
    seen = []
    original = nested_rounding.least_cost
    monkeypatch.setattr(nested_rounding, "least_cost", lambda networks: seen.append(networks) or original(networks))
    presolved, x = family(1)
    moving = (split(x)[1] > 0).any(axis=0)
    kinds = np.unique(SCHEMA.query("kind").row_of(presolved.support.cells[moving]))
    round_in_passes(presolved, x, queries([CHAIN]), "nearest")
    round_in_passes(presolved, x, queries([("total", *CHAIN)]), "nearest")
    assert len(kinds) >= 2
    assert len(seen[0].reserve) == len(seen[1].reserve) == len(kinds)  # the total follows from the exact kinds
    presolved, x = family(1, loose=True)
    round_in_passes(presolved, x, queries([("total", *CHAIN)]), "nearest")
    assert len(seen[2].reserve) == 1
    monkeypatch.setattr(nested_rounding, "AT_ONCE", 1)
    presolved, x = family(1)
    round_in_passes(presolved, x, queries([CHAIN]), "nearest")
    assert max(len(each.reserve) for each in seen[3:]) == 1  # and need not be in memory together


def test_crossing_sums_go_to_the_linear_program(monkeypatch):
    monkeypatch.setattr(rounding_module, "LARGE", 0)
    presolved, x = family(2)
    found = round_in_passes(presolved, x, queries([("kind", "sex", "detailed")]), "nearest")
    assert "program" in found.method
    assert broken_rules(presolved.support.problem, PLAN, presolved.support.cells, found.counts) == ()


@pytest.mark.parametrize("at_once", [1, nested_rounding.AT_ONCE], ids=["block by block", "together"])
def test_what_is_not_proved_is_reported(monkeypatch, at_once):
    monkeypatch.setattr(rounding_module, "LARGE", 0)
    monkeypatch.setattr(nested_rounding, "AT_ONCE", at_once)
    original = nested_rounding.least_cost

    def worst(networks):
        best, turned = original(networks), original(replace(networks, cost=-networks.cost))
        return replace(best, flow=turned.flow)

    presolved, x = family(5)
    best = round_in_passes(presolved, x, queries([CHAIN]), "nearest")
    monkeypatch.setattr(nested_rounding, "least_cost", worst)
    found = round_in_passes(presolved, x, queries([CHAIN]), "nearest")
    least, reached = (distance(presolved, each.counts, x, CHAIN, "nearest") for each in (best, found))
    assert reached > least
    assert found.gap >= (reached - least) / max(1.0, reached) - 1e-9


def test_the_law_finds_a_planted_worse_rounding(monkeypatch):
    monkeypatch.setattr(rounding_module, "LARGE", 0)
    presolved, x = family(5)
    found = round_in_passes(presolved, x, queries([CHAIN]), "nearest")
    (one, other), cell = np.unravel_index(np.argsort(-split(x)[1][:, 0])[:2], (len(x),))[0], 0
    counts = found.counts.copy()
    counts[one, cell], counts[other, cell] = counts[one, cell] + 1, counts[other, cell] - 1
    worse = distance(presolved, counts, x, CHAIN, "nearest") - distance(presolved, found.counts, x, CHAIN, "nearest")
    assert worse > 1e-6 or broken_rules(presolved.support.problem, PLAN, presolved.support.cells, counts)


def test_bounds_that_no_step_can_meet_are_not_met_by_flows():
    level = nested_rounding.Level(np.array([0, 0]), 1, 1, np.array([[2]]), np.array([[2]]))
    given = nested_rounding.Steps(
        child=np.array([0, 0]),
        cell=np.array([0, 1]),
        children=1,
        fraction=np.array([0.5, 0.5]),
        lower=np.zeros(2, dtype=np.int64),
        upper=np.array([1, 0]),
        missing=None,
        released=False,
    )
    assert nested_rounding.best_steps(given, nested_rounding.forest([level], 1)) is None
    open_ = replace(given, upper=np.ones(2, dtype=np.int64))
    np.testing.assert_array_equal(nested_rounding.best_steps(open_, nested_rounding.forest([level], 1))[0], [1, 1])


@pytest.mark.parametrize("loose", [False, True])
def test_cell_by_cell_is_the_same_program(monkeypatch, loose):
    for seed in range(10):
        presolved, x = family(seed, loose=loose)
        monkeypatch.setattr(rounding_module, "LARGE", 10**9)
        program = round_family(presolved, x)
        monkeypatch.setattr(rounding_module, "LARGE", 0)
        flows = round_family(presolved, x)
        if "widened" in program.method:
            continue
        assert flows.cost == pytest.approx(program.cost, abs=1e-6)
        assert broken_rules(presolved.support.problem, PLAN, presolved.support.cells, flows.counts) == ()
