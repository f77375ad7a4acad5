"""The structured solver: families whose children are known from below, each by a precision of its own (README, 15).

The alternating-direction method of the batched solver, with another first step: a child's matrix, its own answers and
what lies below it together, is a few small matrices over sites (`components.py`), and so is its inverse, whatever the
penalties. All cells of the sites take part in that step; those that the parent does not occupy are zero in the other,
and their multipliers are known, since nothing else touches them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.estimation.batched import Limits, raked
from das_spark.estimation.components import Blocks, Frame
from das_spark.estimation.polish import Polish
from das_spark.estimation.roots import gram
from das_spark.estimation.solvers.base import Status
from das_spark.estimation.support import Candidate, Proposal, Support, hand_out

if TYPE_CHECKING:
    from das_spark.estimation.certify import Certificate, Proof
    from das_spark.estimation.gls import FamilyPrior
    from das_spark.estimation.problem import Booleans, Floats, Integers

RELAXATION: Final = 1.6
"""Over-relaxation of each step."""
STIFFNESS: Final = 1.0
"""Penalty at the start, in units of the median curvature of a cell."""
TIGHTNESS: Final = 3.0
"""Penalty of a bounded sum, in units of the curvature that the objective has along it."""
BALANCED_AT: Final = (60, 140, 260, 420, 620, 860)
"""Iterations at which the penalty is balanced."""
REFRESHED: Final = 50
"""Iterations after which multipliers of cells that the parent does not occupy are set anew."""
POLISHED: Final = 1e-4
"""Gap from which the active set is worth a Newton step; then from every tenth of the gap of the last time."""
MOST_POLISHES: Final = 6
GIVEN: Final = 1e-9
"""People between two bounds of a sum below which the sum is given."""
LIFTED_AFTER: Final = 10
"""Iterations after which bounded sums that the divided points miss are looked after."""
LIFTED: Final = 1e-4
"""People by which they miss them."""
STEADY: Final = 0.8
"""Share of its last movement by which a multiplier must move again to be hastened."""
MOST_ITERATIONS: Final = 1500
FIRST_LOOK: Final = 40


@dataclass(frozen=True, slots=True, eq=False)
class StructuredFamily:
    """A family of K children on the n cells of all sites that the parent occupies."""

    support: Support  # where it comes from
    prior: FamilyPrior  # what is known of the children
    frame: Frame  # the sites
    place: Integers  # positions of the support's cells among the n, shape (support cells,)
    live: Booleans  # whether a child can hold people in a cell, shape (K, n)
    sites: Booleans  # whether any cell of a site is live in a child, shape (K, p)
    needed: Floats  # people of the parent in each cell, shape (n,); -1 where nothing is divided
    blocks: Blocks  # matrix of each child, by component; zero for sites that are not live
    linear: Floats  # linear term of half the objective, shape (K, n)
    limits: Limits  # bounded sums of sites
    rows: Booleans  # sites of each bounded sum, shape (L, p)


def structured_family(support: Support) -> StructuredFamily | None:
    """Lay a family out; None where the method does not serve."""
    prior = support.problem.prior
    if prior is None or support.relaxation is not None or support.problem.flows is not None:
        return None
    algebra, children = prior.algebra, support.children
    on = np.zeros(algebra.sites, dtype=np.bool_)
    on[algebra.site[support.cells]] = True
    frame = algebra.frame(on)
    limits = _limits(support, frame)
    if limits is None:
        return None
    place = np.searchsorted(frame.cells, support.cells)
    live = np.zeros((children, len(frame.cells)), dtype=np.bool_)
    live[:, place] = support.most > 0
    needed = np.full(len(frame.cells), -1.0)
    if support.parent is not None:
        needed[place] = support.parent
    site = frame.averages.site
    sites = np.zeros((children, int(on.sum())), dtype=np.bool_)
    for child in range(children):
        sites[child, site[live[child]]] = True
    blocks = [np.zeros((children, len(own), len(own))) for own in frame.positions]
    linear, known = np.zeros((children, len(frame.cells))), np.zeros(live.shape, dtype=np.bool_)
    for each in prior.information:
        (wide,) = np.nonzero(np.isin(each.frame.cells, frame.cells))
        cells = np.ix_(each.children, np.searchsorted(frame.cells, each.frame.cells[wide]))
        linear[cells], known[cells] = each.vector[:, wide], True
        for block, root, own, theirs in zip(blocks, each.blocks, frame.positions, each.frame.positions, strict=True):
            mine, their = np.nonzero(np.isin(own, theirs))[0], np.nonzero(np.isin(theirs, own))[0]
            block[np.ix_(each.children, mine, mine)] = gram(root[:, :, their])
    if (live & ~known).any():
        return None
    dead = ~sites
    for block, own in zip(blocks, _owned(frame), strict=True):
        off = dead[:, own]
        block[off] = 0.0
        block.transpose(0, 2, 1)[off] = 0.0
    linear[dead[:, site]] = 0.0
    return StructuredFamily(support, prior, frame, place, live, sites, needed, tuple(blocks), linear, *limits)


def _owned(frame: Frame) -> list[Integers]:
    """For each component its live sites, as positions among all live sites."""
    sites = np.flatnonzero(frame.live)
    pairs = zip(frame.algebra.components, frame.positions, strict=True)
    return [np.searchsorted(sites, component.sites[own]) for component, own in pairs]


def _limits(support: Support, frame: Frame) -> tuple[Limits, Booleans] | None:
    """The bounds that can bind, as sums of sites; None where one is not."""
    site = np.searchsorted(np.flatnonzero(frame.live), frame.algebra.site[support.cells])
    sites, children = int(frame.live.sum()), support.children
    chosen, rows = [], [np.zeros((0, sites), dtype=np.bool_)]
    for partition in support.partitions:
        if not partition.limits:
            continue
        counted = partition.index >= 0
        people = np.full(partition.rows, np.inf)
        if support.parent is not None:
            people = np.bincount(partition.index[counted], support.parent[counted], minlength=partition.rows)
        if not ((partition.lower > 0) | ((partition.upper > 0) & (partition.upper < people))).any():
            continue
        of_site = np.full(sites, -2, dtype=np.int64)
        of_site[site] = partition.index
        if not np.array_equal(of_site[site], partition.index):
            return None
        chosen.append(partition)
        rows.append(of_site == np.arange(partition.rows)[:, None])
    none = np.zeros((0, children))
    limits = Limits(
        partitions=tuple(chosen),
        first=np.cumsum([0, *(each.rows for each in chosen)]),
        answer=np.arange(sum(each.rows for each in chosen)),
        lower=np.concatenate([none, *(each.lower.T for each in chosen)]),
        upper=np.concatenate([none, *(each.upper.T for each in chosen)]),
    )
    return limits, np.concatenate(rows)


@dataclass(slots=True, eq=False)
class _Iterates:
    """What iterations change; shapes (K, n) for cells and (K, L) for bounded sums."""

    family: StructuredFamily
    rho: float
    sigma: Floats  # penalty of each bounded sum of each child
    matrices: Floats  # inverse of each child, over averages, shape (K, E, p, p)
    split: Floats  # points that divide the parent's cells exactly
    dual: Floats  # their scaled multipliers
    price: Floats  # multiplier of each cell's sum, shape (n,)
    points: Floats  # points of the first step
    sums: Floats  # their sums by site, shape (K, p)
    within: Floats  # bounded sums within their bounds
    within_dual: Floats  # their scaled multipliers
    pulled: Floats  # their multipliers when they were looked at last
    moved: Floats  # how far these had moved then
    boost: Floats  # by how much their penalty is raised
    iterations: int = 0


def _begin(family: StructuredFamily) -> _Iterates:
    shape, wide = family.linear.shape, (family.linear.shape[0], len(family.rows))
    split = first_guess(family)
    answers = _site_sums(family, split) @ family.rows.T
    state = _Iterates(
        family=family,
        rho=STIFFNESS * _curvature(family),
        sigma=np.ones(wide),
        matrices=np.zeros(0),
        split=split,
        dual=np.zeros(shape),
        price=np.zeros(shape[1]),
        points=np.zeros(shape),
        sums=np.zeros((shape[0], family.sites.shape[1])),
        within=np.clip(answers, family.limits.lower.T, family.limits.upper.T),
        within_dual=np.zeros(wide),
        pulled=np.zeros(wide),
        moved=np.zeros(wide),
        boost=np.ones(wide),
    )
    _penalized(state, state.rho)
    _refresh(state)
    return state


def first_guess(family: StructuredFamily) -> Floats:
    """The means given what is below, without what is negative, raked to the parent's cells and to narrow bounds."""
    guess = np.zeros(family.linear.shape)
    for mean in family.prior.means:
        (wide,) = np.nonzero(np.isin(mean.frame.cells, family.frame.cells))
        guess[np.ix_(mean.children, np.searchsorted(family.frame.cells, mean.frame.cells[wide]))] = mean.vector[:, wide]
    guess = np.where(family.live, np.maximum(guess, 0.0) + 1e-3, 0.0)
    if family.support.parent is None:
        return guess
    lower, upper = family.limits.lower, family.limits.upper
    middle = 0.5 * (lower + np.minimum(upper, lower + 2.0))
    own = raked(family.support, family.limits, guess[:, family.place].T.copy(), middle, upper - lower < 1.0)
    guess = np.zeros(guess.shape)
    guess[:, family.place] = own.T
    return guess


