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
    assert np.array_equal(state.units[:, 1:], plain.units[:, 1:])
    # As many housing units; one that nobody of 15 and more is left for is vacant.
    assert np.array_equal(state.units[:, 0] + state.vacant, plain.units[:, 0] + plain.vacant)
    assert (state.units[:, 0] <= plain.units[:, 0]).all()
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


HOUSEHOLD = PRODUCTS["ddp_2010_household"]
KIND = LIKES["2010-state"]


def test_households_are_of_the_schema_of_the_demonstration_and_possible(state: Population) -> None:
    assert tuple(size for _, size in KIND.households) == HOUSEHOLD.schema.shape
    names = [attribute.name for attribute in HOUSEHOLD.schema.attributes]
    assert [name for name, _ in KIND.households] == names
    assert not HOUSEHOLD.zero_cells()[state.households.cell].any()


def test_households_are_the_occupied_units_of_their_block_and_hold_its_people(state: Population) -> None:
    blocks = len(state.geocodes)
    of_blocks = np.bincount(state.households.geounit, state.households.count, blocks)
    assert of_blocks.tolist() == state.units[:, 0].tolist()
    size = np.unravel_index(state.households.cell, HOUSEHOLD.schema.shape)[4]
    counted = np.bincount(state.households.geounit, state.households.count * size, blocks)
    largest = np.bincount(state.households.geounit, state.households.count * (size == 7), blocks) > 0
    level, _, age, *_ = np.unravel_index(state.cell, KIND.shape)
    people = np.bincount(state.geounit, state.count * (level == 0), blocks)
    assert (counted[~largest] == people[~largest]).all()
    assert (counted <= people).all()
    # Whoever is 75 or more lives in a household that says so, of which there are at most as many.
    elderly = np.unravel_index(state.households.cell, HOUSEHOLD.schema.shape)[6]
    old = np.bincount(state.geounit, state.count * ((level == 0) & (age >= 75)), blocks)
    with_old = np.bincount(state.households.geounit, state.households.count * (elderly == 3), blocks)
    assert ((old > 0) == (with_old > 0)).all()
    assert (with_old <= old).all()


def test_facilities_of_detailed_types_are_those_of_their_class(state: Population) -> None:
    codes = HOUSEHOLD.microdata.unit[8].source.split(":")[2].split(",")[1:-1]
    classes = np.array([min(int(code[0]), 7) for code in codes])
    for each in range(1, 8):
        assert state.households.facilities[:, classes == each].sum(axis=1).tolist() == state.units[:, each].tolist()
    assert state.households.facilities.sum()


def test_sizes_and_couples_are_about_those_of_2010(state: Population) -> None:
    levels = np.unravel_index(state.households.cell, HOUSEHOLD.schema.shape)
    shares = [
        np.bincount(levels[axis], state.households.count, HOUSEHOLD.schema.shape[axis]) / state.households.count.sum()
        for axis in (4, 5)
    ]
    assert shares[0][1:4] == pytest.approx([0.267, 0.328, 0.161], abs=0.08)
    assert shares[1][:8].sum() == pytest.approx(0.484, abs=0.08)
    assert shares[1][8:18].sum() == pytest.approx(0.066, abs=0.03)
