"""`[output.place_names]`: tables and geolevels, and a path that a manifest does not tell."""

from __future__ import annotations

from quickstart_plans import TABLES, inline, plan, refused

from das_spark.config import plan_from_config, plan_to_config, stage_names
from das_spark.features.place_names.settings import PlaceNameSettings

WANTED = 'output.place_names={path="lists/names.csv"}'


def settings_of(*settings: str) -> PlaceNameSettings:
    found = plan(*settings).output.of(PlaceNameSettings)
    assert found is not None
    return found


def test_all_tables_and_geolevels_are_named_where_a_run_file_names_none():
    found = settings_of(WANTED)
    assert (found.tables, found.geolevels) == (TABLES, ("County", "Tract", "Block_Group", "Block"))
    assert stage_names(plan(WANTED))[-3:] == ("place_names", "verify", "evaluate")


def test_the_path_is_absolute_in_a_plan_and_the_name_of_a_file_in_its_manifest(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    first = plan(WANTED)
    assert settings_of(WANTED).path == str(tmp_path / "lists/names.csv")
    assert first.places["output.place_names.path"] == str(tmp_path / "lists/names.csv")
    config = plan_to_config(first)
    assert config["output"]["place_names"]["path"] == "names.csv"
    again = plan_from_config(config, source="manifest")
    assert plan_to_config(again) == config
    assert again.config_hash == first.config_hash == plan('output.place_names={path="/else/names.csv"}').config_hash


def test_a_path_may_begin_with_a_variable_of_the_environment(monkeypatch):
    monkeypatch.setenv("LISTS", "/lists")
    assert settings_of('output.place_names={path="${LISTS}/names.csv"}').path == "/lists/names.csv"
    monkeypatch.delenv("LISTS")
    said = refused('output.place_names={path="${LISTS}/names.csv"}')
    assert "output.place_names.path: the environment variable LISTS is not set" in said


def test_what_is_no_path_is_refused_and_so_are_unknown_names():
    for wrong, said in [
        (inline("output.place_names", {"path": "s3:/bucket/names.csv"}), "output.place_names.path: s3:/bucket/"),
        (inline("output.place_names", {"path": " "}), "output.place_names.path: is empty; name a file or folder"),
        (inline("output.place_names", {"tables": ["P1"]}), "output.place_names.path"),
        (inline("output.place_names", {"path": "a", "tables": ["P9"]}), "'P9' is no table of the product"),
        (inline("output.place_names", {"path": "a", "geolevels": ["Tracts"]}), "did you mean 'Tract'?"),
    ]:
        assert said in refused(wrong)
