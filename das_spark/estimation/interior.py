"""An interior point for families whose children are known from below: where the structured solver does not arrive.

The same problem as in `structured.py` (README, 15), by Newton steps on the conditions of optimality instead of
alternating directions. A child's matrix is taken out of its components, on the cells that the parent occupies, and
inverted; what ties the children together is one sum for each cell, so that a step costs K + 1 factorizations of order
n. Nothing is slow about it but the size: it needs some 30 steps whatever the bounds are.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.estimation.batched import raked
from das_spark.estimation.solvers.base import Status
from das_spark.estimation.structured import StructuredFamily, first_guess, structured_family
from das_spark.estimation.support import Candidate, Proposal, Support, hand_out

if TYPE_CHECKING:
    from das_spark.estimation.certify import Proof
    from das_spark.estimation.problem import Booleans, Floats

MOST_NUMBERS: Final = 60_000_000
"""Numbers in the inverses of all children together; more need gigabytes."""
MOST_STEPS: Final = 80
INSIDE: Final = 0.995
"""Share of the way to the nearest bound that a step may go."""
SHORTEST: Final = 1e-8
"""Shares of the way below which a step goes nowhere."""
NARROW: Final = 1e-6
"""People between two bounds of a sum below which the sum is given."""
STIFF: Final = 1e4
"""Weight of what a given sum misses, in units of the mean curvature of a cell; its multiplier does the rest."""
SMALL: Final = 1e-5
"""Mean complementarity, as a share of the objective's gradient, from which the proof is asked."""


@dataclass(slots=True, eq=False)
class _Point:
    """A point inside all bounds; shapes (K, n) for cells, (K, L) for bounded sums."""

    x: Floats  # people
    pull: Floats  # multipliers of the cells' nonnegativity
    price: Floats  # multiplier of each cell's sum, shape (n,)
    sums: Floats  # bounded sums, inside their bounds
    lower: Floats  # multipliers of the lower bounds
    upper: Floats  # multipliers of the upper bounds
    held: Floats  # multipliers of given sums


@dataclass(frozen=True, slots=True, eq=False)
class _System:
    """What does not change: the family on the cells that the parent occupies."""

    matrices: Floats  # of half the objective, shape (K, n, n); unit rows where a child has no people
    linear: Floats  # shape (K, n)
    live: Booleans  # shape (K, n)
    needed: Floats  # shape (n,)
    rows: Floats  # cells of each bounded sum, 0 or 1, shape (L, n)
    least: Floats  # shape (K, L)
    most: Floats
    given: Booleans  # whether a sum is given, shape (K, L)
    stiff: float  # weight of what given sums miss


def solve_interior(support: Support, proof: Proof) -> Proposal | None:
    """Step until the family's certificate holds; None where the method does not serve."""
    if support.parent is None or support.children * len(support.cells) ** 2 > MOST_NUMBERS:
        return None
    family = structured_family(support)
    if family is None:
        return None
    system = _system(family)
    point, best = _begin(family, system), None
    size = float(np.abs(system.linear[system.live]).mean()) + 1.0
    for number in range(1, MOST_STEPS + 1):
        moved, mean = _step(system, point)
        if not moved:
            break
        if mean < SMALL * size:
            candidate = _candidate(family, system, point)
            proved = proof(candidate)
            best = Proposal(candidate, Status.OPTIMAL if proved.certified else Status.LIMIT, number)
            if proved.certified:
                break
    return best


def _system(family: StructuredFamily) -> _System:
    frame, place = family.frame, family.place
    averages, children = frame.averages, len(family.live)
    site = averages.site[place]
    matrices = np.zeros((children, len(place), len(place)))
    values = averages.of(family.blocks)
    for number in range(values.shape[1]):
        same = averages.place[number, place][:, None] == averages.place[number, place][None, :]
        share = averages.shares[number][site][None, :] * same
        matrices += values[:, number][:, site[:, None], site[None, :]] * share
    live = family.live[:, place]
    both = live[:, :, None] & live[:, None, :]
    matrices = np.where(both, matrices, 0.0)
    cells = np.arange(len(place))
    matrices[:, cells, cells] += ~live
    least, most = family.limits.lower.T.copy(), family.limits.upper.T.copy()
    given = most - least < NARROW
    rows = family.rows[:, site].astype(np.float64)
    linear = np.where(live, family.linear[:, place], 0.0)
    stiff = STIFF * float(matrices[:, cells, cells].mean())
    return _System(matrices, linear, live, family.needed[place], rows, least, np.minimum(most, 1e12), given, stiff)


