"""Products made from plain data: the shipped ones come back whole, and what is wrong is said by the path of its key."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from das_spark.errors import ConfigurationError
from das_spark.products import (
    _REGISTRY,
    PRODUCTS,
    Product,
    Strategy,
    microdata_codes,
    product,
    product_data,
    product_from,
    register,
)
from das_spark.tabulation import TableShell

ROOT = Path(__file__).parents[2]


def plain(value: Any) -> Any:
    """A value as a file could hold it."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Fraction):
        return str(value)
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, tuple) else value


def of_strategy(strategy: Strategy) -> dict[str, Any]:
    budget = strategy.budget
    return {
        "name": strategy.name,
        "title": strategy.title,
        "framework": str(budget.framework),
        "total": str(budget.total),
        "geolevels": {level.geolevel: str(level.share) for level in budget.levels},
        "queries": {
            level.geolevel: {query.query: str(query.share) for query in level.queries} for level in budget.levels
        },
        "passes": plain(strategy.passes),
        "needs_total_at": strategy.needs_total_at,
    }


def of_selections(where: list[dict[str, Any]], *, tallies: bool) -> dict[str, Any]:
    return {"levels": {}, "tallied": where} if tallies else {"levels": where[0]}


def of_table(table: TableShell) -> dict[str, Any]:
    lines = [
        {
            "depth": column.depth,
            "label": column.label,
            **of_selections([plain(dict(selection)) for selection in column.where], tallies=column.tallies),
        }
        for column in table.columns
    ]
    prefix, number = re.fullmatch("(.*?)(0*1)", table.columns[0].name).groups()
    texts = {"name": table.name, "title": table.title, "universe": table.universe, "prefix": prefix}
    return texts | {"digits": len(number), "lines": lines, "lowest": plain(table.lowest)}


def of_product(made: Product) -> dict[str, Any]:
    data = {field.name: plain(getattr(made, field.name)) for field in fields(made)}
    data |= {"schema": made.schema.name, "attributes": plain(made.schema.attributes)}
    data["strategies"] = [of_strategy(strategy) for strategy in made.strategies.values()]
    data["tables"] = [of_table(table) for table in made.tables]
    data["occupancy"] = [of_table(each) for each in made.occupancy]
    data["medians"] = [of_table(median) | {"attribute": median.attribute} for median in made.medians]
    return json.loads(json.dumps(data))


