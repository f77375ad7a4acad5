"""Geocodes: which are accepted, and that their numbers never meet."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from das_spark.errors import GeographyError
from das_spark.geography import (
    BLOCK,
    LONGEST_GEOCODE,
    LONGEST_NUMBER,
    block_geocode,
    check_geocode,
    geounit_number,
    geounit_numbers,
)

BLOCK_OF_2020 = "150010201001000"

geocodes = st.text(alphabet="0123456789", min_size=1, max_size=LONGEST_NUMBER)


@given(geocodes, geocodes)
def test_two_geocodes_share_a_number_only_if_they_are_equal(first: str, second: str) -> None:
    assert (geounit_number(first) == geounit_number(second)) == (first == second)


@given(geocodes)
def test_the_geocode_can_be_read_back_from_its_number(geocode: str) -> None:
    number = geounit_number(geocode)
    assert number < 2**63
    assert str(number)[1:] == geocode


def test_a_block_behind_its_path_has_the_number_of_the_block() -> None:
    block = block_geocode(BLOCK_OF_2020)
    assert geounit_number("0150001" + "0012304" + block) == geounit_number(block)


def test_leading_zeros_count() -> None:
    assert geounit_number("12") != geounit_number("0012")
    assert geounit_number("0") == 10


@given(st.lists(geocodes, max_size=20))
def test_many_numbers_are_the_single_numbers_in_order(many: list[str]) -> None:
    numbers = geounit_numbers(many)
    assert numbers.dtype == np.uint64
    assert [int(each) for each in numbers] == [geounit_number(each) for each in many]


@pytest.mark.parametrize(
    "geocode", ["", "44 07", "44-07", "4407x", "-1", "+1", "1_0", "4407٣", "²", "1" * (LONGEST_GEOCODE + 1)]
)
def test_what_is_no_geocode_has_no_number(geocode: str) -> None:
    with pytest.raises(GeographyError):
        geounit_number(geocode)


def test_a_geocode_of_the_right_length_passes_the_check() -> None:
    assert check_geocode("44007", 5) == "44007"
    assert check_geocode("0", 0) == "0"


@pytest.mark.parametrize(("geocode", "length"), [("4407", 5), ("440071", 5), ("", 5), ("4400x", 5), ("", 0), ("1", 0)])
def test_a_geocode_of_another_length_is_refused_by_name(geocode: str, length: int) -> None:
    with pytest.raises(GeographyError) as caught:
        check_geocode(geocode, length)
    assert repr(geocode) in str(caught.value)


def test_the_geocode_of_a_census_block_names_its_block_group_before_it() -> None:
    geocode = block_geocode(BLOCK_OF_2020)
    assert geocode == "1500102010011000"
    assert len(geocode) == BLOCK
    assert geocode[:12] == BLOCK_OF_2020[:12]
    assert geocode[12:] == BLOCK_OF_2020[11:]


@pytest.mark.parametrize("block", ["1500102010011000", "15001020100100", "15001020100100x"])
def test_what_is_no_census_block_is_refused(block: str) -> None:
    with pytest.raises(GeographyError):
        block_geocode(block)
