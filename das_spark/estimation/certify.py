"""Prove that a proposed estimate is feasible and, up to a stated gap, the best there is (E-13 to E-20, E-35 to E-37).

Everything here is rebuilt from the family's tables: rows of queries by `Query.row_of`, answers, variances, bounds. The
solver's arrays are not looked at; its multipliers are hints. A wrong hint can only make the proof fail, or leave a
violation within the tolerance unpriced: solvers answer for multipliers of the bounds that they cross.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.sparse.linalg import lsmr

from das_spark.estimation.problem import (
    FamilyBounds,
    FamilyFlows,
    FamilyMeasurement,
    FamilyPlan,
    FamilyProblem,
    Floats,
    Integers,
)
from das_spark.estimation.support import Candidate, Relaxation, at_once, picked, spread, sums

_ROUNDING_ERROR = 1e-12
"""Violations this small, relative to max(1, size), are rounding errors of sums; multipliers may be of any size."""

_HALF_A_PERSON = 0.5
"""Violations from here on, in people, are no rounding errors however large what is violated."""


@dataclass(slots=True)
class Worst:
    """Keeps the worst violation."""

    absolute: float = 0.0  # in people
    relative: float = 0.0  # relative to max(1, size of what is violated)
    # what all violations together are worth, in units of the objective, at the candidate's multipliers
    worth: float = 0.0

    def note(self, violation: Floats, size: Floats, multiplier: Floats | float = 0.0) -> None:
        """Note violations of one kind."""
        if not violation.size:
            return
        if np.isnan(violation).any():
            self.absolute = self.relative = float("inf")
            return
        self.absolute = max(self.absolute, float(violation.max()))
        relative = violation / np.maximum(1.0, np.abs(size))
        self.relative = max(self.relative, float(relative.max()))
        self.worth += float(np.where(relative > _ROUNDING_ERROR, np.abs(multiplier) * violation, 0.0).sum())


def worst_violation(
    problem: FamilyProblem,
    cells: NDArray[np.int32],
    candidate: Candidate,
    parent: Floats | None,
    relaxation: Relaxation | None,
) -> Worst:
    """Measure a candidate against (E-3) to (E-5), or against what the failsafe keeps of them."""
    worst = Worst()
    worst.note(-candidate.x.min(axis=0), np.ones(1))
    if parent is not None and problem.parent is not None:
        _note_parent(worst, candidate, parent, relaxation)
        worst.note(np.array([problem.parent.total - parent.sum()]), np.ones(1))  # people outside the cells
    for bound, multiplier in zip(problem.bounds, candidate.bound_multipliers, strict=True):
        columns, width = bound.columns(bound.query.row_of(cells)), bound.lower.shape[1]
        for part in at_once(len(candidate.x), max(width, len(cells))):
            value = sums(candidate.x[part], columns, width)
            lower, upper = bound.lower[part].astype(np.float64), bound.upper[part].astype(np.float64)
            violation = np.maximum(lower - value, value - upper)
            worst.note(violation, np.where(value > upper, upper, lower), multiplier[part])
    if problem.flows is not None:
        margins = sums(candidate.x, problem.flows.query.row_of(cells), problem.flows.query.rows)
        _note_flows(worst, problem.flows, margins, candidate.flows)
    return worst


def _note_parent(worst: Worst, candidate: Candidate, parent: Floats, relaxation: Relaxation | None) -> None:
    """Note violations of consistency with the parent, or of what the failsafe keeps of it."""
    total = candidate.x.sum(axis=0)
    if relaxation is None:
        worst.note(np.abs(total - parent), parent, candidate.parent_multipliers)
        return
    totals = relaxation.totals.astype(np.float64)
    grouped = np.bincount(relaxation.group, total, minlength=len(totals))
    worst.note(np.abs(grouped - totals), totals)
    worst.note(np.array([np.abs(total - parent).sum() - relaxation.allowance]), parent.sum(keepdims=True))


def _note_flows(worst: Worst, flows: FamilyFlows, margins: Floats, witness: Floats | None) -> None:
    """Check that the witness divides the margins among the descendants."""
    if witness is None:
        worst.note(np.full(1, np.nan), np.ones(1))
        return
    worst.note(np.maximum(flows.lower - witness, witness - flows.upper), flows.total[:, None].astype(np.float64))
    worst.note(np.abs(witness.sum(axis=1) - flows.total), flows.total.astype(np.float64))
    divided = np.zeros(margins.shape)
    np.add.at(divided, flows.child, witness)
    worst.note(np.abs(divided - margins), margins)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was proved of a candidate."""

    certified: bool  # whether gap and violations are within the plan's tolerances
    primal_residual: float  # worst violation of any constraint, in people
    violation: float  # worst violation relative to max(1, size of what is violated) (E-17)
    gap: float  # objective less a proved lower bound, relative to max(1, objective) (E-20)
    objective: float  # weighted squared distance to the noisy answers (E-2)


