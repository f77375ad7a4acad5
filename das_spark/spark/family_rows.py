"""What belongs to the families of a level, brought together in one long form, family by family.

Of a large level Spark does it: one shuffle, in which `repartitionById` assigns each family to the partition where the
balance of estimated cost wants it, and a sort inside the partition, the most costly families first. A level of few
entries is one task, which reads the tables itself: planning joins and shuffles of some hundred rows takes Spark ten
times as long as the work on them. Both bring the same rows in the same order to the same files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.window import Window

from das_spark.spark.engine import in_sorted_tasks, in_tasks
from das_spark.spark.tables import union
from das_spark.store import require_committed
from das_spark.store.parquet import read_rows
from das_spark.store.tables import TABLES

if TYPE_CHECKING:
    from pyspark.sql import Column

#: The long form. Rows of a family are sorted by kind, name, geocode and member.
_COLUMNS: Final = pa.schema(
    [
        ("file", pa.int32()),
        ("rank", pa.int64()),
        ("family", pa.string()),
        ("kind", pa.int32()),
        ("geocode", pa.string()),
        ("name", pa.string()),
        ("member", pa.string()),
        ("integers", pa.list_(pa.int32())),
        ("longs", pa.list_(pa.int64())),
        ("longs_upper", pa.list_(pa.int64())),
        ("doubles", pa.list_(pa.float64())),
        ("variance", pa.float64()),
    ]
)
#: Those that a table gives; what it does not have is empty text in the first two, and null in the others.
_GIVEN: Final = ("name", "member", "integers", "longs", "longs_upper", "doubles", "variance")
_TEXTS: Final = ("name", "member")
_ORDER: Final = ("file", "rank", "kind", "name", "geocode", "member")
#: Rows of a batch of a level that a task reads itself.
_ROWS_OF_A_BATCH: Final = 2_000

#: Files of a level that its families are spread over: enough for a small machine, and more for more children.
_LEAST_FILES = 8
_CHILDREN_A_FILE = 1 << 12

#: The function of a task: batches of the long form in, rows of a report out.
Work = Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, slots=True)
class FamilySpread:
    """Over how many files and partitions the families of a level are spread."""

    files: int  # files of what is made of the families; a function of public numbers, since the files are public
    partitions: int  # partitions of the job, at most as many; these may follow from the cores that there are

    @classmethod
    def of(cls, families: int, children: int, partitions: int) -> FamilySpread:
        """The files that the families of a level need."""
        files = max(1, min(families, max(_LEAST_FILES, -(-children // _CHILDREN_A_FILE))))
        return cls(files, max(1, min(files, partitions)))


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of a small level, which whoever needs them reads: a task, or the driver."""

    #: Reads all columns; of a table as it lies in its files those that are named alone, if any are.
    read: Callable[..., pa.Table]

    @classmethod
    def of(cls, table: str, folder: Path) -> StoredRows:
        """Those of one finished level of a table of a run."""
        require_committed(folder)
        return cls(partial(_read, table, folder.absolute()))


#: Rows of a level of a table: for Spark to plan with, or to be read by one task.
Rows = DataFrame | StoredRows


def _read(table: str, folder: Path, *columns: str) -> pa.Table:
    schema = TABLES[table].schema
    return read_rows(folder, pa.schema([schema.field(name) for name in columns or schema.names]))


def joined(rows: Rows, others: Rows, column: str, key: str = "geocode") -> Rows:
    """Rows with a column of others that have the same key, once each; rows without one are left out."""
    if isinstance(rows, DataFrame):
        assert isinstance(others, DataFrame)  # noqa: S101 - a level is read in one way
        return rows.join(others.select(key, column), key)
    assert isinstance(others, StoredRows)  # noqa: S101 - the same
    return StoredRows(partial(_joined, rows.read, others.read, column, key))


def _joined(read: Callable[..., pa.Table], read_others: Callable[..., pa.Table], column: str, key: str) -> pa.Table:
    rows, others = read(), read_others()
    place = pc.index_in(rows.column(key), value_set=others.column(key).combine_chunks())
    return rows.append_column(column, others.column(column).take(place)).filter(place.is_valid())


def without(rows: Rows, column: str) -> Rows:
    """Rows without a column."""
    if isinstance(rows, DataFrame):
        return rows.drop(column)
    return StoredRows(partial(_without, rows.read, column))


def _without(read: Callable[..., pa.Table], column: str) -> pa.Table:
    return read().drop_columns([column])


def with_key(rows: Rows, first: int, digits: int) -> Rows:
    """Rows with some digits of their geocode in a column key; the first digit is 1."""
    if isinstance(rows, DataFrame):
        return rows.withColumn("key", F.substring("geocode", first, digits))
    return StoredRows(partial(_with_key, rows.read, first - 1, first - 1 + digits))


def _with_key(read: Callable[..., pa.Table], begin: int, end: int) -> pa.Table:
    rows = read()
    return rows.append_column("key", pc.utf8_slice_codeunits(rows.column("geocode"), begin, end))


