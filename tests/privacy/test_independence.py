"""Draws of different products, levels, queries, attempts, geounits and answers have nothing to do with each other.

Words are compared bit by bit (a shared bit would show as a correlation of 1), values by their correlations and by a
chi-square test of their joint signs.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from das_spark.privacy import DiscreteLaplace, GeounitAddresses, KeyedStream, cumulative_table, sample

UNITS = 20_000
ROWS = 25
TABLE_SCALE = Fraction(89, 10)


def correlation_p(first: NDArray[np.float64], second: NDArray[np.float64]) -> float:
    """The p-value of no correlation, by the normal distribution (many thousands of pairs with finite moments)."""
    correlation = float(np.corrcoef(first, second)[0, 1])
    return float(2 * stats.norm.sf(abs(correlation) * np.sqrt(len(first))))


def sign_p(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """The p-value of independent signs (negative, zero, positive)."""
    joint = np.zeros((3, 3))
    np.add.at(joint, (np.sign(first) + 1, np.sign(second) + 1), 1)
    return float(stats.chi2_contingency(joint).pvalue)


def smallest_p(first: NDArray[np.int64], second: NDArray[np.int64]) -> float:
    """The smallest of three p-values, times three: values, magnitudes, signs."""
    left, right = first.astype(np.float64), second.astype(np.float64)
    return 3 * min(correlation_p(left, right), correlation_p(np.abs(left), np.abs(right)), sign_p(first, second))


def addresses(count: int) -> GeounitAddresses:
    return GeounitAddresses.of(map(str, range(count)))


def values(stream: KeyedStream) -> NDArray[np.int64]:
    return sample(cumulative_table(DiscreteLaplace(TABLE_SCALE)), stream, addresses(UNITS), np.arange(ROWS))


@pytest.mark.statistical
def test_domains_are_independent(new_stream: Callable[..., KeyedStream], level: float) -> None:
    streams = {
        "base": new_stream(),
        "product": new_stream(product="other"),
        "geolevel": new_stream(geolevel="other"),
        "query": new_stream(query="other"),
        "attempt": new_stream(attempt=1),
    }
    drawn = {name: values(stream).reshape(-1) for name, stream in streams.items()}
    pairs = list(combinations(drawn, 2))
    for first, second in pairs:
        p_value = len(pairs) * smallest_p(drawn[first], drawn[second])
        assert p_value > level, f"{first} and {second}: p = {p_value:.3g}, level {level:.3g}"


@pytest.mark.statistical
@pytest.mark.parametrize("lag", [1, 2, 3])
def test_neighbouring_answers_are_independent(lag: int, new_stream: Callable[..., KeyedStream], level: float) -> None:
    drawn = values(new_stream())
    p_value = smallest_p(drawn[:, lag:].reshape(-1), drawn[:, :-lag].reshape(-1))
    assert p_value > level, f"answers {lag} apart: p = {p_value:.3g}, level {level:.3g}"


@pytest.mark.statistical
@pytest.mark.parametrize("lag", [1, 2, 10])
def test_neighbouring_geounits_are_independent(lag: int, new_stream: Callable[..., KeyedStream], level: float) -> None:
    drawn = values(new_stream())
    p_value = smallest_p(drawn[lag:].reshape(-1), drawn[:-lag].reshape(-1))
    assert p_value > level, f"geounits {lag} apart: p = {p_value:.3g}, level {level:.3g}"


@pytest.mark.statistical
def test_all_bits_of_all_draws_are_fair_and_independent(new_stream: Callable[..., KeyedStream], level: float) -> None:
    stream = new_stream()
    units, answers = addresses(400), np.arange(100)
    words = np.stack([stream.words(units, answers, draw).reshape(-1) for draw in range(3)], axis=1)
    bits = np.unpackbits(words.view(np.uint8), axis=1).astype(np.float64)
    count, columns = bits.shape
    ones = np.array([stats.binomtest(int(total), count).pvalue for total in bits.sum(axis=0)])
    assert ones.min() * columns * 2 > level, f"a bit is not fair: p = {ones.min():.3g}"
    correlations = np.corrcoef(bits, rowvar=False)[np.triu_indices(columns, 1)]
    p_value = 2 * len(correlations) * 2 * stats.norm.sf(np.abs(correlations).max() * np.sqrt(count))
    assert p_value > level, f"two bits agree: p = {p_value:.3g}, level {level:.3g}"


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.02, 0.5, 1.0])
def test_shared_noise_is_found_out(share: float, new_stream: Callable[..., KeyedStream], level: float) -> None:
    first, second = values(new_stream()).reshape(-1), values(new_stream(query="other")).reshape(-1)
    shared = np.where(np.arange(len(first)) % 100 < 100 * share, first, second)
    p_value = smallest_p(first, shared)
    assert p_value < level, f"{share:.0%} of the noise is shared and p = {p_value:.3g}"