Proof = Callable[[Candidate], Certificate]


def is_met(certificate: Certificate, plan: FamilyPlan) -> bool:
    """Whether a candidate keeps all constraints: to the plan's tolerance, and to less than half a person.

    Constraints are whole numbers, so that what misses one by less can be met; relative to a million people, one is
    less than any tolerance.
    """
    return certificate.violation <= plan.feasibility_tolerance and certificate.primal_residual < _HALF_A_PERSON


def certify(
    problem: FamilyProblem,
    plan: FamilyPlan,
    cells: NDArray[np.int32],
    candidate: Candidate,
    relaxation: Relaxation | None = None,
) -> Certificate:
    """Certify a candidate; `relaxation` is what the failsafe has kept of the parent."""
    x, parent = candidate.x, _parent(problem, cells)
    worst = worst_violation(problem, cells, candidate, parent, relaxation)
    fit = _Fit.of(problem, cells, x)
    box = _Box(problem, cells, parent, relaxation, fit, x)
    alone = _alone(fit, box)
    # With a parent, and where that holds exactly, each cell has a bound of its own: some of them at a time.
    whole = parent is None or relaxation is not None
    parts = [slice(0, len(cells))] if whole else at_once(len(cells), len(x))
    gap, enough = np.inf, plan.gap_tolerance * max(1.0, fit.objective)
    hints = _hints(candidate)
    for clean in (False, True):
        if clean:
            largest = max((float(np.abs(fit.gradient(part)).max(initial=0.0)) for part in parts), default=0.0)
            hints = _cleaned(problem, hints, largest)
        prices = _Prices.of(problem, cells, box, hints)
        found = np.zeros(len(cells))
        least = 0.0
        for part in parts:
            reduced, room = prices.reduce(fit.gradient(part), part), box.of(part)
            curvature = _curvature(fit, alone, part, room)
            if parent is not None and relaxation is None:
                hint = candidate.parent_multipliers[part]
                found[part] = _divided_bound(x[:, part], reduced, curvature, room, parent[part], hint)
            else:
                least += _undivided_bound(candidate, parent, relaxation, reduced, curvature, room)
        # No bound exceeds the objective of a point that meets everything: one that does has lost its last digits.
        gap = min(gap, prices.slack - (least + float(found.sum())), key=abs)
        if abs(gap) <= enough:
            break
    if abs(gap) > enough and relaxation is None and not _separates(fit, len(cells)):
        gap = min(gap, _levelled_gap(problem, cells, candidate, fit, box, enough), key=abs)
    relative = gap / max(1.0, fit.objective)
    proved = abs(relative) <= plan.gap_tolerance and worst.worth <= enough
    certificate = Certificate(bool(proved), worst.absolute, worst.relative, float(relative), fit.objective)
    return certificate if is_met(certificate, plan) else replace(certificate, certified=False)


def _is_alone(place: Integers, width: int) -> bool:
    """Whether the answers are those of the cells, in their order."""
    return len(place) == width and np.array_equal(place, np.arange(width))


