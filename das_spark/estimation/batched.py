"""The batched solver: all children of a family at once, by an alternating-direction method (README, section 9).

General solvers meet a county of a thousand tracts as one sparse program of a million unknowns. Here the children share
one small inverse, cells are divided among children exactly, and only the sums that are bounded are reached in the
limit; a last raking makes them exact. What comes out is proved like any other candidate.

The Hessian of a child is d I + sum_q w_q A_q' A_q, where A_q sums cells by the rows of a query. Most queries sum the
answers of a finer one: with the finest of them stacked in B, the Hessian is d I + B' M B with a small dense M, and the
inverse of that plus rho I has the same shape. Its cost does not depend on the number of cells, but on the rows of B
(E-41, E-42).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import scipy.sparse as sp

from das_spark.estimation.solvers import Status
from das_spark.estimation.support import Candidate, Partition, Proposal, Support, coarser, hand_out

if TYPE_CHECKING:
    from das_spark.estimation.certify import Proof
    from das_spark.estimation.problem import Booleans, Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class Grouping:
    """One way to sum cells."""

    index: Integers  # row of each cell, -1 where none counts it, shape (n,)
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class Stack:
    """The finest groupings of a family, stacked, and how every grouping follows from them."""

    # stacked row of each cell in each of the finest groupings, shape (P, n); cells that a grouping does not count have
    # a row of their own, which no answer reads
    index: Integers
    rows: int  # number of stacked rows r
    owner: Integers  # grouping that each answer belongs to, shape (a,): of the first grouping, then of the next
    sums: sp.csr_matrix  # C, which makes all answers from the stacked rows, shape (a, r)
    matrix: sp.csr_matrix  # B, which sums cells by stacked row, shape (r, n)
    overlap: Floats  # B B': cells that two stacked rows share, shape (r, r)

    def weighted(self, weight: Floats) -> Floats:
        """C' diag(weight) C for one weight an answer: the middle M of a sum of groupings (E-41), shape ``(r, r)``."""
        data = np.repeat(weight, np.diff(self.sums.indptr))
        scaled = sp.csc_matrix((data, self.sums.indices, self.sums.indptr), shape=self.sums.shape[::-1])
        return np.asarray((scaled @ self.sums).toarray(), dtype=np.float64)


def stack(groupings: tuple[Grouping, ...], cells: int) -> Stack:
    """Find the finest groupings, and derive the others from them."""
    finest: list[Integers] = []
    starts: list[int] = []
    rows = 0
    placed: dict[int, tuple[int, Integers]] = {}
    for number, each in sorted(enumerate(groupings), key=lambda numbered: -numbered[1].rows):
        index, count = np.where(each.index < 0, each.rows, each.index), each.rows
        for start, fine in zip(starts, finest, strict=True):
            coarse = coarser(fine, index)
            if coarse is not None:
                placed[number] = (start, coarse)
                break
        else:
            finest.append(index)
            starts.append(rows)
            placed[number] = (rows, np.arange(count + 1))
            rows += count + 1
    index = np.array([fine + start for start, fine in zip(starts, finest, strict=True)]).reshape(len(finest), cells)
    if not finest:
        index, rows = np.zeros((1, cells), dtype=np.int64), 1
    entries = (np.ones(index.size), (index.ravel(), np.tile(np.arange(cells), len(index))))
    matrix = sp.csr_matrix(entries, shape=(rows, cells))
    sizes = np.array([grouping.rows for grouping in groupings], dtype=np.int64)
    return Stack(
        index=index,
        rows=rows,
        owner=np.repeat(np.arange(len(sizes)), sizes),
        sums=_sums(sizes, placed, rows),
        matrix=matrix,
        overlap=(matrix @ matrix.T).toarray(),
    )


