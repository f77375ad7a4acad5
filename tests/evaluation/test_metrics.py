"""Figures from frequencies, against numpy on the residuals themselves."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import InputError
from das_spark.evaluation.metrics import (
    ABSOLUTE_PROBABILITIES,
    PROBABILITIES,
    Frequencies,
    frequencies_of,
    pooled,
)

residuals = st.lists(st.integers(-50, 50), min_size=1, max_size=60).map(np.array)


@given(residuals)
def test_figures_equal_those_of_numpy(values):
    found = frequencies_of(values).figures
    absolute = np.abs(values)
    expected = [np.median(absolute), absolute.mean(), np.percentile(absolute, 95), values.mean()]
    expected += [np.sqrt((values**2).mean()), absolute.max()]
    shown = [found.median_absolute, found.mean_absolute, found.p95_absolute, found.bias, found.rmse, found.largest]
    assert shown == pytest.approx(expected)
    assert found.quantiles == pytest.approx(np.quantile(values, PROBABILITIES))
    assert found.n == len(values)


@given(st.lists(residuals, min_size=1, max_size=4))
def test_pooling_frequencies_is_pooling_residuals(parts):
    together = pooled([frequencies_of(part, double_zero=1) for part in parts])
    direct = frequencies_of(np.concatenate(parts), double_zero=len(parts))
    assert (together.values == direct.values).all()
    assert (together.counts == direct.counts).all()
    assert together.double_zero == direct.double_zero


def test_squares_of_large_residuals_lose_nothing():
    big = 2**40 + 1
    found = Frequencies(np.array([-big, big]), np.array([3, 3])).figures
    assert found.rmse == float(big)
    assert found.bias == 0


def test_nothing_has_no_figures():
    found = pooled([]).figures
    assert found.n == 0
    assert np.isnan(found.bias)


@pytest.mark.parametrize(("values", "counts"), [([1, 1], [1, 1]), ([2, 1], [1, 1]), ([1], [0]), ([1, 2], [1])])
def test_disorderly_frequencies_are_refused(values, counts):
    with pytest.raises(InputError):
        Frequencies(np.array(values), np.array(counts))


def test_the_median_of_an_even_number_lies_between():
    assert frequencies_of(np.array([1, 2, 5, 9])).quantiles([0.5]) == (3.5,)


@given(residuals)
def test_absolute_quantiles_with_and_without_what_is_exact(values):
    found = frequencies_of(values)
    absolute = np.abs(values)
    assert found.exact == (values == 0).sum()
    assert found.absolute_sum == absolute.sum()
    assert found.absolute_quantiles() == pytest.approx(np.quantile(absolute, ABSOLUTE_PROBABILITIES))
    wrong = absolute[absolute > 0]
    expected = np.quantile(wrong, ABSOLUTE_PROBABILITIES) if len(wrong) else []
    assert found.absolute_quantiles(wrong_only=True) == pytest.approx(tuple(expected))


def test_no_residual_has_no_quantile():
    assert pooled([]).absolute_quantiles() == ()
