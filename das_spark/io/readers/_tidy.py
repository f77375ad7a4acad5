"""Columns of tidy tables: found by the names of the settings, made whole numbers, codes and geocodes, and checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, DoubleType, FloatType, IntegralType, StringType

from das_spark.errors import InputError
from das_spark.geography import BLOCK, CENSUS_BLOCK
from das_spark.io.readers._begin import data_files, has_rows
from das_spark.io.readers._rows import FAULTS, Check, faults, problems_of, row_checks, with_place
from das_spark.io.readers._sources import columns_in, names_of, read_table
from das_spark.io.readers.base import reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.io.readers.base import Problem

NO_RECORD = "there is no record to protect"
NO_GEOUNIT = "no geounit exists"
"""What a table without a row means."""
LARGEST = 2**63 - 1
"""The largest count that an int64 can hold."""


@dataclass(frozen=True, slots=True)
class Names:
    """What a table calls the fields, by the names of the settings.

    Args:
        file: Its path, for messages.
        found: Names of its columns.
        settings: Names of columns and code bases.
    """

    file: str
    found: tuple[str, ...]
    settings: InputSettings

    def of(self, field: str) -> str:
        """What the file calls a field."""
        return self._mapped("block" if field == "geocode" and self.by_block else field)

    @property
    def by_block(self) -> bool:
        """Whether census blocks of 15 digits stand for geocodes."""
        return self._mapped("geocode") not in self.found and self._mapped("block") in self.found

    def _mapped(self, field: str) -> str:
        return self.settings.columns.get(field, field)

    def has(self, field: str) -> bool:
        """Whether the file has the field."""
        return self.of(field) in self.found

    def required(self, *fields: str) -> str:
        """What the file calls the last of some fields, which it must have.

        Raises:
            InputError: The file has no column for one of them, or two; of a missing one the nearest name is given.
        """
        for field in fields:
            name = self.of(field)
            if not self.has(field):
                raise InputError(f"{self.file}: no column {name!r} for {field!r}", hint=self._near(name, field))
            if self.found.count(name) > 1:
                raise InputError(f"{self.file}: two columns are called {name!r}", hint="give each a name of its own")
        return self.of(fields[-1])

    def _near(self, name: str, field: str) -> str:
        """What to do about a missing column. Names are listed only where one is known: others may be a first record."""
        near = get_close_matches(name, self.found, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        if not near and not {self._mapped("geocode"), self._mapped("block")} & set(self.found):
            return f"it has {len(self.found)} columns; does its first line hold their names? (input.columns maps them)"
        return f"{guess}the file has {', '.join(self.found)}; map it as input.columns.{field}"


@dataclass(frozen=True, slots=True)
class Table:
    """An opened table with the names of the settings.

    Args:
        file: Its path, for messages.
        frame: Its columns, and where each row lies.
        settings: Names of columns and code bases.
    """

    file: str
    frame: DataFrame
    settings: InputSettings

    @classmethod
    def open(cls, spark: SparkSession, file: str, settings: InputSettings) -> Table:
        """Open a CSV or Parquet table.

        Args:
            spark: The session.
            file: File or folder.
            settings: Names of columns and code bases.

        Raises:
            InputError: It is missing or unreadable.
        """
        return cls(file, with_place(read_table(spark, file)), settings)

    @property
    def names(self) -> Names:
        """What the file calls the fields."""
        return Names(self.file, tuple(names_of(self.frame)), self.settings)

    def name(self, field: str) -> str:
        """What the file calls a field."""
        return self.names.of(field)

    @property
    def by_block(self) -> bool:
        """Whether census blocks of 15 digits stand for geocodes."""
        return self.names.by_block

    def has(self, field: str) -> bool:
        """Whether the file has the field."""
        return self.names.has(field)

    def column(self, field: str) -> Column:
        """The column of a field.

        Raises:
            InputError: The file has no such column; its nearest name is given.
        """
        return F.col(f"`{self.names.required(field)}`")

    def whole(self, field: str) -> Whole:
        """A field that holds whole numbers, of any integer, decimal, float or text type.

        Raises:
            InputError: The file has no such column, or one of another type.
        """
        column, kind = self.column(field), self.frame.schema[self.name(field)].dataType
        if isinstance(kind, IntegralType):
            return Whole(column.cast("long"), F.lit(True), F.lit(True))
        if isinstance(kind, StringType):
            trimmed = F.trim(column)
            return Whole(trimmed.try_cast("long"), trimmed.rlike(r"^[+-]?[0-9]+$"), _fits(trimmed))
        if isinstance(kind, DoubleType | FloatType | DecimalType):
            whole = column == F.floor(column) if isinstance(kind, DecimalType) else column % 1 == 0
            return Whole(column.try_cast("long"), F.coalesce(whole, F.lit(False)), _fits(column))
        raise InputError(
            f"{self.file}: column {self.name(field)!r} holds no numbers", hint=f"it is {kind.simpleString()}"
        )

    def count_checks(self, field: str) -> tuple[Column, list[Check]]:
        """A count: whole, not negative, not beyond int64.

        Returns:
            Its column (long), and its checks.
        """
        number, name = self.whole(field), self.name(field)
        missing = self.column(field).isNull()
        return number.value, [
            Check(self.file, name, "a count in every row, none missing", missing),
            Check(self.file, name, "a whole number", ~missing & ~number.is_whole),
            Check(self.file, name, f"a number up to {LARGEST:,}", ~missing & number.is_whole & ~number.fits),
            Check(self.file, name, "a count of 0 or more", number.value < 0),
        ]

    def code_checks(self, field: str, levels: int) -> tuple[Column, list[Check]]:
        """A code, counted from the code base of the settings.

        Args:
            field: Name of an attribute or of the class of units.
            levels: How many levels it has.

        Returns:
            Its 0-based column (long), and its checks.
        """
        number, first = self.whole(field), self.settings.code_base.get(field, 0)
        known = number.is_whole & number.fits & number.value.between(first, first + levels - 1)
        expected = f"a code from {first} to {first + levels - 1}"
        return number.value - first, [Check(self.file, self.name(field), expected, _not(known))]

    def geocode_checks(self, field: str, length: int) -> tuple[Column, list[Check]]:
        """A geocode: text of as many digits as the lowest level has, or of a census block where that is the level.

        Args:
            field: Name of the field.
            length: Digits of a geocode of the lowest level; 0 at the root, whose geocode is one digit.

        Returns:
            Its column (string), and its checks.

        Raises:
            InputError: The file has no such column.
        """
        column = self.column(field)
        whole = column.cast("string")
        if self.by_block and length == BLOCK:
            length = CENSUS_BLOCK
            whole = F.concat(F.substring(whole, 1, 11), F.substring(whole, 12, 1), F.substring(whole, 12, 4))
        length = max(length, 1)  # the root's geocode is "0"
        expected = f"a geocode of {length} digits, as text with its leading zeros"
        good = column.cast("string").rlike(f"^[0-9]{{{length}}}$")
        return whole, [Check(self.file, self.name(field), expected, _not(good))]


@dataclass(frozen=True, slots=True)
class Whole:
    """A column of whole numbers.

    Args:
        value: Long; null where it is none.
        is_whole: Whether the row holds a whole number.
        fits: Whether it fits into int64.
    """

    value: Column
    is_whole: Column
    fits: Column


def look_at(path: str, settings: InputSettings, fields: Callable[[Names], Sequence[str]], *, without_rows: str) -> None:
    """See without Spark that a table is one, has some columns and a row; what is left to Spark is not looked at.

    Args:
        path: File or folder; nothing happens where empty.
        settings: Names of columns and code bases.
        fields: The fields that it must have, by what it calls its columns.
        without_rows: What it means where the table has no row.

    Raises:
        InputError: It is missing, no table, or lacks a column or any row.
    """
    found = columns_in(path) if path else None
    if found is None:
        return
    names = Names(path, found, settings)
    names.required(*fields(names))
    if not has_rows(data_files(path)):
        raise InputError(f"{path}: the table has no rows, so {without_rows}")


def _not(condition: Column) -> Column:
    return ~F.coalesce(condition, F.lit(False))


def _fits(column: Column) -> Column:
    return column.try_cast("long").isNotNull()


def check_rows(table: Table, checks: list[Check], total: Column | None = None) -> tuple[list[Problem], int]:
    """Apply all checks to a table, and sum a column exactly, in one pass.

    Args:
        table: The table.
        checks: Its rules.
        total: A column of long.

    Returns:
        Problems, and the sum over all rows (0 without a column).
    """
    checks = [*row_checks(table.file, table.frame), *checks]
    checked = table.frame.withColumn(FAULTS, faults(checks))
    exact = F.sum((F.lit(0) if total is None else total).cast("decimal(38,0)"))
    with reading(table.file):
        rows = checked.groupBy(FAULTS).agg(F.count(F.lit(1)).alias("rows"), exact.alias("total")).collect()
        problems = problems_of(checked, {row[FAULTS]: row["rows"] for row in rows if row[FAULTS]}, checks)
    return problems, sum(int(row["total"] or 0) for row in rows)