def _sums(sizes: Integers, placed: dict[int, tuple[int, Integers]], width: int) -> sp.csr_matrix:
    """All answers from the stacked rows."""
    first = np.cumsum(sizes) - sizes
    rows, columns = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for number, (start, coarse) in placed.items():
        (counted,) = np.nonzero((coarse >= 0) & (coarse < sizes[number]))
        rows.append(first[number] + coarse[counted])
        columns.append(start + counted)
    row, column = np.concatenate(rows), np.concatenate(columns)
    return sp.csr_matrix((np.ones(len(row)), (row, column)), shape=(int(sizes.sum()), width))


@dataclass(frozen=True, slots=True, eq=False)
class Inverse:
    """The inverse of (d + rho) I + B' M B, as a (I - a B' core B) with a = 1 / (d + rho)."""

    scale: float  # a
    core: Floats  # shape (r, r), symmetric


def inverse(stacked: Stack, weight: Floats, diagonal: float) -> Inverse:
    """Invert the operator of a kind of children."""
    scale, middle = 1.0 / diagonal, stacked.weighted(weight)
    core = np.linalg.solve(np.eye(stacked.rows) + scale * (middle @ stacked.overlap), middle)
    return Inverse(scale, 0.5 * (core + core.T))


MOST_KINDS = 32
"""Children with other variances need an operator of their own; more kinds than this are left to other solvers."""

ROOT_CELLS = 500_000
"""Cells from which a root, which has nothing to divide, is served; an interior point takes more memory and time."""

MOST_ROWS = 2500
"""Largest number of stacked rows, whose square is what an operator takes in memory and in time."""


@dataclass(frozen=True, slots=True, eq=False)
class Limits:
    """The answers that have bounds which can bind; L of them."""

    partitions: tuple[Partition, ...]  # the partitions that they belong to, in order
    first: Integers  # first answer of each partition, and their number at the end
    answer: Integers  # number of each among all answers of the stack, shape (L,)
    lower: Floats  # shape (L, K)
    upper: Floats  # shape (L, K)

    def part(self, number: int) -> slice:
        """The answers of a partition, as positions among the limited ones."""
        return slice(int(self.first[number]), int(self.first[number + 1]))


@dataclass(frozen=True, slots=True, eq=False)
class BatchedFamily:
    """A family of K children on n cells; weights are divided by a typical one."""

    support: Support  # where it comes from
    live: Booleans  # whether a child can hold people in a cell, shape (n, K)
    needed: Floats  # people of the parent in each cell, shape (n,); -1 at the root, where nothing is divided
    diagonal: Floats  # weight of each child's answers to the single cells, shape (K,)
    weights: Floats  # weight of each other answer for each child, shape (a, K)
    linear: Floats  # linear term of the objective, shape (n, K)
    stacked: Stack  # the finest groupings
    limits: Limits  # answers with bounds
    kind: Integers  # number of each child's kind, shape (K,); children of a kind share all weights
    unit: float  # what weights were divided by, people^-2

    def sums(self, x: Floats) -> Floats:
        """Sum points by stacked row: shape ``(n, K)`` to ``(r, K)``."""
        return np.asarray(self.stacked.matrix @ x, dtype=np.float64)

    def hessian(self, x: Floats) -> Floats:
        """Multiply points, shape ``(n, K)``, by the Hessian of half the objective (E-40)."""
        answers = self.weights * (self.stacked.sums @ self.sums(x))
        pulled = self.stacked.matrix.T @ (self.stacked.sums.T @ answers)
        return np.asarray(self.diagonal * x + pulled, dtype=np.float64)


