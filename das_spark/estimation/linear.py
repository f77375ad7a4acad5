"""The constraints of a presolved family as rows of a linear program: for rounding, feasibility and the failsafe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from das_spark.estimation.flows import FlowVariables
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.support import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows over some variables and all flows: lower <= matrix (variables, flows) <= upper.

    Attributes:
        matrix: CSC, shape ``(rows, variables + flows)``.
        lower: Shape ``(rows,)``.
        upper: Shape ``(rows,)``.
        margin: Margin of each row, -1 for the others, shape ``(rows,)``.
    """

    matrix: sp.csc_matrix
    lower: Floats
    upper: Floats
    margin: Integers

    def with_columns(self, columns: sp.csc_matrix) -> sp.csc_matrix:
        """The matrix with further columns at its right."""
        return sp.hstack([self.matrix, columns], format="csc")


def constraint_rows(
    presolved: Presolved, flows: FlowVariables | None, chosen: NDArray[np.bool_] | None = None
) -> Rows:
    """Write the constraints over chosen variables; the others count as zero, so rows must be shifted by what they hold.

    Args:
        presolved: The family.
        flows: Its flows; with flows all variables must be chosen.
        chosen: Which variables, shape ``(N,)``; None for all.

    Returns:
        Sums over children (unless at the root or under the failsafe), bounded margins, and flow rows.
    """
    count = presolved.variables
    chosen = np.ones(count, dtype=np.bool_) if chosen is None else chosen
    column = np.cumsum(chosen) - 1
    rows, columns, lower, upper, margin = _sums(presolved, chosen, column)
    margins = presolved.margins
    kept = margins.bounded
    entry = kept[margins.entry_margin] & chosen[margins.entry_variable]
    touched = np.zeros(len(kept), dtype=np.bool_)
    touched[margins.entry_margin[entry]] = True
    number = len(lower) + np.cumsum(touched) - 1
    rows.append(number[margins.entry_margin[entry]])
    columns.append(column[margins.entry_variable[entry]])
    lower = np.concatenate([lower, margins.lower[touched]])
    upper = np.concatenate([upper, margins.upper[touched]])
    margin = np.concatenate([margin, np.flatnonzero(touched)])
    row, col = np.concatenate(rows), np.concatenate(columns)
    matrix = sp.csc_matrix((np.ones(len(row)), (row, col)), shape=(len(lower), int(chosen.sum())))
    if flows is None:
        return Rows(matrix, lower, upper, margin)
    matrix = sp.vstack(
        [
            sp.hstack([matrix, sp.csc_matrix((len(lower), len(flows.descendant)))]),
            sp.hstack([flows.cells, flows.matrix]),
        ],
        format="csc",
    )
    margin = np.concatenate([margin, np.full(len(flows.right), -1)])
    return Rows(matrix, np.concatenate([lower, flows.right]), np.concatenate([upper, flows.right]), margin)


def _sums(
    presolved: Presolved, chosen: NDArray[np.bool_], column: Integers
) -> tuple[list[Integers], list[Integers], Floats, Floats, Integers]:
    if presolved.needed is None or presolved.support.relaxation is not None:
        return [], [], np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64)
    live = np.bincount(presolved.cell[chosen], minlength=len(presolved.needed)) > 0
    number = np.cumsum(live) - 1
    right = presolved.needed[live].astype(np.float64)
    rows, columns = number[presolved.cell[chosen]], column[chosen]
    return [rows], [columns], right, right.copy(), np.full(len(right), -1)
