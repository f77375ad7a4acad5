"""Whether the published tables say what the estimates say; plain Spark SQL, sharing no code with the tabulation.

Every estimate is taken apart into cells, each cell is joined with the columns that count it, and the sums are compared
with every published value that is not zero (a column without any person on one side and no value on the other agree).
Which column counts which cell is read off the declared levels anew, cell by cell. The totals are compared once more,
with sums over the cells whose levels are found by dividing cell numbers.

Several formats (Parquet, CSV) are compared at once: the side of the estimates is the same for all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from math import prod
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.spark.checks import Check, Finding, Rule, findings
from das_spark.spark.lists import list_total
from das_spark.spark.verify import RunTables

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column, SparkSession

    from das_spark.histogram import Schema
    from das_spark.tabulation import Selection, Table, TableColumn

TABLES_EQUAL: Final = "tables equal estimates"
TOTALS_EQUAL: Final = "table totals equal estimates"
HEADERS: Final = "headers of tables"
#: What stands for a value that is not there: a sum of people is never negative.
_MISSING: Final = -1
_PAIRS: Final = "array<struct<code: int, value: bigint>>"


@dataclass(frozen=True, slots=True)
class PublishedTable:
    """One table of a run as it was read back, all levels in one.

    Attributes:
        table: What it shall hold.
        format: Such as `csv`.
        frame: level, geocode and the published columns (long).
        misnamed: Levels whose files call their columns otherwise; None for files whose columns are read by name.
    """

    table: Table
    format: str
    frame: DataFrame
    misnamed: tuple[str, ...] | None = None


def table_rules(published: Sequence[PublishedTable], tables: RunTables) -> list[Rule]:
    """The rules on published tables against the estimates and the geounits of a run; none where none are published.

    `tables equal estimates`: every geounit has one row in every table, every value of which is the sum of its cells.
    `table totals equal estimates`: the first column of every table is the sum over its universe.

    Args:
        published: The tables of one schema in one or several formats, the same tables in each.
        tables: The tables of the run.
    """
    if not published:
        return []
    formats = tuple(dict.fromkeys(each.format for each in published))
    places = _places({each.table.name: each.table for each in published}.values())
    rows = [_of_geounits(tables.geounits, places), _of_estimates(tables.estimates, places)]
    rows += [_of_files(each, _place_of(each.table, places)) for each in published]
    differences = [_difference(format).alias(format) for format in formats]
    summed = _items(reduce(DataFrame.unionAll, rows), places).groupBy("level", "geocode", "item").agg(*differences)
    found = [Finding(_rule_of(places), F.col(each) != 0, _values_of(places), _note(each, formats)) for each in formats]
    expected = tuple(
        (rule, level, _note(each, formats))
        for rule in (TABLES_EQUAL, TOTALS_EQUAL)
        for level in tables.levels
        for each in formats
    )
    # Most items agree and count for nothing by themselves: their rows stand for them. What fails is a geounit and a
    # column of it.
    differ = reduce(lambda one, other: one | other, [F.col(each) != 0 for each in formats])
    told = summed.where(differ | (_values_of(places) > 0))
    named = told.withColumn("geocode", F.concat_ws(" ", F.coalesce("geocode", F.lit("?")), _name_of(places)))
    return [Rule(findings(named, *found), expected)]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the items of a table stand among those of all: its row, its total, then its columns.

    Attributes:
        table: The table.
        first: Number of the item that stands for a row.
    """

    table: Table
    first: int

    @property
    def total(self) -> int:
        """Number of the item that stands for the total, compared by itself."""
        return self.first + 1

    @property
    def columns(self) -> int:
        """Number of the first column."""
        return self.first + 2

    @property
    def end(self) -> int:
        """Number behind the last column."""
        return self.columns + len(self.table.columns)

    @property
    def names(self) -> tuple[str, ...]:
        """What a failing item is called."""
        return (f"{self.table.name} (row)", f"{self.table.total.name} (total)", *self.table.names)


def _places(declared: Iterable[Table]) -> tuple[_Place, ...]:
    places: list[_Place] = []
    for table in declared:
        places.append(_Place(table, places[-1].end if places else 0))
    return tuple(places)


def _place_of(table: Table, places: Sequence[_Place]) -> _Place:
    return next(place for place in places if place.table.name == table.name)


def _note(format: str, formats: Sequence[str]) -> str:
    return f"{format} files" if len(formats) > 1 else ""


def header_checks(published: Sequence[PublishedTable], levels: Sequence[str]) -> list[Check]:
    """`headers of tables`: CSV files call their columns by the published names; none where there are no such files.

    Args:
        published: The tables.
        levels: Geolevels of the run.
    """
    named = [each for each in published if each.misnamed is not None]
    return [
        Check.of(
            (HEADERS, level, ""), len(named), {each.table.name for each in named if level in (each.misnamed or ())}
        )
        for level in (levels if named else ())
    ]


def _rule_of(places: Sequence[_Place]) -> Column:
    is_total = F.col("item").isin(*[place.total for place in places])
    return F.when(is_total, TOTALS_EQUAL).otherwise(TABLES_EQUAL)


