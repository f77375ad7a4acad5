"""Stratified samples against all samples that could have been drawn."""

from __future__ import annotations

from itertools import combinations, product
from math import isnan, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.attack.sample import StratifiedSample, allocation

STRATA = (np.array([1, 4, 2, 7, 7]), np.array([20, 30, 10, 26]), np.array([100, 50]))
TAKEN = (2, 3, 2)


def every_sample():
    """Numbers and strata of every sample of so many of each stratum."""
    for chosen in product(*(combinations(range(len(own)), n) for own, n in zip(STRATA, TAKEN, strict=True))):
        y = np.concatenate([own[list(places)] for own, places in zip(STRATA, chosen, strict=True)])
        yield StratifiedSample(np.repeat(np.arange(3), TAKEN), np.array(list(map(len, STRATA)))), y


def test_totals_are_right_on_average_and_their_standard_error_too():
    found = [(sample.total(y), sample.ratio(y, np.ones(len(y), dtype=np.int64))) for sample, y in every_sample()]
    totals = np.array([total for total, _ in found])
    everybody, people = sum(map(len, STRATA)), sum(int(own.sum()) for own in STRATA)
    assert totals.mean() == pytest.approx(people)
    # The number of geounits is known exactly, so that the ratio to it is a mean, with an unbiased variance.
    means = np.array([estimate.value for _, estimate in found])
    assert means == pytest.approx(totals / everybody)
    assert np.mean([estimate.error**2 for _, estimate in found]) == pytest.approx(means.var())


def test_a_ratio_of_two_numbers_that_vary():
    sample = StratifiedSample(np.array([0, 0, 1, 1]), np.array([4, 2]))
    y, x = np.array([1, 3, 5, 6]), np.array([2, 4, 10, 10])
    found = sample.ratio(y, x)
    rate = (4 * 2 + 2 * 5.5) / (4 * 3 + 2 * 10)
    residual = np.array([1 - rate * 2, 3 - rate * 4])
    # The second stratum was looked at as a whole.
    variance = 16 * (1 - 2 / 4) * residual.var(ddof=1) / 2
    assert found.value == pytest.approx(rate)
    assert found.error == pytest.approx(sqrt(variance) / 32)


def test_what_is_not_known():
    sample = StratifiedSample(np.array([0, 1, 1]), np.array([3, 2]))
    assert isnan(sample.ratio(np.array([0, 0, 0]), np.array([0, 0, 0])).value)
    one = sample.ratio(np.array([1, 1, 0]), np.array([1, 1, 1]))
    assert (one.value, isnan(one.error)) == (pytest.approx(0.8), True)
    # That stratum has nothing of what is asked for.
    assert sample.ratio(np.array([0, 1, 0]), np.array([0, 1, 1])).error == 0


def test_a_whole_population_has_no_error():
    sample = StratifiedSample(np.array([0, 1, 1]), np.array([1, 2]))
    assert sample.ratio(np.array([1, 2, 3]), np.array([2, 4, 9])).error == 0


@given(st.lists(st.integers(0, 60), min_size=1, max_size=7), st.integers(1, 150))
def test_allocation(geounits, number):
    every = np.array(geounits)
    taken = allocation(every, number)
    assert (taken <= every).all()
    assert (taken >= np.minimum(every, 2)).all()
    assert taken.sum() == max(min(number, every.sum()), np.minimum(every, 2).sum())
    # A stratum gives fewer than another one only if it has no more.
    fewer = taken < taken.max() - 1
    assert (taken[fewer] == every[fewer]).all()
