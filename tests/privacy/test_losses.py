"""Partial losses of the 2020 redistricting release, against the certificates of its production.

data/pl94_2020_strategies.json holds the published shares of the P.L. 94-171 production runs (persons and units, for the
United States and for Puerto Rico).
"""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from das_spark.errors import BudgetError
from das_spark.histogram import Attribute, Query, Recode, Schema
from das_spark.privacy import (
    Budget,
    Framework,
    LevelBudget,
    QueryShare,
    attribute_losses,
    exact,
    within_geolevel_losses,
)

STRATEGIES = json.loads((Path(__file__).parent / "data" / "pl94_2020_strategies.json").read_text())


def levels(count: int) -> tuple[str, ...]:
    return tuple(str(code) for code in range(count))


INSTITUTIONS = Recode("hhinstlevels", (("household", (0,)), ("institution", (1, 2, 3, 4)), ("other", (5, 6, 7))))
SCHEMA = Schema(
    "pl94",
    (
        Attribute("hhgq", levels(8), (INSTITUTIONS,)),
        Attribute("votingage", levels(2)),
        Attribute("hispanic", levels(2)),
        Attribute("cenrace", levels(63)),
    ),
)


def budget(run: str) -> Budget:
    record = STRATEGIES[run]
    return Budget(
        Framework.ZCDP,
        exact(record["rho"], "rho"),
        tuple(
            LevelBudget(
                name,
                exact(level["share"], name),
                tuple(QueryShare(query, exact(share, query)) for query, share in level["queries"].items()),
            )
            for name, level in record["levels"].items()
        ),
    )


def queries(whole: Budget) -> dict[str, Query]:
    return {item.query: SCHEMA.query(item.query) for level in whole.levels for item in level.queries}


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        (
            "persons_us",
            {
                "hhgq": (7.24, 0.5554),
                "votingage": (7.57, 0.6010),
                "hispanic": (10.04, 1.0007),
                "cenrace": (10.08, 1.0088),
            },
        ),
        (
            "persons_pr",
            {
                "hhgq": (8.69, 0.7720),
                "votingage": (9.49, 0.9045),
                "hispanic": (11.65, 1.3039),
                "cenrace": (11.69, 1.3120),
            },
        ),
    ],
)
def test_attribute_losses_agree_with_the_certificates(run: str, expected: dict[str, tuple[float, float]]) -> None:
    whole = budget(run)
    found = {loss.name: loss for loss in attribute_losses(whole, queries(whole), SCHEMA)}
    assert set(found) == set(expected)
    for name, (epsilon, rho) in expected.items():
        assert found[name].epsilon == pytest.approx(epsilon, abs=0.0051)
        assert float(found[name].spent) == pytest.approx(rho, abs=6e-5)


@pytest.mark.parametrize(
    ("run", "expected"),
    [
        ("persons_us", {"US": 16.89, "State": 13.05, "County": 11.70, "Tract": 9.38, "Block_Group": 2.93}),
        ("persons_pr", {"State": 15.41, "County": 13.51, "Tract": 11.18, "Block_Group": 2.93}),
        ("units_us", {"US": 2.47, "State": 2.46, "County": 2.35, "Tract": 1.81, "Block_Group": 0.82}),
        ("units_pr", {"State": 2.47, "County": 2.35, "Tract": 1.81, "Block_Group": 0.82}),
    ],
)
def test_losses_within_geolevels_agree_with_the_certificates(run: str, expected: dict[str, float]) -> None:
    found = {loss.name: loss.epsilon for loss in within_geolevel_losses(budget(run))}
    assert list(found) == list(expected)
    assert found == pytest.approx(expected, abs=0.0051)


def test_no_loss_is_given_of_geounits_that_a_record_does_not_leave() -> None:
    whole = budget(next(run for run in STRATEGIES if STRATEGIES[run]["levels"].keys() >= {"US", "State"}))
    every = within_geolevel_losses(whole)
    assert within_geolevel_losses(whole, held_within="State") == every[1:]
    assert within_geolevel_losses(whole, held_within=whole.levels[-1].geolevel) == ()


def test_what_is_spent_within_a_geolevel_is_exact() -> None:
    losses = {loss.name: loss.spent for loss in within_geolevel_losses(budget("persons_us"))}
    assert losses["Block_Group"] == Fraction(293764, 114921) * Fraction(165, 4099)
    assert losses["US"] == Fraction(293764, 114921) * Fraction(4099 - 104, 4099)


def test_the_state_total_of_the_release_gets_its_published_noise() -> None:
    whole = budget("persons_us")
    assert float(whole.spent("State", "total")) == pytest.approx(0.8270, abs=5e-5)
    assert whole.mechanism("State", "total").variance() == pytest.approx(1.2092, abs=5e-5)


def test_pure_losses_are_exact_epsilons() -> None:
    shares = (QueryShare("hhgq", Fraction(9, 40)), QueryShare("detailed", Fraction(31, 40)))
    whole = Budget(
        Framework.PURE_DP,
        Fraction(1, 4),
        (LevelBudget("State", Fraction(1, 3), shares), LevelBudget("Block", Fraction(2, 3), shares)),
    )
    found = {loss.name: loss for loss in attribute_losses(whole, queries(whole), SCHEMA)}
    assert found["hhgq"].spent == Fraction(1, 4)
    assert found["cenrace"].spent == Fraction(1, 4) * Fraction(31, 40)
    assert found["cenrace"].epsilon == float(Fraction(31, 160))
    assert found["cenrace"].delta == 0
    assert [(loss.name, loss.spent) for loss in within_geolevel_losses(whole)] == [("State", Fraction(1, 6))]


def test_an_attribute_that_no_query_looks_at_loses_nothing() -> None:
    whole = Budget(Framework.ZCDP, Fraction(1), (LevelBudget("a", Fraction(1), (QueryShare("total", Fraction(1)),)),))
    assert all(loss.spent == 0 and loss.epsilon == 0.0 for loss in attribute_losses(whole, queries(whole), SCHEMA))


def test_a_budget_whose_query_is_not_given_is_refused() -> None:
    whole = budget("persons_us")
    with pytest.raises(BudgetError, match="the budget names query 'cenrace'"):
        attribute_losses(whole, {}, SCHEMA)
