"""Geocodes: which are accepted."""

from __future__ import annotations

import pytest

from das_spark.errors import GeographyError
from das_spark.geography import BLOCK, block_geocode
from das_spark.geography.spine import LONGEST_GEOCODE, check_geocode

BLOCK_OF_2020 = "150010201001000"


@pytest.mark.parametrize(
    "geocode", ["", "44 07", "44-07", "4407x", "-1", "+1", "1_0", "4407٣", "²", "1" * (LONGEST_GEOCODE + 1)]
)
def test_what_is_no_geocode_is_refused(geocode: str) -> None:
    with pytest.raises(GeographyError):
        check_geocode(geocode, len(geocode))


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
