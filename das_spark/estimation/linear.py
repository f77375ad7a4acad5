"""The constraints of a presolved family as rows of a linear program: for rounding, feasibility and the failsafe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from das_spark.estimation.flows import FlowVariables
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.solvers.base import Inequalities
from das_spark.estimation.support import Integers


@dataclass(frozen=True, slots=True, eq=False)
class Constraints:
    """Rows over some variables and then all flows.

    Attributes:
        rows: The rows.
        margin: Margin of each row, -1 for the others, shape ``(rows,)``.
        variables: Number of variables before the flows.
        flows: Number of flows.
    """

    rows: Inequalities
    margin: Integers
    variables: int
    flows: int


def constraints(
    presolved: Presolved, flows: FlowVariables | None, chosen: NDArray[np.bool_] | None = None
) -> Constraints:
    """Write the constraints over chosen variables.

    Args:
        presolved: The family.
        flows: Its flows; with flows all variables must be chosen.
        chosen: Which variables, shape ``(N,)``; None for all. Whoever shares a row with one must be chosen too.

    Returns:
        Sums over children (unless at the root or under the failsafe), bounded margins, and flow rows.
    """
    chosen = np.ones(presolved.variables, dtype=np.bool_) if chosen is None else chosen
    count = int(chosen.sum())
    parts = [_sums(presolved, chosen), _margins(presolved, chosen)]
    margin = np.concatenate([np.full(parts[0].matrix.shape[0], -1), np.flatnonzero(_touched(presolved, chosen))])
    spare = 0
    if flows is not None:
        spare = len(flows.descendant)
        wide = [sp.hstack([part.matrix, sp.csc_matrix((part.matrix.shape[0], spare))]) for part in parts]
        matrix = sp.vstack([*wide, sp.hstack([flows.cells, flows.matrix])], format="csc")
        parts.append(Inequalities(flows.cells, flows.right, flows.right))
        margin = np.concatenate([margin, np.full(len(flows.right), -1)])
    else:
        matrix = sp.vstack([part.matrix for part in parts], format="csc")
    lower, upper = np.concatenate([part.lower for part in parts]), np.concatenate([part.upper for part in parts])
    return Constraints(Inequalities(sp.csc_matrix(matrix), lower, upper), margin, count, spare)


def _sums(presolved: Presolved, chosen: NDArray[np.bool_]) -> Inequalities:
    count = int(chosen.sum())
    if presolved.needed is None or presolved.support.relaxation is not None:
        return Inequalities(sp.csc_matrix((0, count)), np.zeros(0), np.zeros(0))
    cell = presolved.cell[chosen]
    live = np.bincount(cell, minlength=len(presolved.needed)) > 0
    row = (np.cumsum(live) - 1)[cell]
    right = presolved.needed[live].astype(np.float64)
    return Inequalities(
        sp.csc_matrix((np.ones(count), (row, np.arange(count))), shape=(len(right), count)), right, right
    )


def _touched(presolved: Presolved, chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Bounded margins of chosen variables, shape ``(M,)``."""
    margins = presolved.margins
    touched = np.zeros(len(margins.child), dtype=np.bool_)
    touched[margins.entry_margin[chosen[margins.entry_variable]]] = True
    return touched & margins.bounded


def _margins(presolved: Presolved, chosen: NDArray[np.bool_]) -> Inequalities:
    margins, touched = presolved.margins, _touched(presolved, chosen)
    entry = touched[margins.entry_margin] & chosen[margins.entry_variable]
    row = (np.cumsum(touched) - 1)[margins.entry_margin[entry]]
    column = (np.cumsum(chosen) - 1)[margins.entry_variable[entry]]
    shape = (int(touched.sum()), int(chosen.sum()))
    matrix = sp.csc_matrix((np.ones(len(row)), (row, column)), shape=shape)
    return Inequalities(matrix, margins.lower[touched], margins.upper[touched])
