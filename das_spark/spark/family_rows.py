"""What belongs to the families of a level, brought together in one long form, family by family.

Tasks read the tables of the level from their files by Arrow, and name the family of each row by its geocode. Files and
order of the families follow from the geounits alone, which the driver knows: most children first, in turn over the
files. So one shuffle is enough, in which `repartitionById` brings each family to the partition of its file, and a sort
inside the partition; a level of few entries is one partition, and needs no shuffle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema

from das_spark.errors import OutputError
from das_spark.geography import ROOT_GEOCODE
from das_spark.places import Place
from das_spark.spark.engine import in_sorted_tasks, in_tasks
from das_spark.store import part_files, require_committed
from das_spark.store.parquet import batches_of

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyspark.sql import DataFrame, SparkSession

    from das_spark.geography import Spine
    from das_spark.spark.engine import Work

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

#: Files of a level that its families are spread over: enough for a small machine, and more for more children.
_LEAST_FILES = 8
_CHILDREN_A_FILE = 1 << 12
#: What to do about a table that has lost rows since it was committed, or has others than it should.
RESTORE: Final = "restore the folder, and run the same command again; nothing was made of it"


@dataclass(frozen=True, slots=True)
class StoredLevel:
    """One level of a table of a run, as it lies in files that every worker can read."""

    files: tuple[Place, ...]  # absolute

    @classmethod
    def of(cls, folder: Place) -> StoredLevel:
        """A level that is committed."""
        require_committed(folder)
        return cls(tuple(part_files(folder.absolute())))

    def read(self, *columns: str) -> pa.Table:
        """Some columns of all rows, for the driver: of public tables, and of geocodes alone."""
        batches = [batch for file in self.files for batch in batches_of(file, columns)]
        return pa.Table.from_batches(batches) if batches else pa.table({name: [] for name in columns})


@dataclass(frozen=True, slots=True)
class FamilySpan:
    """Which characters of a geocode name the family of a geounit: none of them names that of the root."""

    begin: int  # the first, from 0
    end: int | None  # the one behind the last; None where the geocode itself is the name
    at_top: bool  # whether there is no parent, by whose geocode the family is known

    @classmethod
    def of(cls, spine: Spine, geolevel: str, *, grouped: bool = True) -> FamilySpan:
        """That of the geounits of a level.

        At the top each is a family of its own, or, where `grouped`, those are one that have a total together alone.
        """
        above = spine.parent_level(geolevel)
        if above is not None:
            return cls(0, above.length, at_top=False)
        key = spine.total_key_at(geolevel) if grouped else None
        return cls(0, None, at_top=True) if key is None else cls(key[0] - 1, key[0] - 1 + key[1], at_top=True)

    def families(self, geocodes: pa.Array) -> pa.Array:
        """The name of the family of each geounit."""
        if self.end is None:
            return geocodes
        if self.end == 0:
            return pa.repeat(pa.scalar(ROOT_GEOCODE, pa.string()), len(geocodes))
        return pc.utf8_slice_codeunits(geocodes, self.begin, self.end)


@dataclass(frozen=True, slots=True, eq=False)
class Families:
    """The families of a level, in the order in which they are worked on: most children first, then by name."""

    span: FamilySpan
    names: pa.StringArray
    children: NDArray[np.int64]  # how many each has
    #: Geounits above that have no children, as measurements of others can have them: no families.
    childless: frozenset[str] = frozenset()

    @classmethod
    def of(cls, span: FamilySpan, names: pa.Array, children: NDArray[np.int64]) -> Families:
        """Families in any order; those without children are none."""
        every = pa.table({"name": names, "children": children})
        named = every.filter(pa.array(children > 0))
        childless = every.column("name").filter(pa.array(children <= 0)).to_pylist()
        ordered = named.sort_by([("children", "descending"), ("name", "ascending")]).combine_chunks()
        array = pa.concat_arrays(ordered.column("name").chunks or [pa.array([], pa.string())]).cast(pa.string())
        return cls(span, array, ordered.column("children").to_numpy().astype(np.int64), frozenset(childless))

    @classmethod
    def of_parents(cls, geounits: StoredLevel, span: FamilySpan) -> Families:
        """Those of the geounits of the level above, which know how many children they have."""
        rows = geounits.read("geocode", "children")
        return cls.of(span, rows.column("geocode"), rows.column("children").to_numpy())

    @classmethod
    def of_children(cls, geounits: StoredLevel, span: FamilySpan) -> Families:
        """Those of the geounits of the level itself: at the top nobody else knows them."""
        codes = geounits.read("geocode").column("geocode").cast(pa.string()).combine_chunks()
        counted = pc.value_counts(span.families(codes))
        return cls.of(span, counted.field("values"), np.asarray(counted.field("counts"), dtype=np.int64))

    def __len__(self) -> int:
        """How many."""
        return len(self.names)


@dataclass(frozen=True, slots=True)
class FamilySpread:
    """Over how many files and partitions the families of a level are spread."""

    families: Families
    files: int  # files of what is made of the families; a function of public numbers, since the files are public
    partitions: int  # partitions of the job, at most as many; these may follow from the cores that there are

    @classmethod
    def of(cls, families: Families, partitions: int) -> FamilySpread:
        """The files that the families of a level need."""
        children = int(families.children.sum())
        files = max(1, min(len(families), max(_LEAST_FILES, -(-children // _CHILDREN_A_FILE))))
        return cls(families, files, max(1, min(files, partitions)))


class Ranks:
    """The rank of each family, by its name; made once in a task."""

    def __init__(self, families: Families) -> None:
        """Number the families."""
        self._ranks = {name: rank for rank, name in enumerate(families.names.to_pylist())}
        self._ranks |= dict.fromkeys(families.childless, _CHILDLESS)

    def of(self, names: pa.Array) -> NDArray[np.int64]:
        """The rank of each; `_CHILDLESS` of geounits without children, and `_NONE` of others that are no families."""
        encoded = names.dictionary_encode()
        known = np.array([self._ranks.get(name, _NONE) for name in encoded.dictionary.to_pylist()], dtype=np.int64)
        ranks: NDArray[np.int64] = known[np.asarray(encoded.indices, dtype=np.int64)]
        return ranks


_NONE: Final = -1
_CHILDLESS: Final = -2


@dataclass(frozen=True, slots=True)
class FamilyTable:
    """A table whose rows belong to families."""

    rows: StoredLevel
    kind: int
    columns: Mapping[str, str] = field(default_factory=dict)  # columns of the long form -> those of the table
    of_parent: bool = False  # whether its rows are about the parents of the families, by whose geocodes these are known
    whole: bool = False  # whether every child, or the parent, must have a row in it
    exempt: frozenset[str] = frozenset()  # children that need not have one all the same

    def long(self, batch: pa.RecordBatch, ranks: Ranks, span: FamilySpan, files: int, source: Place) -> pa.RecordBatch:
        """The long form of some of its rows."""
        codes = batch.column("geocode").cast(pa.string())
        names = codes if self.of_parent else span.families(codes)
        rank = ranks.of(names)
        if self.of_parent and (rank == _CHILDLESS).any():
            kept = pa.array(rank != _CHILDLESS)
            batch, codes, names, rank = batch.filter(kept), codes.filter(kept), names.filter(kept), rank[kept]
        if (rank < 0).any():
            code = codes[int(np.argmax(rank < 0))].as_py()
            raise OutputError(f"{source}: geounit {code} is none of the level, or of the one above", hint=RESTORE)
        given = {
            "file": pa.array(rank % files),
            "rank": pa.array(rank),
            "family": names,
            "kind": pa.repeat(pa.scalar(self.kind), len(codes)),
            "geocode": codes,
        }
        for name in _GIVEN:
            known = self.columns.get(name)
            missing = pa.scalar("" if name in _TEXTS else None, _COLUMNS.field(name).type)
            given[name] = pa.repeat(missing, len(codes)) if known is None else batch.column(known)
        arrays = [given[column.name].cast(column.type) for column in _COLUMNS]
        return pa.RecordBatch.from_arrays(arrays, schema=_COLUMNS)


def families_by_partition(spread: FamilySpread) -> list[int]:
    """How many families each partition must have: those of its files."""
    partition = np.arange(len(spread.families)) % spread.files % spread.partitions
    counts: list[int] = np.bincount(partition, minlength=spread.partitions).tolist()
    return counts


def brought_together(
    spark: SparkSession, tables: Sequence[FamilyTable], spread: FamilySpread, work: Work, report: str
) -> DataFrame:
    """Let tasks work on the rows of each family, one after the other: most children first, in turn over the files.

    Args:
        spark: The session.
        tables: What belongs to the families.
        spread: The families, and over how many files and partitions.
        work: Is given the long form, sorted by file, rank, kind, name, geocode and member.
        report: Schema of what it gives.
    """
    partitions = spread.partitions
    reading = _Reading.of(tables, spread.families, spread.files, partitions)
    rows = in_tasks(spark.range(0, partitions, 1, partitions), reading, from_arrow_schema(_COLUMNS))
    if partitions > 1:
        rows = rows.repartitionById(partitions, F.col("file") % partitions)
    return in_sorted_tasks(rows, _ORDER, work, report)


@dataclass(frozen=True, slots=True)
class _Reading:
    """Reads the tables of a level: each row of the frame is the number of a reader, which has some of the files."""

    tables: tuple[FamilyTable, ...]
    sources: tuple[tuple[int, Place], ...]  # number of the table, file
    families: Families
    files: int
    readers: int

    @classmethod
    def of(cls, tables: Sequence[FamilyTable], families: Families, files: int, readers: int) -> _Reading:
        sources = [(number, file) for number, table in enumerate(tables) for file in table.rows.files]
        return cls(tuple(tables), tuple(sources), families, files, readers)

    def __call__(self, numbers: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        ranks = Ranks(self.families)
        for batch in numbers:
            for reader in batch.column(0).to_pylist():
                for number, file in self.sources[reader :: self.readers]:
                    table = self.tables[number]
                    for rows in batches_of(file, ["geocode", *dict.fromkeys(table.columns.values())]):
                        yield table.long(rows, ranks, self.families.span, self.files, file)
