"""Nonnegative least squares with a tied total: against scipy, OSQP and the conditions of optimality."""

from __future__ import annotations

import numpy as np
import osqp
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from scipy.optimize import nnls

from das_spark.errors import InputError
from das_spark.studies.epl_appendix import tied_squares, tied_squares_of

people = st.integers(-40, 60).map(float)
weights = st.sampled_from([0.01, 1 / 3, 1.0, 100.0])


def by_scipy(measured: np.ndarray, total: float, weight: float) -> np.ndarray:
    """The same problem as plain nonnegative least squares with one row more."""
    rows = np.vstack([np.eye(len(measured)), np.full((1, len(measured)), np.sqrt(weight))])
    return nnls(rows, np.append(measured, np.sqrt(weight) * total))[0]


@given(st.lists(people, min_size=1, max_size=8), people, weights)
def test_it_is_the_solution_of_scipy(measured: list[float], total: float, weight: float) -> None:
    cells = np.array(measured)
    found = tied_squares(cells[None, :], np.array([total]), weight)[0]
    assert found == pytest.approx(by_scipy(cells, total, weight), abs=1e-9)


@given(st.lists(people, min_size=1, max_size=40), st.integers(-100, 2000).map(float), weights)
def test_it_meets_the_conditions_of_optimality(measured: list[float], total: float, weight: float) -> None:
    cells = np.array(measured)
    found = tied_squares(cells[None, :], np.array([total]), weight)[0]
    gradient = weight * (found.sum() - total) + found - cells
    size = 1e-9 * (1 + weight) * (1 + abs(total) + np.abs(cells).sum())
    assert (found >= 0).all()
    assert (gradient >= -size).all()
    assert (np.abs(gradient[found > 0]) <= size).all()


def test_it_is_the_solution_of_osqp_where_a_total_weighs_100() -> None:
    draws = np.random.default_rng(1)
    truth = draws.poisson(3.0, 30) * (draws.random(30) < 0.5)
    measured = truth + draws.laplace(0, 8, 30)
    quadratic = sparse.csc_matrix(2 * (np.eye(30) + 100 * np.ones((30, 30))))
    solver = osqp.OSQP()
    solver.setup(
        quadratic,
        -2 * (measured + 100 * truth.sum()),
        sparse.eye(30, format="csc"),
        np.zeros(30),
        np.full(30, np.inf),
        verbose=False,
        eps_abs=1e-9,
        eps_rel=1e-9,
        max_iter=200_000,
        polishing=True,
    )
    found = tied_squares(measured[None, :], np.array([float(truth.sum())]), 100.0)[0]
    assert found == pytest.approx(solver.solve(raise_error=True).x, abs=1e-5)
    assert 0 < (found == 0).sum() < 30


def test_groups_of_different_sizes_are_solved_by_themselves() -> None:
    draws = np.random.default_rng(2)
    groups = np.array([0, 0, 0, 1, 2, 2])
    measured, totals = draws.normal(2, 9, (6, 4)), np.array([50.0, 3.0, 20.0])
    found = tied_squares_of(groups, measured, totals, 100.0)
    for group, total in enumerate(totals):
        expected = by_scipy(measured[groups == group].ravel(), total, 100.0)
        assert found[groups == group].ravel() == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(("cells", "totals", "weight"), [((2, 3), 3, 1.0), ((6,), 6, 1.0), ((2, 3), 2, 0.0)])
def test_what_is_no_problem_is_refused(cells: tuple[int, ...], totals: int, weight: float) -> None:
    with pytest.raises(InputError, match="tied squares"):
        tied_squares(np.zeros(cells), np.zeros(totals), weight)
