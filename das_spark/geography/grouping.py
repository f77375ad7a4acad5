"""Stage 1 of an optimized spine: children of a geounit in groups, and tracts of a county in tract groups (Algorithm 2).

Source: Cumings-Menon et al., "Geographic Spines in the 2020 Census Disclosure Avoidance System", section 4.

*Groups* have about the root of the number of children. The size limit is that of the released code, which exceeds the
paper's by one where the number of children is a square number.

*Merging tracts* brings entities closer to the spine. "paper" is the greedy method of the paper, "released" that of the
code released for P.L. 94-171 of 2020, which no production run used. Both are applied to one county at a time, with the
county as the root of the distances, so that counties can be built apart; the paper takes the nation as the root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

_Element = TypeVar("_Element")

#: From position in the list, length of the list and size limit, all (elements,), to the number of the group.
GroupRule: TypeAlias = Callable[[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]], NDArray[np.int64]]


def size_limits(members: NDArray[np.int64], fanout_cutoff: int) -> NDArray[np.int64]:
    """Largest number of elements of a group (S-12, S-13): floor(sqrt(n) + fanout_cutoff + 1)."""
    return np.floor(np.sqrt(members)).astype(np.int64) + fanout_cutoff + 1


def full_groups(position: NDArray[np.int64], length: NDArray[np.int64], limit: NDArray[np.int64]) -> NDArray[np.int64]:
    """Groups of exactly the limit, and a last one of what is left ("orig"): number of each element's in its list."""
    return position // limit


