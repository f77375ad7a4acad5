"""Rules on published medians against the estimates: made again of the occupied levels, in order.

Medians do not sum over children, nor to their heading; each geounit is judged by its own histogram. Shares no code
with how medians are made.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

import numpy as np
from scipy import sparse

from das_spark.verification.tables import Compared, ComparedTables

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.tabulation import MedianTable
    from das_spark.verification.families import Families

MEDIANS_EQUAL: Final = "medians equal estimates"


class _Medians(Compared["MedianTable"]):
    """Ten times the medians of estimates; 0 for nobody."""

    def __init__(self, rule: MediansEqual, families: Families) -> None:
        """Leave out totals: a median of all is none of medians."""
        super().__init__(rule, families)
        self._held[:, self.is_total] = False

    def expected(self) -> sparse.csr_array:
        """What the estimates say: shape ``(geounits, items)``."""
        size = self._shape[0]
        medians = np.zeros((len(self.names), size), dtype=np.int64)
        medians[self._rows] = self._families.geounits
        estimates, cells = self._families.rows("estimates"), self._families.cells("estimates")
        # Of cells and counts that cannot be other rules tell.
        some = np.flatnonzero((cells.cell >= 0) & (cells.cell < self._schema.size) & (cells.count > 0))
        row, count = estimates.geounit[cells.row[some]], cells.count[some]
        levels = np.unravel_index(cells.cell[some], self._schema.shape)
        for first, table in self._tables:
            axis = self._schema.axis(table.attribute)
            for place, column in enumerate(table.columns, first + 2):
                who = np.zeros(len(row), dtype=np.bool_)
                for selection in column.where:
                    inside = [np.isin(levels[self._schema.axis(name)], named) for name, named in selection]
                    who |= np.logical_and.reduce(inside) if inside else True
                medians[place] = _tenths(row[who], levels[axis][who], count[who], self._schema.shape[axis], size)
        return sparse.csr_array(medians.T)


@dataclass(frozen=True, slots=True)
class MediansEqual(ComparedTables["MedianTable"]):
    """Tables hold the medians of the people of estimates, and nothing where there are none."""

    needs: ClassVar = ("geounits", "estimates", "medians")
    published: ClassVar = "medians"

    @property
    def names(self) -> tuple[str, ...]:
        """Of the rule."""
        return (MEDIANS_EQUAL,)

    def compared(self, families: Families) -> Compared[MedianTable]:
        """Bring estimates and published medians of some families together."""
        return _Medians(self, families)


def _tenths(
    row: NDArray[np.int64], level: NDArray[np.int64], count: NDArray[np.int64], levels: int, rows: int
) -> NDArray[np.int64]:
    """Of each row, whose people stand at levels, ten times the median; 0 for nobody."""
    # People in a queue, row by row and by level: everybody stands behind those who came before.
    place, back = np.unique(row * levels + level, return_inverse=True)
    people = np.zeros(len(place), dtype=np.int64)
    np.add.at(people, back, count)
    queue = np.cumsum(people)
    own, of_place = np.arange(rows), place // levels
    ends = np.searchsorted(of_place, own, side="right")
    starts = np.searchsorted(of_place, own, side="left")
    before = np.concatenate([[0], queue])[starts]
    total = np.concatenate([[0], queue])[ends] - before
    somebody = total > 0
    # The one in the middle, the first of two: half of all are reached in the group of this person.
    middle = np.searchsorted(queue, (before + (total + 1) // 2)[somebody])
    earlier = queue[middle] - people[middle] - before[somebody]
    inside, year = people[middle], place[middle] % levels
    # Ten times (half of all, less those earlier) / inside: whole tenths, and one more from the middle of two on.
    tenths, rest = np.divmod(5 * total[somebody] - 10 * earlier, inside)
    tenths += 2 * rest >= inside
    found = np.zeros(rows, dtype=np.int64)
    found[somebody] = np.where(year == levels - 1, 10 * year + 1, 10 * year + tenths)
    return found
