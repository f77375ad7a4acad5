"""The Spark side of the accuracy report: tallies of errors, those of all geolevels by one job.

RESTRICTED: reads confidential histograms. Nothing of data size reaches the driver: tasks reduce geounits to rows (line,
class of population, value, frequency) that are summed, of which there are at most a few thousand for a query.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from das_spark.evaluation import (
    TOTAL,
    AccuracyReport,
    ComparedSide,
    Comparison,
    Criterion,
    Entry,
    ErrorTally,
    HomogeneityRow,
    Paired,
    QueryErrors,
    compared_queries,
    demographic_groups,
    homogeneity_rows_of,
    in_order,
    metric_rows_of,
    paired,
    single_answers,
    sizes_of,
    tally,
    total_of,
)
from das_spark.spark.engine import in_tasks
from das_spark.spark.evaluate_areas import Areas, area_entries
from das_spark.spark.lists import flat_histograms, flat_lists
from das_spark.spark.tables import levels_together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.histogram import Query
    from das_spark.products import Product

_ROWS = "line long, bin long, value long, frequency long"
#: Counts of histograms that are compared at once: bounds the memory of a task.
_COUNTS = 1 << 21


@dataclass(frozen=True, slots=True)
class Subject:
    """What is compared."""

    strata: Query  # the query of stratified counts
    queries: tuple[Query, ...] = ()  # further queries; the total is always compared
    groups: Query | None = None  # the query whose largest group is shown first; None for none
    counted: str = "people"  # what is counted, in the plural
    words: Mapping[str, str] = field(default_factory=dict)  # query -> what people read in its place

    @classmethod
    def of(cls, product: Product, measured: Iterable[str]) -> Subject:
        """All that a run measures, and what every report on its product holds."""
        schema, strata = product.schema, product.strata
        queries = compared_queries(schema, measured, strata)
        groups = demographic_groups(schema) or schema.query(strata)
        words = {query.name: schema.words(query.name) for query in (schema.query(strata), *queries, groups)}
        single = {query: label for name in product.reported for label, query in single_answers(schema, name).items()}
        words |= {query.name: label for query, label in single.items()}
        return cls(schema.query(strata), (*queries, *single), groups, product.counted, words)

    def comparison(self, geolevel: str) -> Comparison:
        """What is compared in a geolevel."""
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
    """Compare estimates with confidential histograms, which stand before them in each level; the leaf comes last."""
    both = [(name, _joined(truth, estimate)) for name, truth, estimate in levels]
    lines = [level_lines(name, subject, summed) for name, summed in _summed(both, subject)]
    of_areas: list[Entry] = []
    notes: list[str] = []
    for each in areas if both else ():
        found, note = area_entries(both[-1][1], each, subject.strata)
        of_areas += found
        notes.append(note)
    return report_of(lines, subject, product=product, run=run, of_areas=of_areas, notes=notes)


@dataclass(frozen=True, slots=True)
class LevelLines:
    """What is found at one geolevel."""

    comparison: Comparison  # what was compared
    entries: tuple[Entry, ...]  # total and strata on the whole level
    errors: tuple[QueryErrors, ...]  # every query by population
    criteria: tuple[Criterion, ...]  # shares of the largest group, and relative errors of totals
    homogeneity: tuple[HomogeneityRow, ...]  # residuals of totals by homogeneity index


def level_lines(name: str, subject: Subject, summed: ErrorTally) -> LevelLines:
    """The lines of one geolevel."""
    comparison = subject.comparison(name)
    errors, criteria = metric_rows_of(name, comparison, summed)
    entries = _entries(name, errors, comparison, subject.strata)
    homogeneity = homogeneity_rows_of(name, comparison, summed)
    return LevelLines(comparison, tuple(entries), tuple(errors), tuple(criteria), tuple(homogeneity))


def report_of(
    levels: Sequence[LevelLines],
    subject: Subject,
    *,
    product: str,
    run: str,
    of_areas: Sequence[Entry] = (),
    notes: Sequence[str] = (),
) -> AccuracyReport:
    """The report of what was found."""
    queries = levels[-1].comparison.queries if levels else ()
    return AccuracyReport(
        product,
        (run,),
        (*chain.from_iterable(level.entries for level in levels), *of_areas),
        tuple(notes),
        tuple(chain.from_iterable(level.errors for level in levels)),
        tuple(chain.from_iterable(level.criteria for level in levels)),
        next((query.name for query in queries if query == subject.groups), ""),
        subject.counted,
        tuple(chain.from_iterable(level.homogeneity for level in levels)),
        words=subject.words,
    )


def _joined(truth: DataFrame, estimate: DataFrame) -> DataFrame:
    """Both histograms of every geounit; one that is missing on a side counts as empty there (verify finds it)."""
    true = truth.select("geocode", F.col("cells").alias("true_cells"), F.col("counts").alias("true_counts"))
    return true.join(estimate.select("geocode", "cells", "counts"), "geocode", "full")


def _summed(levels: Sequence[tuple[str, DataFrame]], subject: Subject) -> list[tuple[str, ErrorTally]]:
    """The tallies of all geounits of each level together: one Spark job."""
    if not levels:
        return []
    tallies = ((name, in_tasks(joined, TallyTask(subject.comparison(name)), _ROWS)) for name, joined in levels)
    keys = ("level", "line", "bin", "value")
    sums = levels_together(tallies).groupBy(*keys).agg(F.sum("frequency").alias("frequency"))
    table = sums.toArrow().sort_by([(name, "ascending") for name in keys])
    return [(name, tally_of(table.filter(pc.equal(table.column("level"), name)))) for name, _ in levels]


def tally_of(rows: pa.Table) -> ErrorTally:
    """Rows of tallies, summed and sorted, as arrays."""
    return ErrorTally(
        *(rows.column(name).to_numpy().astype(np.int64) for name in ("line", "bin", "value", "frequency"))
    )


def _entries(place: str, found: Sequence[QueryErrors], comparison: Comparison, strata: Query) -> list[Entry]:
    """The lines of total and strata on the whole level."""
    names = {query: query.name for query in comparison.queries}
    whole = {line.query: line.all_classes.frequencies for line in found}
    return [Entry(place, TOTAL, whole[TOTAL]), Entry(place, strata.name, whole[names[strata]])]


@dataclass(frozen=True, slots=True, eq=False)
class TallyTask:
    """From joined histograms to tallies of a batch."""

    comparison: Comparison  # what is compared

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Compare both histograms of each geounit. Columns line, bin, value and frequency."""
        for batch in batches:
            for begin, end in _slices(batch):
                found = tally(self.comparison, self._paired(batch.slice(begin, end - begin)))
                columns = {"line": found.line, "bin": found.bin, "value": found.value, "frequency": found.frequency}
                yield pa.RecordBatch.from_pydict({name: pa.array(column) for name, column in columns.items()})

    def _paired(self, batch: pa.RecordBatch) -> Paired:
        true, protected = (ComparedSide(*flat_histograms(batch, prefix)) for prefix in ("true_", ""))
        return paired(true, protected, batch.num_rows, self.comparison.queries[0].size)


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
