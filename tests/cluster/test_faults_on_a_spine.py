"""The stages that the tiny census has not: a spine of areas, census geounits, tables and the report of accuracy."""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from outcomes import calm_of, disturb
from scenarios import Scenario
from standalone import ROOT

from das_spark.cli.main import main

pytestmark = [pytest.mark.spark, pytest.mark.whole_run, pytest.mark.long, pytest.mark.verified]

CONF = ROOT / "conf" / "pl94_2020_simulated.toml"


@pytest.fixture(scope="module")
def population(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 10,000 people of a synthetic state, as CEF records, in places and tribal areas that are synthetic, too."""
    place = tmp_path_factory.mktemp("spine") / "population"
    asked = ["--like", "2020-state", "--share", "1/1000", "--layout", "cef", "--out", str(place)]
    assert main(["simulate", *asked]) == 0
    return place


def on_a_spine(scenario: Scenario, population: Path) -> Scenario:
    """The scenario with a run of that state on the optimised spine. Its population is a copy."""
    census = shutil.copytree(population, scenario.folder / "population")
    settings = {"input.path": census, "output.root": scenario.folder / "runs", "output.microdata": '["parquet"]'}
    settings |= {"geography.spine": "optimised", "budget.strategy": "state"}
    scenario.run_file = CONF
    scenario.options = tuple(f"--set={key}={value}" for key, value in settings.items())
    return scenario


def test_drivers_and_executors_are_killed_in_the_stages_of_a_spine(cluster, tmp_path, population):
    calm = calm_of(on_a_spine(Scenario(cluster, tmp_path / "calm"), population))
    scenario = on_a_spine(Scenario(cluster, tmp_path / "disturbed"), population)
    stages = {"spine": False, "census geounits": True, "tabulate": True, "evaluate": False}
    disturb(scenario, calm, stages, random.Random(2010), "a spine")
