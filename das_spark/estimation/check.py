"""Check whole numbers against every constraint of a family, in exact integers, from the tables alone (E-28)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das_spark.constraints import find_flows
from das_spark.estimation.support import at_once

if TYPE_CHECKING:
    from das_spark.estimation.problem import Booleans, FamilyFlows, FamilyPlan, FamilyProblem, Integers
    from das_spark.estimation.support import Relaxation

MOST_CLASSES = 12
"""Up to so many classes, divisibility is decided by checking every set of classes."""


def broken_rules(
    problem: FamilyProblem,
    plan: FamilyPlan,
    cells: NDArray[np.int32],
    counts: Integers,
    relaxation: Relaxation | None = None,
) -> tuple[str, ...]:
    """List what whole numbers violate."""
    if counts.dtype != np.int64:
        return ("estimates are not 64-bit integers",)
    found = []
    if (counts < 0).any():
        found.append("negative estimates")
    if counts[:, np.isin(cells, plan.zero_cells)].any():
        found.append("people in structural zeros")
    if problem.parent is not None:
        found += _against_parent(problem, cells, counts, relaxation)
    for bound in problem.bounds:
        answers = _answers(bound.columns(bound.query.row_of(cells)), bound.lower.shape[1], counts)
        wrong = np.argwhere((answers < bound.lower) | (answers > bound.upper))
        if len(wrong):
            child, column = (int(place) for place in wrong[0])
            found.append(f"{problem.children[child]}: row {bound.row(column)} of {bound.name!r} is out of bounds")
    found += _against_groups(problem, counts)
    if problem.flows is not None:
        query = problem.flows.query
        divided = divisible(_answers(query.row_of(cells), query.rows, counts), problem.flows)
        found += [f"{problem.children[child]}: cannot be divided below" for child in np.flatnonzero(~divided)[:1]]
    return tuple(found)


def _against_parent(
    problem: FamilyProblem, cells: NDArray[np.int32], counts: Integers, relaxation: Relaxation | None
) -> list[str]:
    if problem.parent is None:
        return []
    summed = counts.sum(axis=0)
    if relaxation is None:
        (held,) = np.nonzero(summed)
        same = np.array_equal(cells[held], problem.parent.cells) and np.array_equal(summed[held], problem.parent.counts)
        return [] if same else ["children do not sum to the parent cell by cell"]
    grouped = np.zeros(len(relaxation.totals), dtype=np.int64)
    np.add.at(grouped, relaxation.group, summed)
    return [] if np.array_equal(grouped, relaxation.totals) else ["children do not sum to the parent's kept margin"]


def _against_groups(problem: FamilyProblem, counts: Integers) -> list[str]:
    if problem.groups is None:
        return []
    known = [member for member in problem.groups.members if problem.groups.totals[member[1][0]] >= 0]
    wrong = [label for label, members in known if counts[members].sum() != problem.groups.totals[members[0]]]
    return [f"the members of {label} do not sum to its total" for label in wrong[:1]]


def _answers(rows: Integers, width: int, counts: Integers) -> Integers:
    """Sums of cells by row, -1 for cells that are in none, shape ``(K, width)``."""
    (counted,) = np.nonzero(rows >= 0)
    answers = np.zeros((width, len(counts)), dtype=np.int64)
    for part in at_once(len(counts), len(rows)):
        np.add.at(answers[:, part], rows[counted], counts[part].T[counted])
    return answers.T


def divisible(margins: Integers, flows: FamilyFlows) -> Booleans:
    """Decide whether each child's class margins can be divided among its descendants in whole numbers."""
    if margins.shape[1] <= MOST_CLASSES:
        return divisible_margins(margins, flows)
    found = [
        find_flows(margin, flows.lower[own], flows.upper[own], flows.total[own]) is not None
        for margin, own in ((margins[child], flows.child == child) for child in range(len(margins)))
    ]
    return np.array(found, dtype=np.bool_)


def divisible_margins(margins: Integers, flows: FamilyFlows) -> Booleans:
    r"""Decide exactly whether each child's class margins can be divided among its descendants (E-7).

    The sums of the descendants' polyhedra are a base polyhedron (README, section 2), so margins s are divisible exactly
    when they sum to the totals and, for every set S of classes,

    .. math:: \sum_{c \in S} s_c \le \sum_d \min\Bigl(\sum_{c \in S} u_{dc},\; T_d - \sum_{c \notin S} l_{dc}\Bigr).
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
