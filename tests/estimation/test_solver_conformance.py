"""The exam that every registered solver takes."""

from __future__ import annotations

import importlib
import pkgutil

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.optimize import linprog

from das_spark.estimation import solvers
from das_spark.estimation.solvers import SOLVERS, Capability, Inequalities, Program, SolverOptions, Status
from das_spark.estimation.solvers.base import Solution, audited, dual_residual, primal_residual, proves_infeasible

OPTIONS = SolverOptions()
QUADRATIC = [name for name, solver in SOLVERS.items() if Capability.QUADRATIC in solver.capabilities]
LINEAR = [name for name, solver in SOLVERS.items() if Capability.LINEAR in solver.capabilities]
MIXED = [name for name, solver in SOLVERS.items() if Capability.MIXED_INTEGER in solver.capabilities]


def program(diagonal, linear, equality=None, right=(), lower=None, upper=None, **further):
    size = len(linear)
    return Program(
        diagonal=np.asarray(diagonal, dtype=float),
        linear=np.asarray(linear, dtype=float),
        equality=sp.csc_matrix(np.zeros((0, size)) if equality is None else np.asarray(equality, dtype=float)),
        right=np.asarray(right, dtype=float),
        lower=np.full(size, -np.inf) if lower is None else np.asarray(lower, dtype=float),
        upper=np.full(size, np.inf) if upper is None else np.asarray(upper, dtype=float),
        **further,
    )


def test_every_module_of_a_solver_is_registered():
    names = {module.name for module in pkgutil.iter_modules(solvers.__path__)} - {"base"}
    assert names == set(SOLVERS)
    for name in names:
        importlib.import_module(f"das_spark.estimation.solvers.{name}")


@pytest.mark.parametrize("name", QUADRATIC)
def test_projection_on_the_simplex_is_found_with_its_multipliers(name):
    # Nearest point of {x >= 0, sum = 1} to (0.9, 0.6, -0.2): (0.65, 0.35, 0).
    target = np.array([0.9, 0.6, -0.2])
    posed = program(np.ones(3), -target, [[1, 1, 1]], [1], lower=np.zeros(3))
    found = SOLVERS[name].solve(posed, OPTIONS)
    assert found.status is Status.OPTIMAL
    np.testing.assert_allclose(found.x, [0.65, 0.35, 0], atol=1e-6)
    np.testing.assert_allclose(found.multipliers, [-0.25], atol=1e-6)
    np.testing.assert_allclose(found.bounds, [0, 0, 0.45], atol=1e-6)
    assert dual_residual(posed, found) < 1e-6


@pytest.mark.parametrize("name", QUADRATIC)
def test_two_sided_rows_and_upper_bounds_are_kept(name):
    posed = program(
        np.ones(2),
        [-5.0, -5.0],
        lower=[0, 0],
        upper=[2, np.inf],
        inequalities=Inequalities(
            sp.csc_matrix([[1.0, 1.0], [1.0, -1.0]]), np.array([-np.inf, -1.0]), np.array([6.0, np.inf])
        ),
    )
    found = SOLVERS[name].solve(posed, OPTIONS)
    assert found.status is Status.OPTIMAL
    np.testing.assert_allclose(found.x, [2, 3], atol=1e-6)
    assert dual_residual(posed, found) < 1e-6


@pytest.mark.parametrize("name", QUADRATIC)
def test_variables_without_weight_are_found_by_the_constraints(name):
    posed = program([2.0, 0.0], [-6.0, 0.0], [[1, -1]], [0], lower=[0, 0], upper=[np.inf, 2.5])
    found = SOLVERS[name].solve(posed, OPTIONS)
    assert found.status is Status.OPTIMAL
    np.testing.assert_allclose(found.x, [2.5, 2.5], atol=1e-6)


@pytest.mark.parametrize("name", QUADRATIC)
def test_repeated_equalities_do_no_harm(name):
    posed = program(np.ones(3), [-1.5, -2, -3], [[1, 1, 1], [1, 1, 1], [2, 2, 2]], [3.5, 3.5, 7], lower=np.zeros(3))
    found = SOLVERS[name].solve(posed, OPTIONS)
    assert found.status is Status.OPTIMAL
    np.testing.assert_allclose(found.x, [0.5, 1, 2], atol=1e-5)


@pytest.mark.parametrize("name", QUADRATIC)
def test_rows_of_zeros_do_no_harm(name):
    posed = program(np.ones(2), [-1.0, -1.0], [[0, 0], [1, 1]], [0, 1], lower=[0, 0])
    found = SOLVERS[name].solve(posed, OPTIONS)
    assert found.status is Status.OPTIMAL
    np.testing.assert_allclose(found.x, [0.5, 0.5], atol=1e-6)


