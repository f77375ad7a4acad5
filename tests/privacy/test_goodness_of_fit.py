"""The drawn values follow their distribution, and samplers that are slightly wrong are found out.

Every one is compared with probabilities that mpmath computes; see conftest.py for the false-alarm rate and the power.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from das_spark.privacy import (
    CumulativeTable,
    DiscreteGaussian,
    DiscreteLaplace,
    GeounitAddresses,
    KeyedStream,
    Mechanism,
    cumulative_table,
    sample,
)

ROWS = 1000
DISTRIBUTIONS: tuple[Mechanism, ...] = (
    *(DiscreteGaussian(Fraction(text)) for text in ("1/20", "1/10", "1/4", "1", "40628/10000", "100", "8000")),
    *(DiscreteLaplace(Fraction(text)) for text in ("1/5", "1", "89/10", "474/10", "1422/10", "320")),
)
ROUNDING_SHOWS: tuple[Mechanism, ...] = (
    *(DiscreteGaussian(Fraction(text)) for text in ("1/4", "1", "40628/10000")),
    *(DiscreteLaplace(Fraction(text)) for text in ("1/5", "1")),
)


def addresses(first: int, last: int) -> GeounitAddresses:
    return GeounitAddresses.of(map(str, range(first, last)))


def scaled(mechanism: Mechanism, factor: Fraction) -> Mechanism:
    """The same distribution with its scale times a factor."""
    if isinstance(mechanism, DiscreteLaplace):
        return DiscreteLaplace(mechanism.scale * factor)
    return DiscreteGaussian(mechanism.sigma_squared * factor**2)


@dataclass(frozen=True)
class Exam:
    """One distribution with everything needed to test samples of it."""

    mechanism: Mechanism
    reach: int
    probabilities: NDArray[np.float64]
    draws: int
    counted: Callable[..., Any]
    fit: Callable[..., float]

    def p_value(self, stream: KeyedStream, drawn_from: Mechanism, spoil: Callable[..., Any] | None = None) -> float:
        """Draw in pieces, spoil what was drawn, count, compare with the distribution."""
        table = cumulative_table(drawn_from)
        counts = None
        for first in range(0, self.draws // ROWS, ROWS):
            geounits = addresses(first, min(first + ROWS, self.draws // ROWS))
            values = sample(table, stream, geounits, np.arange(ROWS)).reshape(-1)
            piece = self.counted(values if spoil is None else spoil(values), self.reach)
            counts = piece if counts is None else counts + piece
        return self.fit(counts, self.probabilities)


@pytest.fixture
def exam(
    distribution: Callable[..., Any],
    counted: Callable[..., Any],
    fit: Callable[..., float],
    draws_for: Callable[[float], int],
) -> Callable[[Mechanism], Exam]:
    """The exam of a distribution."""

    def make(mechanism: Mechanism) -> Exam:
        deviation = float(np.sqrt(mechanism.variance()))
        reach = int(18 * deviation) + 6
        return Exam(mechanism, reach, distribution(mechanism).probabilities(reach), draws_for(deviation), counted, fit)

    return make


def shifted_by_one(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return values + 1


def one_sign_flipped(values: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.where(values == 1, -1, values)


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", DISTRIBUTIONS, ids=str)
def test_draws_follow_their_distribution(
    mechanism: Mechanism, exam: Callable[[Mechanism], Exam], new_stream: Callable[..., KeyedStream], level: float
) -> None:
    p_value = exam(mechanism).p_value(new_stream(), mechanism)
    assert p_value > level, f"{mechanism}: p = {p_value:.3g}, level {level:.3g}"


@pytest.mark.statistical
@pytest.mark.parametrize(
    "mechanism",
    [*DISTRIBUTIONS[:-2], *(pytest.param(distribution, marks=pytest.mark.slow) for distribution in DISTRIBUTIONS[-2:])],
    ids=str,
)
def test_wrong_samplers_are_found_out(
    mechanism: Mechanism, exam: Callable[[Mechanism], Exam], new_stream: Callable[..., KeyedStream], level: float
) -> None:
    examiner = exam(mechanism)
    found = {
        "scale x 0.9": examiner.p_value(new_stream("a"), scaled(mechanism, Fraction(9, 10))),
        "scale x 1.1": examiner.p_value(new_stream("b"), scaled(mechanism, Fraction(11, 10))),
        "shifted": examiner.p_value(new_stream("c"), mechanism, shifted_by_one),
        "flipped": examiner.p_value(new_stream("d"), mechanism, one_sign_flipped),
    }
    accepted = {name: p_value for name, p_value in found.items() if p_value > level}
    assert not accepted, f"{mechanism}: not rejected at {level:.3g}: {accepted}"


@pytest.mark.statistical
@pytest.mark.parametrize("mechanism", ROUNDING_SHOWS, ids=str)
def test_a_rounded_continuous_distribution_is_found_out(
    mechanism: Mechanism, exam: Callable[[Mechanism], Exam], new_stream: Callable[..., KeyedStream], level: float
) -> None:
    examiner = exam(mechanism)
    words = new_stream().words(addresses(0, examiner.draws // ROWS), np.arange(ROWS)).reshape(-1)
    uniform = (words.astype(np.float64) + 0.5) / 2.0**64
    if isinstance(mechanism, DiscreteLaplace):
        continuous = stats.laplace.ppf(uniform, scale=float(mechanism.scale))
    else:
        continuous = stats.norm.ppf(uniform, scale=float(mechanism.sigma_squared) ** 0.5)
    counts = examiner.counted(np.rint(continuous).astype(np.int64), examiner.reach)
    p_value = examiner.fit(counts, examiner.probabilities)
    assert p_value < level, f"{mechanism}: p = {p_value:.3g} is not rejected at {level:.3g}"


@pytest.mark.statistical
@pytest.mark.parametrize(
    "mechanism", [DiscreteGaussian(Fraction(40628, 10000)), DiscreteLaplace(Fraction(89, 10))], ids=str
)
@pytest.mark.slow
def test_draws_that_are_refined_follow_their_distribution(
    mechanism: Mechanism,
    distribution: Callable[..., Any],
    counted: Callable[..., Any],
    fit: Callable[..., float],
    new_stream: Callable[..., KeyedStream],
    level: float,
) -> None:
    table = CumulativeTable(mechanism, 6)
    reach = int(18 * mechanism.variance() ** 0.5)
    values = sample(table, new_stream(), addresses(0, 300), np.arange(200)).reshape(-1)
    p_value = fit(counted(values, reach), distribution(mechanism).probabilities(reach))
    assert p_value > level, f"{mechanism}: p = {p_value:.3g}, level {level:.3g}"


@pytest.mark.parametrize("mechanism", DISTRIBUTIONS, ids=str)
def test_the_controls_differ_from_the_distribution_and_from_each_other(mechanism: Mechanism) -> None:
    less, more = scaled(mechanism, Fraction(9, 10)), scaled(mechanism, Fraction(11, 10))
    assert less.variance() < mechanism.variance() < more.variance()
    values = np.array([-1, 0, 1, 2])
    assert shifted_by_one(values).tolist() == [0, 1, 2, 3]
    assert one_sign_flipped(values).tolist() == [-1, 0, -1, 2]


def test_the_statistics_reject_what_they_should_and_no_more(
    counted: Callable[..., Any], fit: Callable[..., float]
) -> None:
    probabilities = np.array([0.25, 0.5, 0.25])
    fair = np.repeat([-1, 0, 1], [2500, 5000, 2500])
    lopsided = np.repeat([-1, 0, 1], [2000, 5000, 3000])
    peaked = np.repeat([-1, 0, 1], [2000, 6000, 2000])
    assert fit(counted(fair, 1), probabilities) > 0.99
    assert fit(counted(lopsided, 1), probabilities) < 1e-12
    assert fit(counted(peaked, 1), probabilities) < 1e-12
