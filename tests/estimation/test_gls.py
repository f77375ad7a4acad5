"""Generalised least squares on the spine against dense normal equations: means, covariances, totals, groups."""

from __future__ import annotations

from dataclasses import replace

import extreme_trees
import numpy as np
import pytest
from extreme_trees import Decimals, SmallTree, small_trees
from hypothesis import given, settings
from measured_trees import ALGEBRA, SCHEMA, TOTAL, Dense, Tree, grown, prior_of

from das_spark.errors import EstimationError
from das_spark.estimation import FamilyKnowledge, FamilyPrior, Gaussian, informed, is_exact, variances


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


#: Sums over the cells of `extreme_trees.SCHEMA`: two cells, everybody, each kind, and some cells several times.
STATISTICS = np.array(
    [[1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 1, 0], [1] * 6, [1, 1, 1, 0, 0, 0], [0, 0, 0, 1, 1, 1], [1, 0, 2, 0, 0, 1]]
)


def stated(known: Gaussian) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Estimates, variances, and what is said to be exact, of the statistics."""
    counted = STATISTICS[:, known.frame.cells]
    roots = tuple(root[None] for root in known.covariance)
    spread = variances(roots, known.frame.traces(counted))[0]
    return counted @ known.mean, spread, is_exact(known.frame, known.exact, counted.T)


@given(tree=small_trees())
@settings(deadline=None, max_examples=15)
def test_extreme_budgets_and_exact_totals_give_what_decimals_of_eighty_digits_give(tree):
    found, dense = extreme_trees.estimated(tree), Decimals(tree)
    rows = np.array([dense.row(code, statistic) for code in found for statistic in STATISTICS])
    expected = zip(*(np.split(values, len(found)) for values in dense(rows)), strict=True)
    for known, (estimates, spreads) in zip(found.values(), expected, strict=True):
        estimate, spread, exact = stated(known)
        np.testing.assert_array_equal(exact, spreads.astype(float) < 1e-50)
        errors = np.sqrt(np.maximum(spreads.astype(float), 0.0))
        assert (np.abs(estimate - estimates.astype(float)) <= 1e-3 * errors + 1e-6).all()
        np.testing.assert_allclose(spread[~exact], spreads.astype(float)[~exact], rtol=1e-6)


def disjoint(variance: float) -> SmallTree:
    """Two children with exact totals that no kind is common to, below a geounit that is measured itself."""
    children = {"": ["0"], "0": ["00", "01"]}
    home, ship = np.array([30, 20, 0, 0, 0, 0]), np.array([0, 0, 0, 25, 15, 0])
    kinds = {"00": np.array([True, False]), "01": np.array([False, True]), "0": np.array([True, True])}
    truth = {"00": home, "01": ship, "0": home + ship}
    answers = {1: [(0, 1.0)], 2: [(0, variance)]}
    generator = np.random.default_rng(1)
    values = {
        code: [counts + np.rint(generator.normal(size=6) * answers[len(code)][0][1] ** 0.5)]
        for code, counts in truth.items()
    }
    return SmallTree(children, kinds, truth, answers, values, {1, 2})


@pytest.mark.parametrize("variance", [1e-3, 4.0, 1e9])
def test_totals_of_children_without_a_kind_in_common_are_all_exact_in_their_parent(variance):
    found = extreme_trees.estimated(disjoint(variance))
    estimate, spread, exact = stated(found["0"])
    everybody, home, ship = 2, 3, 4
    assert exact[[everybody, home, ship]].all()
    assert exact.sum() == 3
    np.testing.assert_allclose(estimate[[everybody, home, ship]], [90, 50, 40], atol=1e-9)
    assert (spread[~exact & (STATISTICS.any(axis=1))] > 1e-4).all()


def test_of_an_exact_total_what_siblings_leave_to_the_only_geounit_with_people_is_exact():
    tree = replace(disjoint(4.0), exact={1})
    tree.kinds["01"], tree.kinds["0"] = np.array([False, False]), np.array([True, False])
    tree.truth["01"], tree.truth["0"] = np.zeros(6, dtype=int), tree.truth["00"]
    estimate, spread, exact = stated(extreme_trees.estimated(tree)["00"])
    assert exact[2]
    np.testing.assert_allclose(estimate[2], 50, atol=1e-9)
    assert spread[0] > 0.1


def test_answers_that_leave_counts_undetermined_are_no_information():
    tree = disjoint(4.0)
    tree.answers[2] = [(3, 4.0)]  # the total, and nothing else
    tree.values |= {code: [np.array([50.0])] for code in tree.children["0"]}
    problem = tree.problem("0")
    information = informed(problem, [None, None], extreme_trees.ALGEBRA)
    with pytest.raises(EstimationError, match="do not determine its counts"):
        FamilyKnowledge.of(problem, information, extreme_trees.ALGEBRA)


@given(tree=small_trees())
@settings(deadline=None, max_examples=15)
def test_a_prior_is_at_least_as_steep_as_it_says_in_every_direction(tree):
    problem = tree.problem("0")
    below = [
        FamilyKnowledge.of(own, informed(own, [None] * len(own.children), extreme_trees.ALGEBRA), extreme_trees.ALGEBRA)
        for own in map(tree.problem, tree.children["0"])
    ]
    prior = FamilyPrior.of(problem, [each.together() for each in below], extreme_trees.ALGEBRA)
    least = prior.curvature(len(problem.children))
    for alike in prior.below:
        for child, frame in zip(alike.children.tolist(), [alike.frame] * len(alike.children), strict=True):
            if not len(frame.cells):
                continue
            matrix = prior.dense(child, frame.cells.astype(np.int32))
            directions = np.linalg.eigh(matrix)[1]
            x = np.zeros((len(problem.children), len(frame.cells)))
            (place,) = np.flatnonzero(alike.children == child)
            for direction in directions.T:
                x[child] = alike.vector[place] + direction
                lengths = [root @ part for root, part in zip(alike.blocks, frame.analyze(direction[None]), strict=True)]
                assert least[child] <= sum((length[place] ** 2).sum() for length in lengths) * (1 + 1e-9)
