"""Classes of population: every geounit is in one, at the edges that the released metrics have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import InputError
from das_spark.evaluation.bins import BINS, BLOCK, COUNTY, FIFTIES, MAGNITUDE, Bins, sizes_of


@pytest.mark.parametrize(
    ("bins", "population", "label"),
    [
        (BLOCK, 0, "0"),
        (BLOCK, 1, "1 to 9"),
        (BLOCK, 9, "1 to 9"),
        (BLOCK, 10, "10 to 99"),
        (BLOCK, 999, "100 to 999"),
        (BLOCK, 1_000, "1,000 or more"),
        (COUNTY, 0, "0 to 1,000"),
        (COUNTY, 1_000, "0 to 1,000"),
        (COUNTY, 1_001, "1,001 to 9,999"),
        (COUNTY, 1_000_000, "1,000,000 or more"),
        (MAGNITUDE, 9_999_999, "1,000,000 to 9,999,999"),
        (FIFTIES, 0, "0 to 49"),
        (FIFTIES, 50, "50 to 99"),
        (FIFTIES, 2_499, "2,450 to 2,499"),
        (FIFTIES, 2_500, "2,500 or more"),
    ],
)
def test_a_population_is_in_the_class_that_names_it(bins, population, label):
    assert bins.label(int(bins.place(np.array([population]))[0])) == label


@given(st.sampled_from(list(BINS.values())), st.lists(st.integers(0, 10**8), min_size=1))
def test_a_class_begins_where_the_one_before_ends(bins, populations):
    for population, place in zip(populations, bins.place(np.array(populations)).tolist(), strict=True):
        assert bins.least(place) <= population
        assert place == bins.number - 1 or population < bins.least(place + 1)


def test_there_are_fifty_steps_and_an_open_class():
    assert FIFTIES.number == 51


def test_blocks_and_counties_have_classes_of_their_own():
    assert [sizes_of(level).name for level in ("Block", "County", "Tract")] == ["block", "county", "magnitude"]


@pytest.mark.parametrize("upper", [(), (-1, 2), (3, 3), (4, 2)])
def test_edges_that_do_not_ascend_are_refused(upper):
    with pytest.raises(InputError, match="edges"):
        Bins("odd", upper)
