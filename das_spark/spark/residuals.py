"""Measurements less the truth, counted by value: the noise that a run drew. RESTRICTED: reads confidential histograms.

Nothing of data size reaches the driver: tasks look at families, and give how often each residual occurs, a digest of
the noise of each geounit, which is counted where it lies, and how often signs agree.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from das_spark.attack import PARENTS, QUERIES, SIBLINGS, Agreement, Residuals, RunNoise
from das_spark.histogram import Query
from das_spark.places import Place
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.finished_runs import FinishedRun, spine_truths
from das_spark.spark.lists import together
from das_spark.spark.tables import read_table, union

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

Integers = NDArray[np.int64]
#: Answers of a geounit to a query that were measured, ascending, and their residuals.
_Noise = tuple[Integers, Integers]

_VALUE: Final = "value"
_VECTOR: Final = "vector"
_KEYS: Final = ("kind", "level", "query", "share", "number")
_ROWS: Final = (
    "kind string, level string, query string, share string, number long, digest long, frequency long, agreeing long"
)
_FAMILY: Final = "family"
_ABOVE: Final = "above"


def residuals_of(spark: SparkSession, run: FinishedRun, other: Place | None = None) -> RunNoise:
    """The noise of everything that a run measured. RESTRICTED.

    Args:
        spark: The session.
        run: The run.
        other: A run whose confidential histograms are taken.

    Raises:
        InputError: The other run has another spine.
        OutputError: Confidential histograms are not there.
    """
    names, truth = run.spine.names, dict(spine_truths(spark, run, other))
    measured = {name: _measured(spark, run, name) for name in names}
    frames: list[DataFrame] = []
    for depth, name in enumerate(names):
        frames += _of_level(name, measured[name], truth[name], F.col("parent"), above=False)
        if depth:
            frames += _of_level(name, measured[names[depth - 1]], truth[names[depth - 1]], F.col("geocode"), above=True)
    rows = union(frames).repartition(_FAMILY)
    found = in_sorted_tasks(rows, (_FAMILY, _ABOVE, "geocode", "query"), _Families(run.plan.queries), _ROWS)
    by_digest = found.groupBy(*_KEYS, "digest").agg(
        F.sum("frequency").alias("frequency"), F.sum("agreeing").alias("agreeing")
    )
    twice = F.col("frequency") * (F.col("frequency") - 1)
    sums = by_digest.groupBy(*_KEYS).agg(
        F.sum("frequency").alias("frequency"), F.sum("agreeing").alias("agreeing"), F.sum(twice).alias("twice")
    )
    return _noise(sums.toArrow().sort_by([(key, "ascending") for key in _KEYS]), names)


def _measured(spark: SparkSession, run: FinishedRun, geolevel: str) -> DataFrame:
    """Measurements of a geolevel, with the share of each geounit; empty where all have the same."""
    frame = read_table(spark, "measurements", run.public.level("measurements", geolevel))
    if run.spine.is_census:
        return frame.withColumn("share", F.lit(""))
    shares = read_table(spark, "shares", run.public.level("shares", geolevel)).select("geocode", "share")
    return frame.join(shares, "geocode")


def _of_level(
    geolevel: str, measured: DataFrame, truth: DataFrame, family: Column, *, above: bool
) -> tuple[DataFrame, DataFrame]:
    """Measurements and histograms in the same columns; a histogram has no query, and comes before measurements."""
    key = F.concat_ws("/", F.lit(geolevel), family).alias(_FAMILY)
    common = (key, F.lit(geolevel).alias("level"), F.lit(above).alias(_ABOVE), "geocode")
    no_list = F.lit(None).cast("array<bigint>")
    histograms = truth.select(
        *common,
        F.lit(None).cast("string").alias("query"),
        F.lit("").alias("share"),
        F.col("cells").cast("array<bigint>").alias("numbers"),
        F.col("counts").alias("amounts"),
    )
    answers = measured.select(
        *common,
        "query",
        "share",
        F.coalesce(F.col("rows").cast("array<bigint>"), no_list).alias("numbers"),
        F.col("values").alias("amounts"),
    )
    return histograms, answers


def _noise(sums: pa.Table, names: Sequence[str]) -> RunNoise:
    """From sums by kind to what is judged, geolevels from the top."""
    values: dict[tuple[str, str, str], list[tuple[int, int]]] = {}
    vectors: dict[tuple[str, str, str], list[tuple[int, int, int]]] = {}
    agreements = []
    for row in sums.to_pylist():
        key = (row["level"], row["query"], row["share"])
        if row["kind"] == _VALUE:
            values.setdefault(key, []).append((row["number"], row["frequency"]))
        elif row["kind"] == _VECTOR:
            vectors.setdefault(key, []).append((row["number"], row["frequency"], row["twice"] // 2))
        else:
            agreements.append(Agreement(row["level"], row["kind"], row["frequency"], row["agreeing"]))
    order = sorted(values, key=lambda key: (names.index(key[0]), *key[1:]))
    residuals = []
    for key in order:
        value, frequency = np.array(values[key], dtype=np.int64).T
        residuals.append(Residuals(*key, value, frequency, np.array(vectors[key], dtype=np.int64)))
    agreements.sort(key=lambda each: (names.index(each.geolevel), each.between))
    return RunNoise(tuple(residuals), tuple(agreements))


@dataclass(frozen=True, slots=True, eq=False)
class _Families:
    """From the measurements and histograms of families, and those of their parents, to counts of residuals."""

    queries: Mapping[str, Query]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        counted = _Counts()
        for _, rows in together(batches, _FAMILY):
            self._count(rows, counted)
        if counted.any():
            yield counted.batch()

    def _count(self, rows: pa.Table, counted: _Counts) -> None:
        before: dict[str, _Noise] = {}  # of the sibling before
        for level, above, share_of, noise in self._geounits(rows):
            if above:  # comes last: its children wait for it
                for child in counted.waiting:
                    counted.compare(
                        level, PARENTS, ((child[name], noise[name]) for name in child.keys() & noise.keys())
                    )
                continue
            counted.add(level, share_of, noise)
            # With the query of most answers, so that signs are independent of each other.
            largest, *others = sorted(noise, key=lambda name: (-len(noise[name][0]), name))
            counted.compare(level, QUERIES, ((noise[largest], noise[name]) for name in others))
            counted.compare(level, SIBLINGS, ((before[name], noise[name]) for name in before.keys() & noise.keys()))
            before = noise
            counted.waiting.append(noise)
        counted.waiting.clear()

    def _geounits(self, rows: pa.Table) -> Iterator[tuple[str, bool, dict[str, str], dict[str, _Noise]]]:
        """Geounit by geounit: geolevel of the family, whether it is the parent, share and noise of each query."""
        columns = {name: rows.column(name) for name in ("level", _ABOVE, "geocode", "query", "share")}
        level, above, geocode, query, share = (column.to_pylist() for column in columns.values())
        numbers, amounts = rows.column("numbers"), rows.column("amounts")
        cells = counts = np.zeros(0, dtype=np.int64)
        own: tuple[bool, str] | None = None
        shares, noise = dict[str, str](), dict[str, _Noise]()
        for at in range(rows.num_rows):
            if own != (above[at], geocode[at]):
                if own is not None and noise:
                    yield level[at], own[0], shares, noise
                own, shares, noise = (above[at], geocode[at]), {}, {}
                cells = counts = np.zeros(0, dtype=np.int64)
            if query[at] is None:
                cells, counts = _list(numbers[at]), _list(amounts[at])
                continue
            values, asked = _list(amounts[at]), self.queries[query[at]]
            kept = _list(numbers[at]) if numbers[at].is_valid else np.arange(asked.rows)
            shares[query[at]] = share[at]
            noise[query[at]] = (kept, values - _answers(asked, kept, cells, counts))
        if own is not None and noise:
            yield level[-1], own[0], shares, noise


def _list(value: pa.Scalar) -> Integers:
    found: Integers = value.values.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def _answers(query: Query, kept: Integers, cells: Integers, counts: Integers) -> Integers:
    """True answers, those that were kept."""
    found = np.zeros(len(kept), dtype=np.int64)
    if len(kept) and len(cells):
        row = query.row_of(cells)
        place = np.minimum(np.searchsorted(kept, row), len(kept) - 1)
        there = kept[place] == row
        np.add.at(found, place[there], counts[there])
    return found


class _Counts:
    """What a task has counted."""

    def __init__(self) -> None:
        self.waiting: list[dict[str, _Noise]] = []  # children whose parent has not come yet
        self._values: Counter[tuple[str, str, str, int]] = Counter()
        self._vectors: list[tuple[str, str, str, int, int]] = []
        self._signs: Counter[tuple[str, str, bool]] = Counter()

    def any(self) -> bool:
        """Whether there is anything."""
        return bool(self._values)

    def add(self, level: str, share_of: Mapping[str, str], noise: Mapping[str, _Noise]) -> None:
        """Count the noise of a geounit."""
        for query, (kept, residuals) in noise.items():
            if not len(kept):
                continue
            key = (level, query, share_of[query])
            for value, frequency in zip(*np.unique(residuals, return_counts=True), strict=True):
                self._values[(*key, int(value))] += int(frequency)
            digest = hashlib.blake2b(kept.tobytes() + residuals.tobytes(), digest_size=8).digest()
            self._vectors.append((*key, len(kept), int.from_bytes(digest, "little", signed=True)))

    def compare(self, level: str, between: str, pairs: Iterator[tuple[_Noise, _Noise]]) -> None:
        """Count agreeing signs at the same answers."""
        for (kept, one), (also_kept, other) in pairs:
            _, here, there = np.intersect1d(kept, also_kept, assume_unique=True, return_indices=True)
            signs = np.sign(one[here]) * np.sign(other[there])
            self._signs[level, between, True] += int((signs > 0).sum())
            self._signs[level, between, False] += int((signs < 0).sum())

    def batch(self) -> pa.RecordBatch:
        """All of it as rows."""
        rows: list[tuple[str, str, str, str, int, int, int, int]] = []
        rows += [(_VALUE, *key, 0, frequency, 0) for key, frequency in self._values.items()]
        rows += [(_VECTOR, *key, 1, 0) for key in self._vectors]
        rows += [
            (between, level, "", "", 0, 0, number, number if agree else 0)
            for (level, between, agree), number in self._signs.items()
        ]
        columns = zip(*rows, strict=True)
        names = (*_KEYS, "digest", "frequency", "agreeing")
        kinds = [pa.string()] * 4 + [pa.int64()] * 4
        return pa.RecordBatch.from_arrays(
            [pa.array(column, kind) for column, kind in zip(columns, kinds, strict=True)], list(names)
        )
