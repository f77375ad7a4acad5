"""The solver of nested families: alternating directions, exact in known sums and in cells (README, section 16).

All answers but those that cross the known sums are dealt with by formulas, cell by cell; the others by one small
inverse for each set of classes that a child can have.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import scipy.sparse as sp

from das_spark.estimation._nested_sweep import (
    begun,
    cell_means,
    class_means,
    gradients,
    overlaps,
    raked_classes,
    shortfall,
    spread_points,
    stacked_sums,
    sweep_nested,
)
from das_spark.estimation.nested_family import Block, NestedFamily, nested_family
from das_spark.estimation.solvers import Status
from das_spark.estimation.support import Candidate, Partition, Proposal, Support, at_once, hand_out, sums

if TYPE_CHECKING:
    from das_spark.estimation.certify import Certificate, Proof
    from das_spark.estimation.problem import Floats, Integers


@dataclass(slots=True, eq=False)
class Inverses:
    """What turns stacked sums of the first step into corrections, for one block (E-79, E-80)."""

    middle: Floats  # M of each set of weights, shape (sets, r, r)
    rest: Floats  # (1 + O M)^-1 of each kind, shape (kinds, r, r)
    mean: Floats | None  # inverse of the sum of `rest` over children; None where the mean's curvature is kept


@dataclass(slots=True, eq=False)
class Iterates:
    """What iterations change.

    Attributes:
        family: The family.
        rho: Penalty of the division of cells.
        scale: a of each set of weights.
        coupling: What couples the cells of each group, shape ``(sets, groups)``.
        share: What a class's multiplier takes from each cell of each group, likewise.
        inverse_sum: Inverse of the sum of that over the class's cells, shape ``(sets, C)``; 0 where nothing is known.
        inverses: Of each block.
        split: Points that divide the parent's cells exactly, shape ``(unknowns,)``.
        dual: Their scaled multipliers.
        price: Multiplier of each cell's sum, shape ``(N,)``.
        step: Points before the correction by stacked sums.
        combined: Sums of `step` by combination of stacked rows, shape ``(combinations, K)``.
        shift: Corrections of stacked rows, shape ``(r, K)``.
        pulled: M times the mean of the stacked sums, shape ``(r,)``.
        work: Room for the largest class.
        sums: Room for the sums of its groups.
        iterations: How many were made.
    """

    family: NestedFamily
    rho: float
    scale: Floats
    coupling: Floats
    share: Floats
    inverse_sum: Floats
    inverses: list[Inverses]
    split: Floats
    dual: Floats
    price: Floats
    step: Floats
    combined: Floats
    shift: Floats
    pulled: Floats
    work: Floats
    sums: Floats
    iterations: int = 0


def begin(family: NestedFamily, rho: float) -> Iterates:
    """Start from divided cells, with the prices that these have."""
    widths = np.diff(family.places.live_first)
    largest = int((np.diff(family.places.class_first) * widths).max(initial=0))
    rows, children = family.stacked.rows, family.support.children
    none = np.zeros(0)
    state = Iterates(
        family=family,
        rho=rho,
        scale=none,
        coupling=none,
        share=none,
        inverse_sum=none,
        inverses=[],
        split=_start(family),
        dual=np.zeros(family.places.unknowns),
        price=np.zeros(len(family.places.cell)),
        step=np.zeros(family.places.unknowns),
        combined=np.zeros((family.parts.shape[1], children)),
        shift=np.zeros((rows, children)),
        pulled=np.zeros(rows),
        work=np.zeros(largest),
        sums=np.zeros(int(((np.diff(family.places.group_first) + 1) * widths).max(initial=0))),
    )
    if family.support.parent is not None:
        _warm(state)
    set_penalty(state, rho)
    return state


_APART: Final = 0.3
"""How far a child's share of a cell is from its share of the class, about: a standard deviation, as a part of it."""
_FITTINGS: Final = 6


