"""The persons of the 2018 End-to-End census test (Providence, Rhode Island): redistricting data by block.

Facts from the public release of the test's system: attributes, constraints, budget and record layout.
"""

from __future__ import annotations

from typing import Final

from das_spark.constraints import StructuralZero, UnitBounds
from das_spark.geography import Geolevel
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products._cenrace import CENRACE
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
    "Correctional facilities for adults",
    "Juvenile facilities",
    "Nursing facilities/Skilled-nursing facilities",
    "Other institutional facilities",
    "College/University student housing",
    "Military quarters",
    "Other noninstitutional facilities",
)
_INSTITUTIONS: Final = ("Institutional Facility", (1, 2, 3, 4))
_NO_INSTITUTIONS: Final = ("Non-Institutional Facility", (5, 6, 7))
_HOUSEHOLD: Final = ("Household", (0,))

HHGQ: Final = Attribute(
    "hhgq",
    ("Household", *_FACILITIES),
    (
        Recode("hhgq_2level", (_HOUSEHOLD, ("Group Quarters", tuple(range(1, 8))))),
        Recode("hhinstlevels", (_HOUSEHOLD, _INSTITUTIONS, _NO_INSTITUTIONS)),
        Recode("instlevels", (_INSTITUTIONS, _NO_INSTITUTIONS)),
        Recode("gqlevels", tuple((label, (level,)) for level, label in enumerate(_FACILITIES, start=1))),
        Recode("householdTotal", (_HOUSEHOLD,)),
        Recode("gqTotal", (("Total Population in Group Quarters", tuple(range(1, 8))),)),
        Recode("instTotal", (("Institutional Population Total", (1, 2, 3, 4)),)),
        Recode("noninstTotal", (("Noninstitutionalized Population Total", (5, 6, 7)),)),
    ),
)
VOTINGAGE: Final = Attribute(
    "votingage",
    ("17 and under", "18 and over"),
    (Recode("voting", (("18 and over", (1,)),)), Recode("nonvoting", (("17 and under", (0,)),))),
)
HISPANIC: Final = Attribute(
    "hispanic",
    ("Not Hispanic or Latino", "Hispanic or Latino"),
    (
        Recode("hispTotal", (("Hispanic or Latino", (1,)),)),
        Recode("notHispTotal", (("Not Hispanic or Latino", (0,)),)),
    ),
)

_BLOCK: Final = (
    MicrodataColumn("TABBLKST", "geocode[0:2]", "CHAR2"),
    MicrodataColumn("TABBLKCOU", "geocode[2:5]", "CHAR3"),
    MicrodataColumn("TABTRACTCE", "geocode[5:11]", "CHAR6"),
    MicrodataColumn("TABBLKGRPCE", "geocode[11:12]", "CHAR1"),
    MicrodataColumn("TABBLK", "geocode[12:16]", "CHAR4"),
)
_RACE_CODES: Final = ",".join(f"{number:02d}" for number in range(1, CENRACE.size + 1))

MICRODATA: Final = MicrodataLayout(
    name="e2e_2018",
    person=(
        MicrodataColumn("SCHEMA_TYPE_CODE", "constant:MPD", "CHAR5"),
        MicrodataColumn("SCHEMA_BUILD_ID", "constant:3.1.4", "CHAR5"),
        *_BLOCK,
        MicrodataColumn("EUID", "unit_number", "INT9"),
        MicrodataColumn("EPNUM", "person_number", "INT5"),
        MicrodataColumn("RTYPE", "record_type", "CHAR1"),
        MicrodataColumn("QREL", "constant:99", "CHAR2"),
        MicrodataColumn("QSEX", "constant:9", "CHAR1"),
        MicrodataColumn("QAGE", "recode:votingage:17,18", "INT3"),
        MicrodataColumn("CENHISP", "recode:hispanic:1,2", "CHAR1"),
        MicrodataColumn("CENRACE", f"recode:cenrace:{_RACE_CODES}", "CHAR2"),
        *fillers(PERSON_FILLERS),
    ),
    unit=(
        MicrodataColumn("SCHEMA_TYPE_CODE", "constant:MUD", "CHAR5"),
        MicrodataColumn("SCHEMA_BUILD_ID", "constant:3.1.4", "CHAR5"),
        *_BLOCK,
        MicrodataColumn("EUID", "unit_number", "INT9"),
        MicrodataColumn("RTYPE", "record_type", "CHAR1"),
        MicrodataColumn("GQTYPE", "recode:unit_class:000,101,201,301,401,501,601,701,000", "CHAR3"),
        MicrodataColumn("TEN", "tenure", "CHAR1"),
        MicrodataColumn("VACS", "vacancy", "CHAR1"),
        MicrodataColumn("FINAL_POP", "population", "INT5"),
        *fillers(UNIT_FILLERS),
    ),
)

E2E_2018: Final = Product(
    name="e2e_2018",
    title="Persons of the 2018 End-to-End census test",
    schema=Schema("e2e_2018_person", (HHGQ, VOTINGAGE, HISPANIC, CENRACE)),
    geolevels=(
        Geolevel("State", 2),
        Geolevel("County", 5),
        Geolevel("Tract", 11),
        Geolevel("Block_Group", 12),
        Geolevel("Block", 16),
    ),
    default_levels=("County", "Tract", "Block_Group", "Block"),
    unit_classes=("Occupied housing unit", *_FACILITIES),
    class_query="hhgq",
    strata="votingage * hispanic * cenrace",
    unit_bounds=UnitBounds(least=(1,) * 8, most=(99, *(99_999,) * 7), cap_when_total_known=False),
    structural_zeros=(
        StructuralZero("nurse_nva_0", (("hhgq", (3,)), ("votingage", (0,))), "nobody under 18 in nursing facilities"),
    ),
    strategies=by_name(
        [
            pure_strategy(
                "e2e_2018",
                "The budget of the 2018 End-to-End test",
                epsilon="2499/10000",
                geolevels={"County": "1/4", "Tract": "1/4", "Block_Group": "1/4", "Block": "1/4"},
                queries={"hhgq": "9/40", "votingage * hispanic * cenrace": "27/40", "detailed": "1/10"},
            )
        ]
    ),
    microdata=MICRODATA,
    total_at="County",
)
