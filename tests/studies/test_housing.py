"""Synthetic housing: sums up the spine, published sizes, and no county that is full in truth."""

import numpy as np
import pytest

from das_spark.errors import ConfigurationError
from das_spark.studies.housing import COUNTY, HOUSING_LEVELS, simulate_housing

FOLLOWED = 2_000


@pytest.fixture(scope="module")
def housing():
    return simulate_housing(3, 2, 150, FOLLOWED)


def test_every_level_sums_up_to_the_one_above(housing):
    assert tuple(level.name for level in housing.levels) == HOUSING_LEVELS
    for depth, (above, below) in enumerate(zip(housing.levels, housing.levels[1:], strict=False)):
        assert (np.diff(below.parent) >= 0).all()
        units, households = np.zeros_like(above.units), np.zeros_like(above.households)
        np.add.at(units, below.parent, below.units)
        np.add.at(households, below.parent, below.households)
        divided = np.unique(below.parent)
        assert (units[divided] == above.units[divided]).all()
        assert (households[divided] == above.households[divided]).all()
        if depth != COUNTY:
            assert len(divided) == len(above.units)


def test_small_counties_and_they_alone_are_followed_to_the_block(housing):
    followed = np.unique(housing.levels[COUNTY + 1].parent)
    assert followed.tolist() == np.flatnonzero(housing.levels[COUNTY].units <= FOLLOWED).tolist()
    assert 0 < len(followed) < 300


def test_households_live_in_housing_units_and_every_county_has_vacant_ones(housing):
    for level in housing.levels:
        assert (level.totals <= level.units).all()
    county = housing.levels[COUNTY]
    rate = county.totals / county.units
    assert (county.totals < county.units).all()
    assert 0.75 < rate.min() < 0.82
    assert 0.96 < rate.max() < 1


def test_the_median_county_is_as_large_as_published(housing):
    # The median of 300 lognormal sizes with a spread of 1.4 is off by a third once in a thousand times.
    assert 6_700 < np.median(housing.levels[COUNTY].totals) < 15_000
    assert housing.people.sum() / housing.levels[0].totals[0] == pytest.approx(2.68, rel=0.01)


def test_the_same_seed_gives_the_same_nation_and_another_seed_another(housing):
    again, other = simulate_housing(3, 2, 150, FOLLOWED), simulate_housing(4, 2, 150, FOLLOWED)
    assert (again.levels[-1].households == housing.levels[-1].households).all()
    assert (again.people == housing.people).all()
    assert not np.array_equal(other.levels[COUNTY].units, housing.levels[COUNTY].units)


def test_a_nation_that_follows_no_county_has_empty_levels_below():
    housing = simulate_housing(1, 1, 5, 0)
    assert [len(level.units) for level in housing.levels] == [1, 1, 5, 0, 0, 0, 0]


@pytest.mark.parametrize(("states", "counties"), [(0, 3), (3, 0)])
def test_no_states_or_counties_are_refused(states, counties):
    with pytest.raises(ConfigurationError, match="at least one"):
        simulate_housing(1, states, counties, 100)
