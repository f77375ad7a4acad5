"""Bounds on epsilon and rho from two probabilities: closed forms, a plain computation, and what implies what."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from das_spark.audit.claim import Claim, epsilon_bound, rho_bound
from das_spark.privacy import Budget, Framework, LevelBudget, QueryShare, epsilon_cks

CHANCES = st.floats(1e-6, 1 - 1e-6)


def budget(framework: Framework, total: Fraction) -> Budget:
    return Budget(framework, total, (LevelBudget("level", Fraction(1), (QueryShare("query", Fraction(1)),)),))


def renyi(p: float, q: float, order: float) -> float:
    return math.log(p**order * q ** (1 - order) + (1 - p) ** order * (1 - q) ** (1 - order)) / (order - 1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_randomised_response_is_bounded_by_its_own_epsilon(epsilon):
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    assert float(epsilon_bound(np.array(p), np.array(1 - p), 0.0)) == pytest.approx(epsilon)
    assert float(epsilon_bound(np.array(1 - p), np.array(p), 0.0)) == 0.0
    with_delta = float(epsilon_bound(np.array(p), np.array(1 - p), 0.05))
    assert with_delta == pytest.approx(math.log((p - 0.05) / (1 - p)) if p - 0.05 > 1 - p else 0.0)


@given(CHANCES, CHANCES)
def test_rho_is_the_greatest_divergence_over_its_order(p, q):
    found = float(rho_bound(np.array(p), np.array(q)))
    if p <= q:
        assert found == 0.0
        return
    orders = 1 + np.logspace(-4, 1, 400)
    assert found >= max(renyi(p, q, order) / order for order in orders) * (1 - 2e-3) - 1e-9
    divergence = p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))
    assert found >= divergence * (1 - 1e-3) - 1e-9


@pytest.mark.parametrize("rho", [0.02, 0.5, 3.0])
def test_gaussian_events_never_prove_more_than_rho_and_some_prove_most_of_it(rho):
    thresholds = np.linspace(-4, 8, 400)
    shift = math.sqrt(2 * rho)
    found = rho_bound(stats.norm.sf(thresholds - shift), stats.norm.sf(thresholds))
    assert found.max() <= rho * (1 + 1e-9)
    assert found.max() > 0.6 * rho


@given(CHANCES, CHANCES, st.fractions(Fraction(1, 100), Fraction(4)), st.sampled_from([0.1, 1e-3, 1e-10]))
def test_what_contradicts_the_converted_epsilon_contradicts_rho(p, q, rho, delta):
    if float(epsilon_bound(np.array(p), np.array(q), delta)) > epsilon_cks(rho, delta) + 1e-6:
        assert float(rho_bound(np.array(p), np.array(q))) > float(rho) * (1 - 1e-3)


def test_a_claim_is_told_in_its_own_currency():
    pure = Claim.of(budget(Framework.PURE_DP, Fraction(1, 3)))
    assert (pure.currency, pure.epsilon, pure.delta) == ("epsilon", 1 / 3, 0)
    concentrated = Claim.of(budget(Framework.ZCDP, Fraction(1, 3)), Fraction(1, 100))
    assert concentrated.currency == "rho"
    assert concentrated.epsilon == epsilon_cks(Fraction(1, 3), 0.01)
    low, high = np.array([0.6, 0.2]), np.array([0.1, 0.3])
    np.testing.assert_array_equal(pure.bound(low, high), epsilon_bound(low, high, 0.0))
    np.testing.assert_array_equal(concentrated.bound(low, high), rho_bound(low, high))
    np.testing.assert_array_equal(concentrated.epsilon_bound(low, high), epsilon_bound(low, high, 0.01))
