"""What verification reads from a layout agrees with what the writer compiles from it, by other code."""

from dataclasses import replace

import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.io.microdata_formats import Scope, class_codes, record_columns, unit_columns
from das_spark.products import CODE_SEPARATOR, PRODUCTS, ColumnRule, MicrodataColumn, column_rule, microdata_codes

#: Codes from which on not every one is put into words.
MANY = 1_000_000


def geocode_parts(columns):
    """Names of the columns that make up the whole geocode when they are joined in this order."""
    parts = sorted((column for column in columns if column.scope is Scope.GEOCODE), key=lambda column: column.begin)
    return tuple(part.name for part in parts)


@pytest.mark.parametrize("name", PRODUCTS)
def test_reader_and_writer_of_a_layout_agree(name):
    product = PRODUCTS[name]
    codes = microdata_codes(product)
    assigned = product.files(units=True) == ("person", "unit")
    person = record_columns(product, units=assigned)
    coded = [column for column in person.columns if column.scope is Scope.CODE]
    assert codes.person_columns == tuple(column.name for column in coded)
    cells = np.arange(product.codes)
    # Of many cells some, from first to last, and what follows them.
    shown = cells if len(cells) < MANY else np.concatenate([cells[::997], cells[product.schema.size :][:100]])
    written = [CODE_SEPARATOR.join(row) for row in zip(*[column.texts(shown) for column in coded], strict=True)]
    assert codes.codes_of(shown) == written
    assert (codes.record, codes.assigned) == (product.record, assigned)
    if assigned:
        unit = unit_columns(product)
        of_units = [column for column in unit.columns if column.scope is Scope.CODE]
        rows = [
            CODE_SEPARATOR.join(row)
            for row in zip(*[column.texts(np.arange(unit.codes)) for column in of_units], strict=True)
        ]
        assert codes.kinds == {text: kind for kind, text in enumerate(rows)}
        assert codes.vacant == len(product.unit_classes)
        assert codes.unit_place == geocode_parts(unit.columns)
        assert tuple(codes.forms["text"].rules["unit"]) == tuple(column.name for column in unit.columns)
    assert codes.classes_of(cells).tolist() == class_codes(product).tolist()
    assert codes.person_place == geocode_parts(person.columns)
    assert tuple(codes.forms["text"].rules[product.record]) == tuple(column.name for column in person.columns)
    assert codes.forms["parquet"] == codes.forms["text"]
    assert ("ppmf" in codes.forms) == (product.ppmf is not None)
    if product.ppmf is not None:
        form, copy = codes.forms["ppmf"], record_columns(product, "ppmf", units=assigned)
        assert tuple(form.rules[product.record]) == tuple(column.name for column in copy.columns)
        assert (form.delimiter, form.names_inside) == (copy.delimiter, copy.names_inside)


@pytest.mark.parametrize("changed", ["VOTING_AGE", "TABBLK"])
def test_a_public_layout_with_other_codes_or_places_is_refused(changed):
    product = PRODUCTS["pl94_2020_person"]
    fewer = tuple(column for column in product.ppmf.person if column.name != changed)
    with pytest.raises(ConfigurationError, match="other codes"):
        microdata_codes(replace(product, ppmf=replace(product.ppmf, person=fewer)))


def test_units_that_are_listed_have_cells_of_their_own_behind_all_others():
    units, persons = (microdata_codes(PRODUCTS[f"pl94_2020_{of}"]) for of in ("unit", "person"))
    assert units.listed == tuple(range(1, 8))  # the types of group quarters, which have the same codes
    assert units.codes_of(np.arange(9)) == ["2|2", "2|1", *["4|0"] * 7]
    assert units.classes_of(np.arange(9)).tolist() == [0, 0, *range(1, 8)]
    assert not units.lists_vacant
    assert persons.listed == ()
    households = microdata_codes(PRODUCTS["ddp_2010_household"])
    assert (households.listed[-1], households.lists_vacant) == (29, True)


def test_a_layout_that_does_not_tell_units_apart_or_lacks_a_number_is_refused():
    product = PRODUCTS["e2e_1940"]
    blind = tuple(column for column in product.microdata.unit if not column.source.startswith("recode:"))
    with pytest.raises(ConfigurationError, match="share their codes"):
        microdata_codes(replace(product, microdata=replace(product.microdata, unit=blind)))
    mute = tuple(
        MicrodataColumn(column.name, "constant:0") if column.source == "population" else column
        for column in product.microdata.unit
    )
    with pytest.raises(ConfigurationError, match="population"):
        microdata_codes(replace(product, microdata=replace(product.microdata, unit=mute)))


@pytest.mark.parametrize("units", [True, False])
@pytest.mark.parametrize("name", PRODUCTS)
def test_every_column_of_every_layout_is_compared_by_its_rule(name, units):
    """Constants with their text; places and codes among those that are joined; numbers among those that are read."""
    product = PRODUCTS[name]
    codes = microdata_codes(product, units=units)
    assigned = len(product.files(units=units)) > 1
    for format, form in codes.forms.items():
        for kind in product.files(units=units):
            layout = product.layout(format).columns(kind)
            assert tuple(form.rules[kind]) == tuple(column.name for column in layout)
            of_counted = kind == product.record
            numbers = {
                ColumnRule.UNIT_NUMBER: codes.unit_number,
                ColumnRule.PERSON_NUMBER: codes.person_number if of_counted else "",
                ColumnRule.POPULATION: "" if of_counted else codes.population,
                ColumnRule.RECORD_NUMBER: form.record_number(kind) if of_counted else "",
            }
            compared = {
                ColumnRule.CONSTANT: tuple(form.constants[kind]),
                ColumnRule.PLACE: codes.person_place if of_counted else codes.unit_place,
                ColumnRule.CODE: codes.person_columns if of_counted else codes.unit_columns,
                **{rule: (column,) for rule, column in numbers.items()},
            }
            for column in layout:
                rule = column_rule(column, assigned=assigned)
                assert form.rules[kind][column.name] is rule
                assert column.name in compared[rule], (format, kind, column)
                if column.source.startswith("constant:"):
                    assert form.constants[kind][column.name] == column.source.removeprefix("constant:")


def test_places_are_all_digits_of_the_geocode_of_a_leaf_once():
    for product in PRODUCTS.values():
        length = product.spine().leaf.length
        for columns in (product.microdata.columns(product.record), product.microdata.unit):
            parts = [column.source for column in columns if column.source.startswith("geocode[")]
            digits = [digit for part in parts for digit in range(*map(int, part[len("geocode[") : -1].split(":")))]
            assert digits == list(range(length)) * bool(parts)


def test_a_column_without_a_rule_is_refused():
    product = PRODUCTS["e2e_1940"]
    layout = replace(product.microdata, person=(*product.microdata.person, MicrodataColumn("MOOD", "weather")))
    with pytest.raises(ConfigurationError, match="MOOD: verification has no rule for 'weather'"):
        microdata_codes(replace(product, microdata=layout))
