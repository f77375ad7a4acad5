"""A synthetic state of 2020 with relationships and households, as lines of the census edited file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from das_spark.io.cef import LAST_RELATIONSHIP, PERSON, UNIT, race_of_2010
from das_spark.io.record_text import RecordText
from das_spark.simulation import household_fields

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.io.record_text import Bytes, Integers
    from das_spark.simulation import Records


_CENSUS_YEAR, _MAJOR_RACES = 2020, 6
_NOT_ALONE = 2
_HISPANIC_CODE, _OTHER_CODE = 2000, 1000


def people_lines(
    geocodes: NDArray[np.str_], records: Records, first_unit: int, first_block: int
) -> tuple[bytes, bytes, int]:
    """The units and persons of some blocks: unit lines, person lines, number of units.

    Args:
        geocodes: Of all blocks of the state, (D,).
        records: Of some of them.
        first_unit: MAFID of the first unit of the records.
        first_block: Key of the first of all blocks.
    """
    units = len(records.block)
    number = first_unit + np.arange(units)
    states = np.full(units, int(geocodes[0][:2])) if len(geocodes) else np.zeros(units, dtype=np.int64)
    size = np.bincount(records.unit, minlength=units)
    of_units = _unit_lines(records, number, states, size, first_block)
    return of_units.tobytes(), _person_lines(records, number, states, size).tobytes(), units


def _unit_lines(records: Records, number: Integers, states: Integers, size: Integers, first_block: int) -> Bytes:
    lines = RecordText(UNIT, len(number))
    quarters = records.quarters > 0
    lines.put(RTYPE=np.where(quarters, 4, 2), MAFID=number, BCUSTATEFP=states, VERSION=1, FINAL_POP=size)
    lines.put(TEN=records.tenure, TEN_A=records.tenure, TEN_R=records.tenure, VACS=records.vacancy)
    lines.put(QGQTYP=records.quarters, GQSEX=3, OIDTB=first_block + records.block)
    lines.blank("QGQTYP", ~quarters)
    lines.blank("GQSEX", ~quarters)
    at_home = records.relationship <= LAST_RELATIONSHIP
    occupied, home = np.unique(records.unit[at_home], return_inverse=True)
    people = (records.relationship, records.woman, records.age, records.hispanic, records.race)
    derived = household_fields(home, *(person[at_home] for person in people))
    others = np.ones(len(number), dtype=bool)
    others[occupied] = False
    for name, values in derived.items():
        every = size.copy() if name == "FINAL_POP" else np.zeros(len(number), dtype=np.int64)
        every[occupied] = values
        lines.put(**{name: every})
    for name in ("HHLDRAGE", "HHSPAN", "HHLDRACE", "HHRACE"):
        lines.blank(name, others)
    return lines.text


def _person_lines(records: Records, number: Integers, states: Integers, size: Integers) -> Bytes:
    lines = RecordText(PERSON, len(records.unit))
    unit, quarters = records.unit, records.quarters[records.unit]
    turn = np.arange(len(unit)) - (np.cumsum(size) - size)[unit]
    in_quarters = quarters > 0
    year = _CENSUS_YEAR - records.age  # born on the first of January: that old on the first of April
    lines.put(RTYPE=np.where(in_quarters, 5, 3), MAFID=number[unit], CUF_PNC=1 + turn, BCUSTATEFP=states[unit])
    lines.put(VERSION=1, QSEX=1 + records.woman, QAGE=records.age)
    lines.put(QDB=year * 10_000 + 101, QDOB_MONTH=1, QDOB_DAY=1, QDOB_YEAR=year)
    lines.put(QSPAN=np.where(records.hispanic == 1, _HISPANIC_CODE, _OTHER_CODE), QSPANX=1 + records.hispanic)
    lines.put(CENHISP=1 + records.hispanic, QRACE1=_OTHER_CODE)
    lines.put(QRACEX=1 + np.minimum(records.race, _MAJOR_RACES - 1))
    lines.put(CENRACE=1 + records.race, RACE2010=race_of_2010(records.race), RELSHIP=records.relationship)
    lines.put(QGQTYP=quarters, LIVE_ALONE=np.select([in_quarters, size[unit] == 1], [0, 1], _NOT_ALONE))
    lines.blank("QGQTYP", ~in_quarters)
    for place in range(2, 9):
        lines.blank(f"QRACE{place}")
    return lines.text
