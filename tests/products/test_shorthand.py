"""What product files write in short: it means what it stands for, and what it names must be there."""

from __future__ import annotations

import re
from copy import deepcopy
from fractions import Fraction
from importlib.metadata import version
from importlib.resources import files

import pytest

from das_spark.errors import ConfigurationError
from das_spark.histogram import Attribute
from das_spark.products import PRODUCTS, product_data, product_from
from das_spark.products._from_data import TABLE_SETS
from das_spark.products._shorthand import SHARED

NESTED = {"A": {"total": "1/2", "detailed": "1/2"}, "B": {"detailed": "1"}}
PASS = [{"least_squares": [["detailed"]], "rounding": [["detailed"]]}]


def small(**change):
    data = {
        "name": "small",
        "attributes": [{"name": "sex", "levels": ["f", "m"]}],
        "geolevels": [{"name": "A", "length": 1}, {"name": "B", "length": 2}],
        "strategies": [
            {
                "name": "first",
                "framework": "zcdp",
                "total": "2",
                "geolevels": {"A": "1/4", "B": "3/4"},
                "queries": deepcopy(NESTED),
            }
        ],
    }
    return data | change


def with_second(**second):
    data = small()
    return data | {"strategies": [*data["strategies"], {"name": "second", **second}]}


def test_a_shared_attribute_is_that_of_the_products_that_come_with_it():
    made = product_from(small(attributes=[{"shared": "cenrace"}, {"shared": "hispanic"}]))
    assert made.schema.attributes == tuple(PRODUCTS["pl94_2020_person"].schema.attributes[axis] for axis in (3, 2))
    assert all(isinstance(each, Attribute) for each in SHARED.values())


def test_a_strategy_that_is_like_another_one_says_only_what_differs():
    made = product_from(with_second(like="first", total="3", queries={"B": {"sex": "1/3", "total": "2/3"}}))
    first, second = made.strategies["first"].budget, made.strategies["second"].budget
    assert (first.total, second.total) == (2, 3)
    assert second.level("A") == first.level("A")
    assert second.level("B").share == Fraction(3, 4)
    assert second.level("B").share_of("total") == Fraction(2, 3)


def test_what_is_taken_from_a_strategy_is_of_its_own_levels_alone():
    data = with_second(like="first", geolevels={"B": "1"})
    data["strategies"][0]["passes"] = {"A": PASS, "B": PASS}
    made = product_from(data).strategies["second"]
    assert made.geolevels == ("B",)
    assert set(made.passes) == {"B"}


def test_passes_have_names():
    data = with_second(like="first", passes={"A": "alone"}) | {"passes": {"alone": PASS, "unused": PASS}}
    data["strategies"][0]["passes"] = {"B": PASS}
    second = product_from(data).strategies["second"]
    assert set(second.passes) == {"A", "B"}
    assert second.passes["A"] == second.passes["B"]


def test_the_version_of_the_software_is_as_wide_as_it_is():
    columns = [{"name": "V", "source": "constant:x-{version}", "type": "CHAR"}]
    columns += [{"name": "P", "source": "geocode[0:2]", "type": "CHAR2"}]
    columns += [{"name": "S", "source": "recode:sex:1,2", "type": "CHAR1"}]
    made = product_from(small(microdata={"name": "mine", "person": columns, "unit": []}))
    first = made.microdata.person[0]
    assert (first.source, first.type) == (f"constant:x-{version('das_spark')}", f"CHAR{len(version('das_spark')) + 2}")
    assert made.microdata.person[2].type == "CHAR1"


def test_a_set_of_tables_is_made_for_the_attributes_of_the_product():
    person = product_data(PRODUCTS["pl94_2020_person"])
    made = product_from(person | {"tables": "redistricting"})
    assert made == PRODUCTS["pl94_2020_person"]
    assert [each.name for each in TABLE_SETS["housing"](PRODUCTS["pl94_2020_unit"].schema)] == ["H1"]


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (small(attributes=[{"shared": "race"}]), "attributes[0].shared: 'race' is none of hhgq, votingage"),
        (with_second(like="third"), "strategies[1].like: 'third' is none of those above it: first"),
        (with_second(like="first", passes={"A": "alone"}), "passes.A: there are no passes 'alone'; named are none"),
        (small(tables="redistrict"), "tables: 'redistrict' is none of redistricting, housing"),
        (small(tables="redistricting"), "tables: "),
        (small(passes=3, strategies=4), "strategies"),
    ],
)
def test_names_that_nothing_has_are_said_with_their_keys(data, said):
    with pytest.raises(ConfigurationError, match=re.escape(said)):
        product_from(data)


def test_what_is_in_full_is_not_changed():
    for name in ("dallas_2010", "ddp_2010_household", "dhc_2020_unit"):
        data = product_data(PRODUCTS[name])
        before = deepcopy(data)
        assert product_from(data) == PRODUCTS[name]
        assert data == before


def test_every_file_of_the_package_is_a_product_of_the_registry():
    found = {
        file.name.removesuffix(".toml") for file in files("das_spark.products").iterdir() if file.name.endswith(".toml")
    }
    assert found == {"e2e_2018", "e2e_1940", "pl94_2020_person", "pl94_2020_unit"}
    assert found <= set(PRODUCTS)
    assert all(PRODUCTS[name].name == name for name in found)
