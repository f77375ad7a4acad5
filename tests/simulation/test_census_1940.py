"""The simulated 1940 has the size and shape of the published figures, at any share."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import ConfigurationError
from das_spark.simulation import LIKES, Population, parts_of, share_of
from das_spark.simulation.census_1940 import plan
from das_spark.simulation.states_1940 import COUNTIES, PERSONS, STATES

CENSUS = LIKES["1940"]
TENTH = Fraction(1, 10)


def _strata(population: Population) -> np.ndarray:
    """Voting age x Hispanic x race of each district, (D, 24)."""
    strata = np.zeros((len(population.geocodes), 24), dtype=np.int64)
    np.add.at(strata, (population.geounit, population.cell % 24), population.count)
    return strata


@pytest.fixture(scope="module")
def whole() -> list[Population]:
    return [CENSUS.make(part, 1, Fraction(1)) for part in CENSUS.parts(Fraction(1))]


def test_the_state_table_holds_51_states_and_all_counties() -> None:
    assert len(STATES) == 51
    assert sum(state.counties for state in STATES) == COUNTIES
    assert all(len(state.large) <= state.counties for state in STATES)


def test_districts_of_the_whole_have_their_own_geocodes(whole: list[Population]) -> None:
    geocodes = np.concatenate([population.geocodes for population in whole]).tolist()
    assert len(set(geocodes)) == len(geocodes)
    assert len({code[:6] for code in geocodes}) == COUNTIES


def test_units_fit_their_people(whole: list[Population]) -> None:
    for population in whole:
        by_class = np.zeros_like(population.units)
        np.add.at(by_class, (population.geounit, population.cell // 24), population.count)
        assert (by_class >= population.units).all()
        assert ((by_class > 0) == (population.units > 0)).all()
        assert (by_class[:, 0] <= 99 * population.units[:, 0]).all()


def test_a_state_is_the_same_whatever_else_is_made() -> None:
    first, again = CENSUS.make(53, 7, TENTH), CENSUS.make(53, 7, TENTH)
    assert np.array_equal(first.count, again.count)
    assert np.array_equal(first.geocodes, again.geocodes)
    assert not np.array_equal(CENSUS.make(53, 8, TENTH).count[:50], first.count[:50])


@given(st.fractions(min_value=Fraction(1, 100_000), max_value=1, max_denominator=100_000))
def test_a_share_keeps_the_number_of_people_and_the_size_of_districts(share: Fraction) -> None:
    states = plan(share)
    assert sum(state.persons for state in states) == pytest.approx(float(share) * PERSONS)
    assert all(1 <= state.counties <= state.state.counties for state in states)
    assert all(sum(state.large) <= state.persons * 1.01 for state in states)
    assert len({state.state.fips for state in states}) == len(states)


@pytest.mark.parametrize(("share", "states"), [("1", 51), ("1/100", 51), ("1/1000", 33), ("1/100000", 1)])
def test_all_states_are_kept_while_they_have_districts(share: str, states: int) -> None:
    assert len(parts_of("1940", Fraction(share))) == states


def test_every_state_has_somebody_of_each_race_of_whom_several_are_expected(whole: list[Population]) -> None:
    by_race = np.array([_strata(population).reshape(-1, 4, 6).sum(axis=(0, 1)) for population in whole])
    published = np.array([state.races for state in STATES])
    assert (by_race[:, 1:][published > 3] > 0).all()


def test_districts_of_a_hundredth_are_as_large_as_those_of_the_whole() -> None:
    share = Fraction(1, 100)
    totals = np.concatenate([_strata(CENSUS.make(part, 3, share)).sum(axis=1) for part in CENSUS.parts(share)])
    assert totals.sum() == pytest.approx(PERSONS / 100, rel=0.01)
    assert totals.mean() == pytest.approx(982, rel=0.05)


@pytest.mark.parametrize("share", [0.5, "0", "-1/2", "2", "one", "1/0", None, True])
def test_a_share_that_is_not_exact_or_not_in_range_is_refused(share: object) -> None:
    with pytest.raises(ConfigurationError, match=r"input\.simulate\.share"):
        share_of(share, "input.simulate.share")
