"""Limits against scipy's exact test and against sums of binomial probabilities; their coverage, computed exactly."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from das_spark.audit.claim import lower_limit, upper_limit
from das_spark.errors import InputError

RUNS = 25


def chance_of_at_least(seen: int, p: float) -> float:
    """Term by term, with nothing of beta distributions."""
    return math.fsum(math.comb(RUNS, k) * p**k * (1 - p) ** (RUNS - k) for k in range(seen, RUNS + 1))


@pytest.mark.parametrize("alpha", [0.2, 0.025, 1e-4])
@pytest.mark.parametrize("seen", range(RUNS + 1))
def test_limits_are_where_binomial_sums_are_alpha(seen, alpha):
    low, high = float(lower_limit(seen, RUNS, alpha)), float(upper_limit(seen, RUNS, alpha))
    own = 0.0 if seen == 0 else optimize.brentq(lambda p: chance_of_at_least(seen, p) - alpha, 0, 1)
    other = 1.0 if seen == RUNS else optimize.brentq(lambda p: 1 - chance_of_at_least(seen + 1, p) - alpha, 0, 1)
    assert low == pytest.approx(own, abs=1e-9)
    assert high == pytest.approx(other, abs=1e-9)


@pytest.mark.parametrize(("seen", "runs"), [(0, 7), (3, 7), (7, 7), (123, 100_000), (99_990, 100_000)])
def test_limits_are_those_of_scipy(seen, runs):
    interval = stats.binomtest(seen, runs).proportion_ci(0.99, method="exact")
    assert float(lower_limit(seen, runs, 0.005)) == pytest.approx(interval.low, rel=1e-9, abs=1e-15)
    assert float(upper_limit(seen, runs, 0.005)) == pytest.approx(interval.high, rel=1e-9)


def coverage(limits: np.ndarray, p: float, *, lower: bool) -> float:
    """The probability that a limit is right, over all that can be seen."""
    right = limits <= p if lower else limits >= p
    return float(stats.binom.pmf(np.arange(RUNS + 1), RUNS, p)[right].sum())


@pytest.mark.parametrize("alpha", [0.1, 0.01])
def test_limits_are_wrong_with_probability_alpha_at_most_and_wald_s_are_wrong_oftener(alpha):
    seen = np.arange(RUNS + 1)
    low, high = lower_limit(seen, RUNS, alpha), upper_limit(seen, RUNS, alpha)
    chances = np.linspace(0.001, 0.999, 499)
    assert min(coverage(low, p, lower=True) for p in chances) >= 1 - alpha
    assert min(coverage(high, p, lower=False) for p in chances) >= 1 - alpha
    share = seen / RUNS
    wald = share - stats.norm.isf(alpha) * np.sqrt(share * (1 - share) / RUNS)
    assert min(coverage(wald, p, lower=True) for p in chances) < 1 - 2 * alpha


@pytest.mark.parametrize(("seen", "runs", "alpha"), [(-1, 5, 0.1), (6, 5, 0.1), (0, 0, 0.1), (1, 5, 0.0), (1, 5, 1.0)])
def test_what_cannot_be_is_refused(seen, runs, alpha):
    for limit in (lower_limit, upper_limit):
        with pytest.raises(InputError):
            limit(seen, runs, alpha)
