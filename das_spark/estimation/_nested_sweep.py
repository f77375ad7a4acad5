"""The inner loops of the solver of nested families, compiled: class after class, over live cells only (E-78 to E-83).

Cells are sorted by class, and within a class by group, so that a group is a run of cells and a class a run of groups.
Unknown (i, p) of a class with L live children, i counting its cells and p its live children, is number
base + i L + p.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from das_spark.compiled import compiled
from das_spark.estimation._sweep import _threshold

if TYPE_CHECKING:
    from das_spark.estimation.problem import Booleans, Floats, Integers


@compiled
def linear_terms(  # noqa: PLR0913, PLR0917
    cell_first: Integers,
    cell: Integers,
    live_first: Integers,
    live: Integers,
    base: Integers,
    rows: Integers,
    weight: Floats,
    values: Floats,
    group_pull: Floats,
    group_of: Integers,
    pull: Floats,
    linear: Floats,
) -> None:
    """Linear term of every unknown: of its own answer, of its group's (where it has one), of its stacked rows."""
    for kind in range(base.size):
        number = base[kind]
        for position in range(cell_first[kind], cell_first[kind + 1]):
            own, group = cell[position], group_of[position]
            for place in range(live_first[kind], live_first[kind + 1]):
                child = live[place]
                total = weight[child] * values[child, own]
                if group >= 0:
                    total += group_pull[child, group]
                for part in range(rows.shape[0]):
                    total += pull[rows[part, position], child]
                linear[number] = total
                number += 1


@compiled
def _group_overlap(  # noqa: PLR0913, PLR0917
    first: int,
    last: int,
    rows: Integers,
    local: Integers,
    scale: float,
    coupling: float,
    near: Integers,
    counts: Floats,
    whole: Floats,
) -> None:
    """Add what one group has in common on each two rows; `counts` is zero before and after."""
    few, single = 0, last - first == 1
    own = scale - coupling if single else scale
    for position in range(first, last):
        for part in range(rows.shape[0]):
            row = local[rows[part, position]]
            for other in range(rows.shape[0]):
                whole[row, local[rows[other, position]]] += own
            if not single:
                if counts[row] == 0.0:
                    near[few] = row
                    few += 1
                counts[row] += 1.0
    for i in range(few):
        for j in range(few):
            whole[near[i], near[j]] -= coupling * counts[near[i]] * counts[near[j]]
    for i in range(few):
        counts[near[i]] = 0.0


@compiled
def _class_rows(first: int, last: int, rows: Integers, local: Integers, share: Floats, found: Floats) -> None:
    """Add what a class's multiplier takes from each row; `share` is of each cell's group."""
    for position in range(first, last):
        for part in range(rows.shape[0]):
            found[local[rows[part, position]]] += share[position]


@compiled
def overlaps(  # noqa: PLR0913, PLR0917
    classes: Integers,
    members: Booleans,
    group_first: Integers,
    cell_first: Integers,
    rows: Integers,
    local: Integers,
    scale: float,
    coupling: Floats,
    share: Floats,
    inverse_sum: Floats,
    found: Floats,
) -> None:
    """B T B' on the rows of one block, for each of its kinds of children (E-79).

    Args:
        classes: Classes of the block.
        members: Whether a class is live in a kind of children, shape ``(kinds, classes)``.
        group_first: First group of each class.
        cell_first: First cell of each group.
        rows: Stacked rows of each cell, shape ``(P, N)``.
        local: Place of each stacked row in the block.
        scale: a.
        coupling: What couples the cells of each group.
        share: What a class's multiplier takes from each cell, shape ``(N,)``.
        inverse_sum: Inverse of the sum of that over the class's cells; 0 where the class has no known sum.
        found: Filled, zero before, shape ``(kinds, r, r)``.
    """
    size = found.shape[1]
    whole, counts, of_class = np.zeros((size, size)), np.zeros(size), np.zeros(size)
    near = np.empty(size, dtype=np.int64)
    for number in range(classes.size):
        kind = classes[number]
        whole[:] = 0.0
        of_class[:] = 0.0
        for group in range(group_first[kind], group_first[kind + 1]):
            first, last = cell_first[group], cell_first[group + 1]
            _group_overlap(first, last, rows, local, scale, coupling[group], near, counts, whole)
        first, last = cell_first[group_first[kind]], cell_first[group_first[kind + 1]]
        _class_rows(first, last, rows, local, share, of_class)
        touched = np.flatnonzero(of_class)
        for one in touched:
            for two in touched:
                whole[one, two] -= inverse_sum[kind] * of_class[one] * of_class[two]
        for each in np.flatnonzero(members[:, number]):
            for one in touched:
                for two in touched:
                    found[each, one, two] += whole[one, two]


