"""The shared operator against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest

from das_spark.estimation.batched.operator import Grouping, inverse, stack


def grouping(generator, cells, rows, uncounted):
    """Every row has a cell; some cells may be in none."""
    index = np.concatenate([np.arange(rows), generator.integers(0, rows, cells - rows)])
    generator.shuffle(index)
    if uncounted:
        many = np.bincount(index)[index] > 1
        index[many & (generator.random(cells) < 0.4)] = -1
        _, index[index >= 0] = np.unique(index[index >= 0], return_inverse=True)
    return Grouping(index, int(index.max()) + 1)


def coarser(generator, fine):
    """Joins rows of another grouping, and leaves some out."""
    join = generator.integers(0, max(2, fine.rows // 2), fine.rows)
    _, join = np.unique(join, return_inverse=True)
    return Grouping(np.where(fine.index < 0, -1, join[fine.index]), int(join.max()) + 1)


def groupings(seed):
    generator = np.random.default_rng(seed)
    cells = int(generator.integers(4, 30))
    found = [
        grouping(generator, cells, int(generator.integers(1, cells)), generator.random() < 0.5)
        for _ in range(generator.integers(0, 4))
    ]
    found += [coarser(generator, each) for each in found if generator.random() < 0.7]
    order = generator.permutation(len(found))
    return generator, cells, tuple(found[number] for number in order)


def incidence(each, cells):
    matrix = np.zeros((each.rows, cells))
    matrix[each.index[each.index >= 0], np.flatnonzero(each.index >= 0)] = 1.0
    return matrix


@pytest.mark.parametrize("seed", range(60))
def test_the_inverse_is_that_of_the_dense_operator(seed):
    generator, cells, every = groupings(seed)
    stacked = stack(every, cells)
    matrix = np.concatenate([np.zeros((0, cells)), *(incidence(each, cells) for each in every)])
    weight = generator.uniform(0.0, 5.0, len(matrix)) * (generator.random(len(matrix)) < 0.8)
    diagonal = generator.uniform(0.1, 3.0)
    found = inverse(stacked, weight, diagonal)
    bulk = stacked.matrix.toarray()
    dense = found.scale * (np.eye(cells) - found.scale * bulk.T @ found.core @ bulk)
    operator = diagonal * np.eye(cells) + matrix.T @ (weight[:, None] * matrix)
    np.testing.assert_allclose(dense, np.linalg.inv(operator), atol=1e-9)
    np.testing.assert_array_equal(found.core, found.core.T)
    if weight.any():
        weight[np.argmax(weight)] += 1.0
        changed = inverse(stacked, weight, diagonal)
        wrong = changed.scale * (np.eye(cells) - changed.scale * bulk.T @ changed.core @ bulk)
        assert np.abs(wrong @ operator - np.eye(cells)).max() > 1e-4


@pytest.mark.parametrize("seed", range(60))
def test_every_answer_follows_from_the_stacked_sums(seed):
    generator, cells, every = groupings(seed)
    stacked = stack(every, cells)
    x = generator.normal(size=(cells, 3))
    answers = stacked.sums @ (stacked.matrix @ x)
    expected = [incidence(each, cells) @ x for each in every]
    np.testing.assert_allclose(answers, np.concatenate([np.zeros((0, 3)), *expected]), atol=1e-12)
    np.testing.assert_array_equal(stacked.owner, np.repeat(np.arange(len(every)), [each.rows for each in every]))
    np.testing.assert_allclose(stacked.overlap, (stacked.matrix @ stacked.matrix.T).toarray())
    assert (np.bincount(stacked.index.ravel(), minlength=stacked.rows) <= cells).all()


def test_only_the_finest_groupings_are_stacked():
    fine = Grouping(np.array([0, 1, 2, 3, 4, 4]), 5)
    nested = Grouping(np.array([0, 0, 1, 1, 2, 2]), 3)
    crossing = Grouping(np.array([0, 1, 0, 1, 0, 1]), 2)
    assert stack((nested, fine), 6).rows == 6  # a row for cells that none counts comes with each
    assert stack((nested, fine, nested), 6).rows == 6
    assert stack((nested, fine, crossing), 6).rows == 6 + 3
    assert stack((), 6).rows == 1


def test_a_weight_an_answer_makes_the_middle_of_the_operator():
    every = (Grouping(np.array([0, 0, 1]), 2), Grouping(np.array([0, 1, 2]), 3))
    stacked = stack(every, 3)
    bulk = stacked.matrix.toarray()
    found = bulk.T @ stacked.weighted(np.array([1.0, 2.0, 3.0, 4.0, 5.0])) @ bulk
    np.testing.assert_allclose(found, [[4, 1, 0], [1, 5, 0], [0, 0, 7]])