@dataclass(frozen=True, slots=True, eq=False)
class _Fit:
    """The objective at a point, and what its gradient is made of (E-2, E-13)."""

    problem: FamilyProblem  # the family
    places: list[Integers]  # place of each cell's answer in every measurement
    x: Floats  # the point, shape (K, n)
    # of every measurement, residuals by their variances, shape (K, answers); None where it asks for each cell alone
    weighted: list[Floats | None]
    objective: float  # F
    slope: Floats | None  # what the prior adds to the gradient, shape (K, n)
    steepness: Floats | None  # what it adds to the curvature of each child, shape (K,)

    @classmethod
    def of(cls, problem: FamilyProblem, cells: NDArray[np.int32], x: Floats) -> _Fit:
        """Measure the point."""
        total, places, every = 0.0, [], list[Floats | None]()
        for measurement in problem.measurements:
            place, width = _place(measurement, cells), len(measurement.rows)
            touched = np.flatnonzero(
                np.bincount(place[place >= 0], minlength=width)
            )  # the other rows are constants: no cell can change them
            weighted = None if _is_alone(place, width) else np.empty((len(x), width))
            for part in at_once(len(x), max(width, len(cells))):
                residual = (x[part] if weighted is None else sums(x[part], place, width)) - measurement.values[part]
                scaled = residual / measurement.variance[part, None]
                total += float((scaled[:, touched] * residual[:, touched]).sum())
                if weighted is not None:
                    weighted[part] = scaled
            places.append(place)
            every.append(weighted)
        if problem.prior is None:
            return cls(problem, places, x, every, total, None, None)
        further, slope = problem.prior.value_and_gradient(cells, x)
        return cls(problem, places, x, every, total + further, slope, problem.prior.curvature(len(x)))

    def gradient(self, part: slice) -> Floats:
        """Gradient of F in some cells."""
        gradient = np.zeros((len(self.problem.children), part.stop - part.start))
        for measurement, place, weighted in zip(self.problem.measurements, self.places, self.weighted, strict=True):
            if weighted is None:
                gradient += 2.0 * ((self.x[:, part] - measurement.values[:, part]) / measurement.variance[:, None])
            else:
                gradient += 2.0 * spread(weighted, place[part])
        return gradient if self.slope is None else gradient + self.slope[:, part]


@dataclass(frozen=True, slots=True, eq=False)
class _Box:
    """Upper bounds that every feasible point keeps in each cell (E-15); at the root, that every one as good keeps."""

    problem: FamilyProblem
    cells: NDArray[np.int32]
    parent: Floats | None
    relaxation: Relaxation | None
    fit: _Fit
    x: Floats
    last: dict[tuple[int, int], Floats] = field(default_factory=dict)  # what was asked for last

    def of(self, part: slice) -> Floats:
        """Those of some cells, shape ``(K, cells)``; of all of them under the failsafe."""
        key = part.start, part.stop
        if key not in self.last:
            self.last.clear()
            parent = None if self.parent is None else self.parent[part]
            box = _box(self.problem, self.cells[part], parent, self.relaxation)
            if self.parent is None:
                places, level = [place[part] for place in self.fit.places], 2.0 * self.fit.objective + 1.0
                box = np.minimum(box, _level_box(self.problem.measurements, places, self.x[:, part], level))
            self.last[key] = box
        return self.last[key]

    def rows(self, rows: Integers, count: int) -> Floats:
        """Sums of these upper bounds by row, shape ``(K, count)``."""
        parts = [slice(0, len(self.cells))] if self.relaxation is not None else at_once(len(self.cells), len(self.x))
        total = np.zeros((len(self.x), count))
        for part in parts:
            total += sums(self.of(part), rows[part], count)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class _Prices:
    """Multipliers of bounds and flows, and what these fall short by at a point (E-19)."""

    rows: list[Integers]  # of each, column of each cell's row
    prices: list[Floats]  # of each, shape (K, columns)
    slack: float

    @classmethod
    def of(cls, problem: FamilyProblem, cells: NDArray[np.int32], box: _Box, hints: _Hints) -> _Prices:
        """Price the point in a box."""
        rows, prices, slack, x = [], [], 0.0, box.x
        for bound, multiplier in zip(problem.bounds, hints[0], strict=True):
            columns, width = bound.columns(bound.query.row_of(cells)), bound.lower.shape[1]
            for part in at_once(len(x), max(width, len(cells))):
                tight = np.where(multiplier[part] > 0, bound.lower[part], bound.upper[part])
                slack += float((multiplier[part] * (sums(x[part], columns, width) - tight)).sum())
            rows.append(columns)
            prices.append(multiplier)
        if problem.flows is not None and hints[1] is not None:
            classes = problem.flows.query.row_of(cells)
            margins = sums(x, classes, problem.flows.query.rows)
            slack += float((hints[1] * margins).sum()) - _cheapest_flows(
                problem.flows, hints[1], box.rows(classes, problem.flows.query.rows)
            )
            rows.append(classes)
            prices.append(hints[1])
        return cls(rows, prices, slack)

    def reduce(self, gradient: Floats, part: slice) -> Floats:
        """The gradient in some cells, less all prices."""
        reduced = gradient
        for rows, prices in zip(self.rows, self.prices, strict=True):
            reduced = reduced - spread(prices, rows[part])
        return reduced