@pytest.mark.parametrize("name", PRODUCTS)
def test_every_shipped_product_can_be_told_as_data(name):
    made = product_from(of_product(PRODUCTS[name]))
    assert made == PRODUCTS[name]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"titel": "x"}, r"unknown key 'titel'"),
        ({"default_levels": None}, r"default_levels: expected a list"),
        ({"title": 3}, r"title: expected a text, not a whole number"),
        ({"record": "family"}, r"record: 'family' is none of person, unit, household"),
        ({"unit_bounds": {"least": [1]}}, r"unit_bounds: most.* missing"),
        ({"records": {"singular": "farm"}}, r"records: singular and plural are both there"),
        ({"records": {"singular": "farm/", "plural": "farms"}}, r"records: 'farm/' is no noun"),
        ({"records": {"singular": "Unit", "plural": "Units"}}, r"records: .* is said by record = 'unit'"),
        ({"attributes": [{"name": "age"}]}, r"attributes\[0\]: levels missing"),
        ({"strategies": [{"name": "x", "framework": "renyi"}]}, r"strategies\[0\].framework: 'renyi' is none of"),
    ],
)
def test_what_is_wrong_is_said_by_its_key(change, said):
    with pytest.raises(ConfigurationError, match=said):
        product_from(of_product(PRODUCTS["e2e_1940"]) | change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "a b"}, "name: 'a b' is no name"),
        (
            {"geolevels": [{"name": "A", "length": 2}, {"name": "B", "length": 2}]},
            "geolevels: geolevel 'B' has geocodes",
        ),
        ({"default_levels": ["National", "Parish"]}, "default_levels: .*Parish"),
        ({"total_at": "Parish"}, "total_at: 'Parish' is no geolevel"),
        ({"strategies": []}, "strategies: there is none"),
        ({"reported": ["race", "rase"]}, "reported\\[1\\]: 'rase' is no attribute or recode of the schema"),
        ({"strata": "household * race"}, "strata: query 'household \\* race' leaves out some cells"),
        ({"class_query": "race"}, "class_query: 'race' has 6 answers, and there are 8 unit_classes"),
        (
            {"unit_bounds": {"least": [1], "most": [9], "cap_when_total_known": False}},
            "unit_bounds: least and most have 1",
        ),
        (
            {"structural_zeros": [{"name": "x", "selection": {"race": [6]}}]},
            r"structural_zeros\[0\]: attribute 'race' has no level 6",
        ),
    ],
)
def test_what_contradicts_itself_is_said_by_its_key(change, said):
    with pytest.raises(ConfigurationError, match=said):
        product_from(of_product(PRODUCTS["e2e_1940"]) | change)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            {"geolevels": {"Parish": "1"}, "queries": {"race": "1"}},
            r"strategies\[0\].geolevels: there is no geolevel 'Parish'",
        ),
        ({"geolevels": {"National": "1"}}, r"strategies\[0\].queries.State: the strategy gives this geolevel no share"),
        ({"queries": {"State": {"race": "1"}}}, r"strategies\[0\].queries.County: is missing"),
        ({"geolevels": {"National": "1/2", "State": "1/3"}}, r"strategies\[0\]: .*5/6"),
        ({"queries": {"rase": "1"}}, r"strategies\[0\].queries: query 'rase'.*did you mean 'race'"),
        ({"queries": {"household": "1"}}, r"strategies\[0\].queries: query 'household' leaves out some cells"),
        ({"total": 0.25}, r"strategies\[0\].total: .*expected an exact number"),
        ({"needs_total_at": "Parish"}, r"strategies\[0\].needs_total_at: there is no geolevel 'Parish'"),
        (
            {"passes": {"Parish": [], "State": [{"least_squares": [["rase"]], "rounding": [["detailed"]]}]}},
            r"(?s)strategies\[0\].passes: the strategy has no geolevel 'Parish'.*passes.State: query 'rase'",
        ),
    ],
)
def test_what_is_wrong_with_a_strategy_is_said(change, said):
    data = of_product(PRODUCTS["e2e_1940"])
    data["strategies"][0] |= change
    with pytest.raises(ConfigurationError, match=said):
        product_from(data)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("recode:sex:1,2", "there is no attribute 'sex'"),
        ("recode:hispanic:1", "1 codes, and 2 are needed"),
        ("recode:hispanic", "'recode:hispanic' is no source"),
        ("weather", "'weather' is no source"),
    ],
)
def test_what_is_wrong_with_a_column_is_said(source, said):
    data = of_product(PRODUCTS["e2e_1940"])
    data["microdata"]["person"][2] |= {"name": "STATE", "source": source}
    with pytest.raises(ConfigurationError) as caught:
        product_from(data)
    assert f"microdata.person.STATE: {said}" in caught.value.message
    assert "do not make up the 10 characters of a geocode" in caught.value.message


def test_everything_that_is_wrong_is_said_at_once():
    data = of_product(PRODUCTS["e2e_2018"]) | {"titel": "x", "strata": 3, "record": "family"}
    data["tables"][0]["lines"][0]["depth"] = "0"
    data["strategies"][0]["total"] = "a lot"
    with pytest.raises(ConfigurationError) as caught:
        product_from(data, "mine.toml")
    assert caught.value.message.startswith("mine.toml: 5 problems\n")
    for key in ("titel", "strata", "record", "tables[0].lines[0].depth", "strategies[0].total"):
        assert key in caught.value.message


def test_a_short_definition_has_what_is_usual():
    data = of_product(PRODUCTS["e2e_1940"])
    made = product_from(
        {key: data[key] for key in ("name", "attributes", "geolevels", "strategies")} | {"name": "mine"}
    )
    assert (made.title, made.total_at, made.class_query, made.strata) == ("mine", "none", "", "detailed")
    assert made.default_levels == tuple(level.name for level in PRODUCTS["e2e_1940"].geolevels)
    assert [column.name for column in made.microdata.person] == ["GEOCODE", "HHGQ", "AGE18PLUS", "HISPANIC", "RACE"]
    assert made.microdata.person[2].source == "recode:age18plus:0,1"
    assert made.files(units=True) == ("person",)


@pytest.mark.parametrize(
    ("record", "classes", "listed"),
    [("household", 1, True), ("household", 3, True), ("unit", 1, False), ("unit", 3, True)],
)
def test_a_short_definition_of_units_has_codes_for_what_is_listed(record, classes, listed):
    data = of_product(PRODUCTS["e2e_1940"])
    short = {key: data[key] for key in ("name", "attributes", "geolevels", "strategies")}
    made = product_from(short | {"name": "mine", "record": record, "unit_classes": ["A", "B", "C"][:classes]})
    assert bool(made.listed) is listed
    names = [column.name for column in made.microdata.unit]
    assert names == ["GEOCODE", *["UNIT_CLASS"] * listed, "HHGQ", "AGE18PLUS", "HISPANIC", "RACE"]
    codes = microdata_codes(made)
    cells = np.arange(made.schema.size + len(made.listed))
    assert len(set(codes.codes_of(cells))) == len(cells)
    assert product_from(product_data(made)) == made


