"""A family in the arrays of the batched solver (E-40)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das_spark.estimation.batched.operator import Grouping, Stack, stack
from das_spark.estimation.support import Floats, Integers, Partition, Support

MOST_KINDS = 32
"""Children with other variances need an operator of their own; more kinds than this are left to other solvers."""

MOST_ROWS = 2500
"""Largest number of stacked rows, whose square is what an operator takes in memory and in time."""


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """The answers that have bounds which can bind; L of them.

    Attributes:
        partitions: The partitions that they belong to, in order.
        first: First answer of each partition, and their number at the end.
        answer: Number of each among all answers of the stack, shape ``(L,)``.
        lower: Shape ``(L, K)``.
        upper: Shape ``(L, K)``.
    """

    partitions: tuple[Partition, ...]
    first: Integers
    answer: Integers
    lower: Floats
    upper: Floats

    def part(self, number: int) -> slice:
        """The answers of a partition, as positions among the limited ones.

        Args:
            number: Position of the partition in `partitions`.
        """
        return slice(int(self.first[number]), int(self.first[number + 1]))


@dataclass(frozen=True, slots=True, eq=False)
class BatchedFamily:
    """A family of K children on n cells; weights are divided by a typical one.

    Attributes:
        support: Where it comes from.
        live: Whether a child can hold people in a cell, shape ``(n, K)``.
        needed: People of the parent in each cell, shape ``(n,)``.
        diagonal: Weight of each child's answers to the single cells, shape ``(K,)``.
        weights: Weight of each other answer for each child, shape ``(a, K)``.
        linear: Linear term of the objective, shape ``(n, K)``.
        stacked: The finest groupings.
        limits: Answers with bounds.
        kind: Number of each child's kind, shape ``(K,)``; children of a kind share all weights.
        unit: What weights were divided by, people^-2.
    """

    support: Support
    live: NDArray[np.bool_]
    needed: Floats
    diagonal: Floats
    weights: Floats
    linear: Floats
    stacked: Stack
    limits: Limits
    kind: Integers
    unit: float

    def sums(self, x: Floats) -> Floats:
        """Sum points by stacked row: shape ``(n, K)`` to ``(r, K)``.

        Args:
            x: A point of each child, one column each.
        """
        return np.asarray(self.stacked.matrix @ x, dtype=np.float64)

    def hessian(self, x: Floats) -> Floats:
        """Multiply points, shape ``(n, K)``, by the Hessian of half the objective (E-40).

        Args:
            x: A point of each child, one column each.

        Returns:
            Shape ``(n, K)``, by the weights as they stand here, divided by `unit`.
        """
        answers = self.weights * (self.stacked.sums @ self.sums(x))
        pulled = self.stacked.matrix.T @ (self.stacked.sums.T @ answers)
        return np.asarray(self.diagonal * x + pulled, dtype=np.float64)


def batched_family(support: Support) -> BatchedFamily | None:
    """Lay a family out.

    Args:
        support: The family.

    Returns:
        Its arrays, or None where the method does not serve: at the root, under the failsafe, with flows, with bounds on
        single cells (other than that nobody can be there), with more than `MOST_KINDS` kinds of children or more than
        `MOST_ROWS` rows.
    """
    if support.parent is None or support.relaxation is not None or support.problem.flows is not None:
        return None
    cells, children = len(support.cells), support.children
    own = [each for each in support.partitions if np.array_equal(each.index, np.arange(cells))]
    parts = [each for each in support.partitions if not any(each is other for other in own)]
    if any(_can_bind(each, support.parent) for each in own) or sum(each.rows + 1 for each in parts) > MOST_ROWS:
        return None
    weights = np.array([each.weight for each in parts]).reshape(len(parts), children)
    diagonal = own[0].weight if own else np.zeros(children)
    _, kind = np.unique(np.vstack([diagonal, weights]), axis=1, return_inverse=True)
    if kind.max(initial=0) >= MOST_KINDS:
        return None
    unit = float(np.median(diagonal)) or float(weights.sum(axis=0).mean()) or 1.0
    stacked = stack(tuple(Grouping(each.index, each.rows) for each in parts), cells)
    return BatchedFamily(
        support=support,
        live=np.ascontiguousarray((support.most > 0).T),
        needed=support.parent.astype(np.float64),
        diagonal=diagonal / unit,
        weights=weights[stacked.owner] / unit,
        linear=_linear([*own, *parts], (children, cells)) / unit,
        stacked=stacked,
        limits=_limits(parts, support.parent, children),
        kind=np.asarray(kind, dtype=np.int64).ravel(),
        unit=unit,
    )


def _can_bind(partition: Partition, parent: Integers) -> bool:
    """Whether a bound asks for somebody, or for fewer than all of the parent's people (but not for nobody)."""
    counted = partition.index >= 0
    people = np.bincount(partition.index[counted], parent[counted], minlength=partition.rows)
    return bool((partition.lower > 0).any() or ((partition.upper > 0) & (partition.upper < people)).any())


def _limits(parts: list[Partition], parent: Integers, children: int) -> Limits:
    first = np.cumsum([0, *(each.rows for each in parts)])
    chosen = [number for number, each in enumerate(parts) if _can_bind(each, parent)]
    limited = tuple(parts[number] for number in chosen)
    none = np.zeros((0, children))
    return Limits(
        partitions=limited,
        first=np.cumsum([0, *(each.rows for each in limited)]),
        answer=np.concatenate([np.arange(0), *(np.arange(first[number], first[number + 1]) for number in chosen)]),
        lower=np.concatenate([none, *(each.lower.T for each in limited)]),
        upper=np.concatenate([none, *(each.upper.T for each in limited)]),
    )


def _linear(partitions: list[Partition], shape: tuple[int, int]) -> Floats:
    linear = np.zeros(shape)
    for each in partitions:
        if each.weight.any():
            answers = np.column_stack([each.weight[:, None] * each.values, np.zeros(shape[0])])
            linear += answers[:, each.index]
    return np.ascontiguousarray(linear.T)
