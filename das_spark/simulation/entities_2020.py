"""Entities of the blocks of a synthetic 2020: public codes that follow from the geocode alone, by no random number.

County subdivisions are groups of tracts. Places lie across them and across block groups, so that their borders are on
no spine. Some counties have an area of American Indians, Alaska Natives or Native Hawaiians, which cuts tracts. School
districts are groups of tracts; in some counties they are elementary and secondary ones instead of unified ones.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.geography import NO_AIAN_AREA, NO_ENTITY, STRONG_MCD_STATES

Texts = NDArray[np.str_]
Numbers = NDArray[np.int64]

_ACTIVE, _STATISTICAL, _NONE = "A", "S", "9"

_TRACTS_OF_A_SUBDIVISION, _TRACTS_OF_A_PLACE, _TRACTS_OF_A_DISTRICT, _TRACTS_OF_A_SECONDARY = 3, 2, 5, 10
_PLACES_OUT_OF, _STATISTICAL_PLACES_OUT_OF, _BLOCKS_OF_A_BORDER = 3, 5, 10
_COUNTIES_WITH_AN_AREA, _COUNTIES_WITHOUT_UNIFIED = 6, 4
_TRACTS_UP_TO_AN_AREA, _BLOCKS_OF_AN_AREA = 4, 12

#: First code of the areas of a state; federal ones, from 1, elsewhere.
_FIRST_AREA: Final = {"02": 6000, "15": 5000, "40": 5500}
_AREAS_OF_A_STATE: Final = 90


def entities(geocodes: Texts) -> dict[str, Texts]:
    """Codes of the entities of blocks, by the names of the geographic reference file.

    Args:
        geocodes: (B,) geocodes of 16 digits: counties 001, 003, ..., tracts 0001.00, 0002.00, ...

    Returns:
        AIANNHCE, COUSUBFP, COUSUBFS, PLACEFP, PLACEFS, SDUNILEA, SDSECLEA and SDELMLEA, each (B,); 9999, 99999 and 9
        where a block lies in none.
    """
    points = np.char.encode(geocodes.astype("U16"), "ascii").view("S1").reshape(-1, 16).astype(np.int64)
    state, county, tract = _number(points[:, :2]), _number(points[:, 2:5]) // 2, _number(points[:, 5:11]) // 100 - 1
    group, block = points[:, 11], _number(points[:, 13:16])
    strong = np.isin(state, [int(code) for code in STRONG_MCD_STATES])
    place, statistical = _places(county, tract, group, block)
    district = tract // _TRACTS_OF_A_DISTRICT
    split = (county % _COUNTIES_WITHOUT_UNIFIED) == 1
    return {
        "AIANNHCE": _areas(state, county, tract, block),
        "COUSUBFP": _codes(county * 40 + tract // _TRACTS_OF_A_SUBDIVISION % 40, 90_000),
        "COUSUBFS": np.where(strong, _ACTIVE, _STATISTICAL),
        "PLACEFP": place,
        "PLACEFS": np.where(place == NO_ENTITY, _NONE, np.where(statistical, _STATISTICAL, _ACTIVE)),
        "SDUNILEA": np.where(split, NO_ENTITY, _codes(county * 30 + district % 30, 90_000)),
        "SDSECLEA": np.where(split, _codes(county * 30 + tract // _TRACTS_OF_A_SECONDARY % 30, 90_000), NO_ENTITY),
        "SDELMLEA": np.where(split, _codes(county * 30 + 15 + district % 15, 90_000), NO_ENTITY),
    }


def _number(digits: Numbers) -> Numbers:
    weights = 10 ** np.arange(digits.shape[1] - 1, -1, -1, dtype=np.int64)
    numbers: Numbers = digits @ weights
    return numbers


def _codes(numbers: Numbers, most: int) -> Texts:
    """Codes of five digits: multiples of five, as FIPS codes of places are."""
    return np.strings.zfill((5 + numbers * 5 % most).astype("U20"), 5).astype("U5")


def _places(county: Numbers, tract: Numbers, group: Numbers, block: Numbers) -> tuple[Texts, NDArray[np.bool_]]:
    """Code of the place, and whether it is a statistical one.

    Two tracts of three lie in places. A place has its tracts' low block groups, and of the border block group those
    blocks that have low numbers.
    """
    border = 2 + tract % 3
    inside = (tract % _PLACES_OUT_OF != 0) & ((group < border) | ((group == border) & (block < _BLOCKS_OF_A_BORDER)))
    # Shifted against the subdivisions, so that places lie across them.
    number = county * 60 + (tract + 1) // _TRACTS_OF_A_PLACE % 60
    return np.where(inside, _codes(number, 90_000), NO_ENTITY), number % _STATISTICAL_PLACES_OUT_OF == 0


def _areas(state: Numbers, county: Numbers, tract: Numbers, block: Numbers) -> Texts:
    first = np.ones(100, dtype=np.int64)
    for code, lowest in _FIRST_AREA.items():
        first[int(code)] = lowest
    inside = (county % _COUNTIES_WITH_AN_AREA == 0) & (tract < _TRACTS_UP_TO_AN_AREA) & (block < _BLOCKS_OF_AN_AREA)
    number = first[state] + (county // _COUNTIES_WITH_AN_AREA * 2 + tract % 2) % _AREAS_OF_A_STATE
    number = np.where(first[state] == 1, number + state * _AREAS_OF_A_STATE // 2, number)
    return np.where(inside, np.strings.zfill(number.astype("U20"), 4).astype("U4"), NO_AIAN_AREA)
