"""Certain tails: every integer against mpmath, and every decision against the definition of a quantile."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise
from typing import Any

import mpmath
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.privacy import DiscreteGaussian, DiscreteLaplace, Mechanism
from das_spark.privacy.sampling import certain_tails, decide, upper_tails

DISTRIBUTIONS: tuple[Mechanism, ...] = (
    DiscreteGaussian(Fraction(1, 20)),
    DiscreteGaussian(Fraction(1, 4)),
    DiscreteGaussian(Fraction(40628, 10000)),
    DiscreteGaussian(Fraction(8000)),
    DiscreteLaplace(Fraction(1, 5)),
    DiscreteLaplace(Fraction(89, 10)),
    DiscreteLaplace(Fraction(320)),
)


@pytest.mark.parametrize("bits", [8, 64, 128])
@pytest.mark.parametrize(
    "mechanism",
    [*DISTRIBUTIONS[:3], pytest.param(DISTRIBUTIONS[3], marks=pytest.mark.slow), *DISTRIBUTIONS[4:]],
    ids=str,
)
def test_every_tail_is_the_floor_that_mpmath_finds(
    mechanism: Mechanism, bits: int, distribution: Callable[..., Any]
) -> None:
    tails = upper_tails(mechanism, bits)
    oracle = distribution(mechanism)
    step = max(1, len(tails) // 40)
    for place in [*range(0, len(tails), step), len(tails) - 1]:
        tail = oracle.upper_tail(place + 1, digits=120)
        with mpmath.workdps(120):
            assert tails[place] == int(mpmath.floor(tail * mpmath.mpf(2) ** bits))


@given(
    st.fractions(min_value=Fraction(1, 50), max_value=30, max_denominator=1000),
    st.sampled_from([DiscreteGaussian, DiscreteLaplace]),
    st.integers(1, 80),
)
@settings(max_examples=40)
def test_tails_fall_and_end_in_their_only_zero(
    parameter: Fraction, kind: Callable[[Fraction], Mechanism], bits: int
) -> None:
    tails = upper_tails(kind(parameter), bits)
    assert all(first >= second for first, second in pairwise(tails))
    assert tails[-1] == 0
    assert 0 not in tails[:-1]
    assert tails[0] < 1 << (bits - 1) or bits == 1


@pytest.mark.parametrize("mechanism", DISTRIBUTIONS[:6], ids=str)
def test_a_finer_tail_begins_with_the_digits_of_a_coarser_one(mechanism: Mechanism) -> None:
    coarse, fine = upper_tails(mechanism, 40), upper_tails(mechanism, 100)
    assert [value >> 60 for value in fine[: len(coarse)]] == list(coarse)


@pytest.mark.parametrize(
    "mechanism", [each for each in DISTRIBUTIONS[:6] if each != DiscreteGaussian(Fraction(8000))], ids=str
)
def test_a_decision_is_the_quantile_of_the_whole_cell(mechanism: Mechanism, distribution: Callable[..., Any]) -> None:
    bits = 10
    oracle = distribution(mechanism)
    reach = len(upper_tails(mechanism, bits)) + 1
    tails = {value: oracle.upper_tail(value) for value in range(1, reach + 2)}

    def below(value: int) -> mpmath.mpf:
        """P(X <= value)."""
        return tails[-value] if value < 0 else 1 - tails[value + 1]

    for draw in range(1 << bits):
        value = decide(mechanism, draw, bits)
        low, high = mpmath.mpf(draw) / (1 << bits), mpmath.mpf(draw + 1) / (1 << bits)
        inside = [each for each in range(-reach, reach + 1) if low < below(each) < high]
        outside = draw in (0, (1 << bits) - 1)
        if value is None:
            assert inside or outside
        else:
            assert not inside
            assert below(value - 1) <= low
            assert high <= below(value)


def test_decisions_are_symmetric() -> None:
    for mechanism in DISTRIBUTIONS[:6]:
        for draw in range(1 << 8):
            value, mirrored = decide(mechanism, draw, 8), decide(mechanism, 255 - draw, 8)
            assert (value is None and mirrored is None) or value == -(mirrored or 0)


@pytest.mark.parametrize("mechanism", [DISTRIBUTIONS[1], DISTRIBUTIONS[2], DISTRIBUTIONS[5]], ids=str)
def test_tails_that_stay_open_are_computed_again_with_more_bits(mechanism: Mechanism) -> None:
    assert certain_tails(mechanism, 64, 4) is None
    assert upper_tails(mechanism, 64, 4) == upper_tails(mechanism, 64)
