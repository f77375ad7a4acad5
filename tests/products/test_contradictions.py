"""What is compared between products, against the labels of their cells."""

from __future__ import annotations

import re

import numpy as np
import pytest

from das_spark.products import HOUSEHOLD_TYPES, PRODUCTS
from das_spark.products._contradictions import (
    COHABITING,
    COUPLES,
    HEADS,
    HOMES,
    LEAST,
    PARTNERS,
    PEOPLE,
    QUANTITIES,
    SPOUSES,
    contradictions_among,
    notice_of_contradictions,
)

#: Product -> attribute -> quantity -> how many a cell with a label counts.
LABELS = {
    "pl94_2020_person": ("hhgq", {PEOPLE: lambda label: label == "Household"}),
    "ddp_2010_person": ("hhgq", {PEOPLE: lambda label: label == "Household"}),
    "pl94_2020_unit": ("h1", {HOMES: lambda label: label == "Occupied"}),
    "dhc_2020_unit": ("tenvac", {HOMES: lambda label: not label.startswith("Vacant")}),
    "ddp_2010_household": (
        "size",
        {HOMES: lambda label: not label.startswith("0-"), LEAST: lambda label: int(label[0])},
    ),
    "dhc_2020_person": (
        "relgq",
        {
            HEADS: lambda label: label.startswith("Householder"),
            SPOUSES: lambda label: label.endswith("-sex spouse"),
            PARTNERS: lambda label: label.endswith("unmarried partner"),
        },
    ),
}


def counted(product: str, quantity: str) -> np.ndarray:
    """How many each cell of a product counts."""
    each, schema = QUANTITIES[product][quantity], PRODUCTS[product].schema
    query = schema.query(each.query)
    assert query.rows == len(each.weights)
    return np.array([*each.weights, 0])[query.row_of(np.arange(schema.size))]


@pytest.mark.parametrize("product", LABELS)
def test_quantities_are_what_the_labels_of_cells_say(product):
    schema, (attribute, quantities) = PRODUCTS[product].schema, LABELS[product]
    axis = schema.axis(attribute)
    level = schema.unravel(np.arange(schema.size))[:, axis]
    for quantity, of_label in quantities.items():
        wanted = np.array([int(of_label(label)) for label in schema.attributes[axis].levels])
        assert np.array_equal(counted(product, quantity), wanted[level])


def test_people_in_households_are_those_with_a_relationship():
    schema = PRODUCTS["dhc_2020_person"].schema
    relgq = schema.unravel(np.arange(schema.size))[:, 0]
    assert np.array_equal(counted("dhc_2020_person", PEOPLE), relgq < 18)


@pytest.mark.parametrize(
    ("quantity", "of_type"),
    [
        (LEAST, lambda each: each.size),
        (COUPLES, lambda each: each.married),
        (COHABITING, lambda each: each.cohabiting),
    ],
)
def test_sizes_and_couples_are_those_of_the_types_of_households(quantity, of_type):
    schema = PRODUCTS["dhc_2020_household"].schema
    kind = schema.unravel(np.arange(schema.size))[:, schema.axis("hhtype_dhch")]
    wanted = np.array([int(of_type(each)) for each in HOUSEHOLD_TYPES])
    assert np.array_equal(counted("dhc_2020_household", quantity), wanted[kind])


@pytest.mark.parametrize(
    ("products", "number"),
    [
        (("dhc_2020_person", "dhc_2020_unit", "dhc_2020_household"), 6),
        (("pl94_2020_person", "pl94_2020_unit"), 2),
        (("ddp_2010_person", "ddp_2010_household"), 3),
        (("dhc_2020_unit", "dhc_2020_household"), 0),
        (("my_product", "pl94_2020_unit"), 0),
    ],
)
def test_products_are_compared_in_what_both_count(products, number):
    assert len(contradictions_among(products)) == number


def test_files_of_the_characteristics_say_so():
    assert [product for product in PRODUCTS if notice_of_contradictions(product)] == [
        product for product in PRODUCTS if re.match("dhc_2020_", product)
    ]
