"""The persons of the 2010 Demonstration Data Products (October 2019): the census of 2010 by single years of age.

Facts from the public release of the demonstration's system and its design specification: attributes, constraints,
budget, order of estimation and record layout. Households are a product of their own.

Groups of tracts, those of a county whose codes share the first four of six digits, are a level between counties and
tracts that exists within the system alone: nothing is published of them by the census, and no table here has them.

The file of persons has the 16 columns of the published one. The released program writes a 17th, CITIZEN, which was
imputed and not known, and was left out of what was published: estimates have it, the microdata have not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from das_spark.constraints import StructuralZero, UnitBounds
from das_spark.geography import Geolevel
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products._cenrace import CENRACE
from das_spark.products._redistricting import (
    HHGQ,
    HISPANIC,
    RACE_CODES,
    STATE_TO_BLOCK,
    STRATA,
    UNIT_CLASSES,
    first_columns,
)
from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product, by_name, pure_strategy
from das_spark.tabulation import age_label, demographic_medians, demographic_tables, redistricting_tables

_TOP_AGE: Final = 115

_STATE, _COUNTY, *_BELOW = STATE_TO_BLOCK
GEOLEVELS: Final = (Geolevel("Nation", 0), _STATE, _COUNTY, Geolevel("Tract_Group", 9, tabulated=False), *_BELOW)
LEVELS: Final = tuple(level.name for level in GEOLEVELS)


def _ages(first: int, last: int) -> tuple[int, ...]:
    return tuple(range(first, last + 1))


def _groups(name: str, *firsts: int, title: str = "") -> Recode:
    """All ages, in groups that begin with the given ones."""
    ends = (*(first - 1 for first in firsts[1:]), _TOP_AGE)
    return Recode(name, tuple((age_label(*pair), _ages(*pair)) for pair in zip(firsts, ends, strict=True)), title)


def _some(name: str, label: str, *levels: int) -> Recode:
    return Recode(name, ((label, levels),))


#: Each type of group quarters alone, by which the structural zeros are spelled; nursing facilities have theirs.
_QUARTERS: Final = replace(
    HHGQ,
    recodes=(
        *HHGQ.recodes,
        _some("gqCorrectionalTotal", "Correctional Facilities for Adults Population Total", 1),
        _some("gqJuvenileTotal", "Juvenile Facilities Population Total", 2),
        _some("gqOtherInstTotal", "Other Institutional Facilities Population Total", 4),
        _some("gqCollegeTotal", "College/University Student Housing Population Total", 5),
        _some("gqMilitaryTotal", "Military Quarters Population Total", 6),
        _some("gqOtherNoninstTotal", "Other Noninstitutional Facilities Population Total", 7),
    ),
)
_UNDER_15, _OVER_25, _UNDER_20 = _ages(0, 14), _ages(26, _TOP_AGE), _ages(0, 19)
_NO_STUDENTS: Final = (*_ages(0, 15), *_ages(66, _TOP_AGE))
_NO_SOLDIERS: Final = (*_ages(0, 16), *_ages(66, _TOP_AGE))

SEX: Final = Attribute(
    "sex", ("Male", "Female"), (Recode("male", (("Male", (0,)),)), Recode("female", (("Female", (1,)),)))
)
AGE: Final = Attribute(
    "age",
    tuple(age_label(age, age) for age in range(_TOP_AGE + 1)),
    (
        _groups("votingage", 0, 18, title="voting age"),
        _some("nonvoting", age_label(0, 17), *_ages(0, 17)),
        _some("voting", age_label(18, _TOP_AGE), *_ages(18, _TOP_AGE)),
        _groups("agecat43", 0, 18, 65),
        *(_groups(f"ageGroups{width}", *range(0, _TOP_AGE + 1, width)) for width in (4, 16, 64)),
        _some("age_lessthan15", "under 15", *_UNDER_15),
        _some("age_greaterthan25", "over 25", *_OVER_25),
        _some("age_lessthan20", "under 20", *_UNDER_20),
        _some("age_lt16gt65", "under 16 or over 65", *_NO_STUDENTS),
        _some("age_lt17gt65", "under 17 or over 65", *_NO_SOLDIERS),
    ),
)
CITIZEN: Final = Attribute("citizen", ("Non-citizen", "Citizen"), title="citizenship")
#: 8 x 2 x 116 x 2 x 63 x 2 = 467,712 cells.
SCHEMA: Final = Schema("ddp_2010_person", (_QUARTERS, SEX, AGE, HISPANIC, CENRACE, CITIZEN))


def _zero(name: str, quarters: int, ages: tuple[int, ...], meaning: str) -> StructuralZero:
    return StructuralZero(name, (("hhgq", (quarters,)), ("age", ages)), meaning)


_ZEROS: Final = (
    _zero("hhgq1_lessthan15", 1, _UNDER_15, "nobody under 15 in correctional facilities for adults"),
    _zero("hhgq2_greaterthan25", 2, _OVER_25, "nobody over 25 in juvenile facilities"),
    _zero("hhgq3_lessthan20", 3, _UNDER_20, "nobody under 20 in nursing facilities"),
    _zero("hhgq5_lt16gt65", 5, _NO_STUDENTS, "nobody under 16 or over 65 in college/university student housing"),
    _zero("hhgq6_lt17gt65", 6, _NO_SOLDIERS, "nobody under 17 or over 65 in military quarters"),
)

#: Query -> share of each geolevel.
_QUERIES: Final = {
    "hhgq": "1/5",
    f"{STRATA} * citizen": "1/2",
    "sex * age": "1/20",
    "sex * ageGroups4": "1/20",
    "sex * ageGroups16": "1/20",
    "sex * ageGroups64": "1/20",
    "detailed": "1/10",
}
#: A fifth each for the nation and the states; three of 25 for every level below.
LEVEL_SHARES: Final = dict.fromkeys(LEVELS[:2], "1/5") | dict.fromkeys(LEVELS[2:], "3/25")

MICRODATA: Final = MicrodataLayout(
    name="mdf_2010_ddp",
    person=(
        *first_columns("MPD"),
        MicrodataColumn("EPNUM", "constant:999999999", "INT9"),
        MicrodataColumn("RTYPE", "record_type", "CHAR1"),
        MicrodataColumn("GQTYPE", "recode:hhgq:000,101,201,301,401,501,601,701", "CHAR3"),
        MicrodataColumn("RELSHIP", "constant:99", "CHAR2"),
        MicrodataColumn("QSEX", "recode:sex:1,2", "CHAR1"),
        MicrodataColumn("QAGE", f"recode:age:{','.join(map(str, range(_TOP_AGE + 1)))}", "INT3"),
        MicrodataColumn("CENHISP", "recode:hispanic:1,2", "CHAR1"),
        MicrodataColumn("CENRACE", f"recode:cenrace:{RACE_CODES}", "CHAR2"),
        MicrodataColumn("LIVE_ALONE", "constant:9", "CHAR1"),
    ),
    unit=(),
    comment="# In the layout of the microdata detail files of the 2010 Demonstration Data Products",
    header="beside",
)

DDP_2010_PERSON: Final = Product(
    name="ddp_2010_person",
    title="Persons of the 2010 Demonstration Data Products",
    schema=SCHEMA,
    geolevels=GEOLEVELS,
    default_levels=LEVELS,
    unit_classes=UNIT_CLASSES,
    class_query="hhgq",
    strata=STRATA,
    unit_bounds=UnitBounds(least=(0, *(1,) * 7), most=(99, *(99_999,) * 7), cap_when_total_known=True),
    structural_zeros=_ZEROS,
    # No passes: one fit of all that is measured, and each cell is rounded, as in the release.
    strategies=by_name(
        [
            pure_strategy(
                "ddp_2010",
                "The budget of the demonstration's persons: epsilon 4 of its 6",
                epsilon="4",
                geolevels=LEVEL_SHARES,
                queries=_QUERIES,
            )
        ]
    ),
    microdata=MICRODATA,
    total_at="State",
    vacant_counted=True,
    # P1 to P4: the redistricting data of 2010 had no P5.
    tables=(*redistricting_tables(SCHEMA)[:4], *demographic_tables(SCHEMA)),
    medians=demographic_medians(SCHEMA),
)
