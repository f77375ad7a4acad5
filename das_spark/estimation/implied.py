"""Bounds that follow from equalities: counts that are known in every row of a finer query say all there is to say.

Where every answer of a query is known, so is every sum of its answers. A bound on such a sum either holds whatever the
estimate is, or cannot be met. The first kind is left out before a family is solved: it would tie together cells that
nothing else does, and keep solvers and rounding from taking them apart.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from das_spark.estimation.nested_family import MOST_STACKED
from das_spark.estimation.support import sums

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from das_spark.estimation.problem import FamilyBounds, FamilyMeasurement, FamilyPlan, FamilyProblem, Integers


def without_implied(problem: FamilyProblem, plan: FamilyPlan) -> FamilyProblem:
    """The problem without the bounds that its equalities imply; the problem itself where there are none."""
    known = [bound for bound in problem.bounds if np.array_equal(bound.lower, bound.upper)]
    if not known or len(problem.bounds) == 1:
        return problem
    cells = np.arange(problem.size, dtype=np.int32) if problem.parent is None else problem.parent.cells
    cells = np.setdiff1d(cells, plan.zero_cells, assume_unique=True)
    kept = tuple(bound for bound in problem.bounds if not any(_implies(each, bound, cells) for each in known))
    return problem if len(kept) == len(problem.bounds) else replace(problem, bounds=kept)


def without_cut(measurement: FamilyMeasurement, bounds: Sequence[FamilyBounds]) -> FamilyMeasurement:
    """Return a measurement without the answers that known sums cut, where it has very many and most are uncut.

    Answers within known sums are solved by the sums, and few that cross all of them by their stack. Where types of
    facilities are known, the answers by class of facilities and age are tens of thousands that cross the known types
    of one class. What they tell is lost; those of households, and of classes with one type, are kept.

    Args:
        measurement: What was measured.
        bounds: Of the family.
    """
    known = max((bound for bound in bounds if np.array_equal(bound.lower, bound.upper)), key=_rows, default=None)
    if known is None or measurement.query.rows <= MOST_STACKED:
        return measurement
    found = measurement.query.uncut_by(known.query)
    if found is None or not measurement.query.rows > len(found[1]) > measurement.query.rows // 2:
        return measurement
    uncut, rows = found
    places = np.searchsorted(rows, measurement.rows)
    kept = rows[np.minimum(places, len(rows) - 1)] == measurement.rows
    return replace(measurement, query=uncut, rows=places[kept], values=measurement.values[:, kept])


def _rows(bound: FamilyBounds) -> int:
    return bound.query.rows


def _implies(known: FamilyBounds, bound: FamilyBounds, cells: NDArray[np.int32]) -> bool:
    """Whether the rows of a bound are sums of known rows, and these sums are within it."""
    if bound.query.rows >= known.query.rows:
        return False
    fine, coarse = known.query.row_of(cells), bound.query.row_of(cells)
    if (fine[coarse >= 0] < 0).any():
        return False
    present, first, place = np.unique(fine, return_index=True, return_inverse=True)
    if not np.array_equal(coarse[first][place], coarse):
        return False
    asked = present >= 0
    rows, of_row = present[asked], coarse[first][asked]
    columns = known.columns(rows)
    if (columns < 0).any():
        return False
    touched: Integers = np.unique(of_row[of_row >= 0])
    found = sums(known.lower[:, columns], np.where(of_row < 0, -1, np.searchsorted(touched, of_row)), len(touched))
    limits = bound.columns(touched)
    if (limits < 0).any():
        return False
    untouched = np.ones(bound.lower.shape[1], dtype=np.bool_)
    untouched[limits] = False
    inside = (bound.lower[:, limits] <= found).all() and (bound.upper[:, limits] >= found).all()
    return bool(inside and (bound.lower[:, untouched] <= 0).all() and (bound.upper[:, untouched] >= 0).all())
