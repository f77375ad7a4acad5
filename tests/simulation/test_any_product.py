"""Populations for any product: the same for the same seed, within the rules of the product, and not all alike."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.geography.spine import check_geocode
from das_spark.products import PRODUCTS, product_from
from das_spark.simulation import population_kind

SHARE = Fraction(1, 20)
OWN = {
    "name": "own",
    "geolevels": [{"name": "Region", "length": 2, "letters": True}, {"name": "Area", "length": 4, "letters": True}],
    "attributes": [{"name": "sector", "levels": ["a", "b", "c"]}, {"name": "size", "levels": ["s", "m", "l"]}],
    "structural_zeros": [{"name": "none", "selection": {"sector": [0], "size": [0, 1]}}],
    "strategies": [
        {
            "name": "main",
            "framework": "zcdp",
            "total": "1",
            "geolevels": {"Region": "1/2", "Area": "1/2"},
            "queries": {"detailed": "1"},
        }
    ],
}


def made(product, seed=0, share=SHARE):
    return population_kind(product, "own").make(0, seed, share)


@pytest.mark.parametrize("name", ["e2e_1940", "e2e_2018", "pl94_2020_person", "ddp_2010_person"])
def test_units_and_people_fit_the_rules_of_the_product(name):
    product = PRODUCTS[name]
    found = made(product)
    assert 6_000 < found.persons < 11_000  # those in a structural zero are left out
    assert (found.count > 0).all()
    assert not product.zero_cells()[found.cell].any()
    assert (found.geocodes[1:] > found.geocodes[:-1]).all()
    for code in found.geocodes[:50]:
        check_geocode(str(code), product.geolevels[-1].length)
    if product.unit_bounds is not None:
        classes = len(product.unit_classes)
        row = product.schema.query(product.class_query).row_of(found.cell)
        people = np.bincount(found.geounit * classes + row, found.count, len(found.geocodes) * classes)
        people = people.reshape(-1, classes)
        assert (people >= found.units * np.array(product.unit_bounds.least)).all()
        assert (people <= found.units * np.array(product.unit_bounds.most)).all()


def test_the_same_seed_makes_the_same_people():
    product = product_from(OWN)
    one, two, other = made(product), made(product), made(product, seed=1)
    for name in ("geocodes", "geounit", "cell", "count", "units", "vacant"):
        np.testing.assert_array_equal(getattr(one, name), getattr(two, name))
    assert len(one.cell) != len(other.cell) or (one.count != other.count).any()


def test_without_classes_there_are_no_units_and_zeros_stay_empty():
    found = made(product_from(OWN))
    assert not found.units.any()
    assert not found.vacant.any()
    assert not set(found.cell.tolist()) & {0, 1}
    assert set(found.cell.tolist()) == set(range(2, 9))


def test_geocodes_have_letters_where_they_may_and_geounits_differ():
    found = made(product_from(OWN), share=Fraction(10))
    assert any(not str(code).isdigit() for code in found.geocodes)
    assert len({str(code)[:2] for code in found.geocodes}) > 10
    people = np.bincount(found.geounit, found.count)
    assert people.std() > 0.4 * people.mean()
    shares = np.array([np.bincount(found.geounit, found.count * (found.cell == 4)), people])
    large = people > 100
    assert (shares[0] / np.maximum(shares[1], 1))[large].std() > 0.03


def test_products_that_count_something_else_are_refused():
    with pytest.raises(ConfigurationError, match="counts housing units"):
        population_kind(PRODUCTS["pl94_2020_unit"], "x")