_Hints = tuple[tuple[Floats, ...], Floats | None]  # multipliers of bounds, prices of class margins

_NOISE = 1e-7
"""Hints below this share of the gradient may be a solver's rounding errors, which wide bounds would magnify."""


def _hints(candidate: Candidate) -> _Hints:
    return candidate.bound_multipliers, candidate.flow_multipliers


_LEVELNESS = 1e3
"""How much more a difference between children counts than a change of a multiplier; people multiply the former."""

_LEVELLINGS = 3
"""How often multipliers are levelled, each time with the empty cells that have become too cheap."""

_WEAK = 100.0
"""Variance of cells, beside the least of the child, from which they bend the objective too little for a proof: last
digits of a gradient that precise answers make are large beside their weight."""

_TIGHT = 1e-4
"""Distance from a bound, in people relative to max(1, bound), beyond which it has no multiplier."""


def _changes(
    measurements: tuple[FamilyMeasurement, ...],
    people: Floats,
    reduced: Floats,
    places: list[Integers],
    *,
    divided: bool,
) -> list[Floats]:
    """Changes of the multipliers of answers that bring the reduced costs of people in a cell nearest to one price.

    At the root, whose cells are not divided, that price is 0. Least squares over the people, and over what the changes
    cost: shapes ``(K, answers)``, one for each measurement.
    """
    child, cell = np.nonzero(people > 0)
    weight, entry = _LEVELNESS * np.sqrt(people[child, cell]), np.arange(len(child))
    widths = [int(place.max(initial=-1)) + 1 for place in places]
    prices = people.shape[1] if divided else 0
    starts = np.cumsum([prices, *(len(people) * width for width in widths)])
    rows, columns = ([entry], [cell]) if divided else ([], [])
    for place, width, start in zip(places, widths, starts, strict=False):
        counted = place[cell] >= 0
        rows.append(entry[counted])
        columns.append(start + child[counted] * width + place[cell[counted]])
    row, column = np.concatenate(rows), np.concatenate(columns)
    level = sp.csr_matrix((weight[row], (row, column)), shape=(len(entry), int(starts[-1])))
    price = [
        np.repeat(np.sqrt(measurement.variance) / 2.0, width)
        for measurement, width in zip(measurements, widths, strict=True)
    ]
    cost = sp.diags_array(np.concatenate([np.zeros(prices), *price]))
    matrix = sp.vstack([level, cost], format="csr")
    norm = np.sqrt(np.asarray(matrix.multiply(matrix).sum(axis=0)).ravel())
    norm[norm == 0] = 1.0
    right = np.concatenate([weight * reduced[child, cell], np.zeros(cost.shape[0])])
    found = lsmr(matrix @ sp.diags_array(1.0 / norm), right, atol=1e-15, btol=1e-15, maxiter=4000)[0] / norm
    return [
        found[start : start + len(people) * width].reshape(len(people), width)
        for width, start in zip(widths, starts, strict=False)
    ]


