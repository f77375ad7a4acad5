"""The simulated 2020: sizes and shares of the published census, and everything that a run must bear."""

from __future__ import annotations

import time
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from das_spark.simulation import LIKES, Population, parts_of
from das_spark.simulation.census_2020 import _RACES_OF_HISPANICS, _RACES_OF_SEVERAL
from das_spark.simulation.states_2020 import PERSONS, STATES, SYNTHETIC_STATE

SHARE = Fraction(1, 100)


@pytest.fixture(scope="module")
def nation() -> list[Population]:
    return [LIKES["2020"].make(part, 7, SHARE) for part in parts_of("2020", SHARE)]


@pytest.fixture(scope="module")
def state() -> Population:
    return LIKES["2020-state"].make(SYNTHETIC_STATE.fips, 7, Fraction(1, 10))


def _geocodes(population: list[Population], length: int) -> list[str]:
    return [code[:length] for each in population for code in each.geocodes.tolist()]


def test_figures_of_the_states_sum_to_those_of_the_nation():
    assert sum(each.persons for each in STATES) == PERSONS == 331_449_281
    assert sum(each.counties for each in STATES) == 3_143
    assert len({each.fips for each in STATES}) == 51
    assert all(99 < sum(each.groups) < 101 for each in (*STATES, SYNTHETIC_STATE))
    assert (len(_RACES_OF_SEVERAL), len(_RACES_OF_HISPANICS)) == (57, 63)


def test_a_share_has_that_share_of_people_in_places_of_the_published_sizes(nation: list[Population]):
    persons = sum(each.persons for each in nation)
    assert persons == pytest.approx(PERSONS / 100, rel=0.02)
    size = {length: persons / len(set(_geocodes(nation, length))) for length in (11, 12, 16)}
    assert size[11] == pytest.approx(3_900, rel=0.1)
    assert size[12] == pytest.approx(1_380, rel=0.15)
    assert size[16] == pytest.approx(41, rel=0.2)
    assert {int(code) for code in _geocodes(nation, 2)} == {each.fips for each in STATES}


def test_every_state_has_counties_tracts_and_groups_to_tell_apart(nation: list[Population]):
    counties = Counter(code[:2] for code in set(_geocodes(nation, 5)))
    assert min(counties[f"{each.fips:02d}"] for each in STATES if each.counties > 2 and each.persons > 4e6) > 2
    groups = Counter(code[:11] for code in set(_geocodes(nation, 12)))
    assert {1, 2, 3} <= set(groups.values())


def test_groups_are_as_common_as_published(nation: list[Population]):
    cells = np.zeros((8, 2, 2, 63), dtype=np.int64)
    for each in nation:
        np.add.at(cells.reshape(-1), each.cell, each.count)
    share = cells / cells.sum()
    assert share[:, :, 0, 0].sum() == pytest.approx(0.578, abs=0.03)
    assert share[:, :, 0, 1].sum() == pytest.approx(0.121, abs=0.02)
    assert share[:, :, 1].sum() == pytest.approx(0.187, abs=0.03)
    assert share[:, :, :, 6:].sum() == pytest.approx(0.102, abs=0.02)
    assert share[:, 0].sum() == pytest.approx(0.221, abs=0.02)
    assert share[1:].sum() == pytest.approx(0.025, abs=0.01)
    assert (cells.sum(axis=(0, 1, 2)) > 0).sum() >= 60
    assert (cells.sum(axis=(1, 2, 3)) > 0).all()


def test_groups_are_segregated_by_tract(nation: list[Population]):
    group, everyone = Counter(), Counter()
    for each in nation:
        tract = np.array([code[:11] for code in each.geocodes.tolist()])[each.geounit]
        black = each.cell % 126 == 1
        for code, number, is_black in zip(tract.tolist(), each.count.tolist(), black.tolist(), strict=True):
            everyone[code] += number
            group[code] += number * is_black
    share = np.array([[group[code], everyone[code] - group[code]] for code in everyone]).astype(float)
    share /= share.sum(axis=0)
    dissimilarity = np.abs(share[:, 0] - share[:, 1]).sum() / 2
    assert 0.35 < dissimilarity < 0.8


def test_blocks_are_empty_or_vacant_or_inhabited_as_in_2020(state: Population):
    people = np.bincount(state.geounit, state.count, minlength=len(state.geocodes))
    empty = people == 0
    assert 0.2 < empty.mean() < 0.4
    assert (state.vacant[empty] > 0).any()
    assert state.vacant.sum() / (state.vacant.sum() + state.units[:, 0].sum()) == pytest.approx(0.097, abs=0.02)
    assert people.sum() / state.units[:, 0].sum() == pytest.approx(2.6, abs=0.1)


def test_units_and_people_agree_and_nobody_is_where_nobody_can_be(state: Population):
    by_class = np.zeros((len(state.geocodes), 8), dtype=np.int64)
    np.add.at(by_class, (state.geounit, state.cell // 252), state.count)
    assert (by_class >= state.units).all()
    assert ((by_class > 0) == (state.units > 0)).all()
    assert state.units.sum(axis=0).all()
    minors_in_nursing = (state.cell // 252 == 3) & (state.cell % 252 < 126)
    assert not minors_in_nursing.any()


@pytest.mark.parametrize("like", ["2020", "2020-state"])
def test_geocodes_are_sorted_digits_with_the_block_group_in_the_block(like: str):
    share = Fraction(1, 1000)
    codes = [code for part in parts_of(like, share) for code in LIKES[like].make(part, 1, share).geocodes.tolist()]
    assert codes == sorted(set(codes))
    assert all(len(code) == 16 and code.isdigit() and code[11] == code[12] for code in codes)


def test_the_same_seed_gives_the_same_state_and_another_seed_another():
    first, again, other = (LIKES["2020-state"].make(20, seed, Fraction(1, 500)) for seed in (1, 1, 2))
    for name in ("geocodes", "geounit", "cell", "count", "units", "vacant"):
        assert np.array_equal(getattr(first, name), getattr(again, name))
    assert not np.array_equal(first.count, other.count)


@pytest.mark.parametrize("share", ["1/10000000", "1/331449281"])
def test_the_smallest_shares_have_every_class_of_units(share: str):
    (part,) = parts_of("2020", Fraction(share))
    assert LIKES["2020"].make(part, 0, Fraction(share)).units[:, 1:].sum(axis=0).all()


def test_a_million_people_take_seconds():
    start = time.perf_counter()
    made = LIKES["2020-state"].make(20, 3, Fraction(1, 10))
    assert made.persons > 900_000
    assert time.perf_counter() - start < 10
