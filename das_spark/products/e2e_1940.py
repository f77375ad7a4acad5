"""The persons of the 1940 census, in the 1940 variant of the End-to-End test: by enumeration district.

Facts from the public release of the system that ran on the 1940 full count: attributes, constraints, budget and layout.
"""

from __future__ import annotations

from typing import Final

from das_spark.constraints import UnitBounds
from das_spark.geography import Geolevel
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products._file_recodes import CodedField, FileRecodes
from das_spark.products.base import (
    PERSON_FILLERS,
    UNIT_FILLERS,
    MicrodataColumn,
    MicrodataLayout,
    Product,
    by_name,
    fillers,
    pure_strategy,
)

_FACILITIES: Final = (
    "Correctional Institutions",
    "Mental Institutions",
    "Institutions for the Elderly, Handicapped, and Poor",
    "Military",
    "College Dormitory",
    "Rooming House",
    "Other Non-Institutional GQ and Unknown",
)
_INSTITUTIONS: Final = ("Institutional Facility", (1, 2, 3))
_NO_INSTITUTIONS: Final = ("Non-Institutional Facility", (4, 5, 6, 7))
_HOUSEHOLD: Final = ("Household", (0,))

SCHEMA: Final = Schema(
    "e2e_1940_person",
    (
        Attribute(
            "hhgq",
            ("Household", *_FACILITIES),
            (
                Recode("hhgq_2level", (_HOUSEHOLD, ("Group Quarters", tuple(range(1, 8))))),
                Recode("hhinstlevels", (_HOUSEHOLD, _INSTITUTIONS, _NO_INSTITUTIONS)),
                Recode("instlevels", (_INSTITUTIONS, _NO_INSTITUTIONS)),
                Recode("gqlevels", tuple((label, (level,)) for level, label in enumerate(_FACILITIES, start=1))),
                Recode("household", (_HOUSEHOLD,)),
                Recode("gqTotal", (("Total Population in Group Quarters", tuple(range(1, 8))),)),
                Recode("instTotal", (("Institutional Population Total", (1, 2, 3)),)),
                Recode("noninstTotal", (("Noninstitutionalized Population Total", (4, 5, 6, 7)),)),
            ),
        ),
        Attribute("age18plus", ("Under 18", "18 and over")),
        Attribute("hispanic", ("Not Hispanic", "Hispanic")),
        Attribute(
            "race",
            (
                "White",
                "Black/African American",
                "American Indian or Alaska Native",
                "Chinese",
                "Japanese",
                "Other Asian or Pacific Islander",
            ),
        ),
    ),
)
UNIT_CLASSES: Final = ("Occupied housing unit", *_FACILITIES)
UNIT_BOUNDS: Final = UnitBounds(least=(1,) * 8, most=(99, *(99_999,) * 7), cap_when_total_known=False)
STRATA: Final = "age18plus * hispanic * race"

_DISTRICT: Final = (
    MicrodataColumn("STATE", "geocode[0:2]", "CHAR2"),
    MicrodataColumn("COUNTY", "geocode[2:6]", "CHAR4"),
    MicrodataColumn("ENUMDIST", "geocode[6:10]", "CHAR4"),
)


def person_columns(type_code: str, build: str, geography: tuple[MicrodataColumn, ...]) -> tuple[MicrodataColumn, ...]:
    """Columns of the person file of the 1940 schema."""
    return (
        MicrodataColumn("SCHEMA_TYPE_CODE", f"constant:{type_code}", "CHAR7"),
        MicrodataColumn("SCHEMA_BUILD_ID", f"constant:{build}", "CHAR5"),
        *geography,
        MicrodataColumn("EUID", "unit_number", "INT9"),
        MicrodataColumn("EPNUM", "person_number", "INT5"),
        MicrodataColumn("RTYPE", "record_type", "CHAR1"),
        MicrodataColumn("QREL", "constant:99", "CHAR2"),
        MicrodataColumn("QSEX", "constant:9", "CHAR1"),
        MicrodataColumn("QAGE", "recode:age18plus:17,18", "INT3"),
        MicrodataColumn("CENHISP", "recode:hispanic:1,2", "CHAR1"),
        MicrodataColumn("CENRACE", "recode:race:1,2,3,4,5,6", "CHAR1"),
        *fillers(PERSON_FILLERS),
    )


def unit_columns(type_code: str, build: str, geography: tuple[MicrodataColumn, ...]) -> tuple[MicrodataColumn, ...]:
    """Columns of the unit file of the 1940 schema; arguments as for `person_columns`."""
    return (
        MicrodataColumn("SCHEMA_TYPE_CODE", f"constant:{type_code}", "CHAR7"),
        MicrodataColumn("SCHEMA_BUILD_ID", f"constant:{build}", "CHAR5"),
        *geography,
        MicrodataColumn("EUID", "unit_number", "INT9"),
        MicrodataColumn("RTYPE", "record_type", "CHAR1"),
        MicrodataColumn("GQTYPE", "recode:unit_class:0,2,3,4,6,7,8,9,0", "CHAR1"),
        MicrodataColumn("TEN", "tenure", "CHAR1"),
        MicrodataColumn("VACS", "vacancy", "CHAR1"),
        MicrodataColumn("FINAL_POP", "population", "INT5"),
        *fillers(UNIT_FILLERS),
    )


_CLASS: Final = CodedField("GQTYPE", ("0", "2", "3", "4", "6", "7", "8", "9"))
#: Recodes of the 2018 End-to-End release; Hispanic is whoever has a code of origin other than 0.
FILES: Final = {
    "ipums_1940": FileRecodes(
        {
            "hhgq": _CLASS,
            "age18plus": CodedField("AGE", ("0-17", "18-135")),
            "hispanic": CodedField("HISPAN", ("0", "1-9")),
            "race": CodedField.numbered("RACE", 6, 1),
        },
        _CLASS,
    )
}

E2E_1940: Final = Product(
    name="e2e_1940",
    title="Persons of the 1940 census",
    schema=SCHEMA,
    geolevels=(Geolevel("National", 0), Geolevel("State", 2), Geolevel("County", 6), Geolevel("Enumdist", 10)),
    default_levels=("National", "State", "County", "Enumdist"),
    unit_classes=UNIT_CLASSES,
    class_query="hhgq",
    strata=STRATA,
    unit_bounds=UNIT_BOUNDS,
    structural_zeros=(),
    strategies=by_name(
        [
            pure_strategy(
                "e2e_1940",
                "The budget of the published runs on the 1940 census, at their smallest epsilon",
                epsilon="1/4",
                geolevels={"National": "1/4", "State": "1/4", "County": "1/4", "Enumdist": "1/4"},
                queries={"hhgq": "9/40", STRATA: "27/40", "detailed": "1/10"},
            )
        ]
    ),
    microdata=MicrodataLayout(
        name="mdf_1940",
        person=person_columns("MPD1940", "3.1.4", _DISTRICT),
        unit=unit_columns("MUD1940", "3.1.4", _DISTRICT),
        comment="# In the layout made for the public census records of 1940; das_spark sets no limits on sharing",
    ),
    total_at="State",
    file_recodes=FILES,
)
