"""Merging tracts: no method lets the vector of distances grow where it promises not to, and limits hold."""

from __future__ import annotations

from math import isqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.geography.grouping import GROUP_TYPES, MERGERS, TractDistances


def falling_distances(tracts: TractDistances, groups, entities=None) -> list[int]:
    """Distances of the entities if the county consists of these groups, largest first."""
    chosen = range(tracts.inside.shape[0]) if entities is None else entities
    found = []
    for entity in chosen:
        own, other = 0, 0
        for group in groups:
            inside, outside = tracts.inside[entity, group].sum(), tracts.outside[entity, group].sum()
            own += min(inside, 1 + outside)
            other += min(outside, 1 + inside)
        found.append(int(min(own, 1 + other)))
    return sorted(found, reverse=True)


def areas(inside, outside) -> TractDistances:
    """Entities that are areas, all of them."""
    every = np.ones(inside.shape[0], dtype=bool)
    return TractDistances(inside, outside, inside > 0, every, every)


def whole_tracts(*entities: tuple[int, ...], count: int) -> TractDistances:
    """Areas that consist of whole tracts."""
    inside = np.array([[int(tract in entity) for tract in range(count)] for entity in entities])
    return areas(inside, 1 - inside)


def bounds(tracts: TractDistances):
    """Distances of the areas if the county consists of its tracts."""
    return np.minimum(tracts.inside.sum(axis=1), 1 + tracts.outside.sum(axis=1))


GROUP_TYPE = st.sampled_from(sorted(GROUP_TYPES))


@st.composite
def counties(draw):
    count, entities = draw(st.integers(1, 9)), draw(st.integers(1, 4))
    numbers = st.lists(st.integers(0, 4), min_size=count * entities, max_size=count * entities)
    inside = np.reshape(draw(numbers), (entities, count))
    outside = np.reshape(draw(numbers), (entities, count))
    outside = np.maximum(outside, inside == 0)
    own, other = np.minimum(inside, 1 + outside), np.minimum(outside, 1 + inside)
    return areas(own, other)


@settings(max_examples=60, deadline=None)
@given(counties(), st.sampled_from(sorted(MERGERS)), GROUP_TYPE, st.integers(0, 3), st.integers(0, 3))
def test_every_tract_is_in_one_group_within_the_limit(tracts, name, group_type, cutoff: int, threshold: int) -> None:
    groups = MERGERS[name](tracts, cutoff, threshold, group_type)
    count = tracts.inside.shape[1]
    assert sorted(tract for group in groups for tract in group) == list(range(count))
    limit = isqrt(count) + cutoff
    # Where all areas are near, the released code joins up to `limit` groups that hold as many tracts each.
    joined = name == "released" and (bounds(tracts) <= threshold).all()
    assert max(map(len, groups)) <= (limit * limit if joined else limit)
    assert [group[0] for group in groups] == sorted(group[0] for group in groups)


@settings(max_examples=60, deadline=None)
@given(counties(), st.integers(0, 3))
def test_the_papers_method_never_lets_the_vector_grow_and_ends_where_no_pair_can(tracts, cutoff: int) -> None:
    groups = MERGERS["paper"](tracts, cutoff, 0, "orig")
    before = falling_distances(tracts, [[tract] for tract in range(tracts.inside.shape[1])])
    after = falling_distances(tracts, groups)
    assert after <= before
    limit = isqrt(tracts.inside.shape[1]) + cutoff
    for one in range(len(groups)):
        for other in range(one + 1, len(groups)):
            if len(groups[one]) + len(groups[other]) <= limit:
                rest = [group for at, group in enumerate(groups) if at not in (one, other)]
                assert falling_distances(tracts, [*rest, groups[one] + groups[other]]) > after


def test_tracts_of_one_entity_come_together() -> None:
    tracts = whole_tracts((0, 1, 2), (3, 4, 5), count=6)
    assert falling_distances(tracts, [[tract] for tract in range(6)]) == [3, 3]
    for name in ("paper", "released"):
        groups = MERGERS[name](tracts, 2, 0, "orig")
        assert falling_distances(tracts, groups) == [1, 1]
        assert groups == [[0, 1, 2], [3, 4, 5]]
    assert MERGERS["none"](tracts, 2, 0, "orig") == [[tract] for tract in range(6)]


def test_the_papers_method_accepts_ties_and_so_misses_what_the_released_one_sees_first() -> None:
    tracts = whole_tracts((0, 2, 4), (1, 3, 5), count=6)
    assert falling_distances(tracts, MERGERS["paper"](tracts, 2, 0, "orig")) == [3, 3]
    assert falling_distances(tracts, MERGERS["released"](tracts, 2, 0, "orig")) == [1, 1]


def test_the_released_method_joins_neighbours_when_all_areas_are_near() -> None:
    tracts = whole_tracts((0,), (1,), (2,), (3,), count=4)
    assert MERGERS["released"](tracts, 0, 9, "orig") == [[0, 1], [2, 3]]


@settings(max_examples=60, deadline=None)
@given(counties(), st.integers(0, 3))
def test_the_released_method_never_lets_the_vector_of_distant_areas_grow(tracts, threshold: int) -> None:
    distant = np.flatnonzero(bounds(tracts) > threshold)
    if distant.size:
        # Tracts of the same entities are merged first, whatever that does.
        cutoff = 1
        limit = isqrt(tracts.inside.shape[1]) + cutoff
        alike: dict[bytes, list[int]] = {}
        for tract in range(tracts.inside.shape[1]):
            alike.setdefault(tracts.touched[:, tract].tobytes(), []).append(tract)
        first = [group[at : at + limit] for group in alike.values() for at in range(0, len(group), limit)]
        groups = MERGERS["released"](tracts, cutoff, threshold, "orig")
        assert falling_distances(tracts, groups, distant) <= falling_distances(tracts, first, distant)


@pytest.mark.parametrize("name", ["paper", "released"])
def test_tracts_that_no_entity_touches_are_merged_on_ties(name: str) -> None:
    tracts = whole_tracts((0,), count=4)
    assert len(MERGERS[name](tracts, 0, 0, "orig")) < 4
