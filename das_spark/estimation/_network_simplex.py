"""The compiled network simplex of `min_cost_flow.py`: on arrays, network after network (README, section 6, E-74)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.compiled import compiled

if TYPE_CHECKING:
    from das_spark.estimation.problem import Integers

_UNBOUNDED: Final = 2**40
_LEAST_BLOCK: Final = 20


@compiled
def solve_networks(  # noqa: PLR0913, PLR0917 - arrays of a compiled loop
    nodes: Integers,
    arcs: Integers,
    reserve: Integers,
    source: Integers,
    target: Integers,
    cost: Integers,
    capacity: Integers,
    supply: Integers,
    flow: Integers,
    price: Integers,
) -> bool:
    """Solve network after network; whether all supplies could be met."""
    for block in range(reserve.size):
        first, last = arcs[block], arcs[block + 1]
        here = slice(nodes[block], nodes[block + 1])
        if not network_simplex(
            source[first:last],
            target[first:last],
            cost[first:last],
            capacity[first:last],
            supply[here],
            flow[first:last],
            price[here],
            reserve[block] - first,
        ):
            return False
    return True


@compiled
def network_simplex(  # noqa: C901, PLR0912, PLR0915 - one loop over arrays, compiled
    source: Integers,
    target: Integers,
    cost: Integers,
    capacity: Integers,
    supply: Integers,
    flow_out: Integers,
    price_out: Integers,
    listed: int,
) -> bool:
    """One network: fills flows and potentials in; whether the supplies could be met.

    Arc a >= m is the artificial arc of node a - m: to the root where it sends, from the root, dear, where it takes.
    """
    m, n = cost.size, supply.size
    root = n
    dear = np.int64(1)
    for arc in range(m):
        dear = max(dear, abs(cost[arc]) + 1)
    dear *= n + 1
    order = np.arange(m)  # the arcs, those that are listed first
    flow = np.zeros(m + n, dtype=np.int64)
    state = np.ones(m + n, dtype=np.int8)  # 1: empty, -1: full, 0: in the tree
    parent = np.full(n + 1, root, dtype=np.int32)
    arc_up = np.empty(n + 1, dtype=np.int64)  # tree arc between a node and its parent
    up = np.empty(n + 1, dtype=np.int8)  # 1: it leaves the node, -1: it enters it
    depth = np.ones(n + 1, dtype=np.int32)
    child = np.full(n + 1, -1, dtype=np.int32)  # first child
    right = np.full(n + 1, -1, dtype=np.int32)  # next sibling
    left = np.full(n + 1, -1, dtype=np.int32)  # sibling before
    price = np.zeros(n + 1, dtype=np.int64)
    parent[root] = -1
    depth[root] = 0
    for node in range(n):
        arc_up[node] = m + node
        state[m + node] = 0
        flow[m + node] = abs(supply[node])
        up[node] = 1 if supply[node] >= 0 else -1
        price[node] = 0 if supply[node] >= 0 else dear
        right[node] = child[root]
        if child[root] >= 0:
            left[child[root]] = node
        child[root] = node
    place = 0
    while True:
        # The arc that enters: the best of a block of those listed, cyclically; then of the reserve, where it helps.
        entering, found, seen = np.int64(-1), np.int64(0), 0
        size = max(_LEAST_BLOCK, int(np.sqrt(listed)))
        left_in_block = size
        while seen < listed:
            if place >= listed:
                place = 0
            arc = order[place]
            value = state[arc] * (cost[arc] + price[source[arc]] - price[target[arc]])
            if value < found:
                found, entering = value, arc
            place += 1
            seen += 1
            left_in_block -= 1
            if left_in_block == 0:
                if entering >= 0:
                    break
                left_in_block = size
        if entering < 0:
            before = listed
            for position in range(listed, m):
                arc = order[position]
                if cost[arc] + price[source[arc]] - price[target[arc]] < 0:
                    order[position] = order[listed]
                    order[listed] = arc
                    listed += 1
            if listed == before:
                break
            place = before
            continue
        # The cycle that it closes, and the arc of it that has the least room left.
        if state[entering] > 0:
            first, second = source[entering], target[entering]
        else:
            first, second = target[entering], source[entering]
        one, other = first, second
        while one != other:
            if depth[one] >= depth[other]:
                one = parent[one]
            else:
                other = parent[other]
        join = one
        room, leaving, side = capacity[entering], np.int32(-1), 0
        node = first
        while node != join:
            arc = arc_up[node]
            here = flow[arc]
            if up[node] < 0:
                here = (capacity[arc] if arc < m else _UNBOUNDED) - here
            if here < room:
                room, leaving, side = here, node, 1
            node = parent[node]
        node = second
        while node != join:
            arc = arc_up[node]
            here = flow[arc]
            if up[node] > 0:
                here = (capacity[arc] if arc < m else _UNBOUNDED) - here
            if here <= room:
                room, leaving, side = here, node, 2
            node = parent[node]
        if room > 0:
            moved = state[entering] * room
            flow[entering] += moved
            node = source[entering]
            while node != join:
                flow[arc_up[node]] -= up[node] * moved
                node = parent[node]
            node = target[entering]
            while node != join:
                flow[arc_up[node]] += up[node] * moved
                node = parent[node]
        if side == 0:
            state[entering] = -state[entering]
            continue
        state[entering] = 0
        state[arc_up[leaving]] = 1 if flow[arc_up[leaving]] == 0 else -1
        # Hang the part of the tree below the leaving arc on the entering one.
        top, above = (first, second) if side == 1 else (second, first)
        node, new_parent, new_arc = top, above, entering
        new_up = np.int8(1) if source[entering] == top else np.int8(-1)
        while True:
            old_parent, old_arc, old_up = parent[node], arc_up[node], up[node]
            if left[node] >= 0:
                right[left[node]] = right[node]
            else:
                child[old_parent] = right[node]
            if right[node] >= 0:
                left[right[node]] = left[node]
            parent[node], arc_up[node], up[node] = new_parent, new_arc, new_up
            left[node] = -1
            right[node] = child[new_parent]
            if child[new_parent] >= 0:
                left[child[new_parent]] = node
            child[new_parent] = node
            if node == leaving:
                break
            new_parent, new_arc, new_up = node, old_arc, np.int8(-old_up)
            node = old_parent
        change = price[above] - price[top] - up[top] * cost[entering]
        node = top
        while True:
            price[node] += change
            depth[node] = depth[parent[node]] + 1
            if child[node] >= 0:
                node = child[node]
                continue
            while node != top and right[node] < 0:
                node = parent[node]
            if node == top:
                break
            node = right[node]
    for node in range(n):
        if flow[m + node] != 0:
            return False
        price_out[node] = price[node]
    flow_out[:] = flow[:m]
    return True
