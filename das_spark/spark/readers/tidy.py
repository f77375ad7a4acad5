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

`Tidy` reads a table of geography, a row a block, the entities in columns of known names; beside it may stand tables
that say which blocks have group quarters, and a crosswalk to primitive geounits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.errors import InputError, PrivacyGuardError
from das_spark.geography import BLOCK, CENSUS_BLOCK, ENTITY_COLUMNS, GQ_TYPES
from das_spark.io.input_fields import GEOCODE, Names
from das_spark.io.input_files import companion, require_path, required
from das_spark.io.input_tables import columns_in
from das_spark.io.listed_files import POSITION
from das_spark.products import CodedField, FileRecodes
from das_spark.spark.problems import FAULTS, RowCheck, faults, is_not, reading, refuse, row_problems
from das_spark.spark.readers._areas import CODES_HINT, AreaRows, checked, repeated_blocks
from das_spark.spark.readers._gathered import NO_GEOUNIT, Gathering
from das_spark.spark.readers._passes import LeafPass, Rule, UnitPass
from das_spark.spark.readers._reading import Reading
from das_spark.spark.readers._resolved import COUNT, UNIT, CountRows, HomeRows, Kind, RecordRows, levels_of
from das_spark.spark.readers._tables import (
    Resolving,
    geography_of,
    is_whole,
    look_at,
    names_of,
    opened,
    read_table,
    row_checks,
    unit_class,
    units_of,
)
from das_spark.spark.readers._units import UNITS, made_units
from das_spark.spark.readers.base import EntityBlocks, IngestedTables, Target, sixteen, strides_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products.base import Product, Record


_OF_RECORDS: Final = "tidy_records"
_NO_RECORD: Final = "there is no record to protect"


@dataclass(frozen=True, slots=True)
class TidyCounts:
    """Reads counts of cells, as CSV or Parquet, files or folders."""

    name: str = "tidy_counts"

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
    attributes = {each.name: CodedField.numbered(each.name, each.size) for each in product.schema.attributes}
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


def _locate(settings: InputSettings, reader: str, product: Product) -> Places:
    """Find the tables: by the paths of the settings, or by their names in the folder `input.path`."""
    name = _RECORDS[product.record]
    persons, units, geography = settings.persons, settings.units, settings.geography
    if settings.path:
        require_path(settings.path)
        # Housing units may be called persons, as what is counted was once called whatever it is.
        known = (name, "persons") if product.record == "unit" else (name,)
        found = (companion(settings.path, each) for each in known)
        persons = persons or next(filter(None, found), f"{settings.path.rstrip('/')}/{name}.parquet")
        of_households = companion(settings.path, _LIVING_QUARTERS) if product.record == "household" else None
        units = units or of_households or companion(settings.path, "units")
        geography = geography or companion(settings.path, "geography")
    persons = required(persons, "input.persons", reader)
    require_path(persons)
    if (reader == _OF_RECORDS and _alone(settings, product)) or settings.units_from_people:
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
    tables = (counted, *others.values())
    return Gathering(tables, together, sums, by_unit, product.records, settings.identity, leaves)


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
        of_unit = not _alone(settings, product) and names.has(UNIT)
        levels = levels_of(target, without=product.class_query if of_unit else "")
        return RecordRows(target.spine, levels, of_unit, product.records, settings.identity)

    return resolve


def _homes(target: Target) -> Resolving:
    """Records of units."""
    product = target.product
    stride = strides_of(product.schema).get(product.class_query, 0) if product.record == "person" else 0
    return lambda _: HomeRows(target.spine, replace(unit_class(target), stride=stride))


#: Names of a column of census blocks of 15 digits, where there is none of geocodes of 16.
_BLOCK_NAMES: Final = ("block", "geoid")


class Tidy:
    """The reader of a table with geocode (16 digits) or block (15), and all columns of the entities by name.

    Columns: aiannhce, cousubfp, cousubfs, placefp, placefs, sdunilea, sdseclea, sdelmlea; a null or empty code says
    that the block lies in no such entity. Others are not looked at.
    """

    name = "tidy"

    def look(self, path: str) -> None:
        """See `GeographyReader`."""
        columns = columns_in(path)
        if columns is not None:
            _require_entities(path, columns)
            _block_field(path, columns)

    def read(self, spark: SparkSession, path: str) -> EntityBlocks:
        """Read a file or folder of Parquet or CSV; see `GeographyReader`."""
        frame = read_table(spark, path)
        _require_entities(path, names_of(frame))
        field, geocode = _block_column(path, frame)
        rows = AreaRows(
            file=path,
            frame=frame,
            whole=is_whole(frame),
            is_block=F.lit(True),
            geocode=geocode,
            geocode_field=field,
            fields={name: (name, F.col(name).cast("string")) for name in ENTITY_COLUMNS},
            checks=tuple(row_checks(path, frame)),
        )
        return checked(rows)


