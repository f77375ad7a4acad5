"""Geocodes: which are accepted."""

from __future__ import annotations

import pytest

from das_spark.errors import GeographyError
from das_spark.geography import BLOCK, Geolevel, Spine, block_geocode
from das_spark.geography.spine import LONGEST_GEOCODE, check_geocode

BLOCK_OF_2020 = "150010201001000"


@pytest.mark.parametrize(
    "geocode", ["", "44 07", "44-07", "4407x", "-1", "+1", "1_0", "4407٣", "²", "1" * (LONGEST_GEOCODE + 1)]
)
def test_what_is_no_geocode_is_refused(geocode: str) -> None:
    with pytest.raises(GeographyError):
        check_geocode(geocode, len(geocode))


@pytest.mark.parametrize("geocode", ["", "44 07", "+1", "4407٣", "²", "Ä1", "a\n", "x" * (LONGEST_GEOCODE + 1)])
def test_what_is_no_geocode_with_letters_is_refused(geocode: str) -> None:
    with pytest.raises(GeographyError):
        check_geocode(geocode, len(geocode), letters=True)


def test_a_spine_whose_geocodes_have_letters_nests_by_prefixes_as_well() -> None:
    spine = Spine((Geolevel("Country", 0), Geolevel("NUTS1", 3, letters=True), Geolevel("Cell", 8)))
    assert spine.parent("DE2-x.01", "Cell") == "DE2"
    assert spine.parent("DE2", "NUTS1") == "0"
    assert spine.geocode_at("DE2-x.01", "Country") == "0"
    with pytest.raises(GeographyError, match="has 4 characters, expected 3"):
        spine.parent("DE21", "NUTS1")
    with pytest.raises(GeographyError, match="must consist of letters A-Z and a-z, digits"):
        spine.parent("D 2", "NUTS1")


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
