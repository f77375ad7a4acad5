r"""Whether noisy answers differ from one another as the noise that was declared does.

Counts of children sum to those of their parent. So of a query that a parent :math:`p` and all its children :math:`c`
were asked, each answer that all of them gave has a difference

.. math:: D = \sum_c m_c - m_p, \qquad V = \operatorname{Var} D = \sum_c v_c + v_p,

of noise alone, whatever the counts and the estimates are. Two rules follow. Each fails of sound measurements with a
probability below 1e-9, of at most 1e11 answers at a thousand levels and queries.

*No difference is impossible*: :math:`|D| \le 50 (\sqrt V + 1)`, which sums of two-sided geometric or discrete Gaussian
noise exceed with a probability below 1e-20 (Chernoff's bound; the test of this module computes it).

*Noise is as wide as declared*: the mean of the :math:`n` squares :math:`D^2 / V` of a level and query is at least
:math:`1 - \sqrt{2 K L / n}`, with :math:`L = \ln 10^{12}` and :math:`K = 6 + 1 / V`, above the second moment of such a
square (Maurer 2003, "A bound on the deviation probability for sums of non-negative random variables", theorem 1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import log
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.spark.checks import Finding, Rule, findings
from das_spark.spark.engine import in_sorted_tasks, in_tasks
from das_spark.spark.lists import flat_lists, group_starts, list_array, whole_groups
from das_spark.spark.tables import union

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

POSSIBLE: Final = "differences of noise are possible"
WIDE: Final = "noise is as wide as declared"
#: How many standard deviations, and people, a difference may have.
_MOST: Final = 50.0
#: One error in so many levels and queries.
_RARE: Final = log(1e12)

#: What is added up: answers of some geounits of a family, by query, and how many geounits have given each.
_SUMS: Final = pa.schema(
    [
        ("level", pa.string()),
        ("family", pa.string()),
        ("query", pa.string()),
        ("rows", pa.list_(pa.int32())),
        ("values", pa.list_(pa.int64())),
        ("times", pa.list_(pa.int64())),
        ("geounits", pa.int64()),
        ("variance", pa.float64()),
    ]
)
_KEY: Final = ("level", "family", "query")
#: A parent counts as so many children: what all have given is told by one number.
_PARENT: Final = 1 << 32
_DIFFERENCES: Final = "level string, query string, family string, answers long, squares double, least double, odd long"
#: Rows, and bytes, of the families that are added up at once.
_ROWS_AT_ONCE: Final = 1 << 14
_BYTES_AT_ONCE: Final = 1 << 26


def noise_rule(measurements: DataFrame, geounits: DataFrame, levels: Sequence[str]) -> Rule:
    """Judge the differences of all levels below the top.

    Args:
        measurements: `tables.MEASUREMENTS` of all levels, with the level.
        geounits: `tables.GEOUNITS`, likewise: a family counts of which every child was asked.
        levels: From the top.
    """
    names = [F.lit(name) for pair in pairwise(levels) for name in pair]
    below = F.create_map(*names)[F.col("level")].alias("level")
    answers = ("query", "rows", "values", "variance")
    upper, family = F.col("level") != levels[-1], F.col("geocode").alias("family")
    children = measurements.where(F.col("level") != levels[0])
    sides = [
        children.select("level", F.col("parent").alias("family"), *answers, F.lit(1).alias("geounits")),
        measurements.where(upper).select(below, family, *answers, F.lit(_PARENT).alias("geounits")),
    ]
    summed = in_tasks(union(sides), _summed_where_they_lie, from_arrow_schema(_SUMS))
    no_answers = [F.lit(None).cast(kind) for kind in ("array<int>", "array<bigint>", "array<bigint>")]
    due = geounits.where(upper).select(below, family, F.lit(""), *no_answers, "children", F.lit(0.0))
    together = summed.unionAll(due).repartition("level", "family")
    differences = in_sorted_tasks(together, _KEY, _differences, _DIFFERENCES).where("answers > 0")
    odd = F.sum("odd").alias("odd"), F.min(F.when(F.col("odd") > 0, F.col("family"))).alias("family")
    of_query = differences.groupBy("level", "query").agg(
        F.sum("answers").alias("answers"), F.sum("squares").alias("squares"), F.min("least").alias("least"), *odd
    )
    named = of_query.withColumn("geocode", F.concat_ws(" below ", "query", "family"))
    mean, fourth = F.col("squares") / F.col("answers"), 6 + 1 / F.col("least")
    narrow = mean < 1 - F.sqrt(2 * _RARE * fourth / F.col("answers"))
    checked = F.col("answers")
    return Rule(findings(named, Finding(POSSIBLE, F.col("odd") > 0, checked), Finding(WIDE, narrow, checked)))


def _summed_where_they_lie(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Add up the answers of neighbouring rows of one family and query: in files they stand one after the other."""
    for batch in batches:
        yield _Sums.of(batch, batch.column("rows"), None).batch()


