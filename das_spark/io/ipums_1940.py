"""The IPUMS extract of the 1940 census, EXT1940USCB.dat: its fields, and a simulated 1940 in that layout.

Of simulated people, only the fields that the system reads carry meaning; the others hold zeros. Persons of a class
are assigned to its units one by one, adults first, so that each has someone and household sizes differ by one at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das_spark.io.record_text import Bytes, Field, Integers, homes, put_number

if TYPE_CHECKING:
    from das_spark.simulation import Population


HOUSEHOLD_LENGTH, PERSON_LENGTH = 159, 273
_HOUSEHOLD_LINE, _PERSON_LINE = HOUSEHOLD_LENGTH + 1, PERSON_LENGTH + 1
"""Bytes of a line, its end included."""

SERIAL = Field("SERIAL", 7, 15, "")
HOUSEHOLD_FIELDS = {field.name: field for field in (Field("GQ", 93, 94, "0-6"), Field("GQTYPE", 94, 95, "0,2-4,6-9"))}
"""Coded fields of household lines that products may recode; types 1 and 5 of group quarters do not occur in 1940."""
PERSON_FIELDS = {
    field.name: field
    for field in (Field("AGE", 73, 76, "0-135"), Field("RACE", 84, 85, "1-6"), Field("HISPAN", 88, 89, "0-4,9"))
}
"""Coded fields of person lines."""
GEOCODE_FIELDS = (Field("STATEFIP, COUNTY", 53, 59, ""), Field("ENUMDIST", 124, 128, ""))
"""State, county and enumeration district of a household line: together its geocode of ten digits."""

_GQTYPE_OF_CLASS = np.array([0, 2, 3, 4, 6, 7, 8, 9])
_GQ_OF_CLASS = np.array([1, 3, 3, 3, 4, 4, 4, 4])
_CLASSES = 8
_CELLS_OF_CLASS = 24
_CELLS_OF_AGE = 12
_RACES = 6
_DISTRICTS_AT_ONCE = 200


def lines(population: Population, first_serial: int) -> Iterator[tuple[bytes, int]]:
    """Write a population as lines, some districts at a time.

    Yields:
        Whole lines, each household before its persons, and the number of units in them.
    """
    for start in range(0, len(population.geocodes), _DISTRICTS_AT_ONCE):
        stop = min(start + _DISTRICTS_AT_ONCE, len(population.geocodes))
        text, units = _chunk(population, start, stop, first_serial)
        first_serial += units
        yield text, units


def _chunk(population: Population, start: int, stop: int, first_serial: int) -> tuple[bytes, int]:
    made = homes(population, start, stop, _CELLS_OF_CLASS)
    units = len(made.kind)
    serial = first_serial + np.arange(units)
    before = np.cumsum(made.size) - made.size
    position = np.arange(units) * _HOUSEHOLD_LINE + before * _PERSON_LINE
    text = np.empty(units * _HOUSEHOLD_LINE + len(made.unit) * _PERSON_LINE, dtype=np.uint8)
    geocodes = population.geocodes[start:stop]
    households = _household_lines(serial, made.size, geocodes[made.place], made.kind)
    text[position[:, None] + np.arange(_HOUSEHOLD_LINE)] = households
    place = position[made.unit] + _HOUSEHOLD_LINE + made.rank * _PERSON_LINE
    text[place[:, None] + np.arange(_PERSON_LINE)] = _person_lines(serial[made.unit], made.rank, made.cell)
    return text.tobytes(), units


def _template(length: int, letter: str, rows: int) -> Bytes:
    lines = np.full((rows, length), ord("0"), dtype=np.uint8)
    lines[:, 0] = ord(letter)
    lines[:, 1:7] = np.frombuffer(b"194001", dtype=np.uint8)
    lines[:, -1] = ord("\n")
    return lines


def _household_lines(serial: Integers, sizes: Integers, geocodes: NDArray[np.str_], level: Integers) -> Bytes:
    lines = _template(_HOUSEHOLD_LINE, "H", len(serial))
    put_number(lines, SERIAL.start, SERIAL.width, serial)
    put_number(lines, 15, 2, np.minimum(sizes, 99))
    digits = np.char.encode(geocodes, "ascii").view(np.uint8).reshape(len(geocodes), -1)
    first = 0
    for field in GEOCODE_FIELDS:
        lines[:, field.start : field.end] = digits[:, first : first + field.width]
        first += field.width
    vacant = level == _CLASSES
    level = np.where(vacant, 0, level)
    _put(lines, HOUSEHOLD_FIELDS["GQ"], np.where(vacant, 0, _GQ_OF_CLASS[level]))
    _put(lines, HOUSEHOLD_FIELDS["GQTYPE"], _GQTYPE_OF_CLASS[level])
    return lines


def _person_lines(serial: Integers, rank: Integers, cell: Integers) -> Bytes:
    lines = _template(_PERSON_LINE, "P", len(serial))
    put_number(lines, SERIAL.start, SERIAL.width, serial)
    put_number(lines, 15, 4, (rank + 1) % 10_000)
    put_number(lines, 72, 1, 1 + rank % 2)
    adult = cell // _CELLS_OF_AGE % 2
    _put(lines, PERSON_FIELDS["AGE"], np.where(adult == 1, 18 + (rank * 17 + serial) % 70, (rank * 5 + serial) % 18))
    _put(lines, PERSON_FIELDS["RACE"], 1 + cell % _RACES)
    _put(lines, PERSON_FIELDS["HISPAN"], cell // _RACES % 2)
    return lines


def _put(lines: Bytes, field: Field, values: Integers) -> None:
    put_number(lines, field.start, field.width, values)
