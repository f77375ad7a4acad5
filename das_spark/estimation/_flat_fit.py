"""The compiled fit of small families: an accelerated projected gradient, family by family (E-85 to E-88)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.compiled import compiled
from das_spark.estimation._sweep import _threshold

if TYPE_CHECKING:
    from das_spark.estimation.problem import Booleans, Floats, Integers

CONVERGED: Final = 0
LIMIT: Final = 1
REFUSED: Final = 2  # the answers to single cells weigh too little beside those to sums

_MOST_ITERATIONS: Final = 3000
_MOST_CONDITION: Final = 1000.0
_EXACT: Final = 1e-11  # people by which an iteration still moves a point, relative to the largest cell
_EXACT_SUMS: Final = 2e-15  # the same where no cell is asked for by itself: no curvature helps the proof there
_HELD: Final = 1e-10  # people by which a limited sum is still beyond its bounds, relative to the largest cell
_TIGHTNESS: Final = 3.0  # penalty of a limited sum, in units of the curvature along it
_FIRST_FINISH: Final = 8  # iterations after which the equations of the occupied cells are solved for the first time
_SETTLED: Final = 0.1  # multipliers are changed when a point moves less than this share of what they were off
_NEAR: Final = 1e-12  # people by which a finished point may be on the wrong side, relative to the largest cell
_SOLVED: Final = 1e-15  # residual of its equations, in curvature times the largest cell
_IMPLIED: Final = 1e-9  # part of an equation's diagonal that is left where others imply it
_MOST_ROUNDS: Final = 30
_MOST_ROWS: Final = 64
_MOST_STEPS: Final = 60


@compiled
def fit_families(  # noqa: PLR0913, PLR0917 - arrays of a compiled loop
    first: Integers,
    children: Integers,
    parent: Floats,
    index: Integers,
    width: Integers,
    start: Integers,
    values: Floats,
    weight: Floats,
    limit_index: Integers,
    limit_width: Integers,
    limit_start: Integers,
    lower: Floats,
    upper: Floats,
    x: Floats,
    price: Floats,
    multiplier: Floats,
    iterations: Integers,
    status: Integers,
) -> None:
    """Fit family after family; fills points, prices, multipliers, iterations and status in.

    Args:
        first: First cell of each family, and one past the last, shape ``(F + 1,)``.
        children: Number of children of each, shape ``(F,)``.
        parent: People of each cell, shape ``(N,)``.
        index: Row of each cell in each query, -1 where none counts it, shape ``(Q, N)``.
        width: Rows of each query in each family, shape ``(Q, F)``.
        start: Where its answers begin among the values: child by child, row by row, shape ``(Q, F)``.
        values: Noisy answers.
        weight: Inverse variances of each query by child of all families, shape ``(Q, C)``.
        limit_index: As `index`, of the bounds, shape ``(B, N)``.
        limit_width: As `width`.
        limit_start: As `start`.
        lower: Least people of every bounded row.
        upper: Most.
        x: The points: of each family child by child, cell by cell.
        price: Multipliers of the cells' sums, shape ``(N,)``.
        multiplier: Multipliers of the bounds, like `lower`.
        iterations: Iterations of each family, shape ``(F,)``.
        status: How each ended.
    """
    done, child = 0, 0
    for family in range(children.size):
        one, two, number = first[family], first[family + 1], children[family]
        cells = two - one
        point = x[done : done + number * cells].reshape(number, cells)
        alive = np.ones((number, cells), dtype=np.bool_)
        binding = np.zeros(limit_width.shape[0], dtype=np.bool_)
        for each in range(limit_width.shape[0]):
            shape = (number, limit_width[each, family])
            part = slice(limit_start[each, family], limit_start[each, family] + shape[0] * shape[1])
            binding[each] = _restrict(
                limit_index[each, one:two],
                lower[part].reshape(shape),
                upper[part].reshape(shape),
                parent[one:two],
                alive,
            )
        diagonal, groups, sizes, own, linear = _assembled(
            index[:, one:two],
            width[:, family],
            start[:, family],
            values,
            weight[:, child : child + number],
        )
        chosen = np.flatnonzero(binding)
        found = _fit(
            parent[one:two],
            alive,
            diagonal,
            groups,
            sizes,
            own,
            linear,
            limit_index[chosen, one:two],
            limit_width[chosen, family],
            limit_start[chosen, family],
            lower,
            upper,
            point,
            price[one:two],
            multiplier,
        )
        iterations[family], status[family] = found
        done += number * cells
        child += number


@compiled
def _restrict(rows: Integers, lower: Floats, upper: Floats, parent: Floats, alive: Booleans) -> bool:
    """Note which children can hold nobody of a row; whether a bound can bind in any other way."""
    width = lower.shape[1]
    people = np.zeros(width)
    for cell in range(rows.size):
        if rows[cell] >= 0:
            people[rows[cell]] += parent[cell]
    binds = False
    for child in range(lower.shape[0]):
        for cell in range(rows.size):
            if rows[cell] >= 0 and upper[child, rows[cell]] <= 0:
                alive[child, cell] = False
        for row in range(width):
            if people[row] > 0 and (lower[child, row] > 0 or 0 < upper[child, row] < people[row]):
                binds = True
    return binds


@compiled
def _assembled(  # noqa: C901, PLR0912
    index: Integers, width: Integers, start: Integers, values: Floats, weight: Floats
) -> tuple[Floats, Integers, Integers, Floats, Floats]:
    """Weights of single cells by child; the other ways to sum cells, their rows and weights; the linear term."""
    cells, number = index.shape[1], weight.shape[1]
    diagonal = np.zeros(number)
    groups = np.full((width.size, cells), -1, dtype=np.int64)
    sizes = np.zeros(width.size, dtype=np.int64)
    own = np.zeros((width.size, number))
    linear = np.zeros((number, cells))
    count = 0
    for query in range(width.size):
        rows = width[query]
        for child in range(number):
            share = weight[query, child]
            if share > 0:
                begin = start[query] + child * rows
                for cell in range(cells):
                    if index[query, cell] >= 0:
                        linear[child, cell] += share * values[begin + index[query, cell]]
        # Rows in the order of their first cell, so that queries that cut the cells alike are one.
        seen = np.full(rows, -1, dtype=np.int64)
        present = 0
        for cell in range(cells):
            row = index[query, cell]
            if row >= 0:
                if seen[row] < 0:
                    seen[row] = present
                    present += 1
                groups[count, cell] = seen[row]
            else:
                groups[count, cell] = -1
        if present == cells:
            for child in range(number):
                diagonal[child] += weight[query, child]
            continue
        place = count
        for other in range(count):
            alike = 0
            for cell in range(cells):
                alike += groups[other, cell] == groups[count, cell]
            if alike == cells:
                place = other
                break
        for child in range(number):
            own[place, child] += weight[query, child]
        sizes[place] = present
        count += place == count
    return diagonal, groups[:count], sizes[:count], own[:count], linear


@compiled
def _largest(groups: Integers, rows: int, alive: Booleans) -> int:
    """Most cells of a row that one child can hold."""
    found = 0
    size = np.empty(rows, dtype=np.int64)
    for child in range(alive.shape[0]):
        size[:] = 0
        for cell in range(groups.size):
            if groups[cell] >= 0 and alive[child, cell]:
                size[groups[cell]] += 1
                found = max(found, size[groups[cell]])
    return found


@compiled
def _curvature(
    rows: Integers, row: int, diagonal: Floats, groups: Integers, sizes: Integers, own: Floats, most: float
) -> float:
    """Curvature of half the objective along a sum of cells, times their number: about, and at most `most`."""
    found, count = 0.0, 0
    for child in range(diagonal.size):
        found = max(found, diagonal[child])
    size = np.empty(rows.size + 1)
    for part in range(sizes.size):
        count = 0
        for place in range(sizes[part]):
            size[place] = 0.0
        for cell in range(rows.size):
            if rows[cell] == row:
                count += 1
                if groups[part, cell] >= 0:
                    size[groups[part, cell]] += 1.0
        squares, heaviest = 0.0, 0.0
        for place in range(sizes[part]):
            squares += size[place] * size[place]
        for child in range(diagonal.size):
            heaviest = max(heaviest, own[part, child])
        found += heaviest * squares / count
    return min(found, most)


@compiled
def _fit(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one loop over arrays, compiled
    parent: Floats,
    alive: Booleans,
    diagonal: Floats,
    groups: Integers,
    sizes: Integers,
    own: Floats,
    linear: Floats,
    limit_index: Integers,
    limit_width: Integers,
    limit_start: Integers,
    lower: Floats,
    upper: Floats,
    point: Floats,
    price: Floats,
    multiplier: Floats,
) -> tuple[int, int]:
    """One family: iterations, and how it ended."""
    number, cells = alive.shape
    least, steep, widest = diagonal.min(), diagonal.max(), 1
    for part in range(sizes.size):
        steep += own[part].max() * _largest(groups[part], sizes[part], alive)
        widest = max(widest, sizes[part])
    if least > 0 and steep > _MOST_CONDITION * least:
        return 0, REFUSED
    # A sum of m cells moves by one at the cost of the curvature over m, where its cells share the move evenly (E-87).
    for bound in range(limit_width.size):
        widest = max(widest, limit_width[bound])
    penalty = np.zeros((limit_width.size, widest))
    bare = steep
    for bound in range(limit_width.size):
        rows = limit_index[bound]
        size, along = np.zeros(widest), np.zeros(widest)
        for cell in range(cells):
            if rows[cell] >= 0:
                size[rows[cell]] += 1.0
        for row in range(limit_width[bound]):
            if size[row] > 0:
                along[row] = _curvature(rows, row, diagonal, groups, sizes, own, bare)
                penalty[bound, row] = _TIGHTNESS * along[row] / size[row]
        steep += _TIGHTNESS * along.max()
    step = 1.0 / steep
    root = np.sqrt(least * step)
    momentum = (1.0 - root) / (1.0 + root) if least > 0 else -1.0
    sums, free = np.empty(widest), np.empty(number)
    largest = max(1.0, parent.max())
    exact = (_EXACT if least > 0 else _EXACT_SUMS) * largest
    for child in range(number):
        for cell in range(cells):
            point[child, cell] = linear[child, cell] / diagonal[child] if least > 0 else 0.0
    if not _divide(point, parent, alive, price, free):
        return 0, REFUSED
    ahead, before, gradient = point.copy(), point.copy(), np.empty((number, cells))
    age, off, following = 1.0, largest, _FIRST_FINISH
    for iteration in range(1, _MOST_ITERATIONS + 1):
        # The gradient of half the objective, with the pull of the sums that are beyond their bounds.
        _multiply(ahead, diagonal, groups, sizes, own, sums, gradient)
        for child in range(number):
            for cell in range(cells):
                gradient[child, cell] -= linear[child, cell]
            for bound in range(limit_width.size):
                rows, begin = limit_index[bound], limit_start[bound] + child * limit_width[bound]
                _add_up(ahead[child], rows, sums)
                for row in range(limit_width[bound]):
                    at = begin + row
                    sums[row] = _pull(sums[row], lower[at], upper[at], penalty[bound, row], multiplier[at])
                for cell in range(cells):
                    if rows[cell] >= 0:
                        gradient[child, cell] += sums[rows[cell]]
        # A step against it, then the nearest point that divides every cell (E-44).
        for child in range(number):
            for cell in range(cells):
                before[child, cell] = point[child, cell]
                point[child, cell] = ahead[child, cell] - step * gradient[child, cell]
        _divide(point, parent, alive, price, free)
        moved, turned = 0.0, 0.0
        for child in range(number):
            for cell in range(cells):
                shift = point[child, cell] - ahead[child, cell]
                moved = max(moved, abs(shift))
                turned -= shift * (point[child, cell] - before[child, cell])
        if not np.isfinite(moved):
            return iteration, REFUSED
        if limit_width.size and moved <= max(exact, _SETTLED * off):
            off = _priced(point, limit_index, limit_width, limit_start, lower, upper, penalty, multiplier, sums)
        if iteration == following:
            following += 3 * following // 2
            if _finish(
                parent,
                alive,
                diagonal,
                groups,
                sizes,
                own,
                linear,
                limit_index,
                limit_width,
                limit_start,
                lower,
                upper,
                point,
                price,
                multiplier,
                steep,
                sums,
            ):
                return iteration, CONVERGED
        if moved <= exact and (not limit_width.size or off <= _HELD * largest):
            for cell in range(cells):
                price[cell] /= step
            return iteration, CONVERGED
        going_on = momentum
        if momentum < 0:
            older, age = (1.0, 1.0) if turned > 0 else (age, 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * age * age)))
            going_on = (older - 1.0) / age
        for child in range(number):
            for cell in range(cells):
                ahead[child, cell] = point[child, cell] + going_on * (point[child, cell] - before[child, cell])
    for cell in range(cells):
        price[cell] /= step
    return _MOST_ITERATIONS, LIMIT


@compiled
def _multiply(
    points: Floats, diagonal: Floats, groups: Integers, sizes: Integers, own: Floats, sums: Floats, found: Floats
) -> None:
    """Multiply points by the Hessian of half the objective."""
    for child in range(points.shape[0]):
        for cell in range(points.shape[1]):
            found[child, cell] = diagonal[child] * points[child, cell]
        for part in range(sizes.size):
            share, rows = own[part, child], groups[part]
            if share > 0:
                _add_up(points[child], rows, sums)
                for cell in range(rows.size):
                    if rows[cell] >= 0:
                        found[child, cell] += share * sums[rows[cell]]


@compiled
def _add_up(values: Floats, rows: Integers, sums: Floats) -> None:
    """Sums of cells by row."""
    sums[:] = 0.0
    for cell in range(rows.size):
        if rows[cell] >= 0:
            sums[rows[cell]] += values[cell]


@compiled
def _pull(total: float, lower: float, upper: float, penalty: float, multiplier: float) -> float:
    """Multiplier that a sum would have next: positive above its upper bound, negative below its lower one (E-87)."""
    if penalty == 0:
        return 0.0
    free = total + multiplier / penalty
    return penalty * (free - min(max(free, lower), upper))


@compiled
def _divide(point: Floats, parent: Floats, alive: Booleans, price: Floats, free: Floats) -> bool:
    """Replace points by the nearest ones that divide every cell among who can be there; whether somebody can."""
    for cell in range(parent.size):
        count = 0
        for child in range(alive.shape[0]):
            if alive[child, cell]:
                free[count] = point[child, cell]
                count += 1
        if count == 0:
            return False
        price[cell] = _threshold(free[:count], parent[cell], price[cell])
        for child in range(alive.shape[0]):
            point[child, cell] = max(0.0, point[child, cell] - price[cell]) if alive[child, cell] else 0.0
    return True


@compiled
def _priced(  # noqa: PLR0913, PLR0917
    point: Floats,
    index: Integers,
    width: Integers,
    start: Integers,
    lower: Floats,
    upper: Floats,
    penalty: Floats,
    multiplier: Floats,
    sums: Floats,
) -> float:
    """Change the multipliers of limited sums; by how many people their pulls were off."""
    off = 0.0
    for bound in range(width.size):
        for child in range(point.shape[0]):
            begin = start[bound] + child * width[bound]
            _add_up(point[child], index[bound], sums)
            for row in range(width[bound]):
                at = begin + row
                if penalty[bound, row] == 0:
                    continue
                following = _pull(sums[row], lower[at], upper[at], penalty[bound, row], multiplier[at])
                off = max(off, abs(following - multiplier[at]) / penalty[bound, row])
                multiplier[at] = following
    return off


@compiled
def _finish(  # noqa: C901, PLR0912, PLR0913, PLR0915, PLR0917 - one active-set method over arrays, compiled
    parent: Floats,
    alive: Booleans,
    diagonal: Floats,
    groups: Integers,
    sizes: Integers,
    own: Floats,
    linear: Floats,
    limit_index: Integers,
    limit_width: Integers,
    limit_start: Integers,
    lower: Floats,
    upper: Floats,
    point: Floats,
    price: Floats,
    multiplier: Floats,
    steep: float,
    sums: Floats,
) -> bool:
    """Solve the equations of the occupied cells and of the sums on their bounds, changing which those are (E-88).

    Whether a point was found of which no cell and no sum needs to change its side; only then anything is filled in.
    """
    number, cells = alive.shape
    largest = max(1.0, parent.max())
    near = _NEAR * largest  # people
    x, free = point.copy(), np.empty((number, cells), dtype=np.bool_)
    for child in range(number):
        for cell in range(cells):
            free[child, cell] = alive[child, cell] and point[child, cell] > 0
    # Sums on a bound: 1 on the upper one, -1 on the lower one, 2 on both.
    side = np.zeros(multiplier.size, dtype=np.int64)
    for bound in range(limit_width.size):
        for at in range(limit_start[bound], limit_start[bound] + number * limit_width[bound]):
            if lower[at] == upper[at]:
                side[at] = 2
            elif multiplier[at] != 0:
                side[at] = 1 if multiplier[at] > 0 else -1
    for _ in range(_MOST_ROUNDS):
        rows, count = _on_bounds(free, side, limit_index, limit_width, limit_start)
        if count > _MOST_ROWS:
            return False
        held = np.zeros(cells)
        for cell in range(cells):
            for child in range(number):
                held[cell] += free[child, cell]
            if held[cell] == 0:
                return False
        factor = _factored(rows[:count], free, held, limit_index)
        gradient, step, along = np.empty((number, cells)), np.empty((number, cells)), np.empty((number, cells))
        residual = np.zeros((number, cells))
        dual, means = np.zeros(count), np.zeros(cells)
        # The nearest point that divides the cells and puts the sums on their bounds.
        for cell in range(cells):
            total = 0.0
            for child in range(number):
                if not free[child, cell]:
                    x[child, cell] = 0.0
                total += x[child, cell]
            means[cell] = (parent[cell] - total) / held[cell]
        for row in range(count):
            bound, child, own_row, at = rows[row]
            wanted = upper[at] if side[at] == 1 else lower[at]
            for cell in range(cells):
                if free[child, cell] and limit_index[bound, cell] == own_row:
                    wanted -= x[child, cell] + means[cell]
            dual[row] = wanted
        _solve(factor, dual)
        _shift(x, means, dual, rows[:count], free, held, limit_index, 1.0)
        # Conjugate gradients among the points that keep to that.
        _multiply(x, diagonal, groups, sizes, own, sums, gradient)
        for child in range(number):
            for cell in range(cells):
                residual[child, cell] = linear[child, cell] - gradient[child, cell] if free[child, cell] else 0.0
        _project(residual, rows[:count], factor, free, held, limit_index, dual, means)
        along[:] = residual
        size = _product(residual, residual)
        for _inner in range(_MOST_STEPS):
            worst = 0.0
            for child in range(number):
                for cell in range(cells):
                    worst = max(worst, abs(residual[child, cell]))
            if worst <= _SOLVED * steep * largest:
                break
            _multiply(along, diagonal, groups, sizes, own, sums, step)
            bend = _product(along, step)
            if bend <= 0:
                break
            length = size / bend
            for child in range(number):
                for cell in range(cells):
                    if free[child, cell]:
                        x[child, cell] += length * along[child, cell]
                        residual[child, cell] -= length * step[child, cell]
            _project(residual, rows[:count], factor, free, held, limit_index, dual, means)
            again = _product(residual, residual)
            for child in range(number):
                for cell in range(cells):
                    along[child, cell] = residual[child, cell] + again / size * along[child, cell]
            size = again
        # Prices of the cells and of the sums; then what is on the wrong side.
        _multiply(x, diagonal, groups, sizes, own, sums, gradient)
        for child in range(number):
            for cell in range(cells):
                gradient[child, cell] -= linear[child, cell]
                step[child, cell] = gradient[child, cell] if free[child, cell] else 0.0
        _project(step, rows[:count], factor, free, held, limit_index, dual, means)
        changed = False
        for row in range(count):
            bound, child, own_row, at = rows[row]
            for cell in range(cells):
                if limit_index[bound, cell] == own_row:
                    gradient[child, cell] -= dual[row]
        for cell in range(cells):
            for child in range(number):
                if free[child, cell] and x[child, cell] < -near:
                    free[child, cell] = False
                    changed = True
                    continue
                below = gradient[child, cell] - means[cell] < -_NEAR * steep * largest
                if alive[child, cell] and not free[child, cell] and below:
                    free[child, cell] = True
                    changed = True
        off = np.zeros(count)  # people that are missing to the bounds of sums that should be on them
        for bound in range(limit_width.size):
            for child in range(number):
                begin = limit_start[bound] + child * limit_width[bound]
                _add_up(x[child], limit_index[bound], sums)
                for row in range(limit_width[bound]):
                    at = begin + row
                    if lower[at] - near <= sums[row] <= upper[at] + near:
                        continue
                    if side[at] == 0:
                        side[at] = 1 if sums[row] > upper[at] else -1
                    elif not _note(rows[:count], at, (upper[at] if side[at] == 1 else lower[at]) - sums[row], off):
                        return False
                    changed = True
        missing = 0.0
        for row in range(count):
            missing = max(missing, abs(off[row]))
        if missing > 0:  # what the multipliers of sums say is not settled where they contradict each other
            dropped = _dropped(factor, off, dual, side, rows)
            if dropped < 0:
                return False
            side[dropped] = 0
            continue
        for row in range(count):
            at = rows[row, 3]
            if side[at] != 2 and side[at] * dual[row] > _NEAR * steep * largest:  # noqa: PLR2004
                side[at] = 0
                changed = True
        if not changed:
            for child in range(number):
                for cell in range(cells):
                    point[child, cell] = max(0.0, x[child, cell])
            for cell in range(cells):
                price[cell] = -means[cell]
            for bound in range(limit_width.size):
                for at in range(limit_start[bound], limit_start[bound] + number * limit_width[bound]):
                    multiplier[at] = 0.0
            for row in range(count):
                multiplier[rows[row, 3]] = -dual[row]
            return True
    return False


@compiled
def _note(rows: Integers, place: int, missing: float, off: Floats) -> bool:
    """Note what is missing to the bound of a sum; False where it has no open cell."""
    for row in range(len(rows)):
        if rows[row, 3] == place:
            off[row] = missing
            return True
    return False


@compiled
def _dropped(factor: Floats, off: Floats, dual: Floats, side: Integers, rows: Integers) -> int:
    """Which of the sums on their bounds, which contradict each other, leaves its own: -1 where none may.

    A row that others imply is a combination of them. Multipliers can be moved along it without a change of the point;
    the first that becomes 0, in the direction that what is missing says, is that of a sum which need not be held.
    """
    count = dual.size
    last = -1
    for row in range(count):
        if off[row] != 0:
            last = row
            break
    if factor[last, last] > 0:
        return -1
    combination = np.zeros(count)
    combination[last] = 1.0
    for one in range(last - 1, -1, -1):
        if factor[one, one] > 0:
            total = factor[last, one]
            for two in range(one + 1, last):
                total += factor[two, one] * combination[two]
            combination[one] = -total / factor[one, one]
    chosen, least = -1, np.inf
    for row in range(last + 1):
        at = rows[row, 3]
        turned = side[at] * combination[row] * (1.0 if off[last] > 0 else -1.0)
        if side[at] != 2 and turned > _IMPLIED:  # noqa: PLR2004
            far = -side[at] * dual[row] / turned
            if far < least:
                chosen, least = at, far
    return chosen


@compiled
def _on_bounds(
    free: Booleans, side: Integers, limit_index: Integers, limit_width: Integers, limit_start: Integers
) -> tuple[Integers, int]:
    """Bound, child, row and place of every sum that is on a bound and has an open cell; and their number."""
    found, count = np.empty((side.size, 4), dtype=np.int64), 0
    for bound in range(limit_width.size):
        for child in range(free.shape[0]):
            for row in range(limit_width[bound]):
                at = limit_start[bound] + child * limit_width[bound] + row
                if side[at] == 0:
                    continue
                for cell in range(free.shape[1]):
                    if free[child, cell] and limit_index[bound, cell] == row:
                        found[count, 0], found[count, 1], found[count, 2], found[count, 3] = bound, child, row, at
                        count += 1
                        break
    return found, count


@compiled
def _factored(rows: Integers, free: Booleans, held: Floats, limit_index: Integers) -> Floats:
    """Cholesky factor of the equations of sums on their bounds; a row that others imply has a zero on the diagonal."""
    count = len(rows)
    matrix = np.zeros((count, count))
    for one in range(count):
        bound, child, row, _ = rows[one]
        for two in range(one + 1):
            other_bound, other, other_row, _ = rows[two]
            total = 0.0
            for cell in range(held.size):
                if (
                    free[child, cell]
                    and free[other, cell]
                    and limit_index[bound, cell] == row
                    and limit_index[other_bound, cell] == other_row
                ):
                    total += (1.0 if child == other else 0.0) - 1.0 / held[cell]
            matrix[one, two] = total
    for one in range(count):
        for two in range(one + 1):
            total = matrix[one, two]
            for three in range(two):
                total -= matrix[one, three] * matrix[two, three]
            if one == two:
                matrix[one, one] = np.sqrt(total) if total > _IMPLIED * (1.0 + matrix[one, one]) else 0.0
            else:
                matrix[one, two] = total / matrix[two, two] if matrix[two, two] > 0 else 0.0
    return matrix


@compiled
def _solve(factor: Floats, right: Floats) -> None:
    """Solve the equations that were factored, in place; the unknown of a row that is implied is 0."""
    count = right.size
    for one in range(count):
        total = right[one]
        for two in range(one):
            total -= factor[one, two] * right[two]
        right[one] = total / factor[one, one] if factor[one, one] > 0 else 0.0
    for one in range(count - 1, -1, -1):
        total = right[one]
        for two in range(one + 1, count):
            total -= factor[two, one] * right[two]
        right[one] = total / factor[one, one] if factor[one, one] > 0 else 0.0


@compiled
def _shift(
    values: Floats,
    means: Floats,
    dual: Floats,
    rows: Integers,
    free: Booleans,
    held: Floats,
    limit_index: Integers,
    sign: float,
) -> None:
    """Add prices of cells and of sums to the open cells; the prices of cells are corrected for those of the sums."""
    for row in range(len(rows)):
        bound, child, own_row, _ = rows[row]
        for cell in range(held.size):
            if free[child, cell] and limit_index[bound, cell] == own_row:
                means[cell] -= dual[row] / held[cell]
                values[child, cell] += sign * dual[row]
    for child in range(free.shape[0]):
        for cell in range(held.size):
            if free[child, cell]:
                values[child, cell] += sign * means[cell]


@compiled
def _project(
    values: Floats,
    rows: Integers,
    factor: Floats,
    free: Booleans,
    held: Floats,
    limit_index: Integers,
    dual: Floats,
    means: Floats,
) -> None:
    """Take off what would change a cell's sum or a sum on its bound: prices of both, which are filled in."""
    means[:] = 0.0
    for child in range(free.shape[0]):
        for cell in range(held.size):
            means[cell] += values[child, cell] / held[cell]
    for row in range(len(rows)):
        bound, child, own_row, _ = rows[row]
        dual[row] = 0.0
        for cell in range(held.size):
            if free[child, cell] and limit_index[bound, cell] == own_row:
                dual[row] += values[child, cell] - means[cell]
    _solve(factor, dual)
    _shift(values, means, dual, rows, free, held, limit_index, -1.0)


@compiled
def _product(one: Floats, two: Floats) -> float:
    total = 0.0
    for row in range(one.shape[0]):
        for column in range(one.shape[1]):
            total += one[row, column] * two[row, column]
    return total
