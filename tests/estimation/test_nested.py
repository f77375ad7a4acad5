"""Nested families: dense algebra, an interior-point method, laws, and where their solver does not serve."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.estimation import (
    FamilyBounds,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    chain,
    nested,
)
from das_spark.estimation import (
    nested_family as layout,
)
from das_spark.estimation.certify import certify
from das_spark.estimation.chain import PosedFamily, solve_chain
from das_spark.estimation.failsafe import relaxed_family
from das_spark.estimation.nested_family import nested_family
from das_spark.estimation.presolve import presolve
from das_spark.estimation.support import restrict
from das_spark.histogram import Attribute, Histogram, Recode, Schema

SCHEMA = Schema(
    "nested",
    (
        Attribute("kind", ("home", "barracks", "prison")),
        Attribute("role", ("a", "b", "c"), (Recode("pair", (("first", (0, 1)), ("last", (2,)))),)),
        Attribute(
            "age",
            ("0", "1", "2", "3"),
            (
                Recode("young", (("young", (0, 1)), ("old", (2, 3)))),
                Recode("minor", (("minor", (0, 1)),)),
            ),
        ),
        Attribute("race", ("x", "y")),
    ),
)
PLAN = FamilyPlan("child", classes=SCHEMA.query("kind"))
EXACT = "kind * young * race"
WITHIN = "kind * pair * age * race"
ACROSS = ("age", "kind * role", "minor")


def family(
    seed: int,
    children: int = 4,
    *,
    exact: tuple[str, ...] = (EXACT,),
    queries: tuple[str, ...] = ("detailed", WITHIN, *ACROSS),
    root: bool = False,
    noise: float = 3.0,
    unequal: bool = False,
    people: float = 1.5,
) -> tuple[FamilyProblem, np.ndarray]:
    """A family with known sums, and its truth (K, cells): some children have nobody of some kinds."""
    generator = np.random.default_rng(seed)
    chances = generator.dirichlet(np.full(SCHEMA.size // 3, 0.5), 3).ravel()
    truth = generator.poisson(people * chances * SCHEMA.size / 3, (children, SCHEMA.size))
    empty = generator.random((children, 3)) < 0.3
    empty[:, 0] = False
    truth[np.repeat(empty, SCHEMA.size // 3, axis=1)] = 0
    parent = None if root else Histogram.from_dense(truth.sum(axis=0))
    if root:
        truth = truth.sum(axis=0, keepdims=True)
    cells = np.arange(SCHEMA.size) if parent is None else parent.cells
    measured, bounds = [], []
    for text in queries:
        query = SCHEMA.query(text)
        variance = np.full(len(truth), noise**2) * (generator.uniform(0.5, 2.0, len(truth)) if unequal else 1.0)
        values = query.answer_dense(truth) + np.rint(generator.normal(0, noise, (len(truth), query.rows)))
        rows = query.restrict(cells).rows
        measured.append(FamilyMeasurement(query, rows, values[:, rows].astype(np.int64), variance))
    for text in exact:
        query = SCHEMA.query(text)
        sums = query.answer_dense(truth)
        bounds.append(FamilyBounds(text, query, sums, sums))
    names = tuple(f"9{child:02d}" for child in range(len(truth)))
    problem = FamilyProblem("" if root else "9", parent, names, SCHEMA.size, tuple(measured), tuple(bounds))
    return problem, truth


def solved(problem: FamilyProblem, name: str = "nested", plan: FamilyPlan = PLAN):
    presolved = presolve(restrict(problem, plan))
    assert not presolved.contradiction
    return solve_chain(PosedFamily.of(presolved), replace(plan, solvers=(name,)))


def proposed(problem: FamilyProblem):
    presolved = presolve(restrict(problem, PLAN))
    proof = partial(certify, problem, PLAN, presolved.support.cells)
    return chain.FAMILY_SOLVERS["nested"].propose(PosedFamily.of(presolved), proof)


SHAPES = {
    "groups and crossing sums": {},
    "weights that differ": {"unequal": True},
    "no groups": {"queries": ("detailed", *ACROSS)},
    "nothing crosses": {"queries": ("detailed", WITHIN)},
    "single cells alone": {"queries": ("detailed",)},
    "several sets of groups": {"queries": ("detailed", WITHIN, "kind * role * young * race", "age")},
    "answers that known sums decide": {"queries": ("detailed", "kind", "kind * race", "age", "role")},
    "coarser known sums beside": {"exact": (EXACT, "kind", "total")},
    "one known sum": {"exact": ("total",)},
    "no known sum": {"exact": ()},
    "known sums of some cells": {"exact": ("minor * kind",), "queries": ("detailed", "minor * role * kind", "age")},
    "known sums of few cells": {"exact": ("kind * role * age",)},
    "known cells": {"exact": ("detailed",)},
    "sums that fall apart": {"exact": (WITHIN,), "queries": ("detailed", "kind * role", "race * kind * role")},
    "great noise": {"noise": 40.0},
    "many people": {"people": 400.0},
}


@pytest.mark.parametrize("root", [False, True], ids=["family", "root"])
@pytest.mark.parametrize("shape", SHAPES)
def test_the_optimum_of_an_interior_point_method_is_found_and_proved(shape, root):
    for seed in range(4):
        problem, _ = family(seed, root=root, **SHAPES[shape])
        expected = solved(problem, "piqp")
        if expected.name == "presolve":
            continue
        found = solved(problem)
        assert found.certificate.certified, seed
        assert found.name == "nested", seed
        assert found.certificate.objective == pytest.approx(expected.certificate.objective, rel=1e-6, abs=1e-6)
        np.testing.assert_allclose(found.candidate.x, expected.candidate.x, atol=0.05)


@given(seed=st.integers(0, 10**6), children=st.integers(2, 7), shuffle=st.randoms(use_true_random=False))
@settings(max_examples=25, deadline=None)
def test_the_order_of_children_does_not_matter(seed, children, shuffle):
    problem, _ = family(seed, children)
    order = list(range(children))
    shuffle.shuffle(order)
    other = replace(
        problem,
        measurements=tuple(
            replace(measurement, values=measurement.values[order], variance=measurement.variance[order])
            for measurement in problem.measurements
        ),
        bounds=tuple(replace(bound, lower=bound.lower[order], upper=bound.upper[order]) for bound in problem.bounds),
    )
    one, two = solved(problem), solved(other)
    assert one.certificate.certified
    assert two.certificate.objective == pytest.approx(one.certificate.objective, rel=1e-6)
    np.testing.assert_allclose(two.candidate.x, one.candidate.x[order], atol=0.05)


@given(seed=st.integers(0, 10**6), children=st.integers(1, 6), root=st.booleans(), unequal=st.booleans())
@settings(max_examples=40, deadline=None)
def test_known_sums_and_the_parent_are_kept_and_nobody_is_negative(seed, children, root, unequal):
    problem, truth = family(seed, children, root=root, unequal=unequal)
    support = restrict(problem, PLAN)
    found = solved(problem)
    x = np.zeros(truth.shape)
    x[:, support.cells] = found.candidate.x
    assert found.certificate.certified
    assert (x >= 0).all()
    np.testing.assert_allclose(SCHEMA.query(EXACT).answer_dense(x), SCHEMA.query(EXACT).answer_dense(truth), atol=1e-8)
    if not root:
        np.testing.assert_allclose(x.sum(axis=0), truth.sum(axis=0), atol=1e-8)
    assert not x[:, np.repeat((SCHEMA.query("kind").answer_dense(truth) == 0)[0], SCHEMA.size // 3)][0].any()


def test_a_class_that_one_child_has_is_its_own_and_a_class_of_one_cell_is_known():
    problem, _ = family(3, exact=("kind * role * age",))
    laid = nested_family(restrict(problem, PLAN))
    support = laid.support
    sizes, live = np.bincount(laid.classes.index), laid.classes.live.sum(axis=0)
    assert laid.places.unknowns == sum(
        int(size * children) for size, children in zip(sizes, live, strict=True) if size > 1 and children > 1
    )
    closed = np.setdiff1d(np.arange(len(support.cells)), laid.places.cell)
    np.testing.assert_array_equal(laid.closed, closed)
    np.testing.assert_allclose(laid.settled.sum(axis=0), support.parent[closed])


def numbered(laid):
    """Number of each child's unknown in each cell, -1 where there is none, shape (K, n)."""
    places, number, count = laid.places, np.full((laid.support.children, len(laid.support.cells)), -1), 0
    for kind in range(len(places.base)):
        for cell in places.cell[places.class_first[kind] : places.class_first[kind + 1]]:
            for child in places.live[places.live_first[kind] : places.live_first[kind + 1]]:
                number[child, cell] = count
                count += 1
    assert count == places.unknowns
    return number


