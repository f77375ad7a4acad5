"""The multi-pass rounder: whole numbers whose sums, pass by pass, come nearest to the real ones (E-51 to E-55).

Each pass is one program over the steps up from the floor. The distance of a sum from its real value has corners only at
whole numbers, so that where the sums of a pass are nested the vertices of the linear program are whole, and its optimum
is proved. Where they are not, the cells that came out whole are kept and the others go to a mixed-integer program: its
distance from the linear bound is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from das_spark.estimation.distances import Frame, Goal, Sums, frame_of, slope, snapped, sums_of
from das_spark.estimation.flows import flow_variables
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.problem import Rounding
from das_spark.estimation.rounding import Rounded, split
from das_spark.estimation.solvers import SOLVERS, Solution, SolverOptions, Status
from das_spark.estimation.support import Floats, Integers
from das_spark.histogram import Query

NODES = 50
"""Branch-and-bound nodes of a pass that is not whole."""

GAP = 1e-3
"""Distance from the linear bound, relative to the objective, at which they are not needed."""

_PRICE = 1e-6
"""A step whose price is above minus this cannot help, but for a solver's rounding errors."""

_NEAR = 0.5
"""Where a step would help, those that nearly would come with it."""

_Steps = tuple[Integers, str, float]  # steps of each variable, how they were found, distance from the bound


@dataclass(frozen=True, slots=True, eq=False)
class _Posed:
    """What does not change from pass to pass.

    Attributes:
        presolved: The family.
        base: Floor of each variable.
        fraction: Fraction of each.
        released: Whether distances are from the nearest whole number, as in the public release (E-52).
        frame: Constraints in the unit box.
    """

    presolved: Presolved
    base: Integers
    fraction: Floats
    released: bool
    frame: Frame


def round_in_passes(
    presolved: Presolved, x: Floats, passes: Sequence[Sequence[Query]], rounding: Rounding
) -> Rounded | None:
    """Round an estimate pass by pass.

    Args:
        presolved: The family.
        x: Real-valued estimate, people, shape ``(K, n)``.
        passes: The queries of each pass; the last one ends with the query of every cell.
        rounding: "nearest": distance to the real value; "released": to the nearest whole number.

    Returns:
        Whole numbers, or None when none were found.
    """
    base, fraction = split(x[presolved.child, presolved.cell])
    if not presolved.variables:
        return _rounded(presolved, base, fraction, (base, "", 0.0))
    frame = frame_of(presolved, flow_variables(presolved), base, widened=False)
    posed = _Posed(presolved, base, fraction, rounding == "released", frame)
    sums = [[sums_of(presolved, query) for query in queries] for queries in passes]
    totals = _best_totals(posed, sums)
    found = None if totals is None else _in_turn(posed, sums, totals)
    found = found or _in_turn(posed, sums)
    return None if found is None else _rounded(presolved, base, fraction, found)


def _rounded(presolved: Presolved, base: Integers, fraction: Floats, found: _Steps) -> Rounded:
    steps, method, gap = found
    counts = presolved.fixed.copy()
    counts[presolved.child, presolved.cell] = base + steps
    cost = float((np.abs(steps - fraction) - np.minimum(fraction, 1.0 - fraction)).sum())
    return Rounded(counts, method, cost, gap)


def _in_turn(posed: _Posed, passes: Sequence[Sequence[Sums]], totals: Floats | None = None) -> _Steps | None:
    """Pass by pass, each with the sums of those before it held; with the first pass's totals, if they are known."""
    steps, methods, gap = np.zeros(0, dtype=np.int64), [""], 0.0
    held: list[tuple[sp.csr_matrix, Floats]] = []
    if totals is not None:
        held, passes = [(passes[0][0].matrix, totals)], passes[1:]
    for number, sums in enumerate(passes):
        if number:
            held += [(each.all, np.asarray(each.all @ steps, dtype=np.float64)) for each in passes[number - 1]]
        found = _pass(posed, sums, held, widen=totals is None)
        if found is None:
            return None
        steps, method, short = found
        methods.append(method)
        gap = max(gap, short)
    return steps, max(methods, key=len), gap


def _best_totals(posed: _Posed, passes: Sequence[Sequence[Sums]]) -> Floats | None:
    """Steps of each child, where the first pass rounds nothing but totals: the largest remainders go up (E-53).

    No division of the parent's people does better in that pass; whether one with these totals exists, the next tells.
    """
    if len(passes) < 2 or len(passes[0]) != 1 or posed.presolved.needed is None:  # noqa: PLR2004
        return None
    first, children = passes[0][0], len(np.unique(posed.presolved.child))
    if len(first.alone) or first.matrix.shape[0] != children or first.matrix.nnz != posed.presolved.variables:
        return None
    target = snapped(np.asarray(first.matrix @ posed.fraction, dtype=np.float64))
    totals = np.floor(target)
    up = int(posed.presolved.needed.sum() - posed.base.sum() - totals.sum())
    if not 0 <= up <= children:
        return None
    totals[np.lexsort((totals - target, slope(target, released=posed.released)))[:up]] += 1.0
    return totals


def _goal(posed: _Posed, frame: Frame, sums: Sequence[Sums], held: Sequence[tuple[sp.csr_matrix, Floats]]) -> Goal:
    return Goal.of(frame, posed.fraction, sums, held, released=posed.released)


def _pass(
    posed: _Posed, sums: Sequence[Sums], held: Sequence[tuple[sp.csr_matrix, Floats]], *, widen: bool
) -> _Steps | None:
    """Solve one pass, in the unit box above the floor first."""
    found = _solved(_goal(posed, posed.frame, sums, held))
    if found is not None or not widen:
        return found
    wide = frame_of(posed.presolved, flow_variables(posed.presolved), posed.base, widened=True)
    found = _solved(_goal(posed, wide, sums, held))
    return None if found is None else (found[0], found[1] + ", widened", found[2])


def _solved(goal: Goal) -> _Steps | None:
    """Solve a pass: steps, how they were found, distance from the bound relative to the objective."""
    found = _relaxed(goal)
    if found is None:
        return None
    solution, columns = found
    steps, whole = goal.steps(solution, columns)
    if whole.all():
        return steps, "linear program", 0.0
    bound = goal.value(solution, columns)
    for kept, chosen in ((whole, columns), (None, np.ones_like(columns))):
        program = goal.program(chosen, integral=True, kept=None if kept is None else (kept, steps))
        best = SOLVERS["highs"].solve(program, SolverOptions(iterations=NODES, gap=GAP))
        if best.x is None:
            continue
        steps, whole = goal.steps(best, chosen)
        if whole.all():
            gap = max(0.0, goal.value(best, chosen) - bound) / max(1.0, abs(bound))
            return steps, "mixed-integer program", gap
    return None


def _relaxed(goal: Goal) -> tuple[Solution, NDArray[np.bool_]] | None:
    """Solve the linear program of a pass: on few columns, then with others until no price is left that would help."""
    if (goal.frame.program.lower > goal.frame.program.upper).any():
        return None
    columns = goal.likely
    while True:
        solution = SOLVERS["highs"].solve(goal.program(columns), SolverOptions(presolve=False))
        if solution.status is Status.OPTIMAL and solution.rows is not None:
            prices = np.where(columns[: len(goal.fraction)], np.inf, goal.prices(columns, solution))
            if prices.min(initial=np.inf) >= -_PRICE:
                return solution, columns
            columns = columns.copy()
            columns[: len(prices)] |= prices < _NEAR
        elif columns.all():
            return None
        else:
            columns = np.ones_like(columns)
