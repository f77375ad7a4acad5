"""Stage 2: bypassing geounits whose measurement does not pay, and moving their children's budget up (Algorithm 3).

Source: Cumings-Menon et al., "Geographic Spines in the 2020 Census Disclosure Avoidance System", section 5.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError
from das_spark.geography.tree import Numerators, Tree, in_order

#: From numbers of children, own shares and the least share among the children, all (geounits,), to whom to bypass.
BypassRule: TypeAlias = Callable[[NDArray[np.int64], Numerators, Numerators], NDArray[np.bool_]]


def single_child_rule(children: NDArray[np.int64], shares: Numerators, least: Numerators) -> NDArray[np.bool_]:
    """Bypass a geounit with one child (S-20): the rule of zCDP, where precision is proportional to the share.

    Args:
        children: (geounits,) number of children of each.
        shares: (geounits,) numerators of their own shares; not used.
        least: (geounits,) least numerator among the children; not used.

    Returns:
        Array (geounits,).
    """
    return np.equal(children, 1)


def variance_rule(children: NDArray[np.int64], shares: Numerators, least: Numerators) -> NDArray[np.bool_]:
    """Bypass also where no variance can grow (S-19, Theorem 2): the rule of pure DP.

    The least share g among c children must reach (c - 1)/2 of the geounit's own share.

    Args:
        children: (geounits,) number of children of each.
        shares: (geounits,) numerators of their own shares.
        least: (geounits,) least numerator among the children of each.

    Returns:
        Array (geounits,).
    """
    enough: NDArray[np.bool_] = np.asarray(2 * least >= (children - 1) * shares, dtype=np.bool_)
    return np.equal(children, 1) | enough


#: Framework of the budget -> its rule.
BYPASS_RULES: Final[Mapping[str, BypassRule]] = {"pure_dp": variance_rule, "zcdp": single_child_rule}


def bypass_rule(framework: str) -> BypassRule:
    """The rule of a framework.

    Args:
        framework: "pure_dp" or "zcdp".

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

    Args:
        tree: The tree, with all levels below already settled.
        level: A level that is not the blocks.
        rule: What decides on variance.
        cutoff: Largest fan-out that bypassing may cause.

    Returns:
        Array (geounits,).
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

    Args:
        tree: A tree.
        level: A level that is not the blocks.
        chosen: (geounits,) which ones.

    Returns:
        The tree with as many levels. Replacements stand at the end of their parent's list, in order of the replaced
        geounits and of their children; the children keep a share of 0.
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


def absorb_only_children(
    parents: NDArray[np.int64], above: Numerators, shares: Numerators
) -> tuple[Numerators, Numerators]:
    """Let parents of a single child take its share: the step above the county (S-21).

    Args:
        parents: (children,) position of the parent of each child.
        above: (parents,) numerators of the parents' shares.
        shares: (children,) numerators of the children's shares.

    Returns:
        The new shares of the parents and of the children.
    """
    only = np.bincount(parents, minlength=above.size)[parents] == 1
    raised = above.copy()
    raised[parents[only]] += shares[only]
    return raised, np.where(only, 0, shares)
