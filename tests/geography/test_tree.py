"""Trees of a county: order, paths and indices."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.geography.tree import tree_of

labels = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=40)


@settings(max_examples=60, deadline=None)
@given(labels)
def test_every_block_lies_where_its_labels_say(pairs) -> None:
    upper, lower = (np.array(column) for column in zip(*pairs, strict=True))
    tree = tree_of(len(pairs), [upper, lower], (1, 1, 1, 1), 4)
    names = sorted({(one,) for one, _ in pairs}), sorted(set(pairs))
    _, high, low, block = tree.paths()
    for leaf, row in enumerate(tree.rows):
        assert names[0][high[leaf]] == (upper[row],)
        assert names[1][low[leaf]] == (upper[row], lower[row])
        assert block[leaf] == leaf
    assert sorted(tree.rows.tolist()) == list(range(len(pairs)))
    assert set(tree.path_sums().tolist()) == {4}


def test_indices_count_the_children_of_each_parent() -> None:
    tree = tree_of(5, [np.array([3, 1, 1, 3, 3])], (1, 1, 1), 3)
    assert tree.rows.tolist() == [1, 2, 0, 3, 4]
    assert tree.child_indices(0).tolist() == [1]
    assert tree.child_indices(2).tolist() == [1, 2, 1, 2, 3]
    assert tree.fan_outs(1).tolist() == [2, 3]


def test_a_county_may_have_nothing_between_it_and_its_blocks() -> None:
    tree = tree_of(3, [], (1, 1), 2)
    assert [level.tolist() for level in tree.parents] == [[0], [0, 0, 0]]
