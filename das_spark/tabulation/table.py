"""What a published table is: columns under published names, mostly each a sum over cells of a histogram.

A column counts the cells that have certain levels of some attributes,

    { cell : level of a in L(a) for every attribute a that the selection names },

or the union of several such sets; or it tallies: a cell counts once for each of the sets that it is in, as a person of
several races does once for each of them. No column is a formula beyond that, so a table of an estimate is one product
with a matrix of small whole numbers (`das_spark.tabulation.sums`), and tables of children sum to the table of their
parent as histograms do. Tables of medians of what columns count are the exception (`das_spark.tabulation.medians`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from das_spark.errors import QueryError
from das_spark.geography import Geolevel, Spine
from das_spark.histogram import Schema
from das_spark.names import check_heading, check_name, check_text

#: Lowest levels of tables that are not published for every block.
TRACT: Final = Geolevel("Tract", 11)
COUNTY: Final = Geolevel("County", 5)

#: Digits of the number of a column.
_MOST_DIGITS: Final = 20

#: For some attributes the levels that count; attributes left out count with all their levels.
Selection = tuple[tuple[str, tuple[int, ...]], ...]


@dataclass(frozen=True, slots=True)
class TableColumn:
    """One published column."""

    name: str  #: its published name, such as P0010003
    label: str  #: what it counts, in the words of the publication, as one line under its heading
    depth: int  #: how far the line is indented: 0 for the total, one more than its heading for every other
    where: tuple[Selection, ...]  #: selections of cells; a cell that several of them select counts once
    tallies: bool = False  #: whether such a cell counts once for each of them instead

    def counts_any(self, schema: Schema) -> bool:
        """Whether there is a cell that the column counts.

        Raises:
            QueryError: A selection names an attribute or a level that the schema does not have.
        """
        chosen = [schema.chosen(**dict(selection)) for selection in self.where]
        return any(all(levels.any() for levels in selection.values()) for selection in chosen)

    def is_within(self, other: TableColumn, schema: Schema) -> bool:
        """Whether another column counts every cell at least as often as this one.

        Mostly levels tell: a selection lies in another one if it does so attribute by attribute. Cells are looked at
        where a selection may lie in a union of several, and where cells count several times.

        Raises:
            QueryError: As for `counts_any`.
        """
        sizes = {attribute.name: attribute.size for attribute in schema.attributes}
        if not self.tallies:
            if all(any(_lies_in(own, each, sizes) for each in other.where) for own in self.where):
                return True
            if len(other.where) == 1:
                return False
        # All cells with the same levels of the named attributes count alike.
        named = self.attributes | other.attributes
        axes = tuple(attribute for attribute in schema.attributes if attribute.name in named) or schema.attributes[:1]
        cells = Schema(schema.name, axes)
        return bool((self.times(cells) <= other.times(cells)).all())

    @property
    def attributes(self) -> set[str]:
        """Attributes that the selections name."""
        return {name for selection in self.where for name, _ in selection}

    def mask(self, schema: Schema) -> NDArray[np.bool_]:
        """Mark the cells that the column counts.

        Returns:
            (schema.size,), True where a cell counts.

        Raises:
            QueryError: A selection names an attribute or a level that the schema does not have.
        """
        return self.times(schema) > 0

    def times(self, schema: Schema) -> NDArray[np.int64]:
        """How many times each cell counts.

        Returns:
            (schema.size,): 0 or 1, and more where selections are tallied.

        Raises:
            QueryError: A selection names an attribute or a level that the schema does not have.
        """
        counted = np.zeros(schema.size, dtype=np.int64)
        for selection in self.where:
            counted += schema.select(**dict(selection))
        return counted if self.tallies else np.minimum(counted, 1)


@dataclass(frozen=True, slots=True)
class Line:
    """A column before it has a name: what a declaration writes down."""

    depth: int  #: indentation, 0 for the total
    label: str  #: what it counts
    levels: Mapping[str, tuple[int, ...]]  #: attribute -> levels that count
    #: Selections among these levels that are tallied, each once; where there are none, what has the levels counts once.
    tallied: tuple[Mapping[str, tuple[int, ...]], ...] = ()

    @property
    def where(self) -> tuple[Selection, ...]:
        """The selections of the column."""
        return tuple(tuple({**self.levels, **each}.items()) for each in self.tallied or ({},))

    def within(self, levels: Mapping[str, tuple[int, ...]], *, indent: int = 0) -> Line:
        """The same line among fewer people, under a heading that it does not know yet.

        Args:
            levels: Attribute -> levels of these people; none that the line selects by.
            indent: How much farther to the right the line moves.

        Raises:
            QueryError: The line selects by one of the attributes already.
        """
        if both := {name for each in (self.levels, *self.tallied) for name in each} & levels.keys():
            raise QueryError(f"line {self.label!r} selects by {sorted(both)[0]!r} twice")
        return Line(self.depth + indent, self.label, {**self.levels, **levels}, self.tallied)


@dataclass(frozen=True, slots=True)
class TableShell:
    """A published table but for its values: what it is about, and whom or what each of its lines counts.

    Raises:
        QueryError: The name cannot be that of a folder, a text is not one line, the name of a column is no heading or
            is used twice, a line stands deeper than its heading allows, or a column counts no cell or cells that its
            heading does not count.
    """

    name: str  #: such as P1; names folders
    title: str  #: what the table shows
    universe: str  #: who or what is counted in its total
    schema: Schema  #: whose cells are counted
    columns: tuple[TableColumn, ...]  #: in published order; headings stand before the lines under them, the total first
    lowest: Geolevel | None = None  #: lowest geolevel that it is published for; None where it is made for all of a run

    def __post_init__(self) -> None:
        """Check names, texts, indentation and nesting."""
        check_name(self.name, "table", error=QueryError)
        check_text(self.title, f"table {self.name}: title", error=QueryError)
        check_text(self.universe, f"table {self.name}: universe", error=QueryError)
        for column in self.columns:
            check_heading(column.name, f"table {self.name}: column", error=QueryError)
            check_text(column.label, f"table {self.name}: label of {column.name}", error=QueryError)
        if len(set(self.names)) != len(self.names) or not self.names:
            raise QueryError(f"table {self.name}: column names must be there, each once")
        headings: list[TableColumn] = []  # those that a line can stand under, the total first
        for place, column in enumerate(self.columns):
            if column.depth != 0 and not 0 < column.depth <= len(headings):
                raise QueryError(f"table {self.name}: {column.name} has no heading one line to the left of it")
            if (column.depth == 0) != (place == 0):
                raise QueryError(f"table {self.name}: exactly the first column is the total, not {column.name}")
            del headings[column.depth :]
            any_cell = column.counts_any(self.schema)
            if not any_cell or (headings and not column.is_within(headings[-1], self.schema)):
                raise QueryError(f"table {self.name}: {column.name} counts no cell, or more than its heading")
            headings.append(column)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    @property
    def total(self) -> TableColumn:
        """The column that counts the whole universe."""
        return self.columns[0]

    def levels(self, spine: Spine, wanted: Collection[str] | None = None) -> tuple[str, ...]:
        """Geolevels that the table is published for.

        Args:
            spine: The levels of a run, those of the census.
            wanted: Names of levels that are asked for; all of them where None.

        Returns:
            Names, root first, of levels that tables have. A spine that has no level of the name of the lowest one is
            gone down to the last level whose geocodes have no more digits. None where every level lies below.
        """
        return tuple(
            level.name
            for level in spine.levels
            if level.tabulated and self._reaches(level, spine) and (wanted is None or level.name in wanted)
        )

    def _reaches(self, level: Geolevel, spine: Spine) -> bool:
        if self.lowest is None:
            return True
        named = self.lowest.name in spine.names
        return level.length <= (spine.level(self.lowest.name) if named else self.lowest).length

    def heading(self, place: int) -> int:
        """The column under which another one stands.

        Args:
            place: Of a column other than the total, from 0.

        Returns:
            The place of its heading.
        """
        depth = self.columns[place].depth
        return next(above for above in range(place - 1, -1, -1) if self.columns[above].depth < depth)

    def parts(self, place: int) -> tuple[int, ...]:
        """The columns directly under a heading; what it counts falls into these.

        Args:
            place: Of the heading, from 0.

        Returns:
            Their places; none for a column that is no heading.
        """
        return tuple(below for below in range(place + 1, len(self.columns)) if self.heading(below) == place)

    def path(self, place: int) -> str:
        """What a column counts, with the headings above it.

        Args:
            place: Of the column, from 0.

        Returns:
            Such as "Total: Population of one race: White alone".
        """
        label = self.columns[place].label
        return label if place == 0 else f"{self.path(self.heading(place))}: {label}"


@dataclass(frozen=True, slots=True)
class Table(TableShell):
    """A published table of sums over cells; raises as `TableShell`."""

    @classmethod
    def of(
        cls,
        *,
        name: str,
        title: str,
        universe: str,
        schema: Schema,
        prefix: str,
        lines: Iterable[Line],
        digits: int = 4,
        lowest: Geolevel | None = None,
    ) -> Table:
        """A table whose columns are numbered from 1, as in the redistricting data.

        Args:
            name: Such as P1.
            title: What it shows.
            universe: Who is counted.
            schema: Whose cells are summed.
            prefix: What stands before the number in a column's name, such as P001.
            lines: The columns, in order.
            digits: Of the number.
            lowest: Lowest geolevel that it is published for; None for every level.

        Raises:
            QueryError: As for the table; or a line selects by what the schema does not have.
        """
        if not 0 < digits <= _MOST_DIGITS:
            raise QueryError(f"table {name}: the number of a column has 1 to {_MOST_DIGITS} digits, not {digits}")
        columns = tuple(
            TableColumn(f"{prefix}{number:0{digits}d}", line.label, line.depth, line.where, bool(line.tallied))
            for number, line in enumerate(lines, start=1)
        )
        return cls(name, title, universe, schema, columns, lowest)


def _lies_in(inner: Selection, outer: Selection, sizes: Mapping[str, int]) -> bool:
    """Whether another selection leaves every level of each attribute that the first one leaves, if it leaves a cell."""
    own = dict(inner)
    if not all(own.values()):
        return True
    wider = ((name, _as_set(levels)) for name, levels in outer)
    return all(levels.issuperset(own[name]) if name in own else len(levels) == sizes[name] for name, levels in wider)


@lru_cache(maxsize=64)  # a heading is compared with every line under it
def _as_set(levels: tuple[int, ...]) -> frozenset[int]:
    return frozenset(levels)


def every_column(tables: Sequence[TableShell]) -> tuple[TableColumn, ...]:
    """The columns of several tables of one schema, one behind the other."""
    columns = tuple(column for table in tables for column in table.columns)
    if not tables or any(table.schema != tables[0].schema for table in tables):
        raise QueryError("tables that are made together count cells of one schema")
    if len({column.name for column in columns}) != len(columns):
        raise QueryError("tables that are made together have different column names")
    return columns
