"""Small families many at once, against the certificate, the chain and the roundings of single families."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from das_spark.errors import EstimationError
from das_spark.estimation import FamilyBounds, FamilyStatus, OuterPass, estimate_families, estimate_family
from das_spark.estimation.certify import certify
from das_spark.estimation.chain import PosedFamily, solve_chain
from das_spark.estimation.check import broken_rules
from das_spark.estimation.flat import FlatFamilies, FlatRows
from das_spark.estimation.flat_certify import certify_flat
from das_spark.estimation.flat_estimate import MOST_ENTRIES, PROJECTED, _Estimation, estimate_flat
from das_spark.estimation.presolve import presolve
from das_spark.estimation.problem import SLACK
from das_spark.estimation.rounding import round_in_passes
from das_spark.estimation.support import Candidate, restrict
from das_spark.histogram import Histogram, Query
from tests.benchmarks.families_2020 import BLOCKS, GROUPS, family_2020, plan_2020

CHAIN = ("batched", "piqp", "clarabel", "osqp")


def planned(level):
    return replace(plan_2020(level), solvers=(PROJECTED, *CHAIN))


def families(shape, count, **further):
    """Families of a shape and of its neighbours: fewer children, fewer cells, more group quarters."""
    found = []
    for seed in range(count):
        children, cells = max(2, shape.children - seed % 5 * 4), max(12, shape.cells - 17 * (seed % 4))
        odd = replace(shape, children=children, cells=cells, facilities=0.01 + 0.1 * (seed % 3), **further)
        found.append(family_2020(odd, seed)[0])
    return found


def told(problems, level):
    """The estimation of some families, and what each of its fits found."""
    estimation = _Estimation(problems, planned(level))
    fits, bands = [], []
    for number, names in enumerate(estimation.outer.least_squares):
        fits.append(estimation._fit(number, bands))
        if number < len(estimation.outer.least_squares) - 1:
            bands += [estimation._band(fits[-1], name) for name in names]
    return estimation, fits, bands


def own(estimation, fit, place):
    """The point of one family, shape (K, n)."""
    part = slice(*fit.families.first_entry[place : place + 2])
    return fit.x[part].reshape(estimation.families.children[place], -1)


@pytest.mark.parametrize(("shape", "level"), [(BLOCKS, "Block"), (GROUPS, "Block_Group")])
def test_nearly_all_families_are_served_and_proved(shape, level):
    problems = families(shape, 24)
    found = estimate_flat(problems, planned(level))
    served = [each for each in found if each is not None]
    assert len(served) >= 22
    for each in served:
        assert each.diagnostics.status is FamilyStatus.OPTIMAL
        assert each.diagnostics.solver == PROJECTED
        assert abs(each.diagnostics.gap) <= 1e-6
        assert each.diagnostics.rounding_gap == 0
    assert all(
        family.diagnostics.status is FamilyStatus.OPTIMAL for family in estimate_families(problems, planned(level))
    )


def test_a_family_has_the_same_estimate_whatever_is_beside_it():
    problems = families(BLOCKS, 10)
    together = estimate_families(problems, planned("Block"))
    backwards = estimate_families(problems[::-1], planned("Block"))[::-1]
    for problem, one, two in zip(problems, together, backwards, strict=True):
        alone = estimate_family(problem, planned("Block"))
        for other in (two, alone):
            np.testing.assert_array_equal(one.counts, other.counts)
            assert one.diagnostics == other.diagnostics


def test_the_certificate_is_that_of_single_families():
    problems = families(BLOCKS, 12)
    estimation, (fit,), _ = told(problems, "Block")
    bound = estimation.bounds[0].rows
    for place, problem in enumerate(problems):
        multipliers = fit.multipliers[0][bound.start[place] : bound.start[place + 1]]
        x = own(estimation, fit, place)
        shaped = (multipliers.reshape(problem.bounds[0].lower.shape),)
        proved = certify(
            problem, estimation.plan, problem.parent.cells, Candidate(x, None, np.zeros(x.shape[1]), shaped, None)
        )
        assert proved.certified
        assert fit.proof.objective[place] == pytest.approx(proved.objective, rel=1e-12)
        assert fit.proof.gap[place] == pytest.approx(proved.gap * max(1.0, proved.objective), abs=1e-7)
        assert fit.proof.violation[place] == pytest.approx(proved.primal_residual, abs=1e-12)


@pytest.mark.parametrize(("shape", "level"), [(BLOCKS, "Block"), (GROUPS, "Block_Group")])
def test_the_chain_of_solvers_finds_no_better_fit(shape, level):
    problems = families(shape, 8)
    estimation, fits, _ = told(problems, level)
    plan = replace(estimation.plan, solvers=CHAIN)
    for place, problem in enumerate(problems):
        if not fits[0].proved[place]:
            continue
        names = plan.passes[0].least_squares[0]
        measured = tuple(measurement for measurement in problem.measurements if measurement.query.name in names)
        solved = solve_chain(PosedFamily(restrict(replace(problem, measurements=measured), plan)), plan)
        assert fits[0].proof.objective[place] == pytest.approx(solved.certificate.objective, rel=2e-6, abs=2e-6)


def test_no_multipliers_prove_more_than_is_true():
    problems = families(BLOCKS, 6)
    estimation, (fit,), _ = told(problems, "Block")
    generator = np.random.default_rng(5)
    answers, bounds = list(estimation.answers.values()), estimation.bounds
    for size in (0.01, 1.0, 100.0):
        wild = [size * generator.normal(size=len(bound.lower)) for bound in bounds]
        proof = certify_flat(fit.families, answers, bounds, fit.x, wild)
        assert (proof.gap[fit.proved] >= -1e-9 * fit.proof.objective[fit.proved]).all()


def test_a_point_that_is_moved_is_not_proved():
    problems = families(BLOCKS, 6)
    estimation, (fit,), _ = told(problems, "Block")
    answers, bounds = list(estimation.answers.values()), estimation.bounds
    none = [np.zeros(len(bound.lower)) for bound in bounds]
    for place in range(len(problems)):
        x, moved = fit.x.copy(), own(estimation, fit, place).copy()
        cell = int(np.argmax((moved > 1).sum(axis=0)))
        first, second = np.flatnonzero(moved[:, cell] > 1)[:2]
        moved[first, cell] += 0.05
        moved[second, cell] -= 0.05
        x[slice(*fit.families.first_entry[place : place + 2])] = moved.ravel()
        before = certify_flat(fit.families, answers, bounds, fit.x, none)
        after = certify_flat(fit.families, answers, bounds, x, none)
        assert after.distance[place] >= 0.05
        assert after.gap[place] > before.gap[place] + 1e-4
        others = np.arange(len(problems)) != place
        np.testing.assert_array_equal(after.gap[others], before.gap[others])
        x[fit.families.first_entry[place]] += 0.01  # and one that is not divided
        assert certify_flat(fit.families, answers, bounds, x, none).violation[place] >= 0.0099


def distance(problem, queries, x, counts):
    """What a rounding minimises: the distance of all sums from the real ones."""
    found = 0.0
    for query in queries:
        rows = query.row_of(problem.parent.cells)
        _, index = np.unique(rows, return_inverse=True)
        off = np.zeros((len(x), index.max() + 1))
        np.add.at(off.T, index, (counts - x).T)
        found += np.abs(off).sum()
    return found


def with_exact_totals(problem, level):
    """The family, each of whose children has as many people as an estimate of it gave; nothing else binds it."""
    people = estimate_family(problem, planned(level)).counts.sum(axis=1, keepdims=True)
    return replace(problem, bounds=(FamilyBounds("total", planned(level).queries["total"], people, people),))


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize(("shape", "level"), [(BLOCKS, "Block"), (GROUPS, "Block_Group")])
def test_a_linear_program_rounds_no_better(shape, level, exact):
    problems, compared = families(shape, 12), 0
    if exact:
        problems = [with_exact_totals(problem, level) for problem in problems]
    estimation, fits, _ = told(problems, level)
    plan = estimation.plan
    results = estimate_flat(problems, plan)
    passes = [[plan.queries[name] for name in inner] for inner in plan.passes[0].rounding]
    for place, (problem, result) in enumerate(zip(problems, results, strict=True)):
        if result is None:
            continue
        x = own(estimation, fits[-1], place)
        exact = presolve(restrict(replace(problem, measurements=()), plan))
        expected = round_in_passes(exact, x, passes, "nearest")
        for inner in passes:
            mine, theirs = (distance(problem, inner, x, counts) for counts in (result.counts, expected.counts))
            assert mine == pytest.approx(theirs, abs=1e-3)
        compared += 1
    assert compared >= 10


def test_later_passes_hold_earlier_answers_within_the_band_in_people():
    problems = families(GROUPS, 12, people=60_000.0)
    _, (first, second), (band,) = told(problems, "Block_Group")
    at = band.rows.of_entries(second.families)
    totals = np.bincount(at, second.x, minlength=len(band.lower))
    proved = (first.proved & second.proved)[band.rows.of_values]
    assert proved.sum() > 20
    assert (totals >= band.lower - 1e-6)[proved].all()
    assert (totals <= band.upper + 1e-6)[proved].all()
    width = (band.upper - band.lower)[proved]
    assert (width <= 2 * SLACK + 1e-6).all()


def test_what_ties_people_together_in_other_ways_is_left_to_the_chain():
    problem, plan = families(BLOCKS, 1)[0], planned("Block")
    assert estimate_flat([problem], plan)[0] is not None
    many = replace(BLOCKS, children=MOST_ENTRIES // 100)
    assert estimate_flat([family_2020(many, 1)[0]], plan) == [None]
    assert estimate_flat([replace(problem, parent=None)], plan) == [None]
    assert estimate_flat([problem], replace(plan, passes=())) == [None]
    assert estimate_flat([problem], replace(plan, solvers=CHAIN)) == [None]
    assert estimate_flat([problem], replace(plan, rounding="released")) == [None]
    assert estimate_flat([problem], replace(plan, passes=plan.passes * 2)) == [None]


def test_bounds_that_cannot_be_met_are_left_to_the_chain_which_says_so():
    problem, plan = families(BLOCKS, 1)[0], planned("Block")
    (bound,) = problem.bounds
    lower = bound.lower.copy()
    lower[:, 0] = problem.parent.total
    impossible = replace(problem, bounds=(FamilyBounds("class", bound.query, lower, np.maximum(bound.upper, lower)),))
    other = families(BLOCKS, 2)[1]
    first, second = estimate_families([impossible, other], plan)
    assert first.diagnostics.status is FamilyStatus.INFEASIBLE
    assert second.diagnostics.solver == PROJECTED


def test_people_in_a_structural_zero_are_found():
    problem, plan = families(BLOCKS, 1)[0], planned("Block")
    plan = replace(plan, zero_cells=problem.parent.cells[:1])
    assert estimate_flat([problem], plan) == [None]
    assert estimate_family(problem, plan).diagnostics.status is FamilyStatus.INFEASIBLE


def test_an_answer_that_is_missing_is_an_error():
    problem, plan = families(BLOCKS, 1)[0], planned("Block")
    short = [
        replace(measurement, rows=measurement.rows[:-1], values=measurement.values[:, :-1])
        for measurement in problem.measurements[:1]
    ]
    with pytest.raises(EstimationError, match="lacks answers"):
        estimate_family(replace(problem, measurements=(*short, *problem.measurements[1:])), plan)


def test_cells_that_nothing_tells_apart_are_one():
    problems = families(GROUPS, 5)
    flat = FlatFamilies.of(problems)
    total = problems[0].measurements[-1].query
    query = next(measurement.query for measurement in problems[0].measurements if measurement.query.name == "hhgq")
    coarse = flat.coarsened([query])
    for place, problem in enumerate(problems):
        part = slice(*coarse.first[place : place + 2])
        rows = query.row_of(problem.parent.cells)
        kept, first, index = np.unique(rows, return_index=True, return_inverse=True)
        order = np.argsort(first)
        np.testing.assert_array_equal(coarse.cells[part], problem.parent.cells[first[order]])
        np.testing.assert_array_equal(coarse.parent[part], np.bincount(index, problem.parent.counts)[order])
        assert len(kept) == part.stop - part.start
    assert flat.coarsened([total, problems[0].measurements[0].query]).parent.sum() == flat.parent.sum()


def test_rows_are_found_family_by_family():
    query = families(BLOCKS, 1)[0].measurements[0].query
    cells = [np.array([3, 9, 700], dtype=np.int32), np.array([1, 9], dtype=np.int32)]
    parents = [Histogram.from_pairs(2016, cell, np.ones(len(cell), dtype=np.int64)) for cell in cells]
    problems = [replace(families(BLOCKS, 1)[0], parent=parent) for parent in parents]
    flat = FlatFamilies.of(problems)
    rows = [np.unique(query.row_of(cell)) for cell in cells]
    rows[1] = rows[1][:1]
    found = FlatRows.of(query, rows, flat.children).index(flat)
    expected = [
        np.searchsorted(rows[0], query.row_of(cells[0])),
        [0, 0 if len(np.unique(query.row_of(cells[1]))) == 1 else -2],
    ]
    np.testing.assert_array_equal(found, np.concatenate(expected))
    assert (FlatRows.of(query, [None, None], flat.children).index(flat) == query.row_of(flat.cells)).all()


def with_passes(made):
    """The plan of a wild family, all queries at once or its total first; the cells are rounded with their classes."""
    names = tuple(measurement.query.name for measurement in made.problem.measurements)
    first = (("total",),) if "total" in names and len(names) > 1 else ()
    fits = (*first, names if not first else tuple(name for name in names if name != "total"))
    query = made.problem.measurements[0].query
    shape = query.shape
    sums = Query("total", shape, tuple(np.zeros(size, dtype=np.int64) for size in shape))
    cells = Query("detailed", shape, tuple(np.arange(size) for size in shape))
    known = {measurement.query.name: measurement.query for measurement in made.problem.measurements}
    rounding = ((sums.name,), (cells.name,)) if first else ((sums.name, cells.name),)
    outer = OuterPass(least_squares=fits, rounding=rounding)
    return replace(
        made.plan, solvers=(PROJECTED, *CHAIN), passes=(outer,), queries=known | {"total": sums, "detailed": cells}
    )


@pytest.mark.parametrize("chunk", [0, *(pytest.param(each, marks=pytest.mark.slow) for each in range(1, 8))])
def test_wild_families_are_estimated_as_by_the_chain(wild, chunk):
    """Bounds of every kind: what is served is proved, keeps every rule, and is no farther from the answers."""
    served = 0
    for seed in range(chunk, 320, 8):
        made = wild(seed)
        plan = with_passes(made)
        (found,) = estimate_flat([made.problem], plan)
        expected = estimate_family(made.problem, replace(plan, solvers=CHAIN))
        if found is None:
            continue
        served += 1
        assert found.diagnostics.status is FamilyStatus.OPTIMAL, seed
        assert broken_rules(made.problem, plan, found.cells, found.counts) == (), seed
        assert expected.diagnostics.status is FamilyStatus.OPTIMAL, seed
        if len(plan.passes[0].least_squares) == 1:
            estimation = _Estimation([made.problem], plan)
            fit = estimation._fit(0, [])
            posed = PosedFamily(restrict(made.problem, plan))
            best = solve_chain(posed, replace(plan, solvers=CHAIN)).certificate.objective
            assert fit.proof.objective[0] == pytest.approx(best, rel=3e-6, abs=3e-6), seed
    assert served >= 10


def test_a_rounding_does_not_depend_on_last_digits():
    problems = families(GROUPS, 24)
    estimation, fits, _ = told(problems, "Block_Group")
    rounded, _ = estimation._rounded(fits[-1].x, estimation._open())
    generator = np.random.default_rng(3)
    within = np.minimum(fits[-1].proof.distance, 1e-6)[estimation.families.family_of_entry]
    x = fits[-1].x
    moved = np.where(x > 0, np.maximum(x + within * generator.uniform(-1, 1, len(x)), 0.0), 0.0)
    again, _ = estimation._rounded(moved, estimation._open())
    same = [
        np.array_equal(rounded[slice(*estimation.families.first_entry[place : place + 2])],
                       again[slice(*estimation.families.first_entry[place : place + 2])])
        for place in range(len(problems))
    ]  # fmt: skip
    assert np.mean(same) >= 0.95
    assert (fits[-1].proof.distance[fits[-1].proved] < 1e-5).mean() > 0.9
