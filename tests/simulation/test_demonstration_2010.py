"""The synthetic state of the demonstration: the people of 2020-state, with ages that may be where they are."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from das_spark.products import PRODUCTS
from das_spark.simulation import LIKES, Population

SHARE = Fraction(1, 100)
DDP = PRODUCTS["ddp_2010_person"]


@pytest.fixture(scope="module")
def state() -> Population:
    return LIKES["2010-state"].make(20, 7, SHARE)


def test_its_cells_are_those_of_the_product(state: Population):
    attributes = tuple((attribute.name, attribute.size) for attribute in DDP.schema.attributes)
    assert LIKES["2010-state"].attributes == attributes
    assert not DDP.zero_cells()[state.cell].any()
    codes = DDP.schema.unravel(state.cell)
    assert all(len(np.unique(codes[:, axis])) == size for axis, (_, size) in enumerate(attributes) if size < 60)


def test_people_places_and_units_are_those_of_the_state_of_2020(state: Population):
    plain = LIKES["2020-state"].make(20, 7, SHARE)
    assert state.persons == plain.persons
    assert np.array_equal(state.units, plain.units)
    assert np.array_equal(state.vacant, plain.vacant)
    codes = DDP.schema.unravel(state.cell)
    coarse = np.ravel_multi_index(
        (codes[:, 0], (codes[:, 2] >= 18).astype(np.int64), codes[:, 3], codes[:, 4]), LIKES["2020-state"].shape
    )
    found, wanted = Counter(), Counter()
    for made, cells, into in ((state, coarse, found), (plain, plain.cell, wanted)):
        for place, cell, count in zip(made.geounit.tolist(), cells.tolist(), made.count.tolist(), strict=True):
            into[place, cell] += count
    assert found == wanted


def test_pairs_of_tracts_share_four_digits_and_geocodes_ascend(state: Population):
    codes = state.geocodes.tolist()
    assert codes == sorted(set(codes))
    assert all(len(code) == 16 and code.isdigit() and code[11] == code[12] for code in codes)
    sizes = Counter(tract[:9] for tract in {code[:11] for code in codes})
    assert set(sizes.values()) == {1, 2}


def test_the_same_seed_gives_the_same_state_and_another_seed_another(state: Population):
    again, other = (LIKES["2010-state"].make(20, seed, SHARE) for seed in (7, 8))
    assert np.array_equal(state.cell, again.cell)
    assert np.array_equal(state.count, again.count)
    assert state.persons != other.persons
