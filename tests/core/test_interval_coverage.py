"""How often intervals cover the truth: exactly, of few noisy answers; of trees with a stated false-alarm rate."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp

import numpy as np
import pytest
from measured_trees import grown
from test_linear import WEIGHTS, carried

from das_spark.core.linear import interval_reach, whole_intervals
from das_spark.privacy import Framework

DRAWS = 400


def covered(shrunk: float) -> tuple[np.ndarray, np.ndarray]:
    """Of each statistic, how many independent draws were uncertain, and in how many the 90 % interval has the truth.

    The tree, its noise, and the geounit that is looked at are others in every draw.
    """
    found, looked = np.zeros(len(WEIGHTS)), np.zeros(len(WEIGHTS))
    for seed in range(DRAWS):
        tree = grown(seed, exact=("", "root", "states", "parts")[seed % 4])
        code = tree.geounits[seed % len(tree.geounits)]
        estimate, variance = carried(tree, {})[0][code]
        low, high = whole_intervals(estimate, np.sqrt(shrunk * variance), 0.9)
        truth, uncertain = WEIGHTS @ tree.truth[code], variance > 1e-6
        looked += uncertain
        found += uncertain & (low <= truth) & (truth <= high)
    return looked, found


def test_intervals_cover_the_truth_as_often_as_they_say():
    """A count of independent draws at 0.9 stays within 4.5 standard deviations, of seven statistics but for one run
    in 20,000. Negative ends are 0, so that more is right where little is counted, which trees of 0 to 19 people a cell
    seldom do, and so are the halves that whole numbers need beside errors of a few people: six points. With a
    quarter of the covariances 60 to 80 % is covered: the control."""
    looked, found = covered(1.0)
    deviation = np.sqrt(0.9 * 0.1 * looked)
    assert looked.min() > DRAWS / 2
    assert (found > 0.9 * looked - 4.5 * deviation).all()
    assert (found < 0.96 * looked + 4.5 * deviation).all()
    looked, found = covered(0.25)
    assert (found < 0.9 * looked - 4.5 * deviation).all()


#: Weights that an estimate gives to the noise of a few answers: of one, of their sum or mean, or of one above others.
WEIGHTS_OF_FEW = ((1,), (0.8,), (0.5,), (1, 1), (0.5, 0.5), (0.7, 0.3), (0.97, 0.03), (1, 1, 1), (1 / 3,) * 3, (1,) * 8)
LEVELS = (0.5, 0.8, 0.9, 0.95, 0.99)


def noise_of(framework: Framework, parameter: float) -> np.ndarray:
    """The probabilities of whole numbers about 0, by the definitions of both distributions, without the project."""
    power = 2 if framework is Framework.ZCDP else 1
    width = 1 + int(30 * parameter ** (1 / power))
    found = np.array([exp(-(abs(k) ** power) / (power * parameter)) for k in range(-width, width + 1)])
    return found / found.sum()


def errors_of(framework: Framework, parameter: float, weights: Sequence[float]) -> tuple[np.ndarray, np.ndarray]:
    """The errors of an estimate that gives such weights to equally noisy answers, and how probable each is."""
    values, odds, own = np.zeros(1), np.ones(1), noise_of(framework, parameter)
    whole = np.arange(len(own)) - len(own) // 2
    for weight in weights:
        values, place = np.unique(np.round(np.add.outer(values, weight * whole), 9), return_inverse=True)
        odds = np.bincount(place.ravel(), np.outer(odds, own).ravel())
        likely = odds > 1e-12
        values, odds = values[likely], odds[likely]
    return values, odds


def few(framework: Framework) -> Iterator[tuple[np.ndarray, np.ndarray, float]]:
    """Errors of a few answers, their probabilities and their standard error, over a grid of scales."""
    for weights in WEIGHTS_OF_FEW:
        for parameter in np.geomspace(0.04, 12 if len(weights) < 2 else 2, 60 // len(weights)):
            errors, odds = errors_of(framework, parameter, weights)
            yield errors, odds, float(np.sqrt(errors**2 @ odds))


@pytest.mark.parametrize("framework", Framework)
def test_errors_of_a_few_noisy_answers_are_covered_as_often_as_is_said(framework):
    """By exact summation, so that there is no false alarm. A normal quantile alone covers 65 % in place of 90 %."""
    least = dict.fromkeys(LEVELS, 1.0)
    for errors, odds, deviation in few(framework):
        for level in LEVELS:
            low, high = whole_intervals(1000 + errors, np.full(errors.shape, deviation), level, framework)
            least[level] = min(least[level], odds[(low <= 1000) & (high >= 1000)].sum())
    assert all(covered >= level for level, covered in least.items()), least


@pytest.mark.parametrize("framework", Framework)
@pytest.mark.parametrize("level", LEVELS)
def test_intervals_are_no_wider_than_a_single_answer_needs_but_for_one(framework, level):
    """The least whole number that suffices is mostly the reach of the interval, and nowhere is it two less.

    In pure differential privacy, levels up to 0.9 are those of sums, which reach further than single answers.
    """
    more = []
    for parameter in np.geomspace(0.04, 400 if framework is Framework.ZCDP else 20, 150):
        own = noise_of(framework, parameter)
        middle = len(own) // 2
        deviation = np.sqrt((np.arange(len(own)) - middle) ** 2 @ own)
        needed = next(k for k in range(middle) if own[middle - k : middle + k + 1].sum() >= level)
        more.append(int(interval_reach(np.array(deviation), level, framework)) - needed)
    if framework is Framework.ZCDP or level >= 0.9:
        assert max(more) <= 1
        assert np.mean(more) < 0.4
    assert min(more) >= 0


def test_the_reach_of_wide_errors_is_that_of_a_normal_distribution():
    for error in (1.0, 10.0, 1000.0):
        assert interval_reach(np.array(error), 0.9, Framework.ZCDP) == pytest.approx(1.6449 * error + 0.5, abs=0.07)
    assert interval_reach(np.array(0.0), 0.9, Framework.ZCDP) == 0.0
