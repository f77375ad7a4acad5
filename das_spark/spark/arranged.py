"""Put the rows of a table into files and into an order that public facts decide, whatever order they came in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from itertools import pairwise
from operator import add
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from das_spark.errors import without_values

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from das_spark.geography import Spine

FILE: Final = "file"
#: Geounits of a level whose rows stand in one file of a table, about.
GEOUNITS_A_FILE: Final = 1 << 18

#: Takes the rows of a task (table, file, rows) and reports the files that it wrote; `das_spark.io` has it.
Finish = Callable[[Iterable[tuple[str, str, pa.RecordBatch]]], Iterator[pa.RecordBatch]]
#: Geolevel -> first geocodes of its files but for the first file, ascending.
FileStarts = Mapping[str, tuple[str, ...]]


def file_starts(leaves: DataFrame, spine: Spine, geounits_a_file: int = GEOUNITS_A_FILE) -> FileStarts:
    """Cut every level into files of about equal size, by geocode: a function of which geounits exist alone."""
    if leaves.limit(geounits_a_file + 1).count() <= geounits_a_file:
        return {level.name: () for level in spine.levels}
    above = spine.levels[-2].length if len(spine.levels) > 1 else 0
    parents = leaves.groupBy(F.substring("geocode", 1, above).alias("parent")).agg(F.count(F.lit(1)).alias("children"))
    found = parents.toArrow().sort_by("parent")
    codes, children = found.column("parent").to_pylist(), found.column("children").to_numpy()
    starts = {spine.leaf.name: _starts(codes, children, geounits_a_file)}
    for level in spine.levels[:-1]:
        units = list(dict.fromkeys(code[: level.length] for code in codes))
        starts[level.name] = _starts(units, np.ones(len(units), dtype=np.int64), geounits_a_file)
    return starts


def _starts(codes: Sequence[str], sizes: np.ndarray, limit: int) -> tuple[str, ...]:
    number = (np.cumsum(sizes) - sizes) // limit
    return tuple(codes[place] for place in (np.flatnonzero(np.diff(number)) + 1).tolist())


def file_number(starts: Sequence[str], geocode: Column) -> Column:
    """In which file of its level a geounit stands, from 0."""
    return reduce(add, [(geocode >= start).cast("int") for start in starts], F.lit(0))


def level_files(starts: FileStarts, level: Column, geocode: Column) -> Column:
    """The file of a row of a table of several levels: `level=<geolevel>/part-<number>`."""
    number = F.lit(0)
    for name, codes in starts.items():
        if codes:
            number = F.when(level == name, file_number(codes, geocode)).otherwise(number)
    return F.format_string("level=%s/part-%05d", level, number)


def write_arranged(
    rows: DataFrame, table: str, *, file: Column, files: int, order: Sequence[str], finish: Finish, report: str
) -> DataFrame:
    """Bring the rows of each file together, sort them, and write them.

    No two rows of a file may share the columns of `order`: what decides their order must decide it wholly.
    """

    def work(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from finish((table, name, part) for batch in batches for name, part in _by_file(batch))

    arranged = rows.withColumn(FILE, file).repartition(files, FILE).sortWithinPartitions(FILE, *order)
    return arranged.mapInArrow(without_values(work), report)


def _by_file(batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Cut a batch where the file changes."""
    if not batch.num_rows:
        return
    names = batch.column(FILE).dictionary_encode()
    codes = names.indices.to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(codes)) + 1).tolist(), batch.num_rows]
    for begin, end in pairwise(edges):
        yield names.dictionary[int(codes[begin])].as_py(), batch.slice(begin, end - begin)
