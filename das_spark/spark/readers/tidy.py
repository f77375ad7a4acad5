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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.errors import InputError, PrivacyGuardError
from das_spark.geography import BLOCK, CENSUS_BLOCK, ENTITY_COLUMNS, GQ_TYPES
from das_spark.io.input_files import companion, require_path, required
from das_spark.io.input_tables import columns_in
from das_spark.io.listed_files import POSITION
from das_spark.products import CodedField, FileRecodes
from das_spark.spark.problems import (
    FAULTS,
    GEOCODE,
    Problem,
    RowCheck,
    faults,
    is_not,
    reading,
    refuse,
    row_numbers,
    row_problems,
)
from das_spark.spark.readers._areas import CODES_HINT, AreaRows, checked, repeated_blocks
from das_spark.spark.readers._contributors import CONTRIBUTOR, whose, within_bound
from das_spark.spark.readers._tables import (
    NO_GEOUNIT,
    Found,
    Names,
    TidyTable,
    class_level,
    is_whole,
    look_at,
    names_of,
    read_geography,
    read_table,
    read_units,
    row_checks,
    unit_fields,
)
from das_spark.spark.readers._units import UNITS, VACANT, units_from_people, with_empty_geounits
from das_spark.spark.readers.base import EntityBlocks, IngestedTables, Target, cell_of, sixteen

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products.base import Product, Record


_COUNT: Final = "count"
_OF_RECORDS: Final = "tidy_records"
_NO_RECORD: Final = "there is no record to protect"


@dataclass(frozen=True, slots=True)
class TidyCounts:
    """Reads counts of cells, as CSV or Parquet, files or folders."""

    name: str = "tidy_counts"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        places, target = _locate(settings, self.name, product), tidy_target(self.name, product, spine)
        counted = (GEOCODE, *(coded.name for coded in target.recodes.attributes.values()), _COUNT)
        look_at(places.persons, settings, "persons", lambda _: counted, without_rows=_NO_RECORD)
        look_at(places.units, settings, "units", lambda names: unit_fields(names, target), without_rows=NO_GEOUNIT)
        look_at(places.geography, settings, "geography", lambda _: (GEOCODE,), without_rows=NO_GEOUNIT)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        places, target = _locate(settings, self.name, product), tidy_target(self.name, product, spine)
        people = TidyTable.open(spark, places.persons, settings, "persons")
        counts, problems = _counts(people, target)
        geounits, more = geounits_of(spark, places, settings, target, read_units)
        problems += more
        if not problems:
            problems = people.outside(counts, geounits, places.geography or places.units)
        refuse(problems)
        if settings.units_from_people:
            geounits = units_from_people(counts, geounits, product)
        return IngestedTables(counts, geounits)


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


def geounits_of(
    spark: SparkSession,
    places: Places,
    settings: InputSettings,
    target: Target,
    units_of: Callable[[TidyTable, Target], Found],
) -> Found:
    """The geounits that exist, with their units where there is a table of units."""
    problems: list[Problem] = []
    if places.geography:
        geography, problems = read_geography(TidyTable.open(spark, places.geography, settings, "geography"), target)
        if not places.units:
            return geography, problems
    table = TidyTable.open(spark, places.units, settings, "units")
    units, more = units_of(table, target)
    problems += more
    if places.geography and not problems:
        problems = table.outside(units, geography, places.geography)
        units = with_empty_geounits(units, geography, target.classes)
    return units, problems


def _levels(table: TidyTable, target: Target, fields: Mapping[str, CodedField]) -> dict[str, Column]:
    """The levels of some attributes."""
    labels = {attribute.name: attribute.levels for attribute in target.product.schema.attributes}
    return {name: table.level(coded, labels[name], name) for name, coded in fields.items()}


def _counts(table: TidyTable, target: Target) -> Found:
    geocode = table.geocode(target.spine)
    levels = _levels(table, target, target.recodes.attributes)
    count = table.count(_COUNT)
    cell = cell_of(target.product.schema, levels).alias("cell")
    return table.frame.select(geocode, cell, count.alias(_COUNT)), table.problems(_COUNT, count)


_UNIT: Final = "unit"
_UNIT_CLASS: Final = "unit_class"
"""Field of unit records that tells the class, where no attribute of what is counted is called so."""
_HOME: Final = "home"


