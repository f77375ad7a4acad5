"""A simulated 1940 in the layout of the IPUMS extract EXT1940USCB.dat: household and person lines of fixed width.

Only the fields that the system reads carry meaning; the others hold zeros. Persons of a class are dealt to its units
one by one, adults first, so that every unit has someone and household sizes differ by one at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from das_spark.simulation import Population

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

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
    # Units by district and class, vacant ones last in their district.
    kinds = np.concatenate([population.units[start:stop], population.vacant[start:stop, None]], axis=1)
    number = kinds.ravel()
    unit_kind = np.repeat(np.arange(len(number)), number)
    first_unit = np.cumsum(number) - number
    person_unit, person_cell = _persons(population, start, stop, first_unit, number)
    sizes = np.bincount(person_unit, minlength=len(unit_kind))
    serial = first_serial + np.arange(len(unit_kind))
    before = np.cumsum(sizes) - sizes
    position = np.arange(len(unit_kind)) * HOUSEHOLD_LINE + before * PERSON_LINE
    text = np.empty(len(unit_kind) * HOUSEHOLD_LINE + len(person_unit) * PERSON_LINE, dtype=np.uint8)
    geocodes = population.geocodes[start:stop]
    households = _household_lines(serial, sizes, geocodes[unit_kind // (_CLASSES + 1)], unit_kind % (_CLASSES + 1))
    text[position[:, None] + np.arange(HOUSEHOLD_LINE)] = households
    rank = np.arange(len(person_unit)) - before[person_unit]
    place = position[person_unit] + HOUSEHOLD_LINE + rank * PERSON_LINE
    text[place[:, None] + np.arange(PERSON_LINE)] = _person_lines(serial[person_unit], rank, person_cell)
    return text.tobytes(), len(unit_kind)


def _persons(
    population: Population, start: int, stop: int, first_unit: Integers, number: Integers
) -> tuple[Integers, Integers]:
    """Unit and cell of every person, sorted by unit."""
    rows = slice(*np.searchsorted(population.geounit, [start, stop]))
    district = np.repeat(population.geounit[rows] - start, population.count[rows])
    cell = np.repeat(population.cell[rows], population.count[rows])
    kind = district * (_CLASSES + 1) + cell // _CELLS_OF_CLASS
    age = cell // _CELLS_OF_AGE % 2
    order = np.lexsort((cell, -age, kind))
    kind, cell = kind[order], cell[order]
    turn = np.arange(len(kind)) - np.searchsorted(kind, kind)
    unit = first_unit[kind] + turn % number[kind]
    order = np.argsort(unit, kind="stable")
    return unit[order], cell[order]


def _template(length: int, letter: str, rows: int) -> Bytes:
    lines = np.full((rows, length), ord("0"), dtype=np.uint8)
    lines[:, 0] = ord(letter)
    lines[:, 1:7] = np.frombuffer(b"194001", dtype=np.uint8)
    lines[:, -1] = ord("\n")
    return lines


def _put(lines: Bytes, start: int, width: int, values: Integers) -> None:
    """Write numbers with leading zeros into columns from `start`."""
    rest = values.copy()
    for column in range(start + width - 1, start - 1, -1):
        rest, digit = np.divmod(rest, 10)
        lines[:, column] = digit + ord("0")


def _household_lines(serial: Integers, sizes: Integers, geocodes: NDArray[np.str_], level: Integers) -> Bytes:
    lines = _template(HOUSEHOLD_LINE, "H", len(serial))
    _put(lines, 7, 8, serial)
    _put(lines, 15, 2, np.minimum(sizes, 99))
    digits = np.char.encode(geocodes, "ascii").view(np.uint8).reshape(len(geocodes), -1)
    lines[:, 53:59] = digits[:, :6]
    lines[:, 124:128] = digits[:, 6:10]
    vacant = level == _CLASSES
    level = np.where(vacant, 0, level)
    _put(lines, 93, 1, np.where(vacant, 0, _GQ_OF_CLASS[level]))
    _put(lines, 94, 1, _GQTYPE_OF_CLASS[level])
    return lines


def _person_lines(serial: Integers, rank: Integers, cell: Integers) -> Bytes:
    lines = _template(PERSON_LINE, "P", len(serial))
    _put(lines, 7, 8, serial)
    _put(lines, 15, 4, (rank + 1) % 10_000)
    _put(lines, 72, 1, 1 + rank % 2)
    adult = cell // _CELLS_OF_AGE % 2
    _put(lines, 73, 3, np.where(adult == 1, 18 + (rank * 17 + serial) % 70, (rank * 5 + serial) % 18))
    _put(lines, 84, 1, 1 + cell % _RACES)
    _put(lines, 88, 1, cell // _RACES % 2)
    return lines
