"""A simulated 1940 in the layout of the IPUMS extract EXT1940USCB.dat: household and person lines of fixed width.

Only the fields that the system reads carry meaning; the others hold zeros. Persons of a class are dealt to its units
one by one, adults first, so that every unit has someone and household sizes differ by one at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from das_spark.io.record_text import Bytes, Integers, homes, put_number

if TYPE_CHECKING:
    from das_spark.simulation import Population

HOUSEHOLD_LINE, PERSON_LINE = 160, 274
"""Bytes of a line, its end included."""

_GQTYPE_OF_CLASS = np.array([0, 2, 3, 4, 6, 7, 8, 9])
_GQ_OF_CLASS = np.array([1, 3, 3, 3, 4, 4, 4, 4])
_CLASSES = 8
_CELLS_OF_CLASS = 24
_CELLS_OF_AGE = 12
_RACES = 6
_DISTRICTS_AT_ONCE = 200


def lines(population: Population, first_serial: int) -> Iterator[tuple[bytes, int]]:
    """Write a population as lines, some districts at a time.

    Args:
        population: In the schema of 1940.
        first_serial: Serial number of the first unit; numbers go up from there.

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
    position = np.arange(units) * HOUSEHOLD_LINE + before * PERSON_LINE
    text = np.empty(units * HOUSEHOLD_LINE + len(made.unit) * PERSON_LINE, dtype=np.uint8)
    geocodes = population.geocodes[start:stop]
    households = _household_lines(serial, made.size, geocodes[made.place], made.kind)
    text[position[:, None] + np.arange(HOUSEHOLD_LINE)] = households
    place = position[made.unit] + HOUSEHOLD_LINE + made.rank * PERSON_LINE
    text[place[:, None] + np.arange(PERSON_LINE)] = _person_lines(serial[made.unit], made.rank, made.cell)
    return text.tobytes(), units


def _template(length: int, letter: str, rows: int) -> Bytes:
    lines = np.full((rows, length), ord("0"), dtype=np.uint8)
    lines[:, 0] = ord(letter)
    lines[:, 1:7] = np.frombuffer(b"194001", dtype=np.uint8)
    lines[:, -1] = ord("\n")
    return lines


def _household_lines(serial: Integers, sizes: Integers, geocodes: NDArray[np.str_], level: Integers) -> Bytes:
    lines = _template(HOUSEHOLD_LINE, "H", len(serial))
    put_number(lines, 7, 8, serial)
    put_number(lines, 15, 2, np.minimum(sizes, 99))
    digits = np.char.encode(geocodes, "ascii").view(np.uint8).reshape(len(geocodes), -1)
    lines[:, 53:59] = digits[:, :6]
    lines[:, 124:128] = digits[:, 6:10]
    vacant = level == _CLASSES
    level = np.where(vacant, 0, level)
    put_number(lines, 93, 1, np.where(vacant, 0, _GQ_OF_CLASS[level]))
    put_number(lines, 94, 1, _GQTYPE_OF_CLASS[level])
    return lines


def _person_lines(serial: Integers, rank: Integers, cell: Integers) -> Bytes:
    lines = _template(PERSON_LINE, "P", len(serial))
    put_number(lines, 7, 8, serial)
    put_number(lines, 15, 4, (rank + 1) % 10_000)
    put_number(lines, 72, 1, 1 + rank % 2)
    adult = cell // _CELLS_OF_AGE % 2
    put_number(lines, 73, 3, np.where(adult == 1, 18 + (rank * 17 + serial) % 70, (rank * 5 + serial) % 18))
    put_number(lines, 84, 1, 1 + cell % _RACES)
    put_number(lines, 88, 1, cell // _RACES % 2)
    return lines
