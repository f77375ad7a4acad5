"""Where people are counted: blocks, the spine of geolevels, off-spine entities, and optimized spines.

A `Spine` names the geolevels of a run. An optimized spine (the AIAN spine, that of P.L. 94-171, the DHC spine) is built
county by county: `BlockTable` -> `county_spines` -> summaries -> `join_counties` -> `county_paths`. `compare_county`
and `join_comparisons` say how near off-spine entities are to it, and how well their totals are known. README.md has the
definitions (S-1) to (S-22).
"""

from das_spark.geography.blocks import (
    ENTITY_CATEGORIES,
    ENTITY_CODES,
    ENTITY_COLUMNS,
    GQ_TYPES,
    NO_AIAN_AREA,
    NO_ENTITY,
    STRONG_MCD_STATES,
    BlockTable,
)
from das_spark.geography.comparison import (
    CountyComparison,
    EntityComparison,
    SpineComparison,
    SpinePaths,
    census_shares,
    check_categories,
    compare_county,
    join_comparisons,
)
from das_spark.geography.county_spine import CountySpine, CountySummary, check_levels, county_spines
from das_spark.geography.national import CountyPaths, NationalSpine, county_paths, join_counties
from das_spark.geography.parents import paths_of
from das_spark.geography.settings import (
    DHC,
    DHC_SHARES,
    PL94_PERSON,
    PL94_UNIT,
    PRESETS,
    PRIMITIVE_LEVELS,
    SPINE_KINDS,
    LevelShares,
    SpineSettings,
)
from das_spark.geography.spine import BLOCK, CENSUS_BLOCK, PADDING, ROOT_GEOCODE, Geolevel, Spine, block_geocode
from das_spark.geography.tree import FanOut, bypass_rule

__all__ = [
    "BLOCK",
    "CENSUS_BLOCK",
    "DHC",
    "DHC_SHARES",
    "ENTITY_CATEGORIES",
    "ENTITY_CODES",
    "ENTITY_COLUMNS",
    "GQ_TYPES",
    "NO_AIAN_AREA",
    "NO_ENTITY",
    "PADDING",
    "PL94_PERSON",
    "PL94_UNIT",
    "PRESETS",
    "PRIMITIVE_LEVELS",
    "ROOT_GEOCODE",
    "SPINE_KINDS",
    "STRONG_MCD_STATES",
    "BlockTable",
    "CountyComparison",
    "CountyPaths",
    "CountySpine",
    "CountySummary",
    "EntityComparison",
    "FanOut",
    "Geolevel",
    "LevelShares",
    "NationalSpine",
    "Spine",
    "SpineComparison",
    "SpinePaths",
    "SpineSettings",
    "block_geocode",
    "bypass_rule",
    "census_shares",
    "check_categories",
    "check_levels",
    "compare_county",
    "county_paths",
    "county_spines",
    "join_comparisons",
    "join_counties",
    "paths_of",
]
