"""The learned combination: it finds what no statistic shows alone, and learns from the even runs only."""

from __future__ import annotations

import math

import numpy as np
import pytest

from das_spark.audit.events import Statistic, learned

RUNS = 500


@pytest.fixture
def generator():
    return np.random.default_rng(11)


def parted(statistic: Statistic) -> bool:
    """Whether a threshold tells all runs on one input from all on the other, among those that judge."""
    judging = statistic.half(1)
    return judging.first.min() > judging.second.max() or judging.second.min() > judging.first.max()


def test_noise_that_two_answers_share_is_taken_away(generator):
    shared = [generator.normal(0, 30, RUNS) for _ in range(2)]
    answers = [
        Statistic("a", "answer", shared[0] + 1, shared[1]),
        Statistic("b", "answer", shared[0] + 5, shared[1] + 5),
        Statistic("c", "answer", generator.normal(0, 30, RUNS), generator.normal(0, 30, RUNS)),
    ]
    assert not any(parted(answer) for answer in answers)
    assert parted(learned("all", answers))
    assert not parted(learned("without the other", [answers[0], answers[2]]))


def test_an_exact_count_is_found_among_noise(generator):
    noisy = [Statistic(str(k), "answer", *generator.normal(0, 9, (2, RUNS))) for k in range(30)]
    exact = Statistic("exact", "estimate", np.full(RUNS, 4.0), np.full(RUNS, 5.0))
    assert parted(learned("all", [*noisy, exact]))


def test_whether_a_value_is_there_is_learned_too(generator):
    there = generator.normal(0, 1, RUNS)
    statistic = Statistic("x", "answer", there, np.where(np.arange(RUNS) >= 0, math.nan, there))
    assert parted(learned("all", [statistic, Statistic("y", "answer", *generator.normal(0, 1, (2, RUNS)))]))


def test_runs_that_judge_teach_nothing(generator):
    values = generator.normal(0, 1, (2, 3, RUNS))
    changed = values.copy()
    changed[..., 1::2] += 100 * generator.normal(0, 1, changed[..., 1::2].shape)
    missing = values.copy()
    missing[0, 2, 1] = math.nan
    first, second, third = (
        learned("all", [Statistic(str(k), "answer", each[0, k], each[1, k]) for k in range(3)])
        for each in (values, changed, missing)
    )
    for other in (second, third):
        np.testing.assert_array_equal(first.half(0).first, other.half(0).first)
        np.testing.assert_array_equal(first.half(0).second, other.half(0).second)
    assert (first.half(1).first != second.half(1).first).all()
    # A value that a judging run alone misses is the mean of the choosing runs; nothing else changes.
    assert np.flatnonzero(first.first != third.first).tolist() == [1]
    np.testing.assert_array_equal(first.second, third.second)
    values[0, 2, 1] = values[:, 2, ::2].mean()
    filled = learned("all", [Statistic(str(k), "answer", values[0, k], values[1, k]) for k in range(3)])
    assert third.first[1] == pytest.approx(filled.first[1])


def test_more_statistics_than_runs_are_no_problem(generator):
    values = generator.normal(0, 1, (2, 40, 20))
    found = learned("all", [Statistic(str(k), "answer", values[0, k], values[1, k]) for k in range(40)])
    assert np.isfinite(found.first).all()
    assert found.kind == "learned"
