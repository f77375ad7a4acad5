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
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.evaluation import TOTAL_OF, Coverage, tally_coverage
from das_spark.spark.engine import in_tasks
from das_spark.spark.lists import cut, list_total
from das_spark.spark.tabulate import tabulated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.tabulation import Table

_ROWS: Final = "place string, table string, population int, intervals long, covered long, width long, exact long"
_COUNTS: Final = ("intervals", "covered", "width", "exact")
#: Columns of confidential counts and of the population beside those of the intervals.
_TRUE: Final = "true_"
_POPULATION: Final = "true population"
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
    frames = []
    for table, frame in published.tables:
        for name, histograms in truths:
            if name in published.levels:
                true = _true(histograms, table)
                intervals = frame.where(F.col("level") == name).drop("level")
                task = _Tallies(name, table.name, table.names, published.ending)
                frames.append(in_tasks(intervals.join(true, "geocode"), task, _ROWS))
    rows = reduce(DataFrame.unionAll, frames).groupBy("place", "table", "population")
    sums = rows.agg(*[F.sum(name).alias(name) for name in _COUNTS]).collect()  # one row a level, table and class
    places = [name for name, _ in truths]
    found = [Coverage(**row.asDict(), level=published.level, of=published.of) for row in sums]
    return tuple(sorted(found, key=lambda row: (places.index(row.place), row.table, row.population)))


def _true(histograms: DataFrame, table: Table) -> DataFrame:
    """Confidential counts of the columns of a table, and the number of people of the geounit."""
    people = histograms.select("geocode", list_total("counts").alias(_POPULATION))
    counts = tabulated(histograms, [table]).withColumnsRenamed({name: f"{_TRUE}{name}" for name in table.names})
    return counts.join(people, "geocode")


@dataclass(frozen=True, slots=True)
class _Tallies:
    """From intervals beside confidential counts to counts by class of population."""

    place: str
    table: str
    names: tuple[str, ...]
    ending: str  # of the columns that say how uncertain an interval is

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in cut(batches, max(1, _VALUES // (4 * len(self.names)))):
            truth, low, high = (
                self._numbers(batch, before, after).astype(np.int64)
                for before, after in ((_TRUE, ""), ("", "_low"), ("", "_high"))
            )
            error = self._numbers(batch, "", self.ending)
            population = batch.column(_POPULATION).to_numpy(zero_copy_only=False)
            for name, chosen in ((self.table, slice(None)), (f"{self.table}{TOTAL_OF}", slice(1))):
                parts = (error[:, chosen], low[:, chosen], high[:, chosen])
                found = tally_coverage(truth[:, chosen], *parts, population)
                (place,) = np.nonzero(found.any(axis=1))
                columns = {"place": [self.place] * len(place), "table": [name] * len(place), "population": place}
                counts = dict(zip(_COUNTS, found[place].T, strict=True))
                yield pa.RecordBatch.from_pydict({**columns, **counts}, schema=_SCHEMA)

    def _numbers(self, batch: pa.RecordBatch, before: str, after: str) -> NDArray[np.float64]:
        """Columns of one kind, shape (rows, columns); counts of people are exact as floating-point numbers."""
        columns = [batch.column(f"{before}{name}{after}").to_numpy(zero_copy_only=False) for name in self.names]
        return np.stack(columns, axis=1).astype(np.float64)


_SCHEMA: Final = pa.schema(
    [("place", pa.string()), ("table", pa.string()), ("population", pa.int32()), *((n, pa.int64()) for n in _COUNTS)]
)