@pytest.mark.parametrize("name", QUADRATIC)
def test_badly_scaled_programs_are_solved_or_not_called_optimal(name):
    weights = np.array([1e-4, 1.0, 1e4])
    posed = program(weights, -weights * np.array([1e5, 1e2, 1.0]), [[1, 1, 1]], [1e5], lower=np.zeros(3))
    found = SOLVERS[name].solve(posed, OPTIONS)
    if found.status is Status.OPTIMAL:
        exact = np.array([1e5, 1e2, 1.0]) - 101 / weights / (1 / weights).sum()
        np.testing.assert_allclose(found.x, exact, rtol=1e-4, atol=1e-2)


@pytest.mark.parametrize("name", LINEAR)
def test_infeasible_programs_are_called_infeasible(name):
    # HiGHS takes no quadratic term, the others get one.
    diagonal = np.zeros(2) if name not in QUADRATIC else np.ones(2)
    posed = program(diagonal, [1.0, 1.0], [[1, 1]], [-1], lower=[0, 0], upper=[9, 9])
    found = SOLVERS[name].solve(posed, OPTIONS)
    assert found.status is Status.INFEASIBLE
    assert found.x is None


CROSSED = {
    "variable": {"lower": [2, 2], "upper": [1, 9]},
    "row": {"inequalities": Inequalities(sp.csc_matrix([[1.0, 1.0]]), np.array([2.0]), np.array([1.0]))},
    "nothing": {"equality": np.zeros((1, 0)), "right": [1]},
}


@pytest.mark.parametrize("name", list(SOLVERS))
@pytest.mark.parametrize("crossed", list(CROSSED))
def test_bounds_that_contradict_themselves_are_infeasible_and_no_exception(name, crossed):
    size = 0 if crossed == "nothing" else 2
    posed = program(np.full(size, float(name in QUADRATIC)), np.ones(size), **CROSSED[crossed])
    found = SOLVERS[name].solve(posed, OPTIONS)
    assert found.status is Status.INFEASIBLE
    assert found.x is None


@pytest.mark.parametrize("name", list(SOLVERS))
def test_a_program_without_variables_is_solved(name):
    found = SOLVERS[name].solve(program(np.zeros(0), np.zeros(0)), OPTIONS)
    assert found.status is Status.OPTIMAL
    assert found.x.shape == (0,)


@pytest.mark.parametrize("name", QUADRATIC)
@pytest.mark.parametrize("fault", ["not convex", "not a number"])
def test_a_program_that_cannot_be_solved_ends_in_a_status(name, fault):
    # x y on x + y = 1 has its least value at both ends of the segment, and a solver may stop at its middle.
    coupling = sp.csc_matrix([[0.0, 2.0], [2.0, 0.0]]) if fault == "not convex" else None
    linear = [0.0, 0.0] if fault == "not convex" else [np.nan, 0.0]
    posed = program(np.zeros(2), linear, [[1, 1]], [1], lower=[0, 0], coupling=coupling)
    found = SOLVERS[name].solve(posed, OPTIONS)
    assert isinstance(found.status, Status)
    assert fault == "not convex" or found.status is not Status.OPTIMAL


@pytest.mark.parametrize("name", LINEAR)
def test_linear_programs_agree_with_an_independent_call(name):
    generator = np.random.default_rng(5)
    for _ in range(5):
        cost, rows = generator.normal(size=8), generator.integers(0, 2, (3, 8)).astype(float)
        posed = program(np.zeros(8), cost, rows, rows.sum(axis=1) / 2, lower=np.zeros(8), upper=np.ones(8))
        found = SOLVERS[name].solve(posed, OPTIONS)
        expected = linprog(cost, A_eq=rows, b_eq=rows.sum(axis=1) / 2, bounds=(0, 1)).fun
        assert found.status is Status.OPTIMAL
        assert cost @ found.x == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("name", MIXED)
def test_whole_variables_are_whole(name):
    posed = program(
        np.zeros(3),
        [-5.0, -4.0, -3.0],
        lower=np.zeros(3),
        upper=np.full(3, 10.0),
        inequalities=Inequalities(
            sp.csc_matrix([[2.0, 3, 1], [4, 1, 2], [3, 4, 2]]), np.full(3, -np.inf), np.array([5.0, 11, 8])
        ),
        integral=np.ones(3, dtype=bool),
    )
    found = SOLVERS[name].solve(posed, OPTIONS)
    assert found.status is Status.OPTIMAL
    np.testing.assert_allclose(found.x, [2, 0, 1], atol=1e-9)


