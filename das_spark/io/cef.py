"""Lines of the census edited file (CEF) of 2020: the fields of unit and person records, and what they may hold.

Facts from the public release of the production code of 2020. A record is a line of fixed width, or the same fields
delimited by ``|``; `das_spark.io.record_text` says how its fields are written.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np

from das_spark.io.record_text import BLANK, Bytes, Field, Homes, Integers, Record, RecordText, homes
from das_spark.products import HOUSEHOLD_TYPES
from das_spark.simulation import entities

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from das_spark.simulation import Population


DELIMITER: Final = "|"

STATES: Final = "01-02,04-06,08-13,15-42,44-51,53-56,72"
_MAFID: Final = "100000001-899999999"
_TYPES_OF_QUARTERS: Final = "101-106,201-203,301,401-405,501,601-602,701-702,704,706,801-802,900-901,903-904"
_QUARTERS: Final = f"{_TYPES_OF_QUARTERS},{BLANK}"
_RACE: Final = "1000-8999,9000,9500,9900"
_OTHER_RACE: Final = f"{_RACE},{BLANK}"


def _record(name: str, *fields: tuple[str, int, str]) -> Record:
    """Name, width and allowed values of each field, one behind the other."""
    made, start = [], 0
    for field, width, allowed in fields:
        made.append(Field(field, start, start + width, allowed))
        start += width
    return Record(name, tuple(made), start)


UNIT: Final = _record(
    "unit",
    ("RTYPE", 1, "2,4"),
    ("MAFID", 9, _MAFID),
    ("BCUSTATEFP", 2, STATES),
    ("VERSION", 5, "00000-99999"),
    ("FINAL_POP", 5, "0-99999"),
    ("HHLDRAGE", 3, "15-115,blank"),
    ("HHSPAN", 1, "1-2,blank"),
    ("HHLDRACE", 1, "1-6,blank"),
    ("HHRACE", 2, "01-63,blank"),
    ("TEN", 1, "0-4"),
    ("TEN_A", 1, "0-4"),
    ("TEN_R", 1, "0-4"),
    ("VACS", 1, "0-7"),
    ("QGQTYP", 3, _QUARTERS),
    ("GQSEX", 1, "1-3,blank"),
    ("OIDTB", 22, ""),
    ("HHT", 1, "0-7"),
    ("HHT2", 2, "00-12"),
    ("CPLT", 1, "0-5"),
    ("UPART", 1, "0-5"),
    ("MULTG", 1, "0-2"),
    ("PAOC", 1, "0-4"),
    ("P18", 2, "0-99"),
    ("P60", 2, "0-99"),
    ("P65", 2, "0-99"),
    ("P75", 2, "0-99"),
    ("PAC", 1, "0-4"),
    ("HHSEX", 1, "0-2"),
)
"""A housing unit (RTYPE 2) or a facility of group quarters (4): 76 characters."""

PERSON: Final = _record(
    "person",
    ("RTYPE", 1, "3,5"),
    ("MAFID", 9, _MAFID),
    ("CUF_PNC", 5, "1-99999"),
    ("BCUSTATEFP", 2, STATES),
    ("VERSION", 5, "00000-99999"),
    ("QSEX", 1, "1-2"),
    ("QAGE", 3, "0-115"),
    ("QDB", 8, "19040402-20200401"),
    ("QDOB_MONTH", 2, "1-12"),
    ("QDOB_DAY", 2, "1-31"),
    ("QDOB_YEAR", 4, "1904-2020"),
    ("QSPAN", 4, f"{_RACE},9950"),
    ("QSPANX", 1, "1-7"),
    ("CENHISP", 1, "1-2"),
    ("QRACE1", 4, _RACE),
    *((f"QRACE{number}", 4, _OTHER_RACE) for number in range(2, 9)),
    ("QRACEX", 1, "1-6"),
    ("CENRACE", 2, "01-63"),
    ("RACE2010", 2, "01-31"),
    ("RELSHIP", 2, "20-38"),
    ("QGQTYP", 3, _QUARTERS),
    ("LIVE_ALONE", 1, "0-2"),
)
"""A person in a household (RTYPE 3) or in group quarters (5): 91 characters."""

RELGQ: Final = "RELGQ"
"""Field that readers derive: relationship of people in households, type of group quarters of all others."""

ALONE, HOUSEHOLDER, LAST_RELATIONSHIP = 19, 20, 36
"""Codes of RELGQ: a householder who lives alone and one who does not; the last RELSHIP of people in households."""

TENVAC, ELDERLY, HHTYPE = "TENVAC", "ELDERLY", "HHTYPE"
"""Fields that readers derive of housing units: tenure of occupied ones, 1 to 4, or kind of vacancy, from 5 on; and of
households: age of the oldest member, from 60 on in three classes, and type, its code."""

DERIVED: Final = {
    TENVAC: ("TEN", "VACS"),
    ELDERLY: ("P60", "P65", "P75"),
    HHTYPE: ("CPLT", "PAOC", "PAC", "P18", "HHT", "MULTG", "FINAL_POP"),
}
"""Derived field of a unit record -> the fields that it is made of."""

UNIT_CODES: Final = {**UNIT.codes, TENVAC: "1-11"}
"""Codes of what the record of a housing unit tells."""

HOUSEHOLD_CODES: Final = {
    **UNIT.codes,
    "HHLDRAGE": "15-115",
    "HHSPAN": "1-2",
    "HHRACE": "01-63",
    "TEN": "1-4",
    "HHSEX": "1-2",
    ELDERLY: "0-3",
    HHTYPE: ",".join(str(each.code) for each in HOUSEHOLD_TYPES),
}
"""Codes of what the record of an occupied housing unit tells, of the household that lives there."""

PERSON_CODES: Final = {**PERSON.codes, RELGQ: f"{ALONE}-{LAST_RELATIONSHIP},{_TYPES_OF_QUARTERS}"}
"""Codes of what a person record tells, its own fields and the derived one."""

GEOCODE_PARTS: Final = (("TABBLKST", 2), ("TABBLKCOU", 3), ("TABTRACTCE", 6), ("TABBLKGRPCE", 1), ("TABBLK", 4))
"""Columns of the geographic reference file (GRF-C), and digits of each, that together are a block's geocode of 16."""

