"""The flow part of a family: class margins that must be divisible among descendants with known totals (E-5 to E-7)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from das_spark.estimation.presolve import Presolved
from das_spark.estimation.problem import FamilyFlows
from das_spark.estimation.support import Floats, Integers

MOST_CLASSES = 12
"""Up to so many classes, divisibility is decided by checking every set of classes."""


@dataclass(frozen=True, slots=True, eq=False)
class FlowVariables:
    """Flows that are not fixed, and the rows that tie them to cells; W flows, L rows.

    Rows come first for descendants (flows sum to the total), then for child and class (cells less flows are zero).

    Attributes:
        flows: The family's flows.
        descendant: Descendant of each flow, shape ``(W,)``.
        kind: Class of each flow, shape ``(W,)``.
        lower: Least people, shape ``(W,)``.
        upper: Most people, shape ``(W,)``.
        fixed: Flows known beforehand, shape ``(D, C)``; 0 where free.
        cells: Incidence of rows with the variables of the family, shape ``(L, N)``.
        matrix: Incidence of rows with flows, shape ``(L, W)``.
        right: Right-hand sides, shape ``(L,)``.
        link: Row of each child and class, shape ``(K, C)``.
    """

    flows: FamilyFlows
    descendant: Integers
    kind: Integers
    lower: Floats
    upper: Floats
    fixed: Integers
    cells: sp.csc_matrix
    matrix: sp.csc_matrix
    right: Floats
    link: Integers


def flow_variables(presolved: Presolved) -> FlowVariables | None:
    """Make the flow variables and rows of a family, or None when it has no flows.

    Args:
        presolved: The family's variables.

    Returns:
        Flows between bounds tightened by the totals, and their rows.
    """
    flows = presolved.support.problem.flows
    if flows is None:
        return None
    class_of_cell = flows.query.row_of(presolved.support.cells)
    lower, upper = tightened(flows)
    absent = np.setdiff1d(np.arange(flows.query.rows), class_of_cell)
    upper[:, absent] = np.minimum(upper[:, absent], np.maximum(lower[:, absent], 0))
    free = upper > lower
    descendant, kind = np.nonzero(free)
    fixed = np.where(free, 0, lower)
    members, classes = lower.shape
    link = members + np.arange(presolved.support.children * classes).reshape(-1, classes)
    shape = (members + link.size, len(descendant))
    number = np.arange(len(descendant))
    rows = np.concatenate([descendant, link[flows.child[descendant], kind]])
    signs = np.concatenate([np.ones(len(number)), -np.ones(len(number))])
    variable, variable_class = _counted(class_of_cell, presolved.cell)
    cell_rows = link[presolved.child[variable], variable_class]
    cells = sp.csc_matrix((np.ones(len(variable)), (cell_rows, variable)), shape=(shape[0], presolved.variables))
    return FlowVariables(
        flows=flows,
        descendant=descendant,
        kind=kind,
        lower=lower[free].astype(np.float64),
        upper=upper[free].astype(np.float64),
        fixed=fixed,
        cells=cells,
        matrix=sp.csc_matrix((signs, (rows, np.concatenate([number, number]))), shape=shape),
        right=_right_sides(presolved, flows, fixed, link, class_of_cell),
        link=link,
    )


def _counted(class_of_cell: Integers, cell: Integers) -> tuple[Integers, Integers]:
    """Positions whose cell has a class, and that class."""
    (position,) = np.nonzero(class_of_cell[cell] >= 0)
    return position, class_of_cell[cell[position]]


def _right_sides(
    presolved: Presolved, flows: FamilyFlows, fixed: Integers, link: Integers, class_of_cell: Integers
) -> Floats:
    """Totals less fixed flows; then fixed flows less fixed cells."""
    right = np.zeros(len(flows.total) + link.size)
    right[: len(flows.total)] = flows.total - fixed.sum(axis=1)
    np.add.at(right, link[flows.child], fixed)
    child, cell = np.nonzero(presolved.fixed)
    known, known_class = _counted(class_of_cell, cell)
    np.add.at(right, link[child[known], known_class], -presolved.fixed[child[known], cell[known]])
    return right


def tightened(flows: FamilyFlows) -> tuple[Integers, Integers]:
    """Boxes of the flows that the totals imply: (lower, upper), each of shape ``(D, C)`` (E-6).

    Args:
        flows: The descendants: bounds of their classes, and totals.
    """
    rest_lower = flows.lower.sum(axis=1, keepdims=True) - flows.lower
    upper = np.minimum(flows.upper, flows.total[:, None] - rest_lower)
    rest_upper = upper.sum(axis=1, keepdims=True) - upper
    lower = np.maximum(flows.lower, flows.total[:, None] - rest_upper)
    return lower, upper


def centre(variables: FlowVariables, guess: Floats) -> Floats:
    """Guess flows: what is left above the lower bounds, shared in proportion to room and class margin.

    Args:
        variables: The flows.
        guess: People in each variable of the family, shape ``(N,)``.

    Returns:
        A guess between the bounds, shape ``(W,)``; it need not satisfy the rows.
    """
    flows = variables.flows
    margins = (variables.cells @ guess - variables.right)[variables.link]
    np.add.at(margins, flows.child, variables.fixed)
    members = len(flows.total)
    taken = variables.fixed.sum(axis=1) + np.bincount(variables.descendant, variables.lower, minlength=members)
    left = np.maximum(flows.total - taken, 0.0)[variables.descendant]
    room = variables.upper - variables.lower
    of_child = margins[flows.child[variables.descendant], variables.kind]
    appeal = np.minimum(room, left) * (np.maximum(of_child, 0.0) + 1.0)
    whole = np.bincount(variables.descendant, appeal, minlength=members)[variables.descendant]
    share = np.divide(appeal, whole, out=np.zeros(len(appeal)), where=whole > 0)
    return np.asarray(variables.lower + np.minimum(room, left * share), dtype=np.float64)


def divisible_margins(margins: Integers, flows: FamilyFlows) -> NDArray[np.bool_]:
    r"""Decide exactly whether each child's class margins can be divided among its descendants (E-7).

    The sums of the descendants' polyhedra are a base polyhedron (README, section 2), so margins s are divisible exactly
    when they sum to the totals and, for every set S of classes,

    .. math:: \sum_{c \in S} s_c \le \sum_d \min\Bigl(\sum_{c \in S} u_{dc},\; T_d - \sum_{c \notin S} l_{dc}\Bigr).

    Args:
        margins: People of each class of each child, shape ``(K, C)``.
        flows: The descendants; the work is proportional to 2^C, so C is at most `MOST_CLASSES` where this is called.

    Returns:
        Whether each child is divisible, shape ``(K,)``.
    """
    children, classes = margins.shape
    divisible = np.ones(children, dtype=np.bool_)
    empty = (flows.lower > flows.upper).any(axis=1)
    empty |= (flows.lower.sum(axis=1) > flows.total) | (flows.upper.sum(axis=1) < flows.total)
    divisible[flows.child[empty]] = False
    total = np.zeros(children, dtype=np.int64)
    np.add.at(total, flows.child, flows.total)
    divisible &= margins.sum(axis=1) == total
    subsets = (np.arange(2**classes)[:, None] >> np.arange(classes)) & 1
    for subset in subsets:
        inside = flows.upper @ subset
        outside = flows.total - flows.lower @ (1 - subset)
        limit = np.zeros(children, dtype=np.int64)
        np.add.at(limit, flows.child, np.minimum(inside, outside))
        divisible &= margins @ subset <= limit
    return divisible
