"""Merging the tracts of a county into tract groups that bring entities closer to the spine (Algorithm 2).

Source: Cumings-Menon et al., section 4. "paper" is the greedy method of the paper, "released" that of the code released
for P.L. 94-171 of 2020, which no production run used. Both are applied to one county at a time, with the county as the
root of the distances, so that counties can be built apart; the paper takes the nation as the root.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isqrt
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from das_spark.geography.grouping import cut


@dataclass(frozen=True, slots=True, eq=False)
class TractDistances:
    """Distances of all entities of a county, seen from its tracts.

    Attributes:
        inside: (entities, tracts) c[k, tract] of Algorithm 1.
        outside: (entities, tracts) the same of the complement.
        touched: (entities, tracts) whether a block of the tract lies in the entity.
        coded: (entities,) whether the entity is a code of a category of areas, also the code of no area; the others are
            combinations of group quarters.
        named: (entities,) whether it is the code of an area.
    """

    inside: NDArray[np.int64]
    outside: NDArray[np.int64]
    touched: NDArray[np.bool_]
    coded: NDArray[np.bool_]
    named: NDArray[np.bool_]


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
    """One group for each tract.

    Args:
        tracts: Distances of the county; only the number of its tracts is used.
        fanout_cutoff: Not used.
        entity_threshold: Not used.
        group_type: Not used.

    Returns:
        For each group the positions of its tracts.
    """
    return [[tract] for tract in range(tracts.inside.shape[1])]


def paper_merger(tracts: TractDistances, fanout_cutoff: int, entity_threshold: int, group_type: str) -> list[list[int]]:
    """Merge pairs as long as the falling vector of distances does not grow (Algorithm 2 of the paper).

    Rounds over all pairs are repeated until one changes nothing. A group holds sqrt(n) + fanout_cutoff tracts at most.

    Args:
        tracts: Distances of the county.
        fanout_cutoff: How many more than the root of the number of tracts a group may hold, the root rounded down.
        entity_threshold: Not used.
        group_type: Not used.

    Returns:
        For each group the positions of its tracts, in order.
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

    Args:
        tracts: Distances of the county.
        fanout_cutoff: How many more than the root of the number of tracts a group may hold, the root rounded down.
        entity_threshold: Distance up to which an area is left alone, in geounits.
        group_type: How lists are cut; the release for P.L. 94-171 knows "orig" only.

    Returns:
        For each group the positions of its tracts, in the order in which they came together; groups by their first.
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
