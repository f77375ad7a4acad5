"""The tree of one county, and stage 2 of an optimized spine: bypassing geounits (Algorithm 3).

A tree holds the geounits of every level as arrays, each with its parent and its share of the budget. Within a level the
geounits stand ordered by their parent, and within a parent in the order of its list of children. So the children of a
geounit are a run of consecutive positions of the next level, and an index among them is a difference.

Geounits whose measurement does not pay are bypassed, and their children's budget moves up. Source: Cumings-Menon et
al., "Geographic Spines in the 2020 Census Disclosure Avoidance System", section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError

#: Numerators of shares over a common denominator: int64, or Python integers where the denominator is huge.
Numerators: TypeAlias = NDArray[Any]

#: Below this denominator a share times a number of blocks fits into 64 bits.
_LARGEST_NARROW = 2**36


@dataclass(frozen=True, slots=True)
class FanOut:
    """Fan-outs of a level.

    Attributes:
        units: Number of geounits that have children.
        children: Number of their children.
        most: Largest number of children.
    """

    units: int
    children: int
    most: int

    def __add__(self, other: FanOut) -> FanOut:
        """Fan-outs of both together."""
        return FanOut(self.units + other.units, self.children + other.children, max(self.most, other.most))


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Levels of a tree from the county down to the blocks."""

    # for each level an array (geounits,): position of the parent in the level above; zeros at the top
    parents: tuple[NDArray[np.int64], ...]
    shares: tuple[Numerators, ...]  # for each level an array (geounits,): numerators of the shares of the budget
    denominator: int  # what the numerators are parts of
    rows: NDArray[np.int64]  # (blocks,): which row of the table of blocks each leaf is

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.parents)

    def fan_outs(self, level: int) -> NDArray[np.int64]:
        """Number of children of every geounit of a level that is not the last: (geounits,)."""
        return np.bincount(self.parents[level + 1], minlength=self.parents[level].size)

    def child_indices(self, level: int) -> NDArray[np.int64]:
        """Index, from 1, of every geounit of a level in its parent's list of children: (geounits,)."""
        parents = self.parents[level]
        positions = np.arange(parents.size, dtype=np.int64)
        first = np.concatenate([[True], parents[1:] != parents[:-1]])
        return positions - np.maximum.accumulate(np.where(first, positions, 0)) + 1

    def paths(self) -> tuple[NDArray[np.int64], ...]:
        """For each level an array (blocks,): position of the geounit that contains each leaf."""
        found = [np.arange(self.rows.size, dtype=np.int64)]
        for parents in reversed(self.parents[1:]):
            found.append(parents[found[-1]])
        return tuple(reversed(found))

    def path_sums(self) -> Numerators:
        """Sum of the shares on the way from the top to every leaf: (blocks,) numerators."""
        total = self.shares[0]
        for parents, shares in zip(self.parents[1:], self.shares[1:], strict=True):
            total = total[parents] + shares
        return total


def tree_of(blocks: int, labels: Sequence[NDArray[np.int64]], numerators: Sequence[int], denominator: int) -> Tree:
    """Make a tree of the geounits that blocks lie in; siblings stand by label, the blocks of a parent by row."""
    order = np.lexsort((np.arange(blocks), *reversed(labels)))
    changed = np.zeros(blocks, dtype=np.bool_)
    parents, above = [np.zeros(1, dtype=np.int64)], np.zeros(blocks, dtype=np.int64)
    for label in labels:
        ordered = label[order]
        changed[0] = True
        changed[1:] |= ordered[1:] != ordered[:-1]
        parents.append(above[changed])
        above = np.cumsum(changed) - 1
    parents.append(above)
    kind = np.int64 if denominator < _LARGEST_NARROW else np.object_
    shares = tuple(np.full(level.size, value, dtype=kind) for level, value in zip(parents, numerators, strict=True))
    return Tree(tuple(parents), shares, denominator, order.astype(np.int64))


def drop_level(tree: Tree, level: int) -> Tree:
    """The tree without a level of single children without shares; GeographyError where there is any other."""
    if (tree.fan_outs(level - 1) != 1).any() or (tree.shares[level] != 0).any():
        raise GeographyError("only a level of single children without a share can be left out of a spine")
    below = tree.parents[level][tree.parents[level + 1]]
    return Tree(
        (*tree.parents[:level], below, *tree.parents[level + 2 :]),
        (*tree.shares[:level], *tree.shares[level + 1 :]),
        tree.denominator,
        tree.rows,
    )


def in_order(tree: Tree, level: int) -> Tree:
    """Bring a level back into the order of its parents, and all levels below with it.

    Args:
        tree: A tree whose parents at `level` have changed, so that children of one parent may stand apart.
        level: The highest level that is out of order.

    Returns:
        The tree in order: siblings keep their relative order.
    """
    parents, shares, rows = list(tree.parents), list(tree.shares), tree.rows
    for current in range(level, tree.depth):
        order = np.argsort(parents[current], kind="stable")
        parents[current], shares[current] = parents[current][order], shares[current][order]
        if current + 1 == tree.depth:
            rows = rows[order]
            break
        place = np.empty_like(order)
        place[order] = np.arange(order.size)
        parents[current + 1] = place[parents[current + 1]]
    return Tree(tuple(parents), tuple(shares), tree.denominator, rows)


