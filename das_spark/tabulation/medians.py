r"""Tables of medians, such as the median age: statistics of counts by level, no sums over cells.

Of the people that a column counts let :math:`n_a` be those of level *a* of an attribute, whose levels are years (or
other steps of one), and *N* all of them. The median lies in the first level *a* in which half of them is reached, and
inside it where people are spread evenly from *a* to *a* + 1:

.. math:: m = a + \frac{N / 2 - \sum_{b < a} n_b}{n_a}.

It is rounded to a tenth, half upwards. The last level is open, so that a median in it is only known to be above: it has
a tenth more than that level (115.1 for ages with 115 and over). Of nobody there is no median. Medians of children do
not sum to that of their parent: each is made of the histogram of its own geounit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from das_spark.errors import QueryError
from das_spark.tabulation.sums import Incidence, incidence, require_histograms
from das_spark.tabulation.table import TableShell

if TYPE_CHECKING:
    from numpy.typing import NDArray

#: Tenths of a median that is not defined, because nobody is counted; all others are more.
UNDEFINED: Final = 0
_TENTHS: Final = 10


@dataclass(frozen=True, slots=True)
class MedianTable(TableShell):
    """A published table of medians: each column is the median of an attribute among those that it counts.

    Raises:
        QueryError: As for `TableShell`; a column tallies, or there is no such attribute.
    """

    attribute: str = field(kw_only=True)  #: whose levels are years, from 0; the last one is open

    def __post_init__(self) -> None:
        """Check the shell, and what medians are of."""
        TableShell.__post_init__(self)
        self.schema.axis(self.attribute)
        if tallies := [column.name for column in self.columns if column.tallies]:
            raise QueryError(f"table {self.name}: {tallies[0]} tallies; a median is of people who count once")

    @classmethod
    def of(cls, table: TableShell, attribute: str) -> MedianTable:
        """The medians of an attribute among those that the lines of another table count; raises as the table."""
        parts = (table.name, table.title, table.universe, table.schema, table.columns, table.lowest)
        return cls(*parts, attribute=attribute)


@dataclass(frozen=True, slots=True, eq=False)
class MedianColumns:
    """Columns of medians: whom they count, and the attribute that each is of; it is small and travels to tasks."""

    counted: Incidence  #: which columns count which cells
    axes: tuple[int, ...]  #: of each column the place of its attribute in the schema

    @classmethod
    def of(cls, tables: Sequence[MedianTable]) -> MedianColumns:
        """The columns of tables of one schema, one table behind the other; raises as `incidence`."""
        axes = tuple(table.schema.axis(table.attribute) for table in tables for _ in table.columns)
        return cls(incidence(tables), axes)

    @property
    def numbers(self) -> int:
        """Numbers that one column of a geounit needs at once."""
        return max(self.counted.shape[axis] for axis in self.axes)


def medians(
    columns: MedianColumns,
    cells: NDArray[np.integer[Any]],
    offsets: NDArray[np.integer[Any]],
    counts: NDArray[np.integer[Any]],
) -> NDArray[np.int64]:
    """Medians of the histograms of K geounits.

    Args:
        columns: Whose medians, and of what.
        cells: As for `tabulate`, (n,).
        offsets: Likewise, (K + 1,).
        counts: Likewise, (n,).

    Returns:
        Tenths, `UNDEFINED` where nobody is counted, (K, columns). Exact while twenty times the sums fit int64.

    Raises:
        InputError: As for `tabulate`.
    """
    require_histograms(columns.counted, cells, offsets, counts)
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    times, codes = columns.counted.counted(cells), np.unravel_index(np.asarray(cells), columns.counted.shape)
    found = np.zeros((len(offsets) - 1, len(columns.axes)), dtype=np.int64)
    for place, axis in enumerate(columns.axes):
        chosen = np.flatnonzero(times[:, place])
        people = np.zeros((len(found), columns.counted.shape[axis]), dtype=np.int64)
        np.add.at(people, (rows[chosen], codes[axis][chosen]), np.asarray(counts, dtype=np.int64)[chosen])
        found[:, place] = median_tenths(people)
    return found


def median_tenths(people: NDArray[np.int64]) -> NDArray[np.int64]:
    """Medians of counts by level.

    Args:
        people: Of each level, not negative, (K, levels); the last level is open.

    Returns:
        Tenths, `UNDEFINED` where there is nobody, (K,).
    """
    reached = np.cumsum(people, axis=1)
    total = reached[:, -1]
    level = np.argmax(2 * reached >= total[:, None], axis=1)
    row = np.arange(len(people))
    inside = np.maximum(people[row, level], 1)  # of nobody there is no median anyway
    # Half of the people less those before, doubled; then tenths of the year, half upwards.
    missing = total - 2 * (reached[row, level] - people[row, level])
    tenths = _TENTHS * level + (_TENTHS * missing + inside) // (2 * inside)
    last = people.shape[1] - 1
    tenths = np.where(level == last, _TENTHS * last + 1, tenths)
    return np.where(total > 0, tenths, UNDEFINED)
