"""Cumulative tables of the two laws, for drawing by the million.

For a law with distribution function F and a draw of `bits` bits, the boundaries are B_k = floor(F(k) 2^bits). The
draw u stands for a uniform number somewhere in [u, u + 1) 2^-bits. No F(k) is a multiple of 2^-bits, so the number
lies between F(k-1) and F(k)

    for certain  if and only if  B_(k-1) < u < B_k.                                                               (P-5)

Where u equals a boundary it is open and more bits decide. The outermost boundaries are 0 and 2^bits - 1, so (P-5)
covers the two end cells as well, behind which lies the unbounded rest of each tail. By symmetry B_(-j) = floor(T_j
2^bits) and B_(j-1) = 2^bits - 1 - B_(-j), with the tails T_j of `tails`.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import BudgetError
from das_spark.privacy.mechanisms import DiscreteLaplace, Mechanism
from das_spark.privacy.tails import upper_tails

WORD_BITS: Final = 64
_UNDECIDED: Final = int(np.iinfo(np.int32).min)
_GUIDE_BITS: Final = 16  # 65,536 entries of four bytes stay in the second-level cache.
_MOST_ENTRIES: Final = 1 << 22


class CumulativeTable:
    """Boundaries of one law at a fixed number of bits, with a guide table on their leading bits.

    Picklable: a task receives the boundaries and builds the guide again.

    Args:
        mechanism: The law.
        bits: Bits of a draw, 1 to 64. Production uses 64; fewer bits only make refinement more frequent.

    Raises:
        BudgetError: If the law is so wide that its table would not fit.
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
    """The table of a law, built once a process.

    Args:
        mechanism: The law.
        bits: Bits of a draw, 1 to 64.

    Raises:
        BudgetError: If the law is so wide that its table would not fit.
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
    """Refuse a law whose table would not fit, without making it.

    Args:
        mechanism: The law.

    Raises:
        BudgetError: It is so wide.
    """
    _check_size(mechanism, WORD_BITS)


def _check_size(mechanism: Mechanism, bits: int) -> None:
    if not 1 <= bits <= WORD_BITS:
        raise ValueError(f"bits must be 1 to {WORD_BITS}, are {bits}")
    reach = bits * math.log(2)
    if isinstance(mechanism, DiscreteLaplace):
        entries = reach * float(mechanism.scale)
    else:
        entries = math.sqrt(2 * reach * float(mechanism.sigma_squared))
    if entries > _MOST_ENTRIES:
        raise BudgetError(
            f"noise with {mechanism.describe()} is too wide: its table would have {entries:.3g} entries on each side, "
            f"more than {_MOST_ENTRIES}",
            hint="give this query a larger share, or leave it out: such noise tells nothing",
        )
