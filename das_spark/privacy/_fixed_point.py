"""Rigorous arithmetic on nonnegative real numbers: integers, directed rounding, no floating point.

A number is enclosed between two integers in units of 2^-precision. Every operation rounds the lower end down and the
upper end up, so the true value never leaves its enclosure; how wide the enclosure is decides only whether a question
can be answered.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

_REDUCTION = 8  # Halvings of the exponent beyond 1: below 2^-8 the series gains more than eight bits a term.
_GUARD = 16  # Bits that rounding in the series may cost before the squarings.


@dataclass(frozen=True, slots=True)
class Enclosure:
    """A real number x >= 0 with lower <= x 2^precision <= upper.

    Args:
        lower: Lower end, in units of 2^-precision.
        upper: Upper end, in the same units.
        precision: Number of bits after the binary point.
    """

    lower: int
    upper: int
    precision: int

    def __add__(self, other: Enclosure) -> Enclosure:
        """Sum of two numbers of equal precision."""
        return Enclosure(self.lower + other.lower, self.upper + other.upper, self.precision)

    def __mul__(self, other: Enclosure) -> Enclosure:
        """Product of two numbers of equal precision."""
        lower = (self.lower * other.lower) >> self.precision
        return Enclosure(lower, -(-(self.upper * other.upper) >> self.precision), self.precision)

    def __truediv__(self, other: Enclosure) -> Enclosure:
        """Quotient of two numbers of equal precision; the divisor must be certainly positive."""
        lower = (self.lower << self.precision) // other.upper
        return Enclosure(lower, -(-(self.upper << self.precision) // other.lower), self.precision)

    def scaled(self, factor: int) -> Enclosure:
        """The number times an integer factor >= 0."""
        return Enclosure(self.lower * factor, self.upper * factor, self.precision)

    def complement(self) -> Enclosure:
        """1 - x for x <= 1."""
        one = 1 << self.precision
        return Enclosure(max(0, one - self.upper), one - self.lower, self.precision)

    def rounded(self, precision: int) -> Enclosure:
        """The same number with fewer bits, rounded outward."""
        drop = self.precision - precision
        return Enclosure(self.lower >> drop, -(-self.upper >> drop), precision)

    def floor(self, bits: int) -> int | None:
        """The integer part of x 2^bits for bits <= precision, or None where the enclosure leaves it open."""
        drop = self.precision - bits
        lower = self.lower >> drop
        return lower if lower == self.upper >> drop else None

    def nearest_float(self) -> float | None:
        """The double nearest to x, or None where the enclosure leaves it open."""
        one = 1 << self.precision
        lower = self.lower / one  # True division of integers is correctly rounded.
        return lower if lower == self.upper / one else None


def enclose(value: Fraction, precision: int) -> Enclosure:
    """The tightest enclosure of a fraction >= 0 at the given precision: an enclosure one unit wide at most."""
    scaled = value.numerator << precision
    return Enclosure(scaled // value.denominator, -(-scaled // value.denominator), precision)


def exp_minus(exponent: Fraction, precision: int) -> Enclosure:
    """Enclose exp(-exponent) for an exponent >= 0.

    The exponent is halved s times, the exponential series (alternating, decreasing terms) is summed with its
    remainder bounded by the first omitted term, and the result is squared s times.
    """
    if exponent == 0:
        one = 1 << precision
        return Enclosure(one, one, precision)
    if exponent >= precision:  # exp(-x) < 2^-x: the value lies below one unit.
        return Enclosure(0, 1, precision)
    halvings = _REDUCTION + max(0, (-(-exponent.numerator // exponent.denominator)).bit_length())
    working = precision + halvings + _GUARD
    result = _series(enclose(exponent / (1 << halvings), working))
    for _ in range(halvings):
        result = result * result
    return result.rounded(precision)


def _series(argument: Enclosure) -> Enclosure:
    """exp(-y) for 0 < y < 1 by its alternating series."""
    precision = argument.precision
    one = 1 << precision
    term = Enclosure(one, one, precision)
    lower = upper = one
    sign = 1
    for index in range(1, precision):
        product = term * argument
        term = Enclosure(product.lower // index, -(-product.upper // index), precision)
        sign = -sign
        lower += term.lower if sign > 0 else -term.upper
        upper += term.upper if sign > 0 else -term.lower
        if term.upper <= 1:
            break
    # What was left out lies between 0 and one further term, which is smaller than the last one.
    return Enclosure(max(0, lower - term.upper), upper + term.upper, precision)
