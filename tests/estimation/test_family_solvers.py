"""The examination that every solver of families takes, on thousands of small families, beside an interior-point method.

The reference knows nothing of presolve, partitions or certificates: it is handed the tables as dense matrices.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter
from dataclasses import replace
from functools import partial
from types import ModuleType

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from das_spark import estimation
from das_spark.estimation import FamilyPlan, batched
from das_spark.estimation.certify import certify
from das_spark.estimation.chain import FAMILY_SOLVERS, PosedFamily, solve_chain
from das_spark.estimation.presolve import presolve
from das_spark.estimation.solvers import SOLVERS, Capability
from das_spark.estimation.support import restrict

pytestmark = pytest.mark.slow

PLAN = FamilyPlan("wild")
#: They serve families that are known from below alone, and have their examination there (test_structured.py).
FROM_BELOW = ("structured", "interior")
FAMILIES = 2000
CHUNKS = 20
#: Chunks of the quick path: 400 families by every solver.
QUICK = 4


def incidence(query, cells):
    rows = query.row_of(cells)
    return (rows[None, :] == np.arange(query.rows)[:, None]).astype(float)


def objective(problem, cells, x):
    """Weighted squared distance over the rows that the cells touch."""
    total = 0.0
    for measurement in problem.measurements:
        matrix = incidence(measurement.query, cells)[measurement.rows]
        touched = matrix.any(axis=1)
        distance = (x @ matrix.T - measurement.values)[:, touched]
        total += float((distance**2 / measurement.variance[:, None]).sum())
    return total


def reference(problem, truth):
    """Upper and lower bound of the least objective of a family with a parent, by Clarabel on matrices made from tables.

    Unknowns are distances from the truth, which is feasible, then from the first solution; residuals in noise units.
    """
    cells, children = problem.parent.cells, len(problem.children)
    answers, values = [np.zeros((0, children * len(cells)))], [np.zeros(0)]
    for measurement in problem.measurements:
        matrix = incidence(measurement.query, cells)[measurement.rows]
        touched = matrix.any(axis=1)
        weight = measurement.variance**-0.5
        answers.append(np.kron(np.diag(weight), matrix[touched]))
        values.append((weight[:, None] * measurement.values[:, touched]).ravel())
    answer, value = np.concatenate(answers), np.concatenate(values)
    rows = [np.kron(np.ones(children), np.eye(len(cells))), np.eye(children * len(cells))]
    lower = [problem.parent.counts.astype(float), np.zeros(children * len(cells))]
    upper = [lower[0], np.full(children * len(cells), np.inf)]
    for bound in problem.bounds:
        rows.append(np.kron(np.eye(children), incidence(bound.query, cells)))
        lower.append(bound.lower.ravel().astype(float))
        upper.append(bound.upper.ravel().astype(float))
    row, least, most = (np.concatenate(parts) for parts in (rows, lower, upper))
    centre = truth[:, cells].astype(float).ravel()
    for _ in range(2):
        centre, objective, bound = conic(
            answer, value - answer @ centre, row, least - row @ centre, most - row @ centre, centre
        )
    off = np.maximum(least - row @ centre, row @ centre - most).max()
    settled = abs(objective - bound) < 1e-6 * max(1.0, objective) and off < 1e-6
    return (objective, bound) if settled else None


def conic(answer, value, row, least, most, centre):
    """Least squares of answers under two-sided rows: point, objective, lower bound."""
    count, width = len(value), answer.shape[1]
    residual = np.hstack([answer, -np.eye(count)])
    wide = np.hstack([row, np.zeros((len(row), count))])
    known, low, high = least == most, (least != most) & np.isfinite(least), (least != most) & np.isfinite(most)
    matrix = sp.csc_matrix(np.concatenate([residual, wide[known], -wide[low], wide[high]]))
    right = np.concatenate([value, least[known], -least[low], most[high]])
    cones = [clarabel.ZeroConeT(count + int(known.sum())), clarabel.NonnegativeConeT(int(low.sum() + high.sum()))]
    options = clarabel.DefaultSettings()
    options.verbose = False
    options.tol_gap_abs = options.tol_gap_rel = options.tol_feas = 1e-9
    hessian = sp.diags_array(np.concatenate([np.zeros(width), np.full(count, 2.0)]), format="csc")
    found = clarabel.DefaultSolver(hessian, np.zeros(width + count), matrix, right, cones, options).solve()
    return centre + np.array(found.x)[:width], found.obj_val, found.obj_val_dual


def binding_on_single_cells(problem):
    """Whether bounds on single cells ask for more than that nobody is there."""
    cells, people = problem.parent.cells, problem.parent.counts
    for bound in problem.bounds:
        rows = bound.query.row_of(cells)
        if (rows >= 0).all() and len(np.unique(rows)) == len(rows):
            lower, upper = bound.lower[:, rows], bound.upper[:, rows]
            if (lower > 0).any() or ((upper > 0) & (upper < people)).any():
                return True
    return False


def alike(problem):
    """Whether the answers' variances lie within a factor of 400, which the nested solver is made for."""
    variances = np.concatenate([measurement.variance for measurement in problem.measurements])
    return variances.max() <= 400 * variances.min()


