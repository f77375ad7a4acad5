"""The certificate of very many small families at once: the bounds of `certify.py`, on flat arrays (E-13 to E-20, E-35).

It is made from the families' tables alone: of the fit's arrays it sees the points and the multipliers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from das_spark.estimation.flat import FlatAnswers, FlatBounds, FlatFamilies
    from das_spark.estimation.problem import Floats

_ROUNDING_ERROR: Final = 1e-12  # as in `certify`


@dataclass(frozen=True, slots=True, eq=False)
class FlatCertificates:
    """What was proved of the points of F families, shapes ``(F,)``."""

    violation: Floats  # worst violation of any constraint, in people
    worth: Floats  # what all violations together are worth, in units of the objective
    gap: Floats  # objective less a proved lower bound
    objective: Floats  # weighted squared distance to the noisy answers
    distance: Floats  # people by which any child's cell may be off the best point; inf where the bound says nothing


def certify_flat(  # noqa: PLR0915 - one bound, in the order of its terms
    families: FlatFamilies,
    answers: Sequence[FlatAnswers],
    bounds: Sequence[FlatBounds],
    x: Floats,
    multipliers: Sequence[Floats],
) -> FlatCertificates:
    """Certify points, shape ``(E,)``; `multipliers` has those of the rows of each of the bounds."""
    entries, count = families.family_of_entry, len(families.children)
    parent = families.parent.astype(np.float64)
    gradient, room = np.zeros(len(x)), parent[families.cell]
    objective, violation, worth = np.zeros(count), np.zeros(count), np.zeros(count)
    slack, reduced = np.zeros(count), np.zeros(len(x))
    np.maximum.at(violation, entries, -x)
    for each, multiplier in zip(bounds, multipliers, strict=True):
        at = each.rows.of_entries(families)
        counted = np.flatnonzero(at >= 0)
        totals = np.bincount(at[counted], x[counted], minlength=len(each.lower))
        of_values = each.rows.of_values
        off = np.maximum(np.maximum(each.lower - totals, totals - each.upper), 0.0)
        np.maximum.at(violation, of_values, off)
        size = np.maximum(1.0, np.abs(np.where(totals > each.upper, each.upper, each.lower)))
        worth += np.bincount(of_values, np.where(off > _ROUNDING_ERROR * size, np.abs(multiplier) * off, 0.0), count)
        tight = np.where(multiplier > 0, each.lower, each.upper)
        slack += np.bincount(of_values, multiplier * (totals - tight), count)
        room[counted] = np.minimum(room[counted], np.maximum(each.upper[at[counted]], 0.0))
        reduced[counted] -= multiplier[at[counted]]
    free = room > 0
    curvature = np.zeros(len(x))
    for answer in answers:
        at = answer.rows.of_entries(families)
        counted = np.flatnonzero(at >= 0)
        place = at[counted]
        touched = np.bincount(place, minlength=len(answer.values)) > 0
        residual = np.bincount(place, x[counted], minlength=len(answer.values)) - answer.values
        weight = answer.weight[families.child[counted]]
        of_values = answer.rows.of_values
        own = np.zeros(len(residual))
        own[place] = weight
        objective += np.bincount(of_values, np.where(touched, own * residual**2, 0.0), count)
        gradient[counted] += 2.0 * weight * residual[place]
        # Rows that count one cell alone in which anybody can be.
        alone = np.bincount(place, free[counted], minlength=len(answer.values)) == 1
        curvature[counted] += np.where(alone[place] & free[counted], weight, 0.0)
    reduced += gradient
    # The price of each cell: the mean of the reduced costs of its people.
    cell = families.cell
    total = np.bincount(cell, x, minlength=len(parent))
    price = np.bincount(cell, x * reduced, minlength=len(parent)) / np.where(total > 0, total, 1.0)
    off = np.abs(total - parent)
    np.maximum.at(violation, families.family, off)
    worth += np.bincount(
        families.family, np.where(off > _ROUNDING_ERROR * np.maximum(1.0, parent), np.abs(price) * off, 0.0), count
    )
    rest = reduced - price[cell]
    with np.errstate(divide="ignore", invalid="ignore"):
        best = np.where(curvature > 0, x - rest / (2.0 * curvature), np.where(rest > 0, -np.inf, np.inf))
    best = np.clip(best, 0.0, room)
    lost = rest * (best - x) + curvature * (best - x) ** 2
    bound = np.bincount(entries, lost, count) + np.bincount(families.family, price * (parent - total), count)
    gap = slack - bound
    least = np.full(count, np.inf)
    np.minimum.at(least, entries[free], curvature[free])
    with np.errstate(divide="ignore", invalid="ignore"):
        distance = np.where(least > 0, np.sqrt(np.maximum(gap, 0.0) / least), np.inf)
    return FlatCertificates(violation, worth, gap, objective, distance)
