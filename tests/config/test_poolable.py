"""Which settings keep runs from being pooled, and which do not."""

from fractions import Fraction

import pytest

from das_spark.config import RunPlan, differing_settings, load_plan

OF_AREAS = ("geography.reader=tidy", "geography.path=areas.csv")


def plan(*settings: str) -> RunPlan:
    return load_plan("conf/pl94_2020_simulated.toml", settings=settings, files=False)


@pytest.mark.parametrize(
    ("setting", "key", "value"),
    [
        ("budget.rho=1/3", "budget.total", "1/3"),
        ("invariants.total_at=US", "invariants.total_at", "US"),
        ("estimation.rounding=released", "estimation.rounding", "released"),
        ("estimation.gap_tolerance=0.001", "estimation.gap_tolerance", 0.001),
    ],
)
def test_runs_that_were_made_differently_differ_in_the_setting_that_says_so(setting, key, value):
    assert {name: pair[1] for name, pair in differing_settings(plan(), plan(setting)).items()} == {key: value}


def test_another_spine_is_another_way_to_measure():
    found = differing_settings(plan(), plan("geography.spine=optimised", *OF_AREAS))
    assert found["geography.spine"] == ("census", "optimised")
    shapes = (plan("geography.spine=optimised", *OF_AREAS, f"geography.fanout_cutoff={n}") for n in (3, 4))
    assert differing_settings(*shapes) == {"geography.shape.fanout_cutoff": (3, 4)}


def test_a_share_is_named_by_its_level_and_query():
    shares = {item.query: item.share for item in plan().budget.levels[1].queries}
    first, second, *_ = shares
    moved = {**shares, first: shares[first] + Fraction(1, 10_000), second: shares[second] - Fraction(1, 10_000)}
    name = plan().budget.levels[1].geolevel
    spelled = ", ".join(f'"{query}" = "{share}"' for query, share in moved.items())
    found = differing_settings(plan(), plan(f"budget.level_queries.{name}={{{spelled}}}"))
    assert set(found) == {f"budget.levels.{name}.queries.{query}" for query in (first, second)}


@pytest.mark.parametrize(
    "setting",
    [
        "run.name=again",
        "input.dataset=another",
        "output.root=elsewhere",
        "estimation.partitions_per_core=9",
        "evaluation.enabled=false",
        *OF_AREAS[:0],
    ],
)
def test_names_places_and_speed_keep_nobody_from_pooling(setting):
    assert differing_settings(plan(), plan(setting)) == {}
    assert differing_settings(plan(setting), plan()) == {}


def test_a_budget_that_is_spelled_out_is_the_one_of_the_strategy():
    one = plan()
    levels = ", ".join(f'{level.geolevel} = "{level.share}"' for level in one.budget.levels)
    other = plan(f"budget.geolevels={{{levels}}}")
    assert differing_settings(one, other) == {}
