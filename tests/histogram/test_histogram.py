"""Sparse histograms: sums, round trips, and what they refuse."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import InputError
from das_spark.histogram import Histogram

DENSE = st.lists(st.integers(0, 5), min_size=1, max_size=30)
MOST = 2**63 - 1


@given(DENSE)
def test_dense_and_sparse_are_the_same_counts(counts):
    histogram = Histogram.from_dense(counts)
    assert histogram.dense().tolist() == counts
    assert histogram.total == sum(counts)
    assert histogram.cells.tolist() == [cell for cell, count in enumerate(counts) if count]
    assert (histogram.cells.dtype, histogram.counts.dtype) == (np.int32, np.int64)


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4))), st.randoms())
def test_pairs_in_any_order_are_summed(pairs, shuffler):
    expected = [0] * 10
    for cell, count in pairs:
        expected[cell] += count
    shuffler.shuffle(pairs)
    histogram = Histogram.from_pairs(10, [cell for cell, _ in pairs], [count for _, count in pairs])
    assert histogram.dense().tolist() == expected
    assert histogram == Histogram.from_dense(expected)


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=1))
def test_a_sum_is_the_sum_of_the_dense_counts(pairs):
    left, right = (np.array(side) for side in zip(*pairs, strict=True))
    added = Histogram.from_dense(left) + Histogram.from_dense(right)
    np.testing.assert_array_equal(added.dense(), left + right)
    assert added == Histogram.from_dense(right) + Histogram.from_dense(left)


def test_a_histogram_may_be_empty():
    empty = Histogram.from_pairs(7, [], [])
    assert empty.total == 0
    assert empty.dense().tolist() == [0] * 7
    assert empty == Histogram.from_dense([0] * 7)
    assert empty != Histogram.from_dense([0] * 8)


def test_histograms_survive_pickling():
    histogram = Histogram.from_dense([0, 3, 0, 1])
    assert pickle.loads(pickle.dumps(histogram)) == histogram


def test_equality_is_with_histograms_only_and_they_are_not_hashable():
    histogram = Histogram.from_dense([1])
    assert histogram != [1]
    with pytest.raises(TypeError, match="unhashable"):
        hash(histogram)


def test_the_arrays_cannot_be_changed():
    with pytest.raises(ValueError, match="read-only"):
        Histogram.from_dense([1, 2]).counts[0] = 7


@pytest.mark.parametrize(
    ("cells", "counts", "message"),
    [
        ([1, 0], [1, 1], "sorted and unique"),
        ([1, 1], [1, 1], "sorted and unique"),
        ([0, 1], [1, 0], "positive"),
        ([0, 9], [1, 1], "outside 0 to 8"),
        ([-1], [1], "outside 0 to 8"),
        ([0], [-5], "negative"),
        ([0, 1], [1], "one count for each cell"),
        ([[0]], [[1]], "one count for each cell"),
        ([0], [1.0], "counts of a histogram must be 64-bit integers"),
        ([0.0], [1], "cells of a histogram must be 64-bit integers"),
        ([0, 1], [MOST, 1], "more than a 64-bit integer holds"),
        ([0], np.array([MOST + 1], dtype=np.uint64), "more than a 64-bit integer holds"),
        ([0], [2**70], "64-bit integers"),
    ],
)
def test_arrays_that_are_no_histogram_are_refused_without_naming_a_count(cells, counts, message):
    with pytest.raises(InputError, match=message) as caught:
        Histogram(9, np.array(cells), np.array(counts))
    assert str(MOST) not in str(caught.value)
    assert "5" not in caught.value.message


def test_the_largest_total_is_allowed():
    assert Histogram.from_pairs(2, [0, 1, 0], [MOST - 2, 1, 1]).total == MOST


def test_repeated_cells_that_overflow_are_refused():
    with pytest.raises(InputError, match="more than a 64-bit integer holds"):
        Histogram.from_pairs(2, [0, 0], [MOST, 1])


def test_a_sum_that_overflows_is_refused():
    large = Histogram.from_dense([MOST])
    with pytest.raises(InputError, match="more than a 64-bit integer holds"):
        large + large


def test_histograms_of_different_schemas_cannot_be_added():
    with pytest.raises(InputError, match="1 and 2 cells"):
        Histogram.from_dense([1]) + Histogram.from_dense([1, 2])
