"""The persons of the 2020 redistricting data (P.L. 94-171), with the settings of the production of June 2021.

Facts from the public release of the production code and its certificates: constraints, budgets, the order in which
queries enter the estimation, and the record layout.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from das_spark.constraints import UnitBounds
from das_spark.estimation import OuterPass
from das_spark.geography import PL94_PERSON
from das_spark.histogram import Schema
from das_spark.products._pl94_2020 import (
    COMMENT,
    GEOLEVELS,
    LEVELS,
    MDF,
    TOTAL,
    TOTAL_AT,
    Spending,
    known_total_strategy,
    ppmf,
    rebalanced_strategies,
    strategies,
)
from das_spark.products._redistricting import (
    NO_MINORS_IN_NURSING,
    PERSON_ATTRIBUTES,
    PERSON_FILES,
    RACE_CODES,
    STRATA,
    UNIT_CLASSES,
    first_columns,
)
from das_spark.products.base import MicrodataColumn, MicrodataLayout, Product, by_name, parts
from das_spark.tabulation import redistricting_tables

SCHEMA: Final = Schema("pl94_2020_person", PERSON_ATTRIBUTES)

_CODED: Final = (
    MicrodataColumn("RTYPE", "record_type", "CHAR1"),
    MicrodataColumn("GQTYPE_PL", "recode:hhgq:0,1,2,3,4,5,6,7", "CHAR1"),
    MicrodataColumn("VOTING_AGE", "recode:votingage:1,2", "CHAR1"),
    MicrodataColumn("CENHISP", "recode:hispanic:1,2", "CHAR1"),
    MicrodataColumn("CENRACE", f"recode:cenrace:{RACE_CODES}", "CHAR2"),
)

_ALL_BUT_TOTAL: Final = (
    "cenrace",
    "hispanic",
    "votingage",
    "hhinstlevels",
    "hhgq",
    "hispanic * cenrace",
    "votingage * cenrace",
    "votingage * hispanic",
    STRATA,
    "detailed",
)
_QUERIES: Final = (TOTAL, *_ALL_BUT_TOTAL)

#: Level -> denominator, and the numerator of each of the queries; 0: not measured.
_UNITED_STATES: Final = {
    "US": (4097, (0, 52, 26, 26, 26, 26, 130, 130, 26, 442, 3213)),
    "State": (4097, (3773, 6, 6, 6, 6, 6, 12, 12, 6, 34, 230)),
    "County": (4097, (3126, 10, 10, 10, 10, 10, 28, 28, 10, 101, 754)),
    "Tract": (4102, (1567, 8, 5, 5, 5, 5, 1933, 20, 5, 67, 482)),
    "Block_Group": (4099, (1705, 3, 3, 3, 3, 3, 1055, 9, 3, 24, 1288)),
    "Block": (4097, (5, 9, 5, 5, 5, 5, 21, 21, 5, 71, 3945)),
}
_PUERTO_RICO: Final = {
    "State": (2052, (0, 209, 209, 209, 209, 209, 212, 212, 209, 224, 150)),
    "County": _UNITED_STATES["County"],
    "Tract": (4102, (1467, 13, 7, 7, 7, 7, 1732, 30, 7, 100, 725)),
    "Block_Group": (4103, (1876, 4, 4, 4, 4, 4, 749, 10, 4, 27, 1417)),
    "Block": _UNITED_STATES["Block"],
}

#: Shares that are no production's: sought for `blue_down` by the variances of least squares on trees like Hawaii's and
#: Rhode Island's, and tried with noise (tests/benchmarks); thousandths of a level, and of the whole.
_LEAST_ERROR: Final = {
    "State": (1000, (0, 4, 4, 5, 20, 20, 74, 4, 18, 52, 799)),
    "County": (1000, (550, 2, 1, 92, 3, 4, 35, 2, 36, 51, 224)),
    "Tract": (1000, (350, 2, 1, 39, 1, 2, 459, 2, 13, 12, 119)),
    "Block_Group": (1000, (384, 1, 1, 37, 1, 1, 251, 1, 12, 5, 306)),
    "Block": (1000, (17, 3, 5, 139, 11, 18, 13, 4, 52, 17, 721)),
}
_LEAST_ERROR_LEVELS: Final = (40, 134, 264, 482, 80)

#: Nested margins: an answer of one is a sum of answers of the next.
_NESTED: Final = (
    "hhgq",
    "hhgq * hispanic",
    "hhgq * hispanic * cenrace",
    "hhgq * votingage * hispanic * cenrace",
    "detailed",
)
_ROOT: Final = OuterPass(least_squares=(_ALL_BUT_TOTAL,), rounding=((TOTAL, *_NESTED),))
_BETWEEN: Final = OuterPass(least_squares=((TOTAL,), _ALL_BUT_TOTAL), rounding=((TOTAL,), _NESTED))
_BLOCK: Final = OuterPass(least_squares=(_QUERIES,), rounding=((TOTAL, *_NESTED),))


def _passes(levels: Sequence[str]) -> Mapping[str, tuple[OuterPass, ...]]:
    """Totals come first between the root, whose total is known, and the blocks, where they are hardly measured."""
    first, *others = levels
    return {first: (_ROOT,)} | {level: (_BLOCK if level == LEVELS[-1] else _BETWEEN,) for level in others}


def _spending(
    numerators: Sequence[int], tables: Mapping[str, tuple[int, tuple[int, ...]]], denominator: int = 4099
) -> Spending:
    queries = {level: parts(_QUERIES, row, whole) for level, (whole, row) in tables.items()}
    return Spending(parts(tuple(tables), numerators, denominator), queries)


_RHO: Final = "293764/114921"
_NATION: Final = _spending((104, 1440, 447, 687, 1256, 165), _UNITED_STATES)
_ISLAND: Final = _spending((689, 695, 772, 1778, 165), _PUERTO_RICO)
_SOUGHT: Final = known_total_strategy(
    "state_least_error",
    "One state to the block, with shares that were sought for the estimator blue_down: ages and blocks err less",
    _RHO,
    _spending(_LEAST_ERROR_LEVELS, _LEAST_ERROR, 1000),
    _passes,
)

PL94_2020_PERSON: Final = Product(
    name="pl94_2020_person",
    title="Persons of the 2020 redistricting data (P.L. 94-171)",
    schema=SCHEMA,
    geolevels=GEOLEVELS,
    default_levels=LEVELS,
    unit_classes=UNIT_CLASSES,
    class_query="hhgq",
    strata=STRATA,
    unit_bounds=UnitBounds(least=(0, *(1,) * 7), most=(99_999,) * 8, cap_when_total_known=True),
    structural_zeros=(NO_MINORS_IN_NURSING,),
    strategies=by_name(
        (*strategies(_RHO, _NATION, _ISLAND, _passes), *rebalanced_strategies(_RHO, _NATION, _passes), _SOUGHT)
    ),
    microdata=MicrodataLayout(
        name=MDF,
        person=(*first_columns("MPD"), MicrodataColumn("EPNUM", "record_number", "INT9"), *_CODED),
        unit=(),
        comment=COMMENT,
        header="beside",
    ),
    spine_settings=PL94_PERSON,
    ppmf=ppmf("pl94_2020_person", "person", _CODED),
    total_at=TOTAL_AT,
    vacant_counted=True,
    tables=redistricting_tables(SCHEMA),
    file_recodes=PERSON_FILES,
)
