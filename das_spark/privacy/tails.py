"""Upper tails of the two laws as certain integers: the numbers that every table and every refinement compares with.

Both laws are symmetric about 0 and their tails T_j = P(X >= j) are no multiples of 2^-bits, so floor(T_j 2^bits) for
j = 1, 2, ... says everything about the distribution function at that precision. Each floor is certain: where an
enclosure leaves it open, all is computed again with more bits.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from das_spark.privacy.fixed_point import Enclosure, exp_minus
from das_spark.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, Mechanism

_START_GUARD: Final = 64


@lru_cache(maxsize=16)
def upper_tails(mechanism: Mechanism, bits: int) -> tuple[int, ...]:
    """floor(P(X >= j) 2^bits) for j = 1, 2, ..., down to the first that is 0.

    Args:
        mechanism: The law.
        bits: Bits of a draw.

    Returns:
        Non-increasing integers, each certain; only the last one is 0.
    """
    guard = _START_GUARD
    while True:
        tails = _attempt(mechanism, bits, guard)
        if tails is not None:
            return tails
        guard *= 2


def _attempt(mechanism: Mechanism, bits: int, guard: int) -> tuple[int, ...] | None:
    """All floors with `guard` bits to spare, or None where one of them stays open."""
    if isinstance(mechanism, DiscreteLaplace):
        return _laplace_tails(mechanism, bits, bits + guard)
    return _gaussian_tails(mechanism, bits, guard)


def _laplace_tails(mechanism: DiscreteLaplace, bits: int, precision: int) -> tuple[int, ...] | None:
    """T_j = q^j / (1 + q): the geometric series over law (P-1)."""
    ratio = exp_minus(1 / mechanism.scale, precision)
    tail = ratio / (_one(precision) + ratio)
    floors: list[int] = []
    while not floors or floors[-1] > 0:
        floor = tail.floor(bits)
        if floor is None:
            return None
        floors.append(floor)
        tail = tail * ratio
    return tuple(floors)


def _gaussian_tails(mechanism: DiscreteGaussian, bits: int, guard: int) -> tuple[int, ...] | None:
    """T_j = (g_j + g_(j+1) + ...) / Z with the weights of law (P-2).

    Beyond the last term g_m the ratios only fall, so the rest of the series lies between g_m and g_m / (1 - r_m).
    """
    precision = bits + guard
    weights, rest = _gaussian_weights(mechanism, precision, negligible=1 << (guard // 2))
    sums = [rest]
    for weight in reversed(weights[1:]):
        sums.append(sums[-1] + weight)
    sums.reverse()
    reciprocal = _one(precision) / (weights[0] + sums[0].scaled(2))
    floors: list[int] = []
    for partial in sums:
        floor = (partial * reciprocal).floor(bits)
        if floor is None:
            return None
        floors.append(floor)
        if floor == 0:
            return tuple(floors)
    return None  # The rest itself reaches up to the precision of the draw: more guard bits are needed.


def _gaussian_weights(
    mechanism: DiscreteGaussian, precision: int, negligible: int
) -> tuple[list[Enclosure], Enclosure]:
    """g_0, ..., g_(m-1) and an enclosure of g_m + g_(m+1) + ..., where g_m is at most `negligible` units.

    The recursion: g_0 = 1, g_(k+1) = g_k r_k; r_0 = exp(-1/(2 sigma^2)), r_(k+1) = r_k exp(-1/sigma^2).
    """
    ratio = exp_minus(1 / (2 * mechanism.sigma_squared), precision)
    step = exp_minus(1 / mechanism.sigma_squared, precision)
    weight = _one(precision)
    weights: list[Enclosure] = []
    while weight.upper > negligible:
        weights.append(weight)
        weight, ratio = weight * ratio, ratio * step
    bound = weight / ratio.complement()
    return weights, Enclosure(weight.lower, max(bound.upper, weight.upper), precision)


def decide(mechanism: Mechanism, draw: int, bits: int) -> int | None:
    """The value that a draw of any length stands for.

    A draw u stands for a uniform number somewhere in [u, u + 1) 2^-bits; the value is the smallest k with number <
    P(X <= k).

    Args:
        mechanism: The law.
        draw: Integer in [0, 2^bits).
        bits: Bits of the draw.

    Returns:
        The value, or None where the number's cell holds a boundary and further bits must decide.
    """
    tails = upper_tails(mechanism, bits)
    mirrored = (1 << bits) - 1 - draw
    outer = min(draw, mirrored)
    # The tails fall; the first `magnitude` of them are above the draw, counted from its own side.
    magnitude = _count_above(tails, outer)
    if tails[magnitude] == outer:
        return None
    return -magnitude if draw < mirrored else magnitude


def _count_above(tails: tuple[int, ...], outer: int) -> int:
    """How many entries of a falling sequence that ends in 0 are greater than `outer` >= 0."""
    low, high = 0, len(tails) - 1
    while low < high:
        middle = (low + high) // 2
        if tails[middle] > outer:
            low = middle + 1
        else:
            high = middle
    return low


def _one(precision: int) -> Enclosure:
    one = 1 << precision
    return Enclosure(one, one, precision)
