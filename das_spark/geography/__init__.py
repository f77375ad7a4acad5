"""Where people are counted: geocodes and the spine of geolevels, root first."""

from das_spark.geography.geocode import (
    BLOCK,
    CENSUS_BLOCK,
    LONGEST_GEOCODE,
    ROOT_GEOCODE,
    block_geocode,
    check_geocode,
    geounit_number,
    geounit_numbers,
)
from das_spark.geography.spine import Geolevel, Spine

__all__ = [
    "BLOCK",
    "CENSUS_BLOCK",
    "LONGEST_GEOCODE",
    "ROOT_GEOCODE",
    "Geolevel",
    "Spine",
    "block_geocode",
    "check_geocode",
    "geounit_number",
    "geounit_numbers",
]
