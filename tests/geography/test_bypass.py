"""Bypassing: the rules, the order of what is appended, the cutoff, and budgets that only move."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.errors import GeographyError
from das_spark.geography import bypass_rule
from das_spark.geography.tree import (
    Tree,
    absorb_single_children,
    bypass,
    bypassed,
    drop_level,
    single_child_rule,
    sweep,
    tree_of,
    variance_rule,
)


def shares(tree: Tree) -> list[list[Fraction]]:
    return [[Fraction(int(value), tree.denominator) for value in level] for level in tree.shares]


def test_the_example_of_pure_dp() -> None:
    # A tract (share 1/5) of two groups (3/10) of three and five blocks (1/2).
    groups = np.array([0] * 3 + [1] * 5)
    tree = tree_of(8, [np.zeros(8, np.int64), groups], (0, 2, 3, 5), 10)
    tree = bypass(tree, 2, bypassed(tree, 2, variance_rule, 150))
    assert tree.fan_outs(1).tolist() == [4]
    assert shares(tree)[2] == [Fraction(3, 10), *[Fraction(4, 5)] * 3], "what is appended stands last"
    tree = bypass(tree, 1, bypassed(tree, 1, variance_rule, 150))
    assert shares(tree)[1] == [Fraction(1, 2), 1, 1, 1]
    assert set(shares(tree)[2]) == {0}
    assert tree.fan_outs(2).tolist() == [5, 1, 1, 1]
    assert shares(tree)[3] == [Fraction(1, 2)] * 5 + [0] * 3
    assert set(tree.path_sums().tolist()) == {10}
    assert tree.rows.tolist() == [3, 4, 5, 6, 7, 0, 1, 2]


@pytest.mark.parametrize(("children", "expected"), [(1, True), (2, True), (3, True), (4, False)])
def test_equal_shares_are_bypassed_up_to_three_children(children: int, expected: bool) -> None:
    one = np.array([7])
    assert variance_rule(np.array([children]), one, one).tolist() == [expected]
    assert single_child_rule(np.array([children]), one, one).tolist() == [children == 1]


def test_the_cutoff_lets_the_first_siblings_through() -> None:
    # A tract of four groups of three blocks: each bypass adds two to the fan-out of the tract.
    tree = tree_of(12, [np.zeros(12, np.int64), np.repeat(np.arange(4), 3)], (1, 1, 1, 1), 4)
    for cutoff, expected in ((12, 4), (11, 3), (10, 3), (8, 2), (6, 1), (5, 0)):
        chosen = bypassed(tree, 2, variance_rule, cutoff)
        assert chosen.tolist() == [True] * expected + [False] * (4 - expected)
        assert max(bypass(tree, 2, chosen).fan_outs(1)) <= max(cutoff, 4)


def test_only_children_are_bypassed_whatever_the_cutoff() -> None:
    tree = tree_of(5, [np.arange(5), np.arange(5)], (1, 1, 1, 1), 4)
    assert bypassed(tree, 2, single_child_rule, 0).all()
    assert bypassed(tree, 2, variance_rule, 0).all()


def test_forced_levels_and_left_out_levels() -> None:
    tree = tree_of(4, [np.array([0, 0, 1, 1])] * 2, (1, 0, 1, 1), 3)
    with pytest.raises(GeographyError, match="single children"):
        drop_level(tree, 2)
    settled, counts = sweep(tree, single_child_rule, 150, forced=(1,))
    assert counts == (0, 2, 0)
    dropped = drop_level(settled, 2)
    assert [level.tolist() for level in dropped.parents] == [[0], [0, 0], [0, 0, 1, 1]]
    assert [level.tolist() for level in dropped.shares] == [[1], [1, 1], [1] * 4]


def test_a_county_may_be_left_to_another_rule() -> None:
    tree = tree_of(6, [np.array([0, 0, 0, 1, 1, 1])], (1, 5, 5), 11)
    assert sweep(tree, variance_rule, 150)[0].parents[0].size == 6
    assert sweep(tree, variance_rule, 150, top=single_child_rule)[0].parents[0].size == 1


@st.composite
def trees(draw) -> Tree:
    count = draw(st.integers(1, 25))
    upper = np.array(draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    lower = np.array(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
    parts = draw(st.lists(st.integers(0, 9), min_size=4, max_size=4))
    return tree_of(count, [upper, lower], parts, sum(parts) or 1)


@settings(max_examples=60, deadline=None)
@given(trees(), st.sampled_from(["pure_dp", "zcdp"]), st.integers(1, 30))
def test_paths_keep_their_budget_and_blocks_their_place(tree: Tree, framework: str, cutoff: int) -> None:
    settled, _ = sweep(tree, bypass_rule(framework), cutoff)
    assert set(settled.path_sums().tolist()) == {sum(int(level[0]) for level in tree.shares)}
    assert sorted(settled.rows.tolist()) == list(range(tree.rows.size))
    for above, below in zip(settled.parents, settled.parents[1:], strict=False):
        assert (np.diff(below) >= 0).all()
        assert np.unique(below).tolist() == list(range(above.size))
    for level in range(settled.depth - 1):
        only = settled.fan_outs(level)[settled.parents[level + 1]] == 1
        assert (settled.shares[level + 1][only] == 0).all(), "a single child is never measured"
    with_two = [level for level in range(settled.depth) if (settled.shares[level] == 0).any()]
    if all(level[0] > 0 for level in tree.shares):
        for level in with_two:
            zero = settled.shares[level] == 0
            assert (settled.fan_outs(level - 1)[settled.parents[level]][zero] == 1).all()


@settings(max_examples=60, deadline=None)
@given(trees(), st.data())
def test_bypassing_one_at_a_time_gives_the_same_tree(tree: Tree, data) -> None:
    level = data.draw(st.integers(0, tree.depth - 2))
    size = tree.parents[level].size
    chosen = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    at_once = bypass(tree, level, chosen)
    # Lists of lists, as the algorithm is told: remove a geounit, append its replacements.
    lists: dict[int, list[tuple[int, list[int]]]] = {}
    for unit in range(size):
        kids = np.flatnonzero(tree.parents[level + 1] == unit).tolist()
        lists.setdefault(int(tree.parents[level][unit]), []).append((unit, kids))
    expected = []
    for parent, members in sorted(lists.items()):
        current = [(int(tree.shares[level][unit]), kids) for unit, kids in members]
        for unit, kids in members:
            if chosen[unit]:
                current.remove((int(tree.shares[level][unit]), kids))
                current += [(int(tree.shares[level][unit] + tree.shares[level + 1][kid]), [kid]) for kid in kids]
        expected += [(parent, share, len(kids)) for share, kids in current]
    found = list(zip(at_once.parents[level], at_once.shares[level], at_once.fan_outs(level), strict=True))
    assert [tuple(map(int, row)) for row in found] == expected


def test_parents_of_one_child_absorb_its_share() -> None:
    above, below = absorb_single_children(np.array([0, 1, 1]), np.array([5, 5]), np.array([2, 3, 4]))
    assert (above.tolist(), below.tolist()) == ([7, 5], [0, 3, 4])


def test_huge_denominators_stay_exact() -> None:
    huge = 3 * 10**30
    tree = tree_of(3, [np.array([0, 1, 1])], (huge // 3, huge // 3, huge // 3), huge)
    settled, _ = sweep(tree, variance_rule, 150)
    assert settled.path_sums().tolist() == [huge] * 3


def test_a_framework_without_a_rule_is_refused() -> None:
    with pytest.raises(GeographyError, match="renyi"):
        bypass_rule("renyi")
