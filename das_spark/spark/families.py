"""Bring everything that belongs to a family (a parent geounit and its children) to one place, and work on it there.

The rows of a family travel in one long form (`tables.FAMILY_ROWS`), through one shuffle: `repartitionById` puts each
family where the balance of estimated cost wants it, a sort inside the partition brings its rows together (the most
costly families first), and `mapInArrow` streams over them. Beside `cogroup(...).applyInArrow` this costs 6 microseconds
a geounit more (tests/benchmarks), of some 80 that a district takes; it brings any number of tables together, where
cogroup takes two, and leaves the placing of the slow families to us.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyspark.sql import functions as F
from pyspark.sql.types import StructType
from pyspark.sql.window import Window

from das_spark.errors import error_text_withheld, without_values
from das_spark.spark import tables
from das_spark.spark.arranged import Finish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: Kinds of family rows, in the order in which a task meets them.
PARENT, HISTOGRAM, MEASUREMENT, BOUND = range(4)

#: Files of a level that its families are spread over: enough for a small machine, and more for more children.
_LEAST_FILES = 8
_CHILDREN_A_FILE = 1 << 12

#: How a histogram travels in the long form.
CELLS = {"integers": "cells", "longs": "counts"}


@dataclass(frozen=True, slots=True)
class FamilySlice:
    """The rows of one family that share kind and name, sorted by geocode.

    `integers`, `longs` and `longs_upper` are flat; `integer_offsets` and `long_offsets` (length rows + 1) cut them.
    """

    geocodes: tuple[str, ...]
    members: tuple[str, ...]
    integers: NDArray[np.int32]
    integer_offsets: NDArray[np.int64]
    longs: NDArray[np.int64]
    long_offsets: NDArray[np.int64]
    longs_upper: NDArray[np.int64]
    variance: NDArray[np.float64]
    has_integers: bool


@dataclass(frozen=True, slots=True)
class Family:
    """One family as a task receives it: its geocode and its slices by (kind, name)."""

    geocode: str
    slices: dict[tuple[int, str], FamilySlice]

    def get(self, kind: int, name: str = "") -> FamilySlice | None:
        """The slice of a kind and name, or None.

        Args:
            kind: Number of the kind of rows.
            name: Name of the rows within the kind; empty where it has one only.
        """
        return self.slices.get((kind, name))

    def names(self, kind: int) -> list[str]:
        """Names present of a kind, sorted.

        Args:
            kind: One of PARENT, HISTOGRAM, MEASUREMENT, BOUND.
        """
        return sorted(name for each, name in self.slices if each == kind)


Number = TypeVar("Number", bound=np.generic)

FamilyFunction = Callable[[Family], list[pa.RecordBatch]]
#: What a task makes of families (number of the file, rows) to what it reports of the files that it wrote.
FileFunction = Callable[[Iterator[tuple[int, pa.RecordBatch]]], Iterator[pa.RecordBatch]]
ArrowFunction = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class Spread:
    """Over how many files and partitions the families of a level are spread.

    Attributes:
        files: Files of what is made of the families; a function of public numbers, since the files are public.
        partitions: Partitions of the job, at most as many; these may follow from the cores that there are.
    """

    files: int
    partitions: int

    @classmethod
    def of(cls, families: int, children: int, partitions: int) -> Spread:
        """The files that the families of a level need.

        Args:
            families: How many there are.
            children: How many geounits they have.
            partitions: Partitions of the job that are wanted.
        """
        files = max(1, min(families, max(_LEAST_FILES, -(-children // _CHILDREN_A_FILE))))
        return cls(files, max(1, min(files, partitions)))


@dataclass(frozen=True, slots=True)
class Writing:
    """Lets the tasks that make tables of families write them.

    Attributes:
        files: Takes the rows of a task (table, file, rows) and reports the files that it wrote.
        report: Schema of the report.
        names: Name of a file by its number.
    """

    files: Finish
    report: str
    names: Callable[[int], str]

    def of(self, tables_of: Callable[[int, pa.RecordBatch], Iterator[tuple[str, int, pa.RecordBatch]]]) -> FileFunction:
        """What `map_families` does with what was made.

        Args:
            tables_of: Number of the file and batch to the tables, the file and the rows that they are.
        """

        def finish(made: Iterator[tuple[int, pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
            rows = (row for file, batch in made for row in tables_of(file, batch))
            yield from self.files((table, self.names(file), batch) for table, file, batch in rows)

        return finish


def placed(costs: DataFrame, files: int) -> DataFrame:
    """Assign families to files: descending cost, dealt in turn.

    Args:
        costs: Columns family (string), cost (long); one row a family. Public, since files and order are.
        files: Number of files to deal to.

    Returns:
        Columns family, file (int), rank (long; 0 is the most costly family).
    """
    # One row a family goes through the single partition of this window: 240,000 at most for the nation.
    order = Window.orderBy(F.desc("cost"), F.col("family"))
    ranked = costs.withColumn("rank", (F.row_number().over(order) - 1).cast("long"))
    return ranked.select("family", (F.col("rank") % files).cast("int").alias("file"), "rank")


def family_rows(frame: DataFrame, *, family: str, kind: int, sources: Mapping[str, str] | None = None) -> DataFrame:
    """Bring a table into the long form of `tables.FAMILY_ROWS`, without its placing.

    Args:
        frame: A table with a column geocode.
        family: Column that names the family of a row.
        kind: One of PARENT, HISTOGRAM, MEASUREMENT, BOUND.
        sources: Column of the long form (name, member, integers, longs, longs_upper, variance) -> column of the table;
            what is missing is null, and empty text for name and member.
    """
    given = sources or {}
    columns = [F.col(family).alias("family"), F.lit(kind).alias("kind"), F.col("geocode")]
    for field in tables.FAMILY_ROWS.fields:
        if field.name in ("name", "member", "integers", "longs", "longs_upper", "variance"):
            default = F.lit("" if field.name in ("name", "member") else None)
            value = F.col(given[field.name]) if field.name in given else default
            columns.append(value.cast(field.dataType.simpleString()).alias(field.name))
    return frame.select(*columns)


def map_families(
    rows: DataFrame,
    places: DataFrame,
    partitions: int,
    function: FamilyFunction,
    output: StructType | str,
    finish: FileFunction | None = None,
) -> DataFrame:
    """Apply a function to every family.

    Args:
        rows: Union of `family_rows` frames; rows of families that `places` lacks are left out.
        places: Result of `placed`.
        partitions: Number of partitions, at most as many as there are files in `places`.
        function: Family in, record batches out; picklable and small.
        output: Schema of what the function yields, or, where it is given, `finish`.
        finish: Is given what the function yields in a task, each batch with the number of its file; files come one
            behind the other, the families of a file by rank.

    Returns:
        A lazy DataFrame of schema `output`.
    """
    located = rows.join(places, "family").select(*[field.name for field in tables.FAMILY_ROWS.fields])
    ordered = located.repartitionById(partitions, F.col("file") % partitions).sortWithinPartitions(
        "file", "rank", "kind", "name", "geocode", "member"
    )

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        for table in families_of(batches):
            file = table.column("file")[0].as_py()
            for batch in function(as_family(table)):
                yield file, batch

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from (batch for _, batch in made(batches)) if finish is None else finish(made(batches))

    return ordered.mapInArrow(without_values(work), output)


@dataclass(frozen=True, slots=True)
class WithoutValues:
    """A function on confidential families of which no error of a library gets out: it names the family instead.

    Args:
        function: Family in, record batches out.
    """

    function: FamilyFunction

    def __call__(self, family: Family) -> list[pa.RecordBatch]:
        """Apply the function.

        Raises:
            TaskError: It failed: with the kind and the place of the error, without its text.
        """
        with error_text_withheld(f"at the family of {family.geocode}"):
            return self.function(family)


def families_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Cut a sorted stream of record batches into one table a family, across batch borders.

    Args:
        batches: Rows of `tables.FAMILY_ROWS`, sorted by rank; empty batches are passed over.

    Returns:
        Tables of one rank each, in the order of the stream; one family is held at a time, beside a batch.
    """
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        if batch.num_rows == 0:
            continue
        ranks = batch.column("rank").to_numpy(zero_copy_only=False)
        starts = np.concatenate([[0], np.flatnonzero(np.diff(ranks)) + 1, [len(ranks)]])
        if waiting and waiting[-1].column("rank")[0].as_py() != ranks[0]:
            yield pa.Table.from_batches(waiting)
            waiting = []
        for start, stop in pairwise(starts):
            waiting.append(batch.slice(start, stop - start))
            if stop < len(ranks):
                yield pa.Table.from_batches(waiting)
                waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


