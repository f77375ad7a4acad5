r"""From sparse histograms to published columns: one product with a sparse matrix, exact in integers.

With :math:`x_g` the histogram of geounit *g* and :math:`M_{ij}` how many times column *j* counts cell *i* (0 or 1, and
more where selections are tallied), the table is

.. math:: T_{gj} = \sum_i x_{gi} M_{ij}.

:math:`M` has a row a cell and is never made as a whole: of a schema of half a million cells and tables of thousands of
columns it would have tens of millions of entries. A column selects levels of attributes, so that a row of :math:`M`
follows from the conjunction of one short row of bits for each level of the cell. Rows are made of the cells that
somebody lives in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das_spark.errors import InputError, QueryError
from das_spark.tabulation.table import TableShell, every_column

#: Cells times selections that are looked at together: bounds the memory.
_AT_ONCE: Final = 1 << 22
#: Most selections that a column tallies: how often a cell counts is kept in a byte.
_MOST_TALLIED: Final = 255


@dataclass(frozen=True, slots=True, eq=False)
class Incidence:
    """How many times columns count cells: the matrix M, by levels of attributes; it is small and travels to tasks."""

    names: tuple[str, ...]  #: names of the columns, in order
    shape: tuple[int, ...]  #: levels of each attribute of the schema
    #: For each attribute and level the selections that leave it, as bits, (levels, bytes for all selections): the first
    #: selection of every column, in their order, then the further ones.
    left: tuple[NDArray[np.uint8], ...]
    further: NDArray[np.int64]  #: whose each further selection is: place of the column, (further selections,)
    tallies: NDArray[np.bool_]  #: whether a cell counts once for each selection of the column that it is in, (columns,)

    @property
    def size(self) -> int:
        """Cells of the schema."""
        return prod(self.shape)

    @property
    def selections(self) -> int:
        """Selections of all columns."""
        return len(self.names) + len(self.further)

    def counted(self, cells: NDArray[np.integer[Any]]) -> NDArray[np.uint8]:
        """Rows of the matrix.

        Args:
            cells: Cells of the schema, (n,).

        Returns:
            How many times each column counts each of them, (n, columns).
        """
        codes = np.unravel_index(np.asarray(cells, dtype=np.int64), self.shape)
        bits = self.left[0][codes[0]]
        for of_levels, code in zip(self.left[1:], codes[1:], strict=True):
            bits &= of_levels[code]
        selected = np.unpackbits(bits, axis=1, count=self.selections)
        counted = selected[:, : len(self.names)]
        for place, column in enumerate(self.further.tolist(), start=len(self.names)):
            if self.tallies[column]:
                counted[:, column] += selected[:, place]
            else:
                counted[:, column] |= selected[:, place]
        return counted

    def rows(self, cells: NDArray[np.integer[Any]]) -> sparse.csr_array:
        """Rows of the matrix as a sparse one, (n, columns) of whole numbers."""
        step = max(1, _AT_ONCE // self.selections)
        parts = [self.counted(cells[start : start + step]) for start in range(0, max(len(cells), 1), step)]
        rows: sparse.csr_array = sparse.vstack([self._sparse(part) for part in parts], format="csr")
        return rows

    def _sparse(self, counted: NDArray[np.uint8]) -> sparse.csr_array:
        # Scipy goes through truth values faster than through numbers, of which few columns have others than 0 and 1.
        found: sparse.csr_array = sparse.csr_array(counted.astype(np.bool_)).astype(np.int64)
        several = np.flatnonzero(self.tallies[found.indices])
        row = np.searchsorted(found.indptr, several, side="right") - 1
        found.data[several] = counted[row, found.indices[several]]
        return found


def incidence(tables: Sequence[TableShell]) -> Incidence:
    """The matrix of one or several tables of one schema, their columns one behind the other.

    Args:
        tables: At least one.

    Returns:
        What `tabulate` needs.

    Raises:
        QueryError: Schemas differ, a column name is used twice, or a column tallies more than 255 selections.
    """
    columns = every_column(tables)
    if many := [column.name for column in columns if column.tallies and len(column.where) > _MOST_TALLIED]:
        raise QueryError(f"column {many[0]} tallies more than {_MOST_TALLIED} selections")
    schema = tables[0].schema
    further = [(place, selection) for place, column in enumerate(columns) for selection in column.where[1:]]
    every = [*(column.where[0] for column in columns), *(selection for _, selection in further)]
    selections = [schema.chosen(**dict(selection)) for selection in every]
    left = [np.ones((size, len(selections)), dtype=np.bool_) for size in schema.shape]
    for place, selection in enumerate(selections):
        for axis, levels in selection.items():
            left[axis][:, place] = levels
    return Incidence(
        tuple(column.name for column in columns),
        schema.shape,
        tuple(np.packbits(of_attribute, axis=1) for of_attribute in left),
        np.array([place for place, _ in further], dtype=np.int64),
        np.array([column.tallies for column in columns]),
    )


def tabulate(
    matrix: Incidence,
    cells: NDArray[np.integer[Any]],
    offsets: NDArray[np.integer[Any]],
    counts: NDArray[np.integer[Any]],
) -> NDArray[np.int64]:
    """Sum the histograms of K geounits into columns.

    Args:
        matrix: Which columns count which cells.
        cells: Cells of the first geounit, then of the second, and so on, (n,); a cell may occur twice in a geounit.
        offsets: Where the cells of each geounit begin, and the end, (K + 1,), from 0 to n.
        counts: People or units of each cell, (n,).

    Returns:
        (K, columns). Exact while the sums fit int64, which those of histograms do.

    Raises:
        InputError: A cell is not one of the schema, or the arrays do not belong together.
    """
    require_histograms(matrix, cells, offsets, counts)
    somebody = np.zeros(matrix.size, dtype=np.bool_)
    somebody[cells] = True
    occupied = np.flatnonzero(somebody)
    place = np.cumsum(somebody) - 1
    shape = (len(offsets) - 1, len(occupied))
    histograms = sparse.csr_array((np.asarray(counts, dtype=np.int64), place[cells], offsets), shape=shape)
    table: NDArray[np.int64] = (histograms @ matrix.rows(occupied)).toarray()
    return table


def require_histograms(
    matrix: Incidence,
    cells: NDArray[np.integer[Any]],
    offsets: NDArray[np.integer[Any]],
    counts: NDArray[np.integer[Any]],
) -> None:
    """Refuse arrays that are no histograms of a schema; arguments and errors as for `tabulate`."""
    if len(cells) != len(counts) or not len(offsets) or offsets[0] != 0 or offsets[-1] != len(cells):
        raise InputError("cells, offsets and counts of histograms do not belong together")
    if (np.diff(offsets) < 0).any():
        raise InputError("offsets of histograms must ascend")
    if len(cells) and (int(np.min(cells)) < 0 or int(np.max(cells)) >= matrix.size):
        raise InputError(f"a cell of a histogram is outside 0 to {matrix.size - 1}")
