"""The tables of a run as they are read back, and one pass of all that lies along the spine.

Tasks read the files of all tables by Arrow, name the family of each row, and send what they have of a part of the
families as one parcel (`das_spark.verification.parcels`). One shuffle brings parcels together, whose rows Spark never
sees.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

import numpy as np
import pyarrow as pa
from pyspark import inheritable_thread_target
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.errors import VerificationError
from das_spark.places import Place, size_of
from das_spark.spark.checks import Rule
from das_spark.spark.engine import cores, in_tasks
from das_spark.spark.lists import slices
from das_spark.store import part_files, require_committed
from das_spark.store.parquet import batches_of
from das_spark.store.tables import TABLES
from das_spark.verification import PARCELS, Judges, Tallies, family_keys, opened_parcels, parcels_of

if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from pyspark.sql import SparkSession

    from das_spark.geography import Spine
    from das_spark.verification import FamilyRows, FamilyRule, TableRows

#: Bytes of files that a task reads, and about those of the part of the families that one judges: at most, and at least
#: where there are cores without work.
_MOST_BYTES: Final = 1 << 26
_LEAST_BYTES: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class StoredTable:
    """Levels of a table of a run, as they lie in files that tasks read by Arrow."""

    spark: SparkSession
    table: str  # its name in `das_spark.store.tables`
    folders: Mapping[str, Place]  # those of the levels, which are committed, by name

    def files(self) -> Iterator[tuple[str, Place]]:
        """Return its files, each with its level."""
        for level, folder in self.folders.items():
            require_committed(folder)
            for file in part_files(folder):
                yield level, file


#: How the rows of a table are known: as a frame, or as files that tasks read.
TableForm = TypeVar("TableForm", DataFrame, StoredTable)


@dataclass(frozen=True)
class SpineTables(Generic[TableForm]):
    """The public tables of a run as read back, all levels in one; a frame has a column level."""

    levels: tuple[str, ...]  # names of the geolevels, root first
    geounits: TableForm  # geocode, parent, ...: every geounit of the spine
    estimates: TableForm  # geocode, parent, cells, counts
    invariants: TableForm | None = None  # geocode, name, values; None where nothing is declared
    bounds: TableForm | None = None  # geocode, name, member, lower, upper; None where nothing is bounded
    measurements: TableForm | None = None  # geocode, parent, query, rows, values, variance
    diagnostics: TableForm | None = None  # the columns of the table
    shares: TableForm | None = None  # geocode, parent, share; None where geounits have that of their level
    published: TableForm | None = None  # geocode, parent, cells, counts: what estimates are held to
    # level -> geocodes of parents whose families are exempt from consistency
    relaxed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


#: Those of a run as frames, which rules in SQL look at.
RunTables = SpineTables[DataFrame]


def present(frame: DataFrame | None, table: str) -> DataFrame:
    """A table that a check needs."""
    if frame is None:
        raise VerificationError(f"table {table} is not there, so it cannot be verified")
    return frame


@dataclass(frozen=True, slots=True)
class Source:
    """Rows of a table, and what they are to families."""

    rows: DataFrame | StoredTable
    keys: tuple[FamilyRows, ...]


class FileRows(ABC):
    """Something in files that a task reads at once.

    Attributes:
        size: Bytes of the files.
    """

    size: int

    @abstractmethod
    def __call__(self) -> Iterator[TableRows]:
        """Read it, in a task."""


def judged_families(
    rules: Sequence[FamilyRule],
    tables: SpineTables[Any],
    spine: Spine | None = None,
    more: Sequence[Source | FileRows] = (),
) -> list[Rule]:
    """Judge rules on the families of a run, by one job.

    Args:
        rules: The rules.
        tables: What they look at.
        spine: Levels of the tables; where it is None every geounit is by itself, whatever its geocode is made of.
        more: What they look at besides.
    """
    needed = set(chain.from_iterable(rule.needs for rule in rules))
    sources = [*_sources(needed, tables, spine), *(each for each in more if isinstance(each, Source))]
    files = [each for each in more if isinstance(each, FileRows)]
    work = _Work(Judges(tuple(rules)))
    report = in_tasks(_parcels(_session(tables), sources, files), work, from_arrow_schema(Tallies.schema))
    tallies = Tallies.of(row.asDict() for row in report.collect())
    judged = []
    for number, rule in enumerate(rules):
        checks = rule.concluded(tallies.of_rule(number))
        judged.append(
            Rule(
                None,
                rule.expected,
                {key: tuple(sorted(check.failing)) for key, check in checks.items() if check.failing},
                {key: check.checked for key, check in checks.items()},
            )
        )
    return judged


def begin_judging(
    threads: Executor,
    rules: Sequence[FamilyRule],
    tables: SpineTables[Any],
    spine: Spine,
    more: Sequence[Source | FileRows] = (),
) -> Future[list[Rule]]:
    """Judge rules on families in a thread: of small tables Spark plans about as long as it works.

    Args:
        threads: Where.
        rules: As in `judged_families`.
        tables: As there.
        spine: As there.
        more: As there.
    """
    # Spark writes into the properties of a thread, which it is given with the wrapping.
    work = inheritable_thread_target(_session(tables))(judged_families)
    return threads.submit(work, rules, tables, spine, more)


def _session(tables: SpineTables[Any]) -> Any:  # noqa: ANN401 - a session of Spark, whatever the tables are
    return tables.geounits.spark if isinstance(tables.geounits, StoredTable) else tables.geounits.sparkSession


def _sources(needed: Collection[str], tables: SpineTables[Any], spine: Spine | None) -> list[Source]:
    """What the tables of a run are to families, of that which is needed."""
    sources = []
    for name, keys in family_keys(tables.levels, spine).items():
        rows, wanted = getattr(tables, name), tuple(key for key in keys if key.table in needed)
        if rows is not None and wanted:
            sources.append(Source(rows, wanted))
    return sources


def _parcels(spark: Any, sources: Sequence[Source], files: Sequence[FileRows]) -> DataFrame:  # noqa: ANN401 - see `_session`
    """All rows as parcels, those of each part in one partition."""
    joined: dict[int, Source] = {}
    for source in sources:  # what is needed for several ends is read once
        before = joined.get(id(source.rows))
        joined[id(source.rows)] = source if before is None else Source(source.rows, (*before.keys, *source.keys))
    work: list[FileRows] = [*files]
    frames: list[tuple[DataFrame, tuple[FamilyRows, ...]]] = []
    for source in joined.values():
        if isinstance(source.rows, StoredTable):
            work += _stored(source.rows, source.keys)
        else:
            frames.append((source.rows, source.keys))
    size = sum(each.size for each in work)
    tasks = max(1, -(-size // _MOST_BYTES), min(cores(spark), -(-size // _LEAST_BYTES)))
    parts = max(tasks, int(spark.conf.get("spark.sql.shuffle.partitions")) if frames else 1)
    schema = from_arrow_schema(PARCELS)
    made = [
        in_tasks(frame.select("level", *_columns(keys)), _FrameParcels(keys, parts), schema) for frame, keys in frames
    ]
    if work:
        made.append(in_tasks(spark.range(0, tasks, 1, tasks), _FileParcels(_shared(work, tasks), parts), schema))
    every = reduce(DataFrame.unionAll, made)
    return every.repartitionById(parts, F.col("part")) if parts > 1 else every.coalesce(1)


def _columns(keys: Sequence[FamilyRows]) -> list[str]:
    return list(dict.fromkeys(chain.from_iterable(key.columns for key in keys)))


def stored_rows(table: str, level: str, file: Place, keys: Sequence[FamilyRows]) -> FileRows:
    """Return what a task reads of a Parquet file of a level of a table."""
    return _StoredFile(table, level, file.absolute(), size_of(file), tuple(keys))


def _stored(table: StoredTable, keys: Sequence[FamilyRows]) -> Iterator[FileRows]:
    for level, file in table.files():
        if wanted := [key for key in keys if key.reads(level)]:
            yield stored_rows(table.table, level, file, wanted)


def _shared(work: Sequence[FileRows], tasks: int) -> list[list[FileRows]]:
    """Divide what is to be read among tasks, by its bytes, neighbours together."""
    ends = np.cumsum([1 + each.size for each in work])
    task = (ends - 1) * tasks // ends[-1]
    shares: list[list[FileRows]] = [[] for _ in range(tasks)]
    for each, number in zip(work, task.tolist(), strict=True):
        shares[number].append(each)
    return shares


@dataclass(frozen=True, slots=True)
class _StoredFile(FileRows):
    """One file of a table."""

    table: str
    level: str
    path: Place
    size: int
    keys: tuple[FamilyRows, ...]

    def __call__(self) -> Iterator[TableRows]:
        names = _columns(self.keys)
        for batch in batches_of(self.path, names):
            # The rule on the columns of files tells of one that is not there.
            columns = [
                batch.column(name) if name in batch.schema.names else pa.nulls(batch.num_rows, self._kind(name))
                for name in names
            ]
            yield from _keyed(self.keys, self.level, pa.RecordBatch.from_arrays(columns, names))

    def _kind(self, column: str) -> pa.DataType:
        schema = TABLES[self.table].schema
        return schema.field(column).type if column in schema.names else pa.null()


def _keyed(keys: Sequence[FamilyRows], level: str, rows: pa.RecordBatch) -> Iterator[TableRows]:
    for key in keys:
        if key.reads(level):
            for at, batch in key(level, rows):
                yield key.table, at, batch


@dataclass(frozen=True, slots=True)
class _FileParcels:
    """Reads files: each row is the number of a task, which has some of them."""

    shares: Sequence[Sequence[FileRows]]
    parts: int

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = (
            rows
            for batch in numbers
            for number in batch.column(0).to_pylist()
            for each in self.shares[number]
            for rows in each()
        )
        return parcels_of(read, self.parts)


@dataclass(frozen=True, slots=True)
class _FrameParcels:
    """Divides the rows of a frame."""

    keys: tuple[FamilyRows, ...]
    parts: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        read = (
            rows
            for batch in batches
            for level, part in slices(batch, "level")
            for rows in _keyed(self.keys, level, part)
        )
        return parcels_of(read, self.parts)


@dataclass(frozen=True, slots=True)
class _Work:
    """What a task does with its part of the families."""

    judges: Judges

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield self.judges(opened_parcels(batches)).batch()