@dataclass(frozen=True, slots=True)
class FamilyTable:
    """A table whose rows belong to families."""

    rows: Rows
    kind: int
    columns: Mapping[str, str] = field(default_factory=dict)  # columns of the long form -> those of the table
    of_parent: bool = False  # whether its rows are about the parents of the families, by whose geocodes these are known

    def long(self, family: str) -> DataFrame:
        """The long form for Spark, without file and rank."""
        assert isinstance(self.rows, DataFrame)  # noqa: S101 - whoever asks has looked
        columns = [F.col("geocode" if self.of_parent else family).alias("family"), F.lit(self.kind).alias("kind")]
        columns.append(F.col("geocode"))
        for name in _GIVEN:
            given = self.columns.get(name)
            missing = F.lit("" if name in _TEXTS else None)
            value: Column = missing if given is None else F.col(given)
            columns.append(value.cast(from_arrow_type(_COLUMNS.field(name).type)).alias(name))
        return self.rows.select(*columns)

    def stored(self, family: str) -> pa.Table:
        """The long form in Arrow, without file and rank."""
        assert isinstance(self.rows, StoredRows)  # noqa: S101 - whoever asks has looked
        rows = self.rows.read()
        columns = {
            "family": rows.column("geocode" if self.of_parent else family),
            "kind": pa.repeat(pa.scalar(self.kind, pa.int32()), rows.num_rows),
            "geocode": rows.column("geocode"),
        }
        for name in _GIVEN:
            given, kind = self.columns.get(name), _COLUMNS.field(name).type
            if given is not None:
                columns[name] = rows.column(given).cast(kind)
            else:
                columns[name] = pa.repeat(pa.scalar("" if name in _TEXTS else None, kind), rows.num_rows)
        return pa.table(columns)


def brought_together(
    tables: Sequence[FamilyTable],
    parents: FamilyTable | None,
    spread: FamilySpread,
    work: Work,
    report: str,
    *,
    family: str,
) -> DataFrame:
    """Let tasks work on the rows of each family, one after the other: by descending cost, in turn over the files.

    Args:
        tables: What belongs to the families; the first has one row a child.
        parents: Estimates of the parents, whose cells (integers) make a family costly; families without are left out.
        spread: Over how many files and partitions.
        work: Is given the long form, sorted by file, rank, kind, name, geocode and member.
        report: Schema of what it gives.
        family: The column that names the family: "parent", or at the top "geocode" or "key".
    """
    if isinstance(tables[0].rows, StoredRows):
        one_row = SparkSession.active().range(0, 1, 1, 1)
        task = _OneTask(tuple(tables), parents, spread.files, work, family)
        return in_tasks(one_row, task, report)
    given, above = [each.long(family) for each in tables], None if parents is None else parents.long(family)
    partitions = spread.partitions
    rows = (
        union([*given, *([] if above is None else [above])])
        .join(_assigned(given[0], above, spread.files, counted=family == "parent"), "family")
        .select(*_COLUMNS.names)
    )
    spread_over = rows.repartitionById(partitions, F.col("file") % partitions)
    return in_sorted_tasks(spread_over, _ORDER, work, report)


def _assigned(children: DataFrame, parents: DataFrame | None, files: int, *, counted: bool) -> DataFrame:
    """File and rank of every family, of the long form; its children are counted where its cost depends on them."""
    one = F.lit(1)
    if counted:
        costs = children.groupBy("family").agg(F.count(one).alias("cost"))
    else:
        costs = children.select("family").distinct().select("family", one.cast("long").alias("cost"))
    if parents is not None:
        support = parents.select("family", F.size("integers").alias("support"))
        # Cells in the parent's support times children.
        costs = costs.join(support, "family").select("family", (F.col("cost") * F.col("support")).alias("cost"))
    # One row a family goes through the single partition of this window: 240,000 at most for the nation.
    ranked = costs.withColumn("rank", F.row_number().over(Window.orderBy(F.desc("cost"), "family")).cast("long") - 1)
    return ranked.select("family", (F.col("rank") % files).cast("int").alias("file"), "rank")


@dataclass(frozen=True, slots=True)
class _OneTask:
    """Reads the tables of a level, each once, brings the rows of each family together, and works on them."""

    tables: tuple[FamilyTable, ...]
    parents: FamilyTable | None
    files: int
    work: Work
    family: str

    def __call__(self, one_row: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in one_row:  # to its end: Spark waits for a task to take what it was given
            pass
        yield from self.work(iter(self.rows().to_batches(_ROWS_OF_A_BATCH)))

    def rows(self) -> pa.Table:
        """The long form, in order."""
        given = [each.stored(self.family) for each in self.tables]
        above = None if self.parents is None else self.parents.stored(self.family)
        families = _by_cost(given[0], above, counted=self.family == "parent")
        rows = pa.concat_tables([*given, *([] if above is None else [above])])
        rank = pc.index_in(rows.column("family"), value_set=families)
        rows = rows.append_column("rank", rank.cast(pa.int64())).filter(rank.is_valid())
        file = np.asarray(rows.column("rank"), dtype=np.int64) % self.files
        rows = rows.append_column("file", pa.array(file, pa.int32())).select(_COLUMNS.names)
        return rows.take(pc.sort_indices(rows, [(name, "ascending") for name in _ORDER])).combine_chunks()


def _by_cost(children: pa.Table, parents: pa.Table | None, *, counted: bool) -> pa.Array:
    """Names of the families by descending cost, as `_assigned` has it."""
    found = pc.value_counts(children.column("family"))
    families, cost = found.field("values"), np.asarray(found.field("counts"))
    if not counted:
        cost = np.ones_like(cost)
    if parents is not None:
        place = pc.index_in(families, value_set=parents.column("family").combine_chunks())
        support = pc.list_value_length(parents.column("integers")).take(place.drop_null())
        families, cost = families.filter(place.is_valid()), cost[np.asarray(place.is_valid())] * np.asarray(support)
    order = pa.table({"cost": cost, "family": families})
    return families.take(pc.sort_indices(order, [("cost", "descending"), ("family", "ascending")]))
