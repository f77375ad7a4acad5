"""The chance that the audit lets a planted fault pass, computed from the distributions and not by drawing.

The auditor's choice is random, too: the event with the highest bound on one half of the runs is judged on the other.
For any c, a fault passes only if the best event's bound on the first half is at most c, or if there is an event whose
bound is above c on the first half and within the claim on the second. The halves are independent: the chance is at most
the sum of the first and of the products of the others, and c is free.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from auditor import AFTER, BEFORE, QUERIES, RUNS, Claim, budget_of, claim_of, false_claim_of, overspent
from delta_search import searched_delta
from numpy.typing import NDArray
from scipy import stats

from das_spark.privacy import Budget, DiscreteLaplace, Framework, Mechanism

pytestmark = pytest.mark.slow

REACH = 60  # Beyond, no distribution of these budgets has a probability that a float tells from 0.
FAR = 1e-12  # What is left out on one side of a binomial distribution.
BLOCKS = 200
CHANGES = {name: query.answer_dense(AFTER) - query.answer_dense(BEFORE) for name, query in QUERIES.items()}
DistributionOf = Callable[[Mechanism], Any]


@dataclass(frozen=True)
class Ratios:
    """Atoms of the log-likelihood ratio under the claimed distributions, with their probabilities under BEFORE."""

    values: NDArray[np.float64]
    probabilities: NDArray[np.float64]

    def plus(self, other: Ratios) -> Ratios:
        """The distribution of the sum of two independent ones."""
        values = np.round(np.add.outer(self.values, other.values).ravel(), 9)
        atoms, places = np.unique(values, return_inverse=True)
        probabilities = np.bincount(places, np.outer(self.probabilities, other.probabilities).ravel())
        kept = probabilities > 1e-18
        return Ratios(atoms[kept], probabilities[kept])

    def events(self) -> list[tuple[float, float]]:
        """Probabilities under BEFORE and AFTER of a ratio at or above each of the auditor's thresholds.

        The distributions are symmetric: under AFTER the ratio has the distribution that its negative has under BEFORE.
        """
        below = np.cumsum(self.probabilities)
        places = np.minimum(np.searchsorted(below, np.linspace(0.05, 1.0, 40)), len(below) - 1)
        thresholds = np.unique(self.values[places]) - 1e-9
        return [
            (self.probabilities[self.values >= threshold].sum(), self.probabilities[-self.values >= threshold].sum())
            for threshold in thresholds
        ]


def ratio_of_one_answer(claimed: Mechanism, drawn: Any) -> Ratios:
    noise = np.arange(-REACH, REACH + 1)
    if isinstance(claimed, DiscreteLaplace):
        values = (np.abs(noise + 1) - np.abs(noise)) / float(claimed.scale)
    else:
        values = ((noise + 1) ** 2 - noise**2) / (2 * float(claimed.sigma_squared))
    return Ratios(values, drawn.probabilities(REACH))


def ratios(claimed: Budget, drawn: Budget, times: int, distribution: DistributionOf) -> Ratios:
    """The ratio over all answers that differ, each query answered so many times."""
    total = Ratios(np.zeros(1), np.ones(1))
    for query in QUERIES:
        mechanisms = (each.mechanism("level", query) for each in (claimed, drawn))
        one = ratio_of_one_answer(next(mechanisms), distribution(next(mechanisms)))
        for _ in range(int(np.abs(CHANGES[query]).sum()) * times):
            total = total.plus(one)
    return total


def differences(drawn: Budget, times: int, distribution: DistributionOf) -> list[tuple[float, float]]:
    """Probabilities under BEFORE and AFTER that two released numbers differ by what they differ by most often."""
    columns = [
        (distribution(drawn.mechanism("level", query)).probabilities(REACH), change)
        for query in QUERIES
        for change in CHANGES[query]
        for _ in range(times)
    ]
    events = []
    for place, (first, first_change) in enumerate(columns):
        for second, second_change in columns[place + 1 :]:
            gaps = np.convolve(first, second)  # Both are symmetric: the sum has the distribution of the difference.
            events.append((gaps[2 * REACH], gaps[2 * REACH + first_change - second_change]))
    return events


def chance_at_most(event: tuple[float, float], excess: float, claim: Claim, level: float) -> float:
    """The chance that half of the runs bound this event's excess by no more than this; up to rounding, from above.

    How often the event is seen under AFTER is cut into BLOCKS, and the most of each block stands for all of it.
    """
    half = RUNS // 2
    first, last = (int(stats.binom.ppf(each, half, event[1])) for each in (FAR, 1 - FAR))
    others = np.unique(np.linspace(first, last, BLOCKS).astype(np.int64))
    weights = np.diff(stats.binom.cdf(others, half, event[1]), prepend=0.0)
    needed = excess + math.exp(claim.epsilon) * stats.beta.isf(level / 2, others + 1, half - others)
    seen_at_most = stats.binom.isf(level / 2, half, np.minimum(needed, 1.0))
    return FAR + float(weights @ stats.binom.cdf(np.where(needed >= 1, half, seen_at_most), half, event[0]))


def chance_of_passing(events: list[tuple[float, float]], claim: Claim, level: float) -> float:
    """Over all events: chosen on one half, as the best one's bound allows, and not convicted on the other."""
    excesses = [before - math.exp(claim.epsilon) * after for before, after in events]
    best = events[int(np.argmax(excesses))]
    passing = [chance_at_most(event, claim.delta, claim, level) for event in events]

    def with_bound(middle: float) -> float:
        chosen = [1 + FAR - chance_at_most(event, middle, claim, level) for event in events]
        return chance_at_most(best, middle, claim, level) + float(np.dot(chosen, passing))

    return min(with_bound(middle) for middle in np.linspace(claim.delta, max(excesses), 20))


def events_of(claimed: Budget, drawn: Budget, times: int, distribution: DistributionOf) -> list[tuple[float, float]]:
    return [*ratios(claimed, drawn, times, distribution).events(), *differences(drawn, times, distribution)]


@pytest.mark.parametrize("framework", list(Framework))
@pytest.mark.parametrize(
    "fault", ["half_the_noise", pytest.param("measured_twice", marks=pytest.mark.slow), "false_claim"]
)
def test_a_fault_passes_no_more_often_than_honest_noise_is_convicted(
    fault: str, framework: Framework, distribution: DistributionOf, level: float
) -> None:
    budget = budget_of(framework)
    drawn = overspent(budget) if fault == "half_the_noise" else budget
    claim = false_claim_of(budget) if fault == "false_claim" else claim_of(budget)
    events = events_of(budget, drawn, 2 if fault == "measured_twice" else 1, distribution)
    assert chance_of_passing(events, claim, level) <= level


@pytest.mark.parametrize("framework", list(Framework))
def test_honest_noise_would_pass(framework: Framework, distribution: DistributionOf, level: float) -> None:
    """The computation is no rubber stamp: where nothing is wrong, it finds that nothing is convicted."""
    budget = budget_of(framework)
    assert chance_of_passing(events_of(budget, budget, 1, distribution), claim_of(budget), level) > 1 - level


@pytest.mark.slow
def test_the_computation_finds_the_chance_of_an_audit_that_is_too_weak(
    distribution: DistributionOf, level: float
) -> None:
    """At epsilon 6 the same audit once let two answers for one pass: nothing better can be said of it."""
    budget = budget_of(Framework.ZCDP)
    weak = Claim(6.0, searched_delta(budget.total, 6.0))
    assert chance_of_passing(events_of(budget, budget, 2, distribution), weak, level) > 0.001
