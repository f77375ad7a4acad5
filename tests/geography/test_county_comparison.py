"""One county compared: what it sends is of the size of its entities, and wrong names are refused."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import GeographyError
from das_spark.geography import CountyComparison, LevelShares, SpinePaths, compare_county
from das_spark.geography.comparison import census_paths

SHARES = LevelShares.of({level: Fraction(1, 4) for level in ("State", "County", "Tract", "Block")})


def compare(table, paths=None, categories=("place", "tract")):
    return compare_county(table, paths or census_paths(table.geocode16, SHARES), SHARES, SHARES, "zcdp", 1, categories)


def test_a_county_survives_being_text(random_county):
    county = compare(random_county(1, 80))
    again = CountyComparison.from_json(county.to_json())
    assert again.to_json() == county.to_json()
    assert again.names == county.names
    assert again.after.fan_outs == county.after.fan_outs
    np.testing.assert_array_equal(again.after.parts[0].residual, county.after.parts[0].residual)


def test_infinite_variances_survive_too(random_county):
    table = random_county(1, 1)
    paths = census_paths(table.geocode16, SHARES)
    taken = SpinePaths(paths.codes, (np.ones(1), *(np.zeros(1) for _ in paths.shares[1:])))
    county = compare(table, taken)
    assert np.isinf(county.after.variance).all()
    assert np.isinf(CountyComparison.from_json(county.to_json()).after.variance).all()


def test_the_text_does_not_grow_with_the_blocks(random_county):
    # Of one tract, so that the larger county has no more entities.
    small, large = (len(compare(random_county(1, count), categories=("place",)).to_json()) for count in (39, 79))
    assert large < 1.5 * small


def test_an_unknown_category_is_refused_with_the_known_ones(random_county):
    with pytest.raises(GeographyError, match=r"'parish'.*known: aian_area, place"):
        compare(random_county(1, 5), categories=("parish",))
