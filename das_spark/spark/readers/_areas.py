"""Text files with a line of names and a delimiter: columns found by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.geography import BLOCK, ENTITY_COLUMNS
from das_spark.io.cef import DELIMITER
from das_spark.io.input_files import data_files, first_line, require_path
from das_spark.spark.readers._rows import FAULTS, RowCheck, faults, problems_of, row_numbers, with_place
from das_spark.spark.readers.base import (
    GEOCODE,
    MOST_EXAMPLES,
    NOTHING,
    STATUS_OF,
    EntityBlocks,
    Problem,
    reading,
    refuse,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Delimited:
    """An opened text file, or several with the same line of names.

    Attributes:
        file: Path, for messages.
        placed: Column value (the line), and where each line lies.
        header: The line of names.
        names: The names.
    """

    file: str
    placed: DataFrame
    header: str
    names: tuple[str, ...]

    @classmethod
    def open(
        cls, spark: SparkSession, paths: Sequence[str], wanted: Sequence[str], *, file: str, kind: str
    ) -> Delimited:
        """Open text files."""
        for path in paths:
            require_path(path)
        with reading(file):
            lines = spark.read.text(list(paths))
            first = lines.head()
        if first is None:
            raise InputError(f"{file}: the file is empty, so no geounit exists")
        header = str(first[0])
        return cls(file, with_place(lines), header, _names(header, wanted, file=file, kind=kind))

    @staticmethod
    def look(paths: Sequence[str], wanted: Sequence[str], *, file: str, kind: str) -> None:
        """See without Spark how text files begin."""
        for path in paths:
            require_path(path)
            for each in data_files(path):
                line = first_line(each, utf8=False)
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


_HINT: Final = "correct the file; codes are text, with their leading zeros"
_UNASSIGNED_AIAN: Final = ("4990", "4999")


@dataclass(frozen=True, slots=True)
class AreaRows:
    """Rows of an opened file that hold blocks, before any check.

    Attributes:
        file: Its path, for messages.
        placed: Its rows, and where each lies.
        whole: True where a row can be taken apart.
        is_block: True where a whole row is that of a block; other whole rows are left out.
        geocode: Geocode of 16 characters of a block.
        geocode_field: What the file calls it.
        fields: Column of the entities -> what the file calls it, and its text.
        checks: Rules of the file itself, such as the number of its columns.
    """

    file: str
    placed: DataFrame
    whole: Column
    is_block: Column
    geocode: Column
    geocode_field: str
    fields: Mapping[str, tuple[str, Column]]
    checks: tuple[RowCheck, ...] = ()


def sixteen(block: Column) -> Column:
    """The geocode of 16 digits of a census block of 15: the block group stands before the block."""
    return F.concat(F.substring(block, 1, 11), F.substring(block, 12, 1), F.substring(block, 12, 4))


def filled(text: Column, nothing: str) -> Column:
    """A code without spaces around it; what stands for nothing where it is blank or null."""
    trimmed = F.trim(text.cast("string"))
    return F.when(trimmed.isNull() | (trimmed == ""), F.lit(nothing)).otherwise(trimmed)


def code_checks(file: str, field: str, column: str, value: Column, where: Column) -> list[RowCheck]:
    """What the codes of a column must be."""
    width = len(NOTHING[column])
    if column in STATUS_OF:
        return [
            RowCheck(
                file, field, "a functional status: one capital letter or digit", where & ~value.rlike("^[A-Z0-9]$")
            )
        ]
    checks = [
        RowCheck(
            file, field, f"{width} digits, as text with leading zeros", where & ~value.rlike(f"^[0-9]{{{width}}}$")
        )
    ]
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
        RowCheck(rows.file, rows.geocode_field, digits, block & ~F.coalesce(good, F.lit(False))),
        RowCheck(rows.file, rows.geocode_field, first, block & good & group),
    ]
    for name, (field, _) in rows.fields.items():
        checks += code_checks(rows.file, field, name, values[name], block)
    frame = rows.placed.withColumn(FAULTS, faults(checks)).select(
        FAULTS,
        "row_file",
        "row_block",
        "row_id",
        F.when(block, rows.geocode).alias(GEOCODE),
        *(values[name].alias(name) for name in ENTITY_COLUMNS),
    )
    with reading(rows.file):
        is_block = F.col(GEOCODE).isNotNull().alias("is_block")
        counted = frame.groupBy(FAULTS, is_block).count().collect()
        failed: dict[int, int] = {}
        for row in counted:
            if row[FAULTS]:
                failed[row[FAULTS]] = failed.get(row[FAULTS], 0) + row["count"]
        refuse(problems_of(frame, failed, checks) if failed else [], hint=_HINT)
        if not any(row["is_block"] for row in counted):
            raise InputError(f"{rows.file}: no block, so no geounit exists", hint="is it the whole file?")
        blocks = frame.where(F.col(GEOCODE).isNotNull())
        refuse(twice(rows.file, rows.geocode_field, frame), hint="each block lies in one tract and has one row")
    return EntityBlocks(blocks.select(GEOCODE, *ENTITY_COLUMNS), tuple(notes))


def twice(file: str, field: str, blocks: DataFrame) -> list[Problem]:
    """Describe the blocks that stand in several rows."""
    several = blocks.where(F.col(GEOCODE).isNotNull()).groupBy(GEOCODE).count().where("count > 1")
    found = [row[GEOCODE] for row in several.orderBy(GEOCODE).limit(MOST_EXAMPLES).collect()]
    if not found:
        return []
    bad = blocks.join(several, GEOCODE, "left_semi")
    return [Problem(file, field, "each block once", bad.count(), row_numbers(blocks, bad), tuple(found))]
