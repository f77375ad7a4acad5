"""Estimates and standard errors of geounits, and of unions that cut through them, against dense normal equations."""

from __future__ import annotations

from math import ceil, floor, sqrt
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from measured_trees import SCHEMA, WORKLOAD, ZEROS, Dense, Tree, grown

from das_spark.core import MeasuredFamily
from das_spark.core.linear import (
    UNION,
    Statistics,
    decomposition,
    downward,
    interval_reach,
    largest_error,
    upward,
    whole_intervals,
)
from das_spark.estimation import FamilyPlan, UnionPart
from das_spark.privacy import Framework
from das_spark.tabulation import Table, TableColumn

PLAN = FamilyPlan("level", zero_cells=ZEROS, classes=SCHEMA.query("kind"), workload=tuple(WORKLOAD))
#: Some that are answers of queries, and some that no query of the workload asks for.
COUNTED = np.random.default_rng(5).random((6, SCHEMA.size)) < 0.4
COUNTED[0] = True
COUNTED[1] = SCHEMA.select(race=[0, 1])


#: The same as a table: each line a union of cells.
ATTRIBUTES = [attribute.name for attribute in SCHEMA.attributes]
TABLE = Table(
    "T",
    "of any cells",
    "everybody",
    SCHEMA,
    tuple(
        TableColumn(
            f"T{place}",
            f"line {place}",
            min(place, 1),
            tuple(
                tuple((name, (level,)) for name, level in zip(ATTRIBUTES, codes, strict=True))
                for codes in SCHEMA.unravel(np.flatnonzero(row)).tolist()
            ),
        )
        for place, row in enumerate(COUNTED)
    ),
)
#: A column that counts some of these cells twice, and one of them three times.
TIMES = COUNTED[3] * np.where(np.arange(SCHEMA.size) % 2, 1, 2)
TIMES[np.flatnonzero(COUNTED[3])[0]] = 3
TALLIES = Table(
    "U",
    "some cells several times",
    "tallies",
    SCHEMA,
    (
        TableColumn(
            "U0",
            "total",
            0,
            tuple(
                tuple((name, (level,)) for name, level in zip(ATTRIBUTES, codes, strict=True))
                for codes in SCHEMA.unravel(np.repeat(np.arange(SCHEMA.size), TIMES)).tolist()
            ),
            tallies=True,
        ),
    ),
)
WEIGHTS = np.vstack([COUNTED, TIMES])
#: Variance of the normal equations up to which a number is exact: in people squared, noise has 0.5 and more.
EXACT = 1e-9


def carried(tree: Tree, unions: dict[str, set[str]]) -> tuple[dict, dict]:
    """Estimates and variances of geounits and of unions of leaves, family by family."""
    statistics = Statistics.of([TABLE, TALLIES])
    arrays: dict[str, dict] = {}

    def up(parent):
        codes = tree.children[parent]
        for code in codes:
            if code in tree.children:
                up(code)
            else:
                arrays[code] = {UNION + name: UnionPart().array() for name, leaves in unions.items() if code in leaves}
        result = upward(MeasuredFamily(tree.problem(parent), [arrays[code] for code in codes]), PLAN)
        arrays.update(zip(codes, result.children, strict=True))
        arrays[parent] = result.parent

    geounits: dict[str, tuple] = {}
    sums = {name: [np.zeros(len(WEIGHTS)), np.zeros(len(WEIGHTS))] for name in unions}

    def down(parent, given):
        codes = tree.children[parent]
        family = MeasuredFamily(tree.problem(parent), [arrays[code] for code in codes], given)
        result = downward(family, PLAN, statistics)
        moments = result.geounits
        geounits.update(zip(codes, zip(moments.estimates, moments.variances, strict=True), strict=True))
        for name, estimate, variance in zip(
            result.unions.names, result.unions.estimates, result.unions.variances, strict=True
        ):
            sums[name][0] += estimate
            sums[name][1] += variance
        for code, known in zip(codes, result.children, strict=True):
            if code in tree.children:
                down(code, known)

    up("")
    down("", None)
    return geounits, sums


def expected(dense: Dense, leaves) -> tuple[np.ndarray, np.ndarray]:
    chosen = WEIGHTS @ sum((dense.sum_of(leaf) for leaf in leaves), np.zeros((SCHEMA.size, dense.size)))
    return chosen @ dense.mean, np.einsum("si,ij,sj->s", chosen, dense.covariance, chosen)


