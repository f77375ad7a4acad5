"""Reader of the official P.L. 94-171 redistricting summary files: what anybody can download of a state.

Voting age x Hispanic x race63 of every block is exact. Who lives in group quarters is not published: the persons of
P5 are placed by the fixed rule of :func:`~das_spark.io.readers._redistricting_tables.assign_group_quarters`. Units:
the occupied units of H1 are class 0, one facility of a type stands where P5 has people of it (or as many as can hold
them), vacant units are those of H1. A product of housing units is given the same units, and counts them as H1 does:
vacant and occupied. Rows of states, counties, tracts and block groups are compared with the sums of their blocks: where
they differ, files of blocks may be incomplete, which is noticed in the restricted record of problems.

Published units and people may contradict each other, because both are protected: ingestion finds such blocks and does
what `input.unit_conflicts` says. With `input.units_from_people` the units are made from the people, not from H1.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F

from das_spark.errors import ConfigurationError, InputError, without_values
from das_spark.io.readers._pl94_files import (
    KINDS,
    SEGMENTS,
    find_files,
    joined_blocks,
    look_at_files,
    open_kind,
    partner_problems,
    row_problems,
    some_geounits,
    sum_problems,
)
from das_spark.io.readers._redistricting_tables import (
    HISPANIC_ITEMS,
    RULES,
    TOTAL_ITEMS,
    Counts,
    Tables,
    assign_group_quarters,
    contradictions,
)
from das_spark.io.readers._sources import required
from das_spark.io.readers._target import leaf_geocode, require_attributes
from das_spark.io.readers._units import housing_counts, units_from_people
from das_spark.io.readers.base import IngestedTables, Problem, reading, refuse, released_if_refused

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.config import InputSettings
    from das_spark.geography import Spine
    from das_spark.products import Product

ATTRIBUTES = {"hhgq": 8, "votingage": 2, "hispanic": 2, "cenrace": 63}
UNIT_ATTRIBUTES = {"h1": 2}
_CLASSES = 8
_GEOCODE_LENGTH = 16
_BLOCKS = "geocode string, cells array<int>, counts array<bigint>, units array<bigint>, vacant bigint, broken int"


@dataclass(frozen=True, slots=True)
class Pl94Summary:
    """Reads the summary files of one or many states from a folder."""

    name: str = "pl94_summary"

    def look(self, settings: InputSettings, product: Product, spine: Spine) -> None:
        """See without Spark how the files begin; see :class:`~das_spark.io.readers.base.Reader`.

        Args:
            settings: Where the folder is.
            product: What the run publishes.
            spine: Its lowest level says how long the geocodes are.

        Raises:
            InputError: A file is missing, unreadable, or does not begin as it should.
            ConfigurationError: The product or the spine is not for this reader, or no path is set.
        """
        look_at_files(self._folder(settings, product, spine))

    def _folder(self, settings: InputSettings, product: Product, spine: Spine) -> str:
        of_units = product.record == "unit"
        require_attributes(self.name, product, UNIT_ATTRIBUTES if of_units else ATTRIBUTES)
        if spine.leaf.length > _GEOCODE_LENGTH:
            raise ConfigurationError(f"reader {self.name!r} gives geocodes of {_GEOCODE_LENGTH} digits")
        return required(settings.path, "input.path", self.name)

    def read(self, spark: SparkSession, settings: InputSettings, product: Product, spine: Spine) -> IngestedTables:
        """Read and check the files; see :class:`~das_spark.io.readers.base.Reader`.

        Args:
            spark: The session.
            settings: Where the folder is, and whether units are made from people.
            product: What the run publishes.
            spine: Its lowest level says how long the geocodes are.

        Raises:
            InputError: A file is missing, unreadable or holds something that is not allowed.
            ConfigurationError: The product or the spine is not for this reader, or no path is set.
        """
        of_units = product.record == "unit"
        folder = self._folder(settings, product, spine)
        frames = _checked_frames(spark, folder)
        with reading(folder):
            most = product.unit_bounds.most if product.unit_bounds else ()
            blocks = joined_blocks(frames).mapInArrow(without_values(partial(_tabulate, most=most)), _BLOCKS).persist()
            with released_if_refused(blocks):
                refuse(_block_problems(blocks, folder))
                sums = tuple(sum_problems(frames, folder))
        counts, geounits = _counts(blocks, spine), _geounits(blocks, spine)
        if of_units:
            return IngestedTables(housing_counts(geounits), geounits, sums, held=blocks)
        units = units_from_people(counts, geounits, product) if settings.units_from_people else geounits
        return IngestedTables(counts, units, sums, held=blocks)


def _checked_frames(spark: SparkSession, folder: str) -> dict[str, DataFrame]:
    files = find_files(spark, folder)
    frames, problems = {}, []
    for kind in KINDS:
        frame, checks = open_kind(spark, kind, files[kind.name], folder)
        problems += row_problems(frame, kind, checks)
        frames[kind.name] = frame
    refuse(problems)
    refuse(partner_problems(frames, folder))
    return frames


def _tabulate(batches: Iterator[pa.RecordBatch], most: tuple[int, ...]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        if batch.num_rows:
            yield _batch(batch, most)


def _items(batch: pa.RecordBatch, name: str) -> Counts:
    flat: Counts = batch.column(name).flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(batch.num_rows, -1)


def _batch(batch: pa.RecordBatch, most: tuple[int, ...]) -> pa.RecordBatch:
    first, second, third = (_items(batch, segment.name) for segment in SEGMENTS)
    p3, p4, h1 = np.split(second, [TOTAL_ITEMS, TOTAL_ITEMS + HISPANIC_ITEMS], axis=1)
    tables = Tables(first[:, :TOTAL_ITEMS], first[:, TOTAL_ITEMS:], p3, p4, h1, third)
    wrong = contradictions(tables)
    people, quarters = tables.people(), tables.quarters()
    broken: NDArray[np.bool_] = np.any(wrong, axis=1)
    people[broken], quarters[broken] = 0, 0
    # Of facilities there are as many as can hold the people: one, but for a great many of them.
    facilities = -(-quarters // np.array(most)) if most else quarters > 0
    units = np.concatenate([h1[:, 1:2], facilities[:, 1:]], axis=1).astype(np.int64)
    cells, counts = _sparse(people, quarters)
    columns = [
        batch.column("geocode"),
        cells,
        counts,
        pa.ListArray.from_arrays(np.arange(0, units.size + 1, _CLASSES, dtype=np.int32), units.ravel()),
        pa.array(h1[:, 2]),
        pa.array((wrong << np.arange(len(RULES))).sum(axis=1).astype(np.int32)),
    ]
    return pa.RecordBatch.from_arrays(columns, ["geocode", "cells", "counts", "units", "vacant", "broken"])


def _sparse(people: Counts, quarters: Counts) -> tuple[pa.ListArray, pa.ListArray]:
    """Occupied cells and their counts, a list a block; only blocks with group quarters need the full histogram."""
    flat = people.reshape(len(people), -1)
    cells, counts = [], []
    has_quarters: NDArray[np.bool_] = np.any(quarters, axis=1)
    for block, row in enumerate(flat):
        full = assign_group_quarters(people[block], quarters[block]).ravel() if has_quarters[block] else row
        mine = np.flatnonzero(full)
        cells.append(mine)
        counts.append(full[mine])
    offsets = np.concatenate([[0], np.cumsum([len(mine) for mine in cells])]).astype(np.int32)
    return (
        pa.ListArray.from_arrays(offsets, pa.array(np.concatenate(cells).astype(np.int32))),
        pa.ListArray.from_arrays(offsets, pa.array(np.concatenate(counts).astype(np.int64))),
    )


def _block_problems(blocks: DataFrame, folder: str) -> list[Problem]:
    counted = {row[0]: row[1] for row in blocks.groupBy("broken").count().collect()}
    if not counted:
        raise InputError(f"{folder}: no block (summary level 750) in the geographic header")
    problems = []
    for bit, (field, expected) in enumerate(RULES):
        number = sum(rows for mask, rows in counted.items() if mask >> bit & 1)
        if number:
            some = some_geounits(blocks.where(F.col("broken").bitwiseAND(F.lit(1 << bit)) != 0))
            problems.append(Problem(folder, field, expected, number, geounits=some))
    twice = blocks.groupBy("geocode").count().where("count > 1")
    number = twice.count()
    if number:
        problems.append(Problem(folder, "GEOCODE", "each block once", number, geounits=some_geounits(twice)))
    return problems


def _counts(blocks: DataFrame, spine: Spine) -> DataFrame:
    pairs = blocks.select("geocode", F.explode(F.arrays_zip("cells", "counts")).alias("pair"))
    return pairs.select(
        leaf_geocode("geocode", spine).alias("geocode"),
        F.col("pair.cells").alias("cell"),
        F.col("pair.counts").alias("count"),
    )


def _geounits(blocks: DataFrame, spine: Spine) -> DataFrame:
    if spine.leaf.length == _GEOCODE_LENGTH:
        return blocks.select("geocode", "units", "vacant")
    units = F.array(*[F.sum(F.get("units", F.lit(each))) for each in range(_CLASSES)])
    return blocks.groupBy(leaf_geocode("geocode", spine).alias("geocode")).agg(
        units.alias("units"), F.sum("vacant").alias("vacant")
    )
