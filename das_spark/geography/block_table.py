"""The blocks of one county with all that decides where they stand in a spine."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from das_spark.errors import GeographyError
from das_spark.geography.digits import characters, digit_column, slice_column, text_column
from das_spark.geography.geocode import BLOCK

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
