"""Read a program's solution back: people, flows, and multipliers in people's units (E-12)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from das_spark.estimation.assembly import Assembly
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.problem import FamilyProblem
from das_spark.estimation.solvers.base import Solution
from das_spark.estimation.support import Floats, Partition


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A proposed real-valued estimate, with hints of multipliers that may help to prove it best.

    Attributes:
        x: People, shape ``(K, n)``.
        flows: Flows, shape ``(D, C)``, or None.
        parent_multipliers: Hint for the sums over children, shape ``(n,)``.
        bound_multipliers: Hints for each of the family's bounds, each of shape ``(K, rows)``.
        flow_multipliers: Hint for the class margins, shape ``(K, C)``, or None.
    """

    x: Floats
    flows: Floats | None
    parent_multipliers: Floats
    bound_multipliers: tuple[Floats, ...]
    flow_multipliers: Floats | None


def read_back(assembly: Assembly, solution: Solution) -> Candidate:
    """Turn a program's solution into a candidate.

    Args:
        assembly: The program.
        solution: Its solution; without a point the guess stands in.

    Returns:
        The candidate: not negative, and with the parent's sums but for rounding errors.
    """
    presolved, layout = assembly.presolved, assembly.layout
    point = assembly.centre if solution.x is None else assembly.centre + assembly.scale * solution.x
    duals = np.zeros(len(assembly.program.right))
    reduced = np.zeros(layout.width)
    if solution.multipliers is not None and solution.bounds is not None:
        duals = solution.multipliers / assembly.scale
        reduced = solution.bounds / assembly.scale
    x = presolved.fixed.astype(np.float64)
    x[presolved.child, presolved.cell] = _repaired(presolved, point[: layout.variables])
    flows, prices = _flows(assembly, point, duals)
    return Candidate(
        x=x,
        flows=flows,
        parent_multipliers=_parent_multipliers(assembly, duals),
        bound_multipliers=_bound_multipliers(
            presolved, _margin_multipliers(assembly, duals, reduced), reduced[: layout.variables]
        ),
        flow_multipliers=prices,
    )


def _repaired(presolved: Presolved, point: Floats) -> Floats:
    """Remove a solver's rounding errors: nothing out of its own bounds, and each cell scaled to its sum (E-12)."""
    point = np.clip(point, presolved.lower, presolved.upper)
    if presolved.needed is None or presolved.support.relaxation is not None:
        return point
    cells = len(presolved.needed)
    total = np.bincount(presolved.cell, point, minlength=cells)
    factor = np.divide(presolved.needed, total, out=np.ones(cells), where=total > 0)
    return np.asarray(point * factor[presolved.cell], dtype=np.float64)


def _flows(assembly: Assembly, point: Floats, duals: Floats) -> tuple[Floats | None, Floats | None]:
    flows, layout = assembly.flows, assembly.layout
    if flows is None:
        return None, None
    found = flows.fixed.astype(np.float64)
    values = point[layout.first_flow : layout.first_flow + layout.flows]
    found[flows.descendant, flows.kind] = np.clip(values, flows.lower, flows.upper)
    return found, duals[layout.sums + layout.margins + flows.link]


def _parent_multipliers(assembly: Assembly, duals: Floats) -> Floats:
    rows = assembly.layout.row_of_cell
    multipliers = np.zeros(len(rows))
    multipliers[rows >= 0] = duals[rows[rows >= 0]]
    relaxation = assembly.presolved.support.relaxation
    if relaxation is not None:
        multipliers += duals[len(duals) - len(relaxation.totals) :][relaxation.group]
    return multipliers


def _margin_multipliers(assembly: Assembly, duals: Floats, reduced: Floats) -> Floats:
    """Multiplier of each margin's bounds: of its auxiliary variable's, or of its row where it is an equality.

    The program leaves the objective of a known margin out, as a constant; its derivative belongs to the multiplier.
    """
    layout, margins = assembly.layout, assembly.presolved.margins
    multipliers = duals[layout.sums : layout.sums + layout.margins].copy()
    shown, equal = layout.auxiliary >= 0, layout.auxiliary < 0
    multipliers[shown] = reduced[layout.variables + layout.auxiliary[shown]]
    multipliers[equal] += 2.0 * margins.weight[equal] * (margins.lower[equal] - margins.target[equal])
    return multipliers


def _bound_multipliers(presolved: Presolved, of_margin: Floats, reduced: Floats) -> tuple[Floats, ...]:
    """Hand each multiplier of a margin, or of a variable with a bound of its own, to the bound that binds there."""
    problem, margins = presolved.support.problem, presolved.margins
    hints = [np.zeros(bound.lower.shape) for bound in problem.bounds]
    margin_from = np.where(of_margin > 0, margins.lower_from, margins.upper_from)
    variable_from = np.where(reduced > 0, presolved.lower_from, presolved.upper_from)
    for number, (partition, of_row) in enumerate(zip(presolved.support.partitions, margins.of_row, strict=True)):
        if not partition.limits:
            continue
        value = np.zeros(of_row.shape)
        if len(of_margin):
            value = np.where((of_row >= 0) & (margin_from[of_row] == number), of_margin[of_row], 0.0)
        (own,) = np.nonzero(variable_from == number)
        value[presolved.child[own], partition.index[presolved.cell[own]]] = reduced[own]
        hand_out(problem, partition, value, hints)
    return tuple(hints)


def hand_out(problem: FamilyProblem, partition: Partition, value: Floats, hints: list[Floats]) -> None:
    """Give the multipliers of a partition's rows to those of the family's bounds that bind there.

    Args:
        problem: The family.
        partition: The partition.
        value: Multipliers, positive at lower bounds, shape ``(K, r)``.
        hints: For each of the family's bounds its multipliers, shape ``(K, rows)``; changed.
    """
    for limit, rows in partition.limits:
        bound = problem.bounds[limit]
        binds = (value > 0) & (bound.lower[:, rows] >= partition.lower)
        binds |= (value < 0) & (bound.upper[:, rows] <= partition.upper)
        hints[limit][:, rows] = np.where(binds, value, 0.0)
        value = np.where(binds, 0.0, value)
