"""The batched solver as one of the chain: iterations until the certificate of the family holds (E-47)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.estimation.batched.arrays import batched_family
from das_spark.estimation.batched.iteration import State, begin, iterate, set_penalty
from das_spark.estimation.candidate import Candidate, hand_out
from das_spark.estimation.proposal import Proof, Proposal
from das_spark.estimation.solvers import Status
from das_spark.estimation.support import Floats, Integers

if TYPE_CHECKING:
    from das_spark.estimation.proposal import PosedFamily

PENALTIES: Final = ((0, 4.0), (30, 20.0))
"""Penalty from an iteration on: low to find the sizes, then high to settle who has the few people of rare cells."""
FIRST_LOOK: Final = 40
NEXT_LOOK: Final = 1.25
"""The certificate costs some twenty iterations: it is asked for after 40 of them, and then at a growing distance."""
MOST_ITERATIONS: Final = 1500
RAKINGS: Final = 60
EXACT: Final = 1e-9
"""Violation at which raking ends, relative to max(1, what is violated)."""


class BatchedSolver:
    """All children of a family at once."""

    name = "batched"

    def propose(self, family: PosedFamily, proof: Proof) -> Proposal | None:
        """Iterate until the family's certificate holds.

        Args:
            family: The family.
            proof: Certifies a candidate.

        Returns:
            The last candidate, or None where the method does not serve (`batched_family`).
        """
        arrays = batched_family(family.presolved.support)
        if arrays is None:
            return None
        penalties, look = dict(PENALTIES), FIRST_LOOK
        state = begin(arrays, penalties[0])
        while True:
            iterate(state)
            if state.iterations in penalties:
                set_penalty(state, penalties[state.iterations])
            if state.iterations < look and np.isfinite(state.price).all():
                continue
            candidate = _candidate(state)
            certified = proof(candidate).certified
            if certified or state.iterations >= MOST_ITERATIONS or not np.isfinite(candidate.x).all():
                return Proposal(candidate, Status.OPTIMAL if certified else Status.LIMIT, state.iterations)
            look = min(MOST_ITERATIONS, int(state.iterations * NEXT_LOOK) + 1)


def _candidate(state: State) -> Candidate:
    """The current point, raked, with its multipliers in people's units."""
    family = state.family
    hints = [np.zeros(bound.lower.shape) for bound in family.support.problem.bounds]
    for row in state.rows:
        multipliers = (-2.0 * family.unit * row.penalty[:, None] * row.dual).T
        hand_out(family.support.problem, row.limited.partition, multipliers, hints)
    return Candidate(
        x=np.ascontiguousarray(_raked(state).T),
        flows=None,
        parent_multipliers=-2.0 * family.unit * state.rho * state.price,
        bound_multipliers=tuple(hints),
        flow_multipliers=None,
    )


def _raked(state: State) -> Floats:
    """The point with its bounded sums and its cells' sums made exact in turn.

    A sum with a multiplier is put on its bound, not only within: complementarity is what the proof asks for.
    """
    family = state.family
    x = state.split * _factor(family.needed, state.split.sum(axis=1))[:, None]
    for _ in range(RAKINGS if state.rows else 0):
        worst = 0.0
        for row in state.rows:
            index, rows = row.limited.partition.index, row.limited.partition.rows
            sums = _sums(x, index, rows)
            wanted = np.where(row.dual == 0, np.clip(sums, row.limited.lower, row.limited.upper), row.point)
            worst = max(worst, float((np.abs(sums - wanted) / np.maximum(1.0, np.abs(wanted))).max(initial=0.0)))
            x *= np.vstack([_factor(wanted, sums), np.ones(x.shape[1])])[index]
        if worst <= EXACT:
            break
        x *= _factor(family.needed, x.sum(axis=1))[:, None]
    return x


def _factor(wanted: Floats, found: Floats) -> Floats:
    return np.asarray(np.divide(wanted, found, out=np.ones(found.shape), where=found > 0), dtype=np.float64)


def _sums(x: Floats, index: Integers, rows: int) -> Floats:
    """Sum cells by row: shape ``(n, K)`` to ``(rows, K)``."""
    order = np.argsort(index, kind="stable")
    found = np.zeros((rows, x.shape[1]))
    present, first = np.unique(index[order], return_index=True)
    summed = np.add.reduceat(x[order], first, axis=0)
    counted = present >= 0
    found[present[counted]] = summed[counted]
    return found