def _added(
    answer: NDArray[np.int64], values: NDArray[np.int64], times: NDArray[np.int64], width: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Values and times by answer; children of a family have mostly kept the same answers, which need no sorting."""
    if width and len(answer) % width == 0 and (answer.reshape(-1, width) == answer[:width]).all():
        return answer[:width], values.reshape(-1, width).sum(axis=0), times.reshape(-1, width).sum(axis=0)
    every, place = np.unique(answer, return_inverse=True)
    sums, counted = np.zeros(len(every), dtype=np.int64), np.zeros(len(every), dtype=np.int64)
    np.add.at(sums, place, values)
    np.add.at(counted, place, times)
    return every, sums, counted


@dataclass(frozen=True, slots=True)
class _Sums:
    """Sums of answers over runs of rows with the same key."""

    rows: pa.RecordBatch  # what was summed
    first: NDArray[np.int64]  # the first row of each run
    run: NDArray[np.int64]  # of each sum
    answer: NDArray[np.int64]  # of each sum, its number in the query
    values: NDArray[np.int64]
    times: NDArray[np.int64]
    geounits: NDArray[np.int64]  # of each run
    variance: NDArray[np.float64]  # of each run

    @classmethod
    def of(cls, batch: pa.RecordBatch, rows: pa.Array, times: pa.Array | None) -> _Sums:
        """Add up; what has no numbers of its rows has all, and what has no times was given by each geounit."""
        first = group_starts(batch, _KEY)
        geounits = batch.column("geounits").to_numpy().astype(np.int64)
        variance = batch.column("variance").to_numpy().astype(np.float64)
        values, offsets = flat_lists(batch.column("values"), np.int64)
        width = np.diff(offsets)
        row = np.repeat(np.arange(batch.num_rows), width)
        answer = np.arange(len(values)) - np.repeat(offsets[:-1], width)
        answer[rows.is_valid().to_numpy(zero_copy_only=False)[row]] = flat_lists(rows, np.int64)[0]
        if times is None:
            given = geounits[row]
            values = np.where(given == _PARENT, -values, values)
        else:
            given = flat_lists(times, np.int64)[0]
        edges = [*first.tolist(), batch.num_rows]
        parts = [slice(int(offsets[begin]), int(offsets[end])) for begin, end in pairwise(edges)]
        added = [
            _added(answer[part], values[part], given[part], int(width[begin]))
            for begin, part in zip(first.tolist(), parts, strict=True)
        ]
        columns = [np.concatenate([np.zeros(0, np.int64), *each]) for each in zip(*added, strict=True)] or [answer] * 3
        run = np.repeat(np.arange(len(first)), [len(each[0]) for each in added])
        totals = [np.add.reduceat(each, first) if len(first) else each for each in (geounits, variance)]
        return cls(batch, first, run, *columns, *totals)

    def batch(self) -> pa.RecordBatch:
        """The sums as rows, one a run."""
        offsets = np.searchsorted(self.run, np.arange(len(self.first) + 1)).astype(np.int64)
        begin = pa.array(self.first)
        arrays = [
            *(self.rows.column(name).take(begin) for name in _KEY),
            list_array(self.answer, offsets, pa.int32()),
            list_array(self.values, offsets, pa.int64()),
            list_array(self.times, offsets, pa.int64()),
            pa.array(self.geounits),
            pa.array(self.variance),
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=_SUMS)


def _differences(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row a family and query: what its differences say together."""
    for table in whole_groups(batches, ("level", "family"), _ROWS_AT_ONCE, _BYTES_AT_ONCE):
        (rows,) = table.combine_chunks().to_batches()
        sums = _Sums.of(rows, rows.column("rows"), rows.column("times"))
        keys = [rows.column(name).take(pa.array(sums.first)) for name in _KEY]
        # The row without a query stands before the others of its family, and knows the children.
        counts_children = pc.equal(keys[2], "").to_numpy(zero_copy_only=False)
        known = np.maximum.accumulate(np.where(counts_children, np.arange(len(sums.first)), -1))
        due = np.where(known >= 0, sums.geounits[known], -1) + _PARENT
        whole = (sums.times == due[sums.run]) & (sums.geounits == due)[sums.run]
        run, variance = sums.run[whole], sums.variance[sums.run[whole]]
        difference = np.abs(sums.values[whole].astype(np.float64))
        number = len(sums.first)
        odd = difference > _MOST * (np.sqrt(variance) + 1)
        columns = [
            pa.array(np.bincount(run, minlength=number), pa.int64()),
            # Of no differences at all numpy counts in whole numbers, weights or not.
            pa.array(np.bincount(run, difference**2 / variance, number).astype(np.float64)),
            pa.array(sums.variance),
            pa.array(np.bincount(run, odd, number).astype(np.int64)),
        ]
        arrays = [keys[0], keys[2], keys[1], *columns]
        names = [each.split()[0] for each in _DIFFERENCES.split(", ")]
        yield pa.RecordBatch.from_arrays(arrays, names)
