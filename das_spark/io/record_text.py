"""Records as lines of fixed width: fields and what they may hold, and simulated people assigned to units as lines.

A code has as many characters as its field; a number may have leading zeros or spaces on either side; `blank` is all
spaces. What a field may hold is written as in public record layouts: values and ranges separated by commas.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from das_spark.simulation import Population


BLANK: Final = "blank"


def all_digits(width: int) -> str:
    """What a field may hold that is filled with digits, all of them meaningful."""
    return f"{'0' * width}-{'9' * width}"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record.

    Args:
        name: As in the release.
        start: First column, from 0.
        end: Column behind the last.
        allowed: Values and ranges; empty for a number of any size.
    """

    name: str
    start: int
    end: int
    allowed: str

    @property
    def width(self) -> int:
        """Number of characters."""
        return self.end - self.start

    @property
    def expected(self) -> str:
        """What is allowed, for messages."""
        if self.allowed == all_digits(self.width):
            return f"{self.width} digits"
        return f"one of {self.allowed.replace(',', ', ')}" if self.allowed else "a number"

    @property
    def is_any_number(self) -> bool:
        """Whether it holds a number of any size, with blanks around it."""
        return not self.allowed

    @property
    def pattern(self) -> str:
        """Regular expression of the characters that the field may hold, given all of them."""
        if self.is_any_number:
            return " *[0-9]+ *"
        items = [_item(item, self.width) for item in self.allowed.split(",")]
        return items[0] if len(items) == 1 and "|" not in items[0] else f"(?:{'|'.join(items)})"


def _item(item: str, width: int) -> str:
    if item == BLANK:
        return f" {{{width}}}"
    low, _, high = item.partition("-")
    high = high or low
    if len(low) == len(high) == width:
        return digits(low, high)
    ranges = []
    for length in range(len(str(int(low))), width + 1):
        least, most = str(int(low)).zfill(length), str(min(int(high), 10**length - 1)).zfill(length)
        if int(least) <= int(most):
            space = f" {{{width - length}}}" if length < width else ""
            number = digits(least, most)
            ranges += [f"{space}(?:{number})", f"(?:{number}){space}"] if space else [number]
    return "|".join(ranges)


def digits(low: str, high: str) -> str:
    """Regular expression of the whole numbers of a range, all with as many digits as its ends."""
    if not low:
        return ""
    if low[0] == high[0]:
        return low[0] + digits(low[1:], high[1:])
    rest = len(low) - 1
    any_digits = f"[0-9]{{{rest}}}" if rest else ""
    first, last = int(low[0]), int(high[0])
    parts = []
    if int(low[1:] or 0) > 0:
        parts.append(low[0] + digits(low[1:], "9" * rest))
        first += 1
    if high[1:] != "9" * rest:
        parts.append(high[0] + digits("0" * rest, high[1:]))
        last -= 1
    if first <= last:
        parts.append(f"{first if first == last else f'[{first}-{last}]'}{any_digits}")
    return parts[0] if len(parts) == 1 else f"(?:{'|'.join(parts)})"


def _gap(width: int) -> str:
    return f".{{{width}}}" if width else ""


@dataclass(frozen=True, slots=True)
class Record:
    """A kind of record.

    Args:
        name: For messages.
        fields: In order; what stands between and behind them may be anything.
        length: Characters of a line.
    """

    name: str
    fields: tuple[Field, ...]
    length: int

    @property
    def codes(self) -> dict[str, str]:
        """Name of every field -> the codes that it may hold; none of numbers of any size."""
        return {field.name: field.allowed for field in self.fields if field.allowed}

    @property
    def pattern(self) -> str:
        """Regular expression of a line of full length in which every field is right, or has the characters of numbers.

        In what order blanks and digits stand in a number of any size, no expression says without look-ahead.
        """
        ends, parts = [0, *(field.end for field in self.fields)], []
        for end, field in zip(ends, self.fields, strict=False):
            of_field = f"[ 0-9]{{{field.width}}}" if field.is_any_number else field.pattern
            parts.append(_gap(field.start - end) + of_field)
        return f"^{''.join(parts)}{_gap(self.length - ends[-1])}$"

    def field(self, name: str) -> Field:
        """A field by its name."""
        return next(field for field in self.fields if field.name == name)


Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

_CLASSES = 8
KINDS = _CLASSES + 1
"""Classes of units, and vacant units as the last kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Homes:
    """Who lives in which unit, in some geounits."""

    place: Integers
    kind: Integers
    size: Integers
    unit: Integers
    cell: Integers
    rank: Integers


def homes(population: Population, start: int, stop: int, people_cells: int) -> Homes:
    """Assign the persons of some geounits to their units, one by one, adults first.

    So every unit has someone, and sizes of units of a class differ by one at most.
    """
    number = np.concatenate([population.units[start:stop], population.vacant[start:stop, None]], axis=1).ravel()
    unit_kind = np.repeat(np.arange(len(number)), number)
    first_unit = np.cumsum(number) - number
    unit, cell = _persons(population, start, stop, people_cells, first_unit, number)
    size = np.bincount(unit, minlength=len(unit_kind))
    before = np.cumsum(size) - size
    return Homes(unit_kind // KINDS, unit_kind % KINDS, size, unit, cell, np.arange(len(unit)) - before[unit])


def _persons(
    population: Population, start: int, stop: int, people_cells: int, first_unit: Integers, number: Integers
) -> tuple[Integers, Integers]:
    """Unit and cell of every person, sorted by unit."""
    rows = slice(*np.searchsorted(population.geounit, [start, stop]))
    place = np.repeat(population.geounit[rows] - start, population.count[rows])
    cell = np.repeat(population.cell[rows], population.count[rows])
    kind = place * KINDS + cell // people_cells
    age = cell // (people_cells // 2) % 2
    order = np.lexsort((cell, -age, kind))
    kind, cell = kind[order], cell[order]
    turn = np.arange(len(kind)) - np.searchsorted(kind, kind)
    unit = first_unit[kind] + turn % number[kind]
    order = np.argsort(unit, kind="stable")
    return unit[order], cell[order]


class RecordText:
    """Lines of a kind of record, filled field by field; other characters are zeros."""

    def __init__(self, record: Record, number: int) -> None:
        """Begin so many lines."""
        self.record = record
        self.text: Bytes = np.full((number, record.length + 1), ord("0"), dtype=np.uint8)
        self.text[:, -1] = ord("\n")

    def put(self, **fields: Integers | int) -> None:
        """Write numbers into fields, with leading zeros."""
        for name, values in fields.items():
            field = self.record.field(name)
            put_number(self.text, field.start, field.width, np.broadcast_to(values, len(self.text)))

    def blank(self, name: str, where: NDArray[np.bool_] | slice = slice(None)) -> None:
        """Leave a field of some lines blank."""
        field = self.record.field(name)
        self.text[where, field.start : field.end] = ord(" ")


def put_number(lines: Bytes, start: int, width: int, values: Integers) -> None:
    """Write numbers with leading zeros into columns of lines."""
    rest = values.copy()
    for column in range(start + width - 1, start - 1, -1):
        rest, digit = np.divmod(rest, 10)
        lines[:, column] = digit + ord("0")