def _begin(family: StructuredFamily, system: _System) -> _Point:
    """Mostly what is known of the children, a tenth of it spread evenly, raked to narrow bounds; sums as they are."""
    even = system.needed / np.maximum(system.live.sum(axis=0), 1)
    x = np.where(system.live, 0.9 * first_guess(family)[:, family.place] + 0.1 * even, 0.0)
    middle, narrow = 0.5 * (system.least + system.most), system.most - system.least < 1.0
    x = np.where(system.live, raked(family.support, family.limits, x.T.copy(), middle.T, narrow.T).T, 1.0)
    gradient = float(np.abs(system.linear[system.live]).mean()) + 1.0
    sums = (x * system.live) @ system.rows.T
    inwards = np.minimum(0.1 * (system.most - system.least), np.maximum(0.1 * sums, 1.0))
    sums = np.clip(sums, system.least + inwards, system.most - inwards)
    far = np.full(sums.shape, gradient)
    return _Point(
        x=x,
        pull=np.full(x.shape, gradient),
        price=np.zeros(x.shape[1]),
        sums=sums,
        lower=np.where(system.given, 0.0, far * np.minimum(1.0, 1.0 / np.maximum(sums - system.least, NARROW / 10))),
        upper=np.where(system.given, 0.0, far * np.minimum(1.0, 1.0 / np.maximum(system.most - sums, NARROW / 10))),
        held=np.zeros(sums.shape),
    )


def _step(system: _System, point: _Point) -> tuple[bool, float]:
    """One predicted and corrected step (Mehrotra 1992); whether it went anywhere, and the mean complementarity."""
    live, given = system.live, system.given
    # Given sums have no bounds to keep away from: 1 stands for how far they are.
    below, above = (np.where(given, 1.0, each) for each in (point.sums - system.least, system.most - point.sums))
    products = (point.x * point.pull)[live].sum() + (below * point.lower).sum() + (above * point.upper).sum()
    number = live.sum() + 2 * (~given).sum()
    mean = float(products / number)
    weight = np.where(given, system.stiff, point.lower / below + point.upper / above)
    try:
        inverses, factor = _inverted(system, point, weight)
    except np.linalg.LinAlgError:
        return False, mean
    empty = ~live.any(axis=0)
    gradient = (system.matrices @ point.x[:, :, None])[:, :, 0] - system.linear
    missing = system.needed - (point.x * live).sum(axis=0)
    apart = (point.x * live) @ system.rows.T - point.sums

    def directions(target: float, second: tuple[Floats, Floats, Floats]) -> tuple[Floats, Floats, Floats]:
        """Changes of cells and of bounded sums (of given ones, what they will miss), and the new prices."""
        pulls = (target - second[0]) / point.x
        held = np.where(given, point.held, (target - second[1]) / below - (target + second[2]) / above)
        right = np.where(live, pulls - gradient + (held - weight * apart) @ system.rows, 0.0)
        first = (inverses @ right[:, :, None])[:, :, 0]
        price = factor @ np.where(empty, 0.0, missing - first.sum(axis=0))
        change = first + (inverses @ price[None, :, None])[:, :, 0]
        change = np.where(live, change, 0.0)
        return change, change @ system.rows.T + apart, price

    none = (np.zeros(point.x.shape), np.zeros(below.shape), np.zeros(below.shape))
    change, moved, _ = directions(0.0, none)
    moved = np.where(given, 0.0, moved)
    pulled, low, high = _multipliers(point, below, above, change, moved, 0.0, none, given)
    primal, dual = _lengths(point, below, above, live, (change, moved), (pulled, low, high))
    after = (
        ((point.x + primal * change) * (point.pull + dual * pulled))[live].sum()
        + ((below + primal * moved) * (point.lower + dual * low)).sum()
        + ((above - primal * moved) * (point.upper + dual * high)).sum()
    )
    target = mean * float(np.clip(after / products, 0.0, 1.0)) ** 3
    second = (change * pulled, moved * low, moved * high)
    change, missed, price = directions(target, second)
    moved = np.where(given, 0.0, missed)
    pulled, low, high = _multipliers(point, below, above, change, moved, target, second, given)
    primal, dual = _lengths(point, below, above, live, (change, moved), (pulled, low, high))
    point.x = point.x + primal * change
    point.sums = point.sums + primal * moved
    point.price = point.price + dual * (price - point.price)
    point.held = point.held - np.where(given, dual * system.stiff * missed, 0.0)
    point.pull = point.pull + dual * pulled
    point.lower = point.lower + dual * low
    point.upper = point.upper + dual * high
    return bool(np.isfinite(point.x).all()) and max(primal, dual) > SHORTEST, mean