def _start(family: NestedFamily) -> Floats:
    """Points near both margins; at the root, noisy cells brought to their class's people.

    A class is divided in proportion first. From there, if many people live in a cell, each unknown goes towards its
    noisy answer, the further the surer that is (E-84): answers to single cells know more of them than anything else,
    and hundreds of iterations would only find that out. Then the margins are fitted in turn.
    """
    points, many = np.empty(family.places.unknowns), _many_people(family)
    sizes = family.support.sizes()
    for kind, start in enumerate(family.places.base):
        cells = slice(int(family.places.class_first[kind]), int(family.places.class_first[kind + 1]))
        own = slice(int(family.places.live_first[kind]), int(family.places.live_first[kind + 1]))
        children, needed = family.places.live[own], family.needed[cells]
        shape = (len(needed), len(children))
        part = points[start : start + shape[0] * shape[1]].reshape(shape)
        if family.support.parent is None:
            free = family.alone[0, family.places.cell[cells]]
            part[:, 0] = _divided(free, float(family.targets[own][0])) if family.known[kind] else np.maximum(free, 0.0)
            continue
        share = family.targets[own] if family.known[kind] else sizes[children]
        part[:] = needed[:, None] * (share / share.sum())
        if not many:
            continue
        spread = part + (_APART * part) ** 2
        trust = spread / (spread + 1.0 / (family.unit * family.weight[children]))
        free = family.alone[np.ix_(children, family.places.cell[cells])].T
        near = np.maximum(part + trust * (free - part), _FLOOR * part)
        for _ in range(_FITTINGS):
            if family.known[kind]:
                near *= _factors(share, near.sum(axis=0))
            near *= _factors(needed, near.sum(axis=1))[:, None]
        part[:] = near
    return points


_FLOOR: Final = 1e-3
"""Least share of its proportion that an unknown starts with, so that fitting can move it."""


def _factors(wanted: Floats, found: Floats) -> Floats:
    return np.divide(wanted, found, out=np.ones(len(found)), where=found > 0)


def _divided(free: Floats, people: float) -> Floats:
    """The nearest nonnegative numbers that sum to what there is (E-44)."""
    order = -np.sort(-free)
    above = (np.cumsum(order) - people) / np.arange(1, len(free) + 1)
    last = int(np.flatnonzero(order > above)[-1]) if people > 0 else 0
    level = above[last] if people > 0 else np.inf
    return np.asarray(np.maximum(free - level, 0.0), dtype=np.float64)


def _summed(family: NestedFamily, points: Floats) -> Floats:
    """Stacked sums of points, shape ``(r, K)``."""
    found = np.zeros((family.parts.shape[1], family.support.children))
    stacked_sums(
        family.places.class_first,
        family.places.live_first,
        family.places.live,
        family.places.base,
        family.joint,
        points,
        found,
    )
    return np.asarray(family.parts @ found, dtype=np.float64)


def _pulled(family: NestedFamily, stacked: Floats) -> Floats:
    """M times stacked sums, child by child, shape ``(r, K)``."""
    answers = family.weights * (family.stacked.sums @ stacked)
    return np.ascontiguousarray(family.stacked.sums.T @ answers, dtype=np.float64)


def _gradient(family: NestedFamily, points: Floats, pulled: Floats) -> Floats:
    found = np.empty(family.places.unknowns)
    gradients(
        family.places.group_first,
        family.places.cell_first,
        family.places.live_first,
        family.places.live,
        family.places.base,
        family.joint,
        family.weight,
        family.group_weight,
        family.places.counted,
        family.linear,
        np.ascontiguousarray(family.parts.T @ pulled),
        points,
        found,
    )
    return found


def _class_means(family: NestedFamily, price: Floats, gradient: Floats, points: Floats) -> Floats:
    found = np.empty(len(family.places.live))
    class_means(
        family.places.class_first,
        family.places.live_first,
        family.places.base,
        family.known,
        price,
        gradient,
        points,
        found,
    )
    return found


def _cell_means(family: NestedFamily, multipliers: Floats, gradient: Floats, points: Floats) -> Floats:
    found = np.zeros(len(family.places.cell))
    cell_means(
        family.places.class_first, family.places.live_first, family.places.base, multipliers, gradient, points, found
    )
    return found


def _warm(state: Iterates) -> None:
    """Prices of cells at the start: means of the gradient, less what it has in common over each class of a child."""
    family = state.family
    pulled = _pulled(family, _summed(family, state.split))
    if family.alike:
        pulled = pulled - _mean_pull(family, state.split)[:, None]
    gradient = _gradient(family, state.split, np.ascontiguousarray(pulled))
    multipliers = _class_means(family, state.price, gradient, state.split)
    state.price = -_cell_means(family, multipliers, gradient, state.split) / state.rho
    widths = np.diff(family.places.live_first)
    state.dual = np.repeat(state.price, np.repeat(widths, np.diff(family.places.class_first)))


def _mean_pull(family: NestedFamily, points: Floats) -> Floats:
    """M times the mean of stacked sums over the children of each block."""
    stacked = _summed(family, points)
    mean = np.zeros(stacked.shape[0])
    for block in family.blocks:
        mean[block.rows] = stacked[np.ix_(block.rows, block.children)].mean(axis=1)
    return np.asarray(family.stacked.sums.T @ (family.weights[:, 0] * (family.stacked.sums @ mean)), dtype=np.float64)


