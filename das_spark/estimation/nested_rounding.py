"""The rounding of a pass whose sums are nested, as minimum-cost flows: a network for each independent block of cells.

Where the rows of all queries and bounds are nested, the steps up from the floor flow from a child through its sums,
from the largest to the smallest, to the cells of the parent (README, section 6, E-73). Cells that no constraint and no
sum ties together are in different blocks. Steps of variables that are whole are hardly ever wanted: they are the
reserve of a network, and their sums have no nodes.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.estimation.min_cost_flow import Networks, least_cost, shortfall

if TYPE_CHECKING:
    from das_spark.estimation.problem import Booleans, Floats, Integers

UNBOUNDED: Final = 2**40
"""Capacity of what has no upper bound."""

_CLOSED: Final = -2  # no steps may go this way
_GROUND: Final = -1  # no sum above: steps come from the ground of the block
_PROVED: Final = 1e-6  # a shortfall below this is the rounding error of its computation: costs are of order one
EXACT: Final = 1e-9  # sums of fractions this close to a whole number are taken for it


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """One way to group the cells of a support, with what is asked of the sums of each child."""

    index: Integers  # group of each cell, -1 where none counts it, shape (n,)
    groups: int  # number of groups r
    times: int  # how many queries of the pass ask for its sums
    # least and most steps of each group of each child, shape (K, r); None where nothing is demanded
    lower: Integers | None = None
    upper: Integers | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Forest:
    """Nested groups of two cells or more of a support: P of them, parents before their parts."""

    home: Integers  # smallest group of each cell, -1 where there is none, shape (n,)
    parent: Integers  # group that each is part of, -1 where there is none, shape (P,)
    times: Integers  # how many queries ask for it, shape (P,)
    starts: tuple[int, ...]  # first group of each level, and one past the last
    alone: Integers  # how many queries ask for each cell by itself, shape (n,)
    lower: Integers  # least steps of each group of each child, shape (K, P)
    upper: Integers  # most, UNBOUNDED where nothing is demanded

    def of(self, cells: Booleans) -> Forest:
        """The groups of some cells, which are all that their largest groups have."""
        used = np.zeros(len(self.parent) + 1, dtype=np.bool_)  # the last one: no group
        used[self.home[cells]] = True
        for one, two in itertools.pairwise(reversed(self.starts)):
            used[self.parent[two:one][used[two:one]]] = True
        used[-1] = False
        number = np.where(used, np.cumsum(used) - 1, -1)
        (kept,) = np.nonzero(used)
        return Forest(
            home=number[self.home[cells]],
            parent=number[self.parent[kept]],
            times=self.times[kept],
            starts=tuple(int(each) for each in np.searchsorted(kept, self.starts)),
            alone=self.alone[cells],
            lower=self.lower[:, kept],
            upper=self.upper[:, kept],
        )


def forest(levels: Sequence[Level], children: int) -> Forest | None:
    """The groups of all levels as a forest, or None where they are not nested.

    A level below which another one, that counts the same cells, is demanded exactly, says nothing and is left out.
    """
    levels = _joined(sorted((level for level in levels if level.groups), key=lambda each: each.groups))
    cells = len(levels[0].index) if levels else 0
    levels = levels[_settled(levels) :]
    home, alone = np.full(cells, -1, dtype=np.int64), np.zeros(cells, dtype=np.int64)
    parents, times, starts, lowest, most = [], [], [0], [], []
    labels: list[Integers] = []
    for level in levels:
        size = np.bincount(level.index[level.index >= 0], minlength=level.groups)
        shared = size > 1
        counted = level.index >= 0
        several = counted & shared[level.index]
        alone[counted & ~several] += level.times
        if not all(_nested(other, level.index) for other in labels):
            return None
        labels.append(level.index)
        number = starts[-1] + np.cumsum(shared) - 1
        above = np.full(level.groups, -1, dtype=np.int64)
        above[level.index[several]] = home[several]
        home[several] = number[level.index[several]]
        parents.append(above[shared])
        times.append(np.full(int(shared.sum()), level.times))
        starts.append(starts[-1] + int(shared.sum()))
        shape = (children, int(shared.sum()))
        lowest.append(np.zeros(shape, dtype=np.int64) if level.lower is None else level.lower[:, shared])
        most.append(np.full(shape, UNBOUNDED) if level.upper is None else level.upper[:, shared])
    if not levels:
        return None
    return Forest(
        home=home,
        parent=np.concatenate(parents),
        times=np.concatenate(times),
        starts=tuple(starts),
        alone=alone,
        lower=np.concatenate(lowest, axis=1),
        upper=np.concatenate(most, axis=1),
    )


def _joined(levels: Sequence[Level]) -> list[Level]:
    """Levels that group the cells alike as one: their bounds hold together."""
    found: dict[bytes, Level] = {}
    for level in levels:
        _, first, inverse = np.unique(level.index, return_index=True, return_inverse=True)
        key = first[inverse].tobytes() + (level.index < 0).tobytes()
        old = found.get(key)
        if old is None:
            found[key] = level
            continue
        order = np.zeros(old.groups, dtype=np.int64)  # the new level's group of each of the old one's
        counted = old.index >= 0
        order[old.index[counted]] = level.index[counted]
        lower, upper = old.lower, old.upper
        if level.lower is not None and level.upper is not None:
            lower, upper = level.lower[:, order], level.upper[:, order]
            if old.lower is not None and old.upper is not None:
                lower, upper = np.maximum(old.lower, lower), np.minimum(old.upper, upper)
        found[key] = Level(old.index, old.groups, old.times + level.times, lower, upper)
    return list(found.values())


def _nested(coarse: Integers, fine: Integers) -> bool:
    """Whether each group of the finer level lies within one group of the coarser one, or outside all."""
    counted = fine >= 0
    above = np.full(int(fine.max(initial=-1)) + 1, -1, dtype=np.int64)
    above[fine[counted]] = coarse[counted]
    return bool((above[fine[counted]] == coarse[counted]).all())


def _settled(levels: Sequence[Level]) -> int:
    """The finest level that is demanded exactly of all cells and children; those before it follow from it."""
    for number in range(len(levels) - 1, 0, -1):
        level = levels[number]
        if level.lower is None or level.upper is None or (level.index < 0).any():
            continue
        whole = all(_nested(other.index, level.index) for other in levels[:number])
        if whole and np.array_equal(level.lower, level.upper):
            return number
    return 0


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """What a pass may do: N variables of a family and their steps up from the floor."""

    child: Integers  # child of each variable, shape (N,)
    cell: Integers  # cell of each, as position in the support, shape (N,)
    children: int  # number of children K
    fraction: Floats  # fraction of each variable, shape (N,)
    lower: Integers  # least steps of each variable, 0 or 1
    upper: Integers  # most, 0 or 1
    missing: Integers | None  # steps that each cell needs, shape (n,); None at the root
    released: bool  # whether distances are from the nearest whole number (E-52)

    def of(self, own: Booleans, cells: Booleans) -> Steps:
        """Those of some variables, which are all that some cells have."""
        return Steps(
            child=self.child[own],
            cell=(np.cumsum(cells) - 1)[self.cell[own]],
            children=self.children,
            fraction=self.fraction[own],
            lower=self.lower[own],
            upper=self.upper[own],
            missing=None if self.missing is None else self.missing[cells],
            released=self.released,
        )


def slope(target: Floats, *, released: bool) -> Floats:
    """Cost of the step from the floor of each target to the next whole number (E-51, E-52)."""
    return 1.0 - 2.0 * ((np.rint(target) if released else target) - np.floor(target))


def snapped(target: Floats) -> Floats:
    """Sums of fractions, those near a whole number taken for it."""
    nearest = np.rint(target)
    return np.asarray(np.where(np.abs(target - nearest) <= EXACT, nearest, target), dtype=np.float64)


def best_steps(given: Steps, groups: Forest) -> tuple[Integers, float] | None:
    """Bring the sums of a pass nearest to their targets, in the unit box above the floor (E-73).

    Blocks are independent: so many at a time as have `AT_ONCE` variables together.

    Returns:
        Steps of each variable, shape ``(N,)``, and how far the distance may be from the least one, relative to it: 0
        where it is proved (E-75). None where no steps keep the constraints.
    """
    if (given.lower > given.upper).any() or (groups.lower > groups.upper).any() or (groups.upper < 0).any():
        return None
    steps, lost, distance = given.lower.astype(np.int64), 0.0, 0.0
    for part in _parts(given, groups):
        own = part[given.cell]
        found = _best_at_once(given, groups) if part.all() else _best_at_once(given.of(own, part), groups.of(part))
        if found is None:
            return None
        steps[own] = found.steps
        lost += found.lost
        distance += found.distance
    gap = lost / max(1.0, distance)
    return steps, gap if gap > _PROVED else 0.0


AT_ONCE: Final = 1_000_000
"""Variables of the blocks whose networks are in memory together; more only where one block has more."""


def _parts(given: Steps, groups: Forest) -> list[Booleans]:
    """Cells of each part of the blocks, in the order of the blocks, shapes ``(n,)``."""
    if len(given.cell) <= AT_ONCE:
        return [np.ones(len(groups.home), dtype=np.bool_)]
    block = _blocks_of_cells(groups, _tops(groups))
    size = np.bincount(block[given.cell], minlength=int(block.max(initial=-1)) + 1)
    part = np.cumsum(size) // AT_ONCE
    return [part[block] == each for each in np.unique(part[block])]


@dataclass(frozen=True, slots=True)
class _Best:
    """The steps of a part."""

    steps: Integers  # of each of its variables
    lost: float  # how far their distance may be from the least one, in people
    distance: float  # their distance


def _best_at_once(given: Steps, groups: Forest) -> _Best | None:
    """The best steps of a family, or of a part of it that nothing ties to the rest."""
    steps = given.lower.astype(np.int64)
    core = (given.fraction > 0) | (given.lower > 0)
    asked = np.zeros(len(groups.home), dtype=np.bool_)
    asked[given.cell[core]] = True
    if given.missing is None:
        untied = groups.home[given.cell] < 0
        dear = slope(given.fraction, released=given.released) >= 0
        if not given.released:
            dear |= groups.alone[given.cell] == 0
        steps[untied & (given.upper > 0) & ~dear] = 1
        core &= ~untied
        asked &= groups.home >= 0
    else:
        asked |= given.missing != 0
    table = _Table.of(groups, given.child[core], groups.home[given.cell[core]], given.children)
    key = table.key(groups, given.child, given.cell)
    anchor = table.anchor[key]
    more = ~core & (given.upper > 0) & (anchor != _CLOSED) & asked[given.cell]
    if given.missing is None:
        more &= groups.home[given.cell] >= 0
    variable = np.concatenate([np.flatnonzero(core), np.flatnonzero(more)])
    network = _Network.of(given, groups, table, asked, variable, int(core.sum()))
    networks, order = network.in_blocks()
    found = least_cost(networks)
    if found is None:
        return None
    flow = np.empty(len(order), dtype=np.int64)
    flow[order] = found.flow
    steps[variable] += flow[: len(variable)]
    return _Best(steps, shortfall(networks, found) / network.price, network.distance(table, steps[variable]))


@dataclass(frozen=True, slots=True, eq=False)
class _Table:
    """Which sums of which children are nodes; V of them, sorted by child."""

    child: Integers  # child of each node, shape (V,)
    group: Integers  # its group
    above: Integers  # node above it, or _GROUND
    starts: tuple[int, ...]  # of the groups' levels
    anchor: (
        Integers  # node that steps of each (child, group) come from, flat; the last one is for cells without a group
    )
    skipped: Integers  # queries that ask for the sums between that node and the cell, likewise

    @classmethod
    def of(cls, groups: Forest, child: Integers, home: Integers, children: int) -> _Table:
        """Sums that count a variable to begin with, and those that must or may take steps by their bounds."""
        width = len(groups.parent)
        exists = (groups.upper > 0) & ((groups.lower > 0) | (groups.upper < UNBOUNDED)) | (groups.lower > 0)
        counted = home >= 0
        exists[child[counted], home[counted]] = True
        levels = [slice(one, two) for one, two in itertools.pairwise(groups.starts)]
        for part in reversed(levels):
            who, which = np.nonzero(exists[:, part])
            above = groups.parent[part][which]
            exists[who[above >= 0], above[above >= 0]] = True
        number = (np.cumsum(exists.ravel()) - 1).reshape(exists.shape).astype(np.int32)
        anchor = np.full((children, width + 1), _GROUND, dtype=np.int32)
        skipped = np.zeros((children, width + 1), dtype=np.int16)
        parent = np.where(groups.parent < 0, width, groups.parent)
        for part in levels:
            here, up = exists[:, part], parent[part]
            closed = np.where(groups.upper[:, part] <= 0, _CLOSED, anchor[:, up])
            anchor[:, part] = np.where(here, number[:, part], closed)
            skipped[:, part] = np.where(here, 0, groups.times[part] + skipped[:, up])
        node_child, group = np.nonzero(exists)
        return cls(
            child=node_child,
            group=group,
            above=anchor[node_child, parent[group]].astype(np.int64),
            starts=groups.starts,
            anchor=np.append(anchor[:, :width].ravel(), np.int32(_GROUND)),
            skipped=np.append(skipped[:, :width].ravel(), np.int16(0)),
        )

    def key(self, groups: Forest, child: Integers, cell: Integers) -> Integers:
        """Place in the flat tables of the smallest group of each variable."""
        home = groups.home[cell]
        return np.where(home >= 0, child * len(groups.parent) + home, len(self.anchor) - 1)

    def sums(self, anchor: Integers, values: Floats) -> Floats:
        """Sum values by node, each counting in all nodes above its own, shape ``(V,)``."""
        count = len(self.child)
        inside = anchor >= 0
        total = np.bincount(anchor[inside], values[inside], minlength=count).astype(np.float64)
        level = np.searchsorted(np.asarray(self.starts), self.group, side="right")
        for number in range(len(self.starts) - 1, 0, -1):
            (own,) = np.nonzero((level == number) & (self.above >= 0))
            total += np.bincount(self.above[own], total[own], minlength=count)
        return total


@dataclass(frozen=True, slots=True, eq=False)
class _Network:
    """All blocks of a pass as one network: nodes are sums, then cells, then a ground for each block.

    Arcs are variables, those to begin with first, then the pieces of the sums' distances.
    """

    block: Integers  # block of each node
    supply: Integers  # what each node sends
    source: Integers  # node that each arc leaves
    target: Integers  # node that it enters
    cost: Floats  # cost of a step
    capacity: Integers  # most steps
    reserve: Booleans  # whether it is looked at last
    price: float  # cost of a person in the units of `cost`
    anchor: Integers  # node that the steps of each variable come from, or _GROUND
    target_sum: Floats  # what each sum should be
    times: Integers  # queries that ask for each sum
    wanted: Floats  # what each variable should be
    own_times: Integers  # queries that ask for each variable alone, or for sums that are no nodes

    @classmethod
    def of(
        cls, given: Steps, groups: Forest, table: _Table, asked: Booleans, variable: Integers, core: int
    ) -> _Network:
        """Write a pass as a network (E-73)."""
        cell, nodes, released = given.cell[variable], len(table.child), given.released
        key = table.key(groups, given.child[variable], cell)
        anchor = table.anchor[key].astype(np.int64)
        own_times = groups.alone[cell] + table.skipped[key]
        top = _tops(groups)
        block_of_cell = _blocks_of_cells(groups, top)
        (cells,) = np.nonzero(asked) if given.missing is not None else (np.zeros(0, dtype=np.int64),)
        of_node, of_cell, of_variable = top[table.group], block_of_cell[cells], block_of_cell[cell]
        used = np.zeros(len(top) + len(groups.home), dtype=np.bool_)
        for each in (of_node, of_cell, of_variable):
            used[each] = True
        number, count = np.cumsum(used) - 1, int(used.sum())
        of_node, of_cell, of_variable = number[of_node], number[of_cell], number[of_variable]
        ground = nodes + len(cells)
        source = np.where(anchor < 0, ground + of_variable, anchor)
        place = np.cumsum(asked) - 1
        target = ground + of_variable if given.missing is None else nodes + place[cell]
        above = np.where(table.above < 0, ground + of_node, table.above)
        lower = np.maximum(groups.lower[table.child, table.group], 0)
        upper = groups.upper[table.child, table.group]
        supply = np.zeros(ground + count, dtype=np.int64)
        if given.missing is not None:
            supply[nodes:ground] = -given.missing[cells]
        least = given.lower[variable]
        for ends, steps in ((source, -least), (target, least), (above, -lower)):
            np.add.at(supply, ends, steps)
        supply[:nodes] += lower
        blocks = np.concatenate([of_node, of_cell, np.arange(count)])
        supply[ground:] -= np.bincount(blocks, supply, minlength=count).astype(np.int64)
        # Costs, a tie of the release's going to the cells' own distances (E-54).
        wanted = given.fraction[variable]
        price = 2.0 * float(np.bincount(of_variable).max(initial=0)) + 2.0 if released else 1.0
        cost = price * (own_times * slope(wanted, released=released))
        if released:
            cost += 1.0 - 2.0 * wanted
        target_sum = snapped(table.sums(anchor[:core], wanted[:core]))
        node, piece_cost, capacity = _pieces(target_sum, lower, upper, groups.times[table.group], released=released)
        arc = np.arange(len(variable) + len(node))
        return cls(
            block=blocks,
            supply=supply,
            source=np.concatenate([source, above[node]]),
            target=np.concatenate([target, node]),
            cost=np.concatenate([cost, price * piece_cost]),
            capacity=np.concatenate([given.upper[variable] - least, capacity]),
            reserve=(arc >= core) & (arc < len(variable)),
            price=price,
            anchor=anchor,
            target_sum=np.rint(target_sum) if released else target_sum,
            times=groups.times[table.group],
            wanted=np.rint(wanted) if released else wanted,
            own_times=own_times,
        )

    def in_blocks(self) -> tuple[Networks, Integers]:
        """The networks of the blocks, and where each of their arcs was."""
        count = int(self.block.max(initial=-1)) + 1
        by_block = np.argsort(self.block, kind="stable")
        nodes = np.searchsorted(self.block[by_block], np.arange(count + 1))
        local = np.empty(len(by_block), dtype=np.int64)
        local[by_block] = np.arange(len(by_block)) - nodes[self.block[by_block]]
        place = 2 * self.block[self.target] + self.reserve
        few = 2 * count <= np.iinfo(np.uint16).max  # then numpy sorts by counting
        order = np.argsort(place.astype(np.uint16) if few else place, kind="stable")
        edges = np.concatenate([[0], np.cumsum(np.bincount(place, minlength=2 * count))])
        networks = Networks(
            nodes=nodes,
            arcs=edges[::2],
            reserve=edges[1::2],
            source=local[self.source[order]],
            target=local[self.target[order]],
            cost=self.cost[order],
            capacity=self.capacity[order],
            supply=self.supply[by_block],
        )
        return networks, order

    def distance(self, table: _Table, steps: Integers) -> float:
        """What a pass minimises, in people."""
        reached = table.sums(self.anchor, steps.astype(np.float64))
        of_sums = (self.times * np.abs(reached - self.target_sum)).sum()
        return float(of_sums + (self.own_times * np.abs(steps - self.wanted)).sum())


def _tops(groups: Forest) -> Integers:
    """The largest group that each group lies in, shape ``(P,)``."""
    top = np.arange(len(groups.parent))
    for one, two in itertools.pairwise(groups.starts):
        part = slice(one, two)
        inside = groups.parent[part] >= 0
        top[part][inside] = top[groups.parent[part][inside]]
    return top


def _blocks_of_cells(groups: Forest, top: Integers) -> Integers:
    """Block of each cell: what lies in one largest group; a cell in no group is one of its own, shape ``(n,)``."""
    alone = len(top) + np.arange(len(groups.home))
    return np.where(groups.home >= 0, np.append(top, 0)[groups.home], alone)


def _pieces(
    target: Floats, lower: Integers, upper: Integers, times: Integers, *, released: bool
) -> tuple[Integers, Floats, Integers]:
    """Arcs into each sum: up to the floor of its target, the step from there, and beyond (E-73): node, cost, room."""
    asked = times > 0
    floor = np.where(asked, np.floor(target), 0.0).astype(np.int64)
    step = asked & (target > floor)
    below = np.minimum(floor, upper) - lower
    between = (step & (lower <= floor) & (floor < upper)).astype(np.int64)
    beyond = upper - np.maximum(lower, floor + step)
    node, cost, room = [], [], []
    for capacity, price in ((below, -1.0), (between, slope(target, released=released)), (beyond, 1.0)):
        (used,) = np.nonzero(capacity > 0)
        node.append(used)
        cost.append((times * price)[used])
        room.append(capacity[used])
    return np.concatenate(node), np.concatenate(cost), np.concatenate(room)
