"""Guesses of the records of a geounit by somebody who knows how many they are and nothing else of the geounit.

What a reconstruction agrees with says little by itself: where nearly everybody is alike, whoever says that all are
alike agrees with the truth nearly everywhere. These guesses use only what the run has published of geounits above.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.histogram import Histogram

#: What the guesses of `guesses` are called, in order: of the area near by, then of the whole run.
GUESSES: Final = ("modal near", "proportional near", "modal whole", "proportional whole")


def modal_cell(of: Histogram) -> int | None:
    """The cell with the most records, the first of several; None where there is no record."""
    return int(of.cells[np.argmax(of.counts)]) if len(of.cells) else None


def modal(of: Histogram, records: int) -> Histogram:
    """All records in the modal cell of a distribution.

    Args:
        of: The distribution.
        records: How many records are guessed.

    Returns:
        The guess; no record where the distribution has none.
    """
    cell = modal_cell(of)
    return Histogram.from_pairs(of.size, [] if cell is None else [cell], [] if cell is None else [records])


def proportional(of: Histogram, records: int) -> Histogram:
    """Records in proportion to a distribution, by largest remainders; of equal ones the cell with more, then the first.

    Args:
        of: The distribution.
        records: How many records are guessed.

    Returns:
        The guess; no record where the distribution has none.
    """
    return Histogram.from_pairs(of.size, of.cells, shared(of.counts, records))


def shared(weights: NDArray[np.int64], records: int) -> NDArray[np.int64]:
    """Share records out in proportion to weights, by largest remainders.

    Args:
        weights: Not negative, (n,); times the records they fit int64.
        records: How many.

    Returns:
        Records of each, (n,), which sum to `records` unless all weights are 0: then there are none.
    """
    total = int(weights.sum())
    if not total:
        return np.zeros(len(weights), dtype=np.int64)
    found, remainder = np.divmod(weights * records, total)
    left = records - int(found.sum())
    found[np.lexsort((-weights, -remainder))[:left]] += 1
    return found


def guesses(near: Histogram, whole: Histogram, records: int) -> dict[str, Histogram]:
    """All guesses of a geounit.

    Args:
        near: Protected records of the area near by, such as the tract.
        whole: Protected records of the run's top geolevel.
        records: How many are guessed.

    Returns:
        By the names of `GUESSES`, in their order.
    """
    made = (modal(near, records), proportional(near, records), modal(whole, records), proportional(whole, records))
    return dict(zip(GUESSES, made, strict=True))