def _site_sums(family: StructuredFamily, x: Floats) -> Floats:
    sums = np.zeros((len(x), family.sites.shape[1]))
    np.add.at(sums.T, family.frame.averages.site, x.T)
    return sums


def _curvature(family: StructuredFamily) -> float:
    """Median over children of the mean curvature of a live cell."""
    pairs = zip(family.blocks, family.frame.algebra.components, strict=True)
    trace = sum(np.trace(block, axis1=1, axis2=2) * component.multiplicity for block, component in pairs)
    cells = (family.sites[:, family.frame.averages.site]).sum(axis=1)
    return float(np.median(np.asarray(trace)[cells > 0] / cells[cells > 0]))


def _penalized(state: _Iterates, rho: float) -> None:
    """Change the penalty; multipliers keep their value in people's units."""
    family = state.family
    state.dual *= state.rho / rho
    state.rho = rho
    owned = _owned(family.frame)
    bare = []
    for block, own in zip(family.blocks, owned, strict=True):
        live = family.sites[:, own]
        matrix = block.copy()
        place = np.arange(matrix.shape[1])
        matrix[:, place, place] += np.where(live, rho, 1.0)
        bare.append(matrix)
    if len(family.rows):
        size = np.sqrt(np.bincount(family.frame.averages.site, minlength=family.sites.shape[1]))
        rows = family.rows[:, owned[0]] * size[owned[0]]
        masked = rows[None] * family.sites[:, None, owned[0]]
        seen = np.linalg.solve(bare[0], masked.transpose(0, 2, 1))
        spread = (masked.transpose(0, 2, 1) * seen).sum(axis=1)
        sigma = TIGHTNESS * state.boost * np.divide(1.0, spread, out=np.ones(spread.shape), where=spread > 0)
        state.within_dual *= state.sigma / sigma
        state.sigma = sigma
        bare[0] = bare[0] + (masked.transpose(0, 2, 1) * sigma[:, None, :]) @ masked
    found = []
    for matrix, own in zip(bare, owned, strict=True):
        inverted = np.linalg.inv(matrix)  # positive definite by its penalty
        block = np.asarray(0.5 * (inverted + inverted.transpose(0, 2, 1)), dtype=np.float64)
        off = ~family.sites[:, own]
        block[off] = 0.0
        block.transpose(0, 2, 1)[off] = 0.0
        found.append(block)
    state.matrices = family.frame.averages.of(tuple(found))


