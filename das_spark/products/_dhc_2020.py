"""What the persons, the households and the units of the 2020 Demographic and Housing Characteristics share.

Facts from the public release of the production code: types of group quarters, geolevels and budgets. Its budgets are
absolute: rho of each query and level. On the spine of the production, primitive geounits and two kinds of tract subsets
stand between counties and block groups; on the census spine tracts do, and have what the three levels have together,
so that every block's path to the root costs the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from das_spark.estimation import OuterPass
from das_spark.products._file_recodes import BLANK, CodedField
from das_spark.products._redistricting import LEVELS, UNIT_CLASSES
from das_spark.products.base import Strategy, concentrated_strategy

#: Code of a type of group quarters -> what it is: 24 types, the last one for codes 702, 704, 706, 903 and 904.
FACILITY_TYPES: Final = {
    "101": "Federal detention centers",
    "102": "Federal prisons",
    "103": "State prisons",
    "104": "Local jails and other municipal confinement facilities",
    "105": "Correctional residential facilities",
    "106": "Military disciplinary barracks and jails",
    "201": "Group homes for juveniles (non-correctional)",
    "202": "Residential treatment centers for juveniles (non-correctional)",
    "203": "Correctional facilities intended for juveniles",
    "301": "Nursing facilities/skilled-nursing facilities",
    "401": "Mental (psychiatric) hospitals and psychiatric units in other hospitals",
    "402": "Hospitals with patients who have no usual home elsewhere",
    "403": "In-patient hospice facilities",
    "404": "Military treatment facilities with assigned patients",
    "405": "Residential schools for people with disabilities",
    "501": "College/university student housing",
    "601": "Military quarters",
    "602": "Military ships",
    "701": "Emergency and transitional shelters for people experiencing homelessness",
    "801": "Group homes intended for adults",
    "802": "Residential treatment centers for adults",
    "900": "Maritime/merchant vessels",
    "901": "Workers' group living quarters and job corps centers",
    "997": "Other noninstitutional facilities",
}
#: Codes in files of each type, in the same order.
FACILITY_CODES: Final = (*list(FACILITY_TYPES)[:-1], "702,704,706,903,904")
#: Classes of units: the 24 types of facilities behind housing units.
CLASSES: Final = (UNIT_CLASSES[0], *FACILITY_TYPES.values())
#: Type of group quarters in census edited files -> class of the unit.
CEF_CLASS: Final = CodedField("QGQTYP", (BLANK, *FACILITY_CODES))

COMMENT: Final = "# In the layout of the microdata detail files of the 2020 Demographic and Housing Characteristics"
MDF: Final = "mdf_2020_dhc"

_SUBSETS: Final = ("Prim", "Tract_Subset_Group", "Tract_Subset")
#: Levels of the production's spine for the 50 states; that of Puerto Rico begins with its State.
DHC_LEVELS: Final = ("US", "State", "County", *_SUBSETS, "Block_Group", "Block")
#: Parts of one hundredth of a percent of rho: geolevel, root first -> numerator of each query.
Spent = Mapping[str, tuple[int, ...]]
_UNIT: Final = 10_000


def strategies(
    queries: Sequence[str],
    united_states: Spent,
    puerto_rico: Spent,
    passes: tuple[OuterPass, ...],
) -> tuple[Strategy, ...]:
    """The published strategies on the production's spine, the same on that of the census, and for parts of the nation.

    Args:
        queries: In the order of the numerators.
        united_states: Of the 50 states and the District of Columbia.
        puerto_rico: Of Puerto Rico.
        passes: Of every level.
    """
    nation = "Production of 2020, the 50 states and the District of Columbia"
    island = "Production of 2020, Puerto Rico"
    census = "; on the census spine, where tracts have what primitive geounits and tract subsets have together"
    state = "One state to the block, with the budget of the production for Puerto Rico, on the census spine"
    whole = (
        ("us", nation + census, _on_census_spine(united_states)),
        ("pr", island + census, _on_census_spine(puerto_rico)),
        ("state", state, _on_census_spine(puerto_rico)),
        ("us_dhc_spine", nation, united_states),
        ("pr_dhc_spine", island, puerto_rico),
    )
    made = [_strategy(name, title, queries, spent, passes) for name, title, spent in whole]
    to_county = "The nation to the county: equal levels, each with the queries of the nation's"
    return (*made, _strategy("to_county", to_county, queries, united_states, passes, equal=LEVELS[:3]))


def _strategy(
    name: str,
    title: str,
    queries: Sequence[str],
    spent: Spent,
    passes: tuple[OuterPass, ...],
    *,
    equal: Sequence[str] = (),
) -> Strategy:
    """A strategy of all levels that something is spent on, or of some of them with equal parts of the whole."""
    whole = sum(map(sum, spent.values()))
    shares = {level: Fraction(sum(row), whole) for level, row in spent.items()}
    return concentrated_strategy(
        name,
        title,
        rho=str(Fraction(whole, _UNIT)),
        geolevels={level: Fraction(1, len(equal)) for level in equal} or shares,
        queries={
            level: {query: Fraction(part, sum(row)) for query, part in zip(queries, row, strict=True)}
            for level, row in spent.items()
        },
        passes=dict.fromkeys(spent, passes),
    )


def _on_census_spine(spent: Spent) -> Spent:
    """The same budget with tracts in place of the three levels between counties and block groups."""
    tract = tuple(sum(parts) for parts in zip(*(spent[level] for level in _SUBSETS), strict=True))
    return {level: spent.get(level, tract) for level in LEVELS if level in spent or level == "Tract"}