def of_unknowns(laid, number, child, cells):
    """1 for the unknowns of a child in some cells."""
    found, own = np.zeros(laid.places.unknowns), number[child, cells]
    found[own[own >= 0]] = 1.0
    return found


def dense_step(laid, number, rho, towards):
    """The first step: least squares of all children with known sums, drawn towards a point (E-78 to E-80)."""
    children, size = range(laid.support.children), laid.places.unknowns
    hessian, linear, known = rho * np.eye(size), rho * towards, []
    for child, each in (
        (child, partition) for child in children for partition in laid.support.partitions if partition.weight.any()
    ):
        for row in range(each.rows):
            cells = np.flatnonzero(each.index == row)
            asked, weight = of_unknowns(laid, number, child, cells), each.weight[child] / laid.unit
            hessian += weight * np.outer(asked, asked)
            beforehand = laid.settled[child, np.isin(laid.closed, cells)].sum()
            linear += weight * (each.values[child, row] - beforehand) * asked
    for child, kind in ((child, kind) for child in children for kind in range(len(laid.classes.known))):
        asked = of_unknowns(laid, number, child, laid.classes.index == kind)
        known += [(asked, laid.classes.people[child, kind])] if asked.any() else []
    for block in laid.blocks if laid.alike else ():  # what all children have in common costs nothing
        sums = np.zeros((len(block.rows), size))
        for place, row in enumerate(block.rows):
            cells = laid.places.cell[(laid.rows == row).any(axis=0)]
            sums[place] = sum(of_unknowns(laid, number, child, cells) for child in children)
        hessian -= sums.T @ nested._middle(laid, block.rows, 0) @ sums / len(block.children)
    matrix = np.array([asked for asked, _ in known])
    system = np.block([[hessian, matrix.T], [matrix, np.zeros((len(known), len(known)))]])
    return np.linalg.solve(system, np.concatenate([linear, [people for _, people in known]]))[:size]


