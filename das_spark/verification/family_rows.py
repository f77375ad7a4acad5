"""To which families the rows of each table of a run belong: those of geounits to their parents' families.

What parents need for themselves belongs to the families of their children, too. Each class here is one way, from rows
of a level as files or Spark have them to rows of `family_schema`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from das_spark.geography import BLOCK
from das_spark.verification.bounds import CLASS, FLOW, sums_above
from das_spark.verification.families import COLUMNS, NOWHERE, family_schema, geocodes_at
from das_spark.verification.measurements import together
from das_spark.verification.spine import paths_of

if TYPE_CHECKING:
    from das_spark.geography import Spine

GEOCODE: Final = "geocode"

#: A level, and rows of `family_schema` of one table.
KeyedRows = Iterator[tuple[str, pa.RecordBatch]]


class FamilyRows(ABC):
    """How the rows of one table belong to families."""

    table: str  # of `COLUMNS`: what the rows are to the rules

    @property
    @abstractmethod
    def columns(self) -> tuple[str, ...]:
        """Which columns are read."""

    def reads(self, level: str) -> bool:
        """Whether rows of a level are needed."""
        del level
        return True

    @abstractmethod
    def __call__(self, level: str, rows: pa.RecordBatch) -> KeyedRows:
        """Key some rows of a level."""


def parents_of(geocodes: pa.Array, level: str, spine: Spine | None) -> pa.Array:
    """Return the geocodes of parents, empty at the top; where there is no spine every geounit is a family by itself."""
    if spine is None:
        return geocodes
    depth = spine.index(level)
    return geocodes_at(geocodes, spine.levels[depth - 1]) if depth else _no_texts(len(geocodes))


def _no_texts(rows: int) -> pa.Array:
    return pa.repeat(pa.scalar("", pa.string()), rows)


def _geocodes(rows: pa.RecordBatch, name: str = GEOCODE) -> pa.Array:
    """Geocodes of rows; `NOWHERE` of those that have none."""
    return rows.column(name).cast(pa.string()).fill_null(NOWHERE)


def _row_batch(table: str, family: pa.Array, geocode: pa.Array, columns: Sequence[pa.Array]) -> pa.RecordBatch:
    schema = family_schema(table)
    arrays = [each.cast(kind) for each, kind in zip((family, geocode, *columns), schema.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _of_table(table: str, family: pa.Array, geocode: pa.Array, rows: pa.RecordBatch) -> pa.RecordBatch:
    return _row_batch(table, family, geocode, [rows.column(name) for name in COLUMNS[table]])


@dataclass(frozen=True, slots=True)
class ChildRows(FamilyRows):
    """Rows of geounits, in the families that they are children of.

    Attributes:
        table: What the rows are to the rules.
        spine: The levels; None where every geounit is by itself.
    """

    table: str
    spine: Spine | None

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the table."""
        return (GEOCODE, *COLUMNS[self.table])

    def __call__(self, level: str, rows: pa.RecordBatch) -> KeyedRows:
        """Key some rows of a level."""
        geocodes = _geocodes(rows)
        yield level, _of_table(self.table, parents_of(geocodes, level, self.spine), geocodes, rows)


@dataclass(frozen=True, slots=True)
class ParentRows(FamilyRows):
    """Rows of geounits, in the families of their own children; those of the lowest level are in none.

    Attributes:
        table: What the rows are to the rules: `above_...`.
        levels: From the top.
        name: The only name of the rows that are needed; None for all.
    """

    table: str
    levels: tuple[str, ...]
    name: str | None = None

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of the table, and the name."""
        return (GEOCODE, *COLUMNS[self.table], *(() if self.name is None else ("name",)))

    def reads(self, level: str) -> bool:
        """Whether anything lies below."""
        return level in self.levels[:-1]

    def __call__(self, level: str, rows: pa.RecordBatch) -> KeyedRows:
        """Key some rows of a level."""
        below = self.levels[self.levels.index(level) + 1]
        kept = rows if self.name is None else _named(rows, self.name)
        geocodes = _geocodes(kept)
        yield below, _of_table(self.table, geocodes, geocodes, kept)


def _named(rows: pa.RecordBatch, name: str) -> pa.RecordBatch:
    return rows.filter(pc.equal(rows.column("name").cast(pa.string()), name))


@dataclass(frozen=True, slots=True)
class MeasuredRows(FamilyRows):
    """Noisy answers, those of neighbours put together.

    Attributes:
        spine: The levels; None where every geounit is by itself.
    """

    spine: Spine | None
    table: str = "measured"

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of measurements."""
        return (GEOCODE, "parent", "query", "rows", "values", "variance")

    def __call__(self, level: str, rows: pa.RecordBatch) -> KeyedRows:
        """Key some rows of a level."""
        geocodes = _geocodes(rows)
        family = parents_of(geocodes, level, self.spine)
        odd = pc.not_equal(rows.column("parent"), family).fill_null(True)
        given = [rows.column(name) for name in ("query", "rows", "values")]
        names = ["family", "query", "rows", "values", GEOCODE, "odd", "variance"]
        batch = pa.RecordBatch.from_arrays([family, *given, geocodes, odd, rows.column("variance")], names)
        summed = together(batch)
        first = summed.column("geounits").value_lengths()
        begin = pa.array(np.cumsum(first.to_numpy()) - first.to_numpy())
        geocode = summed.column("geounits").flatten().take(begin)
        yield level, _of_table(self.table, summed.column("family"), geocode, summed)


