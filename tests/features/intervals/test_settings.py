"""`[output.intervals]`: which intervals a run may have, what they are by default, and how a manifest keeps them."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest
from quickstart_plans import QUICKSTART, TABLES, inline, plan, refused

from das_spark.config import (
    plan_from_config,
    plan_to_config,
    stages_of,
)
from das_spark.errors import ConfigurationError
from das_spark.features.intervals.settings import IntervalSettings, interval_settings

ALL = "measurement.rows=all"
BLUE = "estimation.estimator=blue_down"
WANTED = 'output.intervals={level="0.9"}'
OPTIMISED = ("geography.spine=optimised", "geography.reader=tidy", "geography.path=blocks.csv")
LEVELS = ("County", "Tract", "Block_Group", "Block")


def settings_of(*settings: str, name: str = QUICKSTART) -> IntervalSettings:
    found = plan(*settings, name=name).output.of(IntervalSettings)
    assert found is not None
    return found


def wanted(**more: object) -> str:
    return inline("output.intervals", {"level": "0.9", **more})


def test_where_every_answer_is_kept_all_tables_and_geolevels_have_intervals():
    assert settings_of(ALL, WANTED) == IntervalSettings(level=Fraction(9, 10), tables=TABLES, geolevels=LEVELS)


def test_a_level_is_exact_and_given_as_text():
    assert settings_of(ALL, wanted(level="2/3")).level == Fraction(2, 3)
    assert settings_of(ALL, "output.intervals.level=0.95").level == Fraction(19, 20)


@pytest.mark.parametrize("level", ["0", "1", "-1/2", "1.5", "90", "nine", "1e-17", "0.9999999999999999"])
def test_a_level_that_is_no_probability_is_refused(level):
    assert "output.intervals.level: " in refused(ALL, wanted(level=level))


def test_a_section_without_a_level_is_refused():
    assert "output.intervals.level" in refused(ALL, 'output.intervals.tables=["P1"]')


def test_unknown_tables_geolevels_and_keys_are_named_with_what_is_near():
    assert "output.intervals.tables: 'P9' is no table of the product" in refused(ALL, wanted(tables=["P9"]))
    said = refused(ALL, wanted(geolevels=["Blok"]))
    assert "output.intervals.geolevels: 'Blok': there is no such geolevel in the run; did you mean 'Block'?" in said
    # A geolevel of the product that the run does not have.
    assert "'State': there is no such geolevel in the run" in refused(ALL, wanted(geolevels=["State"]))
    assert "output.intervals.table: unknown key" in refused(ALL, wanted(table=["P1"]))


def test_tables_and_geolevels_have_the_order_of_the_product_and_the_spine_whatever_the_run_file_says():
    found = settings_of(ALL, wanted(tables=["P3", "P1", "P3"], geolevels=["Block", "County", "Block"]))
    assert (found.tables, found.geolevels) == (("P1", "P3"), ("County", "Block"))


def test_a_run_that_keeps_what_its_estimates_need_has_no_intervals():
    assert "output.intervals: need all answers, and the run keeps those that its estimates need; set " in refused(
        WANTED
    )


def test_a_geolevel_that_is_measured_where_the_estimate_above_is_not_zero_is_refused():
    said = (
        "output.intervals.geolevels: Tract is measured only where the estimate of the level above is not zero, which "
        'is no unbiased sample of its answers; set measurement.rows = "all"'
    )
    assert said in refused(wanted(geolevels=["County", "Tract"]))
    assert "Block is measured only where" in refused(BLUE, wanted(geolevels=["County", "Block"]))


def test_the_top_level_has_intervals_by_itself_since_it_is_always_measured_whole():
    assert settings_of(wanted(geolevels=["County"])).geolevels == ("County",)


def test_a_run_from_all_levels_together_has_intervals_of_all_but_the_lowest():
    assert settings_of(BLUE, WANTED).geolevels == LEVELS[:-1]
    assert settings_of(BLUE, ALL, WANTED).geolevels == LEVELS


def test_on_a_spine_of_areas_geounits_of_the_census_are_sums_of_blocks_and_need_their_answers():
    name = "pl94_2020_state.toml"
    census = ("State", "County", "Tract", "Block_Group", "Block")
    assert settings_of(ALL, *OPTIMISED, WANTED, name=name).geolevels == census
    assert settings_of(BLUE, WANTED, name=name).geolevels == census[:-1]
    assert "need all answers" in refused(BLUE, *OPTIMISED, WANTED, name=name)
    assert "County is measured only where" in refused(BLUE, *OPTIMISED, wanted(geolevels=["County"]), name=name)


def test_a_product_without_tables_has_no_intervals():
    said = "output.intervals: product 'e2e_1940' has no tables; leave the section out"
    assert said in refused(ALL, WANTED, name="e2e_1940.toml")


def test_queries_that_tell_too_much_apart_for_covariances_are_refused(monkeypatch):
    assert settings_of(ALL, WANTED)
    monkeypatch.setattr("das_spark.features.intervals.settings.MOST_SITES", 7)
    said = refused(ALL, WANTED)
    assert "output.intervals: holds for each geounit a matrix of all combinations of levels" in said
    assert "more than 7; measure fewer queries that group levels (budget.queries), or ask for output.replicates" in said
    assert plan(ALL)


def test_intervals_are_a_stage_behind_the_tables():
    names = [stage.name for stage in stages_of(plan(ALL, WANTED))]
    assert names[names.index("tabulate") :] == ["tabulate", "intervals", "verify", "evaluate"]
    assert "intervals" not in [stage.name for stage in stages_of(plan(ALL))]
    assert "intervals" in [stage.name for stage in stages_of(plan(ALL, WANTED, "output.tables=[]"))]


@pytest.mark.parametrize(
    "settings",
    [(ALL, WANTED), (BLUE, wanted(level="2/3", tables=["P2"])), (wanted(geolevels=["County"]),)],
    ids=["all", "together", "top"],
)
def test_a_manifest_keeps_them(settings):
    first = plan(*settings)
    text = json.dumps(plan_to_config(first))
    again = plan_from_config(json.loads(text), source="manifest")
    assert again.output.features == first.output.features
    assert json.dumps(plan_to_config(again)) == text
    assert again.config_hash == first.config_hash


def test_what_a_run_has_no_intervals_of_enters_no_configuration():
    with_them, without = plan(ALL, WANTED), plan(ALL)
    config = plan_to_config(with_them)
    assert config["output"].pop("intervals") == {"level": "9/10", "tables": list(TABLES), "geolevels": list(LEVELS)}
    assert config == plan_to_config(without)
    assert "intervals" not in json.dumps(plan_to_config(without))
    hashes = {each.config_hash for each in (with_them, without, plan(ALL, wanted(level="0.95")))}
    assert len(hashes) == 3


def test_somebody_else_may_ask_a_finished_run_for_them():
    kept = plan_from_config(plan_to_config(plan(ALL)), source="manifest")
    assert interval_settings(kept, "0.9") == IntervalSettings(level=Fraction(9, 10), tables=TABLES, geolevels=LEVELS)
    assert interval_settings(kept, "0.5", ["P2"], ["Tract"]) == IntervalSettings(
        level=Fraction(1, 2), tables=("P2",), geolevels=("Tract",)
    )


@pytest.mark.parametrize(
    ("asked", "settings", "needle"),
    [
        (("1",), (ALL,), "intervals: level: "),
        (("0.9", ["P7"]), (ALL,), "'P7' is no table of the product"),
        (("0.9", (), ["State"]), (ALL,), "'State': there is no such geolevel in the run"),
        (("0.9",), (), "need all answers"),
        (("0.9", (), ["Block"]), (BLUE,), "Block is measured only where"),
    ],
)
def test_what_a_finished_run_cannot_say_is_refused_alike(asked, settings, needle):
    with pytest.raises(ConfigurationError) as caught:
        interval_settings(plan(*settings), *asked)
    assert needle in str(caught.value)