def _separates(fit: _Fit, cells: int) -> bool:
    """Whether some query asks for every cell by itself, and precisely enough that the objective bends everywhere."""
    if not fit.problem.measurements:
        return True  # there is nothing to level: what is known otherwise has a curvature of its own
    precise = np.min([measurement.variance for measurement in fit.problem.measurements], axis=0)
    return any(
        len(np.unique(place)) == cells and (place >= 0).all() and bool((measurement.variance <= _WEAK * precise).all())
        for measurement, place in zip(fit.problem.measurements, fit.places, strict=True)
    )


def _levelled_gap(
    problem: FamilyProblem, cells: NDArray[np.int32], candidate: Candidate, fit: _Fit, box: _Box, enough: float = 0.0
) -> float:
    """A bound that does not trust the last digits of the gradient (E-36).

    Any multipliers u of the measured answers bound F from below. Those at x differ within a cell's children, or at the
    root from 0, by a solver's last digits, which millions of people magnify; levelled ones cost only the square of the
    difference.
    """
    x, whole, divided = candidate.x, slice(0, len(cells)), box.parent is not None
    prices = _Prices.of(problem, cells, box, (_tight(problem, cells, candidate), candidate.flow_multipliers))
    people, room, gap = x, box.of(whole), np.inf
    for _ in range(_LEVELLINGS):
        level, cost = fit.gradient(whole), 0.0
        changes = _changes(problem.measurements, people, prices.reduce(level, whole), fit.places, divided=divided)
        for measurement, place, change in zip(problem.measurements, fit.places, changes, strict=True):
            level = level - spread(change, place)
            cost += float((change**2 * measurement.variance[:, None]).sum()) / 4.0
        reduced = prices.reduce(level, whole)
        if box.parent is None:
            cheap, found = reduced < 0, _least(x, reduced, 0.0 * x, room)
        else:
            cheap = reduced < _mean_price(x, reduced, room)
            found = _divided_bound(x, reduced, 0.0 * x, room, box.parent, candidate.parent_multipliers)
        before, gap = gap, min(gap, prices.slack + cost - float(found.sum()))
        if gap <= enough or gap > before / 2.0:
            break
        # Cells that have become too cheap are levelled, too, with the people whom they might have.
        people = np.where(cheap & np.isfinite(room), np.maximum(people, room), people)
    return gap


def _tight(problem: FamilyProblem, cells: NDArray[np.int32], candidate: Candidate) -> tuple[Floats, ...]:
    """The multipliers of the bounds that the candidate is on."""
    found = []
    for bound, multiplier in zip(problem.bounds, candidate.bound_multipliers, strict=True):
        value = sums(candidate.x, bound.columns(bound.query.row_of(cells)), bound.lower.shape[1])
        tight = np.where(multiplier > 0, bound.lower, bound.upper)
        near = np.abs(value - tight) <= _TIGHT * np.maximum(1.0, np.abs(tight))
        found.append(np.where(near, multiplier, 0.0))
    return tuple(found)