def _refresh(state: _Iterates) -> None:
    """Multipliers of cells that are zero whatever happens: what their gradient demands.

    What the multipliers of a bounded sum have in common, over all children, is a price of its cells, for the children's
    sums add up to the parent's. It is moved there, since iterations would move it a little each.
    """
    family = state.family
    if len(family.rows) and family.support.parent is not None:
        common = np.median(state.sigma * state.within_dual, axis=0)
        state.within_dual -= common / state.sigma
        shift = (common @ family.rows)[family.frame.averages.site] / state.rho
        state.dual += shift
        state.price += shift
        _hasten(state)
    gradient = family.linear - family.frame.apply(family.blocks, state.split)
    gradient -= ((state.sigma * state.within_dual) @ family.rows)[:, family.frame.averages.site]
    state.dual = np.where(family.live, state.dual, gradient / state.rho)


def _lift(state: _Iterates) -> None:
    """Move what holds a bounded sum from the points of the first step to those that divide the parent's cells.

    The first are on the bound by their own multiplier; the others follow by a little each time, and where the sum is
    small, for all its cells are zero there, not at all until the multipliers of the cells have become as large as their
    prices. Both multipliers hold the first step back alike, so that a shift from one to the other changes nothing
    there; it is the one that brings the divided points to the bound, at the prices of now.
    """
    family = state.family
    site, sums = family.frame.averages.site, _site_sums(family, state.split) @ family.rows.T
    wanted = np.clip(sums, family.limits.lower.T, family.limits.upper.T)
    for number, row in enumerate(family.rows):
        (children,) = np.nonzero(np.abs(wanted[:, number] - sums[:, number]) > LIFTED)
        (cells,) = np.nonzero(row[site])
        place = np.ix_(children, cells)
        above = np.where(family.live[place], state.dual[place] + state.split[place] - state.price[cells], -np.inf)
        shift = _level(above, wanted[children, number])
        state.dual[place] += shift[:, None]
        state.within_dual[children, number] -= state.rho * shift / state.sigma[children, number]


