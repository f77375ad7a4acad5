"""The blocks of one county as columns, and the areas that they lie in: AIAN areas and other off-spine entities.

The ranges of AIAN areas (American Indian, Alaska Native and Native Hawaiian) are those of the four-digit census code
AIANNHCE of the 2020 census. The production runs of 2020 placed the areas of seven categories on a branch of their own
below the root of the spine. Off-spine entities are areas that results are published for and that no geounit of the
spine need equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das_spark.errors import GeographyError, did_you_mean
from das_spark.geography.spine import BLOCK

_ZERO: Final = ord("0")
_NINE: Final = ord("9")


def text_column(values: ArrayLike, width: int, column: str) -> NDArray[np.str_]:
    """Fixed-width text (n,) of a column; GeographyError names a value that is no text of this width."""
    given: NDArray[Any] = np.asarray(values)
    if given.size == 0:
        return np.empty(0, dtype=f"U{width}")
    if given.dtype.kind not in "UO" or not all(isinstance(value, str) for value in given[:1].tolist()):
        raise GeographyError(f"column {column!r} holds no text", hint="codes are text: keep their leading zeros")
    texts = given.astype(np.str_)
    wrong = np.flatnonzero(np.strings.str_len(texts) != width)
    if wrong.size:
        raise GeographyError(
            f"column {column!r} holds {str(texts[wrong[0]])!r}, expected {width} characters",
            hint="codes are text: keep their leading zeros",
        )
    return texts.astype(f"U{width}")


def digit_column(values: ArrayLike, width: int, column: str) -> NDArray[np.str_]:
    """Fixed-width text (n,) of a column; GeographyError names a value that is not exactly `width` digits."""
    texts = text_column(values, width, column)
    points = characters(texts)
    wrong = np.flatnonzero(((points < _ZERO) | (points > _NINE)).any(axis=1))
    if wrong.size:
        raise GeographyError(f"column {column!r} holds {str(texts[wrong[0]])!r}, expected {width} digits 0-9")
    return texts


def characters(texts: NDArray[np.str_]) -> NDArray[np.uint32]:
    """Code points of fixed-width text: array (n, width)."""
    width = texts.dtype.itemsize // 4
    return np.ascontiguousarray(texts).view(np.uint32).reshape(texts.size, width)


def from_characters(points: NDArray[np.uint32]) -> NDArray[np.str_]:
    """Fixed-width text (n,) of code points (n, width): the inverse of `characters`."""
    count, width = points.shape
    return np.ascontiguousarray(points).view(f"U{width}").reshape(count)


def slice_column(texts: NDArray[np.str_], start: int, stop: int) -> NDArray[np.str_]:
    """The characters from `start` up to `stop` of every value of fixed-width text: array (n,)."""
    return from_characters(characters(texts)[:, start:stop])


def whole_numbers(texts: NDArray[np.str_]) -> NDArray[np.int64]:
    """Decimal values (n,) of a checked column of at most 18 digits."""
    return texts.astype(np.int64)


def zero_padded(numbers: NDArray[np.int64], width: int) -> NDArray[np.str_]:
    """Numbers (n,) as text, filled with zeros on the left up to a width; what is longer is cut."""
    return np.strings.zfill(numbers.astype(f"U{max(width, 20)}"), width).astype(f"U{width}")


def joined(*parts: NDArray[np.str_]) -> NDArray[np.str_]:
    """Columns of fixed-width text, concatenated value by value: array (n,)."""
    return from_characters(np.concatenate([characters(part) for part in parts], axis=1))


#: Major types of group quarters.
GQ_TYPES: Final = 7

#: The code that says that a block lies in no place, county subdivision or school district.
NO_ENTITY: Final = "99999"

_COUNTY: Final = 5
_TRACT: Final = 11
_BLOCK_GROUP: Final = 12
_ENTITY_DIGITS: Final = {
    "aiannhce": 4,
    "cousubfp": 5,
    "placefp": 5,
    "sdunilea": 5,
    "sdseclea": 5,
    "sdelmlea": 5,
}
_STATUS: Final = ("cousubfs", "placefs")


@dataclass(frozen=True, slots=True, eq=False)
class BlockTable:
    """Columns of the blocks of one county, one row a block, in any order.

    Attributes:
        geocode16: (n,) text, geocodes of the blocks.
        aiannhce: (n,) text, four digits: the AIAN area, 9999 for none.
        cousubfp: (n,) text, five digits: county subdivision, 99999 for none.
        cousubfs: (n,) text, one character: its functional status.
        placefp: (n,) text, five digits: place, 99999 for none.
        placefs: (n,) text, one character: its functional status.
        sdunilea: (n,) text, five digits: unified school district, 99999 for none.
        sdseclea: (n,) text, five digits: secondary school district.
        sdelmlea: (n,) text, five digits: elementary school district.
        gq: (n, 7) booleans: whether the block has a facility of each major type of group quarters.

    Raises:
        GeographyError: A column is missing, has another length, or holds a code of another form; a block occurs twice,
            names a block group that is not its own, or lies in another county than the first.
    """

    geocode16: NDArray[np.str_]
    aiannhce: NDArray[np.str_]
    cousubfp: NDArray[np.str_]
    cousubfs: NDArray[np.str_]
    placefp: NDArray[np.str_]
    placefs: NDArray[np.str_]
    sdunilea: NDArray[np.str_]
    sdseclea: NDArray[np.str_]
    sdelmlea: NDArray[np.str_]
    gq: NDArray[np.bool_]

    def __post_init__(self) -> None:
        """Check the columns, and bring text to fixed width."""
        for field in fields(self):
            if getattr(self, field.name) is None:
                raise GeographyError(f"column {field.name!r} of the blocks is missing")
        checked: dict[str, NDArray[Any]] = {"geocode16": _checked_geocodes(self.geocode16)}
        for name, width in _ENTITY_DIGITS.items():
            checked[name] = digit_column(getattr(self, name), width, name)
        for name in _STATUS:
            checked[name] = text_column(getattr(self, name), 1, name)
        checked["gq"] = np.asarray(self.gq, dtype=np.bool_)
        for name, values in checked.items():
            object.__setattr__(self, name, values)
        self._check_lengths()
        self._check_blocks()

    def __len__(self) -> int:
        """Number of blocks."""
        return int(self.geocode16.size)

    @property
    def state(self) -> str:
        """Two digits of the state."""
        return str(self.geocode16[0])[:2]

    @property
    def county(self) -> str:
        """Three digits of the county within the state."""
        return str(self.geocode16[0])[2:_COUNTY]

    @property
    def tract(self) -> NDArray[np.str_]:
        """Tract of every block: (n,), 11 digits."""
        return slice_column(self.geocode16, 0, _TRACT)

    @property
    def block_group(self) -> NDArray[np.str_]:
        """Block group of every block as tables publish it: (n,), 12 digits."""
        return slice_column(self.geocode16, 0, _BLOCK_GROUP)

    def rows(self, index: NDArray[Any]) -> BlockTable:
        """The rows of a mask or of an array of positions, in that order.

        Args:
            index: Booleans (n,), or positions (rows,).

        Returns:
            A table of its own, checked like any other.

        Raises:
            GeographyError: No row is chosen, or a position occurs twice.
        """
        return BlockTable(*(getattr(self, field.name)[index] for field in fields(self)))

    def _check_lengths(self) -> None:
        if not len(self):
            raise GeographyError("a county without blocks has no spine")
        for field in fields(self):
            length = getattr(self, field.name).shape[0]
            if length != len(self):
                raise GeographyError(f"column {field.name!r} has {length} rows, geocode16 has {len(self)}")
        if self.gq.shape != (len(self), GQ_TYPES):
            raise GeographyError(f"column 'gq' has shape {self.gq.shape}, expected ({len(self)}, {GQ_TYPES})")

    def _check_blocks(self) -> None:
        ordered = np.sort(self.geocode16)
        twice = np.flatnonzero(ordered[1:] == ordered[:-1])
        if twice.size:
            raise GeographyError(f"block {str(ordered[twice[0]])!r} occurs twice")
        if str(ordered[0])[:_COUNTY] != str(ordered[-1])[:_COUNTY]:
            raise GeographyError(f"blocks {str(ordered[0])!r} and {str(ordered[-1])!r} lie in two counties")


#: Columns of the entities that blocks lie in: those of `BlockTable` between the geocode and group quarters.
ENTITY_COLUMNS: Final = tuple(field.name for field in fields(BlockTable) if field.name not in ("geocode16", "gq"))


def _checked_geocodes(values: ArrayLike) -> NDArray[np.str_]:
    texts = digit_column(values, BLOCK, "geocode16")
    points = characters(texts)
    wrong = np.flatnonzero(points[:, _TRACT] != points[:, _BLOCK_GROUP])
    if wrong.size:
        raise GeographyError(
            f"geocode {str(texts[wrong[0]])!r} names block group {chr(points[wrong[0], _TRACT])}, "
            f"its block {str(texts[wrong[0]])[_BLOCK_GROUP:]!r} belongs to {chr(points[wrong[0], _BLOCK_GROUP])}",
            hint="the 12th digit is the first digit of the block",
        )
    return texts


#: The code of a block that lies in no such area.
NO_AIAN_AREA: Final = "9999"

_CODE_DIGITS: Final = 4


@dataclass(frozen=True, slots=True)
class AianCategory:
    """One kind of area, and the codes that belong to it."""

    name: str  # how settings name the category
    first: int  # its lowest code
    last: int  # its highest code, inclusive
    production: bool  # whether the production runs of 2020 had it on the branch
    title: str  # what it is called


#: All categories, in the order of their codes; a code in none of the ranges is invalid, 4990 to 4999 among them.
AIAN_CATEGORIES: Final = (
    AianCategory("federal", 1, 4799, True, "federally recognised American Indian area"),
    AianCategory("joint_use", 4800, 4989, True, "American Indian joint-use area"),
    AianCategory("hawaiian_home_land", 5000, 5499, True, "Hawaiian home land"),
    AianCategory("oklahoma", 5500, 5899, True, "Oklahoma tribal statistical area"),
    AianCategory("oklahoma_joint_use", 5900, 5999, True, "joint-use Oklahoma tribal statistical area"),
    AianCategory("alaska_native_village", 6000, 7999, True, "Alaska native village statistical area"),
    AianCategory("tribal_designated", 8000, 8999, False, "tribal designated statistical area"),
    AianCategory("state_legal", 9000, 9499, True, "state-recognised American Indian area"),
    AianCategory("state_designated", 9500, 9998, False, "state designated tribal statistical area"),
)

#: Names of the categories that the production runs of 2020 had on the branch.
PRODUCTION_AIAN: Final = tuple(category.name for category in AIAN_CATEGORIES if category.production)

_FIRST: Final = np.array([category.first for category in AIAN_CATEGORIES], dtype=np.int64)
_LAST: Final = np.array([category.last for category in AIAN_CATEGORIES], dtype=np.int64)


def check_aian_selection(names: Iterable[str]) -> tuple[str, ...]:
    """Check names of categories; GeographyError names one that is unknown, with the nearest, or stands twice."""
    chosen, known = tuple(names), [category.name for category in AIAN_CATEGORIES]
    for name in chosen:
        if name not in known:
            hint = did_you_mean(name, known, 0.0)
            raise GeographyError(f"no category of AIAN areas is called {name!r}", hint=hint)
    if len(set(chosen)) != len(chosen):
        raise GeographyError(f"a category of AIAN areas stands twice: {', '.join(chosen)}")
    return chosen


def aian_category(codes: ArrayLike) -> NDArray[np.int64]:
    """Category (n,) of every code: position in `AIAN_CATEGORIES`, -1 for 9999, which is no area."""
    texts = digit_column(codes, _CODE_DIGITS, "AIANNHCE")
    numbers = whole_numbers(texts)
    category = np.searchsorted(_FIRST, numbers, side="right") - 1
    nowhere = numbers == int(NO_AIAN_AREA)
    valid = nowhere | ((category >= 0) & (numbers <= _LAST[category]))
    if not valid.all():
        raise GeographyError(
            f"AIANNHCE code {str(texts[np.argmin(valid)])!r} belongs to no category of areas",
            hint="codes 0000 and 4990 to 4999 are not assigned; 9999 says that a block lies in no area",
        )
    return np.where(nowhere, -1, category)


def in_aian_branch(codes: ArrayLike, selected: Iterable[str] = PRODUCTION_AIAN) -> NDArray[np.bool_]:
    """Whether a block lies on the branch of the selected areas: A = 1 (S-4)."""
    chosen = set(check_aian_selection(selected))
    # The last entry stands for "no area", which position -1 finds.
    on_branch = np.array([category.name in chosen for category in AIAN_CATEGORIES] + [False])
    return on_branch[aian_category(codes)]


def aian_area(codes: ArrayLike, selected: Iterable[str] = PRODUCTION_AIAN) -> NDArray[np.str_]:
    """The area as an off-spine entity: its code of four digits on the branch, 9999 elsewhere (S-5)."""
    on_branch = in_aian_branch(codes, selected)
    return np.where(on_branch, np.asarray(codes, dtype="U4"), NO_AIAN_AREA)


#: States with strong minor civil divisions: CT, ME, MA, MI, MN, NH, NJ, NY, PA, RI, VT and WI.
STRONG_MCD_STATES: Final = frozenset({"09", "23", "25", "26", "27", "33", "34", "36", "42", "44", "50", "55"})

#: Functional statuses of county subdivisions and places that are governments.
_GOVERNING_SUBDIVISIONS: Final = ("A", "B", "C")
_GOVERNING_PLACES: Final = ("A", "B", "F")
#: Places that are primitive geounits whatever their status: state and place code.
_OTHER_PLACES: Final = ("2236255", "1150000", "1571550", "2071450")

_PUERTO_RICO: Final = "72"


def places_or_subdivisions(table: BlockTable, aian: NDArray[np.bool_]) -> NDArray[np.str_]:
    """PM: the county subdivision in strong-MCD states outside AIAN areas, the place elsewhere (S-6)."""
    if table.state in STRONG_MCD_STATES:
        return np.where(aian, table.placefp, table.cousubfp)
    return table.placefp


def group_quarters(table: BlockTable, considered: bool) -> NDArray[np.str_]:
    """GQ: seven characters, "1" where the block has a facility of that major type (S-7)."""
    present = table.gq if considered else np.zeros_like(table.gq)
    return from_characters(present.astype(np.uint32) + np.uint32(ord("0")))


def school_districts(table: BlockTable) -> NDArray[np.str_]:
    """SD: codes of the unified, secondary and elementary district, concatenated: (n,), 15 digits (S-8)."""
    return joined(table.sdunilea, table.sdseclea, table.sdelmlea)


def primitive_geounits(table: BlockTable) -> NDArray[np.str_]:
    """Primitive geounits by rule: governing county subdivision and governing place of a block (S-9).

    County subdivisions count only in counties where one of them governs; a municipio of Puerto Rico is one primitive
    geounit.
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
    """Where the entities of a category stand in the columns of blocks."""

    column: str  # column of `BlockTable` with the code
    # digits of the geocode in which a code is unique: none of the nation's, 2 of a state's, 5 of a county's
    within: int
    none: str  # the code of blocks that lie in no such entity

    def names(self, table: BlockTable) -> NDArray[np.str_]:
        """Name of the entity of every block, (n,), "" where it lies in none."""
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
