"""Events: the choice finds what was planted, and what is chosen is counted as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from das_spark.audit.claim import epsilon_bound
from das_spark.audit.events import Statistic, StatisticEvent, choose

RUNS = 400
GENERATOR = np.random.default_rng(5)


def by_epsilon(low, high):
    return epsilon_bound(low, high, 0.0)


def noise(name: str = "noise") -> Statistic:
    return Statistic(name, "answer", GENERATOR.normal(size=RUNS), GENERATOR.normal(size=RUNS))


@pytest.mark.parametrize("shift", [9.0, -9.0])
def test_a_planted_threshold_is_chosen_first(shift):
    planted = noise("planted")
    planted = Statistic("planted", "sum", planted.first + shift, planted.second)
    chosen = choose([noise("a"), planted, noise("b")], by_epsilon, 0.01, 2)
    assert len(chosen) == 2
    assert chosen[0].statistic == "planted"
    seen = chosen[0].counts(planted)
    assert seen[0] > 0.98 * RUNS
    assert seen[1] < 0.02 * RUNS


def test_both_directions_and_both_inputs_are_tried():
    rare = np.zeros(RUNS)
    rare[:60] = 1
    statistics = {
        ("first", True): Statistic("x", "answer", rare, np.zeros(RUNS)),
        ("first", False): Statistic("x", "answer", -rare, np.zeros(RUNS)),
        ("second", True): Statistic("x", "answer", np.zeros(RUNS), rare),
        ("second", False): Statistic("x", "answer", np.zeros(RUNS), -rare),
    }
    for (telling, upward), statistic in statistics.items():
        (event,) = choose([statistic], by_epsilon, 0.01, 3)
        assert (event.telling, event.upward) == (telling, upward)
        assert event.counts(statistic) == (60, 0)


def test_what_was_not_released_belongs_to_no_event_of_values():
    first = np.array([math.nan, 3.0, 4.0, math.nan])
    second = np.array([2.0, math.nan, 1.0, 0.0])
    statistic = Statistic("x", "answer", first, second)
    assert StatisticEvent("x", "answer", upward=True, threshold=2.0, telling="first").counts(statistic) == (2, 1)
    assert StatisticEvent("x", "answer", upward=False, threshold=2.0, telling="second").counts(statistic) == (3, 0)
    nowhere = Statistic("x", "answer", np.full(4, math.nan), np.full(4, math.nan))
    assert choose([nowhere], by_epsilon, 0.01, 3) == []


def test_halves_share_no_run():
    values = np.arange(7.0)
    statistic = Statistic("x", "answer", values, values + 100)
    even, odd = statistic.half(0), statistic.half(1)
    np.testing.assert_array_equal(even.first, [0, 2, 4, 6])
    np.testing.assert_array_equal(odd.second, [101, 103, 105])


def test_the_text_of_an_event_says_what_it_is():
    assert StatisticEvent("sum", "sum", upward=True, threshold=1.5, telling="first").text == "sum >= 1.5"
    assert StatisticEvent("sum", "sum", upward=False, threshold=-3.0, telling="first").text == "sum <= -3"


def test_an_event_that_shows_nothing_comes_after_one_that_shows_little():
    # What is the same in every run would score best by what the noise allows: 1 of 1.
    always = Statistic("always", "kept", np.ones(RUNS), np.ones(RUNS))
    little = Statistic(
        "little", "answer", (np.arange(RUNS) % 2).astype(float), (np.arange(RUNS) % 10 == 0).astype(float)
    )
    chosen = choose([always, little], lambda low, high: low - np.minimum(1, high * math.e), 0.01, 2)
    assert [each.statistic for each in chosen] == ["little", "always"]
