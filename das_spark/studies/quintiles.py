"""Differences of counts by fifths of the geounits: ordered by a size of theirs, such as the true count itself.

The thresholds are the quantiles of the sizes at 1/5, ..., 4/5 with linear interpolation, and a geounit belongs to the
first fifth whose upper threshold its size does not exceed (`pandas.qcut` divides likewise). They are kept as whole
numbers, five times the threshold, so that division is exact wherever it is carried out. Where many sizes are equal some
fifths may be empty.

Source: Van Riper, Kugler and Ruggles (2020), section 3.3 and figure 2.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import InputError
from das_spark.evaluation import Frequencies, frequencies_of

FIFTHS: Final = 5
#: Whiskers of a box end at the last difference within so many lengths of the box (Tukey).
_REACH: Final = 1.5


@dataclass(frozen=True, slots=True)
class BoxFigures:
    """What a box plot shows of differences; all in the unit of the counts."""

    low: float  # lower whisker: the smallest difference within 1.5 lengths of the box below it
    first: float
    median: float
    third: float
    high: float  # upper whisker
    mean: float


@dataclass(frozen=True, slots=True, eq=False)
class Quintile:
    """One fifth of the geounits."""

    number: int  # 1 for the smallest, to 5
    least: int  # smallest size in it; 0 where it is empty
    most: int  # largest size in it; 0 where it is empty
    differences: Frequencies  # released minus true counts

    @property
    def geounits(self) -> int:
        """How many geounits it holds."""
        return self.differences.total

    @property
    def box(self) -> BoxFigures | None:
        """Figures of a box plot; None where it is empty."""
        return box_figures(self.differences) if self.geounits else None

    def to_json(self) -> dict[str, Any]:
        """Plain values: figures, and the frequency of every difference."""
        shown = {} if self.box is None else asdict(self.box)
        pairs = {"values": self.differences.values.tolist(), "counts": self.differences.counts.tolist()}
        numbers = {"quintile": self.number, "geounits": self.geounits, "least": self.least, "most": self.most}
        return {**numbers, **shown, "differences": pairs}


def fivefold_thresholds(sizes: Frequencies) -> list[int]:
    """Five times each of the four thresholds, ascending, from how often each size occurs.

    Raises:
        InputError: There is none.
    """
    if not sizes.total:
        raise InputError("quintiles of no geounits", hint="quintiles need one geounit at least")
    ends = np.cumsum(sizes.counts)
    found = []
    for fifth in range(1, FIFTHS):
        below, rest = divmod(fifth * (sizes.total - 1), FIFTHS)
        above = min(below + 1, sizes.total - 1)
        low, high = (int(sizes.values[np.searchsorted(ends, place, "right")]) for place in (below, above))
        found.append(FIFTHS * low + (high - low) * rest)
    return found


def fifths_of(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The fifth of each geounit, from 0 (smallest) to 4."""
    return np.searchsorted(fivefold_thresholds(frequencies_of(sizes)), FIFTHS * sizes, side="left")


def quintiles(sizes: NDArray[np.int64], differences: NDArray[np.int64]) -> tuple[Quintile, ...]:
    """Divide geounits into fifths by their size."""
    if sizes.shape != differences.shape:
        raise InputError(f"quintiles: {sizes.shape} sizes and {differences.shape} differences")
    fifth = fifths_of(sizes)
    found = []
    for place in range(FIFTHS):
        inside = sizes[fifth == place]
        ends = (int(inside.min()), int(inside.max())) if inside.size else (0, 0)
        found.append(Quintile(place + 1, *ends, frequencies_of(differences[fifth == place])))
    return tuple(found)


def box_figures(differences: Frequencies) -> BoxFigures:
    """Quartiles (linear interpolation), whiskers and mean."""
    first, median, third = differences.quantiles((0.25, 0.5, 0.75))
    reach = _REACH * (third - first)
    inside = differences.values[(differences.values >= first - reach) & (differences.values <= third + reach)]
    mean = float(np.average(differences.values, weights=differences.counts))
    return BoxFigures(float(inside[0]), first, median, third, float(inside[-1]), mean)
