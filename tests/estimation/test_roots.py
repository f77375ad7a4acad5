"""Roots of matrices and their inverses against exact fractions, and what has no inverse."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import EstimationError
from das_spark.estimation.roots import gram, inverse_root, row_space, triangle

ORDERS = st.floats(-6.5, 0).map(lambda exponent: 10.0**exponent)


def exact_inverse(root: np.ndarray) -> np.ndarray:
    """The inverse of root'root by elimination of fractions."""
    size = root.shape[1]
    whole = [[Fraction(value) for value in row] for row in root.tolist()]
    both = np.array(
        [[sum((row[i] * row[j] for row in whole), Fraction(0)) for j in range(size)] for i in range(size)], dtype=object
    )
    both = np.column_stack([both, [[Fraction(int(i == j)) for j in range(size)] for i in range(size)]])
    for place in range(size):
        both[place] = both[place] / both[place, place]
        others = np.arange(size) != place
        both[others] = both[others] - np.outer(both[others, place], both[place])
    return both[:, size:].astype(float)


@given(total=ORDERS, cells=st.lists(ORDERS, min_size=2, max_size=4))
def test_inverses_of_weights_over_thirteen_orders_are_those_of_fractions(total, cells):
    root = np.vstack([np.full(len(cells), total), np.diag(cells)])
    found = inverse_root(root)
    expected = exact_inverse(root)
    np.testing.assert_allclose(gram(found), expected, rtol=1e-6, atol=1e-6 * np.diag(expected).min())
    # of the sum, too, whose variance is what is left of cells that cancel
    ones = np.ones(len(cells))
    spread = float(sum(Fraction(value) for value in exact_inverse(root).ravel()))
    if spread > 1e-6 * np.diag(expected).max():
        assert ((found @ ones) ** 2).sum() == pytest.approx(spread, rel=1e-6)


def test_the_variance_of_a_sum_is_right_where_it_is_far_below_those_of_its_terms():
    """Three cells of variance 1e13 whose sum has variance 1: a matrix of doubles has lost it."""
    root = np.vstack([np.ones(3), 10**-6.5 * np.eye(3)])
    assert ((inverse_root(root) @ np.ones(3)) ** 2).sum() == pytest.approx(1 / (1 + 1e-13 / 3), rel=1e-8)


@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
@pytest.mark.parametrize(
    "root",
    [np.ones((3, 3)), np.array([[1.0, 0.0]]), np.array([[1.0, 0.0], [2.0, 0.0]]), np.array([[0.1, 0.7], [0.3, 2.1]])],
)
def test_a_direction_without_length_is_no_inverse(root, scale):
    with pytest.raises(EstimationError, match="do not determine"):
        inverse_root(scale * root)
    with pytest.raises(EstimationError, match="do not determine"):
        inverse_root(np.array([np.vstack([np.eye(root.shape[1])] * 3)[: len(root)], scale * root]))


def test_on_a_subspace_the_inverse_is_that_of_the_subspace():
    root = np.vstack([1e-3 * np.ones(3), [[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]])
    basis = np.array([[1.0, -1.0, 0.0], [1.0, 1.0, -2.0]]).T / np.sqrt([2.0, 6.0])
    found = gram(inverse_root(root, basis))
    np.testing.assert_allclose(found @ np.ones(3), 0, atol=1e-15)
    np.testing.assert_allclose(found, np.linalg.pinv(root[1:].T @ root[1:]), atol=1e-12)
    assert inverse_root(root, basis[:, :0]).shape == (0, 3)


@given(st.integers(0, 2**32 - 1), st.integers(0, 5), st.integers(1, 4))
def test_a_triangle_has_the_matrix_of_its_root(seed, rows, size):
    root = np.random.default_rng(seed).normal(size=(2, rows, size))
    found = triangle(root)
    np.testing.assert_allclose(gram(found), gram(root), atol=1e-12)
    np.testing.assert_array_equal(found, np.triu(found))


def test_the_row_space_is_of_the_rank():
    rows = np.array([[1.0, 1, 1, 0], [1, 0, 0, 0], [0, 1, 1, 0]])
    basis = row_space(rows)
    assert basis.shape == (4, 2)
    np.testing.assert_allclose(rows @ basis @ basis.T, rows, atol=1e-12)
    assert row_space(np.zeros((1, 3))).shape == (3, 0)
