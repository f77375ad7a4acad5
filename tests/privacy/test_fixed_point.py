"""Enclosures really enclose: against fractions, and against mpmath for the exponential."""

from __future__ import annotations

from fractions import Fraction

import mpmath
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.privacy._fixed_point import Enclosure, enclose, exp_minus

PRECISION = 60
positive = st.fractions(min_value=Fraction(1, 10**6), max_value=50)


def holds(enclosure: Enclosure, value: Fraction) -> bool:
    scaled = value * (1 << enclosure.precision)
    return enclosure.lower <= scaled <= enclosure.upper


@given(positive, positive)
def test_every_operation_encloses_the_exact_result(first: Fraction, second: Fraction) -> None:
    left, right = enclose(first, PRECISION), enclose(second, PRECISION)
    assert holds(left + right, first + second)
    assert holds(left * right, first * second)
    assert holds(left / right, first / second)
    assert holds(left.scaled(7), first * 7)
    assert holds(left.rounded(20), first)


@given(st.fractions(min_value=0, max_value=1))
def test_the_complement_encloses_one_minus_the_value(value: Fraction) -> None:
    assert holds(enclose(value, PRECISION).complement(), 1 - value)


@given(st.fractions(min_value=0, max_value=300), st.sampled_from([8, 64, 200, 500]))
def test_the_exponential_is_enclosed_and_a_few_units_wide(exponent: Fraction, precision: int) -> None:
    result = exp_minus(exponent, precision)
    with mpmath.workprec(precision + 200):
        value = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * mpmath.mpf(2) ** precision
        assert result.lower <= value <= result.upper
    assert result.upper - result.lower <= 2


@pytest.mark.parametrize("exponent", [Fraction(1, 10**30), Fraction(10**9), Fraction(1, 3) ** 40])
def test_extreme_exponents_are_enclosed(exponent: Fraction) -> None:
    result = exp_minus(exponent, 128)
    with mpmath.workprec(400):
        value = mpmath.exp(-mpmath.mpf(exponent.numerator) / exponent.denominator) * mpmath.mpf(2) ** 128
        assert result.lower <= value <= result.upper


def test_the_exponential_of_zero_is_exactly_one() -> None:
    assert exp_minus(Fraction(0), 10) == Enclosure(1024, 1024, 10)


def test_a_floor_is_given_only_when_it_is_certain() -> None:
    assert Enclosure(17, 19, 4).floor(0) == 1
    assert Enclosure(15, 17, 4).floor(0) is None


def test_the_nearest_double_is_given_only_when_it_is_certain() -> None:
    third = Fraction(1, 3)
    assert enclose(third, 200).nearest_float() == 1 / 3
    assert enclose(third, 20).nearest_float() is None