def _inverted(system: _System, point: _Point, weight: Floats) -> tuple[Floats, Floats]:
    """Inverses of the children's matrices, and that of their sum, in which the prices of cells are found."""
    live, cells = system.live, np.arange(system.live.shape[1])
    matrices = system.matrices + (system.rows.T[None] * weight[:, None, :]) @ system.rows[None]
    # Rows of cells without people stay unit rows.
    matrices = np.where(live[:, :, None] & live[:, None, :], matrices, system.matrices)
    matrices[:, cells, cells] += np.where(live, point.pull / point.x, 0.0)
    inverses: Floats = np.asarray(np.linalg.inv(matrices), dtype=np.float64)
    inverses[~live] = 0.0
    together = inverses.sum(axis=0)
    empty = ~live.any(axis=0)
    together[empty, empty] += 1.0
    return inverses, np.asarray(np.linalg.inv(together), dtype=np.float64)


def _multipliers(
    point: _Point,
    below: Floats,
    above: Floats,
    change: Floats,
    moved: Floats,
    target: float,
    second: tuple[Floats, Floats, Floats],
    given: Booleans,
) -> tuple[Floats, Floats, Floats]:
    """Changes of the multipliers of nonnegativity, lower and upper bounds; given sums have none."""
    return (
        (target - second[0] - point.pull * change) / point.x - point.pull,
        np.where(given, 0.0, (target - second[1] - point.lower * moved) / below - point.lower),
        np.where(given, 0.0, (target + second[2] + point.upper * moved) / above - point.upper),
    )


def _lengths(
    point: _Point,
    below: Floats,
    above: Floats,
    live: Booleans,
    primal: tuple[Floats, Floats],
    dual: tuple[Floats, Floats, Floats],
) -> tuple[float, float]:
    """How far points and multipliers may go."""
    change, moved = primal
    pulled, low, high = dual
    return (
        min(_reach(point.x[live], change[live]), _reach(below, moved), _reach(above, -moved)),
        min(_reach(point.pull[live], pulled[live]), _reach(point.lower, low), _reach(point.upper, high)),
    )


def _reach(value: Floats, change: Floats) -> float:
    shrinking = change < 0
    return min(1.0, INSIDE * float(np.min(-value[shrinking] / change[shrinking], initial=1.0 / INSIDE)))


def _candidate(family: StructuredFamily, system: _System, point: _Point) -> Candidate:
    """The point on the support, raked, with its multipliers in people's units."""
    problem, limits = family.support.problem, family.limits
    held = np.where(system.given, point.held, point.lower - point.upper)
    hints = [np.zeros(bound.lower.shape) for bound in problem.bounds]
    for number, partition in enumerate(limits.partitions):
        hand_out(problem, partition, 2.0 * held[:, limits.part(number)], hints)
    on = np.abs(held) > np.minimum(point.sums - system.least, system.most - point.sums)
    at = np.where(on, np.where(held > 0, limits.lower.T, limits.upper.T), point.sums)
    within = np.clip(at, limits.lower.T, limits.upper.T)
    x = np.where(system.live & (point.x > point.pull * 1e-3), point.x, 0.0)
    x = raked(family.support, limits, x.T.copy(), within.T, on.T)
    return Candidate(
        x=np.ascontiguousarray(x.T),
        flows=None,
        parent_multipliers=2.0 * point.price,
        bound_multipliers=tuple(hints),
        flow_multipliers=None,
    )
