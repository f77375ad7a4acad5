"""A stored spine beside the census spine of its blocks, county by county in parallel.

Blocks of the geography and paths of the spine are brought together by county in one shuffle. A county sends what its
entities need (`CountyComparison`), never a row a block; the driver joins those over the levels above the county.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import functions as F

from das_spark.errors import GeographyError
from das_spark.evaluation import SharePath, share_path
from das_spark.geography import (
    ENTITY_COLUMNS,
    CountyComparison,
    LevelShares,
    SpineComparison,
    SpinePaths,
    check_categories,
    compare_county,
    join_comparisons,
)
from das_spark.spark.lists import text_column
from das_spark.spark.spine import block_table, by_county, of_counties

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FOREIGN: Final = "the spine must be one of this geography: build it again, or name the files that it was made from"


@dataclass(frozen=True, slots=True)
class ComparisonTask:
    """What a worker needs to compare a county."""

    shares: LevelShares  # shares of the levels of the spine before anything was bypassed
    census: LevelShares  # shares of the levels of the census spine, as `census_shares` gives them
    framework: str  # "zcdp" or "pure_dp"
    budget: float  # rho or epsilon, all of it for the total
    categories: tuple[str, ...]  # names in `ENTITY_CATEGORIES`

    def __call__(self, rows: pa.Table) -> list[str]:
        """Compare the county that the rows are, blocks of the geography and of the spine; as JSON."""
        in_spine = rows.column("path").is_valid()
        blocks, paths = rows.filter(pc.invert(in_spine)), rows.filter(in_spine)
        _check_same(text_column(blocks, "geocode"), text_column(paths, "geocode"))
        found = compare_county(
            block_table(blocks), _paths(paths), self.shares, self.census, self.framework, self.budget, self.categories
        )
        return [found.to_json()]


def compare_spines(blocks: DataFrame, paths: DataFrame, task: ComparisonTask) -> SpineComparison:
    """Compare a spine with the census spine of its blocks."""
    check_categories(task.categories)
    # Distances are about entities alone: which blocks have group quarters makes no difference.
    nobody = F.lit(None).cast("array<boolean>").alias("gq")
    nothing = (F.lit(None).cast("array<string>").alias(name) for name in ("path", "shares"))
    left = blocks.select("geocode", *ENTITY_COLUMNS, nobody, *nothing)
    absent = (F.lit(None).cast("string").alias(name) for name in ENTITY_COLUMNS)
    right = paths.select(F.col("block").alias("geocode"), *absent, nobody, "path", "shares")
    found = of_counties(by_county(left.unionAll(right)), task)
    counties = [CountyComparison.from_json(text) for text in found]
    return join_comparisons(counties, task.categories, task.framework, task.budget)


def share_paths(paths: DataFrame, depth: int) -> tuple[SharePath, ...]:
    """Every distinct path of shares, with its number of blocks; most blocks first."""
    grouped = paths.groupBy("shares", F.size("path").alias("depth")).count().collect()
    for row in grouped:
        if not row["depth"] == len(row["shares"]) == depth:
            raise GeographyError(f"{row['count']:,} blocks of the spine have not {depth} levels")
    found = [share_path(row["shares"], row["count"]) for row in grouped]
    return tuple(sorted(found, key=lambda path: (-path.blocks, path.shares)))


def _check_same(geography: NDArray[np.str_], spine: NDArray[np.str_]) -> None:
    for these, those, where, other in (
        (geography, spine, "geography", "spine"),
        (spine, geography, "spine", "geography"),
    ):
        strange = np.setdiff1d(these, those)
        if strange.size:
            raise GeographyError(
                f"{strange.size:,} blocks of the {where} are none of the {other}, {str(strange[0])!r} among them",
                hint=_FOREIGN,
            )
    if geography.size != spine.size:
        raise GeographyError(f"{abs(spine.size - geography.size):,} blocks occur twice", hint=_FOREIGN)


def _paths(rows: pa.Table) -> SpinePaths:
    """Codes and shares by level; few shares differ, so each text is read once."""
    codes, shares = [], []
    for level in _levels(rows, "path"):
        codes.append(np.array(level.dictionary.to_pylist())[level.indices.to_numpy()])
    for level in _levels(rows, "shares"):
        values = np.array([float(Fraction(text)) for text in level.dictionary.to_pylist()])
        shares.append(values[level.indices.to_numpy()])
    return SpinePaths(tuple(codes), tuple(shares))


def _levels(rows: pa.Table, name: str) -> list[pa.DictionaryArray]:
    lists = rows.column(name).combine_chunks()
    texts = lists.flatten()
    depth = len(texts) // len(lists)
    index = np.arange(len(texts)).reshape(-1, depth)
    return [texts.take(pa.array(column)).dictionary_encode() for column in index.T]
