"""Where products of one census that are protected apart can contradict each other: what is compared, as data.

Persons, housing units and households of a joint run are estimated one after the other, and nothing holds persons to
the others. In a true census none of these contradictions can occur: a household has a householder, and its people live
in an occupied unit.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final


@dataclass(frozen=True, slots=True)
class Quantity:
    """A weighted sum of the answers of a query."""

    query: str  # of the product
    weights: tuple[int, ...]  # of its answers


class Compared(StrEnum):
    """When one quantity contradicts another."""

    ALONE = "is there without"  # one is positive, and the other zero
    FEWER = "is less than"
    UNEQUAL = "is not"


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Two quantities that cannot be so in one geounit."""

    sentence: str
    one: str  # name of a quantity
    compared: Compared
    other: str


PEOPLE, HOMES, LEAST = "people in households", "households", "sum of sizes"
HEADS, SPOUSES, COUPLES = "householders", "spouses", "married couples"
PARTNERS, COHABITING = "unmarried partners", "cohabiting couples"

_IN_QUARTERS: Final = (0,) * 7
_FACILITIES: Final = (0,) * 24
_OF_RELATIONSHIPS: Final = (0,) * 12
#: Product -> quantity -> how it counts it. A product that is held to another one counts what that one does not.
QUANTITIES: Final[Mapping[str, Mapping[str, Quantity]]] = {
    "pl94_2020_person": {PEOPLE: Quantity("hhgq", (1, *_IN_QUARTERS))},
    "pl94_2020_unit": {HOMES: Quantity("h1", (0, 1))},
    "ddp_2010_person": {PEOPLE: Quantity("hhgq", (1, *_IN_QUARTERS))},
    "ddp_2010_household": {
        HOMES: Quantity("size", (0, *(1,) * 7)),
        LEAST: Quantity("size", tuple(range(8))),
    },
    "dhc_2020_person": {
        PEOPLE: Quantity("gqlevels", (1, *_FACILITIES)),
        HEADS: Quantity("relgq", (1, 1, 0, 0, 0, 0, *_OF_RELATIONSHIPS, *_FACILITIES)),
        SPOUSES: Quantity("relgq", (0, 0, 1, 0, 1, 0, *_OF_RELATIONSHIPS, *_FACILITIES)),
        PARTNERS: Quantity("relgq", (0, 0, 0, 1, 0, 1, *_OF_RELATIONSHIPS, *_FACILITIES)),
    },
    "dhc_2020_unit": {HOMES: Quantity("householdTotal", (1,))},
    "dhc_2020_household": {
        LEAST: Quantity("hhsize_all", tuple(range(1, 8))),
        COUPLES: Quantity("coupled_hh_type", (1, 1, 0, 0, 0)),
        COHABITING: Quantity("coupled_hh_type", (0, 0, 1, 1, 0)),
    },
}
CONTRADICTIONS: Final = (
    Contradiction("occupied housing units, and nobody who lives in one", HOMES, Compared.ALONE, PEOPLE),
    Contradiction("people in housing units, none of which is occupied", PEOPLE, Compared.ALONE, HOMES),
    Contradiction("fewer people in households than the sizes of households sum to", PEOPLE, Compared.FEWER, LEAST),
    Contradiction("householders that are not as many as occupied housing units", HEADS, Compared.UNEQUAL, HOMES),
    Contradiction("spouses that are not as many as households of married couples", SPOUSES, Compared.UNEQUAL, COUPLES),
    Contradiction(
        "unmarried partners that are not as many as households of cohabiting couples",
        PARTNERS,
        Compared.UNEQUAL,
        COHABITING,
    ),
)
_NOTICE: Final = (
    "Persons, housing units and households are protected apart and contradict each other in places, such as people"
    " where no housing unit is occupied; the statement of their joint run says in how many"
)
#: Products whose every file says so.
_NOTICED: Final = ("dhc_2020_person", "dhc_2020_unit", "dhc_2020_household")


def contradictions_among(products: Iterable[str]) -> tuple[Contradiction, ...]:
    """Return the contradictions that products of one joint run can have: those of which they count both quantities."""
    counted = {name for product in products for name in QUANTITIES.get(product, {})}
    return tuple(
        contradiction for contradiction in CONTRADICTIONS if {contradiction.one, contradiction.other} <= counted
    )


def notice_of_contradictions(product: str) -> tuple[str, ...]:
    """Return what files of a product say of them, if anything."""
    return (_NOTICE,) if product in _NOTICED else ()
