"""From the estimates of replicates to intervals of published counts: errors, offsets, tables with four columns a count.

Tasks reduce errors to how often each occurs by class, and classes to offsets; what reaches the driver are the offsets,
whose number does not grow with that of the geounits.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.evaluation import error_classes
from das_spark.features.replicates.offsets import ErrorOffsets, count_intervals, error_offsets
from das_spark.features.replicates.tables import ERRORS, OFFSETS, interval_columns
from das_spark.io.table_files import GEOCODE
from das_spark.spark.engine import in_sorted_tasks, in_tasks
from das_spark.spark.lists import cut, flat_lists, slices, together
from das_spark.spark.tabulate import tabulated
from das_spark.tabulation import Incidence, incidence, tabulate

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from das_spark.tabulation import Table

#: What columns of a replicate are called beside those of the run.
_AGAIN: Final = "again_"
#: Counts that a task holds at once: bounds its memory.
_COUNTS: Final = 1 << 20
#: Half of the range of a difference: it shares a 64-bit integer with column and class.
_HALF: Final = 1 << 31

#: By geolevel and column.
OffsetsOf = Mapping[tuple[str, str], ErrorOffsets]


def replicate_errors(estimates: DataFrame, again: DataFrame, tables: Sequence[Table]) -> DataFrame:
    """How often each error of a replicate occurs: rows of `tables.ERRORS`.

    Args:
        estimates: Of the run, which the replicate has taken for the truth: level, geocode, cells and counts.
        again: Of the replicate, likewise.
        tables: Whose columns count.
    """
    repeated = again.select("level", GEOCODE, *(F.col(name).alias(f"{_AGAIN}{name}") for name in _HISTOGRAM))
    joined = estimates.select("level", GEOCODE, *_HISTOGRAM).join(repeated, ["level", GEOCODE])
    task = _Errors(incidence(tables), tuple(len(table.names) for table in tables))
    tallied = in_tasks(joined, task, from_arrow_schema(ERRORS.schema))
    return tallied.groupBy("level", "column", "class", "difference").agg(F.sum("cases").alias("cases"))


_HISTOGRAM: Final = ("cells", "counts")


@dataclass(frozen=True, slots=True, eq=False)
class _Errors:
    """From histograms of the run beside those of a replicate to how often each difference of a column occurs."""

    matrix: Incidence  # which columns of all tables count which cells
    widths: tuple[int, ...]  # columns of each table

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in cut(batches, max(1, _COUNTS // len(self.matrix.names))):
            for level, own in slices(batch, "level"):
                truth, counts = (self._sums(own, before) for before in ("", _AGAIN))
                start = 0
                for width in self.widths:
                    chosen = slice(start, start + width)
                    yield _tallied(level, self.matrix.names[chosen], truth[:, chosen], counts[:, chosen])
                    start += width

    def _sums(self, batch: pa.RecordBatch, before: str) -> NDArray[np.int64]:
        cells, offsets = flat_lists(batch.column(f"{before}cells"), np.int64)
        counts, _ = flat_lists(batch.column(f"{before}counts"), np.int64)
        return tabulate(self.matrix, cells, offsets, counts)


def _tallied(level: str, names: Sequence[str], truth: NDArray[np.int64], counts: NDArray[np.int64]) -> pa.RecordBatch:
    """Differences of the columns of one table by column and class, and how often each occurs."""
    classes = error_classes(counts, counts[:, 0])
    width = int(classes.max(initial=0)) + 1
    column = np.broadcast_to(np.arange(len(names)), counts.shape)
    place = (column * width + classes) * (2 * _HALF) + (truth - counts + _HALF)
    found, cases = np.unique(place, return_counts=True)
    place, difference = np.divmod(found, 2 * _HALF)
    column, of_class = np.divmod(place, width)
    arrays = [
        pa.array([level] * len(found), pa.string()),
        pa.array(names, pa.string()).take(pa.array(column)),
        *map(pa.array, (of_class, difference - _HALF, cases.astype(np.int64))),
    ]
    return pa.RecordBatch.from_arrays(arrays, ERRORS.schema.names)


def replicate_offsets(errors: DataFrame, level: float) -> DataFrame:
    """Offsets of every column and geolevel from the errors of all replicates: rows of `tables.OFFSETS`.

    Args:
        errors: What `replicate_errors` gave of each.
        level: Probability that an interval shall cover the truth.
    """

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _, rows in together(batches, _PLACE):
            classes, differences, cases = (rows.column(name).to_numpy() for name in ("class", "difference", "cases"))
            found = error_offsets(classes, differences, cases, level)
            same = [pa.array([rows.column(name)[0].as_py()] * len(found.first), pa.string()) for name in _KEY]
            numbers = (found.first, found.cases, found.rmse, found.low, found.high)
            yield pa.RecordBatch.from_arrays([*same, *map(pa.array, numbers)], OFFSETS.schema.names)

    keyed = errors.withColumn(_PLACE, F.concat_ws("/", *_KEY))
    return in_sorted_tasks(keyed.repartition(_PLACE), [_PLACE], made, from_arrow_schema(OFFSETS.schema))


_KEY: Final = ("level", "column")
_PLACE: Final = "place"


def collected_offsets(offsets: DataFrame) -> OffsetsOf:
    """Offsets by geolevel and column: at most so many as there are levels, columns and classes."""
    keyed = offsets.withColumn(_PLACE, F.concat_ws("/", *_KEY)).toArrow().combine_chunks()
    ordered = keyed.sort_by([(_PLACE, "ascending"), ("class", "ascending")])
    found = {}
    for _, rows in together(ordered.to_batches(), _PLACE):
        numbers = (rows.column(name).to_numpy() for name in ("class", "cases", "rmse", "low", "high"))
        found[rows.column("level")[0].as_py(), rows.column("column")[0].as_py()] = ErrorOffsets(*numbers)
    return found


def intervals_of_counts(estimates: DataFrame, table: Table, offsets: OffsetsOf) -> DataFrame:
    """Published counts of a table with their intervals, with the level in front."""
    own = {key: offset for key, offset in offsets.items() if key[1] in table.names}
    schema = pa.schema([pa.field("level", pa.string(), False), *interval_columns(table)])
    task = _CountIntervals(table.names, own, schema)
    return in_tasks(tabulated(estimates, [table], "level"), task, from_arrow_schema(schema))


@dataclass(frozen=True, slots=True)
class _CountIntervals:
    """From batches of counts to batches of counts with their intervals."""

    names: tuple[str, ...]
    offsets: OffsetsOf
    schema: pa.Schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in cut(batches, max(1, _COUNTS // (4 * len(self.names)))):
            for level, own in slices(batch, "level"):
                counts = np.stack([own.column(name).to_numpy() for name in self.names], axis=1)
                parts = (counts, *count_intervals(counts, [self.offsets.get((level, name)) for name in self.names]))
                columns = [
                    pa.array(np.ascontiguousarray(part[:, number]))
                    for number in range(len(self.names))
                    for part in parts
                ]
                yield pa.RecordBatch.from_arrays(
                    [own.column("level"), own.column(GEOCODE), *columns], self.schema.names
                )
