"""How far a candidate is from keeping the constraints of its family, and what that is worth (E-17, E-35)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from das_spark.estimation.answers import Floats, sums
from das_spark.estimation.candidate import Candidate
from das_spark.estimation.problem import FamilyFlows, FamilyProblem
from das_spark.estimation.support import Relaxation

_NOISE = 1e-12
"""Violations this small, relative to max(1, size), are rounding errors of sums; multipliers may be of any size."""


@dataclass(slots=True)
class Worst:
    """Keeps the worst violation.

    Attributes:
        absolute: In people.
        relative: Relative to max(1, size of what is violated).
        worth: What all violations together are worth, in units of the objective, at the candidate's multipliers.
    """

    absolute: float = 0.0
    relative: float = 0.0
    worth: float = 0.0

    def note(self, violation: Floats, size: Floats, multiplier: Floats | float = 0.0) -> None:
        """Note violations of one kind.

        Args:
            violation: People, not positive where nothing is violated.
            size: What is violated.
            multiplier: What a person is worth there.
        """
        if not violation.size:
            return
        if np.isnan(violation).any():
            self.absolute = self.relative = float("inf")
            return
        self.absolute = max(self.absolute, float(violation.max()))
        relative = violation / np.maximum(1.0, np.abs(size))
        self.relative = max(self.relative, float(relative.max()))
        self.worth += float(np.where(relative > _NOISE, np.abs(multiplier) * violation, 0.0).sum())


def worst_violation(
    problem: FamilyProblem,
    cells: NDArray[np.int32],
    candidate: Candidate,
    parent: Floats | None,
    relaxation: Relaxation | None,
) -> Worst:
    """Measure a candidate against (E-3) to (E-5), or against what the failsafe keeps of them.

    Args:
        problem: The family.
        cells: The cells of the candidate, shape ``(n,)``.
        candidate: People, flows and multipliers.
        parent: The parent's people in the cells, or None.
        relaxation: Given when the failsafe has replaced consistency with the parent.

    Returns:
        The worst violation.
    """
    worst = Worst()
    worst.note(-candidate.x, np.ones(1))
    if parent is not None and problem.parent is not None:
        _note_parent(worst, candidate, parent, relaxation)
        worst.note(np.array([problem.parent.total - parent.sum()]), np.ones(1))  # people outside the cells
    for bound, multiplier in zip(problem.bounds, candidate.bound_multipliers, strict=True):
        value = sums(candidate.x, bound.query.row_of(cells), bound.query.rows)
        lower, upper = bound.lower.astype(np.float64), bound.upper.astype(np.float64)
        violation = np.maximum(lower - value, value - upper)
        worst.note(violation, np.where(value > upper, upper, lower), multiplier)
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
