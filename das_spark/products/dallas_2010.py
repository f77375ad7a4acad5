"""Persons of Texas in 2010, with Dallas County by block, in the schema and under the constraints of the 1940 variant.

The input is a published reconstruction of the 2010 census. The microdata layout is das_spark's own: that of 1940 with
the parts of a block's geocode in place of the enumeration district, and with a schema code and build of its own.
"""

from __future__ import annotations

from typing import Final

from das_spark.geography import Geolevel
from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product, by_name, pure_strategy
from das_spark.products.e2e_1940 import FILES, SCHEMA, STRATA, UNIT_BOUNDS, UNIT_CLASSES, person_columns, unit_columns

_GEOLEVEL_SHARES: Final = {
    "National": "9/10",
    "State": "1/50",
    "County": "1/50",
    "Tract": "1/50",
    "BlockGroup": "1/50",
    "Block": "1/50",
}
_BLOCK: Final = (
    MicrodataColumn("STATE", "geocode[0:2]", "CHAR2"),
    MicrodataColumn("COUNTY", "geocode[2:5]", "CHAR3"),
    MicrodataColumn("TRACT", "geocode[5:11]", "CHAR6"),
    MicrodataColumn("BLOCKGROUP", "geocode[11:12]", "CHAR1"),
    MicrodataColumn("BLOCK", "geocode[12:16]", "CHAR4"),
)

DALLAS_2010: Final = Product(
    name="dallas_2010",
    title="Persons of Texas in 2010, Dallas County by block",
    schema=SCHEMA,
    geolevels=(
        Geolevel("National", 0),
        Geolevel("State", 2),
        Geolevel("County", 5),
        Geolevel("Tract", 11),
        Geolevel("BlockGroup", 12),
        Geolevel("Block", 16),
    ),
    default_levels=tuple(_GEOLEVEL_SHARES),
    unit_classes=UNIT_CLASSES,
    class_query="hhgq",
    strata=STRATA,
    unit_bounds=UNIT_BOUNDS,
    structural_zeros=(),
    strategies=by_name(
        [
            pure_strategy(
                "with_units",
                "Persons and units: the units of each class are invariant in every block",
                epsilon="10",
                geolevels=_GEOLEVEL_SHARES,
                queries={"hhgq": "9/40", STRATA: "27/40", "detailed": "1/10"},
            ),
            pure_strategy(
                "without_units",
                "Persons alone: no units are known, and none are invariant",
                epsilon="10",
                geolevels=_GEOLEVEL_SHARES,
                queries={STRATA: "9/10", "detailed": "1/10"},
            ),
        ]
    ),
    microdata=MicrodataLayout(
        name="dallas_2010",
        person=person_columns("MPDBLK", "1.0.0", _BLOCK),
        unit=unit_columns("MUDBLK", "1.0.0", _BLOCK),
        comment="# Protected records in a layout of das_spark's own: that of 1940 with the parts of a block's geocode",
    ),
    total_at="State",
    file_recodes=FILES,
)
