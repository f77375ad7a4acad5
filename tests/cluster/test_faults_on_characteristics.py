"""Persons of the characteristics, which are held to a run of the redistricting data: a million cells, two passes."""

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

BEFORE, CHARACTERISTICS = (ROOT / "conf" / name for name in ("pl94_2020_simulated.toml", "dhc_2020_person.toml"))


@pytest.fixture(scope="module")
def population(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some 2,000 people of a synthetic state with relationships and ages, as CEF records."""
    place = tmp_path_factory.mktemp("characteristics") / "population"
    asked = ["--like", "2020-state", "--product", "dhc_2020", "--share", "1/5000", "--layout", "cef"]
    assert main(["simulate", *asked, "--out", str(place)]) == 0
    return place


def asked(scenario: Scenario, population: Path, run_file: Path, **more: object) -> Scenario:
    """The scenario with a run file on a copy of the population."""
    census = shutil.copytree(population, scenario.folder / "population")
    before = more.get("input.published")
    if before is not None:  # the ledger that counts the run before, and none of the others
        shutil.copytree(Path(str(before)).parent / "ledgers", scenario.folder / "runs" / "ledgers")
    settings = {"input.path": census, "output.root": scenario.folder / "runs", "output.microdata": '["parquet"]'}
    settings |= {"budget.strategy": "state"} | more
    scenario.run_file = run_file
    scenario.options = tuple(f"--set={key}={value}" for key, value in settings.items())
    return scenario


def test_drivers_and_executors_are_killed_in_the_stages_of_the_characteristics(cluster, tmp_path, population):
    before = asked(Scenario(cluster, tmp_path / "before"), population, BEFORE)
    before.finish()
    held = {"input.published": before.run, "budget.strategy": "us_dhc_spine", "geography.spine": "dhc"}
    calm = calm_of(asked(Scenario(cluster, tmp_path / "calm"), population, CHARACTERISTICS, **held))
    scenario = asked(Scenario(cluster, tmp_path / "disturbed"), population, CHARACTERISTICS, **held)
    stages = {
        "published counts": True,
        "measure State": False,
        "estimate County": True,
        "estimate Tract_Subset": False,
        "tabulate": False,
        "verify": True,
    }
    disturb(scenario, calm, stages, random.Random(2020), "characteristics")
