"""Sparse histograms: the occupied cells of a geounit and their counts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das_spark.errors import InputError

_MOST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """Counts by cell, of which only the occupied ones are kept.

    Args:
        size: Number of cells of the schema.
        cells: Occupied cells, strictly increasing, int32, shape ``(n,)``.
        counts: People or units of each, positive, int64, shape ``(n,)``.

    Raises:
        InputError: When the arrays are not integers of one length, cells are not sorted and unique within the schema,
            a count is not positive, or the total does not fit int64. Messages never hold a count.
    """

    size: int
    cells: NDArray[np.int32]
    counts: NDArray[np.int64]

    def __post_init__(self) -> None:
        """Check the arrays and make them read-only."""
        cells, counts = _checked_pairs(self.size, self.cells, self.counts)
        if len(cells) > 1 and not (cells[1:] > cells[:-1]).all():
            raise InputError("the cells of a histogram must be sorted and unique", hint="use Histogram.from_pairs")
        if not (counts > 0).all():
            raise InputError("the counts of a histogram must be positive", hint="use Histogram.from_pairs")
        object.__setattr__(self, "cells", _read_only(cells.astype(np.int32, copy=False)))
        object.__setattr__(self, "counts", _read_only(counts))

    @classmethod
    def from_pairs(cls, size: int, cells: ArrayLike, counts: ArrayLike) -> Histogram:
        """Make a histogram from cells in any order: repeated cells are summed, zeros are dropped.

        Args:
            size: Number of cells of the schema.
            cells: Flat cell indices, shape ``(n,)``.
            counts: People or units of each, not negative, shape ``(n,)``.

        Returns:
            The histogram.

        Raises:
            InputError: When a cell is outside the schema, a count is negative or no integer, or the total does not
                fit int64.
        """
        flat, number = _checked_pairs(size, cells, counts)
        occupied = number > 0
        unique, place = np.unique(flat[occupied], return_inverse=True)
        sums = np.zeros(len(unique), dtype=np.int64)
        np.add.at(sums, place, number[occupied])
        return cls(size, unique.astype(np.int32), sums)

    @classmethod
    def from_dense(cls, array: ArrayLike) -> Histogram:
        """Make a histogram from the counts of all cells.

        Args:
            array: Counts in the order of the cells, integers, not negative; any shape (axes are flattened in C order).

        Returns:
            The histogram.

        Raises:
            InputError: When a count is negative or no integer.
        """
        flat = np.asarray(array).reshape(-1)
        cells = np.flatnonzero(flat)
        return cls.from_pairs(len(flat), cells, flat[cells])

    @property
    def total(self) -> int:
        """Number of people or units."""
        return int(self.counts.sum())

    def dense(self) -> NDArray[np.int64]:
        """Counts of all cells, shape ``(size,)``."""
        array = np.zeros(self.size, dtype=np.int64)
        array[self.cells] = self.counts
        return array

    def __add__(self, other: Histogram) -> Histogram:
        """Sum cell by cell; InputError when the sizes differ or the sum does not fit int64."""
        if self.size != other.size:
            raise InputError(f"histograms of {self.size} and {other.size} cells cannot be added")
        cells = np.concatenate([self.cells, other.cells])
        return Histogram.from_pairs(self.size, cells, np.concatenate([self.counts, other.counts]))

    def __eq__(self, other: object) -> bool:
        """Equal sizes, cells and counts."""
        if not isinstance(other, Histogram):
            return NotImplemented
        same = self.size == other.size and np.array_equal(self.cells, other.cells)
        return same and np.array_equal(self.counts, other.counts)

    __hash__ = None  # type: ignore[assignment]  # Arrays are compared by value and have no cheap stable hash.


def _checked_pairs(size: int, cells: ArrayLike, counts: ArrayLike) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """Integer arrays of one length, cells inside the schema, counts not negative, total within int64."""
    flat, number = _integers(cells, "cells"), _integers(counts, "counts")
    if flat.shape != number.shape or flat.ndim != 1:
        raise InputError(f"a histogram has one count for each cell, not {number.shape} counts for {flat.shape} cells")
    if not len(flat):
        return flat, number.astype(np.int64)
    if flat.min() < 0 or flat.max() >= size:
        raise InputError(f"a cell of a histogram is outside 0 to {size - 1}")
    if number.min() < 0:
        raise InputError("a count of a histogram is negative")
    # Cheap first: only when the bound does not settle it are the counts summed in unbounded integers.
    if int(number.max()) * len(number) > _MOST and sum(map(int, number)) > _MOST:
        raise InputError("the counts of a histogram sum to more than a 64-bit integer holds")
    return flat, number.astype(np.int64, copy=False)


def _integers(values: ArrayLike, what: str) -> NDArray[Any]:
    array = np.asarray(values)
    if not array.size:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise InputError(f"the {what} of a histogram must be 64-bit integers, not {array.dtype}")
    return array


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view
