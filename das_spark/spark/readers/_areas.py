"""Blocks with the entities that they lie in: what their codes must be, and text files with a line of names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.geography import BLOCK, ENTITY_COLUMNS, NO_AIAN_AREA, NO_ENTITY
from das_spark.io.cef import DELIMITER
from das_spark.io.input_fields import GEOCODE
from das_spark.io.input_files import first_line, require_path
from das_spark.io.listed_files import POSITION
from das_spark.io.table_folder import record_files
from das_spark.spark.input_rows import text_lines
from das_spark.spark.problems import (
    FAULTS,
    Problem,
    RowCheck,
    faults,
    is_not,
    problems_of,
    reading,
    refuse,
    row_numbers,
    some_geounits,
)
from das_spark.spark.readers.base import EntityBlocks

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


#: The functional status of what does not exist, and the one of a government that is active.
_NO_STATUS, _ACTIVE = "9", "A"

#: Columns of functional status, and the code that each is about.
STATUS_OF: Final[Mapping[str, str]] = MappingProxyType({"cousubfs": "cousubfp", "placefs": "placefp"})

_OWN_NOTHING: Final = {"aiannhce": NO_AIAN_AREA} | dict.fromkeys(STATUS_OF, _NO_STATUS)

#: Column -> what it holds for a block that lies in no such entity; its length is that of every code of the column.
NOTHING: Final[Mapping[str, str]] = MappingProxyType(
    {name: _OWN_NOTHING.get(name, NO_ENTITY) for name in ENTITY_COLUMNS}
)

STATUS_NOTE: Final = (
    "the files do not give the functional status of places and county subdivisions: each counts as functioning"
)

CODES_HINT: Final = "correct the file; codes are text, with their leading zeros"
_UNASSIGNED_AIAN: Final = ("4990", "4999")


@dataclass(frozen=True, slots=True)
class Delimited:
    """An opened text file, or several with the same line of names; `frame` has a row a line, and where it lies."""

    file: str
    frame: DataFrame
    header: str
    names: tuple[str, ...]

    @classmethod
    def open(
        cls, spark: SparkSession, paths: Sequence[str], wanted: Sequence[str], *, file: str, kind: str
    ) -> Delimited:
        for path in paths:
            require_path(path)
        with reading(file):
            lines = text_lines(spark, paths)
            first = lines.head()
        if first is None:
            raise InputError(f"{file}: the file is empty, so no geounit exists")
        header = str(first[0])
        return cls(file, lines, header, _names(header, wanted, file=file, kind=kind))

    @staticmethod
    def look(paths: Sequence[str], wanted: Sequence[str], *, file: str, kind: str) -> None:
        """See without Spark how text files begin."""
        for path in paths:
            require_path(path)
            for each in record_files(path):
                line = first_line(each, "latin-1")
                if not line:
                    raise InputError(f"{file}: the file is empty, so no geounit exists")
                _names(line, wanted, file=file, kind=kind)

    @property
    def is_row(self) -> Column:
        """True for every line but that of names."""
        return F.col("value") != self.header

    @property
    def whole(self) -> Column:
        """True where a line that is no line of names has as many columns as that."""
        return self.is_row & (F.size(self._parts()) == len(self.names))

    @property
    def form(self) -> RowCheck:
        """The rule that every line has as many columns as the line of names."""
        return RowCheck(self.file, "", f"{len(self.names)} columns, as in the first line", self.is_row & ~self.whole)

    def column(self, name: str) -> Column:
        """The text of a column, without spaces around it."""
        return F.trim(F.get(self._parts(), F.lit(self.names.index(name))))

    @staticmethod
    def _parts() -> Column:
        return F.split("value", rf"\{DELIMITER}", -1)


def _names(header: str, wanted: Sequence[str], *, file: str, kind: str) -> tuple[str, ...]:
    """Names in the first line, of which none that is wanted is missing."""
    names = tuple(name.strip() for name in header.lstrip("\ufeff").split(DELIMITER))
    missing = [name for name in wanted if name not in names]
    if missing:
        raise InputError(
            f"{file}: no column {', '.join(missing)}",
            hint=f"the first line names the columns, delimited by {DELIMITER}, as in {kind}",
        )
    return names


@dataclass(frozen=True, slots=True)
class AreaRows:
    """Rows of an opened file that hold blocks, before any check.

    Attributes:
        file: Its path, for messages.
        frame: Its rows, and where each lies.
        whole: True where a row can be taken apart.
        is_block: True where a whole row is that of a block; other whole rows are left out.
        geocode: Geocode of 16 characters of a block.
        geocode_field: What the file calls it.
        fields: Column of the entities -> what the file calls it, and its text.
        checks: Rules of the file itself, such as the number of its columns.
    """

    file: str
    frame: DataFrame
    whole: Column
    is_block: Column
    geocode: Column
    geocode_field: str
    fields: Mapping[str, tuple[str, Column]]
    checks: tuple[RowCheck, ...] = ()


def filled(text: Column, nothing: str) -> Column:
    """A code without spaces around it; what stands for nothing where it is blank or null."""
    trimmed = F.trim(text.cast("string"))
    return F.when(trimmed.isNull() | (trimmed == ""), F.lit(nothing)).otherwise(trimmed)


def status_of(code: Column, nothing: str) -> Column:
    """The functional status of an entity in files that give none: active where there is one."""
    return F.when(code == nothing, F.lit(_NO_STATUS)).otherwise(F.lit(_ACTIVE))


def code_checks(file: str, field: str, column: str, value: Column, where: Column) -> list[RowCheck]:
    """What the codes of a column must be."""
    width = len(NOTHING[column])
    if column in STATUS_OF:
        expected, pattern = "a functional status: one capital letter or digit", "^[A-Z0-9]$"
    else:
        expected, pattern = f"{width} digits, as text with leading zeros", f"^[0-9]{{{width}}}$"
    checks = [RowCheck(file, field, expected, where & ~value.rlike(pattern))]
    if column == "aiannhce":
        unassigned = (value == "0000") | value.between(*_UNASSIGNED_AIAN)
        expected = f"a code that is assigned to areas (0000 and {'-'.join(_UNASSIGNED_AIAN)} are not), or 9999 for none"
        checks.append(RowCheck(file, field, expected, where & unassigned))
    return checks


def checked(rows: AreaRows, notes: Sequence[str] = ()) -> EntityBlocks:
    """Check all rows and give the blocks."""
    block = rows.whole & rows.is_block
    values = {name: filled(text, NOTHING[name]) for name, (_, text) in rows.fields.items()}
    good = rows.geocode.rlike(f"^[0-9]{{{BLOCK}}}$")
    group = F.substring(rows.geocode, 12, 1) != F.substring(rows.geocode, 13, 1)
    digits = "the digits of state (2), county (3), tract (6) and block (4), as text with leading zeros"
    first = "a block group that is the first digit of the block"
    checks = [
        *rows.checks,
        RowCheck(rows.file, rows.geocode_field, digits, block & is_not(good)),
        RowCheck(rows.file, rows.geocode_field, first, block & good & group),
    ]
    for name, (field, _) in rows.fields.items():
        checks += code_checks(rows.file, field, name, values[name], block)
    columns = [F.when(block, rows.geocode).alias(GEOCODE), *(values[name].alias(name) for name in ENTITY_COLUMNS)]
    frame = rows.frame.select(faults(checks), *POSITION, *columns)
    with reading(rows.file):
        refuse(block_problems(rows.file, frame, checks), hint=CODES_HINT, public=True)
        repeated = repeated_blocks(rows.file, rows.geocode_field, frame)
        refuse(repeated, hint="each block lies in one tract and has one row", public=True)
    return EntityBlocks(frame.where(F.col(GEOCODE).isNotNull()).select(GEOCODE, *ENTITY_COLUMNS), tuple(notes))


def block_problems(file: str, frame: DataFrame, checks: Sequence[RowCheck]) -> list[Problem]:
    """The faults of rows that hold blocks, or an error where there is none."""
    is_block = F.col(GEOCODE).isNotNull().alias("is_block")
    counted = frame.groupBy(FAULTS, is_block).count().collect()
    problems = problems_of(frame, [(row[FAULTS], row["count"]) for row in counted], checks)
    if not problems and not any(row["is_block"] for row in counted):
        raise InputError(f"{file}: no block, so no geounit exists", hint="is it the whole file?")
    return problems


def repeated_blocks(file: str, field: str, rows: DataFrame) -> list[Problem]:
    """Blocks that stand in several rows."""
    several = rows.where(F.col(GEOCODE).isNotNull()).groupBy(GEOCODE).count().where("count > 1")
    some = some_geounits(several)
    if not some:
        return []
    bad = rows.join(several, GEOCODE, "left_semi")
    return [Problem(file, field, "each block once", bad.count(), row_numbers(rows, bad), some)]
