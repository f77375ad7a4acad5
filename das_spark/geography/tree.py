"""The tree of one county: geounits of every level as arrays, each with its parent and its share of the budget.

Within a level the geounits stand ordered by their parent, and within a parent in the order of its list of children. So
the children of a geounit are a run of consecutive positions of the next level, and an index among them is a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError

#: Numerators of shares over a common denominator: int64, or Python integers where the denominator is huge.
Numerators: TypeAlias = NDArray[Any]

#: Below this denominator a share times a number of blocks fits into 64 bits.
_LARGEST_NARROW = 2**36


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """Levels of a tree from the county down to the blocks.

    Attributes:
        parents: For each level an array (geounits,): position of the parent in the level above; zeros at the top.
        shares: For each level an array (geounits,): numerators of the shares of the budget.
        denominator: What the numerators are parts of.
        rows: (blocks,): which row of the table of blocks each leaf is.
    """

    parents: tuple[NDArray[np.int64], ...]
    shares: tuple[Numerators, ...]
    denominator: int
    rows: NDArray[np.int64]

    @property
    def depth(self) -> int:
        """Number of levels."""
        return len(self.parents)

    def fan_outs(self, level: int) -> NDArray[np.int64]:
        """Number of children of every geounit of a level that is not the last: (geounits,).

        Args:
            level: The level, 0 for the county.
        """
        return np.bincount(self.parents[level + 1], minlength=self.parents[level].size)

    def child_indices(self, level: int) -> NDArray[np.int64]:
        """Index, from 1, of every geounit of a level in its parent's list of children: (geounits,).

        Args:
            level: The level, 0 for the county.
        """
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
    """Make a tree of the geounits that blocks lie in.

    Args:
        blocks: Number of blocks.
        labels: For each level below the county and above the blocks an array (blocks,): a number of the geounit of each
            block that tells siblings apart and orders them. The county itself is one geounit.
        numerators: Share of every geounit of each level: county, levels of the labels, block.
        denominator: What the numerators are parts of.

    Returns:
        The tree; siblings stand by label, the blocks of a parent by row.
    """
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
    """The tree without a level of only children that have no share.

    Args:
        tree: A tree.
        level: Neither the top nor the blocks.

    Raises:
        GeographyError: Some geounit of the level has a sibling or a share.
    """
    if (tree.fan_outs(level - 1) != 1).any() or (tree.shares[level] != 0).any():
        raise GeographyError("only a level of only children without a share can be left out of a spine")
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
