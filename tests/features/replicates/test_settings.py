"""`[output.replicates]`: what a run may ask for, what it is by default, and how a manifest keeps it."""

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
from das_spark.config.stages import stages_from_measurements
from das_spark.core import ESTIMATORS
from das_spark.features.replicates.settings import ReplicateSettings

WANTED = 'output.replicates={runs=8, level="0.9"}'
INTERVALS = ("measurement.rows=all", 'output.intervals={level="0.8"}')


def settings_of(*settings: str, name: str = QUICKSTART) -> ReplicateSettings:
    found = plan(*settings, name=name).output.of(ReplicateSettings)
    assert found is not None
    return found


def wanted(**more: object) -> str:
    return inline("output.replicates", {"runs": 8, "level": "0.9", **more})


def test_a_run_has_none_unless_it_asks_for_them():
    assert plan().output.of(ReplicateSettings) is None
    assert plan().output.features == ()


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("rows", ["all", "support"])
def test_all_tables_have_intervals_whatever_the_estimator_and_the_rows_that_are_kept(estimator, rows):
    found = settings_of(WANTED, f"estimation.estimator={estimator}", f"measurement.rows={rows}")
    assert found == ReplicateSettings(runs=8, level="9/10", tables=TABLES)


def test_settings_may_be_given_one_by_one_and_a_level_is_exact():
    found = settings_of("output.replicates.runs=2", "output.replicates.level=0.95")
    assert found == ReplicateSettings(runs=2, level="19/20", tables=TABLES)
    assert settings_of(wanted(level="2/3")).level == Fraction(2, 3)


@pytest.mark.parametrize("runs", [0, -1, 1.5, "two"])
def test_there_is_at_least_one_replicate(runs):
    assert "output.replicates.runs: " in refused(wanted(runs=runs))
    assert settings_of(wanted(runs=1)).runs == 1


@pytest.mark.parametrize("level", ["0", "1", "-1/2", "1.5", "90", "nine", "1e-17", "0.9999999999999999"])
def test_a_level_that_is_no_probability_is_refused(level):
    assert "output.replicates.level: " in refused(wanted(level=level))


@pytest.mark.parametrize("key", ["runs", "level"])
def test_runs_and_level_are_needed(key):
    other = {"runs": "output.replicates.level=0.9", "level": "output.replicates.runs=8"}[key]
    assert f"output.replicates.{key}: " in refused(other)


def test_unknown_tables_and_keys_are_named_with_what_is_near():
    assert "output.replicates.tables: 'P9' is no table of the product; " in refused(wanted(tables=["P1", "P9"]))
    assert "output.replicates.table: unknown key" in refused(wanted(table=["P1"]))
    # All geolevels have them.
    assert "output.replicates.geolevels: unknown key" in refused(wanted(geolevels=["County"]))


def test_tables_have_the_order_of_the_product_whatever_the_run_file_says():
    assert settings_of(wanted(tables=["P3", "P1", "P3"])).tables == ("P1", "P3")


def test_medians_have_none():
    name = "dhc_2020_person.toml"
    said = "output.replicates.tables: 'P13A' holds medians, which have no intervals; leave it out"
    assert said in refused(wanted(tables=["P1", "P13A"]), name=name)
    # Nor are they among all tables.
    named = settings_of(WANTED, name=name).tables
    assert len(named) == 117
    assert not [each for each in named if each.startswith("P13")]


def test_a_product_without_tables_has_none():
    said = "output.replicates: product 'e2e_1940' has no tables; leave the section out"
    assert said in refused(WANTED, name="e2e_1940.toml")


def test_replicates_are_a_stage_behind_tables_and_intervals():
    names = [stage.name for stage in stages_of(plan(WANTED))]
    assert names[names.index("tabulate") :] == ["tabulate", "replicates", "verify", "evaluate"]
    assert "replicates" not in [stage.name for stage in stages_of(plan())]
    both = [stage.name for stage in stages_of(plan(*INTERVALS, WANTED, "output.tables=[]"))]
    assert both[both.index("microdata") :] == ["microdata", "intervals", "replicates", "verify", "evaluate"]
    again = [stage.name for stage in stages_from_measurements(plan(WANTED))]
    assert again[again.index("tabulate") :] == ["tabulate", "replicates", "verify", "evaluate"]
    assert not [name for name in again if name.startswith("measure")]


@pytest.mark.parametrize(
    "settings",
    [(WANTED,), (wanted(runs=1, level="2/3", tables=["P2"]),), (*INTERVALS, WANTED)],
    ids=["all", "one table", "both kinds"],
)
def test_a_manifest_keeps_them(settings):
    first = plan(*settings)
    text = json.dumps(plan_to_config(first))
    again = plan_from_config(json.loads(text), source="manifest")
    assert again.output.features == first.output.features
    assert again.output.features == first.output.features
    assert json.dumps(plan_to_config(again)) == text
    assert again.config_hash == first.config_hash


def test_what_a_run_has_none_of_enters_no_configuration():
    with_them, without = plan(WANTED), plan()
    config = plan_to_config(with_them)
    kept = {"runs": 8, "level": "9/10", "tables": list(TABLES)}
    assert config["output"].pop("replicates") == kept
    assert config == plan_to_config(without)
    others = [plan(wanted(**each)) for each in ({"runs": 7}, {"level": "0.8"}, {"tables": ["P1"]})]
    assert len({each.config_hash for each in (with_them, without, *others)}) == 5
