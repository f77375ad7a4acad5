"""Violins from frequencies, against scipy's density of the residuals themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gaussian_kde

from das_spark.evaluation.metrics import Frequencies, frequencies_of
from das_spark.evaluation.violins import NARROWEST, violin, violin_limit


@given(st.lists(st.integers(-200, 200), min_size=5, max_size=80).map(np.array))
def test_a_violin_is_the_density_as_a_part_of_its_largest_value(values):
    found = violin(frequencies_of(values), 1000.0)
    assert found.mean == pytest.approx(values.mean())
    if np.ptp(values) == 0:
        assert found.heights.size == found.widths.size == 0
        return
    assert (found.heights[0], found.heights[-1]) == (values.min(), values.max())
    factor = max(len(values) ** -0.2, NARROWEST / values.std(ddof=1))
    density = gaussian_kde(values, bw_method=factor)(found.heights)
    assert found.widths == pytest.approx(density / density.max(), abs=1e-9)


def test_violins_are_cut_and_means_are_not():
    residuals = frequencies_of(np.concatenate([np.arange(-20, 21), [4100]]))
    found = violin(residuals, 10.0)
    assert (found.heights[0], found.heights[-1]) == (-10, 10)
    assert found.mean == pytest.approx(4100 / 42)


def test_residuals_beyond_the_limit_leave_only_a_mean():
    found = violin(frequencies_of(np.array([50, 60])), 10.0)
    assert found.heights.size == 0
    assert found.mean == 55


def test_billions_of_residuals_are_no_more_than_their_frequencies():
    residuals = Frequencies(np.arange(-2, 3), np.array([1, 2, 4, 2, 1]) * 10**11)
    found = violin(residuals, 5.0)
    assert found.mean == 0
    assert found.widths == pytest.approx(found.widths[::-1])
    # With so many residuals the narrowest kernel holds: no teeth between whole numbers.
    assert (np.diff(found.widths[: found.widths.size // 2]) > 0).all()


def test_the_limit_shows_most_residuals_and_every_mean():
    many = frequencies_of(np.arange(-1000, 1001))
    assert violin_limit([[many]]) == pytest.approx(975)
    assert violin_limit([[many], [frequencies_of(np.array([2000]))]]) == pytest.approx(2200)
    assert violin_limit([[frequencies_of(np.zeros(4, dtype=np.int64))]]) == 1
    assert violin_limit([]) == 1
