"""What a family is: a parent geounit, its children, their noisy answers and what must hold; and what comes out.

Numbers in brackets, as in (E-3), are equations of the README.md beside this file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import EstimationError

if TYPE_CHECKING:
    from das_spark.estimation.gls import FamilyPrior
    from das_spark.histogram import Histogram, Query

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]

Rounding = Literal["nearest", "released"]


#: People squared. Noise of a smaller variance is zero but for one draw in thousands: weights beyond this one would say
#: nothing more, and only spread the numbers of the quadratic program beyond what solvers hold.
LEAST_VARIANCE = 1e-3

#: People by which the answers of an inner pass may move in later ones: what was in effect in 2020 (E-49).
SLACK = 0.01


class FamilyStatus(StrEnum):
    """How the estimation of a family ended."""

    OPTIMAL = "optimal"  # certified, rounded, checked
    ONLY_CHILD = "only_child"  # the child is its parent
    EMPTY_PARENT = "empty_parent"  # nobody to divide
    RELAXED = "relaxed"  # certified and checked, but children need not sum to the parent cell by cell (failsafe)
    ACCEPTED = "accepted"  # checked, not certified, and taken with its gap because the plan says so
    UNCERTIFIED = "uncertified"  # no solver's solution was proved optimal; numbers of the best one
    UNROUNDED = "unrounded"  # no whole numbers that keep all constraints were found
    INFEASIBLE = "infeasible"  # the constraints contradict each other

    @property
    def is_usable(self) -> bool:
        """Whether the counts keep every constraint (of the relaxed family, under the failsafe) and can be published."""
        return self not in {FamilyStatus.UNCERTIFIED, FamilyStatus.UNROUNDED, FamilyStatus.INFEASIBLE}


@dataclass(frozen=True, slots=True)
class FamilyMeasurement:
    """Noisy answers to one query for all children (E-1).

    Attributes:
        query: What was asked.
        rows: Answer rows that are present, sorted and unique, shape ``(r,)``.
        values: Noisy answers in people, shape ``(K, r)``: whole numbers, but where they sum up several measurements.
        variance: Noise variance of each child's answers, people squared, positive, shape ``(K,)``.
    """

    query: Query
    rows: NDArray[np.int64]
    values: NDArray[np.int64] | NDArray[np.float64]
    variance: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class FamilyBounds:
    """Bounds on the answers to one query, child by child; equal bounds are an equality (E-4).

    Attributes:
        name: For messages.
        query: Its answers are bounded.
        lower: Least number of people in each answer, shape ``(K, r)``; whole numbers (int64) but for the tolerance
            bands around an earlier pass (E-49).
        upper: Largest number, likewise.
        rows: Answers that are bounded, sorted and unique, shape ``(r,)``: all that the parent's cells touch; None where
            all answers of the query are.
    """

    name: str
    query: Query
    lower: NDArray[np.int64] | NDArray[np.float64]
    upper: NDArray[np.int64] | NDArray[np.float64]
    rows: NDArray[np.int64] | None = None

    def columns(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Column of each answer of the query in `lower` and `upper`; -1 for -1, and where it is not bounded."""
        return rows if self.rows is None else _positions(self.rows, rows)

    def row(self, column: int) -> int:
        """Number of the answer in a column, for messages."""
        return column if self.rows is None else int(self.rows[column])


def _positions(present: NDArray[np.int64], rows: NDArray[np.int64]) -> NDArray[np.int64]:
    """Position of each row among those present, -1 where it is not."""
    if not len(present):
        return np.full(rows.shape, -1, dtype=np.int64)
    position = np.minimum(np.searchsorted(present, rows), len(present) - 1)
    return np.where(present[position] == rows, position, -1)


@dataclass(frozen=True, slots=True)
class FamilyFlows:
    """Descendants with invariant totals, among whom the class margins of each child must be divisible (E-5).

    Attributes:
        query: The class query, C answers.
        child: Position of the child that each descendant belongs to, shape ``(D,)``.
        lower: Least people of each class in each descendant, int64, shape ``(D, C)``.
        upper: Most people, int64, shape ``(D, C)``.
        total: Invariant total of each descendant, int64, shape ``(D,)``.
    """

    query: Query
    child: NDArray[np.int64]
    lower: NDArray[np.int64]
    upper: NDArray[np.int64]
    total: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class FamilyGroups:
    """Children of whom only the sum has a known total, such as the two parts of a state (E-56).

    Attributes:
        labels: Label of each child's group; children with the same label are its members.
        totals: Exact total of each child's group, -1 where it is unknown; the same for all members, int64, shape
            ``(K,)``.
    """

    labels: tuple[str, ...]
    totals: NDArray[np.int64]

    @property
    def members(self) -> tuple[tuple[str, NDArray[np.int64]], ...]:
        """Every group, by label: its label and the positions of its children."""
        labels = np.array(self.labels)
        return tuple((label, np.flatnonzero(labels == label)) for label in sorted(set(self.labels)))


