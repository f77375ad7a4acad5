"""The closed form of totals against the whole least-squares problem written out, and against a general optimiser."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from das_spark.errors import EstimationError, QueryError
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.privacy import RunKey
from das_spark.studies.occupancy_releases import Layer, SpineMechanism, SpineQuery, divided, linear_totals, noise_of

UNEVEN = Recode("uneven", (("first", (0,)), ("rest", (1, 2))))
SCHEMA = Schema("small", (Attribute("a", ("x", "y", "z"), (UNEVEN,)), Attribute("b", ("u", "v"))))
KEY = RunKey.insecure("linear")
TRUTH = np.random.default_rng(1).poisson(20, (4, SCHEMA.size))


def mechanism(asked=("detailed", "a", "b")):
    queries = tuple(SpineQuery(text, SCHEMA.query(text), Fraction(1, len(asked))) for text in asked)
    return SpineMechanism("record", SCHEMA, queries, Fraction(1), {"Top": Fraction(1, 2), "Leaf": Fraction(1, 2)})


def layers(most=None):
    zeros = np.zeros(4, int)
    top = Layer("Top", np.zeros(1, int), TRUTH.sum(axis=0, keepdims=True), np.zeros(1, int), None)
    return [top, Layer("Leaf", zeros, TRUTH, zeros, most)]


def matrices(layer, spent):
    """Each query as a dense matrix, its noisy answers drawn at the same addresses, and its precision."""
    for query, drawn in zip(spent.queries, noise_of(layer, spent, KEY), strict=True):
        matrix = query.query.answer_dense(np.eye(SCHEMA.size)).T
        yield matrix, layer.truth @ matrix.T + drawn.values, 1 / spent.noise(layer.name, query).variance()


def whole_problem(parent):
    """Totals of the children by the KKT system of all cells of all children at once."""
    layer, spent = layers()[1], mechanism()
    n, children = SCHEMA.size, 4
    hessian, linear = np.zeros((n, n)), np.zeros((children, n))
    for matrix, answers, weight in matrices(layer, spent):
        hessian += weight * matrix.T @ matrix
        linear += weight * answers @ matrix
    large = np.kron(np.eye(children), hessian)
    consistent = np.tile(np.eye(n), children)
    system = np.block([[large, consistent.T], [consistent, np.zeros((n, n))]])
    solution = np.linalg.solve(system, np.concatenate([linear.reshape(-1), parent]))
    return solution[: children * n].reshape(children, n).sum(axis=1)


def test_totals_are_those_of_least_squares_over_all_cells():
    top, leaf = layers()
    spent = mechanism()
    hessian = sum(weight * matrix.T @ matrix for matrix, _, weight in matrices(top, spent))
    linear = sum(weight * answers[0] @ matrix for matrix, answers, weight in matrices(top, spent))
    parent = np.linalg.solve(hessian, linear)
    found = linear_totals([top, leaf], spent, KEY, bounded=False)
    assert found[0] == pytest.approx([parent.sum()])
    assert found[1] == pytest.approx(whole_problem(parent))


def test_upper_bounds_bind_children_and_leave_their_sum_alone():
    free = linear_totals(layers(), mechanism(), KEY, bounded=False)
    most = np.ceil(free[1]).astype(int) + np.array([-30, 50, 0, 100])
    found = linear_totals(layers(most), mechanism(), KEY, bounded=True)
    assert found[1].sum() == pytest.approx(found[0][0])
    assert found[1][0] == most[0]
    assert (found[1] <= most).all()
    ignored = linear_totals(layers(most), mechanism(), KEY, bounded=False)
    assert ignored[1] == pytest.approx(free[1])


@given(st.integers(0, 2**32 - 1), st.floats(0, 1))
def test_divided_is_the_nearest_point_that_keeps_bounds_and_sum(seed, share):
    random = np.random.default_rng(seed)
    wanted, most = random.normal(10, 10, 6), random.uniform(1, 30, 6)
    whole = share * most.sum()
    found = divided(wanted, most, whole)
    assert found.sum() == pytest.approx(whole)
    assert (found <= most + 1e-9).all()
    # Karush, Kuhn and Tucker: one shift for those below their bound, and no larger one for those at it.
    shift, free = found - wanted, found < most - 1e-7
    if free.any():
        assert shift[free] == pytest.approx(shift[free][0])
        assert (shift[~free] <= shift[free][0] + 1e-7).all()


def test_divided_agrees_with_a_general_optimiser():
    wanted, most = np.array([5.0, 20.0, -3.0]), np.array([9.0, 12.0, 4.0])
    found = divided(wanted, most, 21.0)
    expected = minimize(
        lambda x: ((x - wanted) ** 2).sum(),
        np.full(3, 7.0),
        bounds=[(None, bound) for bound in most],
        constraints={"type": "eq", "fun": lambda x: x.sum() - 21},
    )
    assert found == pytest.approx(expected.x, abs=1e-4)


def test_bounds_without_room_are_an_error():
    with pytest.raises(EstimationError, match="less than its parent"):
        divided(np.zeros(2), np.array([1.0, 2.0]), 4.0)


def test_queries_with_groups_of_different_size_are_refused():
    with pytest.raises(QueryError, match="groups of one size"):
        linear_totals(layers(), mechanism(("detailed", "uneven")), KEY, bounded=False)


def test_queries_that_leave_cells_out_are_refused():
    part = Schema(
        "part", (Attribute("a", ("x", "y", "z"), (Recode("some", (("first", (0,)),)),)), SCHEMA.attributes[1])
    )
    spent = mechanism()
    wrong = replace(spent, schema=part, queries=(SpineQuery("some", part.query("some"), Fraction(1)),))
    with pytest.raises(QueryError, match="groups of one size"):
        linear_totals(layers(), wrong, KEY, bounded=False)