def batched_family(support: Support) -> BatchedFamily | None:
    """Lay a family out; None where the method does not serve."""
    cells, children = len(support.cells), support.children
    if support.relaxation is not None or support.problem.flows is not None or support.problem.prior is not None:
        return None
    if support.parent is None and cells < ROOT_CELLS:
        return None
    own = [partition for partition in support.partitions if np.array_equal(partition.index, np.arange(cells))]
    parts = [partition for partition in support.partitions if not any(partition is other for other in own)]
    if any(_can_bind(each, support.parent) for each in own) or sum(part.rows + 1 for part in parts) > MOST_ROWS:
        return None
    weights = np.array([part.weight for part in parts]).reshape(len(parts), children)
    diagonal = own[0].weight if own else np.zeros(children)
    _, kind = np.unique(np.vstack([diagonal, weights]), axis=1, return_inverse=True)
    if kind.max(initial=0) >= MOST_KINDS:
        return None
    unit = float(np.median(diagonal)) or float(weights.sum(axis=0).mean()) or 1.0
    stacked = stack(tuple(Grouping(part.index, part.rows) for part in parts), cells)
    return BatchedFamily(
        support=support,
        live=np.ascontiguousarray((support.most > 0).T),
        needed=np.full(cells, -1.0) if support.parent is None else support.parent.astype(np.float64),
        diagonal=diagonal / unit,
        weights=weights[stacked.owner] / unit,
        linear=_linear([*own, *parts], (children, cells)) / unit,
        stacked=stacked,
        limits=_limits(parts, support.parent, children),
        kind=np.asarray(kind, dtype=np.int64).ravel(),
        unit=unit,
    )


def _can_bind(partition: Partition, parent: Integers | None) -> bool:
    """Whether a bound asks for somebody, or for fewer than all of the parent's people (but not for nobody)."""
    if not partition.limits:
        return False
    counted = partition.index >= 0
    people = np.full(partition.rows, np.inf)
    if parent is not None:
        people = np.bincount(partition.index[counted], parent[counted], minlength=partition.rows)
    return bool((partition.lower > 0).any() or ((partition.upper > 0) & (partition.upper < people)).any())


def _limits(parts: list[Partition], parent: Integers | None, children: int) -> Limits:
    first = np.cumsum([0, *(part.rows for part in parts)])
    chosen = [number for number, part in enumerate(parts) if _can_bind(part, parent)]
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
    for partition in partitions:
        if partition.weight.any():
            answers = np.column_stack([partition.weight[:, None] * partition.values, np.zeros(shape[0])])
            linear += answers[:, partition.index]
    return np.ascontiguousarray(linear.T)


RELAXATION = 1.6
"""Over-relaxation of each step."""
TIGHTNESS = 3.0
"""Penalty of a bounded sum, in units of the curvature that the objective has along it."""


@dataclass(slots=True, eq=False)
class Iterates:
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


