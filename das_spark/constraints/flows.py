"""Whether class margins can be divided among areas whose totals and class bounds are known.

Let d run over the areas below a geounit that have an invariant total T_d, and j over the bounded classes. The margins
s_j of the geounit can be divided among them if and only if integers f_dj exist with

    lower_dj <= f_dj <= upper_dj,     sum_j f_dj = T_d,     sum_d f_dj = s_j.                          (C-5)

This is a transportation problem. Its matrix is totally unimodular (each column has one 1 among the areas and one among
the classes), so for whole right-hand sides every vertex of its linear relaxation is whole: the linear program decides
the question for integers (Hoffman and Kruskal 1956). Bounds on the sums alone do not decide it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, kron, vstack

from das_spark.errors import EstimationError, InputError

_INFEASIBLE = 2


def flow_feasible(
    margins: NDArray[np.int64], lower: NDArray[np.int64], upper: NDArray[np.int64], total: NDArray[np.int64]
) -> bool:
    """Whether whole flows (C-5) exist.

    Args:
        margins: People by class of the geounit, (C,).
        lower: Fewest people by area and class, (D, C).
        upper: Most people by area and class, (D, C).
        total: People of each area, (D,).

    Raises:
        InputError: The shapes do not fit together.
        EstimationError: The linear program was neither solved nor refuted.
    """
    return find_flows(margins, lower, upper, total) is not None


def find_flows(
    margins: NDArray[np.int64], lower: NDArray[np.int64], upper: NDArray[np.int64], total: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Whole flows (C-5), checked in integers, or None where there are none.

    Args:
        margins: People by class of the geounit, (C,).
        lower: Fewest people by area and class, (D, C).
        upper: Most people by area and class, (D, C).
        total: People of each area, (D,).

    Returns:
        People by area and class, (D, C).

    Raises:
        InputError: The shapes do not fit together.
        EstimationError: The linear program was neither solved nor refuted.
    """
    if lower.shape != upper.shape or lower.shape != (len(total), len(margins)):
        raise InputError(
            f"flows: bounds of shape {lower.shape} and {upper.shape} for {len(total)} areas and {len(margins)} classes"
        )
    # What is above the lower bounds keeps the numbers small; no flow exceeds what its area has left.
    left = total - lower.sum(axis=1)
    wanted = margins - lower.sum(axis=0)
    room = np.minimum(upper - lower, left[:, None])
    if left.sum() != wanted.sum() or (left < 0).any() or (wanted < 0).any() or (room < 0).any():
        return None
    return None if (extra := _solve(left, wanted, room)) is None else lower + extra


def _solve(left: NDArray[np.int64], wanted: NDArray[np.int64], room: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Flows from 0 to `room` with row sums `left` and column sums `wanted`."""
    areas, classes = room.shape
    if room.size == 0:
        return room
    rows = kron(eye_array(areas), np.ones((1, classes)))
    columns = kron(np.ones((1, areas)), eye_array(classes))
    # "highs-ds", the dual simplex method, ends in a vertex: a whole one, as the matrix is totally unimodular.
    answer = linprog(  # type: ignore[call-overload]  # the stubs know neither sparse arrays nor an array of bounds
        np.zeros(room.size),
        A_eq=csr_array(vstack([rows, columns])),
        b_eq=np.concatenate([left, wanted]),
        bounds=np.column_stack([np.zeros(room.size), room.ravel()]),
        method="highs-ds",
    )
    if answer.status == _INFEASIBLE:
        return None
    if answer.status == 0:
        flows: NDArray[np.int64] = np.rint(answer.x).astype(np.int64).reshape(room.shape)
        within = ((flows >= 0) & (flows <= room)).all()
        if within and (flows.sum(axis=1) == left).all() and (flows.sum(axis=0) == wanted).all():
            return flows
    raise EstimationError(f"the flows of {areas} areas in {classes} classes were not decided: {answer.message}")
