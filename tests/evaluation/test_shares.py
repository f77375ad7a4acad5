"""The criteria, against fractions geounit by geounit."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.evaluation.shares import PARTS, largest_share, relative_error

counts = st.lists(st.integers(0, 40), min_size=3, max_size=3)
geounits = st.lists(st.tuples(counts, counts), min_size=1, max_size=8)


def expected(truth, estimate):
    """The definition, in exact fractions: within, undefined, difference."""
    if sum(truth) == sum(estimate) == 0:
        return True, False, Fraction(0)
    if 0 in (sum(truth), sum(estimate)):
        return False, True, Fraction(0)
    group = estimate.index(max(estimate))
    difference = abs(Fraction(estimate[group], sum(estimate)) - Fraction(truth[group], sum(truth)))
    return difference <= Fraction(5, 100), False, difference


def sparse(pairs):
    """Answers that are positive somewhere, as the tally gives them."""
    truth, estimate = (np.array([pair[side] for pair in pairs], dtype=np.int64) for side in (0, 1))
    owner, place = np.nonzero((truth > 0) | (estimate > 0))
    return len(pairs), owner, truth[owner, place], estimate[owner, place]


def check(found, pairs):
    for number, (truth, estimate) in enumerate(pairs):
        within, undefined, difference = expected(list(truth), list(estimate))
        assert (bool(found.within[number]), bool(found.undefined[number])) == (within, undefined)
        assert abs(int(found.parts[number]) - difference * PARTS) <= 1


@given(geounits)
def test_the_share_of_the_largest_group_is_that_of_the_definition(pairs):
    check(largest_share(*sparse(pairs)), pairs)


def test_of_equal_groups_the_first_in_the_order_of_the_answers_is_taken():
    # Protected 5, 5: the first group has 0.5 against 0.52; the second has it against 0.48.
    found = largest_share(*sparse([([52, 48, 0], [5, 5, 0]), ([100, 0, 0], [0, 3, 3])]))
    assert found.parts.tolist() == [PARTS * 2 // 100, PARTS // 2]


@pytest.mark.parametrize(
    ("truth", "estimate", "within", "undefined"),
    [
        ([0, 0, 0], [0, 0, 0], True, False),
        ([0, 0, 0], [0, 1, 0], False, True),
        ([2, 0, 0], [0, 0, 0], False, True),
        ([2, 0, 0], [7, 0, 0], True, False),
        ([10, 10, 0], [11, 9, 0], True, False),  # exactly 5 points, which is more in floating point
        ([1_000, 1_000, 0], [1_101, 899, 0], False, False),
    ],
)
def test_empty_geounits_and_the_edge_of_the_tolerance(truth, estimate, within, undefined):
    found = largest_share(*sparse([(truth, estimate)]))
    assert (bool(found.within[0]), bool(found.undefined[0])) == (within, undefined)
    assert not (undefined and found.parts[0])


def test_no_answer_anywhere_is_no_error():
    found = largest_share(*sparse([([0, 0, 0], [0, 0, 0])] * 2))
    assert found.within.tolist() == [True, True]


def test_populations_whose_products_do_not_fit_64_bits_are_compared_exactly():
    half = 10**12
    pairs = [([half, half, 0], [half + half // 10, half - half // 10, 0])]
    check(largest_share(*sparse(pairs)), pairs)
    pairs = [([half, half, 0], [half + half // 10 + 1, half - half // 10 - 1, 0])]
    check(largest_share(*sparse(pairs)), pairs)
    assert not largest_share(*sparse(pairs)).within[0]


@given(st.lists(st.tuples(st.integers(0, 300), st.integers(0, 300)), min_size=1))
def test_the_relative_error_of_a_total_of_zero_is_the_error(pairs):
    truth, estimate = np.array(pairs).T
    found = relative_error(truth, estimate)
    for number, (true, protected) in enumerate(pairs):
        error = Fraction(abs(protected - true), max(1, true))
        assert bool(found.within[number]) == (error <= Fraction(5, 100))
        assert abs(int(found.parts[number]) - error * PARTS) <= 1
    assert not found.undefined.any()