def as_family(table: pa.Table) -> Family:
    """Decode the rows of one family into numpy arrays, slice by slice.

    Args:
        table: One row or more of `tables.FAMILY_ROWS`, all of one family, sorted by kind and name.
    """
    table = table.combine_chunks()
    kinds = table.column("kind").to_numpy()
    codes = _whole(table.column("name")).dictionary_encode().indices.to_numpy()
    changes = np.flatnonzero((np.diff(kinds) != 0) | (np.diff(codes) != 0)) + 1
    starts = np.concatenate([[0], changes, [len(kinds)]])
    slices = {}
    for start, stop in pairwise(starts):
        part = table.slice(start, stop - start)
        slices[int(kinds[start]), part.column("name")[0].as_py()] = _slice(part)
    return Family(geocode=table.column("family")[0].as_py(), slices=slices)


def _slice(part: pa.Table) -> FamilySlice:
    integers, integer_offsets = flat_lists(part.column("integers"), np.int32)
    longs, long_offsets = flat_lists(part.column("longs"), np.int64)
    upper, _ = flat_lists(part.column("longs_upper"), np.int64)
    return FamilySlice(
        geocodes=tuple(part.column("geocode").to_pylist()),
        members=tuple(part.column("member").to_pylist()),
        integers=integers,
        integer_offsets=integer_offsets,
        longs=longs,
        long_offsets=long_offsets,
        longs_upper=upper,
        variance=part.column("variance").to_numpy(zero_copy_only=False),
        has_integers=part.column("integers").null_count == 0,
    )