@dataclass(frozen=True, slots=True)
class FamilyProblem:
    """One parent and its children: the unit of work.

    Attributes:
        parent_geocode: Geocode of the parent, empty at the root.
        parent: The parent's finished estimate; None at the root, whose single child is the geounit itself, or whose
            children are the members of groups.
        children: Geocodes, sorted.
        size: Number of cells of the schema.
        measurements: Noisy answers; kept sorted by the name of the query.
        bounds: What must hold in each child; kept sorted by name.
        flows: What must remain divisible below the children, or None.
        groups: Which children have a known total together, or None where none have.
        prior: What is known of the children besides their own answers, or None.
    """

    parent_geocode: str
    parent: Histogram | None
    children: tuple[str, ...]
    size: int
    measurements: tuple[FamilyMeasurement, ...]
    bounds: tuple[FamilyBounds, ...] = ()
    flows: FamilyFlows | None = None
    groups: FamilyGroups | None = None
    prior: FamilyPrior | None = None

    def __post_init__(self) -> None:
        """Refuse arrays that do not fit together; put measurements and bounds into one order, whatever the caller's."""
        object.__setattr__(
            self, "measurements", tuple(sorted(self.measurements, key=lambda measurement: measurement.query.name))
        )
        object.__setattr__(self, "bounds", tuple(sorted(self.bounds, key=lambda bound: bound.name)))
        count = len(self.children)
        if not count or list(self.children) != sorted(set(self.children)):
            raise EstimationError(f"family {self.parent_geocode!r}: children must be sorted, unique and at least one")
        for measurement in self.measurements:
            _check_measurement(measurement, count, self.size, self.parent_geocode)
        for bound in self.bounds:
            expected = (count, bound.query.rows if bound.rows is None else len(bound.rows))
            if bound.lower.shape != expected or bound.upper.shape != expected or bound.query.size != self.size:
                raise EstimationError(f"family {self.parent_geocode!r}: bounds {bound.name!r} need shape {expected}")
        if self.flows is not None:
            _check_flows(self.flows, count, self.parent_geocode)
        if self.groups is not None:
            _check_groups(self.groups, count, self.parent_geocode)


def _check_measurement(each: FamilyMeasurement, count: int, size: int, family: str) -> None:
    where = f"family {family!r}: measurement {each.query.name!r}"
    if each.query.size != size:
        raise EstimationError(f"{where} has {each.query.size} cells, the family {size}")
    if each.values.shape != (count, len(each.rows)) or each.variance.shape != (count,):
        raise EstimationError(f"{where} needs one row of {len(each.rows)} answers and one variance for each child")
    if not (np.isfinite(each.variance) & (each.variance > 0)).all():
        raise EstimationError(f"{where} has a variance that is not positive and finite")
    if len(each.rows) > 1 and not (each.rows[1:] > each.rows[:-1]).all():
        raise EstimationError(f"{where} has answer rows that are not sorted and unique")


def _check_flows(flows: FamilyFlows, count: int, family: str) -> None:
    shape = (len(flows.child), flows.query.rows)
    fits = flows.lower.shape == shape and flows.upper.shape == shape and flows.total.shape == shape[:1]
    if not fits or ((flows.child < 0) | (flows.child >= count)).any():
        raise EstimationError(f"family {family!r}: flows need bounds of shape {shape}, totals, and a child for each")


def _check_groups(groups: FamilyGroups, count: int, family: str) -> None:
    totals = groups.totals
    if len(groups.labels) != count or totals.shape != (count,) or totals.dtype != np.int64:
        raise EstimationError(f"family {family!r}: groups need a label and a 64-bit total for each of {count} children")
    if (totals < -1).any():
        raise EstimationError(f"family {family!r}: the total of a group is negative")
    for label, members in groups.members:
        if len(np.unique(totals[members])) > 1:
            raise EstimationError(f"family {family!r}: the members of group {label!r} disagree on its total")


