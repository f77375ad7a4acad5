"""The matrix mechanism on a tree: against dense algebra, and what the paper proves about bypassing."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from das_spark.errors import GeographyError
from das_spark.geography.comparison import climb_regression, precisions, regression_of, top_variances, upward
from das_spark.geography.distance import touch_blocks
from das_spark.geography.tree import bypass, tree_of


def membership(parents) -> list[np.ndarray]:
    """For each level a matrix (geounits, blocks): which blocks a geounit has."""
    place, found = np.arange(parents[-1].size), []
    for level in reversed(range(len(parents))):
        found.append((np.arange(parents[level].size)[:, None] == place).astype(float))
        place = parents[level][place]
    return found[::-1]


def dense_covariance(parents, precision) -> np.ndarray:
    """Covariance of the blocks' estimates: the inverse of the information matrix."""
    rows = np.concatenate(membership(parents))
    return np.linalg.inv(rows.T @ (np.concatenate(precision)[:, None] * rows))


def dense_variances(parents, precision) -> np.ndarray:
    rows = np.concatenate(membership(parents))
    return np.diag(rows @ dense_covariance(parents, precision) @ rows.T)


def entity_variances(touch, parents, precision, entities: int) -> np.ndarray:
    """Variance of the estimated total of every entity, from the pass upward that is tested."""
    subtree, parts = upward(parents, precision), regression_of(touch)
    for level in reversed(range(1, len(parents))):
        parts = climb_regression(parts, parents[level], subtree[level])
    return top_variances(parts, subtree[0], entities)


def geounit_variances(parents, precision) -> tuple[np.ndarray, ...]:
    """Diagonal of the variance matrix (19) for the total of every geounit, each taken as an entity."""
    levels = [rows > 0 for rows in membership(parents)]
    entity, block = np.nonzero(np.concatenate(levels))
    found = entity_variances(touch_blocks(entity, block), parents, precision, sum(map(len, levels)))
    return tuple(np.split(found, np.cumsum([len(level) for level in levels])[:-1]))


def random_tree(seed: int, blocks: int = 14):
    draw = np.random.default_rng(seed)
    return tree_of(blocks, [draw.integers(0, 3, blocks), draw.integers(0, 3, blocks)], (1, 1, 1, 1), 4)


