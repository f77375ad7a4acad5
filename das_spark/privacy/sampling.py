"""Exact integer noise by address: certain tails, cumulative tables, and the sampler.

*Tails.* Both distributions are symmetric about 0 and their tails T_j = P(X >= j) are no multiples of 2^-bits, so
floor(T_j 2^bits) for j = 1, 2, ... says everything about the distribution function F at that precision. Each floor is
certain: where an enclosure leaves it open, all is computed again with more bits.

*Tables.* For a draw of `bits` bits, the boundaries are B_k = floor(F(k) 2^bits). The draw u stands for a uniform
number somewhere in [u, u + 1) 2^-bits. No F(k) is a multiple of 2^-bits, so the number lies between F(k-1) and F(k)

    for certain  if and only if  B_(k-1) < u < B_k.                                                               (P-5)

Where u equals a boundary it is open and more bits decide. The outermost boundaries are 0 and 2^bits - 1, so (P-5)
covers the two end cells as well, behind which lies the unbounded rest of each tail. By symmetry B_(-j) = floor(T_j
2^bits) and B_(j-1) = 2^bits - 1 - B_(-j).

*Sampling.* A value is the quantile of its distribution at the uniform number whose binary digits are the leading bits
of word 0, word 1, ... of the answer's stream. Word 0 decides almost always; where it does not, further words do,
without end if need be, so that the distribution is exact in the tails as well. The same answer always gets the same
value, however it is asked for.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import BudgetError, PrivacyGuardError
from das_spark.privacy._fixed_point import Enclosure, enclose, exp_minus
from das_spark.privacy.mechanisms import DiscreteGaussian, DiscreteLaplace, Mechanism

if TYPE_CHECKING:
    from das_spark.privacy.keyed import GeounitAddresses, KeyedStream

_START_GUARD: Final = 64


@lru_cache(maxsize=16)
def upper_tails(mechanism: Mechanism, bits: int, guard: int = _START_GUARD) -> tuple[int, ...]:
    """floor(P(X >= j) 2^bits) for j = 1, 2, ..., down to the first that is 0."""
    while True:
        tails = certain_tails(mechanism, bits, guard)
        if tails is not None:
            return tails
        guard *= 2


def certain_tails(mechanism: Mechanism, bits: int, guard: int) -> tuple[int, ...] | None:
    """All floors with `guard` bits to spare, or None where one of them stays open."""
    if isinstance(mechanism, DiscreteLaplace):
        return _laplace_tails(mechanism, bits, bits + guard)
    return _gaussian_tails(mechanism, bits, guard)


def _laplace_tails(mechanism: DiscreteLaplace, bits: int, precision: int) -> tuple[int, ...] | None:
    """T_j = q^j / (1 + q): the geometric series over (P-1)."""
    ratio = exp_minus(1 / mechanism.scale, precision)
    tail = ratio / (enclose(Fraction(1), precision) + ratio)
    floors: list[int] = []
    while not floors or floors[-1] > 0:
        floor = tail.floor(bits)
        if floor is None:
            return None
        floors.append(floor)
        tail = tail * ratio
    return tuple(floors)


def _gaussian_tails(mechanism: DiscreteGaussian, bits: int, guard: int) -> tuple[int, ...] | None:
    """T_j = (g_j + g_(j+1) + ...) / Z with the weights of (P-2).

    Beyond the last term g_m the ratios only fall, so the rest of the series lies between g_m and g_m / (1 - r_m).
    """
    precision = bits + guard
    weights, rest = _gaussian_weights(mechanism, precision, negligible=1 << (guard // 2))
    sums = [rest]
    for weight in reversed(weights[1:]):
        sums.append(sums[-1] + weight)
    sums.reverse()
    reciprocal = enclose(Fraction(1), precision) / (weights[0] + sums[0].scaled(2))
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
    weight = enclose(Fraction(1), precision)
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


WORD_BITS: Final = 64
_UNDECIDED: Final = int(np.iinfo(np.int32).min)
_GUIDE_BITS: Final = 16  # 65,536 entries of four bytes stay in the second-level cache.
#: Entries of a table on each side: the widest takes 5 seconds and 0.5 GB to make (Laplace noise, whose tails are a
#: series: 2 seconds). Wider noise has a standard deviation of 110,000 people (Laplace: 130,000), and tells nothing.
_MOST_GAUSSIAN_ENTRIES: Final = 1 << 20
_MOST_LAPLACE_ENTRIES: Final = 1 << 22


class CumulativeTable:
    """Boundaries of one distribution at a fixed number of bits, with a guide table on their leading bits.

    Picklable: a task receives the boundaries and builds the guide again.

    Args:
        mechanism: The distribution.
        bits: Bits of a draw, 1 to 64. Production uses 64; fewer bits only make refinement more frequent.

    Raises:
        BudgetError: If the distribution is so wide that its table would not fit.
    """

    __slots__ = ("_boundaries", "_guide", "_offset", "_shift", "bits", "mechanism")

    def __init__(self, mechanism: Mechanism, bits: int = WORD_BITS) -> None:  # noqa: D107 - Args stand with the class.
        _check_size(mechanism, bits)
        self._set(mechanism, bits, _boundaries(upper_tails(mechanism, bits), bits))

    def _set(self, mechanism: Mechanism, bits: int, boundaries: NDArray[np.uint64]) -> None:
        self.mechanism = mechanism
        self.bits = bits
        self._boundaries = boundaries
        self._offset = len(boundaries) // 2
        self._shift = np.uint64(bits - min(bits, _GUIDE_BITS))
        self._guide = self._build_guide()

    def __reduce__(self) -> tuple[object, ...]:
        """Travel with the boundaries, so that no worker computes them again."""
        return (_restore, (self.mechanism, self.bits, self._boundaries))

    @property
    def boundaries(self) -> NDArray[np.uint64]:
        """B_k for k = lowest, lowest + 1, ...; shape (n,), in units of 2^-bits; read only."""
        return self._boundaries

    @property
    def lowest(self) -> int:
        """The k of the first boundary."""
        return -self._offset

    def _build_guide(self) -> NDArray[np.int32]:
        """The value of each leading pattern whose whole range lies strictly between two boundaries, else undecided."""
        patterns = np.arange(1 << min(self.bits, _GUIDE_BITS), dtype=np.uint64)
        first = patterns << self._shift
        last = first + ((np.uint64(1) << self._shift) - np.uint64(1))
        below = np.searchsorted(self._boundaries, first, side="left")
        inside = np.searchsorted(self._boundaries, last, side="right") - below
        guide: NDArray[np.int32] = np.where(inside > 0, _UNDECIDED, below - self._offset).astype(np.int32)
        return guide

    def look_up(self, words: NDArray[np.uint64]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Decide draws by (P-5).

        Args:
            words: uint64 words, shape (n,); the leading `bits` bits of each are the draw.

        Returns:
            The values, int32 of shape (n,), and the positions, int64, of draws that are still open: their values mean
            nothing.
        """
        draws = words if self.bits == WORD_BITS else words >> np.uint64(WORD_BITS - self.bits)
        values = self._guide.take((draws >> self._shift).view(np.int64))
        rest = np.flatnonzero(values == _UNDECIDED)
        hard = draws.take(rest)
        above = np.searchsorted(self._boundaries, hard, side="left")
        values[rest] = above - self._offset
        undecided = rest[self._boundaries.take(above) == hard]
        return values, undecided