def flat_lists(column: pa.Array | pa.ChunkedArray, kind: type[Number]) -> tuple[NDArray[Number], NDArray[np.int64]]:
    """Flatten a column of lists; a null list counts as empty.

    Args:
        column: Lists, one a row.
        kind: numpy type of the values.

    Returns:
        Values (flat), and offsets (int64, length rows + 1), of which the first is 0.
    """
    array = _whole(column)
    lengths = array.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
    offsets = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    return array.flatten().to_numpy(zero_copy_only=False).astype(kind, copy=False), offsets


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    return column.chunk(0) if column.num_chunks == 1 else pa.concat_arrays(column.chunks)


def list_array(values: NDArray[np.generic], offsets: NDArray[np.int64], kind: pa.DataType) -> pa.Array:
    """The inverse of `flat_lists`: an Arrow list column.

    Args:
        values: All values, flat.
        offsets: Length rows + 1: row i has the values from offsets[i] up to, and without, offsets[i + 1].
        kind: Arrow type of the values.
    """
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values, type=kind))


def batch_of(schema: pa.Schema, columns: Mapping[str, object], count: int) -> pa.RecordBatch:
    """Rows of a schema; every batch of a stream must have the very same one, down to the names of list elements.

    Args:
        schema: Of the stream.
        columns: Arrow arrays or lists by name; what is missing is null.
        count: Rows.
    """
    arrays = []
    for field in schema:
        value = columns.get(field.name)
        if value is None:
            arrays.append(pa.nulls(count, field.type))
        else:
            arrays.append(value.cast(field.type) if isinstance(value, pa.Array) else pa.array(value, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