@dataclass(frozen=True, slots=True)
class DiagnosedRows(FamilyRows):
    """Rows of diagnostics, which name families, and not geounits.

    Attributes:
        top: Name of the level at the top, whose families have no parent.
    """

    top: str
    table: str = "diagnostics"

    @property
    def columns(self) -> tuple[str, ...]:
        """All."""
        return tuple(COLUMNS[self.table])

    def __call__(self, level: str, rows: pa.RecordBatch) -> KeyedRows:
        """Key some rows of a level."""
        named = rows.set_column(rows.schema.get_field_index("family"), "family", _geocodes(rows, "family"))
        nobody = _no_texts(len(rows))
        yield level, _of_table(self.table, nobody if level == self.top else named.column("family"), nobody, named)


@dataclass(frozen=True, slots=True)
class SumRows(FamilyRows):
    """Sums over lists of geounits, for all that they lie in.

    Attributes:
        spine: The levels.
        level: That of the geounits.
        down_to: The lowest level of sums.
        called: Name of the sums.
        values: The column of lists; where it is empty each geounit counts as one.
        name: The only name of the rows that are needed; empty where rows have none.
        width: So many elements of each list, from the first; all where it is 0.
    """

    spine: Spine
    level: str
    down_to: str
    called: str
    values: str = ""
    name: str = ""
    width: int = 0
    table: str = "below"

    @property
    def columns(self) -> tuple[str, ...]:
        """Geocodes, and those that are named."""
        return (GEOCODE, *(["name"] if self.name else []), *([self.values] if self.values else []))

    def reads(self, level: str) -> bool:
        """Whether it is that of the geounits."""
        return level == self.level

    def __call__(self, level: str, rows: pa.RecordBatch) -> KeyedRows:
        """Key some rows of a level."""
        kept = _named(rows, self.name) if self.name else rows
        if self.values:
            values = kept.column(self.values)
            values = pc.list_slice(values, 0, self.width) if self.width else values
        else:
            one = pa.array(np.ones(len(kept), dtype=np.int64))
            values = pa.ListArray.from_arrays(pa.array(np.arange(len(kept) + 1, dtype=np.int32)), one)
        levels = self.spine.levels[: self.spine.index(self.down_to) + 1]
        for above, geocodes, sums in sums_above(kept.column(GEOCODE), values, levels):
            names = pa.repeat(pa.scalar(self.called, pa.string()), len(sums))
            yield above, _row_batch(self.table, parents_of(geocodes, above, self.spine), geocodes, [names, sums])


@dataclass(frozen=True, slots=True)
class FlowRows(FamilyRows):
    """Flows of bounds, brought to what has the total: its level, its family, and its geocode or that of its group.

    Attributes:
        spine: The levels.
        depth: Of the one with totals.
    """

    spine: Spine
    depth: int
    table: str = "flows"

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of bounds."""
        return (GEOCODE, *COLUMNS["bounds"])

    def reads(self, level: str) -> bool:
        """Whether it is above the totals."""
        return level in self.spine.names[: self.depth]

    def __call__(self, level: str, rows: pa.RecordBatch) -> KeyedRows:
        """Key some rows of a level."""
        kept, at = _named(rows, FLOW), self.spine.names[self.depth]
        members = _geocodes(kept, "member")
        of = pa.repeat(pa.scalar(level, pa.string()), len(kept))
        given = [kept.column(name) for name in ("parent", "member", "lower", "upper")]
        family = parents_of(members, at, self.spine)
        yield at, _row_batch(self.table, family, members, [of, _geocodes(kept), *given])


@dataclass(frozen=True, slots=True)
class PathRows(FamilyRows):
    """What the paths of blocks say of the geounits of a spine that is made of areas.

    Attributes:
        spine: Its levels.
    """

    spine: Spine
    table: str = "paths"

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of blocks."""
        return ("block", "path", "shares")

    def __call__(self, level: str, rows: pa.RecordBatch) -> KeyedRows:
        """Key what some blocks say, of every level."""
        of_geounits = ChildRows(self.table, self.spine)
        for at, said in paths_of(rows, self.spine):
            yield from of_geounits(at, said)


@dataclass(frozen=True, slots=True)
class LeafRows(FamilyRows):
    """Estimates of the blocks of a spine that is made of areas, by the census.

    Attributes:
        census: The levels of the census.
        level: That of the blocks on the spine.
    """

    census: Spine
    level: str
    table: str = "leaves"

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of histograms."""
        return (GEOCODE, *COLUMNS[self.table])

    def reads(self, level: str) -> bool:
        """Whether it is that of the blocks."""
        return level == self.level

    def __call__(self, level: str, rows: pa.RecordBatch) -> KeyedRows:
        """Key some rows of the lowest level."""
        leaf = self.census.leaf.name
        geocodes = pc.utf8_slice_codeunits(_geocodes(rows), -BLOCK)
        yield leaf, _of_table(self.table, parents_of(geocodes, leaf, self.census), geocodes, rows)


def family_keys(levels: Sequence[str], spine: Spine | None) -> dict[str, tuple[FamilyRows, ...]]:
    """Return what the rows of each table of a run are to families, by its name in `das_spark.store.tables`.

    Args:
        levels: From the top.
        spine: The same; None where every geounit is by itself.
    """
    names = tuple(levels)
    keys: dict[str, tuple[FamilyRows, ...]] = {
        name: (ChildRows(name, spine), ParentRows(f"above_{name}", names))
        for name in ("geounits", "estimates", "published")
    }
    keys |= {name: (ChildRows(name, spine),) for name in ("invariants", "shares")}
    return keys | {
        "bounds": (ChildRows("bounds", spine), ParentRows("above_bounds", names, CLASS)),
        "measurements": (MeasuredRows(spine), ParentRows("above_measured", names)),
        "diagnostics": (DiagnosedRows(names[0]),),
    }