def random_precisions(seed: int, parents, zeros: bool = True) -> tuple[np.ndarray, ...]:
    draw = np.random.default_rng(seed + 1)
    found = [draw.uniform(0.05, 4, level.size) for level in parents]
    if zeros:
        found = [level * (draw.random(level.size) < 0.8) for level in found[:-1]] + found[-1:]
        only = np.bincount(parents[-1])[parents[-1]] == 1
        # A single child may go unmeasured where its parent is measured.
        found[-1] = np.where(only & (found[-2][parents[-1]] > 0), 0, found[-1])
    return tuple(found)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_geounits_have_the_diagonal_of_the_dense_inverse(seed: int) -> None:
    parents = random_tree(seed).parents
    precision = random_precisions(seed, parents)
    np.testing.assert_allclose(
        np.concatenate(geounit_variances(parents, precision)), dense_variances(parents, precision), rtol=1e-8
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_variances_of_entities_agree_with_the_dense_inverse(seed: int) -> None:
    parents = random_tree(seed).parents
    precision = random_precisions(seed, parents)
    inside = np.random.default_rng(seed + 2).random((5, parents[-1].size)) < 0.5
    inside[0], inside[1] = True, parents[-1] == 0
    entity, block = np.nonzero(inside)
    found = entity_variances(touch_blocks(entity, block), parents, precision, 5)
    expected = np.diag(inside @ dense_covariance(parents, precision) @ inside.T)
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_a_single_unmeasured_child_is_what_the_others_leave_over() -> None:
    parents = (np.zeros(1, np.int64), np.zeros(3, np.int64))
    precision = (np.array([2.0]), np.array([0.0, 1.0, 0.5]))
    np.testing.assert_allclose(np.concatenate(geounit_variances(parents, precision)), [0.5, 3.5, 1, 2])
    touch = touch_blocks(np.array([0, 0, 1, 1]), np.array([0, 1, 1, 2]))
    # {0, 1} is the whole without block 2; {1, 2} are independent.
    np.testing.assert_allclose(entity_variances(touch, parents, precision, 2), [2.5, 3])


def test_two_unmeasured_siblings_cannot_be_told_apart_but_their_sum_can() -> None:
    parents = (np.zeros(1, np.int64), np.zeros(3, np.int64))
    precision = (np.array([2.0]), np.array([0.0, 0.0, 0.5]))
    np.testing.assert_allclose(np.concatenate(geounit_variances(parents, precision)), [0.5, np.inf, np.inf, 2])
    touch = touch_blocks(np.array([0, 0, 1, 2]), np.array([0, 1, 0, 2]))
    np.testing.assert_allclose(entity_variances(touch, parents, precision, 3), [2.5, np.inf, 2])


def test_a_part_of_the_tree_may_be_summed_up_and_joined_to_what_stands_above() -> None:
    # The same as the whole tree: counties are worked out apart, then the levels above.
    parents = random_tree(8).parents
    precision = random_precisions(8, parents, zeros=False)
    subtree = upward(parents, precision)
    upper = geounit_variances(parents[:2], (precision[0], 1 / subtree[1]))
    whole = geounit_variances(parents, precision)
    np.testing.assert_allclose(upper[1], whole[1])
    touch = touch_blocks(np.zeros(5, np.int64), np.arange(5))
    parts = regression_of(touch)
    for level in (3, 2, 1):
        parts = climb_regression(parts, parents[level], subtree[level])
    np.testing.assert_allclose(top_variances(parts, subtree[0], 1), entity_variances(touch, parents, precision, 1))


@pytest.mark.parametrize(("children", "parent", "child"), [(2, 0.3, 0.7), (3, 0.5, 0.5), (5, 0.2, 0.4), (4, 0.6, 0.1)])
def test_the_closed_forms_of_a_parent_and_equal_children(children: int, parent: float, child: float) -> None:
    parents = (np.zeros(1, np.int64), np.zeros(children, np.int64))

    def total(above: float, below: float) -> float:
        # Laplace noise of scale 1/g has variance 2/g^2.
        precision = (np.array([above**2 / 2]), np.full(children, below**2 / 2))
        return float(geounit_variances(parents, precision)[0][0])

    kept, moved = total(parent, child), total(0, parent + child)
    assert kept == pytest.approx(2 * children / (children * parent**2 + child**2))
    assert moved == pytest.approx(2 * children / (parent + child) ** 2)
    assert (moved <= kept + 1e-12) == (child >= (children - 1) * parent / 2 - 1e-12)


def before_and_after(tree, level: int, unit: int, framework: str) -> tuple[np.ndarray, np.ndarray]:
    """Diagonals (19) for the geounits of the first spine, before and after bypassing one of them."""
    chosen = np.arange(tree.parents[level].size) == unit
    rows = np.concatenate(membership(tree.parents))[:, np.argsort(tree.rows)]
    changed = bypass(tree, level, chosen)
    found = []
    for one in (tree, changed):
        covariance = dense_covariance(one.parents, precisions(one.shares, one.denominator, framework))
        order = np.argsort(one.rows)
        found.append(np.diag(rows @ covariance[np.ix_(order, order)] @ rows.T))
    return found[0], found[1]


def with_random_shares(seed: int, equal: bool):
    tree = random_tree(seed)
    draw = np.random.default_rng(seed + 3)
    shares = [draw.integers(1, 100, level.size) for level in tree.parents]
    if equal:
        shares = [np.full(level.size, draw.integers(1, 100)) for level in tree.parents]
    return type(tree)(tree.parents, tuple(shares), 1000, tree.rows)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_where_the_rule_bypasses_no_variance_grows(seed: int, equal: bool) -> None:
    tree = with_random_shares(seed, equal)
    for level in range(tree.depth - 1):
        for unit in range(tree.parents[level].size):
            below = tree.shares[level + 1][tree.parents[level + 1] == unit]
            # By the inequality alone, not by the code that is tested.
            if 2 * below.min() >= (below.size - 1) * tree.shares[level][unit]:
                before, after = before_and_after(tree, level, unit, "pure_dp")
                assert (after <= before * (1 + 1e-9)).all()


def test_where_the_rule_does_not_bypass_equal_children_some_variance_would_grow() -> None:
    refused = 0
    for seed in range(20):
        tree = with_random_shares(seed, equal=True)
        for level in range(tree.depth - 1):
            for unit in range(tree.parents[level].size):
                below = tree.shares[level + 1][tree.parents[level + 1] == unit]
                leaves = level == tree.depth - 2
                if leaves and 2 * below.min() < (below.size - 1) * tree.shares[level][unit]:
                    before, after = before_and_after(tree, level, unit, "pure_dp")
                    assert (after > before * (1 + 1e-9)).any()
                    refused += 1
    assert refused > 10


def test_under_zcdp_only_children_alone_are_harmless() -> None:
    seen = set()
    for seed in range(20):
        tree = with_random_shares(seed, equal=True)
        level = tree.depth - 2
        for unit, children in enumerate(tree.fan_outs(level)):
            before, after = before_and_after(tree, level, unit, "zcdp")
            if children == 1:
                np.testing.assert_allclose(after, before, rtol=1e-9)
            else:
                assert (after > before * (1 + 1e-9)).any()
            seen.add(children == 1)
    assert seen == {True, False}


def test_precisions_are_those_of_the_noise() -> None:
    shares = (np.array([1]), np.array([3, 0]))
    gaussian, laplace = (precisions(shares, 4, name, 2.0) for name in ("zcdp", "pure_dp"))
    np.testing.assert_allclose(gaussian[1], [2 * 3 / 4, 0])
    scale = 2 / (2 * 3 / 4)
    np.testing.assert_allclose(laplace[1], [1 / (2 * scale**2), 0])
    with pytest.raises(GeographyError, match="renyi"):
        precisions(shares, 4, "renyi")