def _cleaned(problem: FamilyProblem, hints: _Hints, size: float) -> _Hints:
    """Second guess at multipliers: small ones to zero, prices that differ little within a child to their mean.

    A known total is a sum of flows, too, so that a solver may raise its multiplier by what it lowers all prices; of two
    that are large beside the gradient the last digits are lost, and all of a price is the total's.
    """
    multipliers, prices = hints
    least = _NOISE * size
    if prices is not None and problem.flows is not None and problem.flows.query.is_partition:
        known = next((number for number, bound in enumerate(problem.bounds) if _is_known_total(bound)), None)
        if known is not None:
            mean = prices.mean(axis=1, keepdims=True)
            moved = multipliers[known] + mean
            multipliers, prices = (*multipliers[:known], moved, *multipliers[known + 1 :]), prices - mean
    cleaned = tuple(np.where(np.abs(multiplier) <= least, 0.0, multiplier) for multiplier in multipliers)
    if prices is None:
        return cleaned, None
    mean = prices.mean(axis=1, keepdims=True)
    return cleaned, np.where(np.abs(prices - mean) <= least, mean, prices)


def _is_known_total(bound: FamilyBounds) -> bool:
    return bound.query.rows == 1 and bound.query.is_partition and np.array_equal(bound.lower, bound.upper)


def _parent(problem: FamilyProblem, cells: NDArray[np.int32]) -> Floats | None:
    """The parent's people in the cells."""
    if problem.parent is None:
        return None
    own, people = problem.parent.cells, np.zeros(len(cells))
    place = np.minimum(np.searchsorted(own, cells), max(0, len(own) - 1))
    inside = own[place] == cells if len(own) else np.zeros(len(cells), dtype=np.bool_)
    people[inside] = problem.parent.counts[place[inside]]
    return people


def _place(measurement: FamilyMeasurement, cells: NDArray[np.int32]) -> Integers:
    """Place of each cell's answer among the rows present, -1 where the query does not count the cell."""
    rows = measurement.query.row_of(cells)
    place = np.searchsorted(measurement.rows, rows)
    return np.where(rows < 0, -1, place)


def _box(
    problem: FamilyProblem, cells: NDArray[np.int32], parent: Floats | None, relaxation: Relaxation | None
) -> Floats:
    """Upper bound that every feasible point keeps in each cell (E-15)."""
    shape = (len(problem.children), len(cells))
    box = np.full(shape, np.inf)
    if relaxation is not None:
        box = np.broadcast_to(relaxation.totals[relaxation.group].astype(np.float64), shape)
    elif parent is not None:
        box = np.broadcast_to(parent, shape)
    for bound in problem.bounds:
        columns = bound.columns(bound.query.row_of(cells))
        box = np.minimum(box, picked(bound.upper.astype(np.float64), columns, np.inf))
    return np.asarray(box)


def _level_box(measurements: tuple[FamilyMeasurement, ...], places: list[Integers], x: Floats, level: float) -> Floats:
    """Upper bound of each cell of any point as good as the candidate: its answer is near the noisy one (E-16)."""
    box = np.full(x.shape, np.inf)
    for measurement, place in zip(measurements, places, strict=True):
        most = measurement.values + np.sqrt(level * measurement.variance)[:, None]
        box = np.minimum(box, picked(np.maximum(most, 0.0), place, np.inf))
    return np.asarray(np.maximum(box, x), dtype=np.float64)


def _alone(fit: _Fit, box: _Box) -> list[NDArray[np.bool_]]:
    """Whether each row of each measurement counts one movable cell of the child alone, shapes ``(K, answers)``."""
    children, cells = box.x.shape
    movable = np.empty((children, cells), dtype=np.bool_)
    for part in [slice(0, cells)] if box.relaxation is not None else at_once(cells, children):
        movable[:, part] = box.of(part) > 0
    found = []
    for measurement, place in zip(fit.problem.measurements, fit.places, strict=True):
        width = len(measurement.rows)
        one = np.empty((children, width), dtype=np.bool_)
        for part in at_once(children, max(width, cells)):
            one[part] = sums(movable[part], place, width) == 1.0
        found.append(one)
    return found


def _curvature(fit: _Fit, alone: list[NDArray[np.bool_]], part: slice, box: Floats) -> Floats:
    """Sum of weights of the rows that count no other movable cell of the child, in some cells (E-14)."""
    curvature = np.zeros(box.shape)
    for measurement, place, one in zip(fit.problem.measurements, fit.places, alone, strict=True):
        own = place[part]
        lonely = picked(one, own, False) & (box > 0)
        curvature += np.where(lonely, (1.0 / measurement.variance)[:, None], 0.0)
    return curvature if fit.steepness is None else curvature + fit.steepness[:, None]