@pytest.mark.parametrize("unequal", [False, True])
def test_one_step_is_that_of_dense_algebra(unequal):
    problem, _ = family(5, unequal=unequal)
    laid = nested_family(restrict(problem, PLAN))
    assert laid.alike != unequal
    state, generator = nested.begin(laid, 2.0), np.random.default_rng(1)
    state.split[:], state.dual[:] = generator.normal(size=(2, laid.places.unknowns))
    split, dual = state.split.copy(), state.dual.copy()
    nested.set_penalty(state, 2.0)
    expected = dense_step(laid, numbered(laid), 2.0, split - dual)
    nested.iterate(state)
    free = nested.RELAXATION * expected + (1.0 - nested.RELAXATION) * split + dual
    np.testing.assert_allclose(state.split + state.dual, free, atol=1e-8)


@pytest.mark.parametrize("far", [1, 5])
def test_bounds_that_are_no_equalities_are_kept_or_left_to_others(far):
    declined = 0
    for seed in range(6):
        problem, truth = family(seed, noise=6.0)
        query = SCHEMA.query("role * age")
        answers = query.answer_dense(truth)
        bound = FamilyBounds("near", query, np.maximum(answers - far, 0), answers + far)
        bounded = replace(problem, bounds=(*problem.bounds, bound))
        found, expected = proposed(bounded), solved(bounded, "piqp")
        declined += found is None
        if found is not None:
            presolved = presolve(restrict(bounded, PLAN))
            proof = certify(bounded, PLAN, presolved.support.cells, found.candidate)
            assert proof.certified
            assert proof.objective == pytest.approx(expected.certificate.objective, rel=1e-6)
    assert declined == (6 if far == 1 else declined)


def test_bounds_that_known_sums_break_are_left_to_others():
    problem, truth = family(1)
    query = SCHEMA.query("kind")
    answers = query.answer_dense(truth)
    for shift, serves in ((0, True), (1, False)):
        bound = FamilyBounds("broken", query, answers + shift, answers + shift + 2)
        assert (nested_family(restrict(replace(problem, bounds=(*problem.bounds, bound)), PLAN)) is not None) == serves


def test_it_does_not_serve_where_cells_are_not_answered_or_the_parent_is_relaxed(monkeypatch):
    problem, _ = family(1, queries=(WITHIN, "age"))
    assert nested_family(restrict(problem, PLAN)) is None
    problem, _ = family(1)
    crossing = FamilyBounds("crossing", SCHEMA.query("age"), *[np.zeros((4, 4), dtype=np.int64)] * 2)
    relaxed = relaxed_family(replace(problem, bounds=(crossing,)), PLAN)
    assert isinstance(relaxed, str) or nested_family(relaxed.support) is None
    monkeypatch.setattr(layout, "MOST_STACKED", 3)
    assert nested_family(restrict(problem, PLAN)) is None


def test_an_uncertified_estimate_is_proposed_as_such(monkeypatch):
    monkeypatch.setattr(nested, "MOST_ITERATIONS", 3)
    problem, _ = family(2, children=6)
    found = proposed(problem)
    assert (str(found.status), found.iterations) == ("limit", 3)


def test_no_sums_of_variables_are_made_for_it(monkeypatch):
    monkeypatch.setattr(chain, "MANY_CELLS", SCHEMA.size)
    presolved = presolve(restrict(family(2)[0], PLAN))
    assert solve_chain(PosedFamily.of(presolved), PLAN).name == "nested"
    assert "aggregates" not in vars(presolved)
    assert solve_chain(PosedFamily.of(presolved), replace(PLAN, solvers=("piqp",))).certificate.certified
    assert "aggregates" in vars(presolved)


def test_it_goes_first_only_where_cells_and_classes_are_many(monkeypatch):
    problem, _ = family(2)
    presolved = presolve(restrict(problem, PLAN))

    def asked(*names: str) -> list[str]:
        return [each.name for each in chain._ordered(names, PosedFamily.of(presolved))]

    assert asked(*PLAN.solvers) == ["piqp", "clarabel", "osqp", "nested", "batched"]
    monkeypatch.setattr(chain, "MANY_CELLS", SCHEMA.size)
    assert asked(*PLAN.solvers) == ["nested", "piqp", "clarabel", "osqp", "batched"]
    assert asked("piqp") == ["piqp"]
    assert asked("piqp", "nested", "batched") == ["piqp", "nested", "batched"]
    monkeypatch.setattr(chain, "MANY_CLASSES", 13)
    assert asked("nested", "batched", "piqp") == ["piqp", "nested", "batched"]
