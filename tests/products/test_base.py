"""What product tables are made with."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from das_spark.errors import BudgetError, ConfigurationError
from das_spark.estimation import OuterPass
from das_spark.products import PRODUCTS
from das_spark.products.base import concentrated_strategy, parts

ONE = OuterPass((("detailed",),), (("detailed",),))


def test_shares_over_one_denominator_leave_out_what_has_none() -> None:
    assert parts(("a", "b", "c"), (1, 0, 3), 4) == {"a": Fraction(1, 4), "c": Fraction(3, 4)}
    with pytest.raises(ValueError, match="shorter"):
        parts(("a", "b"), (1,), 1)


def test_a_concentrated_strategy_has_queries_and_passes_of_its_own_at_each_level() -> None:
    made = concentrated_strategy(
        "x",
        "some strategy",
        rho="1/2",
        geolevels={"US": "1/4", "State": Fraction(3, 4)},
        queries={"US": {"detailed": "1"}, "State": {"total": "1/3", "detailed": "2/3"}, "Block": {"total": "1"}},
        passes={"State": (ONE,), "Block": (ONE,)},
    )
    assert (made.geolevels, made.passes) == (("US", "State"), {"State": (ONE,)})
    assert made.budget.spent("State", "total") == Fraction(1, 2) * Fraction(3, 4) * Fraction(1, 3)


@pytest.mark.parametrize("share", ["1/5", "0.3"])
def test_shares_that_do_not_sum_to_one_are_refused(share: str) -> None:
    with pytest.raises(BudgetError, match="sum to"):
        concentrated_strategy(
            "x", "y", rho="1", geolevels={"US": "1"}, queries={"US": {"detailed": "3/4", "total": share}}, passes={}
        )


@pytest.mark.parametrize("change", [{"record": "unit"}, {"vacant_counted": False}])
def test_tables_of_occupancy_are_refused_where_nothing_tells_vacant_units(change: dict[str, object]) -> None:
    households = PRODUCTS["ddp_2010_household"]
    assert households.occupancy
    with pytest.raises(ConfigurationError, match="tables of occupancy need households"):
        replace(households, **change)
