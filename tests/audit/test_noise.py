"""The distribution of the loss against that of Laplace noise, closed forms of the normal one, and brute force."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from das_spark.audit.claim import Claim
from das_spark.audit.noise import DeclaredNoise, log_ratio, louder
from das_spark.errors import InputError
from das_spark.privacy import (
    Budget,
    DiscreteGaussian,
    DiscreteLaplace,
    Framework,
    LevelBudget,
    QueryShare,
)

SHARES = (Fraction(1, 8), Fraction(3, 8), Fraction(1, 2))
TOTAL = Fraction(3)
NARROW = DiscreteLaplace(Fraction(4, 3))


def pure_budget() -> Budget:
    queries = tuple(QueryShare(f"query {number}", share) for number, share in enumerate(SHARES))
    return Budget(Framework.PURE_DP, TOTAL, (LevelBudget("level", Fraction(1), queries),))


def pure_mechanisms() -> dict:
    """Two answers of every query differ."""
    return {DiscreteLaplace(2 / (TOTAL * share)): 2 for share in SHARES}


def delta_by_enumeration(budget: Budget, epsilon: float) -> float:
    """Delta of a budget in pure differential privacy, over all combinations of the losses of its queries.

    A replaced record moves one count of a query up and one down. At query budget e the loss is e with probability
    (1 + exp(-e/2))^-2, -e with (1 + exp(e/2))^-2, else 0; delta is the sum of P(L) (1 - exp(epsilon - L)) over all
    losses L above epsilon.
    """
    mechanisms = []
    for item in budget.levels[0].queries:
        spent = float(budget.spent("level", item.query))
        up, down = (1 + math.exp(-spent / 2)) ** -2, (1 + math.exp(spent / 2)) ** -2
        mechanisms.append([(spent, up), (0.0, 1 - up - down), (-spent, down)])
    total = 0.0
    for outcome in itertools.product(*mechanisms):
        loss, weight = sum(each for each, _ in outcome), math.prod(each for _, each in outcome)
        total += weight * max(0.0, 1 - math.exp(epsilon - loss))
    return total


def test_the_enumerated_losses_are_those_of_a_wide_grid_of_outcomes() -> None:
    """One query: two answers, each noised at scale 2 / epsilon, one up and one down."""
    spent, epsilon = 1.5, 0.7
    q = math.exp(-spent / 2)
    norm = (1 - q) / (1 + q)
    direct = sum(
        max(
            0.0,
            norm**2 * q ** (abs(first) + abs(second))
            - math.exp(epsilon) * norm**2 * q ** (abs(first - 1) + abs(second + 1)),
        )
        for first in range(-60, 61)
        for second in range(-60, 61)
    )
    alone = LevelBudget("level", Fraction(1), (QueryShare("query", Fraction(1)),))
    budget = Budget(Framework.PURE_DP, Fraction(3, 2), (alone,))
    assert delta_by_enumeration(budget, epsilon) == pytest.approx(direct, rel=1e-9)


def delta_at(noise: DeclaredNoise, epsilon: float) -> float:
    """Delta as a plain sum over the distribution of the loss."""
    above = noise.losses > epsilon
    return float((noise.probabilities[above] * -np.expm1(epsilon - noise.losses[above])).sum())


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.3, 2.6])
def test_losses_of_laplace_noise_are_the_exact_ones(epsilon):
    exact = delta_by_enumeration(pure_budget(), epsilon)
    found = delta_at(DeclaredNoise.of(pure_mechanisms()), epsilon)
    assert exact - 1e-12 <= found <= exact + 1e-5


@pytest.mark.parametrize("high", [0.0, 1e-6, 0.01, 0.2, 0.5, 0.9, 1.0])
def test_wide_gaussian_noise_allows_what_the_normal_distribution_allows(high):
    rho = 0.8
    noise = DeclaredNoise.of({DiscreteGaussian(Fraction(10_000)): 16_000})
    normal = float(stats.norm.cdf(stats.norm.ppf(high) + math.sqrt(2 * rho)))
    assert float(noise.allowed(np.array(high))) == pytest.approx(normal, abs=2e-4)


def brute_force(mechanisms: list, reach: int) -> tuple[np.ndarray, np.ndarray]:
    """Every joint outcome of some answers that are 0 or 1: its probabilities under both inputs."""
    values = np.arange(-reach, reach + 1)
    tables = []
    for mechanism in mechanisms:
        if isinstance(mechanism, DiscreteLaplace):
            weight = np.exp(-np.abs(values) / float(mechanism.scale))
        else:
            weight = np.exp(-(values**2) / (2 * float(mechanism.sigma_squared)))
        tables.append((weight, np.roll(weight, 1)))
    own = np.array([math.prod(each) for each in itertools.product(*[table[0] for table in tables])])
    other = np.array([math.prod(each) for each in itertools.product(*[table[1] for table in tables])])
    return own / own.sum(), other / own.sum()


@pytest.mark.parametrize(
    "mechanisms",
    [[NARROW, NARROW, DiscreteLaplace(Fraction(3))], [DiscreteGaussian(Fraction(2)), DiscreteGaussian(Fraction(1, 2))]],
    ids=["laplace", "gaussian"],
)
def test_no_event_of_all_outcomes_is_beyond_what_is_allowed_and_the_best_are_at_the_border(mechanisms):
    own, other = brute_force(mechanisms, 40 if len(mechanisms) > 2 else 200)
    counted = {mechanism: mechanisms.count(mechanism) for mechanism in mechanisms}
    noise = DeclaredNoise.of(counted)
    order = np.argsort(-own / np.maximum(other, 1e-300), kind="stable")
    p, q = np.cumsum(own[order]), np.cumsum(other[order])
    chosen = np.linspace(0, len(p) - 1, 300).astype(int)
    allowed = noise.allowed(q[chosen])
    assert (p[chosen] <= allowed + 1e-6).all()
    reached = np.interp(q[chosen], q, p)
    assert np.median(allowed - reached) < 5e-3
    # An event that is a little more probable than the best one is found out.
    assert float(noise.excess(np.array(allowed[150] + 0.01), np.array(q[chosen][150]))) > 0


def test_the_perfect_attacker_sees_what_the_noise_allows_and_never_more_than_the_claim():
    noise, claim = DeclaredNoise.of(pure_mechanisms()), Claim.of(pure_budget())
    own, other = noise.roc()
    assert (own <= noise.allowed(other) + 1e-9).all()
    bounds = [noise.expected(claim, noise, runs, 1e-3)[0] for runs in (100, 10_000, 1_000_000)]
    assert bounds == sorted(bounds)
    assert 0 < bounds[0] < bounds[2] < float(TOTAL)
    assert noise.expected(claim, noise, 1_000_000, 1e-3)[1] <= 0


def test_narrower_noise_is_beyond_the_declared_one_with_enough_runs():
    noise, claim = DeclaredNoise.of(pure_mechanisms()), Claim.of(pure_budget())
    narrower = DeclaredNoise.of(louder(pure_mechanisms(), Fraction(1, 2)))
    bound, excess = narrower.expected(claim, noise, 10_000, 1e-3)
    assert bound > float(TOTAL)
    assert excess > 0.1
    assert narrower.expected(claim, noise, 10, 1e-3)[1] < 0
    (mechanism,) = louder({DiscreteGaussian(Fraction(9)): 4}, Fraction(1, 3))
    assert mechanism == DiscreteGaussian(Fraction(1))


@pytest.mark.parametrize("mechanism", [NARROW, DiscreteGaussian(Fraction(5, 2))])
def test_the_log_ratio_is_that_of_the_probabilities(mechanism):
    def weight(value):
        if isinstance(mechanism, DiscreteLaplace):
            return -abs(value) / float(mechanism.scale)
        return -(value**2) / (2 * float(mechanism.sigma_squared))

    values = np.array([-3.0, 0.0, 4.0, 5.0, 11.0, math.nan])
    expected = [weight(value - 4) - weight(value - 5) for value in values[:-1]]
    np.testing.assert_allclose(log_ratio(mechanism, values, 4, 5), [*expected, 0.0])
    np.testing.assert_array_equal(log_ratio(mechanism, values, 4, 4), 0)


def test_inputs_that_differ_in_nothing_are_refused():
    with pytest.raises(InputError, match="nothing to audit"):
        DeclaredNoise.of({})


@pytest.mark.parametrize(("mechanism", "alone"), [
    (DiscreteLaplace(Fraction(6)), DiscreteLaplace(Fraction(2))),
    (DiscreteGaussian(Fraction(450)), DiscreteGaussian(Fraction(50))),
])  # fmt: skip
def test_noise_for_three_records_hides_three_as_that_for_one_hides_one(mechanism, alone):
    """The same loss, but for the grain of whole numbers; with the noise of one record three would show."""
    high = np.array([0.001, 0.01, 0.1, 0.4])
    three, one = DeclaredNoise.of({mechanism: 4}, 3).allowed(high), DeclaredNoise.of({alone: 4}).allowed(high)
    np.testing.assert_allclose(three, one, rtol=0.03)
    assert (DeclaredNoise.of({alone: 4}, 3).allowed(high) > 1.3 * three).any()
