"""The certificate accepts optima and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from das_spark.estimation import (
    FamilyBounds,
    FamilyFlows,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    FamilyStatus,
    estimate_family,
    support,
)
from das_spark.estimation import certify as certify_module
from das_spark.estimation.certify import certify
from das_spark.estimation.chain import PosedFamily, solve_chain
from das_spark.estimation.presolve import presolve
from das_spark.estimation.program import assemble, read_back
from das_spark.estimation.solvers import SOLVERS, SolverOptions
from das_spark.estimation.support import Candidate, restrict
from das_spark.histogram import Attribute, Histogram, Schema


def solved(made):
    presolved = presolve(restrict(made.problem, made.plan))
    return presolved, solve_chain(PosedFamily.of(presolved), made.plan).candidate


def certified(made, presolved, candidate):
    return certify(made.problem, made.plan, presolved.support.cells, candidate)


def brute_lower_bound(made, presolved, candidate, draws, generator):
    """Least objective of many feasible points: convex combinations of rounded truths near the candidate."""
    best = np.inf
    truth = made.truth[:, presolved.support.cells].astype(float)
    for weight in generator.uniform(0, 1, draws) ** 4:
        point = (1 - weight) * candidate.x + weight * truth
        best = min(best, certified(made, presolved, replace(candidate, x=point)).objective)
    return best


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("options", [{}, {"totals": True}, {"root": True}, {"flows": True}], ids=str)
def test_no_feasible_point_is_better_than_the_proved_bound(small, seed, options):
    made = small(seed, **options)
    presolved, candidate = solved(made)
    proof = certified(made, presolved, candidate)
    bound = proof.objective - proof.gap * max(1.0, proof.objective)
    assert bound <= brute_lower_bound(made, presolved, candidate, 50, np.random.default_rng(seed)) + 1e-9


@pytest.mark.parametrize("seed", range(10))
def test_the_gap_of_a_worse_point_is_at_least_its_true_excess(small, seed):
    """Whatever hints are given: the gap never understates how far a feasible point is from the best."""
    made = small(seed)
    presolved, candidate = solved(made)
    best = certified(made, presolved, candidate)
    generator = np.random.default_rng(seed)
    truth = made.truth[:, presolved.support.cells].astype(float)
    for weight in (0.01, 0.1, 1.0):
        worse = replace(
            candidate,
            x=(1 - weight) * candidate.x + weight * truth,
            parent_multipliers=candidate.parent_multipliers + generator.normal(0, weight, len(presolved.support.cells)),
            bound_multipliers=tuple(
                multiplier + generator.normal(0, weight, multiplier.shape) for multiplier in candidate.bound_multipliers
            ),
        )
        proof = certified(made, presolved, worse)
        assert proof.violation < 1e-9
        excess = proof.objective - best.objective
        assert proof.gap * max(1.0, proof.objective) >= excess - 1e-6
        assert not proof.certified or excess < 1e-5


@pytest.mark.parametrize("seed", range(6))
def test_a_point_that_breaks_a_sum_a_bound_or_a_sign_is_refused(small, seed):
    made = small(seed)
    presolved, candidate = solved(made)
    for place, change in (((0, 0), 1e-3), ((0, 0), -1e-3 - candidate.x[0, 0])):
        x = candidate.x.copy()
        x[place] += change
        assert not certified(made, presolved, replace(candidate, x=x)).certified
    margin = made.problem.bounds[0].query.answer_dense(made.truth)
    tight = replace(made.problem.bounds[0], lower=margin + 1, upper=margin + 2)
    proof = certify(replace(made.problem, bounds=(tight,)), made.plan, presolved.support.cells, candidate)
    assert not proof.certified
    assert proof.primal_residual > 1e-3


def test_a_point_that_is_not_a_number_is_refused(small):
    made = small(1)
    presolved, candidate = solved(made)
    proof = certified(made, presolved, replace(candidate, x=candidate.x * np.nan))
    assert not proof.certified


@pytest.mark.parametrize("field", ["linear", "diagonal", "right", "equality"])
def test_a_planted_wrong_coefficient_in_the_solver_arrays_is_caught(small, field):
    caught = 0
    for seed in range(24):
        made = small(seed, 4, queries=("detailed", "kind", "age * race"))
        presolved = presolve(restrict(made.problem, made.plan))
        assembly = assemble(presolved)
        program = assembly.program
        array = getattr(program, field).copy()
        data = array.data if field == "equality" else array
        place = (7 * seed + 3) % len(data)
        data[place] += 0.25 * max(1.0, abs(data[place]))
        wrong = replace(assembly, program=replace(program, **{field: array}))
        solution = SOLVERS["piqp"].solve(wrong.program, SolverOptions())
        if solution.x is None:
            continue
        honest = read_back(assembly, SOLVERS["piqp"].solve(program, SolverOptions()))
        candidate = read_back(wrong, solution)
        proof = certify(made.problem, made.plan, presolved.support.cells, candidate)
        best = certify(made.problem, made.plan, presolved.support.cells, honest)
        excess = (proof.objective - best.objective) / max(1.0, best.objective)
        if proof.violation < 1e-6 and excess < 1e-5:
            continue  # the fault did not spoil the answer
        caught += 1
        assert not proof.certified, (seed, place)
    assert caught >= 5


@pytest.mark.parametrize("seed", range(4))
def test_flows_that_do_not_divide_the_margins_are_refused(small, seed):
    made = small(seed, root=True, flows=True, totals=True, children=4)
    presolved, candidate = solved(made)
    assert certified(made, presolved, candidate).certified
    moved = candidate.flows.copy()
    moved[0, 0] += 1.0
    assert not certified(made, presolved, replace(candidate, flows=moved)).certified
    assert not certified(made, presolved, replace(candidate, flows=None)).certified


def test_people_of_the_parent_outside_the_cells_are_noticed():
    schema = Schema("two", (Attribute("cell", ("x", "y")),))
    problem = FamilyProblem("1", Histogram.from_dense(np.array([5, 3])), ("1a", "1b"), 2, ())
    plan = FamilyPlan("two")
    presolved = presolve(restrict(problem, plan))
    candidate = read_back(assemble(presolved), SOLVERS["piqp"].solve(assemble(presolved).program, SolverOptions()))
    less = replace(candidate, x=candidate.x[:, :1], parent_multipliers=candidate.parent_multipliers[:1])
    assert certify(problem, plan, presolved.support.cells, candidate).certified
    assert not certify(problem, plan, presolved.support.cells[:1], less).certified
    assert schema.size == 2


# The levelled bound, for objectives that are flat in some directions


FLAT = ("kind", "age * race")


def levelled(made, presolved, candidate):
    """Objective of a candidate less its levelled bound, and the objective."""
    problem, cells = made.problem, presolved.support.cells
    fit = certify_module._Fit.of(problem, cells, candidate.x)
    box = certify_module._Box(problem, cells, certify_module._parent(problem, cells), None, fit, candidate.x)
    assert not certify_module._separates(fit, len(cells))
    return certify_module._levelled_gap(problem, cells, candidate, fit, box), fit.objective


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("queries", [FLAT, ("total",), ("kind * age", "race")], ids=str)
@pytest.mark.parametrize("root", [False, True], ids=["divided", "root"])
def test_the_levelled_bound_never_exceeds_the_objective_of_a_feasible_point(small, seed, queries, root):
    """Whatever point and multipliers it is made from: good ones, wrong ones, none."""
    made = small(seed, 4, queries=queries, root=root)
    presolved, candidate = solved(made)
    generator = np.random.default_rng(seed)
    truth = made.truth[:, presolved.support.cells].astype(float)
    points = [candidate.x, truth, 0.5 * (candidate.x + truth)]
    least = min(certified(made, presolved, replace(candidate, x=point)).objective for point in points)
    for size in (0.0, 1e-6, 1.0, 100.0):
        wrong = replace(
            candidate,
            x=np.maximum(candidate.x + generator.normal(0, 0.01 * size, candidate.x.shape), 0),
            parent_multipliers=candidate.parent_multipliers + generator.normal(0, size, truth.shape[1]),
            bound_multipliers=tuple(
                generator.normal(0, size, multiplier.shape) + (size < 100) * multiplier
                for multiplier in candidate.bound_multipliers
            ),
        )
        gap, objective = levelled(made, presolved, wrong)
        assert objective - gap <= least + 1e-7 * max(1.0, least)


@pytest.mark.parametrize("seed", range(20))
def test_the_levelled_bound_is_tight_at_the_optimum(small, seed):
    made = small(seed, 4, queries=FLAT, people=5000)
    presolved, candidate = solved(made)
    gap, objective = levelled(made, presolved, candidate)
    assert gap <= 1e-4 * max(1.0, objective)


def test_the_levelled_bound_proves_what_the_last_digits_of_millions_hide(small):
    """Counts a thousand times as large, the same noise: gradients differ by digits that millions of people magnify."""
    rescued = 0
    for seed in range(30):
        made = small(seed, 4, queries=("total",), noise=3.0)
        factor = 100_000
        measured = tuple(
            replace(
                measurement,
                values=measurement.values
                + (factor - 1) * measurement.query.answer_dense(made.truth)[:, measurement.rows],
            )
            for measurement in made.problem.measurements
        )
        bounds = tuple(
            replace(bound, lower=bound.lower * factor, upper=bound.upper * factor) for bound in made.problem.bounds
        )
        parent = Histogram.from_dense(made.problem.parent.dense() * factor)
        big = replace(made, problem=replace(made.problem, parent=parent, measurements=measured, bounds=bounds))
        presolved = presolve(restrict(big.problem, big.plan))
        if presolved.contradiction or not presolved.variables:
            continue
        solution = SOLVERS["piqp"].solve(assemble(presolved).program, SolverOptions())
        candidate = read_back(assemble(presolved), solution)
        proof = certified(big, presolved, candidate)
        gap, objective = levelled(big, presolved, candidate)
        rescued += proof.certified and gap < 1e-6 * max(1.0, objective)
    assert rescued >= 10


@pytest.mark.parametrize("size", [10**3, 10**6, 10**9])
@pytest.mark.parametrize("weak", [None, 1e3, 1e9], ids=["no cells", "weak cells", "hardly any cells"])
def test_a_root_without_precise_cells_is_proved_whatever_its_size(toy, size, weak):
    """Margins are measured, cells not at all or with a thousand times their variance and more."""
    generator = np.random.default_rng(size % 7)
    truth = generator.poisson(size * generator.gamma(0.5, 2.0, (1, toy.size)))
    variances = {"kind * race": 1.0, "age * race": 0.01} | ({} if weak is None else {"detailed": weak})
    measured = []
    for name, variance in variances.items():
        query = toy.query(name)
        noise = np.rint(generator.normal(size=(1, query.rows)) * variance**0.5).astype(np.int64)
        answers = query.answer_dense(truth) + noise
        measured.append(FamilyMeasurement(query, np.arange(query.rows), answers, np.full(1, variance)))
    result = estimate_family(FamilyProblem("", None, ("0",), toy.size, tuple(measured)), FamilyPlan("toy"))
    assert result.diagnostics.status is FamilyStatus.OPTIMAL
    assert abs(result.diagnostics.gap) <= 1e-6


@pytest.mark.parametrize("price", [0.0, 1e7 / 3.0, -1e7])
def test_what_a_solver_hands_from_a_total_to_the_flows_hides_no_optimum(price):
    """Rows that say the same may have any multipliers whose sum is right; millions of people magnify their last digits.

    Nothing is measured but what is true, and every fit of it is the best: people of the nation are all people of parts.
    """
    schema = Schema("classes", (Attribute("k", ("a", "b", "c")),))
    classes, everyone = schema.query("k"), schema.query("total")
    truth = np.array([[41_000_003, 7, 34_000_001]])
    total = np.array([[truth.sum()]])
    flows = FamilyFlows(classes, np.zeros(1, dtype=np.int64), 0 * truth, truth + 100, total[0])
    answers = FamilyMeasurement(classes, np.arange(3), truth, np.full(1, 0.001))
    bound = FamilyBounds("total", everyone, total, total)
    problem = FamilyProblem("", None, ("0",), schema.size, (answers,), (bound,), flows)
    candidate = Candidate(
        x=truth + np.array([[3e-9, 0.0, -3e-9]]),
        flows=truth.astype(np.float64),
        parent_multipliers=np.zeros(3),
        bound_multipliers=(np.full((1, 1), -price),),
        flow_multipliers=np.full((1, 3), price + 1e-9),
    )
    assert certify(problem, FamilyPlan("classes"), np.arange(3, dtype=np.int32), candidate).certified
    worse = replace(candidate, x=truth + np.array([[0.4, 0.0, -0.4]]))
    assert not certify(problem, FamilyPlan("classes"), np.arange(3, dtype=np.int32), worse).certified


@pytest.mark.parametrize("most", [0, 4], ids=["nobody can be there", "nobody is there"])
def test_no_flow_goes_to_a_class_that_no_cell_can_hold(most):
    """A class without people of the parent has no price that a solver could find, and flows have room for it."""
    schema = Schema("classes", (Attribute("k", ("a", "b", "c")),))
    classes = schema.query("k")
    answers = FamilyMeasurement(classes, np.array([0, 1]), np.array([[5, 1], [0, 4]]), np.full(2, 4.0))
    upper = np.array([[2, 4, most], [4, 4, most]])
    flows = FamilyFlows(classes, np.array([0, 1]), np.zeros((2, 3), dtype=np.int64), upper, np.array([4, 4]))
    parent = Histogram.from_dense(np.array([4, 4, 0]))
    problem = FamilyProblem("9", parent, ("90", "91"), schema.size, (answers,), (), flows)
    result = estimate_family(problem, FamilyPlan("classes"))
    assert result.diagnostics.status is FamilyStatus.OPTIMAL
    # The first child may hold two of class a at most, so each has two of either.
    assert result.counts.tolist() == [[2, 2], [2, 2]]


@pytest.mark.parametrize("field", ["linear", "diagonal", "right", "equality"])
def test_a_planted_wrong_coefficient_is_caught_where_the_objective_is_flat(small, field):
    caught = 0
    for seed in range(40):
        made = small(seed, 4, queries=FLAT)
        presolved = presolve(restrict(made.problem, made.plan))
        assembly = assemble(presolved)
        array = getattr(assembly.program, field).copy()
        data = array.data if field == "equality" else array
        used = np.flatnonzero(assembly.program.diagonal)  # a flat objective has no weight on single cells
        used = used if field in {"linear", "diagonal"} else np.arange(len(data))
        place = used[(7 * seed + 3) % len(used)]
        data[place] += 0.5 * max(1.0, abs(data[place]))
        wrong = replace(assembly, program=replace(assembly.program, **{field: array}))
        solution = SOLVERS["piqp"].solve(wrong.program, SolverOptions())
        if solution.x is None:
            continue
        best = certified(made, presolved, solve_chain(PosedFamily.of(presolved), made.plan).candidate)
        proof = certified(made, presolved, read_back(wrong, solution))
        excess = (proof.objective - best.objective) / max(1.0, best.objective)
        if proof.violation < 1e-6 and excess < 1e-5:
            continue  # the fault did not spoil the answer
        caught += 1
        assert not proof.certified, (seed, proof, best)
    assert caught >= 5


@pytest.mark.parametrize("seed", range(10))
def test_wrong_multipliers_of_bounds_do_not_prove_a_worse_point(small, seed):
    """The levelled bound uses a multiplier only where the candidate is on its bound; the sign decides which."""
    made = small(seed, 4, queries=FLAT)
    presolved, candidate = solved(made)
    best = certified(made, presolved, candidate)
    truth = made.truth[:, presolved.support.cells].astype(float)
    worse = replace(candidate, x=0.5 * (candidate.x + truth))
    for sign in (1.0, -1.0, 50.0):
        hints = tuple(sign * multiplier for multiplier in candidate.bound_multipliers)
        proof = certified(made, presolved, replace(worse, bound_multipliers=hints))
        excess = (proof.objective - best.objective) / max(1.0, proof.objective)
        assert proof.gap >= excess - 1e-6
        assert not proof.certified or excess < 1e-5


# What violations are worth


def test_a_small_violation_of_a_dear_bound_is_refused(small):
    """Within the tolerance of people, but worth more than the tolerance of the objective."""
    refused = 0
    for seed in range(40):
        made = small(seed, 4, noise=0.05)
        presolved, candidate = solved(made)
        dear = [np.abs(multiplier).max() for multiplier in candidate.bound_multipliers]
        proof = certified(made, presolved, candidate)
        if not dear or max(dear) < 100 or not proof.certified:
            continue
        place = np.unravel_index(np.abs(candidate.bound_multipliers[0]).argmax(), candidate.bound_multipliers[0].shape)
        rows = made.problem.bounds[0].query.row_of(presolved.support.cells)
        cell = np.flatnonzero((rows == place[1]) & (candidate.x[place[0]] > 0.1))
        if not len(cell):
            continue
        x = candidate.x.copy()
        step = 5e-7 * np.sign(-candidate.bound_multipliers[0][place])
        x[place[0], cell[0]] += step
        off = certified(made, presolved, replace(candidate, x=x))
        assert off.violation < 1e-6
        if max(dear) * 5e-7 > 1e-6 * max(1.0, off.objective):
            refused += 1
            assert not off.certified
    assert refused >= 3


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("bounds", [False, True])
def test_a_certificate_is_the_same_whatever_is_worked_on_at_once(wild, monkeypatch, seed, bounds):
    """Cells and children in parts of some: what is proved of a large family."""
    made = wild(seed)
    problem = made.problem if bounds else replace(made.problem, bounds=())
    presolved = presolve(restrict(problem, made.plan))
    candidate = solve_chain(PosedFamily.of(presolved), made.plan).candidate
    whole = certify(problem, made.plan, presolved.support.cells, candidate)
    for at_once in (1, 2 * len(candidate.x)):
        monkeypatch.setattr(support, "AT_ONCE", at_once)
        found = certify(problem, made.plan, presolved.support.cells, candidate)
        assert found.certified == whole.certified
        assert (found.primal_residual, found.violation) == (whole.primal_residual, whole.violation)
        assert found.objective == pytest.approx(whole.objective, rel=1e-12)
        assert found.gap == pytest.approx(whole.gap, rel=1e-6, abs=1e-12)
