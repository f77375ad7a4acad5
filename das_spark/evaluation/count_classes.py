"""Classes of counts of about one size in geounits of about one size, whose errors are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Integers = NDArray[np.int64]

#: Least count of each class of counts, and least total of each class of geounits; the last classes are open.
COUNT_CLASSES: Final = (
    *(0, 1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500, 700, 1_000, 1_500, 2_000, 3_000, 5_000),
    *(10_000, 20_000, 50_000, 100_000, 1_000_000),
)
TOTAL_CLASSES: Final = (0, 1, 10, 30, 100, 300, 1_000, 3_000, 10_000, 100_000)


def error_classes(counts: Integers, totals: Integers) -> Integers:
    """The class of each count: ascending with the count, then with the total of its geounit.

    Args:
        counts: People in K geounits and c columns, shape ``(K, c)``.
        totals: Total of each geounit in the table, shape ``(K,)``.
    """
    of_count = np.searchsorted(COUNT_CLASSES, counts, side="right") - 1
    of_total = np.searchsorted(TOTAL_CLASSES, totals, side="right") - 1
    found: Integers = of_count * len(TOTAL_CLASSES) + of_total[:, None]
    return found
