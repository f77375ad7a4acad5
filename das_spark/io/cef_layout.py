"""Lines of the census edited file (CEF) of 2020: the fields of unit and person records, and what they may hold.

Facts from the public release of the production code of 2020. A record is a line of fixed width, or the same fields
delimited by ``|``. What a field may hold is written as in the release: values and ranges separated by commas. A code
has as many characters as its field; a number may have leading zeros or spaces on either side; ``blank`` is all spaces.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

BLANK: Final = "blank"
DELIMITER: Final = "|"

STATES: Final = "01-02,04-06,08-13,15-42,44-51,53-56,72"
_MAFID: Final = "100000001-899999999"
_QUARTERS: Final = (
    "101-106,201-203,301,401-405,501,601-602,701-702,704,706,801-802,900-901,903-904,blank"  # types of group quarters
)
_RACE: Final = "1000-8999,9000,9500,9900"
_OTHER_RACE: Final = f"{_RACE},{BLANK}"


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
        return f"one of {self.allowed.replace(',', ', ')}" if self.allowed else "a number"

    @property
    def pattern(self) -> str:
        """Regular expression of the characters that the field may hold, of its full width."""
        if not self.allowed:
            return f"(?=[ 0-9]{{{self.width}}}) *[0-9]+ *"
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
    """Regular expression of the whole numbers of a range, all with as many digits as its ends.

    Args:
        low: The smallest, with leading zeros.
        high: The largest, of as many digits.
    """
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


@dataclass(frozen=True, slots=True)
class Record:
    """A kind of record.

    Args:
        name: For messages.
        fields: In order, without gaps.
    """

    name: str
    fields: tuple[Field, ...]

    @property
    def length(self) -> int:
        """Characters of a line."""
        return self.fields[-1].end

    @property
    def pattern(self) -> str:
        """Regular expression of a line in which every field is right."""
        return f"^(?=.{{{self.length}}}$){''.join(field.pattern for field in self.fields)}$"

    def field(self, name: str) -> Field:
        """A field by its name.

        Args:
            name: As the release spells it.

        Raises:
            StopIteration: The record has no such field.
        """
        return next(field for field in self.fields if field.name == name)


def _record(name: str, *fields: tuple[str, int, str]) -> Record:
    """Name, width and allowed values of each field, one behind the other."""
    made, start = [], 0
    for field, width, allowed in fields:
        made.append(Field(field, start, start + width, allowed))
        start += width
    return Record(name, tuple(made))


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

CLASSES: Final = 8
LARGEST_CLASS: Final = CLASSES - 1
"""Class of the first digits from 7 to 9 of a type of group quarters; others are the digit, 0 is a housing unit."""

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
