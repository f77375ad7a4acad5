"""Off-spine entities: areas that results are published for and that no geounit of the spine need equal."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.geography.aian import NO_AIAN_AREA
from das_spark.geography.block_table import NO_ENTITY, BlockTable
from das_spark.geography.digits import from_characters, joined, slice_column

#: States with strong minor civil divisions: CT, ME, MA, MI, MN, NH, NJ, NY, PA, RI, VT and WI.
STRONG_MCD_STATES: Final = frozenset({"09", "23", "25", "26", "27", "33", "34", "36", "42", "44", "50", "55"})

#: Functional statuses of county subdivisions and places that are governments.
_GOVERNING_SUBDIVISIONS: Final = ("A", "B", "C")
_GOVERNING_PLACES: Final = ("A", "B", "F")
#: Places that are primitive geounits whatever their status: state and place code.
_OTHER_PLACES: Final = ("2236255", "1150000", "1571550", "2071450")

_PUERTO_RICO: Final = "72"


def places_or_subdivisions(table: BlockTable, aian: NDArray[np.bool_]) -> NDArray[np.str_]:
    """PM: the county subdivision in strong-MCD states outside AIAN areas, the place elsewhere (S-6).

    Args:
        table: Blocks of one county.
        aian: (n,) whether each block is on the AIAN branch.

    Returns:
        Array (n,) of five digits.
    """
    if table.state in STRONG_MCD_STATES:
        return np.where(aian, table.placefp, table.cousubfp)
    return table.placefp


def group_quarters(table: BlockTable, considered: bool) -> NDArray[np.str_]:
    """GQ: seven characters, "1" where the block has a facility of that major type (S-7).

    Args:
        table: Blocks of one county.
        considered: False gives zeros throughout, as in runs on housing units.

    Returns:
        Array (n,).
    """
    present = table.gq if considered else np.zeros_like(table.gq)
    return from_characters(present.astype(np.uint32) + np.uint32(ord("0")))


def school_districts(table: BlockTable) -> NDArray[np.str_]:
    """SD: codes of the unified, secondary and elementary district, concatenated: (n,), 15 digits (S-8).

    Args:
        table: Blocks of one county.
    """
    return joined(table.sdunilea, table.sdseclea, table.sdelmlea)


def primitive_geounits(table: BlockTable) -> NDArray[np.str_]:
    """Primitive geounits by rule: governing county subdivision and governing place of a block (S-9).

    County subdivisions count only in counties where one of them governs; a municipio of Puerto Rico is one primitive
    geounit.

    Args:
        table: All blocks of the county, on the AIAN branch or not.

    Returns:
        Array (n,) of 15 digits: state, county, county subdivision, place.
    """
    county = slice_column(table.geocode16, 0, 5)
    none = np.full(len(table), NO_ENTITY)
    if table.state == _PUERTO_RICO:
        return joined(county, none, none)
    governed = bool(np.isin(table.cousubfs, _GOVERNING_SUBDIVISIONS).any())
    named = np.isin(table.placefs, _GOVERNING_PLACES)
    named |= np.isin(joined(slice_column(table.geocode16, 0, 2), table.placefp), _OTHER_PLACES)
    return joined(county, table.cousubfp if governed else none, np.where(named, table.placefp, NO_ENTITY))


@dataclass(frozen=True, slots=True)
class EntityCode:
    """Where the entities of a category stand in the columns of blocks.

    Attributes:
        column: Column of `BlockTable` with the code.
        within: Digits of the geocode in which a code is unique: none of the nation's, 2 of a state's, 5 of a county's.
        none: The code of blocks that lie in no such entity.
    """

    column: str
    within: int
    none: str

    def names(self, table: BlockTable) -> NDArray[np.str_]:
        """Name of the entity of every block, (n,), "" where it lies in none.

        Args:
            table: Blocks of one county.
        """
        codes = getattr(table, self.column)
        prefix = slice_column(table.geocode16, 0, self.within) if self.within else None
        named = codes if prefix is None else joined(prefix, codes)
        return np.where(codes == self.none, "", named)


#: Category -> where its entities stand; what accuracy is told of besides the geolevels.
ENTITY_CODES: Final[Mapping[str, EntityCode]] = {
    "aian_area": EntityCode("aiannhce", 0, NO_AIAN_AREA),
    "place": EntityCode("placefp", 2, NO_ENTITY),
    "county_subdivision": EntityCode("cousubfp", 5, NO_ENTITY),
    "unified_school_district": EntityCode("sdunilea", 2, NO_ENTITY),
    "secondary_school_district": EntityCode("sdseclea", 2, NO_ENTITY),
    "elementary_school_district": EntityCode("sdelmlea", 2, NO_ENTITY),
}

#: Category -> name of the entity of every block, (n,), "" where it lies in none; what reports are made for.
ENTITY_CATEGORIES: Final[Mapping[str, Callable[[BlockTable], NDArray[np.str_]]]] = {
    **{name: code.names for name, code in ENTITY_CODES.items()},
    "tract": lambda table: table.tract,
    "block_group": lambda table: table.block_group,
}
