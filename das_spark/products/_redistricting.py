"""What redistricting data count: attributes of persons, geolevels down to the block, codes and a structural zero.

Shared by the 2018 End-to-End test, the 2010 demonstration and the redistricting production of 2020; facts from their
public releases.
"""

from __future__ import annotations

from typing import Final

from das_spark.constraints import StructuralZero
from das_spark.geography import Geolevel
from das_spark.histogram import Attribute, Recode
from das_spark.products._cenrace import CENRACE
from das_spark.products._file_recodes import BLANK, CodedField, FileRecodes
from das_spark.products.base import MicrodataColumn

#: The types of group quarters: classes 1 to 7 of persons and of units.
FACILITIES: Final = (
    "Correctional facilities for adults",
    "Juvenile facilities",
    "Nursing facilities/Skilled-nursing facilities",
    "Other institutional facilities",
    "College/University student housing",
    "Military quarters",
    "Other noninstitutional facilities",
)
#: Classes of units where vacant housing units are counted in the first one.
UNIT_CLASSES: Final = ("Housing unit (occupied or vacant)", *FACILITIES)
_INSTITUTIONS: Final = ("Institutional Facility", (1, 2, 3, 4))
_NO_INSTITUTIONS: Final = ("Non-Institutional Facility", (5, 6, 7))
_HOUSEHOLD: Final = ("Household", (0,))

HHGQ: Final = Attribute(
    "hhgq",
    ("Household", *FACILITIES),
    (
        Recode(
            "hhgq_2level", (_HOUSEHOLD, ("Group Quarters", tuple(range(1, 8)))), title="household or group quarters"
        ),
        Recode("hhinstlevels", (_HOUSEHOLD, _INSTITUTIONS, _NO_INSTITUTIONS), title="household or kind of institution"),
        Recode("instlevels", (_INSTITUTIONS, _NO_INSTITUTIONS), title="institutional or not"),
        Recode(
            "gqlevels",
            tuple((label, (level,)) for level, label in enumerate(FACILITIES, start=1)),
            title="type of group quarters",
        ),
        Recode("householdTotal", (_HOUSEHOLD,)),
        Recode("gqTotal", (("Total Population in Group Quarters", tuple(range(1, 8))),)),
        Recode("gqNursingTotal", (("Nursing Facilities Population Total", (3,)),)),
        Recode("instTotal", (("Institutional Population Total", (1, 2, 3, 4)),)),
        Recode("noninstTotal", (("Noninstitutionalized Population Total", (5, 6, 7)),)),
    ),
    title="household or type of group quarters",
)
_VOTINGAGE: Final = Attribute(
    "votingage",
    ("17 and under", "18 and over"),
    (Recode("voting", (("18 and over", (1,)),)), Recode("nonvoting", (("17 and under", (0,)),))),
    title="voting age",
)
HISPANIC: Final = Attribute(
    "hispanic",
    ("Not Hispanic or Latino", "Hispanic or Latino"),
    (
        Recode("hispTotal", (("Hispanic or Latino", (1,)),)),
        Recode("notHispTotal", (("Not Hispanic or Latino", (0,)),)),
    ),
    title="Hispanic origin",
)
#: The axes of the histogram of persons, in order: 8 x 2 x 2 x 63 cells.
PERSON_ATTRIBUTES: Final = (HHGQ, _VOTINGAGE, HISPANIC, CENRACE)
STRATA: Final = "votingage * hispanic * cenrace"

NO_MINORS_IN_NURSING: Final = StructuralZero(
    "nurse_nva_0", (("hhgq", (3,)), ("votingage", (0,))), "nobody under 18 in nursing facilities"
)

_QUARTERS: Final = (BLANK, "101-199", "201-299", "301-399", "401-499", "501-599", "601-699", "701-999")
#: Type of group quarters in census edited files: its first digit is the class, 7 for 7, 8 and 9.
_CEF_CLASS: Final = CodedField("QGQTYP", _QUARTERS)
#: Items of table P5 that count the seven types.
_P5_CLASS: Final = CodedField("QUARTERS", ("0", "3", "4", "5", "6", "8", "9", "10"))
#: Recodes of persons and of housing units; those of persons are those of the production of June 2021.
PERSON_FILES: Final = {
    "cef_2020": FileRecodes(
        {
            "hhgq": _CEF_CLASS,
            "votingage": CodedField("QAGE", ("0-17", "18-115")),
            "hispanic": CodedField("CENHISP", ("1", "2")),
            "cenrace": CodedField.numbered("CENRACE", CENRACE.size, 1),
        },
        _CEF_CLASS,
    ),
    "pl94_summary": FileRecodes(
        {
            "hhgq": _P5_CLASS,
            "votingage": CodedField("ADULT", ("0", "1")),
            "hispanic": CodedField("HISPANIC", ("0", "1")),
            "cenrace": CodedField.numbered("RACE", CENRACE.size, 1),
        },
        _P5_CLASS,
    ),
}
UNIT_FILES: Final = {
    "cef_2020": FileRecodes({"h1": CodedField("VACS", ("1-7", "0"))}, _CEF_CLASS),
    "pl94_summary": FileRecodes({"h1": CodedField("OCCUPANCY", ("3", "2"))}, _P5_CLASS),
    "simulated": FileRecodes({"h1": CodedField("OCCUPIED", ("0", "1"))}),
}

#: A state and what lies in it. A block's geocode has 16 digits: its own 15, and the block group again before the block.
STATE_TO_BLOCK: Final = (
    Geolevel("State", 2),
    Geolevel("County", 5),
    Geolevel("Tract", 11),
    Geolevel("Block_Group", 12),
    Geolevel("Block", 16),
)
#: The same below the nation: the levels of 2020.
NATION_TO_BLOCK: Final = (Geolevel("US", 0), *STATE_TO_BLOCK)
LEVELS: Final = tuple(level.name for level in NATION_TO_BLOCK)
BLOCK_COLUMNS: Final = (
    MicrodataColumn("TABBLKST", "geocode[0:2]", "CHAR2"),
    MicrodataColumn("TABBLKCOU", "geocode[2:5]", "CHAR3"),
    MicrodataColumn("TABTRACTCE", "geocode[5:11]", "CHAR6"),
    MicrodataColumn("TABBLKGRPCE", "geocode[11:12]", "CHAR1"),
    MicrodataColumn("TABBLK", "geocode[12:16]", "CHAR4"),
)


def first_columns(type_code: str) -> tuple[MicrodataColumn, ...]:
    """The columns with which a microdata file begins, in the layouts of the 2010 demonstration and of 2020."""
    return (
        MicrodataColumn("SCHEMA_TYPE_CODE", f"constant:{type_code}", "CHAR3"),
        MicrodataColumn("SCHEMA_BUILD_ID", "constant:1.1.0", "CHAR5"),
        *BLOCK_COLUMNS,
    )


#: Codes of the 63 race groups in microdata: 01 to 63.
RACE_CODES: Final = ",".join(f"{number:02d}" for number in range(1, CENRACE.size + 1))