#: From numbers of children, own shares and the least share among the children, all (geounits,), to whom to bypass.
BypassRule: TypeAlias = Callable[[NDArray[np.int64], Numerators, Numerators], NDArray[np.bool_]]


def single_child_rule(children: NDArray[np.int64], shares: Numerators, least: Numerators) -> NDArray[np.bool_]:
    """Bypass a geounit with one child (S-20): the rule of zCDP, where precision is proportional to the share."""
    return np.equal(children, 1)


def variance_rule(children: NDArray[np.int64], shares: Numerators, least: Numerators) -> NDArray[np.bool_]:
    """Bypass also where no variance can grow (S-19, Theorem 2): the rule of pure DP.

    The least share g among c children must reach (c - 1)/2 of the geounit's own share.
    """
    enough: NDArray[np.bool_] = np.asarray(2 * least >= (children - 1) * shares, dtype=np.bool_)
    return np.equal(children, 1) | enough


#: Framework of the budget -> its rule.
BYPASS_RULES: Final[Mapping[str, BypassRule]] = {"pure_dp": variance_rule, "zcdp": single_child_rule}


def bypass_rule(framework: str) -> BypassRule:
    """The rule of a framework.

    Raises:
        GeographyError: The framework has none.
    """
    if framework not in BYPASS_RULES:
        raise GeographyError(f"no bypass rule for {framework!r}; there are rules for {', '.join(BYPASS_RULES)}")
    return BYPASS_RULES[framework]


def bypassed(tree: Tree, level: int, rule: BypassRule, cutoff: int) -> NDArray[np.bool_]:
    """Which geounits of a level the rule bypasses.

    A geounit with several children is kept if its parent would come to have more than `cutoff` children by it; siblings
    are decided in their order, each seeing what those before it have done.
    """
    children = tree.fan_outs(level)
    starts = np.concatenate([[0], np.cumsum(children)[:-1]])
    least = np.minimum.reduceat(tree.shares[level + 1], starts)
    chosen = rule(children, tree.shares[level], least)
    parents = tree.parents[level]
    siblings = np.bincount(parents)
    grown = siblings + np.bincount(parents, weights=chosen * (children - 1)).astype(np.int64)
    for parent in np.flatnonzero(grown > cutoff):
        first, last = np.searchsorted(parents, [parent, parent + 1])
        _keep_beyond(chosen, children, np.arange(first, last), cutoff)
    return chosen


def _keep_beyond(
    chosen: NDArray[np.bool_], children: NDArray[np.int64], members: NDArray[np.int64], cutoff: int
) -> None:
    total = members.size
    for member in members[chosen[members] & (children[members] > 1)]:
        grown = total - 1 + int(children[member])
        if grown <= cutoff:
            total = grown
        else:
            chosen[member] = False


def bypass(tree: Tree, level: int, chosen: NDArray[np.bool_]) -> Tree:
    """Replace geounits by one for each child, which takes over both shares (S-18).

    Replacements stand at the end of their parent's list, in order of the replaced geounits and of their children.
    """
    children = tree.parents[level + 1]
    moved = chosen[children]
    kept, lifted = np.flatnonzero(~chosen), np.flatnonzero(moved)
    parents = np.concatenate([tree.parents[level][kept], tree.parents[level][children[lifted]]])
    shares = np.concatenate(
        [tree.shares[level][kept], tree.shares[level][children[lifted]] + tree.shares[level + 1][lifted]]
    )
    position = np.empty(chosen.size, dtype=np.int64)
    position[kept] = np.arange(kept.size)
    below = position[children]
    below[lifted] = kept.size + np.arange(lifted.size)
    left: NDArray[Any] = tree.shares[level + 1].copy()
    left[lifted] = 0
    changed = replace(
        tree,
        parents=(*tree.parents[:level], parents, below, *tree.parents[level + 2 :]),
        shares=(*tree.shares[:level], shares, left, *tree.shares[level + 2 :]),
    )
    return in_order(changed, level)


def sweep(
    tree: Tree, rule: BypassRule, cutoff: int, forced: Collection[int] = (), top: BypassRule | None = None
) -> tuple[Tree, tuple[int, ...]]:
    """Settle all levels from the one above the blocks up to the county (Algorithm 3).

    Args:
        tree: A tree whose top level is one county.
        rule: The framework's rule.
        cutoff: Largest fan-out that bypassing may cause.
        forced: Levels that are bypassed throughout.
        top: Rule of the county itself; None takes the framework's, as if the county hung below a root without a share.

    Returns:
        The settled tree, and for each level but the blocks how many geounits were bypassed.
    """
    counts = [0] * (tree.depth - 1)
    for level in reversed(range(tree.depth - 1)):
        if level in forced:
            chosen = np.ones(tree.parents[level].size, dtype=np.bool_)
        else:
            chosen = bypassed(tree, level, top if level == 0 and top is not None else rule, cutoff)
        counts[level] = int(chosen.sum())
        tree = bypass(tree, level, chosen)
    return tree, tuple(counts)


def absorb_single_children(
    parents: NDArray[np.int64], above: Numerators, shares: Numerators
) -> tuple[Numerators, Numerators]:
    """Let parents of a single child take its share: the step above the county (S-21)."""
    only = np.bincount(parents, minlength=above.size)[parents] == 1
    raised = above.copy()
    raised[parents[only]] += shares[only]
    return raised, np.where(only, 0, shares)
