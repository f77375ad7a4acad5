"""Composition and conversions, against the published figures of the 2020 census and against plain minimisation."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import mpmath
import pytest
from delta_search import searched_delta
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import BudgetError
from das_spark.privacy import (
    Budget,
    Framework,
    LevelBudget,
    QueryShare,
    compose,
    epsilon_bun_steinke,
    epsilon_cks,
)
from das_spark.privacy.accounting import Composition

DELTA = Fraction(1, 10**10)
PERSONS = Fraction(542, 339) ** 2
UNITS = Fraction(3379, 12343) ** 2

PUBLISHED = [
    (PERSONS, 17.14355, 17.90018),
    (UNITS, 2.47467, 2.70222),
    (PERSONS + UNITS, 17.4351, 18.1984),
    (Fraction(24811, 5000), 25.4193, 26.3406),
    (Fraction(15401, 2000), 33.2888, 34.3321),
    (Fraction(24811, 5000) + Fraction(15401, 2000), 45.620, 46.814),
    (PERSONS + UNITS + Fraction(24811, 5000) + Fraction(15401, 2000), 51.571, 52.825),
    (Fraction(1024, 2379) ** 2, 3.99997, 4.316),
    (Fraction(439, 429) ** 2, 10.2967, 10.868),
    (Fraction(1024, 17371) ** 2, 0.50000, 0.569),
    (Fraction(959, 4499) ** 2, 1.9023, 2.091),
]


def budget(framework: Framework, total: Fraction) -> Budget:
    return Budget(framework, total, (LevelBudget("a", Fraction(1), (QueryShare("q", Fraction(1)),)),))


@pytest.mark.parametrize(("rho", "cks", "bun_steinke"), PUBLISHED)
def test_both_conversions_reproduce_the_published_figures(rho: Fraction, cks: float, bun_steinke: float) -> None:
    assert epsilon_cks(rho, DELTA) == pytest.approx(cks, abs=1.01 * 10.0 ** -len(str(cks).split(".")[1]))
    assert epsilon_bun_steinke(rho, DELTA) == pytest.approx(bun_steinke, abs=6e-4)


def test_the_exact_figures_of_the_redistricting_release() -> None:
    assert Fraction(293764, 114921) == PERSONS
    assert epsilon_cks(PERSONS, DELTA) == pytest.approx(17849145 / 1041158, abs=1e-6)
    assert epsilon_cks(UNITS, DELTA) == pytest.approx(1455307 / 588081, abs=1e-6)
    assert epsilon_bun_steinke(Fraction(24811, 5000), DELTA) == pytest.approx(26.3406, abs=5e-5)
    assert epsilon_bun_steinke(Fraction(15401, 2000), DELTA) == pytest.approx(34.3321, abs=5e-5)
    assert epsilon_cks(Fraction(256, 100), DELTA) == pytest.approx(17.158, abs=5e-4)


@given(
    st.fractions(min_value=Fraction(1, 1000), max_value=20, max_denominator=10**4),
    st.sampled_from([1e-3, 1e-6, 1e-10, 1e-20]),
)
def test_at_epsilon_delta_is_reached_and_below_it_is_not(rho: Fraction, delta: float) -> None:
    epsilon = epsilon_cks(rho, delta)
    assert searched_delta(rho, epsilon) <= delta * (1 + 1e-5)
    assert searched_delta(rho, epsilon * (1 - 1e-6)) > delta * (1 - 1e-9)
    assert epsilon <= epsilon_bun_steinke(rho, delta) * (1 + 1e-12)


@pytest.mark.parametrize(("rho", "epsilon"), [("1/100", 0.3), ("1/2", 2.0), ("256/100", 17.0), ("8", 40.0)])
def test_epsilon_is_where_delta_is_the_infimum_that_a_fine_search_finds(rho: str, epsilon: float) -> None:
    value = mpmath.mpf(Fraction(rho).numerator) / Fraction(rho).denominator

    def objective(order: mpmath.mpf) -> mpmath.mpf:
        return mpmath.exp((order - 1) * (order * value - epsilon)) / (order - 1) * (1 - 1 / order) ** order

    with mpmath.workdps(40):

        def at(step: int) -> mpmath.mpf:
            return objective(1 + mpmath.mpf(10) ** (mpmath.mpf(step) / 4000))

        # The objective has one minimum: it lies within a hundred steps of the least of every hundredth.
        best = min(range(-12000, 12001, 100), key=at)
        delta = float(min(map(at, range(max(best - 100, -12000), min(best + 100, 12000) + 1))))
    assert epsilon_cks(Fraction(rho), delta) == pytest.approx(epsilon, rel=1e-6)
    assert searched_delta(Fraction(rho), epsilon) == pytest.approx(delta, rel=1e-9)  # what other tests search with


@pytest.mark.parametrize("delta", [0, 1, -0.5, 2.0])
def test_an_impossible_delta_is_refused(delta: float) -> None:
    with pytest.raises(BudgetError, match="delta"):
        epsilon_cks(PERSONS, delta)
    with pytest.raises(BudgetError, match="delta"):
        epsilon_bun_steinke(PERSONS, delta)


def test_an_impossible_rho_is_refused() -> None:
    with pytest.raises(BudgetError, match="rho"):
        epsilon_cks(Fraction(0), DELTA)


def test_extreme_budgets_are_converted() -> None:
    assert epsilon_cks(Fraction(1, 10**12), DELTA) < 1e-5
    assert epsilon_cks(Fraction(10**4), DELTA) == pytest.approx(10**4 + 2 * math.sqrt(10**4 * 23.03), rel=0.01)


def test_budgets_of_one_framework_add_up_exactly() -> None:
    third = budget(Framework.PURE_DP, Fraction(1, 3))
    assert compose([third] * 3).epsilon == 1
    assert compose([third] * 3).joint_rho is None
    assert compose([third] * 3).joint_epsilon(DELTA) == 1.0
    concentrated = compose([budget(Framework.ZCDP, PERSONS), budget(Framework.ZCDP, UNITS)])
    assert concentrated.rho == PERSONS + UNITS
    assert concentrated.joint_rho == concentrated.rho
    assert concentrated.joint_epsilon(DELTA) == epsilon_cks(PERSONS + UNITS, DELTA)


def test_budgets_of_two_frameworks_are_stated_jointly() -> None:
    mixed = compose([budget(Framework.PURE_DP, Fraction(1, 2)), budget(Framework.ZCDP, Fraction(1, 10))])
    assert mixed.joint_rho == Fraction(1, 10) + Fraction(1, 8)
    ways = 0.5 + epsilon_cks(Fraction(1, 10), DELTA), epsilon_cks(Fraction(9, 40), DELTA)
    assert mixed.joint_epsilon(DELTA) == min(ways)


def test_nothing_spent_costs_nothing() -> None:
    assert compose([]).joint_epsilon(DELTA) == 0.0


def test_releases_for_fewer_records_of_a_contributor_cost_more_for_so_many():
    """Lemma 12: epsilon grows like the records that change, rho like their square; of equals nothing changes."""
    one, three = budget(Framework.PURE_DP, Fraction(1, 2)), replace(budget(Framework.PURE_DP, Fraction(2)), at_most=3)
    rho, of_two = budget(Framework.ZCDP, Fraction(1, 9)), replace(budget(Framework.ZCDP, Fraction(4)), at_most=2)
    assert compose([one, three]) == Composition(Fraction(7, 2), Fraction(0), 3)
    assert compose([one, three, rho, of_two]) == Composition(Fraction(7, 2), 1 + Fraction(9), 3)
    assert compose([three, three]).epsilon == 4
    assert compose([one, rho]) == Composition(Fraction(1, 2), Fraction(1, 9), 1)
    with pytest.raises(BudgetError, match="at most 0 records"):
        replace(one, at_most=0)
