"""All tables that are made before noise, of all levels, written by one job whose tasks go up the spine.

Leaves are brought to the files of the lowest level in the order of their geocodes. A task writes what is made of its
geounits (`das_spark.spark.geounit_rows`) and sums them to those above, which are brought to the files of their level in
turn; where all leaves are in one file, one task goes up all the way. Spark sums nothing itself.
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
from das_spark.store.parquet import Writing, file_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from das_spark.spark.arranged import FileStarts
    from das_spark.store import FileRecord
    from das_spark.store.parquet import ParquetTables

#: Kinds of rows between tasks: what a task reports, as JSON in `member`; parts of geounits; flows.
_REPORT, _PART, _FLOW = range(3)
_ROWS: Final = pa.schema(
    [("kind", pa.int32()), ("file", pa.int32()), *PARTS, *(flow for flow in FLOWS if flow.name != "geocode")]
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
    """Depths of levels that a task goes through, stage by stage, from the lowest.

    Of many leaves each level is a stage of its own, so that no task holds the sums of a level in memory.
    """
    names = declared.spine.names
    depths = tuple(reversed(range(len(names))))
    return [(depth,) for depth in depths] if starts[names[-1]] else [depths]


#: Some geounits of a level in a task: number of their file, rows of leaves or `PARTS`, `FLOWS`.
_Piece = tuple[int, pa.Table, pa.Table]
#: What these give to the level above: `PARTS` and `FLOWS`.
_Above = tuple[pa.RecordBatch, pa.Table]


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
        for depth in self.depths:
            level = _Level(self, depth)
            held = list[_Above]()
            for made in level.made(pieces):
                if isinstance(made, pa.RecordBatch):
                    yield made
                elif depth == self.depths[-1]:
                    yield from self._given_on(made, depth - 1)
                else:
                    held.append(made)
            yield from _reports(level.broken())
            pieces = self._in_memory(held, depth - 1)
        yield from told

    def _pieces(self, batches: Iterator[pa.RecordBatch], told: list[pa.RecordBatch]) -> Iterator[_Piece]:
        """Geounits as Spark brings them, sorted; reports of other tasks are put aside."""
        is_leaf = self.depths[0] == len(self.declared.spine.levels) - 1
        keys = self._keys(self.depths[0], ("file", "geocode"))
        for batch in _whole(self._others(batches, told), keys, self._together):
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

    def _in_memory(self, held: Sequence[_Above], depth: int) -> Iterator[_Piece]:
        """Geounits of the next level, which the task has summed itself: in order, since a geocode begins with them."""
        flows = pa.concat_tables([FLOWS.empty_table(), *(each for _, each in held)]).sort_by("geocode")
        codes = np.asarray(flows.column("geocode").to_numpy(), dtype=np.str_)
        for batch in _whole((parts for parts, _ in held), self._keys(depth, ("geocode",)), self._together):
            first, last = (batch.column("geocode")[place].as_py() for place in (0, batch.num_rows - 1))
            begin, end = np.searchsorted(codes, first), np.searchsorted(codes, last, side="right")
            yield 0, pa.Table.from_batches([batch]), flows.slice(begin, end - begin)

    @property
    def _together(self) -> int:
        """Geounits whose rows are made at once: fewer where added constraints ask for many answers."""
        answers = sum(query.rows for _, query in self.declared.added)
        return max(1, min(_TOGETHER, _LARGE // (16 * max(answers, 1))))

    def _keys(self, depth: int, usual: tuple[str, ...]) -> tuple[str, ...]:
        """Columns whose rows are worked on together: of a level whose geounits have totals in groups, all rows."""
        return usual[:-1] if self.declared.total_key is not None and depth == self.declared.total_depth else usual

    def _given_on(self, above: _Above, depth: int) -> Iterator[pa.RecordBatch]:
        starts, (parts, flows) = self.starts[self.declared.spine.names[depth]], above
        yield _long(_PART, parts, starts)
        yield from (_long(_FLOW, batch, starts) for batch in flows.to_batches())


class _Level:
    """One level in a task."""

    def __init__(self, task: _Task, depth: int) -> None:
        self._task, self._depth, self._contradictions = task, depth, list[Contradiction]()

    def made(self, pieces: Iterable[_Piece]) -> Iterator[pa.RecordBatch | _Above]:
        """Write the tables that are wanted: reports, and what each piece gives to the level above."""
        task, declared, writing = self._task, self._task.declared, Writing(self._task.writer)
        folder = level_folder(declared.spine.names[self._depth])
        is_leaf = self._depth == len(declared.spine.levels) - 1
        for file, given, flows in pieces:
            geounits = Geounits.of_leaves(given, declared) if is_leaf else Geounits.of_parts(given, declared)
            rows = rows_of(declared, self._depth, geounits, flows, given if is_leaf else None)
            for name, table in rows.tables.items():
                if name in task.writer.folders:
                    for batch in table.to_batches():
                        yield from _told(writing.take(name, f"{folder}/{file_name(file)}", batch))
            self._contradictions += rows.contradictions
            if rows.above is not None and rows.flows is not None:
                yield rows.above.parts(), rows.flows
        yield from _told(writing.close())

    def broken(self) -> Iterator[dict[str, Any]]:
        """Contradictions to report: the first ones."""
        for kind in (True, False):
            several = {
                (contradiction.geocode, contradiction.constraint)
                for contradiction in self._contradictions
                if bool(contradiction.constraint) == kind
            }
            for geocode, constraint in sorted(several)[: self._task.named]:
                yield {"geocode": geocode, "constraint": constraint}


def _whole(batches: Iterable[pa.RecordBatch], keys: Sequence[str], together: int) -> Iterator[pa.RecordBatch]:
    """Cut sorted rows into batches of whole groups; all rows are one group where there are no keys."""
    if keys:
        tables: Iterable[pa.Table] = whole_groups(batches, keys, together, _LARGE)
    else:
        several = [batch for batch in batches if batch.num_rows]
        tables = [pa.Table.from_batches(several)] if several else []
    for table in tables:
        yield from table.combine_chunks().to_batches()


def _told(reports: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from _reports(row for report in reports for row in report.to_pylist())


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
    for row in _ROWS:
        values = columns.get(row.name)
        array = pa.nulls(rows, row.type) if values is None else values
        arrays.append(array.cast(row.type) if isinstance(array, pa.Array) else pa.array(array, row.type))
    return pa.RecordBatch.from_arrays(arrays, schema=_ROWS)