def test_a_short_definition_of_households_has_no_more_than_housing_units():
    data = of_product(PRODUCTS["e2e_1940"])
    short = {key: data[key] for key in ("name", "attributes", "geolevels", "strategies")} | {"record": "household"}
    made = product_from(short | {"name": "mine"})
    assert (made.class_query, made.unit_bounds.most, made.vacant_counted) == ("total", (1,), True)
    # What says something of units itself is as it says.
    unbound = product_from(short | {"name": "mine", "class_query": ""})
    assert (unbound.unit_bounds, unbound.vacant_counted) == (None, False)
    assert product_from(product_data(unbound)) == unbound
    held = {"name": "h", "product": "pl94_2020_unit", "query": "total", "of": "total"}
    free = product_from(short | {"name": "mine", "published": held})
    assert (free.class_query, free.unit_bounds, free.vacant_counted) == ("", None, True)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_product_as_data_is_the_same_product(name):
    text = tomli_w.dumps(product_data(PRODUCTS[name]))
    assert product_from(tomllib.loads(text)) == PRODUCTS[name]


def test_a_column_that_no_line_makes_is_no_data():
    made = PRODUCTS["e2e_2018"]
    table = made.tables[0]
    union = replace(table.columns[1], where=(table.columns[1].where[0], table.columns[2].where[0]), name="P0010002")
    odd = replace(table, columns=(table.columns[0], union))
    with pytest.raises(ConfigurationError, match="P0010002 is a union"):
        product_data(replace(made, tables=(odd,)))
    with pytest.raises(ConfigurationError, match="columns are not numbered"):
        product_data(replace(made, tables=(replace(table, columns=(replace(table.columns[0], name="Total"),)),)))


def test_what_is_missing_is_said():
    data = of_product(PRODUCTS["e2e_1940"])
    for key in ("attributes", "geolevels"):
        with pytest.raises(ConfigurationError, match=f"{key}.* missing"):
            product_from({name: each for name, each in data.items() if name != key})


def test_a_registered_product_is_found_by_its_name(monkeypatch):
    made = product_from(of_product(PRODUCTS["e2e_1940"]) | {"name": "mine"})
    monkeypatch.setitem(_REGISTRY, "mine", made)  # is taken out again behind the test
    monkeypatch.delitem(_REGISTRY, "mine")
    register(made)
    assert product("mine") is PRODUCTS["mine"] is made
    with pytest.raises(ConfigurationError, match="there is a product 'mine' already"):
        register(made)


def test_records_that_are_no_people_name_what_is_counted_and_its_files():
    data = product_data(PRODUCTS["dallas_2010"]) | {"name": "stays"}
    farms = product_from(data | {"records": {"singular": "Hospital stay", "plural": "Hospital stays"}})
    assert (farms.counted, farms.noun, farms.kind) == ("Hospital stays", "Hospital stay", "hospital_stay")
    assert farms.files(units=True)[0] == "hospital_stay"
    assert farms.microdata.columns("hospital_stay") == farms.microdata.person
    assert product_from(product_data(farms)) == farms
    people = product_from(data)
    assert (people.counted, people.noun, people.kind) == ("people", "person", "person")
    assert "records" not in product_data(people)
    with pytest.raises(ConfigurationError, match="record is 'unit'"):
        product_from(product_data(PRODUCTS["pl94_2020_unit"]) | {"records": {"singular": "farm", "plural": "farms"}})


def test_geolevels_with_codes_of_their_own_have_geocodes_of_all_codes_above():
    data = tomllib.loads((ROOT / "conf" / "products" / "own_codes_like.toml").read_text())
    made = product_from(data)
    assert [(level.length, level.code, level.letters) for level in made.geolevels] == [
        (3, 3, True),
        (7, 4, True),
        (13, 6, True),
    ]
    assert product_from(product_data(made)) == made
    usual = product_from({key: value for key, value in data.items() if key != "microdata"})
    assert (usual.microdata.person[0].source, usual.microdata.person[0].type) == ("geocode[7:13]", "CHAR6")
    levels = data["geolevels"]
    mixed = [levels[0], {"name": "Department", "length": 7, "letters": True}, levels[2]]
    with pytest.raises(ConfigurationError, match="'Department' has a code of 0 characters where there is room for 4"):
        product_from(data | {"geolevels": mixed})
    columns = [{"name": "COM", "source": "geocode[0:13]"}, *data["microdata"]["person"][2:]]
    with pytest.raises(ConfigurationError, match=r"the last among them: .*7:13"):
        product_from(data | {"microdata": data["microdata"] | {"person": columns}})
