"""Classes of geounits by their true number of records: those of the published reconstructions of 2010."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

#: Least records of each class; the last one is open.
SIZES: Final = (1, 10, 50, 100, 250, 500, 1_000)


def size_names() -> tuple[str, ...]:
    """What the classes are called."""
    return (*(f"{least}-{end - 1}" for least, end in pairwise(SIZES)), f"{SIZES[-1]:,}+")


def size_of(records: NDArray[np.integer[Any]] | int) -> NDArray[np.int64]:
    """The place of the class of geounits with so many records, one at least each."""
    return np.searchsorted(SIZES, records, side="right") - 1
