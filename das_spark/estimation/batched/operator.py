"""The operator that all children of a family share, inverted through the coarser sums that it is made of (E-41, E-42).

The Hessian of a child is d I + sum_q w_q A_q' A_q, where A_q sums cells by the rows of a query. Most queries sum the
answers of a finer one: with the finest of them stacked in B, the Hessian is d I + B' M B with a small dense M, and the
inverse of that plus rho I has the same shape. Its cost does not depend on the number of cells, but on the rows of B.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from das_spark.estimation.support import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """One way to sum cells.

    Attributes:
        index: Row of each cell, -1 where none counts it, shape ``(n,)``.
        rows: Number of rows.
    """

    index: Integers
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """The finest groupings of a family, stacked, and how every grouping follows from them.

    Attributes:
        index: Stacked row of each cell in each of the finest groupings, shape ``(P, n)``; cells that a grouping does
            not count have a row of their own, which no answer reads.
        rows: Number of stacked rows r.
        owner: Grouping that each answer belongs to, shape ``(a,)``: of the first grouping, then of the next.
        sums: C, which makes all answers from the stacked rows, shape ``(a, r)``.
        matrix: B, which sums cells by stacked row, shape ``(r, n)``.
        overlap: B B': cells that two stacked rows share, shape ``(r, r)``.
    """

    index: Integers
    rows: int
    owner: Integers
    sums: sp.csr_matrix
    matrix: sp.csr_matrix
    overlap: Floats

    def weighted(self, weight: Floats) -> Floats:
        """C' diag(weight) C for one weight an answer: the middle M of a sum of groupings (E-41), shape ``(r, r)``.

        Args:
            weight: Weight of each answer, shape ``(a,)``.
        """
        data = np.repeat(weight, np.diff(self.sums.indptr))
        scaled = sp.csc_matrix((data, self.sums.indices, self.sums.indptr), shape=self.sums.shape[::-1])
        return np.asarray((scaled @ self.sums).toarray(), dtype=np.float64)


def stack(groupings: tuple[Grouping, ...], cells: int) -> Stack:
    """Find the finest groupings, and derive the others from them.

    Args:
        groupings: All groupings that are measured or bounded.
        cells: Number of cells n.

    Returns:
        The stack; with no groupings it has one row, which counts every cell.
    """
    finest: list[Integers] = []
    starts: list[int] = []
    rows = 0
    placed: dict[int, tuple[int, Integers]] = {}
    for number in sorted(range(len(groupings)), key=lambda each: (-groupings[each].rows, each)):
        index = np.where(groupings[number].index < 0, groupings[number].rows, groupings[number].index)
        for start, fine in zip(starts, finest, strict=True):
            coarse = _coarser(fine, index)
            if coarse is not None:
                placed[number] = (start, coarse)
                break
        else:
            finest.append(index)
            starts.append(rows)
            placed[number] = (rows, np.arange(groupings[number].rows + 1))
            rows += groupings[number].rows + 1
    index = np.array([fine + start for start, fine in zip(starts, finest, strict=True)]).reshape(len(finest), cells)
    if not finest:
        index, rows = np.zeros((1, cells), dtype=np.int64), 1
    entries = (np.ones(index.size), (index.ravel(), np.tile(np.arange(cells), len(index))))
    matrix = sp.csr_matrix(entries, shape=(rows, cells))
    sizes = np.array([each.rows for each in groupings], dtype=np.int64)
    return Stack(
        index=index,
        rows=rows,
        owner=np.repeat(np.arange(len(sizes)), sizes),
        sums=_sums(sizes, placed, rows),
        matrix=matrix,
        overlap=(matrix @ matrix.T).toarray(),
    )


def _coarser(fine: Integers, index: Integers) -> Integers | None:
    """Row of `index` that holds each row of `fine`, -1 for rows without cells; None where rows are cut."""
    found = np.full(int(fine.max(initial=-1)) + 1, -1, dtype=np.int64)
    found[fine] = index
    return found if np.array_equal(found[fine], index) else None


def _sums(sizes: Integers, placed: dict[int, tuple[int, Integers]], width: int) -> sp.csr_matrix:
    """All answers from the stacked rows."""
    first = np.cumsum(sizes) - sizes
    rows, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for number, (start, coarse) in placed.items():
        (counted,) = np.nonzero((coarse >= 0) & (coarse < sizes[number]))
        rows.append(first[number] + coarse[counted])
        columns.append(start + counted)
    row, column = np.concatenate(rows), np.concatenate(columns)
    return sp.csr_matrix((np.ones(len(row)), (row, column)), shape=(int(sizes.sum()), width))


@dataclass(frozen=True, slots=True, eq=False)
class Inverse:
    """The inverse of (d + rho) I + B' M B, as a (I - a B' core B) with a = 1 / (d + rho).

    Attributes:
        scale: a.
        core: Shape ``(r, r)``, symmetric.
    """

    scale: float
    core: Floats


def inverse(stacked: Stack, weight: Floats, diagonal: float) -> Inverse:
    """Invert the operator of a kind of children.

    Args:
        stacked: The finest groupings.
        weight: Weight of each answer, not negative, shape ``(a,)``.
        diagonal: d + rho, positive.

    Returns:
        The inverse (E-42).
    """
    scale, middle = 1.0 / diagonal, stacked.weighted(weight)
    core = np.linalg.solve(np.eye(stacked.rows) + scale * (middle @ stacked.overlap), middle)
    return Inverse(scale, 0.5 * (core + core.T))
