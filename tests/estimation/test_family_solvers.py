"""The examination that every solver of families takes, on thousands of small families, beside an interior-point method.

The reference knows nothing of presolve, partitions or certificates: it is handed the tables as dense matrices.
"""

from __future__ import annotations

import clarabel
import numpy as np
import pytest
import scipy.sparse as sp

from das_spark.estimation import FamilyPlan
from das_spark.estimation.certify import certify
from das_spark.estimation.chain import FAMILY_SOLVERS
from das_spark.estimation.presolve import presolve
from das_spark.estimation.proposal import PosedFamily
from das_spark.estimation.support import restrict

PLAN = FamilyPlan("wild")
FAMILIES = 2000
CHUNKS = 20


def incidence(query, cells):
    rows = query.row_of(cells)
    return (rows[None, :] == np.arange(query.rows)[:, None]).astype(float)


def objective(problem, cells, x):
    """Weighted squared distance over the rows that the cells touch."""
    total = 0.0
    for each in problem.measurements:
        matrix = incidence(each.query, cells)[each.rows]
        touched = matrix.any(axis=1)
        distance = (x @ matrix.T - each.values)[:, touched]
        total += float((distance**2 / each.variance[:, None]).sum())
    return total


def reference(problem, truth):
    """Upper and lower bound of the least objective of a family with a parent, by Clarabel on matrices made from tables.

    Unknowns are distances from the truth, which is feasible, then from the first solution; and residuals in units of noise.
    """
    cells, children = problem.parent.cells, len(problem.children)
    answers, values = [np.zeros((0, children * len(cells)))], [np.zeros(0)]
    for each in problem.measurements:
        matrix = incidence(each.query, cells)[each.rows]
        touched = matrix.any(axis=1)
        weight = each.variance**-0.5
        answers.append(np.kron(np.diag(weight), matrix[touched]))
        values.append((weight[:, None] * each.values[:, touched]).ravel())
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


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_every_solver_of_families_finds_the_optimum_of_an_interior_point_method(wild, chunk):
    certified = dict.fromkeys(FAMILY_SOLVERS, 0)
    asked, unsettled = dict.fromkeys(FAMILY_SOLVERS, 0), 0
    for seed in range(chunk, FAMILIES, CHUNKS):
        made = wild(seed)
        problem = made.problem
        presolved = presolve(restrict(problem, PLAN))
        assert not presolved.contradiction, seed
        if not presolved.variables:
            continue
        expected = reference(problem, made.truth)
        unsettled += expected is None
        upper, lower = expected or (np.inf, -np.inf)
        cells = presolved.support.cells
        for name, solver in FAMILY_SOLVERS.items():
            proposal = solver.propose(
                PosedFamily(presolved),
                lambda candidate: certify(problem, PLAN, cells, candidate),  # noqa: B023
            )
            if proposal is None:
                assert name == "batched", (seed, name)
                assert binding_on_single_cells(problem), seed
                continue
            proved = certify(problem, PLAN, cells, proposal.candidate)
            asked[name] += 1
            certified[name] += proved.certified
            if proved.certified:
                found = objective(problem, cells, proposal.candidate.x)
                size = max(1.0, found)
                assert found == pytest.approx(proved.objective, rel=1e-9, abs=1e-9), (seed, name)
                assert lower - 2e-6 * size <= found <= upper + 2e-6 * size, (seed, name, found, upper, lower)
    print(certified, asked, unsettled)
    for name in FAMILY_SOLVERS:
        assert certified[name] >= (0.5 if name == "osqp" else 0.97) * asked[name], (name, certified, asked)
