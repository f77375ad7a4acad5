"""Published intervals beside the confidential counts of their geounits. RESTRICTED: reads confidential histograms.

Nothing of data size reaches the driver: tasks reduce geounits to counts by class of population.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.evaluation import TOTAL_OF, Coverage, tally_coverage
from das_spark.spark.engine import in_tasks
from das_spark.spark.lists import cut, flat_lists
from das_spark.spark.tabulate import TabulateTask
from das_spark.tabulation import Tabulation

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.tabulation import Table

_ROWS: Final = "place string, table string, population int, intervals long, covered long, width long, exact long"
_COUNTS: Final = ("intervals", "covered", "width", "exact")
#: Numbers that a task holds at once: bounds its memory.
_VALUES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class IntervalsOf:
    """Published intervals of one kind.

    Attributes:
        of: What they are made of, as `Coverage` has it.
        ending: Of the columns that say how uncertain a count is; 0 where it is said to be exact.
        tables: Of each table the columns of its intervals, with level and geocode.
        levels: Geolevels of the census that they are of.
        level: Probability that they are made for.
    """

    of: str
    ending: str
    tables: Sequence[tuple[Table, DataFrame]]
    levels: Sequence[str]
    level: float


def interval_coverage(published: IntervalsOf, truths: Sequence[tuple[str, DataFrame]]) -> tuple[Coverage, ...]:
    """How often published intervals cover the confidential counts.

    Args:
        published: The intervals.
        truths: Confidential histograms by geolevel of the census.
    """
    named = [(name, histograms) for name, histograms in truths if name in published.levels]
    true = reduce(
        DataFrame.unionAll,
        [rows.select(F.lit(name).alias("level"), "geocode", "cells", "counts") for name, rows in named],
    )
    frames = [
        in_tasks(frame.join(true, ["level", "geocode"]), _Tallies(table, published.ending), _ROWS)
        for table, frame in published.tables
    ]
    rows = reduce(DataFrame.unionAll, frames).groupBy("place", "table", "population")
    sums = rows.agg(*[F.sum(name).alias(name) for name in _COUNTS]).collect()  # one row a level, table and class
    places = [name for name, _ in truths]
    found = [Coverage(**row.asDict(), level=published.level, of=published.of) for row in sums]
    return tuple(sorted(found, key=lambda row: (places.index(row.place), row.table, row.population)))


@dataclass(frozen=True, slots=True)
class _Tallies:
    """From intervals beside confidential histograms to counts by geolevel and class of population."""

    table: Table
    ending: str  # of the columns that say how uncertain an interval is

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in cut(batches, max(1, _VALUES // (4 * len(self.table.names)))):
            for level in pc.unique(batch.column("level")).to_pylist():
                yield from self._tallied(level, batch.filter(pc.equal(batch.column("level"), level)))

    def _tallied(self, level: str, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Count in the geounits of one level."""
        counted = pa.Table.from_batches(TabulateTask(Tabulation.of([self.table]), ())(iter([batch])))
        truth, low, high = (
            self._numbers(*of).astype(np.int64) for of in ((counted, ""), (batch, "_low"), (batch, "_high"))
        )
        error, population = self._numbers(batch, self.ending), _people(batch)
        for name, chosen in ((self.table.name, slice(None)), (f"{self.table.name}{TOTAL_OF}", slice(1))):
            parts = (error[:, chosen], low[:, chosen], high[:, chosen])
            found = tally_coverage(truth[:, chosen], *parts, population)
            (place,) = np.nonzero(found.any(axis=1))
            columns = {"place": [level] * len(place), "table": [name] * len(place), "population": place}
            counts = dict(zip(_COUNTS, found[place].T, strict=True))
            yield pa.RecordBatch.from_pydict({**columns, **counts}, schema=_SCHEMA)

    def _numbers(self, batch: pa.RecordBatch | pa.Table, after: str) -> NDArray[np.float64]:
        """Columns of one kind, shape (rows, columns); counts of people are exact as floating-point numbers."""
        columns = [batch.column(f"{name}{after}").to_numpy(zero_copy_only=False) for name in self.table.names]
        return np.stack(columns, axis=1).astype(np.float64)


def _people(batch: pa.RecordBatch) -> NDArray[np.int64]:
    """Totals of histograms."""
    counts, offsets = flat_lists(batch.column("counts"), np.int64)
    return np.diff(np.concatenate([[0], np.cumsum(counts)])[offsets])


_SCHEMA: Final = pa.schema(
    [("place", pa.string()), ("table", pa.string()), ("population", pa.int32()), *((n, pa.int64()) for n in _COUNTS)]
)