@lru_cache(maxsize=256)
def cumulative_table(mechanism: Mechanism, bits: int = WORD_BITS) -> CumulativeTable:
    """The table of a distribution, built once a process.

    Args:
        mechanism: The distribution.
        bits: Bits of a draw, 1 to 64.

    Raises:
        BudgetError: If the distribution is so wide that its table would not fit.
        ValueError: If there are fewer bits than 1 or more than 64.
    """
    return CumulativeTable(mechanism, bits)


def _restore(mechanism: Mechanism, bits: int, boundaries: NDArray[np.uint64]) -> CumulativeTable:
    table = CumulativeTable.__new__(CumulativeTable)
    boundaries.flags.writeable = False
    table._set(mechanism, bits, boundaries)
    return table


def _boundaries(tails: tuple[int, ...], bits: int) -> NDArray[np.uint64]:
    """All boundaries from the tails, ascending: B_(-J), ..., B_(-1), B_0, ..., B_(J-1)."""
    last = (1 << bits) - 1
    result = np.array([*reversed(tails), *(last - tail for tail in tails)], dtype=np.uint64)
    result.flags.writeable = False
    return result


def require_table(mechanism: Mechanism) -> None:
    """Refuse a distribution whose table would not fit, without making it.

    Raises:
        BudgetError: It is so wide.
    """
    _check_size(mechanism, WORD_BITS)


