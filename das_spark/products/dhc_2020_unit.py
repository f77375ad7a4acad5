"""The units of the 2020 Demographic and Housing Characteristics: tenure of occupied and kind of vacant housing units.

How many housing units there are is exact in every block, as are facilities of group quarters of 24 types, which are
listed. How many of the units are occupied is what the redistricting data have published. Facts from the public release
of the production code; there the units are measured and estimated in the run of the households, of which this is the
first pass, with its share of the budget.
"""

from __future__ import annotations

from typing import Final

from das_spark.estimation import OuterPass
from das_spark.geography import DHC
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products._dhc_2020 import CEF_CLASS, CLASSES, COMMENT, FACILITY_TYPES, Spent, strategies
from das_spark.products._file_recodes import CodedField, FileRecodes
from das_spark.products._redistricting import LEVELS, NATION_TO_BLOCK, first_columns
from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product, PublishedCounts, by_name
from das_spark.tabulation import dhc_unit_tables

_TENURES: Final = ("Owned with a mortgage", "Owned without a mortgage", "Rented", "Occupied without payment of rent")
_VACANCIES: Final = (
    "Vacant, for rent",
    "Vacant, rented, not occupied",
    "Vacant, for sale only",
    "Vacant, sold, not occupied",
    "Vacant, for seasonal, recreational, or occasional use",
    "Vacant, for migrant workers",
    "Vacant, other",
)
_OCCUPIED_LEVELS: Final = (0, 1, 2, 3)
_VACANT_LEVELS: Final = tuple(range(4, 11))

SCHEMA: Final = Schema(
    "dhc_2020_unit",
    (
        Attribute(
            "tenvac",
            (*_TENURES, *_VACANCIES),
            (
                Recode(
                    "vacantoccupied",
                    (("Vacant", _VACANT_LEVELS), ("Occupied", _OCCUPIED_LEVELS)),
                    title="occupied or vacant",
                ),
                Recode("householdTotal", (("Households", _OCCUPIED_LEVELS),)),
                Recode("vacant", (("Vacant", _VACANT_LEVELS),)),
                Recode("tenure", tuple((label, (level,)) for level, label in enumerate(_TENURES))),
                Recode("tenure_2lev", (("Owned", (0, 1)), ("Not owned", (2, 3))), title="owned or not"),
                Recode(
                    "tenure_3lev",
                    ((_TENURES[0], (0,)), (_TENURES[1], (1,)), ("Not owned", (2, 3))),
                    title="tenure in three groups",
                ),
                Recode("tenure_owned", (("Owned", (0, 1)),)),
                Recode("no_rent", ((_TENURES[3], (3,)),)),
                Recode("vacs", tuple((label, (level,)) for level, label in enumerate(_VACANCIES, start=4))),
            ),
        ),
    ),
)

_DETAILED: Final = "detailed"


def _alone(**parts: int) -> Spent:
    """What its only query has of each level."""
    return {level: (part,) for level, part in parts.items()}


_UNITED_STATES: Final = _alone(
    US=259,
    State=3216,
    County=1380,
    Prim=973,
    Tract_Subset_Group=973,
    Tract_Subset=1610,
    Block_Group=407,
    Block=15,
)
_PUERTO_RICO: Final = _alone(
    # Four parts less than queries of the households that have the same elsewhere, as released.
    State=3364,
    County=1457,
    Prim=1054,
    Tract_Subset_Group=1054,
    Tract_Subset=1687,
    Block_Group=484,
    Block=15,
)


def _of_units(codes: str) -> str:
    """Codes of tenures and vacancies, and of what is listed."""
    return f"recode:tenvac:{','.join(codes)},0"


DHC_2020_UNIT: Final = Product(
    name="dhc_2020_unit",
    title="Housing units of the 2020 Demographic and Housing Characteristics",
    schema=SCHEMA,
    geolevels=NATION_TO_BLOCK,
    default_levels=LEVELS,
    unit_classes=CLASSES,
    class_query="",
    strata=_DETAILED,
    unit_bounds=None,
    structural_zeros=(),
    strategies=by_name(
        strategies(
            (_DETAILED,),
            _UNITED_STATES,
            _PUERTO_RICO,
            (OuterPass(least_squares=((_DETAILED,),), rounding=((_DETAILED,),)),),
        )
    ),
    microdata=MicrodataLayout(
        name="units_2020_dhc",
        person=(),
        unit=(
            *first_columns("MUD"),
            MicrodataColumn("RTYPE", "record_type", "CHAR1"),
            MicrodataColumn("GQTYPE", f"recode:unit_class:{','.join(('000', *FACILITY_TYPES, '000'))}", "CHAR3"),
            MicrodataColumn("TEN", _of_units("12340000000"), "CHAR1"),
            MicrodataColumn("VACS", _of_units("00001234567"), "CHAR1"),
        ),
        comment=f"{COMMENT}, units alone",
        header="beside",
    ),
    spine_settings=DHC,
    total_at="Block",
    record="unit",
    vacant_counted=True,
    # TENVAC is TEN of occupied units, 1 to 4, and 4 more than VACS of vacant ones.
    file_recodes={"cef_2020": FileRecodes({"tenvac": CodedField.numbered("TENVAC", 11, 1)}, CEF_CLASS)},
    tables=dhc_unit_tables(SCHEMA),
    published=PublishedCounts("h1", "pl94_2020_unit", "vacantoccupied", _DETAILED),
)
