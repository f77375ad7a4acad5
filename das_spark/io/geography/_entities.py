"""Codes of entities: brought to one form and checked in one pass, whatever file they come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.geography import BLOCK, ENTITY_COLUMNS
from das_spark.io.geography.base import GEOCODE, NOTHING, STATUS_OF, EntityBlocks
from das_spark.io.readers._rows import FAULTS, Check, faults, problems_of, row_numbers
from das_spark.io.readers.base import MOST_EXAMPLES, Problem, reading, refuse

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_HINT: Final = "correct the file; codes are text, with their leading zeros"
_UNASSIGNED_AIAN: Final = ("4990", "4999")


@dataclass(frozen=True, slots=True)
class Rows:
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
    checks: tuple[Check, ...] = ()


def sixteen(block: Column) -> Column:
    """The geocode of 16 digits of a census block of 15: the block group stands before the block."""
    return F.concat(F.substring(block, 1, 11), F.substring(block, 12, 1), F.substring(block, 12, 4))


def filled(text: Column, nothing: str) -> Column:
    """A code without spaces around it; what stands for nothing where it is blank or null.

    Args:
        text: The code, of any type; it is cast to text.
        nothing: The text in place of a code that is blank or null.
    """
    trimmed = F.trim(text.cast("string"))
    return F.when(trimmed.isNull() | (trimmed == ""), F.lit(nothing)).otherwise(trimmed)


def code_checks(file: str, field: str, column: str, value: Column, where: Column) -> list[Check]:
    """What the codes of a column must be.

    Args:
        file: Path, for messages.
        field: What the file calls the column.
        column: One of `ENTITY_COLUMNS`.
        value: The code, filled.
        where: The rows that are asked.
    """
    width = len(NOTHING[column])
    if column in STATUS_OF:
        return [
            Check(file, field, "a functional status: one capital letter or digit", where & ~value.rlike("^[A-Z0-9]$"))
        ]
    checks = [
        Check(file, field, f"{width} digits, as text with leading zeros", where & ~value.rlike(f"^[0-9]{{{width}}}$"))
    ]
    if column == "aiannhce":
        unassigned = (value == "0000") | value.between(*_UNASSIGNED_AIAN)
        expected = f"a code that is assigned to areas (0000 and {'-'.join(_UNASSIGNED_AIAN)} are not), or 9999 for none"
        checks.append(Check(file, field, expected, where & unassigned))
    return checks


def checked(rows: Rows, notes: Sequence[str] = ()) -> EntityBlocks:
    """Check all rows and give the blocks.

    Args:
        rows: What was opened.
        notes: About what the file does not say.

    Raises:
        BadInputError: Rows break rules, or a block stands twice; all of them.
        InputError: There is no block.
    """
    block = rows.whole & rows.is_block
    values = {name: filled(text, NOTHING[name]) for name, (_, text) in rows.fields.items()}
    good = rows.geocode.rlike(f"^[0-9]{{{BLOCK}}}$")
    group = F.substring(rows.geocode, 12, 1) != F.substring(rows.geocode, 13, 1)
    digits = "the digits of state (2), county (3), tract (6) and block (4), as text with leading zeros"
    first = "a block group that is the first digit of the block"
    checks = [
        *rows.checks,
        Check(rows.file, rows.geocode_field, digits, block & ~F.coalesce(good, F.lit(False))),
        Check(rows.file, rows.geocode_field, first, block & good & group),
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
    """Describe the blocks that stand in several rows.

    Args:
        file: Path, for messages.
        field: What the file calls the block.
        blocks: All rows of the file: column geocode, null where a row is no block, and where each row lies.
    """
    several = blocks.where(F.col(GEOCODE).isNotNull()).groupBy(GEOCODE).count().where("count > 1")
    found = [row[GEOCODE] for row in several.orderBy(GEOCODE).limit(MOST_EXAMPLES).collect()]
    if not found:
        return []
    bad = blocks.join(several, GEOCODE, "left_semi")
    return [Problem(file, field, "each block once", bad.count(), row_numbers(blocks, bad), tuple(found))]
