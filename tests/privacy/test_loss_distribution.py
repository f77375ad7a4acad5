"""The exact loss distribution of discrete Laplace noise, against enumeration of all outcomes of losses."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import pytest

from das_spark.errors import BudgetError
from das_spark.privacy.budget import Budget, Framework, LevelBudget, QueryShare
from das_spark.privacy.loss_distribution import delta_of_laplace


def budget(total: str, *shares: str, framework: Framework = Framework.PURE_DP) -> Budget:
    queries = tuple(QueryShare(f"q{place}", Fraction(share)) for place, share in enumerate(shares))
    return Budget(framework, Fraction(total), (LevelBudget("a", Fraction(1), queries),))


def by_enumeration(whole: Budget, epsilon: float) -> float:
    """Sum over all combinations of losses of the queries of P(L) (1 - exp(epsilon - L)) where positive."""
    laws = []
    for item in whole.levels[0].queries:
        spent = float(whole.spent("a", item.query))
        up, down = (1 + math.exp(-spent / 2)) ** -2, (1 + math.exp(spent / 2)) ** -2
        laws.append([(spent, up), (0.0, 1 - up - down), (-spent, down)])
    total = 0.0
    for outcome in product(*laws):
        loss, weight = sum(each for each, _ in outcome), math.prod(each for _, each in outcome)
        total += weight * max(0.0, 1 - math.exp(epsilon - loss))
    return total


@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.6, 0.99])
def test_delta_is_what_enumeration_finds(epsilon: float) -> None:
    whole = budget("1", "1/2", "1/3", "1/6")
    assert delta_of_laplace(whole, epsilon) == pytest.approx(by_enumeration(whole, epsilon), abs=1e-14)


def test_delta_of_a_single_query_is_the_direct_hockey_stick_divergence() -> None:
    """Two answers, each noised at scale 2 / epsilon, one up and one down, over a wide grid of outcomes."""
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
    assert delta_of_laplace(budget("3/2", "1"), epsilon) == pytest.approx(direct, rel=1e-9)


def test_at_the_total_nothing_is_left() -> None:
    assert delta_of_laplace(budget("1/4", "9/40", "27/40", "1/10"), 0.25) == 0.0


def test_many_queries_are_tighter_than_their_sum() -> None:
    whole = budget("4", *["1/40"] * 40)
    assert delta_of_laplace(whole, 3.0) < 1e-6


def test_a_concentrated_budget_is_refused() -> None:
    with pytest.raises(BudgetError, match="pure_dp"):
        delta_of_laplace(budget("1", "1", framework=Framework.ZCDP), 0.1)


def test_a_grid_too_fine_to_convolve_is_refused() -> None:
    with pytest.raises(BudgetError, match="grid"):
        delta_of_laplace(budget("1", "1/9999991", "9999990/9999991"), 0.1)
