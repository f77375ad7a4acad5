"""Reader of tidy counts: a table with a row for every occupied cell, and a table of units or geounits.

Column names and code bases come from the settings. Fields of the table of people: ``geocode``, one for every
attribute of the product's schema, ``count``. Fields of the units: see :mod:`das_spark.io.readers._units`. A table
without ``geocode`` may have ``block``, the 15 digits of a census block, where the lowest level is the block. With
``input.units_from_people`` a table of geounits takes the place of the units.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from das_spark.errors import PrivacyGuardError
from das_spark.io.readers._begin import is_remote
from das_spark.io.readers._sources import companion, require_path, required
from das_spark.io.readers._target import cell_of
from das_spark.io.readers._tidy import NO_GEOUNIT, NO_RECORD, Table, check_rows, look_at
from das_spark.io.readers._units import (
    outside,
    read_geography,
    read_units,
    require_some,
    total_problem,
    unit_fields,
    units_from_people,
    with_empty_geounits,
)
from das_spark.io.readers.base import IngestedTables, Problem, refuse

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product

COUNT = "count"


@dataclass(frozen=True, slots=True)
class TidyCounts:
    """Reads counts of cells, as CSV or Parquet, files or folders."""

    name: str = "tidy_counts"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See without Spark how the tables begin; see :class:`~das_spark.io.readers.base.Reader`.

        Args:
            settings: Where the files are and how their columns are called.
            product: What the run publishes.
            spine: Not asked.

        Raises:
            InputError: A table is missing, no table, or lacks a column or any row.
            ConfigurationError: No path of the people is set.
            PrivacyGuardError: Nothing says which geounits exist.
        """
        places = locate(settings, self.name)
        counted = ("geocode", *(attribute.name for attribute in product.schema.attributes), COUNT)
        look_at(places.persons, settings, lambda _: counted, without_rows=NO_RECORD)
        look_at(places.units, settings, lambda names: unit_fields(names, product), without_rows=NO_GEOUNIT)
        look_at(places.geography, settings, lambda _: ("geocode",), without_rows=NO_GEOUNIT)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Read and check the tables; see :class:`~das_spark.io.readers.base.Reader`.

        Args:
            spark: The session.
            settings: Where the files are and how their columns are called.
            product: What the run publishes.
            spine: Its lowest level says how long the geocodes are.

        Raises:
            InputError: A file is missing, unreadable or holds something that is not allowed.
            ConfigurationError: No path of the people is set.
            PrivacyGuardError: Nothing says which geounits exist.
        """
        places = locate(settings, self.name)
        people = Table.open(spark, places.persons, settings)
        counts, problems = _counts(people, product, spine)
        geounits, more = geounits_of(spark, places, settings, product, spine)
        problems += more
        if not problems:
            where = places.geography or places.units
            problems += outside(people.file, people.name("geocode"), counts, geounits, where)
        refuse(problems)
        if settings.units_from_people:
            geounits = units_from_people(counts, geounits, product)
        return IngestedTables(counts, geounits)


@dataclass(frozen=True, slots=True)
class Places:
    """Paths of the tables of a tidy population.

    Args:
        persons: People.
        units: Units by class, or empty, as where they are made from people.
        geography: Geounits that exist, or empty.
    """

    persons: str
    units: str
    geography: str


def locate(settings: InputSettings, reader: str) -> Places:
    """Find the tables: by the paths of the settings, or by their names in the folder `input.path`.

    Args:
        settings: What the run file says of the input.
        reader: Name of the reader, for messages.

    Raises:
        ConfigurationError: No path of the people.
        InputError: A path does not exist.
        PrivacyGuardError: Neither units nor geography are given: which geounits exist would follow from who lives
            there.
    """
    persons, units, geography = settings.persons, settings.units, settings.geography
    if settings.path:
        require_path(settings.path)
        persons = persons or companion(settings.path, "persons") or str(Path(settings.path) / "persons.parquet")
        units = units or companion(settings.path, "units")
        if not is_remote(settings.path):
            geography = geography or companion(settings.path, "geography")
    persons = required(persons, "input.persons", reader)
    require_path(persons)
    if settings.units_from_people:
        units, geography = None, geography or units  # a table of units says which geounits exist, and no more
    if not units and not geography:
        raise PrivacyGuardError(
            f"{persons}: occupied cells without a geography; where nobody lives would be published by omission",
            hint="name a table of the units or of all geounits: input.units or input.geography",
        )
    for path in (units, geography):
        if path:
            require_path(path)
    return Places(persons, units or "", geography or "")


def geounits_of(
    spark: SparkSession, places: Places, settings: InputSettings, product: Product, spine: Spine
) -> tuple[DataFrame, list[Problem]]:
    """Read the geounits that exist, with their units where there is a table of units.

    Args:
        spark: The session.
        places: Paths of the tables.
        settings: Names of columns and code bases.
        product: Its classes say what the units are.
        spine: Its lowest level says how long the geocodes are.

    Returns:
        Columns geocode, units, vacant; and what is wrong.

    Raises:
        InputError: A table is missing, unreadable or empty, or lacks a column.
        PrivacyGuardError: Neither units nor geography are given.
    """
    geography: DataFrame | None = None
    problems: list[Problem] = []
    if places.geography:
        geography, problems = read_geography(Table.open(spark, places.geography, settings), spine)
        if not problems:
            require_some(geography, places.geography)
    if not places.units:
        return _known(geography), problems
    table = Table.open(spark, places.units, settings)
    units, more = read_units(table, product, spine)
    problems += more
    if problems:
        return units, problems
    require_some(units, places.units)
    if geography is None:
        return units, problems
    problems += outside(places.units, table.name("geocode"), units, geography, places.geography)
    return with_empty_geounits(units, geography, len(product.unit_classes)), problems


def _known(geography: DataFrame | None) -> DataFrame:
    if geography is None:
        raise PrivacyGuardError("occupied cells without a geography", hint="set input.units or input.geography")
    return geography


def _counts(table: Table, product: Product, spine: Spine) -> tuple[DataFrame, list[Problem]]:
    geocode, checks = table.geocode_checks("geocode", spine.leaf.length)
    codes = {}
    for attribute in product.schema.attributes:
        codes[attribute.name], more = table.code_checks(attribute.name, attribute.size)
        checks += more
    count, more = table.count_checks(COUNT)
    problems, total = check_rows(table, [*checks, *more], count)
    problems += total_problem(table, COUNT, total)
    frame = table.frame.select(
        geocode.alias("geocode"), cell_of(product.schema, codes).alias("cell"), count.alias("count")
    )
    return frame, problems
