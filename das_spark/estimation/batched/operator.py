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
        sums: For each grouping its answers from the stacked rows, shape ``(rows of the grouping, r)``.
        matrix: B, which sums cells by stacked row, shape ``(r, n)``.
    """

    index: Integers
    rows: int
    sums: tuple[sp.csr_matrix, ...]

    matrix: sp.csr_matrix

    @property
    def overlap(self) -> sp.csr_matrix:
        """B B': cells that two stacked rows share, shape ``(r, r)``."""
        return sp.csr_matrix(self.matrix @ self.matrix.T)


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
    sums = tuple(_sums(groupings[number].rows, *placed[number], rows) for number in range(len(groupings)))
    entries = (np.ones(index.size), (index.ravel(), np.tile(np.arange(cells), len(index))))
    return Stack(index, rows, sums, sp.csr_matrix(entries, shape=(rows, cells)))


def _coarser(fine: Integers, index: Integers) -> Integers | None:
    """Row of `index` that holds each row of `fine`, -1 for rows without cells; None where rows are cut."""
    found = np.full(int(fine.max(initial=-1)) + 1, -1, dtype=np.int64)
    found[fine] = index
    return found if np.array_equal(found[fine], index) else None


def _sums(rows: int, start: int, coarse: Integers, width: int) -> sp.csr_matrix:
    counted = (coarse >= 0) & (coarse < rows)
    columns = start + np.flatnonzero(counted)
    return sp.csr_matrix((np.ones(len(columns)), (coarse[counted], columns)), shape=(rows, width))


@dataclass(frozen=True, slots=True, eq=False)
class Inverse:
    """The inverse of (d + rho) I + B' M B, as a (I - a B' core B) with a = 1 / (d + rho).

    Attributes:
        scale: a.
        core: Shape ``(r, r)``, symmetric.
    """

    scale: float
    core: Floats


def inverse(
    stacked: Stack, overlap: sp.csr_matrix, weights: tuple[tuple[int, Floats], ...], diagonal: float
) -> Inverse:
    """Invert the operator of a class of children.

    Args:
        stacked: The finest groupings.
        overlap: Its `overlap`, made once.
        weights: Number of a grouping, and the weight of each of its rows.
        diagonal: d + rho, positive.

    Returns:
        The inverse (E-42).
    """
    middle = np.zeros((stacked.rows, stacked.rows))
    for number, weight in weights:
        part = stacked.sums[number]
        middle += (part.T @ sp.diags_array(weight) @ part).toarray()
    scale = 1.0 / diagonal
    core = np.linalg.solve(np.eye(stacked.rows) + scale * (overlap.T @ middle.T).T, middle)
    return Inverse(scale, 0.5 * (core + core.T))
