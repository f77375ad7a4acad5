"""What a plan knows of budget that no estimate will read."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from das_spark.config import load_plan
from das_spark.planning import unused_shares

CONF = Path(__file__).parents[2] / "conf"


def unread(conf, *settings, counts=None):
    plan = load_plan(CONF / conf, settings=settings, files=False)
    return plan, list(unused_shares(plan, counts or {}))


def test_a_total_that_is_exact_is_read_by_nobody():
    plan, found = unread("pl94_2020_person.toml")
    (share,) = found
    assert (share.geolevel, share.query) == ("State", "total")
    assert share.spent == plan.budget.spent("State", "total")
    assert share.sentence("rho") == (
        f"the budget of query 'total' at State (rho {share.spent}) will be read by no estimate: "
        "totals are published exactly there"
    )


@pytest.mark.parametrize("name", ["us_rebalanced", "state_rebalanced", "state_least_error"])
def test_a_rebalanced_strategy_measures_nothing_that_is_not_read(name):
    assert unread("pl94_2020_person.toml", f"budget.strategy={name}")[1] == []


def test_a_total_that_is_not_exact_is_read():
    assert unread("pl94_2020_person.toml", "invariants.total_at=US")[1] == []


@pytest.mark.parametrize(
    ("conf", "found"),
    [
        ("pl94_2020_state.toml", []),
        ("pl94_2020_to_tract.toml", [("State", "total")]),
        ("pl94_2020_to_county.toml", [("State", "total")]),
        ("pl94_2020_unit.toml", []),
    ],
)
def test_what_the_shipped_runs_measure_for_nothing(conf, found):
    assert [(share.geolevel, share.query) for share in unread(conf)[1]] == found


def test_a_level_of_only_children_is_said_once_for_all_its_queries():
    found = unread("pl94_2020_person.toml", counts={"US": 1, "State": 1})[1]
    (share,) = found
    assert (share.geolevel, share.query) == ("State", None)
    assert share.spent == Fraction(293764, 114921) * Fraction(1440, 4099)
    assert share.sentence("rho").startswith(f"the budget of State (rho {share.spent}) will be read by no estimate: ")


def test_a_query_that_no_pass_fits_is_said():
    passes = '[{geolevels = ["Tract"], least_squares = [["total"], ["detailed"]], rounding = [["detailed"]]}]'
    plan, found = unread("pl94_2020_state.toml", f"estimation.passes={passes}")
    measured = [item.query for item in plan.budget.level("Tract").queries]
    assert [share.query for share in found] == [name for name in measured if name not in ("total", "detailed")]
    assert {share.geolevel for share in found} == {"Tract"}
    assert "no pass of that geolevel fits it" in found[0].why
