"""One iteration of the batched solver, and the penalties and operators that it needs (E-43 to E-46)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das_spark.estimation.batched.arrays import BatchedFamily
from das_spark.estimation.batched.operator import Inverse, inverse
from das_spark.estimation.support import Floats

RELAXATION = 1.6
"""Over-relaxation of each step."""
TIGHTNESS = 3.0
"""Penalty of a bounded sum, in units of the curvature that the objective has along it."""


@dataclass(slots=True, eq=False)
class State:
    """What iterations change.

    Attributes:
        family: The family.
        rho: Penalty of the division of cells.
        penalty: Penalty of each limited answer, shape ``(L,)``.
        operators: For each kind of child what turns stacked sums and pulls of the limited answers into corrections of
            the stacked rows and the limited answers, shape ``(r + L, r + L)`` (E-43).
        scale: Scale of each child's inverse, shape ``(K,)``.
        split: Points that divide the parent's cells exactly, shape ``(n, K)``.
        dual: Their scaled multipliers, shape ``(n, K)``.
        price: Multiplier of each cell's sum, shape ``(n,)``.
        point: Limited answers within their bounds, shape ``(L, K)``.
        point_dual: Their scaled multipliers, shape ``(L, K)``.
        pull: Scaled linear term, shape ``(n, K)``.
        step: Points before the correction by stacked sums, shape ``(n, K)``.
        given: Stacked sums of `step`, and below them the pulls of the limited answers, shape ``(r + L, K)``.
        iterations: How many were made.
    """

    family: BatchedFamily
    rho: float
    penalty: Floats
    operators: list[Floats]
    scale: Floats
    split: Floats
    dual: Floats
    price: Floats
    point: Floats
    point_dual: Floats
    pull: Floats
    step: Floats
    given: Floats
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
    answers = (family.stacked.sums @ family.sums(guess))[family.limits.answer]
    state = State(
        family=family,
        rho=rho,
        penalty=np.ones(len(answers)),
        operators=[],
        scale=np.zeros(children),
        split=guess,
        dual=np.where(family.live, 0.0, gradient),
        price=np.zeros(cells),
        point=np.clip(answers, family.limits.lower, family.limits.upper),
        point_dual=np.zeros(answers.shape),
        pull=np.zeros(guess.shape),
        step=np.zeros(guess.shape),
        given=np.zeros((family.stacked.rows + len(answers), children)),
    )
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
    """Change the penalty: multipliers keep their value in people's units, operators are inverted again.

    Args:
        state: Changed.
        rho: The new penalty of the division of cells; that of the limited answers follows from it (E-45).
    """
    family = state.family
    state.dual *= state.rho / rho
    state.rho = rho
    kinds = np.bincount(family.kind)
    firsts = [int(np.argmax(family.kind == kind)) for kind in range(len(kinds))]
    typical = firsts[int(np.argmax(kinds))]
    bare = inverse(family.stacked, family.weights[:, typical], float(family.diagonal[typical]) + rho)
    limits = family.stacked.sums[family.limits.answer].toarray()
    penalty = TIGHTNESS * _curvature(family, bare, limits)
    state.point_dual *= (state.penalty / penalty)[:, None]
    state.penalty = penalty
    inverses = [_bounded_inverse(state, child) for child in firsts]
    state.operators = [_operator(family, each, limits) for each in inverses]
    state.scale = np.array([each.scale for each in inverses])[family.kind]
    state.pull = family.linear * state.scale
    state.step = state.pull + state.scale * rho * (state.split - state.dual)
    state.given[: family.stacked.rows] = family.sums(state.step)


def _curvature(family: BatchedFamily, bare: Inverse, limits: Floats) -> Floats:
    """Curvature of a child's penalised objective along each limited answer (E-45)."""
    seen = limits @ family.stacked.overlap
    size = (seen * limits).sum(axis=1)
    spread = bare.scale * size - bare.scale**2 * ((seen @ bare.core) * seen).sum(axis=1)
    return np.asarray(np.divide(1.0, spread, out=np.ones(len(size)), where=spread > 0), dtype=np.float64)


def _bounded_inverse(state: State, child: int) -> Inverse:
    """The inverse for a child's kind, with the penalties of the limited answers in it."""
    family = state.family
    weight = family.weights[:, child].copy()
    weight[family.limits.answer] += state.penalty
    return inverse(family.stacked, weight, float(family.diagonal[child]) + state.rho)


def _operator(family: BatchedFamily, inverted: Inverse, limits: Floats) -> Floats:
    """The linear part of an iteration in one matrix (E-43)."""
    seen = limits @ family.stacked.overlap
    core = np.hstack([-inverted.core, limits.T - inverted.scale * (inverted.core @ seen.T)])
    answers = inverted.scale * (seen @ core)
    answers[:, : family.stacked.rows] += limits
    return np.ascontiguousarray(np.vstack([inverted.scale * core, answers]))


def iterate(state: State) -> tuple[float, float]:
    """Make one iteration.

    Args:
        state: Changed.

    Returns:
        Largest distance between a child's point and its share of the parent, and largest change of a share, in people.
    """
    # Here, so that only those who iterate wait for the compiler to be imported (half a second).
    from das_spark.estimation.batched.sweep import sweep  # noqa: PLC0415

    limits, rows = state.family.limits, state.family.stacked.rows
    state.given[rows:] = state.penalty[:, None] * (state.point - state.point_dual)
    found = _applied(state)
    if len(state.penalty):
        free = RELAXATION * found[rows:] + (1.0 - RELAXATION) * state.point + state.point_dual
        state.point = np.clip(free, limits.lower, limits.upper)
        state.point_dual = free - state.point
    state.iterations += 1
    primal, change = sweep(
        found,
        state.family.stacked.index,
        state.family.live,
        state.family.needed,
        state.pull,
        state.scale * state.rho,
        RELAXATION,
        state.split,
        state.dual,
        state.price,
        state.step,
        state.given[:rows],
    )
    return float(primal), float(change)


def _applied(state: State) -> Floats:
    """Each kind's operator on what its children give."""
    if len(state.operators) == 1:
        return np.asarray(state.operators[0] @ state.given, dtype=np.float64)
    found = np.empty(state.given.shape)
    for kind, operator in enumerate(state.operators):
        own = state.family.kind == kind
        found[:, own] = operator @ state.given[:, own]
    return found