def set_penalty(state: Iterates, rho: float) -> None:
    """Change the penalty: multipliers keep their value in people's units, all inverses are made again."""
    family = state.family
    state.dual *= state.rho / rho
    state.price *= state.rho / rho
    state.rho = rho
    sets = int(family.weighting.max(initial=0)) + 1
    typical = [int(np.argmax(family.weighting == each)) for each in range(sets)]
    base = family.weight[typical] + rho
    sizes = np.diff(family.places.cell_first).astype(np.float64)
    group = np.where(family.places.counted, family.group_weight[typical][:, None], 0.0)
    state.scale = 1.0 / base
    state.share = 1.0 / (base[:, None] + group * sizes)
    state.coupling = (state.scale[:, None] - state.share) / sizes
    whole = np.add.reduceat(state.share * sizes, family.places.group_first[:-1], axis=1) if len(sizes) else state.share
    state.inverse_sum = np.where(family.known, 1.0 / whole, 0.0)
    middles = [inverse.middle for inverse in state.inverses] or [
        np.stack([_middle(family, block.rows, child) for child in typical]) for block in family.blocks
    ]
    shares = np.repeat(state.share, np.diff(family.places.cell_first), axis=1)
    state.inverses = [
        _inverses(state, block, middle, shares) for block, middle in zip(family.blocks, middles, strict=True)
    ]
    begun(
        family.places.group_first,
        family.places.cell_first,
        family.places.live_first,
        family.places.live,
        family.places.base,
        family.joint,
        family.weighting,
        state.scale,
        state.coupling,
        state.share,
        state.inverse_sum,
        family.targets,
        family.linear,
        rho,
        state.split,
        state.dual,
        state.step,
        state.sums,
        state.combined,
    )


def _inverses(state: Iterates, block: Block, middle: Floats, shares: Floats) -> Inverses:
    """Invert for every kind of children of a block (E-79), and for their mean (E-80); `shares` are of cells."""
    family, size = state.family, len(block.rows)
    local = np.full(family.stacked.rows, -1, dtype=np.int64)
    local[block.rows] = np.arange(size)
    overlap = np.zeros((len(block.members), size, size))
    for each in np.unique(block.weighting):
        (own,) = np.nonzero(block.weighting == each)
        found = np.zeros((len(own), size, size))
        overlaps(
            block.classes,
            np.ascontiguousarray(block.members[own]),
            family.places.group_first,
            family.places.cell_first,
            family.rows,
            local,
            float(state.scale[each]),
            state.coupling[each],
            shares[each],
            state.inverse_sum[each],
            found,
        )
        overlap[own] = found
    matrix = overlap @ (middle[0] if family.alike else middle[block.weighting])
    matrix += np.eye(size)
    rest = np.linalg.inv(matrix)
    mean: Floats | None = None
    if family.alike and family.support.parent is not None:
        children = np.bincount(block.kind, minlength=len(rest)).astype(np.float64)
        mean = np.asarray(np.linalg.inv(np.tensordot(children, rest, 1)), dtype=np.float64)
    return Inverses(middle, rest, mean)


def _middle(family: NestedFamily, rows: Integers, child: int) -> Floats:
    part = sp.csc_matrix(family.stacked.sums[:, rows])
    weighted = sp.diags_array(family.weights[:, child]) @ part
    return np.asarray((part.T @ weighted).toarray(), dtype=np.float64)


RELAXATION: Final = 1.6
"""Over-relaxation of each step."""


def iterate(state: Iterates) -> None:
    """Make one iteration."""
    family = state.family
    stacked = np.asarray(family.parts @ state.combined, dtype=np.float64)
    for block, inverses in zip(family.blocks, state.inverses, strict=True):
        _correct(state, block, inverses, stacked)
    sweep_nested(
        family.places.group_first,
        family.places.cell_first,
        family.places.live_first,
        family.places.live,
        family.places.base,
        family.joint,
        family.weighting,
        state.scale,
        state.coupling,
        state.share,
        state.inverse_sum,
        family.targets,
        np.zeros(family.support.children),
        family.linear,
        state.rho,
        RELAXATION,
        family.needed,
        np.ascontiguousarray(family.parts.T @ state.shift),
        state.split,
        state.dual,
        state.price,
        state.step,
        state.work,
        state.sums,
        state.combined,
    )
    state.iterations += 1