@pytest.mark.parametrize("name", LINEAR)
def test_unbounded_programs_are_never_called_optimal(name):
    found = SOLVERS[name].solve(program(np.zeros(1), [-1.0], lower=[0.0]), OPTIONS)
    assert found.status is not Status.OPTIMAL


@pytest.mark.parametrize("name", QUADRATIC)
def test_an_optimal_status_means_small_residuals(name):
    generator = np.random.default_rng(1)
    for _ in range(10):
        matrix = generator.integers(0, 2, (4, 9)).astype(float)
        posed = program(
            generator.uniform(0, 2, 9), generator.normal(size=9), matrix, matrix @ np.ones(9), lower=np.zeros(9)
        )
        for options in (OPTIONS, SolverOptions(iterations=2)):
            found = SOLVERS[name].solve(posed, options)
            if found.status is Status.OPTIMAL:
                assert primal_residual(posed, found.x) <= options.accepted
                assert dual_residual(posed, found) <= options.accepted


@pytest.mark.parametrize("name", QUADRATIC)
def test_running_out_of_iterations_is_not_optimal(name):
    generator = np.random.default_rng(2)
    matrix = generator.integers(0, 2, (20, 60)).astype(float)
    posed = program(np.ones(60), 10 * generator.normal(size=60), matrix, matrix @ np.ones(60), lower=np.zeros(60))
    found = SOLVERS[name].solve(posed, SolverOptions(iterations=1))
    assert found.status is not Status.OPTIMAL


@pytest.mark.parametrize("name", list(SOLVERS))
def test_the_same_program_gives_the_same_bits(name):
    diagonal = np.ones(4) if name in QUADRATIC else np.zeros(4)
    posed = program(diagonal, [-1.0, 0.3, 0.2, -2], [[1, 1, 1, 1]], [2], lower=np.zeros(4))
    one, other = (SOLVERS[name].solve(posed, OPTIONS).x for _ in range(2))
    assert one.tobytes() == other.tobytes()


def test_an_optimal_status_with_a_large_residual_is_taken_back():
    posed = program(np.ones(2), [0.0, 0.0], [[1, 1]], [1])
    false = Solution(Status.OPTIMAL, x=np.array([0.5, 0.6]))
    assert audited(posed, false, OPTIONS).status is Status.INACCURATE
    assert audited(posed, Solution(Status.OPTIMAL, x=np.array([0.5, np.nan])), OPTIONS).status is Status.FAILED


def two_rows(lower, upper):
    """x + y = 4 in the box [0, 3] x [0, 3], and a row x - y between limits."""
    rows = Inequalities(sp.csc_matrix([[1.0, -1.0]]), np.array([float(lower)]), np.array([float(upper)]))
    return program(np.ones(2), np.zeros(2), [[1, 1]], [4], lower=[0, 0], upper=[3, 3], inequalities=rows)


def test_two_sided_rows_take_part_in_a_proof_of_infeasibility():
    # x - y >= 5 contradicts the box alone: the row's multiplier is -1, the least of -(x - y) is -3, and -5 its most.
    above, below = two_rows(5, np.inf), two_rows(-np.inf, -5)
    nothing = np.zeros(1)
    assert proves_infeasible(above, nothing, np.array([-1.0]))
    assert proves_infeasible(below, nothing, np.array([7.0]))
    assert not proves_infeasible(above, nothing, np.array([1.0]))  # an endless limit proves nothing
    assert not proves_infeasible(above, None, None)
    # x - y >= 2.5 with x + y = 4 needs x >= 3.25: only both together prove it.
    both = two_rows(2.5, np.inf)
    assert not proves_infeasible(both, nothing, np.array([-1.0]))
    assert proves_infeasible(both, np.array([-1.0]), np.array([-1.0]))
    assert not proves_infeasible(two_rows(1.5, np.inf), np.array([-1.0]), np.array([-1.0]))


def test_an_unfinished_solver_is_believed_when_its_rows_prove_that_there_is_no_point():
    unfinished = Solution(Status.LIMIT, None, np.array([1.0]), None, rows=np.array([1.0]))
    assert audited(two_rows(2.5, np.inf), unfinished, OPTIONS).status is Status.INFEASIBLE
    assert audited(two_rows(1.5, np.inf), unfinished, OPTIONS).status is Status.LIMIT
