"""The Spark side of the accuracy report: tallies of errors, geolevel by geolevel, one job each.

RESTRICTED: reads confidential histograms. Nothing of data size reaches the driver: tasks reduce geounits to rows (line,
class of population, value, frequency) that are summed, of which there are at most a few thousand for a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.errors import without_values
from das_spark.evaluation.bins import sizes_of
from das_spark.evaluation.definitions import TOTAL
from das_spark.evaluation.homogeneity_lines import HomogeneityLine, homogeneity_lines_of
from das_spark.evaluation.lines import Criterion, QueryErrors, lines_of
from das_spark.evaluation.queries import in_order, total_of
from das_spark.evaluation.report import AccuracyReport, Entry
from das_spark.evaluation.tally import Comparison, Paired, Side, Tally, paired, tally
from das_spark.spark.evaluate_areas import Areas, area_entries
from das_spark.spark.families import flat_lists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.histogram import Query

_ROWS = "line long, bin long, value long, frequency long"
#: Counts of histograms that are compared at once: bounds the memory of a task.
_COUNTS = 1 << 21


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared.

    Attributes:
        strata: The query of stratified counts.
        queries: Further queries; the total is always compared.
        groups: The query whose largest group is shown first; None for none.
        counted: What is counted, in the plural.
    """

    strata: Query
    queries: tuple[Query, ...] = ()
    groups: Query | None = None
    counted: str = "people"

    def comparison(self, geolevel: str) -> Comparison:
        """What is compared in a geolevel.

        Args:
            geolevel: Name of the geolevel, which decides the classes of population.

        Returns:
            The total, the strata, the further queries and the groups: each once, the fewest answers first.
        """
        every = in_order([total_of(self.strata), self.strata, *self.queries, *([self.groups] if self.groups else [])])
        return Comparison(every, sizes_of(geolevel), self.strata)


def evaluate_levels(
    levels: Iterable[tuple[str, DataFrame, DataFrame]],
    subject: Subject,
    *,
    product: str,
    run: str,
    areas: Sequence[Areas] = (),
) -> AccuracyReport:
    """Compare estimates with confidential histograms.

    Args:
        levels: Of each level its name, confidential histograms, and estimates; the leaf last.
        subject: What is compared.
        product: Name of the product.
        run: Name of the run.
        areas: Kinds of areas to evaluate besides.

    Returns:
        The report: total and stratified counts of each level, then of the areas; and every query by population.

    Raises:
        InputError: A leaf geounit lies in two areas.
    """
    entries: list[Entry] = []
    notes: list[str] = []
    errors: list[QueryErrors] = []
    criteria: list[Criterion] = []
    homogeneity: list[HomogeneityLine] = []
    joined: DataFrame | None = None
    groups = ""
    for name, truth, estimate in levels:
        joined = _joined(truth, estimate)
        comparison = subject.comparison(name)
        summed = _summed(joined, comparison)
        found, met = lines_of(name, comparison, summed)
        entries += _entries(name, found, comparison, subject.strata)
        errors += found
        criteria += met
        homogeneity += homogeneity_lines_of(name, comparison, summed)
        groups = next((query.name for query in comparison.queries if query == subject.groups), "")
    if joined is not None:
        for each in areas:
            lines, note = area_entries(joined, each, subject.strata)
            entries += lines
            notes.append(note)
    return AccuracyReport(
        product,
        (run,),
        tuple(entries),
        tuple(notes),
        tuple(errors),
        tuple(criteria),
        groups,
        subject.counted,
        tuple(homogeneity),
    )


def _joined(truth: DataFrame, estimate: DataFrame) -> DataFrame:
    """Both histograms of every geounit; one that is missing on a side counts as empty there (verify finds it)."""
    true = truth.select("geocode", F.col("cells").alias("true_cells"), F.col("counts").alias("true_counts"))
    return true.join(estimate.select("geocode", "cells", "counts"), "geocode", "full")


def _summed(joined: DataFrame, comparison: Comparison) -> Tally:
    """The tallies of all geounits together: one Spark job."""
    rows = joined.mapInArrow(without_values(_TallyTask(comparison)), _ROWS)
    sums = rows.groupBy("line", "bin", "value").agg(F.sum("frequency").alias("frequency"))
    table = sums.toArrow().sort_by([(name, "ascending") for name in ("line", "bin", "value")])
    return Tally(*(table.column(name).to_numpy().astype(np.int64) for name in ("line", "bin", "value", "frequency")))


def _entries(place: str, found: Sequence[QueryErrors], comparison: Comparison, strata: Query) -> list[Entry]:
    """The lines of total and strata on the whole level."""
    names = {query: query.name for query in comparison.queries}
    whole = {line.query: line.whole.frequencies for line in found}
    return [Entry(place, TOTAL, whole[TOTAL]), Entry(place, strata.name, whole[names[strata]])]


@dataclass(frozen=True, slots=True, eq=False)
class _TallyTask:
    """From joined histograms to tallies of a batch."""

    comparison: Comparison

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for begin, end in _slices(batch):
                found = tally(self.comparison, self._paired(batch.slice(begin, end - begin)))
                columns = {"line": found.line, "bin": found.bin, "value": found.value, "frequency": found.frequency}
                yield pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in columns.items()})

    def _paired(self, batch: pa.RecordBatch) -> Paired:
        sides = []
        for prefix in ("true_", ""):
            cells, offsets = flat_lists(batch.column(f"{prefix}cells"), np.int64)
            counts, _ = flat_lists(batch.column(f"{prefix}counts"), np.int64)
            sides.append(Side(np.repeat(np.arange(batch.num_rows), np.diff(offsets)), cells, counts))
        return paired(sides[0], sides[1], batch.num_rows, self.comparison.queries[0].size)


def _slices(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Begin and end of slices of geounits that hold `_COUNTS` counts together, or are one geounit."""
    true, protected = (flat_lists(batch.column(name), np.int32)[1] for name in ("true_cells", "cells"))
    ends = (true + protected)[1:]
    begin = 0
    while begin < batch.num_rows:
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + _COUNTS, side="right")))
        yield begin, end
        begin = end
