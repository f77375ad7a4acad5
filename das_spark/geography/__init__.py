"""Where people are counted: geocodes and the spine of geolevels, root first."""

from das_spark.geography.geocode import (
    LONGEST_GEOCODE,
    ROOT_GEOCODE,
    check_geocode,
    geounit_number,
    geounit_numbers,
)
from das_spark.geography.spine import Geolevel, Spine

__all__ = [
    "LONGEST_GEOCODE",
    "ROOT_GEOCODE",
    "Geolevel",
    "Spine",
    "check_geocode",
    "geounit_number",
    "geounit_numbers",
]