ENTITY_PARTS: Final = (
    ("AIANNHCE", 4),
    ("COUSUBFP", 5),
    ("COUSUBFS", 1),
    ("PLACEFP", 5),
    ("PLACEFS", 1),
    ("SDUNILEA", 5),
    ("SDSECLEA", 5),
    ("SDELMLEA", 5),
)
"""Columns of that file, and characters of each, with the entities that a block lies in: what a spine is made from."""

BLOCK_KEY: Final = "OIDTABBLK"
"""Column of that file to which OIDTB of a unit leads."""

FILES: Final = ("persons", "units", "geography")
"""Names of the three files in a folder, before their ending."""

ENDINGS: Final = (".txt", ".txt.gz")


FIRST_UNIT = 100_000_001
FIRST_BLOCK = 20_700_000_000_001
"""Number that the first unit and the first block of a file have."""

_PEOPLE = 2 * 2 * 63
_RACES = 63
_CENSUS_YEAR, _OLDEST_MINOR, _ADULT, _ADULT_AGES = 2020, 17, 18, 70
_VACANT = 8
_LAST_INSTITUTION = 4
_BLOCKS_AT_ONCE = 10_000

_TYPES = (
    (0,),
    (101, 102, 103, 104, 105, 106),
    (201, 202, 203),
    (301,),
    (401, 402, 403, 404, 405),
    (501,),
    (601, 602),
    (701, 801, 802, 702, 704, 706, 900, 901, 903, 904),
)
"""Types of group quarters of each class."""

_SETS = [set(races) for size in range(1, 7) for races in combinations(range(6), size)]
_OTHER = 5
_OF_FIVE = [races for races in _SETS if _OTHER not in races]
_RACE2010 = np.array([1 + _OF_FIVE.index(races - {_OTHER} or {0}) for races in _SETS])
"""Combination of five races of each of the 63 of six, 1 to 31; other race alone counts as White."""

_HEADER = (*(name for name, _ in (*GEOCODE_PARTS, *ENTITY_PARTS)), BLOCK_KEY)
HEADER = f"{DELIMITER.join(_HEADER)}\n".encode()
"""First line of the geographic reference file: the columns that readers need, those of entities among them."""


def race_of_2010(race: Integers) -> Integers:
    """RACE2010, 1 to 31, of races of 63, 0 to 62."""
    found: Integers = _RACE2010[race]
    return found


def block_lines(geocodes: NDArray[np.str_], first_block: int) -> bytes:
    """Blocks as rows of the geographic reference file."""
    ends = np.cumsum([digits for _, digits in GEOCODE_PARTS]).tolist()
    starts = [0, *ends[:-1]]
    codes = entities(geocodes)
    of_blocks = zip(*(codes[name].tolist() for name, _ in ENTITY_PARTS), strict=True)
    rows = [
        DELIMITER.join(
            [*(code[start:end] for start, end in zip(starts, ends, strict=True)), *own, str(first_block + place)]
        )
        for place, (code, own) in enumerate(zip(geocodes.tolist(), of_blocks, strict=True))
    ]
    return "".join(f"{row}\n" for row in rows).encode()


