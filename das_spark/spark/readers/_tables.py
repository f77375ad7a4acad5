"""Tables with named columns, as CSV or Parquet: opened, and what is made of units and geounits."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from das_spark.errors import InputError
from das_spark.io.input_fields import Names
from das_spark.io.input_files import CsvForm, is_catalog_table
from das_spark.io.input_tables import InputTable
from das_spark.io.listed_files import ROW
from das_spark.spark.readers._reading import Reading
from das_spark.spark.readers._resolved import GeographyRows, Level, LongUnits, Resolve, WideUnits
from das_spark.spark.readers._units import UNITS

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.spark.readers.base import Target

#: From the names of a table to what is made of its rows.
Resolving = Callable[[Names], Resolve]


def opened(spark: SparkSession, file: str, settings: InputSettings, key: str, resolving: Resolving) -> Reading:
    """Open a table that is named by a key of the settings.

    Raises:
        InputError: It cannot be read, or has not the columns that are needed.
    """
    if is_catalog_table(file):
        from das_spark.spark.catalog import catalog_rows  # noqa: PLC0415 - for such tables alone

        names = Names.of_catalog(settings, key, file, names_of(catalog_rows(spark, file)))
        return _required(Reading(names, resolving(names), None))
    return _opened_file(file, settings, key, resolving)[0]


def _opened_file(file: str, settings: InputSettings, key: str, resolving: Resolving) -> tuple[Reading, InputTable]:
    table = InputTable.open(file, CsvForm.of(settings))
    names = Names.of_file(settings, key, table)
    return _required(Reading(names, resolving(names), table)), table


def _required(reading: Reading) -> Reading:
    reading.names.require(*reading.resolve.fields(reading.names))
    return reading


def look_at(path: str, settings: InputSettings, key: str, resolving: Resolving, *, without_rows: str) -> None:
    """See without Spark that a table is one, has some columns and a row; what is left to Spark is not looked at."""
    if not path or is_catalog_table(path):
        return
    _, table = _opened_file(path, settings, key, resolving)
    if not table.has_rows():
        raise InputError(f"{path}: the table has no rows, so {without_rows}")


def units_of(target: Target) -> Resolving:
    """Read a table of units by class, one row a geounit and class, or one row a geounit with a column a class.

    Long form: columns geocode, the class attribute's name (such as ``hhgq``), ``units``, and perhaps ``vacant``. Wide
    form: geocode, ``units_0`` to ``units_7`` (for eight classes), and perhaps ``vacant``. Vacant units are none where
    there is no such column. Of a product whose units bound nothing, and which has no name for their class, the wide
    form alone is read.
    """

    def resolve(names: Names) -> Resolve:
        coded = target.recodes.unit_class
        if coded is None or (not names.has(coded.name) and names.has(f"{UNITS}_0")):
            return WideUnits(target.spine, target.classes)
        return LongUnits(target.spine, unit_class(target))

    return resolve


def geography_of(target: Target) -> Resolving:
    """Read a table of the geounits that exist."""
    return lambda _: GeographyRows(target.spine)


def unit_class(target: Target) -> Level:
    """The class of units, which a table of units may call by the labels of the attribute that tells that of people."""
    return Level(target.product.class_query, target.unit_class, tuple(target.product.unit_classes), 0)


def names_of(frame: DataFrame) -> list[str]:
    """Columns that a table has in its file."""
    return [name for name in frame.columns if name != ROW]
