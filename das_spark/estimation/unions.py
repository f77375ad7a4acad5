"""Variances of unions of geounits, such as districts, which cut through the geounits of the spine.

One sweep upwards, family by family (README, section 14): of a union, a geounit need only tell how its part in it
follows from its own counts, and how much is uncertain besides. Geounits that lie in the union wholly, or not at all,
tell nothing; only those that its border cuts are worked on (E-65).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from das_spark.estimation.gls import Alike, FamilyKnowledge, precision_of, summed

if TYPE_CHECKING:
    from das_spark.estimation.components import Blocks, Decomposition
    from das_spark.estimation.problem import Floats


@dataclass(frozen=True, slots=True, eq=False)
class UnionPart:
    """The part of a union that lies in one geounit, given the geounit's counts x: mean A'x + constant, covariance V.

    Attributes:
        slope: A, by component, on all sites; each shape ``(p, p)``. None where the geounit lies in the union wholly.
        spread: V, likewise, people squared; none where the geounit lies in the union wholly.
    """

    slope: Blocks | None = None
    spread: Blocks | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the geounit lies in the union wholly, so that its part is its counts."""
        return self.slope is None

    def array(self) -> Floats:
        """As one flat array, by which it travels; empty where the geounit lies in the union wholly."""
        if self.slope is None or self.spread is None:
            return np.zeros(0)
        return np.concatenate([block.ravel() for block in (*self.slope, *self.spread)])

    @staticmethod
    def numbers(algebra: Decomposition) -> int:
        """How many numbers `array` gives for a geounit that the union's border cuts."""
        return 2 * sum(len(each.sites) ** 2 for each in algebra.components)

    @classmethod
    def of(cls, algebra: Decomposition, array: Floats) -> UnionPart:
        """Read back what `array` gave."""
        if not len(array):
            return cls()
        sizes = [len(each.sites) for each in algebra.components]
        starts = np.concatenate([[0], np.cumsum([size * size for size in (*sizes, *sizes)])])
        blocks = [
            array[start : start + size * size].reshape(size, size)
            for start, size in zip(starts[:-1], (*sizes, *sizes), strict=True)
        ]
        return cls(tuple(blocks[: len(sizes)]), tuple(blocks[len(sizes) :]))


def union_above(knowledge: FamilyKnowledge, parts: Mapping[int, UnionPart]) -> UnionPart:
    """The part of a union that lies in the parent of a family, from those of its children.

    Args:
        knowledge: The children given their own answers and what lies below.
        parts: Position of a child -> its part; children that lie outside are missing.
    """
    children = sum(len(each.children) for each in knowledge.children)
    if not knowledge.children:  # the single child of a family of which nothing is known has its parent's counts
        return parts[0]
    if len(parts) == children and all(part.is_whole for part in parts.values()):
        return UnionPart()
    return _above(_with_groups(knowledge, parts), knowledge.independent(), knowledge.algebra)


def spread_at_top(knowledge: FamilyKnowledge, parts: Mapping[int, UnionPart]) -> Blocks:
    """Covariance of the part of a union that lies in the children of a top family, by component, on all sites."""
    return _moments(_with_groups(knowledge, parts), knowledge.independent(), knowledge.algebra)[1]


def _with_groups(knowledge: FamilyKnowledge, parts: Mapping[int, UnionPart]) -> dict[int, UnionPart]:
    """The parts, those of each group of children as if the group were a child, named by its first member."""
    found = dict(parts)
    for own, _ in knowledge.groups:
        inside = {child: found.pop(child) for child in own.tolist() if child in found}
        if inside:
            members = [each.some(own) for each in knowledge.children]
            found[int(own[0])] = _above(inside, members, knowledge.algebra)
    return found


def _above(parts: Mapping[int, UnionPart], children: Iterable[Alike], algebra: Decomposition) -> UnionPart:
    """The part in the sum S of independent children: A = S^-1 sum C_k A_k, V = sum (V_k + A_k' C_k A_k) - A' S A."""
    kept = list(children)
    total = summed(kept, algebra)
    moved, spread = _moments(parts, kept, algebra)
    slopes, spreads = [], []
    for precision, own, pulled, whole, covariance in zip(
        precision_of(total), total.frame.positions, moved, spread, total.covariance, strict=True
    ):
        slope = np.zeros(pulled.shape)
        slope[own] = precision @ pulled[own]
        slopes.append(slope)
        spreads.append(whole - slope[own].T @ covariance @ slope[own])
    return UnionPart(tuple(slopes), tuple(spreads))


def _moments(
    parts: Mapping[int, UnionPart], children: Iterable[Alike], algebra: Decomposition
) -> tuple[list[Floats], Blocks]:
    """Sums over independent children of C_k A_k and of V_k + A_k' C_k A_k, by component, on all sites."""
    sizes = [len(each.sites) for each in algebra.components]
    moved, spread = ([np.zeros((size, size)) for size in sizes] for _ in range(2))
    whole = np.array([child for child, part in parts.items() if part.is_whole], dtype=np.int64)
    for each in children:
        inside = np.isin(each.children, whole)
        for number, (block, own) in enumerate(zip(each.blocks, each.frame.positions, strict=True)):
            known = block[inside].sum(axis=0)
            moved[number][np.ix_(own, own)] += known
            spread[number][np.ix_(own, own)] += known
            for place, child in enumerate(each.children.tolist()):
                part = parts.get(child)
                if part is not None and part.slope is not None and part.spread is not None:
                    slope = part.slope[number][own]
                    pulled = block[place] @ slope
                    moved[number][own] += pulled
                    spread[number] += part.spread[number] + slope.T @ pulled
    return moved, tuple(spread)
