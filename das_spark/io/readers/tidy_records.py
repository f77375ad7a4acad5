"""Reader of tidy records: a row for every person and a row for every housing unit or facility.

Fields of units: ``unit`` (its identity), ``geocode``, the class attribute (such as ``hhgq``), and perhaps ``vacant``
(0 or 1). Fields of persons: the attributes of the product's schema, and ``unit`` or ``geocode``. With ``unit``, the
person's geocode and class are those of the unit, and a column of either in the table of persons is not read; without
it, or with ``input.units_from_people``, both must be there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError, PrivacyGuardError
from das_spark.io.readers._rows import Check, row_numbers
from das_spark.io.readers._target import cell_of
from das_spark.io.readers._tidy import NO_GEOUNIT, NO_RECORD, Names, Table, check_rows, look_at
from das_spark.io.readers._units import (
    GEOCODE,
    UNITS,
    VACANT,
    outside,
    read_geography,
    require_some,
    units_from_people,
    with_empty_geounits,
)
from das_spark.io.readers.base import IngestedTables, Problem, reading, refuse
from das_spark.io.readers.tidy_counts import Places, geounits_of, locate

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product

UNIT = "unit"
HOME = "home"


@dataclass(frozen=True, slots=True)
class TidyRecords:
    """Reads records of persons and units, as CSV or Parquet, files or folders."""

    name: str = "tidy_records"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See without Spark how the tables begin; see :class:`~das_spark.io.readers.base.Reader`.

        Args:
            settings: Where the files are and how their columns are called.
            product: What the run publishes.
            spine: Not asked.

        Raises:
            InputError: A table is missing, no table, or lacks a column or any row.
            ConfigurationError: The product counts units, not people, or no path of the people is set.
            PrivacyGuardError: Nothing says which geounits exist.
        """
        places = self._places(settings, product)
        attributes = [attribute.name for attribute in product.schema.attributes]

        def of_persons(names: Names) -> list[str]:
            if settings.units_from_people or not names.has(UNIT):
                return [GEOCODE, *attributes]
            return [UNIT, *(name for name in attributes if name != product.class_query)]

        look_at(places.persons, settings, of_persons, without_rows=NO_RECORD)
        look_at(places.units, settings, lambda _: (UNIT, GEOCODE, product.class_query), without_rows=NO_GEOUNIT)
        look_at(places.geography, settings, lambda _: (GEOCODE,), without_rows=NO_GEOUNIT)

    def _places(self, settings: InputSettings, product: Product) -> Places:
        if not product.class_query:
            raise ConfigurationError(
                f"reader {self.name!r} reads people in units; product {product.name!r} counts the units themselves",
                hint="use tidy_counts",
            )
        places = locate(settings, self.name)
        if not places.units and not settings.units_from_people:
            raise PrivacyGuardError(
                f"{places.persons}: person records without unit records; empty places would be published by omission",
                hint="name the table of unit records: input.units",
            )
        return places

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Read and check the tables; see :class:`~das_spark.io.readers.base.Reader`.

        Args:
            spark: The session.
            settings: Where the files are and how their columns are called.
            product: What the run publishes.
            spine: Its lowest level says how long the geocodes are.

        Raises:
            InputError: A file is missing, unreadable or holds something that is not allowed.
            ConfigurationError: The product counts units, not people, or no path of the people is set.
            PrivacyGuardError: Nothing says which geounits exist.
        """
        places = self._places(settings, product)
        if settings.units_from_people:
            return _without_units(spark, places, settings, product, spine)
        homes, problems = _units(Table.open(spark, places.units, settings), product, spine)
        people = Table.open(spark, places.persons, settings)
        records, more = _people(people, homes, product, spine)
        problems += more
        geounits = _gather(homes, len(product.unit_classes))
        if places.geography:
            geounits, more = _all_geounits(spark, geounits, places, settings, product, spine)
            problems += more
        if not problems and not people.has(UNIT):
            problems += outside(people.file, people.name(GEOCODE), records, geounits, places.geography or places.units)
        refuse(problems)
        return IngestedTables(records.groupBy(GEOCODE, "cell").agg(F.count(F.lit(1)).alias("count")), geounits)


def _without_units(
    spark: SparkSession, places: Places, settings: InputSettings, product: Product, spine: Spine
) -> IngestedTables:
    """Persons by geocode and class, in units that are made from them."""
    people = Table.open(spark, places.persons, settings)
    records, problems = _people(people, None, product, spine)
    geounits, more = geounits_of(spark, places, settings, product, spine)
    problems += more
    if not problems:
        problems = outside(people.file, people.name(GEOCODE), records, geounits, places.geography)
    refuse(problems)
    counts = records.groupBy(GEOCODE, "cell").agg(F.count(F.lit(1)).alias("count"))
    return IngestedTables(counts, units_from_people(counts, geounits, product))


def _units(table: Table, product: Product, spine: Spine) -> tuple[DataFrame, list[Problem]]:
    """Unit records: unit, geocode, home (class), vacant (0 or 1)."""
    geocode, checks = table.geocode_checks(GEOCODE, spine.leaf.length)
    level, more = table.code_checks(product.class_query, len(product.unit_classes))
    checks += [*more, _identity(table)]
    vacant: Column = F.lit(0).cast("long")
    if table.has(VACANT):
        number = table.whole(VACANT)
        vacant = number.value
        allowed = F.coalesce(number.is_whole & vacant.isin(0, 1), F.lit(False))
        empty = F.coalesce(vacant == 1, F.lit(False)) & F.coalesce(level != 0, F.lit(False))
        checks.append(Check(table.file, table.name(VACANT), "0 or 1", ~allowed))
        checks.append(Check(table.file, table.name(VACANT), "0 in every class but the first", empty))
    problems, _ = check_rows(table, checks)
    frame = table.frame.select(
        table.column(UNIT).cast("string").alias(UNIT), geocode.alias(GEOCODE), level.alias(HOME), vacant.alias(VACANT)
    )
    if not problems:
        require_some(frame, table.file)
        problems = _repeated(table)
    return frame, problems


def _identity(table: Table) -> Check:
    return Check(table.file, table.name(UNIT), "the identity of a unit in every row", table.column(UNIT).isNull())


def _repeated(table: Table) -> list[Problem]:
    with reading(table.file):
        identity = table.column(UNIT).cast("string")
        twice = table.frame.groupBy(identity.alias("twice")).count().where("count > 1")
        number = twice.agg(F.sum("count")).collect()[0][0]
        if not number:
            return []
        rows = table.frame.join(twice.select("twice"), identity == F.col("twice"), "left_semi")
        return [Problem(table.file, table.name(UNIT), "each household once", number, row_numbers(table.frame, rows))]


def _people(table: Table, homes: DataFrame | None, product: Product, spine: Spine) -> tuple[DataFrame, list[Problem]]:
    """Person records: geocode, cell; `homes` are the unit records, if there are any."""
    housed = homes is not None and table.has(UNIT)
    checks: list[Check] = [_identity(table)] if housed else []
    codes: dict[str, Column] = {}
    for attribute in product.schema.attributes:
        if housed and attribute.name == product.class_query:
            codes[attribute.name] = F.col(HOME)
            continue
        codes[attribute.name], more = table.code_checks(attribute.name, attribute.size)
        checks += more
    if homes is None or not housed:
        geocode, more = table.geocode_checks(GEOCODE, spine.leaf.length)
        problems, _ = check_rows(table, [*checks, *more])
        return table.frame.select(geocode.alias(GEOCODE), cell_of(product.schema, codes).alias("cell")), problems
    problems, _ = check_rows(table, checks)
    mine = table.frame.select(
        table.column(UNIT).cast("string").alias(UNIT),
        *[code.alias(f"code_{name}") for name, code in codes.items() if name != product.class_query],
    )
    problems = problems or _homeless(table, homes)
    codes = {name: F.col(HOME) if name == product.class_query else F.col(f"code_{name}") for name in codes}
    joined = mine.join(homes, UNIT)
    return joined.select(GEOCODE, cell_of(product.schema, codes).alias("cell")), problems


def _homeless(table: Table, homes: DataFrame) -> list[Problem]:
    with reading(table.file):
        identity = table.column(UNIT).cast("string")
        units = homes.select(F.col(UNIT).alias("known_unit"))
        rows = table.frame.join(units, identity == F.col("known_unit"), "left_anti")
        number = rows.count()
        if not number:
            return []
        examples = row_numbers(table.frame, rows)
    return [Problem(table.file, table.name(UNIT), "the unit of every person in the unit records", number, examples)]


def _gather(homes: DataFrame, classes: int) -> DataFrame:
    def number(condition: Column) -> Column:
        return F.sum(condition.cast("long"))

    occupied = F.col(VACANT) == 0
    by_class = [number(occupied & (F.col(HOME) == each)) for each in range(classes)]
    return homes.groupBy(GEOCODE).agg(F.array(*by_class).alias(UNITS), F.sum(VACANT).alias(VACANT))


def _all_geounits(
    spark: SparkSession, units: DataFrame, places: Places, settings: InputSettings, product: Product, spine: Spine
) -> tuple[DataFrame, list[Problem]]:
    geography, problems = read_geography(Table.open(spark, places.geography, settings), spine)
    if not problems:
        field = settings.columns.get(GEOCODE, GEOCODE)
        problems = outside(places.units, field, units, geography, places.geography)
    return with_empty_geounits(units, geography, len(product.unit_classes)), problems
