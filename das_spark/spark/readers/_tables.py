"""Tables with named columns, as CSV or Parquet: opened, their columns found by name, their rows checked in one pass."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from operator import add, or_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, DoubleType, FloatType, IntegralType, StringType

from das_spark.errors import InputError
from das_spark.geography import BLOCK, CENSUS_BLOCK
from das_spark.io.csv_records import FIELDS, RULES_OF_CSV
from das_spark.io.input_files import PLAIN_CSV, CsvForm, is_catalog_table
from das_spark.io.input_tables import MALFORMED, InputTable
from das_spark.spark.balanced import balanced
from das_spark.spark.input_rows import table_rows
from das_spark.spark.problems import (
    FAULTS,
    GEOCODE,
    MOST_CHECKS,
    Problem,
    RowCheck,
    faults,
    is_not,
    problems_of,
    reading,
    some_geounits,
)
from das_spark.spark.readers._units import UNITS, VACANT, zero_if_null
from das_spark.spark.readers.base import Target, level_of, sixteen

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import CodedField


_LARGEST: Final = 2**63 - 1
"""The largest count that an int64 can hold."""

_SOME_LABELS: Final = 6
"""Labels of an attribute that a message shows."""

NO_GEOUNIT: Final = "no geounit exists"
"""What a table of geounits without a row means."""

Found = tuple["DataFrame", list[Problem]]


def read_table(spark: SparkSession, path: str, form: CsvForm = PLAIN_CSV) -> DataFrame:
    """Open a table with named columns; rows of CSV that are not whole are found by :func:`row_checks`."""
    if is_catalog_table(path):
        from das_spark.spark.catalog import catalog_rows  # noqa: PLC0415 - for such tables alone

        return catalog_rows(spark, path)
    return table_rows(spark, InputTable.open(path, form))


def names_of(frame: DataFrame) -> list[str]:
    """Columns that a table has in its file."""
    return [name for name in frame.columns if not name.startswith("row_")]


def row_checks(file: str, frame: DataFrame) -> list[RowCheck]:
    """Of a table, what every row must fulfil as a whole."""
    if MALFORMED not in frame.columns:
        return []
    told = {FIELDS: f"{len(names_of(frame))} fields, as in the header"}
    return [RowCheck(file, "row", told.get(rule, rule), F.col(MALFORMED).eqNullSafe(rule)) for rule in RULES_OF_CSV]


def is_whole(frame: DataFrame) -> Column:
    """Whether a row was read: of a record of CSV that breaks a rule nothing else is said."""
    return F.col(MALFORMED).isNull() if MALFORMED in frame.columns else F.lit(True)


@dataclass(frozen=True, slots=True)
class Names:
    """What a table calls the fields, by the names of the settings."""

    file: str
    found: tuple[str, ...]
    settings: InputSettings
    table: str  # its key in the settings, such as `persons`
    unread: frozenset[str]  # columns whose values are neither texts nor numbers

    def of(self, field: str) -> str:
        """What the file calls a field."""
        return self._mapped("block" if field == GEOCODE and self.by_block else field)

    @property
    def by_block(self) -> bool:
        """Whether census blocks of 15 digits stand for geocodes."""
        return self._mapped(GEOCODE) not in self.found and self._mapped("block") in self.found

    def _mapped(self, field: str) -> str:
        return self.settings.columns_of(self.table).get(field, field)

    def has(self, field: str) -> bool:
        """Whether the file has the field."""
        return self.of(field) in self.found

    def require(self, *fields: str) -> None:
        """Refuse a file that has not each of some fields, once."""
        for each in fields:
            name = self.of(each)
            if not self.has(each):
                raise InputError(f"{self.file}: no column {name!r} for {each!r}", hint=self._near(name, each))
            if self.found.count(name) > 1:
                raise InputError(f"{self.file}: two columns are called {name!r}", hint="give each a name of its own")
            if name in self.unread:
                raise InputError(
                    f"{self.file}: column {name!r} holds neither texts nor numbers", hint="write it as one of these"
                )

    def _near(self, name: str, field: str) -> str:
        """What to do about a missing column. Names are listed only where one is known: others may be a first record."""
        near = get_close_matches(name, self.found, n=1)
        table = is_catalog_table(self.file)
        guess = f"did you mean {near[0]!r}? " if near else ""
        key = f"input.columns.{self.table}.{field}"
        if not near and not table and not {self._mapped(GEOCODE), self._mapped("block")} & set(self.found):
            return f"it has {len(self.found)} columns; does its first line hold their names? (input.columns maps them)"
        return f"{guess}the {'table' if table else 'file'} has {', '.join(self.found)}; map it as {key}"


@dataclass(frozen=True, slots=True)
class TidyTable(Names):
    """An opened table with the names of the settings; the values that are taken from it add their checks to it."""

    frame: DataFrame
    checks: list[RowCheck] = field(default_factory=list)

    @classmethod
    def open(cls, spark: SparkSession, file: str, settings: InputSettings, key: str) -> TidyTable:
        """Open a CSV or Parquet table, which is named by a key of the settings."""
        table = None if is_catalog_table(file) else InputTable.open(file, CsvForm.of(settings))
        frame = read_table(spark, file) if table is None else table_rows(spark, table)
        columns, unread = (names_of(frame), frozenset[str]()) if table is None else (table.columns, table.unread)
        return cls(file, tuple(columns), settings, key, unread, frame, row_checks(file, frame))

    def column(self, field: str) -> Column:
        """The column of a field."""
        self.require(field)
        return F.col(f"`{self.of(field)}`")

    def check(self, field: str, expected: str, fails: Column) -> None:
        """Add a rule."""
        self.checks.append(RowCheck(self.file, self.of(field), expected, is_whole(self.frame) & fails))

    def whole(self, field: str) -> tuple[Column, Column, Column]:
        """The number (long) in a field of any integer, decimal, float or text type; is it whole, does it fit."""
        column = self.column(field)
        kind = self.frame.schema[self.of(field)].dataType
        if isinstance(kind, IntegralType):
            return column.cast("long"), F.lit(True), F.lit(True)
        if isinstance(kind, StringType):
            number = F.trim(column).try_cast("long")
            return number, F.trim(column).rlike(r"^[+-]?[0-9]+$"), number.isNotNull()
        if isinstance(kind, DoubleType | FloatType | DecimalType):
            number = column.try_cast("long")
            whole = column == F.floor(column) if isinstance(kind, DecimalType) else column % 1 == 0
            return number, F.coalesce(whole, F.lit(False)), number.isNotNull()
        raise InputError(
            f"{self.file}: column {self.of(field)!r} holds no numbers", hint=f"it is {kind.simpleString()}"
        )

    def count(self, field: str) -> Column:
        """A count: whole, not negative, not beyond int64."""
        number, is_whole, fits = self.whole(field)
        missing = self.column(field).isNull()
        self.check(field, "a count in every row, none missing", missing)
        self.check(field, "a whole number", ~missing & ~is_whole)
        self.check(field, f"a number up to {_LARGEST:,}", ~missing & is_whole & ~fits)
        self.check(field, "a count of 0 or more", number < 0)
        return number

    def level(self, coded: CodedField, labels: Sequence[str], attribute: str = "") -> Column:
        """The level of a coded field, by its codes; or by the labels of the levels, where the settings say so.

        Codes that are the numbers of levels begin at the code base of the settings.
        """
        if attribute in self.settings.labels:
            text = self.column(coded.name).cast("string")
            some = ", ".join(map(repr, labels[:_SOME_LABELS])) + (", ..." if len(labels) > _SOME_LABELS else "")
            self.check(coded.name, f"a label of {attribute}: {some}", is_not(text.isin(*labels)))
            return (F.array_position(F.array(*map(F.lit, labels)), text) - 1).cast("int")
        number, is_whole, fits = self.whole(coded.name)
        base = self.settings.code_base.get(coded.name, 0)
        if coded.first is not None:
            first, last = base + coded.first, base + coded.first + len(coded.levels) - 1
            good, expected = number.between(first, last), f"a code from {first} to {last}"
        else:
            ranges = [(low + base, high + base) for low, high, _ in coded.ranges()]
            good = balanced(or_, [number.between(*each) for each in ranges])
            expected = "a code of " + ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)
        known = is_whole & fits & good
        if coded.blank_level is not None:
            known |= self.column(coded.name).isNull()
        self.check(coded.name, expected, is_not(known))
        return level_of(coded, number - base)

    def geocode(self, spine: Spine) -> Column:
        """The geocode: text of as many digits as the lowest level has, or of a census block where that is the level."""
        length, kind = spine.leaf.length, "characters" if spine.letters else "digits"
        column = self.column(GEOCODE).cast("string")
        if spine.leaf.code:  # what lies in what is said by a table of parents, and looked up behind the reader
            self.check(GEOCODE, "the code of a geounit, in every row", is_not(column.rlike(f"^{spine.characters}+$")))
            return column.alias(GEOCODE)
        of_blocks = self.by_block and length == BLOCK and not spine.letters
        digits = CENSUS_BLOCK if of_blocks else max(length, 1)  # the root's geocode is "0"
        expected = f"a geocode of {digits} {kind}, as text with its leading zeros"
        self.check(GEOCODE, expected, is_not(column.rlike(f"^{spine.characters}{{{digits}}}$")))
        return (sixteen(column) if of_blocks else column).alias(GEOCODE)

    def problems(self, summed: str = "", total: Column | None = None) -> list[Problem]:
        """Apply all checks, and sum a column exactly, in one pass for every `MOST_CHECKS`."""
        exact = F.sum((F.lit(0) if total is None else total).cast("decimal(38,0)"))
        problems = []
        for first in range(0, max(len(self.checks), 1), MOST_CHECKS):
            some = self.checks[first : first + MOST_CHECKS]
            checked = self.frame.withColumn(FAULTS, faults(some))
            with reading(self.file):
                rows = checked.groupBy(FAULTS).agg(F.count(F.lit(1)).alias("rows"), exact.alias("total")).collect()
                problems += problems_of(checked, [row[:2] for row in rows], some)
        if sum(int(row["total"] or 0) for row in rows) > _LARGEST:
            problems.append(Problem(self.file, self.of(summed), f"a sum over all rows up to {_LARGEST:,}", 1))
        return problems

    def repeated(self, frame: DataFrame, expected: str, *keys: str) -> list[Problem]:
        """Geounits that stand in several rows of what was made of the table."""
        with reading(self.file):
            twice = frame.groupBy(GEOCODE, *keys).count().where("count > 1")
            number = twice.agg(F.sum("count")).collect()[0][0]
            some = some_geounits(twice) if number else ()
        return [Problem(self.file, self.of(GEOCODE), expected, number, geounits=some)] if number else []

    def outside(self, rows: DataFrame, geounits: DataFrame, where: str) -> list[Problem]:
        """Rows made of the table whose geocode is in no table of geounits."""
        with reading(self.file):
            lost = rows.groupBy(GEOCODE).count().join(geounits.select(GEOCODE), GEOCODE, "left_anti")
            number = lost.agg(F.sum("count")).collect()[0][0]
            some = some_geounits(lost) if number else ()
        expected = f"a geocode that is in {where}"
        return [Problem(self.file, self.of(GEOCODE), expected, number, geounits=some)] if number else []

    def require_some(self) -> None:
        """Refuse a table of geounits without a row."""
        with reading(self.file):
            if self.frame.isEmpty():
                raise InputError(f"{self.file}: the table has no rows, so {NO_GEOUNIT}")


def look_at(
    path: str, settings: InputSettings, key: str, fields: Callable[[Names], Sequence[str]], *, without_rows: str
) -> None:
    """See without Spark that a table is one, has some columns and a row; what is left to Spark is not looked at."""
    if not path or is_catalog_table(path):
        return
    table = InputTable.open(path, CsvForm.of(settings))
    names = Names(path, table.columns, settings, key, table.unread)
    names.require(*fields(names))
    if not table.has_rows():
        raise InputError(f"{path}: the table has no rows, so {without_rows}")


def read_units(table: TidyTable, target: Target) -> Found:
    """Read a table of units by class, one row a geounit and class, or one row a geounit with a column a class.

    Long form: columns geocode, the class attribute's name (such as ``hhgq``), ``units``, and perhaps ``vacant``. Wide
    form: geocode, ``units_0`` to ``units_7`` (for eight classes), and perhaps ``vacant``. Vacant units are none where
    there is no such column. Of a product whose units bound nothing, and which has no name for their class, the wide
    form alone is read.
    """
    frame, problems = (_wide if _is_wide(table, target) else _long)(table, target)
    if not problems:
        table.require_some()
    return frame, problems


def _is_wide(names: Names, target: Target) -> bool:
    coded = target.recodes.unit_class
    return coded is None or (not names.has(coded.name) and names.has(f"{UNITS}_0"))


def unit_fields(names: Names, target: Target) -> tuple[str, ...]:
    """The fields that a table of units must have, in the form that its columns tell."""
    if _is_wide(names, target):
        return (GEOCODE, *(f"{UNITS}_{each}" for each in range(target.classes)))
    return (GEOCODE, target.unit_class.name, UNITS)


def _vacant(table: TidyTable) -> Column:
    return table.count(VACANT) if table.has(VACANT) else F.lit(0).cast("long")


def _wide(table: TidyTable, target: Target) -> Found:
    geocode = table.geocode(target.spine)
    units = [table.count(f"{UNITS}_{each}") for each in range(target.classes)]
    vacant = _vacant(table)
    problems = table.problems(UNITS, balanced(add, [each.cast("decimal(38,0)") for each in (*units, vacant)]))
    frame = table.frame.select(geocode, F.array(*units).alias(UNITS), zero_if_null(vacant).alias(VACANT))
    return frame, problems or table.repeated(frame, "each geounit in one row")


def _long(table: TidyTable, target: Target) -> Found:
    geocode, level = table.geocode(target.spine), class_level(table, target)
    units, vacant = table.count(UNITS), _vacant(table)
    problems = table.problems(UNITS, units)
    rows = table.frame.select(geocode, level.alias("level"), units.alias(UNITS), vacant.alias(VACANT))
    by_class = [zero_if_null(F.sum(F.when(F.col("level") == each, F.col(UNITS)))) for each in range(target.classes)]
    frame = rows.groupBy(GEOCODE).agg(F.array(*by_class).alias(UNITS), F.sum(VACANT).alias(VACANT))
    return frame, problems or table.repeated(rows, "each geounit and class in one row", "level")


def class_level(table: TidyTable, target: Target) -> Column:
    """The class of units, which a table of units may call by the labels of the attribute that tells that of people."""
    return table.level(target.unit_class, target.product.unit_classes, target.product.class_query)


def without_units(geounits: DataFrame) -> DataFrame:
    """Geounits of which no units are known."""
    unknown = [F.lit(None).cast("array<bigint>").alias(UNITS), F.lit(None).cast("bigint").alias(VACANT)]
    return geounits.select(GEOCODE, *unknown)


def read_geography(table: TidyTable, target: Target) -> Found:
    """Read a table of the geounits that exist."""
    frame = without_units(table.frame.select(table.geocode(target.spine)))
    problems = table.problems() or table.repeated(frame, "each geounit in one row")
    if not problems:
        table.require_some()
    return frame, problems