@compiled
def _steps(  # noqa: PLR0913, PLR0917
    kind: int,
    group_first: Integers,
    cell_first: Integers,
    sets: Integers,
    scale: Floats,
    coupling: Floats,
    share: Floats,
    inverse_sum: Floats,
    targets: Floats,
    values: Floats,
    sums: Floats,
) -> None:
    """T v + A P' (P A P')^-1 c in place, for one class: the class's sums reached, its groups coupled (E-78).

    `sets` is the set of weights of each of the class's children; `sums` is room for groups by children.
    """
    width = sets.size
    groups = group_first[kind + 1] - group_first[kind]
    origin = cell_first[group_first[kind]]
    sums[: (groups + 1) * width] = 0.0
    multipliers = sums[groups * width : (groups + 1) * width]
    for number in range(groups):
        group = group_first[kind] + number
        reached = sums[number * width : (number + 1) * width]
        for position in range(cell_first[group] - origin, cell_first[group + 1] - origin):
            for place in range(width):
                reached[place] += values[position * width + place]
        for place in range(width):
            multipliers[place] += share[sets[place], group] * reached[place]
    for place in range(width):
        multipliers[place] = (multipliers[place] - targets[place]) * inverse_sum[sets[place], kind]
    for number in range(groups):
        group = group_first[kind] + number
        taken = sums[number * width : (number + 1) * width]
        for place in range(width):
            w = sets[place]
            taken[place] = coupling[w, group] * taken[place] + share[w, group] * multipliers[place]
        for position in range(cell_first[group] - origin, cell_first[group + 1] - origin):
            for place in range(width):
                own = position * width + place
                values[own] = scale[sets[place]] * values[own] - taken[place]


@compiled
def _add_rows(first: int, last: int, rows: Integers, children: Integers, values: Floats, stacked: Floats) -> None:
    """Add the unknowns of one class to its stacked rows."""
    width = children.size
    for position in range(first, last):
        for part in range(rows.shape[0]):
            row = rows[part, position]
            start = (position - first) * width
            for place in range(width):
                stacked[row, children[place]] += values[start + place]


@compiled
def begun(  # noqa: PLR0913, PLR0917
    group_first: Integers,
    cell_first: Integers,
    live_first: Integers,
    live: Integers,
    base: Integers,
    rows: Integers,
    weighting: Integers,
    scale: Floats,
    coupling: Floats,
    share: Floats,
    inverse_sum: Floats,
    targets: Floats,
    linear: Floats,
    rho: float,
    split: Floats,
    dual: Floats,
    step: Floats,
    sums: Floats,
    stacked: Floats,
) -> None:
    """First half of the first step of every class, before the stacked rows; and what it adds to them."""
    stacked[:] = 0.0
    for kind in range(base.size):
        children = live[live_first[kind] : live_first[kind + 1]]
        sets = weighting[children]
        first, last = cell_first[group_first[kind]], cell_first[group_first[kind + 1]]
        size = (last - first) * children.size
        for number in range(base[kind], base[kind] + size):
            step[number] = linear[number] + rho * (split[number] - dual[number])
        own = step[base[kind] : base[kind] + size]
        wanted = targets[live_first[kind] : live_first[kind + 1]]
        _steps(kind, group_first, cell_first, sets, scale, coupling, share, inverse_sum, wanted, own, sums)
        _add_rows(first, last, rows, children, own, stacked)