def _correct(state: Iterates, block: Block, inverses: Inverses, stacked: Floats) -> None:
    """Corrections of a block's rows from the stacked sums of the first step (E-80)."""
    place = np.ix_(block.rows, block.children)
    given = stacked[place]
    if inverses.mean is not None:
        together = np.zeros((len(inverses.rest), len(block.rows)))
        np.add.at(together, block.kind, given.T)
        mean = inverses.mean @ np.matmul(inverses.rest, together[:, :, None]).sum(axis=0)[:, 0]
        given = given - mean[:, None]
        state.pulled[block.rows] = inverses.middle[0] @ mean
    weighting = block.weighting[block.kind]
    if len(inverses.rest) == 1:
        near = inverses.rest[0] @ given
    elif len(inverses.rest) == len(block.children):
        near = np.matmul(inverses.rest, given.T[:, :, None])[:, :, 0].T
    else:
        near = np.empty(given.shape)
        for kind, rest in enumerate(inverses.rest):
            own = slice(*np.searchsorted(block.kind, (kind, kind + 1)))
            near[:, own] = rest @ given[:, own]
    if state.family.alike:
        found = inverses.middle[0] @ near
    else:
        found = np.empty(given.shape)
        for each in np.unique(weighting):
            own = weighting == each
            found[:, own] = inverses.middle[each] @ near[:, own]
    state.shift[place] = found


PENALTIES: Final = ((0, 1.0), (20, 20.0), (70, 60.0))
"""Penalty from an iteration on, in units of the weight of single cells: low to find the sizes, then high to settle who
has the few people of rare cells."""
PENALTIES_OF_MANY: Final = ((0, 400.0), (20, 4000.0), (60, 400.0), (100, 30.0))
"""The same where sums cross many classes and many people live in a cell: those begin where they belong, and are held
there until the sums are settled."""
MANY: Final = 0.4
"""People of an unknown, in units of the noise of a single cell, that are many (tests/benchmarks)."""
FEW_CLASSES: Final = 50
"""Open classes with known sums below which the usual penalties do better even so."""
FIRST_LOOK: Final = 20
DECADE: Final = 8
NEXT_LOOK: Final = 8
"""The gap costs some iterations: it is asked for after 20 of them, then 8 for each power of 10 that it is too large."""
SAFETY: Final = 0.9
"""Share of the tolerance that our own gap must reach before the certificate is asked for."""
MOST_ITERATIONS: Final = 1500
RAKINGS: Final = 20
EXACT: Final = 1e-12
"""Violation at which raking ends, relative to max(1, what is violated); beyond, what is left is moved."""
KEPT: Final = 1e-11
"""Violation up to which bounds that the iterations do not know of count as kept: rounding errors of sums."""


def solve_nested(support: Support, proof: Proof, tolerance: float) -> Proposal | None:
    """Iterate until the family's certificate holds.

    Args:
        support: The family.
        proof: Its certificate.
        tolerance: Relative gap at which that is asked for.

    Returns:
        The estimate; None where the method does not serve (`nested_family`), or where bounds that it does not know of
        turn out to bind.
    """
    family = nested_family(support)
    if family is None:
        return None
    penalties, look = dict(PENALTIES_OF_MANY if _many_people(family) else PENALTIES), FIRST_LOOK
    state = begin(family, penalties[0])
    while True:
        if family.places.unknowns:
            iterate(state)
        if not family.places.unknowns or state.iterations >= look or state.iterations >= MOST_ITERATIONS:
            found = _candidate(state)
            last = state.iterations >= MOST_ITERATIONS or not family.places.unknowns or not np.isfinite(found.gap)
            if found.gap <= SAFETY * tolerance or last:
                proved = proof(found.candidate())
                if proved.certified or last or _in_vain(family, proved, tolerance):
                    return _proposal(family, found.candidate(), proved, state.iterations)
            look = state.iterations + max(NEXT_LOOK, int(DECADE * np.log10(max(found.gap, 1.0e-300) / tolerance)))
        if state.iterations in penalties:
            set_penalty(state, penalties[state.iterations])


def _many_people(family: NestedFamily) -> bool:
    """Whether many people live in a cell, and sums cross many classes."""
    if family.support.parent is None or not family.blocks or np.count_nonzero(family.known) < FEW_CLASSES:
        return False
    people = float(family.needed.sum()) / family.places.unknowns
    return bool(people * np.sqrt(family.unit) >= MANY)


def _in_vain(family: NestedFamily, proved: Certificate, tolerance: float) -> bool:
    """Whether all is proved but for bounds that the iterations do not know of."""
    return family.ignored and abs(proved.gap) <= tolerance


