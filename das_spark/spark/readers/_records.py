"""Lines of records of fixed width: their fields as columns, and what they must be."""

from __future__ import annotations

from operator import and_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.spark.balanced import balanced
from das_spark.spark.input_rows import text_lines
from das_spark.spark.problems import RowCheck

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.io.record_text import Record


LINE: Final = "line"
"""Column of a line in fixed width; null where there is none."""


def lines_of(spark: SparkSession, path: str, parts: Sequence[str]) -> DataFrame:
    """The lines of a file, or of the files in a folder whose names have one of some patterns, with their positions."""
    return text_lines(spark, [path], patterns=parts).withColumnRenamed("value", LINE)


def text(record: Record, name: str) -> Column:
    """The characters of a field."""
    field = record.field(name)
    return F.substring(LINE, field.start + 1, field.width)


def number(record: Record, name: str) -> Column:
    """The number in a field (long; null where there is none)."""
    return F.trim(text(record, name)).try_cast("long")


def is_right(record: Record) -> Column:
    """Whether a line has the length of a record, and each of its fields holds what it may."""
    numbers = [text(record, each.name).rlike(f"^{each.pattern}$") for each in record.fields if each.is_any_number]
    return balanced(and_, [F.col(LINE).rlike(record.pattern), *numbers])


def field_checks(file: str, record: Record, length: str, of: Column) -> list[RowCheck]:
    """That some lines have the length of a record and, where they do, what each field may hold."""
    whole = of & F.coalesce(F.length(LINE) == record.length, F.lit(False))
    return [
        RowCheck(file, "record length", length, of & ~whole),
        *(
            RowCheck(file, each.name, each.expected, whole & ~text(record, each.name).rlike(f"^(?:{each.pattern})$"))
            for each in record.fields
        ),
    ]
