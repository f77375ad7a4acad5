"""Groups: sizes, order, and both ways to cut a list."""

from __future__ import annotations

from math import ceil, floor, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.geography.grouping import GROUP_TYPES, cut, group_labels, size_limits


def sizes(count: int, cutoff: int, group_type: str) -> list[int]:
    """Sizes of the groups of one list of one kind, in order."""
    labels = group_labels(np.zeros(count, np.int64), np.zeros(count, np.int64), cutoff, group_type)
    assert (np.diff(labels) >= 0).all()
    return np.bincount(labels).tolist()


@pytest.mark.parametrize(("count", "cutoff", "limit"), [(7, 0, 3), (9, 0, 4), (9, 12, 16), (1, 12, 14), (100, 12, 23)])
def test_the_limit_is_the_root_plus_the_cutoff_plus_one(count: int, cutoff: int, limit: int) -> None:
    assert size_limits(np.array([count]), cutoff).tolist() == [limit]


@given(st.integers(1, 10**9), st.integers(0, 20))
def test_the_limit_exceeds_the_papers_by_one_for_squares_only(count: int, cutoff: int) -> None:
    limit = int(size_limits(np.array([count]), cutoff)[0])
    assert limit == floor(sqrt(count) + cutoff + 1)
    assert limit - (ceil(sqrt(count)) + cutoff) == (1 if floor(sqrt(count)) ** 2 == count else 0)


def test_full_groups_leave_what_is_left_for_the_last() -> None:
    assert sizes(7, 0, "orig") == [3, 3, 1]
    assert sizes(8, 0, "orig") == [3, 3, 2]


def test_even_groups_differ_by_one_and_the_smaller_come_first() -> None:
    assert sizes(8, 0, "even") == [2, 3, 3]
    assert sizes(11, 0, "even") == [3, 4, 4]
    assert sizes(7, 0, "even") == [3, 3, 1], "one element over is left to itself"
    assert sizes(12, 0, "even") == [4, 4, 4]
    assert sizes(3, 12, "even") == [3]


@given(st.integers(1, 60), st.integers(0, 3), st.sampled_from([*GROUP_TYPES]))
def test_one_list_is_cut_as_the_children_of_one_parent_are(count: int, cutoff: int, group_type: str) -> None:
    elements = [chr(64 + number) for number in range(count)]
    found = cut(elements, int(size_limits(np.array([count]), cutoff)[0]), group_type)
    assert "".join(map("".join, found)) == "".join(elements)
    assert [len(group) for group in found] == sizes(count, cutoff, group_type)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=60), st.sampled_from([*GROUP_TYPES])
)
def test_groups_keep_parents_and_kinds_apart_and_hold_to_their_limit(pairs, group_type: str) -> None:
    parent, kind = (np.array(column) for column in zip(*pairs, strict=True))
    parent = np.unique(parent, return_inverse=True)[1]
    labels = group_labels(parent, kind, 0, group_type)
    limits = size_limits(np.bincount(parent), 0)
    seen = []
    for label in range(labels.max() + 1):
        members = np.flatnonzero(labels == label)
        assert members.size
        assert len({(parent[one], kind[one]) for one in members}) == 1
        assert members.size <= limits[parent[members[0]]]
        seen.append((parent[members[0]], kind[members[0]], members[0]))
    assert seen == sorted(seen)
