"""Off-spine distance: the known values, and the least number found by trying all sets of geounits."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.geography.distance import climb, climb_to_top, entity_distances, name_entities, touch_blocks

#: A root, three geounits in between with two blocks each.
PARENTS = (np.zeros(1, np.int64), np.zeros(3, np.int64), np.array([0, 0, 1, 1, 2, 2]))


def distance(parents, blocks) -> int:
    blocks = np.array(sorted(blocks), dtype=np.int64)
    return int(entity_distances(touch_blocks(np.zeros(blocks.size, np.int64), blocks), parents, 1)[0])


@pytest.mark.parametrize(
    ("entity", "expected"),
    [((1, 2, 3), 2), ((1, 3, 5), 3), ((1, 2, 3, 4, 5), 2), ((4,), 1), ((1, 3, 4, 5, 6), 2), ((1, 2, 3, 4, 5, 6), 1)],
)
def test_the_known_distances_of_a_small_tree(entity: tuple[int, ...], expected: int) -> None:
    assert distance(PARENTS, {block - 1 for block in entity}) == expected


def leaf_sets(parents) -> list[np.ndarray]:
    """For every geounit the 0/1 vector of its blocks."""
    found = []
    place = np.arange(parents[-1].size)
    for level in reversed(range(len(parents))):
        found += [(place == unit).astype(int) for unit in range(parents[level].size)]
        place = parents[level][place]
    return found


def least_number(parents, entity: np.ndarray) -> int:
    """Fewest geounits whose sum with signs is the entity, by trying all signs: 3 to the number of geounits."""
    vectors = np.unique(np.array(leaf_sets(parents)), axis=0)
    signs = np.array(list(product((-1, 0, 1), repeat=len(vectors))))
    fits = (signs @ vectors == entity).all(axis=1)
    return int(np.abs(signs[fits]).sum(axis=1).min())


@st.composite
def small_trees(draw, most: int = 6):
    """Parents of three levels: a root, geounits in between, few blocks."""
    blocks = np.sort(np.array(draw(st.lists(st.integers(0, 2), min_size=1, max_size=most))))
    blocks = np.unique(blocks, return_inverse=True)[1].astype(np.int64)
    return (np.zeros(1, np.int64), np.zeros(blocks.max() + 1, np.int64), blocks)


@settings(max_examples=40, deadline=None)
@given(small_trees(), st.data())
def test_the_recursion_finds_the_least_number_of_geounits(parents, data) -> None:
    inside = np.array(data.draw(st.lists(st.booleans(), min_size=parents[-1].size, max_size=parents[-1].size)))
    if inside.any():
        assert distance(parents, np.flatnonzero(inside)) == least_number(parents, inside.astype(int))


def dense_distance(parents, inside: np.ndarray) -> int:
    """The recursion, one geounit at a time, for every geounit whether touched or not."""
    own, other = inside.astype(int).tolist(), (~inside).astype(int).tolist()
    for level in reversed(range(1, len(parents))):
        sums = [[0, 0] for _ in range(parents[level].max() + 1)]
        for unit, parent in enumerate(parents[level]):
            sums[parent][0] += own[unit]
            sums[parent][1] += other[unit]
        own = [min(a, 1 + b) for a, b in sums]
        other = [min(b, 1 + a) for a, b in sums]
    return own[0]


def test_many_entities_at_once_are_what_each_is_alone() -> None:
    draw = np.random.default_rng(1)
    middle = np.sort(draw.integers(0, 5, 40))
    middle = np.unique(middle, return_inverse=True)[1]
    low = np.sort(np.concatenate([np.arange(40), draw.integers(0, 40, 400)]))
    parents = (np.zeros(1, np.int64), np.zeros(middle.max() + 1, np.int64), middle, low)
    inside = draw.random((30, low.size)) < draw.random((30, 1))
    entity, block = np.nonzero(inside)
    found = entity_distances(touch_blocks(entity, block), parents, 30)
    assert found.tolist() == [dense_distance(parents, row) for row in inside]


def test_a_level_of_only_children_changes_no_distance() -> None:
    root, middle, blocks = PARENTS
    longer = (root, middle, np.arange(3), blocks)
    copied = (root, middle, blocks, np.arange(6))
    for code in range(1, 64):
        entity = [block for block in range(6) if code >> block & 1]
        assert distance(longer, entity) == distance(copied, entity) == distance(PARENTS, entity)


def test_an_entity_that_is_a_geounit_has_distance_one_and_nothing_has_none() -> None:
    assert distance(PARENTS, (2, 3)) == 1
    empty = np.empty(0, np.int64)
    assert entity_distances(touch_blocks(empty, empty), PARENTS, 2).tolist() == [0, 0]


def test_names_make_entities_and_repeated_pairs_count_once() -> None:
    names, touch = name_entities(np.array(["b", "", "a", "a", "", ""]))
    assert names.tolist() == ["a", "b"]
    assert entity_distances(touch, PARENTS, 2).tolist() == [1, 1]
    twice = touch_blocks(np.array([0, 0]), np.array([3, 3]))
    assert twice.unit.tolist() == [3]


def test_counties_apart_and_joined_are_the_same_recursion() -> None:
    touch = touch_blocks(np.zeros(4, np.int64), np.array([0, 1, 2, 4]))
    middle = climb(touch, PARENTS[2])
    top = climb_to_top(middle, (PARENTS[0], PARENTS[1]))
    assert top.inside.tolist() == [distance(PARENTS, {0, 1, 2, 4})] == [3]
    assert middle.unit.tolist() == [0, 1, 2]
