"""Whether published medians are those of the estimates: made again of the occupied levels, in order.

Medians do not sum over children, nor to their heading; each geounit is judged by its own histogram. Shares no code
with how medians are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.spark.balanced import balanced
from das_spark.spark.checks import Finding, Rule, findings
from das_spark.spark.engine import in_tasks
from das_spark.spark.lists import flat_lists, slices
from das_spark.spark.published_rows import PAIRS, TableFile, pairs_of, published_rows, tenths_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import Column

    from das_spark.histogram import Schema
    from das_spark.spark.verify import RunTables
    from das_spark.tabulation import MedianTable, TableColumn

MEDIANS_EQUAL: Final = "medians equal estimates"
_ROWS: Final = f"level string, geocode string, pairs {PAIRS}"


@dataclass(frozen=True, slots=True)
class PublishedMedians:
    """The files of one table of medians of a run."""

    table: MedianTable  # what it shall hold
    format: str  # such as `csv`
    misnamed: tuple[str, ...] | None  # levels whose files call their columns otherwise; None: they are read by name
    levels: tuple[str, ...]  # geolevels that it is published for, from the root
    files: tuple[TableFile, ...]


def median_rules(published: Sequence[PublishedMedians], tables: RunTables) -> list[Rule]:
    """The rule on published medians; none where none are published.

    `medians equal estimates`: every geounit of a level that a table is published for has one row in it, every value of
    which is the median of its people, and missing where there are none.

    Args:
        published: The files of the tables, in one format or several.
        tables: Estimates and geounits of the run, by the census.
    """
    if not published:
        return []
    unique = tuple({each.table.name: each for each in published}.values())
    firsts = np.cumsum([0, *(2 + len(each.table.names) for each in unique[:-1])]).tolist()
    items = dict(zip([each.table.name for each in unique], firsts, strict=True))
    formats = tuple(dict.fromkeys(each.format for each in published))
    rows = _expected(unique, items, tables)
    files = [file for each in published for file in each.files]
    if files:
        columns = {each.table.name: (items[each.table.name], each.table.names) for each in unique}
        rows.append(published_rows(tables.geounits.sparkSession, files, columns, tenths_of))
    together = reduce(DataFrame.unionAll, rows).repartition("level", "geocode")
    # An outer explode, because Spark would filter for empty arrays first and compute every array twice.
    pairs = together.select("format", "level", "geocode", F.explode_outer("pairs").alias("pair"))
    of, item, value = F.col("format"), F.col("pair.item"), F.col("pair.value")
    differences = [
        F.sum(F.when(of == "", value).when(of == format, -value).otherwise(F.lit(0))).alias(format)
        for format in formats
    ]
    # Files give the first column a second time, where the total of a table of sums would be.
    wanted = pairs.where(item.isNotNull() & ~item.isin([first + 1 for first in firsts]))
    judged = wanted.groupBy("level", "geocode", item.alias("item")).agg(*differences)
    names: dict[int, str] = {}
    values: dict[int, int] = {}
    for each in unique:
        first = items[each.table.name]
        names |= {first: f"{each.table.name} (row)"}
        names |= {first + 2 + place: name for place, name in enumerate(each.table.names)}
        values[first] = len(each.table.names)  # a row stands for its values
    name = F.concat_ws(" ", F.coalesce("geocode", F.lit("?")), _looked_up(names, F.lit("?")))
    named = judged.withColumn("geocode", name)
    notes = {format: f"{format} files" if len(formats) > 1 else "" for format in formats}
    found = [
        Finding(MEDIANS_EQUAL, F.col(format) != 0, _looked_up(values, F.lit(0)), note) for format, note in notes.items()
    ]
    reached = max((each.levels for each in unique), key=len)
    expected = tuple((MEDIANS_EQUAL, level, note) for level in reached for note in notes.values())
    return [Rule(findings(named.where(balanced(or_, _counted(formats, values))), *found), expected)]


def _counted(formats: Sequence[str], values: Mapping[int, int]) -> list[Column]:
    """What is looked at: rows, which stand for their values, and what differs."""
    return [F.col("item").isin(list(values)), *(F.col(format) != 0 for format in formats)]


def _looked_up(of: Mapping[int, str] | Mapping[int, int], otherwise: Column) -> Column:
    known = F.create_map(*[F.lit(part) for pair in of.items() for part in pair])
    return F.coalesce(F.element_at(known, F.col("item")), otherwise)


def _expected(published: Sequence[PublishedMedians], items: Mapping[str, int], tables: RunTables) -> list[DataFrame]:
    """A row for each geounit and table of its level, and the medians of its estimate."""
    of_level = {level: [each for each in published if level in each.levels] for level in dict.fromkeys(tables.levels)}
    there = {level: own for level, own in of_level.items() if own}
    rows = F.lit(None).cast(PAIRS)
    for level, own in there.items():
        of_rows = F.array(*[_row(items[each.table.name]) for each in own]).cast(PAIRS)
        rows = F.when(F.col("level") == level, of_rows).otherwise(rows)
    geounits = tables.geounits.where(F.col("level").isin(*there)).select("level", "geocode", rows.alias("pairs"))
    schema = published[0].table.schema
    # Of cells that cannot be other rules tell.
    possible = F.filter(
        F.arrays_zip("cells", "counts"),
        lambda pair: (pair["cells"] >= 0) & (pair["cells"] < schema.size) & (pair["counts"] > 0),
    )
    cells, counts = (possible.getField(name).alias(name) for name in ("cells", "counts"))
    columns = {
        level: tuple(
            (items[each.table.name] + 2 + place, schema.axis(each.table.attribute), column)
            for each in own
            for place, column in enumerate(each.table.columns)
        )
        for level, own in there.items()
    }
    estimates = tables.estimates.where(F.col("level").isin(*there)).select("level", "geocode", cells, counts)
    medians = in_tasks(estimates, _Medians(schema, columns), _ROWS)
    return [frame.select(F.lit("").alias("format"), "level", "geocode", "pairs") for frame in (geounits, medians)]


def _row(item: int) -> Column:
    return F.struct(F.lit(item).alias("item"), F.lit(1).cast("bigint").alias("value"))


@dataclass(frozen=True, slots=True)
class _Medians:
    """From histograms to the medians of columns (item, axis of the attribute, who counts), in tenths."""

    schema: Schema
    columns: Mapping[str, tuple[tuple[int, int, TableColumn], ...]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for level, rows in slices(batch, "level"):
                yield self._of_rows(rows, self.columns[level])

    def _of_rows(self, batch: pa.RecordBatch, columns: Sequence[tuple[int, int, TableColumn]]) -> pa.RecordBatch:
        cells, offsets = flat_lists(batch.column("cells"), np.int64)
        counts, _ = flat_lists(batch.column("counts"), np.int64)
        row = np.repeat(np.arange(batch.num_rows), np.diff(offsets))
        levels = np.unravel_index(cells, self.schema.shape)
        found = np.zeros((batch.num_rows, len(columns)), dtype=np.int64)
        for place, (_, axis, column) in enumerate(columns):
            who = np.zeros(len(cells), dtype=np.bool_)
            for selection in column.where:
                inside = [np.isin(levels[self.schema.axis(name)], named) for name, named in selection]
                who |= np.logical_and.reduce(inside) if inside else True
            found[:, place] = _tenths(row[who], levels[axis][who], counts[who], self.schema.shape[axis], len(found))
        pairs = pairs_of(found, np.array([item for item, _, _ in columns], dtype=np.int32))
        arrays = [batch.column("level"), batch.column("geocode"), pairs]
        return pa.RecordBatch.from_arrays(arrays, ["level", "geocode", "pairs"])


def _tenths(
    row: NDArray[np.int64], level: NDArray[np.int64], count: NDArray[np.int64], levels: int, rows: int
) -> NDArray[np.int64]:
    """Of each row, whose people stand at levels, ten times the median; 0 for nobody."""
    # People in a queue, row by row and by level: everybody stands behind those who came before.
    place, back = np.unique(row * levels + level, return_inverse=True)
    people = np.zeros(len(place), dtype=np.int64)
    np.add.at(people, back, count)
    queue = np.cumsum(people)
    own, of_place = np.arange(rows), place // levels
    ends = np.searchsorted(of_place, own, side="right")
    starts = np.searchsorted(of_place, own, side="left")
    before = np.concatenate([[0], queue])[starts]
    total = np.concatenate([[0], queue])[ends] - before
    somebody = total > 0
    # The one in the middle, the first of two: half of all are reached in the group of this person.
    middle = np.searchsorted(queue, (before + (total + 1) // 2)[somebody])
    earlier = queue[middle] - people[middle] - before[somebody]
    inside, year = people[middle], place[middle] % levels
    # Ten times (half of all, less those earlier) / inside: whole tenths, and one more from the middle of two on.
    tenths, rest = np.divmod(5 * total[somebody] - 10 * earlier, inside)
    tenths += 2 * rest >= inside
    found = np.zeros(rows, dtype=np.int64)
    found[somebody] = np.where(year == levels - 1, 10 * year + 1, 10 * year + tenths)
    return found