@pytest.mark.parametrize("exact", ["", "root", "states", "parts"])
@pytest.mark.parametrize("seed", range(8))
def test_geounits_and_unions_have_the_moments_of_the_normal_equations(seed, exact):
    tree = grown(seed, exact=exact, deep=4)
    leaves, generator = tree.leaves, np.random.default_rng(seed)
    unions = {
        "random": {leaf for leaf in leaves if generator.random() < 0.5} or {leaves[0]},
        "one": {leaves[-1]},
        "all": set(leaves),
        "first state": {leaf for leaf in leaves if leaf.startswith(tree.children["0"][0])},
        "run": set(leaves[len(leaves) // 3 :]),
    }
    geounits, sums = carried(tree, unions)
    dense = Dense(tree)
    assert set(geounits) == set(tree.geounits)
    for code, (estimate, variance) in geounits.items():
        own = [leaf for leaf in leaves if leaf.startswith(code)]
        mean, spread = expected(dense, own)
        np.testing.assert_allclose(estimate, mean, atol=1e-8)
        np.testing.assert_allclose(variance, spread, rtol=1e-9, atol=1e-8)
        np.testing.assert_array_equal(variance == 0, spread < EXACT)
    for name, own in unions.items():
        mean, spread = expected(dense, own)
        np.testing.assert_allclose(sums[name][0], mean, atol=1e-8)
        np.testing.assert_allclose(sums[name][1], spread, rtol=1e-9, atol=1e-8)
        np.testing.assert_array_equal(sums[name][1] == 0, spread < EXACT)


def test_a_part_travels_as_an_array():
    part = UnionPart()
    assert UnionPart.of(None, part.array()).is_whole
    algebra = decomposition(PLAN)
    sizes = [len(component.sites) for component in algebra.components]
    blocks = tuple(np.full((size, size), float(number)) for number, size in enumerate(sizes))
    exact = np.arange(algebra.sites) - 1
    array = UnionPart(blocks, blocks, exact).array()
    assert len(array) == UnionPart.numbers(algebra)
    part = UnionPart.of(algebra, array)
    np.testing.assert_equal((part.slope, part.spread), (blocks, blocks))
    np.testing.assert_array_equal(part.exact, exact)


ESTIMATES = st.floats(-1e6, 1e7)
ERRORS = st.one_of(st.just(0.0), st.floats(1e-3, 1e4))
PROBABILITIES = st.floats(0.01, 0.999)
#: By how much an end may lie beyond a whole number and count as it: what is exact is known up to rounding errors.
ROUNDING = 1e-6


def interval(estimate: float, error: float, level: float) -> tuple[int, int]:
    low, high = whole_intervals(np.array([estimate]), np.array([error]), level)
    assert (low.dtype, high.dtype) == (np.int64, np.int64)
    return int(low[0]), int(high[0])


def real_ends(estimate: float, error: float, level: float) -> tuple[float, float]:
    """The interval of real numbers, of a normal error beside which whole numbers are rounded, or by Chebyshev."""
    rounded = NormalDist(0, sqrt(error**2 + 1 / 12)).inv_cdf((1 + level) / 2) + 0.5
    reach = min(rounded, error / sqrt(1 - level))
    return estimate - reach, estimate + reach


def near_whole(number: float) -> bool:
    return abs(number - round(number)) < 10 * ROUNDING


@given(ESTIMATES, ERRORS, PROBABILITIES)
def test_an_interval_is_of_whole_numbers_that_somebody_can_count(estimate, error, level):
    low, high = interval(estimate, error, level)
    assert 0 <= low <= high
    # The nearest count to the estimate that is possible at all is in it, wherever one is between the real ends.
    assert low <= max(round(estimate), 0) <= high or not _has_whole(*real_ends(estimate, error, level))


def _has_whole(least: float, most: float) -> bool:
    return ceil(least) <= floor(most)


@given(ESTIMATES, ERRORS, PROBABILITIES, st.integers(-3, 3))
def test_a_count_is_covered_by_the_whole_interval_exactly_if_it_is_by_the_real_one(estimate, error, level, steps):
    least, most = real_ends(estimate, error, level)
    if near_whole(least) or near_whole(most):
        return  # which side of a count an end is on is a rounding error
    low, high = interval(estimate, error, level)
    narrow = not _has_whole(max(least, 0.0), max(most, 0.0))
    # The counts about both ends decide; all others are as far inside or outside as it gets.
    for truth in {max(round(end) + steps, 0) for end in (least, most, estimate)}:
        inside = least <= truth <= most
        if inside:
            assert low <= truth <= high
        elif not narrow and most >= 0:
            assert not low <= truth <= high


@given(st.integers(0, 10**7), st.floats(-0.999, 0.999))
def test_what_is_exact_is_its_own_interval(count, wrong):
    assert interval(count + wrong * ROUNDING, 0.0, 0.9) == (count, count)


def test_an_interval_without_a_whole_number_is_the_nearest_count():
    assert interval(7.4, 0.1, 0.9) == (7, 7)
    assert interval(7.6, 0.1, 0.9) == (8, 8)
    assert interval(-3.5, 0.1, 0.9) == (0, 0)


def test_all_below_zero_is_zero_and_other_intervals_end_where_they_should():
    estimates, errors = np.array([[-50.0, 3.0], [10.0, 10.5]]), np.array([[10.0, 4.0], [1.0, 2.0]])
    low, high = whole_intervals(estimates, errors, 0.9)  # 1.6449 standard errors to both sides, and about a half
    assert low.tolist() == [[0, 0], [8, 7]]
    assert high.tolist() == [[0, 10], [12, 14]]


@given(ESTIMATES, st.floats(0.01, 1e4), PROBABILITIES, PROBABILITIES)
def test_a_greater_probability_gives_no_narrower_interval(estimate, error, one, other):
    less, more = (interval(estimate, error, level) for level in sorted((one, other)))
    assert more[0] <= less[0]
    assert more[1] >= less[1]


def test_intervals_cover_as_often_as_they_say():
    rng = np.random.default_rng(2020)
    truths = rng.integers(0, 20_000, 200_000)
    errors = rng.uniform(60.0, 600.0, truths.shape)  # wide beside the half that whole numbers need more
    low, high = whole_intervals(truths + errors * rng.standard_normal(truths.shape), errors, 0.9)
    assert np.mean((low <= truths) & (truths <= high)) == pytest.approx(0.9, abs=0.004)  # five standard errors


@given(st.floats(1e-3, 1e6), PROBABILITIES, st.sampled_from(Framework))
def test_the_largest_error_is_the_one_from_which_on_intervals_reach_further(reach, level, framework):
    error = largest_error(reach, level, framework)
    assert interval_reach(np.array(error), level, framework) == pytest.approx(reach, rel=1e-6)
    assert interval_reach(np.array(1.001 * error), level, framework) > reach
