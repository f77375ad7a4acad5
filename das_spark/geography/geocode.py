"""Geocodes: strings of digits whose prefixes name the geounits that contain a geounit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import GeographyError

#: Geocode of a root that no digits name: the whole universe of a run (a nation).
ROOT_GEOCODE = "0"

#: Digits of a census block: state 2, county 3, tract 6, block 4, whose first digit names the block group.
CENSUS_BLOCK = 15
#: Digits of the geocode of a block: the same with the block group before the block, so that it is a prefix.
BLOCK = CENSUS_BLOCK + 1

#: Digits that fit into a geounit number, the leading one included, below 2^63.
LONGEST_NUMBER = 18
#: Digits of the longest geocode: of a block on a spine whose levels are numbered anew (S-3), behind its path.
LONGEST_GEOCODE = 48


def check_geocode(geocode: str, length: int) -> str:
    """Check that a geocode consists of exactly `length` digits.

    Args:
        geocode: What a file or a caller gives as a geocode.
        length: Number of digits of the geolevel; 0 asks for the root's geocode "0".

    Returns:
        The geocode itself.

    Raises:
        GeographyError: Some character is no digit, or the number of characters is another one.
    """
    _check_digits(geocode)
    if length == 0:
        if geocode != ROOT_GEOCODE:
            message = f"geocode {geocode!r} stands at the root of the spine, whose only geocode is {ROOT_GEOCODE!r}"
            raise GeographyError(message)
    elif len(geocode) != length:
        raise GeographyError(
            f"geocode {geocode!r} has {len(geocode)} digits, expected {length}",
            hint="geocodes are text: keep their leading zeros",
        )
    return geocode


def block_geocode(block: str) -> str:
    """The geocode of a census block.

    Args:
        block: The 15 digits of the block, as the census writes them.

    Returns:
        16 digits: state, county and tract; block group; block.

    Raises:
        GeographyError: It is no such number.
    """
    check_geocode(block, CENSUS_BLOCK)
    return block[:11] + block[11:12] + block[11:]


def geounit_number(geocode: str) -> int:
    """Number a geounit by its geocode, so that no two geocodes share a number.

    The digits are read as a decimal number behind a leading 1: "0012" gives 10012. Without that 1, "12" and "0012"
    would meet in one number, and two geounits would draw the same noise.

    A geocode of more than 18 digits is that of a block behind its path through an optimised spine (S-3). It ends with
    the block's own 16 digits, which no other block of the run has, and those are read. Numbers are compared within one
    geolevel only, whose geocodes have one length.

    Args:
        geocode: 1 to 48 digits.

    Returns:
        A whole number below 2^63.

    Raises:
        GeographyError: The geocode is empty, too long, or has a character that is no digit.
    """
    _check_digits(geocode)
    return int("1" + (geocode if len(geocode) <= LONGEST_NUMBER else geocode[-BLOCK:]))


def geounit_numbers(geocodes: Iterable[str]) -> NDArray[np.uint64]:
    """Number many geounits: `geounit_number` of each, in the same order.

    Args:
        geocodes: Geocodes of 1 to 48 digits, of any lengths.

    Returns:
        Array (number of geocodes,) of unsigned 64-bit integers.

    Raises:
        GeographyError: As `geounit_number`, for the first geocode that is wrong.
    """
    return np.fromiter((geounit_number(geocode) for geocode in geocodes), dtype=np.uint64)


def _check_digits(geocode: str) -> None:
    # isdigit alone would accept digits of other scripts, which int() reads as the same number.
    if not (geocode.isascii() and geocode.isdigit()):
        raise GeographyError(f"geocode {geocode!r} must consist of the digits 0-9 only, and of one at least")
    if len(geocode) > LONGEST_GEOCODE:
        raise GeographyError(f"geocode {geocode!r} has {len(geocode)} digits, at most {LONGEST_GEOCODE} are allowed")
