"""Minimum-cost flows with whole costs, by the network simplex method: compiled, exact, many small networks in one call.

A primal simplex method on spanning trees (Ahuja, Magnanti, Orlin 1993, "Network Flows", chapter 11): strongly feasible
trees, so that it cannot cycle, and a search for the entering arc in blocks (README, section 6, E-74).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from das_spark.estimation.problem import Floats, Integers

LIMIT: Final = 2**60
"""Largest potential that can occur in exact arithmetic of 64 bits, with room for one more cost."""

_UNBOUNDED: Final = 2**40


@dataclass(frozen=True, slots=True, eq=False)
class Networks:
    """Independent networks, one after the other; node numbers are those within the network.

    The arcs of a network are those to begin with, then its reserve: arcs that are hardly ever used, and are looked at
    only when nothing else would help.
    """

    nodes: Integers  # first node of each network, and one past the last, shape (B + 1,)
    arcs: Integers  # first arc of each network, likewise
    reserve: Integers  # first arc of each network's reserve, shape (B,)
    source: Integers  # node that each arc leaves, shape (A,)
    target: Integers  # node that it enters
    cost: Floats  # cost of a unit of flow
    capacity: Integers  # largest flow; the least is 0
    supply: Integers  # what each node sends, negative where it takes, shape (nodes,); sums to 0 in each network


@dataclass(frozen=True, slots=True, eq=False)
class Flow:
    """A flow that meets all supplies, and what proves how good it is."""

    flow: Integers  # of each arc
    price: Floats  # potential of each node, in units of cost
    reduced: Floats  # cost of an arc plus potential of its source less that of its target


def least_cost(networks: Networks) -> Flow | None:
    """Flows of least cost in every network; None where one of them has no flow at all (E-74)."""
    # Here, so that only those who solve one wait for the compiler to be imported.
    from das_spark.estimation._network_simplex import solve_networks  # noqa: PLC0415

    size = np.diff(networks.nodes).max(initial=0) + 2
    largest = float(np.abs(networks.cost).max(initial=0.0)) + 1.0
    scale = 2.0 ** min(32, int(np.floor(np.log2(LIMIT / (size * largest)))) - 1)
    cost = np.rint(networks.cost * scale).astype(np.int64)
    flow = np.zeros(len(cost), dtype=np.int64)
    price = np.zeros(len(networks.supply), dtype=np.int64)
    met = solve_networks(
        networks.nodes,
        networks.arcs,
        networks.reserve,
        networks.source,
        networks.target,
        cost,
        np.minimum(networks.capacity, _UNBOUNDED),
        networks.supply,
        flow,
        price,
    )
    if not met:
        return None
    first = np.repeat(networks.nodes[:-1], np.diff(networks.arcs))
    own = price / scale
    return Flow(flow, own, networks.cost + own[first + networks.source] - own[first + networks.target])


def shortfall(networks: Networks, found: Flow) -> float:
    """How far a flow may be from the least cost: what its arcs lose against their reduced costs (E-75)."""
    lost = np.where(found.reduced > 0, found.reduced * found.flow, 0.0)
    (saving,) = np.nonzero(found.reduced < 0)
    lost[saving] = -found.reduced[saving] * (networks.capacity[saving] - found.flow[saving])
    return float(lost.sum())