def _block_field(path: str, columns: Sequence[str]) -> str:
    """The name of the column of a table that names blocks."""
    name = next((name for name in (GEOCODE, *_BLOCK_NAMES) if name in columns), None)
    if name is None:
        raise InputError(
            f"{path}: no column 'geocode' of 16 digits, and no 'block' of {CENSUS_BLOCK}",
            hint=f"the file has {', '.join(columns)}",
        )
    return name


def _require_entities(path: str, columns: Sequence[str]) -> None:
    missing = [name for name in ENTITY_COLUMNS if name not in columns]
    if missing:
        near = get_close_matches(missing[0], columns, n=1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise InputError(
            f"{path}: no column {', '.join(map(repr, missing))}",
            hint=f"{guess}the file has {', '.join(columns)}; a column of nulls says that there is none",
        )


def _block_column(path: str, frame: DataFrame) -> tuple[str, Column]:
    """The column of a table that names blocks, and the geocodes in it."""
    name = _block_field(path, names_of(frame))
    text = F.coalesce(F.col(name).cast("string"), F.lit(""))
    if name == GEOCODE:
        return name, text
    good = text.rlike(f"^[0-9]{{{CENSUS_BLOCK}}}$")
    # What is no block must not be brought into the form of one.
    return name, F.when(good, sixteen(text)).otherwise(F.lit(""))


#: How a table may call the columns of the seven major types of group quarters.
_QUARTERS: Final = tuple(
    tuple(f"{prefix}{number}" for number in range(1, GQ_TYPES + 1)) for prefix in ("gq", "units_", "gq_")
)
_PRIMITIVE: Final = ("primitive", "prim")


def read_quarters(spark: SparkSession, path: str) -> DataFrame:
    """Read which blocks have facilities of which major types of group quarters.

    Args:
        spark: The session.
        path: Parquet or CSV with geocode (16 digits), block or geoid (15); and gq1 to gq7 or units_1 to units_7: a
            number of facilities or of people, above 0 where there is a facility; null for none.

    Returns:
        Columns geocode (16 digits, each block once) and gq (array of 7 booleans).

    Raises:
        InputError: The file or a column is missing, or rows are malformed (`BadInputError`).
    """
    frame = read_table(spark, path)
    names = next((names for names in _QUARTERS if set(names) <= set(frame.columns)), None)
    if names is None:
        raise InputError(
            f"{path}: no columns {_QUARTERS[0][0]} to {_QUARTERS[0][-1]}, nor {_QUARTERS[1][0]} to {_QUARTERS[1][-1]}",
            hint=f"the file has {', '.join(names_of(frame))}",
        )
    checks, flags = [], []
    for name in names:
        number = F.col(name).try_cast("double")
        wrong = F.col(name).isNotNull() & is_not(number >= 0)
        checks.append(RowCheck(path, name, "a number of 0 or more", wrong))
        flags.append(F.coalesce(number > 0, F.lit(False)))
    return _checked(path, frame, checks, F.array(*flags).alias("gq"))


def read_crosswalk(spark: SparkSession, path: str) -> DataFrame:
    """Read the crosswalk from blocks to primitive geounits; whether it splits blocks is asked when it is used.

    Args:
        spark: The session.
        path: Parquet or CSV with geocode (16 digits), block or geoid (15), and primitive (or prim): any text.

    Returns:
        Columns geocode (16 digits) and primitive.

    Raises:
        InputError: The file or a column is missing, or rows are malformed (`BadInputError`).
    """
    frame = read_table(spark, path)
    name = _primitive(path, names_of(frame))
    text = F.trim(F.col(name).cast("string"))
    checks = [RowCheck(path, name, "the name of a primitive geounit", F.coalesce(text == "", F.lit(True)))]
    return _checked(path, frame, checks, text.alias("primitive"), once=False)


def look_at_crosswalk(path: str) -> None:
    """See, cheaply and without Spark, whether a crosswalk (`read_crosswalk`) is there and has its columns.

    Raises:
        InputError: The file or a column is missing.
    """
    columns = columns_in(path)
    if columns is not None:
        _primitive(path, columns)
        _block_field(path, columns)


def _primitive(path: str, columns: Sequence[str]) -> str:
    name = next((name for name in _PRIMITIVE if name in columns), None)
    if name is None:
        raise InputError(f"{path}: no column 'primitive'", hint=f"the file has {', '.join(columns)}")
    return name


def _checked(path: str, frame: DataFrame, checks: Sequence[RowCheck], value: Column, *, once: bool = True) -> DataFrame:
    field, geocode = _block_column(path, frame)
    digits = RowCheck(path, field, "the digits of a block, as text", ~geocode.rlike(f"^[0-9]{{{BLOCK}}}$"))
    of_rows = [replace(each, fails=is_whole(frame) & each.fails) for each in (digits, *checks)]
    rules = [*row_checks(path, frame), *of_rows]
    rows = frame.select(faults(rules), *POSITION, geocode.alias(GEOCODE), value)
    with reading(path):
        refuse(row_problems(rows, rules), hint=CODES_HINT, public=True)
        if once:
            refuse(repeated_blocks(path, field, rows), hint="each block has one row", public=True)
    return rows.drop(FAULTS, *POSITION)
