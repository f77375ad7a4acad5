"""Layouts compile to the codes that the specification lists."""

import dataclasses

import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.io.writers import WRITERS
from das_spark.io.writers._columns import Scope, record_columns, unit_columns
from das_spark.products import PRODUCTS, MicrodataColumn


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
def test_every_layout_compiles_and_its_parts_make_the_geocode(product):
    dealt = len(product.files(units=True)) > 1
    person = record_columns(product, units=dealt)
    assert person.kind == product.record
    for file in (person, unit_columns(product)) if dealt else (person,):
        parts = [column for column in file.columns if column.scope is Scope.GEOCODE]
        ends = sorted((part.begin, part.end) for part in parts)
        assert [begin for begin, _ in ends] == [0, *(end for _, end in ends[:-1])]
        assert ends[-1][1] == product.geolevels[-1].length
        assert all(not column.values for column in parts)
    sizes = {len(column.values) for column in person.columns if column.scope is Scope.CODE}
    assert sizes == {product.schema.size + (product.record == "unit")}
    if dealt:
        assert {len(c.values) for c in unit_columns(product).columns if c.scope is Scope.CODE} == {
            len(product.unit_classes) + 1
        }


def test_the_codes_of_1940_are_those_of_the_specification():
    product = PRODUCTS["e2e_1940"]
    codes = {column.name: column.values for column in record_columns(product, units=True).columns}
    cell = product.schema.ravel([[4, 0, 1, 5]])[0]  # military, minor, Hispanic, other Asian
    assert [codes[name][cell] for name in ("RTYPE", "QAGE", "CENHISP", "CENRACE")] == ["5", "17", "2", "6"]
    kinds = {column.name: column.values for column in unit_columns(product).columns}
    assert kinds["GQTYPE"] == tuple("023467890")
    assert kinds["RTYPE"] == tuple("244444442")
    assert kinds["TEN"] == tuple("900000000")
    assert kinds["VACS"] == tuple("000000009")


def test_the_codes_of_2020_are_those_of_the_specification():
    product = PRODUCTS["pl94_2020_person"]
    codes = {column.name: column.values for column in record_columns(product, units=False).columns}
    cell = product.schema.ravel(np.array([[5, 1, 0, 62]]))[0]  # student housing, adult, not Hispanic, all six races
    names = ("RTYPE", "GQTYPE_PL", "VOTING_AGE", "CENHISP", "CENRACE")
    assert [codes[name][cell] for name in names] == ["5", "5", "2", "1", "63"]
    assert [codes[name][0] for name in names] == ["3", "0", "1", "1", "01"]
    units = {column.name: column.values for column in record_columns(PRODUCTS["pl94_2020_unit"], units=False).columns}
    assert units["RTYPE"] == ("2", "2", "4")
    assert units["HH_STATUS"] == ("2", "1", "0")


def test_without_units_the_numbers_are_fillers_and_are_not_produced():
    person = record_columns(PRODUCTS["e2e_1940"], units=False)
    fillers = {column.name: column.values for column in person.columns if column.scope is Scope.CONSTANT}
    assert fillers["EUID"] == ("999999999",)
    assert fillers["EPNUM"] == ("99999",)
    assert {"EUID", "EPNUM"}.isdisjoint(column.name for column in person.produced)


@pytest.mark.parametrize("source", ["something", "recode:race:1,2", "recode:unit_class:1", "geocode[a:b]"])
def test_a_source_that_cannot_be_is_a_configuration_error(source):
    product = PRODUCTS["e2e_1940"]
    layout = dataclasses.replace(
        product.microdata, person=(MicrodataColumn("X", source),), unit=(MicrodataColumn("X", source),)
    )
    broken = dataclasses.replace(product, microdata=layout)
    with pytest.raises(ConfigurationError, match="microdata column X"):
        unit_columns(broken)


def test_every_flavour_is_registered_under_its_own_name():
    assert {name: flavour.name for name, flavour in WRITERS.items()} == {
        name: name for name in ("parquet", "text", "ppmf")
    }


@pytest.mark.parametrize("product", PRODUCTS.values(), ids=list(PRODUCTS))
def test_the_public_copy_compiles_to_the_codes_of_the_microdata(product):
    if product.ppmf is None:
        with pytest.raises(ConfigurationError, match="no public layout"):
            record_columns(product, "ppmf", units=False)
        return
    text, copy = (record_columns(product, flavour, units=False) for flavour in ("text", "ppmf"))
    for scope in (Scope.CODE, Scope.GEOCODE):
        found = [[column for column in each.columns if column.scope is scope] for each in (text, copy)]
        assert found[0] == found[1], scope
    assert (text.delimiter, text.names_inside) == ("|", False)
    assert (copy.delimiter, copy.names_inside) == (",", True)
