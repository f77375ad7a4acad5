"""Persons of Texas in 2010, with Dallas County by block, in the schema and under the constraints of the 1940 variant.

The input is a published reconstruction of the 2010 census. The microdata layout is das_spark's own: that of 1940 with
the parts of a block's geocode in place of the enumeration district, and with a schema code and build of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from das_spark.geography import Geolevel
from das_spark.products._shipped import shipped
from das_spark.products.base import MicrodataColumn, MicrodataLayout, by_name, pure_strategy

if TYPE_CHECKING:
    from das_spark.products.base import Record

_OF_1940: Final = shipped("e2e_1940")
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

#: Of the schema, state, county and enumeration district: the columns with which those of 1940 begin.
_FIRST, _PLACE = 2, 3


def _columns(kind: Record, type_code: str) -> tuple[MicrodataColumn, ...]:
    """The columns of a file of 1940 with another schema and place."""
    columns = _OF_1940.microdata.columns(kind)
    schema = (replace(columns[0], source=f"constant:{type_code}"), replace(columns[1], source="constant:1.0.0"))
    return (*schema, *_BLOCK, *columns[_FIRST + _PLACE :])


DALLAS_2010: Final = replace(
    _OF_1940,
    name="dallas_2010",
    title="Persons of Texas in 2010, Dallas County by block",
    geolevels=(
        Geolevel("National", 0),
        Geolevel("State", 2),
        Geolevel("County", 5),
        Geolevel("Tract", 11),
        Geolevel("BlockGroup", 12),
        Geolevel("Block", 16),
    ),
    default_levels=tuple(_GEOLEVEL_SHARES),
    strategies=by_name(
        [
            pure_strategy(
                "with_units",
                "Persons and units: the units of each class are invariant in every block",
                epsilon="10",
                geolevels=_GEOLEVEL_SHARES,
                queries={"hhgq": "9/40", _OF_1940.strata: "27/40", "detailed": "1/10"},
            ),
            pure_strategy(
                "without_units",
                "Persons alone: no units are known, and none are invariant",
                epsilon="10",
                geolevels=_GEOLEVEL_SHARES,
                queries={_OF_1940.strata: "9/10", "detailed": "1/10"},
            ),
        ]
    ),
    microdata=MicrodataLayout(
        name="dallas_2010",
        person=_columns("person", "MPDBLK"),
        unit=_columns("unit", "MUDBLK"),
        comment="# Protected records in a layout of das_spark's own: that of 1940 with the parts of a block's geocode",
    ),
)
