"""The division of a budget by which wanted answers are estimated best (README, section 18).

What measurements of a whole spine say of an answer depends on the budget in a way that can be written down: on a spine
of families of equal size, what a level adds to its parents is estimated apart for each level, and the information on it
is a sum over queries with their budgets as weights. The inverse of a variance is a concave function of these weights,
so that the best division is found, and proved to be within a tolerance of the best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import scipy.sparse as sp

from das_spark.errors import EstimationError
from das_spark.estimation.components import Decomposition
from das_spark.estimation.gls import sums_and_basis
from das_spark.estimation.roots import inverse_root, row_space
from das_spark.estimation.solvers import SOLVERS, Inequalities, Program, SolverOptions, Status, linear_program

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.estimation.problem import Booleans, Floats, Integers
    from das_spark.histogram import Query

#: Squared length, beside the whole, of what is left of an answer beside all that is measured, up to which it is none.
_ROUNDING: Final = 1e-9
#: Cells of indicators that are held at once: 64 MB.
_INDICATORS: Final = 1 << 23
#: Steps of the search, which takes some dozens.
_STEPS: Final = 500
#: Where between the best division so far and the proved bound the next one is looked for.
_LEVEL: Final = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Allotment:
    """One query of one level, which has a weight.

    Attributes:
        level: Number of its level, 0 for the root.
        query: The query.
        precision: 1 / variance of its noise were the whole budget spent on it; variance is inverse to the weight.
        least: Least weight that it keeps.
    """

    level: int
    query: Query
    precision: float
    least: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Answers that shall be exact enough.

    Attributes:
        level: Number of the level of whose geounits they are.
        query: Whose answers.
        error: Largest standard error that is wanted, > 0.
    """

    level: int
    query: Query
    error: float


@dataclass(frozen=True, slots=True, eq=False)
class Allocation:
    """A division of the budget.

    Attributes:
        weights: Of the allotments, shape ``(K,)``; they sum to 1.
        ratio: Largest standard error beside what is wanted; at most 1 where all wanted answers are exact enough.
        bound: What `ratio` cannot be less than with any weights.
    """

    weights: Floats
    ratio: float
    bound: float


