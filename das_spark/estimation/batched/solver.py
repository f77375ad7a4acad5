"""The batched solver as one of the chain: iterations until the certificate of the family holds (E-47)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import scipy.sparse as sp

from das_spark.estimation.batched.arrays import batched_family
from das_spark.estimation.batched.iteration import State, begin, iterate, set_penalty
from das_spark.estimation.candidate import Candidate, hand_out
from das_spark.estimation.proposal import Proof, Proposal
from das_spark.estimation.solvers import Status
from das_spark.estimation.support import Floats, Integers

if TYPE_CHECKING:
    from das_spark.estimation.proposal import PosedFamily

PENALTIES: Final = ((0, 1.0), (20, 20.0), (70, 60.0))
"""Penalty from an iteration on: low to find the sizes, then high to settle who has the few people of rare cells."""
FIRST_LOOK: Final = 20
AIM: Final = 1e-6
DECADE: Final = 10
NEAREST_LOOK: Final = 8
"""The certificate costs some twenty iterations: it is asked for after 20 of them, then 10 for each power of 10 that the
gap is above 1e-6, but 8 at least."""
MOST_ITERATIONS: Final = 1500
RAKINGS: Final = 100
STALLED: Final = 0.98
"""Rakings that take the violation less far down than this have come to their end."""
EXACT: Final = 1e-12
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
            if state.iterations >= look or not np.isfinite(state.price).all():
                candidate = _candidate(state)
                proved = proof(candidate)
                if proved.certified or state.iterations >= MOST_ITERATIONS or not np.isfinite(candidate.x).all():
                    status = Status.OPTIMAL if proved.certified else Status.LIMIT
                    return Proposal(candidate, status, state.iterations)
                look = min(MOST_ITERATIONS, state.iterations + _pause(proved.gap, state.iterations))
            if state.iterations in penalties:
                set_penalty(state, penalties[state.iterations])


def _pause(gap: float, iterations: int) -> int:
    """Iterations until the certificate is worth asking for again."""
    if not np.isfinite(gap) or gap <= 0:
        return NEAREST_LOOK + iterations // 4
    return max(NEAREST_LOOK, int(DECADE * np.log10(gap / AIM)))


def _candidate(state: State) -> Candidate:
    """The current point, raked, with its multipliers in people's units."""
    family = state.family
    problem, limits = family.support.problem, family.limits
    hints = [np.zeros(bound.lower.shape) for bound in problem.bounds]
    multipliers = (-2.0 * family.unit * state.penalty[:, None] * state.point_dual).T
    for number, partition in enumerate(limits.partitions):
        hand_out(problem, partition, multipliers[:, limits.part(number)], hints)
    return Candidate(
        x=np.ascontiguousarray(_raked(state).T),
        flows=None,
        parent_multipliers=-2.0 * family.unit * state.rho * state.price,
        bound_multipliers=tuple(hints),
        flow_multipliers=None,
    )


def _raked(state: State) -> Floats:
    """The point with its bounded sums and its cells' sums made exact in turn (E-47).

    A sum with a multiplier is put on its bound, not only within: complementarity is what the proof asks for. Where all
    of them cannot be there at once, within has to do.
    """
    family, limits = state.family, state.family.limits
    x = state.split * _factor(family.needed, state.split.sum(axis=1))[:, None]
    indices = [np.where(each.index < 0, each.rows, each.index) for each in limits.partitions]
    matrices = [_sums(index, each.rows) for index, each in zip(indices, limits.partitions, strict=True)]
    pinned, before = True, np.inf
    for _ in range(RAKINGS if limits.partitions else 0):
        worst = 0.0
        for number, (index, matrix) in enumerate(zip(indices, matrices, strict=True)):
            part, sums = limits.part(number), matrix @ x
            within = np.clip(sums, limits.lower[part], limits.upper[part])
            wanted = np.maximum(np.where((state.point_dual[part] != 0) & pinned, state.point[part], within), 0.0)
            worst = max(worst, float((np.abs(sums - wanted) / np.maximum(1.0, np.abs(wanted))).max(initial=0.0)))
            x *= np.vstack([_factor(wanted, sums), np.ones(x.shape[1])])[index]
        if worst <= EXACT:
            break
        x *= _factor(family.needed, x.sum(axis=1))[:, None]
        if worst > STALLED * before and not pinned:
            break
        pinned, before = pinned and worst <= STALLED * before, worst
    return x


def _factor(wanted: Floats, found: Floats) -> Floats:
    return np.asarray(np.divide(wanted, found, out=np.ones(found.shape), where=found > 0), dtype=np.float64)


def _sums(index: Integers, rows: int) -> sp.csr_matrix:
    """What sums cells by row; those that no row counts have the last number."""
    counted = np.flatnonzero(index < rows)
    return sp.csr_matrix((np.ones(len(counted)), (index[counted], counted)), shape=(rows, len(index)))
