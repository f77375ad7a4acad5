"""Network simplex against HiGHS on random networks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.estimation.min_cost_flow import Networks, least_cost, shortfall
from das_spark.estimation.solvers import SOLVERS, Inequalities, SolverOptions, Status, linear_program


def networks(seed, count=3, *, feasible=True):
    """Some independent networks, with arcs of every kind: parallel, empty, free, in the reserve."""
    generator = np.random.default_rng(seed)
    parts = {name: [] for name in ("source", "target", "cost", "capacity", "supply")}
    nodes, arcs, reserve = [0], [0], []
    for _ in range(count):
        own, wires = int(generator.integers(2, 9)), int(generator.integers(1, 25))
        source = generator.integers(0, own, wires)
        target = (source + generator.integers(1, own, wires)) % own
        capacity = generator.integers(0, 4, wires)
        flow = generator.integers(0, capacity + 1)
        supply = np.bincount(source, flow, minlength=own) - np.bincount(target, flow, minlength=own)
        parts["source"].append(source)
        parts["target"].append(target)
        parts["cost"].append(np.round(generator.normal(size=wires), int(generator.integers(0, 4))))
        parts["capacity"].append(capacity)
        parts["supply"].append(supply.astype(np.int64))
        reserve.append(arcs[-1] + int(generator.integers(0, wires + 1)))
        nodes.append(nodes[-1] + own)
        arcs.append(arcs[-1] + wires)
    if not feasible:
        parts["supply"][0][:2] += [40, -40]
    joined = {name: np.concatenate(part) for name, part in parts.items()}
    return Networks(nodes=np.array(nodes), arcs=np.array(arcs), reserve=np.array(reserve), **joined)


def balance(given):
    """Incidence of nodes and arcs of all networks, shape (nodes, arcs)."""
    first = np.repeat(given.nodes[:-1], np.diff(given.arcs))
    arc = np.arange(len(given.cost))
    rows = np.concatenate([first + given.source, first + given.target])
    values = np.concatenate([np.ones(len(arc)), -np.ones(len(arc))])
    return sp.csc_matrix((values, (rows, np.concatenate([arc, arc]))), shape=(len(given.supply), len(arc)))


@given(seed=st.integers(0, 10**6), feasible=st.sampled_from([True, True, True, False]))
@settings(max_examples=150, deadline=None)
def test_least_cost_is_that_of_a_linear_program(seed, feasible):
    made = networks(seed, feasible=feasible)
    found, matrix = least_cost(made), balance(made)
    supply = made.supply.astype(float)
    rows = Inequalities(matrix, supply, supply)
    program = linear_program(made.cost, np.zeros(len(made.cost)), made.capacity.astype(float), rows)
    solved = SOLVERS["highs"].solve(program, SolverOptions())
    assert (found is not None) == (solved.status is Status.OPTIMAL)
    if found is None:
        return
    np.testing.assert_array_equal(matrix @ found.flow, made.supply)
    assert (found.flow >= 0).all()
    assert (found.flow <= made.capacity).all()
    assert made.cost @ found.flow == pytest.approx(made.cost @ solved.x, abs=1e-6)
    assert shortfall(made, found) < 1e-6


def test_a_worse_flow_is_found_out():
    """Shortfall bounds what any other flow loses, whatever the potentials."""
    made = networks(3)
    best = least_cost(made)
    turned = least_cost(replace(made, cost=-made.cost))
    lost = made.cost @ (turned.flow - best.flow)
    assert lost > 0.1
    assert shortfall(made, replace(best, flow=turned.flow)) == pytest.approx(lost)
    nothing_known = replace(best, flow=turned.flow, reduced=made.cost)
    assert shortfall(made, nothing_known) >= lost


def test_arcs_in_reserve_are_used_where_they_help():
    made = Networks(
        nodes=np.array([0, 2]),
        arcs=np.array([0, 2]),
        reserve=np.array([1]),
        source=np.array([0, 0]),
        target=np.array([1, 1]),
        cost=np.array([1.0, -1.0]),
        capacity=np.array([5, 2]),
        supply=np.array([3, -3]),
    )
    np.testing.assert_array_equal(least_cost(made).flow, [1, 2])