def record_lines(population: Population, first_unit: int, first_block: int) -> Iterator[tuple[bytes, bytes, int]]:
    """The units and persons of a population, some blocks at a time: unit lines, person lines, number of units."""
    for start in range(0, len(population.geocodes), _BLOCKS_AT_ONCE):
        stop = min(start + _BLOCKS_AT_ONCE, len(population.geocodes))
        made = homes(population, start, stop, _PEOPLE)
        states = np.array([int(code[:2]) for code in population.geocodes[start:stop].tolist()])
        number = first_unit + np.arange(len(made.kind))
        units = _unit_lines(made, number, states, first_block + start)
        yield units.tobytes(), _person_lines(made, number, states).tobytes(), len(number)
        first_unit += len(number)


def _types(made: Homes) -> Integers:
    """Type of group quarters of each unit, 0 in housing units; types of a class take turns."""
    kind = np.where(made.kind == _VACANT, 0, made.kind)
    table = np.array([[types[turn % len(types)] for turn in range(60)] for types in _TYPES])
    found: Integers = table[kind, np.arange(len(kind)) % table.shape[1]]
    return found


def _ages(made: Homes) -> Integers:
    adult = made.cell // (_PEOPLE // 2) % 2
    ages: Integers = np.where(
        adult == 1,
        _ADULT + (made.rank * 17 + made.unit) % _ADULT_AGES,
        (made.rank * 5 + made.unit) % (_OLDEST_MINOR + 1),
    )
    return ages


def _unit_lines(made: Homes, number: Integers, states: Integers, first_block: int) -> Bytes:
    lines = RecordText(UNIT, len(number))
    quarters = (made.kind > 0) & (made.kind < _VACANT)
    occupied, vacant = made.kind == 0, made.kind == _VACANT
    head = np.searchsorted(made.unit, np.arange(len(number)))[occupied]  # every household has someone
    cell, age = made.cell[head], _ages(made)[head]
    tenure = np.where(occupied, 1 + number % 4, 0)
    lines.put(RTYPE=np.where(quarters, 4, 2), MAFID=number, BCUSTATEFP=states[made.place], VERSION=1)
    lines.put(FINAL_POP=made.size, TEN=tenure, TEN_A=tenure, TEN_R=tenure, VACS=np.where(vacant, 1 + number % 7, 0))
    lines.put(QGQTYP=_types(made), OIDTB=first_block + made.place)
    holder = {"HHLDRAGE": np.maximum(age, 15), "HHSPAN": 1 + cell // _RACES % 2, "HHRACE": 1 + cell % _RACES}
    holder |= {"HHLDRACE": 1 + np.minimum(cell % _RACES, 5), "HHSEX": 1 + number[occupied] % 2}
    for name, values in holder.items():
        every = np.zeros(len(number), dtype=np.int64)
        every[occupied] = values
        lines.put(**{name: every})
        if name != "HHSEX":
            lines.blank(name, ~occupied)
    lines.put(GQSEX=3)
    lines.blank("GQSEX", ~quarters)
    lines.blank("QGQTYP", ~quarters)
    return lines.text


def _person_lines(made: Homes, number: Integers, states: Integers) -> Bytes:
    lines = RecordText(PERSON, len(made.unit))
    level, age = made.cell // _PEOPLE, _ages(made)
    hispanic, race = made.cell // _RACES % 2, made.cell % _RACES
    year = _CENSUS_YEAR - age  # born on the first of January: that old on the first of April
    lines.put(RTYPE=np.where(level > 0, 5, 3), MAFID=number[made.unit], CUF_PNC=made.rank + 1)
    lines.put(BCUSTATEFP=states[made.place[made.unit]], VERSION=1, QSEX=1 + made.rank % 2, QAGE=age)
    lines.put(QDB=year * 10_000 + 101, QDOB_MONTH=1, QDOB_DAY=1, QDOB_YEAR=year)
    lines.put(QSPAN=np.where(hispanic == 1, 2000, 1000), QSPANX=1 + hispanic, CENHISP=1 + hispanic)
    lines.put(QRACE1=1000, QRACEX=1 + np.minimum(race, 5), CENRACE=1 + race, RACE2010=race_of_2010(race))
    at_home = np.where(made.rank == 0, 20, 33)
    lines.put(RELSHIP=np.where(level == 0, at_home, np.where(level <= _LAST_INSTITUTION, 37, 38)))
    lines.put(QGQTYP=_types(made)[made.unit])
    lines.put(LIVE_ALONE=np.where(level > 0, 0, np.where(made.size[made.unit] == 1, 1, 2)))
    lines.blank("QGQTYP", level == 0)
    for place in range(2, 9):
        lines.blank(f"QRACE{place}")
    return lines.text
