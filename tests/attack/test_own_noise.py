"""The noise of runs that are simulated here by other means: sound ones are let go, and planted leaks are seen."""

from __future__ import annotations

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import binom

from das_spark.attack import PARENTS, QUERIES, SIBLINGS, Agreement, AttackSettings, Residuals, RunNoise, infer
from das_spark.attack.own_noise import declared_tails, judge_noise
from das_spark.privacy import DiscreteLaplace

ALPHA = 0.05
GEOUNITS = 60
ANSWERS = 8  # of a geounit to a query


def drawn_noise(mechanism, size, numbers, width=1.0):
    """Noise by numpy's generators: a difference of geometric ones, or a choice among the probable values."""
    if isinstance(mechanism, DiscreteLaplace):
        stop = -math.expm1(-1 / (float(mechanism.scale) * width))
        return numbers.geometric(stop, size) - numbers.geometric(stop, size)
    variance = float(mechanism.sigma_squared) * width * width
    most = math.ceil(12 * math.sqrt(variance))
    value = np.arange(-most, most + 1)
    probability = np.exp(-(value**2) / (2 * variance))
    return numbers.choice(value, size, p=probability / probability.sum())


def counted(plan, noise) -> RunNoise:
    """What a run of such noise, (geounits, answers) by geolevel and query, is reduced to."""
    residuals, agreements = [], []
    for (level, query), values in noise.items():
        value, frequency = np.unique(values, return_counts=True)
        equal = sum(n * (n - 1) // 2 for n in Counter(map(tuple, values.tolist())).values())
        vectors = np.array([[values.shape[1], len(values), equal]])
        residuals.append(Residuals(level, query, "", value, frequency, vectors))
        agreements.append(agreement(level, SIBLINGS, values[1:], values[:-1]))
    for level in plan.budget.levels:
        first, *others = [noise[level.geolevel, item.query] for item in level.queries]
        for other in others:
            agreements.append(agreement(level.geolevel, QUERIES, first, other))
    names = [level.geolevel for level in plan.budget.levels]
    for above, below in pairwise(names):
        for item in plan.budget.level(below).queries:
            agreements.append(agreement(below, PARENTS, noise[above, item.query], noise[below, item.query]))
    return RunNoise(tuple(residuals), tuple(agreements))


def agreement(level, between, one, other) -> Agreement:
    product = np.sign(one) * np.sign(other)
    return Agreement(level, between, int((product != 0).sum()), int((product > 0).sum()))


def sound(plan, numbers, width=1.0):
    return {
        (level.geolevel, item.query): drawn_noise(
            plan.budget.mechanism(level.geolevel, item.query), (GEOUNITS, ANSWERS), numbers, width
        )
        for level in plan.budget.levels
        for item in level.queries
    }


@pytest.fixture(params=["pure_dp", "zcdp"])
def plan(request, plan_of):
    return plan_of("8") if request.param == "pure_dp" else plan_of(rho="2")


@pytest.mark.slow
def test_sound_noise_is_convicted_no_more_often_than_stated(plan):
    """150 runs at 20 %: 49 convictions would have a probability below 1e-4."""
    repetitions, alpha = 150, 0.2
    convicted = sum(
        judge_noise(plan, counted(plan, sound(plan, np.random.default_rng(number))), alpha).convicts
        for number in range(repetitions)
    )
    assert convicted <= binom.ppf(1 - 1e-4, repetitions, alpha)


def findings(plan, noise) -> set[str]:
    found = judge_noise(plan, counted(plan, noise), ALPHA)
    assert found.convicts == ("is not what was declared" in found.verdict)
    return {finding for row in found.rows for finding in row.findings} | {
        row.between for row in found.agreements if row.convicts
    }


def test_half_the_declared_width(plan):
    assert findings(plan, sound(plan, np.random.default_rng(1), width=0.5)) >= {
        "below the claimed curve",
        "another distribution",
        "noise left out",
    }


def test_twice_the_declared_width_is_another_distribution(plan):
    """It protects better than claimed, and is not what was declared."""
    assert findings(plan, sound(plan, np.random.default_rng(2), width=2.0)) == {"another distribution"}


def test_one_level_without_noise(plan):
    noise = sound(plan, np.random.default_rng(3))
    level = plan.budget.levels[1].geolevel
    for key in noise:
        if key[0] == level:
            noise[key] = np.zeros_like(noise[key])
    found = judge_noise(plan, counted(plan, noise), ALPHA)
    assert {row.geolevel for row in found.rows if row.findings} == {level}
    assert "noise used twice" in findings(plan, noise)


def test_two_geounits_without_noise(plan):
    """Two of sixty: the distribution is hardly changed, but both have the same noise in all answers."""
    noise = sound(plan, np.random.default_rng(4))
    key = next(iter(noise))
    noise[key][:2] = 0
    found = judge_noise(plan, counted(plan, noise), ALPHA)
    assert [(row.geolevel, row.query) for row in found.rows if "noise used twice" in row.findings] == [key]


def test_noise_reused_between_two_geounits(plan):
    noise = sound(plan, np.random.default_rng(5))
    key = next(iter(noise))
    noise[key][40] = noise[key][7]
    assert findings(plan, noise) == {"noise used twice"}


def test_one_noise_for_siblings(plan):
    noise = sound(plan, np.random.default_rng(6))
    for key, values in noise.items():
        noise[key] = np.repeat(values[:1], GEOUNITS, axis=0)
    assert findings(plan, noise) >= {"noise used twice", SIBLINGS}


def test_one_noise_for_two_levels(plan):
    noise = sound(plan, np.random.default_rng(7))
    above, below = (level.geolevel for level in plan.budget.levels[:2])
    for item in plan.budget.level(below).queries:
        noise[below, item.query] = noise[above, item.query]
    assert PARENTS in findings(plan, noise)


def test_one_noise_for_the_queries_of_a_level(plan):
    """Wide noise of one query and narrow noise of another one from the same bits have the same signs."""
    noise = sound(plan, np.random.default_rng(8))
    level = plan.budget.levels[0]
    first, second, *_ = [item.query for item in level.queries]
    for place in (first, second):
        width = plan.budget.mechanism(level.geolevel, place).variance() ** 0.5
        shared = np.random.default_rng(9).standard_normal((GEOUNITS, ANSWERS))
        noise[level.geolevel, place] = np.rint(width * shared).astype(np.int64)
    assert QUERIES in findings(plan, noise)


def test_geounits_with_a_share_of_their_own_are_judged_by_its_noise(plan):
    """Four times the usual share: narrower noise, which is right for these geounits and no others."""
    level = plan.budget.levels[0]
    query, share = level.queries[0].query, 4 * level.share
    narrow = drawn_noise(plan.budget.mechanism_at(level.geolevel, query, share), 4_000, np.random.default_rng(12))
    value, frequency = np.unique(narrow, return_counts=True)
    found = {
        own: judge_noise(
            plan,
            RunNoise((Residuals(level.geolevel, query, own, value, frequency, np.array([[1, 4_000, 0]])),), ()),
            ALPHA,
        )
        for own in (str(share), "")
    }
    assert not found[str(share)].convicts
    assert found[""].convicts


def test_tails_by_direct_summation(plan):
    level = plan.budget.levels[0]
    for item in level.queries:
        mechanism = plan.budget.mechanism(level.geolevel, item.query)
        most = 60 * math.ceil(math.sqrt(mechanism.variance()))
        value = np.arange(-most, most + 1)
        if isinstance(mechanism, DiscreteLaplace):
            weight = np.exp(-np.abs(value) / float(mechanism.scale))
        else:
            weight = np.exp(-(value.astype(float) ** 2) / (2 * float(mechanism.sigma_squared)))
        asked = np.array([-most, -30, -1, 0, 1, 2, 17, most])
        expected = [(weight[value >= each]).sum() / weight.sum() for each in asked]
        assert declared_tails(mechanism, asked) == pytest.approx(expected, rel=1e-9, abs=1e-15)


def test_advantage_at_a_single_mechanism_by_direct_summation(plan):
    """The advantage of the best test is the probability of the most probable value: P(X >= t - 1) - P(X >= t)."""
    found = judge_noise(plan, counted(plan, sound(plan, np.random.default_rng(10))), ALPHA)
    for row in found.rows:
        mechanism = plan.budget.mechanism(row.geolevel, row.query)
        best = max(
            float(declared_tails(mechanism, np.array([each - 1]))[0] - declared_tails(mechanism, np.array([each]))[0])
            for each in range(-3, 4)
        )
        assert row.curve.claimed_advantage == pytest.approx(best, rel=1e-3)
        assert row.curve.touches


@pytest.mark.slow
def test_findings_of_a_run_join_those_of_drawn_noise(plan):
    settings = AttackSettings(draws=2_000, test_key="of a test")
    good, bad = (
        infer(plan, settings, noise=counted(plan, sound(plan, np.random.default_rng(11), width))) for width in (1, 0.5)
    )
    assert not good.convicts
    assert bad.convicts
    assert not any(curve.convicts for curve in bad.curves)
    assert "not what was declared" in bad.verdict