@compiled
def sweep_nested(  # noqa: C901, PLR0912, PLR0913, PLR0917
    group_first: Integers,
    cell_first: Integers,
    live_first: Integers,
    live: Integers,
    base: Integers,
    rows: Integers,
    weighting: Integers,
    scale: Floats,
    coupling: Floats,
    share: Floats,
    inverse_sum: Floats,
    targets: Floats,
    nothing: Floats,
    linear: Floats,
    rho: float,
    relaxation: float,
    needed: Floats,
    shift: Floats,
    split: Floats,
    dual: Floats,
    price: Floats,
    step: Floats,
    work: Floats,
    sums: Floats,
    stacked: Floats,
) -> None:
    """One iteration: correct the points, divide cells, move multipliers, and the next first step (E-78 to E-81)."""
    stacked[:] = 0.0
    parts = rows.shape[0]
    for kind in range(base.size):
        children = live[live_first[kind] : live_first[kind + 1]]
        sets, width = weighting[children], children.size
        first, last = cell_first[group_first[kind]], cell_first[group_first[kind + 1]]
        size = (last - first) * width
        start = base[kind]
        if parts:
            for position in range(first, last):
                row, origin = rows[0, position], (position - first) * width
                for place in range(width):
                    work[origin + place] = shift[row, children[place]]
                for part in range(1, parts):
                    row = rows[part, position]
                    for place in range(width):
                        work[origin + place] += shift[row, children[place]]
            _steps(
                kind,
                group_first,
                cell_first,
                sets,
                scale,
                coupling,
                share,
                inverse_sum,
                nothing[:width],
                work[:size],
                sums,
            )
            for number in range(size):
                step[start + number] -= work[number]
        for number in range(start, start + size):
            step[number] = relaxation * step[number] + (1.0 - relaxation) * split[number] + dual[number]
        if needed[first] >= 0.0:
            for position in range(first, last):
                origin = start + (position - first) * width
                free = step[origin : origin + width]
                level = _threshold(free, needed[position], price[position])
                price[position] = level
                for place in range(width):
                    new = max(free[place] - level, 0.0)
                    split[origin + place] = new
                    dual[origin + place] = free[place] - new
        else:  # the root: the class is divided among its cells
            free = step[start : start + size]
            level = 0.0
            if inverse_sum[0, kind] > 0.0:
                level = _threshold(free, targets[live_first[kind]], price[first])
            for position in range(first, last):
                price[position] = level
            for number in range(size):
                new = max(free[number] - level, 0.0)
                split[start + number] = new
                dual[start + number] = free[number] - new
        for number in range(start, start + size):
            step[number] = linear[number] + rho * (split[number] - dual[number])
        own = step[start : start + size]
        wanted = targets[live_first[kind] : live_first[kind + 1]]
        _steps(kind, group_first, cell_first, sets, scale, coupling, share, inverse_sum, wanted, own, sums)
        _add_rows(first, last, rows, children, own, stacked)


@compiled
def _scaled_to_classes(wanted: Floats, cells: int, points: Floats, sums: Floats) -> float:
    """Scale one class's points to its sums; the worst violation before, relative to max(1, size)."""
    width, worst = wanted.size, 0.0
    sums[:width] = 0.0
    for position in range(cells):
        for place in range(width):
            sums[place] += points[position * width + place]
    for place in range(width):
        worst = max(worst, abs(sums[place] - wanted[place]) / max(1.0, wanted[place]))
        sums[place] = wanted[place] / sums[place] if sums[place] > 0.0 else 1.0
    for position in range(cells):
        for place in range(width):
            points[position * width + place] *= sums[place]
    return worst


@compiled
def _scaled_to_cells(needed: Floats, width: int, points: Floats) -> None:
    """Scale one class's points to its cells' sums."""
    for position in range(needed.size):
        total = 0.0
        for place in range(width):
            total += points[position * width + place]
        if total > 0.0:
            for place in range(width):
                points[position * width + place] *= needed[position] / total


@compiled
def _moved(wanted: Floats, cells: int, points: Floats, sums: Floats) -> None:
    """Move what children have too much to those that have too little, each time out of the fullest cell."""
    width = wanted.size
    for place in range(width):
        sums[place] = -wanted[place]
    for position in range(cells):
        for place in range(width):
            sums[place] += points[position * width + place]
    for _ in range(4 * width):
        most, least = 0, 0
        for place in range(width):
            most = place if sums[place] > sums[most] else most
            least = place if sums[place] < sums[least] else least
        amount, cell = min(sums[most], -sums[least]), 0
        for position in range(cells):
            cell = position if points[position * width + most] > points[cell * width + most] else cell
        amount = min(amount, points[cell * width + most])
        if amount <= 0.0:
            break
        points[cell * width + most] -= amount
        points[cell * width + least] += amount
        sums[most] -= amount
        sums[least] += amount


@compiled
def raked_classes(  # noqa: PLR0913, PLR0917
    class_first: Integers,
    live_first: Integers,
    base: Integers,
    known: Booleans,
    targets: Floats,
    needed: Floats,
    most: int,
    exact: float,
    split: Floats,
    sums: Floats,
) -> None:
    """Bring points to their class sums and their cells' sums, by scaling in turn and by moving the rest (E-82)."""
    for kind in range(base.size):
        if not known[kind]:
            continue
        first, last = class_first[kind], class_first[kind + 1]
        wanted = targets[live_first[kind] : live_first[kind + 1]]
        points = split[base[kind] : base[kind] + (last - first) * wanted.size]
        if needed[first] < 0.0:  # the root, where no cell has a sum
            _scaled_to_classes(wanted, last - first, points, sums)
            continue
        for _ in range(most):
            worst = _scaled_to_classes(wanted, last - first, points, sums)
            _scaled_to_cells(needed[first:last], wanted.size, points)
            if worst <= exact:
                break
        if worst > exact:
            _moved(wanted, last - first, points, sums)


