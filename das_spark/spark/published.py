"""What another product has published, summed up along the spine of a run that is held to it; what contradicts it.

All tables are public. Leaves are brought together by the geocodes that the census gives them, whatever the spines of
the two runs are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.core import GROUP_TOTAL
from das_spark.spark.census import census_geocode
from das_spark.spark.engine import in_tasks
from das_spark.spark.ingest import all_levels
from das_spark.spark.lists import flat_histograms, flat_lists, list_array

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

    from das_spark.core import DividedCounts, HeldCounts
    from das_spark.geography import Spine

#: What answers that only structural zeros count are called in `contradictions`.
ZEROS: Final = "structural zeros"
_KEYS: Final = ("level", "geocode")
_FOUND: Final = pa.schema([("level", pa.string()), ("geocode", pa.string()), ("name", pa.string())])


def same_leaves(mine: DataFrame, theirs: DataFrame, spine: Spine) -> DataFrame:
    """The leaves of a run beside those of the run that published.

    Args:
        mine: `tables.GEOUNITS` of the lowest level.
        theirs: Histograms of the lowest level of the other run, by geocodes of the census.
        spine: That of this run.

    Returns:
        Columns geocode (of the census), leaf (the geocode on the spine; null where this run does not know it), cells
        and counts (null where the other run does not).
    """
    census = F.col("geocode") if spine.is_census else census_geocode()
    known = mine.select(census.alias("geocode"), F.col("geocode").alias("leaf"))
    return known.join(theirs.select("geocode", "cells", "counts"), "geocode", "full_outer")


def unpublished(leaves: DataFrame) -> DataFrame:
    """Leaves of the run of which nothing was published: a column geocode."""
    return leaves.where("leaf is not null and cells is null").select("geocode")


def unknown_leaves(leaves: DataFrame) -> DataFrame:
    """Leaves that the run does not know, and where something was counted: a column geocode."""
    return leaves.where("leaf is null and size(cells) > 0").select("geocode")


def in_parts(leaves: DataFrame, invariants: DataFrame, parts: DividedCounts) -> DataFrame:
    """Divide what was published of the leaves of a run among the classes of their units.

    Args:
        leaves: Result of `same_leaves`.
        invariants: `tables.INVARIANTS` of the lowest level.
        parts: How counts are divided.

    Returns:
        Columns leaf, cells and counts of the leaves that the run knows; a cell is the place of a part.
    """
    units = invariants.where("name = 'units'").select(F.col("geocode").alias("leaf"), F.col("values").alias("units"))

    def divide(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            of_units = flat_lists(batch.column("units"), np.int64)[0].reshape(batch.num_rows, -1)
            leaf, part, records = parts.divide(*flat_histograms(batch), of_units)
            offsets = np.searchsorted(leaf, np.arange(batch.num_rows + 1))
            lists = (list_array(part, offsets, pa.int32()), list_array(records, offsets, pa.int64()))
            yield pa.RecordBatch.from_arrays([batch.column("leaf"), *lists], names=["leaf", "cells", "counts"])

    return in_tasks(
        leaves.select("leaf", "cells", "counts").join(units, "leaf"),
        divide,
        "leaf string, cells array<int>, counts array<bigint>",
    )


def published_histograms(leaves: DataFrame, spine: Spine) -> DataFrame:
    """What was published of every geounit of a spine: `tables.PUBLISHED` with a column level in front."""
    known = leaves.where("leaf is not null").select(F.col("leaf").alias("geocode"), "cells", "counts")
    return all_levels(known, spine)


def contradictions(
    published: DataFrame,
    bounds: DataFrame,
    held: HeldCounts,
    answers: Mapping[str, NDArray[np.int64]],
    possible: NDArray[np.bool_],
) -> DataFrame:
    """Geounits in which the published counts are impossible: columns level, geocode and name (of what they break).

    Args:
        published: What was published, all levels.
        bounds: The bounds of the run, all levels.
        held: How the one is an answer of the other.
        answers: Name of a bound -> its answer in which each published answer counts, -1 where in none.
        possible: Whether somebody can be in any cell that a published answer counts.
    """
    limits = bounds.where(F.col("name").isin(*answers)).select(*_KEYS, "name", "lower", "upper")
    rows = limits.join(published.select(*_KEYS, "cells", "counts"), [*_KEYS])
    alone = published.select(*_KEYS, F.lit(ZEROS).alias("name"), "cells", "counts")
    empty = F.array().cast("array<bigint>")
    rows = rows.unionByName(alone.withColumns({"lower": empty, "upper": empty}))

    def failing(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names = np.array(batch.column("name").to_pylist(), dtype=object)
            for name in sorted(set(names.tolist())):
                chosen = batch.filter(pa.array(names == name))
                bad = _impossible(chosen, held, answers.get(name), possible)
                columns = {key: chosen.column(key).filter(pa.array(bad)) for key in _FOUND.names}
                yield pa.RecordBatch.from_pydict(columns, schema=_FOUND)

    found = in_tasks(rows, failing, "level string, geocode string, name string")
    members = bounds.where(F.col("name") == GROUP_TOTAL)
    if "total" not in answers or not held.of.is_partition:
        return found
    total = F.aggregate("counts", F.lit(0).cast("bigint"), lambda one, other: one + other).alias("found")
    summed = (
        members.select(*_KEYS, "member", F.get("lower", F.lit(0)).alias("total"))
        .join(published.select(*_KEYS, total), [*_KEYS])
        .groupBy("level", "member")
        .agg(F.min("geocode").alias("geocode"), F.max("total").alias("total"), F.sum("found").alias("found"))
    )
    wrong = summed.where("total <> found").select(*_KEYS, F.lit(GROUP_TOTAL).alias("name"))
    return found.unionByName(wrong)


def _impossible(
    rows: pa.RecordBatch, held: HeldCounts, answer: NDArray[np.int64] | None, possible: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Whether each row breaks its bounds or, where it has none, is in structural zeros."""
    cells, offsets = flat_lists(rows.column("cells"), np.int32)
    counts = flat_lists(rows.column("counts"), np.int64)[0]
    row = np.repeat(np.arange(rows.num_rows), np.diff(offsets))
    published = held.of.row_of(cells)
    kept = (published >= 0) & (counts > 0)
    row, published, counts = row[kept], published[kept], counts[kept]
    if answer is None:
        bad = np.zeros(rows.num_rows, dtype=np.bool_)
        bad[row[~possible[published]]] = True
        return bad
    lower, upper = (
        flat_lists(rows.column(side), np.int64)[0].reshape(rows.num_rows, -1) for side in ("lower", "upper")
    )
    place, sums = answer[published], np.zeros(lower.shape, dtype=np.int64)
    inside = place >= 0
    np.add.at(sums, (row[inside], place[inside]), counts[inside])
    return np.asarray(((sums < lower) | (sums > upper)).any(axis=1), dtype=np.bool_)
