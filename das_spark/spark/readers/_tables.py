"""Finding and opening input files: local ones are looked for at once, others are left to Spark's file systems."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType, DoubleType, FloatType, IntegralType, StringType

from das_spark.errors import ConfigurationError, InputError
from das_spark.geography import BLOCK, CENSUS_BLOCK
from das_spark.io.input_files import columns_in, data_files, format_of, has_rows
from das_spark.products import CodedField
from das_spark.spark.readers._rows import FAULTS, RowCheck, faults, problems_of, with_place
from das_spark.spark.readers.base import MOST_EXAMPLES, Problem, Target, level_in_cell, level_of, reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.products import Product


_MALFORMED = "row_malformed"
"""Column of a CSV table: the text of a row that has not as many fields as the header; null for others. RESTRICTED."""


def read_table(spark: SparkSession, path: str) -> DataFrame:
    """Open a table with named columns.

    Rows of CSV that do not have as many fields as the header are kept, for the checks to count: Spark would otherwise
    write such a row, which is confidential, into its logs. :func:`row_checks` finds them.
    """
    columns_in(path)
    with reading(path):
        if format_of(path) == "parquet":
            return spark.read.parquet(path)
        columns = spark.read.csv(path, header=True, inferSchema=False).schema
        # Whole rows are parsed: with fewer columns Spark would not notice a field too many.
        return spark.read.option("columnPruning", value=False).csv(
            path,
            header=True,
            schema=columns.add(_MALFORMED, StringType()),
            enforceSchema=False,
            mode="PERMISSIVE",
            columnNameOfCorruptRecord=_MALFORMED,
        )


def names_of(frame: DataFrame) -> list[str]:
    """Columns that a table has in its file."""
    return [name for name in frame.columns if not name.startswith("row_")]


NO_RECORD = "there is no record to protect"
NO_GEOUNIT = "no geounit exists"
"""What a table without a row means."""
_LARGEST = 2**63 - 1
"""The largest count that an int64 can hold."""


@dataclass(frozen=True, slots=True)
class Names:
    """What a table calls the fields, by the names of the settings."""

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
        """What the file calls the last of some fields, which it must have."""
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
class TidyTable:
    """An opened table with the names of the settings."""

    file: str
    frame: DataFrame
    settings: InputSettings

    @classmethod
    def open(cls, spark: SparkSession, file: str, settings: InputSettings) -> TidyTable:
        """Open a CSV or Parquet table."""
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
        """The column of a field."""
        return F.col(f"`{self.names.required(field)}`")

    def whole(self, field: str) -> Whole:
        """A field that holds whole numbers, of any integer, decimal, float or text type."""
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

    def count_checks(self, field: str) -> tuple[Column, list[RowCheck]]:
        """A count: whole, not negative, not beyond int64."""
        number, name = self.whole(field), self.name(field)
        missing = self.column(field).isNull()
        return number.value, [
            RowCheck(self.file, name, "a count in every row, none missing", missing),
            RowCheck(self.file, name, "a whole number", ~missing & ~number.is_whole),
            RowCheck(self.file, name, f"a number up to {_LARGEST:,}", ~missing & number.is_whole & ~number.fits),
            RowCheck(self.file, name, "a count of 0 or more", number.value < 0),
        ]

    def code_checks(self, coded: CodedField) -> tuple[Column, list[RowCheck]]:
        """A coded field; where its codes are the numbers of the levels, they begin at the code base of the settings."""
        field = coded.name
        number, base = self.whole(field), self.settings.code_base.get(field, 0)
        code = number.value - base
        if coded.first is not None:
            first, last = base + coded.first, base + coded.first + len(coded.levels) - 1
            good, expected = number.value.between(first, last), f"a code from {first} to {last}"
        else:
            ranges = [(low + base, high + base) for low, high, _ in coded.ranges()]
            good = reduce(or_, (number.value.between(*each) for each in ranges))
            expected = "a code of " + ", ".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)
        known = number.is_whole & number.fits & good
        if coded.blank_level is not None:
            known |= self.column(field).isNull()
        return level_of(coded, code), [RowCheck(self.file, self.name(field), expected, _not(known))]

    def geocode_checks(self, field: str, length: int) -> tuple[Column, list[RowCheck]]:
        """A geocode: text of as many digits as the lowest level has, or of a census block where that is the level."""
        column = self.column(field)
        whole = column.cast("string")
        if self.by_block and length == BLOCK:
            length = CENSUS_BLOCK
            whole = F.concat(F.substring(whole, 1, 11), F.substring(whole, 12, 1), F.substring(whole, 12, 4))
        length = max(length, 1)  # the root's geocode is "0"
        expected = f"a geocode of {length} digits, as text with its leading zeros"
        good = column.cast("string").rlike(f"^[0-9]{{{length}}}$")
        return whole, [RowCheck(self.file, self.name(field), expected, _not(good))]


@dataclass(frozen=True, slots=True)
class Whole:
    """A column of whole numbers."""

    value: Column
    is_whole: Column
    fits: Column


def look_at(path: str, settings: InputSettings, fields: Callable[[Names], Sequence[str]], *, without_rows: str) -> None:
    """See without Spark that a table is one, has some columns and a row; what is left to Spark is not looked at."""
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


def check_rows(table: TidyTable, checks: list[RowCheck], total: Column | None = None) -> tuple[list[Problem], int]:
    """Apply all checks to a table, and sum a column exactly, in one pass."""
    checks = [*row_checks(table.file, table.frame), *checks]
    checked = table.frame.withColumn(FAULTS, faults(checks))
    exact = F.sum((F.lit(0) if total is None else total).cast("decimal(38,0)"))
    with reading(table.file):
        rows = checked.groupBy(FAULTS).agg(F.count(F.lit(1)).alias("rows"), exact.alias("total")).collect()
        problems = problems_of(checked, {row[FAULTS]: row["rows"] for row in rows if row[FAULTS]}, checks)
    return problems, sum(int(row["total"] or 0) for row in rows)


GEOCODE = "geocode"
UNITS = "units"
VACANT = "vacant"

_PEOPLE_OF_UNITS = (5, 2)
"""Persons and housing units where no counts of units are published: five in two, so one for each 2.5."""


def read_units(table: TidyTable, target: Target) -> tuple[DataFrame, list[Problem]]:
    """Read a table of units by class, one row a geounit and class, or one row a geounit with a column a class.

    Long form: columns geocode, the class attribute's name (such as ``hhgq``), ``units``, and perhaps ``vacant``. Wide
    form: geocode, ``units_0`` to ``units_7`` (for eight classes), and perhaps ``vacant``. Vacant units are none where
    there is no such column. Of a product whose units bound nothing, and which has no name for their class, the wide
    form alone is read.
    """
    return _wide(table, target) if _is_wide(table.names, target) else _long(table, target)


def _is_wide(names: Names, target: Target) -> bool:
    coded = target.recodes.unit_class
    return coded is None or (not names.has(coded.name) and names.has(f"{UNITS}_0"))


def unit_fields(names: Names, target: Target) -> tuple[str, ...]:
    """The fields that a table of units must have, in the form that its columns tell."""
    if _is_wide(names, target):
        return (GEOCODE, *(f"{UNITS}_{each}" for each in range(target.classes)))
    return (GEOCODE, target.unit_class.name, UNITS)


def _vacant(table: TidyTable) -> tuple[Column, list[RowCheck]]:
    return table.count_checks(VACANT) if table.has(VACANT) else (F.lit(0).cast("long"), [])


def _wide(table: TidyTable, target: Target) -> tuple[DataFrame, list[Problem]]:
    geocode, checks = table.geocode_checks(GEOCODE, target.spine.leaf.length)
    classes = [table.count_checks(f"{UNITS}_{each}") for each in range(target.classes)]
    vacant, more = _vacant(table)
    every = [column for column, _ in classes] + [vacant]
    total = sum((column.cast("decimal(38,0)") for column in every[1:]), every[0].cast("decimal(38,0)"))
    problems, number = check_rows(table, [*checks, *(check for _, each in classes for check in each), *more], total)
    problems += _too_many(table, UNITS, number)
    frame = table.frame.select(
        geocode.alias(GEOCODE), F.array(*every[:-1]).alias(UNITS), F.coalesce(vacant, F.lit(0)).alias(VACANT)
    )
    return frame, problems or _repeated(table, frame, "each geounit in one row")


def _long(table: TidyTable, target: Target) -> tuple[DataFrame, list[Problem]]:
    geocode, checks = table.geocode_checks(GEOCODE, target.spine.leaf.length)
    level, level_checks = table.code_checks(target.unit_class)
    units, unit_checks = table.count_checks(UNITS)
    vacant, vacant_checks = _vacant(table)
    problems, number = check_rows(table, [*checks, *level_checks, *unit_checks, *vacant_checks], units)
    problems += _too_many(table, table.name(UNITS), number)
    rows = table.frame.select(geocode.alias(GEOCODE), level.alias("level"), units.alias(UNITS), vacant.alias(VACANT))
    if problems:
        return rows, problems
    by_class = [
        F.coalesce(F.sum(F.when(F.col("level") == each, F.col(UNITS))), F.lit(0).cast("long"))
        for each in range(target.classes)
    ]
    frame = rows.groupBy(GEOCODE).agg(F.array(*by_class).alias(UNITS), F.sum(VACANT).alias(VACANT))
    return frame, _repeated(table, rows, "each geounit and class in one row", "level")


def read_geography(table: TidyTable, target: Target) -> tuple[DataFrame, list[Problem]]:
    """Read a table of the geounits that exist."""
    geocode, checks = table.geocode_checks(GEOCODE, target.spine.leaf.length)
    problems, _ = check_rows(table, checks)
    frame = table.frame.select(
        geocode.alias(GEOCODE),
        F.lit(None).cast("array<bigint>").alias(UNITS),
        F.lit(None).cast("bigint").alias(VACANT),
    )
    return frame, problems or _repeated(table, frame, "each geounit in one row")


def with_empty_geounits(units: DataFrame, geography: DataFrame, classes: int) -> DataFrame:
    """Add the geounits of a geography table that have no unit."""
    none = F.array(*[F.lit(0).cast("long")] * classes)
    joined = geography.select(GEOCODE).join(units, GEOCODE, "left")
    return joined.select(
        GEOCODE, F.coalesce(UNITS, none).alias(UNITS), F.coalesce(VACANT, F.lit(0).cast("long")).alias(VACANT)
    )


def housing_counts(geounits: DataFrame, target: Target, field: str, *, occupied: int, vacant: int) -> DataFrame:
    """Housing units as what is counted: those of the first class, occupied, and the vacant ones."""
    codes = target.cells({field: np.array([vacant, occupied])}).tolist()
    numbers = (F.col(VACANT), F.get(UNITS, F.lit(0)))
    cells = [F.struct(F.lit(cell).alias("cell"), n.alias("count")) for cell, n in zip(codes, numbers, strict=True)]
    pairs = geounits.select(GEOCODE, F.explode(F.array(*cells)).alias("pair"))
    return pairs.select(GEOCODE, F.col("pair.cell").cast("int").alias("cell"), "pair.count").where("count > 0")


def units_from_people(counts: DataFrame, geounits: DataFrame, product: Product) -> DataFrame:
    """Make the units of a run of which no counts are published, by the fixed rule that `plan` and statement tell.

    One housing unit for each 2.5 persons in households, rounded up, and one facility of a class of group quarters
    where it has people, or as many of either as can hold them; no unit is vacant.
    """
    if not product.class_query:
        raise ConfigurationError(
            f"input.units_from_people: product {product.name!r} counts the units themselves", hint="leave it out"
        )
    level = level_in_cell(product.schema, product.class_query)
    people = [
        F.sum(F.when(level == each, F.col("count")).otherwise(F.lit(0).cast("long")))
        for each in range(len(product.unit_classes))
    ]
    # Whole numbers throughout: a quotient of doubles would be one off where there are very many people.
    households = _quotient_up(people[0] * _PEOPLE_OF_UNITS[1], _PEOPLE_OF_UNITS[0])
    units = [households, *[F.when(number > 0, F.lit(1)).otherwise(F.lit(0)) for number in people[1:]]]
    if product.unit_bounds is not None:
        most = product.unit_bounds.most
        units = [F.greatest(unit, _quotient_up(each, of)) for unit, each, of in zip(units, people, most, strict=True)]
    made = counts.groupBy(GEOCODE).agg(F.array(*[unit.cast("long") for unit in units]).alias(UNITS))
    none = F.lit(0).cast("long")
    return with_empty_geounits(made.withColumn(VACANT, none), geounits, len(product.unit_classes))


def _quotient_up(number: Column, by: int) -> Column:
    """A whole number of 0 or more divided by another one, rounded up."""
    return F.call_function("div", number + F.lit(by - 1), F.lit(by))


def outside(file: str, field: str, rows: DataFrame, geounits: DataFrame, where: str) -> list[Problem]:
    """Rows whose geocode is in no table of geounits."""
    with reading(file):
        lost = rows.groupBy(GEOCODE).count().join(geounits.select(GEOCODE), GEOCODE, "left_anti")
        number = lost.agg(F.sum("count")).collect()[0][0]
        if not number:
            return []
        some = tuple(row[0] for row in lost.select(GEOCODE).orderBy(GEOCODE).limit(MOST_EXAMPLES).collect())
    return [Problem(file, field, f"a geocode that is in {where}", number, geounits=some)]


def _too_many(table: TidyTable, field: str, number: int) -> list[Problem]:
    if number <= _LARGEST:
        return []
    return [Problem(table.file, field, f"a sum over all rows up to {_LARGEST:,}", 1)]


def total_problem(table: TidyTable, field: str, number: int) -> list[Problem]:
    """A sum that an int64 cannot hold."""
    return _too_many(table, table.name(field), number)


def _repeated(table: TidyTable, frame: DataFrame, expected: str, *keys: str) -> list[Problem]:
    with reading(table.file):
        twice = frame.groupBy(GEOCODE, *keys).count().where("count > 1")
        number = twice.agg(F.sum("count")).collect()[0][0]
        if not number:
            return []
        some = tuple(row[0] for row in twice.select(GEOCODE).distinct().orderBy(GEOCODE).limit(MOST_EXAMPLES).collect())
    return [Problem(table.file, table.name(GEOCODE), expected, number, geounits=some)]


def require_some(frame: DataFrame, file: str) -> None:
    """Refuse a table of geounits without a row."""
    with reading(file):
        if frame.isEmpty():
            raise InputError(f"{file}: the table has no rows, so {NO_GEOUNIT}")


def row_checks(file: str, frame: DataFrame) -> list[RowCheck]:
    """Of a table, what every row must fulfil as a whole."""
    if _MALFORMED not in frame.columns:
        return []
    expected = f"{len(names_of(frame))} fields, as in the header"
    return [RowCheck(file, "row", expected, F.col(_MALFORMED).isNotNull())]