def begin(family: BatchedFamily, rho: float) -> Iterates:
    """Start from cells divided in proportion to the children's noisy sizes."""
    guess = _guess(family)
    cells, children = guess.shape
    # Where nobody can be, the multiplier is known but for the sums: the gradient.
    gradient = (family.linear - family.hessian(guess)) / rho
    answers = (family.stacked.sums @ family.sums(guess))[family.limits.answer]
    state = Iterates(
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
    shares = np.where(family.live, family.support.sizes(), 0.0)
    if family.support.parent is None:
        return np.ascontiguousarray(shares / np.maximum(family.live.sum(axis=0), 1))
    return np.ascontiguousarray(shares * (family.needed / shares.sum(axis=1))[:, None])


def set_penalty(state: Iterates, rho: float) -> None:
    """Change the penalty: multipliers keep their value in people's units, operators are inverted again."""
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


def _bounded_inverse(state: Iterates, child: int) -> Inverse:
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


def iterate(state: Iterates) -> tuple[float, float]:
    """Make one iteration."""
    # Here, so that only those who iterate wait for the compiler to be imported (half a second).
    from das_spark.estimation._sweep import sweep  # noqa: PLC0415

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


def _applied(state: Iterates) -> Floats:
    """Each kind's operator on what its children give."""
    if len(state.operators) == 1:
        return np.asarray(state.operators[0] @ state.given, dtype=np.float64)
    found = np.empty(state.given.shape)
    for kind, operator in enumerate(state.operators):
        own = state.family.kind == kind
        found[:, own] = operator @ state.given[:, own]
    return found


PENALTIES: Final = ((0, 1.0), (20, 20.0), (70, 60.0), (200, 600.0), (300, 6000.0), (400, 60.0))
"""Penalty from an iteration on: low to find the sizes, then high to settle who has the few people of rare cells.

What is not proved by then may have a multiplier with far to go, which takes the same small step, a part of the penalty,
each time: for a while the penalty is very high. Where that was not the reason, there is time left.
"""
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


def solve_batched(support: Support, proof: Proof) -> Proposal | None:
    """Iterate until the family's certificate holds; None where the method does not serve (`batched_family`)."""
    arrays = batched_family(support)
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


def _candidate(state: Iterates) -> Candidate:
    """The current point, raked, with its multipliers in people's units."""
    family = state.family
    problem, limits = family.support.problem, family.limits
    hints = [np.zeros(bound.lower.shape) for bound in problem.bounds]
    multipliers = (-2.0 * family.unit * state.penalty[:, None] * state.point_dual).T
    for number, partition in enumerate(limits.partitions):
        hand_out(problem, partition, multipliers[:, limits.part(number)], hints)
    return Candidate(
        x=np.ascontiguousarray(raked(family.support, limits, state.split.copy(), state.point, state.point_dual != 0).T),
        flows=None,
        parent_multipliers=-2.0 * family.unit * state.rho * state.price,
        bound_multipliers=tuple(hints),
        flow_multipliers=None,
    )


def raked(support: Support, limits: Limits, x: Floats, point: Floats, on: Booleans) -> Floats:
    """Points with their bounded sums and their cells' sums made exact in turn (E-47); changes them.

    A sum with a multiplier is put on its bound, not only within: complementarity is what the proof asks for. Where all
    of them cannot be there at once, within has to do.

    Args:
        support: The family.
        limits: Its bounded sums, L of them.
        x: The points, shape ``(n, K)``.
        point: Bounded sums within their bounds, shape ``(L, K)``.
        on: Whether a bounded sum has a multiplier, shape ``(L, K)``.
    """
    needed = None if support.parent is None else support.parent.astype(np.float64)
    if needed is not None:
        x *= _factor(needed, x.sum(axis=1))[:, None]
    indices = [np.where(partition.index < 0, partition.rows, partition.index) for partition in limits.partitions]
    matrices = [_summation(index, partition.rows) for index, partition in zip(indices, limits.partitions, strict=True)]
    pinned, before = True, np.inf
    for _ in range(RAKINGS if limits.partitions else 0):
        worst = 0.0
        for number, (index, matrix) in enumerate(zip(indices, matrices, strict=True)):
            part, sums = limits.part(number), matrix @ x
            within = np.clip(sums, limits.lower[part], limits.upper[part])
            wanted = np.maximum(np.where(on[part] & pinned, point[part], within), 0.0)
            worst = max(worst, float((np.abs(sums - wanted) / np.maximum(1.0, np.abs(wanted))).max(initial=0.0)))
            x *= np.vstack([_factor(wanted, sums), np.ones(x.shape[1])])[index]
        if worst <= EXACT:
            break
        if needed is not None:
            x *= _factor(needed, x.sum(axis=1))[:, None]
        if worst > STALLED * before and not pinned:
            break
        pinned, before = pinned and worst <= STALLED * before, worst
    return x


def _factor(wanted: Floats, found: Floats) -> Floats:
    return np.asarray(np.divide(wanted, found, out=np.ones(found.shape), where=found > 0), dtype=np.float64)


def _summation(index: Integers, rows: int) -> sp.csr_matrix:
    """What sums cells by row; those that no row counts have the last number."""
    counted = np.flatnonzero(index < rows)
    return sp.csr_matrix((np.ones(len(counted)), (index[counted], counted)), shape=(rows, len(index)))
