"""Whether published intervals hang together: ends about their estimates, formats of one table, and sums over levels.

Shares no code with how intervals are made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import pairwise
from statistics import NormalDist
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from das_spark.features.intervals.tables import read_intervals
from das_spark.geography import ROOT_GEOCODE
from das_spark.privacy import Framework
from das_spark.spark.checks import Finding, Rule, findings
from das_spark.spark.engine import in_tasks
from das_spark.spark.lists import cut
from das_spark.spark.own_codes import by_geocodes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from das_spark.features.intervals.settings import IntervalSettings
    from das_spark.geography import Spine
    from das_spark.spark.verify_run import Verified
    from das_spark.tabulation import Table

ENDS: Final = "intervals reach as far as their standard errors"
SAME: Final = "formats of intervals hold the same numbers"
SUMS: Final = "estimates of intervals sum to parents"
#: People by which numbers that are computed in two ways may differ, and relative to them.
_CLOSE: Final = 1e-5
_RELATIVE: Final = 1e-8
_PART: Final = "struct<level: string, geocode: string, people: double, size: double>"
#: Numbers that a task holds at once: bounds its memory.
_VALUES: Final = 1 << 20


def rules_of(
    run: Verified, geounits: DataFrame, written: Sequence[tuple[Table, str]], settings: IntervalSettings
) -> list[Rule]:
    """Judge the intervals that a run has published.

    Args:
        run: The run that is verified.
        geounits: Level and geocode of every geounit that is published.
        written: Tables of intervals, each with each format.
        settings: What the run has asked for.
    """
    census, wanted = run.census, settings.named_geolevels
    published = []
    for table, format in written:
        levels = table.levels(census, wanted)
        frame = read_intervals(run.spark, run.layout, table, format, levels)
        published.append(PublishedIntervals(table, format, by_geocodes(frame, geounits, census), levels))
    return interval_rules(published, geounits, census, wanted, float(settings.level), run.plan.budget.framework)


@dataclass(frozen=True, slots=True)
class PublishedIntervals:
    """The intervals of one table as they were read back, all levels in one."""

    table: Table  # whose columns they are of
    format: str  # such as `csv`
    frame: DataFrame  # level, geocode, and four columns a column of the table
    levels: tuple[str, ...] | None = None  # geolevels of which it has intervals, from the top; None for all


def interval_rules(
    published: Sequence[PublishedIntervals],
    geounits: DataFrame,
    census: Spine,
    levels: Sequence[str],
    level: float,
    framework: Framework,
) -> list[Rule]:
    """The rules on published intervals; none where none are published.

    Args:
        published: The intervals.
        geounits: Level and geocode of every geounit that is published.
        census: The levels.
        levels: Those of which there are intervals, from the top.
        level: Probability that an interval covers the truth.
        framework: In which the noise was drawn.
    """
    if not published:
        return []
    numbers = range(len(published))
    of_level = {
        name: [number for number in numbers if (own := published[number].levels) is None or name in own]
        for name in levels
    }
    levels = [name for name in levels if of_level[name]]
    rows = reduce(DataFrame.unionAll, [_ends(published[number], level, framework, number) for number in numbers])
    of_row = [F.when(F.col("level") == name, F.lit(of_level[name])) for name in levels]
    wanted = geounits.where(F.col("level").isin(*levels)).select(
        "level", "geocode", F.lit(True), F.lit(-1), F.explode(F.coalesce(*of_row, F.lit([]).cast("array<int>")))
    )
    # Each table by itself: a row that one lacks is none that another has twice.
    counted = rows.unionAll(wanted).groupBy("level", "geocode", "number")
    checked = counted.agg(F.min("good").alias("good"), F.sum("rows").alias("missing"))
    bad = ~F.col("good") | (F.col("missing") != 0)
    width = F.element_at(F.array(*[F.lit(len(each.table.columns)) for each in published]), F.col("number") + 1)
    rules = [Rule(findings(checked, Finding(ENDS, bad, width)), tuple((ENDS, name, "") for name in levels))]
    first = [each for each in published if each.format == published[0].format]
    if len(first) < len(published):
        same = Finding(SAME, F.col("least") != F.col("greatest"), F.col("rows"))
        rules.append(Rule(findings(_hashes(published), same), tuple((SAME, name, "") for name in levels)))
    if len(levels) > 1:
        # Of one format: the others hold the same numbers, which the rule before this one looks at.
        reached = [each.levels or tuple(levels) for each in first]
        sums = reduce(DataFrame.unionAll, [_differences(*each, census) for each in zip(first, reached, strict=True)])
        expected = tuple((SUMS, name, "") for name in levels if any(name in each[:-1] for each in reached))
        rules.append(Rule(findings(sums, Finding(SUMS, F.col("bad"), 1)), expected))
    return rules


@dataclass(frozen=True, slots=True)
class _Ends:
    """From rows of intervals to whether all ends are the whole numbers next to estimate and standard error, inwards."""

    names: tuple[str, ...]  # columns of the table
    level: float  # probability that an interval covers the truth
    framework: Framework  # in which the noise was drawn

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in cut(batches, max(1, _VALUES // (4 * len(self.names)))):
            good = self._good(*(self._numbers(batch, end) for end in ("", "_se", "_low", "_high")))
            yield pa.RecordBatch.from_arrays(
                [batch.column("level"), batch.column("geocode"), pa.array(good.all(axis=1))],
                ["level", "geocode", "good"],
            )

    def _numbers(self, batch: pa.RecordBatch, end: str) -> NDArray[np.float64]:
        """The columns of one ending, shape (rows, columns); what is missing is no number."""
        columns = [batch.column(f"{name}{end}").cast(pa.float64()).fill_null(np.nan) for name in self.names]
        return np.stack([column.to_numpy(zero_copy_only=False) for column in columns], axis=1)

    def _reaches(self, error: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
        """How far intervals reach, and how far those of earlier versions did: as those of a normal distribution."""
        deviations = NormalDist().inv_cdf((1 + self.level) / 2)
        earlier, outside = deviations * error, 1 - self.level
        if self.framework is Framework.PURE_DP:
            deviations = max(deviations, np.log(1 / outside) / 2**0.5)
        yield np.minimum(0.5 + deviations * np.hypot(error, 12**-0.5), outside**-0.5 * error)
        yield earlier

    def _good(
        self,
        estimate: NDArray[np.float64],
        error: NDArray[np.float64],
        low: NDArray[np.float64],
        high: NDArray[np.float64],
    ) -> NDArray[np.bool_]:
        close = _CLOSE + _RELATIVE * np.abs(estimate)
        right = np.zeros(estimate.shape, dtype=np.bool_)
        for reach in self._reaches(error):
            least, most = np.maximum(estimate - reach, 0.0), np.maximum(estimate + reach, 0.0)
            right |= (
                (low >= least - close)
                & (low <= least + 1 + close)
                & (high <= most + close)
                & (high >= most - 1 - close)
            )
            # Between two whole numbers there may be none: then the nearest is the interval.
            right |= (low == high) & (np.abs(low - np.maximum(estimate, 0.0)) <= 1) & (most - least < 1 + close)
        return np.asarray((error >= 0) & (low >= 0) & (low <= high) & right, dtype=np.bool_)


def _ends(published: PublishedIntervals, level: float, framework: Framework, number: int) -> DataFrame:
    task = _Ends(published.table.names, level, framework)
    judged = in_tasks(published.frame, task, "level string, geocode string, good boolean")
    return judged.select("level", "geocode", "good", F.lit(1).alias("rows"), F.lit(number).alias("number"))


def _hashes(published: Sequence[PublishedIntervals]) -> DataFrame:
    """Hashes of all numbers of a geounit in a table: the least and the greatest of its formats. None is of a null."""
    parts = []
    for each in published:
        numbers = [f"`{name}`" for name in each.frame.columns if name not in ("level", "geocode")]
        parts.append(
            each.frame.select(
                "level", "geocode", F.lit(each.table.name).alias("table"), F.xxhash64(*numbers).alias("hash")
            )
        )
    rows = reduce(DataFrame.unionAll, parts).groupBy("level", "geocode", "table")
    return rows.agg(F.min("hash").alias("least"), F.max("hash").alias("greatest"), F.count("hash").alias("rows"))


def _differences(published: PublishedIntervals, levels: Sequence[str], census: Spine) -> DataFrame:
    """Whether the totals of each level are the sums of those of the next one."""
    upper = dict(pairwise(reversed(levels)))
    level, code, total = F.col("level"), F.col("geocode"), F.col(f"`{published.table.total.name}`")
    own = F.struct(level.alias("level"), code.alias("geocode"), total.alias("people"), F.abs(total).alias("size"))
    above = F.lit(None)
    for lower, name in upper.items():
        length = census.level(name).length
        parent = F.substring(code, 1, length) if length else F.lit(ROOT_GEOCODE)
        part = F.struct(F.lit(name), parent, -total, F.lit(0.0))
        above = F.when(level == lower, part).otherwise(above)
    # A level that is the lowest one is no sum.
    own = F.when(level != levels[-1], own)
    parts = published.frame.select(F.explode(F.array_compact(F.array(own, above.cast(_PART)))).alias("part"))
    summed = (
        parts.select("part.*")
        .groupBy("level", "geocode")
        .agg(F.sum("people").alias("people"), F.sum("size").alias("size"))
    )
    far = F.abs(F.col("people")) > _CLOSE * 10 + _RELATIVE * F.col("size")
    return summed.select("level", "geocode", far.alias("bad"))
