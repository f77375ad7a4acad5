"""The multi-pass rounder: whole numbers whose sums, pass by pass, come nearest to the real ones (E-50 to E-54).

Each pass is one program over the steps up from the floor. The distance of a sum from its real value has corners only at
whole numbers, so that where the sums of a pass are nested the vertices of the linear program are whole, and its optimum
is proved. Where they are not, the cells that came out whole are kept and the others go to a mixed-integer program: its
distance from the linear bound is reported.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from das_spark.estimation.flows import FlowVariables, flow_variables
from das_spark.estimation.presolve import Presolved
from das_spark.estimation.problem import Rounding
from das_spark.estimation.rounding import NODES, WHOLE, Rounded, rounding_program, split
from das_spark.estimation.solvers import SOLVERS, Inequalities, Program, SolverOptions, Status
from das_spark.estimation.support import Floats, Integers
from das_spark.histogram import Query

_EXACT = 1e-9
"""Sums of fractions this close to a whole number are taken for it."""

_FIRST = 1e6
"""Weight of sizes beside details where both are rounded by one program."""


@dataclass(frozen=True, slots=True, eq=False)
class Sums:
    """The sums of one query that count two or more variables of a child, and the variables that stand alone.

    Attributes:
        matrix: Incidence, shape ``(sums, N)``.
        alone: Variables that are the only ones of their row, as positions.
        weight: Weight of their distances.
    """

    matrix: sp.csr_matrix
    alone: Integers
    weight: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class Posed:
    """What does not change from pass to pass.

    Attributes:
        presolved: The family.
        flows: Its flows, or None.
        base: Floor of each variable.
        fraction: Fraction of each.
        released: Whether distances are from the nearest whole number, as in the public release (E-52).
    """

    presolved: Presolved
    flows: FlowVariables | None
    base: Integers
    fraction: Floats
    released: bool


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
    posed = Posed(presolved, flow_variables(presolved), base, fraction, rounding == "released")
    at_once = _at_once(posed, passes)
    if at_once is not None:
        return at_once
    held: list[tuple[sp.csr_matrix, Floats]] = []
    steps, methods, gap = np.zeros(len(base), dtype=np.int64), [""], 0.0
    for queries in passes if presolved.variables else ():
        sums = [sums_of(presolved, query) for query in queries]
        found = _pass(posed, sums, held)
        if found is None:
            return None
        steps, method, short = found
        methods.append(method)
        gap = max(gap, short)
        held += [(each.matrix, np.asarray(each.matrix @ steps, dtype=np.float64)) for each in sums]
        held += [_alone(each, steps) for each in sums if len(each.alone)]
    return _rounded(posed, steps, max(methods, key=len), gap)


def _rounded(posed: Posed, steps: Integers, method: str, gap: float) -> Rounded:
    counts = posed.presolved.fixed.copy()
    counts[posed.presolved.child, posed.presolved.cell] = posed.base + steps
    cost = float((np.abs(steps - posed.fraction) - np.minimum(posed.fraction, 1.0 - posed.fraction)).sum())
    return Rounded(counts, method, cost, gap)


def _at_once(posed: Posed, passes: Sequence[Sequence[Query]]) -> Rounded | None:
    """Both passes by one program, where the first rounds nothing but the children's totals (E-53).

    Totals weigh so much more that they come out as well as the parent's total alone allows; then no order of the two
    passes can do better in the first, and this is the best of the second.
    """
    presolved = posed.presolved
    if len(passes) != 2 or [query.rows for query in passes[0]] != [1] or presolved.needed is None:  # noqa: PLR2004
        return None
    first = sums_of(presolved, passes[0][0])
    if len(first.alone) or first.matrix.nnz != presolved.variables or not presolved.variables:
        return None
    target = _snapped(np.asarray(first.matrix @ posed.fraction, dtype=np.float64))
    least = _least_distance(posed, target)
    found = _pass(posed, [replace(first, weight=_FIRST), *(sums_of(presolved, query) for query in passes[1])], [])
    if least is None or found is None or found[2] > 0:
        return None
    reached = _distance(np.asarray(first.matrix @ found[0], dtype=np.float64), target, released=posed.released)
    return _rounded(posed, *found) if reached <= least + WHOLE else None


def _least_distance(posed: Posed, target: Floats) -> float | None:
    """Smallest distance of the children's totals that the parent's total allows: the largest remainders go up."""
    needed = posed.presolved.needed
    if needed is None:
        return None
    floor = np.floor(target)
    up = int(needed.sum() - posed.base.sum() - floor.sum())
    if not 0 <= up <= len(target):
        return None
    whole = floor.copy()
    whole[np.argsort(_slope(target - floor, released=posed.released), kind="stable")[:up]] += 1.0
    return _distance(whole, target, released=posed.released)


def _distance(sums: Floats, target: Floats, *, released: bool) -> float:
    """Distance of whole sums from their targets (E-51, E-52)."""
    return float(np.abs(sums - (np.rint(target) if released else target)).sum())


def _snapped(target: Floats) -> Floats:
    nearest = np.rint(target)
    return np.asarray(np.where(np.abs(target - nearest) <= _EXACT, nearest, target), dtype=np.float64)


def sums_of(presolved: Presolved, query: Query) -> Sums:
    """The sums of a query over the variables of each child."""
    rows = query.row_of(presolved.support.cells)[presolved.cell]
    (counted,) = np.nonzero(rows >= 0)
    key = presolved.child[counted] * query.rows + rows[counted]
    _, place, size = np.unique(key, return_inverse=True, return_counts=True)
    shared = size > 1
    entry = shared[place]
    row = (np.cumsum(shared) - 1)[place[entry]]
    matrix = sp.csr_matrix(
        (np.ones(len(row)), (row, counted[entry])), shape=(int(shared.sum()), presolved.variables), dtype=np.float64
    )
    return Sums(matrix, counted[~entry])


def _alone(sums: Sums, steps: Integers) -> tuple[sp.csr_matrix, Floats]:
    count = len(sums.alone)
    matrix = sp.csr_matrix((np.ones(count), (np.arange(count), sums.alone)), shape=(count, len(steps)))
    return matrix, steps[sums.alone].astype(np.float64)


def _pass(
    posed: Posed, sums: Sequence[Sums], held: Sequence[tuple[sp.csr_matrix, Floats]]
) -> tuple[Integers, str, float] | None:
    """Solve one pass, in the unit box above the floor first: steps, how they were found, distance from the bound."""
    for widened in (False, True):
        program = _program(posed, sums, held, widened=widened)
        if (program.lower > program.upper).any():
            continue
        found = _solved(program, posed, widened=widened)
        if found is not None:
            steps, method, gap = found
            return steps, method + (", widened" if widened else ""), gap
    return None


def _solved(program: Program, posed: Posed, *, widened: bool) -> tuple[Integers, str, float] | None:
    highs = SOLVERS["highs"]
    relaxed = highs.solve(program, SolverOptions(presolve=False))
    if relaxed.status is not Status.OPTIMAL or relaxed.x is None:
        return None
    steps, whole = _steps(relaxed.x, posed, widened=widened)
    if whole.all():
        return steps, "linear program", 0.0
    bound = float(program.linear @ relaxed.x)
    fixed = _fix(program, relaxed.x, whole, widened=widened)
    everything = np.zeros(program.size, dtype=np.bool_)
    everything[: len(whole)] = True
    for tried in (fixed, program):
        found = highs.solve(replace(tried, integral=everything), SolverOptions(iterations=NODES))
        if found.x is None or found.status is not Status.OPTIMAL:
            continue
        steps, whole = _steps(found.x, posed, widened=widened)
        if whole.all():
            gap = max(0.0, float(program.linear @ found.x) - bound) / max(1.0, abs(bound))
            return steps, "mixed-integer program", gap
    return None


def _steps(x: Floats, posed: Posed, *, widened: bool) -> tuple[Integers, np.ndarray]:
    """Steps of each variable, and which of them are whole."""
    count = len(posed.base)
    steps = x[:count].copy()
    if widened:
        extra = _extra(posed)
        steps += x[extra : extra + count] - x[extra + count : extra + 2 * count]
    nearest = np.rint(steps)
    return nearest.astype(np.int64), np.asarray(np.abs(steps - nearest) <= WHOLE)


def _extra(posed: Posed) -> int:
    """Column of the first further step, in a widened program."""
    return len(posed.base) + (0 if posed.flows is None else len(posed.flows.descendant))


def _fix(program: Program, x: Floats, whole: np.ndarray, *, widened: bool) -> Program:
    """Keep the variables that came out whole."""
    if widened:
        return program
    lower, upper = program.lower.copy(), program.upper.copy()
    (kept,) = np.nonzero(whole)
    lower[kept] = upper[kept] = np.rint(x[kept])
    return replace(program, lower=lower, upper=upper)


def _program(
    posed: Posed, sums: Sequence[Sums], held: Sequence[tuple[sp.csr_matrix, Floats]], *, widened: bool
) -> Program:
    """Constraints, sums that earlier passes settled, and the distances of this pass (E-51)."""
    presolved, count = posed.presolved, len(posed.base)
    chosen = np.ones(count, dtype=np.bool_)
    frame = rounding_program(presolved, posed.flows, posed.base, posed.fraction, chosen, widened=widened)
    times = np.zeros(count)
    for each in sums:
        times[each.alone] += each.weight
    scale = 2.0 * count + 2.0 if posed.released else 1.0
    linear = np.zeros(frame.size)
    linear[:count] = scale * times * _slope(posed.fraction, released=posed.released)
    if posed.released:
        linear[:count] += 1.0 - 2.0 * posed.fraction  # a tie goes to the cells' own distances (E-54)
    if widened:
        extra = _extra(posed)
        linear[extra : extra + 2 * count] = scale * np.tile(times, 2) + (1.0 if posed.released else _EXACT)
    matrix = sp.vstack([each.matrix for each in sums], format="csr")
    weight = scale * np.concatenate([np.full(each.matrix.shape[0], each.weight) for each in sums])
    return _with_distances(frame, posed, matrix, held, linear, weight, widened=widened)


def _slope(fraction: Floats, *, released: bool) -> Floats:
    """Cost of one step up to the next whole number: what the distance changes by."""
    return 1.0 - 2.0 * (np.rint(fraction) if released else fraction)


def _with_distances(
    frame: Program,
    posed: Posed,
    matrix: sp.csr_matrix,
    held: Sequence[tuple[sp.csr_matrix, Floats]],
    linear: Floats,
    weight: Floats,
    *,
    widened: bool,
) -> Program:
    """Append three columns a sum: up to the next whole number, above it, below the floor (E-51)."""
    target = _snapped(np.asarray(matrix @ posed.fraction, dtype=np.float64))
    floor, height = np.floor(target), matrix.shape[0]
    own = sp.eye_array(height, format="csr")
    distances = sp.hstack([_spread(posed, matrix, frame.size, widened=widened), -own, -own, own], format="csr")
    rows, right = [distances], [floor]
    for settled, value in held:
        wide = _spread(posed, settled, frame.size, widened=widened)
        rows.append(sp.hstack([wide, sp.csr_matrix((len(value), 3 * height))], format="csr"))
        right.append(value)
    limits = frame.inequalities
    matrix_of_frame = sp.csr_matrix((0, frame.size)) if limits is None else limits.matrix
    rows.insert(0, sp.hstack([matrix_of_frame, sp.csr_matrix((matrix_of_frame.shape[0], 3 * height))], format="csr"))
    sides = np.concatenate(right)
    return Program(
        diagonal=np.zeros(frame.size + 3 * height),
        linear=np.concatenate([linear, weight * _slope(target - floor, released=posed.released), weight, weight]),
        equality=sp.csc_matrix((0, frame.size + 3 * height)),
        right=np.zeros(0),
        lower=np.concatenate([frame.lower, np.zeros(3 * height)]),
        upper=np.concatenate([frame.upper, np.ones(height), np.full(2 * height, np.inf)]),
        inequalities=Inequalities(
            sp.csc_matrix(sp.vstack(rows, format="csc")),
            np.concatenate([np.zeros(0) if limits is None else limits.lower, sides]),
            np.concatenate([np.zeros(0) if limits is None else limits.upper, sides]),
        ),
    )


def _spread(posed: Posed, matrix: sp.csr_matrix, width: int, *, widened: bool) -> sp.csr_matrix:
    """Sums of steps as rows over all columns of a program."""
    height = matrix.shape[0]
    spare = sp.csr_matrix((height, _extra(posed) - matrix.shape[1]))
    parts = [matrix, spare, *((matrix, -matrix) if widened else ())]
    found = sp.hstack(parts, format="csr")
    return sp.csr_matrix(sp.hstack([found, sp.csr_matrix((height, width - found.shape[1]))], format="csr"))