@dataclass(frozen=True, slots=True)
class TidyRecords:
    """Reads records of persons and units, as CSV or Parquet, files or folders."""

    name: str = _OF_RECORDS

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        places, target = self._places(settings, product), tidy_target(self.name, product, spine)
        own = target.recodes.attributes
        whose = [product.records.contributor] if product.records.contributor else []

        def of_persons(names: Names) -> list[str]:
            if _alone(settings, product) or not names.has(_UNIT):
                return [GEOCODE, *(coded.name for coded in own.values()), *whose]
            return [_UNIT, *(coded.name for name, coded in own.items() if name != product.class_query), *whose]

        look_at(places.persons, settings, "persons", of_persons, without_rows=_NO_RECORD)
        look_at(
            places.units, settings, "units", lambda _: (_UNIT, GEOCODE, target.unit_class.name), without_rows=NO_GEOUNIT
        )
        look_at(places.geography, settings, "geography", lambda _: (GEOCODE,), without_rows=NO_GEOUNIT)

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
        places, target = self._places(settings, product), tidy_target(self.name, product, spine)
        people = TidyTable.open(spark, places.persons, settings, "persons")
        homes: DataFrame | None = None
        problems: list[Problem] = []
        units_of = read_units
        if not _alone(settings, product):
            homes, problems = _homes(TidyTable.open(spark, places.units, settings, "units"), target)
            units_of = partial(_units, homes)
        records, more = _people(people, homes, target)
        geounits, others = geounits_of(spark, places, settings, target, units_of)
        problems += [*more, *others]
        if not problems and (homes is None or not people.has(_UNIT)):
            problems = people.outside(records, geounits, places.geography or places.units)
        refuse(problems)
        records, passed = within_bound(people, records, product.records, settings.identity)
        counts = records.groupBy(GEOCODE, "cell").agg(F.count(F.lit(1)).alias("count"))
        if settings.units_from_people:
            geounits = units_from_people(counts, geounits, product)
        return IngestedTables(counts, geounits, passed)


def _alone(settings: InputSettings, product: Product) -> bool:
    """Whether records say themselves where they are and of what: units are made of them, or have no classes."""
    return settings.units_from_people or (product.record == "person" and not product.class_query)


def _homes(table: TidyTable, target: Target) -> Found:
    """Unit records: unit, geocode, home (class), vacant (0 or 1)."""
    geocode, level = table.geocode(target.spine), class_level(table, target)
    unit = _identity(table)
    vacant: Column = F.lit(0).cast("long")
    if table.has(VACANT):
        vacant, is_whole, _ = table.whole(VACANT)
        empty = F.coalesce(vacant == 1, F.lit(False)) & F.coalesce(level != 0, F.lit(False))
        table.check(VACANT, "0 or 1", is_not(is_whole & vacant.isin(0, 1)))
        table.check(VACANT, "0 in every class but the first", empty)
    problems = table.problems()
    if not problems:
        table.require_some()
        problems = _repeated(table, unit)
    return table.frame.select(unit, geocode, level.alias(_HOME), vacant.alias(VACANT)), problems


def _identity(table: TidyTable) -> Column:
    table.check(_UNIT, "the identity of a unit in every row", table.column(_UNIT).isNull())
    return table.column(_UNIT).cast("string").alias(_UNIT)


def _repeated(table: TidyTable, unit: Column) -> list[Problem]:
    with reading(table.file):
        twice = table.frame.groupBy(unit.alias("twice")).count().where("count > 1")
        number = twice.agg(F.sum("count")).collect()[0][0]
        if not number:
            return []
        rows = table.frame.join(twice.select("twice"), unit == F.col("twice"), "left_semi")
        return [Problem(table.file, table.of(_UNIT), "each household once", number, row_numbers(table.frame, rows))]


def _people(table: TidyTable, homes: DataFrame | None, target: Target) -> Found:
    """Person records: geocode, cell; `homes` are the unit records, if there are any."""
    schema, of_class = target.product.schema, target.product.class_query
    own, of = target.recodes.attributes, whose(table, target.product.records)
    if homes is None or not table.has(_UNIT):
        levels = _levels(table, target, own)
        geocode = table.geocode(target.spine)
        return table.frame.select(geocode, cell_of(schema, levels).alias("cell"), *of), table.problems()
    unit = _identity(table)
    levels = _levels(table, target, {name: coded for name, coded in own.items() if name != of_class})
    problems = table.problems() or _without_unit(table, unit, homes, target)
    cell = F.col("of_record")
    if target.counts_units:
        problems = problems or _repeated(table, unit)
    else:
        cell += cell_of(schema, {of_class: F.col(_HOME)})
    joined = table.frame.select(unit, cell_of(schema, levels).alias("of_record"), *of).join(homes, _UNIT)
    return joined.select(GEOCODE, cell.alias("cell"), *([CONTRIBUTOR] if of else [])), problems


def _without_unit(table: TidyTable, unit: Column, homes: DataFrame, target: Target) -> list[Problem]:
    expected = "the unit of every person in the unit records"
    if target.counts_units:
        occupied = target.product.record == "household"
        homes = homes.where((F.col(_HOME) == 0) & (F.col(VACANT) == 0) if occupied else F.col(_HOME) == 0)
        expected = f"{'an occupied' if occupied else 'a'} housing unit of the unit records"
    with reading(table.file):
        units = homes.select(F.col(_UNIT).alias("known_unit"))
        rows = table.frame.join(units, unit == F.col("known_unit"), "left_anti")
        number = rows.count()
        if not number:
            return []
        examples = row_numbers(table.frame, rows)
    return [Problem(table.file, table.of(_UNIT), expected, number, examples)]


def _units(homes: DataFrame, _: TidyTable, target: Target) -> Found:
    occupied = F.col(VACANT) == 0
    by_class = [F.sum((occupied & (F.col(_HOME) == each)).cast("long")) for each in range(target.classes)]
    return homes.groupBy(GEOCODE).agg(F.array(*by_class).alias(UNITS), F.sum(VACANT).alias(VACANT)), []


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
