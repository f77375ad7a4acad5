"""Whether intervals of published counts follow from the errors of the replicates that a run has published.

That the counts are those of the tables is a rule on tables (`verify_tables`). Shares no code with how intervals are
made, but for where classes of counts begin.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F
from scipy.special import stdtrit

from das_spark.evaluation import COUNT_CLASSES, TOTAL_CLASSES
from das_spark.features.replicates.files import read_errors, read_intervals, read_offsets
from das_spark.features.replicates.tables import INTERVALS, interval_columns, intervals_layout
from das_spark.pipeline.features import Judged
from das_spark.spark.balanced import balanced
from das_spark.spark.checks import Finding, Rule, findings
from das_spark.spark.engine import in_tasks
from das_spark.spark.lists import cut
from das_spark.spark.tabulate import tables_beside

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.features.replicates.settings import ReplicateSettings
    from das_spark.spark.verify import RunTables
    from das_spark.spark.verify_run import Verified
    from das_spark.spark.verify_tables import PublishedTable
    from das_spark.tabulation import Table

CASES: Final = "replicates count every geounit"
OFFSETS: Final = "offsets of counts follow from the errors of replicates"
COUNTS: Final = "intervals of counts have the offsets of their class"
#: Cases from which offsets are quantiles of errors.
_CASES: Final = 100
#: Numbers that a task holds at once: bounds its memory.
_VALUES: Final = 1 << 20
_CLOSE: Final = 1e-9


def rules_of(
    run: Verified, by_census: RunTables, written: Sequence[tuple[Table, str]], settings: ReplicateSettings
) -> Judged:
    """Judge what a run has published of its replicates.

    Args:
        run: The run that is verified.
        by_census: Its estimates as they are published.
        written: Tables of intervals, each with each format.
        settings: What the run has asked for.
    """
    spark, layout, census = run.spark, run.layout, run.census
    published = PublishedReplicates(
        read_errors(spark, layout, settings.runs),
        read_offsets(spark, layout),
        [(table, read_intervals(spark, layout, table, format, table.levels(census))) for table, format in written],
        settings.runs,
        float(settings.level),
        [table.levels(census) for table, _ in written],
    )
    return Judged(replicate_rules(published, by_census.geounits, census.names))


def compared_counts(run: Verified, written: Sequence[tuple[Table, str]]) -> tuple[PublishedTable, ...]:
    """Return the published counts among the intervals, which must be those of the estimates."""
    tables = [(table, format, table.levels(run.census)) for table, format in written]
    return tables_beside(run.spark, intervals_layout(run.layout), INTERVALS, tables, interval_columns)


@dataclass(frozen=True, slots=True)
class PublishedReplicates:
    """What a run has published of its replicates, as it was read back."""

    errors: DataFrame  # `tables.ERRORS` of all replicates
    offsets: DataFrame  # `tables.OFFSETS`
    #: Tables of intervals, each with the level: geocode, and four columns a column of the table.
    intervals: Sequence[tuple[Table, DataFrame]]
    runs: int  # replicates
    level: float  # probability that an interval covers the truth
    levels: Sequence[tuple[str, ...]] = ()  # geolevels of each table of intervals, from the root; none for all


def replicate_rules(published: PublishedReplicates, geounits: DataFrame, levels: Sequence[str]) -> list[Rule]:
    """The rules on intervals of published counts.

    Args:
        published: What there is.
        geounits: Level and geocode of every geounit of the census.
        levels: All levels of the census.
    """
    offsets = _collected(published.offsets)
    counted = set().union(*published.levels) if published.levels else set(levels)
    rules = (
        (CASES, _cases(published, geounits)),
        (OFFSETS, _offsets(published)),
        (COUNTS, reduce(DataFrame.unionAll, [_counts(offsets, *interval) for interval in published.intervals])),
    )
    return [
        Rule(
            findings(frame, Finding(name, F.col("bad"), F.col("checked"))),
            tuple((name, level, "") for level in levels if name != COUNTS or level in counted),
        )
        for name, frame in rules
    ]


def _cases(published: PublishedReplicates, geounits: DataFrame) -> DataFrame:
    """Of each column and level whether errors and offsets are of as many counts as all replicates have."""
    expected = geounits.groupBy("level").agg((F.count(F.lit(1)) * published.runs).alias("expected"))
    names = [name for table in dict.fromkeys(table for table, _ in published.intervals) for name in table.names]
    wanted = expected.select("level", "expected", F.explode(F.array(*map(F.lit, names))).alias("column"))
    parts = {"errors": published.errors, "offsets": published.offsets}
    for name, frame in parts.items():
        found = frame.groupBy("level", "column").agg(F.sum("cases").alias(name))
        wanted = wanted.join(found, ["level", "column"], "left")
    bad = balanced(or_, [~F.col(name).eqNullSafe(F.col("expected")) for name in parts])
    return wanted.select("level", F.col("column").alias("geocode"), bad.alias("bad"), F.lit(1).alias("checked"))


def _offsets(published: PublishedReplicates) -> DataFrame:
    """Of each joined class whether cases, errors and offsets are those of the replicates."""
    of_column = Window.partitionBy("level", "column").orderBy("class")
    joined = published.offsets.withColumn("next", F.lead("class").over(of_column)).withColumnRenamed("class", "first")
    errors = published.errors.select(
        *(F.col(name).alias(f"error_{name}") for name in ("level", "column", "class", "difference", "cases"))
    )
    inside = (F.col("error_class") >= F.col("first")) & (
        F.col("next").isNull() | (F.col("error_class") < F.col("next"))
    )
    same = (F.col("error_level") == F.col("level")) & (F.col("error_column") == F.col("column"))
    difference, cases = F.col("error_difference"), F.col("error_cases")
    sides = {
        "below": difference < F.col("low"),
        "down": difference <= F.col("low"),
        "up": difference >= F.col("high"),
        "above": difference > F.col("high"),
    }
    summed = (
        joined.join(errors, same & inside, "left")
        .groupBy("level", "column", "first", "cases", "rmse", "low", "high")
        .agg(
            F.sum("error_cases").alias("found"),
            F.sqrt(F.sum(difference.cast("double") ** 2 * cases) / F.sum("error_cases")).alias("root"),
            *(F.sum(F.when(side, cases).otherwise(0)).alias(name) for name, side in sides.items()),
        )
    )
    name = F.concat_ws(" ", "column", "first").alias("geocode")
    judged = in_tasks(summed.select("level", name, *_JUDGED), _Offsets(published.level), _VERDICTS)
    return judged.select("level", "geocode", "bad", "checked")


_JUDGED: Final = ("cases", "rmse", "low", "high", "found", "root", "below", "down", "up", "above")
_VERDICTS: Final = "level string, geocode string, bad boolean, checked int"


@dataclass(frozen=True, slots=True)
class _Offsets:
    """From offsets and what their errors say to whether these are the offsets of those errors."""

    level: float

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            cases, rmse, low, high, found, root, below, down, up, above = (_numbers(batch, name) for name in _JUDGED)
            outside = 1.0 - self.level
            # The quantile of this rank from each side; none is on the other side of 0.
            rank = np.floor((cases + 1) * outside / 2)
            quantiles = (below < rank) & ((low == 0) | (down >= rank)) & (above < rank) & ((high == 0) | (up >= rank))
            reach = stdtrit(np.maximum(cases, 1), 0.5 + self.level / 2) * rmse
            by_student = (-low == high) & (high >= reach * (1 - _CLOSE)) & (high < reach * (1 + _CLOSE) + 1)
            few = cases < max(_CASES, int(np.ceil(10 / outside)))
            right = (found == cases) & (np.abs(root - rmse) <= _CLOSE * (1 + rmse)) & (low <= 0) & (high >= 0)
            yield _verdicts(batch, ~(right & np.where(few, by_student, quantiles)), 1)


def _numbers(batch: pa.RecordBatch, name: str) -> NDArray[np.float64]:
    """A column; what is missing is no number."""
    values: NDArray[np.float64] = batch.column(name).cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    return values


def _verdicts(batch: pa.RecordBatch, bad: NDArray[np.bool_], checked: int) -> pa.RecordBatch:
    """Which rows are bad, each of which stands for as many values as were checked."""
    columns = [batch.column("level"), batch.column("geocode"), pa.array(bad)]
    numbers = pa.array(np.full(len(bad), checked, np.int32))
    return pa.RecordBatch.from_arrays([*columns, numbers], ["level", "geocode", "bad", "checked"])


#: Class, rmse, low and high of the joined classes by level and column, shape (4, n).
_OffsetsOf = Mapping[tuple[str, str], "NDArray[np.float64]"]


def _collected(offsets: DataFrame) -> _OffsetsOf:
    found: dict[tuple[str, str], list[tuple[int, float, int, int]]] = {}
    for row in offsets.orderBy("class").collect():  # as many as there are columns, levels and classes
        own = found.setdefault((row["level"], row["column"]), [])
        own.append((row["class"], row["rmse"], row["low"], row["high"]))
    return {key: np.array(each, dtype=np.float64).T for key, each in found.items()}


def _counts(offsets: _OffsetsOf, table: Table, frame: DataFrame) -> DataFrame:
    own = {key: offset for key, offset in offsets.items() if key[1] in table.names}
    judged = in_tasks(frame, _Counts(table.names, own), _VERDICTS)
    return judged.select("level", "geocode", "bad", "checked")


@dataclass(frozen=True, slots=True)
class _Counts:
    """From counts with their intervals to whether these are what the offsets make of the counts."""

    names: tuple[str, ...]
    offsets: _OffsetsOf

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in cut(batches, max(1, _VALUES // (4 * len(self.names)))):
            levels = np.array(batch.column("level").to_pylist(), dtype=np.str_)
            total = _numbers(batch, self.names[0])
            place = np.digitize(total, TOTAL_CLASSES) - 1
            bad = np.zeros(batch.num_rows, dtype=np.bool_)
            for name in self.names:
                count, rmse, low, high = (_numbers(batch, f"{name}{end}") for end in ("", "_rmse", "_low", "_high"))
                classes = (np.digitize(count, COUNT_CLASSES) - 1) * len(TOTAL_CLASSES) + place
                for level in np.unique(levels):
                    own = levels == level
                    found = self.offsets.get((str(level), name))
                    if found is None:
                        bad |= own
                        continue
                    at = np.maximum(np.digitize(classes[own], found[0]) - 1, 0)
                    expected = (found[1][at], np.maximum(count[own] + found[2][at], 0), count[own] + found[3][at])
                    for value, right in zip((rmse, low, high), expected, strict=True):
                        bad[own] |= ~np.isclose(value[own], right, rtol=0.0, atol=_CLOSE)
            yield _verdicts(batch, bad, len(self.names))