def _level(above: Floats, wanted: Floats) -> Floats:
    """What to add to every number of a row, so that those above zero sum to what is wanted; shape ``(rows,)``."""
    largest = -np.sort(-above, axis=1)
    number = np.arange(1, above.shape[1] + 1)
    with np.errstate(invalid="ignore"):
        level = (wanted[:, None] - np.cumsum(largest, axis=1)) / number
        positive = largest + level > 0
    last = np.maximum(positive.shape[1] - 1 - np.argmax(positive[:, ::-1], axis=1), 0)
    rows = np.arange(len(above))
    return np.where(positive.any(axis=1), level[rows, last], 0.0)


def _hasten(state: _Iterates) -> None:
    """Multipliers of bounded sums that move by the same amount every time: to zero, or at a higher penalty.

    A sum that is not on its bound gives its multiplier back by what it lies within, which between bounds that are near
    each other is little; one that is pulled hard beyond its bound takes up as little in a step.
    """
    pulled = state.sigma * state.within_dual
    moved = pulled - state.pulled
    steady = (moved * state.moved > 0) & (np.abs(moved) > STEADY * np.abs(state.moved))
    back = steady & (pulled * moved < 0)
    pulled = np.where(back, 0.0, pulled)
    state.within_dual = pulled / state.sigma
    onward = steady & ~back
    state.boost = np.where(onward, np.minimum(4.0 * state.boost, 1e4), state.boost)
    state.pulled, state.moved = pulled, np.where(back, 0.0, moved)
    if onward.any():
        _penalized(state, state.rho)


def _iterate(state: _Iterates, stencil: tuple[Integers, Integers]) -> tuple[float, float]:
    # Here, so that only those who iterate wait for the compiler to be imported (half a second).
    from das_spark.estimation._sweep import structured_division, structured_step  # noqa: PLC0415

    family, averages = state.family, state.family.frame.averages
    slot, first = stencil
    pulls = (state.sigma * (state.within - state.within_dual)) @ family.rows
    structured_step(
        state.matrices,
        averages.site,
        slot,
        first,
        averages.widths,
        averages.shares,
        family.linear,
        pulls,
        state.rho,
        state.split,
        state.dual,
        state.points,
        state.sums,
    )
    if len(family.rows):
        answers = state.sums @ family.rows.T
        free = RELAXATION * answers + (1.0 - RELAXATION) * state.within + state.within_dual
        state.within = np.clip(free, family.limits.lower.T, family.limits.upper.T)
        state.within_dual = free - state.within
    state.iterations += 1
    primal, change = structured_division(
        family.live, family.needed, RELAXATION, state.points, state.split, state.dual, state.price
    )
    return float(primal) ** 0.5, state.rho * float(change) ** 0.5


def _stencil(frame: Frame) -> tuple[Integers, Integers]:
    """Where the means of each set and site begin among all means, and the mean that each cell is in."""
    averages = frame.averages
    ends = np.cumsum(averages.widths.ravel())
    first = (ends - averages.widths.ravel()).reshape(averages.widths.shape)
    return first[:, averages.site] + averages.place, first


