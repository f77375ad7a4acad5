"""Published tables: counts by geounit, a column a count, as statistical offices publish them.

The run file says which cell of the product each column is of (`[[input.cells]]`), and which of them is what is left of
a total when other columns are taken from it. A row is a geounit of the lowest level, and unless a table of geounits or
of units says otherwise, the rows are the geounits that exist. Cells without a column are empty.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from operator import add
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from das_spark.errors import Problems
from das_spark.io.input_files import companion, require_path, required
from das_spark.spark.balanced import balanced
from das_spark.spark.problems import GEOCODE, refuse
from das_spark.spark.readers._tables import NO_GEOUNIT, TidyTable, look_at, read_units, unit_fields, without_units
from das_spark.spark.readers.base import IngestedTables
from das_spark.spark.readers.tidy import Places, geounits_of, tidy_target

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from das_spark.config import CountedCell, InputSettings
    from das_spark.geography import Spine
    from das_spark.products.base import Product

_COUNT: Final = "count"


@dataclass(frozen=True, slots=True)
class PublishedTables:
    """Reads counts of geounits, a column a count, as CSV or Parquet."""

    name: str = "published_tables"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        places, cells = _places(settings, self.name), _cells(settings, product)
        target = tidy_target(self.name, product, spine)
        counted = (GEOCODE, *_columns(cells))
        look_at(places.persons, settings, "persons", lambda _: counted, without_rows=NO_GEOUNIT)
        look_at(places.units, settings, "units", lambda names: unit_fields(names, target), without_rows=NO_GEOUNIT)
        look_at(places.geography, settings, "geography", lambda _: (GEOCODE,), without_rows=NO_GEOUNIT)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        places, cells = _places(settings, self.name), _cells(settings, product)
        target = tidy_target(self.name, product, spine)
        table = TidyTable.open(spark, places.persons, settings, "persons")
        geocode = table.geocode(spine)
        columns = {name: table.count(name) for name in _columns(cells)}
        counts = [_count(table, each, columns) for each in cells]
        total = balanced(add, [each.cast("decimal(38,0)") for each in columns.values()])
        problems = table.problems(next(iter(columns)), total)
        rows = table.frame.select(geocode)
        problems = problems or table.repeated(rows, "each geounit in one row")
        if places.units or places.geography:
            geounits, more = geounits_of(spark, places, settings, target, read_units)
            problems += more
            if not problems:
                problems = table.outside(rows, geounits, places.geography or places.units)
        else:
            geounits = without_units(rows)
        refuse(problems)
        pairs = [
            F.struct(F.lit(each.cell).alias("cell"), count.alias(_COUNT))
            for each, count in zip(cells, counts, strict=True)
        ]
        every: DataFrame = table.frame.select(geocode, F.explode(F.array(*pairs)).alias("pair"))
        found = every.select(GEOCODE, F.col("pair.cell").alias("cell"), F.col(f"pair.{_COUNT}").alias(_COUNT))
        return IngestedTables(found.where(F.col(_COUNT) > 0), geounits)


def _places(settings: InputSettings, reader: str) -> Places:
    persons, units, geography = settings.persons, settings.units, settings.geography
    if settings.path:
        require_path(settings.path)
        persons = persons or companion(settings.path, "persons") or f"{settings.path.rstrip('/')}/persons.parquet"
        units = units or companion(settings.path, "units")
        geography = geography or companion(settings.path, "geography")
    persons = required(persons, "input.persons", reader)
    for path in filter(None, (persons, units, geography)):
        require_path(path)
    return Places(persons, units or "", geography or "")


def _cells(settings: InputSettings, product: Product) -> tuple[CountedCell, ...]:
    problems = Problems("run")
    from das_spark.config import counted_cells  # noqa: PLC0415 - tasks import readers, and no configuration

    found = counted_cells(settings, product, problems)
    problems.raise_if_any()
    return found


def _columns(cells: tuple[CountedCell, ...]) -> tuple[str, ...]:
    """Columns that are read, once each."""
    return tuple(dict.fromkeys(name for each in cells for name in (each.column, *each.minus)))


def _count(table: TidyTable, cell: CountedCell, columns: Mapping[str, Column]) -> Column:
    """The count of a cell; what others are taken from is no less than these."""
    count = columns[cell.column]
    if cell.minus:
        count = count - balanced(add, [columns[name] for name in cell.minus])
        table.check(cell.column, f"a count no less than that of {' and '.join(cell.minus)} together", count < 0)
    return count
