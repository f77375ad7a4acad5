"""Budgets: exact, complete, and refused otherwise."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import BudgetError
from das_spark.privacy import Budget, DiscreteGaussian, DiscreteLaplace, Framework, LevelBudget, QueryShare, exact


def level(name: str, share: str, **queries: str) -> LevelBudget:
    shares = tuple(QueryShare(query, Fraction(text)) for query, text in queries.items())
    return LevelBudget(name, Fraction(share), shares)


@pytest.fixture
def budget() -> Budget:
    return Budget(
        Framework.PURE_DP,
        Fraction(1, 4),
        (level("State", "1/4", hhgq="9/40", race="31/40"), level("Block", "3/4", detailed="1")),
    )


@pytest.mark.parametrize(
    ("text", "value"),
    [("1/4", Fraction(1, 4)), ("0.25", Fraction(1, 4)), ("1e-3", Fraction(1, 1000)), (3, Fraction(3))],
)
def test_fractions_and_decimals_are_read_exactly(text: str | int, value: Fraction) -> None:
    assert exact(text, "budget.total") == value


@given(st.fractions())
def test_a_fraction_survives_its_text(value: Fraction) -> None:
    assert exact(str(value), "here") == value == exact(value, "here")


@pytest.mark.parametrize("value", [0.25, True, None, "one", "1/0", "nan", "", [1]])
def test_what_is_not_exact_is_refused_with_its_place(value: object) -> None:
    with pytest.raises(BudgetError, match=r"budget\.total"):
        exact(value, "budget.total")  # type: ignore[arg-type]


def test_what_is_spent_is_the_exact_product(budget: Budget) -> None:
    assert budget.spent("State", "hhgq") == Fraction(9, 640)
    assert budget.mechanism("State", "hhgq") == DiscreteLaplace(Fraction(1280, 9))


def test_all_that_is_spent_is_the_total(budget: Budget) -> None:
    spent = [budget.spent(each.geolevel, item.query) for each in budget.levels for item in each.queries]
    assert sum(spent) == budget.total


def test_what_is_spent_follows_the_total(budget: Budget) -> None:
    doubled = replace(budget, total=2 * budget.total)
    assert doubled.spent("Block", "detailed") == 2 * budget.spent("Block", "detailed")


def test_the_framework_decides_the_distribution(budget: Budget) -> None:
    other = Budget(Framework.ZCDP, budget.total, budget.levels)
    assert other.mechanism("State", "hhgq") == DiscreteGaussian(Fraction(640, 9))


def test_query_shares_that_do_not_sum_to_one_are_refused() -> None:
    with pytest.raises(BudgetError, match="'State': shares sum to 9/10, not 1"):
        level("State", "1", hhgq="1/2", race="2/5")


def test_level_shares_that_do_not_sum_to_one_are_refused() -> None:
    with pytest.raises(BudgetError, match="geolevels: shares sum to 9/10, not 1"):
        Budget(Framework.PURE_DP, Fraction(1), (level("State", "9/10", total="1"),))


def test_a_sum_that_is_off_by_less_than_any_float_is_refused() -> None:
    tiny = Fraction(1, 10**40)
    with pytest.raises(BudgetError, match="not 1"):
        LevelBudget("State", Fraction(1), (QueryShare("a", Fraction(1, 2)), QueryShare("b", Fraction(1, 2) + tiny)))


@pytest.mark.parametrize("total", [Fraction(0), Fraction(-1), 0.25, 1])
def test_a_total_that_is_not_an_exact_positive_fraction_is_refused(budget: Budget, total: object) -> None:
    with pytest.raises(BudgetError, match="budget: total"):
        replace(budget, total=total)  # type: ignore[arg-type]


@pytest.mark.parametrize("share", [Fraction(0), Fraction(-1, 2), 0.5])
def test_a_share_that_is_not_an_exact_positive_fraction_is_refused(share: object) -> None:
    with pytest.raises(BudgetError, match="share of query 'a'"):
        LevelBudget("State", Fraction(1), (QueryShare("a", share), QueryShare("b", Fraction(1))))  # type: ignore[arg-type]
    with pytest.raises(BudgetError, match="'State': share"):
        LevelBudget("State", share, (QueryShare("a", Fraction(1)),))  # type: ignore[arg-type]


@pytest.mark.parametrize("framework", Framework)
def test_a_share_that_buys_noise_beyond_all_counts_is_named(framework: Framework) -> None:
    tiny = Fraction(1, 10**60)
    of = Budget(
        framework, Fraction(1), (LevelBudget("State", Fraction(1), (QueryShare("a", tiny), QueryShare("b", 1 - tiny))),)
    )
    for mechanism in (lambda: of.mechanism("State", "a"), lambda: of.mechanism_at("State", "a", Fraction(1, 2))):
        with pytest.raises(BudgetError, match=r"budget, a at State: .*too wide"):
            mechanism()


def test_names_that_stand_twice_are_refused() -> None:
    with pytest.raises(BudgetError, match="'a' stands twice"):
        LevelBudget("State", Fraction(1), (QueryShare("a", Fraction(1, 2)), QueryShare("a", Fraction(1, 2))))
    with pytest.raises(BudgetError, match="'State' stands twice"):
        Budget(Framework.ZCDP, Fraction(1), (level("State", "1/2", a="1"), level("State", "1/2", a="1")))


def test_levels_without_queries_and_budgets_without_levels_are_refused() -> None:
    with pytest.raises(BudgetError, match="no query has a share"):
        LevelBudget("State", Fraction(1), ())
    with pytest.raises(BudgetError, match="no geolevel has a share"):
        Budget(Framework.ZCDP, Fraction(1), ())


def test_an_unknown_framework_is_refused(budget: Budget) -> None:
    with pytest.raises(BudgetError, match="unknown framework"):
        Budget("pure", Fraction(1), budget.levels)  # type: ignore[arg-type]


def test_unknown_names_are_refused_with_the_nearest_one(budget: Budget) -> None:
    with pytest.raises(BudgetError, match="did you mean 'State'"):
        budget.level("Stat")
    with pytest.raises(BudgetError, match="did you mean 'hhgq'"):
        budget.spent("State", "hhgp")


def test_a_budget_travels_between_processes(budget: Budget) -> None:
    assert pickle.loads(pickle.dumps(budget)) == budget
