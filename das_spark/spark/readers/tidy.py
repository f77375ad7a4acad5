"""Tidy tables: counts of cells, records of persons and units, geography; as CSV or Parquet, files or folders.

Column names and code bases come from the settings. `TidyCounts` reads a row for every occupied cell: ``geocode``,
one field for every attribute of the product's schema, ``count``; and a table of units or geounits
(:func:`~das_spark.spark.readers._tables.read_units`). In a folder they are called ``persons`` and ``units``, and those
of a product of households ``households`` and ``living_quarters`` (or ``units``): housing units, occupied (``units_0``)
and ``vacant``, and the facilities of each type. A product that counts housing units finds these in ``housing_units``.
A table without ``geocode`` may have ``block``, the 15 digits of a census block, where the lowest level is the block.

`TidyRecords` reads a row for every person and a row for every housing unit or facility. Fields of units: ``unit`` (its
identity), ``geocode``, the class attribute (such as ``hhgq``), and perhaps ``vacant`` (0 or 1). Fields of persons: the
attributes of the product's schema, and ``unit`` or ``geocode``. With ``unit``, the person's geocode and class are those
of the unit, and a column of either in the table of persons is not read; without it, or with
``input.units_from_people``, both must be there. Households, or housing units, take the place of persons where a product
counts these. The field of units with their class is ``unit_class`` then, and a record is of a housing unit of its own.

With ``input.units_from_people``, or where a product has no classes of units, a table of geounits takes the place of the
units. Where a product has recodes of its own for one of these readers, fields are those that it names.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from das_spark.errors import PrivacyGuardError
from das_spark.io.input_fields import GEOCODE, Names
from das_spark.io.input_files import companion, is_catalog_table, require_path, required
from das_spark.io.table_folder import table_files
from das_spark.products import CodedField, FileRecodes
from das_spark.spark.readers._gathered import Gathering, Join
from das_spark.spark.readers._passes import LeafPass, Rule, UnitPass
from das_spark.spark.readers._reading import Reading
from das_spark.spark.readers._resolved import COUNT, NO_GEOUNIT, UNIT, CountRows, HomeRows, Kind, RecordRows, levels_of
from das_spark.spark.readers._tables import (
    Resolving,
    geography_of,
    look_at,
    opened,
    unit_class,
    units_of,
)
from das_spark.spark.readers._units import UNITS, made_units
from das_spark.spark.readers.base import IngestedTables, Target, strides_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products.base import Product, Record


_OF_RECORDS: Final = "tidy_records"
_NO_RECORD: Final = "there is no record to protect"


@dataclass(frozen=True, slots=True)
class TidyCounts:
    """Reads counts of cells, as CSV or Parquet, files or folders."""

    name: str = "tidy_counts"
    reads_tables: bool = True

    def files(self, settings: InputSettings) -> dict[str, bool]:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        return files_of_tables(settings)

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        target = tidy_target(self.name, product, spine)
        places = _locate(settings, self.name, product)
        look_at_tables(places, settings, self._counts(target), units_of(target), target, without_rows=_NO_RECORD)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        return self.gathering(spark, settings, product, spine).read(spark)

    def gathering(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> Gathering:
        """Open the tables, and say how they come together."""
        places, target = _locate(settings, self.name, product), tidy_target(self.name, product, spine)
        people = opened(spark, places.persons, settings, "persons", self._counts(target))
        return gathering(spark, people, places, settings, target, units_of(target), summed=COUNT)

    @staticmethod
    def _counts(target: Target) -> Resolving:
        return lambda _: CountRows(target.spine, levels_of(target))


def tidy_target(reader: str, product: Product, spine: Spine) -> Target:
    """What is read for: unless the product says else, columns are attributes and codes the numbers of their levels."""
    attributes = {
        attribute.name: CodedField.numbered(attribute.name, attribute.size) for attribute in product.schema.attributes
    }
    named = product.class_query
    if product.record != "person":  # units bound how many there are, and tell no attribute of them
        named = _UNIT_CLASS if reader == _OF_RECORDS else ""
    classes = CodedField.numbered(named, len(product.unit_classes)) if named else None
    return Target.of(reader, product, spine, default=FileRecodes(attributes, classes))


@dataclass(frozen=True, slots=True)
class Places:
    """Paths of the tables of a tidy population, empty where there is none."""

    persons: str
    units: str
    geography: str


#: What the table of what is counted is called in a folder.
_RECORDS: Final[Mapping[Record, str]] = {"person": "persons", "household": "households", "unit": "housing_units"}
#: Where households are counted, the table of units by the type of facility, so that it may stand beside those of a
#: product of persons.
_LIVING_QUARTERS: Final = "living_quarters"


#: What a table of the geounits that exist is called, in the settings and in a folder.
_GEOGRAPHY: Final = "geography"


def files_of_tables(settings: InputSettings) -> dict[str, bool]:
    """List the files of all tables: those that the settings name, others by their names in the folder `input.path`."""
    named = {"persons": settings.persons, "units": settings.units, _GEOGRAPHY: settings.geography}
    called = {"persons": _RECORDS.values(), "units": ("units", _LIVING_QUARTERS), _GEOGRAPHY: (_GEOGRAPHY,)}
    places = list(named.items())
    if settings.path:
        require_path(settings.path)
        names = ((key, name) for key, names in called.items() if not named[key] for name in names)
        places += [(key, companion(settings.path, name)) for key, name in names]
    files: dict[str, bool] = {}
    for key, place in places:
        if place and not is_catalog_table(place):
            for file in table_files(place):
                files[file.path] = files.get(file.path, False) or key != _GEOGRAPHY
    return files


def places_of(
    settings: InputSettings, reader: str, names: Sequence[str], of_units: Sequence[str] = ("units",)
) -> Places:
    """Find the tables: by the paths of the settings, or by their names in the folder `input.path`.

    Args:
        settings: Where the files are.
        reader: Which needs the table of what is counted.
        names: What that may be called, the first one where there is none.
        of_units: What the table of units may be called.
    """
    persons, units, geography = settings.persons, settings.units, settings.geography
    if settings.path:
        require_path(settings.path)
        persons = persons or _named(settings.path, names) or f"{settings.path.rstrip('/')}/{names[0]}.parquet"
        units = units or _named(settings.path, of_units)
        geography = geography or _named(settings.path, (_GEOGRAPHY,))
    persons = required(persons, "input.persons", reader)
    for path in filter(None, (persons, units, geography)):
        require_path(path)
    return Places(persons, units or "", geography or "")


def _named(folder: str, names: Sequence[str]) -> str | None:
    """The first table of some names in a folder."""
    return next(filter(None, (companion(folder, name) for name in names)), None)


def _locate(settings: InputSettings, reader: str, product: Product) -> Places:
    """Find the tables, and by which geounits exist."""
    # Housing units may be called persons, as what is counted was once called whatever it is.
    names = (_RECORDS[product.record], *(("persons",) if product.record == "unit" else ()))
    of_units = (_LIVING_QUARTERS, "units") if product.record == "household" else ("units",)
    places = places_of(settings, reader, names, of_units)
    if (reader == _OF_RECORDS and _alone(settings, product)) or settings.units_from_people:
        # A table of units says which geounits exist, and no more.
        places = replace(places, units="", geography=places.geography or places.units)
    if not places.units and not places.geography:
        raise PrivacyGuardError(
            f"{places.persons}: occupied cells without a geography; where nobody lives would be published by omission",
            hint="name a table of the units or of all geounits: input.units or input.geography",
        )
    return places


def look_at_tables(
    places: Places,
    settings: InputSettings,
    counted: Resolving,
    units: Resolving,
    target: Target,
    *,
    without_rows: str,
) -> None:
    """See without Spark that tables are there and have their columns; `without_rows`: what one of no record means."""
    look_at(places.persons, settings, "persons", counted, without_rows=without_rows)
    look_at(places.units, settings, "units", units, without_rows=NO_GEOUNIT)
    look_at(places.geography, settings, "geography", geography_of(target), without_rows=NO_GEOUNIT)


def gathering(
    spark: SparkSession,
    counted: Reading,
    places: Places,
    settings: InputSettings,
    target: Target,
    units: Resolving,
    *,
    summed: str = "",
) -> Gathering:
    """Say how what is counted comes together with units and geounits.

    Args:
        spark: The session.
        counted: The table of what is counted.
        places: Of the tables.
        settings: How they are written.
        target: What is read for.
        units: What is made of a table of units.
        summed: Field of what is counted whose sum an int64 must hold.
    """
    others = {
        key: opened(spark, place, settings, key, resolving)
        for key, place, resolving in (
            ("units", places.units, units),
            ("geography", places.geography, geography_of(target)),
        )
        if place
    }
    product = target.product
    leaves = _leaves(counted, others.get("units"), others.get("geography"), settings, target)
    sums = {"persons": summed} if summed else {}
    if "units" in others and not others["units"].resolve.are_records:
        sums["units"] = UNITS
    by_unit = _by_unit(counted, others.get("units"), product)
    of_units = isinstance(counted.resolve, RecordRows) and counted.resolve.of_unit
    together = ("persons", "units") if of_units else ("units",)
    joins = () if by_unit is None else (Join(together, by_unit),)
    return Gathering((counted, *others.values()), sums, joins, product.records, settings.identity, leaves)


def _leaves(
    counted: Reading, units: Reading | None, geography: Reading | None, settings: InputSettings, target: Target
) -> LeafPass:
    """Say what is expected of geounits, and by which table they exist."""
    tables = [table for table in (geography, units, counted) if table is not None]
    once, inside, heads, records = dict[Kind, Rule](), dict[Kind, Rule](), dict[Kind, int](), set[Kind]()
    known = tables[0]
    for table in tables:
        resolve = table.resolve
        for kind in resolve.kinds:
            if resolve.once:
                once[kind] = _at_geocode(table, resolve.once)
            if resolve.head is not None:
                heads[kind] = resolve.head
            if resolve.are_records:
                records.add(kind)
            if table is not known:
                inside[kind] = _at_geocode(table, f"a geocode that is in {known.names.file}")
    made = made_units(target.product) if settings.units_from_people else None
    return LeafPass(
        target.classes, known.resolve.kinds, once, inside, heads, frozenset(records), units is not None, made
    )


def _at_geocode(table: Reading, expected: str) -> Rule:
    return Rule(table.names.file, table.names.of(GEOCODE), expected)


def _by_unit(counted: Reading, units: Reading | None, product: Product) -> UnitPass | None:
    """Say how records come to their units, where there are records of units."""
    if units is None or not units.resolve.are_records:
        return None
    once = Rule(units.names.file, units.names.of(UNIT), "each household once")
    file, field, alone = counted.names.file, counted.names.of(UNIT), None
    expected = "the unit of every person in the unit records"
    if product.record != "person":
        alone = Rule(file, field, once.expected)
        kind = "an occupied" if product.record == "household" else "a"
        expected = f"{kind} housing unit of the unit records"
    bound = bool(product.records.contributor)
    return UnitPass(once, Rule(file, field, expected), alone, product.record == "household", bound)


_UNIT_CLASS: Final = "unit_class"
"""Field of unit records that tells the class, where no attribute of what is counted is called so."""


@dataclass(frozen=True, slots=True)
class TidyRecords:
    """Reads records of persons and units, as CSV or Parquet, files or folders."""

    name: str = _OF_RECORDS
    reads_tables: bool = True

    def files(self, settings: InputSettings) -> dict[str, bool]:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        return files_of_tables(settings)

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        places, target = self._places(settings, product), tidy_target(self.name, product, spine)
        counted = _records(settings, target)
        look_at_tables(places, settings, counted, _homes(target), target, without_rows=_NO_RECORD)

    def _places(self, settings: InputSettings, product: Product) -> Places:
        places = _locate(settings, self.name, product)
        if not places.units and not _alone(settings, product):
            raise PrivacyGuardError(
                f"{places.persons}: records without unit records; empty places would be published by omission",
                hint="name the table of unit records: input.units",
            )
        return places

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        return self.gathering(spark, settings, product, spine).read(spark)

    def gathering(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> Gathering:
        """Open the tables, and say how they come together."""
        places, target = self._places(settings, product), tidy_target(self.name, product, spine)
        people = opened(spark, places.persons, settings, "persons", _records(settings, target))
        return gathering(spark, people, places, settings, target, _homes(target))


def _alone(settings: InputSettings, product: Product) -> bool:
    """Whether records say themselves where they are and of what: units are made of them, or have no classes."""
    return settings.units_from_people or (product.record == "person" and not product.class_query)


def _records(settings: InputSettings, target: Target) -> Resolving:
    """Records of what is counted, which name their unit, or where they are and of what."""
    product = target.product

    def resolve(names: Names) -> RecordRows:
        of_unit = not _alone(settings, product) and names.has_optional(UNIT)
        levels = levels_of(target, without=product.class_query if of_unit else "")
        return RecordRows(target.spine, levels, of_unit, product.records, settings.identity)

    return resolve


def _homes(target: Target) -> Resolving:
    """Records of units."""
    product = target.product
    stride = strides_of(product.schema).get(product.class_query, 0) if product.record == "person" else 0
    return lambda _: HomeRows(target.spine, replace(unit_class(target), stride=stride))
