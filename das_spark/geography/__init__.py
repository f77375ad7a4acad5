"""Where people are counted: geocodes, the spine of geolevels, off-spine entities, and spines made to bring them close.

The way of a county: `BlockTable` -> `county_spines` -> summaries -> `join_counties` -> `county_paths`.
"""

from das_spark.geography.aian import (
    AIAN_CATEGORIES,
    NO_AIAN_AREA,
    PRODUCTION_AIAN,
    AianCategory,
    aian_area,
    aian_category,
    in_aian_branch,
)
from das_spark.geography.block_table import (
    ENTITY_COLUMNS,
    GQ_TYPES,
    NO_ENTITY,
    BlockTable,
)
from das_spark.geography.bypass import BYPASS_RULES, BypassRule, absorb_only_children, bypass, bypass_rule, bypassed
from das_spark.geography.comparison import EntityComparison, SpineComparison, join_comparisons
from das_spark.geography.county_comparison import (
    CountyComparison,
    CountyParts,
    CountySide,
    check_categories,
    compare_county,
)
from das_spark.geography.county_spine import CountySpine, CountySummary, FanOut, county_spines
from das_spark.geography.distance import Touch, climb, climb_to_top, entity_distances, name_entities, touch_blocks
from das_spark.geography.entities import (
    ENTITY_CATEGORIES,
    ENTITY_CODES,
    STRONG_MCD_STATES,
    EntityCode,
    group_quarters,
    places_or_subdivisions,
    primitive_geounits,
    school_districts,
)
from das_spark.geography.geocode import (
    BLOCK,
    CENSUS_BLOCK,
    LONGEST_GEOCODE,
    ROOT_GEOCODE,
    block_geocode,
    check_geocode,
)
from das_spark.geography.grouping import GROUP_TYPES, group_labels, size_limits
from das_spark.geography.matrix_mechanism import (
    Regression,
    climb_regression,
    downward,
    precisions,
    regression_of,
    top_variances,
    upward,
)
from das_spark.geography.merging import MERGERS, TractDistances
from das_spark.geography.national import (
    CountyLevel,
    CountyPaths,
    NationalSpine,
    UpperGeounit,
    county_paths,
    join_counties,
)
from das_spark.geography.paths import LevelArrays, SpinePaths, census_paths, census_shares, level_arrays
from das_spark.geography.settings import (
    DHC,
    DHC_SHARES,
    PL94_PERSON,
    PL94_UNIT,
    PRESETS,
    SPINE_KINDS,
    LevelShares,
    SpineSettings,
)
from das_spark.geography.spine import Geolevel, Spine
from das_spark.geography.tree import Tree, drop_level, tree_of

__all__ = [
    "AIAN_CATEGORIES",
    "BLOCK",
    "BYPASS_RULES",
    "CENSUS_BLOCK",
    "DHC",
    "DHC_SHARES",
    "ENTITY_CATEGORIES",
    "ENTITY_CODES",
    "ENTITY_COLUMNS",
    "GQ_TYPES",
    "GROUP_TYPES",
    "LONGEST_GEOCODE",
    "MERGERS",
    "NO_AIAN_AREA",
    "NO_ENTITY",
    "PL94_PERSON",
    "PL94_UNIT",
    "PRESETS",
    "PRODUCTION_AIAN",
    "ROOT_GEOCODE",
    "SPINE_KINDS",
    "STRONG_MCD_STATES",
    "AianCategory",
    "BlockTable",
    "BypassRule",
    "CountyComparison",
    "CountyLevel",
    "CountyParts",
    "CountyPaths",
    "CountySide",
    "CountySpine",
    "CountySummary",
    "EntityCode",
    "EntityComparison",
    "FanOut",
    "Geolevel",
    "LevelArrays",
    "LevelShares",
    "NationalSpine",
    "Regression",
    "Spine",
    "SpineComparison",
    "SpinePaths",
    "SpineSettings",
    "Touch",
    "TractDistances",
    "Tree",
    "UpperGeounit",
    "absorb_only_children",
    "aian_area",
    "aian_category",
    "block_geocode",
    "bypass",
    "bypass_rule",
    "bypassed",
    "census_paths",
    "census_shares",
    "check_categories",
    "check_geocode",
    "climb",
    "climb_regression",
    "climb_to_top",
    "compare_county",
    "county_paths",
    "county_spines",
    "downward",
    "drop_level",
    "entity_distances",
    "group_labels",
    "group_quarters",
    "in_aian_branch",
    "join_comparisons",
    "join_counties",
    "level_arrays",
    "name_entities",
    "places_or_subdivisions",
    "precisions",
    "primitive_geounits",
    "regression_of",
    "school_districts",
    "size_limits",
    "top_variances",
    "touch_blocks",
    "tree_of",
    "upward",
]
