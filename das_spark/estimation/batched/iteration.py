"""One iteration of the batched solver, and the penalties and operators that it needs (E-43 to E-46)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das_spark.estimation.batched.arrays import BatchedFamily, Limited
from das_spark.estimation.batched.operator import Inverse, inverse
from das_spark.estimation.batched.sweep import sweep
from das_spark.estimation.support import Floats

RELAXATION = 1.6
"""Over-relaxation of each step."""
TIGHTNESS = 3.0
"""Penalty of a bounded sum, in units of the curvature that the objective has along it."""


@dataclass(slots=True, eq=False)
class LimitedRows:
    """One limited partition: sums that keep its bounds, and their scaled multipliers.

    Attributes:
        limited: The partition.
        penalty: Penalty of each row, shape ``(rows,)``.
        point: Sums within bounds, shape ``(rows, K)``.
        dual: Scaled multipliers, shape ``(rows, K)``.
    """

    limited: Limited
    penalty: Floats
    point: Floats
    dual: Floats


@dataclass(slots=True, eq=False)
class State:
    """What iterations change.

    Attributes:
        family: The family.
        rho: Penalty of the division of cells.
        inverses: Operator of each kind of child.
        scale: Scale of each child's inverse, shape ``(K,)``.
        split: Points that divide the parent's cells exactly, shape ``(n, K)``.
        dual: Their scaled multipliers, shape ``(n, K)``.
        price: Multiplier of each cell's sum, shape ``(n,)``.
        pull: Scaled linear term, shape ``(n, K)``.
        step: Points before the correction by stacked sums, shape ``(n, K)``.
        sums: Stacked sums of `step`, shape ``(r, K)``.
        rows: The limited partitions.
        iterations: How many were made.
    """

    family: BatchedFamily
    rho: float
    inverses: list[Inverse]
    scale: Floats
    split: Floats
    dual: Floats
    price: Floats
    pull: Floats
    step: Floats
    sums: Floats
    rows: list[LimitedRows]
    iterations: int = 0


def begin(family: BatchedFamily, rho: float) -> State:
    """Start from cells divided in proportion to the children's noisy sizes.

    Args:
        family: The family.
        rho: First penalty, in units of the weight of a typical single-cell answer.

    Returns:
        The state before the first iteration.
    """
    guess = _guess(family)
    cells, children = guess.shape
    # Where nobody can be, the multiplier is known but for the sums: the gradient.
    gradient = (family.linear - family.hessian(guess)) / rho
    state = State(
        family=family,
        rho=rho,
        inverses=[],
        scale=np.zeros(children),
        split=guess,
        dual=np.where(family.live, 0.0, gradient),
        price=np.zeros(cells),
        pull=np.zeros(guess.shape),
        step=np.zeros(guess.shape),
        sums=np.zeros((family.stacked.rows, children)),
        rows=[],
    )
    stacked = family.sums(guess)
    for limited in family.limited:
        reached = np.asarray(family.stacked.sums[limited.grouping] @ stacked)
        point = np.clip(reached, limited.lower, limited.upper)
        state.rows.append(LimitedRows(limited, np.ones(len(point)), point, np.zeros(point.shape)))
    set_penalty(state, rho)
    return state


def _guess(family: BatchedFamily) -> Floats:
    measured = [each for each in family.support.partitions if each.weight.any()]
    people = np.ones(family.support.children)
    if measured:
        people = np.maximum(min(measured, key=lambda each: each.rows).values.sum(axis=1), 0.0) + 1.0
    shares = np.where(family.live, people, 0.0)
    return np.ascontiguousarray(shares * (family.needed / shares.sum(axis=1))[:, None])


def set_penalty(state: State, rho: float) -> None:
    """Change the penalty: multipliers keep their value in people's units, operators are inverted again."""
    family = state.family
    state.dual *= state.rho / rho
    state.rho = rho
    typical = int(np.argmax(np.bincount(family.kind)[family.kind]))
    bare = _inverse(state, typical, bounded=False)
    for row in state.rows:
        penalty = TIGHTNESS * _curvature(family, bare, row.limited.grouping)
        row.dual *= (row.penalty / penalty)[:, None]
        row.penalty = penalty
    firsts = [int(np.argmax(family.kind == kind)) for kind in range(int(family.kind.max()) + 1)]
    state.inverses = [_inverse(state, child, bounded=True) for child in firsts]
    state.scale = np.array([each.scale for each in state.inverses])[family.kind]
    state.pull = family.linear * state.scale
    state.step = state.pull + state.scale * rho * (state.split - state.dual)
    state.sums = family.sums(state.step)


def _inverse(state: State, child: int, *, bounded: bool) -> Inverse:
    family = state.family
    weights = [
        (number, np.full(part.shape[0], weight[child]))
        for number, (part, weight) in enumerate(zip(family.stacked.sums, family.weights, strict=True))
        if weight[child] > 0
    ]
    if bounded:
        weights += [(row.limited.grouping, row.penalty) for row in state.rows]
    return inverse(family.stacked, family.overlap, tuple(weights), float(family.diagonal[child]) + state.rho)


def _curvature(family: BatchedFamily, bare: Inverse, grouping: int) -> Floats:
    """Curvature of a child's penalised objective along each row of a grouping (E-45)."""
    part = family.stacked.sums[grouping]
    seen = (part @ family.overlap).toarray()
    size = np.asarray((part @ family.overlap).multiply(part).sum(axis=1)).ravel()
    spread = bare.scale * size - bare.scale**2 * ((seen @ bare.core) * seen).sum(axis=1)
    return np.asarray(np.divide(1.0, spread, out=np.ones(len(size)), where=spread > 0), dtype=np.float64)


def iterate(state: State) -> tuple[float, float]:
    """Make one iteration.

    Args:
        state: Changed.

    Returns:
        Largest distance between a child's point and its share of the parent, and largest change of a share, in people.
    """
    family, rows = state.family, state.rows
    pulled = np.zeros(state.sums.shape)
    for row in rows:
        pulled += family.stacked.sums[row.limited.grouping].T @ (row.penalty[:, None] * (row.point - row.dual))
    answers = state.sums + state.scale * (family.overlap @ pulled)
    shift = state.scale * (pulled - _cored(state, answers))
    reached = state.sums + family.overlap @ shift
    for row in rows:
        answer = family.stacked.sums[row.limited.grouping] @ reached
        free = RELAXATION * answer + (1.0 - RELAXATION) * row.point + row.dual
        row.point = np.clip(free, row.limited.lower, row.limited.upper)
        row.dual = free - row.point
    state.iterations += 1
    primal, change = sweep(
        shift,
        family.stacked.index,
        family.live,
        family.needed,
        state.pull,
        state.scale * state.rho,
        RELAXATION,
        state.split,
        state.dual,
        state.price,
        state.step,
        state.sums,
    )
    return float(primal), float(change)


def _cored(state: State, answers: Floats) -> Floats:
    if len(state.inverses) == 1:
        return np.asarray(state.inverses[0].core @ answers, dtype=np.float64)
    found = np.empty(answers.shape)
    for kind, each in enumerate(state.inverses):
        own = state.family.kind == kind
        found[:, own] = each.core @ answers[:, own]
    return found