def _values_of(places: Sequence[_Place]) -> Column:
    """How many values an item stands for: a row for all its columns, a total for one."""
    counted = F.lit(0)
    for place in places:
        counted = F.when(F.col("item") == place.first, len(place.table.columns)).otherwise(counted)
    return F.when(F.col("item").isin(*[place.total for place in places]), 1).otherwise(counted)


def _name_of(places: Sequence[_Place]) -> Column:
    names = ", ".join(f"'{name}'" for place in places for name in place.names)
    return F.expr(f"element_at(array({names}), cast(item + 1 as int))")


def _of_geounits(geounits: DataFrame, places: Sequence[_Place]) -> DataFrame:
    """Every geounit is expected to have one row in every table."""
    return _side(geounits, "", F.array(*[_pair(_code(place, place.first), F.lit(1)) for place in places]))


def _of_estimates(estimates: DataFrame, places: Sequence[_Place]) -> DataFrame:
    """Cells with their counts, of which the columns hold sums; and totals by arithmetic on cell numbers."""
    totals = F.array(*[_pair(_code(place, place.total), _universe(place.table)) for place in places])
    return _side(estimates, "", F.concat(totals, F.arrays_zip("cells", "counts").cast(_PAIRS)))


def _of_files(published: PublishedTable, place: _Place) -> DataFrame:
    """The rows of a table, their totals, and their values that are not zero."""
    names = (place.table.total.name, *place.table.names)
    values = ", ".join(["1L", *(f"coalesce(`{name}`, {_MISSING}L)" for name in names)])
    every = F.expr(f"transform(array({values}), (value, item) -> struct(item + {_code(place, place.first)}, value))")
    some = F.filter(every.cast(_PAIRS), lambda pair: pair["value"] != 0)
    return _side(published.frame, published.format, some)


def _code(place: _Place, item: int) -> int:
    """The code of an item: what counts a cell and what is counted by itself go through one mapping."""
    return place.table.schema.size + item


def _pair(code: int, value: Column) -> Column:
    return F.struct(F.lit(code).alias("code"), value.cast("bigint").alias("value"))


def _side(frame: DataFrame, format: str, pairs: Column) -> DataFrame:
    """What one side says of each geounit: pairs of codes and values; no format is the side of the estimates."""
    return frame.select(F.lit(format).alias("format"), "level", "geocode", pairs.cast(_PAIRS).alias("pairs"))


def _items(rows: DataFrame, places: Sequence[_Place]) -> DataFrame:
    """Pairs as items of the tables: format, level, geocode, item, value.

    The rows of a geounit are brought together as they are, before they grow into a row an item. (An outer explode,
    because Spark would filter for empty arrays first and compute every array twice; the join drops the nulls.)
    """
    together = rows.repartition("level", "geocode").select(
        "format", "level", "geocode", F.explode_outer("pairs").alias("pair")
    )
    counted = together.join(
        F.broadcast(_items_of_codes(rows.sparkSession, places)), F.col("pair.code") == F.col("code")
    )
    return counted.select(
        "format", "level", "geocode", F.explode_outer("items").alias("item"), F.col("pair.value").alias("value")
    )


def _difference(format: str) -> Column:
    """What was expected less what a format has."""
    of, value = F.col("format"), F.col("value")
    return F.sum(F.when(of == "", value).when(of == format, -value).otherwise(F.lit(0)))


def _items_of_codes(spark: SparkSession, places: Sequence[_Place]) -> DataFrame:
    """Which items a code counts in: code, items (array of int). A cell counts in its columns, an item in itself."""
    schema = places[0].table.schema
    levels = schema.unravel(np.arange(schema.size))
    items: list[list[int]] = [[] for _ in range(schema.size)]
    for place in places:
        for item, column in enumerate(place.table.columns, start=place.columns):
            for cell in np.flatnonzero(_counted(column, schema, levels)):
                items[cell].append(item)
    items += [[item] for item in range(places[-1].end)]
    table = {"code": pa.array(range(len(items)), pa.int32()), "items": pa.array(items, pa.list_(pa.int32()))}
    return spark.createDataFrame(pa.table(table))


def _counted(column: TableColumn, schema: Schema, codes: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Whether a column counts each cell, by the codes of the cells."""
    counted = np.zeros(len(codes), dtype=np.bool_)
    for selection in column.where:
        counted |= np.all([np.isin(codes[:, schema.axis(name)], levels) for name, levels in selection], axis=0)
    return counted


def _universe(table: Table) -> Column:
    """Sum of the counts of the cells that the total counts."""
    if any(not selection for selection in table.total.where):
        return list_total("counts")
    pairs = F.arrays_zip("cells", "counts")
    inside = F.filter(pairs, lambda pair: _selected(pair["cells"], table.total.where, table.schema))
    return list_total(inside.getField("counts"))


def _selected(cell: Column, where: Sequence[Selection], schema: Schema) -> Column:
    """Whether a cell number has the levels of a selection: its digits in the mixed radix of the schema."""
    found = F.lit(False)
    for selection in where:
        inside = F.lit(True)
        for name, levels in selection:
            axis = schema.axis(name)
            stride = prod(schema.shape[axis + 1 :])
            inside &= (F.floor(cell / stride) % schema.shape[axis]).isin(*levels)
        found |= inside
    return found
