"""Figures on spines: points thinned out, levels of two spines in one order."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from das_spark.evaluation import SpineLevelLine, merged_levels
from das_spark.evaluation.spine_figures import MOST_POINTS, spoken, thinned


def levels(*names):
    return [SpineLevelLine(name, Fraction(1, len(names)), 1, 1, 1) for name in names]


def test_levels_of_both_spines_stand_in_one_order():
    census = levels("US", "State", "County", "Tract", "Block_Group", "Block")
    other = levels("US", "State", "County", "Prim", "Tract_Subset", "Block_Group", "Block")
    expected = ["US", "State", "County", "Tract", "Prim", "Tract_Subset", "Block_Group", "Block"]
    assert merged_levels(census, other) == expected
    assert merged_levels(census, census) == [line.name for line in census]


def test_many_points_are_thinned_and_both_ends_stay():
    values = np.random.default_rng(1).normal(size=10 * MOST_POINTS)
    kept = values[thinned(values)]
    assert kept.size == MOST_POINTS
    assert (kept.min(), kept.max()) == (values.min(), values.max())
    assert thinned(values[:5]).size == 5


def test_categories_are_spoken_plainly():
    assert (spoken("aian_area"), spoken("county_subdivision")) == ("AIAN area", "county subdivision")