@dataclass(frozen=True, slots=True)
class OuterPass:
    """One outer pass: least squares in inner passes, then a rounding in inner passes.

    Queries stand for themselves in every child. After an inner pass of least squares, what its queries reached is held
    in the inner passes that follow, to within a tolerance; after an inner pass of rounding, exactly. The whole answers
    that the last inner pass of rounding reached hold in all later outer passes. The rounding of the last outer pass
    ends with the query of every cell, so that nothing is left open. A measured query that no pass names is not read.

    Source: TopDown (Abowd et al. 2022), section 5, and the public release of the redistricting production of 2020.

    Attributes:
        least_squares: Inner passes in order; each the names of the measured queries in its objective.
        rounding: Inner passes of the multi-pass rounder in order; each the names of the queries whose rounded answers
            it brings nearest to the real ones. They need not be measured.
    """

    least_squares: tuple[tuple[str, ...], ...]
    rounding: tuple[tuple[str, ...], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Every query that the pass names, once, in the order of first mention."""
        every = (name for inner in (*self.least_squares, *self.rounding) for name in inner)
        return tuple(dict.fromkeys(every))


def _no_cells() -> NDArray[np.int32]:
    return np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class FamilyPlan:
    """How families of a geolevel are estimated; small and picklable.

    Attributes:
        geolevel: Name of the children's level.
        lowest: Whether it is the lowest of the run.
        zero_cells: Structural zeros, int32, sorted.
        solvers: Names of solvers, tried in this order until one is certified.
        gap_tolerance: Largest duality gap accepted, relative to the objective (E-20).
        feasibility_tolerance: Largest violation accepted in people, relative to the size of what is violated (E-17).
        rounding: Objective of the cell-wise rounder; both names mean the same there (README, section 6).
        failsafe: Whether an infeasible family may give up consistency with its parent.
        accept_uncertified: Whether a family that no solver was proved to solve is taken with the gap that is known.
        classes: The class query: bounds on its answers say who can be where, and the failsafe sums its attributes out.
        passes: Outer passes in order; none: one least-squares fit of all that is measured, and the cell-wise rounder.
        queries: Every query that `passes` names, by name.
        workload: Every query that any level of the run measures; for estimators that take levels together.
    """

    geolevel: str
    lowest: bool = False
    zero_cells: NDArray[np.int32] = field(default_factory=_no_cells)
    solvers: tuple[str, ...] = ("projected", "nested", "batched", "piqp", "clarabel", "osqp")
    gap_tolerance: float = 1e-6
    feasibility_tolerance: float = 1e-6
    rounding: Rounding = "nearest"
    failsafe: bool = False
    accept_uncertified: bool = False
    classes: Query | None = None
    passes: tuple[OuterPass, ...] = ()
    queries: Mapping[str, Query] = field(default_factory=dict)
    workload: tuple[Query, ...] = ()


@dataclass(frozen=True, slots=True)
class SolverAttempt:
    """One solver's try at a family.

    Attributes:
        solver: Its name.
        status: What it said of itself.
        certified: What the certificate said.
        primal_residual: Worst violation in people.
        gap: Relative duality gap.
        iterations: As the solver counts them.
    """

    solver: str
    status: str
    certified: bool
    primal_residual: float
    gap: float
    iterations: int


@dataclass(frozen=True, slots=True)
class FamilyDiagnostics:
    """What happened to a family; public.

    Attributes:
        parent: Geocode of the parent, empty at the root.
        children: Number of children.
        variables: Unknowns that were left for the solver.
        status: How it ended.
        solver: Whose solution was kept; "presolve" where none was needed.
        passes: Least-squares passes.
        primal_residual: Worst violation of the real-valued solution, in people.
        gap: Relative duality gap of the real-valued solution (E-20).
        iterations: Iterations of the solver that was kept.
        attempts: Number of solvers tried.
        rounding: How whole numbers were found: "largest remainder", "linear program", ...; empty where not needed.
        rounding_gap: How far the rounding may be from the best one, relative to its objective; 0 where it is proved.
        message: What is wrong, where something is; names rows of public bounds, never a confidential value.
        tried: The attempts one by one.
    """

    parent: str
    children: int
    variables: int
    status: FamilyStatus
    solver: str = "presolve"
    passes: int = 1
    primal_residual: float = 0.0
    gap: float = 0.0
    iterations: int = 0
    attempts: int = 0
    rounding: str = ""
    rounding_gap: float = 0.0
    message: str = ""
    tried: tuple[SolverAttempt, ...] = ()


@dataclass(frozen=True, slots=True)
class FamilyResult:
    """The children's estimates.

    Attributes:
        cells: Cells that may be occupied, int32, sorted, shape ``(n,)``.
        counts: People of each child in each of them, int64, shape ``(K, n)``.
        relaxed: Whether consistency with the parent was given up (failsafe).
        diagnostics: What happened.
    """

    cells: NDArray[np.int32]
    counts: NDArray[np.int64]
    relaxed: bool
    diagnostics: FamilyDiagnostics
