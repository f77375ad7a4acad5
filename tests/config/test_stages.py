"""Which stages a run has, by name, before anything is read."""

from __future__ import annotations

from pathlib import Path

import pytest

from das_spark.config import load_run
from das_spark.config.stages import (
    Stage,
    StageKind,
    name_in_part,
    names_until,
    part_of,
    stage_names,
    stages_from_measurements,
)
from das_spark.errors import ConfigurationError
from das_spark.evaluation import StageRow
from das_spark.evaluation.run_record import ESTIMATE, MEASURE

CONF = Path(__file__).parents[2] / "conf"

PERSONS = [
    "ingest",
    *[f"{kind} {level}" for level in ("State", "County", "Tract") for kind in ("measure", "estimate")],
    "microdata",
    "tabulate",
    "verify",
    "evaluate",
]


def names(file: str, *settings: str) -> list[str]:
    return list(stage_names(load_run(CONF / file, settings=settings, files=False)))


def test_every_level_is_measured_and_estimated_between_ingestion_and_what_is_published():
    assert names("pl94_2020_to_tract.toml") == PERSONS


def test_a_product_without_tables_and_a_run_without_report_have_fewer_stages():
    found = names("e2e_1940.toml", "evaluation.enabled=false")
    assert "tabulate" not in found
    assert found[-2:] == ["microdata", "verify"]


def test_tables_that_are_not_wanted_are_no_stage():
    assert names("pl94_2020_to_tract.toml", "output.tables=[]") == [name for name in PERSONS if name != "tabulate"]


def test_a_spine_of_areas_is_built_before_ingestion_and_left_after_the_last_level():
    of_areas = ["geography.spine=optimised", "geography.reader=tidy", "geography.path=blocks.csv"]
    found = names("pl94_2020_state.toml", *of_areas)
    assert found[:3] == ["spine", "ingest", "measure State"]
    assert found[found.index("estimate Block") :][:3] == ["estimate Block", "census geounits", "microdata"]


def test_all_parts_of_a_joint_run_read_their_input_before_any_part_draws():
    settings = ["budget.strategy=to_tract"]
    joint = names("pl94_2020.toml", *settings)
    assert joint[:3] == ["person: ingest", "unit: ingest", "person: measure State"]
    persons = [name_in_part("person", name) for name in names("pl94_2020_person.toml", *settings)]
    assert [name for name in joint if name.startswith("person")] == persons
    assert joint.index("person: evaluate") < joint.index("unit: measure State")
    assert part_of("unit: measure Block_Group") == ("unit", "measure Block_Group")


def test_a_run_from_measurements_imports_instead_of_reading_and_measuring():
    plan = load_run(CONF / "pl94_2020_to_tract.toml", files=False)
    found = [stage.name for stage in stages_from_measurements(plan)]
    assert found[:3] == ["check", "import", "estimate State"]
    assert found[3:] == [name for name in PERSONS[3:] if not name.startswith("measure")]


def test_the_page_of_a_run_calls_the_work_at_a_level_as_the_stages_do():
    for kind, work in ((StageKind.MEASURE, MEASURE), (StageKind.ESTIMATE, ESTIMATE)):
        line = StageRow(Stage(kind, "County").name)
        assert (line.work, line.geolevel) == (work, "County")


def test_stages_up_to_one_end_with_it():
    plan = load_run(CONF / "pl94_2020_to_tract.toml", files=False)
    assert list(names_until(plan, "estimate State")) == PERSONS[:3]
    assert list(names_until(plan, None)) == PERSONS


@pytest.mark.parametrize("wrong", ["measure", "measure Block", "Ingest", "", "person: ingest"])
def test_an_unknown_stage_is_refused_with_all_that_there_are(wrong):
    plan = load_run(CONF / "pl94_2020_to_tract.toml", files=False)
    with pytest.raises(ConfigurationError, match="ingest; measure State; estimate State"):
        names_until(plan, wrong)
