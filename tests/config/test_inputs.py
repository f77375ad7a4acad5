"""What each reader needs of [input], and what a run says of where its geounits come from."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from das_spark.config import (
    InputSettings,
    geounit_sentences,
    load_plan,
    plan_from_config,
    plan_to_config,
    product_files,
)
from das_spark.constraints import UnitBounds
from das_spark.errors import ConfigurationError
from das_spark.products import PRODUCTS

FROM_PEOPLE = "input.units_from_people=true"


def _without_units(path: Path) -> Path:
    path.write_text("\n".join(line for line in path.read_text().splitlines() if not line.startswith('units = "')))
    return path


def _problems(path: Path, *settings: str) -> str:
    with pytest.raises(ConfigurationError) as caught:
        load_plan(path, settings=settings)
    return str(caught.value)


@pytest.fixture
def cef(tmp_path: Path) -> Path:
    for name in ("persons", "units", "geography"):
        (tmp_path / f"{name}.txt").write_text("\n")
    path = tmp_path / "cef.toml"
    path.write_text(
        'config_version = 1\n[run]\nproduct = "pl94_2020_person"\n[input]\nreader = "cef_2020"\n'
        '[budget]\nstrategy = "us"\n'
    )
    return path


def test_units_made_from_people_need_no_table_of_units_but_one_of_geounits(write_run_file, tmp_path):
    path = _without_units(write_run_file())
    assert "the units are declared invariant, and nothing gives them" in _problems(path)
    assert "nothing says which geounits exist" in _problems(path, FROM_PEOPLE)
    (tmp_path / "places.csv").write_text("geocode\n")
    known = 'privacy.acknowledge=["units_from_people"]'
    plan = load_plan(path, settings=[FROM_PEOPLE, known, f"input.geography={tmp_path / 'places.csv'}"])
    assert plan.input.units_from_people
    assert plan_to_config(plan)["input"]["units_from_people"] is True


@pytest.mark.parametrize("reader", ["tidy_counts", "tidy_records"])
def test_what_is_asked_for_where_units_are_made_from_people_is_enough(write_run_file, tmp_path, reader):
    """The key that the refusal names is one that helps."""
    path = _without_units(write_run_file())
    settings = [FROM_PEOPLE, f"input.reader={reader}"]
    refusal = _problems(path, *settings)
    assert "input.geography: nothing says which geounits exist" in refusal
    (key,) = re.findall(r"give it by --set ([a-z.]+)=FILE", refusal)
    (tmp_path / "places.csv").write_text("geocode\n")
    settings += [f"{key}={tmp_path / 'places.csv'}", 'privacy.acknowledge=["units_from_people"]']
    assert load_plan(path, settings=settings).input.units_from_people


def test_units_that_need_several_people_are_not_made_from_people(write_run_file, tmp_path, monkeypatch):
    path = _without_units(write_run_file())
    (tmp_path / "places.csv").write_text("geocode\n")
    name = load_plan(path, files=False).product.name
    crowded = UnitBounds(least=(1, 3, *(1,) * 6), most=(9,) * 8, cap_when_total_known=False)
    monkeypatch.setattr(product_files, "PRODUCTS", {**PRODUCTS} | {name: replace(PRODUCTS[name], unit_bounds=crowded)})
    text = _problems(path, FROM_PEOPLE, f"input.geography={tmp_path / 'places.csv'}")
    assert f"a unit of class '{PRODUCTS[name].unit_classes[1]}' holds 3 people at least" in text


def test_units_are_not_both_given_and_made(write_run_file):
    assert "input.units is given, and would not be read" in _problems(write_run_file(), FROM_PEOPLE)


def test_what_makes_no_sense_with_a_reader_or_product_is_refused(write_run_file, cef, tmp_path):
    path = _without_units(write_run_file())
    settings = (FROM_PEOPLE, "run.product=pl94_2020_unit", "budget.strategy=us", f"input.geography={tmp_path}/run.toml")
    assert "product 'pl94_2020_unit' counts the units themselves" in _problems(path, *settings)
    assert "input.units_from_people: the reader 'cef_2020' does not use it" in _problems(cef, FROM_PEOPLE)


def test_records_of_persons_are_needed_where_people_are_counted(cef, tmp_path):
    files = [f"input.{name}={tmp_path / name}.txt" for name in ("units", "geography")]
    assert "input.path: nothing says where the people are" in _problems(cef, *files)
    assert load_plan(cef, settings=[*files, f"input.persons={tmp_path}/persons.txt"]).input.persons
    assert load_plan(cef, settings=[*files, "run.product=pl94_2020_unit"]).input.persons is None
    assert "nothing says where the housing units are" in _problems(cef, "run.product=pl94_2020_unit", files[1])


def test_units_that_say_which_geounits_exist_are_declared_as_what_they_are(tmp_path):
    (sentence,) = geounit_sentences(InputSettings(reader="ipums_1940", path="EXT1940USCB.dat"))
    assert "read from the records or counts of units themselves, not from a public list" in sentence
    assert geounit_sentences(InputSettings(reader="tidy_records", path=str(tmp_path))) == (sentence,)
    (tmp_path / "geography.csv").write_text("geocode\n")
    assert geounit_sentences(InputSettings(reader="tidy_records", path=str(tmp_path))) == ()
    assert geounit_sentences(InputSettings(reader="ipums_1940", path=str(tmp_path))) == (sentence,)
    assert geounit_sentences(InputSettings(reader="tidy_counts", persons="p", units="u")) == (sentence,)
    assert geounit_sentences(InputSettings(reader="tidy_counts", persons="p", units="u", geography="g")) == ()
    assert geounit_sentences(InputSettings(reader="tidy_counts")) == ()
    for public in ("cef_2020", "pl94_summary", "simulated"):
        assert geounit_sentences(InputSettings(reader=public, path="files")) == ()


def test_units_from_people_that_nobody_would_see_are_refused(write_run_file):
    said = _problems(_without_units(write_run_file()), FROM_PEOPLE, "invariants.units=false", "input.geography=x")
    assert "input.units_from_people: would not be used: invariants.units is false" in said


@pytest.mark.parametrize("place", ["s3a:/bucket/census", "http://bucket/census"])
def test_an_input_is_a_path_whose_bytes_can_be_counted(write_run_file, place):
    with pytest.raises(ConfigurationError, match=r"input\.path: .*(address|scheme)"):
        load_plan(write_run_file(), settings=[f'input.path="{place}"'])


@pytest.mark.parametrize("place", ["memory://nowhere/*.parquet", "census/*.parquet"])
def test_an_input_is_no_pattern(write_run_file, place):
    with pytest.raises(ConfigurationError, match=r"input\.path: there is no file.*; no name is a pattern, .*ledger"):
        load_plan(write_run_file(), settings=[f'input.path="{place}"'])


def test_a_reader_of_counts_does_not_know_whose_a_record_is(tmp_path):
    conf = Path(__file__).parents[2] / "conf" / "hospital_stays_like.toml"
    with pytest.raises(ConfigurationError, match="'tidy_counts' reads nothing that says whose a record is") as found:
        load_plan(conf, settings=["input.reader=tidy_counts"], files=False)
    assert "patient_id" in str(found.value)
    plan = load_plan(conf, settings=["input.columns.patient_id=pid"], files=False)
    assert plan.budget.at_most == 3
    with pytest.raises(ConfigurationError, match=r"input.columns.patient: there is no such field"):
        load_plan(conf, settings=["input.columns.patient=pid"], files=False)
    # Where the office answers for the bound, counts will do.
    text = (conf.parent / "products" / "hospital_stays_like.toml").read_text()
    (tmp_path / "own.toml").write_text(text.replace('contributor = "patient_id"\n', ""))
    settings = [f"run.product={tmp_path / 'own.toml'}", "input.reader=tidy_counts"]
    assert load_plan(conf, settings=settings, files=False).budget == plan.budget


def _of_tables(*more: str) -> list[str]:
    return ["input.persons=table:census.persons", "input.units=table:lake.census.units", "input.dataset=people", *more]


def test_tables_of_a_catalog_stay_as_they_are_named_and_a_manifest_has_their_last_name(write_run_file):
    plan = load_plan(write_run_file(), settings=_of_tables())
    assert plan.input.tables == {"persons": "table:census.persons", "units": "table:lake.census.units"}
    assert plan.places["input.units"] == "table:lake.census.units"
    config = plan_to_config(plan)["input"]
    assert (config["persons"], config["units"]) == ("persons", "units")
    elsewhere = load_plan(write_run_file(), settings=_of_tables("input.persons=table:other.persons"))
    assert elsewhere.config_hash == plan.config_hash, "which rows they are is a matter of their digest"


@pytest.mark.parametrize("name", ["table:", "table:persons", "table:a..b", "table:a.b c", "table:a.b;", "table:/a/b"])
def test_what_names_no_table_is_refused(write_run_file, name):
    wrong = _problems(write_run_file(), *_of_tables(f'input.persons="{name}"'))
    assert f"input.persons: {name} names no table; write table:database.table" in wrong


def test_a_table_needs_the_name_of_the_people_whatever_the_key(write_run_file):
    unnamed = [each for each in _of_tables() if "dataset" not in each]
    assert "input.dataset: is missing" in _problems(write_run_file(), *unnamed)


def test_a_table_is_no_folder_and_nothing_for_a_reader_of_files(write_run_file, cef):
    path = write_run_file()
    one = 'reader = "tidy_counts"\npath = "table:census.persons"\n[budget]'
    text = re.sub(r"reader = .*?\[budget\]", one, path.read_text(), flags=re.DOTALL)
    path.write_text(text)
    assert (
        "input.path: table:census.persons is a table, which input.persons, input.units, input.geography alone may"
        in _problems(path)
    )
    wrong = _problems(cef, *_of_tables("input.geography=table:a.b"))
    for key in ("persons", "units", "geography"):
        assert f"input.{key}: the reader 'cef_2020' reads files; tidy_counts, tidy_records" in wrong


@pytest.mark.parametrize("identity", ["normalised", "bytes"])
def test_how_identities_are_compared_is_part_of_a_run_where_it_is_said(tmp_path, identity):
    said = [f"input.dataset={tmp_path.name}", f"input.identity={identity}"]
    plan = load_plan("hospital_stays_like", settings=said, files=False)
    assert plan_to_config(plan)["input"]["identity"] == identity
    unsaid = load_plan("hospital_stays_like", settings=said[:1], files=False)
    assert "identity" not in plan_to_config(unsaid)["input"], "a run of before has the hash that it had"
    assert plan_from_config(plan_to_config(plan), source="a manifest").input.identity == identity


def test_identities_are_of_contributors_alone_and_compared_in_one_of_two_ways(write_run_file):
    text = _problems(write_run_file(), "input.reader=tidy_records", "input.identity=bytes")
    assert "input.identity" in text
    assert "names no column that says whose a record is" in text
    assert "the reader 'tidy_counts' does not use it" in _problems(write_run_file(), "input.identity=bytes")
    assert "input.identity" in _problems("hospital_stays_like", "input.identity=raw")
