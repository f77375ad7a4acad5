"""Which geounits exist and how many units of each class they hold: unit tables and geography tables."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError, InputError
from das_spark.io.readers._tidy import LARGEST, NO_GEOUNIT, Table, check_rows
from das_spark.io.readers.base import MOST_EXAMPLES, Problem, reading

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.geography import Spine
    from das_spark.io.readers._rows import Check
    from das_spark.io.readers._tidy import Names
    from das_spark.products import Product

GEOCODE = "geocode"
UNITS = "units"
VACANT = "vacant"

PEOPLE_OF_UNITS = (5, 2)
"""Persons and housing units where no counts of units are published: five in two, so one for each 2.5."""


def read_units(table: Table, product: Product, spine: Spine) -> tuple[DataFrame, list[Problem]]:
    """Read a table of units by class, one row a geounit and class, or one row a geounit with a column a class.

    Long form: columns geocode, the class attribute's name (such as ``hhgq``), ``units``, and perhaps ``vacant``. Wide
    form: geocode, ``units_0`` to ``units_7`` (for eight classes), and perhaps ``vacant``. Vacant units are none where
    there is no such column. Of a product whose units bound nothing, and which has no name for their class, the wide
    form alone is read.

    Args:
        table: The opened table.
        product: Its classes.
        spine: Its lowest level.

    Returns:
        Columns geocode, units (array of long), vacant (long), one row a geounit; and what is wrong.

    Raises:
        InputError: A column is missing.
    """
    return _wide(table, product, spine) if _is_wide(table.names, product) else _long(table, product, spine)


def _is_wide(names: Names, product: Product) -> bool:
    return not product.class_query or (not names.has(product.class_query) and names.has(f"{UNITS}_0"))


def unit_fields(names: Names, product: Product) -> tuple[str, ...]:
    """The fields that a table of units must have, in the form that its columns tell.

    Args:
        names: Its columns.
        product: Its classes.
    """
    if _is_wide(names, product):
        return (GEOCODE, *(f"{UNITS}_{each}" for each in range(len(product.unit_classes))))
    return (GEOCODE, product.class_query, UNITS)


def _vacant(table: Table) -> tuple[Column, list[Check]]:
    return table.count_checks(VACANT) if table.has(VACANT) else (F.lit(0).cast("long"), [])


def _wide(table: Table, product: Product, spine: Spine) -> tuple[DataFrame, list[Problem]]:
    geocode, checks = table.geocode_checks(GEOCODE, spine.leaf.length)
    classes = [table.count_checks(f"{UNITS}_{each}") for each in range(len(product.unit_classes))]
    vacant, more = _vacant(table)
    every = [column for column, _ in classes] + [vacant]
    total = sum((column.cast("decimal(38,0)") for column in every[1:]), every[0].cast("decimal(38,0)"))
    problems, number = check_rows(table, [*checks, *(check for _, each in classes for check in each), *more], total)
    problems += _too_many(table, UNITS, number)
    frame = table.frame.select(
        geocode.alias(GEOCODE), F.array(*every[:-1]).alias(UNITS), F.coalesce(vacant, F.lit(0)).alias(VACANT)
    )
    return frame, problems or _repeated(table, frame, "each geounit in one row")


def _long(table: Table, product: Product, spine: Spine) -> tuple[DataFrame, list[Problem]]:
    geocode, checks = table.geocode_checks(GEOCODE, spine.leaf.length)
    level, level_checks = table.code_checks(product.class_query, len(product.unit_classes))
    units, unit_checks = table.count_checks(UNITS)
    vacant, vacant_checks = _vacant(table)
    problems, number = check_rows(table, [*checks, *level_checks, *unit_checks, *vacant_checks], units)
    problems += _too_many(table, table.name(UNITS), number)
    rows = table.frame.select(geocode.alias(GEOCODE), level.alias("level"), units.alias(UNITS), vacant.alias(VACANT))
    if problems:
        return rows, problems
    by_class = [
        F.coalesce(F.sum(F.when(F.col("level") == each, F.col(UNITS))), F.lit(0).cast("long"))
        for each in range(len(product.unit_classes))
    ]
    frame = rows.groupBy(GEOCODE).agg(F.array(*by_class).alias(UNITS), F.sum(VACANT).alias(VACANT))
    return frame, _repeated(table, rows, "each geounit and class in one row", "level")


def read_geography(table: Table, spine: Spine) -> tuple[DataFrame, list[Problem]]:
    """Read a table of the geounits that exist.

    Args:
        table: The opened table; its column geocode counts.
        spine: Its lowest level.

    Returns:
        Columns geocode, units and vacant (both null), one row a geounit; and what is wrong.

    Raises:
        InputError: The column is missing.
    """
    geocode, checks = table.geocode_checks(GEOCODE, spine.leaf.length)
    problems, _ = check_rows(table, checks)
    frame = table.frame.select(
        geocode.alias(GEOCODE),
        F.lit(None).cast("array<bigint>").alias(UNITS),
        F.lit(None).cast("bigint").alias(VACANT),
    )
    return frame, problems or _repeated(table, frame, "each geounit in one row")


def with_empty_geounits(units: DataFrame, geography: DataFrame, classes: int) -> DataFrame:
    """Add the geounits of a geography table that have no unit.

    Args:
        units: From :func:`read_units`.
        geography: From :func:`read_geography`.
        classes: Number of classes of units.
    """
    none = F.array(*[F.lit(0).cast("long")] * classes)
    joined = geography.select(GEOCODE).join(units, GEOCODE, "left")
    return joined.select(
        GEOCODE, F.coalesce(UNITS, none).alias(UNITS), F.coalesce(VACANT, F.lit(0).cast("long")).alias(VACANT)
    )


def housing_counts(geounits: DataFrame) -> DataFrame:
    """Housing units as what is counted, as table H1 has them: vacant (cell 0) and occupied (cell 1).

    Args:
        geounits: Columns geocode, units (by class), vacant.

    Returns:
        Columns geocode, cell, count; cells without units are left out.
    """
    cells = [
        F.struct(F.lit(cell).alias("cell"), number.alias("count"))
        for cell, number in enumerate((F.col(VACANT), F.get(UNITS, F.lit(0))))
    ]
    pairs = geounits.select(GEOCODE, F.explode(F.array(*cells)).alias("pair"))
    return pairs.select(GEOCODE, "pair.cell", "pair.count").where("count > 0")


def units_from_people(counts: DataFrame, geounits: DataFrame, product: Product) -> DataFrame:
    """Make the units of a run of which no counts are published, by the fixed rule that `plan` and statement tell.

    One housing unit for each 2.5 persons in households, rounded up, and one facility of a class of group quarters
    where it has people, or as many of either as can hold them; no unit is vacant.

    Args:
        counts: Columns geocode, cell, count; a cell may occur more than once.
        geounits: Every geounit, in its column geocode.
        product: Its classes of units are the levels of an attribute.

    Returns:
        Columns geocode, units, vacant, one row a geounit.

    Raises:
        ConfigurationError: The product does not count people.
    """
    if not product.class_query:
        raise ConfigurationError(
            f"input.units_from_people: product {product.name!r} counts the units themselves", hint="leave it out"
        )
    sizes = {attribute.name: attribute.size for attribute in product.schema.attributes}
    names = list(sizes)
    below = prod(sizes[name] for name in names[names.index(product.class_query) + 1 :])
    level = F.floor(F.col("cell") / below) % sizes[product.class_query]
    people = [
        F.sum(F.when(level == each, F.col("count")).otherwise(F.lit(0).cast("long")))
        for each in range(len(product.unit_classes))
    ]
    # Whole numbers throughout: a quotient of doubles would be one off where there are very many people.
    households = _quotient_up(people[0] * PEOPLE_OF_UNITS[1], PEOPLE_OF_UNITS[0])
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
    """Rows whose geocode is in no table of geounits.

    Args:
        file: Where the rows come from.
        field: The geocode, as that file calls it.
        rows: With a column geocode.
        geounits: With a column geocode.
        where: What should have it, for the message.
    """
    with reading(file):
        lost = rows.groupBy(GEOCODE).count().join(geounits.select(GEOCODE), GEOCODE, "left_anti")
        number = lost.agg(F.sum("count")).collect()[0][0]
        if not number:
            return []
        some = tuple(row[0] for row in lost.select(GEOCODE).orderBy(GEOCODE).limit(MOST_EXAMPLES).collect())
    return [Problem(file, field, f"a geocode that is in {where}", number, geounits=some)]


def _too_many(table: Table, field: str, number: int) -> list[Problem]:
    if number <= LARGEST:
        return []
    return [Problem(table.file, field, f"a sum over all rows up to {LARGEST:,}", 1)]


def total_problem(table: Table, field: str, number: int) -> list[Problem]:
    """A sum that an int64 cannot hold.

    Args:
        table: The table.
        field: The summed field.
        number: Its sum.
    """
    return _too_many(table, table.name(field), number)


def _repeated(table: Table, frame: DataFrame, expected: str, *keys: str) -> list[Problem]:
    with reading(table.file):
        twice = frame.groupBy(GEOCODE, *keys).count().where("count > 1")
        number = twice.agg(F.sum("count")).collect()[0][0]
        if not number:
            return []
        some = tuple(row[0] for row in twice.select(GEOCODE).distinct().orderBy(GEOCODE).limit(MOST_EXAMPLES).collect())
    return [Problem(table.file, table.name(GEOCODE), expected, number, geounits=some)]


def require_some(frame: DataFrame, file: str) -> None:
    """Refuse a table of geounits without a row.

    Args:
        frame: The rows.
        file: Where they come from, for the message.

    Raises:
        InputError: It is empty.
    """
    with reading(file):
        if frame.isEmpty():
            raise InputError(f"{file}: the table has no rows, so {NO_GEOUNIT}")
