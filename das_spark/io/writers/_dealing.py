"""Persons dealt to units: which person lives in which unit of the microdata, as arrays.

In a leaf geounit the persons of a class (household, or a kind of group quarters) are dealt in turn to the units of that
class: with U units, person j (counted from 0, in the order of cells) goes to unit j mod U as its person number
j div U + 1. Units are numbered from 0 over the whole file, ordered by geocode, then class (vacant units last), then
number. Source: the rules of the person and unit files of the 2018 End-to-End test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Geounits:
    """What is counted (people, or units), and the units that people are dealt to, of K leaf geounits.

    Attributes:
        cells: Shape (n,), int64: occupied cells, geounit after geounit.
        counts: Shape (n,), int64: people in them.
        owner: Shape (n,), int64 in [0, K): whose cell it is, ascending.
        units: Shape (K, C + 1), int64: units by class, vacant ones last; None where no units are known.
    """

    cells: Integers
    counts: Integers
    owner: Integers
    units: Integers | None


@dataclass(frozen=True, slots=True, eq=False)
class PersonBlock:
    """Persons in the order in which they are written; all arrays of shape (persons,).

    Attributes:
        owner: Their geounit.
        cell: Their cell.
        unit_number: Number of their unit over the whole file; None without units.
        person_number: Their number in the unit, from 1; None without units.
    """

    owner: Integers
    cell: Integers
    unit_number: Integers | None
    person_number: Integers | None


@dataclass(frozen=True, slots=True, eq=False)
class UnitBlock:
    """Units in the order of their numbers; all arrays of shape (units,).

    Attributes:
        owner: Their geounit.
        kind: Their class; C (one more than the last) for vacant units.
        unit_number: Number over the whole file.
        population: Persons dealt to the unit.
    """

    owner: Integers
    kind: Integers
    unit_number: Integers
    population: Integers


def with_listed(geounits: Geounits, units: Integers, cell: int) -> Geounits:
    """Add the group quarters of each geounit, to be listed behind what is counted.

    Args:
        geounits: What is counted.
        units: Shape (K, C + 1): units by class, vacant ones last; those of classes 1 to C - 1 are listed.
        cell: What stands for the cell of group quarters; greater than all cells.

    Returns:
        The same geounits with one more entry each, without units.
    """
    owner = np.concatenate([geounits.owner, np.arange(len(units), dtype=np.int64)])
    order = np.argsort(owner, kind="stable")
    cells = np.concatenate([geounits.cells, np.full(len(units), cell, dtype=np.int64)])
    counts = np.concatenate([geounits.counts, units[:, 1:-1].sum(axis=1)])
    return Geounits(cells[order], counts[order], owner[order], None)


def class_margins(geounits: Geounits, class_of_cell: Integers, rows: int, classes: int) -> Integers:
    """People by class, shape (K, C).

    Args:
        geounits: People and units.
        class_of_cell: Shape (cells of the schema,): class of each cell.
        rows: K.
        classes: C.
    """
    key = geounits.owner * classes + class_of_cell[geounits.cells]
    sums = np.zeros(rows * classes, dtype=np.int64)
    np.add.at(sums, key, geounits.counts)
    return sums.reshape(rows, classes)


def undealable(margins: Integers, units: Integers, least: Integers) -> NDArray[np.bool_]:
    """Geounits whose people cannot be dealt, shape (K,): people without a unit, or a unit left with too few.

    Args:
        margins: Shape (K, C): people by class.
        units: Shape (K, C + 1).
        least: Shape (C,): least persons of a unit.
    """
    homeless = (margins > 0) & (units[:, :-1] == 0)
    return np.asarray((homeless | (margins < least * units[:, :-1])).any(axis=1))


def deal_persons(
    geounits: Geounits, class_of_cell: Integers, first_unit: int, most: int = 1 << 20
) -> Iterator[PersonBlock]:
    """Expand cells to persons, each with a unit.

    Args:
        geounits: People and units.
        class_of_cell: Shape (cells of the schema,): class of each cell.
        first_unit: Number of the first unit of the first geounit.
        most: Largest number of persons of a block.

    Yields:
        Blocks of at most `most` persons, geounit after geounit; in a geounit by class, then by cell.
    """
    if geounits.units is None:
        for entry, counts, _ in _pieces(geounits.counts, most):
            yield PersonBlock(
                np.repeat(geounits.owner[entry], counts), np.repeat(geounits.cells[entry], counts), None, None
            )
        return
    classes = geounits.units.shape[1] - 1
    kind = class_of_cell[geounits.cells]
    order = np.lexsort((geounits.cells, kind, geounits.owner))
    owner, cells, counts, kind = (array[order] for array in (geounits.owner, geounits.cells, geounits.counts, kind))
    first_person = _running_within(owner * classes + kind, counts)
    base = _first_units(geounits.units, first_unit)[owner, kind]
    units = np.maximum(geounits.units[owner, kind], 1)
    for entry, counts_here, skipped in _pieces(counts, most):
        ordinal = _ramp(first_person[entry] + skipped, counts_here)
        turn, slot = np.divmod(ordinal, np.repeat(units[entry], counts_here))
        yield PersonBlock(
            np.repeat(owner[entry], counts_here),
            np.repeat(cells[entry], counts_here),
            np.repeat(base[entry], counts_here) + slot,
            turn + 1,
        )


def list_units(units: Integers, margins: Integers, first_unit: int, most: int = 1 << 20) -> Iterator[UnitBlock]:
    """Expand unit counts to units, each with the number of persons that `deal_persons` gives it.

    Args:
        units: Shape (K, C + 1): units by class, vacant ones last.
        margins: Shape (K, C): people by class, as `class_margins` counts them.
        first_unit: Number of the first unit of the first geounit.
        most: Largest number of units of a block.

    Yields:
        Blocks of at most `most` units. A unit of class 0 that got nobody counts as vacant.
    """
    rows, kinds = units.shape
    counts = units.ravel()
    people = np.concatenate([margins, np.zeros((rows, 1), dtype=np.int64)], axis=1).ravel()
    base = _first_units(units, first_unit).ravel()
    share, more = np.divmod(people, np.maximum(counts, 1))
    for entry, counts_here, skipped in _pieces(counts, most):
        slot = _ramp(skipped, counts_here)
        population = np.repeat(share[entry], counts_here) + (slot < np.repeat(more[entry], counts_here))
        kind = np.repeat(entry % kinds, counts_here)
        kind = np.where((kind == 0) & (population == 0), kinds - 1, kind)
        yield UnitBlock(
            np.repeat(entry // kinds, counts_here), kind, np.repeat(base[entry], counts_here) + slot, population
        )


def _first_units(units: Integers, first_unit: int) -> Integers:
    """Number of the first unit of each geounit and kind, shape of `units`."""
    flat = units.ravel()
    return (first_unit + np.cumsum(flat) - flat).reshape(units.shape)


def _running_within(groups: Integers, counts: Integers) -> Integers:
    """Exclusive running sum of counts that starts anew with each group; groups ascend."""
    before = np.cumsum(counts) - counts
    starts = np.flatnonzero(np.diff(groups, prepend=-1))
    lengths = np.diff(np.append(starts, len(groups)))
    return before - np.repeat(before[starts], lengths)


def _ramp(starts: Integers, counts: Integers) -> Integers:
    """starts[0], starts[0] + 1, ... (counts[0] numbers), starts[1], ...; shape (sum of counts,)."""
    ends = np.cumsum(counts)
    numbers = np.arange(ends[-1] if len(ends) else 0, dtype=np.int64)
    shifted: Integers = numbers + np.repeat(starts - (ends - counts), counts)
    return shifted


def _pieces(counts: Integers, most: int) -> Iterator[tuple[Integers, Integers, Integers]]:
    """Cut repeated entries into blocks of at most `most`: (entries, how many of each, how many were used before)."""
    ends = np.cumsum(counts)
    starts = ends - counts
    total = int(ends[-1]) if len(ends) else 0
    for low in range(0, total, most):
        high = min(low + most, total)
        entry = np.arange(np.searchsorted(ends, low, "right"), np.searchsorted(starts, high, "left"))
        begin = np.maximum(starts[entry], low)
        yield entry, np.minimum(ends[entry], high) - begin, begin - starts[entry]
