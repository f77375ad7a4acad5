"""Generalised least squares on the spine against dense normal equations: means, covariances, totals, groups."""

from __future__ import annotations

import numpy as np
import pytest
from measured_trees import ALGEBRA, SCHEMA, TOTAL, Dense, Tree, grown, prior_of

from das_spark.estimation import FamilyKnowledge, Gaussian, informed


def estimated(tree: Tree) -> dict[str, Gaussian]:
    """Up and down, by what travels between families."""
    known: dict[str, FamilyKnowledge] = {}

    def up(parent):
        below = []
        for code in tree.children[parent]:
            arrays = up(code) if code in tree.children else None
            below.append(None if arrays is None else Gaussian.of(ALGEBRA, arrays))
        problem = tree.problem(parent)
        known[parent] = FamilyKnowledge.of(problem, informed(problem, below, ALGEBRA), ALGEBRA)
        together = known[parent].together()
        return None if together is None else together.arrays()

    found = {}

    def down(parent, given):
        for alike in known[parent].given(given):
            for place, knowledge in alike:
                code = tree.children[parent][place]
                found[code] = knowledge
                if code in tree.children:
                    down(code, knowledge)

    up("")
    down("", None)
    return found


@pytest.mark.parametrize("exact", ["", "root", "states", "parts"])
@pytest.mark.parametrize("seed", range(8))
def test_means_and_covariances_are_those_of_the_normal_equations(seed, exact):
    tree = grown(seed, exact=exact)
    found, dense = estimated(tree), Dense(tree)
    assert set(found) == set(tree.geounits)
    for code, knowledge in found.items():
        chosen, cells = dense.sum_of(code), knowledge.frame.cells
        np.testing.assert_allclose(knowledge.mean, (chosen @ dense.mean)[cells], atol=1e-8)
        covariance = (chosen @ dense.covariance @ chosen.T)[np.ix_(cells, cells)]
        blocks = tuple(block[None] for block in knowledge.covariance)
        np.testing.assert_allclose(knowledge.frame.dense(blocks), covariance, atol=1e-8)


def test_a_wrong_variance_is_found():
    """The comparison is one: a variance that is off by a hundredth makes another mean and another covariance."""
    tree = grown(3)
    dense = Dense(tree)
    tree.variance["0", "detailed"] *= 1.01
    knowledge = estimated(tree)["0"]
    wrong = (dense.sum_of("0") @ dense.mean)[knowledge.frame.cells]
    assert np.abs(knowledge.mean - wrong).max() > 1e-6


def test_of_a_single_child_that_is_not_measured_nothing_is_known_from_below():
    tree = grown(0)
    (alone,) = [code for code, children in tree.children.items() if children[0] in tree.unmeasured][:1]
    problem = tree.problem(alone)
    knowledge = FamilyKnowledge.of(problem, informed(problem, [None], ALGEBRA), ALGEBRA)
    assert knowledge.together() is None
    given = estimated(tree)[alone]
    ((child, known),) = [pair for alike in knowledge.given(given) for pair in alike]
    assert child == 0
    np.testing.assert_array_equal(known.mean, given.mean)


@pytest.mark.parametrize("seed", range(6))
def test_a_prior_is_the_squared_distance_to_what_lies_below(seed):
    generator = np.random.default_rng(seed)
    problem, known, prior = prior_of(grown(seed))
    cells = np.flatnonzero(generator.random(SCHEMA.size) < 0.7).astype(np.int32)
    x = generator.uniform(0, 20, (len(problem.children), len(cells)))
    value, gradient = prior.value_and_gradient(cells, x)
    expected, curvature = 0.0, prior.curvature(len(problem.children))
    for child, each in enumerate(known):
        if each is None:
            assert not gradient[child].any()
            assert curvature[child] == 0
            continue
        matrix = np.linalg.inv(each.frame.dense(tuple(block[None] for block in each.covariance)))
        point = np.zeros(SCHEMA.size)
        point[cells] = x[child]
        # Cells that are not live in the child are zero in every estimate of it.
        away = point[each.frame.cells] - each.mean
        expected += away @ matrix @ away
        slope = np.zeros(SCHEMA.size)
        slope[each.frame.cells] = 2 * matrix @ away
        np.testing.assert_allclose(gradient[child], slope[cells], rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(curvature[child], np.linalg.eigvalsh(matrix)[0], rtol=1e-6)
        whole = np.zeros((SCHEMA.size, SCHEMA.size))
        whole[np.ix_(each.frame.cells, each.frame.cells)] = matrix
        np.testing.assert_allclose(prior.dense(child, cells), whole[np.ix_(cells, cells)], atol=1e-8)
    np.testing.assert_allclose(value, expected, rtol=1e-9)


@pytest.mark.parametrize("seed", range(6))
def test_what_is_known_of_answers_has_their_mean_and_variance(seed):
    _, _, prior = prior_of(grown(seed))
    for query in (TOTAL, SCHEMA.query("kind"), SCHEMA.query("race * age")):
        measured = prior.measurement(query)
        for alike in prior.means:
            for child, known in alike:
                rows = query.row_of(known.frame.cells.astype(np.int32))
                touched = np.unique(rows[rows >= 0])
                answers = (rows == touched[:, None]).astype(float)
                np.testing.assert_allclose(measured.values[child, touched], answers @ known.mean, atol=1e-9)
                covariance = known.frame.dense(tuple(block[None] for block in known.covariance))
                spread = np.einsum("si,ij,sj->s", answers, covariance, answers).mean()
                np.testing.assert_allclose(measured.variance[child], max(spread, 1e-3), rtol=1e-8)