def _check_size(mechanism: Mechanism, bits: int) -> None:
    if not 1 <= bits <= WORD_BITS:
        raise ValueError(f"bits must be 1 to {WORD_BITS}, are {bits}")
    reach = bits * math.log(2)
    if isinstance(mechanism, DiscreteLaplace):
        entries, most = reach * float(mechanism.scale), _MOST_LAPLACE_ENTRIES
    else:
        entries, most = math.sqrt(2 * reach * float(mechanism.sigma_squared)), _MOST_GAUSSIAN_ENTRIES
    if entries > most:
        raise BudgetError(
            f"noise with {mechanism.describe()} is too wide: its table would have {entries:.3g} entries on each side, "
            f"more than {most}",
            hint="give this query a larger share, or leave it out: such noise tells nothing",
        )


_CHUNK: Final = 1 << 14  # Answers at a time: words, guide and values stay in the second-level cache.


def sample(
    table: CumulativeTable, stream: KeyedStream, geounits: GeounitAddresses, answers: NDArray[np.integer]
) -> NDArray[np.int64]:
    """Noise of some answers of every geounit.

    Args:
        table: Table of the distribution.
        stream: Random words of the domain (product, table, geolevel, attempt, query).
        geounits: Addresses of the geounits, n; none stands twice in them.
        answers: Indices of the answers, whole numbers from 0, shape (r,), none twice.

    Returns:
        int64 of shape (n, r), in people.

    Raises:
        PrivacyGuardError: If an answer stands twice, or does not fit its field.
    """
    answers = np.asarray(answers)
    if len(np.unique(answers)) != len(answers):
        raise PrivacyGuardError("an answer of a geounit stands twice in one call for noise")
    result = np.empty((len(geounits), len(answers)), dtype=np.int64)
    step = max(1, _CHUNK // max(1, len(answers)))
    for start in range(0, len(geounits), step):
        part = geounits.part(slice(start, start + step))
        values, undecided = table.look_up(stream.words(part, answers).reshape(-1))
        block = result[start : start + step].reshape(-1)
        block[:] = values
        for place in undecided:
            unit, answer = divmod(int(place), len(answers))
            block[place] = _refine(table, stream, part.part(slice(unit, unit + 1)), answers[answer : answer + 1])
    return result


def sample_groups(
    table: CumulativeTable,
    stream: KeyedStream,
    geounits: GeounitAddresses,
    sizes: NDArray[np.int64],
    answers: NDArray[np.integer],
    widths: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Noise of some answers of every geounit, where groups of geounits, such as families, have answers of their own.

    Args:
        table: Table of the distribution.
        stream: As in `sample`.
        geounits: Addresses of the geounits of all groups, one group after the other; none stands twice in them.
        sizes: How many geounits each group has, shape (g,).
        answers: Indices of the answers, ascending within each group, one group after the other.
        widths: How many answers each group has, shape (g,).

    Returns:
        int64, in people, group by group, geounit by geounit, answer by answer: what `sample` gives group by group.

    Raises:
        PrivacyGuardError: As `sample`; or answers of a group are not ascending.
    """
    answers = np.asarray(answers)
    first = np.cumsum(widths)[:-1]
    ascending = np.diff(answers) > 0
    ascending[first[(first > 0) & (first < len(answers))] - 1] = True
    if not ascending.all():
        raise PrivacyGuardError("an answer of a geounit stands twice in one call for noise, or before its place")
    values, undecided = table.look_up(stream.words_of_groups(geounits, sizes, answers, widths))
    result = values.astype(np.int64)
    if len(undecided):
        group = np.repeat(np.arange(len(sizes)), sizes)
        ends = np.cumsum(widths[group])
        starts = np.cumsum(widths) - widths
        for place in undecided.tolist():
            unit = int(np.searchsorted(ends, place, side="right"))
            answer = starts[group[unit]] + place - (ends[unit] - widths[group[unit]])
            result[place] = _refine(table, stream, geounits.part(slice(unit, unit + 1)), answers[answer : answer + 1])
    return result


def _refine(table: CumulativeTable, stream: KeyedStream, geounit: GeounitAddresses, answer: NDArray[np.integer]) -> int:
    """The value of one answer, from as many words as it takes."""
    number = words = 0
    while True:
        word = int(stream.words(geounit, answer, words)[0, 0])
        number = number << table.bits | word >> (WORD_BITS - table.bits)
        words += 1
        value = decide(table.mechanism, number, words * table.bits)
        if value is not None:
            return value
