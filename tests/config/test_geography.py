"""The spine of a run: kinds, shapes, and who says in which areas blocks lie."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from das_spark.config import AREA_READERS, absolute, load_plan, plan_from_config, plan_to_config
from das_spark.errors import ConfigurationError
from das_spark.geography import PL94_PERSON, PL94_UNIT, PRESETS
from das_spark.spark.readers import GEOGRAPHY_READERS

CONF = Path(__file__).parents[2] / "conf"
STATE = CONF / "pl94_2020_state.toml"


def load(*settings: str, conf: Path = STATE):
    return load_plan(conf, settings=settings, files=False)


AREAS = ("geography.reader=block_assignment", "geography.path=areas")
DHC = (
    "US=1/8",
    "State=1/8",
    "County=1/8",
    "Prim=1/8",
    "Tract_Subset_Group=1/8",
    "Tract_Subset=1/8",
    "Block_Group=1/8",
    "Block=1/8",
)


def test_the_usual_spine_is_that_of_the_census():
    plan = load()
    assert (plan.spine.kind, plan.geography.spine.kind) == ("census", "census")
    assert plan_to_config(plan)["geography"] == {"levels": list(plan.spine.names), "spine": "census"}


def test_areas_can_be_read_for_the_accuracy_report_alone():
    plan = load(*AREAS)
    assert plan.spine.kind == "census"
    assert (plan.geography.reader, plan.geography.path) == ("block_assignment", absolute("areas"))


@pytest.mark.parametrize("kind", ["aian", "optimised"])
def test_a_spine_of_areas_has_the_levels_of_the_census_and_the_shape_of_the_production(kind):
    plan = load(f"geography.spine={kind}", *AREAS)
    assert plan.spine.names == load().spine.names
    # Which blocks have group quarters is not public where units are no invariant.
    assert plan.geography.spine == replace(PL94_PERSON, kind=kind, consider_gq=False)
    units = load(f"geography.spine={kind}", *AREAS, "invariants.units=true")
    assert units.geography.spine == replace(PL94_PERSON, kind=kind)
    assert (plan.geography.reader, plan.geography.path) == ("block_assignment", absolute("areas"))
    assert plan.product.census(plan.spine).names == plan.spine.names


def test_the_spine_of_units_does_not_look_at_group_quarters():
    plan = load("geography.spine=optimised", "input.path=x", conf=CONF / "pl94_2020_unit.toml")
    assert plan.geography.spine == PL94_UNIT
    assert not plan.geography.spine.consider_gq


def test_the_spine_of_primitive_geounits_needs_shares_of_its_own_levels():
    shares = ", ".join(each.replace("=", '="') + '"' for each in DHC)
    settings = ["geography.spine=dhc", "input.path=x", f"budget.geolevels={{{shares}}}"]
    level_queries = [f'budget.level_queries.{level.split("=")[0]}={{detailed="1"}}' for level in DHC]
    plan = load(*settings, *level_queries, "budget.framework=zcdp", "budget.rho=1", conf=CONF / "pl94_2020_unit.toml")
    assert plan.spine.names == tuple(level.split("=")[0] for level in DHC)
    # The shape of the Demographic and Housing Characteristics, as in `spine build`; the product is of units.
    assert plan.geography.spine == replace(PRESETS["dhc"], consider_gq=False)
    assert plan.product.census(plan.spine).names == ("US", "State", "County", "Tract", "Block_Group", "Block")
    assert plan_from_config(plan_to_config(plan), source="m").spine == plan.spine


@pytest.mark.parametrize(
    ("conf", "given", "reader", "path"),
    [
        ("pl94_2020_person.toml", "input.path=files", "pl94_header", "files"),
        ("pl94_2020_simulated.toml", "input.path=population", "grfc", "population/geography.txt"),
        ("pl94_2020_simulated.toml", "input.geography=areas.txt", "grfc", "areas.txt"),
        ("pl94_2020_nation_simulated.toml", "input.path=nation", "tidy", "nation/areas.parquet"),
    ],
)
def test_files_of_the_input_that_hold_areas_are_read_again(conf, given, reader, path):
    plan = load("geography.spine=optimised", given, conf=CONF / conf)
    assert (plan.geography.reader, plan.geography.path) == (reader, absolute(path))


def test_what_is_said_of_the_shape_replaces_what_the_production_had():
    plan = load("geography.spine=optimised", *AREAS, "geography.fanout_cutoff=3", "geography.merge=paper")
    assert plan.geography.spine == replace(PL94_PERSON, fanout_cutoff=3, merge="paper", consider_gq=False)
    assert plan.config_hash != load("geography.spine=optimised", *AREAS).config_hash


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["geography.spine=optimized"], "'optimized' is not one of"),
        (["geography.fanout_cutoff=3"], 'geography.fanout_cutoff: would not be read; geography.spine is "census"'),
        (["geography.crosswalk=x"], 'geography.crosswalk: would not be read; geography.spine is not "dhc"'),
        (["geography.path=x"], "geography.reader: is missing"),
        (["geography.spine=optimised"], "geography.reader: is missing: who reads in which areas blocks lie"),
        (["geography.spine=optimised", "geography.reader=block_assigment"], "did you mean 'block_assignment'"),
        (["geography.spine=optimised", "geography.reader=tidy"], "geography.path: is missing: a table of blocks"),
        (
            ["geography.spine=optimised", *AREAS, "geography.consider_gq=true"],
            "geography.consider_gq: the spine would tell",
        ),
        (["geography.spine=aian", *AREAS, "geography.merge=paper"], "merged in a spine of kind 'optimised' only"),
        (["geography.spine=optimised", *AREAS, 'geography.aian_categories=["none"]'], "geography: .*'none'"),
        (["geography.spine=optimised", *AREAS, 'geography.levels=["State","County"]'], "has County and Block among"),
        (["geography.spine=optimised", *AREAS, "invariants.total_at=Tract"], "exact totals at 'Tract'"),
    ],
)
def test_what_is_wrong_is_said_by_its_key(settings, said):
    with pytest.raises(ConfigurationError, match=said):
        load(*settings)


def test_areas_must_be_there(tmp_path):
    with pytest.raises(ConfigurationError, match=r"geography.path: .*: no such file or folder"):
        load_plan(STATE, settings=["geography.spine=optimised", *AREAS])


def test_every_reader_of_areas_can_be_named():
    assert set(AREA_READERS) == set(GEOGRAPHY_READERS)


def test_a_table_of_parents_is_there_where_codes_do_not_nest_and_only_there(tmp_path):
    conf = Path(__file__).parents[2] / "conf"
    path = tmp_path / "run.toml"
    text = (conf / "own_codes_like.toml").read_text().replace('"products/', f'"{conf}/products/')
    path.write_text("\n".join(line for line in text.splitlines() if not line.startswith(("parents", "[geography]"))))
    with pytest.raises(ConfigurationError, match=r"geography.parents: is missing: a table \(child, parent"):
        load_plan(path, files=False)
    known = load_plan(path, settings=["geography.parents=parents.csv"], files=False)
    assert known.geography.parents.endswith("/parents.csv")
    with pytest.raises(ConfigurationError, match=r"geography.parents: .*parents.csv: no such file"):
        load_plan(path, settings=[f"geography.parents={tmp_path}/parents.csv"])
    with pytest.raises(ConfigurationError, match=r"geography.parents: would not be read"):
        load_plan(conf / "quickstart.toml", settings=["geography.parents=parents.csv"], files=False)
