"""Densities from frequencies, against scipy's on the residuals themselves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import gaussian_kde

from das_spark.evaluation import kernel_density as module
from das_spark.evaluation.kernel_density import kernel_density, standard_deviation

tables = st.dictionaries(st.integers(-60, 60), st.integers(1, 9), min_size=2, max_size=25).map(
    lambda found: (np.array(sorted(found)), np.array([found[value] for value in sorted(found)]))
)


@given(tables, st.floats(0.05, 2))
def test_the_density_is_that_of_the_expanded_residuals(table, factor):
    values, counts = table
    residuals = np.repeat(values, counts)
    at = np.linspace(-80, 80, 33)
    deviation = standard_deviation(values, counts)
    assert deviation == pytest.approx(residuals.std(ddof=1))
    expected = gaussian_kde(residuals, bw_method=factor)(at)
    found = kernel_density(values, counts, factor * deviation, at)
    assert found == pytest.approx(expected, rel=1e-9, abs=1e-300)


def test_residuals_need_not_be_whole():
    values, counts = np.arange(-30, 31) / 7, np.full(61, 3)
    at = np.linspace(-5, 5, 11)
    expected = gaussian_kde(np.repeat(values, 3), bw_method=0.1)(at)
    assert kernel_density(values, counts, 0.1 * standard_deviation(values, counts), at) == pytest.approx(expected)


@pytest.mark.parametrize("kernel", [0.1, 3.0, 500.0])
def test_blocks_and_what_is_out_of_reach_change_nothing(kernel, monkeypatch):
    generator = np.random.default_rng(1)
    values = np.unique(generator.integers(-5000, 5000, 700))
    counts = generator.integers(1, 1000, values.size)
    at = np.linspace(-6000, 6000, 999)
    everything = np.exp(-0.5 * ((at[:, None] - values) / kernel) ** 2) @ counts
    expected = everything / (counts.sum() * kernel * np.sqrt(2 * np.pi))
    for block in (1, 10_000, 2**30):
        monkeypatch.setattr(module, "_BLOCK", block)
        assert kernel_density(values, counts, kernel, at) == pytest.approx(expected, rel=1e-12, abs=0)