@compiled
def gradients(  # noqa: PLR0913, PLR0917
    group_first: Integers,
    cell_first: Integers,
    live_first: Integers,
    live: Integers,
    base: Integers,
    rows: Integers,
    weight: Floats,
    group_weight: Floats,
    counted: Booleans,
    linear: Floats,
    pulled: Floats,
    points: Floats,
    found: Floats,
) -> None:
    """Gradient of half the objective; `pulled` is M times the stacked sums of the points (E-83)."""
    for kind in range(base.size):
        width = live_first[kind + 1] - live_first[kind]
        origin = cell_first[group_first[kind]]
        for group in range(group_first[kind], group_first[kind + 1]):
            for place in range(width):
                child = live[live_first[kind] + place]
                reached = 0.0
                if counted[group]:
                    for position in range(cell_first[group], cell_first[group + 1]):
                        reached += points[base[kind] + (position - origin) * width + place]
                    reached *= group_weight[child]
                for position in range(cell_first[group], cell_first[group + 1]):
                    number = base[kind] + (position - origin) * width + place
                    total = weight[child] * points[number] + reached - linear[number]
                    for part in range(rows.shape[0]):
                        total += pulled[rows[part, position], child]
                    found[number] = total


@compiled
def class_means(
    class_first: Integers,
    live_first: Integers,
    base: Integers,
    known: Booleans,
    price: Floats,
    gradient: Floats,
    points: Floats,
    found: Floats,
) -> None:
    """Multiplier of each class's sum: the mean of gradient less price over its people (E-83)."""
    found[:] = 0.0
    for kind in range(base.size):
        if not known[kind]:
            continue
        first, last = class_first[kind], class_first[kind + 1]
        width = live_first[kind + 1] - live_first[kind]
        for place in range(width):
            people, total = 0.0, 0.0
            for position in range(first, last):
                number = base[kind] + (position - first) * width + place
                people += points[number]
                total += points[number] * (gradient[number] - price[position])
            found[live_first[kind] + place] = total / people if people > 0.0 else 0.0


@compiled
def cell_means(
    class_first: Integers,
    live_first: Integers,
    base: Integers,
    multipliers: Floats,
    gradient: Floats,
    points: Floats,
    found: Floats,
) -> None:
    """Price of each cell: the mean of gradient less multipliers of class sums over its people."""
    for kind in range(base.size):
        width = live_first[kind + 1] - live_first[kind]
        for position in range(class_first[kind], class_first[kind + 1]):
            people, total = 0.0, 0.0
            for place in range(width):
                number = base[kind] + (position - class_first[kind]) * width + place
                people += points[number]
                total += points[number] * (gradient[number] - multipliers[live_first[kind] + place])
            found[position] = total / people if people > 0.0 else 0.0


@compiled
def shortfall(  # noqa: PLR0913, PLR0917
    class_first: Integers,
    live_first: Integers,
    live: Integers,
    base: Integers,
    known: Booleans,
    targets: Floats,
    needed: Floats,
    weight: Floats,
    price: Floats,
    multipliers: Floats,
    gradient: Floats,
    points: Floats,
) -> float:
    """How far half the objective may lie above its least value, by (E-18) with these multipliers."""
    total = 0.0
    for kind in range(base.size):
        width = live_first[kind + 1] - live_first[kind]
        for position in range(class_first[kind], class_first[kind + 1]):
            for place in range(width):
                number = base[kind] + (position - class_first[kind]) * width + place
                own = live_first[kind] + place
                slope = gradient[number] - price[position] - multipliers[own]
                box = needed[position] if needed[position] >= 0.0 else np.inf
                if known[kind]:
                    box = min(box, targets[own])
                bend = weight[live[own]]
                move = min(max(-slope / bend, -points[number]), max(box - points[number], 0.0))
                total -= slope * move + 0.5 * bend * move * move
    return total


@compiled
def spread_points(
    class_first: Integers,
    cell: Integers,
    live_first: Integers,
    live: Integers,
    base: Integers,
    points: Floats,
    dense: Floats,
) -> None:
    """Write points into an array of children by cells."""
    for kind in range(base.size):
        number = base[kind]
        for position in range(class_first[kind], class_first[kind + 1]):
            for place in range(live_first[kind], live_first[kind + 1]):
                dense[live[place], cell[position]] = points[number]
                number += 1


@compiled
def stacked_sums(
    class_first: Integers,
    live_first: Integers,
    live: Integers,
    base: Integers,
    rows: Integers,
    points: Floats,
    stacked: Floats,
) -> None:
    """Sum points by stacked row."""
    stacked[:] = 0.0
    for kind in range(base.size):
        children = live[live_first[kind] : live_first[kind + 1]]
        first, last = class_first[kind], class_first[kind + 1]
        _add_rows(
            first, last, rows, children, points[base[kind] : base[kind] + (last - first) * children.size], stacked
        )
