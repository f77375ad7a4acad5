"""The official P.L. 94-171 summary files of 2020: four kinds a state, and the rows of their lines.

Delimited by ``|``, without header, in Latin-1: the geographic header and three segments of tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.errors import InputError
from das_spark.geography import CENSUS_BLOCK
from das_spark.io.delimited_lines import DELIMITER, LineFields
from das_spark.io.input_fields import GEOCODE, matching
from das_spark.io.input_files import first_line
from das_spark.io.pl94_tables import HISPANIC_ITEMS, HOUSING_ITEMS, QUARTERS_ITEMS, TOTAL_ITEMS
from das_spark.io.table_folder import named_files
from das_spark.io.text_lines import TextLines
from das_spark.spark.lists import list_rows
from das_spark.spark.readers._resolved import COUNT, Kind, LineResolve, input_rows, kept, once
from das_spark.spark.readers._told import TOLD

if TYPE_CHECKING:
    from das_spark.io.input_fields import Rows

_ENCODING: Final = "ISO-8859-1"
_KEY_COLUMNS: Final = 5
#: Places of what identifies a record in a line of a segment.
_KEYS: Final[Mapping[str, int]] = {"STUSAB": 1, "LOGRECNO": 4}
BLOCK_LEVEL: Final = "750"
#: Places in a row of the header of what is read of it.
HEADER_PLACES: Final[Mapping[str, int]] = {"STUSAB": 1, "SUMLEV": 2, "GEOCOMP": 3, "LOGRECNO": 7, "GEOCODE": 9}
#: Summary levels above the block that have a row for every geounit, and the digits of their geocodes.
ABOVE: Final[Mapping[str, int]] = {"040": 2, "050": 5, "140": 11, "150": 12}
_WHOLE: Final = "00"
"""Geographic component of a row that is about a geounit, and not about a part of it such as its rural one."""


@dataclass(frozen=True, slots=True)
class SummaryKind:
    """One of the four kinds of files."""

    name: str
    pattern: str
    columns: int
    tables: tuple[tuple[str, int], ...]

    def field(self, position: int) -> str:
        """Name of the item in a 0-based place behind the key columns, such as P0010003."""
        for table, items in self.tables:
            if position < items:
                return f"{table}{position + 1:04d}"
            position -= items
        return "beyond the last item"

    def look(self, file: str) -> None:
        """See without Spark that a file begins with a row of as many columns."""
        columns = first_line(file, "latin-1").count(DELIMITER) + 1
        if columns != self.columns:
            expected = f"{columns} columns in its first line, expected {self.columns} delimited by {DELIMITER}"
            raise InputError(f"{file}: {expected}", hint=f"is it {self.pattern} of 2020, as published?")

    def line(self, places: Mapping[str, int]) -> LineFields:
        """Return the fields of a line, of which some have names."""
        names = {position: name for name, position in places.items()}
        return LineFields(tuple(names.get(position, "") for position in range(self.columns)), named=False)


HEADER: Final = SummaryKind("geo", "??geo*.pl", 97, ())
SEGMENTS: Final = (
    SummaryKind("segment1", "??00001*.pl", 149, (("P001", TOTAL_ITEMS), ("P002", HISPANIC_ITEMS))),
    SummaryKind(
        "segment2", "??00002*.pl", 152, (("P003", TOTAL_ITEMS), ("P004", HISPANIC_ITEMS), ("H001", HOUSING_ITEMS))
    ),
    SummaryKind("segment3", "??00003*.pl", 15, (("P005", QUARTERS_ITEMS),)),
)
KINDS: Final = (HEADER, *SEGMENTS)


#: How other names begin or end that may be official files: copies, and those of states that are packed.
_ALIKE: Final = ("??geo*", "??0000[123]*", "*.pl", "*.pl.*", "*.pl *")
_STATE: Final = slice(2)


def summary_files(folder: str) -> list[str]:
    """List the official files in a folder."""
    return named_files(folder, [kind.pattern for kind in KINDS], _ALIKE, _STATE)


def find_files(folder: str) -> dict[str, list[str]]:
    """The files of every kind, one of each for every state in the folder."""
    by_state: dict[str, dict[str, list[str]]] = {}
    for path in summary_files(folder):
        name = path.rsplit("/", 1)[-1].lower()
        for kind in KINDS:
            if fnmatch(name, kind.pattern):
                by_state.setdefault(name[:2], {}).setdefault(kind.name, []).append(path)
    if not by_state:
        raise InputError(
            f"{folder}: no official summary file ({HEADER.pattern} and others)", hint="unzip the files of the states"
        )
    for state, files in sorted(by_state.items()):
        for kind in KINDS:
            number = len(files.get(kind.name, ()))
            if number != 1:
                what = "no file" if number == 0 else f"{number} files"
                raise InputError(f"{folder}: {what} {state}{kind.pattern[2:]} of state {state.upper()}, expected one")
    return {kind.name: [path for files in by_state.values() for path in files[kind.name]] for kind in KINDS}


def lines_of(files: Sequence[str]) -> TextLines:
    """List files of lines."""
    return TextLines.of(files, encoding=_ENCODING)


#: What is made of lines. record: of a state, which is in every kind of file. file: place of the kind. level: summary
#: level of a row of a whole geounit that is read, else empty. items: numbers of a segment.
RECORD_ROWS: Final = pa.schema(
    [
        ("record", pa.string()),
        ("kind", pa.int8()),
        ("file", pa.int8()),
        ("level", pa.string()),
        (GEOCODE, pa.string()),
        ("items", pa.list_(pa.int64())),
        (COUNT, pa.int64()),
        (TOLD, pa.string()),
    ]
)


class _SummaryLines(LineResolve):
    """Lines of one kind of files."""

    __slots__ = ()
    schema = RECORD_ROWS
    kinds = (Kind.GEOGRAPHY,)

    def made(self, lines: Rows, file: int, columns: Mapping[str, pa.Array]) -> pa.RecordBatch:
        """Make rows of lines that break no rule.

        Args:
            lines: With STUSAB and LOGRECNO.
            file: Place of the kind.
            columns: What else the rows have.
        """
        record = lines.column("LOGRECNO")
        lines.check("LOGRECNO", "a whole number", ~matching(record, "^[0-9]{1,9}$"))
        number = pc.utf8_ltrim(record, "0")
        key = pc.binary_join_element_wise(lines.column("STUSAB"), number, DELIMITER)
        keys = {"record": key, COUNT: once(len(lines)), "file": np.full(len(lines), file, dtype=np.int8)}
        return kept(input_rows(Kind.GEOGRAPHY, {**keys, **columns}, len(lines), self.schema), lines)


class RecordHeaders(_SummaryLines):
    """Lines of the header: records with their geounits."""

    __slots__ = ()

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        lines = HEADER.line(HEADER_PLACES).cut(rows, tuple(HEADER_PLACES))
        level, geocode = lines.column("SUMLEV"), lines.column("GEOCODE")
        is_block = np.asarray(pc.equal(level, BLOCK_LEVEL))
        digits = matching(geocode, f"^[0-9]{{{CENSUS_BLOCK}}}$")
        read = pc.and_(pc.is_in(level, pa.array(ABOVE)), pc.equal(lines.column("GEOCOMP"), _WHOLE))
        columns = {"level": pc.if_else(pc.or_(read, pa.array(is_block)), level, ""), GEOCODE: geocode}
        lines.check("GEOCODE", f"{CENSUS_BLOCK} digits in a block's row", is_block & ~digits)
        return self.made(lines, 0, columns)


@dataclass(frozen=True, slots=True)
class RecordItems(_SummaryLines):
    """Lines of a segment: records with the numbers of its tables."""

    number: int

    def __call__(self, rows: Rows) -> pa.RecordBatch:
        """See `Resolve`."""
        kind = KINDS[self.number]
        whole, fields = kind.line(_KEYS).all_of(rows)
        every = np.arange(len(fields)).reshape(-1, kind.columns)
        keys = {name: fields.take(pa.array(every[:, position])) for name, position in _KEYS.items()}
        lines = rows.of(whole, keys)
        places = every[:, _KEY_COLUMNS:]
        items = fields.take(pa.array(places.ravel()))
        good = matching(items, "^[0-9]{1,15}$").reshape(places.shape)
        for position in np.flatnonzero(~good.all(axis=0)).tolist():
            lines.check(kind.field(position), "a whole number", ~good[:, position])
        numbers = pc.if_else(pa.array(good.ravel()), items, "0").cast(pa.int64())
        return self.made(lines, self.number, {"items": list_rows(np.asarray(numbers).reshape(places.shape))})
