"""What was published of the 2010 Demonstration Data Product (October 2019): its allocation, and what was found in it.

Facts and numbers only. Source: Van Riper, Kugler and Ruggles (2020), "Disclosure Avoidance in the Census Bureau's 2010
Demonstration Data Product", PSD 2020: sections 2 and 3, table 2, figures 1 and 2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType
from typing import Final, Literal

Tables = Literal["person", "household"]
Scope = Literal["nation and state", "county and below"]


@dataclass(frozen=True, slots=True)
class PublishedQuery:
    """One of the 13 queries.

    Attributes:
        tables: Which tables it serves.
        name: As it was printed.
        cells: Number of its answers in each geounit.
        share: Of the budget of its tables in each geolevel.
        scales: Printed scale of its noise by geolevels, in people or households, to two decimals.
    """

    tables: Tables
    name: str
    cells: int
    share: Fraction
    scales: Mapping[Scope, str]


def _query(tables: Tables, name: str, cells: int, share: str, scales: tuple[str, str]) -> PublishedQuery:
    printed: dict[Scope, str] = {"nation and state": scales[0], "county and below": scales[1]}
    return PublishedQuery(tables, name, cells, Fraction(share), MappingProxyType(printed))


#: Total epsilon of the person and of the household tables.
TOTALS: Final[Mapping[Tables, Fraction]] = MappingProxyType({"person": Fraction(4), "household": Fraction(2)})
#: Share of each geolevel, the same for persons and households.
GEOLEVEL_SHARES: Final[Mapping[str, Fraction]] = MappingProxyType(
    {
        "Nation": Fraction(1, 5),
        "State": Fraction(1, 5),
        **dict.fromkeys(("County", "Tract_Group", "Tract", "Block_Group", "Block"), Fraction(3, 25)),
    }
)
#: A geolevel of each column of scales in table 2.
SCOPES: Final[Mapping[Scope, str]] = MappingProxyType({"nation and state": "Nation", "county and below": "County"})

PERSON_QUERIES: Final = (
    _query("person", "Detailed person", 467_712, "1/10", ("25.00", "41.67")),
    _query("person", "Household/group quarters", 8, "1/5", ("12.50", "20.83")),
    _query("person", "Voting age x Hisp x Race x Citizen", 504, "1/2", ("5.00", "8.33")),
    _query("person", "Sex x Age (single year bins)", 232, "1/20", ("50.00", "83.33")),
    _query("person", "Sex x Age (4 year bins)", 58, "1/20", ("50.00", "83.33")),
    _query("person", "Sex x Age (16 year bins)", 16, "1/20", ("50.00", "83.33")),
    _query("person", "Sex x Age (64 year bins)", 4, "1/20", ("50.00", "83.33")),
)
HOUSEHOLD_QUERIES: Final = (
    _query("household", "Detailed household", 96_768, "1/5", ("25.00", "41.67")),
    _query("household", "HHhisp x HHrace x HHsize x HHtype", 2_688, "1/4", ("20.00", "33.33")),
    _query("household", "HHsex x HHhisp x HHrace x HHtype", 672, "1/4", ("20.00", "33.33")),
    # 28 is no multiple of the 24 types of household, but 2 x 7 x 2: the printed name may mean race instead of type.
    _query("household", "HHhisp x HHtype x HHmulti", 28, "1/10", ("50.00", "83.33")),
    _query("household", "HHsex x HHtype x HHelderly", 384, "1/10", ("50.00", "83.33")),
    _query("household", "HHsex x HHage x HHtype", 432, "1/10", ("50.00", "83.33")),
)

#: Counties without a vacant housing unit in the release, all counties (with those of Puerto Rico), and how many of them
#: had none in Summary File 1, where occupied units were exact.
FULL_COUNTIES: Final = 310
COUNTIES: Final = 3_221
FULL_COUNTIES_IN_TRUTH: Final = 0
#: Quintiles of counties by true number of households whose box lies above zero in figure 2, counted from the smallest.
RAISED_QUINTILES: Final = 3
#: Figure 1 draws the Laplace law of this scale; half of the draws lie within the first number, 95 % within the second.
FIGURE_1_SCALE: Final = Fraction(125, 3)
FIGURE_1_HALF: Final = 29
FIGURE_1_MOST: Final = 125
#: Half of the draws at this scale are larger than this (section 3.2).
WIDE_SCALE: Final = Fraction(250, 3)
WIDE_HALF: Final = 57

#: Table 1: 100 people by sex (rows) and school attendance (columns), and the noise that is added to each cell.
TOY_TABLE: Final = ((3, 12, 33), (4, 17, 31))
TOY_NOISE: Final = ((-1, 0, 1), (8, 2, -2))
TOY_NOISY_TOTAL: Final = 108