def solve_structured(support: Support, proof: Proof) -> Proposal | None:
    """Iterate until the family's certificate holds; None where the method does not serve (`structured_family`)."""
    family = structured_family(support)
    if family is None:
        return None
    state, stencil, look = _begin(family), _stencil(family.frame), FIRST_LOOK
    polish_below = POLISHED
    while True:
        primal, change = _iterate(state, stencil)
        if state.iterations >= look:
            candidate = _candidate(state)
            proved = proof(candidate)
            if not proved.certified and proved.gap < polish_below and support.parent is not None:
                polish_below = 0.1 * proved.gap
                candidate, proved = _polished(state, candidate, proved, proof)
            if proved.certified or state.iterations >= MOST_ITERATIONS or not np.isfinite(candidate.x).all():
                return Proposal(candidate, Status.OPTIMAL if proved.certified else Status.LIMIT, state.iterations)
            look = min(MOST_ITERATIONS, state.iterations + _pause(proved.gap, state.iterations))
        if state.iterations in BALANCED_AT:
            ratio = primal / change if change > 0 else 1.0
            _penalized(state, state.rho * float(np.clip(np.sqrt(ratio * _curvature(family)), 0.2, 5.0)))
        if state.iterations % REFRESHED == 0:
            _refresh(state)
        if state.iterations % LIFTED_AFTER == 0:
            _lift(state)


def _polished(
    state: _Iterates, candidate: Candidate, proved: Certificate, proof: Proof
) -> tuple[Candidate, Certificate]:
    """The first certified of the candidates that follow from who has people by now, else the candidate that was given.

    Cells with people are free, and sums with multipliers held; then a cell that would be negative is not, one whose
    gradient is negative is, a sum whose multiplier has the wrong sign is let go, and one that is beyond a bound held.
    """
    family = state.family
    system, limits = Polish.of(family), family.limits
    lower, upper = limits.lower.T, limits.upper.T
    free = state.split[:, family.place] > 0
    held = np.sign(-state.within_dual) * (np.abs(state.sigma * state.within_dual) > 0)
    given = upper - lower < GIVEN
    for _ in range(MOST_POLISHES):
        target = np.where(given | (held > 0), lower, np.where(held < 0, upper, np.nan))
        found = system.solve(free, target)
        if found is None:
            break
        sums = found.x @ system.rows.T
        within = np.clip(np.where(np.isfinite(target), target, sums), lower, upper)
        better = _as_candidate(state, np.maximum(found.x, 0.0), within, found.held, found.price)
        proved_now = proof(better)
        if proved_now.certified:
            return better, proved_now
        enters = system.live & ~free & (found.gradient < 0)
        free = (free & (found.x > 0)) | enters
        wrong = ~given & (found.held * held < 0)
        beyond = np.where(sums < lower, 1.0, np.where(sums > upper, -1.0, 0.0)) * ~np.isfinite(target)
        held = np.where(wrong, 0.0, held) + beyond
    return candidate, proved


def _pause(gap: float, iterations: int) -> int:
    if not np.isfinite(gap) or gap <= 0:
        return 20 + iterations // 4
    return max(16, int(25 * np.log10(gap / 1e-6)))


def _candidate(state: _Iterates) -> Candidate:
    """The current point on the support, raked, with its multipliers in people's units."""
    place = state.family.place
    multipliers = -state.sigma * state.within_dual
    return _as_candidate(state, state.split[:, place], state.within, multipliers, -state.rho * state.price[place])


def _as_candidate(state: _Iterates, x: Floats, within: Floats, held: Floats, price: Floats) -> Candidate:
    """Points on the support, raked, with multipliers of half the objective."""
    support, limits = state.family.support, state.family.limits
    hints = [np.zeros(bound.lower.shape) for bound in support.problem.bounds]
    for number, partition in enumerate(limits.partitions):
        hand_out(support.problem, partition, 2.0 * held[:, limits.part(number)], hints)
    return Candidate(
        x=np.ascontiguousarray(raked(support, limits, x.T.copy(), within.T, held.T != 0).T),
        flows=None,
        parent_multipliers=2.0 * price,
        bound_multipliers=tuple(hints),
        flow_multipliers=None,
    )
