"""The compiled rounding of small families: a flow for each is laid out and solved (E-73)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.compiled import compiled
from das_spark.estimation._network_simplex import network_simplex

if TYPE_CHECKING:
    from das_spark.estimation.problem import Booleans, Floats, Integers

ROUNDED: Final = 0
REFUSED: Final = 1  # sums are not nested, or no steps of one person keep all constraints

_EXACT: Final = 1e-9  # as in `nested_rounding.EXACT`
_SCALE: Final = 2.0**32  # costs are whole multiples of its inverse
_UNBOUNDED: Final = 2**40
_NONE: Final = -1


@compiled
def round_families(  # noqa: PLR0913, PLR0917 - arrays of a compiled loop
    first: Integers,
    children: Integers,
    parent: Integers,
    fraction: Floats,
    open_to: Booleans,
    levels: Integers,
    totals_first: bool,
    exact: Integers,
    wanted: Booleans,
    counts: Integers,
    gap: Floats,
    status: Integers,
) -> None:
    """Round family after family; raises counts, and fills gaps and status in.

    Args:
        first: First cell of each family, and one past the last, shape ``(F + 1,)``.
        children: Number of children of each, shape ``(F,)``.
        parent: People of each cell, shape ``(N,)``.
        fraction: Fractions of the points that divide them: of each family child by child, cell by cell (E-21).
        open_to: Whether a child can hold people in a cell, like `fraction`.
        levels: Group of each cell in each query that the last pass rounds, shape ``(Q, N)``.
        totals_first: Whether a pass before it rounds the children's totals alone (E-53).
        exact: People of each child where all children of a family have an exact total, otherwise -1, shape ``(C,)``.
        wanted: Whether a family is to be rounded, shape ``(F,)``.
        counts: Floors of the points, like `fraction`; are made their whole people.
        gap: How far a rounding may be from the best, relative to its distance; 0 where that is proved, shape ``(F,)``.
        status: How each ended.
    """
    done, child = 0, 0
    for family in range(children.size):
        one, two, number = first[family], first[family + 1], children[family]
        part = slice(done, done + number * (two - one))
        shape = (number, two - one)
        if wanted[family]:
            gap[family], status[family] = _round(
                parent[one:two],
                fraction[part].reshape(shape),
                open_to[part].reshape(shape),
                levels[:, one:two],
                totals_first,
                exact[child : child + number],
                counts[part].reshape(shape),
            )
        done = part.stop
        child += number


@compiled
def _nested(levels: Integers) -> tuple[Integers, Integers, Integers]:  # noqa: C901, PLR0912
    """Levels from the coarsest to the finest, groups of one cell apart: groups, how often asked for, cells alone.

    Groups of two cells and more are numbered through all levels; -1: the cell is in none of the level. There are no
    levels where they are not nested.
    """
    queries, cells = levels.shape
    found = np.full((queries, cells), _NONE, dtype=np.int64)
    size = np.zeros(queries, dtype=np.int64)
    for query in range(queries):  # groups in the order of their first cell
        for cell in range(cells):
            if levels[query, cell] < 0:
                return found[:0], size, size
            for other in range(cell):
                if levels[query, other] == levels[query, cell]:
                    found[query, cell] = found[query, other]
                    break
            if found[query, cell] < 0:
                found[query, cell] = size[query]
                size[query] += 1
    order = _ascending(size.astype(np.float64))
    groups = np.full((queries, cells), _NONE, dtype=np.int64)
    times, alone = np.zeros(queries, dtype=np.int64), np.zeros(cells, dtype=np.int64)
    kept, numbered, last = 0, 0, _NONE
    for query in order:
        if last >= 0 and size[query] == size[last]:
            for cell in range(cells):
                if found[query, cell] != found[last, cell]:
                    return groups[:0], times, alone
            times[kept - 1] += 1
            continue
        if last >= 0:
            above = np.full(size[query], _NONE, dtype=np.int64)
            for cell in range(cells):
                mine = found[query, cell]
                if above[mine] < 0:
                    above[mine] = found[last, cell]
                elif above[mine] != found[last, cell]:
                    return groups[:0], times, alone
        for cell in range(cells):
            groups[kept, cell] = found[query, cell]
        times[kept], last = 1, query
        kept += 1
    if last < 0 or size[last] != cells:
        return groups[:0], times, alone
    for level in range(kept):
        many = np.zeros(cells, dtype=np.int64)
        for cell in range(cells):
            many[groups[level, cell]] += 1
        number = np.full(cells, _NONE, dtype=np.int64)
        for cell in range(cells):
            group = groups[level, cell]
            if many[group] < 2:  # noqa: PLR2004
                alone[cell] += times[level]
                groups[level, cell] = _NONE
                continue
            if number[group] < 0:
                number[group] = numbered
                numbered += 1
            groups[level, cell] = number[group]
    return groups[:kept], times[:kept], alone


@compiled
def _best_totals(target: Floats, missing: int, totals: Integers) -> bool:
    """Steps of each child where only their sum is known: the largest remainders go up (E-53); whether there are any."""
    left = missing
    remainder = np.empty(target.size)
    for child in range(target.size):
        totals[child] = int(np.floor(target[child]))
        left -= totals[child]
        remainder[child] = totals[child] - target[child]
    if left < 0 or left > target.size:
        return False
    for child in _ascending(remainder)[:left]:
        totals[child] += 1
    return True


@compiled
def _ascending(values: Floats) -> Integers:
    """Places of a few values in ascending order, the first of equal ones first."""
    order = np.arange(values.size)
    for place in range(1, values.size):
        here, before = order[place], place - 1
        while before >= 0 and values[order[before]] > values[here]:
            order[before + 1] = order[before]
            before -= 1
        order[before + 1] = here
    return order


@compiled
def _round(  # noqa: C901, PLR0912, PLR0915 - one layout of arrays, compiled
    parent: Integers,
    fraction: Floats,
    open_to: Booleans,
    levels: Integers,
    totals_first: bool,
    exact: Integers,
    counts: Integers,
) -> tuple[float, int]:
    """One family: gap, and how it ended."""
    number, cells = fraction.shape
    groups, times, alone = _nested(levels)
    if not len(groups):
        return 0.0, REFUSED
    depth = len(times)
    width = 0
    for level in range(depth):
        for cell in range(cells):
            width = max(width, groups[level, cell] + 1)
    # The sums of the fractions, and the people that are still to be divided.
    needed = parent.copy()
    sums, targets = np.zeros((number, width)), np.zeros(number)
    for child in range(number):
        for cell in range(cells):
            needed[cell] -= counts[child, cell]
            rest = fraction[child, cell]
            targets[child] += rest
            if rest > 0:
                for level in range(depth):
                    if groups[level, cell] >= 0:
                        sums[child, groups[level, cell]] += rest
    missing = needed.sum()
    if not missing:
        return 0.0, ROUNDED if (needed == 0).all() else REFUSED
    totals, own_totals = np.zeros(number, dtype=np.int64), totals_first or exact[0] >= 0
    if exact[0] >= 0:
        totals[:] = exact - counts.sum(axis=1)
        if (totals < 0).any() or totals.sum() != missing:
            return 0.0, REFUSED
    elif totals_first:
        for child in range(number):
            targets[child] = _snapped(targets[child])
        if not _best_totals(targets, missing, totals):
            return 0.0, REFUSED
    # Nodes: cells, then the ground or the children, then the sums of each child that have a fraction.
    ground = cells
    nodes = cells + (number if own_totals else 1)
    node = np.full((number, width), _NONE, dtype=np.int64)
    for child in range(number):
        for group in range(width):
            if sums[child, group] > 0:
                node[child, group] = nodes
                nodes += 1
    supply = np.zeros(nodes, dtype=np.int64)
    for cell in range(cells):
        supply[cell] = -needed[cell]
    if own_totals:
        supply[ground : ground + number] = totals
    else:
        supply[ground] = missing
    most = 3 * (nodes - cells) + number * cells
    source, target = np.empty(most, dtype=np.int64), np.empty(most, dtype=np.int64)
    cost, capacity = np.empty(most), np.empty(most, dtype=np.int64)
    arcs = 0
    # Arcs into the sums: up to the floor of the target, one step more, and beyond.
    above = np.empty(width, dtype=np.int64)
    for child in range(number):
        root = ground + child if own_totals else ground
        above[:] = _NONE
        for cell in range(cells):
            over = root
            for level in range(depth):
                group = groups[level, cell]
                if group < 0 or node[child, group] < 0:
                    continue
                here = node[child, group]
                if above[group] == _NONE:
                    above[group] = over
                    wanted = _snapped(sums[child, group])
                    floor = np.floor(wanted)
                    price = float(times[level])
                    for kind in range(3):
                        room = int(floor) if kind == 0 else 1 if kind == 1 else _UNBOUNDED
                        if room == 0 or (kind == 1 and wanted == floor):
                            continue
                        source[arcs], target[arcs], capacity[arcs] = over, here, room
                        cost[arcs] = (
                            -price if kind == 0 else price * (1.0 - 2.0 * (wanted - floor)) if kind == 1 else price
                        )
                        arcs += 1
                over = here
    # Arcs of the variables: first those with a fraction, then, looked at last, those without.
    arc_child, arc_cell = np.empty(number * cells, dtype=np.int64), np.empty(number * cells, dtype=np.int64)
    begin, listed = arcs, arcs
    for whole in (False, True):
        for child in range(number):
            root = ground + child if own_totals else ground
            for cell in range(cells):
                rest = fraction[child, cell]
                if (rest == 0) != whole or not open_to[child, cell]:
                    continue
                over, skipped = root, 0
                for level in range(depth):
                    group = groups[level, cell]
                    if group < 0:
                        continue
                    if node[child, group] >= 0:
                        over = node[child, group]
                    else:
                        skipped += times[level]
                source[arcs], target[arcs], capacity[arcs] = over, cell, 1
                cost[arcs] = alone[cell] * (1.0 - 2.0 * rest) + skipped
                arc_child[arcs - begin], arc_cell[arcs - begin] = child, cell
                arcs += 1
        if not whole:
            listed = arcs
    whole_cost = np.rint(cost[:arcs] * _SCALE).astype(np.int64)
    flow, price_of = np.zeros(arcs, dtype=np.int64), np.zeros(nodes, dtype=np.int64)
    if not network_simplex(source[:arcs], target[:arcs], whole_cost, capacity[:arcs], supply, flow, price_of, listed):
        return 0.0, REFUSED
    # What the flow may be from the least cost (E-75), and the distance that it has.
    lost, distance = 0.0, 0.0
    for arc in range(arcs):
        reduced = cost[arc] + (price_of[source[arc]] - price_of[target[arc]]) / _SCALE
        lost += reduced * flow[arc] if reduced > 0 else -reduced * (capacity[arc] - flow[arc])
    for arc in range(begin, arcs):
        child, cell = arc_child[arc - begin], arc_cell[arc - begin]
        counts[child, cell] += flow[arc]
        distance += alone[cell] * abs(flow[arc] - fraction[child, cell])
    return (lost / max(1.0, distance), ROUNDED) if lost > 1e-6 else (0.0, ROUNDED)  # noqa: PLR2004


@compiled
def _snapped(value: float) -> float:
    """A sum of fractions, taken for a whole number where it is near one."""
    nearest = np.rint(value)
    return nearest if abs(value - nearest) <= _EXACT else value