def unregistered(modules: list[ModuleType]) -> list[str]:
    """Classes defined in these modules that propose estimates, and cannot be named in a run file."""
    found = []
    for module in modules:
        for name, each in vars(module).items():
            proposes = inspect.isclass(each) and hasattr(each, "propose") and not getattr(each, "_is_protocol", False)
            if proposes and each.__module__ == module.__name__:
                found += [] if any(isinstance(solver, each) for solver in FAMILY_SOLVERS.values()) else [name]
    return found


def test_every_solver_of_families_is_registered():
    names = [module.name for module in pkgutil.walk_packages(estimation.__path__, "das_spark.estimation.")]
    modules = [importlib.import_module(name) for name in names]
    assert unregistered(modules) == []
    planted = ModuleType("planted")
    exec("class Planted:\n    name = 'planted'\n    def propose(self, family, proof): ...", vars(planted))
    planted.Planted.__module__ = "planted"
    assert unregistered([*modules, planted]) == ["Planted"]
    assert set(FAMILY_SOLVERS) == {"projected", "nested", "batched", *FROM_BELOW} | {
        name for name, solver in SOLVERS.items() if Capability.QUADRATIC in solver.capabilities
    }
    assert all(name == solver.name for name, solver in FAMILY_SOLVERS.items())


@pytest.mark.parametrize(
    "chunk",
    [
        pytest.param(each, marks=[pytest.mark.long] * (each >= QUICK) + [pytest.mark.slow] * (0 < each < QUICK))
        for each in range(CHUNKS)
    ],
)
def test_every_solver_of_families_finds_the_optimum_of_an_interior_point_method(wild, chunk, monkeypatch):
    monkeypatch.setattr(batched, "MOST_ITERATIONS", 250)  # families this small go to another solver first
    certified, asked, unsettled = Counter(), Counter(), 0
    for seed in range(chunk, FAMILIES, CHUNKS):
        made = wild(seed)
        problem, presolved = made.problem, presolve(restrict(made.problem, PLAN))
        assert not presolved.contradiction, seed
        if not presolved.variables:
            continue
        expected = reference(problem, made.truth)
        unsettled += expected is None
        upper, lower = expected or (np.inf, -np.inf)
        for name, solver in FAMILY_SOLVERS.items():
            flat = all(measurement.query.name != "detailed" for measurement in problem.measurements)
            if (seed // CHUNKS) % 5 and (name == "osqp" or (name == "batched" and flat)):
                continue  # slow
            proof = partial(certify, problem, PLAN, presolved.support.cells)
            proposal = solver.propose(PosedFamily.of(presolved), proof)
            assert (name in FROM_BELOW) <= (proposal is None), (seed, name)
            if name in FROM_BELOW:
                continue
            if proposal is None and name in {"nested", "projected"}:
                continue  # bounds that are no equalities bind, or single cells are not answered; it takes many at once
            if proposal is None:
                assert name == "batched", (seed, name)
                assert binding_on_single_cells(problem), seed
                continue
            proved = proof(proposal.candidate)
            asked[name] += 1
            certified[name] += proved.certified
            assert proved.certified or name != "nested" or not alike(problem), seed
            if proved.certified:
                found = objective(problem, presolved.support.cells, proposal.candidate.x)
                size = max(1.0, found)
                assert found == pytest.approx(proved.objective, rel=1e-9, abs=1e-9), (seed, name)
                assert lower - 2e-6 * size <= found <= upper + 2e-6 * size, (seed, name, found, upper, lower)
    for name, least in {"nested": 0.75, "batched": 0.5, "piqp": 0.85, "clarabel": 0.8, "osqp": 0.85}.items():
        assert certified[name] >= least * asked[name], (certified, asked)
    assert unsettled <= 0.05 * FAMILIES / CHUNKS


def test_together_the_solvers_leave_hardly_a_family_without_proof(wild):
    """Where every cell is measured, none; where the objective is flat, interior points may lack the last digits."""
    open_families = []
    for seed in range(0, FAMILIES, 8):
        made = wild(seed)
        solved = solve_chain(PosedFamily(restrict(made.problem, made.plan)), made.plan)
        assert not solved.contradiction, seed
        if not solved.certificate.certified:
            open_families.append(seed)
            assert "detailed" not in [measurement.query.name for measurement in made.problem.measurements], seed
    assert len(open_families) <= 0.02 * FAMILIES / 8, open_families


@pytest.mark.slow
def test_a_wrong_coefficient_in_what_solvers_get_is_never_certified(wild):
    """The same examination with a planted fault: noisy answers are changed after the family was posed."""
    caught = 0
    for seed in range(40):
        made = wild(seed)
        presolved = presolve(restrict(made.problem, made.plan))
        if len(made.problem.measurements) < 2 or not presolved.variables:
            continue
        measured = list(made.problem.measurements)
        away = np.zeros(measured[0].values.shape, dtype=np.int64)
        away[0] = 10 + 20 * int(np.sqrt(measured[0].variance[0]))
        measured[0] = replace(measured[0], values=measured[0].values + away)
        other = replace(made.problem, measurements=tuple(measured))
        for solver in FAMILY_SOLVERS.values():
            proposal = solver.propose(PosedFamily.of(presolved), partial(certify, other, PLAN, presolved.support.cells))
            if proposal is None:
                continue
            proved = certify(other, PLAN, presolved.support.cells, proposal.candidate)
            expected = reference(other, made.truth)
            wrong = expected is not None and abs(proved.objective - expected[0]) > 1e-4 * max(1.0, expected[0])
            caught += wrong
            assert not (wrong and proved.certified), (seed, solver.name)
    assert caught > 30
