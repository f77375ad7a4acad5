"""The housing units of the 2020 redistricting data (P.L. 94-171): which are occupied, which vacant.

How many housing units there are is exact in every block; only their division is protected. Facts from the public
release of the production code of June 2021 and its certificates. No strategy measures a total, so that none is
rebalanced, as some of persons are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from das_spark.estimation import OuterPass
from das_spark.geography import PL94_UNIT
from das_spark.histogram import Attribute, Recode, Schema
from das_spark.products._pl94_2020 import COMMENT, GEOLEVELS, LEVELS, MDF, Spending, ppmf, strategies
from das_spark.products._redistricting import UNIT_CLASSES, UNIT_FILES, first_columns
from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product, by_name, parts
from das_spark.tabulation import housing_tables

SCHEMA: Final = Schema(
    "pl94_2020_unit",
    (Attribute("h1", ("Vacant", "Occupied"), (Recode("vacant_count", (("Vacant", (0,)),)),)),),
)

#: Housing units, 2 vacant and 1 occupied; group quarters, which are listed behind them, have no status.
_CODED: Final = (
    MicrodataColumn("RTYPE", "record_type", "CHAR1"),
    MicrodataColumn("HH_STATUS", "recode:h1:2,1,0", "CHAR1"),
)

_DETAILED: Final = "detailed"
_PASS: Final = OuterPass(least_squares=((_DETAILED,),), rounding=((_DETAILED,),))


def _passes(levels: Sequence[str]) -> Mapping[str, tuple[OuterPass, ...]]:
    return dict.fromkeys(levels, (_PASS,))


def _spending(levels: Sequence[str], numerators: Sequence[int], denominator: int) -> Spending:
    return Spending(parts(levels, numerators, denominator), {level: {_DETAILED: Fraction(1)} for level in levels})


PL94_2020_UNIT: Final = Product(
    name="pl94_2020_unit",
    title="Housing units of the 2020 redistricting data (P.L. 94-171)",
    schema=SCHEMA,
    geolevels=GEOLEVELS,
    default_levels=LEVELS,
    unit_classes=UNIT_CLASSES,
    class_query="",
    strata=_DETAILED,
    unit_bounds=None,
    structural_zeros=(),
    strategies=by_name(
        strategies(
            "11417641/152349649",
            _spending(LEVELS, (20, 20, 350, 1456, 1759, 495), 4100),
            _spending(LEVELS[1:], (15_141, 224_952, 944_510, 1_127_644, 317_493), 2_629_740),
            _passes,
        )
    ),
    microdata=MicrodataLayout(
        name=MDF,
        person=(),
        unit=(*first_columns("MUD"), *_CODED),
        comment=COMMENT,
        header="beside",
    ),
    spine_settings=PL94_UNIT,
    ppmf=ppmf("pl94_2020_unit", "unit", _CODED),
    total_at="Block",
    record="unit",
    vacant_counted=True,
    tables=housing_tables(SCHEMA),
    file_recodes=UNIT_FILES,
)
