"""Rows of blocks in Arrow: cut into counties, turned into tables of the core, and paths turned back into rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import pairwise
from math import gcd
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from das_spark.errors import GeographyError, without_values
from das_spark.geography import ENTITY_COLUMNS, GQ_TYPES, BlockTable, CountyPaths

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Column of the first five digits of the geocode, by which blocks are brought together.
COUNTY: Final = "county"
_COUNTY_DIGITS: Final = 5
_FOUND: Final = f"{COUNTY} string, error string, hint string, text string"

#: One row a block: its 16 digits; geocodes and exact shares ("n/d") of the geounits that contain it, root first.
PATHS: Final = StructType(
    [
        StructField("block", StringType(), nullable=False),
        StructField("path", ArrayType(StringType(), containsNull=False), nullable=False),
        StructField("shares", ArrayType(StringType(), containsNull=False), nullable=False),
    ]
)


def counties(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[str, pa.Table]]:
    """Cut a stream of rows, sorted by county, into one table a county.

    Args:
        batches: Rows with a column county, sorted by it; it has no nulls.

    Returns:
        Code of each county (5 digits) and its rows.
    """
    return together(batches, COUNTY)


def together(batches: Iterator[pa.RecordBatch], column: str) -> Iterator[tuple[str, pa.Table]]:
    """Cut a stream of rows, sorted by a column of text, into one table a value, across the borders of batches.

    Args:
        batches: The rows, sorted by that column; it has no nulls.
        column: Name of the column.
    """
    waiting: list[pa.RecordBatch] = []
    current = ""
    for batch in batches:
        if not batch.num_rows:
            continue
        codes = batch.column(column).dictionary_encode()
        index = codes.indices.to_numpy()
        cuts = [0, *(np.flatnonzero(np.diff(index)) + 1).tolist(), batch.num_rows]
        for start, stop in pairwise(cuts):
            value = codes.dictionary[int(index[start])].as_py()
            if waiting and value != current:
                yield current, pa.Table.from_batches(waiting)
                waiting = []
            current = value
            waiting.append(batch.slice(start, stop - start))
    if waiting:
        yield current, pa.Table.from_batches(waiting)


def by_county(blocks: DataFrame) -> DataFrame:
    """Rows brought together by county in one shuffle, and sorted by county and geocode.

    Args:
        blocks: Column geocode (16 digits), and any others.

    Returns:
        The same rows, with the county in front.
    """
    county = F.substring("geocode", 1, _COUNTY_DIGITS).alias(COUNTY)
    return blocks.select(county, "*").repartition(F.col(COUNTY)).sortWithinPartitions(COUNTY, "geocode")


def of_counties(held: DataFrame, task: Callable[[pa.Table], Sequence[str]]) -> list[str]:
    """What a task finds in every county, as texts on the driver; what fails comes as a row, and is said once.

    Args:
        held: Rows as `by_county` gives them.
        task: Texts of the county that the rows are; a `GeographyError` refuses the county.

    Returns:
        The texts in the order of counties, so that sums of floating-point numbers are the same every time.

    Raises:
        GeographyError: Counties were refused; the first one is named.
    """
    rows = held.mapInArrow(without_values(partial(_found, task)), _FOUND).collect()
    rows.sort(key=lambda row: str(row[COUNTY]))
    failed = [row for row in rows if row["error"] is not None]
    if failed:
        more = f" (and {len(failed) - 1:,} counties more)" if len(failed) > 1 else ""
        first = failed[0]
        raise GeographyError(f"county {first[COUNTY]}: {first['error']}{more}", hint=first["hint"])
    return [row["text"] for row in rows]


def _found(task: Callable[[pa.Table], Sequence[str]], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for county, rows in counties(batches):
        found: list[tuple[str, str | None, str | None, str | None]]
        try:
            found = [(county, None, None, text) for text in task(rows)]
        except GeographyError as error:
            found = [(county, error.message, error.hint, None)]
        columns = [pa.array(column, pa.string()) for column in zip(*found, strict=True)]
        yield pa.RecordBatch.from_arrays(columns, [COUNTY, "error", "hint", "text"])


def block_table(rows: pa.Table) -> BlockTable:
    """The blocks of a county as the core takes them.

    Args:
        rows: Columns geocode, `ENTITY_COLUMNS`, and gq (lists of 7 booleans, or null for none).

    Raises:
        GeographyError: A code is null or of another form, a block stands twice, or a list has another length.
    """
    columns = {name: text_column(rows, name) for name in ENTITY_COLUMNS}
    return BlockTable(geocode16=text_column(rows, "geocode"), gq=_flags(rows.column("gq")), **columns)


def text_column(rows: pa.Table, name: str) -> NDArray[np.str_]:
    """A column of text, shape (blocks,).

    Args:
        rows: The table.
        name: Name of the column.

    Raises:
        GeographyError: It holds nulls.
    """
    column = rows.column(name)
    if column.null_count:
        raise GeographyError(f"column {name!r} of the blocks holds {column.null_count:,} nulls")
    return np.asarray(column.to_numpy().tolist(), dtype=np.str_)


def _flags(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Flags of group quarters (blocks, 7); none where a list is null."""
    whole = column.combine_chunks()
    flags = np.zeros((len(whole), GQ_TYPES), dtype=np.bool_)
    given = whole.is_valid().to_numpy(zero_copy_only=False)
    lengths = whole.value_lengths().to_numpy(zero_copy_only=False)[given]
    values = whole.flatten()
    if (lengths != GQ_TYPES).any() or values.null_count:
        raise GeographyError(
            f"column 'gq' of the blocks must hold {GQ_TYPES} booleans, or null for a block without any"
        )
    flags[given] = values.to_numpy(zero_copy_only=False).reshape(-1, GQ_TYPES)
    return flags