def even_groups(position: NDArray[np.int64], length: NDArray[np.int64], limit: NDArray[np.int64]) -> NDArray[np.int64]:
    """As few groups, of sizes that differ by one at most, the smaller first ("even").

    Lists that fill their groups, or leave one element over, are cut as in `full_groups`.
    """
    groups = -(-length // limit)
    small = length // groups
    number_small = groups - length % groups
    border = number_small * small
    spread = np.where(position < border, position // small, number_small + (position - border) // (small + 1))
    return np.where((length <= limit) | (length % limit <= 1), position // limit, spread)


#: Name of a way to cut a list -> the rule.
GROUP_TYPES: Final[Mapping[str, GroupRule]] = {"orig": full_groups, "even": even_groups}


def cut(elements: Sequence[_Element], limit: int, group_type: str) -> list[list[_Element]]:
    """Cut one list, which is not empty, into groups of neighbours."""
    length = np.full(len(elements), len(elements))
    number = GROUP_TYPES[group_type](np.arange(len(elements)), length, np.full(len(elements), limit))
    groups: list[list[_Element]] = [[] for _ in range(int(number[-1]) + 1)]
    for element, group in zip(elements, number.tolist(), strict=True):
        groups[group].append(element)
    return groups


def group_labels(
    parent: NDArray[np.int64], kind: NDArray[np.int64], fanout_cutoff: int, group_type: str = "orig"
) -> NDArray[np.int64]:
    """Group elements of one parent and one kind; groups are numbered by parent, then kind, then position."""
    order = np.lexsort((np.arange(parent.size), kind, parent))
    owner, sort = parent[order], kind[order]
    first = np.concatenate([[True], (owner[1:] != owner[:-1]) | (sort[1:] != sort[:-1])])
    starts = np.flatnonzero(first)
    lengths = np.diff(np.append(starts, owner.size))
    run = np.cumsum(first) - 1
    limit = size_limits(np.bincount(owner), fanout_cutoff)[owner]
    chunk = GROUP_TYPES[group_type](np.arange(owner.size) - starts[run], lengths[run], limit)
    opens = first | np.concatenate([[True], chunk[1:] != chunk[:-1]])
    labels = np.empty(parent.size, dtype=np.int64)
    labels[order] = np.cumsum(opens) - 1
    return labels


def ranks(values: NDArray[np.str_]) -> NDArray[np.int64]:
    """Position (n,) of every text among the distinct ones, sorted as text."""
    return np.unique(values, return_inverse=True)[1].astype(np.int64)


@dataclass(frozen=True, slots=True, eq=False)
class TractDistances:
    """Distances of all entities of a county, seen from its tracts."""

    inside: NDArray[np.int64]  # (entities, tracts) c[k, tract] of Algorithm 1
    outside: NDArray[np.int64]  # (entities, tracts) the same of the complement
    touched: NDArray[np.bool_]  # (entities, tracts) whether a block of the tract lies in the entity
    # (entities,) whether the entity is a code of a category of areas, also the code of no area; the others are
    # combinations of group quarters
    coded: NDArray[np.bool_]
    named: NDArray[np.bool_]  # (entities,) whether it is the code of an area


#: From distances, the number added to the root of the number of tracts, the entity threshold, and how lists are cut (a
#: name in `GROUP_TYPES`), to groups of tracts.
Merger: TypeAlias = Callable[[TractDistances, int, int, str], list[list[int]]]


class _Groups:
    """Groups of tracts while they are merged, with the sums that the recursion needs."""

    def __init__(self, tracts: TractDistances, groups: list[list[int]], entities: NDArray[np.bool_]) -> None:
        self.members = groups
        self.inside = np.stack([tracts.inside[entities][:, group].sum(axis=1) for group in groups], axis=1)
        self.outside = np.stack([tracts.outside[entities][:, group].sum(axis=1) for group in groups], axis=1)

    def sizes(self) -> NDArray[np.int64]:
        return np.array([len(group) for group in self.members], dtype=np.int64)

    def merges(self, one: int, limit: int) -> NDArray[np.int64]:
        """Later groups that `one` may be merged with: not too large together, and no distance vector grows."""
        sizes = self.sizes()
        later: NDArray[np.int64] = one + 1 + np.flatnonzero(sizes[one] + sizes[one + 1 :] <= limit)
        if not later.size:
            return later
        inside, outside = _least(self.inside, self.outside)
        together = _least(
            self.inside[:, [one]] + self.inside[:, later], self.outside[:, [one]] + self.outside[:, later]
        )
        total = inside.sum(axis=1, keepdims=True), outside.sum(axis=1, keepdims=True)
        merged = [
            whole - level[:, [one]] - level[:, later] + new
            for whole, level, new in zip(total, (inside, outside), together, strict=True)
        ]
        before, after = _falling(_least(*total)[0]), _falling(_least(merged[0], merged[1])[0])
        fitting: NDArray[np.int64] = later[_not_after(after, before)]
        return fitting

    def merge(self, one: int, other: int) -> None:
        self.members[one] += self.members.pop(other)
        for sums in ("inside", "outside"):
            values = getattr(self, sums)
            values[:, one] += values[:, other]
            setattr(self, sums, np.delete(values, other, axis=1))


def _least(inside: NDArray[np.int64], outside: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    return np.minimum(inside, 1 + outside), np.minimum(outside, 1 + inside)


def _falling(distances: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.sort(distances, axis=0)[::-1]


def _not_after(after: NDArray[np.int64], before: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether each column of `after` is lexicographically at most the column `before`."""
    difference = after - before
    if not difference.shape[0]:
        return np.ones(difference.shape[1], dtype=np.bool_)
    first = np.argmax(difference != 0, axis=0)
    return np.asarray(difference[first, np.arange(difference.shape[1])] <= 0, dtype=np.bool_)


def no_merger(tracts: TractDistances, fanout_cutoff: int, entity_threshold: int, group_type: str) -> list[list[int]]:
    """One group for each tract."""
    return [[tract] for tract in range(tracts.inside.shape[1])]


def paper_merger(tracts: TractDistances, fanout_cutoff: int, entity_threshold: int, group_type: str) -> list[list[int]]:
    """Merge pairs as long as the falling vector of distances does not grow (Algorithm 2 of the paper).

    Rounds over all pairs are repeated until one changes nothing. A group holds sqrt(n) + fanout_cutoff tracts at most.
    """
    count = tracts.inside.shape[1]
    everything = np.ones(tracts.inside.shape[0], dtype=np.bool_)
    groups = _Groups(tracts, no_merger(tracts, fanout_cutoff, entity_threshold, group_type), everything)
    limit, before = isqrt(count) + fanout_cutoff, 0
    while before != len(groups.members):
        before, one = len(groups.members), 0
        while one < len(groups.members):
            _merge_into(groups, one, limit)
            one += 1
    return [sorted(group) for group in groups.members]


def _merge_into(groups: _Groups, one: int, limit: int) -> None:
    following = one + 1
    while (partners := groups.merges(one, limit))[partners >= following].size:
        # What stood behind a merged group moves up into its place, and is tried next.
        following = int(partners[partners >= following][0])
        groups.merge(one, following)


def released_merger(
    tracts: TractDistances, fanout_cutoff: int, entity_threshold: int, group_type: str
) -> list[list[int]]:
    """Merge tracts of the same codes first, then pairs, looking at distant areas only (the released code).

    A group that comes of this holds floor(sqrt(n) + fanout_cutoff) tracts at most, as in the release for P.L. 94-171.
    Where every area is within the threshold already, the list of groups is cut into pieces of that many *groups*, so
    that a group may end up with more tracts.
    """
    limit = isqrt(tracts.inside.shape[1]) + fanout_cutoff
    groups = _alike(tracts.touched[tracts.coded], limit, group_type)
    bound = np.minimum(tracts.inside.sum(axis=1), 1 + tracts.outside.sum(axis=1))
    distant = tracts.named & (bound > entity_threshold)
    if not distant.any():
        return [[tract for group in piece for tract in group] for piece in cut(groups, limit, group_type)]
    open_groups, one = _Groups(tracts, groups, distant), 0
    while one < len(open_groups.members):
        partners = open_groups.merges(one, limit)
        if partners.size:
            # The search restarts; groups before `one` are excluded for good, so it is back here at once.
            open_groups.merge(one, int(partners[0]))
        else:
            one += 1
    return open_groups.members


def _alike(touched: NDArray[np.bool_], limit: int, group_type: str) -> list[list[int]]:
    by_codes: dict[bytes, list[int]] = {}
    for tract, column in enumerate(np.ascontiguousarray(touched.T)):
        by_codes.setdefault(column.tobytes(), []).append(tract)
    # A group stands where its first tract stood, which decides about pairs, pieces and geocodes.
    return sorted(group for same in by_codes.values() for group in cut(same, limit, group_type))


#: Name of a way to merge tracts -> the method.
MERGERS: Final[Mapping[str, Merger]] = {"none": no_merger, "paper": paper_merger, "released": released_merger}
