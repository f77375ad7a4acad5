"""The two distributions: probabilities, variances and the scales that a budget buys."""

from __future__ import annotations

import math
from fractions import Fraction

import mpmath
import pytest

from das_spark.errors import BudgetError
from das_spark.privacy import DiscreteGaussian, DiscreteLaplace, Framework
from das_spark.privacy.mechanisms import mechanism_for
from das_spark.privacy.sampling import upper_tails

BITS = 128


def probability(mechanism: DiscreteGaussian, value: int) -> float:
    """P(X = value) from the package's own certain tails."""
    tails = [0, *upper_tails(mechanism, BITS), 0, 0, 0, 0, 0]
    if value == 0:
        return 1 - 2 * tails[1] / (1 << BITS)
    return (tails[value] - tails[value + 1]) / (1 << BITS)


@pytest.mark.parametrize(
    ("sigma_squared", "expected"),
    [
        (Fraction(1), (0.39894228, 0.24197072, 0.05399097, 0.00443185)),
        (Fraction(1, 4), (0.78657071, 0.10645077, 0.00026387, 0.00000001)),
        (Fraction(40628, 10000), (0.19792349, 0.17500468, 0.12097806, 0.06538351)),
    ],
)
def test_gaussian_probabilities_have_their_published_values(
    sigma_squared: Fraction, expected: tuple[float, ...]
) -> None:
    found = [probability(DiscreteGaussian(sigma_squared), value) for value in range(4)]
    assert found == pytest.approx(expected, abs=6e-9)


@pytest.mark.parametrize(
    ("sigma_squared", "expected", "tolerance"),
    [
        ("1/20", 9.0792e-5, 1e-9),
        ("1/10", 0.0132967, 5e-8),
        ("1/4", 0.2150127, 5e-8),
        ("1/2", 0.4989791, 5e-8),
        ("1", 0.999999789, 5e-10),
        ("2", 2 - 2.4e-15, 5e-16),
        ("5", 5.0, 0.0),
        ("8000", 8000.0, 0.0),
    ],
)
def test_gaussian_variances_have_their_reference_values(sigma_squared: str, expected: float, tolerance: float) -> None:
    assert abs(DiscreteGaussian(Fraction(sigma_squared)).variance() - expected) <= tolerance


@pytest.mark.parametrize("sigma_squared", ["1/50", "1/20", "7/3", "40628/10000", "97", "99", "101", "12345/7"])
def test_gaussian_variances_are_correctly_rounded(sigma_squared: str) -> None:
    value = Fraction(sigma_squared)
    with mpmath.workdps(80):
        rate = mpmath.mpf(value.denominator) / (2 * value.numerator)
        reach = int(40 * math.sqrt(value)) + 10
        weights = [(k, mpmath.exp(-rate * k * k)) for k in range(-reach, reach + 1)]
        expected = mpmath.fsum(k * k * w for k, w in weights) / mpmath.fsum(w for _, w in weights)
        assert DiscreteGaussian(value).variance() == float(expected)


@pytest.mark.parametrize("scale", ["1/100", "1/5", "1", "89/10", "1280/27", "320", "100000", str(2**128)])
def test_laplace_variances_are_correctly_rounded(scale: str) -> None:
    value = Fraction(scale)
    with mpmath.workdps(120):
        q = mpmath.exp(-mpmath.mpf(value.denominator) / value.numerator)
        assert DiscreteLaplace(value).variance() == float(2 * q / (1 - q) ** 2)


@pytest.mark.parametrize("kind", [DiscreteLaplace, DiscreteGaussian])
@pytest.mark.parametrize("parameter", [2**128 + Fraction(1, 3), Fraction(10**60), Fraction(10**310)])
def test_noise_whose_variance_no_number_could_hold_is_refused(kind: type, parameter: Fraction) -> None:
    """From 2^160 on variances were divided by 0, and from 2^1024 on parameters were no doubles."""
    with pytest.raises(BudgetError, match=r"about 2\^\d+ is too wide, 2\^128 the widest"):
        kind(parameter)


def test_the_gaussian_variance_never_exceeds_sigma_squared() -> None:
    for number in range(1, 60):
        sigma_squared = Fraction(number, 7)
        assert Fraction(DiscreteGaussian(sigma_squared).variance()) <= sigma_squared * (1 + Fraction(1, 1 << 52))


def test_a_pure_budget_buys_scale_two_over_epsilon_without_rounding() -> None:
    spent = Fraction(1, 4) * Fraction(1, 4) * Fraction(27, 40)
    distribution = mechanism_for(Framework.PURE_DP, spent)
    assert distribution == DiscreteLaplace(Fraction(1280, 27))
    assert float(distribution.scale) == pytest.approx(47.4074, abs=5e-5)


def test_a_concentrated_budget_buys_sigma_squared_one_over_rho_without_rounding() -> None:
    spent = Fraction(293764, 114921) * Fraction(1440, 4099) * Fraction(3773, 4097)
    distribution = mechanism_for(Framework.ZCDP, spent)
    assert distribution == DiscreteGaussian(1 / spent)
    assert float(distribution.sigma_squared) == pytest.approx(1.2092, abs=5e-5)


@pytest.mark.parametrize("spent", [Fraction(0), Fraction(-1, 2), 0.5, 1])
def test_what_is_not_an_exact_positive_fraction_is_refused(spent: object) -> None:
    with pytest.raises(BudgetError):
        mechanism_for(Framework.PURE_DP, spent)  # type: ignore[arg-type]
    with pytest.raises(BudgetError):
        DiscreteGaussian(spent)  # type: ignore[arg-type]


def test_a_distribution_describes_itself_with_its_exact_parameter() -> None:
    assert "scale 1280/27" in DiscreteLaplace(Fraction(1280, 27)).describe()
    assert "sigma^2 9/2" in DiscreteGaussian(Fraction(9, 2)).describe()


def test_budgets_of_a_framework_are_numbers_of_epsilon_or_rho() -> None:
    assert [each.symbol for each in (Framework.PURE_DP, Framework.ZCDP)] == ["epsilon", "rho"]


def test_noise_for_several_records_is_as_much_wider_as_they_change_the_answers() -> None:
    assert mechanism_for(Framework.PURE_DP, Fraction(3, 7), 5) == DiscreteLaplace(Fraction(70, 3))
    assert mechanism_for(Framework.ZCDP, Fraction(3, 7), 5) == DiscreteGaussian(Fraction(175, 3))
    assert mechanism_for(Framework.ZCDP, Fraction(3, 7), 1) == mechanism_for(Framework.ZCDP, Fraction(3, 7))
