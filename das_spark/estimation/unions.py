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

from das_spark.estimation.gls import Alike, FamilyKnowledge, common_sums, precision_of, stacked, summed

if TYPE_CHECKING:
    from das_spark.estimation.components import Blocks, Decomposition
    from das_spark.estimation.problem import Floats, Integers


@dataclass(frozen=True, slots=True, eq=False)
class UnionPart:
    """The part of a union that lies in one geounit, given the geounit's counts x: mean A'x + constant, covariance V.

    Attributes:
        slope: A, by component, on all sites; each shape ``(p, p)``. None where the geounit lies in the union wholly.
        spread: Upper triangular roots of V, likewise; none where the geounit lies in the union wholly.
        exact: Groups of sites whose sum over the part is exact, as of a `Gaussian`; -1 where the part has not the site.
    """

    slope: Blocks | None = None
    spread: Blocks | None = None
    exact: Integers | None = None

    @property
    def is_whole(self) -> bool:
        """Whether the geounit lies in the union wholly, so that its part is its counts."""
        return self.slope is None

    def array(self) -> Floats:
        """As one flat array, by which it travels; empty where the geounit lies in the union wholly."""
        if self.slope is None or self.spread is None or self.exact is None:
            return np.zeros(0)
        return np.concatenate([block.ravel() for block in (*self.slope, *self.spread, self.exact)])

    @staticmethod
    def numbers(algebra: Decomposition) -> int:
        """How many numbers `array` gives for a geounit that the union's border cuts."""
        return 2 * sum(len(component.sites) ** 2 for component in algebra.components) + algebra.sites

    @classmethod
    def of(cls, algebra: Decomposition, array: Floats) -> UnionPart:
        """Read back what `array` gave."""
        if not len(array):
            return cls()
        sizes = [len(component.sites) for component in algebra.components]
        starts = np.concatenate([[0], np.cumsum([size * size for size in (*sizes, *sizes)])])
        blocks = [
            array[start : start + size * size].reshape(size, size)
            for start, size in zip(starts[:-1], (*sizes, *sizes), strict=True)
        ]
        exact = array[starts[-1] :].astype(np.int64)
        return cls(tuple(blocks[: len(sizes)]), tuple(blocks[len(sizes) :]), exact)


def union_above(knowledge: FamilyKnowledge, parts: Mapping[int, UnionPart]) -> UnionPart:
    """The part of a union that lies in the parent of a family, from those of its children.

    Args:
        knowledge: The children given their own answers and what lies below.
        parts: Position of a child -> its part; children that lie outside are missing.
    """
    children = sum(len(child.children) for child in knowledge.children)
    if not knowledge.children:  # the single child of a family of which nothing is known has its parent's counts
        return parts[0]
    if len(parts) == children and all(part.is_whole for part in parts.values()):
        return UnionPart()
    return _above(_with_groups(knowledge, parts), knowledge.independent(), knowledge.algebra)


def spread_at_top(knowledge: FamilyKnowledge, parts: Mapping[int, UnionPart]) -> tuple[Blocks, Integers]:
    """Return roots of the covariance of a union at the top, by component, on all sites, and its exact sums.

    Args:
        knowledge: The children of the top family.
        parts: Position of a child -> its part; children that lie outside are missing.
    """
    found, children = _with_groups(knowledge, parts), knowledge.independent()
    roots = []
    for number, component in enumerate(knowledge.algebra.components):
        size = len(component.sites)
        moved = (_moved(found, child, number, size).reshape(-1, size) for child in children)
        roots.append(stacked([*moved, *_spreads(found, number)], size))
    return tuple(roots), _exact(found, children, knowledge.algebra)


def _with_groups(knowledge: FamilyKnowledge, parts: Mapping[int, UnionPart]) -> dict[int, UnionPart]:
    """The parts, those of each group of children as if the group were a child, named by its first member."""
    found = dict(parts)
    for own, _ in knowledge.groups:
        inside = {child: found.pop(child) for child in own.tolist() if child in found}
        if inside:
            members = [child.some(own) for child in knowledge.children]
            is_whole = len(inside) == len(own) and all(part.is_whole for part in inside.values())
            found[int(own[0])] = UnionPart() if is_whole else _above(inside, members, knowledge.algebra)
    return found


def _above(parts: Mapping[int, UnionPart], children: Iterable[Alike], algebra: Decomposition) -> UnionPart:
    """Return the part in the sum S of independent children: A = S^-1 sum C_k A_k, and V of what A leaves (E-65).

    With roots M_k of C_k and N of S^-1, the M_k N' are orthonormal together: the M_k A_k are taken apart into their
    projection on these and the rest, whose squares are added.
    """
    kept = list(children)
    total = summed(kept, algebra)
    slopes, spreads = [], []
    for number, (white, own) in enumerate(
        zip(precision_of(total.frame, total.covariance, total.exact), total.frame.positions, strict=True)
    ):
        size = len(algebra.components[number].sites)
        inside = [each.frame.within(total.frame)[number] for each in kept]
        shares = [each.blocks[number] @ white[:, sites].T for each, sites in zip(kept, inside, strict=True)]
        moved = [_moved(parts, each, number, size) for each in kept]
        common = np.zeros((len(white), size))
        for share, rows in zip(shares, moved, strict=True):
            common += np.tensordot(share, rows, axes=((0, 1), (0, 1)))
        slope = np.zeros((size, size))
        slope[own] = white.T @ common
        rest = [(rows - share @ common).reshape(-1, size) for share, rows in zip(shares, moved, strict=True)]
        slopes.append(slope)
        spreads.append(stacked([*rest, *_spreads(parts, number)], size))
    return UnionPart(tuple(slopes), tuple(spreads), _exact(parts, kept, algebra))


def _moved(parts: Mapping[int, UnionPart], children: Alike, number: int, size: int) -> Floats:
    """Return M_k A_k of some children in one component, shape ``(G, r, size)``; 0 of those outside."""
    root, own = children.blocks[number], children.frame.positions[number]
    found = np.zeros((*root.shape[:2], size))
    for place, child in enumerate(children.children.tolist()):
        part = parts.get(child)
        if part is not None and part.slope is None:
            found[place][:, own] = root[place]
        elif part is not None and part.slope is not None:
            found[place] = root[place] @ part.slope[number][own]
    return found


def _spreads(parts: Mapping[int, UnionPart], number: int) -> list[Floats]:
    """Return the roots of V_k in one component."""
    return [part.spread[number] for part in parts.values() if part.spread is not None]


def _exact(parts: Mapping[int, UnionPart], children: Iterable[Alike], algebra: Decomposition) -> Integers:
    """Return the groups of sites whose sum over all parts is exact; a total of their parent tells of no part of it."""
    found = []
    for each in children:
        own = [parts.get(child) for child in each.children.tolist()]
        if any(part is not None and part.is_whole for part in own):
            found.append((each.frame.positions[0], each.exact))
        for part in own:
            if part is not None and part.exact is not None:
                live = np.flatnonzero(part.exact >= 0)
                found.append((live, part.exact[live]))
    return common_sums(found, algebra.sites)
