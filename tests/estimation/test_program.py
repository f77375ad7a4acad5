"""Divisibility of class margins against brute force and maximum flow; families that no solver takes."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.constraints import find_flows
from das_spark.estimation import FamilyFlows, chain
from das_spark.estimation.chain import PosedFamily, solve_chain
from das_spark.estimation.check import divisible_margins
from das_spark.estimation.failsafe import relaxed_family
from das_spark.estimation.presolve import Presolved, presolve
from das_spark.estimation.program import assemble, read_back, tightened, unsolved
from das_spark.estimation.solvers import Solution, Status
from das_spark.estimation.support import restrict
from das_spark.histogram import Attribute, Schema

QUERY = Schema("toy", (Attribute("kind", ("a", "b", "c")),)).query("kind")


def made(seed, members=3, classes=3):
    generator = np.random.default_rng(seed)
    lower = generator.integers(0, 2, (members, classes))
    upper = lower + generator.integers(0, 3, (members, classes))
    total = np.array([int(generator.integers(lo.sum(), hi.sum() + 1)) for lo, hi in zip(lower, upper, strict=True)])
    return FamilyFlows(QUERY, generator.integers(0, 2, members), lower, upper, total)


def by_program(margin, flows, child):
    """What the constraints room, which has its own linear program, says."""
    own = flows.child == child
    return find_flows(margin, flows.lower[own], flows.upper[own], flows.total[own]) is not None


def all_margins(flows, child):
    """Every class margin that some whole flows of a child's descendants make."""
    own = np.flatnonzero(flows.child == child)
    choices = []
    for member in own:
        ranges = [range(lo, hi + 1) for lo, hi in zip(flows.lower[member], flows.upper[member], strict=True)]
        choices.append([pick for pick in itertools.product(*ranges) if sum(pick) == flows.total[member]])
    return {
        tuple(int(sum(part)) for part in zip(*picks, strict=True)) if picks else (0, 0, 0)
        for picks in itertools.product(*choices)
    }


@given(seed=st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_set_inequalities_and_maximum_flow_agree_with_brute_force(seed):
    flows = made(seed)
    reachable = [all_margins(flows, child) for child in range(2)]
    generator = np.random.default_rng(seed)
    candidates = [generator.integers(0, 8, (2, 3)) for _ in range(10)]
    candidates += [
        np.array([sorted(reach)[int(generator.integers(len(reach)))] for reach in reachable]) for _ in range(5)
    ]
    for margins in candidates:
        expected = [tuple(map(int, margins[child])) in reachable[child] for child in range(2)]
        assert divisible_margins(margins, flows).tolist() == expected
        assert [by_program(margins[child], flows, child) for child in range(2)] == expected


@given(seed=st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_tightened_bounds_lose_no_flow(seed):
    flows = made(seed)
    lower, upper = tightened(flows)
    for member in range(len(flows.total)):
        ranges = [range(lo, hi + 1) for lo, hi in zip(flows.lower[member], flows.upper[member], strict=True)]
        for pick in itertools.product(*ranges):
            if sum(pick) == flows.total[member]:
                assert (np.array(pick) >= lower[member]).all()
                assert (np.array(pick) <= upper[member]).all()


def test_a_descendant_that_contradicts_itself_makes_its_child_indivisible():
    flows = FamilyFlows(QUERY, np.array([0]), np.array([[1, 1, 1]]), np.array([[2, 2, 2]]), np.array([9]))
    assert not divisible_margins(np.array([[3, 3, 3]]), flows)[0]
    assert not by_program(np.array([3, 3, 3]), flows, 0)


def assert_same(found, expected):
    np.testing.assert_allclose(found.x, expected.x, atol=1e-9)
    assert (found.flows is None) == (expected.flows is None)
    if found.flows is not None:
        np.testing.assert_allclose(found.flows, expected.flows, atol=1e-9)
        np.testing.assert_array_equal(found.flow_multipliers, expected.flow_multipliers)
    assert not found.parent_multipliers.any()
    assert len(found.parent_multipliers) == len(expected.parent_multipliers)
    shapes = [multiplier.shape for multiplier in found.bound_multipliers]
    assert shapes == [multiplier.shape for multiplier in expected.bound_multipliers]
    assert not any(multiplier.any() for multiplier in found.bound_multipliers)


@pytest.mark.parametrize(
    "options", [{}, {"root": True}, {"totals": True}, {"flows": True}, {"root": True, "flows": True}]
)
def test_what_no_solver_takes_is_guessed_as_the_program_would_without_writing_it(small, options):
    compared = 0
    for seed in range(8):
        presolved = presolve(restrict((made := small(seed, **options)).problem, made.plan))
        if not presolved.contradiction:
            assert_same(unsolved(presolved), read_back(assemble(presolved), Solution(Status.FAILED)))
            compared += presolved.variables > 0
    assert compared > 3


def test_under_the_failsafe_too(small):
    made = small(4)
    relaxed = relaxed_family(made.problem, made.plan)
    assert isinstance(relaxed, Presolved)
    assert_same(unsolved(relaxed), read_back(assemble(relaxed), Solution(Status.FAILED)))


def test_a_family_that_every_solver_declines_has_an_estimate_without_a_program(small, monkeypatch):
    made = small(2)
    presolved = presolve(restrict(made.problem, made.plan))
    for solver in chain.FAMILY_SOLVERS.values():
        monkeypatch.setattr(type(solver), "propose", lambda *_: None)
    monkeypatch.setattr(chain, "assemble", None)
    found = solve_chain(PosedFamily.of(presolved), made.plan)
    assert (found.name, found.iterations, found.tried) == ("presolve", 0, ())
    np.testing.assert_array_equal(found.candidate.x, unsolved(presolved).x)
