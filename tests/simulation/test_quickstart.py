"""The small census reaches every branch of the estimator, and is the same for the same seed."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import numpy as np
import pytest

from das_spark.simulation import LIKES, Population

ONE = Fraction(1)


def _made(seed: int = 1) -> Population:
    return LIKES["quickstart"].make(0, seed, ONE)


def _people(population: Population) -> np.ndarray:
    dense = np.zeros((len(population.geocodes), 8, 2, 2, 63), dtype=np.int64)
    dense.reshape(len(dense), -1)[population.geounit, population.cell] = population.count
    return dense


def test_the_same_seed_gives_the_same_census_and_another_seed_another() -> None:
    first, again, other = _made(1), _made(1), _made(2)
    assert np.array_equal(first.cell, again.cell)
    assert np.array_equal(first.count, again.count)
    assert np.array_equal(first.units, again.units)
    assert not np.array_equal(first.vacant, other.vacant)


@pytest.mark.parametrize("seed", [0, 1, 2018])
def test_there_are_empty_blocks_all_classes_and_only_children(seed: int) -> None:
    population = _made(seed)
    people = _people(population)
    inhabited = people.sum(axis=(1, 2, 3, 4)) > 0
    assert 0.1 < 1 - inhabited.mean() < 0.5
    assert (population.vacant[~inhabited] > 0).any()
    assert (population.vacant[~inhabited] == 0).any()
    assert people.sum(axis=(0, 2, 3, 4)).all()
    groups = Counter(code[:11] for code in {code[:12] for code in population.geocodes.tolist()})
    blocks = Counter(code[:12] for code in population.geocodes.tolist())
    assert 1 in groups.values()
    assert 1 in blocks.values()
    assert len({code[:5] for code in population.geocodes.tolist()}) == 1


@pytest.mark.parametrize("seed", [0, 1, 2018])
def test_people_and_units_agree_and_nursing_facilities_hold_adults_only(seed: int) -> None:
    population = _made(seed)
    people = _people(population)
    by_class = people.sum(axis=(2, 3, 4))
    assert (by_class >= population.units).all()
    assert ((by_class > 0) == (population.units > 0)).all()
    assert (by_class[:, 0] <= 99 * population.units[:, 0]).all()
    assert people[:, 3, 0].sum() == 0
    assert people[:, 2, 0].sum() > people[:, 2, 1].sum()


def test_geocodes_are_sorted_digits_with_the_block_group_in_the_block() -> None:
    codes = _made().geocodes.tolist()
    assert codes == sorted(set(codes))
    assert all(len(code) == 16 and code.isdigit() and code[11] == code[12] for code in codes)