def path_rows(paths: CountyPaths) -> pa.RecordBatch:
    """The paths of a county as rows of `PATHS`.

    Args:
        paths: The county as it stands in the joined spine.

    Returns:
        One row a block; shares are in lowest terms.
    """
    codes = _lists([level.codes for level in paths.levels], paths.positions)
    shares: list[NDArray[Any]] = []
    places: list[NDArray[np.int64]] = []
    for level, position in zip(paths.levels, paths.positions, strict=True):
        # Few shares differ: each is made into text once.
        values, place = np.unique(level.numerators, return_inverse=True)
        shares.append(np.array([_fraction(int(value), paths.denominator) for value in values]))
        places.append(place[position])
    return pa.RecordBatch.from_arrays(
        [pa.array(paths.blocks.tolist(), pa.string()), codes, _lists(shares, places)],
        schema=pa.schema(
            [
                pa.field("block", pa.string(), nullable=False),
                pa.field("path", codes.type, nullable=False),
                pa.field("shares", codes.type, nullable=False),
            ]
        ),
    )


def _lists(texts: Sequence[NDArray[Any]], positions: Sequence[NDArray[np.int64]]) -> pa.Array:
    """For each block the list, over the levels, of the text at its position of the level."""
    starts = np.concatenate([[0], np.cumsum([level.size for level in texts])[:-1]])
    known = pa.array([text for level in texts for text in level.tolist()], pa.string())
    index = np.stack([position + start for position, start in zip(positions, starts, strict=True)], axis=1)
    count, depth = index.shape
    offsets = pa.array(np.arange(count + 1, dtype=np.int32) * depth)
    items = pa.field("element", pa.string(), nullable=False)
    return pa.ListArray.from_arrays(offsets, known.take(pa.array(index.ravel())), type=pa.list_(items))


def _fraction(numerator: int, denominator: int) -> str:
    common = gcd(numerator, denominator)
    return f"{numerator // common}/{denominator // common}"
