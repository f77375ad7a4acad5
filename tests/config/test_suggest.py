"""Suggested budgets: exact, within their floors, and judged by the same variances as plans."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

from das_spark.config import USUAL_LEVEL, expected_errors, load_plan, read_targets, suggest_budget
from das_spark.config.suggest import PARTS
from das_spark.errors import ConfigurationError

CONF = Path(__file__).parents[2] / "conf"
OURS = CONF / "england_and_wales_like.toml"
COUNTS = {"Nation": 1, "Local_Authority": 4, "MSOA": 12, "LSOA": 48, "Output_Area": 240}
US = {"US": 1, "State": 51, "County": 3143, "Tract": 84000, "Block_Group": 240_000, "Block": 5_800_000}
TARGETS = ("total@output_area:sd<=5", "ethnic_group@LOCAL_AUTHORITY:width<=40")


@pytest.fixture(scope="module")
def suggested():
    return suggest_budget(OURS, TARGETS, COUNTS, kept=Fraction(1, 5))


def test_shares_are_exact_and_each_query_keeps_what_it_was_to_keep(suggested):
    own, budget = load_plan(OURS, files=False).budget, suggested.plan.budget
    assert sum(level.share for level in budget.levels) == 1
    for level in own.levels:
        found = budget.level(level.geolevel)
        assert sum(item.share for item in found.queries) == 1
        for item in level.queries:
            kept = level.share * item.share / 5
            assert found.share * found.share_of(item.query) >= kept - Fraction(1, PARTS)
    assert budget.level("Output_Area").share_of("total") > 0, "a query that a target names is measured there"
    assert budget.total == own.total


def test_the_targets_are_met_by_the_total_that_is_said_and_by_no_smaller_one(suggested):
    scale = suggested.plan.budget.total / suggested.needed
    wanted = [target.error(USUAL_LEVEL) for target in suggested.targets]
    reached = [error * float(scale) ** 0.5 for error in suggested.suggested]
    assert all(error <= limit * (1 + 1e-9) for error, limit in zip(reached, wanted, strict=True))
    assert max(error / limit for error, limit in zip(reached, wanted, strict=True)) > 0.98
    assert suggested.bound <= float(suggested.needed) <= suggested.bound * 1.05, "rounded to thousandths, and to parts"
    assert float(suggested.needed) < 0.2 * suggested.needed_own[""]
    assert suggested.needed_own["main"] == pytest.approx(suggested.needed_own[""]), "the run file names this strategy"


def test_errors_are_those_that_plans_expect():
    """Of the total and of the five ethnic groups, by the other computation, which goes up and down the tree.

    It takes one geounit of each family to have everybody in it and the others to have households alone: without classes
    the two are of one tree.
    """
    settings = ("invariants.units=false",)
    plan = load_plan(OURS, settings=settings, files=False)
    targets = [f"{query}@{name}:sd<=5" for query in ("total", "ethnic_high") for name in COUNTS]
    found = suggest_budget(OURS, targets, COUNTS, settings=settings)
    table = next(table for table in plan.product.tables if table.name == "TS021")
    assert plan.product.schema.query("ethnic_high").rows == len(table.names) - 1
    for place, errors in enumerate(expected_errors(plan, COUNTS, [table])):
        assert found.own[place] == pytest.approx(errors.everywhere[0], rel=1e-3, abs=1e-5)
        assert found.own[len(COUNTS) + place] == pytest.approx(errors.everywhere[1:].max(), rel=1e-3)


def test_the_production_of_2020_is_compared():
    found = suggest_budget(
        CONF / "pl94_2020_person.toml", ["hispanic * cenrace@Block_Group:sd<=10", "total@Tract:sd<=3"], US
    )
    assert {"", "us", "us_rebalanced"} <= set(found.needed_own)
    assert float(found.needed) < found.needed_own["us"]
    assert found.bound <= float(found.needed) * 1.001


@pytest.mark.parametrize(
    ("targets", "said"),
    [
        ([], "name one target or more"),
        (["total@County"], "write QUERY@GEOLEVEL"),
        (["total@Ward:sd<=5"], "the run has the geolevels Nation, Local_Authority"),
        (["totl@MSOA:sd<=5"], "total"),
        (["total@MSOA:sd<=0"], "greater than 0"),
        (["total@MSOA:width<=wide"], "is not a number"),
    ],
)
def test_what_is_wrong_with_a_target_is_said(targets, said):
    with pytest.raises(ConfigurationError, match=said):
        read_targets(targets, load_plan(OURS, files=False))


def test_all_wrong_targets_are_said_at_once():
    with pytest.raises(ConfigurationError) as raised:
        read_targets(["total@Ward:sd<=5", "nothing"], load_plan(OURS, files=False))
    assert "Ward" in str(raised.value)
    assert "nothing" in str(raised.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"counts": {"Nation": 1}}, "--geounits Local_Authority=NUMBER"),
        ({"kept": Fraction(1)}, "--keep 1"),
        ({"level": Fraction(1)}, "--level: lies between 0 and 1"),
        ({"level": Fraction("0.9999999999999999")}, "--level: lies between 0 and 1"),
        ({"path": CONF / "pl94_2020.toml"}, "part"),
        ({"path": CONF / "quickstart.toml", "targets": ["total@County:sd<=5"]}, "epsilon"),
    ],
)
def test_what_cannot_be_suggested_is_refused(change, said):
    given = {"path": OURS, "targets": TARGETS, "counts": COUNTS} | change
    path, targets, counts = (given.pop(name) for name in ("path", "targets", "counts"))
    with pytest.raises(ConfigurationError) as raised:
        suggest_budget(path, targets, counts, **given)
    assert said in f"{raised.value} {raised.value.hint}"
