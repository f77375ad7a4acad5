"""Divisions of a budget: variances by dense least squares on whole trees, optima by convexity and by random search."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.errors import EstimationError
from das_spark.estimation import Allotment, TreeVariances, Wanted, best_allocation, determines_cells
from das_spark.estimation import allocation as module
from das_spark.histogram import Attribute, Recode, Schema

AGE = Attribute("age", ("0", "1", "2", "3", "4"), (Recode("old", (("no", (0, 1)), ("yes", (2, 3, 4)))),))
SEX = Attribute("sex", ("f", "m"))
SCHEMA = Schema("toy", (AGE, SEX))
NOTHING = np.zeros(0, dtype=np.int32)
SIZES = (3, 2)  # three levels: a root, 3 geounits, 6 leaves
QUERIES = ("total", "old", "age", "age * sex", "sex * old", "detailed")


def matrix(query, cells):
    """Rows by cells, by asking each cell where it counts."""
    rows = query.row_of(cells)
    return (rows[None, :] == np.arange(query.rows)[:, None]).astype(float)


def dense_errors(sizes, allotments, weights, exact, wanted, zero):
    """Standard errors on the whole tree, of all answers: information of all leaves' cells, inverted."""
    cells = np.setdiff1d(np.arange(SCHEMA.size), zero).astype(np.int64)
    counts = [1]
    for size in sizes:
        counts.append(counts[-1] * size)
    leaves = counts[-1]
    sums = [np.kron(np.eye(count), np.ones((1, leaves // count))) for count in counts]
    information = np.zeros((leaves * len(cells),) * 2)
    for each, weight in zip(allotments, weights, strict=True):
        rows = np.kron(sums[each.level], matrix(each.query, cells))
        information += each.precision * weight * rows.T @ rows
    for level in exact:
        rows = np.kron(sums[level], np.ones((1, len(cells))))
        information += 1e7 * rows.T @ rows
    covariance = np.linalg.pinv(information, rcond=1e-15, hermitian=True)
    found = []
    for each in wanted:
        rows = np.kron(sums[each.level][:1], matrix(each.query, cells))
        variances = np.diagonal(rows @ covariance @ rows.T)
        found.append(np.sqrt(variances[matrix(each.query, cells).any(axis=1)]))
    return found


def query(name):
    return SCHEMA.query(name)


MEASURED = ((0, "sex * old"), (0, "age"), (1, "age * sex"), (1, "total"), (2, "old"), (2, "detailed"))
ALLOTMENTS = tuple(Allotment(level, query(name), 0.5) for level, name in MEASURED)
WANTED = (
    Wanted(0, query("age"), 1.0),
    Wanted(1, query("sex * old"), 2.0),
    Wanted(2, query("total"), 1.5),
    Wanted(2, query("detailed"), 3.0),
)
weights = st.lists(st.floats(0.02, 1.0), min_size=len(ALLOTMENTS), max_size=len(ALLOTMENTS))


@given(weights, st.sampled_from([(), (0,), (0, 1)]), st.sampled_from([(), (3,), (0, 1)]))
@settings(deadline=None, max_examples=15)
def test_variances_are_those_of_the_whole_tree(given_weights, exact, zero):
    share = np.array(given_weights) / sum(given_weights)
    zeros = np.array(zero, dtype=np.int32)
    variances = TreeVariances(SIZES, ALLOTMENTS, exact, WANTED, zeros)
    found, _ = variances(share)
    for number, errors in enumerate(dense_errors(SIZES, ALLOTMENTS, share, exact, WANTED, zero)):
        own = np.sqrt(np.maximum(found[variances.wanted == number], 0))
        assert own.max() == pytest.approx(errors.max(), rel=1e-4, abs=1e-3)
        assert own.min() == pytest.approx(errors.min(), rel=1e-4, abs=1e-3)


def test_an_exact_total_tells_nothing_of_what_sums_to_nothing():
    """Of a schema like that of 1940, where the total seems to have a part of 1e-15 in the component of differences."""
    sizes = {"hhgq": 8, "voting": 2, "origin": 2, "race": 6}
    schema = Schema("like_1940", tuple(Attribute(name, tuple(map(str, range(size)))) for name, size in sizes.items()))
    race, detailed = schema.query("race"), schema.query("detailed")
    allotments = [Allotment(0, detailed, 1.0), Allotment(0, race, 1.0)]
    variances = TreeVariances((), allotments, (0,), [Wanted(0, race, 1.0)], NOTHING)
    # 32 cells of variance 1, of which the known total takes a sixth
    assert variances.largest_errors(np.array([1.0, 0.0])) == pytest.approx([np.sqrt(32 * 5 / 6)], rel=1e-6)


@given(st.lists(st.booleans(), min_size=len(ALLOTMENTS), max_size=len(ALLOTMENTS)), st.sampled_from([(), (0,), (0, 1)]))
@settings(deadline=None, max_examples=25)
def test_answers_are_determined_where_they_lie_in_the_span_of_what_is_measured_there_or_below(measured, exact):
    variances = TreeVariances(SIZES, ALLOTMENTS, exact, WANTED, NOTHING)
    cells = np.arange(SCHEMA.size)
    for wanted, found in zip(WANTED, variances.determined(np.array(measured, dtype=float)), strict=True):
        seen = [
            matrix(allotment.query, cells)
            for allotment, weight in zip(ALLOTMENTS, measured, strict=True)
            if weight and allotment.level >= wanted.level
        ]
        if any(level >= wanted.level for level in exact):
            seen.append(np.ones((1, len(cells))))
        known = np.vstack([np.zeros((1, len(cells))), *seen])
        both = np.vstack([known, matrix(wanted.query, cells)])
        assert found == (np.linalg.matrix_rank(both) == np.linalg.matrix_rank(known))


@pytest.mark.parametrize("share", [1e-6, 1e-12, 1e-15])
def test_errors_at_extreme_shares_are_those_of_the_formula(share):
    """Of cells that are measured with next to nothing beside their total: (1 - a / (b + 10 a)) / b."""
    allotments = (Allotment(0, query("total"), 1.0), Allotment(0, query("detailed"), 1.0))
    wanted = (Wanted(0, query("detailed"), 1.0), Wanted(0, query("total"), 1.0))
    variances = TreeVariances((), allotments, (), wanted, NOTHING)
    found, gains = variances(np.array([1.0, share]))
    assert found[0] == pytest.approx((1 - 1 / (share + SCHEMA.size)) / share, rel=1e-9)
    assert found[1] == pytest.approx(1 / (1 + share / SCHEMA.size), rel=1e-9)
    assert gains[0, 1] == pytest.approx((1 - 1 / SCHEMA.size) / share**2, rel=1e-6)


@pytest.mark.parametrize("share", [1.0, 1e-12])
def test_an_exact_total_has_no_error_at_all(share):
    allotments = [Allotment(level, query("detailed"), 1.0) for level in (0, 1)]
    wanted = [Wanted(0, query("total"), 1.0), Wanted(1, query("total"), 1.0), Wanted(1, query("sex"), 1.0)]
    weights = np.array([1.0, share])
    assert TreeVariances((3,), allotments, (0, 1), wanted, NOTHING).largest_errors(weights)[:2] == (0.0, 0.0)
    assert TreeVariances((3,), allotments, (0,), wanted, NOTHING).largest_errors(weights)[0] == 0.0
    assert min(TreeVariances((3,), allotments, (0,), wanted, NOTHING).largest_errors(weights)[1:]) > 0.1


@given(st.lists(st.booleans(), min_size=6, max_size=6), st.booleans())
@settings(deadline=None, max_examples=25)
def test_cells_are_determined_where_queries_and_the_total_have_their_rank(measured, is_total_exact):
    names = [name for name, is_measured in zip(QUERIES, measured, strict=True) if is_measured] or ["total"]
    cells = np.arange(SCHEMA.size)
    rows = [matrix(query(name), cells) for name in names] + [np.full((1, SCHEMA.size), float(is_total_exact))]
    found = determines_cells(list(map(query, names)), NOTHING, is_total_exact=is_total_exact)
    assert found == (np.linalg.matrix_rank(np.vstack(rows)) == SCHEMA.size)


def test_single_children_are_determined_as_their_parents_are():
    allotments = (Allotment(0, query("detailed"), 1.0), Allotment(1, query("detailed"), 0.0))
    wanted = (Wanted(1, query("age"), 1.0),)
    spent = np.ones(2)
    assert TreeVariances((1,), allotments, (), wanted, NOTHING).determined(spent) == (True,)
    assert TreeVariances((2,), allotments, (), wanted, NOTHING).determined(spent) == (False,)


@given(weights)
@settings(deadline=None, max_examples=5)
def test_gains_are_derivatives_and_variances_scale_with_the_total(given_weights):
    share = np.array(given_weights)
    variances = TreeVariances(SIZES, ALLOTMENTS, (0,), WANTED, NOTHING)
    here, gains = variances(share)
    for place in range(len(share)):
        step = np.zeros(len(share))
        step[place] = 1e-5 * share[place]
        above, below = variances(share + step)[0], variances(share - step)[0]
        assert (below - above) / (2 * step[place]) == pytest.approx(gains[:, place], rel=1e-3, abs=1e-4)
    assert variances(2 * share)[0] == pytest.approx(here / 2, rel=1e-6)


def largest(variances, share):
    errors = np.array([each.error for each in WANTED])[variances.wanted]
    return np.sqrt((variances(share)[0] / errors**2).max())


def test_no_other_division_is_better_than_the_bound():
    variances = TreeVariances(SIZES, ALLOTMENTS, (), WANTED, NOTHING)
    start = np.full(len(ALLOTMENTS), 1 / len(ALLOTMENTS))
    best = best_allocation(variances, ALLOTMENTS, WANTED, start)
    assert best.weights.sum() == pytest.approx(1)
    assert best.ratio == pytest.approx(largest(variances, best.weights))
    assert best.bound <= best.ratio <= best.bound * 1.001
    assert best.ratio < 0.99 * largest(variances, start), "there was something to gain"
    generator = np.random.default_rng(5)
    tried = [largest(variances, each) for each in generator.dirichlet(np.ones(len(ALLOTMENTS)), 100)]
    tried += [largest(variances, each) for each in generator.dirichlet(1 + 50 * best.weights, 100)]
    assert min(tried) >= best.bound


def test_each_query_keeps_its_least_weight():
    kept = tuple(Allotment(allotment.level, allotment.query, allotment.precision, 0.1) for allotment in ALLOTMENTS)
    variances = TreeVariances(SIZES, kept, (), WANTED, NOTHING)
    free = best_allocation(variances, ALLOTMENTS, WANTED, np.full(6, 1 / 6))
    bound = best_allocation(variances, kept, WANTED, np.full(6, 1 / 6))
    assert free.weights.min() < 0.05
    assert bound.weights.min() >= 0.1 - 1e-9
    assert bound.ratio > free.ratio


def test_one_query_for_one_target_has_everything():
    alone = (Allotment(0, query("age"), 0.5), Allotment(0, query("sex * old"), 0.5))
    wanted = (Wanted(0, query("age"), 1.0),)
    best = best_allocation(TreeVariances((), alone, (), wanted, NOTHING), alone, wanted, np.array([0.5, 0.5]))
    assert best.weights[0] > 0.99
    # the sum over both halves is known by the other query alone, at the expense of more noise
    assert best.ratio <= np.sqrt(1 / 0.5) * 1.001


def test_what_exact_totals_say_needs_no_budget():
    wanted = (Wanted(0, query("total"), 1.0), Wanted(1, query("total"), 1.0))
    start = np.full(6, 1 / 6)
    exact = TreeVariances(SIZES, ALLOTMENTS, (0, 1), wanted, NOTHING)
    assert best_allocation(exact, ALLOTMENTS, wanted, start).ratio == 0
    half = best_allocation(TreeVariances(SIZES, ALLOTMENTS, (0,), wanted, NOTHING), ALLOTMENTS, wanted, start)
    assert half.ratio > 0


def test_a_search_that_does_not_end_is_said(monkeypatch):
    monkeypatch.setattr(module, "_STEPS", 1)
    variances = TreeVariances(SIZES, ALLOTMENTS, (), WANTED, NOTHING)
    with pytest.raises(EstimationError, match="and not within"):
        best_allocation(variances, ALLOTMENTS, WANTED, np.full(6, 1 / 6))


def test_the_value_is_concave_along_lines():
    variances = TreeVariances(SIZES, ALLOTMENTS, (), WANTED, NOTHING)
    generator = np.random.default_rng(9)
    for one, other in pairwise(generator.dirichlet(np.ones(6), 30)):
        ends = [1 / largest(variances, each) ** 2 for each in (one, other)]
        assert 1 / largest(variances, (one + other) / 2) ** 2 >= sum(ends) / 2 * (1 - 1e-9)
