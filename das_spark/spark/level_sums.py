"""All tables that are made before noise, of all levels, written by one job whose tasks go up the spine.

Leaves are brought to the files of the lowest level in the order of their geocodes. A task writes what is made of its
geounits (`das_spark.spark.geounit_rows`) and sums them to those above, which are brought to the files of their level in
turn; where a level and all levels above it are one file each, one task goes up all the way. Spark sums nothing itself.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.spark.arranged import file_number, file_starts
from das_spark.spark.engine import in_sorted_tasks
from das_spark.spark.geounit_rows import FLOWS, PARTS, Contradiction, Declared, Geounits, rows_of
from das_spark.spark.lists import slices, whole_groups
from das_spark.store import level_folder
from das_spark.store.parquet import file_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.spark.arranged import FileStarts
    from das_spark.store import FileRecord
    from das_spark.store.parquet import ParquetTables

#: Kinds of rows between tasks: what a task reports, as JSON in `member`; parts of geounits; flows.
_REPORT, _PART, _FLOW = range(3)
_ROWS: Final = pa.schema(
    [("kind", pa.int32()), ("file", pa.int32()), *PARTS, *(each for each in FLOWS if each.name != "geocode")]
)
_ORDER: Final = ("file", "geocode", "kind", "member")
#: Geounits that a task works on together, and their bytes.
_TOGETHER: Final = 1 << 15
_LARGE: Final = 1 << 26


@dataclass(frozen=True, slots=True)
class WrittenLevels:
    """What the job has written, and what cannot be."""

    files: dict[str, tuple[FileRecord, ...]]  # of each table
    contradictions: tuple[Contradiction, ...]  # some of them


def write_levels_of(
    leaves: DataFrame, declared: Declared, writer: ParquetTables, number: int, named: int
) -> WrittenLevels:
    """Write tables of all levels; nothing of them is public yet.

    Args:
        leaves: Rows of `tables.LEAVES`, under their geocodes on the spine.
        declared: What the run declares.
        writer: Has a folder for each table that is wanted.
        number: How many leaves there are.
        named: How many contradictions of a level a task reports.
    """
    spine = declared.spine
    starts = file_starts(leaves.select("geocode"), spine, number)
    rows = leaves.withColumn("file", file_number(starts[spine.leaf.name], F.col("geocode")))
    order: Sequence[str] = ("file", "geocode")
    for depths in _stages(declared, starts):
        files = len(starts[spine.names[depths[0]]]) + 1
        if files > 1:
            rows = rows.repartitionById(files, F.col("file"))
        else:
            rows = rows.coalesce(1) if order is not _ORDER else rows.repartition(1)
        task = _Task(declared, depths, starts, writer, named)
        rows, order = in_sorted_tasks(rows, order, task, from_arrow_schema(_ROWS)), _ORDER
    told = [json.loads(text) for text in rows.select("member").toArrow().column("member").to_pylist()]
    files_of = writer.place(each for each in told if "table" in each)
    broken = [Contradiction(each["geocode"], each["constraint"]) for each in told if "constraint" in each]
    return WrittenLevels(files_of, tuple(broken))


def _stages(declared: Declared, starts: FileStarts) -> list[tuple[int, ...]]:
    """Depths of levels that a task goes through, stage by stage, from the lowest."""
    names, found = declared.spine.names, list[list[int]]()
    for depth in reversed(range(len(names))):
        is_one_file = not starts[names[depth]]
        if found and is_one_file and not starts[names[found[-1][-1]]]:
            found[-1].append(depth)
        else:
            found.append([depth])
    return [tuple(each) for each in found]


#: Some geounits of a level in a task: number of their file, rows of leaves or `PARTS`, `FLOWS`.
_Piece = tuple[int, pa.Table, pa.Table]


@dataclass(frozen=True, slots=True)
class _Task:
    """Writes some levels, one file of each at a time, and gives on what goes to the level above."""

    declared: Declared
    depths: tuple[int, ...]
    starts: FileStarts
    writer: ParquetTables
    named: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        told = list[pa.RecordBatch]()
        pieces = self._pieces(batches, told)
        for place, depth in enumerate(self.depths):
            level = _Level(self, depth)
            yield from _reports(report for batch in self.writer(level.rows(pieces)) for report in batch.to_pylist())
            yield from _reports(level.broken())
            if place + 1 < len(self.depths):
                pieces = self._in_memory(level, depth - 1)
            elif depth:
                yield from self._given_on(level, depth - 1)
        yield from told

    def _pieces(self, batches: Iterator[pa.RecordBatch], told: list[pa.RecordBatch]) -> Iterator[_Piece]:
        """Geounits as Spark brings them, sorted; reports of other tasks are put aside."""
        is_leaf = self.depths[0] == len(self.declared.spine.levels) - 1
        for batch in _whole(self._others(batches, told), self._keys(self.depths[0], ("file", "geocode"))):
            for file, part in slices(batch, "file"):
                rows = pa.Table.from_batches([part])
                if is_leaf:
                    yield file, rows, FLOWS.empty_table()
                else:
                    parts, flows = (rows.filter(pc.equal(rows.column("kind"), kind)) for kind in (_PART, _FLOW))
                    yield file, parts.select(PARTS.names), flows.select(FLOWS.names)

    @staticmethod
    def _others(batches: Iterator[pa.RecordBatch], told: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if "kind" not in batch.schema.names:
                yield batch
                continue
            is_report = pc.equal(batch.column("kind"), _REPORT)
            told.append(batch.filter(is_report))
            yield batch.filter(pc.invert(is_report))

    def _in_memory(self, below: _Level, depth: int) -> Iterator[_Piece]:
        """Geounits of the next level, which the task has summed itself: in order, since a geocode begins with them."""
        flows = pa.concat_tables([FLOWS.empty_table(), *below.flows]).sort_by("geocode")
        codes = np.asarray(flows.column("geocode").to_numpy(), dtype=np.str_)
        for batch in _whole(below.parts, self._keys(depth, ("geocode",))):
            first, last = (batch.column("geocode")[place].as_py() for place in (0, batch.num_rows - 1))
            begin, end = np.searchsorted(codes, first), np.searchsorted(codes, last, side="right")
            yield 0, pa.Table.from_batches([batch]), flows.slice(begin, end - begin)

    def _keys(self, depth: int, usual: tuple[str, ...]) -> tuple[str, ...]:
        """Columns whose rows are worked on together: of a level whose geounits have totals in groups, all rows."""
        return usual[:-1] if self.declared.total_key is not None and depth == self.declared.total_depth else usual

    def _given_on(self, level: _Level, depth: int) -> Iterator[pa.RecordBatch]:
        starts = self.starts[self.declared.spine.names[depth]]
        for kind, batches in (
            (_PART, level.parts),
            (_FLOW, (each for flow in level.flows for each in flow.to_batches())),
        ):
            for batch in batches:
                yield _long(kind, batch, starts)


class _Level:
    """One level in a task: its rows, and what it has made for the level above."""

    def __init__(self, task: _Task, depth: int) -> None:
        self._task, self._depth = task, depth
        self._contradictions = list[Contradiction]()
        self.parts, self.flows = list[pa.RecordBatch](), list[pa.Table]()

    def rows(self, pieces: Iterable[_Piece]) -> Iterator[tuple[str, str, pa.RecordBatch]]:
        """Rows of the tables that are wanted: table, file, rows."""
        task, declared = self._task, self._task.declared
        folder = level_folder(declared.spine.names[self._depth])
        is_leaf = self._depth == len(declared.spine.levels) - 1
        for file, given, flows in pieces:
            geounits = Geounits.of_leaves(given, declared) if is_leaf else Geounits.of_parts(given, declared)
            made = rows_of(declared, self._depth, geounits, flows, given if is_leaf else None)
            for name, table in made.tables.items():
                if name in task.writer.folders:
                    yield from ((name, f"{folder}/{file_name(file)}", batch) for batch in table.to_batches())
            self._contradictions += made.contradictions
            if made.above is not None and made.flows is not None:
                self.parts.append(made.above.parts())
                self.flows.append(made.flows)

    def broken(self) -> Iterator[dict[str, Any]]:
        """Contradictions to report: the first ones."""
        for kind in (True, False):
            several = {
                (each.geocode, each.constraint) for each in self._contradictions if bool(each.constraint) == kind
            }
            for geocode, constraint in sorted(several)[: self._task.named]:
                yield {"geocode": geocode, "constraint": constraint}


def _whole(batches: Iterable[pa.RecordBatch], keys: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Cut sorted rows into batches of whole groups; all rows are one group where there are no keys."""
    if keys:
        tables: Iterable[pa.Table] = whole_groups(batches, keys, _TOGETHER, _LARGE)
    else:
        several = [batch for batch in batches if batch.num_rows]
        tables = [pa.Table.from_batches(several)] if several else []
    for table in tables:
        yield from table.combine_chunks().to_batches()


def _reports(rows: Iterable[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    for row in rows:
        yield _filled({"kind": [_REPORT], "file": [0], "geocode": [""], "member": [json.dumps(row)]}, 1)


def _long(kind: int, batch: pa.RecordBatch, starts: Sequence[str]) -> pa.RecordBatch:
    """Rows as they go to the tasks of the level above."""
    codes, count = batch.column("geocode"), batch.num_rows
    file = reduce(np.add, (np.asarray(pc.greater_equal(codes, start)) for start in starts), np.zeros(count, np.int32))
    given = {name: batch.column(name) for name in batch.schema.names}
    return _filled({"kind": pa.repeat(kind, count), "file": pa.array(file), **given}, count)


def _filled(columns: dict[str, Any], rows: int) -> pa.RecordBatch:
    """Rows of `_ROWS`, null in columns that are not given."""
    arrays = []
    for each in _ROWS:
        values = columns.get(each.name)
        array = pa.nulls(rows, each.type) if values is None else values
        arrays.append(array.cast(each.type) if isinstance(array, pa.Array) else pa.array(array, each.type))
    return pa.RecordBatch.from_arrays(arrays, schema=_ROWS)
