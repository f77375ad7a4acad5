"""Simulated people as records: dealt to the units they live in, and written into lines of fixed width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from das_spark.simulation import Population

Bytes = NDArray[np.uint8]
Integers = NDArray[np.int64]

_CLASSES = 8
KINDS = _CLASSES + 1
"""Classes of units, and vacant units as the last kind."""


@dataclass(frozen=True, slots=True, eq=False)
class Homes:
    """Who lives in which unit, in some geounits.

    Args:
        place: Geounit of each unit, from 0, ascending, (U,).
        kind: Class of each, or 8 for a vacant one, (U,).
        size: Persons in each, (U,).
        unit: Place of the unit of each person, ascending, (P,).
        cell: Flat cell index of each, (P,).
        rank: Number of each in the unit, from 0, (P,).
    """

    place: Integers
    kind: Integers
    size: Integers
    unit: Integers
    cell: Integers
    rank: Integers


def homes(population: Population, start: int, stop: int, people_cells: int) -> Homes:
    """Deal the persons of some geounits to their units, one by one, adults first.

    So every unit has someone, and sizes of units of a class differ by one at most.

    Args:
        population: Its units are of eight classes.
        start: First geounit.
        stop: The one behind the last.
        people_cells: Cells of the attributes behind the class, the first of which has two levels, minors as 0.
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


def put_number(lines: Bytes, start: int, width: int, values: Integers) -> None:
    """Write numbers with leading zeros into columns of lines.

    Args:
        lines: A line a row, (n, length).
        start: First column.
        width: Number of columns.
        values: Nonnegative, (n,).
    """
    rest = values.copy()
    for column in range(start + width - 1, start - 1, -1):
        rest, digit = np.divmod(rest, 10)
        lines[:, column] = digit + ord("0")
