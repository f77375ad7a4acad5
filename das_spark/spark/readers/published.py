"""Published tables: counts by geounit, a column a count, as statistical offices publish them.

The run file says which cell of the product each column is of (`[[input.cells]]`), and which of them is what is left of
a total when other columns are taken from it. A row is a geounit of the lowest level, and unless a table of geounits or
of units says otherwise, the rows are the geounits that exist. Cells without a column are empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from das_spark.errors import Problems
from das_spark.spark.readers._resolved import NO_GEOUNIT, PublishedCell, PublishedRows
from das_spark.spark.readers._tables import Resolving, opened, units_of
from das_spark.spark.readers.tidy import files_of_tables, gathering, look_at_tables, places_of, tidy_target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products.base import Product
    from das_spark.spark.readers.base import IngestedTables


@dataclass(frozen=True, slots=True)
class PublishedTables:
    """Reads counts of geounits, a column a count, as CSV or Parquet."""

    name: str = "published_tables"
    reads_tables: bool = True

    def files(self, settings: InputSettings) -> dict[str, bool]:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        return files_of_tables(settings)

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        places, target = places_of(settings, self.name, ("persons",)), tidy_target(self.name, product, spine)
        counted = _counts(settings, product, spine)
        look_at_tables(places, settings, counted, units_of(target), target, without_rows=NO_GEOUNIT)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """See :class:`~das_spark.spark.readers.base.Reader`."""
        places, target = places_of(settings, self.name, ("persons",)), tidy_target(self.name, product, spine)
        table = opened(spark, places.persons, settings, "persons", _counts(settings, product, spine))
        summed = table.resolve.fields(table.names)[1]
        return gathering(spark, table, places, settings, target, units_of(target), summed=summed).read(spark)


def _counts(settings: InputSettings, product: Product, spine: Spine) -> Resolving:
    problems = Problems("run")
    from das_spark.config import counted_cells  # noqa: PLC0415 - tasks import readers, and no configuration

    cells = counted_cells(settings, product, problems)
    problems.raise_if_any()
    rows = PublishedRows(spine, tuple(PublishedCell(cell.cell, cell.column, tuple(cell.minus)) for cell in cells))
    return lambda _: rows
