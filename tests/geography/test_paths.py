"""Columns of geocodes and the geounits that they name."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from das_spark.errors import GeographyError
from das_spark.geography import FanOut, LevelShares, census_shares
from das_spark.geography.comparison import census_paths, level_arrays


def shares_of(**levels):
    return LevelShares.of({level: Fraction(part, sum(levels.values())) for level, part in levels.items()})


def test_tracts_get_what_an_optimised_spine_has_between_counties_and_block_groups():
    dhc = shares_of(US=1, State=2, County=3, Prim=4, Tract_Subset_Group=5, Tract_Subset=6, Block_Group=7, Block=8)
    census = shares_of(US=1, State=2, County=3, Tract=15, Block_Group=7, Block=8)
    assert census_shares(dhc, "dhc") == census
    merged = shares_of(State=2, County=3, Tract_Group=1, Tract=2, Block_Group=7, Block=8)
    assert census_shares(merged, "optimised") == shares_of(State=2, County=3, Tract=3, Block_Group=7, Block=8)


def test_a_plain_spine_keeps_its_levels():
    levels = shares_of(State=2, County=3, Tract_Group=1, Tract=2, Block=8)
    assert census_shares(levels, "aian") == levels


def test_census_geounits_are_prefixes():
    blocks = np.array(["4400100020011001", "4400300020022001"])
    paths = census_paths(blocks, shares_of(US=1, State=2, County=3, Tract=4, Block_Group=5, Block=6))
    assert [level[1] for level in paths.codes] == ["0", "44", "44003", "44003000200", "440030002002", blocks[1]]
    assert sum(level[0] for level in paths.shares) == pytest.approx(1)


def test_levels_know_parents_shares_and_fan_outs():
    codes = [np.array(["b", "a", "b"]), np.array(["b1", "a1", "b2"])]
    levels = level_arrays(codes, [np.array([0.5, 0.25, 0.5]), np.array([0.5, 0.75, 0.25])])
    assert levels.codes[0].tolist() == ["a", "b"]
    assert [level.tolist() for level in levels.parents] == [[0, 0], [1, 0, 1]]
    assert [level.tolist() for level in levels.shares] == [[0.25, 0.5], [0.5, 0.75, 0.25]]
    assert levels.fan_outs() == (FanOut(2, 3, 2),)


def test_a_geounit_with_two_parents_or_shares_is_refused():
    half = np.full(2, 0.5)
    with pytest.raises(GeographyError, match="'c' of the spine has two parents"):
        level_arrays([np.array(["a", "b"]), np.array(["c", "c"]), np.array(["d", "e"])], [half] * 3)
    with pytest.raises(GeographyError, match="'a' of the spine has two parents, or two shares"):
        level_arrays([np.array(["a", "a"]), np.array(["d", "e"])], [np.array([0.5, 0.25]), half])
