"""Reader of the census edited file (CEF) of 2020: person and unit records, and the geographic reference file (GRF-C).

Recodes are those of the production of June 2021. The class of persons and units is the first digit of the type of
group quarters, 7 for 7, 8 and 9. Every block of the reference file exists, with units or without. A product of housing
units reads units and geography alone: vacant where VACS is 1 to 7, else occupied.

Where the release drops records silently, this reader refuses: persons without a unit, units without a block. Besides,
what persons and units say of each other must agree: the type of group quarters, and their numbers state by state. A
facility without persons breaks the bounds that facilities put on persons; it is refused too, unless
``input.unit_conflicts`` takes the units from the people.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError
from das_spark.io.cef_layout import CLASSES, ENDINGS, FILES, PERSON, UNIT
from das_spark.io.readers._cef_lines import look_at_records, open_persons, open_units
from das_spark.io.readers._cef_relations import Census
from das_spark.io.readers._cef_units import ATTRIBUTES, CELLS, VACANT
from das_spark.io.readers._grfc import GEOCODE, look_at_geography, open_geography
from das_spark.io.readers._sources import named_in, require_path, required
from das_spark.io.readers._target import leaf_geocode, require_attributes
from das_spark.io.readers._units import UNITS, housing_counts
from das_spark.io.readers._units import VACANT as VACANT_UNITS
from das_spark.io.readers.base import IngestedTables, Problem, reading, refuse, released_if_refused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product

UNIT_ATTRIBUTES = {"h1": 2}
_GEOCODE_LENGTH = 16


@dataclass(frozen=True, slots=True)
class Cef2020:
    """Reads persons, units and blocks, each a file or a folder of parts, plain or gzipped."""

    name: str = "cef_2020"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See without Spark how the files begin; see :class:`~das_spark.io.readers.base.Reader`.

        Args:
            settings: Where the files are.
            product: What the run publishes.
            spine: Its lowest level says how long the geocodes are.

        Raises:
            InputError: A file is missing, unreadable, or does not begin with a record, or with the names of columns.
            ConfigurationError: The product or the spine is not for this reader, or a path is not set.
        """
        persons, units, geography = self._paths(settings, product, spine)
        if persons:
            look_at_records(persons, PERSON)
        look_at_records(units, UNIT)
        look_at_geography(geography)

    def _paths(self, settings: InputSettings, product: Product, spine: Spine) -> tuple[str, str, str]:
        """Paths of persons (empty where units are counted), units and geography."""
        of_units = product.record == "unit"
        require_attributes(self.name, product, UNIT_ATTRIBUTES if of_units else ATTRIBUTES)
        if spine.leaf.length > _GEOCODE_LENGTH:
            raise ConfigurationError(f"reader {self.name!r} gives geocodes of {_GEOCODE_LENGTH} digits")
        return _locate(settings, self.name, of_units=of_units)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Read and check the files; see :class:`~das_spark.io.readers.base.Reader`.

        Facilities without persons, where they are let pass, and persons where a structural zero allows none are among
        the problems of the tables.

        Args:
            spark: The session.
            settings: Where the files are, and whether facilities without people are let pass.
            product: What the run publishes.
            spine: Its lowest level says how long the geocodes are.

        Raises:
            InputError: A file is missing, unreadable or holds something that is not allowed.
            ConfigurationError: The product or the spine is not for this reader, or a path is not set.
        """
        of_units = product.record == "unit"
        persons, units, geography = self._paths(settings, product, spine)
        reference = open_geography(spark, geography)
        of_geography = reference.problems()
        with reading(" or ".join(file for file in (persons, units) if file)):
            census = Census.of(open_units(spark, units), open_persons(spark, persons) if persons else None, reference)
            with released_if_refused(census.counted):
                refuse([*of_geography, *census.line_problems()])
                passed = _relations(census, product, settings)
        geounits = _geounits(census, spine)
        counts = housing_counts(geounits) if of_units else _counts(census, spine)
        return IngestedTables(counts, geounits, passed, held=census.counted)


def _locate(settings: InputSettings, reader: str, *, of_units: bool) -> tuple[str, str, str]:
    found = {name: getattr(settings, name) for name in FILES}
    if settings.path:
        require_path(settings.path)
        found = {name: path or named_in(settings.path, name, ENDINGS) for name, path in found.items()}
    wanted = FILES[1:] if of_units else FILES
    paths = {name: required(found[name], f"input.{name}", reader) for name in wanted}
    return paths.get(FILES[0], ""), paths[FILES[1]], paths[FILES[2]]


def _relations(census: Census, product: Product, settings: InputSettings) -> tuple[Problem, ...]:
    """Refuse what contradicts itself; what is left are things to know."""
    refuse(census.relation_problems())
    empty = census.empty_facilities()
    if settings.unit_conflicts == "fail":
        refuse(empty, hint='correct the files, or set input.unit_conflicts = "from_people"')
    for zero in product.structural_zeros:
        cells = set(np.flatnonzero(zero.mask(product.schema)).tolist())
        empty += census.in_cells(cells, "QAGE, QGQTYP", zero.meaning)
    return tuple(empty)


def _counts(census: Census, spine: Spine) -> DataFrame:
    return census.counted.where(F.col("code") < CELLS).select(
        leaf_geocode(GEOCODE, spine).alias(GEOCODE), F.col("code").alias("cell"), "count"
    )


def _geounits(census: Census, spine: Spine) -> DataFrame:
    def number(code: int) -> Column:
        return F.coalesce(F.sum(F.when(F.col("code") == code, F.col("count"))), F.lit(0).cast("long"))

    nothing = census.geography.blocks.select(GEOCODE, F.lit(None).cast("int").alias("code"), F.lit(0).alias("count"))
    units = census.counted.where(F.col("code").between(CELLS, VACANT)).select(GEOCODE, "code", "count")
    every = nothing.unionByName(units).groupBy(leaf_geocode(GEOCODE, spine).alias(GEOCODE))
    by_class = [number(CELLS + level) for level in range(CLASSES)]
    return every.agg(F.array(*by_class).alias(UNITS), number(VACANT).alias(VACANT_UNITS))
