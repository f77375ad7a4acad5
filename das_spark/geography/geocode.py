"""Geocodes: strings of digits whose prefixes name the geounits that contain a geounit."""

from __future__ import annotations

from das_spark.errors import GeographyError

#: Geocode of a root that no digits name: the whole universe of a run (a nation).
ROOT_GEOCODE = "0"

#: Digits of a census block: state 2, county 3, tract 6, block 4, whose first digit names the block group.
CENSUS_BLOCK = 15
#: Digits of the geocode of a block: the same with the block group before the block, so that it is a prefix.
BLOCK = CENSUS_BLOCK + 1

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


def _check_digits(geocode: str) -> None:
    # isdigit alone would accept digits of other scripts, which int() reads as the same number.
    if not (geocode.isascii() and geocode.isdigit()):
        raise GeographyError(f"geocode {geocode!r} must consist of the digits 0-9 only, and of one at least")
    if len(geocode) > LONGEST_GEOCODE:
        raise GeographyError(f"geocode {geocode!r} has {len(geocode)} digits, at most {LONGEST_GEOCODE} are allowed")
