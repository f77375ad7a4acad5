"""Simple random samples of a confidential population, tabulated by geolevel: the Spark side.

RESTRICTED: reads confidential histograms. The driver draws how many persons each geounit of a middle geolevel gives; of
each of these a task draws from which cells, by a generator of its own, and reduces residuals to how often each occurs.
Together that is one simple random sample without replacement, the same for any partitions. Levels above the middle one
are sums of residuals, of which the driver sees those by geounit and stratum of the level above.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from das_spark.errors import InputError
from das_spark.evaluation import (
    Draw,
    Frequencies,
    ResidualSums,
    ResidualTally,
    SampleReport,
    StratifiedCells,
    TallyKey,
    entries_of,
    gather,
    pooled,
    residuals,
)
from das_spark.geography import ROOT_GEOCODE
from das_spark.spark.census import geocode_at
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.lists import flat_lists, list_total, text_column, together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.geography import Geolevel, Spine
    from das_spark.histogram import Query

#: Geounits of the middle level, at most: more than there are counties, so that the driver holds little.
GEOUNITS_ON_DRIVER: Final = 5000

#: Column of the geounit of the middle level that a leaf lies in.
_MIDDLE: Final = "middle"
#: What tasks say, as rows that add up: of a sample and level how often a residual occurs; and, where there is no
#: residual but a geocode, what residuals of a stratum of that geounit sum to.
_ROWS: Final = "draw long, level long, stratified boolean, residual long, geocode string, stratum long, amount long"
_ARROW: Final = {"long": pa.int64(), "boolean": pa.bool_(), "string": pa.string()}
_SCHEMA: Final = pa.schema([(name, _ARROW[kind]) for name, kind in (field.split() for field in _ROWS.split(", "))])
_KEYS: Final = ("draw", "level", "stratified", "residual", "geocode", "stratum")
#: Sampled counts in memory at once: bounds the memory of a task.
_COUNTS: Final = 1 << 22


def sample_levels(
    leaves: DataFrame,
    spine: Spine,
    strata: Query,
    shares: Sequence[Fraction],
    seeds: Sequence[int],
    *,
    counted: str = "people",
    geounits_on_driver: int = GEOUNITS_ON_DRIVER,
) -> SampleReport:
    """Draw samples and compare them with the population they come from, in every geolevel.

    The middle level is the lowest one that has at most so many geounits, or the top where none has. It is part of the
    draw: another one gives another sample under the same seed.

    Args:
        leaves: Confidential histograms of the leaves: columns geocode, cells, counts; every leaf once, empty ones too.
        spine: The geolevels, whose geocodes are prefixes of those of the leaves. For a run on a spine of areas: that of
            the census, with the leaves under the geocodes of the census (`on_census`).
        strata: The query of stratified counts.
        shares: Of the persons, exact; each once.
        seeds: One sample of each share for each of them.
        counted: What is counted, in the plural.
        geounits_on_driver: Most geounits of the middle level.

    Returns:
        Residuals of totals and of strata, by share, seed and geolevel.

    Raises:
        InputError: No share or seed, one that stands twice or is out of range, or too large a population.
    """
    draws = _draws(shares, seeds)
    geounits = _geounits(leaves, spine)
    middle = _middle(geounits, geounits_on_driver)
    rows = _sampled(leaves, spine, middle, strata, draws)
    found = _frequencies(rows)
    if middle:
        found |= _frequencies_above(rows, spine.levels[:middle], strata, draws)
    entries = []
    for number, draw in enumerate(draws):
        for place, level in enumerate(spine.levels):
            total, stratified = (found.get(TallyKey(number, place, each), pooled([])) for each in (False, True))
            whole = _with_empty(total, stratified, geounits[place], strata)
            entries += entries_of(draw, level.name, strata.name, *whole)
    return SampleReport(tuple(shares), tuple(seeds), tuple(entries), counted)


@dataclass(frozen=True, slots=True, eq=False)
class _SampleTask:
    """From leaves, sorted by geounit of the middle level and geocode, to rows that add up."""

    draws: tuple[Draw, ...]
    strata: Query
    levels: tuple[Geolevel, ...]
    middle: int  # place of the middle level among them
    # geounit of the middle level -> how many persons it gives to each sample, (draws,)
    persons: Mapping[str, NDArray[np.int64]]

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tally, sums = ResidualTally(), ResidualSums(len(self.draws), self.strata.rows)
        for geocode, rows in together(batches, _MIDDLE):
            self._add(tally, sums, geocode, rows)
        for key, found in tally.frequencies().items():
            yield _rows(key._asdict() | {"residual": found.values, "amount": found.counts})
        for geocode, strata, amounts in sums.found():
            draw, stratum = np.tile(np.arange(len(self.draws)), len(strata)), np.repeat(strata, len(self.draws))
            yield _rows({"draw": draw, "geocode": geocode, "stratum": stratum, "amount": amounts.ravel()})

    def _add(self, tally: ResidualTally, sums: ResidualSums, geocode: str, rows: pa.Table) -> None:
        """Draw all samples of one geounit of the middle level, some at a time."""
        flat_cells, offsets = flat_lists(rows.column("cells"), np.int64)
        counts, _ = flat_lists(rows.column("counts"), np.int64)
        leaf = np.repeat(np.arange(rows.num_rows), np.diff(offsets))
        cells, people = gather(text_column(rows, "geocode"), leaf, flat_cells, counts, self.strata)
        lengths = {place: level.length for place, level in enumerate(self.levels) if place >= self.middle}
        step = max(1, _COUNTS // max(1, len(people)))
        for first in range(0, len(self.draws), step):
            some = slice(first, first + step)
            values = residuals(people, self.persons[geocode][some], self.draws[some], geocode)
            tally.add(cells, values, lengths, first)
            if self.middle:
                above = geocode[: self.levels[self.middle - 1].length] or ROOT_GEOCODE
                sums.add(above, *cells.by_stratum(values), first)


def _draws(shares: Sequence[Fraction], seeds: Sequence[int]) -> tuple[Draw, ...]:
    draws = tuple(Draw(share, seed) for share, seed in product(shares, seeds))
    if not draws or len(set(draws)) != len(draws):
        raise InputError(
            "samples: shares and seeds must be given, each once", hint="such as shares of 1/20 and 1/10, and seed 0"
        )
    return draws


def _geounits(leaves: DataFrame, spine: Spine) -> tuple[int, ...]:
    """How many geounits each level has."""
    counts = [F.count_distinct(geocode_at(level)).alias(level.name) for level in spine.levels[:-1]]
    (row,) = leaves.agg(*counts, F.count(F.lit(1)).alias(spine.leaf.name)).collect()
    return tuple(row)


def _middle(geounits: Sequence[int], most: int) -> int:
    """Place of the lowest level with at most so many geounits; the top where none has so few."""
    return max([place for place, number in enumerate(geounits) if number <= most], default=0)


def _sampled(leaves: DataFrame, spine: Spine, middle: int, strata: Query, draws: tuple[Draw, ...]) -> pa.Table:
    """The rows of all tasks, summed."""
    grouped = leaves.select(geocode_at(spine.levels[middle]).alias(_MIDDLE), "geocode", "cells", "counts")
    totals = grouped.groupBy(_MIDDLE).agg(F.sum(list_total("counts")).alias("people")).toArrow().sort_by(_MIDDLE)
    persons = _persons(totals.column("people").to_numpy().astype(np.int64), draws)
    by_geocode = dict(zip(totals.column(_MIDDLE).to_pylist(), persons.T, strict=True))
    task = _SampleTask(draws, strata, spine.levels, middle, by_geocode)
    rows = in_sorted_tasks(grouped.repartition(F.col(_MIDDLE)), (_MIDDLE, "geocode"), task, _ROWS)
    return rows.groupBy(*_KEYS).agg(F.sum("amount").alias("amount")).toArrow()


def _persons(people: NDArray[np.int64], draws: Sequence[Draw]) -> NDArray[np.int64]:
    """How many persons each geounit of the middle level gives to each sample, (draws, geounits)."""
    population = int(people.sum())
    return np.stack([draw.taken(people, draw.persons(population)) for draw in draws])


def _frequencies(rows: pa.Table) -> dict[TallyKey, Frequencies]:
    """Residuals in the middle level and below."""
    counted = rows.filter(rows.column("residual").is_valid()).sort_by([(name, "ascending") for name in _KEYS[:4]])
    keys = [counted.column(name).to_numpy().astype(np.int64) for name in _KEYS[:3]]
    values, counts = (counted.column(name).to_numpy().astype(np.int64) for name in ("residual", "amount"))
    changes = np.any([np.diff(key, prepend=-1) != 0 for key in keys], axis=0)
    cuts = [*np.flatnonzero(changes).tolist(), len(values)]
    found = {}
    for start, end in pairwise(cuts):
        draw, level, stratified = (int(key[start]) for key in keys)
        found[TallyKey(draw, level, bool(stratified))] = Frequencies(values[start:end], counts[start:end])
    return found


def _frequencies_above(
    rows: pa.Table, levels: Sequence[Geolevel], strata: Query, draws: Sequence[Draw]
) -> dict[TallyKey, Frequencies]:
    """Residuals in the levels above the middle one, of which the lowest has its sums in the rows."""
    order = [(name, "ascending") for name in ("stratum", "geocode", "draw")]
    summed = rows.filter(rows.column("geocode").is_valid()).sort_by(order)
    values = summed.column("amount").to_numpy().astype(np.int64).reshape(-1, len(draws)).T
    first = summed.take(np.arange(0, summed.num_rows, len(draws)))
    geocodes, geounit = np.unique(text_column(first, "geocode"), return_inverse=True)
    cells = StratifiedCells(geocodes, strata.rows, first.column("stratum").to_numpy().astype(np.int64), geounit)
    tally = ResidualTally()
    tally.add(cells, values, {place: level.length for place, level in enumerate(levels)})
    return tally.frequencies()


def _rows(columns: Mapping[str, object]) -> pa.RecordBatch:
    """Rows of `_ROWS` from some of its columns; a column of one value holds it in every row."""
    length = len(np.asarray(columns["amount"]))
    arrays = []
    for field in _SCHEMA:
        value = columns.get(field.name)
        arrays.append(pa.array(value if isinstance(value, np.ndarray) else [value] * length, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)


def _with_empty(
    total: Frequencies, stratified: Frequencies, geounits: int, strata: Query
) -> tuple[Frequencies, Frequencies]:
    """Nobody is sampled where nobody is: geounits without people are exact, and empty strata are left out."""
    empty = geounits - total.total
    exact = Frequencies(np.zeros(min(1, empty), dtype=np.int64), np.full(min(1, empty), empty), empty)
    absent = geounits * strata.rows - stratified.total
    return pooled([total, exact]), Frequencies(stratified.values, stratified.counts, absent)
