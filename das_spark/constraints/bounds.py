r"""Bounds on the people of each class of units, which follow from how many units of each class there are.

For a geounit with n_i units of class i, at least m_i and at most c_i people in each of them, s_i people in class i and,
where it is invariant, T people in all; N = sum n_i and S = sum m_i n_i:

    T unknown:  m_i n_i <= s_i <= c_i n_i                                                              (C-1)
    T known:    lower_i = m_i n_i if another class has units (N - n_i > 0), else T                     (C-2)
                upper_i = T - (S - m_i n_i) if n_i > 0, else 0                                         (C-3)
                and, where capacity counts although T is known, upper_i = min(upper_i, c_i n_i)        (C-4)

Source: the public release of the 2018 End-to-End test (bounds "hhgq_total") and its successors.

Whether class margins can be divided among areas whose totals and class bounds are known.

Let d run over the areas below a geounit that have an invariant total T_d, and j over the bounded classes. The margins
s_j of the geounit can be divided among them if and only if integers f_dj exist with

    lower_dj <= f_dj <= upper_dj,     sum_j f_dj = T_d,     sum_d f_dj = s_j.                          (C-5)

This is a transportation problem. Its matrix is totally unimodular (each column has one 1 among the areas and one among
the classes), so for whole right-hand sides every vertex of its linear relaxation is whole: the linear program decides
the question for integers (Hoffman and Kruskal 1956). Bounds on the sums alone do not decide it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import csr_array, eye_array, kron, vstack

from das_spark.errors import ConfigurationError, EstimationError, InputError

Counts = NDArray[np.int64]

#: An upper bound that binds nobody: far above any population, far below the overflow of a sum of a million of them.
UNBOUNDED: Final = 10**12


@dataclass(frozen=True, slots=True)
class UnitBounds:
    """The formulas (C-1) to (C-4) of a product.

    Attributes:
        least: m_i, the fewest people (or whatever is counted) in a unit of class i. Classes of units behind the last
            one that is given bound nothing.
        most: c_i, the most people in a unit of class i; at least m_i.
        cap_when_total_known: Whether (C-4) applies. The End-to-End test left capacities out where T is known.

    Raises:
        ConfigurationError: `least` and `most` differ in length, are empty, negative or contradict each other.
    """

    least: tuple[int, ...]
    most: tuple[int, ...]
    cap_when_total_known: bool

    def __post_init__(self) -> None:
        """Check that every class can hold people."""
        if len(self.least) != len(self.most) or not self.least:
            raise ConfigurationError("unit bounds need one least and one most number of people for each class")
        for number, (least, most) in enumerate(zip(self.least, self.most, strict=True)):
            if not 0 <= least <= most:
                raise ConfigurationError(f"unit bounds of class {number}: expected 0 <= {least} <= {most}")

    def lower(self, units: Counts, total: Counts | None = None) -> Counts:
        """Fewest people of each class: (C-1) or (C-2).

        Args:
            units: Units by geounit and class, (K, C), nonnegative.
            total: Invariant number of people by geounit, (K,); None where it is not invariant.

        Returns:
            People, (K, C). In a geounit without any unit every class gets T, which only T = 0 can meet.

        Raises:
            InputError: A shape does not fit, or a number of units or people is impossible.
        """
        checked = self._checked(units, total)
        minimum = checked * np.asarray(self.least, dtype=np.int64)
        if total is None:
            return minimum
        others = checked.sum(axis=1, keepdims=True) - checked
        return np.where(others > 0, minimum, np.asarray(total, dtype=np.int64)[:, None])

    def upper(self, units: Counts, total: Counts | None = None) -> Counts:
        """Most people of each class: (C-1), (C-3) or (C-4).

        Args:
            units: Units by geounit and class, (K, C), nonnegative.
            total: Invariant number of people by geounit, (K,); None where it is not invariant.

        Returns:
            People, (K, C). Negative where the total cannot fill the other units: such a geounit is infeasible.

        Raises:
            InputError: A shape does not fit, or a number of units or people is impossible.
        """
        checked = self._checked(units, total)
        capacity = checked * np.asarray(self.most, dtype=np.int64)
        if total is None:
            return capacity
        minimum = checked * np.asarray(self.least, dtype=np.int64)
        others = minimum.sum(axis=1, keepdims=True) - minimum
        left_over = np.where(checked > 0, np.asarray(total, dtype=np.int64)[:, None] - others, 0)
        return np.minimum(left_over, capacity) if self.cap_when_total_known else left_over

    def _checked(self, units: Counts, total: Counts | None) -> Counts:
        array = np.asarray(units)
        classes = len(self.least)
        if array.ndim != 2 or array.shape[1] != classes or array.dtype.kind not in "iu":  # noqa: PLR2004
            raise InputError(f"units by class: expected integers of shape (geounits, {classes}), got {array.shape}")
        # A class must not overflow on its own, and neither must the sum over the classes.
        largest = np.iinfo(np.int64).max // (max(self.most) * classes or 1)
        if array.size and (array.min() < 0 or array.max() > largest):
            raise InputError(f"units by class: every number must lie between 0 and {largest}")
        if total is not None:
            people = np.asarray(total)
            if people.shape != array.shape[:1] or people.dtype.kind not in "iu":
                raise InputError("totals: expected one whole number of people for each geounit")
            if people.size and people.min() < 0:
                raise InputError("totals: a number of people is negative")
        return array.astype(np.int64)


def tighten(own_lower: Counts, own_upper: Counts, sum_lower: Counts, sum_upper: Counts) -> tuple[Counts, Counts]:
    """The tighter of a geounit's own bounds and the sums of its children's.

    Args:
        own_lower: Lower bounds from the geounit's own invariants, any shape.
        own_upper: Its own upper bounds, same shape.
        sum_lower: Sums of its children's lower bounds, same shape.
        sum_upper: Sums of its children's upper bounds, same shape.

    Returns:
        Lower and upper bounds.
    """
    return np.maximum(own_lower, sum_lower), np.minimum(own_upper, sum_upper)


def divisible(lower: Counts, upper: Counts, total: Counts | None = None) -> NDArray[np.bool_]:
    """Whether class margins exist between the bounds that sum to the total, geounit by geounit.

    Args:
        lower: Fewest people by geounit and class, (K, C).
        upper: Most people by geounit and class, (K, C).
        total: Invariant number of people by geounit, (K,); None where it is not invariant.

    Returns:
        (K,): `lower <= upper` in every class and, with a total, `sum lower <= total <= sum upper`.
    """
    good = np.asarray((lower <= upper).all(axis=1), dtype=np.bool_)
    if total is not None:
        good &= (lower.sum(axis=1) <= total) & (total <= upper.sum(axis=1))
    return good


def bounds_up_the_spine(
    formulas: UnitBounds,
    units: Counts,
    parents: Sequence[NDArray[np.int64]],
    totals: Sequence[Counts | None],
) -> tuple[tuple[Counts, Counts], ...]:
    """Bounds of every geounit of a small spine, the tighter of own and summed at every level.

    The plain form, in memory, of what a run does with tables.

    Args:
        formulas: The product's formulas.
        units: Units of the leaf geounits by class, (K, C).
        parents: For each level but the top, top first: position of each geounit's parent in the level above. Every
            geounit above the leaf has a child.
        totals: For each level, top first: invariant totals, or None.

    Returns:
        For each level, top first: lower and upper bounds, (geounits of the level, C).
    """
    own = formulas.lower(units, totals[-1]), formulas.upper(units, totals[-1])
    levels = [own]
    for parent, total in zip(reversed(parents), reversed(totals[:-1]), strict=True):
        sum_lower, sum_upper = (_sum_over(bound, parent) for bound in levels[-1])
        units = _sum_over(units, parent)
        levels.append(tighten(formulas.lower(units, total), formulas.upper(units, total), sum_lower, sum_upper))
    return tuple(reversed(levels))


def _sum_over(values: Counts, parent: NDArray[np.int64]) -> Counts:
    sums = np.zeros((int(parent.max()) + 1, values.shape[1]), dtype=np.int64)
    np.add.at(sums, parent, values)
    return sums


_INFEASIBLE = 2


def find_flows(
    margins: NDArray[np.int64], lower: NDArray[np.int64], upper: NDArray[np.int64], total: NDArray[np.int64]
) -> NDArray[np.int64] | None:
    """Whole flows (C-5), checked in integers, or None where there are none.

    Args:
        margins: People by class of the geounit, (C,).
        lower: Fewest people by area and class, (D, C).
        upper: Most people by area and class, (D, C).
        total: People of each area, (D,).

    Returns:
        People by area and class, (D, C).

    Raises:
        InputError: The shapes do not fit together.
        EstimationError: The linear program was neither solved nor refuted.
    """
    if lower.shape != upper.shape or lower.shape != (len(total), len(margins)):
        raise InputError(
            f"flows: bounds of shape {lower.shape} and {upper.shape} for {len(total)} areas and {len(margins)} classes"
        )
    # What is above the lower bounds keeps the numbers small; no flow exceeds what its area has left.
    left = total - lower.sum(axis=1)
    wanted = margins - lower.sum(axis=0)
    room = np.minimum(upper - lower, left[:, None])
    if left.sum() != wanted.sum() or (left < 0).any() or (wanted < 0).any() or (room < 0).any():
        return None
    return None if (extra := _solve(left, wanted, room)) is None else lower + extra


def _solve(left: NDArray[np.int64], wanted: NDArray[np.int64], room: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Flows from 0 to `room` with row sums `left` and column sums `wanted`."""
    areas, classes = room.shape
    if room.size == 0:
        return room
    rows = kron(eye_array(areas), np.ones((1, classes)))
    columns = kron(np.ones((1, areas)), eye_array(classes))
    # "highs-ds", the dual simplex method, ends in a vertex: a whole one, as the matrix is totally unimodular.
    answer = linprog(  # type: ignore[call-overload]  # the stubs know neither sparse arrays nor an array of bounds
        np.zeros(room.size),
        A_eq=csr_array(vstack([rows, columns])),
        b_eq=np.concatenate([left, wanted]),
        bounds=np.column_stack([np.zeros(room.size), room.ravel()]),
        method="highs-ds",
    )
    if answer.status == _INFEASIBLE:
        return None
    if answer.status == 0:
        flows: NDArray[np.int64] = np.rint(answer.x).astype(np.int64).reshape(room.shape)
        within = ((flows >= 0) & (flows <= room)).all()
        if within and (flows.sum(axis=1) == left).all() and (flows.sum(axis=0) == wanted).all():
            return flows
    raise EstimationError(f"the flows of {areas} areas in {classes} classes were not decided: {answer.message}")