def _proposal(family: NestedFamily, candidate: Candidate, proved: Certificate, iterations: int) -> Proposal | None:
    """The estimate; where bounds were ignored, only if it keeps them: one that is crossed has no multiplier here."""
    if family.ignored and not (proved.certified and proved.violation <= KEPT):
        return None
    return Proposal(candidate, Status.OPTIMAL if proved.certified else Status.LIMIT, iterations)


@dataclass(slots=True, eq=False)
class Found:
    """Raked points with multipliers; weights are divided by the unit."""

    family: NestedFamily
    points: Floats  # shape (unknowns,)
    price: Floats  # of each open cell
    multipliers: Floats  # of each class and child, as in `live`
    gap: float  # relative distance from the bound that these multipliers prove
    made: Candidate | None = None

    def candidate(self) -> Candidate:
        """The estimate of all cells, with its multipliers in people's units."""
        if self.made is None:
            self.made = self._made()
        return self.made

    def _made(self) -> Candidate:
        family, problem = self.family, self.family.support.problem
        x = np.zeros((family.support.children, len(family.support.cells)))
        x[:, family.closed] = family.settled
        spread_points(
            family.places.class_first,
            family.places.cell,
            family.places.live_first,
            family.places.live,
            family.places.base,
            self.points,
            x,
        )
        prices = np.zeros(x.shape[1])
        prices[family.places.cell] = 2.0 * family.unit * self.price
        hints = [np.zeros(bound.lower.shape) for bound in problem.bounds]
        partition = family.classes.partition
        if partition is not None:
            value = np.zeros((len(x), partition.rows))
            kind = np.repeat(np.arange(len(family.places.base)), np.diff(family.places.live_first))
            row = family.classes.row[family.places.number[kind]]
            slope = 2.0 * family.unit * self.multipliers + family.steady[family.places.live, family.places.number[kind]]
            value[family.places.live[row >= 0], row[row >= 0]] = slope[row >= 0]
            self._settle(x, value, partition)
            hand_out(problem, partition, value, hints)
        return Candidate(x, None, prices, tuple(hints), None)

    def _settle(self, x: Floats, value: Floats, partition: Partition) -> None:
        """Multipliers of classes of one cell: its gradient."""
        family = self.family
        sizes = np.bincount(family.classes.index, minlength=len(family.classes.known))
        (cells,) = np.nonzero(((sizes == 1) & family.classes.known)[family.classes.index])
        if not len(cells):
            return
        gradient = np.zeros((len(x), len(cells)))
        for each in family.support.partitions:
            if each.weight.any():
                index = each.index[cells]
                for part in at_once(len(x), max(each.rows, x.shape[1])):
                    residual = each.weight[part, None] * (sums(x[part], each.index, each.rows) - each.values[part])
                    gradient[part] += np.where(index >= 0, 2.0 * residual[:, index], 0.0)
        value[:, partition.index[cells]] = gradient


def _candidate(state: Iterates) -> Found:
    """The current point, raked, with its multipliers and gap (E-82, E-83)."""
    family = state.family
    points = state.split.copy()
    if not family.places.unknowns:
        return Found(family, points, state.price, np.zeros(len(family.places.live)), 0.0)
    raked_classes(
        family.places.class_first,
        family.places.live_first,
        family.places.base,
        family.known,
        family.targets,
        family.needed,
        RAKINGS,
        EXACT,
        points,
        state.sums,
    )
    stacked = _summed(family, points)
    pulled = _pulled(family, stacked)
    gradient = _gradient(family, points, pulled)
    price = np.zeros(len(family.places.cell))
    if family.support.parent is not None:
        price = -state.rho * state.price
        for part in range(len(family.rows)):
            price = price + state.pulled[family.rows[part]]
    best: Found | None = None
    half = 0.5 * float(points @ (gradient - family.linear))
    objective = family.constant + 2.0 * family.unit * half
    for _ in range(1 if family.support.parent is None else 2):
        multipliers = _class_means(family, price, gradient, points)
        short = shortfall(
            family.places.class_first,
            family.places.live_first,
            family.places.live,
            family.places.base,
            family.known,
            family.targets,
            family.needed,
            family.weight,
            price,
            multipliers,
            gradient,
            points,
        )
        found = Found(family, points, price, multipliers, 2.0 * family.unit * short / max(1.0, objective))
        if best is None or found.gap < best.gap:
            best = found
        price = _cell_means(family, multipliers, gradient, points) if family.support.parent is not None else price
    assert best is not None  # noqa: S101
    return best