class TreeVariances:
    """Variances of estimates from all measurements of a spine whose families have equal sizes.

    Args:
        sizes: Children of a geounit of each level but the lowest, from the root, shape ``(levels - 1,)``.
        allotments: What is measured.
        exact: Numbers of the levels whose totals are exact.
        wanted: Whose variances are asked for.
        zero_cells: Structural zeros, sorted.

    Attributes:
        wanted: Of which of the wanted answers each variance is, shape ``(R,)``: answers of a query that are alike have
            one.
    """

    def __init__(  # noqa: D107 - the class says it
        self,
        sizes: Sequence[float],
        allotments: Sequence[Allotment],
        exact: Sequence[int],
        wanted: Sequence[Wanted],
        zero_cells: NDArray[np.int32],
    ) -> None:
        queries = [allotment.query for allotment in allotments] + [each.query for each in wanted]
        algebra = Decomposition.of(queries, zero_cells)
        frame = algebra.frame(algebra.possible)
        self._below = np.array([np.prod(sizes[depth:]) for depth in range(len(sizes) + 1)])
        levels = np.array([allotment.level for allotment in allotments])
        self._levels = levels
        self._precisions = np.array([allotment.precision for allotment in allotments]) * self._below[levels]
        measured = list(dict.fromkeys(allotment.query for allotment in allotments))
        self._queries = np.array([measured.index(allotment.query) for allotment in allotments])
        #: By component, of all measured queries.
        self._roots = list(zip(*(frame.root(query) for query in measured), strict=True))
        self._lowest_exact = max(exact, default=-1)  # exact totals above follow from those below
        #: What a total leaves of the component of sums, alone; of others it tells nothing.
        self._beside_total = sums_and_basis(frame, np.ones(len(frame.ones), dtype=np.int64))[1]
        self._spaces: dict[tuple[int, int, bytes], Floats] = {}
        parts: dict[Query, list[Floats]] = {}
        of = []
        for number, each in enumerate(wanted):
            if each.query not in parts:
                rows = each.query.row_of(frame.cells)
                # answers whose first cells are alike differ by the names of levels alone: one of each kind is looked at
                first = np.unique(rows, return_index=True)[1]
                kinds = first[np.unique(algebra.site[frame.cells[first]], return_index=True)[1]]
                once = max(1, _INDICATORS // len(rows))
                chunks = [
                    frame.traces(_indicators(rows, rows[kinds[place : place + once]]))
                    for place in range(0, len(kinds), once)
                ]
                parts[each.query] = [_together(own) for own in zip(*chunks, strict=True)]
            of += [number] * parts[each.query][0].shape[1]
        #: By component, of all kinds of answers: shape ``(p, R, w)``, w at most p.
        self._parts = [_together(own) for own in zip(*(parts[each.query] for each in wanted), strict=True)]
        self.wanted = np.array(of)
        self._wanted_levels = np.array([each.level for each in wanted])[self.wanted]

    def __call__(self, weights: Floats) -> tuple[Floats, Floats]:
        """Variances and what each weight takes from them.

        Args:
            weights: Of the allotments, shape ``(K,)``.

        Returns:
            Variances of all kinds of wanted answers, shape ``(R,)``, those that `wanted` numbers; and their derivatives
            by the weights with the sign turned, shape ``(R, K)``.
        """
        variances, gains = np.zeros(len(self.wanted)), np.zeros((len(self.wanted), len(weights)))
        for depth in range(len(self._below)):
            # what a level adds to the one above it is seen by itself and by all below it (E-90)
            rows = np.flatnonzero(self._wanted_levels >= depth)
            shares = self._shares(depth)[rows]
            factors = np.where(self._levels >= depth, self._precisions * weights, 0.0)
            sums = np.bincount(self._queries, factors)
            for number, (roots, parts) in enumerate(zip(self._roots, self._parts, strict=True)):
                if not len(parts) or not len(rows):
                    continue
                stack = np.concatenate([np.sqrt(own) * root for own, root in zip(sums, roots, strict=True)])
                basis, open_parts = self._space(depth, number, sums > 0), self._open(depth, number, parts[:, rows])
                white = inverse_root(stack, basis)
                spread = np.tensordot(white, open_parts, axes=1)
                variances[rows] += shares * (spread**2).sum(axis=(0, 2))
                solved = np.tensordot(white.T, spread, axes=1)
                seen = np.array([(np.tensordot(root, solved, axes=1) ** 2).sum(axis=(0, 2)) for root in roots])
                gained = np.where(self._levels >= depth, self._precisions, 0.0)
                gains[rows] += shares[:, None] * seen[self._queries].T * gained
        return variances, gains

    def largest_errors(self, weights: Floats) -> tuple[float, ...]:
        """Largest standard error of the answers of each of what is wanted.

        Args:
            weights: Of the allotments, shape ``(K,)``.

        Returns:
            One for each of the wanted answers: 0 where all are exact. Where `determined` is false they mean nothing.
        """
        found, _ = self(weights)
        return self._of_each(np.sqrt(found))

    def determined(self, weights: Floats) -> tuple[bool, ...]:
        """Whether measurements with a weight, and exact totals, determine all answers of each of what is wanted.

        Args:
            weights: Of the allotments, shape ``(K,)``.
        """
        whole, missing = np.zeros(len(self.wanted)), np.zeros(len(self.wanted))
        shares = np.array([self._shares(depth) for depth in range(len(self._below))])
        shares *= np.arange(len(shares))[:, None] <= self._wanted_levels
        # What the level of an answer adds is seen by it and by all below it, and by those above no more than they tell
        # of their own geounits; a single child adds nothing, and its parent does in its place.
        deepest = len(shares) - 1 - np.argmax(shares[::-1] > 0, axis=0)
        for depth in np.unique(deepest):
            rows = np.flatnonzero(deepest == depth)
            seen = np.bincount(self._queries, (self._levels >= depth) & (self._precisions * weights > 0)) > 0
            for number, parts in enumerate(self._parts):
                own = self._open(depth, number, parts[:, rows])
                basis = self._space(depth, number, seen)
                left = own - np.tensordot(basis @ basis.T, own, axes=1)
                whole[rows] += (parts[:, rows] ** 2).sum(axis=(0, 2))
                missing[rows] += (left**2).sum(axis=(0, 2))
        return tuple(not each for each in self._of_each((missing > _ROUNDING * whole).astype(np.float64)))

    def _of_each(self, values: Floats) -> tuple[float, ...]:
        """The largest value of each of the wanted answers."""
        return tuple(float(values[self.wanted == number].max()) for number in range(int(self.wanted.max()) + 1))

    def _space(self, depth: int, number: int, seen: Booleans) -> Floats:
        """Return a basis of what queries tell of what a level adds, in one component, beside an exact total."""
        key = (depth if depth <= self._lowest_exact else len(self._below), number, seen.tobytes())
        if key not in self._spaces:
            beside = (
                self._beside_total if number == 0 and depth <= self._lowest_exact else np.eye(len(self._parts[number]))
            )
            roots = [root for root, is_seen in zip(self._roots[number], seen, strict=True) if is_seen]
            self._spaces[key] = beside @ _told(roots, beside)
        return self._spaces[key]

    def _open(self, depth: int, number: int, parts: Floats) -> Floats:
        """Return parts of answers without what follows from an exact total: of a multiple of it, nothing."""
        if number or depth > self._lowest_exact:
            return parts
        left = np.tensordot(self._beside_total @ self._beside_total.T, parts, axes=1)
        is_open = (left**2).sum(axis=(0, 2)) > _ROUNDING**2 * (parts**2).sum(axis=(0, 2))
        return np.where(is_open[:, None], left, 0.0)

    def _shares(self, depth: int) -> Floats:
        """Squared lengths of geounits' indicators in what a level above them, or their own, adds (E-91)."""
        own, here = self._below[self._wanted_levels], self._below[depth]
        return np.asarray(own * own * (1 / here - (1 / self._below[depth - 1] if depth else 0.0)), dtype=np.float64)


def determines_cells(queries: Sequence[Query], zero_cells: NDArray[np.int32], *, is_total_exact: bool) -> bool:
    """Return whether answers to queries, and a total where that is exact, determine the counts of all cells.

    Args:
        queries: At least one.
        zero_cells: Structural zeros, sorted.
        is_total_exact: Whether the total of the geounit is exact.
    """
    algebra = Decomposition.of(queries, zero_cells)
    frame = algebra.frame(algebra.possible)
    components = zip(*(frame.root(query) for query in queries), strict=True)
    for number, (roots, own) in enumerate(zip(components, frame.positions, strict=True)):
        beside = np.eye(len(own))
        if number == 0 and is_total_exact:
            beside = sums_and_basis(frame, np.ones(len(own), dtype=np.int64))[1]
        if _told(roots, beside).shape[1] < beside.shape[1]:
            return False
    return True


def _told(roots: Sequence[Floats], beside: Floats) -> Floats:
    """Return a basis of what roots tell of a subspace, in the columns of its basis; their weights do not matter."""
    stack = [np.zeros((1, len(beside))), *(root / max(float(np.linalg.norm(root)), 1.0) for root in roots)]
    return row_space(np.concatenate(stack) @ beside)


def best_allocation(
    variances: TreeVariances,
    allotments: Sequence[Allotment],
    wanted: Sequence[Wanted],
    start: Floats,
    gap: float = 1e-3,
) -> Allocation:
    """The weights by which the largest of standard errors, each beside what is wanted of it, is least.

    The smallest of wanted variances over variances is concave in the weights: a level method (Lemaréchal, Nemirovskii,
    Nesterov 1995, "New variants of bundle methods") with linear bounds at all points so far; HiGHS gives the bound,
    OSQP the next point.

    Args:
        variances: As functions of the weights.
        allotments: What has a weight.
        wanted: What is wanted; at least one.
        start: Weights to begin with, shape ``(K,)``.
        gap: Relative distance of the total that is needed from the least that could be.

    Returns:
        The best weights found, within the gap.

    Raises:
        EstimationError: The gap was not reached.
    """
    least = np.array([allotment.least for allotment in allotments])
    errors = np.array([each.error for each in wanted])[variances.wanted]
    slopes, constants = np.zeros((0, len(start))), np.zeros(0)
    point, best, value, bound = start, start, 0.0, np.inf
    for _ in range(_STEPS):
        found, gains = variances(point)
        noisy = found > 0  # what follows from exact totals is exact with any weights
        if not noisy.any():
            return Allocation(start, 0.0, 0.0)
        reached = errors[noisy] ** 2 / found[noisy]
        slope = (reached / found[noisy])[:, None] * gains[noisy]
        slopes, constants = np.vstack([slopes, slope]), np.r_[constants, reached - slope @ point]
        lowest = float(reached.min())
        if lowest > value:
            best, value = point, lowest
        scale = value  # numbers of about 1 for the solvers
        cuts = slopes / scale, constants / scale
        bound = min(bound, scale * _bound(cuts, least))
        if bound <= value * (1 + gap):
            return Allocation(best, value**-0.5, bound**-0.5)
        point = _projected(best, cuts, (value + _LEVEL * (bound - value)) / scale, least)
    raise EstimationError(
        f"the division of the budget is within {bound / value - 1:.1%} of the best one, and not within {gap:.1%}",
        hint="name fewer targets",
    )


def _bound(cuts: tuple[Floats, Floats], least: Floats) -> float:
    """The largest value that the linear bounds allow anywhere."""
    slopes, constants = cuts
    size = slopes.shape[1]
    # max t:  t - slope w <= constant,  sum w = 1
    rows = np.vstack([np.column_stack([-slopes, np.ones(len(slopes))]), np.r_[np.ones(size), 0.0]])
    limits = Inequalities(sp.csc_matrix(rows), np.r_[np.full(len(slopes), -np.inf), 1.0], np.r_[constants, 1.0])
    cost = np.r_[np.zeros(size), -1.0]
    program = linear_program(cost, np.r_[least, -np.inf], np.r_[np.ones(size), np.inf], limits)
    solution = SOLVERS["highs"].solve(program, SolverOptions())
    if solution.status is not Status.OPTIMAL or solution.x is None:
        raise EstimationError("the bound on divisions of the budget could not be computed")
    return float(solution.x[-1])


def _projected(point: Floats, cuts: tuple[Floats, Floats], level: float, least: Floats) -> Floats:
    """The weights nearest to a point at which all linear bounds allow a value."""
    slopes, constants = cuts
    size = slopes.shape[1]
    program = Program(
        np.ones(size),
        -point,
        sp.csc_matrix(np.ones((1, size))),
        np.ones(1),
        least,
        np.ones(size),
        Inequalities(sp.csc_matrix(slopes), level - constants, np.full(len(slopes), np.inf)),
    )
    solution = SOLVERS["osqp"].solve(program, SolverOptions())
    if solution.x is None:
        raise EstimationError("the next division of the budget could not be computed")
    # any weights will do: the solver's last digits are made good, and nothing is proved by them
    free = np.maximum(solution.x - least, 1e-12)
    return np.asarray(least + free * (1 - least.sum()) / free.sum(), dtype=np.float64)


def _together(parts: Sequence[Floats]) -> Floats:
    """Return parts of some answers after those of others, with zeros where these have fewer columns."""
    width = max(part.shape[2] for part in parts)
    return np.concatenate([np.pad(part, ((0, 0), (0, 0), (0, width - part.shape[2]))) for part in parts], axis=1)


def _indicators(rows: Integers, chosen: Integers) -> Floats:
    """Which cells count in each of some answers, shape ``(R, cells)``."""
    return np.asarray(rows[None, :] == chosen[:, None], dtype=np.float64)
