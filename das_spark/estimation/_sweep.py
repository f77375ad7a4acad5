"""The inner loop of the batched solver: one pass over all cells, compiled (E-44, E-46)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.compiled import compiled

if TYPE_CHECKING:
    from das_spark.estimation.problem import Booleans, Floats, Integers

_ROUNDS: Final = 100
_EXACT: Final = 1e-13


@compiled
def _threshold(free: Floats, needed: float, start: float) -> float:
    """The t for which the positive parts of free - t sum to what is needed, by Newton's method from a start (E-46)."""
    threshold = start
    for _ in range(_ROUNDS):
        total, count = 0.0, 0
        for child in range(free.size):
            above = free[child] > threshold
            total += free[child] if above else 0.0
            count += 1 if above else 0
        following = (total - needed) / count if count else free.max() - needed
        moved = abs(following - threshold)
        threshold = following
        if moved <= _EXACT * (1.0 + abs(threshold)):
            break
    return threshold


@compiled
def _points(shift: Floats, rows: Integers, step: Floats, points: Floats) -> None:
    """Points of all children in one cell: the step and the corrections of the sums that count the cell."""
    points[:] = step
    for part in range(rows.size):
        for child in range(points.size):
            points[child] += shift[rows[part], child]


@compiled
def sweep(  # noqa: PLR0913, PLR0917 - one fused loop over arrays is what this module is for
    shift: Floats,
    index: Integers,
    live: Booleans,
    needed: Floats,
    pull: Floats,
    trust: Floats,
    relaxation: float,
    split: Floats,
    dual: Floats,
    price: Floats,
    step: Floats,
    sums: Floats,
) -> tuple[float, float]:
    """Cell by cell: new points, their division among children, multipliers, and the next right-hand side."""
    cells, children = split.shape
    sums[:] = 0.0
    points, free, allowed = np.empty(children), np.empty(children), np.empty(children)
    primal, change = 0.0, 0.0
    for cell in range(cells):
        _points(shift, index[:, cell], step[cell], points)
        for child in range(children):
            free[child] = relaxation * points[child] + (1.0 - relaxation) * split[cell, child] + dual[cell, child]
            allowed[child] = free[child] if live[cell, child] else -np.inf
        threshold = _threshold(allowed, needed[cell], price[cell]) if needed[cell] >= 0.0 else 0.0
        price[cell] = threshold
        for child in range(children):
            new = max(allowed[child] - threshold, 0.0)
            primal = max(primal, abs(points[child] - new))
            change = max(change, abs(new - split[cell, child]))
            rest = free[child] - new
            split[cell, child] = new
            dual[cell, child] = rest
            step[cell, child] = pull[cell, child] + trust[child] * (new - rest)
        for part in range(index.shape[0]):
            row = index[part, cell]
            for child in range(children):
                sums[row, child] += step[cell, child]
    return primal, change


@compiled
def multiply(  # noqa: PLR0913, PLR0917
    matrices: Floats,
    site: Integers,
    slot: Integers,
    first: Integers,
    widths: Integers,
    shares: Floats,
    right: Floats,
    means: Floats,
    sums: Floats,
    found: Floats,
) -> None:
    """Multiply one vector by matrices over averages (components.Averages): means, their products, and back (E-72)."""
    sets, sites = widths.shape
    means[:] = 0.0
    for number in range(sets):
        for cell in range(right.size):
            means[slot[number, cell]] += right[cell] * shares[number, site[cell]]
    sums[:] = 0.0
    for number in range(sets):
        for row in range(sites):
            for column in range(sites):
                factor = matrices[number, row, column]
                if factor != 0.0:
                    into, out = first[number, row], first[number, column]
                    for place in range(widths[number, row]):
                        sums[into + place] += factor * means[out + place]
    found[:] = 0.0
    for number in range(sets):
        for cell in range(right.size):
            found[cell] += sums[slot[number, cell]]


@compiled
def structured_step(  # noqa: PLR0913, PLR0917
    matrices: Floats,
    site: Integers,
    slot: Integers,
    first: Integers,
    widths: Integers,
    shares: Floats,
    linear: Floats,
    pulls: Floats,
    rho: float,
    split: Floats,
    dual: Floats,
    points: Floats,
    sums: Floats,
) -> None:
    """New points of all children: each child's inverse applied to its right-hand side (E-71)."""
    children, cells = split.shape
    size = first[-1, -1] + widths[-1, -1]
    right, means, products = np.empty(cells), np.empty(size), np.empty(size)
    sums[:] = 0.0
    for child in range(children):
        for cell in range(cells):
            right[cell] = (
                linear[child, cell] + rho * (split[child, cell] - dual[child, cell]) + pulls[child, site[cell]]
            )
        multiply(matrices[child], site, slot, first, widths, shares, right, means, products, points[child])
        for cell in range(cells):
            sums[child, site[cell]] += points[child, cell]


@compiled
def structured_division(
    live: Booleans,
    needed: Floats,
    relaxation: float,
    points: Floats,
    split: Floats,
    dual: Floats,
    price: Floats,
) -> tuple[float, float]:
    """Divide every cell among the children, and move the multipliers; the sums of squares of both residuals."""
    children, cells = split.shape
    free, allowed = np.empty(children), np.empty(children)
    primal, change = 0.0, 0.0
    for cell in range(cells):
        for child in range(children):
            point = relaxation * points[child, cell] + (1.0 - relaxation) * split[child, cell]
            free[child] = point + dual[child, cell]
            allowed[child] = free[child] if live[child, cell] else -np.inf
        threshold = _threshold(allowed, needed[cell], price[cell]) if needed[cell] >= 0.0 else 0.0
        price[cell] = threshold
        for child in range(children):
            new = max(allowed[child] - threshold, 0.0)
            if live[child, cell]:
                primal += (points[child, cell] - new) ** 2
                change += (new - split[child, cell]) ** 2
            split[child, cell] = new
            dual[child, cell] = free[child] - new
    return primal, change
