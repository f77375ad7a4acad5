r"""From sparse histograms to published columns: one product with a sparse 0/1 matrix, exact in integers.

With :math:`x_g` the histogram of geounit *g* and :math:`M_{ij} = 1` where column *j* counts cell *i*, the table is

.. math:: T_{gj} = \sum_i x_{gi} M_{ij}.

:math:`M` has a row a cell and holds, for the redistricting tables, some ten ones a row: what a geounit costs depends on
its occupied cells and not on the size of the schema.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das_spark.errors import InputError
from das_spark.tabulation.table import Table, every_column


@dataclass(frozen=True, slots=True, eq=False)
class Incidence:
    """Which columns count which cells, as the sparse rows of the matrix M."""

    names: tuple[str, ...]  #: names of the columns, in order
    size: int  #: cells of the schema
    starts: NDArray[np.int64]  #: where the columns of a cell begin in `columns`, (size + 1,)
    columns: NDArray[np.int32]  #: places of the columns that count cell 0, then cell 1, and so on, (ones,)


def incidence(tables: Sequence[Table]) -> Incidence:
    """The matrix of one or several tables of one schema, their columns one behind the other.

    Args:
        tables: At least one.

    Returns:
        What `tabulate` needs; small enough to travel to every task.

    Raises:
        QueryError: Schemas differ, or a column name is used twice.
    """
    columns = every_column(tables)
    schema = tables[0].schema
    # Column by column: nothing is held of the size of cells times columns.
    counted = [np.flatnonzero(column.mask(schema)) for column in columns]
    places = np.repeat(np.arange(len(columns), dtype=np.int32), [len(cells) for cells in counted])
    cells = np.concatenate(counted)
    order = np.argsort(cells, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(cells, minlength=schema.size))])
    return Incidence(tuple(column.name for column in columns), schema.size, starts.astype(np.int64), places[order])


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
    if len(cells) != len(counts) or not len(offsets) or offsets[0] != 0 or offsets[-1] != len(cells):
        raise InputError("cells, offsets and counts of histograms do not belong together")
    if (np.diff(offsets) < 0).any():
        raise InputError("offsets of histograms must ascend")
    if len(cells) and (int(np.min(cells)) < 0 or int(np.max(cells)) >= matrix.size):
        raise InputError(f"a cell of a histogram is outside 0 to {matrix.size - 1}")
    shape = (len(offsets) - 1, matrix.size)
    histograms = sparse.csr_array((np.asarray(counts, dtype=np.int64), cells, offsets), shape=shape)
    ones = np.ones(len(matrix.columns), dtype=np.int64)
    counted = sparse.csr_array((ones, matrix.columns, matrix.starts), shape=(matrix.size, len(matrix.names)))
    table: NDArray[np.int64] = (histograms @ counted).toarray()
    return table
