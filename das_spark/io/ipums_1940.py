"""The IPUMS extract of the 1940 census, EXT1940USCB.dat: its fields, and a simulated 1940 in that layout.

Of simulated people, only the fields that the system reads carry meaning; the others hold zeros. Persons of a class
are assigned to its units one by one, adults first, so that each has someone and household sizes differ by one at most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from das_spark.io.record_text import Bytes, Field, Integers, Record, RecordText, all_digits, homes, put_number

if TYPE_CHECKING:
    from das_spark.simulation import Population


_SERIAL = Field("SERIAL", 7, 15, all_digits(8))

PARTS: Final = ("*.dat", "*.dat.gz", "*.txt", "*.txt.gz", "part-*")
"""Names of data files in a folder, where a README may stand beside them."""

GEOCODE_PARTS = ("STATEFIP, COUNTY", "ENUMDIST")
"""State, county and enumeration district of a household line: together its geocode of ten digits."""

HOUSEHOLD = Record(
    "H",
    (
        _SERIAL,
        Field(GEOCODE_PARTS[0], 53, 59, all_digits(6)),
        Field("GQ", 93, 94, "0-6"),
        Field("GQTYPE", 94, 95, "0,2-4,6-9"),  # types 1 and 5 of group quarters do not occur in 1940
        Field(GEOCODE_PARTS[1], 124, 128, all_digits(4)),
    ),
    159,
)
PERSON = Record(
    "P",
    (
        _SERIAL,
        Field("AGE", 73, 76, "000-135"),
        Field("RACE", 84, 85, "1-6"),
        Field("HISPAN", 88, 89, "0-4,9"),
    ),
    273,
)

_GQTYPE_OF_CLASS = np.array([0, 2, 3, 4, 6, 7, 8, 9])
_GQ_OF_CLASS = np.array([1, 3, 3, 3, 4, 4, 4, 4])
_CLASSES = 8
_CELLS_OF_CLASS = 24
_CELLS_OF_AGE = 12
_RACES = 6
_DISTRICTS_AT_ONCE = 200


def lines(population: Population, first_serial: int) -> Iterator[tuple[bytes, int]]:
    """A population as lines, each household before its persons, some districts at a time; with numbers of units."""
    for start in range(0, len(population.geocodes), _DISTRICTS_AT_ONCE):
        stop = min(start + _DISTRICTS_AT_ONCE, len(population.geocodes))
        text, units = _chunk(population, start, stop, first_serial)
        first_serial += units
        yield text, units


def _chunk(population: Population, start: int, stop: int, first_serial: int) -> tuple[bytes, int]:
    made = homes(population, start, stop, _CELLS_OF_CLASS)
    serial = first_serial + np.arange(len(made.kind))
    households = _household_lines(serial, made.size, population.geocodes[start:stop][made.place], made.kind)
    persons = _person_lines(serial[made.unit], made.rank, made.cell)
    household_bytes, person_bytes = households.shape[1], persons.shape[1]
    before = np.cumsum(made.size) - made.size
    position = np.arange(len(made.kind)) * household_bytes + before * person_bytes
    text = np.empty(households.size + persons.size, dtype=np.uint8)
    text[position[:, None] + np.arange(household_bytes)] = households
    place = position[made.unit] + household_bytes + made.rank * person_bytes
    text[place[:, None] + np.arange(person_bytes)] = persons
    return text.tobytes(), len(made.kind)


def _lines(record: Record, serial: Integers) -> RecordText:
    lines = RecordText(record, len(serial))
    lines.text[:, :7] = np.frombuffer(f"{record.name}194001".encode(), dtype=np.uint8)
    lines.put(SERIAL=serial)
    return lines


def _household_lines(serial: Integers, sizes: Integers, geocodes: NDArray[np.str_], level: Integers) -> Bytes:
    lines = _lines(HOUSEHOLD, serial)
    put_number(lines.text, 15, 2, np.minimum(sizes, 99))
    digits = np.char.encode(geocodes, "ascii").view(np.uint8).reshape(len(geocodes), -1)
    first = 0
    for field in map(HOUSEHOLD.field, GEOCODE_PARTS):
        lines.text[:, field.start : field.end] = digits[:, first : first + field.width]
        first += field.width
    vacant = level == _CLASSES
    level = np.where(vacant, 0, level)
    lines.put(GQ=np.where(vacant, 0, _GQ_OF_CLASS[level]), GQTYPE=_GQTYPE_OF_CLASS[level])
    return lines.text


def _person_lines(serial: Integers, rank: Integers, cell: Integers) -> Bytes:
    lines = _lines(PERSON, serial)
    put_number(lines.text, 15, 4, (rank + 1) % 10_000)
    put_number(lines.text, 72, 1, 1 + rank % 2)
    adult = cell // _CELLS_OF_AGE % 2
    lines.put(AGE=np.where(adult == 1, 18 + (rank * 17 + serial) % 70, (rank * 5 + serial) % 18))
    lines.put(RACE=1 + cell % _RACES, HISPAN=cell // _RACES % 2)
    return lines.text