def _undivided_bound(
    candidate: Candidate,
    parent: Floats | None,
    relaxation: Relaxation | None,
    reduced: Floats,
    curvature: Floats,
    box: Floats,
) -> float:
    """Lower bound of the change in F at the root, or under the failsafe (E-18, E-19)."""
    x, hint = candidate.x, candidate.parent_multipliers
    if parent is None or relaxation is None:
        return float(_least(x, reduced, curvature, box).sum())
    total = x.sum(axis=0)
    free = float(_least(x, reduced - hint, curvature, box).sum())
    return free + _relaxed_parent(hint, total, parent, relaxation)


def _divided_bound(x: Floats, reduced: Floats, curvature: Floats, box: Floats, parent: Floats, hint: Floats) -> Floats:
    """Lower bound of the change in F, cell by cell, for the better of two prices: the people's mean, and the hint."""
    total, mean = x.sum(axis=0), _mean_price(x, reduced, box)
    bounds = [
        _least(x, reduced - price, curvature, box).sum(axis=0) + price * (parent - total) for price in (mean, hint)
    ]
    return np.asarray(np.maximum(*bounds), dtype=np.float64)


def _mean_price(x: Floats, reduced: Floats, box: Floats) -> Floats:
    """Mean of the reduced costs of each cell over its people; where it has none, the lowest that can be held."""
    total = x.sum(axis=0)
    lowest = np.where(box > 0, reduced, np.inf).min(axis=0)
    mean = np.divide((x * reduced).sum(axis=0), total, out=lowest, where=total > 0)
    return np.asarray(np.where(np.isfinite(mean), mean, 0.0), dtype=np.float64)


def _least(x: Floats, slope: Floats, curvature: Floats, box: Floats) -> Floats:
    """Least value over 0 <= z <= box of slope (z - x) + curvature (z - x)^2, cell by cell (E-18)."""
    upward = np.maximum(box - x, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        step = np.where(curvature > 0, -slope / (2.0 * curvature), -np.sign(slope) * np.inf)
        step = np.where(slope == 0, 0.0, np.clip(step, -np.maximum(x, 0.0), upward))
        value = slope * step + np.where(curvature > 0, curvature * step**2, 0.0)
    return np.asarray(np.where(step == 0, 0.0, value), dtype=np.float64)


def _relaxed_parent(price: Floats, total: Floats, parent: Floats, relaxation: Relaxation) -> float:
    """Least value of price (p - total) over children's sums p that the failsafe allows (E-33)."""
    groups = len(relaxation.totals)
    most, least = np.full(groups, -np.inf), np.full(groups, np.inf)
    np.maximum.at(most, relaxation.group, price)
    np.minimum.at(least, relaxation.group, price)
    spread = float((most - least).max(initial=0.0))
    return float((price * (parent - total)).sum()) - 0.5 * relaxation.allowance * spread


def _cheapest_flows(flows: FamilyFlows, prices: Floats, most: Floats) -> float:
    """Least cost of flows at given class prices: every descendant fills its cheapest classes first (E-19).

    No flow exceeds what its child can hold of the class, `most`, shape ``(K, C)``.
    """
    price = prices[flows.child]
    order = np.argsort(price, axis=1, kind="stable")
    lower = flows.lower.astype(np.float64)
    upper = np.minimum(flows.upper, np.maximum(most[flows.child], lower))
    room = np.take_along_axis(upper - lower, order, axis=1)
    left = (flows.total - lower.sum(axis=1))[:, None]
    before = np.cumsum(room, axis=1) - room
    filled = np.clip(left - before, 0.0, room)
    return float((price * lower).sum() + (np.take_along_axis(price, order, axis=1) * filled).sum())
